//! What a run issued, command by command, so that two runs can be compared (L9).

use std::any::TypeId;
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use crate::access::{Mode, Use};
use crate::backend::Backend;
use crate::error::{At, Error};
use crate::stream_id::StreamId;

/// The name of a launch. Names are nearly always literals, which cost no allocation.
pub(crate) type Name = Cow<'static, str>;

/// What sort of command a node of a graph is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeKind {
    /// Takes memory, and zeroes it.
    Alloc,
    /// Takes memory, and writes bytes of the host into it.
    Upload,
    /// Writes bytes of the host.
    Write,
    /// Copies between buffers.
    Copy,
    /// Repeats a value.
    Fill,
    /// Takes a copy of a buffer, for the host to read after a replay.
    Download,
    /// Runs a kernel.
    Launch,
    /// Runs a kernel over bindings of the caller's own making: it may use memory that it does not
    /// declare.
    RawLaunch,
}

impl NodeKind {
    /// The name of the method that issues it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::Upload => "upload",
            Self::Write => "write",
            Self::Copy => "copy",
            Self::Fill => "fill",
            Self::Download => "download",
            Self::Launch | Self::RawLaunch => "launch",
        }
    }

    /// Whether it is work, and not only memory for work (L11).
    pub(crate) fn runs(self) -> bool {
        self != Self::Alloc
    }
}

/// A command as it is issued.
pub(crate) struct Command<'a, B: Backend> {
    pub(crate) kind: NodeKind,
    /// The launch's name; empty for the others.
    pub(crate) name: Name,
    /// The kernel, where a type tells it; else [`no_kernel`].
    pub(crate) kernel: TypeId,
    /// Scalars and handles that make it another command.
    pub(crate) values: &'a [u8],
    pub(crate) uses: &'a [Use<'a, B>],
    /// The bytes of the memory that it takes and writes.
    pub(crate) allocates: Option<usize>,
    pub(crate) at: At,
}

impl<'a, B: Backend> Command<'a, B> {
    /// A command with no more to it than its kind and accesses.
    pub(crate) fn new(kind: NodeKind, uses: &'a [Use<'a, B>], at: At) -> Self {
        Self {
            kind,
            name: Name::default(),
            kernel: no_kernel(),
            values: &[],
            uses,
            allocates: None,
            at,
        }
    }

    /// What errors call it.
    pub(crate) fn title(&self) -> Arc<str> {
        title(self.kind, &self.name).into()
    }
}

fn title(kind: NodeKind, name: &str) -> String {
    match kind {
        NodeKind::Launch | NodeKind::RawLaunch => format!("launch `{name}`"),
        other => other.name().to_owned(),
    }
}

/// One command of a trace.
#[derive(Debug)]
struct Step {
    kind: NodeKind,
    name: Name,
    kernel: TypeId,
    at: At,
    /// Its accesses and values end here in the trace's lists, and begin where the step before ended.
    touches_end: u32,
    values_end: u32,
}

// A trace is most of what a capture writes, and some thousand steps are usual.
const _: () = assert!(size_of::<Step>() <= 64 && size_of::<Touch>() <= 24);

/// A length as an end in a step. Nobody issues so many commands that it does not fit; if somebody
/// did, the trace would find a difference.
fn end(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// What stands where no type tells the kernel.
pub(crate) fn no_kernel() -> TypeId {
    TypeId::of::<()>()
}

/// An access of a trace. Buffers are numbered by first use, so that a trace holds on to none, and
/// two runs compare equal if the same buffers meet in the same places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) buffer: u32,
    pub(crate) mode: Mode,
    pub(crate) start: usize,
    pub(crate) bytes: usize,
}

/// What one run issued, in order.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    steps: Vec<Step>,
    touches: Vec<Touch>,
    values: Vec<u8>,
}

impl Trace {
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn push<B: Backend>(&mut self, command: &Command<'_, B>, touches: &[Touch]) {
        self.touches.extend_from_slice(touches);
        self.values.extend_from_slice(command.values);
        self.steps.push(Step {
            kind: command.kind,
            name: command.name.clone(),
            kernel: command.kernel,
            at: command.at,
            touches_end: end(self.touches.len()),
            values_end: end(self.values.len()),
        });
    }

    /// All accesses, in the order of the commands.
    pub(crate) fn touches(&self) -> &[Touch] {
        &self.touches
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        (0..self.len()).filter_map(|index| self.node(index))
    }

    #[inline]
    fn node(&self, index: usize) -> Option<Node<'_>> {
        let step = self.steps.get(index)?;
        let (touches, values) = match index.checked_sub(1) {
            Some(before) => {
                let before = self.steps.get(before)?;
                (before.touches_end, before.values_end)
            }
            None => (0, 0),
        };
        Some(Node {
            step,
            touches: self
                .touches
                .get(touches as usize..step.touches_end as usize)?,
            values: self.values.get(values as usize..step.values_end as usize)?,
        })
    }

    /// Why a recording of these commands does not seal, where the driver refused to.
    pub(crate) fn blame(&self, owner: StreamId, refused: Error) -> Error {
        match refused {
            Error::RefusedAtSeal { index, first } => match self.node(index) {
                Some(node) => Error::Doomed {
                    owner,
                    index,
                    name: node.title().into(),
                    at: node.location(),
                    first: Arc::new(
                        first
                            .as_ref()
                            .clone()
                            .placed(node.step.kind.name(), node.step.at),
                    ),
                },
                None => Error::RefusedAtSeal { index, first },
            },
            other => other,
        }
    }

    /// What stands at `index`, in words.
    pub(crate) fn describe(&self, index: usize) -> Option<Arc<str>> {
        let Node {
            step,
            touches,
            values,
        } = self.node(index)?;
        Some(describe(step.kind, &step.name, step.at, values, touches))
    }

    /// Whether the step at `index` is `command`, a command that allocates nothing, as far as a trace
    /// can tell; `same_buffer` tells of the buffers.
    #[inline]
    pub(crate) fn is_step<B: Backend>(
        &self,
        index: usize,
        command: &Command<'_, B>,
        same_buffer: impl Fn(&Touch, &Use<'_, B>) -> bool,
    ) -> bool {
        let Some(node) = self.node(index) else {
            return false;
        };
        node.is_like(command)
            && node.step.kernel == command.kernel
            && command.allocates.is_none()
            && node.touches.len() == command.uses.len()
            && node.touches.iter().zip(command.uses).all(|(touch, used)| {
                touch.mode == used.mode
                    && touch.start == used.span.start()
                    && touch.bytes == used.span.bytes()
                    && same_buffer(touch, used)
            })
    }

    /// How `command` differs from the step at `index`: the step and the command in words.
    pub(crate) fn difference<B: Backend>(
        &self,
        index: usize,
        command: &Command<'_, B>,
        touches: &[Touch],
    ) -> Option<(Arc<str>, Arc<str>)> {
        let node = self.node(index);
        let alike = node.is_some_and(|node| node.is_like(command) && node.touches == touches);
        if alike && node.is_some_and(|node| node.step.kernel == command.kernel) {
            return None;
        }
        let mut recorded = describe(
            command.kind,
            &command.name,
            command.at,
            command.values,
            touches,
        );
        if alike {
            recorded = format!("{recorded} with another kernel of that name").into();
        }
        let warm_up = self
            .describe(index)
            .unwrap_or_else(|| "nothing, since it had ended".into());
        Some((warm_up, recorded))
    }
}

/// One command of a graph.
#[derive(Clone, Copy)]
pub struct Node<'g> {
    step: &'g Step,
    touches: &'g [Touch],
    values: &'g [u8],
}

impl<'g> Node<'g> {
    /// What sort of command it is.
    #[must_use]
    pub fn kind(&self) -> NodeKind {
        self.step.kind
    }

    /// The name of a launch; of another command its kind's.
    #[must_use]
    pub fn name(&self) -> &'g str {
        match self.step.kind {
            NodeKind::Launch | NodeKind::RawLaunch => &self.step.name,
            other => other.name(),
        }
    }

    /// What it reads and writes, in the order in which it was declared.
    pub fn accesses(&self) -> impl ExactSizeIterator<Item = NodeAccess> + use<'g> {
        self.touches.iter().map(|touch| NodeAccess {
            buffer: touch.buffer as usize,
            bytes: touch.start..touch.start.saturating_add(touch.bytes),
            reads: touch.mode.reads(),
            writes: touch.mode.writes(),
        })
    }

    /// Where in the source its warm-up was issued.
    #[must_use]
    pub fn location(&self) -> At {
        self.step.at
    }

    /// Whether kind, name and values are those of `command`.
    #[inline]
    fn is_like<B: Backend>(&self, command: &Command<'_, B>) -> bool {
        let step = self.step;
        // Names are literals, nearly always, and then one and the same.
        let same_name =
            std::ptr::eq::<str>(&*step.name, &*command.name) || step.name == command.name;
        step.kind == command.kind && same_name && self.values == command.values
    }

    pub(crate) fn title(&self) -> String {
        title(self.step.kind, &self.step.name)
    }

    /// What it does with which buffers, in words.
    pub(crate) fn uses(&self) -> String {
        let mut words = String::new();
        for (place, touch) in self.touches.iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(words, "{separator}{} {}", touch.mode.verb(), touch.buffer);
        }
        if self.step.kind == NodeKind::RawLaunch {
            words.push_str(", and what it does not declare");
        }
        words
    }

    /// Bytes that it copies from the host, and that the graph keeps.
    pub(crate) fn host_bytes(&self) -> usize {
        match self.step.kind {
            NodeKind::Write | NodeKind::Upload => {
                saturating_sum(self.touches.iter().map(|touch| touch.bytes))
            }
            _ => 0,
        }
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({self})")
    }
}

/// `launch ``add`` reads 0, writes 1`: the buffers by number.
impl fmt::Display for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.title(), self.uses())
    }
}

/// What one command of a graph does with one buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeAccess {
    /// The number of the buffer in its graph: by first use, from 0.
    pub buffer: usize,
    /// The bytes of the buffer.
    pub bytes: Range<usize>,
    /// Whether they are read.
    pub reads: bool,
    /// Whether they are written.
    pub writes: bool,
}

/// A command in words, with all that a comparison looks at but the kernel.
fn describe(kind: NodeKind, name: &str, at: At, values: &[u8], touches: &[Touch]) -> Arc<str> {
    let mut words = title(kind, name);
    if !values.is_empty() {
        words.push_str(" of 0x");
        // Writing to a string cannot fail.
        for byte in values {
            let _ = write!(words, "{byte:02x}");
        }
    }
    for (place, touch) in touches.iter().enumerate() {
        let separator = if place == 0 { " (" } else { ", " };
        let end = touch.start.saturating_add(touch.bytes);
        let _ = write!(
            words,
            "{separator}{} buffer {} at {}..{end}",
            touch.mode.name(),
            touch.buffer,
            touch.start,
        );
    }
    if !touches.is_empty() {
        words.push(')');
    }
    let _ = write!(words, " from {at}");
    words.into()
}

/// Bytes of a graph may be more than an address: there are devices with virtual memory.
pub(crate) fn saturating_sum(bytes: impl Iterator<Item = usize>) -> usize {
    bytes.fold(0, usize::saturating_add)
}
