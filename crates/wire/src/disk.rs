//! Encoding of one value on the disk: a byte for the version of the encoding, then the value.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The current version: `postcard`.
pub const VERSION: u8 = 1;

/// The reason why a value cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The version is not known to this program.
    Version(u8),
    /// The bytes are not a value of the expected type.
    Malformed,
}

/// Returns the bytes of a value.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(value, vec![VERSION]).expect("what is written is plain data")
}

/// Reads a value; all bytes must belong to it.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    match bytes.split_first() {
        Some((&VERSION, body)) => match postcard::take_from_bytes(body) {
            Ok((value, [])) => Ok(value),
            Ok(_) | Err(_) => Err(RecordError::Malformed),
        },
        Some((&version, _)) if version > VERSION => Err(RecordError::Version(version)),
        Some(_) | None => Err(RecordError::Malformed),
    }
}

#[cfg(feature = "fuzz")]
pub(crate) mod fuzz {
    //! Fuzz targets for the disk.

    use std::fmt::Debug;

    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::{decode, encode};

    /// Checks that a value that can be read is encoded so that it can be read again.
    pub(crate) fn read<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
        if let Ok(value) = decode::<T>(bytes) {
            assert_eq!(decode::<T>(&encode(&value)), Ok(value));
        }
    }

    /// Encodes a value as it is on the disk.
    pub(crate) fn written(value: &impl Serialize) -> Vec<u8> {
        encode(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshlock_cluster::membership::disk::{Ballot, LogEntry};
    use meshlock_cluster::names::Incarnation;

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
