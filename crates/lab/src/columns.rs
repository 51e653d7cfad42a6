//! The lines of a run in columns, with each distinct message once, so that 100,000 lines are small enough to send to the page.

use std::collections::BTreeMap;
use std::fmt::Display;

use meshlock_protocol::Message;
use meshlock_sim::trace::{TraceKind, Written};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::import::PlacedLine;
use crate::playback::PlaybackLine;

/// The value for a line without a peer or a message.
const NONE: i64 = -1;

/// The lines, column by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Columns {
    /// The step of each line.
    pub(crate) step: Vec<u32>,
    /// Its time, in units.
    pub(crate) time: Vec<f64>,
    /// Its kind, as an index into `kinds`.
    pub(crate) what: Vec<usize>,
    pub(crate) site: Vec<u32>,
    /// The other end, or −1.
    pub(crate) peer: Vec<i64>,
    /// The message's number, or −1: the same where it is sent, received and lost.
    pub(crate) number: Vec<i64>,
    /// The message, as an index into `texts`, or −1.
    pub(crate) text: Vec<i64>,
    /// The names of the kinds.
    pub(crate) kinds: Vec<&'static str>,
    /// The messages: of a run as their papers write them, of a trace as it has them.
    pub(crate) texts: Vec<String>,
    /// The kind of each of `texts`.
    pub(crate) text_kinds: Vec<String>,
    /// The lock of each line as an index into `locks`; empty if all lines are about one lock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) lock: Vec<i64>,
    /// The names of the locks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) locks: Vec<String>,
    /// The site's state after each line as an index into `states`, or −1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) state: Vec<i64>,
    /// States as sites print them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) states: Vec<String>,
    /// Other facts of some lines: clients, grants, views.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) facts: BTreeMap<usize, Value>,
    #[serde(skip)]
    known: BTreeMap<String, i64>,
    #[serde(skip)]
    known_locks: BTreeMap<String, i64>,
    #[serde(skip)]
    known_states: BTreeMap<String, i64>,
}

impl Columns {
    /// Adds a line of a run.
    pub(crate) fn push<M: Message>(&mut self, line: &PlaybackLine<M>) {
        let message = line.message.as_ref();
        let text = message.map(|(_, message)| self.text(message, message.kind()));
        if let Some(choice) = line.choice {
            self.facts.insert(self.len(), json!({ "choice": choice }));
        }
        self.push_parts(
            line.step,
            line.time.as_units(),
            line.what.name(),
            (line.site.index(), line.peer.map(|peer| peer.index())),
            message.map(|&(number, _)| number).zip(text),
        );
    }

    /// Adds a line of a trace that was written elsewhere.
    pub(crate) fn push_row(&mut self, step: usize, row: &PlacedLine, time: f64) {
        let PlacedLine { line, site, peer, number } = row;
        let at = self.len();
        // In a run this kind means a lost message; in a trace it means lost lines.
        let what = if line.kind == TraceKind::Lost { "gap" } else { line.kind.name() };
        let text = line.message.as_ref().map(|message| self.text_of(message, &kind_of(message)));
        let message = number.zip(text);
        self.push_parts(step, time, what, (*site, *peer), message);
        if let (None, Some(text)) = (message, text) {
            self.text[at] = text;
        }
        self.lock.push(interned(&line.lock, &mut self.locks, &mut self.known_locks));
        let state = line.state.as_ref();
        self.state
            .push(state.map_or(NONE, |state| interned(state, &mut self.states, &mut self.known_states)));
        let facts = facts(line);
        if !facts.is_empty() {
            self.facts.insert(at, Value::Object(facts));
        }
    }

    /// Adds a line: its site and the other end; the number and text of its message.
    pub(crate) fn push_parts(
        &mut self,
        step: usize,
        time: f64,
        what: &'static str,
        (site, peer): (usize, Option<usize>),
        message: Option<(usize, i64)>,
    ) {
        let known = self.kinds.iter().position(|kind| *kind == what);
        let what = known.unwrap_or_else(|| {
            self.kinds.push(what);
            self.kinds.len() - 1
        });
        self.step.push(u32::try_from(step).unwrap_or(u32::MAX));
        self.time.push(time);
        self.what.push(what);
        self.site.push(u32::try_from(site).unwrap_or(u32::MAX));
        self.peer.push(index(peer));
        self.number.push(index(message.map(|(number, _)| number)));
        self.text.push(message.map_or(NONE, |(_, text)| text));
    }

    /// The index of a message's text, as its paper writes it.
    pub(crate) fn text(&mut self, message: impl Display, kind: &str) -> i64 {
        self.text_of(&message.to_string(), kind)
    }

    /// The index of a text that is printed already.
    pub(crate) fn text_of(&mut self, printed: &str, kind: &str) -> i64 {
        if let Some(&known) = self.known.get(printed) {
            return known;
        }
        let at = index(Some(self.texts.len()));
        self.texts.push(printed.to_owned());
        self.text_kinds.push(kind.to_owned());
        self.known.insert(printed.to_owned(), at);
        at
    }

    /// The number of lines.
    pub(crate) fn len(&self) -> usize {
        self.step.len()
    }

    /// Whether there are no lines.
    pub(crate) fn is_empty(&self) -> bool {
        self.step.is_empty()
    }
}

/// The facts of a line of a cluster's trace that have no column. The view's number is given where a view begins.
fn facts(line: &Written) -> Map<String, Value> {
    let epoch = line.epoch.filter(|_| line.kind == TraceKind::View);
    let all = [
        ("client", line.client.map(Value::from)),
        ("who", line.who.clone().map(Value::from)),
        // As text: it may have more digits than a JavaScript number.
        ("fence", line.fence.map(|fence| Value::from(fence.to_string()))),
        ("machine", line.machine.map(Value::from)),
        ("epoch", epoch.map(Value::from)),
        ("members", line.members.clone().map(Value::from)),
        ("count", line.count.map(Value::from)),
        ("choice", line.choice.map(|choice| json!(choice))),
    ];
    all.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value))).collect()
}

/// The kind of a message, from its printed form: `Request { clock: 1 }` is a `REQUEST`.
fn kind_of(message: &str) -> String {
    let end = message.find(|c: char| !c.is_alphanumeric()).unwrap_or(message.len());
    message[..end].to_uppercase()
}

/// The index of a text among those that are stored once.
fn interned(text: &str, all: &mut Vec<String>, known: &mut BTreeMap<String, i64>) -> i64 {
    if let Some(&known) = known.get(text) {
        return known;
    }
    let at = index(Some(all.len()));
    all.push(text.to_owned());
    known.insert(text.to_owned(), at);
    at
}

fn index(value: Option<usize>) -> i64 {
    value.and_then(|value| i64::try_from(value).ok()).unwrap_or(NONE)
}
