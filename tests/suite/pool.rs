//! Rules M2 to M5 and M7: the memory that a recording takes and that a graph holds.

use graph_capture::{Buffer, DeviceMemory, Error, Stream};

use super::{Bench, Lab, assert_usable, bench, told};

fn memory<B: Lab>(device: &B) -> DeviceMemory {
    device.captures().memory()
}

/// A pool that never reuses is no pool.
pub fn memory_that_is_dropped_serves_the_next_allocation<B: Lab>() {
    let Bench { device, stream, .. } = bench::<B>();
    drop(stream.alloc::<u8>(1000).unwrap());
    let before = memory(&device);
    for _ in 0..100 {
        drop(stream.alloc::<u8>(1000).unwrap());
    }
    assert_eq!(memory(&device), before);
}

/// M7: every byte is in use, held by a graph, or free.
pub fn figures_of_memory_tell_where_each_byte_is<B: Lab>() {
    let device = B::device();
    assert_eq!(memory(&device), DeviceMemory::default());
    let stream = Stream::on(&device).unwrap();
    let x = stream.upload(&[1.0f32; 8]).unwrap();
    let y = stream.alloc::<f32>(8).unwrap();
    let now = memory(&device);
    assert_eq!((now.in_use, now.held_by_graphs, now.free), (64, 0, 0));

    let (stream, graph, ()) = stream
        .capture(|c| {
            let scratch = c.alloc(8)?;
            B::add(c, &x, &scratch, 1.0)?;
            B::add(c, &scratch, &y, 1.0)
        })
        .unwrap();
    let now = memory(&device);
    assert_eq!((now.in_use, now.held_by_graphs, now.free), (64, 32, 0));

    drop((x, y));
    let now = memory(&device);
    assert_eq!((now.in_use, now.held_by_graphs, now.free), (0, 96, 0));
    drop(graph);
    stream.synchronize().unwrap();
    let now = memory(&device);
    assert_eq!((now.in_use, now.held_by_graphs, now.free), (0, 0, 96));
    assert_eq!((now.waiting, now.lost, now.allocated), (0, 0, 96));
    device.captures().trim().unwrap();
    assert_eq!(memory(&device), DeviceMemory::default());
}

/// M2: what a live graph touches is given to nobody else.
pub fn memory_of_a_live_graph_is_given_to_nobody_else<B: Lab>() {
    let Bench { stream, y, .. } = bench::<B>();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            let scratch = c.upload(&[1.0, 2.0])?;
            B::add(c, &scratch, &y, 0.0)?;
            B::accumulate(c, &scratch, &y)
        })
        .unwrap();
    let others: Vec<Buffer<f32, B>> = (0..8)
        .map(|_| stream.upload(&[9.0, 9.0]).unwrap())
        .collect();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [2.0, 4.0]);
    for other in &others {
        assert_eq!(stream.read(other).unwrap(), [9.0, 9.0]);
    }
}

/// M2: memory that was born and dropped in a window serves that window again, so a graph holds the
/// peak and not the sum.
pub fn scratch_of_a_window_serves_it_again<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            for _ in 0..10 {
                let scratch = c.alloc(2)?;
                B::add(c, &x, &scratch, 1.0)?;
                B::accumulate(c, &scratch, &y)?;
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.memory().buffers, 3, "x, y and one piece of scratch");
    stream.fill(&y, 0.0).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [20.0, 30.0]);
}

/// M2: but not while any handle to it is left.
pub fn scratch_that_a_handle_reaches_is_not_taken_again<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (stream, mut graph, ()) = stream
        .capture(|c| {
            let first = c.upload(&[5.0, 6.0])?;
            let slice = first.slice(..).unwrap();
            drop(first);
            let second = c.alloc(2)?;
            B::add(c, &x, &second, 1.0)?;
            B::add(c, &slice, &y, 0.0)
        })
        .unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [5.0, 6.0]);
}

/// M2: nor what another capture has recorded meanwhile.
pub fn scratch_that_another_graph_touches_is_not_taken_again<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let other = Stream::on(&device).unwrap();
    let stream = stream.prepare().unwrap();
    for _ in 0..2 {
        let scratch = stream.alloc(2).unwrap();
        B::add(&stream, &x, &scratch, 1.0).unwrap();
    }
    let stream = stream.begin().unwrap();
    let shared = stream.alloc(2).unwrap();
    B::add(&stream, &x, &shared, 1.0).unwrap();
    let (other, mut writes, ()) = other
        .capture(|c| {
            c.write(&shared, &[5.0, 6.0])?;
            B::add(c, &shared, &y, 0.0)
        })
        .unwrap();
    drop(shared);
    // The warm-up had only one of them at once.
    let error = stream.alloc::<f32>(2).unwrap_err();
    assert!(matches!(error, Error::PoolExhausted { .. }), "{error:?}");
    drop(stream);
    writes.replay(&other).unwrap();
    assert_eq!(other.read(&y).unwrap(), [5.0, 6.0]);
}

/// M2: a buffer from before the window, dropped inside it, is an input, and is not taken.
pub fn an_input_dropped_in_the_window_is_not_taken_as_scratch<B: Lab>() {
    let Bench { stream, y, .. } = bench::<B>();
    let input = stream.upload(&[5.0, 6.0]).unwrap();
    let stream = stream.prepare().unwrap();
    let warm_up = stream.alloc::<f32>(2).unwrap();
    B::add(&stream, &input, &y, 1.0).unwrap();
    drop(warm_up);
    let again = stream.alloc(2).unwrap();
    B::add(&stream, &y, &again, 1.0).unwrap();
    drop(again);
    let stream = stream.begin().unwrap();
    let recorded = stream.alloc::<f32>(2).unwrap();
    B::add(&stream, &input, &y, 1.0).unwrap();
    drop((recorded, input));
    let again = stream.alloc(2).unwrap();
    B::add(&stream, &y, &again, 1.0).unwrap();
    let (stream, mut graph) = stream.end().unwrap();
    for _ in 0..2 {
        stream.fill(&y, 0.0).unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(stream.read(&y).unwrap(), [6.0, 7.0]);
    }
}

/// M3: what the warm-up freed is kept for the recording, whatever others allocate meanwhile.
pub fn what_the_warm_up_freed_is_kept_for_the_recording<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let work = |c: &graph_capture::Commands<B>| {
        let scratch = c.alloc(2).unwrap();
        B::add(c, &x, &scratch, 1.0).unwrap();
        B::add(c, &scratch, &y, 1.0).unwrap();
    };
    let other = Stream::on(&device).unwrap();
    let stream = stream.prepare().unwrap();
    work(&stream);
    let greedy: Vec<Buffer<f32, B>> = (0..4).map(|_| other.alloc(2).unwrap()).collect();
    let stream = stream.begin().unwrap();
    let before = memory(&device).allocated;
    work(&stream);
    assert_eq!(
        memory(&device).allocated,
        before,
        "M4: nothing is allocated"
    );
    assert!(stream.end().is_ok());
    drop(greedy);
}

/// M3: also where the caller still has what the warm-up allocated.
pub fn buffers_of_the_warm_up_may_be_kept<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let work = |c: &graph_capture::Commands<B>| {
        let out = c.alloc(2).unwrap();
        B::add(c, &x, &out, 1.0).unwrap();
        out
    };
    let stream = stream.prepare().unwrap();
    let warm_up = work(&stream);
    let stream = stream.begin().unwrap();
    let recorded = work(&stream);
    let (stream, mut graph) = stream.end().unwrap();
    stream.fill(&warm_up, 9.0).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&recorded).unwrap(), [2.0, 3.0]);
    assert_eq!(stream.read(&warm_up).unwrap(), [9.0, 9.0]);
}

/// M3: what the warm-up still had when the window opened is everybody's when it goes.
pub fn a_buffer_of_the_warm_up_that_goes_in_the_window_is_free_for_others<B: Lab>() {
    let Bench { device, stream, .. } = bench::<B>();
    let other = Stream::on(&device).unwrap();
    let stream = stream.prepare().unwrap();
    let warm_up = stream.alloc::<f32>(100).unwrap();
    let stream = stream.begin().unwrap();
    let before = memory(&device).allocated;
    drop(warm_up);
    drop(other.alloc::<f32>(100).unwrap());
    assert_eq!(memory(&device).allocated, before);
    drop(stream);
}

/// M3: the end of a capture frees what it had primed, also where a buffer of its warm-up stays.
pub fn what_was_primed_is_free_when_the_capture_ends<B: Lab>() {
    let Bench { device, stream, .. } = bench::<B>();
    let stream = stream.prepare().unwrap();
    let stays = stream.alloc::<f32>(100).unwrap();
    drop(stream.alloc::<f32>(100).unwrap());
    let stream = stream.abort();
    let before = memory(&device).allocated;
    let taken = stream.alloc::<f32>(100).unwrap();
    assert_eq!(memory(&device).allocated, before);
    drop((stays, taken));
}

/// M4: a recording that keeps what the warm-up dropped needs more than that had.
pub fn a_window_that_needs_more_than_its_warm_up_is_doomed_by_name<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let mut run = 0;
    let mut kept = Vec::new();
    let refused = stream
        .capture(|c| {
            run += 1;
            for _ in 0..3 {
                let scratch = c.alloc(100)?;
                c.fill(&scratch, 1.0f32)?;
                if run == 2 {
                    kept.push(scratch);
                }
            }
            B::add(c, &x, &y, 1.0)
        })
        .unwrap_err();
    let Error::Doomed {
        index: 2, first, ..
    } = refused.error()
    else {
        panic!("{refused:?}");
    };
    assert!(
        matches!(
            **first,
            Error::PoolExhausted {
                asked: 400,
                index: 2,
                ..
            }
        ),
        "{first:?}"
    );
    let told = told(refused.error());
    assert!(told.contains("pool.rs") && told.contains("400"), "{told}");
    assert_usable(refused.into_stream());
}

/// L10, M13: what a window allocated holds nothing before a replay, and says so.
pub fn memory_of_a_window_is_not_readable_before_a_replay<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let (stream, mut graph, out) = stream
        .capture(|c| {
            let out = c.alloc(2)?;
            B::add(c, &x, &out, 1.0)?;
            Ok(out)
        })
        .unwrap();
    let error = stream.read(&out).unwrap_err();
    let Error::Marked { first, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(matches!(**first, Error::NotReplayed), "{first:?}");
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&out).unwrap(), [2.0, 3.0]);
}

/// M7: captures that come and go, and fail, leave memory flat.
pub fn captures_leave_memory_flat<B: Lab>() {
    let Bench {
        device,
        mut stream,
        x,
        y,
    } = bench::<B>();
    let mut after_first = None;
    for round in 0..30 {
        let result = stream.capture(|c| {
            let scratch = c.alloc(2)?;
            B::add(c, &x, &scratch, 1.0)?;
            let _out = c.download(&scratch)?;
            if round % 3 == 1 {
                return Err(Error::step("gives up"));
            }
            B::add(c, &scratch, &y, 1.0)
        });
        stream = match result {
            Ok((stream, mut graph, ())) => {
                graph.replay(&stream).unwrap();
                stream
            }
            Err(refused) => refused.into_stream(),
        };
        stream.synchronize().unwrap();
        assert_eq!(memory(&device), *after_first.get_or_insert(memory(&device)));
    }
}

/// M7: an allocation that finds no memory takes what is free, before it is refused.
pub fn free_memory_does_not_keep_another_size_from_being_allocated<B: Lab>() {
    let Bench { device, stream, .. } = bench::<B>();
    let mut most = 0;
    for size in (0..16).map(|n| 1 << n) {
        drop(stream.alloc::<u8>(size).unwrap());
        let now = memory(&device);
        most = most.max(size + 16);
        assert!(now.allocated <= 2 * most + 48, "{size}: {now:?}");
    }
}
