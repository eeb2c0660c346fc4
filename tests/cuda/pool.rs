//! Windows of a pool of streams: two callers capture at once, and others work on, on their streams and on others.

use std::thread;
use std::time::Duration;

use graph_capture::server::{Neighbours, StreamPool};
use graph_capture::{Buffer, Cuda, StreamId};

use crate::driver;
use crate::lab::{Kernels, add, kernels};

const FIRST: StreamId = StreamId::new(0);
const SECOND: StreamId = StreamId::new(1);
/// One shares the stream of `FIRST`, one has a stream alone.
const NEIGHBOURS: [StreamId; 2] = [StreamId::new(3), StreamId::new(2)];

struct Job {
    caller: StreamId,
    x: Buffer<f32, Cuda>,
    y: Buffer<f32, Cuda>,
}

impl Job {
    fn new(pool: &mut StreamPool<Cuda>, caller: StreamId) -> Self {
        let made = pool.submit(caller, |c| Ok((c.upload(&[1.0, 2.0])?, c.alloc(2)?)));
        let (x, y) = made.unwrap();
        Self { caller, x, y }
    }

    fn step(&self, pool: &mut StreamPool<Cuda>, kernels: &Kernels) {
        let step = pool.submit(self.caller, |c| {
            let scratch = c.alloc::<f32>(2)?;
            add(c, kernels, &self.x, &scratch, 1.0)?;
            c.copy(&scratch, &self.y)
        });
        step.unwrap();
    }

    fn finish(&self, pool: &mut StreamPool<Cuda>) {
        let graph = pool.end(self.caller).unwrap().into_result().unwrap();
        pool.write(self.caller, &self.x, &[3.0, 4.0]).unwrap();
        pool.replay(self.caller, graph).unwrap();
        assert_eq!(pool.read(self.caller, &self.y).unwrap(), [4.0, 5.0]);
    }
}

/// All that CUDA calls unsafe while somebody captures: growth, frees, waits.
fn neighbour(pool: &mut StreamPool<Cuda>, kernels: &Kernels, caller: StreamId, grows: usize) {
    let job = Job::new(pool, caller);
    for round in 1..4 {
        let large = pool.submit(caller, |c| c.alloc::<f32>(1000 * grows * round));
        pool.synchronize(caller).unwrap();
        drop(large);
        job.step(pool, kernels);
        assert_eq!(pool.read(caller, &job.y).unwrap(), [2.0, 3.0]);
        let done = pool.completion(caller).unwrap();
        assert!(done.wait(Duration::from_secs(60)).unwrap());
        pool.profile(caller, |c| c.fill(&job.y, 0.0)).unwrap();
    }
}

fn two_windows_of_one_pool(device: Cuda, kernels: &Kernels) {
    let pool = StreamPool::new(device, 3).unwrap();
    let mut pool = pool.with_neighbours(Neighbours::Divert);
    let jobs = [FIRST, SECOND].map(|caller| Job::new(&mut pool, caller));
    for job in &jobs {
        pool.prepare(job.caller).unwrap();
        job.step(&mut pool, kernels);
    }
    for (job, grows) in jobs.iter().zip([1, 10]) {
        pool.begin(job.caller).unwrap();
        job.step(&mut pool, kernels);
        for caller in NEIGHBOURS {
            neighbour(&mut pool, kernels, caller, grows);
        }
    }
    for job in &jobs {
        job.finish(&mut pool);
    }
    for caller in NEIGHBOURS {
        neighbour(&mut pool, kernels, caller, 100);
    }
}

/// N5, N7, N9: two windows on the thread of one pool.
#[test]
fn two_windows_of_a_pool_both_seal() {
    let context = driver::context();
    let kernels = kernels(&context);
    two_windows_of_one_pool(Cuda::adopt(context).unwrap(), &kernels);
}

/// N7, N9: and on two threads at once, each with a pool of its own on the one device.
#[test]
fn windows_of_two_pools_on_two_threads_all_seal() {
    let context = driver::context();
    let kernels = &kernels(&context);
    let device = Cuda::adopt(context).unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            let device = device.clone();
            scope.spawn(move || two_windows_of_one_pool(device, kernels));
        }
    });
}
