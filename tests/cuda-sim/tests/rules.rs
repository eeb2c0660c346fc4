//! The simulated driver, through the same bindings as its users.

use std::ffi::c_void;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg as _};
use libloading::Library;

const PTX: &str = "
.version 7.0 // read for its entries alone
.target sm_50
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y, .param .f32 by, .param .u32 n) { ret; }
.visible .entry trap() { ret; }
.visible .entry unheard_of(.param .align 8 .b8 x[16]) { ret; }
";

/// Opens the library by path, before cudarc looks for it.
fn sim() -> &'static Library {
    static SIM: OnceLock<Library> = OnceLock::new();
    SIM.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let beside = test.parent().unwrap();
        let found = [beside, beside.parent().unwrap()]
            .map(|folder: &Path| folder.join("libcuda_sim.so"))
            .into_iter()
            .find(|file| file.exists())
            .expect("cargo builds it");
        // SAFETY: its initializer prints a line.
        unsafe { Library::new(found) }.unwrap()
    })
}

fn control<F: Copy>(name: &str) -> F {
    // SAFETY: the callers give the type that the function has.
    unsafe { *sim().get::<F>(name.as_bytes()).unwrap() }
}

/// A capture in global mode is everybody's concern: no other test runs beside it.
static GLOBAL_CAPTURES: RwLock<()> = RwLock::new(());

/// A context of its own, and that no capture in global mode comes between.
struct Context(
    Arc<CudaContext>,
    #[expect(dead_code, reason = "held for its drop")] Beside,
);

#[expect(dead_code, reason = "held for its drop")]
enum Beside {
    Others(RwLockReadGuard<'static, ()>),
    Nobody(RwLockWriteGuard<'static, ()>),
}

impl std::ops::Deref for Context {
    type Target = Arc<CudaContext>;

    fn deref(&self) -> &Arc<CudaContext> {
        &self.0
    }
}

fn context() -> Context {
    let others = GLOBAL_CAPTURES
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    Context(untracked(), Beside::Others(others))
}

fn context_alone() -> Context {
    let nobody = GLOBAL_CAPTURES
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    Context(untracked(), Beside::Nobody(nobody))
}

/// Its slices are not tracked by events.
fn untracked() -> Arc<CudaContext> {
    sim();
    let context = CudaContext::new_non_primary(0, 0).unwrap();
    // SAFETY: the tests order their work.
    unsafe { context.disable_event_tracking() };
    context
}

fn live(context: &CudaContext) -> [usize; 7] {
    let live: unsafe extern "C" fn(usize, *mut [usize; 7]) = control("cuda_sim_live");
    let mut counts = [0; 7];
    // SAFETY: there is room.
    unsafe { live(context.cu_ctx() as usize, &mut counts) };
    counts
}

fn begin(stream: &CudaStream, mode: sys::CUstreamCaptureMode) -> CUresult {
    // SAFETY: the stream is live; so in what follows.
    unsafe { sys::cuStreamBeginCapture_v2(stream.cu_stream(), mode) }
}

use sys::CUstreamCaptureMode::{
    CU_STREAM_CAPTURE_MODE_GLOBAL as GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED as RELAXED,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as THREAD_LOCAL,
};

fn end(stream: &CudaStream) -> (CUresult, sys::CUgraph) {
    let mut graph = null_mut();
    let code = unsafe { sys::cuStreamEndCapture(stream.cu_stream(), &mut graph) };
    (code, graph)
}

fn status(stream: &CudaStream) -> u32 {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let asked = unsafe { sys::cuStreamIsCapturing(stream.cu_stream(), &mut status) };
    assert_eq!(asked, CUresult::CUDA_SUCCESS);
    status as u32
}

fn code(code: CUresult) -> u32 {
    code as u32
}

/// A stream whose capture of one fill is open.
fn capturing(context: &Arc<CudaContext>) -> (Arc<CudaStream>, sys::CUdeviceptr) {
    let stream = context.new_stream().unwrap();
    let memory = stream.alloc_zeros::<u8>(16).unwrap().leak();
    stream.synchronize().unwrap();
    assert_eq!(code(begin(&stream, THREAD_LOCAL)), 0);
    assert_eq!(fill(&stream, memory), 0);
    (stream, memory)
}

fn fill(stream: &CudaStream, memory: sys::CUdeviceptr) -> u32 {
    code(unsafe { sys::cuMemsetD8Async(memory, 1, 16, stream.cu_stream()) })
}

fn function(context: &Arc<CudaContext>, name: &str) -> CudaFunction {
    let module = context
        .load_module(cudarc::nvrtc::Ptx::from_src(PTX))
        .unwrap();
    module.load_function(name).unwrap()
}

#[test]
fn work_runs_when_somebody_waits() {
    let context = context();
    let stream = context.new_stream().unwrap();
    let add = function(&context, "add");
    let x = stream.clone_htod(&[1.0f32, 2.0]).unwrap();
    let y = stream.alloc_zeros::<f32>(2).unwrap();
    let queued: unsafe extern "C" fn(usize) -> usize = control("cuda_sim_queued");
    let launch = || {
        let mut launch = stream.launch_builder(&add);
        launch.arg(&x).arg(&y).arg(&3.0f32).arg(&2u32);
        unsafe { launch.launch(LaunchConfig::for_num_elems(2)) }.unwrap();
    };
    launch();
    assert!(unsafe { queued(context.cu_ctx() as usize) } > 0);
    assert_eq!(stream.clone_dtoh(&y).unwrap(), [4.0, 5.0]);
    assert_eq!(unsafe { queued(context.cu_ctx() as usize) }, 0);
}

#[test]
fn a_captured_graph_runs_at_each_launch_and_not_before() {
    let context = context();
    let (stream, memory) = capturing(&context);
    let (ended, graph) = end(&stream);
    assert_eq!(code(ended), 0);
    let mut executable = null_mut();
    let mut parameters = sys::CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags: 0,
        hUploadStream: null_mut(),
        hErrNode_out: null_mut(),
        result_out: sys::CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR,
    };
    let mut bytes = [7u8; 16];
    let read = |bytes: &mut [u8; 16]| unsafe {
        let into: *mut c_void = bytes.as_mut_ptr().cast();
        sys::cuMemcpyDtoHAsync_v2(into, memory, 16, stream.cu_stream())
    };
    unsafe {
        assert_eq!(
            code(sys::cuGraphInstantiateWithParams(
                &mut executable,
                graph,
                &mut parameters
            )),
            0
        );
        assert_eq!(code(sys::cuGraphDestroy(graph)), 0);
        assert_eq!(code(read(&mut bytes)), 0);
        assert_eq!(bytes, [0; 16]);
        assert_eq!(code(sys::cuGraphLaunch(executable, stream.cu_stream())), 0);
        // In flight, and completed all the same.
        assert_eq!(code(sys::cuGraphExecDestroy(executable)), 0);
        assert_eq!(code(read(&mut bytes)), 0);
    }
    assert_eq!(bytes, [1; 16]);
}

#[test]
fn streams_are_in_order_only_where_an_event_says_so() {
    let context = context();
    let (one, two) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let memory = one.alloc_zeros::<u8>(16).unwrap();
    one.synchronize().unwrap();
    let address = memory.leak();
    let read = || {
        let mut bytes = [0u8; 16];
        let into: *mut c_void = bytes.as_mut_ptr().cast();
        let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(into, address, 16, two.cu_stream()) };
        assert_eq!(code(copied), 0);
        bytes
    };
    fill(&one, address);
    assert_eq!(read(), [0; 16]);
    two.join(&one).unwrap();
    assert_eq!(read(), [1; 16]);
}

#[test]
fn memory_that_is_gone_is_an_error_for_good() {
    let context = context();
    let (stream, memory) = capturing(&context);
    end(&stream);
    fill(&stream, memory);
    assert_eq!(code(unsafe { sys::cuMemFree_v2(memory) }), 0);
    for _ in 0..2 {
        assert_eq!(
            code(unsafe { sys::cuStreamSynchronize(stream.cu_stream()) }),
            700
        );
    }
    assert_eq!(fill(&stream, memory), 700);
}

#[test]
fn a_kernel_whose_module_is_gone_fails() {
    let context = context();
    let stream = context.new_stream().unwrap();
    let trap = function(&context, "trap");
    unsafe {
        stream
            .launch_builder(&trap)
            .launch(LaunchConfig::for_num_elems(1))
    }
    .unwrap();
    drop(trap);
    assert_eq!(
        code(unsafe { sys::cuStreamSynchronize(stream.cu_stream()) }),
        719
    );
}

#[test]
fn a_kernel_that_is_not_simulated_is_not_found() {
    let context = context();
    let module = context
        .load_module(cudarc::nvrtc::Ptx::from_src(PTX))
        .unwrap();
    let refusal = |name| module.load_function(name).unwrap_err().0 as u32;
    assert_eq!((refusal("unheard_of"), refusal("not_there")), (801, 500));
    let no_ptx = cudarc::nvrtc::Ptx::from_src("a program");
    assert_eq!(context.load_module(no_ptx).unwrap_err().0 as u32, 218);
}

#[test]
fn the_legacy_stream_is_not_captured() {
    let context = context();
    assert_eq!(code(begin(&context.default_stream(), THREAD_LOCAL)), 900);
}

#[test]
fn a_capture_is_begun_once_and_ended_once() {
    let context = context();
    let (stream, _) = capturing(&context);
    assert_eq!(code(begin(&stream, THREAD_LOCAL)), 401);
    assert_eq!(code(end(&stream).0), 0);
    assert_eq!(code(end(&stream).0), 401);
}

#[test]
fn waiting_for_a_capturing_stream_invalidates_its_capture() {
    let context = context();
    for ask in [sys::cuStreamSynchronize, sys::cuStreamQuery] {
        let (stream, memory) = capturing(&context);
        assert_eq!(code(unsafe { ask(stream.cu_stream()) }), 900);
        assert_eq!(status(&stream), 2);
        assert_eq!(fill(&stream, memory), 901);
        let (ended, graph) = end(&stream);
        assert_eq!((code(ended), graph.is_null()), (901, true));
        assert_eq!(status(&stream), 0);
    }
}

#[test]
fn potentially_unsafe_calls_are_forbidden_by_the_mode() {
    let allocate = || {
        let mut memory = 0;
        code(unsafe { sys::cuMemAlloc_v2(&mut memory, 16) })
    };
    for (mode, here, elsewhere) in [(GLOBAL, 900, 900), (THREAD_LOCAL, 900, 0), (RELAXED, 0, 0)] {
        let context = context_alone();
        let stream = context.new_stream().unwrap();
        assert_eq!(code(begin(&stream, mode)), 0);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                context.bind_to_thread().unwrap();
                allocate()
            });
            assert_eq!(other.join().unwrap(), elsewhere, "{mode:?}");
        });
        let (stream, _) = (context.new_stream(), end(&stream));
        drop(stream);
        let (stream, _) = capturing(&context);
        end(&stream);
        assert_eq!(code(begin(&stream, mode)), 0);
        assert_eq!(allocate(), here, "{mode:?}");
        assert_eq!(status(&stream), if here == 0 { 1 } else { 2 });
        end(&stream);
    }
}

#[test]
fn unloading_a_module_is_one_of_them() {
    let context = context();
    let mut module = null_mut();
    let image = std::ffi::CString::new(PTX).unwrap();
    context.bind_to_thread().unwrap();
    let loaded = unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) };
    assert_eq!(code(loaded), 0);
    let (stream, _) = capturing(&context);
    assert_eq!(code(unsafe { sys::cuModuleUnload(module) }), 900);
    assert_eq!((status(&stream), code(end(&stream).0)), (2, 901));
    assert_eq!(code(unsafe { sys::cuModuleUnload(module) }), 0);
}

/// Where it was told to have none.
#[test]
fn a_device_without_memory_pools_frees_on_no_stream() {
    sim();
    let pools: extern "C" fn(bool) = control("cuda_sim_pools");
    pools(false);
    let context = context();
    pools(true);
    let stream = context.new_stream().unwrap();
    let slice = stream.clone_htod(&[1u8; 16]).unwrap();
    let before = live(&context);
    let (other, _) = capturing(&context);
    drop(slice);
    assert_eq!(status(&other), 2, "it waits and frees");
    assert_eq!(live(&context)[2], before[2] + 1);
    end(&other);
}

#[test]
fn an_exchanged_mode_allows_them() {
    let context = context();
    let (stream, _) = capturing(&context);
    let mut mode = RELAXED;
    assert_eq!(
        code(unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }),
        0
    );
    assert_eq!(mode, GLOBAL);
    let mut memory = 0;
    assert_eq!(code(unsafe { sys::cuMemAlloc_v2(&mut memory, 16) }), 0);
    assert_eq!(
        code(unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }),
        0
    );
    assert_eq!((mode, status(&stream)), (RELAXED, 1));
}

#[test]
fn a_capture_ends_on_its_thread_unless_it_is_relaxed() {
    let context = context();
    for (mode, elsewhere, then) in [(THREAD_LOCAL, 908, 0), (RELAXED, 0, 401)] {
        let stream = context.new_stream().unwrap();
        assert_eq!(code(begin(&stream, mode)), 0);
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| {
                context.bind_to_thread().unwrap();
                code(end(&stream).0)
            });
            assert_eq!(ended.join().unwrap(), elsewhere);
        });
        assert_eq!(code(end(&stream).0), then);
    }
}

#[test]
fn work_outside_is_not_waited_for_inside() {
    let context = context();
    let outside = context.new_stream().unwrap().record_event(None).unwrap();
    let (stream, _) = capturing(&context);
    assert_eq!(stream.wait(&outside).unwrap_err().0 as u32, 905);
    assert_eq!(status(&stream), 2);
}

#[test]
fn a_fork_that_is_not_joined_ends_the_capture_without_a_graph() {
    let context = context();
    for joins in [false, true] {
        let fork = context.new_stream().unwrap();
        let (stream, memory) = capturing(&context);
        fork.join(&stream).unwrap();
        assert_eq!(status(&fork), 1);
        assert_eq!(fill(&fork, memory), 0);
        assert_eq!(code(begin(&fork, THREAD_LOCAL)), 401);
        if joins {
            stream.join(&fork).unwrap();
        }
        assert_eq!(code(end(&stream).0), if joins { 0 } else { 904 });
        assert_eq!((status(&stream), status(&fork)), (0, 0));
    }
}

#[test]
fn two_captures_are_not_merged() {
    let context = context();
    let (one, _) = capturing(&context);
    let mut mode = RELAXED;
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
    let (two, _) = capturing(&context);
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
    let event = one.record_event(None).unwrap();
    assert_eq!(two.wait(&event).unwrap_err().0 as u32, 902);
    assert_eq!((status(&one), status(&two)), (2, 2));
}

#[test]
fn an_event_of_a_capture_is_not_waited_for_outside() {
    let context = context();
    let (stream, _) = capturing(&context);
    let event = stream.record_event(None).unwrap();
    for ask in [sys::cuEventSynchronize, sys::cuEventQuery] {
        assert_eq!(code(unsafe { ask(event.cu_event()) }), 907);
    }
    end(&stream);
    let other = context.new_stream().unwrap();
    assert_eq!(other.wait(&event).unwrap_err().0 as u32, 1);
}

#[test]
fn a_context_is_not_synchronized_while_anything_captures() {
    let context = context();
    let (stream, _) = capturing(&context);
    assert_eq!(context.synchronize().unwrap_err().0 as u32, 900);
    assert_eq!(status(&stream), 2);
}

#[test]
fn an_allocation_in_a_capture_is_a_node() {
    let context = context();
    let (stream, _) = capturing(&context);
    let memory = unsafe { stream.alloc::<u8>(16) }.unwrap();
    drop(memory);
    let (ended, graph) = end(&stream);
    assert_eq!(code(ended), 0);
    let mut count = 0;
    unsafe { sys::cuGraphGetNodes(graph, null_mut(), &mut count) };
    let mut nodes = vec![null_mut(); count];
    unsafe { sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count) };
    let kind = |node: &sys::CUgraphNode| {
        let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        unsafe { sys::cuGraphNodeGetType(*node, &mut kind) };
        kind as u32
    };
    assert_eq!(nodes.iter().map(kind).collect::<Vec<_>>(), [2, 10, 11]);
}

#[test]
fn a_call_fails_where_it_was_told_to() {
    let fail: extern "C" fn(usize, bool, u32) = control("cuda_sim_fail");
    let fail_end: extern "C" fn() -> usize = control("cuda_sim_fail_end");
    let context = context();
    let create = || {
        let mut stream = null_mut();
        let code = code(unsafe { sys::cuStreamCreate(&mut stream, 1) });
        (code, stream.is_null())
    };
    for (after, made) in [(false, true), (true, false)] {
        fail(1, after, 2);
        assert_eq!([create(), create(), create()].map(|c| c.0), [0, 2, 0]);
        assert_eq!(fail_end(), 3);
        fail(0, after, 2);
        assert_eq!(create(), (2, made));
        fail_end();
    }
    // All but the two that failed before their effect.
    assert_eq!(live(&context)[0], 8 - 2);
}

#[test]
fn the_log_holds_the_calls_of_its_thread() {
    let start: extern "C" fn() = control("cuda_sim_log_start");
    let take: unsafe extern "C" fn(*mut u8, usize) -> usize = control("cuda_sim_log_take");
    let context = context();
    let (stream, memory) = capturing(&context);
    start();
    fill(&stream, memory);
    end(&stream);
    let mut bytes = [0; 100];
    let length = unsafe { take(bytes.as_mut_ptr(), bytes.len()) };
    assert_eq!(&bytes[..length], b"cuMemsetD8Async\ncuStreamEndCapture");
}
