//! Faults on demand: a host device that fails where it is told to, for tests of error paths.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;

use super::Host;

/// What a host device counts, and can be told to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// A launch, write, copy or fill, run or recorded; a replay, a read, a wait.
    Command,
    /// An allocation that reaches the device, and is not served by the pool.
    Allocation,
    /// `prepare`, `begin`, and the two parts of `end`: closing the window, and sealing.
    Transition,
    /// Memory given back to the device, and not only to the pool.
    Free,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Command => "command",
            Self::Allocation => "allocation",
            Self::Transition => "transition",
            Self::Free => "free",
        })
    }
}

/// When a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// Without having had an effect.
    Before,
    /// When it has had its effect.
    After,
}

/// A fault that was ordered: the source of the [`Error::Driver`] that reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the host was told to fail {step} {number} {}", match when {
    When::Before => "before its effect",
    When::After => "after its effect",
})]
pub struct Fault {
    /// What failed.
    pub step: Step,
    /// Which, from 0.
    pub number: usize,
    /// When.
    pub when: When,
}

/// Makes a [`Host`] with limits and faults, by [`Host::builder`].
///
/// ```
/// use graph_capture::host::{Host, Step, When};
///
/// let device = Host::builder().fail(Step::Command, 0, When::Before).build();
/// let stream = device.stream()?;
/// assert!(stream.upload(&[1.0]).is_err());
/// assert!(stream.upload(&[1.0]).is_ok());
/// # Ok::<(), graph_capture::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "build makes the device"]
pub struct Builder {
    faults: Vec<Fault>,
    limit: Option<usize>,
}

impl Builder {
    /// Fails the step of that number, from 0, since the device was made. May be called more than
    /// once. [`Host::steps`] tells how many there were.
    pub fn fail(mut self, step: Step, number: usize, when: When) -> Self {
        self.faults.push(Fault { step, number, when });
        self
    }

    /// Limits the device's memory: beyond it, allocations fail with [`Error::OutOfMemory`].
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.limit = Some(bytes);
        self
    }

    /// The device.
    #[must_use]
    pub fn build(self) -> Host {
        Host::with(Faults {
            counting: true,
            orders: self.faults,
            limit: self.limit.unwrap_or(usize::MAX),
            ..Faults::default()
        })
    }
}

/// What a device counts and fails. Its memory shares it.
#[derive(Default)]
pub(super) struct Faults {
    /// Whether it was made by the builder: only who orders faults pays for them.
    counting: bool,
    orders: Vec<Fault>,
    limit: usize,
    counts: Counts,
    allocated: AtomicUsize,
    /// Memory whose free was told to fail.
    lost: Mutex<Vec<Vec<u128>>>,
}

/// How many steps there were.
#[derive(Default)]
struct Counts {
    commands: AtomicUsize,
    allocations: AtomicUsize,
    transitions: AtomicUsize,
    frees: AtomicUsize,
}

impl Faults {
    pub(super) fn none() -> Self {
        Self {
            limit: usize::MAX,
            ..Self::default()
        }
    }

    pub(super) fn count(&self, step: Step) -> usize {
        self.counter(step).load(Ordering::Relaxed)
    }

    #[inline]
    fn counter(&self, step: Step) -> &AtomicUsize {
        let Counts {
            commands,
            allocations,
            transitions,
            frees,
        } = &self.counts;
        match step {
            Step::Command => commands,
            Step::Allocation => allocations,
            Step::Transition => transitions,
            Step::Free => frees,
        }
    }

    /// Takes a step, or fails it.
    #[inline]
    pub(super) fn attempt<R>(
        &self,
        step: Step,
        call: &'static str,
        effect: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        if !self.counting {
            return effect();
        }
        let number = self.counter(step).fetch_add(1, Ordering::Relaxed);
        let ordered = |fault: &&Fault| fault.step == step && fault.number == number;
        match self.orders.iter().find(ordered) {
            None => effect(),
            Some(fault) => {
                if fault.when == When::After {
                    effect()?;
                }
                Err(Error::driver(call, *fault))
            }
        }
    }

    /// Memory of zeroes.
    pub(super) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Vec<u128>, Error> {
        let within = |allocated: usize| {
            let sum = allocated.checked_add(bytes)?;
            (sum <= self.limit).then_some(sum)
        };
        self.allocated
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map_err(|_| Error::out_of_memory(bytes))?;
        let count = bytes.div_ceil(size_of::<u128>());
        let mut words = Vec::new();
        if words.try_reserve_exact(count).is_err() {
            self.allocated.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Error::out_of_memory(bytes));
        }
        words.resize(count, 0);
        Ok(words)
    }

    /// Takes back what was allocated for nobody: no step.
    pub(super) fn undo(&self, words: Vec<u128>, bytes: usize) {
        drop(words);
        self.allocated.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The counterpart of [`allocate`](Self::allocate).
    pub(super) fn free(&self, words: Vec<u128>, bytes: usize) -> Result<(), Error> {
        let mut words = Some(words);
        let freed = self.attempt(Step::Free, "free", || {
            self.undo(words.take().unwrap_or_default(), bytes);
            Ok(())
        });
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.extend(words);
        freed
    }
}
