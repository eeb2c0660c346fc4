//! Rule M11: memory that a command should have written and did not.

use graph_capture::{Buffer, Error, Stream};

use super::{Bench, Lab, assert_usable, bench, told};

#[track_caller]
fn assert_marked<R: std::fmt::Debug>(result: Result<R, Error>, part: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Marked { .. }), "{error:?}");
    let told = told(&error);
    assert!(told.contains(part), "{part:?} is missing: {told}");
    assert!(told.contains("marks.rs"), "{told}");
}

/// Reading gives the first cause; `check` asks without reading.
pub fn reading_what_a_refused_command_should_have_written_gives_its_cause<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    stream.check(&x).unwrap();
    let _ = stream.write(&x, &[1.0; 3]);
    assert_marked(
        stream.read(&x),
        "holds 2 elements, but the other side has 3",
    );
    assert_marked(stream.read_into(&x, &mut [0.0; 2]), "write");
    assert_marked(stream.check(&x), "write");
    assert_usable(stream);
}

/// Every stream of the device sees it, by every handle.
pub fn a_mark_is_on_the_memory<B: Lab>() {
    let Bench {
        device, stream, x, ..
    } = bench::<B>();
    let (other, again) = (Stream::on(&device).unwrap(), x.clone());
    let part = x.slice(1..).unwrap();
    let _ = stream.write(&x, &[]);
    assert_marked(other.read(&again), "write");
    assert_marked(other.read(&part), "write");
}

/// What is computed from it is refused, and marked with the first cause.
pub fn a_command_over_marked_memory_is_refused_and_passes_the_cause_on<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let z = stream.alloc::<f32>(2).unwrap();
    let _ = stream.write(&x, &[1.0; 3]);
    assert_marked(B::add(&stream, &x, &y, 1.0), "write");
    assert_marked(stream.copy(&y, &z), "write");
    assert_marked(
        stream.read(&z),
        "holds 2 elements, but the other side has 3",
    );
}

/// A successful write clears it.
pub fn a_write_of_all_of_it_clears_the_mark<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let spoil = || {
        let _ = stream.write(&x, &[]);
        assert!(stream.check(&x).is_err());
    };
    spoil();
    stream.write(&x, &[1.0, 2.0]).unwrap();
    assert_eq!(stream.read(&x).unwrap(), [1.0, 2.0]);
    spoil();
    stream.fill(&x, 3.0).unwrap();
    assert_eq!(stream.read(&x).unwrap(), [3.0, 3.0]);
    spoil();
    stream.copy(&y, &x).unwrap();
    assert_eq!(stream.read(&x).unwrap(), [0.0, 0.0]);
    spoil();
    B::add(&stream, &y, &x, 4.0).unwrap();
    assert_eq!(stream.read(&x).unwrap(), [4.0, 4.0]);
}

/// A write of a part leaves the rest as doubtful as it was.
pub fn a_write_of_a_part_does_not_clear_the_mark<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let _ = stream.write(&x, &[]);
    let half = x.slice(..1).unwrap();
    stream.write(&half, &[1.0]).unwrap();
    assert_marked(stream.read(&half), "write");
    // Reading and writing needs what was there.
    assert_marked(
        B::accumulate(&stream, &stream.alloc(2).unwrap(), &x),
        "write",
    );
}

/// In a window a marked input dooms.
pub fn a_marked_input_dooms_a_recording<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let stream = stream.prepare().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    let _ = Stream::on(&device).unwrap().write(&x, &[]);
    assert_marked(B::add(&stream, &x, &y, 1.0), "write");
    let refused = stream.end().unwrap_err();
    assert!(
        matches!(refused.error(), Error::Doomed { index: 0, .. }),
        "{refused:?}"
    );
}

/// A command that fails in a window marks nothing: nothing should have run (L10).
pub fn a_failure_in_a_window_marks_nothing<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let stream = stream.prepare().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    let _ = stream.write(&x, &[]);
    let stream = stream.end().unwrap_err().into_stream();
    assert_eq!(stream.read(&x).unwrap(), [1.0, 2.0]);
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
}

/// A replay over marked input is refused and marks what it should have written.
pub fn a_replay_over_marked_input_is_refused_and_marks_its_outputs<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (stream, mut graph, out) = stream
        .capture(|c| {
            B::add(c, &x, &y, 1.0)?;
            c.download(&y)
        })
        .unwrap();
    let _ = stream.write(&x, &[]);
    assert_marked(graph.replay(&stream), "write");
    assert_marked(stream.read(&y), "write");
    assert_marked(graph.read(&out, &stream), "write");
    stream.write(&x, &[5.0, 6.0]).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [6.0, 7.0]);
    assert_eq!(graph.read(&out, &stream).unwrap(), [6.0, 7.0]);
}

/// A replay that writes marked memory before it reads it makes it good.
pub fn a_replay_clears_the_marks_of_what_it_writes<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            c.write(&x, &[3.0, 4.0])?;
            B::add(c, &x, &y, 1.0)
        })
        .unwrap();
    let _ = stream.write(&x, &[]);
    let _ = stream.write(&y, &[]);
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&x).unwrap(), [3.0, 4.0]);
    assert_eq!(stream.read(&y).unwrap(), [4.0, 5.0]);
}

/// But one that writes a part of it leaves the rest as doubtful as it was.
pub fn a_replay_that_writes_a_part_does_not_clear_the_mark<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let half = x.slice(..1).unwrap();
    let (stream, mut graph, ()) = stream.capture(|c| c.fill(&half, 1.0)).unwrap();
    let _ = stream.write(&x, &[]);
    graph.replay(&stream).unwrap();
    assert_marked(stream.read(&x), "write");
}

/// M10, M11: a refused command marks no memory of another device.
pub fn memory_of_another_device_is_not_marked<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let home = Stream::on(&B::device()).unwrap();
    let foreign: Buffer<f32, B> = home.upload(&[1.0, 2.0]).unwrap();
    assert!(stream.copy(&x, &foreign).is_err());
    assert_eq!(home.read(&foreign).unwrap(), [1.0, 2.0]);
}
