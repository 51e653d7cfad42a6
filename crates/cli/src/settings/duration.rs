//! Durations as people write them: `500ms`, `5s`, `2m`, `1h`.

use std::str::FromStr;
use std::time::Duration;

use meshlock_cluster::time::Span;
use serde::Deserialize;

/// A duration that was parsed from a number and a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct HumanDuration(Duration);

/// The error for a text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not a length of time; give a number and ms, s, m or h, such as '500ms' or '5s'")]
pub(crate) struct ParseDurationError {
    given: String,
}

impl HumanDuration {
    /// The longest duration that is accepted: anything longer is taken for a typing mistake.
    const MAX: Duration = Duration::from_hours(24 * 365);

    pub(crate) fn duration(self) -> Duration {
        self.0
    }

    pub(crate) fn span(self) -> Span {
        Span::from_micros(u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX))
    }
}

impl FromStr for HumanDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        let bad = || ParseDurationError { given: text.chars().take(40).collect() };
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, unit) = text.split_at(digits);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let seconds = match unit {
            "ms" => number / 1000.0,
            "s" => number,
            "m" => number * 60.0,
            "h" => number * 3600.0,
            _ => return Err(bad()),
        };
        let length = Duration::try_from_secs_f64(seconds).map_err(|_| bad())?;
        if length > Self::MAX { Err(bad()) } else { Ok(HumanDuration(length)) }
    }
}

impl TryFrom<String> for HumanDuration {
    type Error = ParseDurationError;
    fn try_from(text: String) -> Result<Self, ParseDurationError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_with_their_units_and_nothing_else_is() {
        for (text, millis) in
            [("500ms", 500), ("5s", 5000), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(
                text.parse::<HumanDuration>().unwrap().duration(),
                Duration::from_millis(millis),
                "{text}"
            );
        }
        for text in
            ["", "5", "s", "5 s", "-1s", "5d", "1e3s", ".s", "1..2s", "99999999999999999999h", "NaNs", "infs"]
        {
            let error = text.parse::<HumanDuration>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is not a length of time; give")), "{error}");
        }
    }
}
