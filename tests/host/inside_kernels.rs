//! Kernels that call back: refused, never a deadlock.

use super::*;

thread_local! {
    /// What a kernel that captures nothing can reach all the same.
    static REACHED: RefCell<Option<Reached>> = const { RefCell::new(None) };
}

struct Reached {
    device: Host,
    idle: Option<Stream<NoCapture>>,
    prepared: Option<Stream<Prepared>>,
    recording: Option<Stream<Recording>>,
    graph: Graph,
    x: Buffer<f32>,
    y: Buffer<f32>,
    refused: Vec<Error>,
}

/// Runs `call` inside a kernel of the same device and of another one; both times it must be
/// refused by name.
fn assert_refused(name: &str, call: fn(&mut Reached) -> Result<(), Error>) {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Host>();
    let (stream, graph, ()) = stream.capture(|c| Host::add(c, &x, &y, 1.0)).unwrap();
    let foreign = bench::<Host>();
    for (outer, z) in [
        (&stream, stream.alloc::<f32>(1).unwrap()),
        (&foreign.stream, foreign.stream.alloc::<f32>(1).unwrap()),
    ] {
        // What was refused in the round before marked them.
        stream.write(&x, &[1.0, 2.0]).unwrap();
        stream.fill(&y, 0.0).unwrap();
        let (prepared, recording) = (device.stream().unwrap(), device.stream().unwrap());
        let prepared = prepared.prepare().unwrap();
        Host::add(&prepared, &x, &y, 1.0).unwrap();
        let recording = recording.prepare().unwrap();
        Host::add(&recording, &x, &y, 1.0).unwrap();
        let recording = recording.begin().unwrap();
        Host::add(&recording, &x, &y, 1.0).unwrap();
        REACHED.set(Some(Reached {
            device: device.clone(),
            idle: Some(device.stream().unwrap()),
            prepared: Some(prepared),
            recording: Some(recording),
            graph: REACHED.take().map_or_else(
                || {
                    let stream = device.stream().unwrap();
                    stream.capture(|c| Host::add(c, &x, &y, 1.0)).unwrap().1
                },
                |reached| reached.graph,
            ),
            x: x.clone(),
            y: y.clone(),
            refused: Vec::new(),
        }));
        outer
            .launch("calls back", write(&z), move |_| {
                let mut reached = REACHED.take().unwrap();
                let error = call(&mut reached).unwrap_err();
                reached.refused.push(error);
                REACHED.set(Some(reached));
            })
            .unwrap();
        let mut reached = REACHED.take().unwrap();
        let error = reached.refused.pop().unwrap();
        assert!(
            matches!(&error, Error::InsideKernel { call, .. } if *call == name),
            "{name}: {error:?}"
        );
        REACHED.set(Some(reached));
    }
    drop(graph);
    let reached = REACHED.take().unwrap();
    drop(reached);
    assert_idle(device.status());
    assert_usable(stream);
}

#[test]
fn a_kernel_cannot_issue_commands() {
    assert_refused("launch", |r| {
        Host::add(r.idle.as_ref().unwrap(), &r.x, &r.y, 1.0)
    });
    assert_refused("write", |r| r.idle.as_ref().unwrap().write(&r.x, &[0.0; 2]));
    assert_refused("copy", |r| r.idle.as_ref().unwrap().copy(&r.x, &r.y));
    assert_refused("fill", |r| r.idle.as_ref().unwrap().fill(&r.x, 0.0));
    assert_refused("alloc", |r| {
        r.idle.as_ref().unwrap().alloc::<f32>(1).map(drop)
    });
    assert_refused("upload", |r| {
        r.idle.as_ref().unwrap().upload(&[1.0]).map(drop)
    });
}

#[test]
fn a_kernel_cannot_wait_read_or_replay() {
    assert_refused("synchronize", |r| r.idle.as_ref().unwrap().synchronize());
    assert_refused("read", |r| r.idle.as_ref().unwrap().read(&r.x).map(drop));
    assert_refused("replay", |r| r.graph.replay(r.idle.as_ref().unwrap()));
}

#[test]
fn a_kernel_cannot_move_a_capture_forward() {
    assert_refused("prepare", |r| {
        r.idle
            .take()
            .unwrap()
            .prepare()
            .map(drop)
            .map_err(Into::into)
    });
    assert_refused("begin", |r| {
        r.prepared
            .take()
            .unwrap()
            .begin()
            .map(drop)
            .map_err(Into::into)
    });
    assert_refused("end", |r| {
        r.recording
            .take()
            .unwrap()
            .end()
            .map(drop)
            .map_err(Into::into)
    });
}

/// L3, L5: but it may give captures up, and open streams: neither waits.
#[test]
fn a_kernel_may_drop_streams_in_any_phase() {
    assert_refused("prepare", |r| {
        drop((r.idle.take(), r.recording.take().unwrap().abort()));
        drop(r.prepared.take());
        r.device.stream()?.prepare().map(drop).map_err(Into::into)
    });
}

/// L8: a command that was skipped dooms the recording it was meant for.
#[test]
fn a_command_skipped_inside_a_kernel_dooms_the_recording() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Host>();
    let stream = stream.prepare().unwrap();
    Host::add(&stream, &x, &y, 1.0).unwrap();
    let recording = stream.begin().unwrap();
    let shared = Arc::new(Mutex::new(recording));
    let (inner, other) = (Arc::clone(&shared), device.stream().unwrap());
    other
        .launch("skips", write(&other.alloc::<f32>(1).unwrap()), move |_| {
            assert!(Host::add(&inner.lock().unwrap(), &x, &y, 1.0).is_err());
        })
        .unwrap();
    let recording = Arc::into_inner(shared).unwrap().into_inner().unwrap();
    let refused = recording.end().unwrap_err();
    assert!(
        told(refused.error()).contains("inside a host kernel"),
        "{refused:?}"
    );
}

#[test]
fn a_kernel_that_panicked_leaves_the_thread_able_to_call() {
    let (stream, x, _) = two_buffers();
    panics(|| stream.launch("falls", write(&x), |_| panic!("in a kernel")));
    stream.fill(&x, 1.0).unwrap();
}

/// A kernel of a replay is a kernel too.
#[test]
fn a_kernel_cannot_call_back_from_a_replay() {
    let Bench {
        device, stream, x, ..
    } = bench::<Host>();
    let refused = Arc::new(Mutex::new(Vec::new()));
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            let (device, refused) = (device.clone(), Arc::clone(&refused));
            c.launch("calls back", write(&x), move |_| {
                let error = device.stream().unwrap().synchronize().unwrap_err();
                refused.lock().unwrap().push(error);
            })
        })
        .unwrap();
    graph.replay(&stream).unwrap();
    let refused = refused.lock().unwrap();
    assert_eq!(refused.len(), 2);
    for error in &*refused {
        assert!(matches!(error, Error::InsideKernel { .. }), "{error:?}");
    }
}
