//! A moment in a configuration file, such as `2027-01-31` or `2027-01-31T12:00:00+01:00`.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use meshlock_tls::{UnixTime, shown_time, unix_time_of};
use serde::Deserialize;
use toml::value::{Datetime, Offset};

/// The last second of the year 9999, after which no date can be written.
const MAX_SECOND: u64 = 253_402_300_799;

/// A date or a date with a time, which is in UTC unless it says otherwise. A date alone means the beginning of that day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Datetime")]
pub(crate) struct EndDate(pub(super) SystemTime);

impl TryFrom<Datetime> for EndDate {
    type Error = String;

    fn try_from(given: Datetime) -> Result<Self, String> {
        let no_date = || format!("{given} has no date; say for example 2027-01-31 or 2027-01-31T12:00:00Z");
        let date = given.date.ok_or_else(no_date)?;
        let day = [u64::from(date.year), u64::from(date.month), u64::from(date.day)];
        let time = given
            .time
            .map_or([0; 3], |time| [u64::from(time.hour), u64::from(time.minute), u64::from(time.second)]);
        let east = match given.offset {
            None | Some(Offset::Z) => 0,
            Some(Offset::Custom { minutes }) => i64::from(minutes) * 60,
        };
        let seconds = unix_time_of(day, time).and_then(|time| time.as_secs().checked_add_signed(-east));
        let seconds = seconds.ok_or_else(|| format!("{given} is before 1970; say when the token ends"))?;
        Ok(EndDate(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
    }
}

impl FromStr for EndDate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let given: Datetime = text
            .parse()
            .map_err(|_| format!("'{text}' is not a date such as 2027-01-31 or 2027-01-31T12:00:00Z"))?;
        EndDate::try_from(given)
    }
}

impl EndDate {
    /// Returns the second since 1970.
    pub(crate) fn second(self) -> u64 {
        self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// Returns the moment of this second since 1970.
    pub(crate) fn of_second(second: u64) -> Self {
        EndDate(SystemTime::UNIX_EPOCH + Duration::from_secs(second.min(MAX_SECOND)))
    }
}

/// Formats it as a configuration file has it.
impl fmt::Display for EndDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.0).trim_end_matches(" UTC").replace(' ', "T"))?;
        f.write_str("Z")
    }
}

/// Formats a moment for people.
pub(crate) fn shown(moment: SystemTime) -> String {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    shown_time(UnixTime::since_unix_epoch(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_in_utc_unless_they_say_otherwise() {
        let read = |text: &str| {
            let given: Datetime = text.parse().unwrap();
            EndDate::try_from(given).map(|moment| shown(moment.0))
        };
        for (text, means) in [
            ("2027-01-31", "2027-01-31 00:00:00 UTC"),
            ("2027-01-31T12:30:00", "2027-01-31 12:30:00 UTC"),
            ("2027-01-31T12:30:00Z", "2027-01-31 12:30:00 UTC"),
            ("2027-01-31T00:30:00+01:00", "2027-01-30 23:30:00 UTC"),
            ("2027-01-31T23:30:00-01:00", "2027-02-01 00:30:00 UTC"),
        ] {
            assert_eq!(read(text).unwrap(), means, "{text}");
        }
        let again: EndDate = "2027-01-31".parse().unwrap();
        assert_eq!(again.to_string(), "2027-01-31T00:00:00Z");
        assert_eq!(again.to_string().parse(), Ok(again));
        assert!("soon".parse::<EndDate>().unwrap_err().starts_with("'soon' is not a date"));
        assert!(read("12:30:00").unwrap_err().contains("has no date"));
        assert!(read("1969-12-31").unwrap_err().contains("before 1970"));
    }
}
