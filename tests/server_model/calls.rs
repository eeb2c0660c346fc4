//! What a sequence is made of: the calls of callers on a pool, in numbers that mean something whatever
//! there is when their turn comes.

use graph_capture::host::{Step, When};
use proptest::collection::vec;
use proptest::prelude::*;

/// Callers, on two streams.
pub const CALLERS: u64 = 5;
pub const STREAMS: u64 = 2;

/// A command of a closure. Numbers pick buffers.
#[derive(Debug, Clone, Copy)]
pub enum Verb {
    Write(u8, u8),
    /// Of the wrong length.
    BadWrite(u8),
    Fill(u8, u8),
    Copy(u8, u8),
    /// `to = from + 1`.
    Add(u8, u8),
    /// `to += from`.
    Accumulate(u8, u8),
    /// One buffer read and written.
    Alias(u8),
    /// A buffer of another device.
    Foreign,
    /// A new buffer, that holds one more than another; and whether it is kept.
    Derive(u8, bool),
    Download(u8),
    /// A kernel that panics.
    Boom(u8),
}

/// How a closure ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Well, whatever its commands said.
    Swallows,
    /// With the first error of a command.
    Propagates,
    Fails,
    Panics,
}

#[derive(Debug, Clone)]
pub struct Script {
    pub verbs: Vec<Verb>,
    pub fate: Fate,
}

/// A call, but for who makes it.
#[derive(Debug, Clone)]
pub enum Call {
    /// With a time limit that is over at once, or none.
    Prepare(bool),
    Again,
    Begin,
    End,
    Abort,
    Disconnect,
    Capture(Script),
    /// In the caller's own window rather what its warm-up submitted next.
    Submit(Script, bool),
    Write(u8, u8, bool),
    Read(u8),
    ReadInto(u8),
    Synchronize,
    Completion,
    Profile(Script),
    Replay(u8),
    ReadDownload(u8, u8),
    Destroy(u8),
    /// A handle goes.
    Drop(u8),
    Trim,
    TakeExpired,
}

#[derive(Debug, Clone)]
pub struct Sequence {
    pub divert: bool,
    pub destroys: bool,
    pub faults: Vec<(Step, usize, When)>,
    pub calls: Vec<(u64, Call)>,
}

fn seldom(weight: f64) -> impl Strategy<Value = bool> {
    proptest::bool::weighted(weight)
}

fn verb() -> impl Strategy<Value = Verb> {
    let buffer = any::<u8>;
    let two = any::<(u8, u8)>;
    prop_oneof![
        4 => two().prop_map(|(to, value)| Verb::Write(to, value)),
        1 => buffer().prop_map(Verb::BadWrite),
        2 => two().prop_map(|(to, value)| Verb::Fill(to, value)),
        4 => two().prop_map(|(from, to)| Verb::Copy(from, to)),
        8 => two().prop_map(|(from, to)| Verb::Add(from, to)),
        4 => two().prop_map(|(from, to)| Verb::Accumulate(from, to)),
        1 => buffer().prop_map(Verb::Alias),
        1 => Just(Verb::Foreign),
        4 => (buffer(), seldom(0.3)).prop_map(|(from, keep)| Verb::Derive(from, keep)),
        2 => buffer().prop_map(Verb::Download),
        1 => buffer().prop_map(Verb::Boom),
    ]
}

fn script() -> impl Strategy<Value = Script> {
    let fate = prop_oneof![
        20 => Just(Fate::Swallows),
        20 => Just(Fate::Propagates),
        1 => Just(Fate::Fails),
        1 => Just(Fate::Panics),
    ];
    (vec(verb(), 0..4), fate).prop_map(|(verbs, fate)| Script { verbs, fate })
}

fn call() -> impl Strategy<Value = Call> {
    let number = any::<u8>;
    prop_oneof![
        8 => seldom(0.1).prop_map(Call::Prepare),
        1 => Just(Call::Again),
        8 => Just(Call::Begin),
        7 => Just(Call::End),
        2 => Just(Call::Abort),
        1 => Just(Call::Disconnect),
        3 => script().prop_map(Call::Capture),
        16 => (script(), seldom(0.9)).prop_map(|(script, repeat)| Call::Submit(script, repeat)),
        4 => (number(), number(), seldom(0.1)).prop_map(|(to, value, bad)| Call::Write(to, value, bad)),
        5 => number().prop_map(Call::Read),
        2 => number().prop_map(Call::ReadInto),
        2 => Just(Call::Synchronize),
        1 => Just(Call::Completion),
        2 => script().prop_map(Call::Profile),
        5 => number().prop_map(Call::Replay),
        2 => any::<(u8, u8)>().prop_map(|(graph, download)| Call::ReadDownload(graph, download)),
        2 => number().prop_map(Call::Destroy),
        1 => number().prop_map(Call::Drop),
        1 => Just(Call::Trim),
        1 => Just(Call::TakeExpired),
    ]
}

/// A command that nothing is wrong with.
fn good_verb() -> impl Strategy<Value = Verb> {
    let two = any::<(u8, u8)>;
    prop_oneof![
        two().prop_map(|(to, value)| Verb::Write(to, value)),
        two().prop_map(|(to, value)| Verb::Fill(to, value)),
        (any::<u8>(), seldom(0.3)).prop_map(|(from, keep)| Verb::Derive(from, keep)),
        any::<u8>().prop_map(Verb::Download),
    ]
}

/// A call; or a capture as far as its window, or as its graph.
fn calls() -> impl Strategy<Value = Vec<Call>> {
    let fate = Fate::Propagates;
    let begun = (vec(good_verb(), 1..3), any::<bool>()).prop_map(move |(verbs, ends)| {
        let script = Script { verbs, fate };
        let begun = vec![
            Call::Prepare(false),
            Call::Submit(script.clone(), false),
            Call::Begin,
            Call::Submit(script, true),
        ];
        let end = ends.then_some(Call::End);
        begun.into_iter().chain(end).collect()
    });
    prop_oneof![
        8 => call().prop_map(|call| vec![call]),
        1 => begun,
    ]
}

/// Often the same caller as before, so that captures come to their end.
fn callers() -> impl Strategy<Value = Vec<(u64, Call)>> {
    let next = (proptest::option::weighted(0.4, 0..CALLERS), calls());
    vec(next, 1..30).prop_map(|turns| {
        let mut caller = 0;
        let mut all = Vec::new();
        for (next, calls) in turns {
            caller = next.unwrap_or(caller);
            all.extend(calls.into_iter().map(|call| (caller, call)));
        }
        all
    })
}

pub fn sequence() -> impl Strategy<Value = Sequence> {
    let step = prop_oneof![
        4 => Just(Step::Command),
        1 => Just(Step::Allocation),
        2 => Just(Step::Transition),
        1 => Just(Step::Free),
    ];
    let when = prop_oneof![Just(When::Before), Just(When::After)];
    let faults = vec((step, 0usize..60, when), 0..3);
    (any::<bool>(), any::<bool>(), faults, callers()).prop_map(
        |(divert, destroys, faults, calls)| Sequence {
            divert,
            destroys,
            faults,
            calls,
        },
    )
}
