//! Entries and parameters of a PTX module.

use std::collections::HashMap;

/// The sizes of the parameters of each entry, or `None` where the text is no PTX.
pub(crate) fn entries(text: &str) -> Option<HashMap<String, Vec<usize>>> {
    let text = without_comments(text);
    if !(text.contains(".version") && text.contains(".target")) {
        return None;
    }
    let mut entries = HashMap::new();
    for entry in text.split(".entry").skip(1) {
        let (name, rest) = entry.split_once('(')?;
        let (parameters, _) = rest.split_once(')')?;
        let sizes = parameters
            .split(',')
            .map(str::trim)
            .filter(|parameter| !parameter.is_empty())
            .map(size_of_parameter)
            .collect::<Option<_>>()?;
        entries.insert(name.trim().to_owned(), sizes);
    }
    Some(entries)
}

fn without_comments(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// Of `.param .u64 x`, and of `.param .align 8 .b8 x[24]`.
fn size_of_parameter(parameter: &str) -> Option<usize> {
    let mut words = parameter.split_whitespace();
    if words.next()? != ".param" {
        return None;
    }
    let kind = words
        .find(|word| word.starts_with('.') && word.ends_with(|last: char| last.is_ascii_digit()))?;
    let bits: usize = kind
        .trim_start_matches(|first: char| !first.is_ascii_digit())
        .parse()
        .ok()?;
    let count = match parameter.split_once('[') {
        Some((_, count)) => count.trim_end_matches(']').trim().parse().ok()?,
        None => 1,
    };
    Some(bits / 8 * count)
}
