//! For servers: many callers, served by few streams.
//!
//! ```
//! use graph_capture::server::{Neighbours, StreamPool};
//! use graph_capture::{Error, Host, StreamId, read, write};
//!
//! // Built and used on the thread that owns the device.
//! let mut pool = StreamPool::new(Host::new(), 2)?.with_neighbours(Neighbours::Divert);
//! let (alice, bob) = (StreamId::new(7), StreamId::new(9)); // both on stream 1 of 2
//!
//! let (x, y) = pool.submit(alice, |c| Ok((c.upload(&[1.0, 2.0])?, c.alloc::<f32>(2)?)))?;
//! let mut step = |pool: &mut StreamPool| {
//!     pool.submit(alice, |c| {
//!         c.launch("double", (read(&x), write(&y)), |(x, y)| {
//!             for (y, x) in y.iter_mut().zip(x) {
//!                 *y = 2.0 * x;
//!             }
//!         })
//!     })
//! };
//! pool.prepare(alice)?;
//! step(&mut pool)?;
//! pool.begin(alice)?;
//! // Bob does not know of the window, and is not in it.
//! let his = pool.submit(bob, |c| c.upload(&[5.0]))?;
//! assert_eq!(pool.read(bob, &his)?, [5.0]);
//! step(&mut pool)?;
//! let graph = pool.end(alice)?.into_result()?;
//!
//! pool.write(alice, &x, &[10.0, 20.0])?;
//! pool.replay(alice, graph)?;
//! assert_eq!(pool.read(alice, &y)?, [20.0, 40.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Whose id
//!
//! A caller is named by a [`StreamId`](crate::StreamId). Take [`StreamId::new`](crate::StreamId::new) with a
//! number of the connection, session or model. [`StreamId::current`](crate::StreamId::current) names the
//! calling *thread*: in a server that is the device's thread, whoever the job is from, and in async code it
//! changes whenever a task goes on elsewhere after an `.await`, so a capture would not know its owner again.
//! Ids `n` and `n + streams` share a stream, so the numbering decides who are neighbours.
//!
//! # On which thread
//!
//! A pool is used by one thread at a time, through `&mut`: the calls of its closures cannot reach it again.
//! Usually one thread owns it and takes jobs from a channel, as `examples/device_thread.rs` shows in
//! whole. On backends whose recordings may move, such as the host, it can also be put in an `Arc<Mutex<_>>`
//! and used by tasks, which then hold captures, but not the mutex, across `.await`; a panic that goes
//! through it poisons the mutex of std, which may be ignored, since the pool stays usable. Where a task can be
//! cancelled, let something that it owns call [`StreamPool::disconnect`] when it is dropped.
//!
//! To keep streams busy from one thread, don't wait for each job: [`replay`](StreamPool::replay), take a
//! [`completion`](StreamPool::completion), serve others, and read when that is done.

mod cache;
mod end;
mod graph_id;
mod graphs;
mod lane;
mod pool;
mod slot;
mod transitions;
mod work;

pub use cache::{CacheCounts, Cached, CachedGraph, GraphCache, GraphRef};
pub use end::CaptureEnd;
pub use graph_id::GraphId;
pub use pool::{Neighbours, PoolCounts, StreamPool};
