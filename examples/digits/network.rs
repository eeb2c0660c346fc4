//! The network on a device: its buffers, its kernels, and the forward pass.

use graph_capture::host::Commands;
use graph_capture::{Buffer, Error, read, read_write, write};

use super::data::{self, Weights};

/// One pass through the network, from `network.input` to `network.predictions`.
///
/// Written once: it is the warm-up, the recording, and the eager pass.
pub fn forward(commands: &Commands, network: &Network) -> Result<(), Error> {
    let mut x = &network.input;
    for layer in &network.layers {
        let (inputs, outputs) = (layer.inputs, layer.outputs);
        let (weights, bias, y) = (&layer.weights, &layer.bias, &layer.result);

        commands.launch(
            "product",
            (read(x), read(weights), write(y)),
            move |(x, weights, y)| product(inputs, outputs, x, weights, y),
        )?;
        commands.launch("bias", (read(bias), read_write(y)), |(bias, y)| {
            add_bias(bias, y);
        })?;
        if layer.relu {
            commands.launch("relu", read_write(y), relu)?;
        }
        x = y;
    }
    let digits = network.digits;
    commands.launch(
        "argmax",
        (read(x), write(&network.predictions)),
        move |(logits, predictions)| argmax(digits, logits, predictions),
    )
}

/// The network in the memory of the device. The buffers stay the same from batch to batch: what
/// the graph has recorded is to read and write these.
pub struct Network {
    pub input: Buffer<f32>,
    layers: Vec<Layer>,
    digits: usize,
    pub predictions: Buffer<u32>,
}

pub struct Layer {
    inputs: usize,
    outputs: usize,
    weights: Buffer<f32>,
    bias: Buffer<f32>,
    result: Buffer<f32>,
    /// Whether ReLU follows.
    relu: bool,
}

impl Network {
    /// For `batch` images in one pass.
    pub fn upload(commands: &Commands, weights: &Weights, batch: usize) -> Result<Self, Error> {
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
    pub fn logits(&self) -> &Buffer<f32> {
        self.layers
            .last()
            .map_or(&self.input, |layer| &layer.result)
    }
}

// The kernels. They see the buffers as slices, and sum in a fixed order.

/// `y = x * weights`, for each image of the batch.
fn product(inputs: usize, outputs: usize, x: &[f32], weights: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(inputs).zip(y.chunks_exact_mut(outputs)) {
        y.fill(0.0);
        // Outputs innermost: neighbours in memory, so the compiler makes vectors of them.
        for (x, weights) in x.iter().zip(weights.chunks_exact(outputs)) {
            for (y, weight) in y.iter_mut().zip(weights) {
                *y += x * weight;
            }
        }
    }
}

fn add_bias(bias: &[f32], y: &mut [f32]) {
    for y in y.chunks_exact_mut(bias.len()) {
        for (y, bias) in y.iter_mut().zip(bias) {
            *y += bias;
        }
    }
}

fn relu(y: &mut [f32]) {
    for y in y {
        *y = y.max(0.0);
    }
}

/// The index of the largest, the first one if several are equal.
fn argmax(digits: usize, logits: &[f32], predictions: &mut [u32]) {
    for (logits, prediction) in logits.chunks_exact(digits).zip(predictions) {
        let mut largest = f32::NEG_INFINITY;
        for (digit, &logit) in (0..).zip(logits) {
            if logit > largest {
                (largest, *prediction) = (logit, digit);
            }
        }
    }
}
