//! How what is done here is compared with the same by hand: in short batches in turn, and as the
//! median of the ratios of neighbours.

use std::env;
use std::process::Command;
use std::time::Duration;

use graph_capture::Error;

/// Something done here, beside the same by hand.
pub struct Comparison {
    pub name: String,
    /// The ratio that it must not pass.
    pub bar: Option<f64>,
    pub by_hand: Row,
    pub here: Row,
}

/// One side of it.
pub struct Row {
    /// How many of what it measures are in a batch.
    each: usize,
    batch: Box<dyn FnMut() -> Result<Duration, Error>>,
    /// In ns, for one.
    samples: Vec<f64>,
}

impl Row {
    pub fn new(each: usize, batch: impl FnMut() -> Result<Duration, Error> + 'static) -> Self {
        Self {
            each,
            batch: Box::new(batch),
            samples: Vec::new(),
        }
    }

    fn sample(&mut self) -> Result<(), Error> {
        let spent = (self.batch)()?;
        self.samples
            .push(spent.as_secs_f64() * 1e9 / self.each as f64);
        Ok(())
    }
}

/// What is measured runs in here, and nothing else does: the counter of instructions knows the
/// function by its name.
#[inline(never)]
pub fn timed<R>(now: fn() -> Duration, work: impl FnOnce() -> R) -> (Duration, R) {
    let start = now();
    let result = work();
    (now().saturating_sub(start), result)
}

/// Measures and prints all of them.
pub fn run(comparisons: &mut [Comparison], rounds: usize) -> Result<(), Error> {
    for comparison in &mut *comparisons {
        comparison.interleave(rounds)?;
    }
    println!("{:54}{:>8} {:>9}   ratio", "ns", "by hand", "here");
    for comparison in comparisons {
        comparison.print();
    }
    Ok(())
}

impl Comparison {
    fn interleave(&mut self, rounds: usize) -> Result<(), Error> {
        for row in [&mut self.by_hand, &mut self.here] {
            (row.batch)()?; // Warms up.
        }
        for _ in 0..rounds {
            self.by_hand.sample()?;
            self.here.sample()?;
        }
        Ok(())
    }

    fn print(&self) {
        let pairs = self.here.samples.iter().zip(&self.by_hand.samples);
        let ratio = median(pairs.map(|(here, by_hand)| here / by_hand));
        let verdict = match self.bar {
            Some(bar) if ratio <= bar => format!("at most {bar}: met"),
            Some(bar) => format!("at most {bar}: MISSED"),
            None => "no bar".into(),
        };
        println!(
            "  {:50} {:9.1} {:9.1} {ratio:7.3}   {verdict}",
            self.name,
            median(self.by_hand.samples.iter().copied()),
            median(self.here.samples.iter().copied()),
        );
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

// Instructions: each row in a process of its own, under callgrind.

/// The row that this process was started to count.
pub fn row_to_count() -> Option<String> {
    let arguments: Vec<_> = env::args().collect();
    match &*arguments {
        [.., flag, row] if flag == COUNTED => Some(row.clone()),
        _ => None,
    }
}

const COUNTED: &str = "--row";
const COUNTED_BATCHES: usize = 4;

pub fn run_row(comparisons: &mut [Comparison], row: &str) -> Result<(), Error> {
    let rows = comparisons
        .iter_mut()
        .flat_map(|comparison| [&mut comparison.by_hand, &mut comparison.here]);
    for (number, row_of) in rows.enumerate() {
        if row == number.to_string() {
            return (0..COUNTED_BATCHES).try_for_each(|_| (row_of.batch)().map(|_| ()));
        }
    }
    Ok(())
}

pub fn print_instructions(comparisons: &[Comparison]) {
    println!(
        "\n{:54}{:>8} {:>9}   ratio",
        "instructions", "by hand", "here"
    );
    for (number, comparison) in comparisons.iter().enumerate() {
        let by_hand = instructions(2 * number, &comparison.by_hand);
        let here = instructions(2 * number + 1, &comparison.here);
        let (Some(by_hand), Some(here)) = (by_hand, here) else {
            println!("  cannot be counted: is valgrind there?");
            return;
        };
        let ratio = here / by_hand;
        println!(
            "  {:50} {by_hand:9.1} {here:9.1} {ratio:7.3}",
            comparison.name
        );
    }
}

fn instructions(number: usize, row: &Row) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", "--toggle-collect=*compare::timed*"])
        .arg(env::current_exe().ok()?)
        .args(["--bench", COUNTED, &number.to_string()])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let (_, collected) = said.split_once("Collected : ")?;
    let total: f64 = collected.split_whitespace().next()?.parse().ok()?;
    Some(total / (COUNTED_BATCHES * row.each) as f64)
}
