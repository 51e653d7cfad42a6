//! One value on the disk: a byte that says how it is written, then the value.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How values are written today: `postcard`.
pub(super) const VERSION: u8 = 1;

/// Why a value cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecordError {
    /// It is written in a way that this program does not know.
    Version(u8),
    /// It is not a value of its kind.
    Malformed,
}

pub(super) fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(value, vec![VERSION]).expect("what is written is plain data")
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    match bytes.split_first() {
        Some((&VERSION, body)) => match postcard::take_from_bytes(body) {
            Ok((value, [])) => Ok(value),
            Ok(_) | Err(_) => Err(RecordError::Malformed),
        },
        Some((&version, _)) if version > VERSION => Err(RecordError::Version(version)),
        Some(_) | None => Err(RecordError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::disk::{Ballot, LogEntry};
    use crate::names::Incarnation;

    #[test]
    fn values_are_written_as_they_always_were() {
        assert_eq!(encode(&Incarnation::new(300)), [1, 0xac, 0x02]);
        assert_eq!(encode(&Ballot { term: 2, vote: 3, commit: 4 }), [1, 2, 3, 4]);
        assert_eq!(encode(&LogEntry { index: 7, term: 2, data: vec![9, 8] }), [1, 7, 2, 2, 9, 8]);
    }

    #[test]
    fn what_is_not_a_value_is_told_apart_from_what_is_too_new() {
        assert_eq!(decode::<Ballot>(&[1, 2, 3, 4]), Ok(Ballot { term: 2, vote: 3, commit: 4 }));
        for bytes in [&[][..], &[0, 2, 3, 4], &[1, 2, 3], &[1, 2, 3, 4, 5]] {
            assert_eq!(decode::<Ballot>(bytes), Err(RecordError::Malformed), "{bytes:?}");
        }
        assert_eq!(decode::<Ballot>(&[2, 2, 3, 4]), Err(RecordError::Version(2)));
    }
}
