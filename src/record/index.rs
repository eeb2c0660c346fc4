//! The index of the device record: a set of owners, each with a count, that is written by one
//! transition at a time and read by anyone without a lock.

use std::array;
use std::iter;
use std::sync::OnceLock;

use crate::stream_id::StreamId;
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Release};

/// The owners of active captures, each in one cell with the number of its captures.
///
/// An owner's cell lies in its home line or in the chain behind it. Chains grow where they are full,
/// and no line is moved or freed, so readers walk them without a lock. A search costs the length of
/// one chain: one line, unless hundreds of owners are active or their ids collide. At worst (ids
/// chosen to collide) it costs a scan over as many owners as were ever active at once.
pub(super) struct Index {
    /// 1 while any capture is active. That is in the counts as well, but every transition writes
    /// those; this changes with the first capture and the last, so while others are active, who
    /// comes and goes takes no cache line from readers that ask for other ids.
    occupied: AtomicU64,
    lines: Box<[Line; LINES]>,
}

/// The cells of one cache line.
#[derive(Default)]
#[repr(align(64))]
struct Line {
    cells: [Cell; CELLS],
    next: OnceLock<Box<Line>>,
}

// Under loom all owners share one chain of small lines, so that they meet.
const LINES: usize = if cfg!(graph_capture_loom) { 1 } else { 256 };
const CELLS: usize = if cfg!(graph_capture_loom) { 1 } else { 3 };
#[cfg(not(graph_capture_loom))]
static_assertions::const_assert!(size_of::<Line>() == 64);

/// Where an owner's cell is: its home line, and how far along the chain and in the line there.
#[derive(Debug)]
pub(super) struct Place {
    home: u8,
    line: u32,
    cell: u8,
}

impl Index {
    pub(super) fn new() -> Self {
        let lines: Box<[Line; LINES]> = Box::new(array::from_fn(|_| Line::default()));
        if cfg!(graph_capture_loom) {
            // Loom does not model the `OnceLock`, so there no line is added later.
            lines.iter().for_each(|line| _ = line.grow().grow());
        }
        Self {
            occupied: AtomicU64::new(0),
            lines,
        }
    }

    /// Whether a capture of `owner` is counted, for readers without a lock.
    #[inline]
    pub(super) fn shows(&self, owner: StreamId) -> bool {
        // Acquire, for `false`: who learns that a capture ended learns what it did before.
        self.occupied.load(Acquire) != 0 && self.holds(owner)
    }

    /// A miss needs no second look: an owner that is counted during the whole call is in one cell
    /// during all of it.
    fn holds(&self, owner: StreamId) -> bool {
        self.find(home(owner), |cell| cell.shows(owner)).is_some()
    }

    /// Publishes, under the transition lock, that there is something to look for: before the first
    /// owner enters and after the last left.
    pub(super) fn occupy(&self, occupied: bool) {
        // Release: carries the ends before it.
        self.occupied.store(u64::from(occupied), Release);
    }

    /// Counts a capture of `owner`, under the transition lock.
    pub(super) fn enter(&self, owner: StreamId) -> Place {
        let home = home(owner);
        // Never a second cell for one owner: a reader could pass the one before it fills and reach
        // the other after it empties.
        let (place, cell) = self
            .find(home, |cell| cell.shows(owner))
            .or_else(|| self.find(home, Cell::is_free))
            .unwrap_or_else(|| self.add(home));
        cell.enter(owner);
        place
    }

    /// Uncounts the capture that is counted at `place`, under the transition lock.
    pub(super) fn leave(&self, place: Place) {
        let line = self.chain(place.home).nth(place.line as usize);
        if let Some(cell) = line.and_then(|line| line.cells.get(usize::from(place.cell))) {
            cell.leave();
        }
    }

    fn find(&self, home: u8, wanted: impl Fn(&Cell) -> bool) -> Option<(Place, &Cell)> {
        for (nth_line, line) in (0..).zip(self.chain(home)) {
            for (nth_cell, cell) in (0..).zip(&line.cells) {
                if wanted(cell) {
                    let place = Place {
                        home,
                        line: nth_line,
                        cell: nth_cell,
                    };
                    return Some((place, cell));
                }
            }
        }
        None
    }

    /// The first cell of a new line behind the chain.
    fn add(&self, home: u8) -> (Place, &Cell) {
        let before = (0, self.line(home));
        let (line, last) = self
            .chain(home)
            .fold(before, |(lines, _), line| (lines + 1, line));
        let [cell, ..] = &last.grow().cells;
        let place = Place {
            home,
            line,
            cell: 0,
        };
        (place, cell)
    }

    fn chain(&self, home: u8) -> impl Iterator<Item = &Line> {
        iter::successors(Some(self.line(home)), |line| {
            line.next.get().map(Box::as_ref)
        })
    }

    fn line(&self, home: u8) -> &Line {
        let [first, ..] = &*self.lines;
        self.lines.get(usize::from(home)).unwrap_or(first) // Missing under loom alone: no branch.
    }
}

/// The home line of `owner`. The multiplier (2^64 by the golden ratio) spreads ids that count up,
/// and those that differ in their high bits alone; a thread's id lies half the index away from a
/// given id of the same number.
pub(super) fn home(owner: StreamId) -> u8 {
    let (number, is_thread) = owner.parts();
    let id = number.wrapping_add(u64::from(is_thread) << 63);
    (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

impl Line {
    /// The next line of the chain, added if this is the last.
    fn grow(&self) -> &Line {
        self.next.get_or_init(Box::default)
    }
}

/// The captures of one owner, or of none.
#[derive(Default)]
struct Cell {
    /// The number of the owner; of the last one, if there is none.
    key: AtomicU64,
    /// A [`State`].
    state: AtomicU64,
}

/// `occupant << 32 | captures`
#[derive(Clone, Copy)]
struct State {
    /// Which stay of which kind of id: twice the owners that left before, and one for a thread's.
    /// It comes around after 2^31 stays within one read.
    occupant: u32,
    captures: u32,
}

impl Cell {
    fn shows(&self, owner: StreamId) -> bool {
        let (number, is_thread) = owner.parts();
        let state = self.state();
        state.captures != 0
            && state.occupant & 1 == u32::from(is_thread)
            // Acquire: who reads a later owner's key sees that the earlier one left.
            && self.key.load(Acquire) == number
            // The key was this occupant's, then, and not one that came or went meanwhile.
            && self.state().occupant == state.occupant
    }

    fn is_free(&self) -> bool {
        self.state().captures == 0
    }

    fn enter(&self, owner: StreamId) {
        let (number, is_thread) = owner.parts();
        let mut state = self.state();
        if state.captures == 0 {
            state.occupant += u32::from(is_thread);
            self.key.store(number, Release); // Carries the departure of the owner before.
        }
        state.captures += 1;
        self.publish(state);
    }

    fn leave(&self) {
        let mut state = self.state();
        state.captures -= 1;
        if state.captures == 0 {
            state.occupant = (state.occupant | 1).wrapping_add(1); // The next stay, of no thread.
        }
        self.publish(state);
    }

    fn state(&self) -> State {
        // Acquire: the key is not older than the state, nor the second state than the key. And who
        // learns that a capture ended learns what it did before.
        let bits = self.state.load(Acquire);
        State {
            occupant: (bits >> 32) as u32,
            captures: bits as u32,
        }
    }

    fn publish(&self, state: State) {
        let bits = (u64::from(state.occupant) << 32) + u64::from(state.captures);
        // Release: who sees the state sees the key and the counts before it.
        self.state.store(bits, Release);
    }
}
