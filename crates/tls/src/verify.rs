//! Verifies certificates: only those of the cluster's own authority are accepted.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage};

use super::error::{CertificateFault, CertificateRefusal};
use super::name::{Bearer, BearerError};
use super::revoked::Revoked;
use super::x509::{Serial, particulars};
use meshlock_cluster::names::SiteName;

/// The cluster's certificate authority, for verifying certificates, and the certificates that are refused all the same.
#[derive(Clone, Debug)]
pub(super) struct Authority {
    anchors: Vec<TrustAnchor<'static>>,
    /// When each of the anchors ends. `webpki` does not look at that.
    ends: Vec<UnixTime>,
    revoked: Arc<Revoked>,
    pub(super) provider: Arc<CryptoProvider>,
}

/// Maximum number of authorities that are trusted at once. `webpki` limits how many signatures it checks for a certificate.
const MAX_AUTHORITIES: usize = 16;

/// Why certificates cannot be those of authorities.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuthorityError {
    #[error(transparent)]
    Unreadable(#[from] webpki::Error),
    #[error("{0} certificates; at most {MAX_AUTHORITIES} are allowed: remove those that have ended")]
    TooMany(usize),
}

/// A certificate that was accepted: whom it names, and until when it can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub bearer: Bearer,
    pub serial: Serial,
    /// When the certificate ends, or one between it and the authority.
    pub ends: UnixTime,
    /// When the certificate of the authority ends that it relies on.
    pub authority_ends: UnixTime,
}

impl Accepted {
    /// Returns until when a connection can rely on it.
    pub fn until(&self) -> UnixTime {
        self.ends.min(self.authority_ends)
    }
}

/// Which side of a connection shows a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownBy {
    /// The side that dialled: a site or a client.
    Caller,
    /// The side that was dialled, which is a site.
    Called,
}

impl ShownBy {
    fn usage(self) -> KeyUsage {
        match self {
            ShownBy::Caller => KeyUsage::client_auth(),
            ShownBy::Called => KeyUsage::server_auth(),
        }
    }
}

impl Authority {
    /// Trusts these authorities; there is more than one while one replaces another.
    pub(super) fn new(certificates: &[CertificateDer<'_>]) -> Result<Self, AuthorityError> {
        if certificates.len() > MAX_AUTHORITIES {
            return Err(AuthorityError::TooMany(certificates.len()));
        }
        let (mut anchors, mut ends) = (Vec::new(), Vec::new());
        for certificate in certificates {
            anchors.push(webpki::anchor_from_trusted_cert(certificate)?.to_owned());
            ends.push(particulars(certificate).ok_or(webpki::Error::BadDer)?.ends);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(Authority { anchors, ends, revoked: Arc::default(), provider })
    }

    /// Returns the same authority, which refuses those on this list.
    pub(super) fn refusing(&self, revoked: Arc<Revoked>) -> Self {
        Authority { revoked, ..self.clone() }
    }

    /// Returns how many authorities are trusted.
    pub(super) fn count(&self) -> usize {
        self.anchors.len()
    }

    /// Returns whether both trust the same authorities.
    pub(super) fn is_same(&self, other: &Authority) -> bool {
        self.anchors == other.anchors && self.ends == other.ends
    }

    /// Returns whom the certificate names, if this authority has signed it for this use, it is valid now and it is not revoked.
    pub(super) fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        shown_by: ShownBy,
        now: UnixTime,
    ) -> Result<Accepted, CertificateFault> {
        let accepted = self.verify(certificate, between, shown_by, now)?;
        match self.revoked.entry_for(&accepted.bearer, &accepted.serial) {
            Some(entry) => Err(CertificateFault::Revoked { entry }),
            None => Ok(accepted),
        }
    }

    /// Checks the signatures and times.
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        shown_by: ShownBy,
        now: UnixTime,
    ) -> Result<Accepted, CertificateFault> {
        let unreadable = CertificateFault::Name(BearerError::Unreadable);
        let parsed = EndEntityCert::try_from(certificate).map_err(CertificateFault::of)?;
        let found = particulars(certificate).ok_or(unreadable)?;
        // An authority that has ended signs nothing any more. It is asked only to say that it is the reason.
        let (living, ended): (Vec<_>, Vec<_>) =
            self.anchors.iter().cloned().zip(self.ends.iter().copied()).partition(|(_, end)| *end >= now);
        let try_with = |anchors: &[(TrustAnchor<'_>, UnixTime)]| {
            let (anchors, ends): (Vec<_>, Vec<_>) = anchors.iter().cloned().unzip();
            let algorithms = self.provider.signature_verification_algorithms.all;
            let path =
                parsed.verify_for_usage(algorithms, &anchors, between, now, shown_by.usage(), None, None)?;
            let used = anchors.iter().position(|anchor| std::ptr::eq(anchor, path.anchor()));
            let authority_ends = used.map_or(now, |used| ends[used]);
            let intermediates = path.intermediate_certificates();
            let chain = intermediates.filter_map(|cert| particulars(&cert.der()).map(|found| found.ends));
            Ok((chain.fold(found.ends, UnixTime::min), authority_ends))
        };
        let verified = try_with(&living).map_err(|error| match try_with(&ended) {
            Ok((_, end)) => CertificateFault::AuthorityExpired { ago: since(end, now) },
            Err(_) => CertificateFault::of(error),
        });
        let (ends, authority_ends) = verified?;
        let bearer = Bearer::named_in(&parsed).map_err(CertificateFault::Name)?;
        Ok(Accepted { bearer, serial: found.serial, ends, authority_ends })
    }

    fn signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }
}

/// Returns how much later than `earlier` it is.
fn since(earlier: UnixTime, now: UnixTime) -> Duration {
    Duration::from_secs(now.as_secs().saturating_sub(earlier.as_secs()))
}

/// Converts a refusal to the error that `rustls` returns to the caller. The peer is told by an alert: that its certificate has expired or
/// is revoked, that the authority is unknown, or only that the certificate is not accepted.
fn refuse(refusal: CertificateRefusal) -> rustls::Error {
    let error = match refusal {
        CertificateRefusal::Fault(CertificateFault::Expired { .. }) => CertificateError::Expired,
        CertificateRefusal::Fault(CertificateFault::OtherAuthority) => CertificateError::UnknownIssuer,
        CertificateRefusal::Fault(CertificateFault::Revoked { .. }) => CertificateError::Revoked,
        other @ (CertificateRefusal::Fault(_) | CertificateRefusal::OtherBearer { .. }) => {
            CertificateError::Other(OtherError(Arc::new(other)))
        }
    };
    error.into()
}

/// The signature checks that both verifiers share.
macro_rules! signatures_of_tls13 {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(rustls::Error::General("only TLS 1.3 is spoken here".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.authority.signature(message, certificate, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.authority.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

/// Verifier of the dialling side: expects this site, or any site.
#[derive(Debug)]
pub(super) struct ExpectSite {
    pub(super) authority: Arc<Authority>,
    pub(super) site: Option<SiteName>,
}

impl ServerCertVerifier for ExpectSite {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = self.authority.judge(certificate, between, ShownBy::Called, now);
        match (found.map_err(|fault| refuse(CertificateRefusal::Fault(fault)))?.bearer, &self.site) {
            (Bearer::Site(_), None) => Ok(ServerCertVerified::assertion()),
            (Bearer::Site(site), Some(expected)) if site == *expected => Ok(ServerCertVerified::assertion()),
            (found, Some(expected)) => {
                Err(refuse(CertificateRefusal::OtherBearer { expected: expected.clone(), found }))
            }
            (Bearer::Client(_), None) => Err(refuse(CertificateRefusal::Fault(CertificateFault::Use))),
        }
    }

    signatures_of_tls13!();
}

/// Verifier of the accepting side: accepts every site and client that the authority has named.
#[derive(Debug)]
pub(super) struct ExpectBearer {
    pub(super) authority: Arc<Authority>,
    /// Whether peers without a certificate are accepted too.
    pub(super) anonymous: bool,
}

impl ClientCertVerifier for ExpectBearer {
    fn client_auth_mandatory(&self) -> bool {
        !self.anonymous
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let found = self.authority.judge(certificate, between, ShownBy::Caller, now);
        found.map_err(|fault| refuse(CertificateRefusal::Fault(fault)))?;
        Ok(ClientCertVerified::assertion())
    }

    signatures_of_tls13!();
}
