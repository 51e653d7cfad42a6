//! Certificates: how sites identify each other, and why a client cannot pass for a site.
//!
//! A cluster has its own certificate authority ([`ca`]); certificates of any other authority are refused. Both sides show a certificate,
//! over TLS 1.3 and nothing older. The name in it ([`Bearer`]) is the site's or the client's name; the network address does not matter.
//!
//! This crate isolates `rustls-webpki` and `rcgen`: no other crate depends on them, so who is trusted is decided here alone. It forbids
//! an async runtime, which clients do without.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

#[cfg(feature = "authority")]
pub mod ca;
mod clock;
mod connect;
mod error;
mod expiry;
mod identity;
mod name;
mod records;
mod revoked;
mod security;
#[cfg(test)]
#[cfg(feature = "authority")]
mod tests;
mod verify;
mod wrap;
mod x509;

pub use clock::wall_clock;
#[cfg(all(test, feature = "authority"))]
use connect::bearer_of;
pub use connect::{bearer_of_chain, client_of, serial_of_chain, site_of};
pub use error::{CertificateFault, IdentityError, TlsError};
pub use expiry::{ExpiringPart, Expiry, ExpiryWarning};
pub use identity::{FileStamps, Files, Identity};
pub use name::{Bearer, BearerError, ClientName, ClientNameError};
pub use records::{drain_tls, open_tls};
pub use revoked::{Revoked, RevokedError};
pub use rustls::pki_types::UnixTime;
pub use security::Security;
pub use verify::{Accepted, ShownBy};
pub use wrap::Wrap;
pub use x509::{Serial, SerialError, shown_time, unix_time_of};
