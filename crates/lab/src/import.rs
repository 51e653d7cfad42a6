//! A trace that the simulator or the checker has written, as the page draws runs.

use std::collections::{BTreeMap, VecDeque};

use meshlock_sim::trace::{Kind, Written};
use serde_json::{Value, json};

use crate::columns::Columns;

/// More lines than this are not drawn.
pub const MOST_LINES: usize = 400_000;
/// More sites than this are not drawn.
const MOST_SITES: usize = 1000;

/// Why a trace cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A line that is not of the format.
    #[error("line {line} is not of the trace format: {why}")]
    Unreadable {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// There is nothing to draw.
    #[error("there is no line in it; `meshlock sim ALGO --trace FILE` writes one")]
    Empty,
    /// There is too much to draw.
    #[error("more than {MOST_LINES} lines or {MOST_SITES} sites")]
    TooLarge,
}

/// The kind of a message from how it prints: `Request { clock: 1 }` is a `REQUEST`.
fn kind_of(message: &str) -> String {
    let end = message.find(|c: char| !c.is_alphanumeric()).unwrap_or(message.len());
    message[..end].to_uppercase()
}

/// Reads a trace. Sends and receives of the same message between the same sites belong together in their order; each line is
/// a step of its own.
pub fn import(text: &str) -> Result<Value, ImportError> {
    let mut columns = Columns::default();
    let (mut sites, mut sent) = (0, 0);
    let mut on_their_way: BTreeMap<(usize, usize, i64), VecDeque<usize>> = BTreeMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let unreadable = |why: String| ImportError::Unreadable { line: at + 1, why };
        let line: Written = serde_json::from_str(line).map_err(|error| unreadable(error.to_string()))?;
        sites = sites.max(line.site + 1).max(line.peer.map_or(0, |peer| peer + 1));
        if columns.len() >= MOST_LINES || sites > MOST_SITES {
            return Err(ImportError::TooLarge);
        }
        let message = match (&line.message, line.peer) {
            (Some(message), Some(peer)) => {
                let text = columns.text_of(message, &kind_of(message));
                let number = if line.kind == Kind::Send {
                    on_their_way.entry((line.site, peer, text)).or_default().push_back(sent);
                    sent += 1;
                    Some(sent - 1)
                } else {
                    on_their_way.get_mut(&(peer, line.site, text)).and_then(VecDeque::pop_front)
                };
                number.map(|number| (number, text))
            }
            _ => None,
        };
        columns.push_parts(columns.len(), line.time, line.kind.name(), (line.site, line.peer), message);
    }
    if columns.is_empty() {
        return Err(ImportError::Empty);
    }
    let steps = columns.len();
    Ok(
        json!({ "spec": "imported trace", "sites": sites, "permits": 1, "steps": steps, "end": "nothing", "lines": columns }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::play;
    use crate::setup::{Parts, Setup};

    #[test]
    fn what_a_run_exports_can_be_imported_with_both_ends_of_every_message() {
        let setup = Setup::read(&Parts::from([("algo".to_owned(), "raymond".to_owned())])).unwrap();
        let run = play(setup).unwrap();
        let mut text = Vec::new();
        run.write_trace(&mut text).unwrap();
        let drawn = import(std::str::from_utf8(&text).unwrap()).unwrap();
        let exported = run.columns();
        let numbered = |numbers: &[i64]| numbers.iter().filter(|&&number| number >= 0).count();
        let numbers: Vec<i64> = drawn["lines"]["number"]
            .as_array()
            .unwrap()
            .iter()
            .map(|number| number.as_i64().unwrap())
            .collect();
        assert_eq!(numbered(&numbers), numbered(&exported.number));
        assert_eq!(drawn["sites"], 4);
    }

    #[test]
    fn what_is_no_trace_is_answered_with_its_line() {
        assert_eq!(import(""), Err(ImportError::Empty));
        let error = import("\n{\"time\":1}\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2 is not of the trace format: missing field"), "{error}");
    }
}
