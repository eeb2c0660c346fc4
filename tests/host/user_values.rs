//! Values that use the device when they are dropped (M14).

use super::*;

/// Uses the device when it is dropped.
struct Caller(Host, Buffer<f32>);

impl Drop for Caller {
    fn drop(&mut self) {
        let stream = self.0.stream().unwrap();
        Host::accumulate(&stream, &stream.upload(&[1.0, 1.0]).unwrap(), &self.1).unwrap();
    }
}

/// M14: what a kernel captured may use the device when it goes: after a launch, with a graph,
/// with a recording that is given up, refused, or dropped inside another window.
#[test]
fn what_a_kernel_captured_is_dropped_with_no_lock_held() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Host>();
    let launch = |c: &Commands| {
        let caller = Caller(device.clone(), y.clone());
        c.launch("holds", write(&x), move |x| {
            let _held = &caller;
            x.fill(0.0);
        })
    };
    let mut drops = 0.0;
    let mut expect = |stream: &Stream<NoCapture>, more: f32| {
        drops += more;
        assert_eq!(stream.read(&y).unwrap(), [drops, drops]);
    };
    launch(&stream).unwrap();
    expect(&stream, 1.0);
    let (stream, graph, ()) = stream.capture(launch).unwrap();
    expect(&stream, 1.0);
    drop(graph);
    expect(&stream, 1.0);

    let stream = stream.prepare().unwrap();
    launch(&stream).unwrap();
    let stream = stream.begin().unwrap();
    launch(&stream).unwrap();
    let stream = stream.abort();
    expect(&stream, 2.0);

    let stream = stream.prepare().unwrap();
    launch(&stream).unwrap();
    let stream = stream.begin().unwrap();
    launch(&stream).unwrap();
    let _ = stream.write(&x, &[]);
    let stream = stream.end().unwrap_err().into_stream();
    expect(&stream, 2.0);
}

/// M14, L9: a graph that is dropped inside a window, and whose value issues commands there,
/// makes an ordinary difference.
#[test]
fn a_graph_dropped_in_a_window_may_issue_commands_elsewhere() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Host>();
    let (stream, graph, ()) = stream
        .capture(|c| {
            let caller = Caller(device.clone(), y.clone());
            c.keep(caller);
            c.fill(&x, 1.0)
        })
        .unwrap();
    let stream = stream.prepare().unwrap();
    stream.fill(&x, 2.0).unwrap();
    let stream = stream.begin().unwrap();
    drop(graph);
    stream.fill(&x, 2.0).unwrap();
    assert!(stream.end().is_ok());
}

/// L3: what was recorded is dropped when the capture has left the record.
#[test]
fn what_a_kernel_captured_sees_its_capture_ended() {
    struct Looks(Host, Arc<AtomicBool>);
    impl Drop for Looks {
        fn drop(&mut self) {
            self.1
                .fetch_or(self.0.status().any_active(), Ordering::Relaxed);
        }
    }
    let Bench {
        device, stream, x, ..
    } = bench::<Host>();
    let seen = Arc::new(AtomicBool::new(false));
    let launch = |c: &Commands, looks: Option<Looks>| {
        c.launch("holds", write(&x), move |x| {
            let _held = &looks;
            x.fill(0.0);
        })
    };
    let stream = stream.prepare().unwrap();
    launch(&stream, None).unwrap();
    let stream = stream.begin().unwrap();
    let looks = Looks(device.clone(), Arc::clone(&seen));
    launch(&stream, Some(looks)).unwrap();
    drop(stream.abort());
    assert!(
        !seen.load(Ordering::Relaxed),
        "it saw the capture that was given up"
    );
}

/// M14: also the same stream, while that is waited for: nothing of it is borrowed.
#[test]
fn a_kept_value_may_use_its_own_stream_when_it_is_dropped() {
    thread_local! {
        static STREAM: RefCell<Option<Stream<NoCapture>>> = const { RefCell::new(None) };
        static DROPS: RefCell<u32> = const { RefCell::new(0) };
    }
    struct Own;
    impl Drop for Own {
        fn drop(&mut self) {
            STREAM.with_borrow(|stream| {
                let stream = stream.as_ref().unwrap();
                let made = stream.upload(&[1.0]).unwrap();
                assert_eq!(stream.read(&made).unwrap(), [1.0]);
                stream.keep(0);
            });
            DROPS.with_borrow_mut(|drops| *drops += 1);
        }
    }
    STREAM.set(Some(Host::new().stream().unwrap()));
    STREAM.with_borrow(|stream| {
        let stream = stream.as_ref().unwrap();
        stream.keep(Own);
        stream.keep(Own);
        stream.synchronize().unwrap();
    });
    assert_eq!(DROPS.take(), 2);
}
