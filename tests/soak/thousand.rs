//! M7: captures that come and go leave memory flat.

use std::thread;
use std::time::Duration;

use graph_capture::host::Step;
use graph_capture::{
    Buffer, Commands, Completion, DeviceMemory, Download, Error, Graph, Host, NoCapture, Stream,
};

use crate::Free;
use crate::suite::{Lab, assert_holds_only, assert_idle, status};

const CAPTURES: usize = 1000;
/// Graphs that are there at once, at most.
const ALIVE: usize = 4;
/// Elements of the largest buffer.
const LARGEST: usize = 1000;
/// Scratch buffers of the largest shape.
const MOST: usize = 4;

/// Marsaglia's xorshift: the same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// What one capture does.
struct Shape {
    /// Elements of each piece of scratch.
    scratch: Vec<usize>,
    /// Whether the scratch stays until the end of the run, or goes piece by piece.
    stays: bool,
    downloads: bool,
    /// Whether the warm-up has a pass before the last, which tries things out.
    tries: bool,
    /// Whether somebody waits for the replay; else it is in flight, where a driver is lazy.
    is_read: bool,
}

impl Shape {
    /// The one that keeps most memory, and longest.
    fn largest() -> Self {
        Self {
            scratch: vec![LARGEST; MOST],
            stays: true,
            downloads: true,
            tries: true,
            is_read: false,
        }
    }

    fn random(dice: &mut Dice) -> Self {
        Self {
            scratch: (0..=dice.below(MOST))
                .map(|_| 1 + dice.below(LARGEST))
                .collect(),
            stays: dice.coin(),
            downloads: dice.coin(),
            tries: dice.coin(),
            is_read: dice.coin(),
        }
    }

    fn len(&self) -> usize {
        self.scratch.iter().copied().max().unwrap_or(1)
    }

    /// `y[i] = 3 + the sum of x[i] + 1`, for each piece of scratch that reaches to `i`.
    fn run<B: Lab>(
        &self,
        c: &Commands<B>,
        x: &Buffer<f32, B>,
        y: &Buffer<f32, B>,
    ) -> Result<Option<Download<f32>>, Error> {
        let mut kept = Vec::new();
        c.write(y, &vec![3.0; self.len()])?;
        for &len in &self.scratch {
            let scratch = c.alloc(len)?;
            B::add(c, &x.slice(..len)?, &scratch, 1.0)?;
            B::accumulate(c, &scratch, &y.slice(..len)?)?;
            if self.stays {
                kept.push(scratch);
            }
        }
        self.downloads.then(|| c.download(y)).transpose()
    }

    fn answer(&self, x: f32) -> Vec<f32> {
        let sum = |i: usize| -> f32 {
            let reach = self.scratch.iter().filter(|&&len| len > i);
            3.0 + reach.map(|_| x + 1.0).sum::<f32>()
        };
        (0..self.len()).map(sum).collect()
    }
}

/// Where a graph is dropped.
#[derive(Clone, Copy)]
enum Place {
    Outside,
    InWindow,
    OnThread,
    OnThreadInWindow,
}

const PLACES: [Place; 4] = [
    Place::Outside,
    Place::InWindow,
    Place::OnThread,
    Place::OnThreadInWindow,
];

struct Soak<B: Lab> {
    device: B,
    dice: Dice,
    graphs: Vec<Graph<B>>,
    /// What the last stream that went had under way.
    left: Option<Completion<B>>,
}

impl<B: Lab> Soak<B> {
    /// Captures once, while one of the older graphs goes.
    fn capture(&mut self, stream: Stream<NoCapture, B>, shape: &Shape) -> Stream<NoCapture, B> {
        let input = f32::from(u8::try_from(self.dice.below(100)).unwrap());
        let x = stream.upload(&vec![input; shape.len()]).unwrap();
        let y = stream.alloc(shape.len()).unwrap();
        let place = PLACES[self.dice.below(PLACES.len())];
        let mut goes = (self.graphs.len() == ALIVE).then(|| {
            let victim = self.dice.below(ALIVE);
            self.graphs.swap_remove(victim)
        });
        match place {
            Place::Outside => drop(goes.take()),
            Place::OnThread => drop_on_thread(goes.take()),
            Place::InWindow | Place::OnThreadInWindow => {}
        }
        let mut stream = stream.prepare().unwrap();
        if shape.tries {
            // A pass that needs more than the recording will.
            let more: Vec<_> = (0..2).map(|_| stream.alloc::<f32>(shape.len())).collect();
            shape.run(&stream, &x, &y).unwrap();
            drop(more);
            stream = stream.again();
        }
        shape.run(&stream, &x, &y).unwrap();
        let stream = stream.begin().unwrap();
        match place {
            Place::InWindow => drop(goes),
            Place::OnThreadInWindow => drop_on_thread(goes),
            Place::Outside | Place::OnThread => {}
        }
        let download = shape.run(&stream, &x, &y).unwrap();
        let (stream, mut graph) = stream.end().unwrap();

        graph.replay(&stream).unwrap();
        match download {
            Some(download) if shape.is_read => {
                let result = graph.read(&download, &stream).unwrap();
                assert_eq!(*result, shape.answer(input));
            }
            _ if shape.is_read => assert_eq!(stream.read(&y).unwrap(), shape.answer(input)),
            _ => {}
        }
        self.graphs.push(graph);
        stream
    }

    fn wait_for_left(&mut self) {
        if let Some(left) = self.left.take() {
            assert!(left.wait(Duration::from_secs(60)).unwrap());
        }
    }

    /// The graphs go, in any order, and the streams come to rest. What the pool keeps for later
    /// depends on the sizes asked for last, and is bounded; so it is looked at without.
    fn rest(&mut self, streams: &[Stream<NoCapture, B>]) -> DeviceMemory {
        while !self.graphs.is_empty() {
            let next = self.dice.below(self.graphs.len());
            drop(self.graphs.swap_remove(next));
        }
        self.wait_for_left();
        for stream in streams {
            stream.synchronize().unwrap();
        }
        self.device.captures().trim().unwrap();
        self.device.captures().memory()
    }
}

fn drop_on_thread<T: Send + 'static>(value: T) {
    thread::spawn(move || drop(value)).join().unwrap();
}

fn a_thousand_captures_leave_memory_as_it_was<B: Lab>() -> B {
    let device = B::device();
    let mut soak = Soak {
        device: device.clone(),
        dice: Dice(0x9E37_79B9_7F4A_7C15),
        graphs: Vec::new(),
        left: None,
    };
    let open = || Stream::on(&device).unwrap();
    let mut streams = vec![open(), open()];
    // One graph stays.
    let x = streams[0].upload(&[1.0, 2.0]).unwrap();
    let y = streams[0].alloc(2).unwrap();
    let (_, mut stays, ()) = open().capture(|c| B::add(c, &x, &y, 1.0)).unwrap();

    // In buffers at once, at most: the largest shapes are among the first ten.
    let mut most = 0;
    let mut tenth = DeviceMemory::default();
    for count in 1..=CAPTURES {
        let shape = match count {
            4..=8 => Shape::largest(),
            _ => Shape::random(&mut soak.dice),
        };
        let stream = streams.swap_remove(soak.dice.below(2));
        let stream = soak.capture(stream, &shape);
        if count % 4 == 0 {
            soak.wait_for_left();
            soak.left = Some(stream.completion().unwrap());
            streams.push(open());
        } else {
            streams.push(stream);
        }
        let now = device.captures().memory();
        if count <= 10 {
            most = most.max(now.in_use + now.held_by_graphs);
        }
        // The pool keeps as much again, and a page of what is asked for; a page is an eighth larger.
        let bound = 2 * (most + 4 * LARGEST) * 9 / 8;
        assert!(
            count < 10 || now.allocated <= bound,
            "{now:?} after {count}, not {bound}"
        );
        if count == 10 {
            tenth = soak.rest(&streams);
        } else if count % 100 == 0 {
            assert_eq!(soak.rest(&streams), tenth, "after {count}");
        }
    }

    stays.replay(&streams[0]).unwrap();
    assert_eq!(streams[0].read(&y).unwrap(), [2.0, 3.0]);
    drop((soak, streams, stays, x, y));
    device.captures().trim().unwrap();
    assert_holds_only(device.captures().memory(), 0);
    assert_idle(&status(&device));
    device
}

#[test]
fn on_the_host() {
    let device = a_thousand_captures_leave_memory_as_it_was::<Host>();
    // Of some seven allocations a capture the pool serves most.
    let asked = device.steps(Step::Allocation);
    let some = CAPTURES / 10..3 * CAPTURES;
    assert!(some.contains(&asked), "{asked} allocations of the driver");
}

#[test]
fn on_a_lazy_driver() {
    a_thousand_captures_leave_memory_as_it_was::<Free>();
}

#[test]
#[cfg(feature = "cuda")]
fn on_cuda() {
    a_thousand_captures_leave_memory_as_it_was::<graph_capture::Cuda>();
}
