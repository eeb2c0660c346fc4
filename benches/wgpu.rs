//! What a graph saves and costs on wgpu, in time of the host's processor: replay beside the loop that
//! one would write by hand on plain wgpu, and beside eager work.
//!
//! ```sh
//! cargo bench --features wgpu --bench wgpu
//! cargo bench --features wgpu --bench wgpu -- --instructions    # counts them as well; needs valgrind
//! ```
//!
//! Times are those of the thread on the first adapter there is, and of its driver's calls; threads of
//! the driver, and waits, are not in them. Instructions are counted on wgpu's `noop` device, so without
//! any driver. Commands are launches over 64 numbers.
//!
//! By hand there is one pipeline, and bind groups made beforehand, but for encoding, where each command
//! makes its own, as code does that does not know what it will be asked for next.

#[path = "compare/mod.rs"]
mod compare;

use std::env;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use cpu_time::ThreadTime;
use graph_capture::wgpu::{Commands, Kernel, Wgpu, wgpu};
use graph_capture::{Buffer, Error, NoCapture, Stream, read, write};

use compare::{Comparison, Row};

const BUFFERS: usize = 16;
const ELEMENTS: usize = 64;

const SHADER: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn halve(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = 0.5 * x[id.x] + 1.0; }";

fn main() -> Result<(), Error> {
    let says = |argument: &str| env::args().any(|other| other == argument);
    if let Some(row) = compare::row_to_count() {
        return compare::run_row(&mut comparisons(noop, &FULL)?, &row);
    }
    // Only `cargo bench` says `--bench`. Anything else wants to know whether this runs at all.
    let (sizes, rounds) = if says("--bench") {
        (&FULL[..], 31)
    } else {
        (&SMOKE[..], 1)
    };
    match adapter() {
        Some(adapter) => {
            println!("{:?}", adapter.get_info().name);
            compare::run(&mut comparisons(|| device_of(&adapter), sizes)?, rounds)?;
        }
        None => println!("not timed: wgpu has no adapter on this machine"),
    }
    if says("--instructions") {
        compare::print_instructions(&comparisons(noop, &FULL)?);
    }
    Ok(())
}

/// Commands of a pass.
const FULL: [usize; 4] = [1, 10, 100, 1_000];
const SMOKE: [usize; 1] = [10];

fn comparisons(
    device: impl Fn() -> (wgpu::Device, wgpu::Queue),
    sizes: &[usize],
) -> Result<Vec<Comparison>, Error> {
    let mut comparisons = Vec::new();
    for &size in sizes {
        let bar = |from: usize, bar: f64| (size >= from).then_some(bar);
        let both = || -> Result<_, Error> { Ok((Hand::new(device()), Here::new(device(), size)?)) };
        let mut add = |what: &str, bar, by_hand, here| {
            comparisons.push(Comparison {
                name: format!("{size}: {what}"),
                bar,
                by_hand,
                here,
            });
        };
        let (hand, here) = both()?;
        add(
            "replay, of the loop by hand",
            bar(100, 1.1),
            hand.loops(size),
            here.replays()?,
        );
        let (hand, here) = both()?;
        add(
            "replay, of eager work, a submission each",
            bar(1_000, 0.05),
            hand.submits(size),
            here.replays()?,
        );
        let (hand, here) = both()?;
        add(
            "replay, of eager work in one encoder",
            None,
            hand.encodes(size),
            here.replays()?,
        );
        let (hand, here) = both()?;
        add(
            "recording, of eager work in one encoder",
            bar(100, 2.0),
            hand.encodes(size),
            here.records(),
        );
        let (hand, here) = both()?;
        add(
            "eager, of eager work by hand",
            None,
            hand.submits(size),
            here.eager(),
        );
    }
    Ok(comparisons)
}

/// By the clock of the thread, which stands still while it waits.
#[inline(always)]
fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    compare::timed(|| ThreadTime::now().as_duration(), work)
}

// The devices.

fn at_once<R>(future: impl Future<Output = R>) -> R {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("wgpu makes its devices at once"),
    }
}

fn adapter() -> Option<wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    at_once(instance.request_adapter(&Default::default())).ok()
}

fn device_of(adapter: &wgpu::Adapter) -> (wgpu::Device, wgpu::Queue) {
    at_once(adapter.request_device(&Default::default())).expect("the adapter has a device")
}

fn noop() -> (wgpu::Device, wgpu::Queue) {
    wgpu::Device::noop(&Default::default())
}

// Here.

struct Here {
    stream: Option<Stream<NoCapture, Wgpu>>,
    device: Wgpu,
    kernel: Kernel,
    buffers: Vec<Buffer<f32, Wgpu>>,
    size: usize,
}

impl Here {
    fn new((device, queue): (wgpu::Device, wgpu::Queue), size: usize) -> Result<Self, Error> {
        let device = Wgpu::adopt(device, queue);
        let stream = device.stream()?;
        let buffers = (0..BUFFERS).map(|_| stream.alloc(ELEMENTS));
        Ok(Self {
            buffers: buffers.collect::<Result<_, _>>()?,
            kernel: Kernel::new(&device, SHADER, "halve")?,
            stream: Some(stream),
            device,
            size,
        })
    }

    fn pass(&self, commands: &Commands) -> Result<(), Error> {
        (0..self.size).try_for_each(|at| {
            let [x, y] = near(&self.buffers, at);
            commands.dispatch(&self.kernel, 1, (read(x), write(y)))
        })
    }

    fn stream(&mut self) -> Result<Stream<NoCapture, Wgpu>, Error> {
        self.stream.take().map_or_else(|| self.device.stream(), Ok)
    }

    fn replays(mut self) -> Result<Row, Error> {
        let stream = self.stream()?;
        let (stream, mut graph, ()) = stream.capture(|commands| self.pass(commands))?;
        stream.synchronize()?;
        Ok(Row::new(self.size, move || {
            let (spent, replayed) = timed(|| graph.replay(&stream));
            stream.synchronize()?;
            replayed.map(|()| spent)
        }))
    }

    /// From the beginning of the window to a sealed graph.
    fn records(mut self) -> Row {
        Row::new(self.size, move || {
            let stream = self.stream()?.prepare()?;
            self.pass(&stream)?;
            stream.synchronize()?;
            let (spent, recorded) = timed(|| {
                let stream = stream.begin()?;
                self.pass(&stream)?;
                Ok::<_, Error>(stream.end()?)
            });
            let (stream, graph) = recorded?;
            drop(graph);
            self.stream = Some(stream);
            Ok(spent)
        })
    }

    fn eager(mut self) -> Row {
        Row::new(self.size, move || {
            let stream = self.stream()?;
            let (spent, passed) = timed(|| self.pass(&stream));
            stream.synchronize()?;
            self.stream = Some(stream);
            passed.map(|()| spent)
        })
    }
}

fn near<T>(buffers: &[T], at: usize) -> [&T; 2] {
    [0, 1].map(|next| &buffers[(at + next) % BUFFERS])
}

// By hand, on plain wgpu.

struct Hand {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    buffers: Vec<wgpu::Buffer>,
    groups: Vec<wgpu::BindGroup>,
}

impl Hand {
    fn new((device, queue): (wgpu::Device, wgpu::Queue)) -> Self {
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(SHADER.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("halve"),
            compilation_options: Default::default(),
            cache: None,
        });
        let buffer = |_| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: (ELEMENTS * size_of::<f32>()) as u64,
                usage: wgpu::BufferUsages::STORAGE,
                mapped_at_creation: false,
            })
        };
        let mut hand = Self {
            layout: pipeline.get_bind_group_layout(0),
            buffers: (0..BUFFERS).map(buffer).collect(),
            groups: Vec::new(),
            pipeline,
            device,
            queue,
        };
        hand.groups = (0..BUFFERS).map(|at| hand.group(at)).collect();
        // The first work of a device is dearer, and the other side has had it.
        hand.submit(hand.groups.iter());
        hand
    }

    fn group(&self, at: usize) -> wgpu::BindGroup {
        let [x, y] = near(&self.buffers, at);
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.layout,
            entries: &[
                wgpu::BindGroupEntry {
                    binding: 0,
                    resource: x.as_entire_binding(),
                },
                wgpu::BindGroupEntry {
                    binding: 1,
                    resource: y.as_entire_binding(),
                },
            ],
        })
    }

    /// Launches in one pass of one submission.
    fn submit<'g>(&self, launches: impl Iterator<Item = &'g wgpu::BindGroup>) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&self.pipeline);
        for group in launches {
            pass.set_bind_group(0, group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        }
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }

    fn row(self, size: usize, batch: impl Fn(&Self) + 'static) -> Row {
        Row::new(size, move || {
            let (spent, ()) = timed(|| batch(&self));
            let waited = self.device.poll(wgpu::PollType::wait_indefinitely());
            waited.map_err(Error::step)?;
            Ok(spent)
        })
    }

    fn loops(self, size: usize) -> Row {
        self.row(size, move |hand| {
            hand.submit(hand.groups.iter().cycle().take(size))
        })
    }

    fn submits(self, size: usize) -> Row {
        self.row(size, move |hand| {
            for group in hand.groups.iter().cycle().take(size) {
                hand.submit(std::iter::once(group));
            }
        })
    }

    fn encodes(self, size: usize) -> Row {
        self.row(size, move |hand| {
            let groups: Vec<_> = (0..size).map(|at| hand.group(at)).collect();
            hand.submit(groups.iter());
        })
    }
}
