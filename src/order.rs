//! The order between streams that use the same memory (M9), and who still uses it (M8).
//!
//! Every driver stream has a [`Line`]: a count of what was submitted to it, and a way to mark a
//! point in it from any thread. Memory notes who used it last, as places on lines. A point is marked
//! only when somebody else has to wait for such a place, so streams that share nothing cost each
//! other nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::backend::{Backend, Call};
use crate::error::Error;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The work of one driver stream, in the order of its submission.
pub(crate) struct Line<B: Backend> {
    number: u64,
    /// Or why there is none.
    timeline: Result<B::Timeline, Error>,
    /// How much was submitted.
    submitted: AtomicU64,
    /// How much of it is known to be done.
    done: AtomicU64,
    /// While the stream is in a window, the point before it: marking one inside would record it.
    before_window: Mutex<Option<Arc<B::Point>>>,
}

impl<B: Backend> Line<B> {
    pub(crate) fn new(timeline: Result<B::Timeline, Error>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            timeline,
            submitted: AtomicU64::new(0),
            done: AtomicU64::new(0),
            before_window: Mutex::new(None),
        })
    }

    /// Marks the point behind all that was submitted so far.
    pub(crate) fn mark(&self) -> Result<Arc<B::Point>, Error> {
        match &*lock(&self.before_window) {
            Some(point) => Ok(Arc::clone(point)),
            None => self.mark_now(),
        }
    }

    /// A window is about to open: whoever must wait for this line waits for the point before it.
    pub(crate) fn enter_window(&self) -> Result<(), Error> {
        let mut before = lock(&self.before_window);
        *before = Some(self.mark_now()?);
        Ok(())
    }

    fn mark_now(&self) -> Result<Arc<B::Point>, Error> {
        let timeline = self.timeline.as_ref().map_err(Error::clone)?;
        B::mark(timeline).map(Arc::new)
    }

    pub(crate) fn leave_window(&self) {
        let before = lock(&self.before_window).take();
        drop(before);
    }

    /// Waits on the host until all that was submitted so far is done.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let submitted = self.submitted();
        if self.is_done(submitted) {
            return Ok(());
        }
        B::wait(&*self.mark()?, None)?;
        self.note_done(submitted);
        Ok(())
    }

    /// The place of the next submission.
    pub(crate) fn next(self: &Arc<Self>) -> Place<B> {
        Place {
            line: Arc::clone(self),
            at: self.submitted().saturating_add(1),
        }
    }

    /// All that was submitted up to `place` is done.
    pub(crate) fn is_done(&self, place: u64) -> bool {
        self.done.load(Ordering::Acquire) >= place
    }

    /// All that was submitted so far is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_done(self.submitted())
    }

    /// What has been submitted so far.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Somebody has seen everything up to `place` done.
    pub(crate) fn note_done(&self, place: u64) {
        self.done.fetch_max(place, Ordering::AcqRel);
    }
}

/// A place on a line: the work submitted there, and all before it.
pub(crate) struct Place<B: Backend> {
    pub(crate) line: Arc<Line<B>>,
    pub(crate) at: u64,
}

impl<B: Backend> Clone for Place<B> {
    fn clone(&self) -> Self {
        Self {
            line: Arc::clone(&self.line),
            at: self.at,
        }
    }
}

impl<B: Backend> Place<B> {
    pub(crate) fn is_same_line(&self, other: &Self) -> bool {
        self.line.number == other.line.number
    }

    /// What was to be submitted here has been, or has failed.
    pub(crate) fn pass(&self) {
        self.line.submitted.store(self.at, Ordering::Release);
    }

    /// Waits on the host until the work is done.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        if self.line.is_done(self.at) {
            return Ok(());
        }
        self.line.wait()
    }
}

/// The last uses of a piece of memory: its last write, and the reads since, one a line.
pub(crate) struct Uses<B: Backend> {
    write: Option<Place<B>>,
    reads: Vec<Place<B>>,
}

impl<B: Backend> Uses<B> {
    pub(crate) fn none() -> Self {
        Self {
            write: None,
            reads: Vec::new(),
        }
    }

    /// Waits on the host until nothing uses the memory any more.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.before(true).try_for_each(Place::wait)
    }

    /// What must come before a read, or before a write.
    fn before(&self, writes: bool) -> impl Iterator<Item = &Place<B>> {
        let reads = if writes { &*self.reads } else { &[] };
        self.write.iter().chain(reads)
    }

    fn note(&mut self, writes: bool, here: &Place<B>) {
        if writes {
            self.reads.clear();
            self.write = Some(here.clone());
            return;
        }
        let mine = self.reads.iter_mut().find(|place| place.is_same_line(here));
        match mine {
            Some(place) => place.at = here.at,
            None => self.reads.push(here.clone()),
        }
    }
}

/// What one stream knows of the others: up to which place it already comes after them.
#[derive(Default)]
pub(crate) struct Followed(FxHashMap<u64, u64>);

impl Followed {
    /// More lines than this are forgotten, which costs a wait, and no more.
    const MOST: usize = 64;

    /// Has the stream's further work wait, on the device, for `place`.
    fn follow<B: Backend>(&mut self, place: &Place<B>, call: Call<'_, B>) -> Result<(), Error> {
        let line = &place.line;
        let known = self.0.get(&line.number).copied().unwrap_or(0);
        if known >= place.at || line.is_done(place.at) {
            return Ok(());
        }
        let submitted = line.submitted();
        B::follow(call, &*line.mark()?)?;
        if self.0.len() >= Self::MOST {
            self.0.clear();
        }
        self.0.insert(line.number, submitted);
        Ok(())
    }

    /// Before a use of memory on line `here`: waits for the uses that it must come after, and notes
    /// it. To be called, with the submission itself, under the device's [`Submitting`] lock, so that
    /// a note is never seen before what it notes was submitted.
    pub(crate) fn come_after<'a, B: Backend>(
        &mut self,
        uses: &Mutex<Uses<B>>,
        writes: bool,
        here: &Place<B>,
        call: impl Fn() -> Call<'a, B>,
    ) -> Result<(), Error> {
        let mut uses = lock(uses);
        for place in uses.before(writes) {
            if !place.is_same_line(here) {
                self.follow(place, call())?;
            }
        }
        uses.note(writes, here);
        Ok(())
    }
}
