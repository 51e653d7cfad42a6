//! Durations as Go writes them: `15s`, `1m30s`, `24h0m0s`. Pure.

use meshlock_cluster::time::Span;

/// Units in microseconds.
const UNITS: [(&str, u64); 6] =
    [("ns", 0), ("us", 1), ("µs", 1), ("ms", 1000), ("s", 1_000_000), ("m", 60_000_000)];
const HOUR: u64 = 3_600_000_000;

/// Parses a duration. Fractions of a microsecond are dropped.
pub(super) fn read(text: &str) -> Option<Span> {
    if text == "0" {
        return Some(Span::ZERO);
    }
    let (mut rest, mut micros) = (text, 0_u64);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_ends = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_ends);
        let unit_ends = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_ends);
        let unit = if unit == "h" { HOUR } else { UNITS.iter().find(|(name, _)| *name == unit)?.1 };
        micros = micros.checked_add(times(number, unit)?)?;
        rest = after;
    }
    Some(Span::from_micros(micros))
}

/// Multiplies a decimal number with a unit.
fn times(number: &str, unit: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.checked_mul(unit)? };
    // Further digits are less than a microsecond.
    let part = part.get(..part.len().min(9))?;
    let part = if part.is_empty() {
        0
    } else {
        let ten = 10_u64.pow(u32::try_from(part.len()).ok()?);
        u64::try_from(u128::from(part.parse::<u64>().ok()?) * u128::from(unit) / u128::from(ten)).ok()?
    };
    whole.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("15s", 15_000),
            ("1m30s", 90_000),
            ("24h0m0s", 86_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("300ms", 300),
            ("1500000us", 1500),
            ("86400s", 86_400_000),
        ] {
            assert_eq!(read(text), Some(Span::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "s",
            "15",
            "-1s",
            "1x",
            "1s2",
            ".s",
            "1..5s",
            "bad",
            "99999999999999999999s",
            "9999999999h",
            "1,5s",
            "١s",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
