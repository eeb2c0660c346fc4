//! Rules N6, N10, N11, N13: what an owner may do in its capture, its graphs, and how it loses them.

use std::time::{Duration, Instant};

use graph_capture::server::Neighbours;
use graph_capture::{Error, PhaseName};

use super::server::{
    BOTH, ELSEWHERE, NEIGHBOUR, OWNER, Served, assert_abandoned, assert_refused, served,
};
use super::{Lab, panics, told};

/// N6: also when the error was swallowed.
pub fn what_the_owner_cannot_have_recorded_dooms_its_capture<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    let x = served.x.clone();
    let swallowed = served.pool.submit(OWNER, |c| {
        let _ = c.write(&x, &[1.0; 3]);
        Ok(())
    });
    swallowed.unwrap();
    let doomed = served.pool.end(OWNER).unwrap_err();
    assert!(
        matches!(doomed, Error::Doomed { index: 1, .. }),
        "{doomed:?}"
    );
    served.assert_usable();
}

/// N6: an error of the closure's own dooms, though each of its commands went well.
pub fn an_error_of_a_closure_of_the_owner_dooms_its_capture<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    let failed = served
        .pool
        .submit(OWNER, |_| Err::<(), _>(Error::step("out of tokens")));
    assert!(told(&failed.unwrap_err()).contains("out of tokens"));
    let doomed = served.pool.end(OWNER).unwrap_err();
    assert!(told(&doomed).contains("out of tokens"), "{doomed:?}");
    assert!(
        told(&doomed).contains(file!().rsplit('/').next().unwrap()),
        "{doomed}"
    );

    // In the warm-up it fails that.
    served.warm_up();
    let _ = served
        .pool
        .submit(OWNER, |_| Err::<(), _>(Error::step("out of tokens")));
    let failed = served.pool.begin(OWNER).unwrap_err();
    assert!(matches!(failed, Error::WarmUpFailed { .. }), "{failed:?}");
    served.assert_usable();
}

/// N6: so does a panic, and the pool goes on.
pub fn a_panic_of_a_closure_of_the_owner_dooms_its_capture<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        served.record();
        panics(|| {
            served
                .pool
                .submit(OWNER, |_| -> Result<(), Error> { panic!() })
        });
        let doomed = served.pool.end(OWNER).unwrap_err();
        assert!(matches!(doomed, Error::Doomed { .. }), "{doomed:?}");
        served.warm_up();
        panics(|| {
            served
                .pool
                .submit(OWNER, |_| -> Result<(), Error> { panic!() })
        });
        let failed = served.pool.begin(OWNER).unwrap_err();
        assert!(matches!(failed, Error::WarmUpFailed { .. }), "{failed:?}");
        panics(|| {
            served
                .pool
                .capture(OWNER, |_| -> Result<(), Error> { panic!() })
        });
        panics(|| {
            served
                .pool
                .profile(OWNER, |_| -> Result<(), Error> { panic!() })
        });
        served.assert_usable();
    }
}

/// N6: they run nothing, and do not doom.
pub fn the_owners_own_waits_in_its_window_are_refused<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        let graph = served.graph();
        served.record();
        let (window, pool) = (PhaseName::Window, &mut served.pool);
        assert_refused(pool.read(OWNER, &served.x), "read", OWNER, window);
        let into = pool.read_into(OWNER, &served.x, &mut [0.0; 2]);
        assert_refused(into, "read_into", OWNER, window);
        assert_refused(pool.completion(OWNER), "completion", OWNER, window);
        assert_refused(pool.synchronize(OWNER), "synchronize", OWNER, window);
        let profiled = pool.profile(OWNER, |_| Ok(()));
        assert_refused(profiled, "profile", OWNER, window);
        assert_refused(pool.replay(OWNER, graph), "replay", OWNER, window);
        assert_refused(pool.destroy(OWNER, graph), "destroy", OWNER, window);
        assert!(pool.graph(graph).is_some());
        served.assert_seals();
        served.assert_usable();
    }
}

/// N10: memory that a refused capture would have written first holds nothing.
pub fn what_a_refused_capture_would_have_written_is_marked<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.pool.prepare(OWNER).unwrap();
    let run = |served: &mut Served<B>| {
        let x = served.x.clone();
        served.pool.submit(OWNER, |c| {
            let born = c.alloc::<f32>(2)?;
            B::add(c, &x, &born, 1.0)?;
            Ok(born)
        })
    };
    run(&mut served).unwrap();
    served.pool.begin(OWNER).unwrap();
    let born = run(&mut served).unwrap();
    let _ = served.pool.submit(OWNER, |c| c.write(&served.x, &[]));
    served.pool.end(OWNER).unwrap_err();
    assert!(matches!(
        served.pool.read(OWNER, &born),
        Err(Error::Marked { .. })
    ));
}

/// N10: what a replay that did not start should have written holds old bytes, and says so.
pub fn what_a_replay_that_did_not_start_would_have_written_is_marked<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        let graph = served.graph();
        served.record();
        served.pool.replay(OWNER, graph).unwrap_err();
        assert!(served.pool.check(&served.y).is_err());
        served.assert_seals();
    }
}

/// N11: no two graphs of the process have one name, and a name that is not there is said.
pub fn graphs_have_names_of_their_own<B: Lab>() {
    let mut one = served::<B>(Neighbours::Refuse);
    let mut two = served::<B>(Neighbours::Refuse);
    let (first, second, third) = (one.graph(), two.graph(), one.graph());
    assert!(first != second && second != third && first != third);
    let unknown = one.pool.replay(OWNER, second).unwrap_err();
    assert!(second.to_string().starts_with("graph "), "{second}");
    assert!(format!("{second:?}").starts_with("GraphId("), "{second:?}");
    assert!(unknown.to_string().contains(&second.to_string()));
    assert!(matches!(unknown, Error::UnknownGraph { call: "replay", graph } if graph == second));
    assert!(one.pool.graph(second).is_none());
}

/// N11: twice is harmless, and in flight is waited for.
pub fn a_graph_is_destroyed_once_and_when_its_replay_is_done<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    let (graph, other) = (served.graph(), served.graph());
    served.pool.replay(NEIGHBOUR, graph).unwrap();
    served.pool.destroy(OWNER, graph).unwrap();
    served.pool.destroy(OWNER, graph).unwrap();
    assert!(matches!(
        served.pool.replay(OWNER, graph),
        Err(Error::UnknownGraph { .. })
    ));
    served.pool.replay(OWNER, other).unwrap();
    assert_eq!(served.pool.read(OWNER, &served.y).unwrap(), [2.0, 3.0]);
    served.assert_usable();
}

/// Whoever has its name may replay a graph, but only who captured it destroys it.
pub fn a_graph_is_destroyed_by_its_owner_alone<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    let graph = served.graph();
    let refused = served.pool.destroy(NEIGHBOUR, graph).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::NotYourGraph {
                owner: OWNER,
                caller: NEIGHBOUR,
                ..
            }
        ),
        "{refused:?}"
    );
    served.pool.replay(NEIGHBOUR, graph).unwrap();
    served.pool.destroy(OWNER, graph).unwrap();
    assert_eq!(served.pool.counts().graphs, 0);
}

/// N13: its capture goes, from either phase; its graphs too, if the pool was told so.
pub fn a_caller_that_disconnects_loses_its_capture<B: Lab>() {
    for destroys in [false, true] {
        let mut served = served::<B>(Neighbours::Refuse);
        if destroys {
            served.pool = served.pool.with_graphs_destroyed_on_disconnect();
        }
        let graph = served.graph();
        served.pool.replay(NEIGHBOUR, graph).unwrap();
        for record in [false, true] {
            if record {
                served.record();
            } else {
                served.warm_up();
            }
            assert!(served.pool.disconnect(NEIGHBOUR).unwrap().is_none());
            let end = served.pool.disconnect(OWNER).unwrap().unwrap();
            assert_abandoned(end, &["disconnected in the middle of it"]);
            assert_eq!(served.pool.phase(OWNER), PhaseName::Idle);
            assert!(served.pool.abort(OWNER).unwrap().is_none(), "it was told");
            assert_eq!(served.pool.graph(graph).is_some(), !destroys);
        }
        assert!(served.pool.disconnect(OWNER).unwrap().is_none());
        served.assert_usable();
    }
}

/// N13: the next call of anybody finds it over, and its owner is told.
pub fn a_capture_that_outlasts_its_time_is_abandoned<B: Lab>() {
    let hour = Duration::from_secs(3600);
    let mut served = served::<B>(Neighbours::Refuse);
    served.pool = served.pool.with_time_limit(hour);
    served.graph();
    assert_eq!(served.pool.next_expiry(), None);
    let before = Instant::now();
    served.pool.prepare(ELSEWHERE).unwrap();
    assert!(served.pool.next_expiry().unwrap() >= before + hour);
    served
        .pool
        .prepare_at_most(OWNER, Some(Duration::ZERO))
        .unwrap();
    assert!(served.pool.next_expiry().unwrap() <= Instant::now());
    assert!(served.pool.abort(ELSEWHERE).unwrap().is_none());
    served
        .pool
        .prepare_at_most(OWNER, Some(Duration::ZERO))
        .unwrap();
    assert_eq!(served.pool.phase(OWNER), PhaseName::WarmUp);
    // Of a caller on another stream.
    served.pool.read(ELSEWHERE, &served.u).unwrap();
    assert_eq!(served.pool.phase(OWNER), PhaseName::Idle);
    let mut expired = served.pool.take_expired();
    assert_abandoned(expired.remove(0), &["not ended within 0ns"]);
    assert!(expired.is_empty() && served.pool.take_expired().is_empty());
    let notice = served.pool.end(OWNER).unwrap_err();
    assert!(matches!(
        notice,
        Error::Expired {
            owner: OWNER,
            limit: Duration::ZERO
        }
    ));

    // Of its own: the warm-up that comes too late is none.
    served
        .pool
        .prepare_at_most(OWNER, Some(Duration::ZERO))
        .unwrap();
    served.step().unwrap();
    assert_eq!(served.pool.phase(OWNER), PhaseName::Idle);
    assert!(served.pool.begin(OWNER).is_err());
    served.pool.prepare_at_most(OWNER, None).unwrap();
    assert!(served.pool.abort(OWNER).unwrap().is_none());
    served.assert_usable();
}

/// What is counted is what was done.
pub fn a_pool_counts_what_it_did<B: Lab>() {
    let mut served = served::<B>(Neighbours::Divert);
    let graph = served.graph();
    served.pool.replay(OWNER, graph).unwrap();
    served.record();
    served.neighbours_step().unwrap();
    let _ = served.pool.end(NEIGHBOUR).unwrap();
    served.pool.end(OWNER).unwrap_err();
    served.pool.begin(OWNER).unwrap_err();
    served.pool.prepare(OWNER).unwrap();
    served.pool.begin(OWNER).unwrap_err();
    let counts = served.pool.counts();
    let shown = [
        counts.sealed,
        counts.failed,
        counts.abandoned,
        counts.replays,
        counts.refused,
        counts.diverted,
    ];
    assert_eq!(shown, [1, 1, 1, 1, 1, 1], "{counts:?}");
    assert_eq!(counts.graphs, 1);
}

/// A completion is for the thread that does not want to wait.
pub fn a_pool_tells_when_the_work_of_a_caller_is_done<B: Lab>() {
    let mut served = served::<B>(Neighbours::Divert);
    served.step().unwrap();
    let done = served.pool.completion(OWNER).unwrap();
    assert!(done.wait(Duration::from_secs(60)).unwrap() && done.is_done().unwrap());
    let mut into = [0.0; 2];
    served.pool.read_into(OWNER, &served.y, &mut into).unwrap();
    assert_eq!(into, [2.0, 3.0]);
    let short = served.pool.read_into(OWNER, &served.y, &mut [0.0; 1]);
    assert!(matches!(short, Err(Error::LengthMismatch { .. })));
}

/// L15: the last pass is the one that counts.
pub fn a_pool_captures_with_several_passes<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    let (x, y) = (served.x.clone(), served.y.clone());
    let mut runs = 0;
    let (graph, ()) = served
        .pool
        .capture_with(OWNER, 2, |c| {
            runs += 1;
            if runs == 1 {
                return c.fill(&y, 1.0);
            }
            B::add(c, &x, &y, 1.0)
        })
        .unwrap();
    assert_eq!((runs, served.pool.graph(graph).unwrap().len()), (3, 1));
    let none = served.pool.capture_with(OWNER, 0, |_| Ok(()));
    assert!(matches!(none, Err(Error::NoWarmUp { .. })));
}

/// The pool gives free memory back, and not while a stream records.
pub fn a_pool_is_trimmed_between_windows<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    let scratch = served.pool.submit(OWNER, |c| c.alloc::<f32>(1000));
    drop(scratch);
    served.record();
    assert!(matches!(served.pool.trim(), Err(Error::TrimWhileRecording)));
    served.assert_seals();
    served.pool.trim().unwrap();
    assert_eq!(served.pool.memory().free, 0);
}
