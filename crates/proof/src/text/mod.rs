//! The language of models, read from text.
//!
//! ```text
//! sort site, time;                       the sorts
//! ordered time;                          those with a total order, written < <= > >=
//! var i, j: site;                        variables; a name has one sort everywhere
//! relation waiting(site);                what changes: relations and functions
//! function clock(site): time;
//! fixed zero: time;                      what does not change: a value, or a `fixed relation`
//! ghost relation ahead(site, site);      what no step depends on, or a `ghost function`
//! sent grant_sent(i, n) from boss to i;  the ends of a message, if they are not the first two arguments
//! define busy(i) = …;                    an abbreviation, replaced where it is used
//! axiom NAME "why": …;                   what every instance satisfies, of what does not change
//! init NAME "why": …;                    what every initial state satisfies
//! action NAME(i, t) "rule" {             a step; all assignments read the state before it
//!     when …;                            its guard
//!     clock(i) := t;                     at one place
//!     missing(i, j) := j != i;           j is no parameter: at every j
//! }
//! receive NAME(a, i, t) "rule" { … }     an action of `a` on a message from `i`
//! then NAME(a, t) "rule" { … }           an action that follows at once
//! invariant NAME "why": …;               a clause of the inductive invariant
//! safety NAME "why": …;                  a clause that the proof is for
//! progress NAME "why": …;                a clause that only theorems and other such clauses rest on
//! theorem NAME "why": …;                 what follows from the clauses
//! ```
//!
//! A step of the code begins with an `action` or a `receive`. It goes on with every `then`, and with every `receive` of what a site has sent
//! to itself, until there is none.
//!
//! A relation whose name ends in `_sent` says that a message is on its way, from its first argument to its second if both are of the sort `site`;
//! otherwise `sent` says who has sent it, if the model knows, and to whom it goes.
//!
//! Predicates are written with `!`, `&`, `|`, `->`, `<->`, `forall i, j. …` and `exists i. …`, from the tightest to the loosest. Free
//! variables of a clause stand for everything of their sort. Values may be `if … then … else …`. `//` begins a comment.

mod formula;
mod items;
mod lexer;
mod routes;

use std::collections::BTreeMap;

use lexer::Lexeme;

use crate::ghost;
use crate::model::{ProofModel, VariableId};

/// An error in the text of a model.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the model: {what}")]
pub struct TextError {
    pub line: usize,
    pub what: String,
}

/// Reads a model.
pub fn parse(text: &str) -> Result<ProofModel, TextError> {
    let lexemes = lexer::split(text)?;
    let mut reader = Reader {
        lexemes,
        at: 0,
        model: ProofModel::default(),
        names: BTreeMap::new(),
        definitions: BTreeMap::new(),
    };
    while reader.peek().is_some() {
        reader.item()?;
    }
    reader.default_routes()?;
    if let Some(what) = ghost::fault(&reader.model) {
        return Err(reader.error(what));
    }
    Ok(reader.model)
}

/// An abbreviation: its parameters, and where its body begins in the text.
#[derive(Clone, Debug)]
struct Definition {
    parameters: Vec<String>,
    body: usize,
}

/// Reads a model's text from left to right.
struct Reader {
    lexemes: Vec<Lexeme>,
    at: usize,
    model: ProofModel,
    /// The variables by name.
    names: BTreeMap<String, VariableId>,
    definitions: BTreeMap<String, Definition>,
}

impl Reader {
    fn peek(&self) -> Option<&str> {
        self.lexemes.get(self.at).map(|lexeme| lexeme.text.as_str())
    }

    fn next(&mut self) -> Result<String, TextError> {
        let Some(lexeme) = self.lexemes.get(self.at) else {
            return Err(self.error("the text ends too early"));
        };
        self.at += 1;
        Ok(lexeme.text.clone())
    }

    /// Takes `wanted` if it comes next.
    fn takes(&mut self, wanted: &str) -> bool {
        let comes = self.peek() == Some(wanted);
        self.at += usize::from(comes);
        comes
    }

    fn expect(&mut self, wanted: &str) -> Result<(), TextError> {
        if self.takes(wanted) {
            return Ok(());
        }
        let found = self.peek().unwrap_or("the end").to_owned();
        Err(self.error(format!("'{wanted}' is expected, and '{found}' found")))
    }

    fn error(&self, what: impl Into<String>) -> TextError {
        let last = self.lexemes.last().map_or(1, |lexeme| lexeme.line);
        TextError { line: self.lexemes.get(self.at).map_or(last, |lexeme| lexeme.line), what: what.into() }
    }
}
