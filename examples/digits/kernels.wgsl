// The kernels of the network. Each thread sums in a fixed order.

struct Shape { inputs: u32, outputs: u32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weights: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read_write> predictions: array<u32>;
@group(0) @binding(4) var<uniform> shape: Shape;

// A thread for each output of each image.
@compute @workgroup_size(64)
fn product(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&y) { return; }
    let image = id.x / shape.outputs;
    let output = id.x % shape.outputs;
    var sum = 0.0;
    for (var input = 0u; input < shape.inputs; input++) {
        sum += x[image * shape.inputs + input] * weights[input * shape.outputs + output];
    }
    y[id.x] = sum;
}

@compute @workgroup_size(64)
fn bias(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&y) { y[id.x] += x[id.x % arrayLength(&x)]; }
}

@compute @workgroup_size(64)
fn relu(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&y) { y[id.x] = max(y[id.x], 0.0); }
}

// A thread for each image, over as many logits as `shape` has outputs.
@compute @workgroup_size(64)
fn argmax(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= arrayLength(&predictions) { return; }
    let first = id.x * shape.outputs;
    var largest = 0u;
    for (var digit = 1u; digit < shape.outputs; digit++) {
        if x[first + digit] > x[first + largest] { largest = digit; }
    }
    predictions[id.x] = largest;
}
