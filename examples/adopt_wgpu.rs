//! A program that has a device, a pipeline, a bind group and a buffer of its own, before and after it
//! adopts capture.
//!
//! ```text
//! cargo run --features wgpu --example adopt_wgpu
//! ```
//!
//! Each frame puts seeds into a buffer and takes them through many small launches. [`before`] encodes
//! those launches for every frame, [`after`] captures them once and replays them. The rest is the
//! program, which does not change. Run, it compares what the two computed, bit for bit, and counts the
//! lines in which they differ.

use std::pin::pin;
use std::process::ExitCode;
use std::task::{Context, Poll, Waker};

use graph_capture::wgpu::wgpu;

const FRAMES: u32 = 8;
const STEPS: u32 = 100;
const GROUPS: u32 = 16;
const NUMBERS: u32 = 64 * GROUPS;

type Problem = Box<dyn std::error::Error>;

fn before(program: &Program) -> Result<Vec<f32>, Problem> {
    #[rustfmt::skip]
    let Program { device, queue, pipeline, group, numbers, .. } = program;
    let mut frames = Vec::new();
    for frame in 0..FRAMES {
        queue.write_buffer(numbers, 0, &seeds(frame));
        let mut encoder = device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, group, &[]);
        for _ in 0..STEPS {
            pass.dispatch_workgroups(GROUPS, 1, 1);
        }
        drop(pass);
        queue.submit([encoder.finish()]);
        frames.extend(program.result()?);
    }
    Ok(frames)
}

fn after(program: &Program) -> Result<Vec<f32>, Problem> {
    use graph_capture::{Buffer, read_write, wgpu::Wgpu};
    #[rustfmt::skip]
    let Program { device, queue, pipeline, group, numbers, .. } = program;
    let gpu = Wgpu::adopt(device.clone(), queue.clone());
    let adopted = Buffer::<f32, _>::adopt(&gpu, numbers.clone())?;
    let (stream, mut graph, ()) = gpu.stream()?.capture(|commands| {
        (0..STEPS).try_for_each(|_| {
            commands.dispatch_raw("step", pipeline, &[group], GROUPS, read_write(&adopted))
        })
    })?;
    let mut frames = Vec::new();
    for frame in 0..FRAMES {
        queue.write_buffer(numbers, 0, &seeds(frame));
        graph.replay(&stream)?;
        frames.extend(program.result()?);
    }
    Ok(frames)
}

// The program.

struct Program {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    numbers: wgpu::Buffer,
    readable: wgpu::Buffer,
}

const SHADER: &str = "
@group(0) @binding(0) var<storage, read_write> numbers: array<f32>;
@compute @workgroup_size(64)
fn step(@builtin(global_invocation_id) id: vec3<u32>) {
    let x = numbers[id.x];
    numbers[id.x] = 3.9 * x * (1.0 - x);
}";

impl Program {
    fn new() -> Result<Self, Problem> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapter = at_once(instance.request_adapter(&Default::default()))?;
        let (device, queue) = at_once(adapter.request_device(&Default::default()))?;
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(SHADER.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("step"),
            compilation_options: Default::default(),
            cache: None,
        });
        let buffer = |usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: u64::from(NUMBERS) * size_of::<f32>() as u64,
                usage: usage | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let numbers = buffer(wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC);
        let readable = buffer(wgpu::BufferUsages::MAP_READ);
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry {
                binding: 0,
                resource: numbers.as_entire_binding(),
            }],
        });
        Ok(Self {
            device,
            queue,
            pipeline,
            group,
            numbers,
            readable,
        })
    }

    fn result(&self) -> Result<Vec<f32>, Problem> {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(&self.numbers, 0, &self.readable, 0, None);
        self.queue.submit([encoder.finish()]);
        self.readable.map_async(wgpu::MapMode::Read, .., |_| ());
        self.device.poll(wgpu::PollType::wait_indefinitely())?;
        let result = bytemuck::pod_collect_to_vec(&self.readable.get_mapped_range(..)?);
        self.readable.unmap();
        Ok(result)
    }
}

/// Numbers between 0 and 1, others in each frame.
fn seeds(frame: u32) -> Vec<u8> {
    let seed = |number: u32| (number + frame + 1) as f32 / (NUMBERS + FRAMES + 1) as f32;
    let seeds: Vec<f32> = (0..NUMBERS).map(seed).collect();
    bytemuck::cast_slice(&seeds).to_vec()
}

/// The result of a future of wgpu's, which is there at once where it is not the web's.
fn at_once<R>(future: impl Future<Output = R>) -> R {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("natively, wgpu makes its devices at once"),
    }
}

// The trial.

fn run() -> Result<(), Problem> {
    let program = Program::new()?;
    let (by_hand, captured) = (before(&program)?, after(&program)?);
    let same = by_hand
        .iter()
        .zip(&captured)
        .filter(|(x, y)| x.to_bits() == y.to_bits());
    println!(
        "{} numbers in {FRAMES} frames, {} the same",
        by_hand.len(),
        same.count()
    );
    if by_hand
        .iter()
        .map(|x| x.to_bits())
        .ne(captured.iter().map(|x| x.to_bits()))
    {
        return Err("the captured program computes something else; please report this".into());
    }
    let changed = lines("after").filter(|line| !lines("before").any(|other| other == *line));
    let changed = changed.count();
    println!("{changed} lines written or changed");
    if changed >= 10 {
        return Err("it takes ten lines or more".into());
    }
    Ok(())
}

/// The lines of one of the two functions.
fn lines(name: &str) -> impl Iterator<Item = &'static str> {
    let first = format!("fn {name}(");
    let lines = include_str!("adopt_wgpu.rs").lines().map(str::trim);
    let body = lines.skip_while(move |line| !line.starts_with(&first));
    body.skip(1).take_while(|line| *line != "Ok(frames)")
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("adopt_wgpu: {problem}");
            ExitCode::FAILURE
        }
    }
}
