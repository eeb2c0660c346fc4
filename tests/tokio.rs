//! Captures of a pool held across `.await`, on a runtime that moves tasks between threads.

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use graph_capture::server::{GraphId, StreamPool};
use graph_capture::{Buffer, Error, Host, StreamId, read, write};

type Shared = Arc<Mutex<StreamPool>>;

const TASKS: u64 = 10;

fn with<R>(pool: &Shared, call: impl FnOnce(&mut StreamPool) -> R) -> R {
    call(&mut pool.lock().unwrap())
}

/// Goes on when the task is on another thread than `here`.
async fn leave(here: ThreadId) {
    while thread::current().id() == here {
        // The runtime gives this thread's work to another, which then has the task.
        tokio::task::block_in_place(|| thread::sleep(Duration::from_millis(2)));
        tokio::task::yield_now().await;
    }
}

/// `y = x + 1`.
fn step(pool: &Shared, id: StreamId, x: &Buffer<f32>, y: &Buffer<f32>) -> Result<(), Error> {
    with(pool, |pool| {
        pool.submit(id, |c| {
            c.launch("add_one", (read(x), write(y)), |(x, y)| {
                y.iter_mut().zip(x).for_each(|(y, x)| *y = x + 1.0);
            })
        })
    })
}

/// Captures, on one thread after the other, and replays.
async fn capture(pool: Shared, number: u64) -> Result<(GraphId, Vec<f32>), Error> {
    // The thread's own id would be another one after each `.await`.
    let id = StreamId::new(number);
    let status = with(&pool, |pool| pool.status().clone());
    let made = with(&pool, |pool| {
        pool.submit(id, |c| Ok((c.upload(&[number as f32])?, c.alloc(1)?)))
    });
    let (x, y) = made?;
    with(&pool, |pool| pool.prepare(id))?;
    let prepared_on = thread::current().id();
    step(&pool, id, &x, &y)?;
    leave(prepared_on).await;
    with(&pool, |pool| pool.begin(id))?;
    let begun_on = thread::current().id();
    step(&pool, id, &x, &y)?;
    leave(begun_on).await;
    assert!(status.is_capturing(id));
    let graph = with(&pool, |pool| pool.end(id))?.into_result()?;
    assert_ne!(thread::current().id(), begun_on);
    with(&pool, |pool| {
        pool.write(id, &x, &[10.0 * number as f32])?;
        pool.replay(id, graph)?;
        Ok((graph, pool.read(id, &y)?))
    })
}

#[test]
fn ten_tasks_hold_captures_across_await_and_all_seal() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    let pool = StreamPool::new(Host::new(), TASKS as usize).unwrap();
    let pool = Arc::new(Mutex::new(pool));
    let (graphs, results): (Vec<_>, Vec<_>) = runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| tokio::spawn(capture(Arc::clone(&pool), number)))
            .collect();
        let mut ended = Vec::new();
        for task in tasks {
            ended.push(task.await.unwrap().unwrap());
        }
        ended.into_iter().unzip()
    });
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result, &[10.0 * number as f32 + 1.0]);
    }
    let pool = pool.lock().unwrap();
    assert_eq!(pool.counts().sealed, TASKS);
    assert!(graphs.iter().all(|&graph| pool.graph(graph).is_some()));
    assert!(!pool.status().any_active());
}
