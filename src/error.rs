//! Every error of the crate, grouped by what the caller can do about it.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crate::phase::PhaseName;
use crate::server::GraphId;
use crate::stream_id::StreamId;

/// Where in the caller's source a command was issued.
pub type At = &'static Location<'static>;

/// Why a call was refused or a capture did not seal.
///
/// A clone is cheap and says the same: the command at fault returns the error, and
/// [`end`](crate::Stream::end) returns it again.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // ---- The captured code is at fault. Change it, and capture again.
    /// `begin` after a warm-up in which no command ran: the recording would have nothing to be
    /// compared with, and nothing would have been compiled or allocated for it. Rule L14.
    #[error(
        "begin: no command ran between prepare and begin of the capture of {owner}, so there is no warm-up; \
         run on the prepared stream what will be recorded, then begin"
    )]
    NoWarmUp {
        /// Who prepared the capture.
        owner: StreamId,
    },

    /// A command or wait of the warm-up failed, also when its error was swallowed. Rule L14.
    #[error(
        "command {index} of the warm-up of {owner}, {name} at {at}, failed, so what would be recorded never ran \
         whole; fix it and prepare again"
    )]
    WarmUpFailed {
        /// Who prepared the capture.
        owner: StreamId,
        /// Place of the command in the warm-up, from 0.
        index: usize,
        /// The command.
        name: Arc<str>,
        /// Where it was issued.
        at: At,
        /// What it failed with.
        #[source]
        first: Arc<Error>,
    },

    /// The recording will not seal, because a command in the window failed. Returned by that
    /// capture's later commands, which record nothing, and by `end`. Rule L8.
    #[error(
        "the recording of {owner} is doomed: command {index} in its window, {name} at {at}, failed; \
         fix it and capture again"
    )]
    Doomed {
        /// Who prepared the capture.
        owner: StreamId,
        /// Place of the command in the window, from 0.
        index: usize,
        /// The command.
        name: Arc<str>,
        /// Where it was issued.
        at: At,
        /// What it failed with.
        #[source]
        first: Arc<Error>,
    },

    /// The recorded run is not the last warm-up run. Rule L9.
    #[error(
        "the recording of {owner} is doomed: it differs from the warm-up at command {index}, where the warm-up \
         had {warm_up}, and the recording {recorded}; issue the same commands in both, from one function"
    )]
    Diverged {
        /// Who prepared the capture.
        owner: StreamId,
        /// Place of the first difference, from 0.
        index: usize,
        /// What the warm-up issued there.
        warm_up: Arc<str>,
        /// What the recording issued there.
        recorded: Arc<str>,
    },

    /// The window closed on a recording that runs nothing. Allocations alone run nothing. Rule L11.
    #[error(
        "end: the recording of {owner} holds no command that runs anything, so there is nothing to replay; \
         issue the work between begin and end"
    )]
    EmptyRecording {
        /// Who prepared the capture.
        owner: StreamId,
    },

    /// A command was left by a panic. Rule L12.
    #[error("a panic left the command before it was done")]
    Panicked,

    /// The captured code failed by itself: an error of the caller's own, made with [`Error::step`].
    #[error("the captured code failed")]
    Step(#[source] Arc<dyn std::error::Error + Send + Sync>),

    /// The recording asked for memory that neither its warm-up had freed nor the pool had free. In a
    /// window nothing is asked of the driver. Rule M4.
    #[error(
        "command {index} at {at}: the window needs {asked} more bytes than the warm-up had at once, and \
         in it nothing can be allocated; drop in the recording what the warm-up dropped, or allocate before"
    )]
    PoolExhausted {
        /// Bytes asked for.
        asked: usize,
        /// Place of the command in the window, from 0.
        index: usize,
        /// Where it was issued.
        at: At,
    },

    /// Memory does not hold what it should, since the command that should have written it failed or
    /// was refused. A write of the whole buffer makes it good. Rule M11.
    #[error(
        "this memory was not written: {name} at {at}, which should have written it, failed; \
         write the whole buffer, or repeat what failed"
    )]
    Marked {
        /// The command that should have written it.
        name: Arc<str>,
        /// Where that was issued.
        at: At,
        /// What it failed with: the first cause, also where one failure led to another.
        #[source]
        first: Arc<Error>,
    },

    /// What was recorded has not run: the graph was not replayed since.
    #[error(
        "it was recorded, and is written by a replay of its graph, of which there was none; replay first, or write it \
         if the capture did not seal"
    )]
    NotReplayed,

    // ---- The arguments are at fault. Nothing ran; change the call.
    /// The two sides of a write, copy or read differ in length.
    #[error(
        "{call} at {at}: the buffer holds {expected} elements, but the other side has {actual}; \
         give it as many as it holds"
    )]
    LengthMismatch {
        /// The refused call.
        call: &'static str,
        /// Elements in the buffer: the target's, in a copy.
        expected: usize,
        /// Elements on the other side.
        actual: usize,
        /// Where it was issued.
        at: At,
    },

    /// A buffer of no elements. No driver can bind one.
    #[error(
        "{call} at {at}: a buffer of no elements cannot be bound or copied; ask for at least one"
    )]
    ZeroLength {
        /// The refused call.
        call: &'static str,
        /// Where it was issued.
        at: At,
    },

    /// An element type that has no size, or needs more than 16 bytes of alignment.
    #[error(
        "{element} at {at} has {size} bytes aligned to {align}; elements of a buffer need a size \
         above 0 and an alignment of at most 16"
    )]
    BadElement {
        /// Name of the element type.
        element: &'static str,
        /// Its size in bytes.
        size: usize,
        /// Its alignment in bytes.
        align: usize,
        /// Where it was asked for.
        at: At,
    },

    /// The bytes of the buffer exceed the address space.
    #[error(
        "a buffer of {len} elements of {size} bytes at {at} exceeds the address space; ask for fewer"
    )]
    TooLarge {
        /// Elements asked for.
        len: usize,
        /// Bytes of one.
        size: usize,
        /// Where it was asked for.
        at: At,
    },

    /// A slice that does not lie in its buffer.
    #[error("slice at {at}: {start}..{end} does not lie in a buffer of {len} elements")]
    BadSlice {
        /// First element asked for.
        start: usize,
        /// The element after the last.
        end: usize,
        /// Elements that there are.
        len: usize,
        /// Where it was asked for.
        at: At,
    },

    /// One command names overlapping memory twice, and writes it.
    #[error(
        "{name} at {at}: accesses {first} and {second} are of the same memory, and at least one writes it; \
         use one read_write access, slices that do not overlap, or another buffer"
    )]
    Aliased {
        /// The refused command.
        name: Arc<str>,
        /// Place of one access in the command, from 0.
        first: usize,
        /// Place of the other.
        second: usize,
        /// Where it was issued.
        at: At,
    },

    /// A buffer or graph that belongs to another device than the stream. Rule M10.
    #[error(
        "{call} at {at}: this {what} belongs to another device than the stream; use a stream of the \
         device that made it (each new device is another one, and a clone is the same)"
    )]
    OtherDevice {
        /// The refused call.
        call: &'static str,
        /// What was handed in: `buffer` or `graph`.
        what: &'static str,
        /// Where it was issued.
        at: At,
    },

    /// A download that this graph did not record.
    #[error(
        "read at {at}: this download was not recorded in this graph; read it from the graph that came with it \
         (one of a warm-up, or taken outside a window, belongs to none)"
    )]
    ForeignDownload {
        /// Where it was asked for.
        at: At,
    },

    /// A kernel that cannot be made of its source.
    #[error("kernel `{name}`: {why}")]
    BadKernel {
        /// Its entry point.
        name: Arc<str>,
        /// What is wrong with it, and what to do.
        why: Arc<str>,
    },

    /// A launch that does not fit its kernel, or its device.
    #[error("launch `{name}`{}: {why}", at_place(.at))]
    BadLaunch {
        /// The launch.
        name: Arc<str>,
        /// What does not fit, and what to do.
        why: Arc<str>,
        /// Where it was issued, if that is known.
        at: Option<At>,
    },

    /// Memory of the caller's that cannot be what it should be: a buffer, or a part of a command.
    #[error("{call}{}: {why}", at_place(.at))]
    BadMemory {
        /// The refused call.
        call: &'static str,
        /// What does not fit, and what to do.
        why: Arc<str>,
        /// Where it was issued, if that is known.
        at: Option<At>,
    },

    /// A driver stream of the caller's that cannot be captured as it is.
    #[error("adopt_stream: {why}")]
    BadStream {
        /// Why not, and what to do.
        why: Arc<str>,
    },

    /// `trim` while a stream of the device records. Rule M5.
    #[error(
        "trim: a stream of this device records, and memory goes back only when no window is open; trim after it"
    )]
    TrimWhileRecording,

    /// A kernel that runs on the host, or another command that was not done, called back into a
    /// device.
    #[error(
        "{call}{}: called from inside a host kernel or command, which may use only the memory that it was \
         given; call before or after it", at_place(.at)
    )]
    InsideKernel {
        /// The refused call.
        call: &'static str,
        /// Where it was issued, if that is known.
        at: Option<At>,
    },

    // ---- Callers share a stream of a server's pool. Nothing ran; wait, or end the capture in the way.
    /// A call that the caller's own capture does not allow now. Rules N2, N6.
    #[error(
        "{call} of {caller}: its stream is in phase `{phase}`{}; {}",
        held_by(.owner), next_step(.call, *.phase)
    )]
    OutOfOrder {
        /// The refused call.
        call: &'static str,
        /// Who called.
        caller: StreamId,
        /// Whose capture is under way, if one is.
        owner: Option<StreamId>,
        /// The phase of the caller's stream.
        phase: PhaseName,
    },

    /// The capture of another caller holds the stream. Rules N2, N5, N8.
    #[error(
        "{call} of {caller}: its stream is held by the capture of {owner}, in phase `{phase}`; call again when that has \
         ended, or abort it if its owner is gone"
    )]
    Neighbour {
        /// The refused call.
        call: &'static str,
        /// Who called.
        caller: StreamId,
        /// Whose capture holds the stream.
        owner: StreamId,
        /// The phase of that capture.
        phase: PhaseName,
    },

    /// The capture of `owner` was ended by another caller, and no graph came of it. Rules N3, N4.
    #[error("the capture of {owner} was discarded by {by}, who shares its stream; capture again")]
    Abandoned {
        /// Who had prepared the capture.
        owner: StreamId,
        /// Who ended it.
        by: StreamId,
    },

    /// The capture of `owner` outlasted its time limit, and no graph came of it. Rule N13.
    #[error(
        "the capture of {owner} was discarded, since it was not ended within {limit:?}; capture again, in less time \
         or under a larger limit"
    )]
    Expired {
        /// Who had prepared the capture.
        owner: StreamId,
        /// The time from `prepare` that it had.
        limit: Duration,
    },

    /// The capture of `owner` was discarded since it disconnected. Rule N13.
    #[error("the capture of {owner} was discarded, since it disconnected in the middle of it")]
    Disconnected {
        /// Who had prepared the capture.
        owner: StreamId,
    },

    /// More than one thing to tell, the most important first.
    #[error("{}", told(.0))]
    Several(Arc<[Error]>),

    /// A graph that the pool does not have. Rule N11.
    #[error(
        "{call}: there is no {graph} in this pool; it was destroyed, or is another pool's: capture it again"
    )]
    UnknownGraph {
        /// The refused call.
        call: &'static str,
        /// The graph asked for.
        graph: GraphId,
    },

    /// A graph that another caller captured, which alone may destroy it.
    #[error("destroy of {caller}: {graph} belongs to {owner}, who alone destroys it")]
    NotYourGraph {
        /// The graph.
        graph: GraphId,
        /// Who called.
        caller: StreamId,
        /// Who captured it.
        owner: StreamId,
    },

    /// A pool of no streams. Rule N1.
    #[error("a pool of no streams serves nobody; ask for at least one")]
    NoStreams,

    // ---- The device is at fault. Free something, retry, or give up on it.
    /// The device has no memory left for an allocation.
    #[error("no memory for {bytes} bytes{}; drop buffers or graphs, or ask for less", at_place(.at))]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
        /// Where they were asked for, if that is known.
        at: Option<At>,
    },

    /// The stream's driver stream did not leave a capture in order, was retired, and could not be
    /// replaced. The stream's next `prepare` tries again. Rule L3.
    #[error(
        "the driver stream was retired, since it did not leave a capture in order, and opening another failed; \
         prepare, and any call of a pool, tries again"
    )]
    StreamLost {
        /// Why no other could be opened.
        #[source]
        cause: Arc<Error>,
    },

    /// There is no such device, or no driver for it.
    #[error("no device: {what}")]
    Unavailable {
        /// What was looked for, and what to do.
        what: Arc<str>,
    },

    /// The device is gone, and with it all its memory. Make another one.
    #[error("the device is lost: {reason}; make another device, and upload again what it held")]
    DeviceLost {
        /// The driver's reason.
        reason: Arc<str>,
    },

    /// A wait took longer than the device allows. What was waited for may still be under way: wait
    /// again, or give the device up.
    #[error("{call}{}: not done after {after:?}; wait again, or allow longer waits", at_place(.at))]
    TimedOut {
        /// The wait.
        call: &'static str,
        /// How long it waited.
        after: Duration,
        /// Where it was issued, if that is known.
        at: Option<At>,
    },

    /// When the recording was sealed, the driver refused one of its commands. `end` tells it as
    /// [`Doomed`](Self::Doomed), with the command's name and place.
    #[error("command {index} of the recording was refused by the driver")]
    RefusedAtSeal {
        /// Place of the command in the window, from 0.
        index: usize,
        /// The driver's refusal.
        #[source]
        first: Arc<Error>,
    },

    /// The driver refused a call.
    #[error("{call}{}: the driver refused; its own error says why", at_place(.at))]
    Driver {
        /// The driver's call, or what it was for.
        call: &'static str,
        /// Where the command was issued, if it was one.
        at: Option<At>,
        /// The driver's own error.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

// What a command returns in the hot path stays small, and can be kept and told again.
static_assertions::assert_impl_all!(Error: Clone, Send, Sync);
const _: () = assert!(size_of::<Error>() <= 64, "an error fits a cache line");

impl Error {
    /// An error of the caller's own, for closures that must return [`Error`], as in
    /// [`capture`](crate::Stream::capture): `.map_err(Error::step)?`.
    #[must_use]
    pub fn step(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Step(Arc::from(error.into()))
    }

    /// An error of the driver's, for backends. `call` names what the driver refused.
    #[must_use]
    pub fn driver(
        call: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Driver {
            call,
            at: None,
            source: Arc::from(source.into()),
        }
    }

    /// A command that the driver refused when it was sealed, for backends: the one at `index` of what
    /// [`Backend`](crate::Backend) was given to record.
    #[must_use]
    pub fn refused_at_seal(index: usize, first: Self) -> Self {
        Self::RefusedAtSeal {
            index,
            first: Arc::new(first),
        }
    }

    /// No memory for `bytes` bytes, for backends.
    #[must_use]
    pub fn out_of_memory(bytes: usize) -> Self {
        Self::OutOfMemory { bytes, at: None }
    }

    /// Says which call of the user's it was, where a backend could not know.
    pub(crate) fn placed(mut self, name: &'static str, place: At) -> Self {
        match &mut self {
            Self::InsideKernel { call, at } => {
                *call = name;
                *at = Some(place);
            }
            Self::OutOfMemory { at, .. }
            | Self::BadLaunch { at, .. }
            | Self::BadMemory { at, .. }
            | Self::TimedOut { at, .. }
            | Self::Driver { at, .. } => {
                at.get_or_insert(place);
            }
            _ => {}
        }
        self
    }
}

/// ` at FILE:LINE:COLUMN`, where that is known.
fn at_place(at: &Option<At>) -> String {
    at.map_or_else(String::new, |at| format!(" at {at}"))
}

/// Whose capture it is, where one is under way.
fn held_by(owner: &Option<StreamId>) -> String {
    owner.map_or_else(String::new, |owner| format!(", in the capture of {owner}"))
}

/// What to call first.
fn next_step(call: &str, phase: PhaseName) -> &'static str {
    match (call, phase) {
        ("prepare" | "capture", PhaseName::WarmUp) => "take that to its end, or abort it, first",
        ("prepare" | "capture" | "destroy", _) => "end or abort that first",
        (_, PhaseName::Idle) => "prepare a capture first",
        ("end", PhaseName::WarmUp) => "begin first, or abort",
        ("begin" | "again", PhaseName::Window) => "its window is open already: end or abort it",
        _ => "end or abort the capture first, since nothing that is recorded has run",
    }
}

/// Each with its causes, which `source` can tell of one error only.
fn told(errors: &[Error]) -> String {
    let told = errors.iter().map(|error| {
        let mut words = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            words.push_str(": ");
            words.push_str(&error.to_string());
            cause = error.source();
        }
        words
    });
    told.collect::<Vec<_>>().join("; and: ")
}
