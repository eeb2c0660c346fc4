//! Streams on several threads (L4, L5, L7, M9).

use std::sync::mpsc;
use std::time::Duration;

use super::*;

/// M9: two streams on two threads take turns on one buffer.
#[test]
fn two_streams_on_one_buffer_lose_no_update() {
    let Bench { device, stream, .. } = bench::<Host>();
    let count = stream.upload(&[0u32]).unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stream = device.stream().unwrap();
                for _ in 0..2000 {
                    stream
                        .launch("count", read_write(&count), |count| count[0] += 1)
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(stream.read(&count).unwrap(), [4000]);
}

/// M9: a replay is one submission; no write falls between its nodes.
#[test]
fn a_replay_is_not_torn_by_another_streams_write() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Host>();
    let z = stream.alloc::<f32>(2).unwrap();
    // The first node tells the writer to go, and gives it time to.
    let (go, gone) = mpsc::channel();
    let (go, waits) = (Arc::new(Mutex::new(go)), Arc::new(AtomicBool::new(false)));
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            let (go, waits) = (Arc::clone(&go), Arc::clone(&waits));
            c.launch("first", (read(&x), write(&y)), move |(x, y)| {
                y.copy_from_slice(x);
                if waits.load(Ordering::Relaxed) {
                    go.lock().unwrap().send(()).unwrap();
                    thread::sleep(Duration::from_millis(50));
                }
            })?;
            c.copy(&x, &z)
        })
        .unwrap();
    waits.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        let (device, x) = (&device, &x);
        scope.spawn(move || {
            let writer = device.stream().unwrap();
            gone.recv().unwrap();
            writer.write(x, &[7.0, 7.0]).unwrap();
        });
        graph.replay(&stream).unwrap();
    });
    assert_eq!(stream.read(&y).unwrap(), [1.0, 2.0]);
    assert_eq!(stream.read(&z).unwrap(), [1.0, 2.0]);
    assert_eq!(stream.read(&x).unwrap(), [7.0, 7.0]);
}

/// L5: the guard leaves the record from whichever thread it is dropped on.
#[test]
fn a_stream_dropped_on_another_thread_ends_its_capture() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Host>();
    let prepared = device.stream().unwrap().prepare().unwrap();
    let stream = stream.prepare().unwrap();
    Host::add(&stream, &x, &y, 1.0).unwrap();
    let recording = stream.begin().unwrap();
    thread::spawn(move || drop((prepared, recording)))
        .join()
        .unwrap();
    assert_idle(device.status());
}

/// L4: the owner of a recording that moves is the one that prepared it.
#[test]
fn a_recording_that_moves_keeps_its_owner_and_seals() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Host>();
    let owner = StreamId::current();
    let stream = stream.prepare().unwrap();
    Host::add(&stream, &x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    let (stream, mut graph) = thread::spawn(move || {
        assert_eq!(stream.owner(), owner);
        assert!(stream.status().is_capturing(owner));
        assert!(!stream.status().is_capturing(StreamId::current()));
        Host::add(&stream, &x, &y, 1.0).unwrap();
        stream.end().unwrap()
    })
    .join()
    .unwrap();
    assert!(!device.status().is_capturing(owner));
    graph.replay(&stream).unwrap();
}

/// L5: also while a thread is torn down.
#[test]
fn streams_dropped_in_a_thread_local_destructor_end_their_captures() {
    thread_local! {
        static LATE: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
    }
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<Host>();
    let (prepared, recording) = (device.stream().unwrap(), device.stream().unwrap());
    thread::spawn(move || {
        let prepared = prepared.prepare().unwrap();
        let recording = recording.prepare().unwrap();
        Host::add(&recording, &x, &y, 1.0).unwrap();
        let recording = recording.begin().unwrap();
        Host::add(&recording, &x, &y, 1.0).unwrap();
        LATE.with_borrow_mut(|late| {
            late.push(Box::new(stream));
            late.push(Box::new(prepared));
            late.push(Box::new(recording));
        });
    })
    .join()
    .unwrap();
    assert_idle(device.status());
    assert_usable(device.stream().unwrap());
}

/// L7: ids of threads are their own, and no number collides with them.
#[test]
fn ids_of_threads_are_never_ids_that_were_given() {
    let mine = StreamId::current();
    assert_eq!(mine, StreamId::current());
    let other = thread::spawn(StreamId::current).join().unwrap();
    assert_ne!(mine, other);
    for id in 0..10_000 {
        assert_ne!(StreamId::new(id), mine);
    }
    assert_eq!(StreamId::new(7).to_string(), "stream 7");
    assert!(mine.to_string().starts_with("thread "), "{mine}");
    assert_eq!(format!("{:?}", StreamId::new(7)), "StreamId(7)");
    assert!(
        format!("{mine:?}").starts_with("StreamId(thread "),
        "{mine:?}"
    );
}
