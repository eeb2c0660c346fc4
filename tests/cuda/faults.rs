//! Every call of the driver, of programs that capture, replay, give up and drop, failed in turn: before its
//! effect and after it.

use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL as GLOBAL;
use cudarc::driver::sys::{self, CUstreamCaptureMode};
use graph_capture::cuda::{Commands, Cuda, CudaMemory, Lost, cudarc, value};
use graph_capture::{
    Buffer, Download, Error, NoCapture, Stream, TransitionError, read, read_write,
};

use crate::driver::{self, Fault, Live, failing, live};
use crate::lab::{Kernels, add, config, kernels};
use crate::suite::{assert_holds_only, assert_idle, told};

/// No memory, a fault of the device's, and one that nobody knows.
const CODES: [u32; 3] = [2, 700, 999];

type Idle = Stream<NoCapture, Cuda>;

/// What a program failed with, and its stream, to go on with.
struct Failed {
    error: Error,
    stream: Option<Idle>,
}

impl From<TransitionError<Idle>> for Failed {
    fn from(refused: TransitionError<Idle>) -> Self {
        let (error, stream) = refused.into_parts();
        let stream = Some(stream);
        Self { error, stream }
    }
}

type Program = fn(Idle, &Kernels) -> Result<Idle, Failed>;

/// Runs what gives no stream back.
fn on<R>(stream: Idle, run: impl FnOnce(&Idle) -> Result<R, Error>) -> Result<(Idle, R), Failed> {
    match run(&stream) {
        Ok(done) => Ok((stream, done)),
        Err(error) => Err(Failed {
            error,
            stream: Some(stream),
        }),
    }
}

/// Every command there is.
fn step(
    commands: &Commands,
    kernels: &Kernels,
    x: &Buffer<f32, Cuda>,
    y: &Buffer<f32, Cuda>,
) -> Result<Download<f32>, Error> {
    let constant = commands.upload(&[10.0f32, 20.0])?;
    let scratch = commands.alloc::<f32>(2)?;
    add(commands, kernels, x, &scratch, 1.0)?;
    let n = value(2u32);
    // SAFETY: these are the kernel's parameters, and both buffers have two elements.
    unsafe {
        let arguments = (read(&constant), read_write(&scratch), n);
        commands.launch("accumulate", &kernels.accumulate, config(2), arguments)?;
    }
    commands.copy(&scratch, y)?;
    commands.fill(&scratch, -1.5)?;
    commands.write(&constant, &[0.0, 0.0])?;
    commands.download(y)
}

/// Captures, replays on two streams, reads, and drops all of it, the graph in flight.
fn captures(stream: Idle, kernels: &Kernels) -> Result<Idle, Failed> {
    let (stream, (x, y, other)) = on(stream, |stream| {
        let other = Stream::on(stream.device())?;
        Ok((stream.upload(&[1.0, 2.0])?, stream.alloc(2)?, other))
    })?;
    let (stream, mut graph, download) = stream.capture(|c| step(c, kernels, &x, &y))?;
    let (stream, ()) = on(stream, |stream| {
        graph.replay(stream)?;
        assert_eq!(stream.read(&y)?, [12.0, 23.0]);
        other.write(&x, &[3.0, 4.0])?;
        graph.replay(&other)?;
        assert_eq!(graph.read(&download, stream)?, [14.0, 25.0]);
        graph.replay(&other)?;
        stream.completion()?.is_done()?;
        Ok(())
    })?;
    drop((graph, x, y, other));
    Ok(stream)
}

/// Gives captures up, in either phase.
fn gives_up(stream: Idle, kernels: &Kernels) -> Result<Idle, Failed> {
    let (stream, (x, y)) = on(stream, |stream| {
        Ok((stream.upload(&[1.0, 2.0])?, stream.alloc(2)?))
    })?;
    let stream = stream.prepare()?;
    let mut failed = step(&stream, kernels, &x, &y).err();
    let stream = stream.abort().prepare()?;
    failed = failed.or(step(&stream, kernels, &x, &y).err());
    let stream = stream.begin()?;
    failed = failed.or(step(&stream, kernels, &x, &y).err());
    let stream = stream.abort();
    if let Some(error) = failed {
        let stream = Some(stream);
        return Err(Failed { error, stream });
    }
    let (stream, read) = on(stream, |stream| stream.read(&y))?;
    assert_eq!(read, [12.0, 23.0]);
    Ok(stream)
}

/// Runs a program on a new device, failing one call; then whole on the same stream; then drops all. Says
/// which call failed.
fn sweep(
    program: Program,
    context: &Arc<CudaContext>,
    kernels: &Kernels,
    fault: Fault,
) -> Option<String> {
    let before = live(context);
    let device = Cuda::adopt(context.clone()).unwrap();
    let (ended, failed, _) = failing(fault, || {
        let stream = device.stream().map_err(|error| Failed {
            error,
            stream: None,
        })?;
        program(stream, kernels)
    });
    let call = failed?;
    let what = format!("{call} ({fault:?})");
    // A graph that is not there yet is sent by its first replay; and what could not be destroyed is counted.
    let harmless = call == "cuGraphUpload" || call.contains("Destroy");
    assert!(ended.is_ok() || !harmless, "{what}");
    let stream = match ended {
        Ok(stream) => stream,
        Err(Failed { error, stream }) => {
            let told = told(&error);
            let named = told.contains(&call) && told.contains(&format!("({})", fault.code));
            let no_memory = fault.code == 2 && told.contains("no memory");
            assert!(named || no_memory, "{what}: {told}");
            stream.unwrap_or_else(|| device.stream().unwrap())
        }
    };
    assert_idle(device.status());
    assert_eq!(capture_mode(), GLOBAL, "{what}");

    let stream = program(stream, kernels).unwrap_or_else(|failed| {
        panic!("{what}, and then {}", told(&failed.error));
    });
    stream.synchronize().unwrap();
    drop(stream);
    device.trim().unwrap();
    let memory = device.memory();
    assert_holds_only(memory.device, memory.device.lost);
    drop(device);

    assert!(total(memory.lost) <= 1, "{what}: {:?}", memory.lost);
    assert_left(context, before, memory, fault, &what);
    Some(call)
}

/// The capture mode of this thread, which the crate exchanges and must put back.
fn capture_mode() -> CUstreamCaptureMode {
    let mut mode = GLOBAL;
    // SAFETY: it reads a mode there, and writes one.
    let code = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
    assert_eq!(code as u32, 0);
    mode
}

/// The objects that are counted in [`Lost`].
fn counted(live: Live) -> [usize; 6] {
    [
        live.streams,
        live.events,
        live.allocations,
        live.pinned,
        live.graphs,
        live.executables,
    ]
}

fn lost_of(lost: Lost) -> [usize; 6] {
    [
        lost.streams,
        lost.events,
        lost.allocations,
        lost.pinned,
        lost.graphs,
        lost.executables,
    ]
}

fn total(lost: Lost) -> usize {
    lost_of(lost).iter().sum()
}

/// Nothing is left but what could not be destroyed, which was counted by its name, or memory that nobody
/// could wait for, which was counted by its bytes.
#[track_caller]
fn assert_left(context: &CudaContext, before: Live, memory: CudaMemory, fault: Fault, what: &str) {
    let lost = lost_of(memory.lost);
    // What failed after its effect is gone, and was counted all the same.
    let mut expected = if fault.after { [0; 6] } else { lost };
    match (memory.device.lost, memory.lost.allocations) {
        (0, freed) => assert_eq!(freed, 0, "{what}"),
        // A wait failed, and so it was kept.
        (_, 0) => expected[2] += 1,
        (_, _) => {}
    }
    let more: Vec<_> = counted(live(context))
        .iter()
        .zip(counted(before))
        .map(|(left, before)| left - before)
        .collect();
    assert_eq!(more, expected, "{what}: {:?}", memory.lost);
}

/// As [`sweep`], failing what comes when the program is over: the stream is dropped, the pool trimmed, the
/// device dropped. None of it returns an error.
fn sweep_end(context: &Arc<CudaContext>, kernels: &Kernels, fault: Fault) -> Option<String> {
    let before = live(context);
    let device = Cuda::adopt(context.clone()).unwrap();
    let stream = device.stream().unwrap();
    let Ok(stream) = captures(stream, kernels) else {
        panic!("nothing fails yet");
    };
    let (memory, failed, _) = failing(fault, || {
        drop(stream);
        device.trim().unwrap();
        let memory = device.memory();
        drop(device);
        memory
    });
    assert_eq!(capture_mode(), GLOBAL);
    let call = failed?;
    let what = format!("{call} ({fault:?})");
    assert_left(context, before, memory, fault, &what);
    let lost = usize::from(call.contains("Destroy") || call.contains("Free"));
    assert_eq!(total(memory.lost), lost, "{what}: {:?}", memory.lost);
    Some(call)
}

/// Fails one call after the other, until there are no more, in each way. Returns their names.
fn in_turn(mut fails: impl FnMut(Fault) -> Option<String>) -> Vec<String> {
    let ways: Vec<_> = [false, true]
        .into_iter()
        .flat_map(|after| CODES.map(|code| (after, code)))
        .collect();
    let mut names = Vec::new();
    for &(after, code) in &ways {
        for number in 0.. {
            let fault = Fault {
                number,
                after,
                code,
            };
            match fails(fault) {
                Some(name) => names.push(name),
                None => break,
            }
        }
    }
    let calls = names.len() / ways.len();
    names.sort();
    names.dedup();
    println!(
        "{calls} calls, each failed in {} ways: {names:?}",
        ways.len()
    );
    names
}

/// L2, L3, L8, L14, M7.
#[test]
fn every_call_of_a_capture_and_its_replays_may_fail() {
    if driver::skipped() {
        return;
    }
    let context = driver::context();
    let kernels = kernels(&context);
    let names = in_turn(|fault| sweep(captures, &context, &kernels, fault));
    for name in [
        "cuGraphInstantiateWithParams",
        "cuGraphLaunch",
        "cuStreamWaitEvent",
    ] {
        assert!(names.iter().any(|other| other == name), "{name}");
    }
}

/// L2, L3, M7.
#[test]
fn every_call_of_captures_that_are_given_up_may_fail() {
    if driver::skipped() {
        return;
    }
    let context = driver::context();
    let kernels = kernels(&context);
    let names = in_turn(|fault| sweep(gives_up, &context, &kernels, fault));
    assert!(names.iter().any(|name| name == "cuStreamIsCapturing"));
}

/// M7.
#[test]
fn every_call_of_the_end_may_fail() {
    if driver::skipped() {
        return;
    }
    let context = driver::context();
    let kernels = kernels(&context);
    let names = in_turn(|fault| sweep_end(&context, &kernels, fault));
    for name in ["cuStreamDestroy_v2", "cuMemFree_v2", "cuMemFreeHost"] {
        assert!(names.iter().any(|other| other == name), "{name}");
    }
}
