//! The order between streams that use the same memory (M9), and who still uses it (M8).
//!
//! Every driver stream has a [`Line`]: a count of what was submitted to it, and a way to mark a
//! point in it from any thread. Memory notes who used it last, as places on lines. A point is marked
//! only when somebody else has to wait for such a place, so streams that share nothing cost each
//! other nothing.

use std::cell::Cell;
use std::num::NonZeroU64;
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
            at: self.next_place(),
        }
    }

    #[inline]
    pub(crate) fn next_place(&self) -> u64 {
        // Nobody submits so much that it wraps.
        self.submitted().wrapping_add(1)
    }

    /// What was to be submitted there has been, or has failed.
    #[inline]
    pub(crate) fn pass(&self, place: u64) {
        self.submitted.store(place, Ordering::Release);
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

    /// Waits on the host until the work is done.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        if self.line.is_done(self.at) {
            return Ok(());
        }
        self.line.wait()
    }
}

/// Who uses a piece of memory.
pub(crate) struct Uses<B: Backend> {
    last: Mutex<LastUses<B>>,
    /// Who noted last: the [`Repeat`] of that number, or somebody who does not repeat. It changes under
    /// the device's turn to submit.
    by: AtomicU64,
}

/// The last uses of a piece of memory: its last write, and the reads since, one a line.
struct LastUses<B: Backend> {
    write: Option<Noted<B>>,
    reads: Vec<Noted<B>>,
}

/// A use, as memory notes it.
struct Noted<B: Backend> {
    line: Arc<Line<B>>,
    at: Moment,
}

/// A place on a line: of one submission, or of the last of many.
#[derive(Clone)]
enum Moment {
    Once(u64),
    Again(Arc<AtomicU64>),
}

impl<B: Backend> Noted<B> {
    fn place(&self) -> Place<B> {
        Place {
            line: Arc::clone(&self.line),
            at: match &self.at {
                Moment::Once(at) => *at,
                Moment::Again(at) => at.load(Ordering::Acquire),
            },
        }
    }

    fn is_on(&self, line: &Line<B>) -> bool {
        self.line.number == line.number
    }
}

impl<B: Backend> Uses<B> {
    pub(crate) fn none() -> Self {
        Self {
            last: Mutex::new(LastUses {
                write: None,
                reads: Vec::new(),
            }),
            by: AtomicU64::new(NOBODY),
        }
    }

    /// Waits on the host until nothing uses the memory any more.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let last = lock(&self.last);
        last.before(true).try_for_each(|noted| noted.place().wait())
    }
}

impl<B: Backend> LastUses<B> {
    /// What must come before a read, or before a write.
    fn before(&self, writes: bool) -> impl Iterator<Item = &Noted<B>> {
        let reads = if writes { &*self.reads } else { &[] };
        self.write.iter().chain(reads)
    }

    fn note(&mut self, writes: bool, line: &Arc<Line<B>>, at: Moment) {
        if writes {
            self.reads.clear();
            let line = Arc::clone(line);
            self.write = Some(Noted { line, at });
            return;
        }
        let mine = self.reads.iter_mut().find(|read| read.is_on(line));
        match mine {
            Some(read) => read.at = at,
            None => self.reads.push(Noted {
                line: Arc::clone(line),
                at,
            }),
        }
    }
}

/// Nobody's number.
const NOBODY: u64 = 0;

/// What a graph notes at each replay. As long as it is replayed on one line, and nobody else uses its
/// memory, all of it is noted already, and only the place is another.
pub(crate) struct Repeat<B: Backend> {
    number: u64,
    noted: Option<(Arc<Line<B>>, Arc<AtomicU64>)>,
    /// The change of the device at which all of the memory was seen to be as it was left.
    looked_at: Cell<Option<NonZeroU64>>,
}

impl<B: Backend> Repeat<B> {
    pub(crate) fn new() -> Self {
        Self {
            number: NOBODY,
            noted: None,
            looked_at: Cell::new(None),
        }
    }

    /// Whether nothing has changed since.
    #[inline]
    pub(crate) fn looked_at(&self, changes: u64) -> bool {
        self.looked_at.get().is_some_and(|at| at.get() == changes)
    }

    pub(crate) fn look_at(&self, changes: u64) {
        self.looked_at.set(NonZeroU64::new(changes));
    }

    /// The place of the last replay on the line that it is noted on.
    pub(crate) fn last(&self) -> Option<Place<B>> {
        let (line, at) = self.noted.as_ref()?;
        Some(Place {
            line: Arc::clone(line),
            at: at.load(Ordering::Acquire),
        })
    }

    /// The place of another replay on `line`, if memory is noted on that.
    #[inline]
    pub(crate) fn moves_on(&self, line: &Arc<Line<B>>) -> Option<&AtomicU64> {
        match &self.noted {
            Some((noted, at)) if Arc::ptr_eq(noted, line) => Some(at),
            _ => None,
        }
    }

    /// Whether nobody else has used this memory since. Under the device's turn to submit.
    #[inline]
    pub(crate) fn is_last_on(&self, uses: &Uses<B>) -> bool {
        uses.by.load(Ordering::Relaxed) == self.number
    }

    /// All of it is to be noted at `here`, by the answer.
    pub(crate) fn start(&mut self, here: &Place<B>) -> Noting {
        static NEXT: AtomicU64 = AtomicU64::new(NOBODY + 1);
        let at = Arc::new(AtomicU64::new(here.at));
        self.number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.looked_at.set(None);
        self.noted = Some((Arc::clone(&here.line), Arc::clone(&at)));
        Noting {
            by: self.number,
            at: Moment::Again(at),
        }
    }

    /// It could not be noted.
    pub(crate) fn forget(&mut self) {
        self.noted = None;
    }
}

/// How a use is noted.
pub(crate) struct Noting {
    by: u64,
    at: Moment,
}

impl Noting {
    /// By somebody who does not repeat it.
    pub(crate) fn once<B: Backend>(here: &Place<B>) -> Self {
        Self {
            by: NOBODY,
            at: Moment::Once(here.at),
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

    /// Before a use of memory on a line: waits for the uses that it must come after, and notes it. To
    /// be called, with the submission itself, under the device's [`Submitting`] lock, so that a note is
    /// never seen before what it notes was submitted.
    pub(crate) fn come_after<'a, B: Backend>(
        &mut self,
        uses: &Uses<B>,
        writes: bool,
        line: &Arc<Line<B>>,
        noting: &Noting,
        call: impl Fn() -> Call<'a, B>,
    ) -> Result<(), Error> {
        let mut last = lock(&uses.last);
        for noted in last.before(writes) {
            if !noted.is_on(line) {
                self.follow(&noted.place(), call())?;
            }
        }
        last.note(writes, line, noting.at.clone());
        uses.by.store(noting.by, Ordering::Relaxed);
        Ok(())
    }
}
