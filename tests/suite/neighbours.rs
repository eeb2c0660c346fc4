//! Rules N5, N8, N9, N12: what becomes of the calls of neighbours, for both ways to treat them.

use graph_capture::server::Neighbours;
use graph_capture::{Error, PhaseName};

use super::server::{BOTH, ELSEWHERE, NEIGHBOUR, OWNER, Served, assert_refused, served};
use super::{Lab, panics, told};

/// N5: refused at once, and nothing runs.
pub fn a_neighbours_waits_in_a_window_are_refused<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    let (window, pool) = (PhaseName::Window, &mut served.pool);
    assert_refused(pool.read(NEIGHBOUR, &served.u), "read", NEIGHBOUR, window);
    assert_refused(
        pool.synchronize(NEIGHBOUR),
        "synchronize",
        NEIGHBOUR,
        window,
    );
    let mut ran = false;
    let profiled = pool.profile(NEIGHBOUR, |_| {
        ran = true;
        Ok(())
    });
    assert_refused(profiled, "profile", NEIGHBOUR, window);
    assert!(!ran);
    let into = served.pool.read_into(NEIGHBOUR, &served.u, &mut [0.0; 2]);
    assert_refused(into, "read_into", NEIGHBOUR, window);
    let completion = served.pool.completion(NEIGHBOUR);
    assert_refused(completion, "completion", NEIGHBOUR, window);
    assert_eq!(served.pool.counts().refused, 5);
    served.assert_seals();
    served.assert_usable();
}

/// N5: the refusal lands on the memory that it would have written, until that is written.
pub fn a_neighbours_refused_write_marks_its_memory<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    let refused = served.pool.write(NEIGHBOUR, &served.u, &[0.0; 2]);
    assert_refused(refused, "write", NEIGHBOUR, PhaseName::Window);
    let marked = served.pool.check(&served.u).unwrap_err();
    assert!(told(&marked).contains("held by the capture of stream 1"));
    served.assert_seals();
    assert!(matches!(
        served.pool.read(NEIGHBOUR, &served.u),
        Err(Error::Marked { .. })
    ));
    served.assert_usable();
}

/// N5: diverted calls run, in the order that they would have had, before and behind the window too.
pub fn a_neighbours_calls_in_a_window_run_on_a_spare_stream<B: Lab>() {
    let mut served = served::<B>(Neighbours::Divert);
    // Under way when the window opens.
    served
        .pool
        .write(NEIGHBOUR, &served.u, &[7.0, 8.0])
        .unwrap();
    served.record();
    served.neighbours_step().unwrap();
    assert_eq!(served.pool.read(NEIGHBOUR, &served.v).unwrap(), [8.0, 9.0]);
    served
        .pool
        .write(NEIGHBOUR, &served.u, &[1.0, 1.0])
        .unwrap();
    served.neighbours_step().unwrap();
    served.pool.synchronize(NEIGHBOUR).unwrap();
    let (sum, _) = served
        .pool
        .profile(NEIGHBOUR, |c| {
            B::accumulate(c, &served.v, &served.u)?;
            Ok(1)
        })
        .unwrap();
    assert_eq!(sum, 1);
    served.neighbours_step().unwrap();
    served.assert_seals();
    // What comes behind the window comes behind what was diverted.
    let (u, v) = (&served.u, &served.v);
    served
        .pool
        .submit(NEIGHBOUR, |c| B::accumulate(c, u, v))
        .unwrap();
    assert_eq!(served.pool.read(NEIGHBOUR, &served.v).unwrap(), [7.0, 7.0]);
    assert_eq!(served.pool.counts().diverted, 7);
    served.assert_usable();
}

/// N5: memory that owner and neighbour share goes from hand to hand in order.
pub fn a_diverted_write_is_seen_by_the_owners_replay<B: Lab>() {
    let mut served = served::<B>(Neighbours::Divert);
    served.record();
    served
        .pool
        .write(NEIGHBOUR, &served.x, &[30.0, 40.0])
        .unwrap();
    let graph = served.pool.end(OWNER).unwrap().into_result().unwrap();
    served.pool.replay(OWNER, graph).unwrap();
    assert_eq!(served.pool.read(OWNER, &served.y).unwrap(), [31.0, 41.0]);
}

/// N5: what asks nothing of the stream is answered in every phase.
pub fn questions_are_always_answered<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        let graph = served.graph();
        served.record();
        let pool = &served.pool;
        assert!(pool.status().is_capturing(OWNER));
        assert_eq!(pool.phase(NEIGHBOUR), PhaseName::Window);
        pool.check(&served.u).unwrap();
        assert!(pool.memory().in_use > 0);
        assert_eq!(pool.graph(graph).unwrap().len(), 1);
        served.assert_seals();
    }
}

/// N8: it is refused, and what it would have written says so; not a byte of the past with `Ok`.
pub fn a_neighbours_refused_launch_marks_what_it_would_have_written<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    let refused = served.neighbours_step();
    assert_refused(refused, "submit", NEIGHBOUR, PhaseName::Window);
    // Whatever the closure makes of it, the answer is the refusal.
    let v = served.v.clone();
    let swallowed = served.pool.submit(NEIGHBOUR, |c| {
        c.fill(&v, 1.0)?;
        Ok((5, c.alloc::<f32>(2)?))
    });
    assert_refused(swallowed, "submit", NEIGHBOUR, PhaseName::Window);
    served.assert_seals();
    let marked = served.pool.read(NEIGHBOUR, &served.v).unwrap_err();
    assert!(
        told(&marked).contains(file!().rsplit('/').next().unwrap()),
        "{marked}"
    );
    assert!(matches!(marked, Error::Marked { .. }), "{marked:?}");
    served.assert_usable();
}

/// N8: a refused replay, too.
pub fn a_neighbours_refused_replay_marks_what_it_would_have_written<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    let (u, v) = (served.u.clone(), served.v.clone());
    let (graph, out) = served
        .pool
        .capture(NEIGHBOUR, |c| {
            B::add(c, &u, &v, 1.0)?;
            c.download(&v)
        })
        .unwrap();
    served.pool.replay(NEIGHBOUR, graph).unwrap();
    // What the host has seen of it before does not count either.
    let read = served.pool.read_download(NEIGHBOUR, graph, &out).unwrap();
    assert_eq!(read, [6.0, 7.0]);
    served.record();
    let refused = served.pool.replay(NEIGHBOUR, graph);
    assert_refused(refused, "replay", NEIGHBOUR, PhaseName::Window);
    let read = served.pool.read_download(NEIGHBOUR, graph, &out);
    assert_refused(read, "read", NEIGHBOUR, PhaseName::Window);
    served.assert_seals();
    assert!(matches!(
        served.pool.read(NEIGHBOUR, &served.v),
        Err(Error::Marked { .. })
    ));
    let read = served.pool.read_download(NEIGHBOUR, graph, &out);
    assert!(matches!(read, Err(Error::Marked { .. })), "{read:?}");
    served.pool.replay(NEIGHBOUR, graph).unwrap();
    let read = served.pool.read_download(NEIGHBOUR, graph, &out).unwrap();
    assert_eq!(read, [6.0, 7.0]);
}

/// N9: failures, panics, allocations and lost work of neighbours, on this stream and another, in the
/// warm-up and in the window: the capture is as if they were not there.
pub fn nothing_that_a_neighbour_does_dooms_the_owners_capture<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        let disturb = |served: &mut Served<B>| {
            for caller in [NEIGHBOUR, ELSEWHERE] {
                let (u, v, pool) = (&served.u, &served.v, &mut served.pool);
                let _ = pool.write(caller, u, &[0.0; 3]);
                let _ = pool.submit(caller, |c| c.write(v, &[]));
                let _ = pool.submit(caller, |c| B::add(c, u, u, 1.0));
                let _ = pool.submit(caller, |c| c.alloc::<f32>(usize::MAX));
                let _ = pool.submit(caller, |c| c.alloc::<f32>(2));
                let _ = pool.submit(caller, |_| Err::<(), _>(Error::step("mine")));
                panics(|| pool.submit(caller, |_| -> Result<(), Error> { panic!() }));
                let _ = pool.read(caller, u);
                let _ = pool.synchronize(caller);
                let _ = pool.profile(caller, |c| c.write(v, &[]));
                let _ = pool.begin(caller);
                let _ = pool.again(caller);
                let _ = pool.disconnect(caller);
            }
        };
        served.warm_up();
        disturb(&mut served);
        served.pool.begin(OWNER).unwrap();
        disturb(&mut served);
        served.step().unwrap();
        disturb(&mut served);
        served.assert_seals();
        served.assert_usable();
    }
}

/// N9, M11: memory that both use, and that a neighbour leaves unwritten, does not doom a window: the
/// replay is refused instead, until it is written.
pub fn a_mark_of_a_neighbour_is_for_the_replay_to_refuse<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        served.warm_up();
        // Also after another pass.
        served.pool.again(OWNER).unwrap();
        served.step().unwrap();
        served.pool.begin(OWNER).unwrap();
        let _ = served.pool.write(NEIGHBOUR, &served.x, &[0.0; 3]);
        served.step().unwrap();
        let graph = served.pool.end(OWNER).unwrap().into_result().unwrap();
        let refused = served.pool.replay(OWNER, graph).unwrap_err();
        assert!(matches!(refused, Error::Marked { .. }), "{refused:?}");
        assert!(served.pool.check(&served.y).is_err());
        served.pool.write(OWNER, &served.x, &[1.0, 2.0]).unwrap();
        served.assert_usable();
    }
}

/// N12: in the warm-up of another a neighbour works as ever, in order, and is not compared.
pub fn neighbours_run_as_usual_beside_a_warm_up<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        let (u, v) = (served.u.clone(), served.v.clone());
        let (graph, ()) = served
            .pool
            .capture(NEIGHBOUR, |c| B::accumulate(c, &u, &v))
            .unwrap();
        served.warm_up();
        served.neighbours_step().unwrap();
        served.pool.replay(NEIGHBOUR, graph).unwrap();
        served
            .pool
            .write(NEIGHBOUR, &served.u, &[1.0, 1.0])
            .unwrap();
        served.pool.replay(NEIGHBOUR, graph).unwrap();
        assert_eq!(
            served.pool.read(NEIGHBOUR, &served.v).unwrap(),
            [12.0, 14.0]
        );
        served.pool.synchronize(NEIGHBOUR).unwrap();
        served.pool.profile(NEIGHBOUR, |c| c.fill(&v, 0.0)).unwrap();
        served.pool.begin(OWNER).unwrap();
        served.step().unwrap();
        served.assert_seals();
        assert_eq!(served.pool.counts().diverted, 0);
        served.assert_usable();
    }
}

/// N12, M3: what the warm-up freed is the recording's, whatever neighbours allocate.
pub fn neighbours_do_not_take_the_memory_that_a_warm_up_primed<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        let run = |served: &mut Served<B>| {
            let x = served.x.clone();
            served.pool.submit(OWNER, |c| {
                let scratch = c.alloc::<f32>(1000)?;
                B::accumulate(c, &scratch.slice(..2)?, &x)
            })
        };
        served.pool.prepare(OWNER).unwrap();
        run(&mut served).unwrap();
        let take = |served: &mut Served<B>| {
            let taken = served.pool.submit(NEIGHBOUR, |c| c.alloc::<f32>(1000));
            taken.ok()
        };
        let taken = take(&mut served);
        assert!(taken.is_some());
        served.pool.begin(OWNER).unwrap();
        let more = take(&mut served);
        assert_eq!(more.is_some(), neighbours == Neighbours::Divert);
        run(&mut served).unwrap();
        let _ = served.pool.end(OWNER).unwrap().into_result().unwrap();
    }
}
