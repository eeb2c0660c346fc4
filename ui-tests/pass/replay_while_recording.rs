// What should be in the graph is issued as commands, by the function that both captures share.

use graph_capture::{Buffer, Commands, Error, Host};

fn clear(commands: &Commands, scores: &Buffer<f32>) -> Result<(), Error> {
    commands.fill(scores, 0.0)
}

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut clear_scores, ()) = stream.capture(|commands| clear(commands, &scores))?;

    let (stream, mut classify, ()) = stream.capture(|commands| {
        clear(commands, &scores)?;
        commands.write(&scores, &[3.0, 4.0])
    })?;
    classify.replay(&stream)?;
    assert_eq!(stream.read(&scores)?, [3.0, 4.0]);
    clear_scores.replay(&stream)?;
    assert_eq!(stream.read(&scores)?, [0.0, 0.0]);
    Ok(())
}
