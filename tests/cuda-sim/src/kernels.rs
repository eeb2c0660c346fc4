//! What the kernels of tests and examples do, by name. Their real code is PTX beside their users.

use crate::code;
use crate::state::{Code, Done, Sim};

/// A launch with its parameters, as they were when it was made.
pub(crate) struct Launch {
    pub(crate) function: usize,
    pub(crate) name: String,
    pub(crate) parameters: Vec<Vec<u8>>,
}

impl Launch {
    fn bytes<const N: usize>(&self, place: usize) -> Result<[u8; N], Code> {
        let parameter = self.parameters.get(place).ok_or(code::LAUNCH_FAILED)?;
        parameter[..].try_into().map_err(|_| code::LAUNCH_FAILED)
    }

    fn u32(&self, place: usize) -> Result<usize, Code> {
        Ok(u32::from_ne_bytes(self.bytes(place)?) as usize)
    }

    fn f32(&self, place: usize) -> Result<f32, Code> {
        Ok(f32::from_ne_bytes(self.bytes(place)?))
    }

    /// The numbers in the memory that a parameter points to.
    fn read(&self, sim: &mut Sim, place: usize, count: usize) -> Result<Vec<f32>, Code> {
        let address = u64::from_ne_bytes(self.bytes(place)?) as usize;
        let bytes = sim.bytes_mut(address, count * 4)?;
        let number = |bytes: &[u8]| f32::from_ne_bytes(bytes.try_into().unwrap_or_default());
        Ok(bytes.chunks_exact(4).map(number).collect())
    }

    fn write(&self, sim: &mut Sim, place: usize, words: &[[u8; 4]]) -> Done {
        let address = u64::from_ne_bytes(self.bytes(place)?) as usize;
        let bytes = sim.bytes_mut(address, words.len() * 4)?;
        bytes.copy_from_slice(words.as_flattened());
        Ok(())
    }

    fn write_floats(&self, sim: &mut Sim, place: usize, numbers: &[f32]) -> Done {
        let words: Vec<_> = numbers.iter().map(|number| number.to_ne_bytes()).collect();
        self.write(sim, place, &words)
    }
}

type Kernel = fn(&mut Sim, &Launch) -> Done;

/// The kernel of that name.
fn kernel(name: &str) -> Option<Kernel> {
    Some(match name {
        "add" => add,
        "accumulate" => accumulate,
        "touch" | "four" => |_, _| Ok(()),
        "trap" => |_, _| Err(code::LAUNCH_FAILED),
        "product" => product,
        "bias" => bias,
        "relu" => relu,
        "argmax" => argmax,
        _ => return None,
    })
}

pub(crate) fn is_known(name: &str) -> bool {
    kernel(name).is_some()
}

/// Fails where the module has been unloaded meanwhile.
pub(crate) fn run(sim: &mut Sim, launch: &Launch) -> Done {
    if !sim.functions.contains_key(&launch.function) {
        return Err(code::LAUNCH_FAILED);
    }
    kernel(&launch.name).ok_or(code::NOT_SUPPORTED)?(sim, launch)
}

/// `y[i] = x[i] + by`: x, y, by, n.
fn add(sim: &mut Sim, launch: &Launch) -> Done {
    let (by, n) = (launch.f32(2)?, launch.u32(3)?);
    let mut x = launch.read(sim, 0, n)?;
    x.iter_mut().for_each(|x| *x += by);
    launch.write_floats(sim, 1, &x)
}

/// `y[i] += x[i]`: x, y, n.
fn accumulate(sim: &mut Sim, launch: &Launch) -> Done {
    let n = launch.u32(2)?;
    let x = launch.read(sim, 0, n)?;
    let mut y = launch.read(sim, 1, n)?;
    y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
    launch.write_floats(sim, 1, &y)
}

/// `y = x * weights` for each image: x, weights, y, inputs, outputs, images.
fn product(sim: &mut Sim, launch: &Launch) -> Done {
    let (inputs, outputs, images) = (launch.u32(3)?, launch.u32(4)?, launch.u32(5)?);
    let x = launch.read(sim, 0, images * inputs)?;
    let weights = launch.read(sim, 1, inputs * outputs)?;
    let mut y = vec![0.0f32; images * outputs];
    for (x, y) in x.chunks_exact(inputs).zip(y.chunks_exact_mut(outputs)) {
        for (x, weights) in x.iter().zip(weights.chunks_exact(outputs)) {
            y.iter_mut()
                .zip(weights)
                .for_each(|(y, weight)| *y += x * weight);
        }
    }
    launch.write_floats(sim, 2, &y)
}

/// `y[i] += bias[i % outputs]`: bias, y, outputs, n.
fn bias(sim: &mut Sim, launch: &Launch) -> Done {
    let (outputs, n) = (launch.u32(2)?, launch.u32(3)?);
    let bias = launch.read(sim, 0, outputs)?;
    let mut y = launch.read(sim, 1, n)?;
    y.iter_mut()
        .zip(bias.iter().cycle())
        .for_each(|(y, bias)| *y += bias);
    launch.write_floats(sim, 1, &y)
}

/// `y[i] = max(y[i], 0)`: y, n.
fn relu(sim: &mut Sim, launch: &Launch) -> Done {
    let n = launch.u32(1)?;
    let mut y = launch.read(sim, 0, n)?;
    y.iter_mut().for_each(|y| *y = y.max(0.0));
    launch.write_floats(sim, 0, &y)
}

/// The index of the largest, the first one if several are: logits, predictions, digits, images.
fn argmax(sim: &mut Sim, launch: &Launch) -> Done {
    let (digits, images) = (launch.u32(2)?, launch.u32(3)?);
    let logits = launch.read(sim, 0, images * digits)?;
    let predictions: Vec<_> = logits
        .chunks_exact(digits)
        .map(|logits| {
            let mut largest = 0;
            for (digit, logit) in logits.iter().enumerate() {
                if *logit > logits[largest] {
                    largest = digit;
                }
            }
            (largest as u32).to_ne_bytes()
        })
        .collect();
    launch.write(sim, 1, &predictions)
}
