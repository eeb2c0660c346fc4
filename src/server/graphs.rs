//! The graphs that the callers of a pool have captured.

use std::collections::BTreeMap;

use crate::backend::Backend;
use crate::error::Error;
use crate::graph::Graph;
use crate::server::GraphId;
use crate::stream_id::StreamId;

/// Graphs by name.
pub(super) struct Graphs<B: Backend>(BTreeMap<GraphId, Owned<B>>);

/// A graph, and who captured it.
struct Owned<B: Backend> {
    graph: Graph<B>,
    owner: StreamId,
}

impl<B: Backend> Graphs<B> {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn put(&mut self, graph: Graph<B>, owner: StreamId) -> GraphId {
        let id = GraphId::next();
        self.0.insert(id, Owned { graph, owner });
        id
    }

    pub(super) fn find(&self, graph: GraphId) -> Option<&Graph<B>> {
        self.0.get(&graph).map(|owned| &owned.graph)
    }

    /// # Errors
    /// [`Error::UnknownGraph`].
    pub(super) fn named(
        &mut self,
        call: &'static str,
        graph: GraphId,
    ) -> Result<&mut Graph<B>, Error> {
        let owned = self.0.get_mut(&graph);
        let owned = owned.ok_or(Error::UnknownGraph { call, graph })?;
        Ok(&mut owned.graph)
    }

    /// Drops a graph when its replays are done. One that is not there is no error (N11).
    ///
    /// # Errors
    /// [`Error::NotYourGraph`]; or what the wait failed with. The graph is then gone all the same, and
    /// what it used stays as long as nobody knows that its replays are done (M8).
    pub(super) fn destroy(&mut self, caller: StreamId, graph: GraphId) -> Result<(), Error> {
        let Some(owner) = self.0.get(&graph).map(|owned| owned.owner) else {
            return Ok(());
        };
        if owner != caller {
            return Err(Error::NotYourGraph {
                graph,
                caller,
                owner,
            });
        }
        let destroyed = self.0.remove(&graph);
        destroyed.map_or(Ok(()), |owned| owned.graph.wait())
    }

    /// Drops all graphs of `caller`.
    ///
    /// # Errors
    /// As [`destroy`](Self::destroy), the first; all are gone.
    pub(super) fn destroy_all_of(&mut self, caller: StreamId) -> Result<(), Error> {
        let own: Vec<_> = self
            .0
            .extract_if(.., |_, owned| owned.owner == caller)
            .collect();
        let waits: Vec<_> = own.iter().map(|(_, owned)| owned.graph.wait()).collect();
        waits.into_iter().collect()
    }
}
