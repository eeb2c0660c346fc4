//! The captured function replays another graph, as if a graph could be recorded into a graph.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut clear_scores, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;

    let (_stream, _graph, ()) = stream.capture(|commands| {
        clear_scores.replay(commands)?;
        commands.write(&scores, &[3.0, 4.0])
    })?;
    Ok(())
}
