//! Work: queued, and run when somebody waits for it.

use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::code;
use crate::kernels::{self, Launch};
use crate::state::{Code, Done, Mark, Node, Sim};

/// What waits in the queue of a stream.
#[derive(Clone)]
pub(crate) enum Work {
    Run(Op),
    /// Until another stream has come to a place.
    Await(usize, u64),
}

#[derive(Clone)]
pub(crate) enum Op {
    Launch(Arc<Launch>),
    /// Repeats a value of `width` bytes at every `pitch`.
    Fill {
        to: usize,
        value: u32,
        width: usize,
        pitch: usize,
        count: usize,
    },
    Copy {
        to: Side,
        from: Side,
        bytes: usize,
    },
    /// Bytes that were copied when the call was made.
    Put {
        to: usize,
        bytes: Arc<[u8]>,
    },
    Graph(Arc<Vec<Node>>),
    Nothing,
}

#[derive(Clone, Copy)]
pub(crate) enum Side {
    Device(usize),
    Host(usize),
}

impl Sim {
    /// Queues work outside a capture.
    pub(crate) fn enqueue(&mut self, stream: usize, op: Op) -> u64 {
        let (context, blocking) = {
            let stream = &self.streams[&stream];
            (stream.context, stream.blocking)
        };
        // D (`CU_STREAM_LEGACY`): the legacy stream and blocking streams of its context are in order.
        if blocking {
            let legacy = self.contexts[&context].legacy;
            let is_legacy = legacy == stream;
            let befores: Vec<_> = self
                .streams
                .iter()
                .filter(|(id, other)| {
                    other.context == context
                        && other.blocking
                        && **id != stream
                        && (is_legacy || **id == legacy)
                        && other.done < other.submitted
                })
                .map(|(id, other)| (*id, other.submitted))
                .collect();
            for (id, place) in befores {
                self.push(stream, Work::Await(id, place));
            }
        }
        self.push(stream, Work::Run(op))
    }

    pub(crate) fn push(&mut self, stream: usize, work: Work) -> u64 {
        let Some(stream) = self.streams.get_mut(&stream) else {
            return 0;
        };
        stream.queue.push_back(work);
        stream.submitted += 1;
        stream.submitted
    }

    /// Runs one piece of what `stream` must do to come to `place`. Whether there was any.
    pub(crate) fn step(&mut self, stream: usize, place: u64) -> bool {
        let Some(this) = self.streams.get_mut(&stream) else {
            return false;
        };
        if this.done >= place {
            return false;
        }
        match this.queue.front().cloned() {
            None => false,
            Some(Work::Await(other, at)) => {
                if !self.step(other, at)
                    && let Some(this) = self.streams.get_mut(&stream)
                {
                    this.queue.pop_front();
                    this.done += 1;
                }
                true
            }
            Some(Work::Run(op)) => {
                this.queue.pop_front();
                this.done += 1;
                let context = this.context;
                // After an error a context runs nothing any more.
                if self
                    .contexts
                    .get(&context)
                    .is_some_and(|c| c.poison.is_none())
                    && let Err(failed) = self.execute(&op)
                    && let Some(context) = self.contexts.get_mut(&context)
                {
                    context.poison = Some(failed);
                }
                true
            }
        }
    }

    /// Runs until `stream` is at `place`. The error is what its context has failed with.
    pub(crate) fn run_to(&mut self, stream: usize, place: u64) -> Done {
        while self.step(stream, place) {}
        let context = self.streams.get(&stream).map_or(0, |this| this.context);
        self.contexts
            .get(&context)
            .and_then(|context| context.poison)
            .map_or(Ok(()), Err)
    }

    /// Whether what was recorded in an event is done.
    pub(crate) fn is_done(&self, mark: &Mark) -> bool {
        match mark {
            Mark::Place(stream, place) => self.streams.get(stream).is_none_or(|s| s.done >= *place),
            _ => true,
        }
    }

    fn execute(&mut self, op: &Op) -> Done {
        match op {
            Op::Nothing => Ok(()),
            Op::Launch(launch) => kernels::run(self, launch),
            Op::Graph(nodes) => in_some_order(nodes).try_for_each(|op| self.execute(op)),
            Op::Fill {
                to,
                value,
                width,
                pitch,
                count,
            } => {
                let value = &value.to_ne_bytes()[..*width];
                let bytes = (count - 1) * pitch + width;
                for element in self.bytes_mut(*to, bytes)?.chunks_mut(*pitch) {
                    element[..*width].copy_from_slice(value);
                }
                Ok(())
            }
            Op::Put { to, bytes } => {
                self.bytes_mut(*to, bytes.len())?.copy_from_slice(bytes);
                Ok(())
            }
            Op::Copy { to, from, bytes } => {
                let from = match from {
                    Side::Device(from) => self.bytes_mut(*from, *bytes)?.as_ptr(),
                    Side::Host(from) => *from as *const u8,
                };
                let to = match to {
                    Side::Device(to) => self.bytes_mut(*to, *bytes)?.as_mut_ptr(),
                    Side::Host(to) => *to as *mut u8,
                };
                // SAFETY: the device's sides were looked up; the host's are the caller's promise, as
                // with the real driver.
                unsafe { std::ptr::copy(from, to, *bytes) };
                Ok(())
            }
        }
    }

    /// Device memory, if it lies in one allocation that is live.
    pub(crate) fn bytes_mut(&mut self, address: usize, bytes: usize) -> Result<&mut [u8], Code> {
        let (start, allocation) = self
            .device_memory
            .range(..=address)
            .next_back()
            .ok_or(code::ILLEGAL_ADDRESS)?;
        let inside = address - start;
        if bytes > allocation.bytes().saturating_sub(inside) {
            return Err(code::ILLEGAL_ADDRESS);
        }
        // SAFETY: it lies in a live allocation, which only calls under the lock of `self` touch.
        Ok(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) })
    }
}

/// The work of a graph, each node behind those that it comes after, and otherwise the last first.
fn in_some_order(nodes: &[Node]) -> impl Iterator<Item = &Op> {
    let mut left: Vec<usize> = nodes.iter().map(|node| node.after.len()).collect();
    let mut followers = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for &before in &node.after {
            followers[before].push(index);
        }
    }
    let mut ready: BinaryHeap<usize> = (0..nodes.len()).filter(|&index| left[index] == 0).collect();
    std::iter::from_fn(move || {
        let index = ready.pop()?;
        for &follower in &followers[index] {
            left[follower] -= 1;
            if left[follower] == 0 {
                ready.push(follower);
            }
        }
        Some(&nodes[index].op)
    })
}
