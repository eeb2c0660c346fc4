//! Errors and handles as they print.

use super::*;

#[test]
fn a_refused_transition_goes_through_the_question_mark() {
    fn ours(stream: Stream<NoCapture>) -> Result<(), Error> {
        drop(stream.prepare()?.begin()?);
        Ok(())
    }
    fn boxed(stream: Stream<NoCapture>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        drop(stream.prepare()?.begin()?);
        Ok(())
    }
    assert!(matches!(ours(two_buffers().0), Err(Error::NoWarmUp { .. })));
    assert!(boxed(two_buffers().0).is_err());
}

#[test]
fn a_refused_transition_prints_its_error_and_hides_its_stream() {
    let (stream, ..) = two_buffers();
    let refused = stream.prepare().unwrap().begin().unwrap_err();
    assert!(
        refused.to_string().starts_with("begin: no command ran"),
        "{refused}"
    );
    assert!(format!("{refused:?}").contains("NoWarmUp"), "{refused:?}");
    assert!(std::error::Error::source(&refused).is_none());
    assert!(matches!(refused.into_error(), Error::NoWarmUp { .. }));
}

#[test]
fn handles_say_what_they_are() {
    let Bench {
        device, stream, x, ..
    } = bench::<Host>();
    assert_eq!(format!("{stream:?}"), "Stream<NoCapture>");
    assert_eq!(format!("{x:?}"), "Buffer<f32>(2)");
    assert_eq!(
        format!("{device:?}"),
        "Host(CaptureStatus { any_active: false, any_recording: false })"
    );
    let (_stream, graph, ()) = stream.capture(|c| c.fill(&x, 1.0)).unwrap();
    assert!(
        format!("{graph:?}").starts_with("Graph { commands: 1"),
        "{graph:?}"
    );
    assert_eq!(PhaseName::Window.to_string(), "Recording");
}
