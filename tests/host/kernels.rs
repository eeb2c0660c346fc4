//! What a kernel takes and sees.

use super::*;

#[test]
fn a_kernel_takes_one_access_without_a_tuple() {
    let (stream, x, _) = two_buffers();
    stream.launch("seven", write(&x), |x| x.fill(7.0)).unwrap();
    assert_eq!(stream.read(&x).unwrap(), [7.0, 7.0]);
    stream
        .launch("look", read(&x), |x: &[f32]| assert_eq!(x, [7.0, 7.0]))
        .unwrap();
}

#[test]
fn a_kernel_takes_eight_accesses_of_different_elements() {
    let (stream, x, y) = two_buffers();
    let bytes = stream.upload(&[1u8, 2, 3]).unwrap();
    let ints = stream.upload(&[-1i64]).unwrap();
    let out = stream.alloc::<f64>(1).unwrap();
    stream
        .launch(
            "eight",
            (
                read(&x),
                read(&x),
                read(&y),
                read(&bytes),
                read(&bytes),
                read(&ints),
                read(&ints),
                write(&out),
            ),
            |(x, _, y, bytes, _, ints, _, out)| {
                out[0] = f64::from(x[1] + y[0]) + f64::from(bytes[2]) + ints[0] as f64;
            },
        )
        .unwrap();
    assert_eq!(stream.read(&out).unwrap(), [4.0]);
}

#[test]
fn a_name_may_be_made_at_run_time() {
    let (stream, x, _) = two_buffers();
    let layer = 3;
    let (_stream, graph, ()) = stream
        .capture(|c| c.launch(format!("layer {layer}"), write(&x), |x| x.fill(0.0)))
        .unwrap();
    assert_eq!(graph.len(), 1);
}

/// L9: two closures of one name are two kernels.
#[test]
fn another_kernel_of_the_same_name_diverges() {
    let (stream, x, _) = two_buffers();
    let mut run = 0;
    let refused = stream
        .capture(|c| {
            run += 1;
            if run == 1 {
                c.launch("set", write(&x), |x| x.fill(1.0))
            } else {
                c.launch("set", write(&x), |x| x.fill(2.0))
            }
        })
        .unwrap_err();
    let told = told(refused.error());
    assert!(told.contains("another kernel of that name"), "{told}");
}

#[test]
fn elements_of_any_alignment_up_to_sixteen_are_seen_whole() {
    let (stream, ..) = two_buffers();
    let wide = stream.upload(&[1u128, u128::MAX]).unwrap();
    let odd = stream.upload(&[[1u8, 2, 3], [4, 5, 6]]).unwrap();
    stream
        .launch(
            "swap",
            (read_write(&wide), read_write(&odd)),
            |(wide, odd)| {
                wide.swap(0, 1);
                odd.swap(0, 1);
            },
        )
        .unwrap();
    assert_eq!(stream.read(&wide).unwrap(), [u128::MAX, 1]);
    assert_eq!(stream.read(&odd).unwrap(), [[4, 5, 6], [1, 2, 3]]);
}

#[test]
fn memory_that_the_host_does_not_have_is_refused_by_name() {
    let (stream, ..) = two_buffers();
    let error = stream.alloc::<u8>(isize::MAX as usize / 2).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    assert_usable(stream);
}
