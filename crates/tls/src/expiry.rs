//! When certificates end, and the warnings before that.

use std::fmt;
use std::path::PathBuf;

use rustls::pki_types::UnixTime;

use super::name::Bearer;
use super::x509::shown_time;

/// How many days before its end a certificate is warned about, and again.
const WARN_DAYS: [u64; 3] = [30, 7, 1];

const DAY: u64 = 24 * 3600;

/// When something ends that an identity relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    pub of: ExpiringPart,
    pub file: PathBuf,
    pub at: UnixTime,
}

/// What has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpiringPart {
    /// The certificate of this process, with those between it and the authority.
    Own,
    /// The authority that has signed it.
    Authority,
}

impl ExpiringPart {
    /// Returns the name that metrics use.
    pub fn label(self) -> &'static str {
        match self {
            ExpiringPart::Own => "own",
            ExpiringPart::Authority => "authority",
        }
    }
}

/// A certificate that ends soon or has ended. Its text says which, when, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiryWarning {
    /// The period before the end that has begun, in days: 30, 7 or 1; 0 after the end.
    pub days: u64,
    expiry: Expiry,
    bearer: Bearer,
    left: u64,
}

impl Expiry {
    /// Returns the warning that is due for the identity of `bearer` at the time `now`, if one is.
    pub fn warning(&self, bearer: &Bearer, now: UnixTime) -> Option<ExpiryWarning> {
        let left = self.at.as_secs().saturating_sub(now.as_secs());
        let days =
            if now > self.at { 0 } else { WARN_DAYS.into_iter().rev().find(|days| left <= days * DAY)? };
        Some(ExpiryWarning { days, expiry: self.clone(), bearer: bearer.clone(), left })
    }
}

impl fmt::Display for ExpiryWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Expiry { of, file, at } = &self.expiry;
        let (file, at) = (file.display(), shown_time(*at));
        match of {
            ExpiringPart::Own => write!(f, "{file}: the certificate of {} ", self.bearer)?,
            ExpiringPart::Authority => {
                write!(f, "{file}: the authority that signed the certificate of {} ", self.bearer)?;
            }
        }
        let rounded = |unit: u64| (self.left + unit / 2) / unit;
        match (self.days, rounded(DAY), rounded(3600)) {
            (0, ..) => write!(f, "has ended at {at}")?,
            (_, 0..2, hours) => write!(f, "ends in {hours} hours, at {at}")?,
            (_, days, _) => write!(f, "ends in {days} days, at {at}")?,
        }
        let client = if matches!(self.bearer, Bearer::Client(_)) { " --client" } else { "" };
        match of {
            ExpiringPart::Own => write!(
                f,
                "; issue a new one with `meshlock ca issue {}{client}` and put its files in the place of the old ones",
                self.bearer.name()
            ),
            ExpiringPart::Authority => f.write_str(
                "; replace the authority: docs/operating.md says how, under \"Replacing the authority\"",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn warnings_begin_thirty_seven_and_one_day_before_the_end() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let end = 1000 * DAY;
        let expiry = Expiry { of: ExpiringPart::Own, file: "c.pem".into(), at: at(end) };
        let bearer = Bearer::Site("db-1".parse().unwrap());
        let days = |now| expiry.warning(&bearer, at(now)).map(|warning| warning.days);
        assert_eq!(days(0), None);
        assert_eq!(days(end - 30 * DAY - 1), None);
        assert_eq!(days(end - 30 * DAY), Some(30));
        assert_eq!(days(end - 7 * DAY - 1), Some(30));
        assert_eq!(days(end - 7 * DAY), Some(7));
        assert_eq!(days(end - DAY), Some(1));
        assert_eq!(days(end), Some(1), "the last second");
        assert_eq!(days(end + 1), Some(0));
        let says = |now| expiry.warning(&bearer, at(now)).unwrap().to_string();
        assert_eq!(
            says(end - 3 * DAY),
            "c.pem: the certificate of the site 'db-1' ends in 3 days, at 1972-09-27 00:00:00 UTC; issue a new one with \
             `meshlock ca issue db-1` and put its files in the place of the old ones"
        );
        assert!(says(end - 7200).contains("ends in 2 hours"));
        assert!(says(end + 5).contains("has ended at 1972-09-27"));
    }
}
