//! Import: a trace of the simulator, the checker or a real cluster, prepared for drawing; or counterexamples of a proof.

use std::collections::{BTreeMap, VecDeque};

use meshlock_sim::trace::{TraceKind, Whose, Written};
use serde_json::{Value, json};

use crate::columns::Columns;
use crate::induction::{self, InductionError};

/// The largest number of lines that is drawn.
pub(crate) const MAX_LINES: usize = 400_000;
/// The largest number of sites that is drawn.
const MAX_SITES: usize = 1000;

/// Why a trace cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A line is malformed.
    #[error("line {line} is not of the trace format: {why}")]
    Unreadable {
        /// The number of the line, from 1.
        line: usize,
        why: String,
    },
    /// The trace is empty.
    #[error(
        "there is no line in it; `meshlock sim ALGO --trace FILE` or `meshlock trace --record FILE` writes one"
    )]
    Empty,
    #[error("more than {MAX_LINES} lines or {MAX_SITES} sites")]
    TooLarge,
    /// It is a file of counterexamples.
    #[error(transparent)]
    Counterexamples(#[from] InductionError),
}

/// A line with its place in the drawing.
#[derive(Clone, Debug)]
pub(crate) struct PlacedLine {
    pub(crate) line: Written,
    /// The row of its site.
    pub(crate) site: usize,
    /// The row of the other end.
    pub(crate) peer: Option<usize>,
    /// The message's number in the drawing: the same where it is sent and received.
    pub(crate) number: Option<usize>,
}

/// The identity of a message between two sites: its number and view, or its printed form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Numbered(Option<u32>, u64),
    Printed(String),
}

/// Assigns the lines of a trace, one after the other, to places in the drawing. A send and its receive are
/// matched by their number, where the trace has numbers; otherwise by the same message between the same sites, in order.
#[derive(Debug, Default)]
pub(crate) struct TraceLayout {
    sites: Vec<Whose>,
    rows: BTreeMap<Whose, usize>,
    on_their_way: BTreeMap<(usize, usize, Mark), VecDeque<usize>>,
    sent: usize,
    /// The receives of messages before this one are not expected any more.
    forgotten: usize,
}

impl TraceLayout {
    /// The sites so far, in the order of their rows.
    pub(crate) fn sites(&self) -> &[Whose] {
        &self.sites
    }

    /// The place of the next line.
    pub(crate) fn place(&mut self, line: Written) -> PlacedLine {
        // A view names all of its members, so that they are drawn in its order from the start.
        for member in line.members.iter().flatten() {
            self.row(&Whose::Name(member.clone()));
        }
        let site = self.row(&line.site);
        let peer = line.peer.as_ref().map(|peer| self.row(peer));
        let number = peer.zip(line.message.as_ref()).and_then(|(peer, message)| {
            let mark = match line.number {
                Some(number) => Mark::Numbered(line.epoch, number),
                None => Mark::Printed(message.clone()),
            };
            if line.kind == TraceKind::Send {
                self.on_their_way.entry((site, peer, mark)).or_default().push_back(self.sent);
                self.sent += 1;
                return Some(self.sent - 1);
            }
            let key = (peer, site, mark);
            let waiting = self.on_their_way.get_mut(&key)?;
            let number = waiting.pop_front();
            if waiting.is_empty() {
                self.on_their_way.remove(&key);
            }
            number
        });
        PlacedLine { line, site, peer, number }
    }

    /// Messages before this one are not drawn any more: forgets them.
    pub(crate) fn forget_before(&mut self, number: usize) {
        // Not for every line: it examines all that are expected.
        if number >= self.forgotten + 10_000 {
            self.forgotten = number;
            self.on_their_way.retain(|_, waiting| {
                waiting.retain(|sent| *sent >= number);
                !waiting.is_empty()
            });
        }
    }

    fn row(&mut self, site: &Whose) -> usize {
        if let Some(&row) = self.rows.get(site) {
            return row;
        }
        let row = match site {
            // Sites that are numbered have their number's row.
            Whose::Number(number) => {
                while self.sites.len() <= *number && self.sites.len() <= MAX_SITES {
                    self.sites.push(Whose::Number(self.sites.len()));
                }
                *number
            }
            Whose::Name(_) => {
                self.sites.push(site.clone());
                self.sites.len() - 1
            }
        };
        self.rows.insert(site.clone(), row);
        row
    }
}

/// The unit of times in the drawing: a simulation's own unit, or milliseconds since the first line of a cluster's trace.
pub(crate) fn shown_time(line: &Written, origin: f64) -> f64 {
    match line.site {
        Whose::Number(_) => line.time,
        Whose::Name(_) => ((line.time - origin) / 1000.0).max(0.0),
    }
}

/// Imports a trace, of which each line is a step, or a file of counterexamples.
pub fn import(text: &str) -> Result<Value, ImportError> {
    if induction::is_induction(text) {
        return Ok(json!(induction::read(text)?));
    }
    let (mut columns, mut reader) = (Columns::default(), TraceLayout::default());
    let mut origin = None;
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let unreadable = |why: String| ImportError::Unreadable { line: at + 1, why };
        let line: Written = serde_json::from_str(line).map_err(|error| unreadable(error.to_string()))?;
        let origin = *origin.get_or_insert(line.time);
        let row = reader.place(line);
        if columns.len() >= MAX_LINES || reader.sites().len() > MAX_SITES {
            return Err(ImportError::TooLarge);
        }
        columns.push_row(columns.len(), &row, shown_time(&row.line, origin));
    }
    if columns.is_empty() {
        return Err(ImportError::Empty);
    }
    let steps = columns.len();
    let names: Vec<String> = reader.sites().iter().map(Whose::to_string).collect();
    let unit = unit(reader.sites());
    Ok(json!({
        "spec": "imported trace", "sites": names.len(), "names": names, "unit": unit, "permits": 1, "steps": steps,
        "end": "nothing", "lines": columns,
    }))
}

/// The name of the unit of times.
pub(crate) fn unit(sites: &[Whose]) -> &'static str {
    if matches!(sites.first(), Some(Whose::Name(_))) { "ms" } else { "T" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::play;
    use crate::setup::{Parts, RunSetup};

    #[test]
    fn what_a_run_exports_can_be_imported_with_both_ends_of_every_message() {
        let setup = RunSetup::read(&Parts::from([("algo".to_owned(), "raymond".to_owned())])).unwrap();
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
    fn a_cluster_is_drawn_by_its_names_and_numbers_with_the_states_that_it_tells() {
        let text = r#"
            {"time":5000,"kind":"view","site":"b","lock":"","epoch":2,"members":["a","b"]}
            {"time":6000,"kind":"send","site":"b","peer":"a","lock":"jobs","message":"Token","number":7,"epoch":2}
            {"time":6500,"kind":"send","site":"b","peer":"a","lock":"jobs","message":"Token","number":8,"epoch":2}
            {"time":7000,"kind":"receive","site":"a","peer":"b","lock":"jobs","message":"Token","number":8,"epoch":2,"state":"X { y: 1 }"}
        "#;
        let drawn = import(text).unwrap();
        assert_eq!((&drawn["names"], &drawn["unit"]), (&json!(["a", "b"]), &json!("ms")));
        let lines = &drawn["lines"];
        assert_eq!((&lines["site"], &lines["number"]), (&json!([1, 1, 1, 0]), &json!([-1, 0, 1, 1])));
        assert_eq!(lines["time"], json!([0.0, 1.0, 1.5, 2.0]));
        assert_eq!((&lines["state"], &lines["states"]), (&json!([-1, -1, -1, 0]), &json!(["X { y: 1 }"])));
        assert_eq!(lines["facts"]["0"], json!({ "epoch": 2, "members": ["a", "b"] }));
    }

    /// Reference: docs/compatibility.md. Version 0.1.0 wrote `seat` for `machine`, and fences as numbers.
    #[test]
    fn a_line_that_an_older_version_wrote_is_read() {
        let large = ((1_i64 << 53) + 1).to_string();
        for (name, fence) in
            [("machine", large.clone()), ("seat", large.clone()), ("machine", format!("\"{large}\""))]
        {
            let line = format!(
                r#"{{"time":1,"kind":"enter","site":"a","lock":"jobs","epoch":2,"{name}":3,"fence":{fence}}}"#
            );
            let drawn = import(&line).unwrap();
            assert_eq!(drawn["lines"]["facts"]["0"], json!({ "fence": large, "machine": 3 }), "{line}");
        }
    }

    #[test]
    fn what_is_no_trace_is_answered_with_its_line() {
        assert_eq!(import(""), Err(ImportError::Empty));
        let error = import("\n{\"time\":1}\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2 is not of the trace format: missing field"), "{error}");
        let far = r#"{"time":1,"kind":"enter","site":4000000000,"lock":"x"}"#;
        assert_eq!(import(far), Err(ImportError::TooLarge));
    }
}
