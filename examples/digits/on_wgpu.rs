//! The kernels of the network on wgpu: the shaders of `kernels.wgsl`.

use graph_capture::wgpu::{Commands, Kernel, Wgpu};
use graph_capture::{Buffer, Error, read, read_write, write};

use super::network::{Kernels, Layer};

pub struct Shaders {
    product: Kernel,
    bias: Kernel,
    relu: Kernel,
    argmax: Kernel,
}

impl Shaders {
    pub fn compile(device: &Wgpu) -> Result<Self, Error> {
        let kernel = |entry| Kernel::new(device, include_str!("kernels.wgsl"), entry);
        Ok(Self {
            product: kernel("product")?,
            bias: kernel("bias")?,
            relu: kernel("relu")?,
            argmax: kernel("argmax")?,
        })
    }
}

impl Kernels<Wgpu> for Shaders {
    fn product(
        &self,
        commands: &Commands,
        x: &Buffer<f32, Wgpu>,
        layer: &Layer<Wgpu>,
    ) -> Result<(), Error> {
        let groups = self.product.cover(count(&layer.result)?);
        let accesses = (read(x), read(&layer.weights), write(&layer.result));
        let shape = [layer.inputs as u32, layer.outputs as u32];
        commands.dispatch_with(&self.product, groups, accesses, &shape)
    }

    fn bias(
        &self,
        commands: &Commands,
        bias: &Buffer<f32, Wgpu>,
        y: &Buffer<f32, Wgpu>,
    ) -> Result<(), Error> {
        let groups = self.bias.cover(count(y)?);
        commands.dispatch(&self.bias, groups, (read(bias), read_write(y)))
    }

    fn relu(&self, commands: &Commands, y: &Buffer<f32, Wgpu>) -> Result<(), Error> {
        commands.dispatch(&self.relu, self.relu.cover(count(y)?), read_write(y))
    }

    fn argmax(
        &self,
        commands: &Commands,
        digits: usize,
        logits: &Buffer<f32, Wgpu>,
        predictions: &Buffer<u32, Wgpu>,
    ) -> Result<(), Error> {
        let groups = self.argmax.cover(count(predictions)?);
        let accesses = (read(logits), write(predictions));
        let shape = [0, digits as u32];
        commands.dispatch_with(&self.argmax, groups, accesses, &shape)
    }
}

/// Threads are counted in 32 bits.
fn count<T>(buffer: &Buffer<T, Wgpu>) -> Result<u32, Error> {
    u32::try_from(buffer.len()).map_err(Error::step)
}
