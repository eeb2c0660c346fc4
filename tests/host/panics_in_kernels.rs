//! Kernels that panic (L12).

use super::*;

/// L12: caught in the warm-up, refused at `begin`.
#[test]
fn a_kernel_that_panics_in_the_warm_up_refuses_the_window() {
    let (stream, x, y) = two_buffers();
    let stream = stream.prepare().unwrap();
    panics(|| stream.launch("falls", (read(&x), write(&y)), |_| panic!("in a kernel")));
    let refused = stream.begin().unwrap_err();
    let told = told(refused.error());
    assert!(
        told.contains("launch `falls`") && told.contains("a panic left"),
        "{told}"
    );
    assert_usable(refused.into_stream());
}

#[test]
fn a_kernel_that_panics_poisons_nothing() {
    let (stream, x, y) = two_buffers();
    panics(|| {
        stream.launch("falls", (read(&x), write(&y)), |(_, y)| {
            y[0] = 9.0;
            panic!("half way");
        })
    });
    assert_eq!(stream.read(&x).unwrap(), [1.0, 2.0]);
    Host::add(&stream, &x, &y, 1.0).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
    assert_usable(stream);
}

#[test]
fn a_kernel_that_panics_in_a_replay_leaves_stream_and_graph_usable() {
    let (stream, x, y) = two_buffers();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            c.launch("picky", (read(&x), write(&y)), |(x, y)| {
                assert!(x[0] > 0.0, "not positive");
                y.copy_from_slice(x);
            })
        })
        .unwrap();
    stream.write(&x, &[-1.0, 0.0]).unwrap();
    panics(|| graph.replay(&stream));
    stream.write(&x, &[5.0, 6.0]).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [5.0, 6.0]);
    assert_usable(stream);
}

/// L14: in a warm-up, it is the warm-up that failed.
#[test]
fn a_kernel_that_panics_in_a_replay_fails_the_warm_up() {
    let (stream, x, y) = two_buffers();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            c.launch("picky", read(&x), |x: &[f32]| {
                assert!(x[0] > 0.0, "not positive")
            })
        })
        .unwrap();
    stream.write(&x, &[-1.0, 0.0]).unwrap();
    let stream = stream.prepare().unwrap();
    Host::add(&stream, &x, &y, 1.0).unwrap();
    panics(|| graph.replay(&stream));
    let refused = stream.begin().unwrap_err();
    assert!(told(refused.error()).contains("replay"), "{refused:?}");
}

/// L5, L12: while one panic unwinds, another in a value that the recording captured is let go.
#[test]
fn a_captured_value_that_panics_while_a_panic_unwinds_aborts_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a second one");
        }
    }
    let Bench {
        device, stream, x, ..
    } = bench::<Host>();
    let stream = stream.prepare().unwrap();
    stream.fill(&x, 0.0).unwrap();
    let stream = stream.begin().unwrap();
    stream.keep(Bomb);
    panics(|| {
        let _stream = stream;
        panic!("the first one");
    });
    assert_idle(device.status());
}
