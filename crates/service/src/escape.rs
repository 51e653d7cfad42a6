//! Encodes client values as printable text. Other sites know a holder only by its label, and a label is printable
//! text.

use std::fmt::Write;

/// A value does not fit into a label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a value of {bytes} bytes is too long: it must fit into a label with {max} bytes left, in which every byte that is not printable ASCII takes three"
)]
pub(crate) struct ValueTooLong {
    pub(crate) bytes: usize,
    /// Room that the label has for the value.
    pub(crate) max: usize,
}

/// Encodes a value: printable ASCII except `%` stays as it is, every other byte becomes `%` and two hexadecimal
/// digits.
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

/// Decodes what [`escaped`] produced. Returns `None` for text that [`escaped`] cannot have produced.
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
