//! What goes wrong on a device: commands that wgpu refuses, buffers that are destroyed, devices that
//! are lost, work that does not end in time.

use std::process::Command;

use super::adopted::pipeline;
use super::*;

const NO_GROUPS: [&wgpu::BindGroup; 0] = [];

fn assert_usable_without_shaders(stream: Stream<graph_capture::NoCapture, Wgpu>) {
    let x = stream.alloc::<f32>(2).unwrap();
    let (stream, mut graph, ()) = stream.capture(|c| c.write(&x, &[1.0, 2.0])).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&x).unwrap(), [1.0, 2.0]);
}

/// L8: wgpu finds what is wrong with recorded commands only when all is encoded; the error still
/// names the first that is bad.
#[test]
fn the_first_command_that_wgpu_refuses_is_named_at_the_end() {
    let device = noop();
    let stream = device.stream().unwrap();
    let touch = Kernel::new(&device, KERNELS, "touch").unwrap();
    let x = stream.alloc::<f32>(2).unwrap();
    let raw = device.raw_device().create_buffer(&wgpu::BufferDescriptor {
        label: Some("short-lived"),
        size: 8,
        usage: wgpu::BufferUsages::STORAGE,
        mapped_at_creation: false,
    });
    let y = Buffer::<f32, _>::adopt(&device, raw.clone()).unwrap();
    let stream = stream.prepare().unwrap();
    let work = |c: &Commands| {
        let scratch = c.alloc::<f32>(2).unwrap();
        c.dispatch(&touch, 1, (read(&x), write(&scratch))).unwrap();
        c.fill(&x, 0.0).unwrap();
        for _ in 0..2 {
            c.dispatch(&touch, 1, (read(&x), write(&y))).unwrap();
        }
    };
    work(&stream);
    let stream = stream.begin().unwrap();
    work(&stream);
    raw.destroy();
    let refused = stream.end().unwrap_err();
    let Error::Doomed {
        index,
        name,
        at,
        first,
        ..
    } = refused.error()
    else {
        panic!("{refused:?}");
    };
    assert_eq!((*index, &**name), (3, "launch `touch`"));
    assert!(at.file().ends_with("faults.rs"));
    assert!(matches!(**first, Error::Driver { .. }), "{first:?}");
    let told = told(refused.error());
    assert!(
        told.contains("'short-lived' label has been destroyed"),
        "{told}"
    );
    assert_usable_without_shaders(refused.into_stream());
}

/// What a recording writes is kept in one buffer. Where that is too large, no command is to blame.
#[test]
fn a_recording_that_writes_more_than_a_buffer_holds_blames_no_command() {
    let device = limited(wgpu::Limits {
        max_buffer_size: 1 << 16,
        ..Default::default()
    });
    let stream = device.stream().unwrap();
    let x = stream.alloc::<u8>(32 << 10).unwrap();
    let refused = stream
        .capture(|c| {
            c.fill(&x, 0)?;
            (0..3).try_for_each(|_| c.write(&x, &[1; 32 << 10]))
        })
        .unwrap_err();
    assert!(
        matches!(refused.error(), Error::OutOfMemory { bytes, .. } if *bytes >= 3 << 15),
        "{refused:?}"
    );
    assert_usable_without_shaders(refused.into_stream());
}

/// A raw launch that does not fit its pipeline is refused by wgpu at once, outside a window.
#[test]
fn a_raw_launch_that_does_not_fit_is_refused_in_the_warm_up() {
    let device = noop();
    let pipeline = pipeline(device.raw_device());
    let stream = device.stream().unwrap();
    let x = stream.alloc::<f32>(2).unwrap();
    let refused = stream
        .capture(|c| {
            c.fill(&x, 0.0)?;
            c.dispatch_raw("sum", &pipeline, &NO_GROUPS, 1, write(&x))
        })
        .unwrap_err();
    assert!(
        matches!(refused.error(), Error::WarmUpFailed { index: 1, .. }),
        "{refused:?}"
    );
    assert!(told(refused.error()).contains("BindGroup"), "{refused:?}");
    assert_usable_without_shaders(refused.into_stream());
}

/// A buffer that the program destroys under a live graph: the replay says so, and so do its outputs.
#[test]
fn a_buffer_destroyed_under_a_live_graph_fails_its_replay() {
    let device = noop();
    let stream = device.stream().unwrap();
    let raw = device.raw_device().create_buffer(&wgpu::BufferDescriptor {
        label: Some("short-lived"),
        size: 8,
        usage: wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let x = Buffer::<f32, _>::adopt(&device, raw.clone()).unwrap();
    let y = stream.alloc::<f32>(2).unwrap();
    let (stream, mut graph, ()) = stream.capture(|c| c.copy(&x, &y)).unwrap();
    graph.replay(&stream).unwrap();
    raw.destroy();
    for error in [
        graph.replay(&stream).unwrap_err(),
        stream.read(&y).unwrap_err(),
        stream.copy(&x, &stream.alloc(2).unwrap()).unwrap_err(),
    ] {
        let told = told(&error);
        assert!(
            told.contains("'short-lived' label has been destroyed"),
            "{told}"
        );
    }
    drop(graph);
    stream.fill(&y, 0.0).unwrap();
    assert_usable_without_shaders(stream);
}

/// In the window wgpu notices it only where a bind group is made: what copies, fills and writes fails
/// at the replay.
#[test]
fn a_buffer_destroyed_in_the_window_fails_its_copies_at_the_replay() {
    type Floats = Buffer<f32, Wgpu>;
    type Work = fn(&Commands, &Floats, &Floats) -> Result<(), Error>;
    let device = noop();
    let stream = device.stream().unwrap();
    let works: [Work; 3] = [
        |c, x, y| c.copy(x, y),
        |c, x, _| c.fill(x, 0.0),
        |c, x, _| c.write(x, &[1.0, 2.0]),
    ];
    let mut stream = Some(stream);
    for work in works {
        let raw = device.raw_device().create_buffer(&wgpu::BufferDescriptor {
            label: Some("short-lived"),
            size: 8,
            usage: wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let x = Buffer::<f32, _>::adopt(&device, raw.clone()).unwrap();
        let y = device.stream().unwrap().alloc::<f32>(2).unwrap();
        let prepared = stream.take().unwrap().prepare().unwrap();
        work(&prepared, &x, &y).unwrap();
        let recording = prepared.begin().unwrap();
        work(&recording, &x, &y).unwrap();
        raw.destroy();
        let (idle, mut graph) = recording.end().unwrap();
        let told = told(&graph.replay(&idle).unwrap_err());
        assert!(
            told.contains("'short-lived' label has been destroyed"),
            "{told}"
        );
        stream = Some(idle);
    }
    assert_usable_without_shaders(stream.unwrap());
}

/// A tenth of a millisecond or more, on whatever runs it. Lavapipe leaves a loop after some 65,000 rounds.
const SPIN: &str = "
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(1)
fn spin() {
    var y = x[0] | 1u;
    for (var i = 0u; i < 60000u; i++) {
        y ^= y << 13u;
        y ^= y >> 17u;
        y ^= y << 5u;
    }
    x[0] = y;
}";

#[track_caller]
fn assert_lost<R: std::fmt::Debug>(result: Result<R, Error>) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error:?}");
}

/// `device.destroy()` in the window: `end` says that the device is lost, and so does all that follows.
#[test]
fn a_device_destroyed_in_the_window_is_lost_at_the_end() {
    let device = noop();
    let stream = device.stream().unwrap();
    let x = stream.alloc::<f32>(2).unwrap();
    let stream = stream.prepare().unwrap();
    stream.fill(&x, 0.0).unwrap();
    let stream = stream.begin().unwrap();
    device.raw_device().destroy();
    stream.fill(&x, 0.0).unwrap();
    let (error, stream) = stream.end().unwrap_err().into_parts();
    assert_lost::<()>(Err(error));
    assert_idle(device.status());
    assert_lost(stream.read(&x));
    assert_lost(stream.write(&x, &[0.0, 0.0]));
    assert_lost(stream.alloc::<f32>(2));
    assert_lost(stream.synchronize());
    assert_lost(stream.completion());
    assert_lost(device.stream());
    assert_eq!(stream.phase(), PhaseName::Idle);
    assert_lost(stream.prepare().map_err(Error::from));
}

/// Before a replay, on a device of the program's, whose callback is not ours: who waits for the replay
/// or reads what it wrote learns of it.
#[test]
fn a_device_destroyed_before_a_replay_is_lost_at_the_next_wait() {
    for read in [false, true] {
        let device = noop();
        let stream = device.stream().unwrap();
        let x = stream.alloc::<f32>(2).unwrap();
        let (stream, mut graph, ()) = stream.capture(|c| c.fill(&x, 0.0)).unwrap();
        stream.synchronize().unwrap();
        device.raw_device().destroy();
        let _ = graph.replay(&stream);
        if read {
            assert_lost(stream.read(&x));
        } else {
            let waited = stream
                .completion()
                .and_then(|done| done.wait(Duration::from_secs(1)));
            assert_lost(waited);
        }
        assert_lost(graph.replay(&stream));
        let marked = stream.check(&x).unwrap_err();
        assert!(told(&marked).contains("the device is lost"), "{marked}");
        // Nothing that is dropped now panics or waits.
        drop((graph, stream, x, device));
    }
}

/// A command that needs memory of its own learns of it by itself.
#[test]
fn a_fill_of_a_device_that_was_destroyed_says_that_it_is_lost() {
    let device = noop();
    let stream = device.stream().unwrap();
    let x = stream.alloc::<f32>(2).unwrap();
    device.raw_device().destroy();
    assert_lost(stream.fill(&x, 1.0));
}

/// L13: also where it is lost.
#[test]
fn a_device_that_was_destroyed_is_adopted_as_the_one_it_was() {
    let device = noop();
    let stream = device.stream().unwrap();
    let _x = stream.alloc::<f32>(2).unwrap();
    device.raw_device().destroy();
    let again = Wgpu::adopt(device.raw_device().clone(), device.raw_queue().clone());
    assert_eq!(again.memory().in_use, 8);
    assert_lost(again.stream());
}

/// A device without room is not a lost one, and what we ask of it is no uncaught error, by which wgpu
/// panics.
#[test]
fn a_device_that_cannot_make_the_smallest_buffer_is_not_lost() {
    let device = limited(wgpu::Limits {
        max_buffer_size: 12,
        ..Default::default()
    });
    let stream = device.stream().unwrap();
    let raw = device.raw_device().create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 8,
        usage: wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let x = Buffer::<f32, _>::adopt(&device, raw).unwrap();
    let (stream, mut graph, ()) = stream.capture(|c| c.fill(&x, 0.0)).unwrap();
    graph.replay(&stream).unwrap();
    stream.synchronize().unwrap();
}

/// What the program's own callback passes on.
#[test]
fn a_loss_that_the_program_reports_is_an_error_on_every_later_call() {
    let device = noop();
    let stream = device.stream().unwrap();
    let x = stream.alloc::<f32>(2).unwrap();
    device.note_lost("a cable came loose");
    device.note_lost("another reason");
    let error = stream.write(&x, &[0.0, 0.0]).unwrap_err();
    assert!(error.to_string().contains("a cable came loose"), "{error}");
    assert_lost(Kernel::new(&device, KERNELS, "add"));
    // The device itself is there, and another adoption is the same device.
    let again = Wgpu::adopt(device.raw_device().clone(), device.raw_queue().clone());
    assert_lost(again.stream());
}

on_an_adapter! {
    /// On a device of ours, which has a callback for it, the replay itself says so.
    fn a_device_of_ours_that_is_destroyed_before_a_replay_is_lost_at_the_replay() {
        let device = Wgpu::request().unwrap();
        let Bench { stream, x, y, .. } = bench_on(&device);
        let (stream, mut graph, ()) = stream.capture(|c| Wgpu::add(c, &x, &y, 1.0)).unwrap();
        graph.replay(&stream).unwrap();
        let completion = stream.completion().unwrap();
        stream.synchronize().unwrap();
        device.raw_device().destroy();
        assert_lost(graph.replay(&stream));
        let marked = stream.read(&y).unwrap_err();
        assert!(told(&marked).contains("the device is lost: Destroyed"), "{marked:?}");
        assert_lost(completion.is_done());
        assert_lost(stream.fill(&x, 0.0));
    }

    /// And so do commands, in the warm-up and elsewhere.
    fn a_device_of_ours_that_is_destroyed_elsewhere_is_lost_at_the_next_command() {
        for in_warm_up in [false, true] {
            let device = Wgpu::request().unwrap();
            let Bench { stream, x, .. } = bench_on(&device);
            stream.synchronize().unwrap();
            if in_warm_up {
                let stream = stream.prepare().unwrap();
                device.raw_device().destroy();
                assert_lost(stream.fill(&x, 0.0));
                let error = stream.begin().unwrap_err().into_error();
                assert!(matches!(error, Error::WarmUpFailed { .. }), "{error:?}");
            } else {
                device.raw_device().destroy();
                assert_lost(stream.fill(&x, 0.0));
            }
        }
    }

    /// A wait has an end, and can be repeated.
    fn a_wait_that_takes_too_long_is_an_error_and_can_be_repeated() {
        let device = Wgpu::device();
        let Bench { stream, x, y, .. } = bench_on(&device);
        let spin = Kernel::new(&device, SPIN, "spin").unwrap();
        let (busy, big) = (stream.alloc::<u32>(1).unwrap(), stream.alloc::<u8>(24 << 20).unwrap());
        stream.fill(&big, 1).unwrap();
        let (stream, mut graph, out) = stream
            .capture(|c| {
                for _ in 0..800 {
                    c.dispatch(&spin, 1, read_write(&busy))?;
                }
                Wgpu::add(c, &x, &y, 1.0)?;
                c.download(&big)
            })
            .unwrap();
        stream.synchronize().unwrap();
        device.set_longest_wait(Duration::ZERO);
        graph.replay(&stream).unwrap();
        let completion = stream.completion().unwrap();
        assert!(!completion.is_done().unwrap());
        assert!(!completion.wait(Duration::from_millis(1)).unwrap());
        // Copies of so many bytes are not there at once.
        for late in [
            stream.synchronize().unwrap_err(),
            stream.read(&big).unwrap_err(),
            graph.read(&out, &stream).unwrap_err(),
        ] {
            assert!(matches!(late, Error::TimedOut { .. }), "{late:?}");
            assert!(late.to_string().contains("faults.rs"), "{late}");
        }
        device.set_longest_wait(Duration::from_secs(600));
        assert!(graph.read(&out, &stream).unwrap().iter().all(|&byte| byte == 1));
        assert!(completion.is_done().unwrap());
        assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
    }

    /// M8: a graph may go while it runs.
    fn a_graph_dropped_in_flight_is_done_all_the_same() {
        let device = Wgpu::device();
        let Bench { stream, x, y, .. } = bench_on(&device);
        let big = stream.alloc::<u8>(16 << 20).unwrap();
        let (stream, mut graph, ()) = stream
            .capture(|c| {
                c.fill(&big, 1)?;
                Wgpu::add(c, &x, &y, 1.0)
            })
            .unwrap();
        stream.fill(&y, 0.0).unwrap();
        graph.replay(&stream).unwrap();
        drop((graph, big, x));
        let noise: Vec<_> = (0..4).map(|_| stream.upload(&[9.0f32, 9.0]).unwrap()).collect();
        assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
        drop(noise);
    }

    /// wgpu's waits disturb each other across threads; ours do not.
    fn threads_that_wait_and_look_at_once_are_all_answered() {
        let device = Wgpu::device();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let device = &device;
                scope.spawn(move || {
                    let Bench { stream, x, y, .. } = bench_on(device);
                    let (stream, mut graph, out) = stream
                        .capture(|c| {
                            Wgpu::add(c, &x, &y, 1.0)?;
                            c.download(&y)
                        })
                        .unwrap();
                    for round in 0..25u8 {
                        let (x0, thread) = (f32::from(round), f32::from(thread));
                        stream.write(&x, &[x0, thread]).unwrap();
                        graph.replay(&stream).unwrap();
                        let completion = stream.completion().unwrap();
                        while !completion.is_done().unwrap() {
                            let _ = completion.wait(Duration::from_micros(30)).unwrap();
                        }
                        let seen = graph.read(&out, &stream).unwrap();
                        assert_eq!(seen, [x0 + 1.0, thread + 1.0]);
                    }
                });
            }
        });
    }

    /// wgpu runs the program's callbacks inside our calls. They may use the device, with another stream.
    fn a_callback_of_the_programs_may_use_the_device() {
        let device = Wgpu::device();
        let Bench { stream, x, y, .. } = bench_on(&device);
        let other = device.stream().unwrap();
        let into = y.clone();
        Wgpu::add(&stream, &x, &y, 1.0).unwrap();
        let called = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let calling = std::sync::Arc::clone(&called);
        device.raw_queue().on_submitted_work_done(move || {
            other.fill(&into, 7.0).unwrap();
            assert_eq!(other.read(&into).unwrap(), [7.0, 7.0]);
            calling.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        stream.synchronize().unwrap();
        assert!(called.load(std::sync::atomic::Ordering::Relaxed));
        assert_eq!(stream.read(&y).unwrap(), [7.0, 7.0]);
    }

    /// M9: one queue, whichever stream and thread.
    fn work_of_two_streams_on_two_threads_is_in_the_order_of_its_calls() {
        let device = Wgpu::device();
        let Bench { stream, x, y, .. } = bench_on(&device);
        let (stream, mut graph, ()) = stream.capture(|c| Wgpu::accumulate(c, &x, &y)).unwrap();
        stream.fill(&y, 0.0).unwrap();
        let turn = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let other = device.stream().unwrap();
                for round in 0..20u8 {
                    turn.wait();
                    other.write(&x, &[f32::from(round), 1.0]).unwrap();
                    turn.wait();
                }
            });
            for _ in 0..20 {
                turn.wait();
                turn.wait();
                graph.replay(&stream).unwrap();
            }
        });
        assert_eq!(stream.read(&y).unwrap(), [190.0, 20.0]);
    }
}

/// x = [1, 2] and y = [0, 0] on a device that is there.
fn bench_on(device: &Wgpu) -> Bench<Wgpu> {
    let stream = Stream::on(device).unwrap();
    let (x, y) = (
        stream.upload(&[1.0, 2.0]).unwrap(),
        stream.alloc(2).unwrap(),
    );
    Bench {
        device: device.clone(),
        stream,
        x,
        y,
    }
}

/// Where there is no adapter, the request says what it looked for.
#[test]
fn a_machine_without_an_adapter_is_told_by_name() {
    const CHILD: &str = "GRAPH_CAPTURE_TEST_WITHOUT_ADAPTER";
    if std::env::var_os(CHILD).is_some() {
        let refused = Wgpu::request().unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
        assert!(
            refused.to_string().contains("install a driver"),
            "{refused}"
        );
        return;
    }
    // The choice of backends is the process's, so another one asks for one that this system has not.
    let foreign = if cfg!(windows) { "metal" } else { "dx12" };
    let test = "faults::a_machine_without_an_adapter_is_told_by_name";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(CHILD, "1")
        .env("WGPU_BACKEND", foreign)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && told.contains("1 passed"),
        "{told}"
    );
}
