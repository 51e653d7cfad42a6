//! The options of one algorithm with their values in one run.

use crate::Demand;
use crate::registry::info::{Info, OptionInfo, Range, Text};
use crate::registry::spec::SpecError;

/// A value for every option of one algorithm: the given one, or the default.
#[derive(Clone, Debug)]
pub struct Values {
    info: &'static Info,
    /// In the order of the algorithm's options; `None` where the default holds.
    given: Vec<Option<String>>,
}

impl Values {
    /// The defaults of all options of the algorithm `info`.
    pub fn defaults(info: &'static Info) -> Self {
        Values { info, given: vec![None; info.options.len()] }
    }

    /// The algorithm whose options these are.
    pub fn info(&self) -> &'static Info {
        self.info
    }

    /// Sets the option `name` to `value`, if the algorithm has it and its range allows it. A value equal to the
    /// default counts as not given.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        let Some(at) = self.info.options.iter().position(|option| option.name == name) else {
            return Err(SpecError::unknown_option(self.info, name));
        };
        let option = &self.info.options[at];
        let value =
            normalised(option, value).ok_or_else(|| SpecError::bad_value(self.info.name, option, value))?;
        self.given[at] = (value != option.default).then_some(value);
        Ok(())
    }

    /// The value of the option `name`, which the algorithm must have declared.
    pub fn get(&self, name: &str) -> &str {
        let at = self.position(name);
        self.given[at].as_deref().unwrap_or(self.info.options[at].default)
    }

    /// Whether the flag `name` is on.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == "yes"
    }

    /// Whether a process may make this demand with these options.
    pub fn know(&self, demand: Demand) -> bool {
        self.info.demands.contain(demand, self)
    }

    /// The integer given for the option `name`.
    pub fn integer(&self, name: &str) -> usize {
        self.get(name).parse().expect("integers are checked when they are set")
    }

    /// The text that the option `text` selects.
    pub fn text(&self) -> Text {
        if self.get("text") == "printed" { Text::Printed } else { Text::Repaired }
    }

    /// The options that differ from their defaults, in order.
    pub fn given(&self) -> impl Iterator<Item = (&'static OptionInfo, &str)> {
        self.info
            .options
            .iter()
            .zip(&self.given)
            .filter_map(|(option, value)| Some((option, value.as_deref()?)))
    }

    fn position(&self, name: &str) -> usize {
        let found = self.info.options.iter().position(|option| option.name == name);
        found.unwrap_or_else(|| panic!("the algorithm declares no option {name}"))
    }
}

/// Returns the value as it is stored, or `None` if the option's range does not allow it.
fn normalised(option: &OptionInfo, value: &str) -> Option<String> {
    let allowed = match option.range {
        Range::Flag => matches!(value, "yes" | "no"),
        Range::Choice(words) => words.contains(&value),
        Range::Open { policies, any } => value == any || policies.contains(&value),
        Range::Integer { least, most } => {
            let number: usize = value.parse().ok()?;
            return (least..=most).contains(&number).then(|| number.to_string());
        }
        Range::WordsOr { words, .. } => {
            words.contains(&value) || value.contains(|c: char| c.is_ascii_digit())
        }
    };
    allowed.then(|| value.to_owned())
}
