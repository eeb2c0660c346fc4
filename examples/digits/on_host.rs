//! The kernels of the network on the host: closures, which see the buffers as slices and sum in a fixed
//! order.

use graph_capture::host::Commands;
use graph_capture::{Buffer, Error, Host, read, read_write, write};

use super::network::{Kernels, Layer};

pub struct Closures;

impl Kernels<Host> for Closures {
    fn product(
        &self,
        commands: &Commands,
        x: &Buffer<f32>,
        layer: &Layer<Host>,
    ) -> Result<(), Error> {
        let (inputs, outputs) = (layer.inputs, layer.outputs);
        commands.launch(
            "product",
            (read(x), read(&layer.weights), write(&layer.result)),
            move |(x, weights, y)| product(inputs, outputs, x, weights, y),
        )
    }

    fn bias(&self, commands: &Commands, bias: &Buffer<f32>, y: &Buffer<f32>) -> Result<(), Error> {
        commands.launch("bias", (read(bias), read_write(y)), |(bias, y)| {
            add_bias(bias, y);
        })
    }

    fn relu(&self, commands: &Commands, y: &Buffer<f32>) -> Result<(), Error> {
        commands.launch("relu", read_write(y), relu)
    }

    fn argmax(
        &self,
        commands: &Commands,
        digits: usize,
        logits: &Buffer<f32>,
        predictions: &Buffer<u32>,
    ) -> Result<(), Error> {
        commands.launch(
            "argmax",
            (read(logits), write(predictions)),
            move |(logits, predictions)| argmax(digits, logits, predictions),
        )
    }
}

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
