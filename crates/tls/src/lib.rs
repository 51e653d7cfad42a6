//! Certificates: how sites know each other, and how clients are kept from passing for sites.
//!
//! A cluster has a certificate authority of its own ([`ca`]); whatever it has not signed is not let in, whoever else has.
//! Both sides show a certificate, over TLS 1.3 and nothing older. The name in it ([`Bearer`]) is the site's or the client's
//! name; where on the network it came from does not matter.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

#[cfg(feature = "authority")]
pub mod ca;
mod connect;
mod error;
mod identity;
mod name;
mod records;
mod security;
#[cfg(test)]
#[cfg(feature = "authority")]
mod tests;
mod verify;
mod wrap;

pub use connect::{bearer_of, bearer_of_chain, client_of, site_of};
pub use error::{Fault, IdentityError, TlsError};
pub use identity::{Files, Identity};
pub use name::{Bearer, BearerError, ClientName, ClientNameError};
pub use records::{drain_tls, open_tls};
pub use security::Security;
pub use wrap::Wrap;
