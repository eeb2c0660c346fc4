//! Work on the same memory from several streams (M9), on a driver that keeps no order by itself.

use super::*;

/// A device whose streams have nothing to wait for, and x = [1, 2], y = z = [0, 0].
struct Two {
    device: Free,
    first: Stream<NoCapture, Free>,
    second: Stream<NoCapture, Free>,
    x: Buffer<f32, Free>,
    y: Buffer<f32, Free>,
    z: Buffer<f32, Free>,
}

fn two() -> Two {
    let Bench {
        device,
        stream: first,
        x,
        y,
    } = bench::<Free>();
    let z = first.alloc(2).unwrap();
    first.synchronize().unwrap();
    let second = Stream::on(&device).unwrap();
    device.take_log();
    Two {
        device,
        first,
        second,
        x,
        y,
        z,
    }
}

fn follows(device: &Free) -> usize {
    let log = device.take_log();
    log.iter().filter(|call| call.starts_with("follow")).count()
}

/// M9: a read comes after the write that was submitted before it.
#[test]
fn a_stream_reads_what_another_wrote_before() {
    let two = two();
    two.first.add(&two.x, &two.y, 1.0).unwrap();
    two.second.add(&two.y, &two.z, 1.0).unwrap();
    assert_eq!(two.second.read(&two.z).unwrap(), [3.0, 4.0]);
}

/// M9: and a write after the reads.
#[test]
fn a_stream_writes_after_another_has_read() {
    let two = two();
    two.first.add(&two.x, &two.y, 1.0).unwrap();
    two.second.write(&two.x, &[50.0, 60.0]).unwrap();
    two.second.synchronize().unwrap();
    assert_eq!(two.first.read(&two.y).unwrap(), [2.0, 3.0]);
}

/// M9: and after the write, also where nobody read in between.
#[test]
fn of_two_writes_the_later_one_stays() {
    let two = two();
    two.first.fill(&two.x, 1.0).unwrap();
    two.second.fill(&two.x, 2.0).unwrap();
    two.second.synchronize().unwrap();
    assert_eq!(two.first.read(&two.x).unwrap(), [2.0, 2.0]);
}

/// M9: a read to the host is work like any other.
#[test]
fn a_read_to_the_host_comes_after_what_another_stream_wrote() {
    let two = two();
    two.first.add(&two.x, &two.y, 1.0).unwrap();
    assert_eq!(two.second.read(&two.y).unwrap(), [2.0, 3.0]);
}

/// M9: streams that share no memory do not wait for each other, and neither do readers.
#[test]
fn streams_that_share_no_written_memory_do_not_wait() {
    let two = two();
    two.first.add(&two.x, &two.y, 1.0).unwrap();
    two.second.add(&two.x, &two.z, 1.0).unwrap();
    assert_eq!(follows(&two.device), 0);
    two.second.synchronize().unwrap();
    assert!(two.device.queued() > 0, "the first one's work did not run");
}

/// M9: one wait covers all that was submitted before it, and what is known to be done needs none.
#[test]
fn a_stream_waits_once_for_what_it_already_comes_after() {
    let two = two();
    two.first.fill(&two.x, 1.0).unwrap();
    two.first.fill(&two.y, 1.0).unwrap();
    two.second.add(&two.x, &two.z, 1.0).unwrap();
    two.second.add(&two.y, &two.z, 1.0).unwrap();
    assert_eq!(follows(&two.device), 1);
    two.first.fill(&two.x, 2.0).unwrap();
    two.first.synchronize().unwrap();
    two.second.add(&two.x, &two.z, 1.0).unwrap();
    // The first one came after the second's reads, which is a wait of its own.
    assert_eq!(follows(&two.device), 1);
}

/// M9: a replay is one submission, in order with all that it touches.
#[test]
fn a_replay_is_in_order_with_other_streams() {
    let Two {
        first,
        second,
        x,
        y,
        z,
        ..
    } = two();
    let (first, mut graph, ()) = first
        .capture(|c| {
            c.add(&x, &y, 1.0)?;
            c.accumulate(&x, &y)
        })
        .unwrap();
    first.synchronize().unwrap();
    second.write(&x, &[10.0, 20.0]).unwrap();
    graph.replay(&first).unwrap();
    second.write(&x, &[0.0, 0.0]).unwrap();
    second.add(&y, &z, 0.0).unwrap();
    assert_eq!(second.read(&z).unwrap(), [21.0, 41.0]);
    assert_eq!(first.read(&y).unwrap(), [21.0, 41.0]);
}

/// M9: while a stream is in its window, others come after what it did before, and do not break it.
#[test]
fn others_come_after_what_a_stream_did_before_its_window() {
    let Two {
        first,
        second,
        x,
        y,
        z,
        ..
    } = two();
    let first = first.prepare().unwrap();
    first.add(&x, &y, 1.0).unwrap();
    let first = first.begin().unwrap();
    first.add(&x, &y, 1.0).unwrap();
    second.add(&y, &z, 1.0).unwrap();
    assert_eq!(second.read(&z).unwrap(), [3.0, 4.0]);
    second.write(&x, &[7.0, 8.0]).unwrap();
    let (first, mut graph) = first.end().unwrap();
    graph.replay(&first).unwrap();
    assert_eq!(first.read(&y).unwrap(), [8.0, 9.0]);
}

/// M2, M9: memory that changes hands stays in order.
#[test]
fn memory_that_changes_hands_stays_in_order() {
    let two = two();
    let scratch = two.first.alloc(2).unwrap();
    two.first.add(&two.x, &scratch, 1.0).unwrap();
    two.first.add(&scratch, &two.y, 1.0).unwrap();
    drop(scratch);
    let taken = two.second.upload(&[9.0f32, 9.0]).unwrap();
    assert_eq!(two.second.read(&taken).unwrap(), [9.0, 9.0]);
    assert_eq!(two.first.read(&two.y).unwrap(), [3.0, 4.0]);
}

/// M9, M11: where the order cannot be made, the command is refused, and what it should have written
/// is marked.
#[test]
fn a_command_that_cannot_be_put_in_order_is_refused() {
    let two = two();
    two.first.fill(&two.x, 1.0).unwrap();
    two.device.fail("follow", Fault::Refuse);
    let error = two.second.add(&two.x, &two.z, 1.0).unwrap_err();
    assert!(told(&error).contains("told to fail"), "{error:?}");
    assert!(matches!(two.second.read(&two.z), Err(Error::Marked { .. })));
    two.second.add(&two.x, &two.z, 1.0).unwrap();
    assert_eq!(two.second.read(&two.z).unwrap(), [2.0, 2.0]);
}

/// A custom command that issues another one is refused, and does not wait for itself.
#[test]
fn a_command_inside_a_custom_command_is_refused() {
    let two = two();
    two.first
        .custom("outer", &[], graph_capture::write(&two.y), |_, _| {
            let inner = two.second.fill(&two.z, 1.0).unwrap_err();
            assert!(
                matches!(inner, Error::InsideKernel { call: "fill", .. }),
                "{inner:?}"
            );
            Ok(())
        })
        .unwrap();
    two.second.fill(&two.z, 1.0).unwrap();
}

/// M9: two threads that submit to the same memory at the same time lose nothing.
#[test]
fn two_threads_on_one_buffer_lose_no_update() {
    let two = two();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stream = Stream::<_, Free>::on(&two.device).unwrap();
                for _ in 0..200 {
                    stream.accumulate(&two.x, &two.y).unwrap();
                }
            });
        }
    });
    assert_eq!(two.first.read(&two.y).unwrap(), [400.0, 800.0]);
}

/// M9: also a replay that repeats the one before, on a stream that others have followed already.
#[test]
fn others_come_after_the_last_of_many_replays() {
    let two = two();
    let (first, mut graph, ()) = two.first.capture(|c| c.add(&two.x, &two.y, 1.0)).unwrap();
    for round in [10.0, 20.0, 30.0] {
        // By the stream of the graph, so that nothing of it needs to be noted anew but the write.
        first.write(&two.x, &[round, round]).unwrap();
        for _ in 0..3 {
            graph.replay(&first).unwrap();
        }
        two.second.add(&two.y, &two.z, 1.0).unwrap();
        graph.replay(&first).unwrap();
        two.second.write(&two.x, &[0.0, 0.0]).unwrap();
        assert_eq!(two.second.read(&two.z).unwrap(), [round + 2.0; 2]);
        assert_eq!(first.read(&two.y).unwrap(), [round + 1.0; 2]);
    }
}

/// M9: and a replay comes after what others did with its memory since the last one.
#[test]
fn a_repeated_replay_comes_after_what_others_did_in_between() {
    let two = two();
    let (first, mut graph, ()) = two.first.capture(|c| c.add(&two.x, &two.y, 1.0)).unwrap();
    // Something else is marked, which is no matter.
    two.second.write(&two.z, &[0.0]).unwrap_err();
    graph.replay(&first).unwrap();
    graph.replay(&first).unwrap();
    two.second.write(&two.x, &[5.0, 6.0]).unwrap();
    graph.replay(&first).unwrap();
    assert_eq!(first.read(&two.y).unwrap(), [6.0, 7.0]);
    two.second.add(&two.y, &two.z, 0.0).unwrap();
    two.second.fill(&two.x, 1.0).unwrap();
    graph.replay(&first).unwrap();
    assert_eq!(two.second.read(&two.z).unwrap(), [6.0, 7.0]);
    assert_eq!(first.read(&two.y).unwrap(), [2.0, 2.0]);
}

/// M9: the graph is replayed on one stream, then on the other, then on the first again.
#[test]
fn replays_on_two_streams_in_turn_are_in_order() {
    let two = two();
    let (first, mut graph, ()) = two.first.capture(|c| c.accumulate(&two.x, &two.y)).unwrap();
    first.fill(&two.y, 0.0).unwrap();
    for stream in [
        &first,
        &first,
        &two.second,
        &two.second,
        &first,
        &two.second,
    ] {
        graph.replay(stream).unwrap();
    }
    assert_eq!(first.read(&two.y).unwrap(), [6.0, 12.0]);
}

/// M9: a replay that repeats the one before takes a place of its own, also for a stream that had come after
/// that one already.
#[test]
fn a_stream_that_follows_comes_after_each_repeated_replay() {
    let two = two();
    let (first, mut graph, ()) = two.first.capture(|c| c.accumulate(&two.x, &two.y)).unwrap();
    first.fill(&two.y, 0.0).unwrap();
    let (v, w) = (two.second.alloc(2).unwrap(), first.alloc(2).unwrap());
    graph.replay(&first).unwrap();
    graph.replay(&first).unwrap();
    // Over memory that the graph has nothing to do with.
    first.fill(&w, 1.0).unwrap();
    two.second.add(&w, &v, 0.0).unwrap();
    graph.replay(&first).unwrap();
    two.second.add(&two.y, &two.z, 0.0).unwrap();
    assert_eq!(two.second.read(&two.z).unwrap(), [3.0, 6.0]);
}

/// M11: a mark that was set since the last of many replays is seen, by the first that comes after it.
#[test]
fn a_repeated_replay_is_refused_over_memory_that_was_marked_in_between() {
    for (elsewhere, reaches_the_driver) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let two = two();
        let (first, mut graph, ()) = two.first.capture(|c| c.add(&two.x, &two.y, 1.0)).unwrap();
        for _ in 0..3 {
            graph.replay(&first).unwrap();
        }
        let stream = if elsewhere { &two.second } else { &first };
        if reaches_the_driver {
            two.device.fail("write", Fault::Refuse);
            stream.write(&two.x, &[5.0, 6.0]).unwrap_err();
        } else {
            stream.write(&two.x, &[5.0]).unwrap_err();
        }
        for _ in 0..2 {
            let refused = graph.replay(&first).unwrap_err();
            assert!(matches!(refused, Error::Marked { .. }), "{refused:?}");
        }
        let marked = first.read(&two.y).unwrap_err();
        assert!(matches!(marked, Error::Marked { .. }), "{marked:?}");
        first.write(&two.x, &[7.0, 8.0]).unwrap();
        graph.replay(&first).unwrap();
        assert_eq!(first.read(&two.y).unwrap(), [8.0, 9.0]);
    }
}

/// M11, M8: one of many replays that fails marks what it should have written, and may be in flight.
#[test]
fn a_repeated_replay_that_fails_marks_its_outputs() {
    for fault in [Fault::Refuse, Fault::Panic] {
        let two = two();
        let (first, mut graph, ()) = two.first.capture(|c| c.add(&two.x, &two.y, 1.0)).unwrap();
        for _ in 0..3 {
            graph.replay(&first).unwrap();
        }
        two.device.fail("replay", fault);
        match fault {
            Fault::Panic => panics(|| graph.replay(&first)),
            _ => {
                let refused = graph.replay(&first).unwrap_err();
                assert!(told(&refused).contains("replay at"), "{refused}");
            }
        }
        let marked = first.read(&two.y).unwrap_err();
        assert!(matches!(marked, Error::Marked { .. }), "{marked:?}");
        graph.replay(&first).unwrap();
        assert_eq!(first.read(&two.y).unwrap(), [2.0, 3.0]);
    }
}
