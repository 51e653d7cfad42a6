//! docs/PROVED.md as it was recorded: where it is stale about one model, and what it says of that model written anew.

use std::fmt;
use std::ops::Range;

use crate::document;
use crate::examine::Examined;
use crate::{models, unnoticed};

/// The first line of the document that is not what is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleLine {
    /// Counted from 1.
    pub number: usize,
    /// The line as it was recorded, if there is one.
    pub recorded: Option<String>,
    /// The line as it should be, if there should be one.
    pub found: Option<String>,
}

impl fmt::Display for StaleLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StaleLine { number, recorded, found } = self;
        let shown = |line: &Option<String>| line.clone().unwrap_or_else(|| "(no line)".to_owned());
        write!(f, "line {number}:\n  recorded: {}\n  found:    {}", shown(recorded), shown(found))
    }
}

/// Where `document` is stale about a model, if it is.
pub fn stale_line(document: &str, examined: &Examined) -> Option<StaleLine> {
    let compared = places(document, examined.covered.name).into_iter().zip(document::parts(examined));
    compared.into_iter().find_map(|(place, part)| {
        let mut recorded = document[place.clone()].lines();
        let mut found = part.trim_start().lines();
        let first = document[..place.start].lines().count() + 1;
        (first..).find_map(|number| match (recorded.next(), found.next()) {
            (None, None) => Some(None),
            (one, other) if one == other => None,
            (one, other) => Some(Some(StaleLine {
                number,
                recorded: one.map(str::to_owned),
                found: other.map(str::to_owned),
            })),
        })?
    })
}

/// `document` with what it says of a model, and of what is not noticed or not proved, written anew. A model that is new to it comes after the
/// one that is before it in the list of models; nothing if that is unknown, too.
pub fn renewed(document: &str, examined: &Examined) -> Option<String> {
    let name = examined.covered.name;
    let before = models::all().take_while(|covered| covered.name != name).last();
    let after = before.map(|covered| places(document, covered.name));
    let mut text = document.to_owned();
    // The section first, so that the row's place stays where it is.
    for (number, part) in document::parts(examined).iter().enumerate().rev() {
        let place = places(document, name)[number].clone();
        if !place.is_empty() {
            text.replace_range(place, part.trim_start());
            continue;
        }
        let after = after.as_ref().map(|places| &places[number]).filter(|place| !place.is_empty())?;
        text.insert_str(after.end, part);
    }
    let rest = text.find(unnoticed::HEADING)?;
    text.replace_range(rest.., &document::rest());
    Some(text)
}

/// `document` without what it says of single models: of each only the name remains, where its row and its section are. Nothing in it
/// depends on what was found about a model.
pub fn frame(document: &str) -> String {
    let mut text = document.to_owned();
    for name in models::all().map(|covered| covered.name) {
        for place in places(&text, name).into_iter().rev().filter(|place| !place.is_empty()) {
            text.replace_range(place, &format!("({name})\n"));
        }
    }
    text
}

/// Where a document has a model's row of the first table, and its section; at the end, and empty, if it does not.
fn places(document: &str, name: &str) -> [Range<usize>; 2] {
    let begins = |wanted: &str| document.find(wanted).map_or(document.len(), |at| at + 1);
    let row = begins(&format!("\n| [`{name}`](#{name})"));
    let row_end = document[row..].find('\n').map_or(document.len(), |end| row + end + 1);
    let section = begins(&format!("\n## {name}\n"));
    let next = ["\n# ", "\n## "].into_iter().filter_map(|next| document[section..].find(next)).min();
    [row..row_end, section..next.map_or(document.len(), |end| section + end)]
}
