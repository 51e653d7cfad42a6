//! What fuzzers feed of the disk: see [`crate::fuzz`].

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::{decode, encode};

/// A value that is read is written so that it is read again.
pub(crate) fn read<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(value) = decode::<T>(bytes) {
        assert_eq!(decode::<T>(&encode(&value)), Ok(value));
    }
}

/// A value as it lies on the disk.
pub(crate) fn written(value: &impl Serialize) -> Vec<u8> {
    encode(value)
}
