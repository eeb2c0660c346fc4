//! What the trouble of a driver, or of one caller with it, costs the others: nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use graph_capture::server::{Cached, GraphCache, Neighbours, StreamPool};
use graph_capture::{Error, PhaseName};

use super::Free;
use super::suite::server::{ELSEWHERE, NEIGHBOUR, OWNER, served};
use super::suite::told;
use super::third::{Fault, Launches as _, Third};

fn quiet<R>(f: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(f)).ok()
}

/// N9: the driver stream is retired, since the owner's window would not close, and the neighbour's work on it
/// is waited for all the same.
#[test]
fn synchronize_covers_the_work_on_a_retired_stream() {
    for neighbours in [Neighbours::Refuse, Neighbours::Divert] {
        let mut served = served::<Free>(neighbours);
        served.neighbours_step().unwrap();
        served.record();
        served.pool.device().fail("close", Fault::Stick);
        served.pool.end(OWNER).unwrap_err();
        assert!(served.pool.device().queued() > 0);
        served.pool.synchronize(NEIGHBOUR).unwrap();
        assert_eq!(served.pool.device().queued(), 0, "{neighbours:?}");
    }
}

/// N9: a value that the owner kept panics at its drop, which takes the stream.
#[test]
fn synchronize_covers_the_work_on_a_stream_that_a_value_took() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("a value's drop"));
        }
    }
    let mut served = served::<Free>(Neighbours::Refuse);
    served.neighbours_step().unwrap();
    served.record();
    let kept = served.pool.submit(OWNER, |c| {
        c.keep(Bomb);
        Ok(())
    });
    kept.unwrap();
    assert!(quiet(|| served.pool.abort(OWNER)).is_none());
    served.pool.synchronize(NEIGHBOUR).unwrap();
    assert_eq!(served.pool.device().queued(), 0);
}

/// N9: and where the driver panics, which takes the stream.
#[test]
fn synchronize_covers_the_work_on_a_stream_that_a_panic_took() {
    let mut served = served::<Free>(Neighbours::Refuse);
    served.neighbours_step().unwrap();
    served.warm_up();
    served.pool.device().fail("begin", Fault::Panic);
    assert!(quiet(|| served.pool.begin(OWNER)).is_none());
    served.pool.synchronize(NEIGHBOUR).unwrap();
    assert_eq!(served.pool.device().queued(), 0);
}

/// L2, N2: a refused call opens no driver stream.
#[test]
fn a_refused_transition_reaches_no_driver() {
    let device = Free::new();
    let mut pool = StreamPool::new(device.clone(), 2).unwrap();
    let _ = pool.end(OWNER);
    let _ = pool.begin(OWNER);
    let _ = pool.abort(OWNER);
    assert_eq!(device.take_log(), Vec::<String>::new());
}

/// L2, N2: nor does one that would fail to open hide the refusal.
#[test]
fn a_refused_transition_is_told_and_counted_as_refused() {
    let device = Free::new();
    let mut pool = StreamPool::new(device.clone(), 2).unwrap();
    device.fail("open", Fault::Refuse);
    let refused = pool.end(OWNER).unwrap_err();
    assert_eq!(pool.counts().failed, 0, "no capture was under way");
    assert!(matches!(refused, Error::OutOfOrder { .. }), "{refused:?}");
}

/// L2, N2.
#[test]
fn abort_of_nothing_is_none_whatever_the_driver_says() {
    let device = Free::new();
    let mut pool = StreamPool::new(device.clone(), 2).unwrap();
    device.fail("open", Fault::Refuse);
    assert!(pool.abort(OWNER).unwrap().is_none());
}

/// M11, N8: where no stream could be opened, a write is refused and leaves no mark.
#[test]
fn a_write_without_a_stream_marks_its_buffer() {
    let device = Free::new();
    let mut pool = StreamPool::new(device.clone(), 2).unwrap();
    let x = pool.submit(OWNER, |c| c.upload(&[1.0f32])).unwrap();
    device.fail("open", Fault::Refuse);
    pool.write(ELSEWHERE, &x, &[2.0]).unwrap_err();
    let read = pool.read(OWNER, &x);
    assert!(read.is_err(), "old bytes with Ok: {read:?}");
}

/// As above, by `submit`.
#[test]
fn a_submit_without_a_stream_marks_its_buffer() {
    let device = Free::new();
    let mut pool = StreamPool::new(device.clone(), 2).unwrap();
    let x = pool.submit(OWNER, |c| c.upload(&[1.0f32])).unwrap();
    device.fail("open", Fault::Refuse);
    pool.submit(ELSEWHERE, |c| c.write(&x, &[2.0])).unwrap_err();
    let read = pool.read(OWNER, &x);
    assert!(read.is_err(), "old bytes with Ok: {read:?}");
}

/// N4: only a `prepare` that was taken clears the notice, as where the driver refuses `prepare`.
#[test]
fn a_capture_that_was_refused_keeps_the_notice() {
    let mut served = served::<Free>(Neighbours::Refuse);
    served.record();
    let _ = served.pool.end(NEIGHBOUR).unwrap();
    served.pool.device().fail("prepare", Fault::Refuse);
    let _ = served.pool.capture(OWNER, |_| Ok(())).unwrap_err();
    let told = served.pool.end(OWNER).unwrap_err();
    assert!(matches!(told, Error::Abandoned { .. }), "{told:?}");
}

/// N13: the report of the capture comes also where the wait for a graph fails.
#[test]
fn a_disconnection_reports_the_capture_though_a_wait_failed() {
    let mut served = served::<Free>(Neighbours::Refuse);
    served.pool = served.pool.with_graphs_destroyed_on_disconnect();
    let graph = served.graph();
    served.pool.replay(OWNER, graph).unwrap();
    served.warm_up();
    served.pool.device().fail("wait", Fault::Refuse);
    let ended = served.pool.disconnect(OWNER);
    let told = match &ended {
        Ok(end) => end.is_some(),
        Err(error) => told(error).contains("disconnected"),
    };
    assert!(told || !served.pool.take_expired().is_empty(), "{ended:?}");
}

/// Where the driver cannot say when a replay is done, it counts as in flight.
#[test]
fn a_cached_graph_in_flight_is_not_evicted_though_its_point_could_not_be_marked() {
    let mut pool = StreamPool::new(Free::new(), 1).unwrap();
    let mut cache = GraphCache::new(1, usize::MAX);
    let mut get = |pool: &mut StreamPool<Free>, key, fails: bool| {
        let cached = cache.get_or_capture(
            pool,
            OWNER,
            key,
            |c| c.upload(&[1.0f32, 2.0]),
            |c, x| {
                let y = c.alloc::<f32>(2)?;
                c.add(x, &y, 1.0)?;
                c.download(&y)
            },
        );
        let kept = !matches!(cached, Cached::NotKept(_));
        let mut graph = cached.into_result().unwrap();
        if fails {
            pool.device().fail("mark", Fault::Refuse);
        }
        graph.replay(pool, OWNER).unwrap();
        kept
    };
    assert!(get(&mut pool, 1, true));
    assert!(pool.device().queued() > 0, "it is in flight");
    assert_eq!(pool.counts().replays, 1, "it started");
    assert!(!get(&mut pool, 2, false), "the first was evicted in flight");
}

/// N13: an open window expires too, on whichever thread's driver; its report says what had doomed it.
#[test]
fn an_open_window_expires() {
    let mut served = served::<Third<true>>(Neighbours::Divert);
    let limit = Duration::from_millis(50);
    loop {
        served.pool.prepare_at_most(OWNER, Some(limit)).unwrap();
        let _ = served.step();
        if served.pool.begin(OWNER).is_ok() {
            break;
        }
    }
    std::thread::sleep(limit);
    served.pool.synchronize(ELSEWHERE).unwrap();
    assert_eq!(served.pool.phase(OWNER), PhaseName::Idle);
    assert_eq!(served.pool.take_expired().len(), 1);
    assert!(matches!(served.pool.end(OWNER), Err(Error::Expired { .. })));
    served.assert_usable();
}

/// Order: diverted work on memory that the window touched before, and that comes after, on a lazy driver.
#[test]
fn order_between_the_spare_and_the_slot() {
    let mut served = served::<Free>(Neighbours::Divert);
    let graph = served.graph();
    let (x, y) = (served.x.clone(), served.y.clone());
    for round in 0..3 {
        let base = round as f32 * 10.0;
        served.pool.write(NEIGHBOUR, &x, &[base, base]).unwrap();
        served.pool.replay(NEIGHBOUR, graph).unwrap(); // y = x + 1
        served.record();
        served
            .pool
            .submit(NEIGHBOUR, |c| c.accumulate(&x, &y))
            .unwrap(); // y = 2x + 1
        served.pool.replay(NEIGHBOUR, graph).unwrap(); // y = x + 1
        served
            .pool
            .submit(NEIGHBOUR, |c| c.accumulate(&x, &y))
            .unwrap();
        served.pool.write(NEIGHBOUR, &x, &[100.0, 100.0]).unwrap();
        let second = served.pool.end(OWNER).unwrap().into_result().unwrap();
        served
            .pool
            .submit(NEIGHBOUR, |c| c.accumulate(&x, &y))
            .unwrap(); // + 100
        assert_eq!(
            served.pool.read(NEIGHBOUR, &y).unwrap(),
            [2.0 * base + 101.0; 2]
        );
        served.pool.replay(OWNER, second).unwrap();
        served.pool.destroy(OWNER, second).unwrap();
        assert_eq!(served.pool.read(OWNER, &y).unwrap(), [101.0; 2]);
    }
}

/// Faults in the calls of neighbours beside a window, on the third-party driver: whatever fails, the owner's
/// window seals, and nobody reads old bytes with Ok.
#[test]
fn driver_faults_in_neighbours_calls_leave_the_owner_alone() {
    for fault in [
        "follow",
        "write",
        "add",
        "read",
        "land",
        "synchronize",
        "mark",
        "wait",
        "replay",
        "allocate",
        "fill",
        "free",
    ] {
        for kind in [Fault::Refuse, Fault::Panic] {
            for neighbours in [Neighbours::Refuse, Neighbours::Divert] {
                if fault == "free" && kind == Fault::Panic {
                    continue; // It comes at the owner's `end`, from the driver.
                }
                for caller in [NEIGHBOUR, ELSEWHERE] {
                    let mut served = served::<Free>(neighbours);
                    let (u, v) = (served.u.clone(), served.v.clone());
                    let (graph, ()) = served
                        .pool
                        .capture(NEIGHBOUR, |c| c.add(&u, &v, 2.0))
                        .unwrap();
                    served.pool.replay(NEIGHBOUR, graph).unwrap();
                    served.record();
                    let device = served.pool.device().clone();
                    device.fail(fault, kind);
                    let wrote = quiet(|| served.pool.write(caller, &u, &[50.0, 60.0]));
                    let wrote = matches!(wrote, Some(Ok(())));
                    let added = quiet(|| served.pool.submit(caller, |c| c.add(&u, &v, 1.0)));
                    let added = matches!(added, Some(Ok(())));
                    let replayed = quiet(|| served.pool.replay(caller, graph));
                    let replayed = matches!(replayed, Some(Ok(())));
                    let _ = quiet(|| served.pool.submit(caller, |c| c.alloc::<f32>(3)));
                    let _ = quiet(|| served.pool.synchronize(caller));
                    let read = quiet(|| served.pool.read(caller, &v));
                    let tag = format!("{fault} {neighbours:?} {caller}");
                    if let Some(Ok(read)) = read {
                        let right = if replayed { [52.0, 62.0] } else { [51.0, 61.0] };
                        assert!(
                            wrote && (added || replayed) && read == right,
                            "{tag}: {read:?} {wrote} {added} {replayed}"
                        );
                    }
                    let sealed = served.pool.end(OWNER);
                    assert!(sealed.is_ok(), "{tag}: {sealed:?}");
                }
            }
        }
    }
}

/// A read-only graph: its replay on one stream does not cover that on another.
#[test]
fn a_cached_graph_in_flight_on_another_stream_is_not_evicted() {
    let mut pool = StreamPool::new(Free::new(), 2).unwrap();
    let mut cache = GraphCache::<u32, _, (), Free>::new(1, usize::MAX);
    let x = pool.submit(OWNER, |c| c.upload(&[1.0f32])).unwrap();
    let look = |c: &graph_capture::Commands<Free>| {
        c.custom("look", &[], graph_capture::read(&x), |_, _| Ok(()))
    };
    let mut graph = cache
        .get_or_capture(&mut pool, OWNER, 1, |_| Ok(()), |c, _: &()| look(c))
        .into_result()
        .unwrap();
    pool.synchronize(OWNER).unwrap();
    graph.replay(&mut pool, OWNER).unwrap();
    graph.replay(&mut pool, ELSEWHERE).unwrap();
    pool.synchronize(ELSEWHERE).unwrap();
    assert!(pool.device().queued() > 0, "the first replay is in flight");
    let cached = cache.get_or_capture(&mut pool, ELSEWHERE, 2, |_| Ok(()), |c, _: &()| look(c));
    assert!(matches!(cached, Cached::NotKept(_)), "{cached:?}");
}

/// L3, N3, N4: whatever the driver does when a capture is thrown away, the slot goes on and the owner is told once.
#[test]
fn driver_faults_in_discards_wedge_nothing() {
    let faults: [&[(&str, Fault)]; 6] = [
        &[("abort", Fault::Stick)],
        &[("abort", Fault::Stick), ("open", Fault::Refuse)],
        &[("abort", Fault::Stick), ("open", Fault::Panic)],
        &[("abort panic", Fault::Panic)],
        &[("abort panic", Fault::Panic), ("open", Fault::Refuse)],
        &[("abort panic", Fault::Panic), ("open", Fault::Panic)],
    ];
    for faults in faults {
        for op in ["end", "abort", "expire", "disconnect"] {
            for neighbours in [Neighbours::Refuse, Neighbours::Divert] {
                let mut served = served::<Free>(neighbours);
                let limit = (op == "expire").then(|| Duration::from_millis(20));
                loop {
                    served.pool.prepare_at_most(OWNER, limit).unwrap();
                    let _ = served.step();
                    if served.pool.begin(OWNER).is_ok() {
                        break;
                    }
                }
                if op == "expire" {
                    std::thread::sleep(Duration::from_millis(25));
                }
                let device = served.pool.device().clone();
                for &(call, fault) in faults {
                    device.fail(call, fault);
                }
                let _ = quiet(|| match op {
                    "end" => drop(served.pool.end(NEIGHBOUR)),
                    "abort" => drop(served.pool.abort(NEIGHBOUR)),
                    "expire" => drop(served.pool.synchronize(ELSEWHERE)),
                    _ => drop(served.pool.disconnect(OWNER)),
                });
                let tag = format!("{op} {} {neighbours:?}", faults.len());
                assert!(!served.pool.status().any_active(), "{tag}");
                let told = served.pool.abort(OWNER);
                // Where the driver panics in `disconnect`, it is told as well: see the notice of another above.
                assert!(told.is_err() || op == "disconnect", "{tag}: {told:?}");
                assert!(served.pool.abort(OWNER).unwrap().is_none(), "{tag}");
                served.assert_usable();
            }
        }
    }
}

/// N2: where no spare stream can be opened, `prepare` is refused and the slot keeps its stream and its work.
#[test]
fn a_prepare_without_a_spare_stream_changes_nothing() {
    for kind in [Fault::Refuse, Fault::Panic] {
        let mut served = served::<Free>(Neighbours::Divert);
        served.neighbours_step().unwrap();
        served.pool.device().fail("open", kind);
        let refused = quiet(|| served.pool.prepare(OWNER));
        assert!(!matches!(refused, Some(Ok(()))));
        served.pool.synchronize(NEIGHBOUR).unwrap();
        assert_eq!(served.pool.device().queued(), 0, "{}", kind == Fault::Panic);
    }
}
