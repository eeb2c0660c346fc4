//! A replay on wgpu allocates what wgpu does, and nothing of its own: as often as the loop by hand that
//! looks at its errors too. On wgpu's `noop` device, so on every machine.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Waker};

use graph_capture::wgpu::{Kernel, Wgpu, wgpu};
use graph_capture::{Buffer, read, write};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all is passed on to the system's allocator as it came; counting touches a cell of this
// thread that needs no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    // Not counted: what grows was counted when it was made, and where `RUST_BACKTRACE` is set, wgpu
    // keeps backtraces in a debug build, which grow with the stack.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the system's.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How often this thread allocates in `work`, once it is used to it.
fn allocations(mut work: impl FnMut()) -> usize {
    let mut count = || {
        let before = ALLOCATIONS.get();
        work();
        ALLOCATIONS.get() - before
    };
    // What grows to its size grows in the first rounds, and now and then again.
    for _ in 0..8 {
        count();
    }
    (0..16).map(|_| count()).min().unwrap()
}

const SHADER: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn halve(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = 0.5 * x[id.x]; }";

/// The loop by hand over two buffers: in scopes for its errors, or without.
struct Hand {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    groups: [wgpu::BindGroup; 2],
}

impl Hand {
    fn new() -> Self {
        let (device, queue) = wgpu::Device::noop(&Default::default());
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(SHADER.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: Default::default(),
            cache: None,
        });
        let [x, y] = [(); 2].map(|()| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: 256,
                usage: wgpu::BufferUsages::STORAGE,
                mapped_at_creation: false,
            })
        });
        let group = |[x, y]: [&wgpu::Buffer; 2]| {
            device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &pipeline.get_bind_group_layout(0),
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
        };
        let groups = [group([&x, &y]), group([&y, &x])];
        Self {
            device,
            queue,
            pipeline,
            groups,
        }
    }

    fn run(&self, launches: usize) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&self.pipeline);
        for group in self.groups.iter().cycle().take(launches) {
            pass.set_bind_group(0, group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        }
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }

    fn run_in_scopes(&self, launches: usize) {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        let scope = |filter| self.device.push_error_scope(filter);
        let scopes = [scope(Validation), scope(OutOfMemory), scope(Internal)];
        self.run(launches);
        for scope in scopes.into_iter().rev() {
            let error = pin!(scope.pop()).poll(&mut Context::from_waker(Waker::noop()));
            assert!(error.map(|error| error.is_none()).is_ready());
        }
    }
}

#[test]
fn a_replay_allocates_as_often_as_the_loop_by_hand() {
    let hand = Hand::new();
    let (device, queue) = wgpu::Device::noop(&Default::default());
    let device = Wgpu::adopt(device, queue);
    let halve = Kernel::new(&device, SHADER, "halve").unwrap();
    let mut stream = device.stream().unwrap();
    let buffers: [Buffer<f32, Wgpu>; 2] = [(); 2].map(|()| stream.alloc(64).unwrap());
    for launches in [1, 10, 100] {
        let (again, mut graph, ()) = stream
            .capture(|c| {
                (0..launches).try_for_each(|at| {
                    let (x, y) = (&buffers[at % 2], &buffers[(at + 1) % 2]);
                    c.dispatch(&halve, 1, (read(x), write(y)))
                })
            })
            .unwrap();
        let here = allocations(|| graph.replay(&again).unwrap());
        let by_hand = allocations(|| hand.run_in_scopes(launches));
        assert!(
            here <= by_hand,
            "{launches}: {here} here, {by_hand} by hand"
        );
        // A scope costs one; each launch costs none.
        assert!(by_hand <= allocations(|| hand.run(launches)) + 3);
        stream = again;
    }
}
