//! What a sequence is made of: verbs and numbers. The driver resolves the numbers against what there
//! is when their turn comes, so every sequence, also a shrunk one, means something.

use proptest::collection::vec;
use proptest::prelude::*;

/// Streams of the one device.
pub const STREAMS: usize = 3;

/// Elements of a buffer: whole pages, and some that leave a part of theirs unused. Small ones are
/// frequent, so that memory is used again.
const LENGTHS: [usize; 10] = [4, 4, 4, 4, 8, 16, 30, 31, 62, 100];

/// What one command does: inside a capture as well as outside.
#[derive(Debug, Clone, Copy)]
pub enum Verb {
    /// `keep`: the buffer outlives the pass of the capture.
    Alloc {
        len: usize,
        keep: bool,
    },
    Upload {
        len: usize,
        keep: bool,
    },
    /// A buffer that was allocated in the same pass goes.
    Drop,
    Write,
    Copy,
    Fill,
    Add,
    Accumulate,
    Download,
}

/// A command, and what it is about.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub verb: Verb,
    /// The buffer that it writes, or the only one.
    pub to: u8,
    /// The buffer that it reads.
    pub from: u8,
    /// Where `to` and `from` are cut to slices.
    pub cut: [u8; 2],
    pub value: u8,
    /// Its arguments are bad.
    pub wrong: bool,
}

/// How a capture by closure goes wrong, if it does.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    /// The closure returns the first error of a command, and does not go on.
    pub propagate: bool,
    /// An error of the closure's own: in which pass, and before which step.
    pub own_error: Option<(usize, u8)>,
    /// The step that the recorded pass leaves out.
    pub skip: Option<u8>,
}

#[derive(Debug, Clone)]
pub enum Operation {
    /// Any command, outside the closures of captures. `stray`: also on a stream whose capture it
    /// will spoil.
    Command {
        stream: usize,
        spec: Spec,
        stray: bool,
    },
    Drop {
        buffer: u8,
        elsewhere: bool,
    },
    Clone {
        buffer: u8,
    },
    Slice {
        buffer: u8,
        cut: u8,
    },
    Read {
        stream: usize,
        buffer: u8,
    },
    Check {
        stream: usize,
        buffer: u8,
    },
    Capture {
        stream: usize,
        plan: Vec<Spec>,
        how: How,
    },
    /// A capture by hand begins: its plan runs in the warm-up and again in the window, between the
    /// operations of other streams.
    Prepare {
        stream: usize,
        plan: Vec<Spec>,
    },
    Again {
        stream: usize,
    },
    Advance {
        stream: usize,
        steps: u8,
    },
    /// `all`: what is left of the plan's pass runs first.
    Begin {
        stream: usize,
        all: bool,
    },
    End {
        stream: usize,
        all: bool,
    },
    Abort {
        stream: usize,
        by_drop: bool,
    },
    /// `look`: then its downloads are read.
    Replay {
        stream: usize,
        graph: u8,
        look: bool,
    },
    ReadDownload {
        stream: usize,
        graph: u8,
        download: u8,
    },
    DropGraph {
        graph: u8,
        elsewhere: bool,
    },
    Synchronize {
        stream: usize,
    },
    Trim,
}

/// Mostly `false`.
fn seldom() -> impl Strategy<Value = bool> {
    proptest::bool::weighted(0.06)
}

fn verb() -> impl Strategy<Value = Verb> {
    let len = || proptest::sample::select(&LENGTHS[..]);
    let keep = || proptest::bool::weighted(0.25);
    prop_oneof![
        3 => (len(), keep()).prop_map(|(len, keep)| Verb::Alloc { len, keep }),
        2 => (len(), keep()).prop_map(|(len, keep)| Verb::Upload { len, keep }),
        2 => Just(Verb::Drop),
        2 => Just(Verb::Write),
        3 => Just(Verb::Copy),
        1 => Just(Verb::Fill),
        3 => Just(Verb::Add),
        3 => Just(Verb::Accumulate),
        1 => Just(Verb::Download),
    ]
}

fn spec() -> impl Strategy<Value = Spec> {
    let numbers = (any::<u8>(), any::<u8>(), any::<[u8; 2]>(), any::<u8>());
    (verb(), numbers, seldom()).prop_map(|(verb, (to, from, cut, value), wrong)| Spec {
        verb,
        to,
        from,
        cut,
        value,
        wrong,
    })
}

fn plan() -> impl Strategy<Value = Vec<Spec>> {
    vec(spec(), 1..7)
}

fn how() -> impl Strategy<Value = How> {
    let own_error = proptest::option::weighted(0.08, (1usize..3, any::<u8>()));
    let skip = proptest::option::weighted(0.08, any::<u8>());
    (any::<bool>(), own_error, skip).prop_map(|(propagate, own_error, skip)| How {
        propagate,
        own_error,
        skip,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation as Op;
    let stream = || 0..STREAMS;
    let often = || proptest::bool::weighted(0.9);
    let replay = |(stream, graph, look)| Op::Replay {
        stream,
        graph,
        look,
    };
    let spoil = |(stream, to, value)| {
        let (verb, from, cut, wrong, stray) = (Verb::Write, 0, [0, 0], true, false);
        let spec = Spec {
            verb,
            to,
            from,
            cut,
            value,
            wrong,
        };
        Op::Command {
            stream,
            spec,
            stray,
        }
    };
    prop_oneof![
        14 => (stream(), spec(), seldom())
            .prop_map(|(stream, spec, stray)| Op::Command { stream, spec, stray }),
        5 => (any::<u8>(), seldom()).prop_map(|(buffer, elsewhere)| Op::Drop { buffer, elsewhere }),
        1 => any::<u8>().prop_map(|buffer| Op::Clone { buffer }),
        2 => any::<(u8, u8)>().prop_map(|(buffer, cut)| Op::Slice { buffer, cut }),
        6 => (stream(), any::<u8>()).prop_map(|(stream, buffer)| Op::Read { stream, buffer }),
        1 => (stream(), any::<u8>()).prop_map(|(stream, buffer)| Op::Check { stream, buffer }),
        5 => (stream(), plan(), how())
            .prop_map(|(stream, plan, how)| Op::Capture { stream, plan, how }),
        4 => (stream(), plan()).prop_map(|(stream, plan)| Op::Prepare { stream, plan }),
        1 => stream().prop_map(|stream| Op::Again { stream }),
        4 => (stream(), 1u8..4).prop_map(|(stream, steps)| Op::Advance { stream, steps }),
        4 => (stream(), often()).prop_map(|(stream, all)| Op::Begin { stream, all }),
        4 => (stream(), often()).prop_map(|(stream, all)| Op::End { stream, all }),
        1 => (stream(), any::<bool>()).prop_map(|(stream, by_drop)| Op::Abort { stream, by_drop }),
        2 => (stream(), any::<u8>(), any::<u8>()).prop_map(spoil),
        10 => (stream(), any::<u8>(), any::<bool>()).prop_map(replay),
        4 => (stream(), any::<u8>(), any::<u8>())
            .prop_map(|(stream, graph, download)| Op::ReadDownload { stream, graph, download }),
        2 => (any::<u8>(), seldom()).prop_map(|(graph, elsewhere)| Op::DropGraph { graph, elsewhere }),
        1 => stream().prop_map(|stream| Op::Synchronize { stream }),
        1 => Just(Op::Trim),
    ]
}

/// What chance alone rarely brings together: another stream records over memory that was allocated in
/// a window still open, which then drops it and allocates as much again; and both graphs replay.
fn two_windows() -> impl Strategy<Value = Vec<Operation>> {
    use Operation as Op;
    let writes = prop_oneof![Just(Verb::Write), Just(Verb::Fill), Just(Verb::Add)];
    let length = proptest::sample::select(&LENGTHS[..]);
    let specs = [spec().boxed(), spec().boxed(), spec().boxed()];
    (0..STREAMS, length, writes, specs, plan()).prop_map(|(stream, len, verb, specs, plan)| {
        let [first, over, second] = specs;
        let keep = true;
        let (wrong, to, cut) = (false, 0, [0, 0]);
        let verbs = [Verb::Alloc { len, keep }, Verb::Upload { len, keep }];
        let mut own = vec![
            Spec {
                verb: verbs[usize::from(first.value % 2)],
                wrong,
                ..first
            },
            Spec {
                verb: verbs[usize::from(second.value % 2)],
                wrong,
                ..second
            },
        ];
        own.extend(plan.iter().take(2));
        let over = Spec {
            verb,
            wrong,
            to,
            cut,
            ..over
        };
        let other = (stream + 1) % STREAMS;
        vec![
            Op::Prepare { stream, plan: own },
            Op::Begin { stream, all: true },
            Op::Advance { stream, steps: 1 },
            Op::Capture {
                stream: other,
                plan: vec![over],
                how: How::default(),
            },
            Op::Drop {
                buffer: 0,
                elsewhere: over.value < 20,
            },
            Op::Trim,
            Op::End { stream, all: true },
            Op::Replay {
                stream,
                graph: 0,
                look: true,
            },
            Op::Replay {
                stream: other,
                graph: over.from,
                look: false,
            },
        ]
    })
}

/// And: as many bytes again and again, in pieces of other sizes, of which some stay. With no window
/// open: in one the pool only grows (M5).
fn sizes_in_turn() -> impl Strategy<Value = Vec<Operation>> {
    let length = proptest::sample::select(&[8usize, 16, 30, 62, 100][..]);
    let rounds = vec((length, 0usize..3), 3..6);
    (0..STREAMS, rounds).prop_map(|(stream, rounds)| {
        let abort = |stream| Operation::Abort {
            stream,
            by_drop: false,
        };
        let mut operations: Vec<_> = (0..STREAMS).map(abort).collect();
        for (len, stay) in rounds {
            let verb = Verb::Alloc { len, keep: true };
            let (to, from, cut, value, wrong) = (0, 0, [0, 0], 0, false);
            let spec = Spec {
                verb,
                to,
                from,
                cut,
                value,
                wrong,
            };
            let stray = false;
            let count = 300 / len;
            let elsewhere = false;
            let alloc = Operation::Command {
                stream,
                spec,
                stray,
            };
            operations.extend(std::iter::repeat_n(alloc, count));
            let drop = Operation::Drop {
                buffer: 0,
                elsewhere,
            };
            operations.extend(std::iter::repeat_n(drop, count - stay));
        }
        operations
    })
}

pub fn sequence() -> impl Strategy<Value = Vec<Operation>> {
    let one = operation().prop_map(|operation| vec![operation]);
    let parts = vec(
        prop_oneof![240 => one, 4 => two_windows(), 1 => sizes_in_turn()],
        5..38,
    );
    parts.prop_map(|parts| parts.concat())
}
