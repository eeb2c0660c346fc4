//! Windows side by side: what others do meanwhile breaks none of them.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use cudarc::driver::CudaSlice;
use graph_capture::cuda::{Cuda, Mode, cudarc, read_slice, value};
use graph_capture::{Buffer, NoCapture, Recording, Stream, write};

use crate::driver;
use crate::lab::{Kernels, add, config, kernels};

struct Job<M: Mode> {
    x: Buffer<f32, Cuda<M>>,
    y: Buffer<f32, Cuda<M>>,
    by: f32,
}

impl<M: Mode> Job<M> {
    fn new(stream: &Stream<NoCapture, Cuda<M>>, by: f32) -> Self {
        Self {
            x: stream.upload(&[1.0, 2.0]).unwrap(),
            y: stream.alloc(2).unwrap(),
            by,
        }
    }

    /// A stream in its window, with one step recorded.
    fn open(
        &self,
        stream: Stream<NoCapture, Cuda<M>>,
        kernels: &Kernels,
    ) -> Stream<Recording, Cuda<M>> {
        let stream = stream.prepare().unwrap();
        self.step(&stream, kernels);
        let stream = stream.begin().unwrap();
        self.step(&stream, kernels);
        stream
    }

    fn step(&self, commands: &graph_capture::Commands<Cuda<M>>, kernels: &Kernels) {
        let scratch = commands.alloc(2).unwrap();
        commands.write(&self.x, &[3.0, 4.0]).unwrap();
        add(commands, kernels, &self.x, &scratch, self.by).unwrap();
        commands.copy(&scratch, &self.y).unwrap();
    }

    /// Seals, replays, and looks.
    fn finish(&self, stream: Stream<Recording, Cuda<M>>) -> Stream<NoCapture, Cuda<M>> {
        let (stream, mut graph) = stream.end().unwrap();
        stream.fill(&self.y, 0.0).unwrap();
        graph.replay(&stream).unwrap();
        let right = [3.0 + self.by, 4.0 + self.by];
        assert_eq!(stream.read(&self.y).unwrap(), right);
        stream
    }
}

/// What a neighbour does on a stream of its own while others record: all that CUDA calls unsafe.
fn neighbour<M: Mode>(stream: &Stream<NoCapture, Cuda<M>>, kernels: &Kernels, grows: usize) {
    let job = Job::new(stream, 7.0);
    for round in 1..5 {
        let large = stream.alloc::<f32>(1000 * grows * round).unwrap();
        stream.fill(&large, 1.0).unwrap();
        stream.synchronize().unwrap();
        drop(large);
        job.step(stream, kernels);
        assert_eq!(stream.read(&job.y).unwrap(), [10.0, 11.0]);
        let completion = stream.completion().unwrap();
        completion.is_done().unwrap();
        assert!(completion.wait(Duration::from_secs(60)).unwrap());
    }
}

/// L16, M5: two windows on one thread, and a third stream that allocates, frees and waits between their
/// commands.
#[test]
fn two_windows_on_one_thread_both_seal() {
    let context = driver::context();
    let kernels = kernels(&context);
    let device = Cuda::adopt(context).unwrap();
    let open = || device.stream().unwrap();
    let (first, second, third) = (open(), open(), open());
    let jobs = [Job::new(&first, 1.0), Job::new(&second, 2.0)];
    // A graph that is replayed and dropped while the windows are open.
    let old = Job::new(&third, 5.0);
    let (third, mut graph, ()) = third
        .capture(|c| {
            old.step(c, &kernels);
            Ok(())
        })
        .unwrap();

    let first = jobs[0].open(first, &kernels);
    neighbour(&third, &kernels, 1);
    let second = jobs[1].open(second, &kernels);
    graph.replay(&third).unwrap();
    assert_eq!(third.read(&old.y).unwrap(), [8.0, 9.0]);
    graph.replay(&third).unwrap();
    drop(graph);
    neighbour(&third, &kernels, 10);
    drop(third);
    let late = open();
    neighbour(&late, &kernels, 100);

    // In the order in which they began, which is not that of brackets.
    let first = jobs[0].finish(first);
    neighbour(&first, &kernels, 1);
    drop(jobs[1].finish(second));
}

/// M5: a module that is unloaded on the thread of a window, with the last that used it.
#[test]
fn a_module_is_unloaded_beside_a_window() {
    let context = driver::context();
    let [own, eager, recorded] = [(); 3].map(|()| kernels(&context));
    let device = Cuda::adopt(context.clone()).unwrap();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let jobs = [Job::new(&first, 1.0), Job::new(&second, 2.0)];
    let captured = second.capture(|c| {
        jobs[1].step(c, &recorded);
        Ok(())
    });
    let (second, graph, ()) = captured.unwrap();
    second.synchronize().unwrap();

    let first = jobs[0].open(first, &own);
    jobs[1].step(&second, &eager);
    drop((eager, recorded));
    second.synchronize().unwrap();
    drop(graph);
    if driver::is_simulated() {
        assert_eq!(driver::live(&context).modules, 1);
    }
    drop(jobs[0].finish(first));
}

/// M5: a shared slice that goes on the thread of a window, with the wait, the graph or the capture that kept
/// it, on a device where that waits and frees.
#[test]
fn a_shared_slice_goes_beside_a_window() {
    if driver::skipped() {
        return;
    }
    let context = driver::without_pools(driver::context);
    let kernels = kernels(&context);
    let device = Cuda::adopt(context.clone()).unwrap();
    let own = context.new_stream().unwrap();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let jobs = [Job::new(&first, 1.0), Job::new(&second, 2.0)];
    let slice = || Arc::new(own.clone_htod(&[5.0f32, 6.0]).unwrap());
    let launch = |c: &graph_capture::Commands<Cuda>, x: &Arc<CudaSlice<f32>>| {
        let arguments = (read_slice(x), write(&jobs[1].y), value(1.0f32), value(2u32));
        // SAFETY: these are the kernel's parameters.
        unsafe { c.launch("add", &kernels.add, config(2), arguments) }
    };
    let [waited, sealed, given_up] = [(); 3].map(|()| slice());
    let (second, graph, ()) = second.capture(|c| launch(c, &sealed)).unwrap();
    let second = second.prepare().unwrap();
    launch(&second, &given_up).unwrap();
    second.synchronize().unwrap();
    let eager = device.stream().unwrap();
    launch(&eager, &waited).unwrap();

    let first = jobs[0].open(first, &kernels);
    let left = driver::live(&context).allocations;
    drop([waited, sealed, given_up]);
    eager.synchronize().unwrap();
    drop((graph, second.abort()));
    assert_eq!(driver::live(&context).allocations, left - 3);
    drop(jobs[0].finish(first));
}

/// L16, M5: two windows on two threads, each with a neighbour on its own thread and on a third.
#[test]
fn two_windows_on_two_threads_both_seal() {
    let context = driver::context();
    let kernels = kernels(&context);
    let device = Cuda::adopt(context).unwrap();
    let meet = Barrier::new(3);
    thread::scope(|scope| {
        for by in [1.0, 2.0] {
            let (device, kernels, meet) = (&device, &kernels, &meet);
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                let beside = device.stream().unwrap();
                let job = Job::new(&stream, by);
                let stream = job.open(stream, kernels);
                meet.wait();
                neighbour(&beside, kernels, 3);
                meet.wait();
                drop(job.finish(stream));
            });
        }
        scope.spawn(|| {
            let stream = device.stream().unwrap();
            meet.wait();
            assert!(device.status().any_recording());
            neighbour(&stream, &kernels, 5);
            meet.wait();
        });
    });
    assert!(!device.status().any_active());
}

/// In relaxed mode a recording may end on another thread.
#[test]
fn a_relaxed_recording_ends_on_another_thread() {
    let context = driver::context();
    let kernels = kernels(&context);
    let device = Cuda::adopt_relaxed(context).unwrap();
    let stream = device.stream().unwrap();
    let job = Job::new(&stream, 1.0);
    let stream = job.open(stream, &kernels);
    thread::scope(|scope| {
        scope.spawn(|| job.finish(stream));
    });
}

/// Two devices, whose contexts are current on one thread in turn, inside their windows.
#[test]
fn windows_of_two_contexts_on_one_thread_both_seal() {
    let both = [driver::context(), driver::context()].map(|context| {
        let kernels = kernels(&context);
        (Cuda::adopt(context).unwrap(), kernels)
    });
    let opened = both.each_ref().map(|(device, kernels)| {
        let stream = device.stream().unwrap();
        let job = Job::new(&stream, 1.0);
        let stream = stream.prepare().unwrap();
        for _ in 0..3 {
            job.step(&stream, kernels);
        }
        (job, stream.begin().unwrap())
    });
    let record = || {
        for _ in 0..3 {
            for ((job, stream), (_, kernels)) in opened.iter().zip(&both) {
                job.step(stream, kernels);
            }
        }
    };
    if driver::is_simulated() {
        // Each in its context, and none refused first.
        let ((), calls) = driver::calls_of(record);
        for call in ["cuMemsetD8Async", "cuLaunchKernel"] {
            assert_eq!(driver::count(&calls, call), 6, "{calls:?}");
        }
    } else {
        record();
    }
    for (job, stream) in opened {
        drop(job.finish(stream));
    }
}
