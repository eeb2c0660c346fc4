//! The rules of the server (N): the eight scenarios where callers share a stream, N1 to N4; and what
//! `neighbours` and `owners` need to test the others.

use graph_capture::server::{CaptureEnd, GraphId, Neighbours, StreamPool};
use graph_capture::{Buffer, Error, PhaseName, StreamId};

use super::{Lab, assert_idle, status, told};

/// Two callers on one stream of the pool, and one on the other.
pub const OWNER: StreamId = StreamId::new(1);
pub const NEIGHBOUR: StreamId = StreamId::new(3);
pub const ELSEWHERE: StreamId = StreamId::new(2);

pub const BOTH: [Neighbours; 2] = [Neighbours::Refuse, Neighbours::Divert];

/// A pool of two streams; x = [1, 2] and y = [0, 0] of the owner, u = [5, 6] and v = [0, 0] of the
/// neighbour.
pub struct Served<B: Lab> {
    pub pool: StreamPool<B>,
    pub x: Buffer<f32, B>,
    pub y: Buffer<f32, B>,
    pub u: Buffer<f32, B>,
    pub v: Buffer<f32, B>,
}

pub fn served<B: Lab>(neighbours: Neighbours) -> Served<B> {
    let pool = StreamPool::new(B::device(), 2).unwrap();
    let mut pool = pool.with_neighbours(neighbours);
    let mut pair = |caller, data: [f32; 2]| {
        pool.submit(caller, |c| Ok((c.upload(&data)?, c.alloc(2)?)))
            .unwrap()
    };
    let (x, y) = pair(OWNER, [1.0, 2.0]);
    let (u, v) = pair(NEIGHBOUR, [5.0, 6.0]);
    Served { pool, x, y, u, v }
}

impl<B: Lab> Served<B> {
    /// `y = x + 1`, of the owner.
    pub fn step(&mut self) -> Result<(), Error> {
        let (x, y) = (&self.x, &self.y);
        self.pool.submit(OWNER, |c| B::add(c, x, y, 1.0))
    }

    /// `v = u + 1`, of the neighbour.
    pub fn neighbours_step(&mut self) -> Result<(), Error> {
        let (u, v) = (&self.u, &self.v);
        self.pool.submit(NEIGHBOUR, |c| B::add(c, u, v, 1.0))
    }

    /// The owner's warm-up, with one command.
    pub fn warm_up(&mut self) {
        self.pool.prepare(OWNER).unwrap();
        self.step().unwrap();
    }

    /// The owner's window, with the same.
    pub fn record(&mut self) {
        self.warm_up();
        self.pool.begin(OWNER).unwrap();
        self.step().unwrap();
    }

    /// The owner's graph, which computes `y = x + 1`.
    pub fn graph(&mut self) -> GraphId {
        self.record();
        self.pool.end(OWNER).unwrap().into_result().unwrap()
    }

    /// Both callers can still capture, and get right results.
    #[track_caller]
    pub fn assert_usable(mut self) {
        assert_idle(&status(self.pool.device()));
        let graph = self.graph();
        self.pool.write(OWNER, &self.x, &[10.0, 20.0]).unwrap();
        self.pool.replay(OWNER, graph).unwrap();
        assert_eq!(self.pool.read(OWNER, &self.y).unwrap(), [11.0, 21.0]);
        self.pool.write(NEIGHBOUR, &self.u, &[7.0, 8.0]).unwrap();
        self.neighbours_step().unwrap();
        assert_eq!(self.pool.read(NEIGHBOUR, &self.v).unwrap(), [8.0, 9.0]);
    }

    /// The owner's window seals, and its graph does what was recorded.
    #[track_caller]
    pub fn assert_seals(&mut self) {
        let end = self.pool.end(OWNER).unwrap();
        assert!(!end.is_abandoned() && end.owner() == OWNER);
        let graph = end.into_result().unwrap();
        assert_eq!(self.pool.graph(graph).unwrap().len(), 1);
        self.pool.write(OWNER, &self.x, &[3.0, 4.0]).unwrap();
        self.pool.replay(OWNER, graph).unwrap();
        assert_eq!(self.pool.read(OWNER, &self.y).unwrap(), [4.0, 5.0]);
    }
}

/// Refused by name: call, caller, owner and phase are in the message.
#[track_caller]
pub fn assert_refused<R>(result: Result<R, Error>, call: &str, caller: StreamId, phase: PhaseName) {
    let Err(error) = result else {
        panic!("it was not refused");
    };
    let told = error.to_string();
    let owned = phase == PhaseName::Idle || told.contains(&OWNER.to_string());
    assert!(told.starts_with(call) && owned, "{told}");
    assert!(told.contains(&format!("of {caller}")), "{told}");
    assert!(told.contains(&format!("phase `{phase}`")), "{told}");
    let by_name = match error {
        Error::OutOfOrder { .. } => caller == OWNER || phase == PhaseName::Idle,
        Error::Neighbour { .. } => caller != OWNER,
        _ => false,
    };
    assert!(by_name, "{error:?}");
}

#[track_caller]
pub fn assert_abandoned(end: CaptureEnd, parts: &[&str]) {
    assert!(end.is_abandoned());
    assert_eq!(end.owner(), OWNER);
    let report = end.into_result().unwrap_err();
    let Error::Several(reports) = &report else {
        panic!("{report:?}");
    };
    assert_eq!(reports.len(), parts.len(), "{report}");
    for (report, part) in reports.iter().zip(parts) {
        let told = told(report);
        assert!(told.contains(part), "{part:?} is missing: {told}");
    }
}

/// N2: the phases come in their order, and each other call is refused and changes nothing.
pub fn transitions_follow_the_capture_order<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    let idle = PhaseName::Idle;
    assert_refused(served.pool.begin(OWNER), "begin", OWNER, idle);
    assert_refused(served.pool.end(OWNER), "end", OWNER, idle);
    assert_refused(served.pool.again(OWNER), "again", OWNER, idle);
    assert!(served.pool.abort(OWNER).unwrap().is_none());
    assert_eq!(served.pool.owner(OWNER), None);

    served.warm_up();
    let warm_up = PhaseName::WarmUp;
    assert_eq!(served.pool.phase(OWNER), warm_up);
    assert_refused(served.pool.prepare(OWNER), "prepare", OWNER, warm_up);
    assert_refused(served.pool.end(OWNER), "end", OWNER, warm_up);
    served.pool.again(OWNER).unwrap();
    served.step().unwrap();
    served.pool.begin(OWNER).unwrap();

    let window = PhaseName::Window;
    assert_eq!(served.pool.phase(OWNER), window);
    assert_refused(served.pool.prepare(OWNER), "prepare", OWNER, window);
    assert_refused(served.pool.begin(OWNER), "begin", OWNER, window);
    assert_refused(served.pool.again(OWNER), "again", OWNER, window);
    served.step().unwrap();
    served.assert_seals();
    assert_eq!(served.pool.phase(OWNER), idle);
    served.assert_usable();
}

/// N2, L4: whoever calls meanwhile, the capture is its owner's, in the record and in its errors.
pub fn the_window_carries_its_owner<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        let status = status(served.pool.device());
        served.record();
        let _ = served.neighbours_step();
        assert_eq!(served.pool.owner(NEIGHBOUR), Some(OWNER));
        assert!(status.is_capturing(OWNER) && !status.is_capturing(NEIGHBOUR));
        let _ = served.pool.submit(OWNER, |c| c.write(&served.x, &[1.0]));
        let doomed = served.pool.end(OWNER).unwrap_err();
        assert!(
            matches!(doomed, Error::Doomed { owner: OWNER, .. }),
            "{doomed:?}"
        );
        assert_idle(&status);
    }
}

/// N3: another caller closes a window, and gets no graph of it.
pub fn only_the_stream_that_opened_a_capture_may_seal_it<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        served.record();
        let elsewhere = served.pool.end(ELSEWHERE);
        assert_refused(elsewhere, "end", ELSEWHERE, PhaseName::Idle);
        let end = served.pool.end(NEIGHBOUR).unwrap();
        assert_abandoned(end, &["discarded by stream 3"]);
        assert_eq!(served.pool.counts().graphs, 0);
        served.pool.prepare(OWNER).unwrap();
        let _ = served.pool.abort(OWNER).unwrap();
        served.assert_usable();
    }
}

/// N3: from either phase, another caller frees the stream.
pub fn a_capture_no_one_can_close_does_not_wedge_the_stream<B: Lab>() {
    for neighbours in BOTH {
        let mut served = served::<B>(neighbours);
        served.warm_up();
        let end = served.pool.abort(NEIGHBOUR).unwrap().unwrap();
        assert_abandoned(end, &["discarded by stream 3"]);
        served.record();
        let end = served.pool.abort(NEIGHBOUR).unwrap().unwrap();
        assert_abandoned(end, &["discarded by stream 3"]);
        served.pool.prepare(NEIGHBOUR).unwrap();
        assert!(served.pool.abort(NEIGHBOUR).unwrap().is_none());
        assert!(served.pool.abort(OWNER).is_err(), "it was not told");
        served.assert_usable();
    }
}

/// N3: the report says first whose capture it was and who discarded it, then what had doomed it.
pub fn an_abandoned_window_reports_whose_it_was_and_what_doomed_it<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    let _ = served.pool.submit(OWNER, |c| c.write(&served.x, &[1.0; 3]));
    let end = served.pool.end(NEIGHBOUR).unwrap();
    let first = "the capture of stream 1 was discarded by stream 3";
    assert_abandoned(end, &[first, "holds 2 elements, but the other side has 3"]);

    served.pool.prepare(OWNER).unwrap();
    let _ = served.pool.submit(OWNER, |c| c.write(&served.x, &[1.0; 3]));
    let end = served.pool.abort(NEIGHBOUR).unwrap().unwrap();
    assert_abandoned(end, &[first, "of the warm-up of stream 1"]);
    assert!(matches!(
        served.pool.begin(OWNER),
        Err(Error::Abandoned { .. })
    ));
    served.pool.write(OWNER, &served.x, &[1.0, 2.0]).unwrap();
    served.assert_usable();
}

/// N2, L2: phase, owner, record, bytes and graphs are as they were.
pub fn a_rejected_transition_changes_nothing<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    let status = status(served.pool.device());
    served.warm_up();
    let memory = served.pool.memory();
    let warm_up = PhaseName::WarmUp;
    for caller in [NEIGHBOUR, OWNER] {
        assert_refused(served.pool.prepare(caller), "prepare", caller, warm_up);
        assert_refused(served.pool.end(caller), "end", caller, warm_up);
    }
    assert_refused(served.pool.begin(NEIGHBOUR), "begin", NEIGHBOUR, warm_up);
    assert_refused(served.pool.again(NEIGHBOUR), "again", NEIGHBOUR, warm_up);
    let captured = served.pool.capture(NEIGHBOUR, |_| Ok(()));
    assert_refused(captured, "capture", NEIGHBOUR, warm_up);
    assert_eq!(served.pool.memory(), memory);
    assert!(status.is_capturing(OWNER) && !status.any_recording());

    served.pool.begin(OWNER).unwrap();
    let window = PhaseName::Window;
    for caller in [NEIGHBOUR, OWNER] {
        assert_refused(served.pool.prepare(caller), "prepare", caller, window);
        assert_refused(served.pool.begin(caller), "begin", caller, window);
        assert_refused(served.pool.again(caller), "again", caller, window);
    }
    served.step().unwrap();
    served.assert_seals();
    served.assert_usable();
}

/// `abort` of the owner gives up from either phase, and says nothing to tell.
pub fn abort_recovers_a_window_that_never_opened<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.warm_up();
    assert!(served.pool.abort(OWNER).unwrap().is_none());
    served.record();
    assert!(served.pool.abort(OWNER).unwrap().is_none());
    assert!(served.pool.abort(OWNER).unwrap().is_none());
    // A `begin` that is refused is undone, too.
    served.pool.prepare(OWNER).unwrap();
    let refused = served.pool.begin(OWNER).unwrap_err();
    assert!(matches!(refused, Error::NoWarmUp { .. }), "{refused:?}");
    assert_eq!(served.pool.phase(OWNER), PhaseName::Idle);
    served.assert_usable();
}

/// L7: captures on two streams of the pool are two in the record.
pub fn the_record_counts_every_recording_stream<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    let status = status(served.pool.device());
    served.record();
    served.pool.prepare(ELSEWHERE).unwrap();
    assert!(status.is_capturing(OWNER) && status.is_capturing(ELSEWHERE));
    served.assert_seals();
    assert!(!status.is_capturing(OWNER) && status.is_capturing(ELSEWHERE));
    assert!(status.any_active() && !status.any_recording());
    assert!(served.pool.abort(ELSEWHERE).unwrap().is_none());
    assert_idle(&status);
}

/// N1: `id % streams`, and a capture holds its stream and no other.
pub fn callers_fold_onto_streams_by_their_number<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.warm_up();
    for id in 0..6 {
        let expected = if id % 2 == 1 { Some(OWNER) } else { None };
        assert_eq!(served.pool.owner(StreamId::new(id)), expected);
    }
    served.pool.prepare(ELSEWHERE).unwrap();
    assert_eq!(served.pool.owner(StreamId::new(0)), Some(ELSEWHERE));
}

/// N1: it could serve nobody.
pub fn a_pool_of_no_streams_is_refused<B: Lab>() {
    let refused = StreamPool::new(B::device(), 0).unwrap_err();
    assert!(matches!(refused, Error::NoStreams), "{refused:?}");
}

/// N4: once, by the next call about its capture, which does nothing else.
pub fn the_owner_of_an_abandoned_capture_is_told_once<B: Lab>() {
    let call = |name, pool: &mut StreamPool<B>| match name {
        "begin" => pool.begin(OWNER).err(),
        "end" => pool.end(OWNER).err(),
        _ => pool.abort(OWNER).err(),
    };
    for name in ["begin", "end", "abort"] {
        let mut served = served::<B>(Neighbours::Refuse);
        served.record();
        let _ = served.pool.end(NEIGHBOUR).unwrap();
        // The slot is the neighbour's now, and stays so.
        served.pool.prepare(NEIGHBOUR).unwrap();
        let (u, v) = (&served.u, &served.v);
        served
            .pool
            .submit(NEIGHBOUR, |c| B::add(c, u, v, 1.0))
            .unwrap();
        served.pool.begin(NEIGHBOUR).unwrap();
        let notice = call(name, &mut served.pool);
        assert!(
            matches!(
                notice,
                Some(Error::Abandoned {
                    owner: OWNER,
                    by: NEIGHBOUR
                })
            ),
            "{notice:?}"
        );
        assert_eq!(served.pool.owner(OWNER), Some(NEIGHBOUR));
        assert_eq!(served.pool.phase(OWNER), PhaseName::Window);
        // The second time it is a call about the neighbour's capture.
        let again = call(name, &mut served.pool);
        assert!(!matches!(again, Some(Error::Abandoned { .. })), "{again:?}");
    }
}

/// N4: its own `prepare` clears the notice; one that is refused does not.
pub fn a_new_capture_is_not_answered_with_an_old_notice<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    let _ = served.pool.end(NEIGHBOUR).unwrap();
    served.graph();

    served.record();
    let _ = served.pool.end(NEIGHBOUR).unwrap();
    served.pool.prepare(NEIGHBOUR).unwrap();
    served.pool.prepare(OWNER).unwrap_err();
    assert!(matches!(
        served.pool.end(OWNER),
        Err(Error::Abandoned { .. })
    ));
}

/// N4: one notice a stream is kept, the last.
pub fn the_last_of_two_abandoned_captures_is_told<B: Lab>() {
    let mut served = served::<B>(Neighbours::Refuse);
    served.record();
    let _ = served.pool.end(NEIGHBOUR).unwrap();
    served.pool.prepare(NEIGHBOUR).unwrap();
    let third = StreamId::new(5);
    let _ = served.pool.abort(third).unwrap().unwrap();
    let notice = served.pool.abort(NEIGHBOUR).unwrap_err();
    assert!(matches!(notice, Error::Abandoned { by, .. } if by == third));
    assert!(served.pool.abort(OWNER).unwrap().is_none());
}
