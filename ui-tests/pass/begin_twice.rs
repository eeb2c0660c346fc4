// Two windows may be open at once on two streams.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let (image, text) = (device.stream()?, device.stream()?);
    let (pixels, words) = (image.upload(&[0.5])?, text.upload(&[7])?);

    let (image, text) = (image.prepare()?, text.prepare()?);
    image.fill(&pixels, 0.0)?;
    text.fill(&words, 0)?;
    let (image, text) = (image.begin()?, text.begin()?);
    image.fill(&pixels, 0.0)?;
    text.fill(&words, 0)?;
    let ((_, image_graph), (_, text_graph)) = (image.end()?, text.end()?);
    assert_eq!((image_graph.len(), text_graph.len()), (1, 1));
    Ok(())
}
