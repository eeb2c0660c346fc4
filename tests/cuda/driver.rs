//! Which driver the tests run on: a real one where `GRAPH_CAPTURE_REQUIRE=cuda`, else the simulated one.
#![allow(dead_code)] // Not every user uses all of it.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use cudarc::driver::CudaContext;
use graph_capture::cuda::{Cuda, cudarc};
use libloading::Library;

use crate::suite::is_demanded;

/// The driver, once it is found. Says which, once.
///
/// The simulated one is opened by path before anybody looks for a driver, who then is given it.
fn driver() -> Option<&'static Library> {
    static DRIVER: OnceLock<Option<Library>> = OnceLock::new();
    DRIVER
        .get_or_init(|| {
            if is_demanded("cuda") {
                let device = Cuda::new(0).unwrap_or_else(|missing| {
                    panic!("GRAPH_CAPTURE_REQUIRE demands a CUDA driver, and {missing}")
                });
                let name = device.context().name().unwrap();
                assert!(
                    !name.contains("simulated"),
                    "GRAPH_CAPTURE_REQUIRE demands a CUDA driver, and {name} is none"
                );
                say(&format!("cuda tests: on a real driver: {name}"));
                return None;
            }
            let test = std::env::current_exe().unwrap();
            let beside = test.parent().unwrap();
            let folders = [beside, beside.parent().unwrap()];
            let file = folders
                .map(|folder: &Path| folder.join("libcuda_sim.so"))
                .into_iter()
                .find(|file| file.exists())
                .expect(
                    "the simulated driver, which cargo builds with the tests of the repository; elsewhere, \
                     GRAPH_CAPTURE_REQUIRE=cuda has them run on a real one",
                );
            // SAFETY: its initializer prints a line.
            let library = unsafe { Library::new(&file) }.unwrap();
            say(&format!(
                "cuda tests: on the SIMULATED driver, {}",
                file.display()
            ));
            Some(library)
        })
        .as_ref()
}

/// Past the test runner, which shows what tests print only where they fail.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whether it is the simulated one. A test that asks it more says that it is skipped on a real one.
pub fn is_simulated() -> bool {
    driver().is_some()
}

/// Says that a test needs what only the simulated driver does.
pub fn skipped() -> bool {
    let skipped = !is_simulated();
    if skipped {
        say("skipped: it needs the simulated driver");
    }
    skipped
}

/// A new context of the first device: to this crate a device of its own.
pub fn context() -> Arc<CudaContext> {
    driver();
    let context = CudaContext::new_non_primary(0, 0).unwrap();
    // SAFETY: the tests order what they do with slices.
    unsafe { context.disable_event_tracking() };
    context
}

/// A function of the simulated driver for its control.
fn control<F: Copy>(name: &str) -> F {
    let driver = driver().expect("the simulated driver");
    // SAFETY: the callers below give the type that the function has.
    unsafe { *driver.get::<F>(name.as_bytes()).unwrap() }
}

/// How many objects live in a context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Live {
    pub streams: usize,
    pub events: usize,
    pub allocations: usize,
    pub pinned: usize,
    pub graphs: usize,
    pub executables: usize,
    pub modules: usize,
}

pub fn live(context: &CudaContext) -> Live {
    let live: unsafe extern "C" fn(usize, *mut Live) = control("cuda_sim_live");
    let mut counts = Live::default();
    // SAFETY: there is room.
    unsafe { live(context.cu_ctx() as usize, &mut counts) };
    counts
}

/// What has been submitted in a context and has not run.
pub fn queued(context: &CudaContext) -> usize {
    let queued: extern "C" fn(usize) -> usize = control("cuda_sim_queued");
    queued(context.cu_ctx() as usize)
}

/// The calls that `run` makes on this thread.
pub fn calls_of<R>(run: impl FnOnce() -> R) -> (R, Vec<String>) {
    let start: extern "C" fn() = control("cuda_sim_log_start");
    let take: unsafe extern "C" fn(*mut u8, usize) -> usize = control("cuda_sim_log_take");
    start();
    let done = run();
    let mut bytes = vec![0; 1 << 20];
    // SAFETY: there is room.
    let length = unsafe { take(bytes.as_mut_ptr(), bytes.len()) };
    bytes.truncate(length);
    let text = String::from_utf8(bytes).unwrap();
    (done, text.lines().map(str::to_owned).collect())
}

/// How many of `calls` are of that name.
pub fn count(calls: &[String], name: &str) -> usize {
    calls.iter().filter(|call| *call == name).count()
}

/// Has this thread's graphs not be made executable because of their nodes of that kind, by `CUgraphNodeType`.
pub fn refuse_nodes<R>(kind: u32, run: impl FnOnce() -> R) -> R {
    let refuse: extern "C" fn(u32) = control("cuda_sim_refuse_nodes");
    refuse(kind);
    let done = run();
    refuse(u32::MAX);
    done
}

/// Has this thread be answered with kinds of nodes, and reasons, that are newer than the bindings: 0x7777.
pub fn newer<R>(run: impl FnOnce() -> R) -> R {
    let newer: extern "C" fn(bool) = control("cuda_sim_newer");
    newer(true);
    let done = run();
    newer(false);
    done
}

/// Has this thread be told of a device without memory pools.
pub fn without_pools<R>(run: impl FnOnce() -> R) -> R {
    let pools: extern "C" fn(bool) = control("cuda_sim_pools");
    pools(false);
    let done = run();
    pools(true);
    done
}

/// A call that fails: of those that this thread makes, counted from 0.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub number: usize,
    /// After its effect.
    pub after: bool,
    pub code: u32,
}

/// Runs `run` with a call that fails. The name of that call, if it came to it; and how many there were.
pub fn failing<R>(fault: Fault, run: impl FnOnce() -> R) -> (R, Option<String>, usize) {
    let fail: extern "C" fn(usize, bool, u32) = control("cuda_sim_fail");
    let end: extern "C" fn() -> usize = control("cuda_sim_fail_end");
    let failed: unsafe extern "C" fn(*mut u8, usize) -> usize = control("cuda_sim_failed");
    fail(fault.number, fault.after, fault.code);
    let done = run();
    let calls = end();
    let mut bytes = [0; 64];
    // SAFETY: there is room.
    let length = unsafe { failed(bytes.as_mut_ptr(), bytes.len()) };
    let name = std::str::from_utf8(&bytes[..length]).unwrap();
    (done, (!name.is_empty()).then(|| name.to_owned()), calls)
}
