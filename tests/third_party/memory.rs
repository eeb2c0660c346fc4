//! When memory goes back to the driver (M5, M7, M8).

use super::*;

/// M5, M7: `trim` gives free memory back, and is refused by name while any stream records.
#[test]
fn free_memory_goes_back_only_while_no_window_is_open() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    let other = Stream::on(&device).unwrap();
    let bystanders: [Buffer<u8, Free>; 2] = [other.alloc(1).unwrap(), other.alloc(1).unwrap()];
    let open = |stream: Stream<NoCapture, Free>| {
        let stream = stream.prepare().unwrap();
        stream.add(&x, &y, 1.0).unwrap();
        stream.begin().unwrap()
    };
    let (first, second) = (open(stream), open(other));
    thread::spawn(move || drop(bystanders)).join().unwrap();
    first.add(&x, &y, 1.0).unwrap();
    second.add(&x, &y, 1.0).unwrap();
    let refused = |device: &Free| {
        let error = device.captures().trim().unwrap_err();
        assert!(matches!(error, Error::TrimWhileRecording), "{error:?}");
        assert_eq!(device.live(), 4);
    };
    refused(&device);
    let (_first, _graph) = first.end().unwrap();
    refused(&device);
    let (_second, _other_graph) = second.end().unwrap();
    device.captures().trim().unwrap();
    assert_eq!(device.live(), 2);
}

/// M5: memory that another stream needs while one records is added, and none is given back.
#[test]
fn while_a_stream_records_another_only_adds_memory() {
    let bench = bench::<Free>();
    let other = Stream::<_, Free>::on(&bench.device).unwrap();
    drop(other.alloc::<u8>(1 << 20).unwrap());
    let (device, stream) = recording(bench);
    device.take_log();
    let more = other.alloc::<u8>(1 << 21).unwrap();
    assert!(stream.end().is_ok());
    let log = device.take_log();
    assert!(
        log.contains(&"allocate while recording".to_owned()),
        "{log:?}"
    );
    assert!(!log.iter().any(|call| call.starts_with("free")), "{log:?}");
    // And without a window the pool lets go of what is too much.
    drop(more);
    drop(other.alloc::<u8>(1 << 19).unwrap());
    assert!(device.take_log().contains(&"free".to_owned()));
}

/// Everything that a device gave out is back when all handles are gone.
#[test]
fn nothing_is_left_when_all_handles_are_gone() {
    let (device, stream) = recording(bench());
    let (stream, mut graph) = stream.end().unwrap();
    graph.replay(&stream).unwrap();
    let keep = Arc::new(());
    stream.keep(Arc::clone(&keep));
    drop((stream, graph));
    assert_eq!(Arc::strong_count(&keep), 1);
    device.captures().trim().unwrap();
    assert_eq!(device.live(), 0);
    assert_eq!(device.captures().memory(), DeviceMemory::default());
}

/// `keep`: where nobody can tell when the work is done, the value stays.
#[test]
fn what_was_kept_for_a_retired_driver_stream_is_not_dropped_early() {
    let kept = Arc::new(());
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    let stream = stream.prepare().unwrap();
    stream.keep(Arc::clone(&kept));
    stream.add(&x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    device.fail("abort", Fault::Stick);
    let stream = stream.abort();
    stream.synchronize().unwrap();
    drop(stream);
    assert_eq!(Arc::strong_count(&kept), 2);

    let stream = Stream::<_, Free>::on(&device).unwrap();
    stream.keep(Arc::clone(&kept));
    device.fail("synchronize", Fault::Refuse);
    drop(stream);
    assert_eq!(Arc::strong_count(&kept), 3);
}

/// M8: a graph may be dropped while its replay is in flight: what it kept stays until that is done.
#[test]
fn a_graph_dropped_in_flight_stays_until_its_replay_is_done() {
    let kept = Arc::new(());
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            c.keep(Arc::clone(&kept));
            let scratch = c.alloc(2)?;
            c.add(&x, &scratch, 1.0)?;
            c.add(&scratch, &y, 1.0)
        })
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(Arc::strong_count(&kept), 2, "the graph's");
    graph.replay(&stream).unwrap();
    thread::spawn(move || drop(graph)).join().unwrap();
    let held = device.captures().memory().held_by_graphs;
    assert_eq!((Arc::strong_count(&kept), held), (2, 8));
    // What others allocate is not what the replay uses.
    let other = Stream::<_, Free>::on(&device).unwrap();
    let noise: Vec<_> = (0..4)
        .map(|_| other.upload(&[9.0f32, 9.0]).unwrap())
        .collect();
    assert_eq!(stream.read(&y).unwrap(), [3.0, 4.0]);
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(device.captures().memory().held_by_graphs, 0);
    drop(noise);
}

/// M8: memory whose work is not done is not given back before it is.
#[test]
fn trim_waits_for_the_work_that_uses_the_memory() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    let scratch = stream.alloc(2).unwrap();
    stream.add(&x, &scratch, 1.0).unwrap();
    stream.add(&scratch, &y, 1.0).unwrap();
    drop((scratch, x));
    device.captures().trim().unwrap();
    assert_eq!(device.live(), 1);
    assert_eq!(stream.read(&y).unwrap(), [3.0, 4.0]);
}

/// M7, M8: where a wait fails, or a free, the memory is kept and counted.
#[test]
fn memory_that_cannot_be_given_back_is_counted_as_lost() {
    for fault in ["wait", "free"] {
        let Bench {
            device, stream, x, ..
        } = bench::<Free>();
        drop((stream, x));
        device.fail(fault, Fault::Refuse);
        let _ = device.captures().trim();
        let memory = device.captures().memory();
        assert!(
            memory.lost > 0 && memory.lost == memory.allocated,
            "{fault}: {memory:?}"
        );
        assert_eq!(memory.free, 0, "{fault}: {memory:?}");
    }
}

/// M1: the crate holds the memory, whatever the backend does.
#[test]
fn memory_of_a_graph_is_not_given_back() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    let (stream, mut graph, ()) = stream.capture(|c| c.add(&x, &y, 1.0)).unwrap();
    drop(x);
    device.captures().trim().unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
}

/// A completion asks, and does not wait.
#[test]
fn a_completion_can_be_asked_without_waiting() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Free>();
    stream.add(&x, &y, 1.0).unwrap();
    let completion = stream.completion().unwrap();
    let queued = device.queued();
    assert!(!completion.is_done().unwrap());
    assert!(!completion.wait(std::time::Duration::ZERO).unwrap());
    assert_eq!(device.queued(), queued);
    assert!(completion.wait(std::time::Duration::MAX).unwrap());
    assert_eq!(device.queued(), 0);
}
