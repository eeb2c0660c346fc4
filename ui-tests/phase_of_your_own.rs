//! A fourth phase is made up, in which streams could do what the others forbid.

use graph_capture::{Backend, Commands, Phase, PhaseName};

enum Paused {}

impl Phase for Paused {
    type Data<B: Backend> = Box<Commands<B>>;

    const NAME: PhaseName = PhaseName::Idle;

    fn commands<B: Backend>(data: &Self::Data<B>) -> &Commands<B> {
        data
    }
}

fn main() {}
