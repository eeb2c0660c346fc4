//! Rules L1 to L8, L10, L12, L13, L16: the order, the record, and how captures end.

use std::sync::Barrier;
use std::thread;

use graph_capture::{Error, PhaseName, Stream, StreamId};

use super::{Bench, Lab, assert_idle, assert_usable, bench, panics, status, told, used};

/// L1, L6: each transition leads to the next phase, and the record follows.
pub fn transitions_follow_the_capture_order<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let status = status(&device);
    assert_eq!(stream.phase(), PhaseName::Idle);
    assert_idle(&status);

    let stream = stream.prepare().unwrap();
    assert_eq!(stream.phase(), PhaseName::WarmUp);
    assert!(status.any_active() && !status.any_recording());
    B::add(&stream, &x, &y, 1.0).unwrap();

    let stream = stream.begin().unwrap();
    assert_eq!(stream.phase(), PhaseName::Window);
    assert!(status.any_active() && status.any_recording());
    B::add(&stream, &x, &y, 1.0).unwrap();

    let (stream, mut graph) = stream.end().unwrap();
    assert_eq!(stream.phase(), PhaseName::Idle);
    assert_idle(&status);

    stream.write(&x, &[10.0, 20.0]).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [11.0, 21.0]);
}

/// L4: the owner is the one at `prepare`, and the record says so on every thread, until the end.
pub fn the_window_carries_its_owner<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let (owner, status) = (StreamId::new(7), status(&device));
    let stream = stream.prepare_as(owner).unwrap();
    let elsewhere = status.clone();
    thread::spawn(move || {
        assert!(elsewhere.is_capturing(owner));
        assert!(!elsewhere.is_capturing(StreamId::current()));
    })
    .join()
    .unwrap();
    assert_eq!(stream.owner(), owner);
    B::add(&stream, &x, &y, 1.0).unwrap();

    let stream = stream.begin().unwrap();
    assert_eq!(stream.owner(), owner);
    assert!(status.is_capturing(owner));
    B::add(&stream, &x, &y, 1.0).unwrap();

    drop(stream.end().unwrap());
    assert!(!status.is_capturing(owner));
}

/// L4: a window seals what was issued on its own stream, and nothing of its neighbour's.
pub fn only_the_stream_that_opened_a_capture_may_seal_it<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let other = Stream::on(&device).unwrap();
    let z = other.alloc::<f32>(2).unwrap();

    let stream = stream.prepare().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let other = other.prepare().unwrap();
    B::add(&other, &x, &z, 5.0).unwrap();
    let stream = stream.begin().unwrap();
    let other = other.begin().unwrap();
    B::add(&other, &x, &z, 5.0).unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let (other, mut second) = other.end().unwrap();
    let (stream, mut first) = stream.end().unwrap();
    assert_eq!((first.len(), second.len()), (1, 1));

    stream.fill(&y, 0.0).unwrap();
    stream.fill(&z, 0.0).unwrap();
    first.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
    assert_eq!(stream.read(&z).unwrap(), [0.0, 0.0]);
    second.replay(&other).unwrap();
    assert_eq!(other.read(&z).unwrap(), [6.0, 7.0]);
}

/// L3, L5: a window whose stream dies with its thread is closed, and the device captures on.
pub fn a_capture_no_one_can_close_does_not_wedge_the_stream<B: Lab>() {
    let device = B::device();
    let lost = {
        let device = device.clone();
        thread::spawn(move || {
            let stream = Stream::on(&device).unwrap();
            let (x, y) = (stream.upload(&[1.0]).unwrap(), stream.alloc(1).unwrap());
            let stream = stream.prepare().unwrap();
            B::add(&stream, &x, &y, 1.0).unwrap();
            let _recording = stream.begin().unwrap();
            panic!("the thread dies with its window open");
        })
    };
    assert!(lost.join().is_err());
    assert_idle(&status(&device));
    let stream = used(Stream::on(&device).unwrap());
    assert_usable(stream);
}

/// L4, L8: `end` on a recording that its owner left doomed tells whose it was and what doomed it.
pub fn an_abandoned_window_reports_whose_it_was_and_what_doomed_it<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let stream = stream.prepare_as(StreamId::new(7)).unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    let _ = stream.write(&x, &[1.0; 3]);

    let error = stream.end().unwrap_err().into_error();
    let Error::Doomed { owner, index, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!((*owner, *index), (StreamId::new(7), 0));
    let told = told(&error);
    for part in [
        "stream 7",
        "command 0",
        "write",
        "lifecycle.rs",
        "holds 2 elements, but the other side has 3",
    ] {
        assert!(told.contains(part), "{part:?} is missing: {told}");
    }
}

/// L2: a refused `begin` leaves bytes and record as they were; the sequence can be retried.
pub fn a_rejected_transition_changes_nothing<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let refused = stream.prepare().unwrap().begin().unwrap_err();
    assert_idle(&status(&device));
    let stream = refused.into_stream();
    assert_eq!(stream.phase(), PhaseName::Idle);
    assert_eq!(stream.read(&x).unwrap(), [1.0, 2.0]);
    assert_eq!(stream.read(&y).unwrap(), [0.0, 0.0]);
    assert_usable(stream);
}

/// L1, L3: `abort` gives up from either phase, and what was recorded never runs.
pub fn abort_recovers_a_window_that_never_opened<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let stream = stream.prepare().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let stream = stream.abort();
    assert_idle(&status(&device));
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);

    let stream = stream.prepare().unwrap();
    B::add(&stream, &x, &y, 9.0).unwrap();
    let stream = stream.begin().unwrap();
    B::add(&stream, &x, &y, 9.0).unwrap();
    let stream = stream.abort();
    assert_idle(&status(&device));
    stream.fill(&y, 0.0).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [0.0, 0.0]);
    assert_usable(stream);
}

/// L5, L7: an owner with captures on two streams is capturing until both have ended.
pub fn the_record_counts_every_recording_stream<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let (owner, status) = (StreamId::new(3), status(&device));
    let other = Stream::on(&device).unwrap();

    let first = stream.prepare_as(owner).unwrap();
    B::add(&first, &x, &y, 1.0).unwrap();
    let first = first.begin().unwrap();
    let second = other.prepare_as(owner).unwrap();
    B::add(&second, &x, &y, 1.0).unwrap();
    let second = second.begin().unwrap();

    drop(first.abort());
    assert!(status.is_capturing(owner) && status.any_recording() && status.any_active());
    drop(second.abort());
    assert!(!status.is_capturing(owner));
    assert_idle(&status);
}

/// The short form: one warm-up run, one recorded run, the closure's result.
pub fn a_capture_runs_the_work_once_and_records_it_once<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let mut runs = 0;
    let (stream, mut graph, result) = stream
        .capture(|commands| {
            runs += 1;
            B::accumulate(commands, &x, &y)?;
            Ok(runs)
        })
        .unwrap();
    assert_eq!(result, 2);
    assert_eq!(stream.read(&y).unwrap(), [1.0, 2.0]);
    graph.replay(&stream).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [3.0, 6.0]);
}

/// L6: a prepared capture is active, and not recording.
pub fn prepared_is_active_but_not_recording<B: Lab>() {
    let Bench { device, stream, .. } = bench::<B>();
    let status = status(&device);
    let stream = stream.prepare_as(StreamId::new(1)).unwrap();
    assert!(status.any_active());
    assert!(!status.any_recording());
    assert!(status.is_capturing(StreamId::new(1)));
    assert!(stream.status().any_active());
}

/// L4: what fails on one stream dooms no other.
pub fn a_failure_belongs_to_the_capture_it_happened_in<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let other = Stream::on(&device).unwrap();
    let stream = stream.prepare().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    let z = other.alloc::<f32>(1).unwrap();
    assert!(other.write(&z, &[1.0; 3]).is_err());
    B::add(&stream, &x, &y, 1.0).unwrap();
    assert!(stream.end().is_ok());
}

/// L5: however a stream goes, its capture leaves the record.
pub fn dropping_a_stream_ends_its_capture_in_every_phase<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let status = status(&device);
    drop(stream);
    assert_idle(&status);

    drop(Stream::on(&device).unwrap().prepare().unwrap());
    assert_idle(&status);

    let stream = Stream::on(&device).unwrap().prepare().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    drop(stream.begin().unwrap());
    assert_idle(&status);
    assert_usable(Stream::on(&device).unwrap());
}

/// L12: a panic of the captured code in the warm-up ends the capture.
pub fn a_panic_in_the_warm_up_ends_the_capture<B: Lab>() {
    let Bench { device, stream, .. } = bench::<B>();
    panics(|| stream.capture(|_| -> Result<(), Error> { panic!("in the warm-up") }));
    assert_idle(&status(&device));
    assert_usable(Stream::on(&device).unwrap());
}

/// L12: and in the window.
pub fn a_panic_in_the_window_ends_the_capture<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let mut runs = 0;
    panics(|| {
        stream.capture(|commands| {
            B::add(commands, &x, &y, 1.0)?;
            runs += 1;
            assert!(runs < 2, "in the window");
            Ok(())
        })
    });
    assert_idle(&status(&device));
    assert_usable(Stream::on(&device).unwrap());
}

/// L12: a panic that was caught left the recording short, and it does not seal.
pub fn a_caught_panic_between_two_commands_never_seals<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let work = |commands: &graph_capture::Commands<B>, fall: bool| {
        B::add(commands, &x, &y, 1.0).unwrap();
        assert!(!fall, "between two commands");
        B::accumulate(commands, &x, &y).unwrap();
    };
    let stream = stream.prepare().unwrap();
    work(&stream, false);
    let stream = stream.begin().unwrap();
    panics(|| work(&stream, true));
    let refused = stream.end().unwrap_err();
    assert!(
        matches!(refused.error(), Error::Diverged { index: 1, .. }),
        "{refused:?}"
    );
    assert_usable(refused.into_stream());
}

/// L12: between two commands the crate cannot see a panic that is caught: if it cost no command, or
/// the same ones in both runs, the recording is whole, and seals.
pub fn a_caught_panic_that_cost_no_command_seals<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (_stream, graph, ()) = stream
        .capture(|c| {
            B::add(c, &x, &y, 1.0)?;
            panics(|| panic!("and no command after it"));
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.len(), 1);
}

/// L12: `?` out of an open capture drops the stream, which ends it.
pub fn an_early_return_ends_the_capture<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let early = move || -> Result<(), Error> {
        let stream = stream.prepare()?;
        B::add(&stream, &x, &y, 1.0)?;
        let stream = stream.begin()?;
        stream.write(&x, &[])?;
        drop(stream.end()?);
        Ok(())
    };
    assert!(early().is_err());
    assert_idle(&status(&device));
}

/// An error of the closure's own comes back, in the warm-up and in the window, with the stream.
pub fn an_error_of_the_captured_code_comes_back_with_the_stream<B: Lab>() {
    let Bench {
        device,
        mut stream,
        x,
        y,
    } = bench::<B>();
    for failing in [1, 2] {
        let mut run = 0;
        let (error, returned) = stream
            .capture(|commands| {
                B::add(commands, &x, &y, 1.0)?;
                run += 1;
                if run == failing {
                    return Err(Error::step("no more input"));
                }
                Ok(())
            })
            .unwrap_err()
            .into_parts();
        assert!(told(&error).ends_with("no more input"), "{error:?}");
        assert_idle(&status(&device));
        stream = used(returned);
    }
}

/// What the caller made of a command's error comes back, not what the crate would have said.
pub fn an_error_that_the_caller_made_of_a_failure_comes_back<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let refused = stream.capture(|c| {
        c.write(&x, &[1.0])
            .map_err(|_| Error::step("while loading layer 3"))
    });
    let told = told(refused.unwrap_err().error());
    assert!(told.ends_with("while loading layer 3"), "{told}");
}

/// L13: a clone is the same device, a new one is another.
pub fn clones_of_a_device_share_one_record<B: Lab>() {
    let Bench { device, stream, .. } = bench::<B>();
    let (clone, other) = (device.clone(), B::device());
    let prepared = stream.prepare().unwrap();
    assert!(status(&clone).any_active());
    assert!(!status(&other).any_active());
    drop(prepared);
    assert_idle(&status(&clone));
}

/// L16: two windows of one device are open at once, and both seal.
pub fn two_streams_of_a_device_may_record_at_the_same_time<B: Lab>() {
    let device = B::device();
    let both = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stream = Stream::on(&device).unwrap();
                let (x, y) = (stream.upload(&[1.0]).unwrap(), stream.alloc(1).unwrap());
                let stream = stream.prepare().unwrap();
                B::add(&stream, &x, &y, 1.0).unwrap();
                let stream = stream.begin().unwrap();
                both.wait();
                B::add(&stream, &x, &y, 1.0).unwrap();
                both.wait();
                let (mut stream, _graph) = stream.end().unwrap();
                for _ in 0..10 {
                    stream = used(stream);
                }
            });
        }
    });
    assert_idle(&status(&device));
}

/// L10: after `end` every buffer is as it was at `begin`.
pub fn nothing_recorded_runs_before_a_replay<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let work = |commands: &graph_capture::Commands<B>| {
        commands.write(&x, &[5.0, 6.0]).unwrap();
        B::accumulate(commands, &x, &y).unwrap();
        commands.copy(&y, &x).unwrap();
        commands.fill(&y, 9.0).unwrap();
    };
    let stream = stream.prepare().unwrap();
    work(&stream);
    let stream = stream.begin().unwrap();
    work(&stream);
    let (stream, mut graph) = stream.end().unwrap();
    assert_eq!(
        stream.read(&x).unwrap(),
        [5.0, 6.0],
        "as the warm-up left it"
    );
    assert_eq!(stream.read(&y).unwrap(), [9.0, 9.0]);
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&x).unwrap(), [14.0, 15.0]);
    assert_eq!(stream.read(&y).unwrap(), [9.0, 9.0]);
}

/// A graph is the device's, not the stream's.
pub fn a_graph_replays_on_any_stream_of_its_device<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let (stream, mut graph, ()) = stream.capture(|c| B::add(c, &x, &y, 1.0)).unwrap();
    drop(stream);
    let other = Stream::on(&device).unwrap();
    other.fill(&y, 0.0).unwrap();
    graph.replay(&other).unwrap();
    assert_eq!(other.read(&y).unwrap(), [2.0, 3.0]);
    let warm = other.prepare().unwrap();
    warm.fill(&y, 0.0).unwrap();
    graph.replay(&warm).unwrap();
    assert_eq!(warm.read(&y).unwrap(), [2.0, 3.0]);
}
