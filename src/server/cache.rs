//! Graphs by key, so that a shape is captured once and replayed often.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use bytemuck::Pod;

use crate::Host;
use crate::backend::Backend;
use crate::commands::Commands;
use crate::completion::Completion;
use crate::download::Download;
use crate::error::Error;
use crate::graph::Graph;
use crate::lost::keep_for_good;
use crate::server::StreamPool;
use crate::stream_id::StreamId;

/// Graphs by key: by a batch size, a shape, a model. Bounded in number and in bytes; the one that was
/// not used for the longest time goes first, and never one whose replay is in flight.
///
/// With each graph it keeps `I`, the buffers that its input is written to, which are made before the
/// capture; and `O`, what the captured closure returns, such as downloads.
///
/// ```
/// use graph_capture::server::{Cached, GraphCache, StreamPool};
/// use graph_capture::{Error, Host, StreamId, read, write};
///
/// let mut pool = StreamPool::new(Host::new(), 1)?;
/// let mut cache = GraphCache::new(8, 1 << 20);
/// let caller = StreamId::new(1);
/// for batch in [vec![1.0, 2.0], vec![3.0], vec![4.0, 5.0]] {
///     let cached = cache.get_or_capture(
///         &mut pool,
///         caller,
///         batch.len(),
///         |c| c.alloc::<f32>(batch.len()),
///         |c, x| {
///             let y = c.alloc::<f32>(batch.len())?;
///             c.launch("double", (read(x), write(&y)), |(x, y)| {
///                 for (y, x) in y.iter_mut().zip(x) {
///                     *y = 2.0 * x;
///                 }
///             })?;
///             c.download(&y)
///         },
///     );
///     let mut graph = cached.into_result()?;
///     pool.write(caller, graph.inputs(), &batch)?;
///     graph.replay(&mut pool, caller)?;
///     let result = graph.read(&mut pool, caller, graph.outputs())?;
///     assert_eq!(result[0], 2.0 * batch[0]);
/// }
/// assert_eq!((cache.counts().misses, cache.counts().hits), (2, 1));
/// # Ok::<(), Error>(())
/// ```
pub struct GraphCache<K, I, O, B: Backend = Host> {
    entries: HashMap<K, Entry<I, O, B>>,
    most_graphs: usize,
    most_bytes: usize,
    /// Counts uses, to know the oldest.
    clock: u64,
    counts: CacheCounts,
}

struct Entry<I, O, B: Backend> {
    graph: CachedGraph<I, O, B>,
    used: u64,
}

/// A graph with what its inputs and outputs are known by.
pub struct CachedGraph<I, O, B: Backend = Host> {
    graph: Graph<B>,
    inputs: I,
    outputs: O,
    /// Behind its replays; `None` where the driver could not mark the point.
    replays: Vec<Option<Completion<B>>>,
}

/// What a [`GraphCache`] has for a key.
#[must_use]
pub enum Cached<'c, I, O, B: Backend = Host> {
    /// It was there.
    Hit(&'c mut CachedGraph<I, O, B>),
    /// It was captured now, and is kept. The warm-up has run; no replay has.
    Captured(&'c mut CachedGraph<I, O, B>),
    /// It was captured now, and there is no room to keep it: it is larger than the cache, or what would
    /// have to go is in flight. It goes when it is dropped.
    NotKept(Box<CachedGraph<I, O, B>>),
    /// It could not be captured, and nothing is kept: the next call for this key tries again. Run the
    /// work by [`StreamPool::submit`] meanwhile, or report the error.
    NotCaptured(Error),
}

/// A graph of a cache, lent or given.
pub enum GraphRef<'c, I, O, B: Backend = Host> {
    /// The cache keeps it.
    Lent(&'c mut CachedGraph<I, O, B>),
    /// The cache does not.
    Given(Box<CachedGraph<I, O, B>>),
}

/// What became of the calls of a [`GraphCache`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounts {
    /// Calls that found a graph.
    pub hits: u64,
    /// Calls that did not, and captured, or tried to.
    pub misses: u64,
    /// Captures that failed, or were refused.
    pub failed: u64,
    /// Graphs that were captured, and not kept for want of room.
    pub not_kept: u64,
    /// Graphs that went to make room.
    pub evictions: u64,
    /// Graphs that were kept, and never replayed: of those that are gone, and of those that are here.
    pub never_replayed: u64,
    /// Graphs that are here.
    pub graphs: usize,
    /// Their bytes, as [`GraphMemory`](crate::GraphMemory) counts them, on the device and on the host.
    pub bytes: usize,
}

impl<K: Eq + Hash, I, O, B: Backend> GraphCache<K, I, O, B> {
    /// A cache that keeps at most so many graphs, which hold at most so many bytes.
    #[must_use]
    pub fn new(most_graphs: usize, most_bytes: usize) -> Self {
        Self {
            entries: HashMap::new(),
            most_graphs,
            most_bytes,
            clock: 0,
            counts: CacheCounts::default(),
        }
    }

    /// The graph for `key`; or captures one on the caller's stream. `inputs` runs once, before the capture,
    /// and makes what the input will be written to; `work` is the work, and runs twice, as in
    /// [`Stream::capture`](crate::Stream::capture).
    ///
    /// Make the inputs in `inputs` and not in `work`: what is allocated in `work` is zeroed at each replay.
    ///
    /// The warm-up runs `work` for real, over what `inputs` left there. Work that updates a buffer from
    /// outside has then updated it once already, and a replay does it again: put it back before the first
    /// one, where the answer is [`Cached::Captured`] or [`Cached::NotKept`].
    ///
    /// While another's capture holds the caller's stream the answer is [`Cached::NotCaptured`] with
    /// [`Error::Neighbour`], also where neighbours are diverted: run the work by [`StreamPool::submit`] then.
    ///
    /// # Panics
    /// Where `inputs` or `work` does. Nothing is kept then.
    pub fn get_or_capture(
        &mut self,
        pool: &mut StreamPool<B>,
        caller: StreamId,
        key: K,
        inputs: impl FnOnce(&Commands<B>) -> Result<I, Error>,
        work: impl FnMut(&Commands<B>, &I) -> Result<O, Error>,
    ) -> Cached<'_, I, O, B> {
        if let Some(entry) = self.entries.remove(&key) {
            self.counts.hits += 1;
            return Cached::Hit(self.put(key, entry.graph));
        }
        self.counts.misses += 1;
        // Should a panic go through.
        self.counts.failed += 1;
        let captured = pool.capture_graph(caller, 1, inputs, work);
        let captured = captured.map(|(graph, inputs, outputs)| CachedGraph {
            graph,
            inputs,
            outputs,
            replays: Vec::new(),
        });
        match captured {
            Ok(graph) => {
                self.counts.failed -= 1;
                if self.make_room(graph.bytes()) {
                    return Cached::Captured(self.put(key, graph));
                }
                self.counts.not_kept += 1;
                Cached::NotKept(Box::new(graph))
            }
            Err(error) => Cached::NotCaptured(error),
        }
    }

    /// The graph for `key`, if it is there. Counts as a use, and as a hit.
    pub fn get(&mut self, key: &K) -> Option<&mut CachedGraph<I, O, B>> {
        let entry = self.entries.get_mut(key)?;
        self.clock += 1;
        self.counts.hits += 1;
        entry.used = self.clock;
        Some(&mut entry.graph)
    }

    /// Drops all graphs, such as those of a model that was replaced. Replays in flight are let finish (M8).
    pub fn clear(&mut self) {
        self.counts.never_replayed = self.counts().never_replayed;
        self.entries.clear();
    }

    /// Drops the graph for `key`, and says whether there was one. Replays in flight are let finish (M8).
    pub fn remove(&mut self, key: &K) -> bool {
        let removed = self.entries.remove(key);
        let unused = |entry: &Entry<I, O, B>| !entry.graph.graph.was_replayed();
        self.counts.never_replayed += u64::from(removed.as_ref().is_some_and(unused));
        removed.is_some()
    }

    /// What became of the calls so far, and what is here.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        let graphs = || self.entries.values().map(|entry| &entry.graph);
        let unused = graphs().filter(|graph| !graph.graph.was_replayed());
        CacheCounts {
            never_replayed: self.counts.never_replayed + unused.count() as u64,
            graphs: self.entries.len(),
            bytes: graphs().map(CachedGraph::bytes).sum(),
            ..self.counts
        }
    }

    fn put(&mut self, key: K, graph: CachedGraph<I, O, B>) -> &mut CachedGraph<I, O, B> {
        self.clock += 1;
        let used = self.clock;
        let entry = self.entries.entry(key).insert_entry(Entry { graph, used });
        &mut entry.into_mut().graph
    }

    /// Has graphs go, the longest unused first, until one more of `bytes` bytes fits; or none, if it would
    /// not.
    fn make_room(&mut self, bytes: usize) -> bool {
        let mut idle: Vec<_> = self
            .entries
            .values()
            .filter(|entry| !entry.graph.is_in_flight())
            .map(|entry| (entry.used, entry.graph.bytes()))
            .collect();
        idle.sort_unstable();
        let CacheCounts {
            mut graphs,
            bytes: mut held,
            ..
        } = self.counts();
        let fits = |graphs, held: usize| {
            graphs < self.most_graphs && held.saturating_add(bytes) <= self.most_bytes
        };
        let mut going = idle.into_iter();
        let mut youngest = 0;
        while !fits(graphs, held) {
            let Some((used, freed)) = going.next() else {
                return false;
            };
            (graphs, held, youngest) = (graphs - 1, held - freed, used);
        }
        let gone = |_: &K, entry: &mut Entry<I, O, B>| {
            entry.used <= youngest && !entry.graph.is_in_flight()
        };
        let evicted: Vec<_> = self.entries.extract_if(gone).collect();
        for (_, entry) in &evicted {
            self.counts.evictions += 1;
            self.counts.never_replayed += u64::from(!entry.graph.graph.was_replayed());
        }
        let_go(evicted);
        true
    }
}

impl<I, O, B: Backend> CachedGraph<I, O, B> {
    /// What its input is written to.
    #[must_use]
    pub fn inputs(&self) -> &I {
        &self.inputs
    }

    /// What the captured closure returned.
    #[must_use]
    pub fn outputs(&self) -> &O {
        &self.outputs
    }

    /// The graph, to look at.
    pub fn graph(&self) -> &Graph<B> {
        &self.graph
    }

    /// Replays it on the caller's stream.
    ///
    /// # Errors
    /// As [`StreamPool::replay`].
    ///
    /// # Panics
    /// On the host, where a kernel does.
    #[track_caller]
    pub fn replay(&mut self, pool: &mut StreamPool<B>, caller: StreamId) -> Result<(), Error> {
        let done = pool.replay_graph(caller, &mut self.graph, Location::caller())?;
        if self.graph.is_known_done() {
            self.replays.clear();
        }
        self.replays.retain(is_in_flight);
        self.replays.push(done);
        Ok(())
    }

    /// What the last replay left in a download, waiting for it.
    ///
    /// # Errors
    /// As [`StreamPool::read_download`].
    #[track_caller]
    pub fn read<T: Pod>(
        &self,
        pool: &mut StreamPool<B>,
        caller: StreamId,
        download: &Download<T>,
    ) -> Result<&[T], Error> {
        pool.read_graph(caller, &self.graph, download, Location::caller())
    }

    /// Whether a replay may still run.
    fn is_in_flight(&self) -> bool {
        !self.graph.is_known_done() && self.replays.iter().any(is_in_flight)
    }

    fn bytes(&self) -> usize {
        let memory = self.graph.memory();
        memory.device_bytes.saturating_add(memory.host_bytes)
    }
}

/// Where nobody can tell, it is.
fn is_in_flight<B: Backend>(replay: &Option<Completion<B>>) -> bool {
    match replay {
        Some(replay) => !replay.is_done().unwrap_or(false),
        None => true,
    }
}

/// Drops values of the users', whose panics are not the business of who is here.
fn let_go<V>(values: V) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(values))) {
        keep_for_good(panic);
    }
}

impl<'c, I, O, B: Backend> Cached<'c, I, O, B> {
    /// The graph, wherever it is kept.
    ///
    /// # Errors
    /// Why it could not be captured.
    pub fn into_result(self) -> Result<GraphRef<'c, I, O, B>, Error> {
        match self {
            Self::Hit(graph) | Self::Captured(graph) => Ok(GraphRef::Lent(graph)),
            Self::NotKept(graph) => Ok(GraphRef::Given(graph)),
            Self::NotCaptured(error) => Err(error),
        }
    }
}

impl<I, O, B: Backend> Deref for GraphRef<'_, I, O, B> {
    type Target = CachedGraph<I, O, B>;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Lent(graph) => graph,
            Self::Given(graph) => graph,
        }
    }
}

impl<I, O, B: Backend> DerefMut for GraphRef<'_, I, O, B> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Lent(graph) => graph,
            Self::Given(graph) => graph,
        }
    }
}

impl<K, I, O, B: Backend> fmt::Debug for GraphCache<K, I, O, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphCache")
            .field("graphs", &self.entries.len())
            .field("most_graphs", &self.most_graphs)
            .field("most_bytes", &self.most_bytes)
            .finish_non_exhaustive()
    }
}

impl<I, O, B: Backend> fmt::Debug for CachedGraph<I, O, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CachedGraph").field(&self.graph).finish()
    }
}

impl<I, O, B: Backend> fmt::Debug for Cached<'_, I, O, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hit(graph) => f.debug_tuple("Hit").field(graph).finish(),
            Self::Captured(graph) => f.debug_tuple("Captured").field(graph).finish(),
            Self::NotKept(graph) => f.debug_tuple("NotKept").field(graph).finish(),
            Self::NotCaptured(error) => f.debug_tuple("NotCaptured").field(error).finish(),
        }
    }
}
