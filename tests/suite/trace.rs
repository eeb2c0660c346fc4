//! Rules L8, L9, L11, L14: the first failure, and the recorded run that must be the warm-up run.

use graph_capture::{Commands, Error, NoCapture, Stream, TransitionError};

use super::{Bench, Lab, assert_usable, bench, told};

/// Captures with one closure for the warm-up and another for the recording.
fn capture<B: Lab>(
    stream: Stream<NoCapture, B>,
    warm_up: impl FnOnce(&Commands<B>),
    recording: impl FnOnce(&Commands<B>),
) -> Result<(), TransitionError<Stream<NoCapture, B>>> {
    let stream = stream.prepare()?;
    warm_up(&stream);
    let stream = stream.begin()?;
    recording(&stream);
    stream.end().map(drop)
}

/// The two runs differ at `index`; the error shows both sides.
#[track_caller]
fn assert_diverges<B: Lab>(
    at: usize,
    sides: [&str; 2],
    stream: Stream<NoCapture, B>,
    warm_up: impl FnOnce(&Commands<B>),
    recording: impl FnOnce(&Commands<B>),
) {
    let (error, stream) = capture(stream, warm_up, recording)
        .unwrap_err()
        .into_parts();
    let Error::Diverged {
        index,
        warm_up,
        recorded,
        ..
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(*index, at, "{error}");
    assert!(warm_up.contains(sides[0]), "{error}");
    assert!(recorded.contains(sides[1]), "{error}");
    assert_usable(stream);
}

/// L8: index, name and place of the failure, although nobody looked at the command's error.
pub fn the_first_failure_dooms_also_when_its_error_was_swallowed<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let refused = capture(
        stream,
        |c| B::add(c, &x, &y, 1.0).unwrap(),
        |c| {
            B::add(c, &x, &y, 1.0).unwrap();
            let _ = c.copy(&x, &x);
        },
    )
    .unwrap_err();
    let told = told(refused.error());
    for part in ["command 1", "copy", "trace.rs", "same memory"] {
        assert!(told.contains(part), "{part:?} is missing: {told}");
    }
    assert_usable(refused.into_stream());
}

/// L8: the first failure is the one that is told.
pub fn later_failures_do_not_replace_the_first<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let refused = capture(
        stream,
        |c| B::add(c, &x, &y, 1.0).unwrap(),
        |c| {
            let _ = c.write(&x, &[0.0]);
            let _ = c.copy(&x, &x);
        },
    )
    .unwrap_err();
    let Error::Doomed {
        index: 0, first, ..
    } = refused.error()
    else {
        panic!("{refused:?}");
    };
    assert!(matches!(**first, Error::LengthMismatch { .. }), "{first:?}");
}

/// L8: commands after the failure answer with it, and are not recorded.
pub fn a_doomed_recording_takes_no_more_commands<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let refused = capture(
        stream,
        |c| B::add(c, &x, &y, 1.0).unwrap(),
        |c| {
            let _ = c.write(&x, &[0.0]);
            let late = B::add(c, &x, &y, 1.0).unwrap_err();
            assert!(matches!(late, Error::Doomed { index: 0, .. }), "{late:?}");
            assert!(matches!(c.alloc::<f32>(1), Err(Error::Doomed { .. })));
        },
    );
    assert!(refused.is_err());
}

/// L14: `begin` names the command that failed in the warm-up; also a swallowed one.
pub fn a_warm_up_in_which_a_command_failed_is_refused_by_name<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let stream = stream.prepare().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let _ = stream.write(&y, &[0.0]);
    B::add(&stream, &x, &y, 1.0).unwrap();
    let refused = stream.begin().unwrap_err();
    assert!(
        matches!(refused.error(), Error::WarmUpFailed { index: 1, .. }),
        "{refused:?}"
    );
    let told = told(refused.error());
    for part in [
        "command 1",
        "write",
        "trace.rs",
        "holds 2 elements, but the other side has 1",
    ] {
        assert!(told.contains(part), "{part:?} is missing: {told}");
    }
    assert_usable(refused.into_stream());
}

/// L14: no command ran between `prepare` and `begin`.
pub fn a_window_without_a_warm_up_is_refused_by_name<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let refused = stream.prepare().unwrap().begin().unwrap_err();
    assert!(
        matches!(refused.error(), Error::NoWarmUp { .. }),
        "{refused:?}"
    );
    assert_usable(refused.into_stream());
}

/// L11: nothing was recorded.
pub fn an_empty_recording_is_an_error_with_a_name<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let refused = capture(stream, |c| B::add(c, &x, &y, 1.0).unwrap(), |_| {}).unwrap_err();
    assert!(
        matches!(refused.error(), Error::EmptyRecording { .. }),
        "{refused:?}"
    );
    assert_usable(refused.into_stream());
}

/// L11: memory, and values that are kept, are nothing to run.
pub fn a_recording_of_allocations_alone_is_empty<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let refused = stream
        .capture(|c| {
            c.keep(String::from("kept"));
            c.alloc::<f32>(4)
        })
        .unwrap_err();
    assert!(
        matches!(refused.error(), Error::EmptyRecording { .. }),
        "{refused:?}"
    );
}

/// L9: the kind and the name of a command.
pub fn another_command_diverges<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    assert_diverges(
        1,
        ["launch `add`", "launch `accumulate`"],
        stream,
        |c| {
            c.fill(&x, 1.0).unwrap();
            B::add(c, &x, &y, 1.0).unwrap();
        },
        |c| {
            c.fill(&x, 1.0).unwrap();
            let at_once = B::accumulate(c, &x, &y).unwrap_err();
            assert!(matches!(at_once, Error::Diverged { .. }), "{at_once:?}");
        },
    );
}

/// L9: scalar values.
pub fn another_scalar_diverges<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    assert_diverges(
        0,
        ["fill of 0x01000000", "fill of 0x02000000"],
        stream,
        |c| c.fill(&x, f32::from_bits(u32::from_le(1))).unwrap(),
        |c| drop(c.fill(&x, f32::from_bits(u32::from_le(2)))),
    );
}

/// L9: sizes.
pub fn another_size_diverges<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let longer = stream.alloc::<f32>(3).unwrap();
    assert_diverges(
        0,
        ["write buffer 0 at 0..8", "write buffer 0 at 0..12"],
        stream,
        |c| c.fill(&x, 1.0).unwrap(),
        |c| drop(c.fill(&longer, 1.0)),
    );
}

/// L9: buffers are numbered by first use, so the same size in another place is seen.
pub fn another_buffer_in_the_pattern_diverges<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    assert_diverges(
        1,
        ["write buffer 0", "write buffer 1"],
        stream,
        |c| {
            c.copy(&x, &y).unwrap();
            c.fill(&x, 1.0).unwrap();
        },
        |c| {
            c.copy(&x, &y).unwrap();
            drop(c.fill(&y, 1.0));
        },
    );
}

/// L9: allocations.
pub fn another_allocation_diverges<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    assert_diverges(
        0,
        [
            "alloc (write buffer 0 at 0..16)",
            "alloc (write buffer 0 at 0..32)",
        ],
        stream,
        |c| {
            c.alloc::<f32>(4).unwrap();
            c.fill(&x, 1.0).unwrap();
        },
        |c| {
            assert!(c.alloc::<f32>(8).is_err());
        },
    );
}

/// L9: allocations of one size are told apart.
pub fn another_of_two_allocations_diverges<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let work = |c: &Commands<B>, second: bool| {
        let two = [c.alloc::<f32>(4).unwrap(), c.alloc::<f32>(4).unwrap()];
        c.fill(&two[usize::from(second)], 1.0)
    };
    assert_diverges(
        2,
        ["write buffer 0", "write buffer 1"],
        stream,
        |c| work(c, false).unwrap(),
        |c| drop(work(c, true)),
    );
}

/// L9: reading and writing is not writing.
pub fn another_kind_of_access_diverges<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    assert_diverges(
        0,
        ["write buffer 1", "read_write buffer 1"],
        stream,
        |c| B::touch(c, &x, &y, false).unwrap(),
        |c| drop(B::touch(c, &x, &y, true)),
    );
}

/// L9: length.
pub fn a_longer_recording_diverges<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    assert_diverges(
        1,
        ["nothing", "launch `add`"],
        stream,
        |c| B::add(c, &x, &y, 1.0).unwrap(),
        |c| {
            B::add(c, &x, &y, 1.0).unwrap();
            drop(B::add(c, &x, &y, 1.0));
        },
    );
}

/// L9: length.
pub fn a_shorter_recording_diverges<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    assert_diverges(
        1,
        ["launch `add`", "nothing"],
        stream,
        |c| {
            B::add(c, &x, &y, 1.0).unwrap();
            B::add(c, &x, &y, 1.0).unwrap();
        },
        |c| B::add(c, &x, &y, 1.0).unwrap(),
    );
}

/// L9: reads and waits in the warm-up are no commands.
pub fn reads_in_the_warm_up_are_not_part_of_the_trace<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let stream = stream.prepare().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
    stream.synchronize().unwrap();
    let stream = stream.begin().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    assert!(stream.end().is_ok());
}

/// L9, M6: a write is known by its place and size; the recording has its own bytes.
pub fn the_data_of_a_write_may_differ<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let mut next = 0.0;
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            next += 1.0;
            c.write(&x, &[next, next])
        })
        .unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&x).unwrap(), [2.0, 2.0]);
}
