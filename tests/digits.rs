//! The files of the `digits` example are read with care: what is damaged, cut short or foreign is
//! refused with a reason, and never makes it panic.

#[path = "../examples/digits/data.rs"]
mod data;

use std::path::Path;

use data::{BRIGHTEST, Images, Weights, crc32, load};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/digits");
const WEIGHTS: &[u8] = include_bytes!("../examples/digits/weights.bin");
const IMAGES: &[u8] = include_bytes!("../examples/digits/images.bin");

/// Where the first layer of `weights.bin` begins, and the second.
const LAYERS: [usize; 2] = [20, 16_668];

#[test]
fn the_checksum_is_that_of_zlib() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    assert_eq!(crc32(b""), 0);
}

#[test]
fn the_files_of_the_example_are_read() {
    let (weights, images) = load(Path::new(FOLDER)).unwrap();
    let shapes: Vec<_> = (weights.layers.iter())
        .map(|layer| (layer.inputs, layer.outputs))
        .collect();
    assert_eq!(shapes, [(64, 64), (64, 32), (32, 10)]);
    for layer in &weights.layers {
        assert_eq!(layer.weights.len(), layer.inputs * layer.outputs);
        assert_eq!(layer.bias.len(), layer.outputs);
    }
    assert_eq!((weights.right, weights.images), (583, 597));
    assert_eq!((images.pixels_each, images.labels.len()), (64, 597));
    assert_eq!(images.pixels.len(), 64 * 597);
    assert_eq!(images.pixels.iter().max(), Some(&BRIGHTEST));
}

#[test]
fn a_file_cut_short_anywhere_is_refused() {
    for len in 0..WEIGHTS.len() {
        assert!(Weights::parse(&WEIGHTS[..len]).is_err(), "{len} bytes");
    }
    for len in 0..IMAGES.len() {
        assert!(Images::parse(&IMAGES[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn a_file_that_goes_on_is_refused() {
    assert_says(
        Weights::parse(&[WEIGHTS, &[0]].concat()),
        "goes on after its end",
    );
    assert_says(
        Images::parse(&[IMAGES, IMAGES].concat()),
        "goes on after its end",
    );
}

#[test]
fn any_changed_byte_near_the_beginning_or_the_end_is_refused() {
    for (file, parse) in both() {
        for at in (0..64).chain(file.len() - 8..file.len()) {
            for flip in [0x01, 0x80, 0xFF] {
                let mut file = file.to_vec();
                file[at] ^= flip;
                assert!(parse(&file).is_err(), "byte {at} flipped by {flip:#x}");
            }
        }
    }
}

#[test]
fn a_changed_byte_in_the_middle_fails_the_checksum() {
    for (file, parse) in both() {
        let mut file = file.to_vec();
        let middle = file.len() / 2;
        file[middle] ^= 1;
        assert_says(parse(&file), "its checksum is");
    }
}

#[test]
fn a_foreign_file_is_refused_by_what_it_is() {
    assert_says(Weights::parse(IMAGES), "holds the images instead");
    assert_says(Images::parse(WEIGHTS), "holds the weights instead");
    for (_, parse) in both() {
        assert_says(parse(b""), "is empty");
        assert_says(
            parse(b"\x7fELF\x02\x01\x01\0 and so on"),
            "does not begin with",
        );
        assert_says(parse(&vec![0; (4 << 20) + 1]), "is larger than");
    }
}

#[test]
fn a_wrong_size_is_refused_although_the_checksum_is_right() {
    let [first, second] = LAYERS;
    for (at, number, answer) in [
        (8, 0, "the number of layers is 0"),
        (8, u32::MAX, "the number of layers is 4294967295"),
        (8, 16, "is not from 1 to 4096"), // the checksum, taken for a layer
        (12, u32::MAX, "the number of images is 4294967295"),
        (16, 598, "the number of right answers is 598"),
        (first, 0, "number of inputs is 0"),
        (first + 4, u32::MAX, "number of outputs is 4294967295"),
        (first, 4_096, "bytes are missing"),
        (second, 63, "is not from 1 to 4096"), // weights, taken for a layer's sizes
    ] {
        let file = resealed(WEIGHTS, |body| put(body, at, number));
        assert_says(Weights::parse(&file), answer);
    }
    for (at, number, answer) in [
        (8, 0, "the number of images is 0"),
        (8, u32::MAX, "the number of images is 4294967295"),
        (8, 598, "bytes are missing"),
        (8, 596, "goes on after its end"),
        (12, 0, "the number of pixels is 0"),
        (12, u32::MAX, "the number of pixels is 4294967295"),
        (12, 65, "bytes are missing"),
    ] {
        let file = resealed(IMAGES, |body| put(body, at, number));
        assert_says(Images::parse(&file), answer);
    }
}

#[test]
fn layers_that_do_not_fit_together_are_refused() {
    let file = network(&[(64, 64), (32, 10)]);
    assert_says(
        Weights::parse(&file),
        "gives 64 values and the next takes 32",
    );
    let file = network(&[(64, 64), (64, 11)]);
    assert_says(Weights::parse(&file), "the last layer gives 11 values");
    assert!(Weights::parse(&network(&[(64, 64), (64, 10)])).is_ok());
}

#[test]
fn values_out_of_range_are_refused() {
    let file = resealed(WEIGHTS, |body| put(body, LAYERS[0] + 8, f32::NAN.to_bits()));
    assert_says(Weights::parse(&file), "not a finite number");
    let file = resealed(IMAGES, |body| body[16] = BRIGHTEST + 1);
    assert_says(Images::parse(&file), "a pixel is above 16");
    let file = resealed(IMAGES, |body| body[16 + 64 * 597] = 10);
    assert_says(Images::parse(&file), "a label is no digit");
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let folder = Folder::new("apart");
    folder.put("images.bin", IMAGES);

    folder.put("weights.bin", &network(&[(63, 10)]));
    folder.refuses("the network takes 63 pixels, the images have 64");

    folder.put("weights.bin", &resealed(WEIGHTS, |body| put(body, 12, 600)));
    folder.refuses("the network was tried on 600 images, here are 597");
}

#[test]
fn a_missing_file_is_named_in_one_line_with_what_to_do() {
    let folder = Folder::new("missing");
    folder.refuses("weights.bin: cannot be read");
    folder.put("weights.bin", WEIGHTS);
    folder.refuses("images.bin: cannot be read");
    folder.refuses("--data DIR");
    folder.put("images.bin", WEIGHTS);
    folder.refuses("images.bin: holds the weights instead; restore");
}

/// Parses a file and forgets what it held.
type Parse = fn(&[u8]) -> Result<(), String>;

fn both() -> [(&'static [u8], Parse); 2] {
    [
        (WEIGHTS, |file| Weights::parse(file).map(drop)),
        (IMAGES, |file| Images::parse(file).map(drop)),
    ]
}

#[track_caller]
fn assert_says<T>(parsed: Result<T, String>, answer: &str) {
    let reason = parsed.err().expect("refused");
    assert!(
        reason.contains(answer),
        "{reason:?} does not say {answer:?}"
    );
}

/// `file` with a change, and the checksum that goes with it.
fn resealed(file: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut body = file[..file.len() - 4].to_vec();
    change(&mut body);
    sealed(body)
}

fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let checksum = crc32(&body);
    body.extend(checksum.to_le_bytes());
    body
}

fn put(body: &mut [u8], at: usize, number: u32) {
    body[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// A `weights.bin` of layers of these inputs and outputs, all weights zero.
fn network(shapes: &[(u32, u32)]) -> Vec<u8> {
    let mut body = b"GCDIGW01".to_vec();
    for number in [shapes.len() as u32, 597, 583] {
        body.extend(number.to_le_bytes());
    }
    for &(inputs, outputs) in shapes {
        body.extend(inputs.to_le_bytes());
        body.extend(outputs.to_le_bytes());
        body.resize(body.len() + (4 * (inputs + 1) * outputs) as usize, 0);
    }
    sealed(body)
}

/// A folder for one test, gone at its end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("digits-{test}"));
        let _ = std::fs::remove_dir_all(&path); // left by a run that was killed
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn put(&self, name: &str, content: &[u8]) {
        std::fs::write(self.0.join(name), content).unwrap();
    }

    #[track_caller]
    fn refuses(&self, answer: &str) {
        let line = load(&self.0).unwrap_err().to_string();
        assert!(line.contains(answer), "{line:?} does not say {answer:?}");
        assert!(!line.contains('\n'), "{line:?} is one line");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
