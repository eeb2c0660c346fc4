//! The kernels on CUDA: PTX, written by hand in a version that old drivers know.

use std::sync::Arc;

use graph_capture::cuda::cudarc::driver::{CudaFunction, CudaModule, DriverError, LaunchConfig};
use graph_capture::cuda::cudarc::nvrtc::Ptx;
use graph_capture::cuda::{Commands, Cuda, value};
use graph_capture::{Buffer, Error, read, read_write, write};

use super::network::{Kernels, Layer};

/// The functions of `kernels.ptx`.
pub struct Functions {
    product: CudaFunction,
    bias: CudaFunction,
    relu: CudaFunction,
    argmax: CudaFunction,
}

impl Functions {
    pub fn load(device: &Cuda) -> Result<Self, Error> {
        let load = || -> Result<Self, DriverError> {
            let ptx = Ptx::from_src(include_str!("kernels.ptx"));
            let module: Arc<CudaModule> = device.context().load_module(ptx)?;
            Ok(Self {
                product: module.load_function("product")?,
                bias: module.load_function("bias")?,
                relu: module.load_function("relu")?,
                argmax: module.load_function("argmax")?,
            })
        };
        load().map_err(|refused| Error::driver("kernels.ptx", refused))
    }
}

/// A thread for each of `n`.
fn threads(n: usize) -> LaunchConfig {
    const BLOCK: usize = 128;
    LaunchConfig {
        grid_dim: (n.div_ceil(BLOCK) as u32, 1, 1),
        block_dim: (BLOCK as u32, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// A size as the kernels take it. The data's are far below.
fn size(n: usize) -> graph_capture::cuda::Value<u32> {
    value(n as u32)
}

impl Kernels<Cuda> for Functions {
    #[track_caller]
    fn product(
        &self,
        commands: &Commands,
        x: &Buffer<f32, Cuda>,
        layer: &Layer<Cuda>,
    ) -> Result<(), Error> {
        let (weights, y) = (&layer.weights, &layer.result);
        let images = y.len() / layer.outputs;
        let sizes = (size(layer.inputs), size(layer.outputs), size(images));
        let arguments = (read(x), read(weights), write(y), sizes.0, sizes.1, sizes.2);
        // SAFETY: these are the kernel's parameters. It reads `images * inputs` and `inputs * outputs`
        // numbers, and writes `images * outputs`, which the buffers have.
        unsafe { commands.launch("product", &self.product, threads(y.len()), arguments) }
    }

    #[track_caller]
    fn bias(
        &self,
        commands: &Commands,
        bias: &Buffer<f32, Cuda>,
        y: &Buffer<f32, Cuda>,
    ) -> Result<(), Error> {
        let arguments = (read(bias), read_write(y), size(bias.len()), size(y.len()));
        // SAFETY: these are the kernel's parameters, and the lengths of both buffers.
        unsafe { commands.launch("bias", &self.bias, threads(y.len()), arguments) }
    }

    #[track_caller]
    fn relu(&self, commands: &Commands, y: &Buffer<f32, Cuda>) -> Result<(), Error> {
        let arguments = (read_write(y), size(y.len()));
        // SAFETY: these are the kernel's parameters, and the length of the buffer.
        unsafe { commands.launch("relu", &self.relu, threads(y.len()), arguments) }
    }

    #[track_caller]
    fn argmax(
        &self,
        commands: &Commands,
        digits: usize,
        logits: &Buffer<f32, Cuda>,
        predictions: &Buffer<u32, Cuda>,
    ) -> Result<(), Error> {
        let images = predictions.len();
        let arguments = (read(logits), write(predictions), size(digits), size(images));
        // SAFETY: these are the kernel's parameters. It reads `images * digits` numbers, and writes
        // `images`, which the buffers have.
        unsafe { commands.launch("argmax", &self.argmax, threads(images), arguments) }
    }
}
