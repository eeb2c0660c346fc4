//! What programs that capture do, and what went wrong when they did: each a habit from a public
//! report on one of the existing libraries.

use std::thread;

use graph_capture::{Buffer, Commands, Download, Error, Graph, NoCapture, Stream};

use super::{Bench, Lab, assert_holds_only, assert_idle, bench, status, told, used};

const LEN: usize = 64;

fn of(value: f32) -> Vec<f32> {
    vec![value; LEN]
}

/// The step of these programs: it writes, uses memory of its own, and takes results down. With all
/// of `x` the same, it leaves `2 x + 7` in `y`, and gives `y` and `x + 7`.
fn step<B: Lab>(
    c: &Commands<B>,
    x: &Buffer<f32, B>,
    y: &Buffer<f32, B>,
) -> Result<[Download<f32>; 2], Error> {
    c.write(y, &of(7.0))?;
    let scratch = c.alloc(LEN)?;
    B::accumulate(c, x, &scratch)?;
    B::accumulate(c, &scratch, y)?;
    let early = c.download(y)?;
    drop(scratch);
    let bias = c.upload(&of(0.0))?;
    B::add(c, x, &bias, 0.0)?;
    B::accumulate(c, &bias, y)?;
    Ok([c.download(y)?, early])
}

/// A captured step and its buffers.
struct Job<B: Lab> {
    graph: Graph<B>,
    downloads: [Download<f32>; 2],
    x: Buffer<f32, B>,
    y: Buffer<f32, B>,
}

impl<B: Lab> Job<B> {
    fn capture(stream: Stream<NoCapture, B>) -> (Stream<NoCapture, B>, Self) {
        let x = stream.upload(&of(1.0)).unwrap();
        let y = stream.alloc(LEN).unwrap();
        let (stream, graph, downloads) = stream.capture(|c| step(c, &x, &y)).unwrap();
        let job = Self {
            graph,
            downloads,
            x,
            y,
        };
        (stream, job)
    }

    /// Replays it on an input.
    #[track_caller]
    fn replay(&mut self, stream: &Stream<NoCapture, B>, input: f32) {
        stream.write(&self.x, &of(input)).unwrap();
        self.graph.replay(stream).unwrap();
    }

    /// The last replay was on that input.
    #[track_caller]
    fn assert_answers(&self, stream: &Stream<NoCapture, B>, input: f32) {
        assert_eq!(stream.read(&self.y).unwrap(), of(2.0 * input + 7.0));
        let read = |of: &Download<f32>| self.graph.read(of, stream).unwrap().to_vec();
        let [all, early] = &self.downloads;
        assert_eq!(read(all), of(2.0 * input + 7.0));
        assert_eq!(read(early), of(input + 7.0));
    }

    #[track_caller]
    fn assert_right(&mut self, stream: &Stream<NoCapture, B>, input: f32) {
        self.replay(stream, input);
        self.assert_answers(stream, input);
    }
}

/// Work that has nothing to do with any graph, and uses as much memory as theirs does.
fn unrelated<B: Lab>(stream: &Stream<NoCapture, B>, value: f32) {
    let x = stream.upload(&of(value)).unwrap();
    let buffers: Vec<Buffer<f32, B>> = (0..6).map(|_| stream.alloc(LEN).unwrap()).collect();
    for (buffer, by) in buffers.iter().zip([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) {
        stream.write(buffer, &of(f32::NAN)).unwrap();
        B::add(stream, &x, buffer, by).unwrap();
        stream.download(buffer).unwrap();
    }
    stream.copy(&buffers[0], &x).unwrap();
    assert_eq!(stream.read(&x).unwrap(), of(value + 1.0));
    assert_eq!(stream.read(&buffers[5]).unwrap(), of(value + 6.0));
    stream.fill(&x, f32::NAN).unwrap();
}

/// M1, M2, M6: staging, scratch and results of a graph are its own. A loop of replays alone would
/// not show it, since nobody else asks for memory.
pub fn unrelated_work_of_the_same_sizes_runs_between_two_replays<B: Lab>() {
    let device = B::device();
    let other = Stream::on(&device).unwrap();
    let (stream, mut job) = Job::<B>::capture(Stream::on(&device).unwrap());
    for round in 0..6u8 {
        let input = f32::from(round);
        unrelated(&stream, 100.0);
        job.replay(&stream, input);
        // Between a replay and the look at its results too.
        unrelated(&other, 200.0 + input);
        unrelated(&stream, 300.0);
        job.assert_answers(&stream, input);
    }
}

/// M1, M2: the user drops what the graph works on, and the next buffers are of the same size.
pub fn new_buffers_take_the_place_of_dropped_ones_between_two_replays<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let (stream, job) = Job::<B>::capture(stream);
    let Job {
        mut graph,
        downloads: [result, _],
        x,
        y,
    } = job;
    drop((x, y));
    for value in [3.0, 4.0] {
        let next: Vec<_> = (0..8).map(|_| stream.upload(&of(value)).unwrap()).collect();
        graph.replay(&stream).unwrap();
        assert_eq!(graph.read(&result, &stream).unwrap(), of(9.0));
        for buffer in &next {
            assert_eq!(stream.read(buffer).unwrap(), of(value));
            stream.fill(buffer, f32::NAN).unwrap();
        }
    }
}

/// M2, M5: and takes nothing of the other's with it.
pub fn one_of_two_graphs_on_one_stream_is_destroyed<B: Lab>() {
    for first_goes in [true, false] {
        let device = B::device();
        let (stream, first) = Job::<B>::capture(Stream::on(&device).unwrap());
        let (stream, second) = Job::capture(stream);
        let (mut goes, mut stays) = if first_goes {
            (first, second)
        } else {
            (second, first)
        };
        goes.assert_right(&stream, 2.0);
        stays.assert_right(&stream, 3.0);
        goes.replay(&stream, 4.0);
        drop(goes);
        device.captures().trim().unwrap();
        unrelated(&stream, 100.0);
        stays.assert_answers(&stream, 3.0);
        stays.assert_right(&stream, 5.0);
    }
}

/// M5: the window is none the worse, and the memory comes back behind it.
pub fn a_graph_is_dropped_inside_a_window<B: Lab>() {
    for on_its_stream in [true, false] {
        let device = B::device();
        let (mut stream, mut gone) = Job::<B>::capture(Stream::on(&device).unwrap());
        gone.replay(&stream, 1.0);
        if !on_its_stream {
            // It is in flight on a stream that does not record.
            let other = Stream::on(&device).unwrap();
            gone.replay(&other, 2.0);
            (stream, _) = Job::capture(other);
        }
        let x = stream.upload(&of(5.0)).unwrap();
        let y = stream.alloc(LEN).unwrap();
        let stream = stream.prepare().unwrap();
        step(&stream, &x, &y).unwrap();
        let stream = stream.begin().unwrap();
        drop(gone);
        let downloads = step(&stream, &x, &y).unwrap();
        let (stream, graph) = stream.end().unwrap();
        let mut job = Job {
            graph,
            downloads,
            x,
            y,
        };
        unrelated(&stream, 100.0);
        job.assert_right(&stream, 6.0);
        drop((job, stream));
        device.captures().trim().unwrap();
        assert_holds_only(device.captures().memory(), 0);
    }
}

/// M5, M8: with its replay in flight, and while a window of the device is open.
pub fn a_graph_is_dropped_on_another_thread<B: Lab>() {
    let device = B::device();
    let (stream, mut stays) = Job::<B>::capture(Stream::on(&device).unwrap());
    let (stream, mut goes) = Job::capture(stream);
    goes.replay(&stream, 2.0);
    let graph = goes.graph;
    thread::spawn(move || drop(graph)).join().unwrap();
    unrelated(&stream, 100.0);
    assert_eq!(stream.read(&goes.y).unwrap(), of(11.0));
    stays.assert_right(&stream, 3.0);

    let (stream, mut goes) = Job::capture(stream);
    goes.replay(&stream, 4.0);
    let (x, y) = (stays.x.clone(), stays.y.clone());
    let stream = stream.prepare().unwrap();
    step(&stream, &x, &y).unwrap();
    let stream = stream.begin().unwrap();
    let graph = goes.graph;
    thread::spawn(move || drop(graph)).join().unwrap();
    step(&stream, &x, &y).unwrap();
    let (stream, _graph) = stream.end().unwrap();
    assert_eq!(stream.read(&goes.y).unwrap(), of(15.0));
    stays.assert_right(&stream, 5.0);
}

/// M4, M5, L16: it allocates, frees, waits and replays beside the open window, which is none the
/// worse.
pub fn another_thread_works_while_a_stream_records<B: Lab>()
where
    B::Driver: Send,
{
    let device = B::device();
    let (other, mut old) = Job::<B>::capture(Stream::on(&device).unwrap());
    unrelated(&other, 100.0);
    let stream = Stream::on(&device).unwrap();
    let x = stream.upload(&of(5.0)).unwrap();
    let y = stream.alloc(LEN).unwrap();
    let stream = stream.prepare().unwrap();
    step(&stream, &x, &y).unwrap();
    let stream = stream.begin().unwrap();
    thread::spawn(move || {
        unrelated(&other, 200.0);
        drop(other.alloc::<u8>(1 << 16).unwrap());
        drop(other.alloc::<u8>(1 << 10).unwrap());
        old.assert_right(&other, 2.0);
    })
    .join()
    .unwrap();
    let refused = device.captures().trim().unwrap_err();
    assert!(matches!(refused, Error::TrimWhileRecording), "{refused:?}");
    let downloads = step(&stream, &x, &y).unwrap();
    let (stream, graph) = stream.end().unwrap();
    let mut job = Job {
        graph,
        downloads,
        x,
        y,
    };
    job.assert_right(&stream, 6.0);
}

/// A step that breaks off: what it has is dropped, what it wrote is half done.
fn breaks_off<B: Lab>(
    c: &Commands<B>,
    x: &Buffer<f32, B>,
    y: &Buffer<f32, B>,
    breaks: bool,
) -> Result<(), Error> {
    let scratch = c.alloc(LEN)?;
    B::add(c, x, &scratch, 1.0)?;
    let _copy = c.download(&scratch)?;
    if breaks {
        c.write(&scratch, &[0.0])?;
    }
    B::accumulate(c, &scratch, y)
}

/// L2, L3, L8: the stream, the pool and the next calls know nothing of it any more, and the error is
/// told once, where it belongs.
pub fn a_capture_fails_in_the_middle_and_the_stream_is_used_again<B: Lab>() {
    let device = B::device();
    let mut stream = Stream::on(&device).unwrap();
    let x = stream.upload(&of(1.0)).unwrap();
    let y = stream.upload(&of(9.0)).unwrap();
    for breaks_in in [0, 1, 0, 1, 1] {
        let before = device.captures().memory();
        let mut run = 0;
        let refused = stream
            .capture(|c| {
                run += 1;
                breaks_off(c, &x, &y, run > breaks_in)
            })
            .unwrap_err();
        let words = told(refused.error());
        let phase = ["of the warm-up", "is doomed"][breaks_in];
        assert!(
            words.contains(phase) && words.contains("habits.rs"),
            "{words}"
        );
        stream = refused.into_stream();
        assert_idle(&status(&device));
        stream.synchronize().unwrap();
        let after = device.captures().memory();
        assert_eq!(
            (before.in_use, before.held_by_graphs),
            (after.in_use, after.held_by_graphs)
        );
        unrelated(&stream, 100.0);
        let mut job;
        (stream, job) = Job::capture(stream);
        job.assert_right(&stream, 2.0);
        // Only a warm-up that was whole has run.
        let added = if breaks_in == 1 { 2.0 } else { 0.0 };
        assert_eq!(stream.read(&y).unwrap(), of(9.0 + added));
        stream.fill(&y, 9.0).unwrap();
    }
    drop((stream, x, y));
    device.captures().trim().unwrap();
    assert_holds_only(device.captures().memory(), 0);
}

/// M1, M2: neither by the memory that they give back nor by what they have run.
pub fn captures_that_fail_leave_an_older_graph_as_it_was<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let (mut stream, mut old) = Job::<B>::capture(stream);
    for breaks_in in [0, 1] {
        old.replay(&stream, 2.0);
        let mut run = 0;
        let z = stream.alloc(LEN).unwrap();
        let refused = stream.capture(|c| {
            run += 1;
            breaks_off(c, &old.x, &z, run > breaks_in)
        });
        stream = refused.unwrap_err().into_stream();
        let recording = {
            let stream = stream.prepare().unwrap();
            step(&stream, &old.x, &z).unwrap();
            let stream = stream.begin().unwrap();
            step(&stream, &old.x, &z).unwrap();
            stream
        };
        stream = recording.abort();
        unrelated(&stream, 100.0);
        old.assert_answers(&stream, 2.0);
        old.assert_right(&stream, 3.0);
    }
}

/// M3, M4: nothing has been allocated, compiled or run before.
pub fn the_first_work_of_a_device_is_a_capture<B: Lab>() {
    let device = B::device();
    let stream = Stream::on(&device).unwrap();
    let (stream, mut graph, result) = stream
        .capture(|c| {
            let x = c.upload(&of(1.0))?;
            let y = c.alloc(LEN)?;
            B::accumulate(c, &x, &y)?;
            let z = c.alloc(LEN)?;
            B::add(c, &y, &z, 1.0)?;
            c.download(&z)
        })
        .unwrap();
    for _ in 0..2 {
        unrelated(&stream, 100.0);
        graph.replay(&stream).unwrap();
        assert_eq!(graph.read(&result, &stream).unwrap(), of(2.0));
    }
    drop(used(stream));
}

/// M3, M4, M7: with an older graph that keeps its memory.
pub fn a_trimmed_pool_serves_the_next_capture<B: Lab>() {
    let device = B::device();
    let (stream, mut old) = Job::<B>::capture(Stream::on(&device).unwrap());
    unrelated(&stream, 100.0);
    device.captures().trim().unwrap();
    assert_eq!(device.captures().memory().free, 0);
    let (stream, mut new) = Job::capture(stream);
    device.captures().trim().unwrap();
    for input in [2.0, 3.0] {
        old.replay(&stream, input);
        new.assert_right(&stream, 10.0 * input);
        old.assert_answers(&stream, input);
    }
}
