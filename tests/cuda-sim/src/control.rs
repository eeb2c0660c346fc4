//! What a test tells the driver, and asks it. Log and faults are the calling thread's own, so that
//! tests may run beside each other; live objects are counted by context.

use std::cell::RefCell;
use std::ffi::c_char;

use crate::code;
use crate::state::{self, Code, Sim};

/// What is counted while it lives.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Stream,
    Event,
    Memory,
    Pinned,
    Graph,
    Executable,
    Module,
}

impl Kind {
    pub(crate) const COUNT: usize = 7;
}

struct Thread {
    logging: bool,
    log: Vec<&'static str>,
    calls: usize,
    fault: Option<Fault>,
    failed: Option<&'static str>,
    refused_nodes: u32,
    is_newer: bool,
    has_pools: bool,
}

#[derive(Clone, Copy)]
struct Fault {
    number: usize,
    after: bool,
    code: Code,
}

thread_local! {
    static THREAD: RefCell<Thread> = const {
        RefCell::new(Thread {
            logging: false,
            log: Vec::new(),
            calls: 0,
            fault: None,
            failed: None,
            refused_nodes: u32::MAX,
            is_newer: false,
            has_pools: true,
        })
    };
}

/// A call of the driver: logged, and failed where it was told to.
pub(crate) fn call(name: &'static str, effect: impl FnOnce(&mut Sim) -> Result<(), Code>) -> Code {
    // A thread that is torn down has neither log nor faults any more.
    let fault = THREAD
        .try_with(|thread| {
            let mut thread = thread.borrow_mut();
            if thread.logging {
                thread.log.push(name);
            }
            let number = thread.calls;
            thread.calls += 1;
            let fault = thread.fault.filter(|fault| fault.number == number)?;
            thread.failed = Some(name);
            Some(fault)
        })
        .unwrap_or(None);
    if let Some(Fault {
        after: false, code, ..
    }) = fault
    {
        return code;
    }
    let done = effect(&mut state::lock());
    match (done, fault) {
        (Err(failed), _) => failed,
        (Ok(()), Some(fault)) => fault.code,
        (Ok(()), None) => code::SUCCESS,
    }
}

/// Starts a new log.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_sim_log_start() {
    THREAD.with_borrow_mut(|thread| {
        thread.logging = true;
        thread.log.clear();
    });
}

/// Ends the log, and writes its calls to `into`, one a line, as far as there is room. Returns their
/// length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_sim_log_take(into: *mut u8, room: usize) -> usize {
    let log = THREAD.with_borrow_mut(|thread| {
        thread.logging = false;
        std::mem::take(&mut thread.log).join("\n")
    });
    let bytes = log.len().min(room);
    // SAFETY: the caller has that room.
    unsafe { into.copy_from_nonoverlapping(log.as_ptr(), bytes) };
    log.len()
}

/// Fails the call of that number, from 0 and counted from now, before or after its effect.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_sim_fail(number: usize, after: bool, code: u32) {
    THREAD.with_borrow_mut(|thread| {
        thread.calls = 0;
        thread.failed = None;
        thread.fault = Some(Fault {
            number,
            after,
            code,
        });
    });
}

/// Ends [`cuda_sim_fail`], and says how many calls there were since.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_sim_fail_end() -> usize {
    THREAD.with_borrow_mut(|thread| {
        thread.fault = None;
        thread.calls
    })
}

/// The name of the call that was failed last, if any was: its length, and as much as there is room for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_sim_failed(into: *mut c_char, room: usize) -> usize {
    let name = THREAD.with_borrow(|thread| thread.failed.unwrap_or(""));
    let bytes = name.len().min(room);
    // SAFETY: the caller has that room.
    unsafe { into.copy_from_nonoverlapping(name.as_ptr().cast(), bytes) };
    name.len()
}

/// From now on this thread makes no graph executable that has a node of that `CUgraphNodeType`.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_sim_refuse_nodes(kind: u32) {
    THREAD.with_borrow_mut(|thread| thread.refused_nodes = kind);
}

pub(crate) fn refused_nodes() -> u32 {
    THREAD.with_borrow(|thread| thread.refused_nodes)
}

/// A kind of node, and a reason, that no `cuda.h` has so far.
pub(crate) const UNKNOWN: u32 = 0x7777;

/// From now on this thread is answered with [`UNKNOWN`] kinds of nodes, and reasons for refusing a graph, as
/// by a driver that is newer than the program.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_sim_newer(is_newer: bool) {
    THREAD.with_borrow_mut(|thread| thread.is_newer = is_newer);
}

pub(crate) fn is_newer() -> bool {
    THREAD.with_borrow(|thread| thread.is_newer)
}

/// From now on this thread is told of a device without memory pools, which allocates and frees on no stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_sim_pools(has_pools: bool) {
    THREAD.with_borrow_mut(|thread| thread.has_pools = has_pools);
}

pub(crate) fn has_pools() -> bool {
    THREAD.with_borrow(|thread| thread.has_pools)
}

/// How many objects of each [`Kind`] live in a context; all zeroes where there is no such context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_sim_live(context: usize, into: *mut [usize; Kind::COUNT]) {
    let sim = state::lock();
    let live = sim
        .contexts
        .get(&context)
        .map_or([0; Kind::COUNT], |context| context.live);
    // SAFETY: the caller has that room.
    unsafe { into.write(live) };
}

/// Bounds the device memory of a context.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_sim_limit(context: usize, bytes: usize) {
    if let Ok(context) = state::lock().context(context) {
        context.limit = bytes;
    }
}

/// How much work of a context has not run.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_sim_queued(context: usize) -> usize {
    let sim = state::lock();
    let of_context = sim.streams.values().filter(|s| s.context == context);
    of_context.map(|stream| stream.queue.len()).sum()
}
