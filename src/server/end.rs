//! How a capture ended.

use crate::error::Error;
use crate::server::GraphId;
use crate::stream_id::StreamId;

/// How a capture of a pool ended.
#[derive(Debug, Clone)]
#[must_use = "an abandoned capture has a report, and a sealed one its graph"]
pub enum CaptureEnd {
    /// Its owner ended it, and it sealed.
    Owned {
        /// Who captured.
        owner: StreamId,
        /// What came of it.
        graph: GraphId,
    },
    /// Somebody else ended it, and it was thrown away (rule N3).
    Abandoned {
        /// Who had prepared it.
        owner: StreamId,
        /// [`Error::Several`]: first who discarded it and why, then what had doomed it, if anything had.
        report: Error,
    },
}

impl CaptureEnd {
    /// Who had prepared the capture.
    #[must_use]
    pub fn owner(&self) -> StreamId {
        match self {
            Self::Owned { owner, .. } | Self::Abandoned { owner, .. } => *owner,
        }
    }

    /// Whether it was thrown away.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        matches!(self, Self::Abandoned { .. })
    }

    /// With one more thing to tell, in the report of an abandoned capture.
    pub(super) fn and(self, error: Error) -> Self {
        match self {
            Self::Abandoned {
                owner,
                report: Error::Several(told),
            } => {
                let report = Error::Several(told.iter().cloned().chain([error]).collect());
                Self::Abandoned { owner, report }
            }
            other => other,
        }
    }

    /// The graph.
    ///
    /// # Errors
    /// The report of an abandoned capture.
    pub fn into_result(self) -> Result<GraphId, Error> {
        match self {
            Self::Owned { graph, .. } => Ok(graph),
            Self::Abandoned { report, .. } => Err(report),
        }
    }
}
