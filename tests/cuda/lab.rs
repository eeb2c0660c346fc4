//! The launches of the rules on CUDA.
#![allow(dead_code)] // Not every user uses all of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cudarc::driver::{CudaContext, CudaFunction, LaunchConfig};
use cudarc::nvrtc::Ptx;
use graph_capture::cuda::{Cuda, Mode, Relaxed, cudarc, value};
use graph_capture::{Buffer, Commands, Error, read, read_write, write};

use crate::driver;
use crate::suite::Lab;

/// The kernels of a context.
#[derive(Clone)]
pub struct Kernels {
    pub add: CudaFunction,
    pub accumulate: CudaFunction,
    pub touch: CudaFunction,
    pub four: CudaFunction,
    pub trap: CudaFunction,
}

pub fn kernels(context: &Arc<CudaContext>) -> Kernels {
    let module = context
        .load_module(Ptx::from_src(include_str!("kernels.ptx")))
        .unwrap();
    let function = |name| module.load_function(name).unwrap();
    Kernels {
        add: function("add"),
        accumulate: function("accumulate"),
        touch: function("touch"),
        four: function("four"),
        trap: function("trap"),
    }
}

/// The kernels of the devices that the suite made, by their contexts. They keep these.
static KERNELS: Mutex<Option<HashMap<usize, Kernels>>> = Mutex::new(None);

fn known(context: &CudaContext) -> Kernels {
    let kernels = KERNELS.lock().unwrap();
    kernels.as_ref().unwrap()[&(context.cu_ctx() as usize)].clone()
}

fn new_context() -> Arc<CudaContext> {
    let context = driver::context();
    let kernels = kernels(&context);
    KERNELS
        .lock()
        .unwrap()
        .get_or_insert_default()
        .insert(context.cu_ctx() as usize, kernels);
    context
}

pub fn config(n: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (n.div_ceil(64) as u32, 1, 1),
        block_dim: (64, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// `y[i] = x[i] + by`.
#[track_caller]
pub fn add<M: Mode>(
    commands: &Commands<Cuda<M>>,
    kernels: &Kernels,
    x: &Buffer<f32, Cuda<M>>,
    y: &Buffer<f32, Cuda<M>>,
    by: f32,
) -> Result<(), Error> {
    let n = x.len().min(y.len());
    let arguments = (read(x), write(y), value(by), value(n as u32));
    // SAFETY: these are the kernel's parameters, and `n` is within both.
    unsafe { commands.launch("add", &kernels.add, config(n), arguments) }
}

macro_rules! lab {
    ($device:ty, $adopt:path) => {
        impl Lab for $device {
            fn device() -> Self {
                $adopt(new_context()).unwrap()
            }

            #[track_caller]
            fn add(
                commands: &Commands<Self>,
                x: &Buffer<f32, Self>,
                y: &Buffer<f32, Self>,
                by: f32,
            ) -> Result<(), Error> {
                let kernels = known(commands.device().context());
                add(commands, &kernels, x, y, by)
            }

            #[track_caller]
            fn accumulate(
                commands: &Commands<Self>,
                x: &Buffer<f32, Self>,
                y: &Buffer<f32, Self>,
            ) -> Result<(), Error> {
                let kernels = known(commands.device().context());
                let n = x.len().min(y.len());
                let arguments = (read(x), read_write(y), value(n as u32));
                // SAFETY: as for `add`.
                unsafe { commands.launch("accumulate", &kernels.accumulate, config(n), arguments) }
            }

            #[track_caller]
            fn touch(
                commands: &Commands<Self>,
                x: &Buffer<f32, Self>,
                y: &Buffer<f32, Self>,
                also_read: bool,
            ) -> Result<(), Error> {
                let kernels = known(commands.device().context());
                // SAFETY: it takes two pointers, and does nothing.
                unsafe {
                    if also_read {
                        let arguments = (read(x), read_write(y));
                        commands.launch("touch", &kernels.touch, config(1), arguments)
                    } else {
                        commands.launch("touch", &kernels.touch, config(1), (read(x), write(y)))
                    }
                }
            }
        }
    };
}
lab!(Cuda, Cuda::adopt);
lab!(Cuda<Relaxed>, Cuda::adopt_relaxed);
