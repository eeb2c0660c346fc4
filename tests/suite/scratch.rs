//! Rule M2: a graph holds the peak of what its window allocated, whatever the sizes, and no two
//! buffers that are there at once share a byte.

use graph_capture::{Buffer, Commands, DeviceMemory, Error, NoCapture, Stream};

use super::{Bench, Lab, bench};

fn memory<B: Lab>(device: &B) -> DeviceMemory {
    device.captures().memory()
}

/// Eight elements go, and sixteen come: sixteen are held, and not twenty-four.
pub fn scratch_of_one_size_serves_another<B: Lab>() {
    let device = B::device();
    let stream = Stream::on(&device).unwrap();
    let (stream, mut graph, large) = stream
        .capture(|c| {
            drop(c.upload(&[1f32; 8])?);
            c.upload(&[2f32; 16])
        })
        .unwrap();
    let (figures, own) = (memory(&device), graph.memory());
    assert_eq!((figures.in_use, figures.held_by_graphs), (64, 0));
    assert_eq!(own.device_bytes, 64);
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&large).unwrap(), [2.0; 16]);
    drop(large);
    assert_eq!(memory(&device).held_by_graphs, 64);
}

/// The other way round, and again: the larger one's page serves all.
pub fn scratch_serves_smaller_scratch_too<B: Lab>() {
    let Bench { stream, y, .. } = bench::<B>();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            for len in [40, 4, 16, 30, 2] {
                let scratch = c.upload(&vec![len as f32; len])?;
                B::accumulate(c, &scratch.slice(..2).unwrap(), &y)?;
            }
            Ok(())
        })
        .unwrap();
    let held = graph.memory().device_bytes - 8;
    assert!((160..=180).contains(&held), "{held}, and 160 at once");
    stream.fill(&y, 0.0).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [92.0; 2]);
}

/// Two buffers for whose bytes one was there before: no whole page could serve them.
fn two_in_one_page<B: Lab>(
    c: &Commands<B>,
    x: &Buffer<f32, B>,
) -> Result<[Buffer<f32, B>; 2], Error> {
    drop(c.upload(&[9f32; 32])?);
    let (first, second) = (c.alloc(16)?, c.upload(&[5f32; 16])?);
    B::add(c, x, &first.slice(2..4).unwrap(), 1.0)?;
    c.copy(&second.slice(..4).unwrap(), &first.slice(4..8).unwrap())?;
    B::accumulate(c, &first, &second)?;
    Ok([first, second])
}

fn firsts() -> [Vec<f32>; 2] {
    let mut first = vec![0.0; 16];
    first[2..8].copy_from_slice(&[2.0, 3.0, 5.0, 5.0, 5.0, 5.0]);
    let second = first.iter().map(|x| x + 5.0).collect();
    [first, second]
}

#[track_caller]
fn assert_firsts<B: Lab>(stream: &Stream<NoCapture, B>, buffers: &[Buffer<f32, B>; 2]) {
    for (buffer, expected) in buffers.iter().zip(firsts()) {
        assert_eq!(stream.read(buffer).unwrap(), expected);
    }
}

/// Where the backend can: launches and copies between two parts of one page are right.
pub fn buffers_that_are_there_at_once_have_their_own_parts_of_a_page<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let (stream, mut graph, both) = stream.capture(|c| two_in_one_page(c, &x)).unwrap();
    let scratch = graph.memory().device_bytes - 8;
    assert_eq!(scratch, if B::PARTS_MEMORY { 128 } else { 192 });
    for _ in 0..2 {
        graph.replay(&stream).unwrap();
        assert_firsts(&stream, &both);
    }
}

/// M11.
pub fn two_buffers_in_one_page_have_marks_of_their_own<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let (stream, mut graph, both) = stream.capture(|c| two_in_one_page(c, &x)).unwrap();
    graph.replay(&stream).unwrap();
    let [first, second] = &both;
    stream.write(first, &[0.0]).unwrap_err();
    assert!(matches!(stream.check(first), Err(Error::Marked { .. })));
    stream.check(second).unwrap();
    stream.write(second, &[1.0]).unwrap_err();
    stream.fill(first, 7.0).unwrap();
    stream.check(first).unwrap();
    assert!(matches!(stream.check(second), Err(Error::Marked { .. })));
    assert_eq!(stream.read(first).unwrap(), [7.0; 16]);
    graph.replay(&stream).unwrap();
    assert_firsts(&stream, &both);
}

/// M1, M7: what the caller keeps of a page keeps the page.
pub fn a_buffer_of_a_shared_page_outlives_window_and_graph<B: Lab>() {
    let Bench {
        device, stream, x, ..
    } = bench::<B>();
    let (stream, mut graph, both) = stream.capture(|c| two_in_one_page(c, &x)).unwrap();
    graph.replay(&stream).unwrap();
    drop(graph);
    stream.synchronize().unwrap();
    let before = memory(&device);
    assert_eq!((before.in_use, before.held_by_graphs), (8 + 128, 0));
    let noise: Vec<Buffer<f32, B>> = (0..8).map(|_| stream.upload(&[8.0; 32]).unwrap()).collect();
    assert_firsts(&stream, &both);
    let [first, second] = both;
    drop((first, noise));
    device.captures().trim().unwrap();
    let noise: Vec<Buffer<f32, B>> = (0..8).map(|_| stream.upload(&[8.0; 16]).unwrap()).collect();
    assert_eq!(stream.read(&second).unwrap(), firsts()[1]);
    drop((second, noise));
    stream.synchronize().unwrap();
    device.captures().trim().unwrap();
    let left = memory(&device);
    assert_eq!((left.in_use, left.held_by_graphs, left.free), (8, 0, 0));
}

/// M4: what the plan had for it is taken, so it gets other memory: the pool's.
pub fn scratch_that_the_recording_drops_later_is_not_taken<B: Lab>() {
    let Bench {
        device, stream, y, ..
    } = bench::<B>();
    let other = Stream::on(&device).unwrap();
    let stream = stream.prepare().unwrap();
    drop(stream.upload(&[1f32; 2]).unwrap());
    let second = stream.upload(&[2f32; 4]).unwrap();
    B::accumulate(&stream, &second.slice(..2).unwrap(), &y).unwrap();
    drop(second);
    let stream = stream.begin().unwrap();
    let first = stream.upload(&[1f32; 2]).unwrap();
    drop(other.alloc::<f32>(4).unwrap());
    let second = stream.upload(&[2f32; 4]).unwrap();
    B::accumulate(&stream, &second.slice(..2).unwrap(), &y).unwrap();
    let (stream, mut graph) = stream.end().unwrap();
    for _ in 0..2 {
        graph.replay(&stream).unwrap();
        assert_eq!(stream.read(&first).unwrap(), [1.0; 2]);
        assert_eq!(stream.read(&second).unwrap(), [2.0; 4]);
    }
}

/// M4: and where the pool has none, that is an error with a name.
pub fn scratch_that_is_dropped_later_may_exhaust_the_pool<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let stream = stream.prepare().unwrap();
    drop(stream.upload(&[1f32; 8]).unwrap());
    drop(stream.upload(&[2f32; 16]).unwrap());
    let stream = stream.begin().unwrap();
    let first = stream.upload(&[1f32; 8]).unwrap();
    let error = stream.upload(&[2f32; 16]).unwrap_err();
    let exhausted = |error: &Error| matches!(error, Error::PoolExhausted { asked: 64, .. });
    assert!(exhausted(&error), "{error:?}");
    drop(first);
    drop(stream);
}

/// A recording that drops earlier than its warm-up holds its own peak.
pub fn scratch_that_the_recording_drops_earlier_is_taken<B: Lab>() {
    let Bench { stream, y, .. } = bench::<B>();
    let mut results = Vec::new();
    let mut pass = 0;
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            pass += 1;
            for round in 0..5 {
                let result = c.upload(&vec![round as f32; 8 + round % 2 * 8])?;
                B::accumulate(c, &result.slice(..2).unwrap(), &y)?;
                results.extend((pass == 1).then_some(result));
            }
            Ok(())
        })
        .unwrap();
    let one_of_each_size = 32 + 64;
    assert_eq!(graph.memory().device_bytes, 8 + one_of_each_size);
    stream.fill(&y, 0.0).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [10.0; 2]);
    for (round, result) in results.iter().enumerate() {
        let bytes = stream.read(result).unwrap();
        assert!(bytes.iter().all(|&x| x == round as f32), "{bytes:?}");
    }
}

/// M4: but only as long as the plan has nothing else there, which would find it taken.
pub fn scratch_that_is_dropped_earlier_is_not_lent_past_the_plan<B: Lab>() {
    let Bench { stream, y, .. } = bench::<B>();
    let mut pass = 0;
    let (stream, mut graph, stays) = stream
        .capture(|c| {
            pass += 1;
            let first = c.upload(&[1f32; 16])?;
            let first = (pass == 1).then_some(first);
            let stays = c.upload(&[2f32; 16])?;
            drop(first);
            let last = c.upload(&[3f32; 16])?;
            B::accumulate(c, &last.slice(..2).unwrap(), &y)?;
            Ok(stays)
        })
        .unwrap();
    stream.fill(&y, 0.0).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [3.0; 2]);
    assert_eq!(stream.read(&stays).unwrap(), [2.0; 16]);
}

/// M2: another capture recorded it while it had a handle, so no part of it is taken again.
pub fn a_part_of_a_page_that_another_graph_touches_is_not_taken_again<B: Lab>() {
    let Bench {
        device, stream, y, ..
    } = bench::<B>();
    let other = Stream::on(&device).unwrap();
    let stream = stream.prepare().unwrap();
    drop(stream.upload(&[1f32; 2]).unwrap());
    drop(stream.upload(&[2f32; 16]).unwrap());
    let stream = stream.begin().unwrap();
    let shared = stream.upload(&[1f32; 2]).unwrap();
    let (other, mut writes, ()) = other
        .capture(|c| {
            c.write(&shared, &[5.0, 6.0])?;
            B::add(c, &shared, &y, 0.0)
        })
        .unwrap();
    drop(shared);
    // From the pool, since the page of its plan is not free.
    drop(other.alloc::<f32>(16).unwrap());
    let mine = stream.upload(&[2f32; 16]).unwrap();
    let (_stream, mut graph) = stream.end().unwrap();
    graph.replay(&other).unwrap();
    writes.replay(&other).unwrap();
    assert_eq!(other.read(&mine).unwrap(), [2.0; 16]);
    assert_eq!(other.read(&y).unwrap(), [5.0, 6.0]);
}

/// M2, M3: what another capture recorded in the warm-up stays in the plan, as it will in the recording.
pub fn scratch_that_another_graph_touches_in_both_runs_is_planned_for<B: Lab>() {
    let Bench {
        device, stream, y, ..
    } = bench::<B>();
    let mut other = Some(Stream::on(&device).unwrap());
    let mut graphs = Vec::new();
    let (_stream, mut graph, second) = stream
        .capture(|c| {
            let first = c.upload(&[1f32; 100])?;
            let (back, graph, ()) = other.take().unwrap().capture(|c| c.fill(&first, 7.0))?;
            other = Some(back);
            graphs.push(graph);
            B::accumulate(c, &first.slice(..2).unwrap(), &y)?;
            drop(first);
            c.upload(&[2f32; 100])
        })
        .unwrap();
    let other = other.unwrap();
    graph.replay(&other).unwrap();
    graphs.iter_mut().for_each(|g| g.replay(&other).unwrap());
    assert_eq!(other.read(&second).unwrap(), [2.0; 100]);
}

/// M3: a warm-up keeps as much as it had at once, and not a page of each size that it ever had.
pub fn a_warm_up_keeps_no_more_than_it_had_at_once<B: Lab>() {
    let Bench { device, stream, .. } = bench::<B>();
    let stream = stream.prepare().unwrap();
    for bytes in (1000..2000).step_by(100) {
        drop(stream.alloc::<u8>(bytes).unwrap());
        let now = memory(&device);
        assert!(now.allocated <= 3 * bytes, "{bytes}: {now:?}");
    }
    drop(stream);
}

/// M5: while it is open nothing goes back, so what nobody needs goes before.
pub fn a_window_opens_with_little_free<B: Lab>() {
    let Bench { device, stream, .. } = bench::<B>();
    let many: Vec<Buffer<u8, B>> = (0..10).map(|_| stream.alloc(1000).unwrap()).collect();
    drop((stream.alloc::<u8>(100).unwrap(), many));
    stream.synchronize().unwrap();
    let stream = stream.prepare().unwrap();
    // A page of that size is free, so the driver is not asked.
    drop(stream.alloc::<u8>(100).unwrap());
    assert!(memory(&device).allocated > 10_000);
    let stream = stream.begin().unwrap();
    let now = memory(&device);
    assert!(now.allocated < 1000, "{now:?}");
    drop(stream);
}

/// M7: all that was planned goes back, used or not.
pub fn a_recording_that_is_given_up_gives_its_pages_back<B: Lab>() {
    let Bench {
        device, stream, x, ..
    } = bench::<B>();
    let stream = stream.prepare().unwrap();
    drop(two_in_one_page(&stream, &x).unwrap());
    let recording = stream.begin().unwrap();
    let kept = recording.upload(&[9f32; 32]).unwrap();
    let stream = recording.abort().prepare().unwrap();
    drop(stream.upload(&[9f32; 32]).unwrap());
    let stream = stream.begin().unwrap().abort();
    stream.read(&kept).unwrap_err();
    drop(kept);
    stream.synchronize().unwrap();
    device.captures().trim().unwrap();
    let left = memory(&device);
    assert_eq!((left.in_use, left.held_by_graphs, left.free), (8, 0, 0));
}
