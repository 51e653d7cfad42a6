//! Reads from a certificate what `rustls-webpki` keeps to itself: its serial number, and from when until when it is valid.
//!
//! Certificates come from peers and files. Whatever is not as expected gives `None`; nothing is allocated but the serial number.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};

/// The tags of DER that are read here.
const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version of a certificate, which is the first field if it is there.
const VERSION: u8 = 0xa0;

/// Maximum length of a serial number in bytes. RFC 5280 allows 20; some authorities use more.
const MAX_SERIAL_BYTES: usize = 64;

const DAY: u64 = 24 * 3600;

/// The serial number of a certificate, which is unique among those of one authority.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(Vec<u8>);

/// Why a text is not a serial number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a serial number is up to 128 hexadecimal digits, as `openssl x509 -noout -serial -in cert.pem` prints them"
)]
pub struct SerialError;

impl Serial {
    /// The same number can be written with zeros before it, which do not count.
    fn new(bytes: &[u8]) -> Self {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Serial(bytes[zeros..].to_vec())
    }
}

impl FromStr for Serial {
    type Err = SerialError;

    /// Reads hexadecimal digits, with or without colons between the bytes.
    fn from_str(text: &str) -> Result<Self, SerialError> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        if digits.is_empty() || digits.len() > 2 * MAX_SERIAL_BYTES {
            return Err(SerialError);
        }
        // An odd number of digits lacks a zero at the beginning.
        let mut bytes = vec![0; digits.len().div_ceil(2)];
        for (at, digit) in digits.iter().rev().enumerate() {
            let value = char::from(*digit).to_digit(16).ok_or(SerialError)?;
            let byte = bytes.len() - 1 - at / 2;
            bytes[byte] |= u8::try_from(value << (4 * (at % 2))).map_err(|_| SerialError)?;
        }
        Ok(Serial::new(&bytes))
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("00");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a certificate says about itself, apart from its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Particulars {
    pub(super) serial: Serial,
    /// The last second in which it is valid.
    pub(super) ends: UnixTime,
}

/// Reads a certificate. It does not check who signed it.
pub(super) fn particulars(certificate: &CertificateDer<'_>) -> Option<Particulars> {
    let (mut certificate, _) = expect(certificate.as_ref(), SEQUENCE)?;
    (certificate, _) = expect(certificate, SEQUENCE)?;
    if certificate.first() == Some(&VERSION) {
        (_, certificate) = expect(certificate, VERSION)?;
    }
    let (serial, rest) = expect(certificate, INTEGER)?;
    let (_algorithm, rest) = expect(rest, SEQUENCE)?;
    let (_issuer, rest) = expect(rest, SEQUENCE)?;
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (_start, rest) = time(validity)?;
    let (ends, _) = time(rest)?;
    (serial.len() <= MAX_SERIAL_BYTES + 1).then(|| Particulars { serial: Serial::new(serial), ends })
}

/// Splits off a value with this tag. Returns its content, and what follows it.
fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // The length is in the next bytes. A certificate has less than 2^16.
        0x81..=0x82 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length)).flatten()
}

/// Splits off a time. A year of two digits is one from 1950 to 2049.
fn time(bytes: &[u8]) -> Option<(UnixTime, &[u8])> {
    let ((year, text), rest) = if bytes.first() == Some(&UTC_TIME) {
        let (text, rest) = expect(bytes, UTC_TIME)?;
        let (year, text) = text.split_at_checked(2)?;
        let year = number(year)?;
        ((if year < 50 { 2000 + year } else { 1900 + year }, text), rest)
    } else {
        let (text, rest) = expect(bytes, GENERALIZED_TIME)?;
        let (year, text) = text.split_at_checked(4)?;
        ((number(year)?, text), rest)
    };
    let [m1, m2, d1, d2, h1, h2, i1, i2, s1, s2, b'Z'] = text else { return None };
    let (month, day) = (number(&[*m1, *m2])?, number(&[*d1, *d2])?);
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*i1, *i2])?, number(&[*s1, *s2])?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // A time before 1970 is long over, as 1970 is.
    let time = unix_time_of([year, month, day], [hour, minute, second]);
    Some((time.unwrap_or(UnixTime::since_unix_epoch(Duration::ZERO)), rest))
}

/// Returns the moment that a calendar and a clock in UTC show: year, month and day; hour, minute and second. `None` before 1970.
pub fn unix_time_of([year, month, day]: [u64; 3], [hour, minute, second]: [u64; 3]) -> Option<UnixTime> {
    let seconds = days_since_1970(year, month, day)? * DAY + hour * 3600 + minute * 60 + second;
    Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
}

fn number(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
}

/// Returns the days from 1970-01-01 to a day of the Gregorian calendar; `None` for earlier days.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    // Years begin in March here, so that the day that leap years add is the last one.
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let month = (month + 9) % 12;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    days.checked_sub(719_468)
}

/// Formats a time for people, such as `2027-01-31 09:30:00 UTC`.
pub fn shown_time(time: UnixTime) -> String {
    let (days, seconds) = (time.as_secs() / DAY, time.as_secs() % DAY);
    let (mut year, mut left) = (1970, days);
    let days_of = |year: u64| {
        if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) {
            366
        } else {
            365
        }
    };
    // Certificates end before the year 10000.
    while year < 10_000 && left >= days_of(year) {
        left -= days_of(year);
        year += 1;
    }
    let start_of = |month| days_since_1970(year, month, 1).unwrap_or(0);
    let month = (1..=12).rev().find(|month| start_of(*month) <= days).unwrap_or(1);
    let day = days - start_of(month) + 1;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn times_of_both_kinds_are_read_and_others_are_refused() {
        let read = |tag: u8, text: &str| {
            let bytes: Vec<u8> =
                [tag, u8::try_from(text.len()).unwrap()].into_iter().chain(text.bytes()).collect();
            time(&bytes).map(|(time, _)| time.as_secs())
        };
        assert_eq!(read(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(read(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(read(UTC_TIME, "500101000000Z"), Some(0), "1950");
        assert_eq!(read(GENERALIZED_TIME, "20000229120000Z"), Some(951_825_600));
        assert_eq!(read(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        assert_eq!(read(GENERALIZED_TIME, "00000101000000Z"), Some(0));
        for wrong in
            ["", "7001", "701301000000Z", "700132000000Z", "700101240000Z", "700101000000+", "7001010000xxZ"]
        {
            assert_eq!(read(UTC_TIME, wrong), None, "{wrong}");
        }
        assert_eq!(time(&[]), None);
    }

    #[test]
    fn times_are_shown_as_people_write_them() {
        assert_eq!(shown_time(at(0)), "1970-01-01 00:00:00 UTC");
        assert_eq!(shown_time(at(951_825_600)), "2000-02-29 12:00:00 UTC");
        assert_eq!(shown_time(at(2_524_607_999)), "2049-12-31 23:59:59 UTC");
        assert_eq!(shown_time(at(253_402_300_799)), "9999-12-31 23:59:59 UTC");
    }

    #[test]
    fn serial_numbers_are_the_same_however_they_are_written() {
        let serial: Serial = "0a1B".parse().unwrap();
        for same in ["A1b", "0A:1B", "000a1b"] {
            assert_eq!(same.parse::<Serial>().unwrap(), serial, "{same}");
        }
        assert_eq!(serial, Serial::new(&[0, 0x0a, 0x1b]));
        assert_eq!(serial.to_string(), "0a1b");
        assert_eq!("0".parse::<Serial>().unwrap().to_string(), "00");
        for wrong in ["", ":", "0x1", "g", &"1".repeat(129), "é"] {
            assert!(wrong.parse::<Serial>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        // The beginning of a certificate: version, serial number, algorithm, issuer and validity.
        let before = [
            SEQUENCE, 46, SEQUENCE, 44, VERSION, 3, INTEGER, 1, 2, INTEGER, 1, 7, SEQUENCE, 0, SEQUENCE, 0,
            SEQUENCE, 30,
        ];
        let dates = b"\x17\x0d700101000000Z\x17\x0d700102000000Z";
        let fitting: Vec<u8> = before.iter().chain(dates).copied().collect();
        let read = |bytes: &[u8]| particulars(&CertificateDer::from(bytes));
        let found = read(&fitting).unwrap();
        assert_eq!((found.serial.to_string().as_str(), found.ends), ("07", at(DAY)));
        // It is cut everywhere, and every byte is replaced by every other.
        for at in 0..fitting.len() {
            let _ = read(&fitting[..at]);
            for byte in 0..=u8::MAX {
                let mut changed = fitting.clone();
                changed[at] = byte;
                let _ = read(&changed);
            }
        }
    }
}
