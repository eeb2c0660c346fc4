//! What an error is, as far as the rules tell it.

use graph_capture::Error;

/// A kind of error; of those that tell of a first cause, with its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(pub &'static str, pub Option<&'static str>);

impl Kind {
    pub const fn of(name: &'static str) -> Self {
        Self(name, None)
    }

    pub fn is(&self, name: &str) -> bool {
        self.0 == name
    }

    /// What is told of memory that this kept from being written: the first cause (M11).
    pub fn cause(self) -> &'static str {
        match self {
            Self("Marked", Some(first)) => first,
            Self(name, _) => name,
        }
    }
}

fn name(error: &Error) -> &'static str {
    match error {
        Error::NoWarmUp { .. } => "NoWarmUp",
        Error::WarmUpFailed { .. } => "WarmUpFailed",
        Error::Doomed { .. } => "Doomed",
        Error::Diverged { .. } => "Diverged",
        Error::EmptyRecording { .. } => "EmptyRecording",
        Error::Step(_) => "Step",
        Error::Marked { .. } => "Marked",
        Error::NotReplayed => "NotReplayed",
        Error::LengthMismatch { .. } => "LengthMismatch",
        Error::ZeroLength { .. } => "ZeroLength",
        Error::Aliased { .. } => "Aliased",
        Error::OtherDevice { .. } => "OtherDevice",
        Error::ForeignDownload { .. } => "ForeignDownload",
        Error::PoolExhausted { .. } => "PoolExhausted",
        Error::TrimWhileRecording => "TrimWhileRecording",
        Error::OutOfOrder { .. } => "OutOfOrder",
        Error::Neighbour { .. } => "Neighbour",
        Error::Abandoned { .. } => "Abandoned",
        Error::Expired { .. } => "Expired",
        Error::Disconnected { .. } => "Disconnected",
        Error::UnknownGraph { .. } => "UnknownGraph",
        Error::NotYourGraph { .. } => "NotYourGraph",
        Error::Panicked => "Panicked",
        Error::Driver { .. } => "Driver",
        _ => "an error that no rule has here",
    }
}

impl From<&Error> for Kind {
    fn from(error: &Error) -> Self {
        let first = match error {
            Error::Marked { first, .. }
            | Error::Doomed { first, .. }
            | Error::WarmUpFailed { first, .. } => Some(name(first)),
            _ => None,
        };
        Self(name(error), first)
    }
}
