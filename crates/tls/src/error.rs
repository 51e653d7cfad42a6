//! What can be wrong with certificates. Each message says which certificate to replace.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

use super::name::{Bearer, BearerError, ClientName};
use meshlock_cluster::names::SiteName;

/// What is wrong with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    #[error("it has expired{}; issue a new one with `meshlock ca issue`, or set the clock right", Days(*ago, " ", " ago"))]
    Expired {
        /// How long ago, if that is known.
        ago: Option<Duration>,
    },
    #[error("it is not valid yet{}; set the clocks of both machines right", Days(Some(*ahead), ", but in ", ""))]
    NotYet { ahead: Duration },
    /// It was signed by another authority, or by none.
    #[error("it is not from this cluster's authority; issue it with the one whose ca.pem this site has")]
    OtherAuthority,
    /// The authority that signed it has expired.
    #[error("the authority that signed it has expired{}; replace the authority (docs/operating.md says how)", Days(Some(*ago), " ", " ago"))]
    AuthorityExpired { ago: Duration },
    /// The configuration of this site, or the cluster's access document, refuses it.
    #[error(
        "the list `revoked` of this site or of the cluster has the entry '{entry}'; issue a certificate that is not on it"
    )]
    Revoked { entry: String },
    /// It was not issued for this use, such as a client's certificate for accepting connections.
    #[error("it was not made for this use; only a site's certificate answers calls")]
    Use,
    /// Its name is missing or malformed.
    #[error("{0}")]
    Name(BearerError),
    #[error("it is not valid: {0}")]
    Other(String),
}

impl CertificateFault {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest needs no advice of its own")]
    pub(super) fn of(error: webpki::Error) -> Self {
        let between = |from: rustls::pki_types::UnixTime, to: rustls::pki_types::UnixTime| {
            Duration::from_secs(to.as_secs().saturating_sub(from.as_secs()))
        };
        match error {
            webpki::Error::CertExpired { time, not_after } => {
                CertificateFault::Expired { ago: Some(between(not_after, time)) }
            }
            webpki::Error::CertNotValidYet { time, not_before } => {
                CertificateFault::NotYet { ahead: between(time, not_before) }
            }
            // All our authorities have the same name, so another authority shows in its signatures.
            webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
                CertificateFault::OtherAuthority
            }
            webpki::Error::RequiredEkuNotFoundContext(_) => CertificateFault::Use,
            webpki::Error::BadDer => CertificateFault::Name(BearerError::Unreadable),
            other => CertificateFault::Other(other.to_string()),
        }
    }
}

/// Formats a duration in suitable units, between two texts; nothing if it is unknown.
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

/// Why a connection could not be secured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The peer's certificate is not accepted.
    #[error("the peer's certificate: {0}")]
    Peer(CertificateFault),
    /// The peer is on this site's list of the revoked. A handshake does not say by which entry.
    #[error(
        "the peer's certificate, or its name, is on this site's list `revoked`; issue it a certificate that is not"
    )]
    PeerRevoked,
    /// Another site or client is at the address.
    #[error("{found} answers where the site '{expected}' should; look at its address in the configuration")]
    OtherBearer { expected: SiteName, found: Bearer },
    /// A client connected where only sites may.
    #[error(
        "the peer is the client '{client}', and only sites may call here; give it the address for clients"
    )]
    NotASite { client: ClientName },
    /// A site connected where only clients may.
    #[error(
        "the peer is the site '{site}', and only clients may call here; give it a certificate of `meshlock ca issue NAME --client`"
    )]
    NotAClient { site: SiteName },
    /// The peer does not accept our certificate.
    #[error("the peer refuses this side's certificate: {0}")]
    Refused(&'static str),
    /// The peer shows no certificate.
    #[error("the peer shows no certificate; give it one with `meshlock ca issue`")]
    Anonymous,
    /// The peer does not speak TLS 1.3.
    #[error("the peer does not speak TLS 1.3 ({0}); is it set to plain TCP?")]
    OtherProtocol(String),
    /// The connection broke.
    #[error("the connection broke while it was being secured: {0}")]
    Io(io::Error),
}

impl TlsError {
    /// Converts an I/O error of a TLS connection. The dialling side learns that its certificate is refused only with its first read,
    /// because with TLS 1.3 its part of the handshake is over by then.
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
                match other.0.downcast_ref::<CertificateRefusal>() {
                    Some(refusal) => refusal.clone().into(),
                    None => TlsError::Peer(CertificateFault::Other(other.to_string())),
                }
            }
            rustls::Error::InvalidCertificate(CertificateError::Expired) => {
                TlsError::Peer(CertificateFault::Expired { ago: None })
            }
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                TlsError::Peer(CertificateFault::OtherAuthority)
            }
            rustls::Error::InvalidCertificate(CertificateError::Revoked) => TlsError::PeerRevoked,
            rustls::Error::InvalidCertificate(error) => {
                TlsError::Peer(CertificateFault::Other(error.to_string()))
            }
            rustls::Error::AlertReceived(alert) => match refused(alert) {
                Some(why) => TlsError::Refused(why),
                None => TlsError::OtherProtocol(format!("it says {alert:?}")),
            },
            rustls::Error::NoCertificatesPresented => TlsError::Anonymous,
            other => TlsError::OtherProtocol(other.to_string()),
        }
    }
}

/// Returns what a peer's alert says about our certificate.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is not about certificates")]
fn refused(alert: AlertDescription) -> Option<&'static str> {
    let why = match alert {
        AlertDescription::CertificateExpired => "it has expired, by the peer's clock",
        AlertDescription::CertificateRevoked => {
            "it is revoked: the list `revoked` of the peer's configuration has its name or its serial number"
        }
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

/// Why a certificate was refused in a handshake. `rustls` carries it from the verifier to the caller.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum CertificateRefusal {
    #[error("{0}")]
    Fault(CertificateFault),
    #[error("{found} instead of the site '{expected}'")]
    OtherBearer { expected: SiteName, found: Bearer },
}

impl From<CertificateRefusal> for TlsError {
    fn from(refusal: CertificateRefusal) -> Self {
        match refusal {
            CertificateRefusal::Fault(fault) => TlsError::Peer(fault),
            CertificateRefusal::OtherBearer { expected, found } => TlsError::OtherBearer { expected, found },
        }
    }
}

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {error}", file.display())]
    File { file: PathBuf, error: io::Error },
    /// Other users of the machine can read the key and pass for this site, or can replace it.
    #[error("{0}: {who} this key; `chmod 600 {0}`", file.display())]
    Open {
        file: PathBuf,
        /// Who can do what with it, as the beginning of a sentence.
        who: &'static str,
    },
    /// A file does not contain what it should.
    #[error("{}: no {what} in PEM form is in it", file.display())]
    Content { file: PathBuf, what: &'static str },
    /// The authority's certificate cannot be used.
    #[error("{}: cannot be an authority's certificate: {why}", file.display())]
    Authority { file: PathBuf, why: String },
    /// Our own certificate is not valid.
    #[error("{}: {fault}", file.display())]
    Certificate { file: PathBuf, fault: CertificateFault },
    /// The key belongs to another certificate, or is of an unsupported kind.
    #[error("{}: not the key of {}: {why}", key.display(), certificate.display())]
    Key { key: PathBuf, certificate: PathBuf, why: String },
}
