//! Addresses of sites: text as the operator wrote it. Only hosts interpret it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::names::SiteName;

/// The address of an incarnation of a site, such as `db-1.example:7400`. Views carry it; nothing in this crate looks
/// inside.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Address(Arc<str>);

/// The reason why a text cannot be an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    #[error("a site's address is empty; give where other sites reach it, such as 'host:port'")]
    Empty,
    /// The text would not fit into a message.
    #[error("a site's address has {bytes} bytes; at most {} are allowed: '{start}…'", Address::MAX_BYTES)]
    TooLong { bytes: usize, start: String },
    /// The text would garble a terminal or a log.
    #[error(
        "the address '{}' contains the control character {found:?}; give printable text such as 'host:port'",
        address.escape_debug()
    )]
    Control {
        address: String,
        /// The first control character.
        found: char,
    },
}

impl Address {
    /// Maximum length in bytes.
    const MAX_BYTES: usize = 255;

    /// Returns the address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        if text.len() > Self::MAX_BYTES {
            let start = text.chars().filter(|c| !c.is_control()).take(20).collect();
            return Err(AddressError::TooLong { bytes: text.len(), start });
        }
        if let Some(found) = text.chars().find(|c| c.is_control()) {
            return Err(AddressError::Control { address: text.to_owned(), found });
        }
        Ok(Address(text.into()))
    }
}

impl From<&SiteName> for Address {
    /// A site's name is a valid address too, for hosts that look names up.
    fn from(site: &SiteName) -> Self {
        Address(site.as_str().into())
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.0.as_ref().to_owned()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_1_to_255_bytes_of_text_without_control_characters() {
        for address in ["db-1.example:7400", "[2001:db8::1]:7400", "unix:/run/meshlock/é", &"x".repeat(255)]
        {
            assert_eq!(address.parse::<Address>().unwrap().as_str(), address);
        }
        assert_eq!("".parse::<Address>(), Err(AddressError::Empty));
        let error = "é".repeat(128).parse::<Address>().unwrap_err().to_string();
        assert!(error.starts_with("a site's address has 256 bytes; at most 255 are allowed: 'éé"), "{error}");
        let error = "a:1\n".parse::<Address>().unwrap_err().to_string();
        assert!(error.starts_with("the address 'a:1\\n' contains the control character '\\n';"), "{error}");
    }

    #[test]
    fn an_address_read_from_outside_is_checked_too() {
        for text in ["x".repeat(256), "a\u{7f}".to_owned(), String::new()] {
            assert!(postcard::from_bytes::<Address>(&postcard::to_stdvec(&text).unwrap()).is_err());
        }
        let address: Address = "a:1".parse().unwrap();
        assert_eq!(postcard::from_bytes(&postcard::to_stdvec(&address).unwrap()), Ok(address));
    }
}
