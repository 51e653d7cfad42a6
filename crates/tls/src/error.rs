//! What can be wrong with certificates, said so that one knows which of them to replace.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

use super::name::{Bearer, BearerError, ClientName};
use meshlock_cluster::names::SiteName;

/// What is wrong with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It was valid once.
    #[error("it has expired{}; issue a new one with `meshlock ca issue`, or set the clock right", Days(*ago, " ", " ago"))]
    Expired {
        /// Since when, if that is known.
        ago: Option<Duration>,
    },
    /// It will be valid.
    #[error("it is not valid yet{}; set the clocks of both machines right", Days(Some(*ahead), ", but in ", ""))]
    NotYet {
        /// When.
        ahead: Duration,
    },
    /// Another cluster's, or nobody's.
    #[error("it is not from this cluster's authority; issue it with the one whose ca.pem this site has")]
    OtherAuthority,
    /// It was not made for this, as a client's is not for answering calls.
    #[error("it was not made for this use; only a site's certificate answers calls")]
    Use,
    /// The name in it.
    #[error("{0}")]
    Name(BearerError),
    /// Anything else.
    #[error("it is not valid: {0}")]
    Other(String),
}

impl Fault {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest needs no advice of its own")]
    pub(super) fn of(error: webpki::Error) -> Self {
        let between = |from: rustls::pki_types::UnixTime, to: rustls::pki_types::UnixTime| {
            Duration::from_secs(to.as_secs().saturating_sub(from.as_secs()))
        };
        match error {
            webpki::Error::CertExpired { time, not_after } => {
                Fault::Expired { ago: Some(between(not_after, time)) }
            }
            webpki::Error::CertNotValidYet { time, not_before } => {
                Fault::NotYet { ahead: between(time, not_before) }
            }
            // All our authorities are called alike, so that another's shows in its signatures.
            webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
                Fault::OtherAuthority
            }
            webpki::Error::RequiredEkuNotFoundContext(_) => Fault::Use,
            webpki::Error::BadDer => Fault::Name(BearerError::Unreadable),
            other => Fault::Other(other.to_string()),
        }
    }
}

struct Days(Option<Duration>, &'static str, &'static str);

impl std::fmt::Display for Days {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Days(Some(time), before, after) = self else { return Ok(()) };
        let hours = time.as_secs() / 3600;
        match hours {
            0 => write!(f, "{before}{} seconds{after}", time.as_secs()),
            1..48 => write!(f, "{before}{hours} hours{after}"),
            _ => write!(f, "{before}{} days{after}", hours / 24),
        }
    }
}

/// Why there is no connection that one could trust.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate of the other side.
    #[error("the peer's certificate: {0}")]
    Peer(Fault),
    /// Someone else is there.
    #[error("{found} answers where the site '{expected}' should; look at its address in the configuration")]
    OtherBearer {
        /// Who should be there.
        expected: SiteName,
        /// Who is there.
        found: Bearer,
    },
    /// A client is where only sites may be.
    #[error(
        "the peer is the client '{client}', and only sites may call here; give it the address for clients"
    )]
    NotASite {
        /// Who it is.
        client: ClientName,
    },
    /// A site is where only clients may be.
    #[error(
        "the peer is the site '{site}', and only clients may call here; give it a certificate of `meshlock ca issue NAME --client`"
    )]
    NotAClient {
        /// Which site.
        site: SiteName,
    },
    /// The other side does not want our certificate.
    #[error("the peer refuses this side's certificate: {0}")]
    Refused(&'static str),
    /// The other side gave none.
    #[error("the peer shows no certificate; give it one with `meshlock ca issue`")]
    Anonymous,
    /// The other side speaks something else.
    #[error("the peer does not speak TLS 1.3 ({0}); is it set to plain TCP?")]
    OtherProtocol(String),
    /// The connection broke.
    #[error("the connection broke while it was being secured: {0}")]
    Io(io::Error),
}

impl TlsError {
    /// What an error of a secured connection means, as the reader of its socket has it. The one who calls learns that its certificate is refused only when it first
    /// reads: with TLS 1.3 its part of the handshake is over by then.
    pub fn of(error: io::Error) -> Self {
        match error.downcast::<rustls::Error>() {
            Ok(error) => TlsError::of_rustls(error),
            Err(error) => TlsError::Io(error),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is not about certificates")]
    pub(super) fn of_rustls(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
                match other.0.downcast_ref::<Refusal>() {
                    Some(refusal) => refusal.clone().into(),
                    None => TlsError::Peer(Fault::Other(other.to_string())),
                }
            }
            rustls::Error::InvalidCertificate(CertificateError::Expired) => {
                TlsError::Peer(Fault::Expired { ago: None })
            }
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                TlsError::Peer(Fault::OtherAuthority)
            }
            rustls::Error::InvalidCertificate(error) => TlsError::Peer(Fault::Other(error.to_string())),
            rustls::Error::AlertReceived(alert) => match refused(alert) {
                Some(why) => TlsError::Refused(why),
                None => TlsError::OtherProtocol(format!("it says {alert:?}")),
            },
            rustls::Error::NoCertificatesPresented => TlsError::Anonymous,
            other => TlsError::OtherProtocol(other.to_string()),
        }
    }
}

/// What a peer's alert says of our certificate.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is not about certificates")]
fn refused(alert: AlertDescription) -> Option<&'static str> {
    let why = match alert {
        AlertDescription::CertificateExpired => "it has expired, by the peer's clock",
        AlertDescription::UnknownCA => "the peer has another authority's ca.pem",
        AlertDescription::CertificateRequired => "the peer got none",
        AlertDescription::CertificateUnknown => "it is not one that the peer expects here; its log says why",
        AlertDescription::BadCertificate | AlertDescription::UnsupportedCertificate => {
            "the peer cannot use it"
        }
        AlertDescription::AccessDenied | AlertDescription::DecryptError => "the peer does not let it in",
        _ => return None,
    };
    Some(why)
}

/// Why a certificate was refused in a handshake, as `rustls` carries it from the check to the caller.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("{0}")]
    Fault(Fault),
    #[error("{found} instead of the site '{expected}'")]
    OtherBearer { expected: SiteName, found: Bearer },
}

impl From<Refusal> for TlsError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fault(fault) => TlsError::Peer(fault),
            Refusal::OtherBearer { expected, found } => TlsError::OtherBearer { expected, found },
        }
    }
}

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {error}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Everyone could be this site.
    #[error("{0}: everyone on this machine can read this key; `chmod 600 {0}`", file.display())]
    Open {
        /// The key.
        file: PathBuf,
    },
    /// A file has something else in it.
    #[error("{}: no {what} in PEM form is in it", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What it should have.
        what: &'static str,
    },
    /// The authority's certificate.
    #[error("{}: cannot be an authority's certificate: {why}", file.display())]
    Authority {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// Our own certificate.
    #[error("{}: {fault}", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        fault: Fault,
    },
    /// The key is of another certificate, or of a kind that cannot be used.
    #[error("{}: not the key of {}: {why}", key.display(), certificate.display())]
    Key {
        /// The key.
        key: PathBuf,
        /// The certificate.
        certificate: PathBuf,
        /// Why.
        why: String,
    },
}
