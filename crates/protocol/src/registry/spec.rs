//! Specs: an algorithm with its options, written as `name:option=value,option=value`.

use std::fmt;

use crate::registry::info::{Info, OptionInfo, Range};
use crate::registry::values::Values;

/// An algorithm chosen by name, with a value for each of its options.
#[derive(Clone, Debug)]
pub struct Spec {
    pub info: &'static Info,
    pub values: Values,
}

/// Why a spec cannot be parsed. The message says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No algorithm has this name.
    #[error("unknown algorithm '{given}'{nearest}; `meshlock algorithms` lists them all")]
    UnknownAlgorithm {
        given: String,
        /// " (did you mean 'x'?)", or nothing.
        nearest: String,
    },
    /// The algorithm has no such option.
    #[error("{algorithm} has no option '{given}'{nearest}; it has: {has}")]
    UnknownOption {
        algorithm: &'static str,
        given: String,
        /// " (did you mean 'x'?)", or nothing.
        nearest: String,
        /// The values of its options.
        has: String,
    },
    /// The option does not take this value.
    #[error("{algorithm}: option {option} cannot be '{given}'; it takes {takes}")]
    BadValue {
        algorithm: &'static str,
        option: &'static str,
        given: String,
        /// What would be right.
        takes: String,
    },
    /// The option was given twice.
    #[error("{algorithm}: option {option} is given twice")]
    Twice { algorithm: &'static str, option: String },
}

impl SpecError {
    pub(crate) fn unknown_option(info: &Info, given: &str) -> Self {
        let names: Vec<&str> = info.options.iter().map(|option| option.name).collect();
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        SpecError::UnknownOption {
            algorithm: info.name,
            given: given.to_owned(),
            nearest: did_you_mean(given, &names),
            has,
        }
    }

    pub(crate) fn bad_value(algorithm: &'static str, option: &OptionInfo, given: &str) -> Self {
        let takes = option.range.to_string();
        SpecError::BadValue { algorithm, option: option.name, given: given.to_owned(), takes }
    }
}

impl Spec {
    /// The algorithm with all its defaults.
    pub fn plain(info: &'static Info) -> Self {
        Spec { info, values: Values::defaults(info) }
    }

    /// The algorithm with these options.
    pub fn of(values: Values) -> Self {
        Spec { info: values.info(), values }
    }

    /// The same, but the host chooses everything that the paper leaves open.
    #[must_use]
    pub fn with_every_choice(mut self) -> Self {
        for option in self.info.options {
            if let Range::Open { any, .. } = option.range {
                self.values.set(option.name, any).expect("it is in the option's range");
            }
        }
        self
    }

    /// Whether an option selects rules that are known to be wrong: a paper's text to the letter, a structure that does not
    /// exclude, a deadlock that is left in. Such a variant is for the checker; no lock should run it.
    pub fn is_for_checker_only(&self) -> bool {
        self.values.given().any(|(option, value)| {
            matches!((option.name, value), ("text", _) | ("force", "yes") | ("deadlock", "plain"))
        })
    }

    /// Parses `name` or `name:option=value,…`; the name must be one of `known`.
    pub fn parse(text: &str, known: &[&'static Info]) -> Result<Self, SpecError> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let Some(info) = known.iter().find(|info| info.name == name) else {
            let names: Vec<&str> = known.iter().map(|info| info.name).collect();
            let nearest = did_you_mean(name, &names);
            return Err(SpecError::UnknownAlgorithm { given: name.to_owned(), nearest });
        };
        let mut spec = Spec::plain(info);
        let mut seen = Vec::new();
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, "yes"));
            spec.values.set(name, value)?;
            if seen.contains(&name) {
                return Err(SpecError::Twice { algorithm: info.name, option: name.to_owned() });
            }
            seen.push(name);
        }
        Ok(spec)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info.name)?;
        for (at, (option, value)) in self.values.given().enumerate() {
            let separator = if at == 0 { ':' } else { ',' };
            match (option.range, value) {
                (Range::Flag, "yes") => write!(f, "{separator}{}", option.name)?,
                _ => write!(f, "{separator}{}={value}", option.name)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::Flag => f.write_str("yes or no"),
            Range::Choice(words) => f.write_str(&words.join(" or ")),
            Range::Open { policies, any } => write!(f, "{} or {any}", policies.join(" or ")),
            Range::Integer { least, most } => write!(f, "a whole number from {least} to {most}"),
            Range::WordsOr { words, notation } => write!(f, "{} or {notation}", words.join(" or ")),
        }
    }
}

/// Returns " (did you mean 'x'?)" for the name that is most like `given`, or nothing if none is like it.
pub fn did_you_mean(given: &str, names: &[&str]) -> String {
    let near = names.iter().map(|name| (strsim::jaro_winkler(given, name), name));
    let best = near.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(likeness, _)| *likeness > 0.7);
    best.map_or_else(String::new, |(_, name)| format!(" (did you mean '{name}'?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Spec, SpecError> {
        text.parse()
    }

    #[test]
    fn a_spec_prints_as_it_is_read_without_its_defaults() {
        for (given, printed) in [
            ("ricart-agrawala", "ricart-agrawala"),
            ("ricart-agrawala:", "ricart-agrawala"),
            ("ricart-agrawala:text=repaired", "ricart-agrawala"),
            ("ricart-agrawala:text=printed", "ricart-agrawala:text=printed"),
        ] {
            assert_eq!(parse(given).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn an_unknown_algorithm_is_answered_with_the_nearest_name() {
        let error = parse("ricard-agrawala").unwrap_err().to_string();
        assert!(error.contains("'ricard-agrawala' (did you mean 'ricart-agrawala'?)"), "{error}");
        let error = parse("zzz").unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn an_unknown_option_is_answered_with_the_options_there_are() {
        let error = parse("ricart-agrawala:txt=printed").unwrap_err().to_string();
        assert_eq!(error, "ricart-agrawala has no option 'txt' (did you mean 'text'?); it has: text, modes");
    }

    #[test]
    fn a_value_out_of_range_is_answered_with_the_range() {
        let error = parse("ricart-agrawala:text=wrong").unwrap_err().to_string();
        assert_eq!(error, "ricart-agrawala: option text cannot be 'wrong'; it takes repaired or printed");
    }

    #[test]
    fn with_every_choice_the_host_decides_what_is_open_and_nothing_else_changes() {
        let printed = |text: &str| parse(text).unwrap().with_every_choice().to_string();
        assert_eq!(
            printed("bulgannawar-vaidya:inform=1"),
            "bulgannawar-vaidya:inform=1,choice=random,informed=any"
        );
        assert_eq!(printed("ricart-agrawala"), "ricart-agrawala");
    }

    #[test]
    fn an_option_given_twice_is_refused() {
        let error = parse("ricart-agrawala:text=printed,text=repaired").unwrap_err().to_string();
        assert_eq!(error, "ricart-agrawala: option text is given twice");
    }
}
