//! What one caller's trouble costs the others: nothing. Panics of values that are dropped, limits, and ids.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use graph_capture::server::{Cached, GraphCache, Neighbours, StreamPool};
use graph_capture::{Error, PhaseName, StreamId};

use super::Lab;
use super::server::{ELSEWHERE, NEIGHBOUR, OWNER, Served, served};

/// A value whose drop panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Without the hook, which would print.
            std::panic::resume_unwind(Box::new("a value's drop"));
        }
    }
}

fn quiet<R>(f: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(f)).ok()
}

/// Keeps a value in the owner's window whose drop panics.
fn arm<B: Lab>(served: &mut Served<B>) {
    let kept = served.pool.submit(OWNER, |c| {
        c.keep(Bomb);
        Ok(())
    });
    kept.unwrap();
}

/// Opens a window of the owner's that is over when this returns, but for the call that notices it.
fn outlast<B: Lab>(served: &mut Served<B>, meanwhile: impl Fn(&mut Served<B>)) {
    let limit = Duration::from_millis(50);
    loop {
        served.pool.prepare_at_most(OWNER, Some(limit)).unwrap();
        let _ = served.step();
        if served.pool.begin(OWNER).is_ok() {
            meanwhile(served);
            break;
        }
    }
    std::thread::sleep(limit);
}

/// N8: the commands of refused work say nothing of it, so that `?` does not keep the later ones from marking.
pub fn a_refused_closure_marks_all_that_it_would_have_written<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    let w = served
        .pool
        .submit(NEIGHBOUR, |c| c.alloc::<f32>(2))
        .unwrap();
    served.record();
    let (u, v) = (served.u.clone(), served.v.clone());
    let refused = served.pool.submit(NEIGHBOUR, |c| {
        B::add(c, &u, &v, 1.0)?;
        B::add(c, &v, &w, 1.0)
    });
    assert!(matches!(refused, Err(Error::Neighbour { .. })));
    served.assert_seals();
    assert!(served.pool.read(NEIGHBOUR, &served.v).is_err());
    let read = served.pool.read(NEIGHBOUR, &w);
    assert!(read.is_err(), "old bytes with Ok: {read:?}");
}

/// N8: also behind an allocation of scratch.
pub fn a_refused_closure_with_scratch_marks_its_output<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    let (u, v) = (served.u.clone(), served.v.clone());
    let refused = served.pool.submit(NEIGHBOUR, |c| {
        let scratch = c.alloc::<f32>(2)?;
        B::add(c, &u, &scratch, 1.0)?;
        B::add(c, &scratch, &v, 1.0)
    });
    assert!(matches!(refused, Err(Error::Neighbour { .. })));
    served.assert_seals();
    let read = served.pool.read(NEIGHBOUR, &v);
    assert!(read.is_err(), "old bytes with Ok: {read:?}");
}

/// N5: what the pool is told last holds.
pub fn a_pool_told_to_refuse_refuses<B: Lab>() {
    let mut served = served::<B>(Neighbours::Divert);
    served.graph();
    served.pool = served.pool.with_neighbours(Neighbours::Refuse);
    served.record();
    let ran = served.pool.read(NEIGHBOUR, &served.u);
    assert!(matches!(ran, Err(Error::Neighbour { .. })), "{ran:?}");
}

/// N4: who disconnects needs no notice, so it must not take another's place.
pub fn a_disconnection_does_not_take_the_notice_of_another<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    let _ = served.pool.end(NEIGHBOUR).unwrap();
    served.pool.prepare(NEIGHBOUR).unwrap();
    let _ = served.pool.disconnect(NEIGHBOUR).unwrap();
    let told = served.pool.end(OWNER).unwrap_err();
    assert!(matches!(told, Error::Abandoned { .. }), "{told:?}");
}

/// N13: a capture that outlasted its time is counted and reported, also where a value of it panics.
pub fn a_capture_that_expired_is_reported_though_its_value_panics<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    outlast(&mut served, arm);
    // A caller on another stream meets it, and is not concerned.
    served
        .pool
        .write(ELSEWHERE, &served.u, &[9.0, 9.0])
        .unwrap();
    assert_eq!(served.pool.read(ELSEWHERE, &served.u).unwrap(), [9.0, 9.0]);
    assert_eq!(served.pool.phase(OWNER), PhaseName::Idle);
    let expired = served.pool.take_expired();
    assert_eq!(expired.len() as u64, served.pool.counts().abandoned.min(1));
    let report = expired.into_iter().next().unwrap().into_result();
    let report = report.unwrap_err().to_string();
    assert!(
        report.ends_with("a panic left the command before it was done"),
        "{report}"
    );
}

/// N3: as above, at `end` of a neighbour.
pub fn an_abandoned_capture_is_counted_though_its_value_panics<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    arm(&mut served);
    let ended = quiet(|| served.pool.end(NEIGHBOUR));
    assert_eq!(served.pool.counts().abandoned, 1);
    assert!(ended.is_some(), "the neighbour got the owner's panic");
}

/// `keep`: "until the stream is next waited for".
pub fn what_was_kept_on_the_spare_stream_goes_when_the_caller_waited<B: Lab>() {
    let mut served = served::<B>(Neighbours::Divert);
    served.record();
    let value = Arc::new(());
    let kept = Arc::clone(&value);
    served
        .pool
        .submit(NEIGHBOUR, |c| {
            c.keep(kept);
            Ok(())
        })
        .unwrap();
    served.assert_seals();
    served.pool.synchronize(NEIGHBOUR).unwrap();
    served.pool.read(NEIGHBOUR, &served.u).unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}

/// N1: also a number of streams that no memory holds is refused.
pub fn a_pool_of_very_many_streams_does_not_panic<B: Lab>() {
    let made = quiet(|| StreamPool::new(B::device(), usize::MAX).map(drop));
    assert!(made.is_some(), "panicked");
}

/// M10: a replay on a pool of another device leaves the graph's memory alone, as `Graph::replay` does.
pub fn a_cached_graph_replayed_on_another_device_is_refused_and_marks_nothing<B: Lab>() {
    let mut pool = StreamPool::new(B::device(), 1).unwrap();
    let mut other = StreamPool::new(B::device(), 1).unwrap();
    let y = pool.submit(OWNER, |c| c.upload(&[1.0f32, 2.0])).unwrap();
    let mut cache = GraphCache::new(1, usize::MAX);
    let mut graph = cache
        .get_or_capture(&mut pool, OWNER, 1, |_| Ok(()), |c, ()| c.fill(&y, 3.0))
        .into_result()
        .unwrap();
    let refused = graph.replay(&mut other, OWNER).unwrap_err();
    assert!(matches!(refused, Error::OtherDevice { .. }));
    pool.check(&y).unwrap();
}

/// N1: equal numbers fold onto one stream, and are two callers.
pub fn ids_of_both_namespaces_are_two_callers_on_one_stream<B: Lab>() {
    let mut pool = StreamPool::new(B::device(), 3).unwrap();
    let thread = StreamId::current();
    pool.prepare(thread).unwrap();
    let number: u64 = thread
        .to_string()
        .trim_start_matches("thread ")
        .parse()
        .unwrap();
    let given = StreamId::new(number);
    assert_eq!(pool.owner(given), Some(thread));
    assert!(!pool.status().is_capturing(given));
    let refused = pool.begin(given).unwrap_err();
    assert!(matches!(refused, Error::Neighbour { .. }));
    assert!(pool.disconnect(given).unwrap().is_none());
    assert!(pool.disconnect(thread).unwrap().is_some());
}

/// A capture that panics has failed.
pub fn counts_of_a_cache_add_up_after_a_panic<B: Lab>() {
    let mut pool = StreamPool::new(B::device(), 1).unwrap();
    let mut cache = GraphCache::<_, (), (), B>::new(1, usize::MAX);
    let _ = quiet(|| {
        cache
            .get_or_capture(
                &mut pool,
                OWNER,
                1,
                |_| Ok(()),
                |_, ()| std::panic::resume_unwind(Box::new("mine")),
            )
            .into_result()
            .is_ok()
    });
    let counts = cache.counts();
    assert_eq!(counts.misses, counts.failed, "{counts:?}");
    assert_eq!(pool.counts().failed, 1);
}

/// The message says what may be called.
pub fn the_advice_of_a_refusal_in_the_warm_up_can_be_followed<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.warm_up();
    let refused = served.pool.prepare(OWNER).unwrap_err().to_string();
    // `end` is refused in the warm-up.
    assert!(!refused.contains("end or abort"), "{refused}");
    let refused = served
        .pool
        .capture(OWNER, |_| Ok(()))
        .unwrap_err()
        .to_string();
    assert!(
        !refused.contains("nothing that is recorded has run"),
        "{refused}"
    );
}

/// What an evicted graph keeps is not the business of who needed its room.
pub fn an_evicted_graph_whose_value_panics_costs_the_next_caller_nothing<B: Lab>() {
    let mut pool = StreamPool::new(B::device(), 1).unwrap();
    let mut cache = GraphCache::new(1, usize::MAX);
    let y = pool.submit(OWNER, |c| c.alloc::<f32>(2)).unwrap();
    cache
        .get_or_capture(
            &mut pool,
            OWNER,
            1,
            |_| Ok(()),
            |c, ()| {
                if y.len() == 2 {
                    c.fill(&y, 1.0)?;
                }
                c.keep(Bomb);
                Ok(())
            },
        )
        .into_result()
        .unwrap();
    // The warm-up's value.
    let _ = quiet(|| pool.synchronize(OWNER));
    let got = quiet(|| {
        let got =
            cache.get_or_capture(&mut pool, NEIGHBOUR, 2, |_| Ok(()), |c, ()| c.fill(&y, 2.0));
        matches!(got, Cached::Captured(_))
    });
    let counts = cache.counts();
    assert_eq!(counts.evictions, 1);
    assert_eq!(
        (got, counts.graphs),
        (Some(true), 1),
        "the capture of another is lost"
    );
}

/// N13: graphs go at a disconnection, though a value of the capture panics.
pub fn a_disconnection_destroys_graphs_though_a_value_panics<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.pool = served.pool.with_graphs_destroyed_on_disconnect();
    let graph = served.graph();
    served.record();
    arm(&mut served);
    let _ = quiet(|| served.pool.disconnect(OWNER));
    assert!(served.pool.graph(graph).is_none());
    assert_eq!(served.pool.counts().abandoned, 1);
}
