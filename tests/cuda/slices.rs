//! Slices of `cudarc`'s: taken over, or shared.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use graph_capture::cuda::{Cuda, cudarc, read_slice, value};
use graph_capture::{Buffer, Error, write};

use crate::adopting::{Adopted, adopted, assert_usable_with_copies};
use crate::driver;
use crate::lab::{add, config};
use crate::suite::assert_holds_only;

/// M1: a slice that is adopted is a buffer, and goes back to its stream when nobody uses it.
#[test]
fn a_slice_is_adopted_with_what_it_holds() {
    for tracked in [false, true] {
        let Adopted {
            context,
            kernels,
            device,
            stream,
            y,
            ..
        } = adopted();
        let own = context.new_stream().unwrap();
        if tracked {
            // SAFETY: the slices below are made after it.
            unsafe { context.enable_event_tracking() };
        }
        let slice = own.clone_htod(&[5.0f32, 6.0]).unwrap();
        let x = Buffer::adopt(&device, slice).unwrap();
        assert_eq!(device.memory().device.in_use, 16);
        let (stream, mut graph, ()) = stream.capture(|c| add(c, &kernels, &x, &y, 1.0)).unwrap();
        drop(x);
        graph.replay(&stream).unwrap();
        assert_eq!(stream.read(&y).unwrap(), [6.0, 7.0], "tracked: {tracked}");
        drop((graph, y));
        stream.synchronize().unwrap();
        drop(stream);
        device.trim().unwrap();
        assert_holds_only(device.memory().device, 0);
        assert_eq!(device.memory().lost, Default::default());
    }
}

/// M10: and refused where it cannot be.
#[test]
fn a_slice_that_cannot_be_adopted_is_refused_by_name() {
    let Adopted { device, stream, .. } = adopted();
    let elsewhere = driver::context().new_stream().unwrap();
    let slice = elsewhere.clone_htod(&[1.0f32]).unwrap();
    let refused = Buffer::adopt(&device, slice).unwrap_err();
    assert!(matches!(refused, Error::BadMemory { .. }), "{refused:?}");
    let slice: CudaSlice<f32> = elsewhere
        .null()
        .unwrap_or_else(|_| unreachable_slice(&elsewhere));
    let refused = Buffer::adopt(&device, slice).unwrap_err();
    assert!(matches!(refused, Error::ZeroLength { .. }), "{refused:?}");
    assert_usable_with_copies(stream);
}

/// A slice of no elements, where the driver makes none of its own.
fn unreachable_slice(stream: &Arc<CudaStream>) -> CudaSlice<f32> {
    // SAFETY: nothing is read of it.
    unsafe { stream.alloc::<f32>(0) }.unwrap()
}

/// M1: a shared slice is kept by the graph.
#[test]
fn a_shared_slice_is_read_and_kept() {
    for tracked in [false, true] {
        let Adopted {
            context,
            kernels,
            stream,
            device,
            y,
            ..
        } = adopted();
        let own = context.new_stream().unwrap();
        if tracked {
            // SAFETY: the slices below are made after it.
            unsafe { context.enable_event_tracking() };
        }
        let x = Arc::new(own.clone_htod(&[5.0f32, 6.0]).unwrap());
        let launch = |c: &graph_capture::Commands<Cuda>| {
            let arguments = (read_slice(&x), write(&y), value(1.0f32), value(2u32));
            // SAFETY: these are the kernel's parameters.
            unsafe { c.launch("add", &kernels.add, config(2), arguments) }
        };
        launch(&stream).unwrap();
        assert_eq!(stream.read(&y).unwrap(), [6.0, 7.0]);
        let (stream, mut graph, ()) = stream.capture(launch).unwrap();
        let weak = Arc::downgrade(&x);
        drop(x);
        assert!(weak.upgrade().is_some(), "the graph keeps it");
        // On another stream: the slice was written long before.
        let other = device.stream().unwrap();
        graph.replay(&other).unwrap();
        assert_eq!(other.read(&y).unwrap(), [6.0, 7.0], "tracked: {tracked}");
        drop(graph);
        // What the warm-up launched is known to be done.
        stream.synchronize().unwrap();
        assert!(weak.upgrade().is_none());
    }
}

/// M9: what was written to a shared slice before the capture comes before every replay, on any stream.
#[test]
fn a_shared_slice_is_written_before_any_replay() {
    let Adopted {
        context,
        kernels,
        stream,
        device,
        y,
        ..
    } = adopted();
    let other = device.stream().unwrap();
    stream.synchronize().unwrap();
    let own = context.new_stream().unwrap();
    let x = Arc::new(own.clone_htod(&[5.0f32, 6.0]).unwrap());
    // What the warm-up writes is not what is read below.
    let scratch = stream.alloc::<f32>(2).unwrap();
    let mut targets = [&scratch, &y].into_iter();
    let stream = stream.prepare().unwrap();
    let mut launch = |c: &graph_capture::Commands<Cuda>| {
        let target = targets.next().unwrap();
        let arguments = (read_slice(&x), write(target), value(1.0f32), value(2u32));
        // SAFETY: these are the kernel's parameters.
        unsafe { c.launch("add", &kernels.add, config(2), arguments) }.unwrap();
    };
    launch(&stream);
    let stream = stream.begin().unwrap();
    launch(&stream);
    let (_stream, mut graph) = stream.end().unwrap();
    graph.replay(&other).unwrap();
    assert_eq!(other.read(&y).unwrap(), [6.0, 7.0]);
}

/// L9: a window takes no slice that its warm-up was not given.
#[test]
fn another_shared_slice_diverges() {
    let Adopted {
        context,
        kernels,
        stream,
        y,
        ..
    } = adopted();
    let own = context.new_stream().unwrap();
    let slices = [0.0f32, 1.0].map(|first| Arc::new(own.clone_htod(&[first, 6.0]).unwrap()));
    let mut slices = slices.iter();
    let refused = stream
        .capture(|c| {
            let x = slices.next().unwrap();
            let arguments = (read_slice(x), write(&y), value(1.0f32), value(2u32));
            // SAFETY: these are the kernel's parameters.
            unsafe { c.launch("add", &kernels.add, config(2), arguments) }
        })
        .unwrap_err();
    assert!(
        matches!(refused.error(), Error::Diverged { .. }),
        "{refused:?}"
    );
}
