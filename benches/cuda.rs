//! What a recorded launch and a replay cost on CUDA, in instructions, beside hand-written code of the same
//! calls.
//!
//! ```sh
//! cargo bench --features cuda --bench cuda    # needs valgrind
//! ```
//!
//! The driver's own instructions are in both, and so not in the difference: a simulated driver will do.

use std::env;
use std::ffi::c_void;
use std::hint::black_box;
use std::process::Command;
use std::ptr::null_mut;

use cudarc::driver::sys::{self, CUgraph, CUgraphExec};
use cudarc::driver::{CudaStream, DevicePtr as _};
use graph_capture::cuda::{Cuda, cudarc};
use graph_capture::{Buffer, Commands, read, read_write, write};

#[path = "../tests/cuda/driver.rs"]
mod driver;
#[path = "../tests/cuda/lab.rs"]
mod lab;
#[path = "../tests/suite/mod.rs"]
#[allow(unused_imports, unused_macros)] // The rules run elsewhere.
mod suite;

const LAUNCHES: usize = 1000;
const REPLAYS: usize = 100;

/// The most instructions more than by hand.
const ROWS: [(&str, f64); 2] = [
    ("a recorded launch of four buffers", 400.0),
    ("a replay of four buffers", 150.0),
];

fn main() {
    let arguments: Vec<_> = env::args().collect();
    if let [.., flag, row] = &*arguments
        && flag == COUNTED
    {
        return run(row);
    }
    println!(
        "{:40}{:>9} {:>9} {:>9}",
        "instructions", "by hand", "here", "more"
    );
    for (number, (name, bar)) in ROWS.iter().enumerate() {
        let counts = ["hand", "here"].map(|side| instructions(number, side));
        let [Some(hand), Some(here)] = counts else {
            println!("  cannot be counted: is valgrind there?");
            return;
        };
        let more = here - hand;
        let verdict = if more <= *bar { "met" } else { "MISSED" };
        println!("  {name:38}{hand:9.1} {here:9.1} {more:9.1}   at most {bar} more: {verdict}");
    }
}

/// What is counted runs in here, and nothing else does.
#[inline(never)]
fn counted<R>(work: impl FnOnce() -> R) -> R {
    black_box(work())
}

fn run(row: &str) {
    match row {
        "0hand" => drop(record_by_hand(true)),
        "0here" => here(true, false),
        "1hand" => replay_by_hand(),
        _ => here(false, true),
    }
}

fn here(count_recording: bool, count_replays: bool) {
    let context = driver::context();
    let kernels = lab::kernels(&context);
    let device = Cuda::adopt(context).unwrap();
    let stream = device.stream().unwrap();
    let four = [(); 4].map(|()| stream.alloc::<f32>(2).unwrap());
    let step = |commands: &Commands<Cuda>, four: &[Buffer<f32, Cuda>; 4]| {
        let [a, b, c, d] = four;
        for _ in 0..LAUNCHES {
            let arguments = (read(a), read(b), read_write(c), write(d));
            // SAFETY: it takes four pointers, and does nothing.
            unsafe { commands.launch("four", &kernels.four, lab::config(1), arguments) }.unwrap();
        }
    };
    let stream = stream.prepare().unwrap();
    step(&stream, &four);
    stream.synchronize().unwrap();
    let stream = stream.begin().unwrap();
    if count_recording {
        counted(|| step(&stream, &four));
    } else {
        step(&stream, &four);
    }
    let (stream, mut graph) = stream.end().unwrap();
    graph.replay(&stream).unwrap();
    if count_replays {
        counted(|| {
            for _ in 0..REPLAYS {
                graph.replay(&stream).unwrap();
            }
        });
    }
}

/// The same in calls of the driver, which are checked.
fn record_by_hand(count: bool) -> (std::sync::Arc<CudaStream>, CUgraph) {
    let context = driver::context();
    let kernels = lab::kernels(&context);
    let stream = context.new_stream().unwrap();
    let four = [(); 4].map(|()| stream.alloc_zeros::<f32>(2).unwrap());
    let addresses = four.each_ref().map(|slice| slice.device_ptr(&stream).0);
    let step = || {
        for _ in 0..LAUNCHES {
            let addresses = black_box(addresses);
            let mut parameters: [*mut c_void; 4] = addresses.each_ref().map(|address| {
                let address: *const u64 = address;
                address.cast_mut().cast()
            });
            let function = kernels.four.cu_function();
            // SAFETY: it takes four pointers, and does nothing.
            unsafe {
                let stream = stream.cu_stream();
                let parameters = parameters.as_mut_ptr();
                sys::cuLaunchKernel(
                    function,
                    1,
                    1,
                    1,
                    64,
                    1,
                    1,
                    0,
                    stream,
                    parameters,
                    null_mut(),
                )
            }
            .result()
            .unwrap();
        }
    };
    // It warms up too: the driver has then grown as far.
    step();
    stream.synchronize().unwrap();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    stream.begin_capture(mode).unwrap();
    if count {
        counted(step);
    } else {
        step();
    }
    let mut graph = null_mut();
    // SAFETY: the stream is in a capture. The memory and the module stay, since the process ends soon.
    unsafe { sys::cuStreamEndCapture(stream.cu_stream(), &mut graph) }
        .result()
        .unwrap();
    std::mem::forget((four, kernels));
    (stream, graph)
}

fn replay_by_hand() {
    let (stream, graph) = record_by_hand(false);
    let mut executable: CUgraphExec = null_mut();
    // SAFETY: the graph is live.
    unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) }
        .result()
        .unwrap();
    let replay = || {
        // SAFETY: both are live.
        let code = unsafe { sys::cuGraphLaunch(black_box(executable), stream.cu_stream()) };
        code.result().unwrap();
    };
    replay();
    counted(|| {
        for _ in 0..REPLAYS {
            replay();
        }
    });
}

// Each row in a process of its own, under callgrind.

const COUNTED: &str = "--row";

/// For one launch, or one replay.
fn instructions(number: usize, side: &str) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", "--toggle-collect=cuda::counted*"])
        .arg(env::current_exe().ok()?)
        .args(["--bench", COUNTED, &format!("{number}{side}")])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let (_, collected) = said.split_once("Collected : ")?;
    let total: f64 = collected.split_whitespace().next()?.parse().ok()?;
    let each = if number == 0 { LAUNCHES } else { REPLAYS };
    Some(total / each as f64)
}
