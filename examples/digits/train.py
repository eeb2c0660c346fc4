#!/usr/bin/env python3
"""Trains the small digit classifier whose forward pass the `digits` example runs.

The script splits the data, trains a multilayer perceptron 64 -> 64 -> 32 -> 10
(ReLU between the layers, softmax cross-entropy, Adam, plain numpy) and writes
`weights.bin` and `images.bin` next to itself. README.md describes both files.
It is run by hand; neither the build nor the tests need Python.

Data
    "Optical Recognition of Handwritten Digits", the test set as scikit-learn
    ships it (`sklearn.datasets.load_digits`): 1,797 images of 8x8 pixels, each
    pixel a whole number 0..16.
    E. Alpaydin and C. Kaynak, UCI Machine Learning Repository,
    https://doi.org/10.24432/C50P49
    Licence: CC BY 4.0, https://creativecommons.org/licenses/by/4.0/

To run
    pip install numpy scikit-learn
    python train.py

Reproducibility
    Split, initial weights and order of the batches all come from SEED, and
    training runs for a fixed number of epochs that does not depend on the
    held-out images. The same machine and versions give the same bytes; another
    BLAS may round differently and give slightly different weights, so the
    checks below are made anew on every run.

    The committed files were made with Python 3.11.7, numpy 2.4.6 and
    scikit-learn 1.9.1.

The script fails, and writes nothing, if the accuracy on the held-out images is
below 97 % or if any held-out image has its two largest outputs closer than
1e-3. The second check makes the count of right answers stored in `weights.bin`
independent of the order in which a reader sums its float32 products.
"""

import pathlib
import platform
import struct
import sys
import zlib

import numpy as np
import sklearn
from sklearn.datasets import load_digits

SEED = 1
TRAIN_IMAGES = 1200
SIZES = (64, 64, 32, 10)
EPOCHS = 60
BATCH = 32
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-4
MIN_ACCURACY = 0.97
MIN_MARGIN = 1e-3

WEIGHTS_MAGIC = b"GCDIGW01"
IMAGES_MAGIC = b"GCDIGI01"


def load():
    """Pixels as uint8 (n, 64) and labels as uint8 (n,), checked for range."""
    digits = load_digits()
    pixels = digits.data.astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    if pixels.shape != (1797, 64) or not np.array_equal(pixels, digits.data):
        sys.exit("the data set is not 1,797 images of 64 whole-numbered pixels")
    if pixels.max() > 16 or labels.max() > 9:
        sys.exit("a pixel or a label is out of range")
    return pixels, labels


def scaled(pixels, dtype):
    """Pixels 0..16 as network inputs 0..1 (exact in any float type)."""
    return pixels.astype(dtype) / dtype(16)


def forward(layers, x):
    """The inputs of every layer, followed by the outputs of the last one."""
    steps = [x]
    for number, (weights, bias) in enumerate(layers, start=1):
        x = x @ weights + bias
        if number < len(layers):
            x = np.maximum(x, 0)
        steps.append(x)
    return steps


def gradients(layers, x, labels):
    """Gradients of the mean cross-entropy, weights and bias of each layer."""
    steps = forward(layers, x)
    logits = steps[-1]
    delta = np.exp(logits - logits.max(axis=1, keepdims=True))
    delta /= delta.sum(axis=1, keepdims=True)
    delta[np.arange(len(labels)), labels] -= 1
    delta /= len(labels)
    found = []
    for number in reversed(range(len(layers))):
        inputs = steps[number]
        weights = layers[number][0]
        found.append((inputs.T @ delta + WEIGHT_DECAY * weights, delta.sum(axis=0)))
        # Inputs of every layer but the first are ReLU outputs: zero means cut off.
        delta = (delta @ weights.T) * (inputs > 0)
    return found[::-1]


def train(rng, x, labels):
    """Float64 weights after EPOCHS epochs of Adam, its rate falling to zero."""
    layers = [
        [rng.normal(0.0, np.sqrt(2.0 / inputs), (inputs, outputs)), np.zeros(outputs)]
        for inputs, outputs in zip(SIZES, SIZES[1:])
    ]
    first = [[np.zeros_like(p) for p in layer] for layer in layers]
    second = [[np.zeros_like(p) for p in layer] for layer in layers]
    total = EPOCHS * -(-len(x) // BATCH)
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(x), BATCH):
            batch = order[start : start + BATCH]
            rate = LEARNING_RATE * (1 - step / total)
            step += 1
            for layer, m, v, grads in zip(
                layers, first, second, gradients(layers, x[batch], labels[batch])
            ):
                for i, grad in enumerate(grads):
                    m[i] = 0.9 * m[i] + 0.1 * grad
                    v[i] = 0.999 * v[i] + 0.001 * grad * grad
                    m_hat = m[i] / (1 - 0.9**step)
                    v_hat = v[i] / (1 - 0.999**step)
                    layer[i] -= rate * m_hat / (np.sqrt(v_hat) + 1e-8)
    return layers


def with_checksum(body):
    return body + struct.pack("<I", zlib.crc32(body))


def weights_file(layers, images, right):
    parts = [WEIGHTS_MAGIC, struct.pack("<III", len(layers), images, right)]
    for weights, bias in layers:
        parts.append(struct.pack("<II", *weights.shape))
        parts.append(weights.astype("<f4").tobytes(order="C"))
        parts.append(bias.astype("<f4").tobytes())
    return with_checksum(b"".join(parts))


def images_file(pixels, labels):
    count, per_image = pixels.shape
    header = IMAGES_MAGIC + struct.pack("<II", count, per_image)
    return with_checksum(header + pixels.tobytes(order="C") + labels.tobytes())


def main():
    pixels, labels = load()
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(pixels))
    training, held_out = order[:TRAIN_IMAGES], order[TRAIN_IMAGES:]

    trained = train(rng, scaled(pixels[training], np.float64), labels[training])
    layers = [[p.astype(np.float32) for p in layer] for layer in trained]

    test_pixels, test_labels = pixels[held_out], labels[held_out]
    logits = forward(layers, scaled(test_pixels, np.float32))[-1]
    assert logits.dtype == np.float32
    # argmax takes the first of equal maxima.
    right = int((logits.argmax(axis=1) == test_labels).sum())
    accuracy = right / len(held_out)
    top = np.sort(logits, axis=1)
    margin = float((top[:, -1] - top[:, -2]).min())

    print(
        f"python {platform.python_version()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}"
    )
    print(f"split: {len(training)} to train on, {len(held_out)} held out, seed {SEED}")
    print(f"accuracy on the held-out images: {right}/{len(held_out)} = {accuracy:.4f}")
    print(f"smallest margin between the two largest outputs: {margin:.6f}")

    if accuracy < MIN_ACCURACY:
        sys.exit(f"accuracy is below {MIN_ACCURACY}: nothing written, try another SEED")
    if not margin >= MIN_MARGIN:
        sys.exit(f"margin is below {MIN_MARGIN}: nothing written, try another SEED")

    here = pathlib.Path(__file__).resolve().parent
    for name, data in (
        ("weights.bin", weights_file(layers, len(held_out), right)),
        ("images.bin", images_file(test_pixels, test_labels)),
    ):
        (here / name).write_bytes(data)
        print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    main()
