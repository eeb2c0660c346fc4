//! Kernels from WGSL: what their shaders say is what a launch must fit.

use super::*;

#[track_caller]
fn assert_bad_kernel(source: &str, entry: &'static str, parts: &[&str]) {
    let refused = Kernel::new(&noop(), source, entry).unwrap_err();
    assert!(matches!(refused, Error::BadKernel { .. }), "{refused:?}");
    for part in parts {
        assert!(
            refused.to_string().contains(part),
            "{part:?} is missing: {refused}"
        );
    }
}

#[track_caller]
fn assert_bad_launch(result: Result<(), Error>, parts: &[&str]) {
    let refused = result.unwrap_err();
    assert!(matches!(refused, Error::BadLaunch { .. }), "{refused:?}");
    for part in parts.iter().chain(&["kernels.rs"]) {
        assert!(
            refused.to_string().contains(part),
            "{part:?} is missing: {refused}"
        );
    }
}

#[test]
fn a_shader_that_does_not_compile_is_refused_with_its_place() {
    assert_bad_kernel(
        "@compute @workgroup_size(1)\nfn main() { let x = ; }",
        "main",
        &["kernel `main`", "does not compile", "wgsl:2"],
    );
    assert_bad_kernel(
        "@compute @workgroup_size(1) fn main() { let x: f32 = 1u; }",
        "main",
        &["does not compile"],
    );
}

#[test]
fn an_entry_point_that_is_not_there_is_refused_with_those_that_are() {
    assert_bad_kernel(KERNELS, "sub", &["`sub`", "`add`, `accumulate`, `touch`"]);
    assert_bad_kernel("", "main", &["the source has none"]);
}

#[test]
fn what_a_kernel_cannot_have_is_refused_by_name() {
    assert_bad_kernel(
        "@group(0) @binding(0) var image: texture_2d<f32>;
         @compute @workgroup_size(1) fn main() { let x = textureLoad(image, vec2(0, 0), 0); }",
        "main",
        &["`image` is no buffer", "dispatch_raw"],
    );
    assert_bad_kernel(
        "@group(0) @binding(0) var<uniform> a: f32;
         @group(0) @binding(1) var<uniform> b: f32;
         @group(0) @binding(2) var<storage, read_write> y: f32;
         @compute @workgroup_size(1) fn main() { y = a + b; }",
        "main",
        &["two uniforms, `a` and `b`", "one struct"],
    );
    assert_bad_kernel(
        "override size: u32 = 64;
         @compute @workgroup_size(size) fn main() {}",
        "main",
        &["workgroup size is an override"],
    );
}

#[test]
fn a_group_above_the_limit_of_the_device_is_refused_by_name() {
    for group in ["4", "3000", "4294967295u"] {
        let source = format!(
            "@group({group}) @binding(0) var<storage, read_write> y: array<f32>;
             @compute @workgroup_size(1) fn main() {{ y[0] = 1.0; }}"
        );
        let group = group.trim_end_matches('u');
        assert_bad_kernel(
            &source,
            "main",
            &[&format!("group {group}"), "has 4 groups"],
        );
    }
}

#[test]
fn a_uniform_above_the_limit_of_the_device_is_refused_by_name() {
    assert_bad_kernel(
        "@group(0) @binding(0) var<uniform> u: array<vec4<f32>, 4097>;
         @group(0) @binding(1) var<storage, read_write> y: array<f32>;
         @compute @workgroup_size(1) fn main() { y[0] = u[0].x; }",
        "main",
        &["uniform `u` has 65552 bytes", "binds 65536 at most"],
    );
}

#[test]
fn a_kernel_of_the_same_source_is_the_same() {
    let device = noop();
    let stream = device.stream().unwrap();
    let y = stream.alloc::<f32>(4).unwrap();
    // L9 takes it for the same, also where each run makes it anew.
    let (_, graph, ()) = stream
        .capture(|c| {
            let touch = Kernel::new(c.device(), KERNELS, "accumulate")?;
            c.dispatch(
                &touch,
                1,
                (read(&y.slice(..1)?), read_write(&y.slice(1..)?)),
            )
        })
        .unwrap();
    assert_eq!(graph.len(), 1);
    let add = Kernel::new(&device, KERNELS, "add").unwrap();
    assert_eq!((add.name(), add.workgroup_size()), ("add", [64, 1, 1]));
    assert_eq!([add.cover(0), add.cover(64), add.cover(65)], [0, 1, 2]);
}

#[test]
fn another_kernel_of_that_name_diverges() {
    let device = noop();
    let kernels = [ADD, KERNELS].map(|source| Kernel::new(&device, source, "add").unwrap());
    let stream = device.stream().unwrap();
    let (x, y) = (stream.alloc(2).unwrap(), stream.alloc::<f32>(2).unwrap());
    let mut run = 0;
    let refused = stream.capture(|c| {
        run += 1;
        let (x, y): (&Buffer<f32, Wgpu>, _) = (&x, &y);
        c.dispatch_with(&kernels[run - 1], 1, (read(x), write(y)), &1.0f32)
    });
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused.error(), Error::Diverged { .. }),
        "{refused:?}"
    );
}

#[test]
fn a_launch_that_does_not_fit_its_shader_is_refused_by_name() {
    let device = noop();
    let stream = device.stream().unwrap();
    let add = Kernel::new(&device, ADD, "add").unwrap();
    let accumulate = Kernel::new(&device, KERNELS, "accumulate").unwrap();
    let x = stream.alloc::<f32>(4).unwrap();
    let y = stream.alloc::<f32>(4).unwrap();
    let doubles = stream.alloc::<f64>(4).unwrap();
    let threes = stream.alloc::<[u8; 3]>(4).unwrap();

    // What was refused has marked its outputs (M11).
    let fresh = || {
        stream.fill(&x, 0.0).unwrap();
        stream.fill(&y, 0.0).unwrap();
    };
    fresh();
    assert_bad_launch(
        stream.dispatch_with(&add, 1, write(&y), &1.0f32),
        &["launch `add`", "given 1 buffers", "has 2: x, y"],
    );
    fresh();
    assert_bad_launch(
        stream.dispatch_with(&add, 1, (read(&doubles), write(&y)), &1.0f32),
        &["`x` take 4 bytes", "elements of 8"],
    );
    fresh();
    assert_bad_launch(
        stream.dispatch_with(&add, 1, (read(&threes), write(&y)), &1.0f32),
        &["`x` take 4 bytes", "elements of 3"],
    );
    fresh();
    assert_bad_launch(
        stream.dispatch_with(&add, 1, (read(&x), read(&y)), &1.0f32),
        &["writes `y`, which was declared as `read`"],
    );
    fresh();
    assert_bad_launch(
        stream.dispatch_with(&add, 1, (write(&x), write(&y)), &1.0f32),
        &["reads `x`, which was declared as `write`"],
    );
    fresh();
    assert_bad_launch(
        stream.dispatch(&accumulate, 1, (read(&x), write(&y))),
        &["reads and writes `y`, which was declared as `write`"],
    );
    fresh();
    assert_bad_launch(
        stream.dispatch(&add, 1, (read(&x), write(&y))),
        &["uniform `by` has 4 bytes, and the value 0"],
    );
    fresh();
    assert_bad_launch(
        stream.dispatch_with(&add, 1, (read(&x), write(&y)), &1.0f64),
        &["uniform `by` has 4 bytes, and the value 8"],
    );
    fresh();
    assert_bad_launch(
        stream.dispatch_with(&accumulate, 1, (read(&x), read_write(&y)), &1.0f32),
        &["no uniform"],
    );
    fresh();
    stream
        .dispatch_with(&add, 1, (read(&x), write(&y)), &1.0f32)
        .unwrap();
}

#[test]
fn an_element_of_several_numbers_fits_in_parts() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> points: array<vec4<f32>>;
        @compute @workgroup_size(1) fn main() { points[0] = vec4(0.0); }";
    let device = noop();
    let stream = device.stream().unwrap();
    let kernel = Kernel::new(&device, source, "main").unwrap();
    let run = |result: Result<(), Error>| result.map_err(|error| error.to_string());
    let parts = stream.alloc::<f32>(8).unwrap();
    run(stream.dispatch(&kernel, 1, write(&parts))).unwrap();
    let whole = stream.alloc::<[f32; 4]>(2).unwrap();
    run(stream.dispatch(&kernel, 1, write(&whole))).unwrap();
    let bytes = stream.alloc::<u8>(32).unwrap();
    run(stream.dispatch(&kernel, 1, write(&bytes))).unwrap();
    // What is so in Rust, and never in WGSL.
    let threes = stream.alloc::<[f32; 3]>(4).unwrap();
    assert_bad_launch(
        stream.dispatch(&kernel, 1, write(&threes)),
        &["`points` take 16 bytes", "elements of 12"],
    );
    let seven = stream.alloc::<f32>(7).unwrap();
    assert_bad_launch(
        stream.dispatch(&kernel, 1, write(&seven)),
        &["has 28 bytes in elements of 4"],
    );
}

#[test]
fn a_buffer_shorter_than_the_shader_takes_is_refused_by_name() {
    let source = "
        struct Head { count: u32, items: array<vec2<f32>> }
        @group(0) @binding(0) var<storage, read_write> head: Head;
        @group(0) @binding(1) var<storage, read_write> table: array<u32, 8>;
        @compute @workgroup_size(1) fn main() { head.count = 1u; table[7] = 1u; }";
    let device = noop();
    let stream = device.stream().unwrap();
    let kernel = Kernel::new(&device, source, "main").unwrap();
    let (head, table) = (
        stream.alloc::<u32>(4).unwrap(),
        stream.alloc::<u32>(8).unwrap(),
    );
    stream
        .dispatch(&kernel, 1, (write(&head), write(&table)))
        .unwrap();
    let short = (head.slice(..3).unwrap(), table.slice(..7).unwrap());
    assert_bad_launch(
        stream.dispatch(&kernel, 1, (write(&short.0), write(&table))),
        &["`head` takes at least 16 bytes"],
    );
    assert_bad_launch(
        stream.dispatch(&kernel, 1, (write(&head), write(&short.1))),
        &["`table` takes at least 32 bytes"],
    );
}

#[test]
fn counts_of_workgroups_that_run_nothing_or_too_much_are_refused_by_name() {
    let device = noop();
    let stream = device.stream().unwrap();
    let kernel = Kernel::new(&device, KERNELS, "touch").unwrap();
    let (x, y) = (
        stream.alloc::<f32>(4).unwrap(),
        stream.alloc::<f32>(4).unwrap(),
    );
    let run = |groups: [u32; 3]| stream.dispatch(&kernel, groups, (read(&x), write(&y)));
    assert_bad_launch(run([0, 1, 1]), &["[0, 1, 1] workgroups run nothing"]);
    assert_bad_launch(run([1, 1, 65536]), &["more than the 65535"]);
    run([65535, 1, 1]).unwrap();
    let counts = stream.upload(&[1u32, 1]).unwrap();
    assert_bad_launch(
        stream.dispatch(&kernel, &counts, (read(&x), write(&y))),
        &["counts are three numbers, and there are 2"],
    );
}

#[test]
fn a_binding_above_the_limit_of_the_device_is_refused_by_name() {
    let (device, queue) = wgpu::Device::noop(&wgpu::DeviceDescriptor {
        required_limits: wgpu::Limits {
            max_storage_buffer_binding_size: 1 << 16,
            ..Default::default()
        },
        ..Default::default()
    });
    let device = Wgpu::adopt(device, queue);
    let stream = device.stream().unwrap();
    let kernel = Kernel::new(&device, KERNELS, "touch").unwrap();
    let x = stream.alloc::<f32>((1 << 14) + 1).unwrap();
    let y = stream.alloc::<f32>(4).unwrap();
    assert_bad_launch(
        stream.dispatch(&kernel, 1, (read(&x), write(&y))),
        &["would be 65540 bytes", "binds 65536 at most"],
    );
    let slice = x.slice(..1 << 14).unwrap();
    stream
        .dispatch(&kernel, 1, (read(&slice), write(&y)))
        .unwrap();
}

/// M10.
#[test]
fn a_kernel_of_another_device_is_refused_by_name() {
    let (here, there) = (noop(), noop());
    let stream = here.stream().unwrap();
    let kernel = Kernel::new(&there, KERNELS, "touch").unwrap();
    let (x, y) = (
        stream.alloc::<f32>(4).unwrap(),
        stream.alloc::<f32>(4).unwrap(),
    );
    let refused = stream
        .dispatch(&kernel, 1, (read(&x), write(&y)))
        .unwrap_err();
    assert!(
        matches!(refused, Error::OtherDevice { what: "kernel", .. }),
        "{refused:?}"
    );
}

/// L8: what is refused in a window dooms it.
#[test]
fn a_refused_launch_dooms_its_recording() {
    let device = noop();
    let stream = device.stream().unwrap();
    let add = Kernel::new(&device, ADD, "add").unwrap();
    let (x, y) = (
        stream.alloc::<f32>(4).unwrap(),
        stream.alloc::<f32>(4).unwrap(),
    );
    let stream = stream.prepare().unwrap();
    stream.fill(&x, 1.0).unwrap();
    stream
        .dispatch_with(&add, 1, (read(&x), write(&y)), &1.0f32)
        .unwrap();
    let stream = stream.begin().unwrap();
    stream.fill(&x, 1.0).unwrap();
    let _ = stream.dispatch_with(&add, 0, (read(&x), write(&y)), &1.0f32);
    let refused = stream.end().unwrap_err();
    let Error::Diverged { index: 1, .. } = refused.error() else {
        panic!("{refused:?}");
    };
}

on_an_adapter! {
    /// One launch reads a part of a buffer and writes another, whatever the shader says of its bindings.
    fn parts_of_one_buffer_are_bound_side_by_side() {
        for source in [ADD, KERNELS] {
            let device = Wgpu::device();
            let stream = device.stream().unwrap();
            let add = Kernel::new(&device, source, "add").unwrap();
            let all = stream.upload(&(0u16..512).map(f32::from).collect::<Vec<_>>()).unwrap();
            for (from, to) in [(0..64, 256..320), (3..67, 101..165)] {
                let (x, y) = (all.slice(from.clone()).unwrap(), all.slice(to.clone()).unwrap());
                let (stream_, mut graph, ()) = device.stream().unwrap()
                    .capture(|c| c.dispatch_with(&add, 1, (read(&x), write(&y)), &0.5f32))
                    .unwrap();
                graph.replay(&stream_).unwrap();
                let all = stream.read(&all).unwrap();
                let sums: Vec<_> = all[from].iter().map(|x| x + 0.5).collect();
                assert_eq!(all[to], sums);
            }
        }
    }

    /// Parts of a buffer that a kernel leaves unwritten keep what they held, also where the buffer was
    /// not bound as it is.
    fn what_a_kernel_leaves_unwritten_stays() {
        let source = "
            @group(0) @binding(0) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(1) fn second() { y[1] = 9.0; }";
        let device = Wgpu::device();
        let stream = device.stream().unwrap();
        let kernel = Kernel::new(&device, source, "second").unwrap();
        let all = stream.upload(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        stream.dispatch(&kernel, 1, write(&all.slice(1..).unwrap())).unwrap();
        assert_eq!(stream.read(&all).unwrap(), [1.0, 2.0, 9.0, 4.0]);
    }

    /// The counts of an indirect launch are read at every replay.
    fn an_indirect_launch_reads_its_counts_anew_at_every_replay() {
        let source = "
            @group(1) @binding(3) var<storage, read_write> y: array<u32>;
            @compute @workgroup_size(1)
            fn mark(@builtin(workgroup_id) id: vec3<u32>) { y[id.x] = 1u; }";
        let device = Wgpu::device();
        let stream = device.stream().unwrap();
        let mark = Kernel::new(&device, source, "mark").unwrap();
        let counts = stream.upload(&[9u32, 1, 1, 1]).unwrap().slice(1..).unwrap();
        let y = stream.alloc::<u32>(4).unwrap();
        let (stream, mut graph, ()) = stream
            .capture(|c| {
                c.fill(&y, 0)?;
                c.dispatch(&mark, &counts, write(&y))
            })
            .unwrap();
        let node = graph.nodes().nth(1).unwrap();
        assert_eq!(node.to_string(), "launch `mark` writes 0, reads 1");
        for count in [3u32, 1, 0, 4] {
            stream.write(&counts, &[count, 1, 1]).unwrap();
            graph.replay(&stream).unwrap();
            let marked: u32 = stream.read(&y).unwrap().iter().sum();
            assert_eq!(marked, count);
        }
        // Above the limit nothing runs: wgpu looks at the counts too.
        stream.write(&counts, &[65_536, 1, 1]).unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(stream.read(&y).unwrap(), [0; 4]);
    }

    /// Counts may lie in a buffer that the launch reads, or of which it writes another part.
    fn counts_may_be_a_part_of_a_buffer_that_is_bound() {
        let source = "
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @group(0) @binding(1) var<storage, read_write> y: array<u32>;
            @compute @workgroup_size(1)
            fn take(@builtin(workgroup_id) id: vec3<u32>) { y[id.x] = x[id.x]; }";
        let device = Wgpu::device();
        let stream = device.stream().unwrap();
        let take = Kernel::new(&device, source, "take").unwrap();
        let all = stream.alloc::<u32>(128).unwrap();
        let (counts, part) = (all.slice(..3).unwrap(), all.slice(64..68).unwrap());
        let (out, four) = (stream.alloc::<u32>(4).unwrap(), stream.upload(&[5u32, 6, 7, 8]).unwrap());
        let (stream, mut graph, ()) = stream
            .capture(|c| {
                c.fill(&part, 9)?;
                c.dispatch(&take, &counts, (read(&four), write(&part)))?;
                c.dispatch(&take, &counts, (read(&all), write(&out)))
            })
            .unwrap();
        for (count, taken) in [(2, [5, 6, 9, 9]), (3, [5, 6, 7, 9])] {
            stream.write(&counts, &[count, 1, 1]).unwrap();
            graph.replay(&stream).unwrap();
            assert_eq!(stream.read(&part).unwrap(), taken);
            assert_eq!(stream.read(&counts).unwrap(), [count, 1, 1]);
            assert_eq!(stream.read(&out).unwrap()[..2], [count, 1]);
        }
    }

    /// Values of launches are the graph's, each its own.
    fn each_recorded_launch_keeps_its_value() {
        let Bench { stream, x, y, .. } = bench::<Wgpu>();
        let (stream, mut graph, ()) = stream
            .capture(|c| {
                for by in [1.0, 10.0, 1.0, 100.0] {
                    Wgpu::add(c, &x, &y, by)?;
                    c.copy(&y, &x)?;
                }
                Ok(())
            })
            .unwrap();
        for start in [0.0, 5.0] {
            stream.fill(&x, start).unwrap();
            graph.replay(&stream).unwrap();
            assert_eq!(stream.read(&y).unwrap(), [start + 112.0; 2]);
        }
    }
}
