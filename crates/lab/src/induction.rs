//! Counterexamples to induction, as `meshlock prove --counterexamples FILE` writes them: a state of a proof's model, a step, and the clause
//! that does not hold after it. docs/prove.md describes the file.
//!
//! Such a state begins no run, so it is drawn by itself. Whoever made the file may have written anything into it: it is read into types, and
//! what is too large or names a site that is not there is refused.

use serde::{Deserialize, Serialize};

/// The largest number of counterexamples in a file.
const MAX_COUNTEREXAMPLES: usize = 1000;
/// The largest number of sites in one: a circle shows no more.
const MAX_SITES: usize = 16;
/// The largest number of facts, and of messages, in a state.
const MAX_FACTS: usize = 3000;
/// The largest number of names and values in a list.
const MAX_LIST: usize = 64;
/// The largest number of characters in a name or sentence.
const MAX_TEXT: usize = 2000;
/// The largest file, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Why a file with counterexamples cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InductionError {
    #[error("this is not the format of `meshlock prove --counterexamples FILE`: {0}")]
    Unreadable(String),
    #[error("there is no counterexample in it: every question was proved, or has no small one")]
    Empty,
    #[error("counterexample {number} has more than {limit} {what}")]
    TooMany { number: usize, what: &'static str, limit: usize },
    #[error("more than {limit} {what}")]
    TooLarge { what: &'static str, limit: usize },
    #[error("counterexample {number} has a name or sentence of more than {MAX_TEXT} characters")]
    LongText { number: usize },
    #[error("counterexample {number} names a site twice")]
    TwiceNamed { number: usize },
    #[error(
        "a message of counterexample {number} comes from or goes to '{site}', which is none of its sites"
    )]
    UnknownSite { number: usize, site: String },
    #[error("counterexample {number} has a step without a state after it, or the other way round")]
    HalfStep { number: usize },
}

/// A whole file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct InductionFile {
    counterexamples: Vec<InductionCase>,
}

/// One counterexample.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct InductionCase {
    model: String,
    /// What is wrong with the model on purpose.
    wrong: Option<String>,
    erratum: Option<String>,
    sites: Vec<String>,
    clause: CaseClause,
    before: CaseState,
    step: Option<CaseStep>,
    after: Option<CaseState>,
}

/// The clause that is broken.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct CaseClause {
    name: String,
    why: String,
    /// Variables, and what they stand for where it does not hold.
    fails_for: Vec<[String; 2]>,
}

/// The action that breaks it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct CaseStep {
    action: String,
    rule: String,
    parameters: Vec<[String; 2]>,
}

/// What holds before or after the step.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct CaseState {
    messages: Vec<CaseMessage>,
    facts: Vec<CaseFact>,
}

/// A message on its way.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct CaseMessage {
    kind: String,
    from: Option<String>,
    to: String,
    carries: Vec<String>,
}

/// Something that holds.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct CaseFact {
    symbol: String,
    of: Vec<String>,
    value: Option<String>,
}

/// Whether a file is meant to be one of counterexamples: lines of traces have other names first.
pub(crate) fn is_induction(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix('{');
    inside.is_some_and(|inside| inside.trim_start().starts_with("\"counterexamples\""))
}

/// Reads a file, and checks all that drawing it relies on.
pub(crate) fn read(text: &str) -> Result<InductionFile, InductionError> {
    if text.len() > MAX_BYTES {
        return Err(InductionError::TooLarge { what: "bytes", limit: MAX_BYTES });
    }
    let file: InductionFile =
        serde_json::from_str(text).map_err(|error| InductionError::Unreadable(error.to_string()))?;
    if file.counterexamples.is_empty() {
        return Err(InductionError::Empty);
    }
    if file.counterexamples.len() > MAX_COUNTEREXAMPLES {
        return Err(InductionError::TooLarge { what: "counterexamples", limit: MAX_COUNTEREXAMPLES });
    }
    for (at, case) in file.counterexamples.iter().enumerate() {
        case.check(at + 1)?;
    }
    Ok(file)
}

impl InductionCase {
    /// `number` is its place in the file, from 1.
    fn check(&self, number: usize) -> Result<(), InductionError> {
        let at_most = |count: usize, limit: usize, what: &'static str| {
            if count > limit { Err(InductionError::TooMany { number, what, limit }) } else { Ok(()) }
        };
        at_most(self.sites.len(), MAX_SITES, "sites")?;
        at_most(self.clause.fails_for.len(), MAX_LIST, "elements for which its clause fails")?;
        at_most(
            self.step.as_ref().map_or(0, |step| step.parameters.len()),
            MAX_LIST,
            "parameters of its step",
        )?;
        for state in self.states() {
            at_most(state.messages.len(), MAX_FACTS, "messages")?;
            at_most(state.facts.len(), MAX_FACTS, "facts")?;
            let carried = state.messages.iter().map(|message| &message.carries);
            for list in carried.chain(state.facts.iter().map(|fact| &fact.of)) {
                at_most(list.len(), MAX_LIST, "arguments of a fact")?;
            }
        }
        if self.step.is_some() != self.after.is_some() {
            return Err(InductionError::HalfStep { number });
        }
        if (1..self.sites.len()).any(|at| self.sites[..at].contains(&self.sites[at])) {
            return Err(InductionError::TwiceNamed { number });
        }
        if self.texts().any(|text| text.chars().count() > MAX_TEXT) {
            return Err(InductionError::LongText { number });
        }
        let messages = self.states().flat_map(|state| &state.messages);
        let mut ends = messages.flat_map(|message| message.from.iter().chain([&message.to]));
        match ends.find(|end| !self.sites.contains(end)) {
            Some(site) => Err(InductionError::UnknownSite { number, site: site.clone() }),
            None => Ok(()),
        }
    }

    fn states(&self) -> impl Iterator<Item = &CaseState> {
        std::iter::once(&self.before).chain(&self.after)
    }

    /// Every name and sentence.
    fn texts(&self) -> impl Iterator<Item = &String> {
        let step = self.step.iter();
        let of_step = step
            .flat_map(|step| [&step.action, &step.rule].into_iter().chain(step.parameters.as_flattened()));
        let messages = self.states().flat_map(|state| &state.messages);
        let of_messages = messages.flat_map(|message| {
            [&message.kind, &message.to].into_iter().chain(&message.from).chain(&message.carries)
        });
        let facts = self.states().flat_map(|state| &state.facts);
        let of_facts =
            facts.flat_map(|fact| std::iter::once(&fact.symbol).chain(&fact.of).chain(&fact.value));
        let own = [&self.model, &self.clause.name, &self.clause.why].into_iter();
        let own = own.chain(&self.wrong).chain(&self.erratum).chain(&self.sites);
        own.chain(self.clause.fails_for.as_flattened()).chain(of_step).chain(of_messages).chain(of_facts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A file with one counterexample.
    fn file() -> Value {
        let message = json!({ "kind": "REQUEST", "from": "site0", "to": "site1", "carries": ["time1"] });
        let waiting = json!({ "symbol": "waiting", "of": ["site0"], "value": null });
        json!({ "counterexamples": [{
            "model": "raymond", "wrong": null, "erratum": null, "sites": ["site0", "site1"],
            "clause": { "name": "exclusion", "why": "Two sites are never inside.", "fails_for": [["i", "site0"]] },
            "before": { "messages": [message], "facts": [waiting] },
            "step": { "action": "enter", "rule": "It enters.", "parameters": [["i", "site0"]] },
            "after": { "messages": [], "facts": [] },
        }] })
    }

    /// What is said of the file with `value` at `pointer`.
    fn refused(pointer: &str, value: Value) -> InductionError {
        let mut file = file();
        *file.pointer_mut(pointer).unwrap() = value;
        read(&file.to_string()).unwrap_err()
    }

    #[test]
    fn a_file_is_told_from_a_trace_and_read_as_it_is() {
        assert!(is_induction(&file().to_string()) && is_induction(&format!("\n{:#}", file())));
        assert!(
            !is_induction(r#"{"time":1.5,"kind":"send","site":0}"#)
                && !is_induction("")
                && !is_induction("[")
        );
        assert_eq!(serde_json::to_value(read(&file().to_string()).unwrap()).unwrap(), file());
    }

    #[test]
    fn what_is_too_large_or_leads_nowhere_is_refused_with_the_reason() {
        let case = "/counterexamples/0";
        let at = |rest: &str| format!("{case}{rest}");
        let sites: Vec<String> = (0..=MAX_SITES).map(|site| format!("site{site}")).collect();
        let many = |value: Value, count: usize| Value::Array(vec![value; count + 1]);
        let fact = json!({ "symbol": "x", "of": [] });
        let too_many = |what, limit| InductionError::TooMany { number: 1, what, limit };
        let unknown = |site: &str| InductionError::UnknownSite { number: 1, site: site.to_owned() };
        for (pointer, value, error) in [
            (at("/sites"), json!(sites), too_many("sites", MAX_SITES)),
            (at("/sites"), json!(["site0", "site1", "site0"]), InductionError::TwiceNamed { number: 1 }),
            (at("/before/facts"), many(fact, MAX_FACTS), too_many("facts", MAX_FACTS)),
            (at("/before/facts/0/of"), many("x".into(), MAX_LIST), too_many("arguments of a fact", MAX_LIST)),
            (at("/before/messages/0/to"), "site9".into(), unknown("site9")),
            (at("/before/messages/0/from"), "x".into(), unknown("x")),
            (at("/clause/why"), "x".repeat(MAX_TEXT + 1).into(), InductionError::LongText { number: 1 }),
            (
                at("/before/facts/0/value"),
                "ü".repeat(MAX_TEXT + 1).into(),
                InductionError::LongText { number: 1 },
            ),
            (at("/step"), Value::Null, InductionError::HalfStep { number: 1 }),
            (at("/after"), Value::Null, InductionError::HalfStep { number: 1 }),
            ("/counterexamples".into(), json!([]), InductionError::Empty),
            (
                "/counterexamples".into(),
                many(file()["counterexamples"][0].clone(), MAX_COUNTEREXAMPLES),
                InductionError::TooLarge { what: "counterexamples", limit: MAX_COUNTEREXAMPLES },
            ),
        ] {
            assert_eq!(refused(&pointer, value), error, "{pointer}");
        }
        assert!(matches!(refused(&at("/before"), json!(3)), InductionError::Unreadable(_)));
        let deep = format!("{{\"counterexamples\":{}", "[".repeat(100_000));
        assert!(matches!(read(&deep), Err(InductionError::Unreadable(_))));
        let long = format!("{}{}", file(), " ".repeat(MAX_BYTES));
        assert_eq!(read(&long).unwrap_err(), InductionError::TooLarge { what: "bytes", limit: MAX_BYTES });
    }
}
