//! Values of clients as printable text: a holder at another site is known here only by its label, and a label is text for people.

use std::fmt::Write;

/// A value that other sites could not be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a value of {bytes} bytes is too long: other sites are shown it in {most} bytes, in which all but printable ASCII takes three"
)]
pub(crate) struct ValueTooLong {
    /// How long it is.
    pub(crate) bytes: usize,
    /// For how much there is room.
    pub(crate) most: usize,
}

/// Printable ASCII stays as it is, every other byte and `%` becomes `%` and two digits.
pub(crate) fn escaped(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for &byte in value {
        match byte {
            b'%' | 0..b' ' | 0x7f.. => {
                // Writing to text cannot fail.
                let _ = write!(text, "%{byte:02x}");
            }
            printable => text.push(char::from(printable)),
        }
    }
    text
}

/// What [`escaped`] was given; none if it cannot have said so.
pub(crate) fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits = if byte == b'%' { Some([rest.next()?, rest.next()?]) } else { None };
        bytes.push(match digits {
            Some(digits) => u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?,
            None => byte,
        });
    }
    Some(bytes)
}
