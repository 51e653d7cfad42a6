//! Principals: who a caller is, for access control.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::SiteName;

/// The name of a client, made of the same characters as a site's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClientName(SiteName);

/// The reason why a text cannot be the name of a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' cannot be the name of a client: use 1 to 64 letters, digits, '.', '-' and '_'")]
pub struct ClientNameError(String);

impl FromStr for ClientName {
    type Err = ClientNameError;

    fn from_str(text: &str) -> Result<Self, ClientNameError> {
        let error = |_| ClientNameError(text.chars().take(80).collect());
        text.parse().map(ClientName).map_err(error)
    }
}

impl TryFrom<String> for ClientName {
    type Error = ClientNameError;
    fn try_from(text: String) -> Result<Self, ClientNameError> {
        text.parse()
    }
}

impl From<ClientName> for String {
    fn from(name: ClientName) -> Self {
        name.to_string()
    }
}

impl ClientName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns whether access rules use this name for something else, so that no client may have it.
    pub fn is_reserved(&self) -> bool {
        [LOCAL, ANYONE].contains(&self.as_str())
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The names that access rules use for programs of this machine and for unidentified callers.
pub(super) const LOCAL: &str = "local";
pub(super) const ANYONE: &str = "anyone";

/// The beginning of the names that access rules use for users of this machine. No other name contains a colon.
pub(super) const USER: &str = "uid:";

/// Who makes a request. A site is never a principal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// A program of this machine: one of the node's own user or of root over the node's socket, or any program over an unprotected
    /// connection.
    Local,
    /// A program of another user of this machine, over the node's socket. The kernel says which user.
    User(u32),
    /// A caller that shows neither a certificate nor a token.
    Anyone,
    /// A caller that shows a certificate or a token of this name.
    Named(ClientName),
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Local => f.write_str(LOCAL),
            Principal::User(uid) => write!(f, "{USER}{uid}"),
            Principal::Anyone => f.write_str(ANYONE),
            Principal::Named(name) => name.fmt(f),
        }
    }
}
