//! Rules M1, M5, M6, M10, M13, M14, and bad arguments by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::{Pod, Zeroable};
use graph_capture::{Buffer, Error, Stream};

use super::{Bench, Lab, assert_usable, bench};

/// M1: handles, scratch and the stream are gone, and replay is right.
pub fn a_graph_owns_all_it_touches<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let out = y.clone();
    let (stream, mut graph, ()) = stream
        .capture(move |c| {
            let scratch = c.alloc(2)?;
            B::add(c, &x, &scratch, 1.0)?;
            B::add(c, &scratch, &y, 1.0)
        })
        .unwrap();
    drop(stream);
    let stream = Stream::on(&device).unwrap();
    let noise: Vec<Buffer<f32, B>> = (0..8)
        .map(|_| stream.upload(&[7.0, 7.0]).unwrap())
        .collect();
    stream.fill(&out, 0.0).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&out).unwrap(), [3.0, 4.0]);
    assert!(noise.iter().all(|b| stream.read(b).unwrap() == [7.0, 7.0]));
}

/// M6: the slice is gone when the call returns.
pub fn a_recorded_write_keeps_its_own_bytes<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            let mut data = vec![3.0, 4.0];
            c.write(&x, &data)?;
            data.fill(f32::NAN);
            Ok(())
        })
        .unwrap();
    for _ in 0..2 {
        stream.fill(&x, 0.0).unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(stream.read(&x).unwrap(), [3.0, 4.0]);
    }
}

#[track_caller]
fn assert_foreign<R: std::fmt::Debug>(result: Result<R, Error>, what: &str) {
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::OtherDevice { .. }), "{error:?}");
    assert!(error.to_string().contains(what), "{error}");
    assert!(error.to_string().contains("memory.rs"), "{error}");
}

/// M10: every entry point that takes a buffer.
pub fn a_buffer_of_another_device_is_refused_by_name<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let foreign = Stream::on(&B::device())
        .unwrap()
        .upload(&[1.0, 2.0])
        .unwrap();
    assert_foreign(stream.write(&foreign, &[0.0, 0.0]), "write");
    assert_foreign(stream.copy(&foreign, &y), "copy");
    assert_foreign(stream.copy(&x, &foreign), "copy");
    assert_foreign(stream.fill(&foreign, 0.0), "fill");
    assert_foreign(stream.read(&foreign), "read");
    assert_foreign(B::add(&stream, &foreign, &y, 1.0), "launch");
    assert_foreign(B::add(&stream, &x, &foreign, 1.0), "launch");
}

/// M10: and the graph.
pub fn a_graph_of_another_device_is_refused_by_name<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (stream, mut graph, ()) = stream.capture(|c| B::add(c, &x, &y, 1.0)).unwrap();
    let foreign = Stream::on(&B::device()).unwrap();
    assert_foreign(graph.replay(&foreign), "replay");
    graph.replay(&stream).unwrap();
}

/// M13: outside windows.
pub fn alloc_returns_zeroes<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    for len in [1, 3, 1000] {
        drop(stream.upload(&vec![u64::MAX; len]).unwrap());
        let fresh = stream.alloc::<u64>(len).unwrap();
        assert_eq!(fresh.len(), len);
        assert_eq!(stream.read(&fresh).unwrap(), vec![0; len]);
    }
}

/// M13: no replay sees what the one before left in its scratch.
pub fn scratch_of_a_graph_is_zero_at_every_replay<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            let scratch = c.alloc(2)?;
            B::accumulate(c, &x, &scratch)?;
            B::add(c, &scratch, &y, 0.0)
        })
        .unwrap();
    for _ in 0..3 {
        graph.replay(&stream).unwrap();
        assert_eq!(stream.read(&y).unwrap(), [1.0, 2.0]);
    }
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// M1, `keep`: the value of the recording goes with the graph.
pub fn a_kept_value_lives_as_long_as_the_graph<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let drops = Arc::new(AtomicUsize::new(0));
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            c.keep(Counted(Arc::clone(&drops)));
            c.fill(&x, 1.0)
        })
        .unwrap();
    graph.replay(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(
        drops.load(Ordering::Relaxed),
        1,
        "the warm-up's went, the graph's stays"
    );
    drop(graph);
    assert_eq!(drops.load(Ordering::Relaxed), 2);
}

/// `keep`: a recording that does not seal keeps nothing.
pub fn a_kept_value_of_a_recording_that_fails_is_dropped<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let drops = Arc::new(AtomicUsize::new(0));
    let record = |stream: Stream<graph_capture::NoCapture, B>| {
        let stream = stream.prepare().unwrap();
        stream.fill(&x, 1.0).unwrap();
        let stream = stream.begin().unwrap();
        stream.keep(Counted(Arc::clone(&drops)));
        stream
    };
    let stream = record(stream).end().unwrap_err().into_stream();
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    let stream = record(stream).abort();
    assert_eq!(drops.load(Ordering::Relaxed), 2);
    drop(record(stream));
    assert_eq!(drops.load(Ordering::Relaxed), 3);
}

/// `keep`: for work outside a window.
pub fn a_kept_value_outside_a_window_goes_when_the_stream_was_waited_for<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let drops = Arc::new(AtomicUsize::new(0));
    let keep = || stream.keep(Counted(Arc::clone(&drops)));
    keep();
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    stream.synchronize().unwrap();
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    keep();
    stream.read(&x).unwrap();
    assert_eq!(drops.load(Ordering::Relaxed), 2);
    keep();
    drop(stream);
    assert_eq!(drops.load(Ordering::Relaxed), 3);
}

/// Uses the device while it is dropped.
struct Caller<B: Lab> {
    stream: Stream<graph_capture::NoCapture, B>,
    buffer: Buffer<f32, B>,
}

impl<B: Lab> Drop for Caller<B> {
    fn drop(&mut self) {
        let seen = self.stream.read(&self.buffer).unwrap();
        self.stream.write(&self.buffer, &[seen[0] + 1.0]).unwrap();
    }
}

/// M14: a value's `Drop` may issue commands, wherever the crate drops it.
pub fn a_kept_value_may_use_the_device_when_it_is_dropped<B: Lab>()
where
    B::Driver: Send,
{
    let Bench {
        device, stream, x, ..
    } = bench::<B>();
    let count = stream.upload(&[0.0f32]).unwrap();
    let caller = || Caller {
        stream: Stream::on(&device).unwrap(),
        buffer: count.clone(),
    };
    let work = |c: &graph_capture::Commands<B>| {
        c.keep(caller());
        c.fill(&x, 1.0)
    };
    // The warm-up's value at the wait, the recording's with the graph.
    let (stream, graph, ()) = stream.capture(work).unwrap();
    stream.synchronize().unwrap();
    drop(graph);
    assert_eq!(stream.read(&count).unwrap(), [2.0]);
    // Given up in the window.
    let stream = stream.prepare().unwrap();
    stream.fill(&x, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    stream.keep(caller());
    let stream = stream.abort();
    assert_eq!(stream.read(&count).unwrap(), [3.0]);
    // Refused at the end, since it is empty.
    let stream = stream.prepare().unwrap();
    stream.fill(&x, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    stream.keep(caller());
    let stream = stream.end().unwrap_err().into_stream();
    assert_eq!(stream.read(&count).unwrap(), [4.0]);
    // With the stream.
    stream.keep(caller());
    drop(stream);
    let stream = Stream::on(&device).unwrap();
    assert_eq!(stream.read(&count).unwrap(), [5.0]);
}

/// Write and copy take as many elements as the buffer holds.
pub fn lengths_must_match<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let longer = stream.alloc::<f32>(3).unwrap();
    let assert_refused = |result: Result<(), Error>, sides: (usize, usize)| match result {
        Err(Error::LengthMismatch {
            expected, actual, ..
        }) => assert_eq!((expected, actual), sides),
        other => panic!("{other:?}"),
    };
    assert_refused(stream.write(&x, &[1.0]), (2, 1));
    assert_refused(stream.write(&x, &[1.0; 3]), (2, 3));
    assert_refused(stream.write(&x, &[]), (2, 0));
    assert_refused(stream.read_into(&x, &mut [0.0]), (2, 1));
    assert_refused(stream.copy(&x, &longer), (3, 2));
    assert_refused(stream.copy(&longer, &x), (2, 3));
}

/// Aliases within one command: by memory, whichever handle.
pub fn one_buffer_twice_with_a_write_is_refused_by_name<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let again = x.clone();
    let commands: [&dyn Fn() -> Result<(), Error>; 3] = [
        &|| stream.copy(&x, &again),
        &|| B::add(&stream, &x, &again, 1.0),
        &|| B::accumulate(&stream, &again, &x),
    ];
    for command in commands {
        let error = command().unwrap_err();
        assert!(
            matches!(
                error,
                Error::Aliased {
                    first: 0,
                    second: 1,
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(error.to_string().contains("memory.rs"), "{error}");
        stream.write(&x, &[1.0, 2.0]).unwrap();
    }
}

/// An empty buffer is no buffer.
pub fn a_buffer_of_no_elements_is_refused_by_name<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    assert!(matches!(
        stream.alloc::<f32>(0),
        Err(Error::ZeroLength { call: "alloc", .. })
    ));
    assert!(matches!(
        stream.upload::<u8>(&[]),
        Err(Error::ZeroLength { call: "upload", .. })
    ));
    assert_usable(stream);
}

/// Where a command was issued, whichever refuses it.
pub fn refusals_name_their_place_in_the_source<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let refused: [Error; 6] = [
        stream.alloc::<f32>(0).unwrap_err(),
        stream.upload::<f32>(&[]).unwrap_err(),
        stream.alloc::<f64>(usize::MAX).unwrap_err(),
        stream.copy(&x, &x).unwrap_err(),
        B::add(&stream, &y, &y, 1.0).unwrap_err(),
        stream.write(&y, &[]).unwrap_err(),
    ];
    for error in refused {
        assert!(error.to_string().contains("memory.rs"), "{error}");
    }
}

/// Alignment above that of every buffer, and no size at all.
pub fn an_element_that_is_too_aligned_is_refused_by_name<B: Lab>() {
    #[derive(Clone, Copy, Zeroable, Pod)]
    #[repr(C, align(32))]
    struct Wide([u8; 32]);
    #[derive(Clone, Copy, Zeroable, Pod)]
    #[repr(C)]
    struct Nothing;

    let Bench { stream, .. } = bench::<B>();
    assert!(matches!(
        stream.alloc::<Wide>(1),
        Err(Error::BadElement { align: 32, .. })
    ));
    assert!(matches!(
        stream.alloc::<Nothing>(1),
        Err(Error::BadElement { size: 0, .. })
    ));
    assert!(matches!(
        stream.upload(&[Nothing]),
        Err(Error::BadElement { size: 0, .. })
    ));
    // The widest that fits.
    let widest = stream.upload(&[1u128, 2]).unwrap();
    assert_eq!(stream.read(&widest).unwrap(), [1, 2]);
}

/// `len * size_of::<T>()` does not wrap.
pub fn a_length_that_overflows_is_refused_by_name<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    for len in [usize::MAX, usize::MAX / 8 + 1, isize::MAX as usize / 8 + 1] {
        let error = stream.alloc::<u64>(len).unwrap_err();
        assert!(
            matches!(error, Error::TooLarge { size: 8, .. }),
            "{error:?}"
        );
    }
    assert_usable(stream);
}

/// Values of one byte, of several, and of a size that is no power of two.
pub fn fill_repeats_every_byte_of_its_value<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let bytes = stream.alloc::<u8>(5).unwrap();
    stream.fill(&bytes, 7).unwrap();
    assert_eq!(stream.read(&bytes).unwrap(), [7; 5]);
    let words = stream.alloc::<u32>(3).unwrap();
    stream.fill(&words, 0x0102_0304).unwrap();
    assert_eq!(stream.read(&words).unwrap(), [0x0102_0304; 3]);
    let triples = stream.alloc::<[u8; 3]>(3).unwrap();
    let (stream, mut graph, ()) = stream.capture(|c| c.fill(&triples, [1, 2, 3])).unwrap();
    stream.fill(&triples, [0; 3]).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&triples).unwrap(), [[1, 2, 3]; 3]);
}

/// M7: buffers and bytes, each block once, and the recorded writes.
pub fn a_graph_tells_what_it_holds<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (_stream, graph, ()) = stream
        .capture(|c| {
            let _unused = c.alloc::<f32>(6)?;
            c.write(&x, &[1.0, 2.0])?;
            B::add(c, &x, &y, 1.0)?;
            B::accumulate(c, &x, &y)
        })
        .unwrap();
    let memory = graph.memory();
    assert_eq!(
        (memory.buffers, memory.device_bytes, memory.host_bytes),
        (3, 8 + 8 + 24, 8)
    );
    assert_eq!(graph.len(), 4);
}

/// M6, M13: `upload` in a window is an allocation that every replay writes.
pub fn an_upload_in_a_window_is_written_at_every_replay<B: Lab>() {
    let Bench { stream, y, .. } = bench::<B>();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            let constant = c.upload(&[5.0, 6.0])?;
            B::add(c, &constant, &y, 1.0)?;
            c.fill(&constant, 0.0)
        })
        .unwrap();
    for _ in 0..2 {
        stream.fill(&y, 0.0).unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(stream.read(&y).unwrap(), [6.0, 7.0]);
    }
    assert_eq!(graph.memory().host_bytes, 8);
}

/// M1, M5: a handle may be dropped inside a window, of this stream or of another.
pub fn buffers_dropped_in_a_window_do_not_break_it<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let bystander = stream.alloc::<f32>(2).unwrap();
    let stream = stream.prepare().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    drop(bystander);
    B::add(&stream, &x, &y, 1.0).unwrap();
    drop(x);
    let (stream, mut graph) = stream.end().unwrap();
    stream.fill(&y, 0.0).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
}
