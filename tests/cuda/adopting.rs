//! What the program has already: contexts, streams, modules, and libraries that submit work.

use std::process::Command;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, PushKernelArg as _};
use graph_capture::cuda::{Cuda, Relaxed, cudarc};
use graph_capture::{Buffer, Error, NoCapture, Stream, read, read_write, write};

use crate::driver;
use crate::lab::{Kernels, add, config, kernels};
use crate::suite::told;

pub struct Adopted {
    pub context: Arc<CudaContext>,
    pub kernels: Kernels,
    pub device: Cuda,
    pub stream: Stream<NoCapture, Cuda>,
    pub x: Buffer<f32, Cuda>,
    pub y: Buffer<f32, Cuda>,
}

pub fn adopted() -> Adopted {
    adopted_in(driver::context())
}

fn adopted_in(context: Arc<CudaContext>) -> Adopted {
    let kernels = kernels(&context);
    let device = Cuda::adopt(context.clone()).unwrap();
    let stream = device.stream().unwrap();
    let x = stream.upload(&[1.0, 2.0]).unwrap();
    let y = stream.alloc(2).unwrap();
    Adopted {
        context,
        kernels,
        device,
        stream,
        x,
        y,
    }
}

/// Captures `work` over a new stream, replays it, and gives what it left in `y`.
fn replayed(
    stream: Stream<NoCapture, Cuda>,
    y: &Buffer<f32, Cuda>,
    work: impl FnMut(&graph_capture::Commands<Cuda>) -> Result<(), Error>,
) -> Vec<f32> {
    let (stream, mut graph, ()) = stream.capture(work).unwrap_or_else(|refused| {
        panic!("{}", told(refused.error()));
    });
    stream.fill(y, 0.0).unwrap();
    graph.replay(&stream).unwrap();
    stream.read(y).unwrap()
}

/// L13: one record and pool a context, however often it is adopted.
#[test]
fn a_context_is_one_device_however_often_it_is_adopted() {
    let Adopted {
        context,
        stream,
        x,
        y,
        kernels,
        ..
    } = adopted();
    let again = Cuda::adopt(context.clone()).unwrap();
    let other = again.stream().unwrap();
    let stream = stream.prepare().unwrap();
    assert!(again.status().any_active());
    add(&other, &kernels, &x, &y, 1.0).unwrap();
    assert_eq!(other.read(&y).unwrap(), [2.0, 3.0]);
    drop(stream);
    assert!(!again.status().any_active());

    let elsewhere = Cuda::adopt(driver::context()).unwrap();
    let error = add(&elsewhere.stream().unwrap(), &kernels, &x, &y, 1.0).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { .. }), "{error:?}");
}

/// L13, M10: with its last handle and stream it is gone, and opened again it is another, also to a graph.
#[test]
fn a_device_that_is_gone_is_another_when_it_is_opened_again() {
    let Adopted {
        context,
        stream,
        device,
        x,
        y,
        ..
    } = adopted();
    let (stream, mut graph, ()) = stream.capture(|c| c.copy(&x, &y)).unwrap();
    graph.replay(&stream).unwrap();
    let again = Cuda::adopt(context.clone()).unwrap();
    drop(device);
    drop(stream);
    let stream = again.stream().unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [1.0, 2.0]);
    drop((again, stream));
    let other = Cuda::adopt(context).unwrap().stream().unwrap();
    for refused in [graph.replay(&other), other.copy(&x, &y)] {
        assert!(
            matches!(refused, Err(Error::OtherDevice { .. })),
            "{refused:?}"
        );
    }
}

/// L13: so it has one mode, as long as a handle or stream of the device is there.
#[test]
fn a_context_is_open_in_one_mode_at_a_time() {
    let context = driver::context();
    let device = Cuda::adopt(context.clone()).unwrap();
    let stream = device.stream().unwrap();
    drop(device);
    let refused = Cuda::<Relaxed>::adopt_relaxed(context.clone()).unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    drop(stream);
    assert!(Cuda::adopt_relaxed(context).is_ok());
}

/// The device of an ordinal is that of its primary context.
#[test]
fn an_ordinal_is_its_primary_context() {
    driver::context();
    let device = Cuda::new(0).unwrap();
    assert!(device.context().is_primary());
    let same = Cuda::adopt(CudaContext::new(0).unwrap()).unwrap();
    let (stream, other) = (device.stream().unwrap(), same.stream().unwrap());
    let x = stream.upload(&[5.0f32]).unwrap();
    assert_eq!(other.read(&x).unwrap(), [5.0]);
    assert_usable_with_copies(stream);
    let refused = Cuda::new(1000).unwrap_err();
    assert!(told(&refused).contains("device 1000"), "{refused}");
}

/// Captures and replays what needs no kernel.
pub fn assert_usable_with_copies(stream: Stream<NoCapture, Cuda>) {
    let (x, y) = (stream.upload(&[4.0]).unwrap(), stream.alloc(1).unwrap());
    assert_eq!(replayed(stream, &y, |c| c.copy(&x, &y)), [4.0]);
}

/// Where there is no device, that is an error, and no panic.
#[test]
fn a_driver_without_a_device_is_an_error() {
    const CHILD: &str = "CUDA_SIM_NO_DEVICE";
    if driver::skipped() {
        return;
    }
    if std::env::var_os(CHILD).is_some() {
        let refused = Cuda::new(0).unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
        assert!(told(&refused).contains("NO_DEVICE"), "{refused}");
        return;
    }
    let test = "adopting::a_driver_without_a_device_is_an_error";
    let child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && out.contains("1 passed"), "{out}");
}

/// Where there is no driver at all, that is an error too.
#[test]
fn no_driver_is_an_error() {
    const CHILD: &str = "GRAPH_CAPTURE_TEST_NO_DRIVER";
    if std::env::var_os(CHILD).is_some() {
        // The simulated driver is not opened.
        match Cuda::new(0) {
            Err(refused) => {
                assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
                assert!(told(&refused).contains("libcuda.so"), "{refused}");
            }
            Ok(_) => eprintln!("skipped: this machine has a driver"),
        }
        return;
    }
    let test = "adopting::no_driver_is_an_error";
    let child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && out.contains("1 passed"), "{out}");
}

/// The driver's reason, and the node that it blames, where it gives them.
#[test]
fn a_graph_that_is_not_made_executable_is_told_with_its_node() {
    if driver::skipped() {
        return;
    }
    const KERNEL: u32 = 0;
    let Adopted {
        kernels,
        stream,
        device,
        x,
        y,
        ..
    } = adopted();
    let refused = driver::refuse_nodes(KERNEL, || {
        stream
            .capture(|c| {
                c.fill(&y, 1.0)?;
                add(c, &kernels, &x, &y, 1.0)
            })
            .unwrap_err()
    });
    let (error, stream) = refused.into_parts();
    let told = told(&error);
    for says in ["NODE_OPERATION_NOT_SUPPORTED", "KERNEL", "node 1", "(801)"] {
        assert!(told.contains(says), "{told} does not say {says}");
    }
    assert!(!device.status().any_active());
    assert_usable_with_copies(stream);
}

/// A driver may be newer than the bindings, and say what those have no name for.
#[test]
fn what_only_a_newer_driver_says_is_told_by_its_number() {
    if driver::skipped() {
        return;
    }
    const KERNEL: u32 = 0;
    let Adopted {
        kernels,
        stream,
        x,
        y,
        ..
    } = adopted();
    // Kinds that nobody knows here are no memory nodes.
    let sealed = driver::newer(|| {
        stream.capture(|c| {
            // SAFETY: it submits nothing.
            unsafe { c.foreign("library", &[], write(&y), |_, _| Ok(())) }?;
            add(c, &kernels, &x, &y, 1.0)
        })
    });
    let (stream, _graph, ()) = sealed.unwrap_or_else(|refused| {
        panic!("{}", told(refused.error()));
    });
    let refused = driver::newer(|| {
        driver::refuse_nodes(KERNEL, || {
            stream
                .capture(|c| add(c, &kernels, &x, &y, 1.0))
                .unwrap_err()
        })
    });
    let (error, stream) = refused.into_parts();
    let told = told(&error);
    for says in ["says 30583", "of kind 30583", "node 0"] {
        assert!(told.contains(says), "{told} does not say {says}");
    }
    assert_usable_with_copies(stream);
}

/// A stream of the program's is captured as one of ours.
#[test]
fn a_stream_of_the_programs_is_captured() {
    let Adopted {
        context,
        device,
        kernels,
        x,
        y,
        ..
    } = adopted();
    let own = context.new_stream().unwrap();
    let stream = device.adopt_stream(own.clone()).unwrap();
    let work = |c: &graph_capture::Commands<Cuda>| add(c, &kernels, &x, &y, 1.0);
    assert_eq!(replayed(stream, &y, work), [2.0, 3.0]);
    // It is still the program's.
    own.synchronize().unwrap();
}

/// The legacy stream and the per-thread one are no streams to capture; nor is one that captures.
#[test]
fn streams_that_cannot_be_captured_are_refused_by_name() {
    let Adopted {
        context, device, ..
    } = adopted();
    let elsewhere = driver::context().new_stream().unwrap();
    let capturing = context.new_stream().unwrap();
    let mode = cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    capturing.begin_capture(mode).unwrap();
    for (stream, says) in [
        (context.default_stream(), "new_stream"),
        (context.per_thread_stream(), "each thread"),
        (capturing.clone(), "in a capture"),
        (elsewhere.clone(), "another context"),
    ] {
        let refused = device.adopt_stream(stream).unwrap_err();
        assert!(matches!(refused, Error::BadStream { .. }), "{refused:?}");
        assert!(told(&refused).contains(says), "{refused}");
    }
    let flags = cudarc::driver::sys::CUgraphInstantiate_flags(0);
    context.bind_to_thread().unwrap();
    assert!(capturing.end_capture(flags).is_ok());
}

/// A window on a stream of the program's, on which the program does something else as well.
fn disturbed(disturb: impl FnOnce(&Arc<CudaStream>)) -> Error {
    let Adopted {
        context,
        device,
        kernels,
        x,
        y,
        ..
    } = adopted();
    let own = context.new_stream().unwrap();
    let stream = device.adopt_stream(own.clone()).unwrap();
    let stream = stream.prepare().unwrap();
    add(&stream, &kernels, &x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    add(&stream, &kernels, &x, &y, 1.0).unwrap();
    disturb(&own);
    let refused = stream.end().unwrap_err();
    let (error, stream) = refused.into_parts();
    assert!(!device.status().any_active());
    assert_usable_with_copies(stream);
    error
}

/// L9: what others submit to the stream in the window is not sealed.
#[test]
fn work_of_others_in_the_window_is_refused() {
    let error = disturbed(|own| {
        let mut slice = own
            .context()
            .default_stream()
            .alloc_zeros::<u8>(16)
            .unwrap();
        own.memset_zeros(&mut slice).unwrap();
        drop(slice);
    });
    let told = told(&error);
    assert!(
        told.contains("2 nodes") && told.contains("make 1"),
        "{told}"
    );
}

/// A capture that somebody has broken is told as that, and the stream is used again.
#[test]
fn a_broken_capture_is_told_with_the_drivers_code() {
    let error = disturbed(|own| assert!(own.synchronize().is_err()));
    let told = told(&error);
    assert!(
        told.contains("cuStreamEndCapture") && told.contains("901"),
        "{told}"
    );
}

/// Somebody else has ended the capture of ours.
#[test]
fn a_capture_that_somebody_else_ended_is_refused() {
    let error = disturbed(|own| {
        let flags = cudarc::driver::sys::CUgraphInstantiate_flags(0);
        drop(own.end_capture(flags).unwrap());
    });
    assert!(told(&error).contains("cuStreamEndCapture"), "{error:?}");
}

/// Allocations that get into a capture are found, also where their number was expected.
#[test]
fn memory_nodes_are_refused() {
    let Adopted {
        context, stream, y, ..
    } = adopted();
    let mut run = 0;
    let refused = stream
        .capture(|c| {
            run += 1;
            // SAFETY: it submits to the stream alone; that it allocates is what is found out.
            unsafe {
                c.foreign("library", &[], write(&y), |stream, _| {
                    let slice = stream.alloc::<u8>(16).map_err(Error::step)?;
                    drop(slice);
                    Ok(())
                })
            }
        })
        .unwrap_err();
    let (error, stream) = refused.into_parts();
    let told = told(&error);
    assert!(told.contains("allocates or frees"), "{told}");
    assert_eq!(run, 2);
    assert_usable_with_copies(stream);
    drop(context);
}

/// M1: a module stays loaded while a graph launches its functions, and while eager launches are under way.
#[test]
fn modules_stay_loaded_as_long_as_they_are_used() {
    let Adopted {
        context,
        kernels,
        stream,
        x,
        y,
        ..
    } = adopted();
    let (stream, mut graph, ()) = stream.capture(|c| add(c, &kernels, &x, &y, 1.0)).unwrap();
    add(&stream, &kernels, &x, &y, 2.0).unwrap();
    drop(kernels);
    assert_eq!(stream.read(&y).unwrap(), [3.0, 4.0]);
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
    if driver::is_simulated() {
        assert_eq!(driver::live(&context).modules, 1);
        drop(graph);
        stream.synchronize().unwrap();
        assert_eq!(driver::live(&context).modules, 0);
    }
}

/// And as long as launches outside of captures are under way, also where their stream goes.
#[test]
fn modules_stay_loaded_until_eager_launches_are_done() {
    for drops in [false, true] {
        let Adopted {
            kernels,
            stream,
            device,
            x,
            y,
            ..
        } = adopted();
        add(&stream, &kernels, &x, &y, 2.0).unwrap();
        drop(kernels);
        let stream = if drops {
            drop(stream);
            device.stream().unwrap()
        } else {
            stream
        };
        assert_eq!(stream.read(&y).unwrap(), [3.0, 4.0]);
    }
}

/// L9: another function of the same name, or another shape.
#[test]
fn another_function_or_shape_diverges() {
    for differs in ["function", "shape"] {
        let Adopted {
            kernels,
            stream,
            x,
            y,
            ..
        } = adopted();
        let mut run = 0;
        let refused = stream
            .capture(|c| {
                run += 1;
                let (mut function, mut shape) = (&kernels.touch, config(2));
                match (run, differs) {
                    (2, "function") => function = &kernels.four,
                    (2, _) => shape.grid_dim.0 = 2,
                    _ => {}
                }
                let (a, b) = (y.slice(..1).unwrap(), y.slice(1..).unwrap());
                let (p, q) = (x.slice(..1).unwrap(), x.slice(1..).unwrap());
                let arguments = (read(&p), read(&q), read(&a), write(&b));
                // SAFETY: they do nothing.
                unsafe { c.launch("nothing", function, shape, arguments) }
            })
            .unwrap_err();
        let error = refused.error();
        assert!(
            matches!(error, Error::Diverged { .. }),
            "{differs}: {error:?}"
        );
    }
}

/// A library that submits its own work: as one command, in a window too.
#[test]
fn foreign_work_is_recorded_as_one_command() {
    let Adopted {
        context,
        kernels,
        stream,
        x,
        y,
        device,
        ..
    } = adopted();
    let library = |stream: &Arc<CudaStream>, x: u64, y: u64| {
        for _ in 0..2 {
            let mut launch = stream.launch_builder(&kernels.accumulate);
            launch.arg(&x).arg(&y).arg(&2u32);
            // SAFETY: these are the kernel's parameters.
            unsafe { launch.launch(config(2)) }.map_err(Error::step)?;
        }
        Ok(())
    };
    let work = |c: &graph_capture::Commands<Cuda>| {
        c.fill(&y, 1.0)?;
        // SAFETY: it submits to the stream alone, and uses the accesses.
        unsafe {
            c.foreign(
                "library",
                &[],
                (read(&x), read_write(&y)),
                |stream, addresses| library(stream, addresses[0], addresses[1]),
            )
        }
    };
    assert_eq!(replayed(stream, &y, work), [3.0, 5.0]);

    // Where cudarc tracks slices by events, a window would be broken by them.
    let stream = device.stream().unwrap();
    let _multi = context.new_stream().unwrap();
    // SAFETY: no slice is made.
    unsafe { context.enable_event_tracking() };
    let refused = stream.capture(work).unwrap_err();
    assert!(
        told(refused.error()).contains("disable_event_tracking"),
        "{refused:?}"
    );
}

/// What destructors of the program's left in the context is neither told as ours nor taken away.
#[test]
fn errors_that_somebody_left_in_the_context_stay_there() {
    let Adopted {
        context,
        kernels,
        device,
        stream,
        x,
        y,
    } = adopted();
    let left = cudarc::driver::DriverError(cudarc::driver::sys::CUresult::CUDA_ERROR_ASSERT);
    context.record_err::<()>(Err(left));
    let slice = Buffer::adopt(&device, {
        let earlier = context.check_err();
        let slice = context.new_stream().unwrap().clone_htod(&[1.0f32]).unwrap();
        context.record_err(earlier);
        slice
    });
    assert!(slice.is_ok());
    let work = |c: &graph_capture::Commands<Cuda>| add(c, &kernels, &x, &y, 1.0);
    assert_eq!(replayed(stream, &y, work), [2.0, 3.0]);
    drop(slice);
    device.trim().unwrap();
    assert_eq!(context.check_err(), Err(left));
}

/// The program may make another context current between any two calls.
#[test]
fn another_current_context_is_no_matter() {
    let Adopted {
        kernels,
        stream,
        x,
        y,
        ..
    } = adopted();
    let other = driver::context();
    let elsewhere = || other.bind_to_thread().unwrap();
    elsewhere();
    let stream = stream.prepare().unwrap();
    elsewhere();
    add(&stream, &kernels, &x, &y, 1.0).unwrap();
    elsewhere();
    let stream = stream.abort();
    elsewhere();
    let (stream, mut graph, ()) = stream.capture(|c| add(c, &kernels, &x, &y, 1.0)).unwrap();
    elsewhere();
    graph.replay(&stream).unwrap();
    elsewhere();
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
    elsewhere();
    drop((stream, graph, x, y));
}

/// A kernel that fails on the device fails the wait, by the driver's code.
#[test]
fn a_kernel_that_fails_is_told_by_the_next_wait() {
    let Adopted {
        kernels, stream, ..
    } = adopted();
    // SAFETY: it takes nothing, and traps.
    unsafe { stream.launch("trap", &kernels.trap, config(1), ()) }.unwrap();
    let error = stream.synchronize().unwrap_err();
    assert!(told(&error).contains("719"), "{error:?}");
}
