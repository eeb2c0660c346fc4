//! The network on a device: its buffers, and the forward pass.

use graph_capture::{Backend, Buffer, Commands, Error};

use super::data::{self, Weights};

/// One pass through the network, from `network.input` to `network.predictions`.
///
/// Written once: it is the warm-up, the recording, and the eager pass, on every backend.
pub fn forward<B: Backend>(
    commands: &Commands<B>,
    kernels: &impl Kernels<B>,
    network: &Network<B>,
) -> Result<(), Error> {
    let mut x = &network.input;
    for layer in &network.layers {
        kernels.product(commands, x, layer)?;
        kernels.bias(commands, &layer.bias, &layer.result)?;
        if layer.relu {
            kernels.relu(commands, &layer.result)?;
        }
        x = &layer.result;
    }
    kernels.argmax(commands, network.digits, x, &network.predictions)
}

/// The kernels of the network on one backend: a launch each, which errors place where it is called.
pub trait Kernels<B: Backend> {
    /// `layer.result = x * layer.weights`, for each image of the batch.
    #[track_caller]
    fn product(
        &self,
        commands: &Commands<B>,
        x: &Buffer<f32, B>,
        layer: &Layer<B>,
    ) -> Result<(), Error>;

    /// Adds `bias` to each image's part of `y`.
    #[track_caller]
    fn bias(
        &self,
        commands: &Commands<B>,
        bias: &Buffer<f32, B>,
        y: &Buffer<f32, B>,
    ) -> Result<(), Error>;

    /// `y = max(y, 0)`.
    #[track_caller]
    fn relu(&self, commands: &Commands<B>, y: &Buffer<f32, B>) -> Result<(), Error>;

    /// The digit of the largest logit of each image, the first one if several are equal.
    #[track_caller]
    fn argmax(
        &self,
        commands: &Commands<B>,
        digits: usize,
        logits: &Buffer<f32, B>,
        predictions: &Buffer<u32, B>,
    ) -> Result<(), Error>;
}

/// The network in the memory of the device. The buffers stay the same from batch to batch: what
/// the graph has recorded is to read and write these.
pub struct Network<B: Backend> {
    pub input: Buffer<f32, B>,
    layers: Vec<Layer<B>>,
    digits: usize,
    pub predictions: Buffer<u32, B>,
}

pub struct Layer<B: Backend> {
    pub inputs: usize,
    pub outputs: usize,
    pub weights: Buffer<f32, B>,
    bias: Buffer<f32, B>,
    pub result: Buffer<f32, B>,
    /// Whether ReLU follows.
    relu: bool,
}

impl<B: Backend> Network<B> {
    /// For `batch` images in one pass.
    pub fn upload(commands: &Commands<B>, weights: &Weights, batch: usize) -> Result<Self, Error> {
        let count = weights.layers.len();
        let layer = |(index, layer): (usize, &data::Layer)| {
            Ok(Layer {
                inputs: layer.inputs,
                outputs: layer.outputs,
                weights: commands.upload(&layer.weights)?,
                bias: commands.upload(&layer.bias)?,
                result: commands.alloc(batch * layer.outputs)?,
                relu: index + 1 < count,
            })
        };
        Ok(Self {
            input: commands
                .alloc(batch * weights.layers.first().map_or(0, |layer| layer.inputs))?,
            layers: (weights.layers.iter().enumerate())
                .map(layer)
                .collect::<Result<_, Error>>()?,
            digits: weights.layers.last().map_or(0, |layer| layer.outputs),
            predictions: commands.alloc(batch)?,
        })
    }

    /// What the last layer gives: a value for each digit, the largest for the likeliest.
    pub fn logits(&self) -> &Buffer<f32, B> {
        self.layers
            .last()
            .map_or(&self.input, |layer| &layer.result)
    }
}
