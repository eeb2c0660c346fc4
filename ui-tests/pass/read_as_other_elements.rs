// The bytes are reinterpreted on the host, where the program says so.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0_f32, 2.0])?;

    let result: Vec<f32> = stream.read(&scores)?;
    let bits: &[u32] = bytemuck::cast_slice(&result);
    assert_eq!(bits, [1.0_f32.to_bits(), 2.0_f32.to_bits()]);
    Ok(())
}
