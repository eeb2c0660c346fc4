//! Reads `weights.bin` and `images.bin`; README.md describes both formats.
//!
//! Nothing in a file is trusted: a damaged or foreign one is refused with the reason.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Pixels go from 0, blank, to this.
pub const BRIGHTEST: u8 = 16;
const DIGITS: usize = 10;

// Far above what the files hold, and low enough that no wrong number costs memory or time.
const MOST_BYTES: u64 = 4 << 20;
const MOST_IMAGES: usize = 10_000;
const MOST_LAYERS: usize = 16;
const WIDEST: usize = 4_096;

/// The content of `weights.bin`.
#[derive(Debug)]
pub struct Weights {
    pub layers: Vec<Layer>,
    /// Held-out images, and how many of them were classified right after training.
    pub images: usize,
    pub right: usize,
}

/// `x * weights + bias`, with the weights of input 0 to all outputs first.
#[derive(Debug)]
pub struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    pub weights: Vec<f32>,
    pub bias: Vec<f32>,
}

/// The content of `images.bin`.
#[derive(Debug)]
pub struct Images {
    pub pixels_each: usize,
    /// Image by image.
    pub pixels: Vec<u8>,
    /// The digit that each image shows.
    pub labels: Vec<u8>,
}

/// Which file is refused, why, and what to do: one line.
#[derive(Debug)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Reads both files from `folder`, and checks that they belong together.
pub fn load(folder: &Path) -> Result<(Weights, Images), Refused> {
    let weights = load_file(&folder.join("weights.bin"), Weights::parse)?;
    let images = load_file(&folder.join("images.bin"), Images::parse)?;
    weights
        .check_against(&images)
        .map_err(|reason| refused(folder, &reason))?;
    Ok((weights, images))
}

fn load_file<T>(path: &Path, parse: fn(&[u8]) -> Result<T, String>) -> Result<T, Refused> {
    let file = read_file(path).map_err(|error| {
        Refused(format!(
            "{}: cannot be read: {error}; name the folder of weights.bin and images.bin with --data DIR",
            path.display()
        ))
    })?;
    parse(&file).map_err(|reason| refused(path, &reason))
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to be refused for.
    File::open(path)?
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn refused(path: &Path, reason: &str) -> Refused {
    Refused(format!(
        "{}: {reason}; restore weights.bin and images.bin, or make both anew with train.py",
        path.display()
    ))
}

impl Weights {
    const MAGIC: &[u8; 8] = b"GCDIGW01";

    /// The weights in `file`, or what is wrong with it.
    pub fn parse(file: &[u8]) -> Result<Self, String> {
        let mut reader = Reader::open(file, Self::MAGIC)?;
        let count = reader.size("the number of layers", MOST_LAYERS)?;
        let images = reader.size("the number of images", MOST_IMAGES)?;
        let right = reader.size("the number of right answers", images)?;

        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            let inputs = reader.size("a layer's number of inputs", WIDEST)?;
            let outputs = reader.size("a layer's number of outputs", WIDEST)?;
            let weights = reader.bytes(4 * inputs * outputs)?;
            let bias = reader.bytes(4 * outputs)?;
            parts.push((inputs, outputs, weights, bias));
        }
        reader.close(file)?;

        let layers: Vec<_> = parts
            .into_iter()
            .map(|(inputs, outputs, weights, bias)| Layer {
                inputs,
                outputs,
                weights: floats(weights),
                bias: floats(bias),
            })
            .collect();
        check_layers(&layers)?;
        Ok(Self {
            layers,
            images,
            right,
        })
    }

    fn check_against(&self, images: &Images) -> Result<(), String> {
        let inputs = self.layers.first().map_or(0, |layer| layer.inputs);
        if inputs != images.pixels_each {
            return Err(format!(
                "the files do not belong together: the network takes {inputs} pixels, the images have {}",
                images.pixels_each
            ));
        }
        if self.images != images.labels.len() {
            return Err(format!(
                "the files do not belong together: the network was tried on {} images, here are {}",
                self.images,
                images.labels.len()
            ));
        }
        Ok(())
    }
}

fn check_layers(layers: &[Layer]) -> Result<(), String> {
    for (layer, next) in layers.iter().zip(layers.iter().skip(1)) {
        if layer.outputs != next.inputs {
            return Err(format!(
                "a layer gives {} values and the next takes {}",
                layer.outputs, next.inputs
            ));
        }
    }
    let outputs = layers.last().map_or(0, |layer| layer.outputs);
    if outputs != DIGITS {
        return Err(format!(
            "the last layer gives {outputs} values, and there are {DIGITS} digits"
        ));
    }
    let mut values = layers
        .iter()
        .flat_map(|layer| layer.weights.iter().chain(&layer.bias));
    if !values.all(|value| value.is_finite()) {
        return Err("a weight is not a finite number".into());
    }
    Ok(())
}

impl Images {
    const MAGIC: &[u8; 8] = b"GCDIGI01";

    /// The images in `file`, or what is wrong with it.
    pub fn parse(file: &[u8]) -> Result<Self, String> {
        let mut reader = Reader::open(file, Self::MAGIC)?;
        let count = reader.size("the number of images", MOST_IMAGES)?;
        let pixels_each = reader.size("the number of pixels", WIDEST)?;
        let pixels = reader.bytes(count * pixels_each)?;
        let labels = reader.bytes(count)?;
        reader.close(file)?;

        if pixels.iter().any(|&pixel| pixel > BRIGHTEST) {
            return Err(format!("a pixel is above {BRIGHTEST}"));
        }
        if labels.iter().any(|&label| usize::from(label) >= DIGITS) {
            return Err("a label is no digit".into());
        }
        Ok(Self {
            pixels_each,
            pixels: pixels.to_vec(),
            labels: labels.to_vec(),
        })
    }
}

/// What is left of a file. It hands out slices, so a wrong size is refused before it costs memory.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn open(file: &'a [u8], magic: &[u8; 8]) -> Result<Self, String> {
        if file.len() as u64 > MOST_BYTES {
            return Err(format!(
                "is larger than {MOST_BYTES} bytes, so it is no such file"
            ));
        }
        match file.strip_prefix(magic) {
            Some(rest) => Ok(Self { rest }),
            None if file.is_empty() => Err("is empty".into()),
            None if file.starts_with(Weights::MAGIC) => Err("holds the weights instead".into()),
            None if file.starts_with(Images::MAGIC) => Err("holds the images instead".into()),
            None => Err(format!("does not begin with {}", magic.escape_ascii())),
        }
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            let missing = count - self.rest.len();
            format!("is cut short or damaged: {missing} or more bytes are missing")
        })?;
        self.rest = rest;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u32, String> {
        let mut number = [0; 4];
        number.copy_from_slice(self.bytes(4)?);
        Ok(u32::from_le_bytes(number))
    }

    fn size(&mut self, what: &str, most: usize) -> Result<usize, String> {
        let number = self.number()?;
        usize::try_from(number)
            .ok()
            .filter(|size| (1..=most).contains(size))
            .ok_or_else(|| format!("{what} is {number}, which is not from 1 to {most}"))
    }

    /// Checks that only the checksum is left, and that it is right for what comes before it.
    fn close(mut self, file: &[u8]) -> Result<(), String> {
        let before = file.len() - self.rest.len();
        let expected = self.number()?;
        if !self.rest.is_empty() {
            return Err("goes on after its end, so it is damaged".into());
        }
        let found = crc32(file.get(..before).unwrap_or_default());
        if found != expected {
            return Err(format!(
                "is damaged: its checksum is {found:08x} and should be {expected:08x}"
            ));
        }
        Ok(())
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (floats, _) = bytes.as_chunks();
    floats
        .iter()
        .map(|&float| f32::from_le_bytes(float))
        .collect()
}

/// The CRC-32 of zlib, gzip and PNG, bit by bit: the files are small.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            let carry = crc & 1;
            crc >>= 1;
            if carry == 1 {
                crc ^= 0xEDB8_8320;
            }
        }
    }
    !crc
}
