//! Bytes at any offset and of any number, against a copy on the host.

use std::ops::Range;

use super::*;

const LEN: usize = 61;

fn bytes(from: u8) -> Vec<u8> {
    (0..LEN)
        .map(|place| from.wrapping_add(place as u8))
        .collect()
}

/// Ranges that begin and end at every place in a word.
fn ranges() -> impl Iterator<Item = Range<usize>> {
    (0..6)
        .flat_map(|start| [1, 2, 3, 4, 5, 8, 31].map(|len| start..start + len))
        .chain([LEN - 3..LEN, LEN - 1..LEN, 0..LEN])
}

on_an_adapter! {
    /// The queue keeps what is written until something is submitted.
    fn writes_alone_do_not_pile_up() {
        let device = Wgpu::device();
        let stream = device.stream().unwrap();
        let bytes = vec![1u8; 4 << 20];
        let x = stream.upload(&bytes).unwrap();
        for _ in 0..32 {
            stream.write(&x, &bytes).unwrap();
        }
        // What was submitted is done then, and the rest is as it was.
        device.raw_device().poll(wgpu::PollType::wait_indefinitely()).unwrap();
        let Some(report) = device.raw_device().generate_allocator_report() else {
            println!("skipped: wgpu counts no memory on this backend");
            return;
        };
        let held = report.total_allocated_bytes;
        assert!(held < 40 << 20, "{held}");
    }

    /// Written eagerly, and by a replay; and the bytes around stay.
    fn any_bytes_are_written_and_read() {
        let Bench { stream, .. } = bench::<Wgpu>();
        let mut stream = stream;
        for range in ranges() {
            let (buffer, mut model) = (stream.upload(&bytes(0)).unwrap(), bytes(0));
            let part = buffer.slice(range.clone()).unwrap();
            let data = bytes(100)[range.clone()].to_vec();
            stream.write(&part, &data).unwrap();
            model[range.clone()].copy_from_slice(&data);
            assert_eq!(stream.read(&buffer).unwrap(), model, "{range:?}");
            assert_eq!(stream.read(&part).unwrap(), data, "{range:?}");

            let (again, mut graph, ()) = stream.capture(|c| c.write(&part, &data)).unwrap();
            stream = again;
            stream.fill(&buffer, 0).unwrap();
            graph.replay(&stream).unwrap();
            let mut model = vec![0; LEN];
            model[range.clone()].copy_from_slice(&data);
            assert_eq!(stream.read(&buffer).unwrap(), model, "replayed {range:?}");
        }
    }

    /// Between two buffers, and within one.
    fn any_bytes_are_copied() {
        let Bench { stream, .. } = bench::<Wgpu>();
        for range in ranges().filter(|range| range.len() < 20) {
            for start in [32, 33, 35, LEN - range.len()] {
                let to = start..start + range.len();
                let (from, into) = (stream.upload(&bytes(0)).unwrap(), stream.upload(&bytes(100)).unwrap());
                let part = |buffer: &Buffer<u8, Wgpu>, range: &Range<usize>| {
                    buffer.slice(range.clone()).unwrap()
                };
                stream.copy(&part(&from, &range), &part(&into, &to)).unwrap();
                let mut model = bytes(100);
                model[to.clone()].copy_from_slice(&bytes(0)[range.clone()]);
                assert_eq!(stream.read(&into).unwrap(), model, "{range:?} to {to:?}");

                if range.end <= to.start {
                    stream.copy(&part(&from, &range), &part(&from, &to)).unwrap();
                    let mut model = bytes(0);
                    model.copy_within(range.clone(), to.start);
                    assert_eq!(stream.read(&from).unwrap(), model, "within: {range:?} to {to:?}");
                }
            }
        }
    }

    /// Patterns of any length, also of zeroes.
    fn any_pattern_is_repeated_over_any_part() {
        fn check<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(stream: &Commands, read: impl Fn(&Buffer<T, Wgpu>) -> Vec<T>, other: T, value: T) {
            let buffer = stream.upload(&[other; 23]).unwrap();
            for range in [0..23, 1..2, 3..22, 20..23] {
                stream.fill(&buffer, other).unwrap();
                stream.fill(&buffer.slice(range.clone()).unwrap(), value).unwrap();
                let model: Vec<_> = (0..23).map(|at| if range.contains(&at) { value } else { other }).collect();
                assert_eq!(read(&buffer), model, "{range:?}");
            }
        }
        let Bench { stream, .. } = bench::<Wgpu>();
        check(&stream, |b| stream.read(b).unwrap(), 7u8, 9);
        check(&stream, |b| stream.read(b).unwrap(), 7u8, 0);
        check(&stream, |b| stream.read(b).unwrap(), [7u8; 3], [1, 2, 3]);
        check(&stream, |b| stream.read(b).unwrap(), 7u16, 0x0102);
        check(&stream, |b| stream.read(b).unwrap(), 7u32, 0x0102_0304);
        check(&stream, |b| stream.read(b).unwrap(), [7u16; 5], [1, 2, 3, 4, 5]);
        check(&stream, |b| stream.read(b).unwrap(), 7u128, u128::MAX - 5);
    }

    /// Where a device binds little at once, the shader that moves bytes is launched for each part.
    fn long_fills_and_odd_copies_are_whole_where_little_is_bound_at_once() {
        let (device, queue) = lab::raw_device_with(wgpu::Limits {
            max_storage_buffer_binding_size: 1 << 14,
            ..Default::default()
        });
        let stream = Wgpu::adopt(device, queue).stream().unwrap();
        let len = 300_001;
        let threes = stream.alloc::<[u8; 3]>(len / 3).unwrap();
        stream.fill(&threes, [1, 2, 3]).unwrap();
        assert!(stream.read(&threes).unwrap().iter().all(|three| *three == [1, 2, 3]));

        let model: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let (from, to) = (stream.upload(&model).unwrap(), stream.alloc::<u8>(len).unwrap());
        let odd = from.slice(1..).unwrap();
        let (stream, mut graph, ()) = stream
            .capture(|c| c.copy(&odd, &to.slice(..len - 1)?))
            .unwrap();
        stream.fill(&to, 9).unwrap();
        graph.replay(&stream).unwrap();
        let copied = stream.read(&to).unwrap();
        assert_eq!(copied[..len - 1], model[1..]);
        assert_eq!(copied[len - 1], 9);
    }
}
