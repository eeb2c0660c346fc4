//! Random calls of five callers on a pool of two streams, against a plain model written from the rules
//! (L, M, N): results, errors, status, bytes and marks agree, in both ways to treat neighbours.

mod calls;
#[path = "../model/kinds.rs"]
mod kinds;
mod model;
#[path = "../third/mod.rs"]
#[allow(dead_code)] // Its faults and its log are for other tests.
mod third;
mod world;

use std::cell::RefCell;
use std::panic::resume_unwind;

use graph_capture::host::{Step, When};
use graph_capture::{Commands, Error, Host, read, read_write, write};
use proptest::test_runner::{Config, TestRunner};

use calls::sequence;
use model::Phase;
use third::{Launches as _, Third};
use world::{Device, Pair, Reached, run};

impl Device for Host {
    fn device(faults: &[(Step, usize, When)]) -> Self {
        let order = |builder: graph_capture::host::Builder, fault: &(Step, usize, When)| {
            builder.fail(fault.0, fault.1, fault.2)
        };
        faults.iter().fold(Self::builder(), order).build()
    }

    fn add(c: &Commands, x: &Pair<Self>, y: &Pair<Self>) -> Result<(), Error> {
        c.launch("add", (read(x), write(y)), |(x, y)| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x + 1.0);
        })
    }

    fn accumulate(c: &Commands, x: &Pair<Self>, y: &Pair<Self>) -> Result<(), Error> {
        c.launch("accumulate", (read(x), read_write(y)), |(x, y)| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
        })
    }

    fn boom(c: &Commands, y: &Pair<Self>) -> Option<Result<(), Error>> {
        // Without the hook, which would print.
        Some(c.launch("boom", write(y), |_| resume_unwind(Box::new("boom"))))
    }
}

type Lazy = Third<false>;

impl Device for Lazy {
    fn device(_: &[(Step, usize, When)]) -> Self {
        Self::new()
    }

    fn add(c: &Commands<Self>, x: &Pair<Self>, y: &Pair<Self>) -> Result<(), Error> {
        c.add(x, y, 1.0)
    }

    fn accumulate(c: &Commands<Self>, x: &Pair<Self>, y: &Pair<Self>) -> Result<(), Error> {
        c.accumulate(x, y)
    }

    fn boom(_: &Commands<Self>, _: &Pair<Self>) -> Option<Result<(), Error>> {
        None
    }
}

/// `cases` sequences, or as many as `PROPTEST_CASES` asks for.
fn config(cases: u32) -> Config {
    let asked = Config::default();
    Config {
        cases: match std::env::var_os("PROPTEST_CASES") {
            Some(_) => asked.cases,
            None => cases,
        },
        failure_persistence: None,
        ..asked
    }
}

/// Runs sequences, and says what they reached.
fn check<B: Device>(config: Config) -> Reached {
    let reached = RefCell::default();
    let checked = TestRunner::new(config).run(&sequence(), |sequence| {
        run::<B>(&sequence, &mut reached.borrow_mut());
        Ok(())
    });
    if let Err(failed) = checked {
        panic!("{failed}");
    }
    reached.into_inner()
}

/// On the host, where steps fail on demand. Every call was reached in every phase, by the owner of the
/// capture and by others.
#[test]
fn a_pool_on_the_host_does_what_the_rules_say() {
    let config = config(20_000);
    let many = config.cases >= 2_000;
    let reached = check::<Host>(config);
    let calls = [
        "prepare",
        "again",
        "begin",
        "end",
        "abort",
        "disconnect",
        "capture",
        "submit",
        "write",
        "read",
        "read_into",
        "synchronize",
        "completion",
        "profile",
        "replay",
        "read_download",
        "destroy",
    ];
    for call in calls {
        for (phase, owns) in [
            (Phase::Idle, false),
            (Phase::WarmUp, true),
            (Phase::WarmUp, false),
            (Phase::Window, true),
            (Phase::Window, false),
        ] {
            let count = reached.get(&(call, phase, owns)).copied().unwrap_or(0);
            // Few sequences cannot reach all.
            assert!(
                count > 0 || !many,
                "{call} in {phase:?}, own: {owns}, was never reached"
            );
            println!("{call:>14} {phase:?} own: {owns}: {count}");
        }
    }
}

/// On a driver that runs nothing before somebody waits, and whose windows break.
#[test]
fn a_pool_on_a_lazy_driver_does_what_the_rules_say() {
    check::<Lazy>(config(4_000));
}
