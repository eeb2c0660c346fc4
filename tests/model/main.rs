//! Random sequences of what a program may do with a device, on three streams, against a plain model
//! written from the rules (L, M).

mod captures;
mod driver;
mod graphs;
mod kinds;
mod operations;
mod rules;
mod steps;
#[path = "../third/mod.rs"]
#[allow(dead_code)] // Its faults and its log are for other tests.
mod third;

use graph_capture::{Buffer, Commands, Error, Host, read, read_write, write};
use proptest::prelude::*;
use proptest::test_runner::Config;

use driver::{Device, run};
use operations::sequence;
use third::{Launches as _, Third};

impl Device for Host {
    const LAZY: bool = false;
    const SEES_SCALARS: bool = false;

    fn device() -> Self {
        Self::new()
    }

    fn add(c: &Commands, x: &Buffer<f32>, y: &Buffer<f32>, by: f32) -> Result<(), Error> {
        c.launch("add", (read(x), write(y)), move |(x, y)| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x + by);
        })
    }

    fn accumulate(c: &Commands, x: &Buffer<f32>, y: &Buffer<f32>) -> Result<(), Error> {
        c.launch("accumulate", (read(x), read_write(y)), |(x, y)| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
        })
    }
}

type Lazy = Third<false>;

impl Device for Lazy {
    const LAZY: bool = true;
    const SEES_SCALARS: bool = true;

    fn device() -> Self {
        Self::new()
    }

    fn add(
        c: &Commands<Self>,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
        by: f32,
    ) -> Result<(), Error> {
        c.add(x, y, by)
    }

    fn accumulate(
        c: &Commands<Self>,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
    ) -> Result<(), Error> {
        c.accumulate(x, y)
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

proptest! {
    #![proptest_config(config(5000))]

    /// On the host: what is run at once, and in order.
    #[test]
    fn the_host_does_what_the_rules_say(sequence in sequence()) {
        run::<Host>(&sequence);
    }
}

proptest! {
    #![proptest_config(config(1500))]

    /// On a driver that runs nothing before somebody waits, and out of order what is not ordered.
    #[test]
    fn a_lazy_driver_does_what_the_rules_say(sequence in sequence()) {
        run::<Lazy>(&sequence);
    }
}
