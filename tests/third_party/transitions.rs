//! Transitions against a driver that refuses, panics, or stays in its window (L2, L3, L5, L8, L12,
//! L14, L16).

use super::*;

/// L2: a refused `prepare` publishes nothing.
#[test]
fn a_prepare_that_the_driver_refuses_changes_nothing() {
    let Bench { device, stream, .. } = bench::<Free>();
    device.take_log();
    device.fail("prepare", Fault::Refuse);
    let refused = stream.prepare().unwrap_err();
    assert_idle(&status(&device));
    assert_eq!(device.take_log(), ["prepare"]);
    assert_usable(refused.into_stream());
}

/// L2, L3: the window that the driver refused was published, and is taken back.
#[test]
fn a_begin_that_the_driver_refuses_is_undone() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    let stream = stream.prepare().unwrap();
    stream.add(&x, &y, 1.0).unwrap();
    device.take_log();
    device.fail("begin", Fault::Refuse);
    let refused = stream.begin().unwrap_err();
    assert!(
        told(refused.error()).contains("told to fail"),
        "{refused:?}"
    );
    assert_eq!(
        device.take_log(),
        ["begin while recording", "abort while recording"]
    );
    assert_idle(&status(&device));
    assert_usable(refused.into_stream());
}

/// L2, L14: a `begin` refused by the crate reaches no window of the driver.
#[test]
fn a_begin_without_a_warm_up_does_not_reach_the_driver() {
    let Bench { device, stream, .. } = bench::<Free>();
    let stream = stream.prepare().unwrap();
    drop(stream.alloc::<f32>(1).err());
    let stream = stream.abort().prepare().unwrap();
    device.take_log();
    let refused = stream.begin().unwrap_err();
    assert_eq!(device.take_log(), ["abort"]);
    assert_usable(refused.into_stream());
}

/// L3: published before the driver's window opens, and until after it closed; sealed outside.
#[test]
fn the_record_says_recording_whenever_the_driver_is_in_its_window() {
    let bench = bench::<Free>();
    bench.stream.synchronize().unwrap();
    bench.device.take_log();
    let (device, stream) = recording(bench);
    drop(stream.end().unwrap());
    assert_eq!(
        device.take_log(),
        [
            "prepare",
            "add",
            "begin while recording",
            "add while recording",
            "close while recording",
            "seal",
        ]
    );
}

/// L3: whatever the driver does at the end, the stream is usable and the record empty.
#[test]
fn a_stream_that_will_not_leave_its_window_is_retired_and_replaced() {
    let (device, stream) = recording(bench());
    device.take_log();
    device.fail("close", Fault::Stick);
    let refused = stream.end().unwrap_err();
    assert!(
        told(refused.error()).contains("does not leave"),
        "{refused:?}"
    );
    assert_eq!(
        device.take_log()[..3],
        [
            "close while recording",
            "retire while recording",
            "open while recording"
        ]
    );
    assert_idle(&status(&device));
    assert_usable(refused.into_stream());
}

/// L3: and by `abort`, which never fails.
#[test]
fn an_abort_that_will_not_leave_the_window_is_retired_and_replaced() {
    let (device, stream) = recording(bench());
    device.take_log();
    device.fail("abort", Fault::Stick);
    let stream = stream.abort();
    assert_eq!(
        device.take_log()[..3],
        [
            "abort while recording",
            "retire while recording",
            "open while recording"
        ]
    );
    assert_idle(&status(&device));
    assert_usable(stream);
}

/// L3: an error of `close` that did leave the window costs no driver stream.
#[test]
fn a_close_that_fails_but_leaves_keeps_the_driver_stream() {
    let (device, stream) = recording(bench());
    device.take_log();
    device.fail("close", Fault::Refuse);
    let refused = stream.end().unwrap_err();
    assert_eq!(device.take_log(), ["close while recording"]);
    assert_idle(&status(&device));
    assert_usable(refused.into_stream());
}

/// L3: where no other driver stream can be had, calls say so, and `prepare` tries again.
#[test]
fn a_stream_that_could_not_be_replaced_says_so_and_recovers() {
    let (device, stream) = recording(bench());
    device.fail("abort", Fault::Stick);
    device.fail("open", Fault::Refuse);
    let stream = stream.abort();
    assert_idle(&status(&device));
    let error = stream.alloc::<f32>(1).unwrap_err();
    assert!(matches!(error, Error::StreamLost { .. }), "{error:?}");
    assert!(matches!(
        stream.synchronize(),
        Err(Error::StreamLost { .. })
    ));

    device.fail("open", Fault::Refuse);
    let refused = stream.prepare().unwrap_err();
    assert!(
        matches!(refused.error(), Error::StreamLost { .. }),
        "{refused:?}"
    );
    let stream = refused.into_stream().prepare().unwrap().abort();
    assert_usable(stream);
}

/// L3, L5: a panic of the driver skips neither the record nor the next stream.
#[test]
fn a_panic_of_the_driver_leaves_the_record() {
    for call in ["prepare", "begin", "close panic", "seal", "abort panic"] {
        let device = Free::new();
        let stream = Stream::<_, Free>::on(&device).unwrap();
        let (x, y) = (stream.upload(&[1.0]).unwrap(), stream.alloc(1).unwrap());
        device.fail(call, Fault::Panic);
        panics(|| {
            let stream = stream.prepare().unwrap();
            stream.add(&x, &y, 1.0).unwrap();
            let stream = stream.begin().unwrap();
            stream.add(&x, &y, 1.0).unwrap();
            if call == "abort panic" {
                drop(stream.abort());
            } else {
                drop(stream.end().unwrap());
            }
        });
        assert_idle(&status(&device));
        assert_usable(Stream::on(&device).unwrap());
    }
}

/// L8: the window's own first failure is told, not what the driver says when it closes.
#[test]
fn what_doomed_the_recording_comes_before_what_closing_it_says() {
    let (device, stream) = recording(bench());
    device.fail("fill", Fault::Refuse);
    let z = stream.upload::<f32>(&[1.0]).err();
    assert!(matches!(z, Some(Error::Diverged { .. })), "{z:?}");
    device.fail("close", Fault::Stick);
    let refused = stream.end().unwrap_err();
    assert!(
        matches!(refused.error(), Error::Diverged { index: 1, .. }),
        "{refused:?}"
    );
}

/// L8: a command that the driver refuses in the window dooms, with its place.
#[test]
fn a_command_that_the_driver_refuses_dooms_with_its_place() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    let mut run = 0;
    let refused = stream
        .capture(|c| {
            run += 1;
            c.add(&x, &y, 1.0)?;
            if run == 2 {
                device.fail("accumulate", Fault::Refuse);
            }
            c.accumulate(&x, &y)
        })
        .unwrap_err();
    let told = told(refused.error());
    for part in [
        "command 1",
        "launch `accumulate`",
        "transitions.rs",
        "told to fail",
    ] {
        assert!(told.contains(part), "{part:?} is missing: {told}");
    }
}

/// L12: a panic inside a command of the warm-up, caught, refuses the window.
#[test]
fn a_panic_in_a_command_of_the_warm_up_is_a_failure_of_it() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    let stream = stream.prepare().unwrap();
    device.fail("add", Fault::Panic);
    panics(|| stream.add(&x, &y, 1.0));
    let refused = stream.begin().unwrap_err();
    assert!(
        told(refused.error()).contains("a panic left the command"),
        "{refused:?}"
    );
    assert_usable(refused.into_stream());
}

/// L12: and of the window, dooms it.
#[test]
fn a_panic_in_a_command_of_the_window_dooms_it() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    let stream = stream.prepare().unwrap();
    stream.add(&x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    device.fail("add", Fault::Panic);
    panics(|| stream.add(&x, &y, 1.0));
    let refused = stream.end().unwrap_err();
    assert!(
        matches!(refused.error(), Error::Doomed { index: 0, .. }),
        "{refused:?}"
    );
}

/// L16: `replay` submits, and waits for nothing.
#[test]
fn a_replay_does_not_wait_for_the_device() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    let (stream, mut graph, ()) = stream.capture(|c| c.accumulate(&x, &y)).unwrap();
    stream.fill(&y, 0.0).unwrap();
    stream.synchronize().unwrap();
    graph.replay(&stream).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(device.queued(), 2);
    assert_eq!(stream.read(&y).unwrap(), [2.0, 4.0]);
}

/// L4: a recording moves between threads where the driver lets it, and keeps its owner.
#[test]
fn a_recording_ends_on_another_thread() {
    let (device, stream) = recording(bench());
    let owner = stream.owner();
    let done = thread::spawn(move || {
        assert_eq!(stream.owner(), owner);
        let (stream, mut graph) = stream.end().unwrap();
        graph.replay(&stream).unwrap();
    });
    done.join().unwrap();
    assert_idle(&status(&device));
}

/// L3, L5: also where opening another driver stream panics.
#[test]
fn a_panic_while_replacing_the_driver_stream_leaves_the_record() {
    let (device, stream) = recording(bench());
    device.fail("abort panic", Fault::Panic);
    device.fail("open", Fault::Panic);
    panics(|| stream.abort());
    assert_idle(&status(&device));
    assert_usable(Stream::on(&device).unwrap());
}

/// L14: work that fails when it is waited for has failed the warm-up.
#[test]
fn a_wait_that_fails_in_the_warm_up_refuses_the_window() {
    for call in ["synchronize", "read", "replay"] {
        let Bench {
            device,
            stream,
            x,
            y,
        } = bench::<Free>();
        let (stream, mut graph, ()) = stream.capture(|c| c.add(&x, &y, 1.0)).unwrap();
        let stream = stream.prepare().unwrap();
        stream.add(&x, &y, 1.0).unwrap();
        device.fail(call, Fault::Refuse);
        let failed = match call {
            "synchronize" => stream.synchronize(),
            "read" => stream.read(&x).map(drop),
            _ => graph.replay(&stream),
        };
        assert!(failed.is_err());
        let refused = stream.begin().unwrap_err();
        let told = told(refused.error());
        assert!(
            told.contains(call) && told.contains("transitions.rs"),
            "{told}"
        );
        assert_usable(refused.into_stream());
    }
}

/// L14: but a read that was refused for its arguments has not.
#[test]
fn a_read_with_bad_arguments_does_not_fail_the_warm_up() {
    let Bench { stream, x, y, .. } = bench::<Free>();
    let stream = stream.prepare().unwrap();
    stream.add(&x, &y, 1.0).unwrap();
    assert!(stream.read_into(&x, &mut [0.0]).is_err());
    assert!(stream.begin().is_ok());
}
