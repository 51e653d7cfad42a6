//! Lengths of time as people write them: `500ms`, `5s`, `2m`, `1h`.

use std::str::FromStr;
use std::time::Duration;

use meshlock_cluster::time::Span;
use serde::Deserialize;

/// A length of time that was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Lasting(Duration);

/// Why a text is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not a length of time; give a number and ms, s, m or h, such as '500ms' or '5s'")]
pub(crate) struct LastingError {
    given: String,
}

impl Lasting {
    /// The longest that is taken: what is longer is a mistake of writing.
    const MOST: Duration = Duration::from_hours(24 * 365);

    pub(crate) fn duration(self) -> Duration {
        self.0
    }

    pub(crate) fn span(self) -> Span {
        Span::from_micros(u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX))
    }
}

impl FromStr for Lasting {
    type Err = LastingError;

    fn from_str(text: &str) -> Result<Self, LastingError> {
        let bad = || LastingError { given: text.chars().take(40).collect() };
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
        if length > Self::MOST { Err(bad()) } else { Ok(Lasting(length)) }
    }
}

impl TryFrom<String> for Lasting {
    type Error = LastingError;
    fn try_from(text: String) -> Result<Self, LastingError> {
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
            assert_eq!(text.parse::<Lasting>().unwrap().duration(), Duration::from_millis(millis), "{text}");
        }
        for text in
            ["", "5", "s", "5 s", "-1s", "5d", "1e3s", ".s", "1..2s", "99999999999999999999h", "NaNs", "infs"]
        {
            let error = text.parse::<Lasting>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is not a length of time; give")), "{error}");
        }
    }
}
