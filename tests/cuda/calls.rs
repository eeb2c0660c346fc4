//! What is asked of the driver, seen in the log of its calls; and what that costs beside hand-written code.

use cudarc::driver::sys;
use graph_capture::cuda::{Cuda, cudarc};
use graph_capture::server::StreamPool;
use graph_capture::{Buffer, NoCapture, Stream, StreamId, read, read_write, write};

use crate::driver::{self, calls_of, count, queued};
use crate::lab::{Kernels, add, config, kernels};

struct Bench {
    device: Cuda,
    kernels: Kernels,
    stream: Stream<NoCapture, Cuda>,
    x: Buffer<f32, Cuda>,
    y: Buffer<f32, Cuda>,
}

/// On the simulated driver, which has a log.
fn bench() -> Option<Bench> {
    if driver::skipped() {
        return None;
    }
    let context = driver::context();
    let kernels = kernels(&context);
    let device = Cuda::adopt(context).unwrap();
    let stream = device.stream().unwrap();
    let (x, y) = (
        stream.upload(&[1.0, 2.0]).unwrap(),
        stream.alloc(2).unwrap(),
    );
    stream.synchronize().unwrap();
    Some(Bench {
        device,
        kernels,
        stream,
        x,
        y,
    })
}

/// For a thousand launches and a replay, the calls are those of hand-written code.
#[test]
fn a_recorded_launch_and_a_replay_are_one_call_each() {
    const LAUNCHES: usize = 1000;
    let Some(Bench {
        stream, kernels, ..
    }) = bench()
    else {
        return;
    };
    let four = [(); 4].map(|()| stream.alloc::<f32>(2).unwrap());
    let [a, b, c, d] = &four;
    let step = |commands: &graph_capture::Commands<Cuda>| {
        for _ in 0..LAUNCHES {
            let arguments = (read(a), read(b), read_write(c), write(d));
            // SAFETY: it takes four pointers, and does nothing.
            unsafe { commands.launch("four", &kernels.four, config(1), arguments) }.unwrap();
        }
    };
    let stream = stream.prepare().unwrap();
    step(&stream);
    let stream = stream.begin().unwrap();
    let ((), recorded) = calls_of(|| step(&stream));
    assert_eq!(recorded, vec!["cuLaunchKernel"; LAUNCHES]);
    let ((stream, mut graph), ended) = calls_of(|| stream.end().unwrap());
    let by_hand = [
        "cuStreamEndCapture",
        "cuGraphGetNodes",
        "cuGraphInstantiateWithParams",
        "cuGraphUpload",
        "cuGraphDestroy",
    ];
    // The rest makes sure that nothing is broken by them: whose context is current, and the mode.
    let beside = |call: &&String| !call.starts_with("cuCtx") && !call.starts_with("cuThread");
    let made: Vec<_> = ended
        .iter()
        .filter(beside)
        .filter(|call| !call.contains("Event"))
        .collect();
    assert_eq!(made, by_hand);
    let ((), replayed) = calls_of(|| graph.replay(&stream).unwrap());
    assert_eq!(replayed, ["cuGraphLaunch"]);
}

/// Another library may have made another context current, and nothing is refused for it.
#[test]
fn a_replay_behind_foreign_work_makes_its_context_current_first() {
    let Some(Bench {
        stream,
        kernels,
        x,
        y,
        ..
    }) = bench()
    else {
        return;
    };
    let other = driver::context();
    let (stream, mut graph, ()) = stream.capture(|c| add(c, &kernels, &x, &y, 1.0)).unwrap();
    // SAFETY: it submits nothing.
    unsafe {
        stream.foreign("library", &[], read(&x), |_, _| {
            other.bind_to_thread().unwrap();
            Ok(())
        })
    }
    .unwrap();
    let ((), calls) = calls_of(|| graph.replay(&stream).unwrap());
    assert_eq!(count(&calls, "cuGraphLaunch"), 1, "{calls:?}");
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
}

/// M9: streams that share no memory do not wait for each other, and a replay asks for nothing else.
#[test]
fn replays_that_share_nothing_wait_for_nothing() {
    let Some(Bench {
        device,
        stream,
        kernels,
        x,
        y,
    }) = bench()
    else {
        return;
    };
    let other = device.stream().unwrap();
    let (p, q) = (other.upload(&[1.0, 2.0]).unwrap(), other.alloc(2).unwrap());
    let (stream, mut first, ()) = stream.capture(|c| add(c, &kernels, &x, &y, 1.0)).unwrap();
    let (other, mut second, ()) = other.capture(|c| add(c, &kernels, &p, &q, 1.0)).unwrap();
    let ((), calls) = calls_of(|| {
        for _ in 0..3 {
            first.replay(&stream).unwrap();
            second.replay(&other).unwrap();
        }
    });
    assert_eq!(calls, vec!["cuGraphLaunch"; 6]);
}

/// M9: and where they share some, the device waits, and not the host.
#[test]
fn a_replay_waits_on_the_device_for_what_it_reads() {
    let Some(Bench {
        device,
        stream,
        kernels,
        x,
        y,
    }) = bench()
    else {
        return;
    };
    let (stream, mut graph, ()) = stream.capture(|c| add(c, &kernels, &x, &y, 1.0)).unwrap();
    stream.synchronize().unwrap();
    let other = device.stream().unwrap();
    other.write(&x, &[10.0, 20.0]).unwrap();
    let before = queued(device.context());
    let ((), calls) = calls_of(|| graph.replay(&stream).unwrap());
    assert_eq!(count(&calls, "cuStreamWaitEvent"), 1, "{calls:?}");
    assert_eq!(count(&calls, "cuGraphLaunch"), 1, "{calls:?}");
    assert!(
        !calls.iter().any(|call| call.contains("Synchronize")),
        "{calls:?}"
    );
    assert!(queued(device.context()) > before, "nothing has run");
    // It is known now, and not asked for again.
    let ((), calls) = calls_of(|| graph.replay(&stream).unwrap());
    assert_eq!(calls, ["cuGraphLaunch"]);
    assert_eq!(stream.read(&y).unwrap(), [11.0, 21.0]);
}

/// What it costs to hand out the stream in a window.
#[test]
fn recorded_foreign_work_costs_six_calls_and_one_for_each_node() {
    let Some(Bench { stream, y, .. }) = bench() else {
        return;
    };
    let foreign = |commands: &graph_capture::Commands<Cuda>| {
        // SAFETY: it submits nothing.
        unsafe { commands.foreign("library", &[], write(&y), |_, _| Ok(())) }.unwrap();
    };
    let stream = stream.prepare().unwrap();
    foreign(&stream);
    stream.fill(&y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    let ((), calls) = calls_of(|| foreign(&stream));
    let counts = [
        "cuCtxGetCurrent",
        "cuStreamGetCaptureInfo_v2",
        "cuGraphGetNodes",
    ];
    assert_eq!(calls, [counts, counts].concat());
    stream.fill(&y, 1.0).unwrap();
    let (ended, calls) = calls_of(|| stream.end());
    assert!(ended.is_ok());
    assert_eq!(count(&calls, "cuGraphNodeGetType"), 1, "{calls:?}");
}

/// M4: in a window nothing is allocated, on the device or the host, and nothing is waited for.
#[test]
fn a_window_asks_for_nothing_but_its_commands() {
    let Some(Bench {
        stream,
        kernels,
        x,
        y,
        ..
    }) = bench()
    else {
        return;
    };
    let step = |commands: &graph_capture::Commands<Cuda>| {
        let large = commands.upload(&[1u8; 100_000]).unwrap();
        let scratch = commands.alloc::<f32>(2).unwrap();
        add(commands, &kernels, &x, &scratch, 1.0).unwrap();
        commands.copy(&scratch, &y).unwrap();
        commands.fill(&large, 3).unwrap();
        commands.fill(&y, 1.5).unwrap();
        drop(large);
        commands.download(&y).unwrap()
    };
    let stream = stream.prepare().unwrap();
    step(&stream);
    let stream = stream.begin().unwrap();
    let (_, calls) = calls_of(|| step(&stream));
    assert_eq!(
        calls,
        [
            "cuMemcpyHtoDAsync_v2",
            "cuMemsetD8Async",
            "cuLaunchKernel",
            "cuMemcpyDtoDAsync_v2",
            "cuMemsetD8Async",
            "cuMemsetD32Async",
            "cuMemcpyDtoDAsync_v2",
        ]
    );
    assert!(stream.end().is_ok());
}

/// Values that the device does not repeat by itself: every byte that is meant, and no other.
#[test]
fn a_fill_writes_its_bytes_and_no_more() {
    let device = Cuda::adopt(driver::context()).unwrap();
    let mut stream = device.stream().unwrap();
    for len in 1..10 {
        let buffer = stream.upload(&[[7u8; 3]; 12]).unwrap();
        let part = buffer.slice(1..=len).unwrap();
        let (idle, mut graph, ()) = stream.capture(|c| c.fill(&part, [1, 2, 3])).unwrap();
        stream = idle;
        for replayed in [false, true] {
            if replayed {
                stream.write(&buffer, &[[7u8; 3]; 12]).unwrap();
                graph.replay(&stream).unwrap();
            }
            let mut right = [[7u8; 3]; 12];
            right[1..=len].fill([1, 2, 3]);
            assert_eq!(stream.read(&buffer).unwrap(), right, "{len}");
        }
    }
}

/// M7: a graph keeps room for what it writes, however often the warm-up wrote it.
#[test]
fn a_graph_pins_what_it_writes_and_no_more() {
    let Some(Bench { device, stream, .. }) = bench() else {
        return;
    };
    let large = stream.alloc::<u8>(100_000).unwrap();
    let captured = stream.capture_with(5, |c| c.write(&large, &[1; 100_000]));
    let (stream, _graph, ()) = captured.unwrap();
    stream.synchronize().unwrap();
    device.trim().unwrap();
    assert_eq!(device.memory().pinned, 2 << 16);
}

/// M7, N12: and whatever others write beside its warm-up.
#[test]
fn a_graph_pins_nothing_for_neighbours() {
    let Some(Bench { device, .. }) = bench() else {
        return;
    };
    let (owner, neighbour) = (StreamId::new(1), StreamId::new(2));
    let mut pool = StreamPool::new(device.clone(), 1).unwrap();
    let large = pool.submit(owner, |c| c.alloc::<u8>(100_000)).unwrap();
    let other = pool.submit(neighbour, |c| c.alloc(1_000_000)).unwrap();
    pool.prepare(owner).unwrap();
    pool.write(owner, &large, &[1; 100_000]).unwrap();
    pool.write(neighbour, &other, &[2u8; 1_000_000]).unwrap();
    pool.begin(owner).unwrap();
    pool.write(owner, &large, &[1; 100_000]).unwrap();
    assert!(pool.end(owner).unwrap().into_result().is_ok());
    pool.synchronize(owner).unwrap();
    device.trim().unwrap();
    assert_eq!(device.memory().pinned, 2 << 16);
}

/// M7: a thousand writes go through pinned memory of a bounded size, also where nobody waits.
#[test]
fn writes_share_pinned_memory() {
    let Some(Bench { device, stream, .. }) = bench() else {
        return;
    };
    let large = stream.alloc::<u8>(100_000).unwrap();
    for round in 0..1000u32 {
        stream.write(&large, &[round as u8; 100_000]).unwrap();
        if round == 100 {
            stream.synchronize().unwrap();
        }
    }
    assert_eq!(stream.read(&large).unwrap(), [231u8; 100_000]);
    let pinned = device.memory().pinned;
    assert!(pinned <= (33 + 300) << 20, "{pinned}");
    device.trim().unwrap();
    assert_eq!(device.memory().pinned, 0);
}

/// And none of it is used again before its write is done, also where nobody waits.
#[test]
fn pinned_memory_is_used_again_when_its_writes_are_done() {
    const BYTES: usize = 50_000;
    let Some(Bench { stream, .. }) = bench() else {
        return;
    };
    let buffers: Vec<_> = (0..50u8)
        .map(|value| stream.upload(&[value; BYTES]).unwrap())
        .collect();
    for (value, buffer) in (100..).zip(&buffers) {
        stream.write(buffer, &[value; BYTES]).unwrap();
    }
    for (value, buffer) in (100..).zip(&buffers) {
        assert!(
            stream
                .read(buffer)
                .unwrap()
                .iter()
                .all(|byte| *byte == value)
        );
    }
}

/// M8: a graph may be dropped while its replay is in flight, from any thread.
#[test]
fn a_graph_is_dropped_in_flight_on_another_thread() {
    let Some(Bench {
        device,
        stream,
        kernels,
        x,
        y,
    }) = bench()
    else {
        return;
    };
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            c.write(&x, &[7.0, 8.0])?;
            add(c, &kernels, &x, &y, 1.0)
        })
        .unwrap();
    graph.replay(&stream).unwrap();
    assert!(queued(device.context()) > 0);
    std::thread::spawn(move || drop(graph)).join().unwrap();
    drop(x);
    // New memory, of the same sizes, and new pinned memory: none of it may be the graph's.
    let others: Vec<_> = (0..4)
        .map(|_| stream.upload(&[9.0f32, 9.0]).unwrap())
        .collect();
    assert_eq!(stream.read(&y).unwrap(), [8.0, 9.0]);
    assert_eq!(driver::live(device.context()).executables, 0);
    drop(others);
}

/// M8: also where an earlier replay of it is known to be done.
#[test]
fn a_graph_is_dropped_in_flight_after_replays_that_are_done() {
    let Some(Bench {
        stream,
        kernels,
        x,
        y,
        ..
    }) = bench()
    else {
        return;
    };
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            c.write(&x, &[7.0, 8.0])?;
            add(c, &kernels, &x, &y, 1.0)
        })
        .unwrap();
    graph.replay(&stream).unwrap();
    stream.synchronize().unwrap();
    graph.replay(&stream).unwrap();
    drop(graph);
    // All pinned memory that is free is used again.
    let others: Vec<_> = (0..6)
        .map(|_| stream.upload(&[9u8; 60_000]).unwrap())
        .collect();
    assert_eq!(stream.read(&y).unwrap(), [8.0, 9.0]);
    drop(others);
}

/// M8: a wait that fails keeps the memory, and counts it.
#[test]
fn memory_that_nobody_could_wait_for_is_kept_and_counted() {
    let Some(Bench {
        device,
        stream,
        kernels,
        x,
        y,
    }) = bench()
    else {
        return;
    };
    // SAFETY: it takes nothing, and traps.
    unsafe { stream.launch("trap", &kernels.trap, config(1), ()) }.unwrap();
    add(&stream, &kernels, &x, &y, 1.0).unwrap();
    drop((x, y));
    device.trim().unwrap();
    let memory = device.memory();
    assert!(memory.device.lost >= 16, "{memory:?}");
    assert_eq!(memory.device.free, 0);
}

/// The bindings are those of the driver's own functions.
#[test]
fn the_loaded_driver_is_the_one_that_was_opened() {
    driver::context();
    let mut version = 0;
    // SAFETY: it writes a number there.
    let code = unsafe { sys::cuDriverGetVersion(&mut version) };
    assert_eq!(code as u32, 0);
    assert!(version >= 12_000, "{version}");
}
