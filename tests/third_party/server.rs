//! Rules of the server that only a fussy driver can break: N7, and what is in flight.

use std::time::Duration;

use graph_capture::server::{Cached, GraphCache, Neighbours, StreamPool};

use super::Free;
use super::suite::server::{ELSEWHERE, NEIGHBOUR, OWNER, Served, served};
use super::third::{Fault, Launches as _};

const BOTH: [Neighbours; 2] = [Neighbours::Refuse, Neighbours::Divert];

/// What reached the driver while a window was open.
fn in_window(served: &Served<Free>) -> Vec<String> {
    let log = served.pool.device().take_log().into_iter();
    log.filter(|call| call.ends_with("while recording"))
        .collect()
}

/// N7: this driver breaks every open window at a free, and one whose stream is waited for or marked. What
/// a neighbour drops, flushes and waits for does not reach it before the window closes.
#[test]
fn a_neighbours_frees_and_flushes_wait_for_the_window_to_close() {
    for neighbours in BOTH {
        let mut served = served::<Free>(neighbours);
        let held: Vec<_> = (1..20)
            .map(|len| served.pool.submit(NEIGHBOUR, |c| c.alloc::<f32>(100 * len)))
            .collect();
        let (u, v) = (served.u.clone(), served.v.clone());
        let (graph, ()) = served
            .pool
            .capture(NEIGHBOUR, |c| c.add(&u, &v, 1.0))
            .unwrap();
        served.pool.replay(NEIGHBOUR, graph).unwrap();
        served.record();
        served.pool.device().take_log();
        drop(held);
        for caller in [NEIGHBOUR, ELSEWHERE] {
            let _ = served
                .pool
                .submit(caller, |c| c.alloc::<f32>(5000).map(drop));
            let _ = served.pool.read(caller, &served.u);
            let _ = served.pool.synchronize(caller);
            let _ = served.pool.profile(caller, |c| c.fill(&u, 1.0));
            let _ = served.pool.trim();
        }
        served.pool.destroy(NEIGHBOUR, graph).unwrap();
        let reached = in_window(&served);
        assert!(
            !reached.iter().any(|call| call.starts_with("free")),
            "{reached:?}"
        );
        // The owner's seals, though this driver breaks a window easily.
        served.assert_seals();
        served.pool.trim().unwrap();
        let freed = served.pool.device().take_log();
        assert!(freed.iter().any(|call| call == "free"), "{freed:?}");
        served
            .pool
            .write(NEIGHBOUR, &served.u, &[5.0, 6.0])
            .unwrap();
        served.assert_usable();
    }
}

/// N5, N9: a wait for what a neighbour had under way before the window waits for that, and leaves the
/// owner's stream alone.
#[test]
fn a_diverted_wait_covers_the_work_before_the_window() {
    let mut served = served::<Free>(Neighbours::Divert);
    served.neighbours_step().unwrap();
    served.record();
    assert!(served.pool.device().queued() > 0);
    served.pool.synchronize(NEIGHBOUR).unwrap();
    assert_eq!(served.pool.device().queued(), 0);
    served.neighbours_step().unwrap();
    served.assert_seals();
    // And one behind the window for what was diverted.
    served.pool.synchronize(NEIGHBOUR).unwrap();
    assert_eq!(served.pool.device().queued(), 0);
}

/// A completion covers what was diverted as well as what runs on the slot's own stream.
#[test]
fn a_completion_covers_both_streams_of_a_slot() {
    let mut served = served::<Free>(Neighbours::Divert);
    served.record();
    served.neighbours_step().unwrap();
    let _ = served.pool.end(OWNER).unwrap().into_result().unwrap();
    let done = served.pool.completion(NEIGHBOUR).unwrap();
    assert!(!done.is_done().unwrap());
    assert!(!done.wait(Duration::ZERO).unwrap());
    assert!(done.wait(Duration::from_secs(60)).unwrap());
    assert_eq!(served.pool.device().queued(), 0);
}

/// N11, M8: `destroy` waits for the replay, also while the stream it is on records.
#[test]
fn a_graph_is_not_destroyed_before_its_replay_is_done() {
    let mut served = served::<Free>(Neighbours::Refuse);
    let graph = served.graph();
    served.pool.replay(NEIGHBOUR, graph).unwrap();
    assert!(served.pool.device().queued() > 0);
    served.pool.prepare(NEIGHBOUR).unwrap();
    served.neighbours_step().unwrap();
    served.pool.begin(NEIGHBOUR).unwrap();
    served.pool.destroy(OWNER, graph).unwrap();
    assert_eq!(served.pool.device().queued(), 0);
    served.neighbours_step().unwrap();
    let _ = served.pool.end(NEIGHBOUR).unwrap().into_result().unwrap();
}

/// L2, N2: what the driver refuses leaves the pool as it was, or without the capture that it refused.
#[test]
fn what_the_driver_refuses_is_told_and_the_pool_goes_on() {
    for neighbours in BOTH {
        for (call, fault) in [
            ("open", Fault::Refuse),
            ("open", Fault::Panic),
            ("prepare", Fault::Refuse),
            ("prepare", Fault::Panic),
            ("begin", Fault::Refuse),
            ("begin", Fault::Panic),
            ("close", Fault::Refuse),
            ("close", Fault::Stick),
            ("close panic", Fault::Panic),
            ("seal", Fault::Refuse),
            ("seal", Fault::Panic),
            ("abort", Fault::Stick),
            ("abort panic", Fault::Panic),
        ] {
            let device = Free::new();
            let mut pool = StreamPool::new(device.clone(), 2).unwrap();
            pool = pool.with_neighbours(neighbours);
            device.fail(call, fault);
            let whole = std::panic::AssertUnwindSafe(|| -> Result<(), graph_capture::Error> {
                pool.prepare(OWNER)?;
                let (x, y) = pool.submit(OWNER, |c| Ok((c.upload(&[1.0f32])?, c.alloc(1)?)))?;
                pool.again(OWNER)?;
                pool.submit(OWNER, |c| c.add(&x, &y, 1.0))?;
                pool.begin(OWNER)?;
                pool.submit(OWNER, |c| c.add(&x, &y, 1.0))?;
                if call.starts_with("abort") {
                    pool.abort(OWNER).map(drop)
                } else {
                    pool.end(OWNER).map(drop)
                }
            });
            let failed = std::panic::catch_unwind(whole);
            let silent = call == "abort" && fault == Fault::Stick;
            assert_eq!(!matches!(failed, Ok(Ok(()))), !silent, "{call}");
            // A capture that is left, since another of its calls failed, can be given up.
            let _ = pool.abort(NEIGHBOUR);
            let _ = pool.abort(OWNER);
            assert!(!pool.status().any_active(), "{call}");
            let served = Served {
                x: pool.submit(OWNER, |c| c.upload(&[1.0, 2.0])).unwrap(),
                y: pool.submit(OWNER, |c| c.alloc(2)).unwrap(),
                u: pool.submit(NEIGHBOUR, |c| c.upload(&[5.0, 6.0])).unwrap(),
                v: pool.submit(NEIGHBOUR, |c| c.alloc(2)).unwrap(),
                pool,
            };
            served.assert_usable();
        }
    }
}

/// A graph whose replay is in flight is not evicted, though it is the oldest; when it is done, it is.
#[test]
fn a_cached_graph_in_flight_is_not_evicted() {
    let mut pool = StreamPool::new(Free::new(), 1).unwrap();
    let mut cache = GraphCache::new(1, usize::MAX);
    let get = |cache: &mut GraphCache<_, _, _, Free>, pool: &mut StreamPool<Free>, key| {
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
        let kind = match &cached {
            Cached::Hit(_) => "hit",
            Cached::Captured(_) => "captured",
            Cached::NotKept(_) => "not kept",
            Cached::NotCaptured(_) => "not captured",
        };
        let mut graph = cached.into_result().unwrap();
        graph.replay(pool, OWNER).unwrap();
        kind
    };
    assert_eq!(get(&mut cache, &mut pool, 1), "captured");
    assert_eq!(get(&mut cache, &mut pool, 2), "not kept");
    assert_eq!(get(&mut cache, &mut pool, 1), "hit");
    pool.synchronize(OWNER).unwrap();
    assert_eq!(get(&mut cache, &mut pool, 2), "captured");
    let counts = cache.counts();
    assert_eq!(
        (counts.evictions, counts.not_kept, counts.graphs),
        (1, 1, 1)
    );
}

/// One whose replay is done is evicted, also where nobody has waited for the stream that it ran on.
#[test]
fn a_cached_graph_that_is_done_by_the_way_is_evicted() {
    let mut pool = StreamPool::new(Free::new(), 2).unwrap();
    let mut cache = GraphCache::<_, (), (), Free>::new(1, usize::MAX);
    let made = pool.submit(OWNER, |c| Ok((c.upload(&[1.0f32, 2.0])?, c.alloc(2)?)));
    let (x, y) = made.unwrap();
    let work = |c: &graph_capture::Commands<Free>| c.add(&x, &y, 1.0);
    let cached = cache.get_or_capture(&mut pool, OWNER, 1, |_| Ok(()), |c, ()| work(c));
    let mut graph = cached.into_result().unwrap();
    graph.replay(&mut pool, OWNER).unwrap();
    // On another stream, which the driver has wait for the first.
    assert_eq!(pool.read(ELSEWHERE, &y).unwrap(), [2.0, 3.0]);
    let cached = cache.get_or_capture(&mut pool, ELSEWHERE, 2, |_| Ok(()), |c, ()| work(c));
    assert!(matches!(cached, Cached::Captured(_)), "{cached:?}");
    assert_eq!(cache.counts().evictions, 1);
}
