//! The rules of stream capture.
//!
//! | rule | answer | source |
//! |---|---|---|
//! | a capture on the legacy stream | 900 | D `cuStreamBeginCapture`: not allowed; code ? |
//! | a capture on a stream that captures | 401 | D `cuStreamBeginCapture`: not allowed; code ? |
//! | an end without a begin | 401 | ? |
//! | an end on another thread, unless relaxed | 908, and the capture goes on | D `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`, `cuStreamEndCapture`; that it goes on ? |
//! | an end on a stream that was only joined to it | 903, invalidated | D `.._UNMATCHED`; invalidated ? |
//! | an end with work that is not joined | 904, and the capture is over | D `.._UNJOINED` |
//! | a wait for work outside the capture | 905, invalidated | D `.._ISOLATION`; G NVIDIA/cccl#8674; invalidated ? |
//! | two captures joined | 902, both invalidated | D `.._MERGE`; G ROCm/rocm-systems#11589 |
//! | a command in an invalidated capture | 901 | D `.._INVALIDATED` |
//! | the end of an invalidated capture | 901, no graph, out of capture | D `cuStreamEndCapture`; code ? |
//! | a wait for what another capture recorded, when that is over | 1 | G ROCm/rocm-systems#11589, cudarc#590 |
//! | synchronizing or asking a stream that captures | 900, invalidated | D `.._UNSUPPORTED`; G NVIDIA/raft#3121 |
//! | synchronizing a context in which anything captures | 900, all invalidated | G NVIDIA/TensorRT#2888 |
//! | synchronizing or asking an event of a capture | 907 | D `.._CAPTURED_EVENT`, `cuThreadExchangeStreamCaptureMode` |
//! | a potentially unsafe call where the mode forbids it | 900, invalidated | D `cuThreadExchangeStreamCaptureMode`; G cuopt#1748 |
//! | work on the legacy stream while a blocking stream of its context captures | 906, invalidated | D `.._IMPLICIT`; invalidated ? |
//! | destroying a stream that captures | its capture is invalidated | ? |
//!
//! D names `cudaMalloc` alone as potentially unsafe, and G `cudaEventQuery`. ? Here are more: whatever
//! allocates, frees, waits for or asks other work, loads, unloads, or makes something executable.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::code;
use crate::control::Kind;
use crate::run::Op;
use crate::state::{Code, Done, Graph, Mark, Node, Sim, thread};

pub(crate) const GLOBAL: u32 = 0;
pub(crate) const RELAXED: u32 = 2;

thread_local! {
    pub(crate) static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// A capture under way.
pub(crate) struct Capture {
    origin: usize,
    mode: u32,
    thread: u64,
    invalid: bool,
    context: usize,
    nodes: Vec<Node>,
    /// What the next node of each of its streams comes after.
    tips: HashMap<usize, Vec<usize>>,
}

impl Capture {
    pub(crate) fn is_in(&self, context: usize) -> bool {
        self.context == context
    }

    /// How many nodes it has so far.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

impl Sim {
    /// The capture that a stream is part of.
    fn capture_of(&self, stream: usize) -> Option<usize> {
        self.streams.get(&stream)?.capture
    }

    /// `CUstreamCaptureStatus`.
    pub(crate) fn status(&self, stream: usize) -> u32 {
        match self.capture_of(stream) {
            None => 0,
            Some(capture) if self.captures[&capture].invalid => 2,
            Some(_) => 1,
        }
    }

    fn invalidate(&mut self, which: impl Fn(&Capture) -> bool) {
        for capture in self.captures.values_mut().filter(|c| which(c)) {
            capture.invalid = true;
        }
    }

    /// A call that the mode of the thread may forbid.
    pub(crate) fn potentially_unsafe(&mut self) -> Done {
        let (mode, thread) = (MODE.get(), thread());
        let forbids = |capture: &Capture| match mode {
            RELAXED => false,
            _ if capture.thread == thread && capture.mode != RELAXED => true,
            GLOBAL => capture.mode == GLOBAL,
            _ => false,
        };
        if !self.captures.values().any(forbids) {
            return Ok(());
        }
        self.invalidate(forbids);
        Err(code::CAPTURE_UNSUPPORTED)
    }

    /// A call that waits for all of a context.
    pub(crate) fn whole_context(&mut self, context: usize) -> Done {
        if !self.captures.values().any(|c| c.context == context) {
            return Ok(());
        }
        self.invalidate(|capture| capture.context == context);
        Err(code::CAPTURE_UNSUPPORTED)
    }

    /// A call that waits for a stream, or asks whether it is done.
    pub(crate) fn not_capturing(&mut self, stream: usize) -> Done {
        let Some(id) = self.capture_of(stream) else {
            return Ok(());
        };
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.invalid = true;
        }
        Err(code::CAPTURE_UNSUPPORTED)
    }

    /// Submits work to a stream: to its queue, or to the capture that it is part of.
    pub(crate) fn submit(&mut self, stream: usize, op: Op, kind: u32) -> Done {
        if let Some(id) = self.capture_of(stream) {
            return self.record(id, stream, op, kind);
        }
        let context = self.streams[&stream].context;
        if self.contexts[&context].legacy == stream {
            let blocking: HashSet<usize> = self
                .streams
                .iter()
                .filter(|(_, other)| other.context == context && other.blocking)
                .filter_map(|(_, other)| other.capture)
                .collect();
            if !blocking.is_empty() {
                for id in blocking {
                    if let Some(capture) = self.captures.get_mut(&id) {
                        capture.invalid = true;
                    }
                }
                return Err(code::CAPTURE_IMPLICIT);
            }
        }
        self.enqueue(stream, op);
        Ok(())
    }

    fn record(&mut self, id: usize, stream: usize, op: Op, kind: u32) -> Done {
        let capture = self.captures.get_mut(&id).ok_or(code::ILLEGAL_STATE)?;
        if capture.invalid {
            return Err(code::CAPTURE_INVALIDATED);
        }
        let node = capture.nodes.len();
        let after = capture.tips.insert(stream, vec![node]).unwrap_or_default();
        capture.nodes.push(Node { op, kind, after });
        Ok(())
    }

    pub(crate) fn begin(&mut self, stream: usize, mode: u32) -> Done {
        let context = self.streams[&stream].context;
        if self.contexts[&context].legacy == stream {
            return Err(code::CAPTURE_UNSUPPORTED);
        }
        if self.capture_of(stream).is_some() {
            return Err(code::ILLEGAL_STATE);
        }
        if mode > RELAXED {
            return Err(code::INVALID_VALUE);
        }
        let id = self.id();
        let capture = Capture {
            origin: stream,
            mode,
            thread: thread(),
            invalid: false,
            context,
            nodes: Vec::new(),
            tips: HashMap::from([(stream, Vec::new())]),
        };
        self.captures.insert(id, capture);
        self.join(stream, Some(id));
        Ok(())
    }

    fn join(&mut self, stream: usize, capture: Option<usize>) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.capture = capture;
        }
    }

    /// Ends the capture of a stream, and makes a graph.
    pub(crate) fn end(&mut self, stream: usize) -> Result<usize, Code> {
        let id = self.capture_of(stream).ok_or(code::ILLEGAL_STATE)?;
        let capture = self.captures.get_mut(&id).ok_or(code::ILLEGAL_STATE)?;
        if capture.mode != RELAXED && capture.thread != thread() {
            return Err(code::CAPTURE_WRONG_THREAD);
        }
        if capture.origin != stream {
            capture.invalid = true;
            return Err(code::CAPTURE_UNMATCHED);
        }
        let capture = self.over(id).ok_or(code::ILLEGAL_STATE)?;
        if capture.invalid {
            return Err(code::CAPTURE_INVALIDATED);
        }
        let mut joined = vec![false; capture.nodes.len()];
        let mut left = capture.tips.get(&stream).cloned().unwrap_or_default();
        while let Some(node) = left.pop() {
            if !std::mem::replace(&mut joined[node], true) {
                left.extend(&capture.nodes[node].after);
            }
        }
        if joined.contains(&false) {
            return Err(code::CAPTURE_UNJOINED);
        }
        let handles = capture.nodes.iter().map(|_| self.id()).collect();
        let graph = self.id();
        let context = capture.context;
        self.graphs.insert(
            graph,
            Graph {
                context,
                nodes: capture.nodes.into(),
                handles,
            },
        );
        self.count(context, Kind::Graph, true);
        Ok(graph)
    }

    /// Takes all streams out of a capture.
    fn over(&mut self, id: usize) -> Option<Capture> {
        let capture = self.captures.remove(&id)?;
        for stream in capture.tips.keys() {
            self.join(*stream, None);
        }
        Some(capture)
    }

    /// A stream that is destroyed leaves its capture.
    pub(crate) fn leave(&mut self, stream: usize) {
        let Some(id) = self.capture_of(stream) else {
            return;
        };
        if self.captures[&id].origin == stream {
            self.over(id);
        } else if let Some(capture) = self.captures.get_mut(&id) {
            capture.invalid = true;
            capture.tips.remove(&stream);
        }
    }

    /// What an event recorded now in `stream` stands for.
    pub(crate) fn mark(&self, stream: usize) -> Result<Mark, Code> {
        let Some(id) = self.capture_of(stream) else {
            return Ok(Mark::Place(stream, self.streams[&stream].submitted));
        };
        let capture = &self.captures[&id];
        if capture.invalid {
            return Err(code::CAPTURE_INVALIDATED);
        }
        Ok(Mark::Captured(id, capture.tips[&stream].clone()))
    }

    /// Has a stream wait for an event.
    pub(crate) fn follow(&mut self, stream: usize, mark: Mark) -> Done {
        let mine = self.capture_of(stream);
        if mine.is_some_and(|id| self.captures[&id].invalid) {
            return Err(code::CAPTURE_INVALIDATED);
        }
        match (mine, mark) {
            (_, Mark::Nothing) => Ok(()),
            (None, Mark::Place(other, place)) => {
                if other != stream {
                    self.push(stream, crate::run::Work::Await(other, place));
                }
                Ok(())
            }
            (Some(id), Mark::Place(..)) => {
                self.captures.entry(id).and_modify(|c| c.invalid = true);
                Err(code::CAPTURE_ISOLATION)
            }
            (mine, Mark::Captured(id, nodes)) => {
                if self.captures.get(&id).is_none_or(|c| c.invalid) {
                    return Err(code::INVALID_VALUE);
                }
                if let Some(mine) = mine
                    && mine != id
                {
                    for id in [mine, id] {
                        self.captures.entry(id).and_modify(|c| c.invalid = true);
                    }
                    return Err(code::CAPTURE_MERGE);
                }
                self.join(stream, Some(id));
                self.captures.entry(id).and_modify(|capture| {
                    capture.tips.entry(stream).or_default().extend(nodes);
                });
                Ok(())
            }
        }
    }
}

/// `CUgraphNodeType`.
pub(crate) mod node {
    pub(crate) const KERNEL: u32 = 0;
    pub(crate) const COPY: u32 = 1;
    pub(crate) const FILL: u32 = 2;
    pub(crate) const ALLOCATE: u32 = 10;
    pub(crate) const FREE: u32 = 11;
}
