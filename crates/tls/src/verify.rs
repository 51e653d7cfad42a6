//! Whom to believe: certificates of the cluster's own authority, and no others.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage};

use super::error::{Fault, Refusal};
use super::name::Bearer;
use meshlock_cluster::names::SiteName;

/// The cluster's certificate authority, as those see it who check certificates.
#[derive(Debug)]
pub(super) struct Authority {
    anchors: Vec<TrustAnchor<'static>>,
    pub(super) provider: Arc<CryptoProvider>,
}

impl Authority {
    /// Believes what these have signed; more than one while one replaces the other.
    pub(super) fn new(certificates: &[CertificateDer<'_>]) -> Result<Self, webpki::Error> {
        let anchors = certificates
            .iter()
            .map(|certificate| webpki::anchor_from_trusted_cert(certificate).map(|anchor| anchor.to_owned()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(Authority { anchors: anchors.collect::<Result<_, _>>()?, provider })
    }

    /// Who the certificate speaks for, if this authority has signed it for this use and it is valid now.
    pub(super) fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        usage: KeyUsage,
        now: UnixTime,
    ) -> Result<Bearer, Fault> {
        let certificate = EndEntityCert::try_from(certificate).map_err(Fault::of)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        certificate
            .verify_for_usage(algorithms, &self.anchors, between, now, usage, None, None)
            .map_err(Fault::of)?;
        Bearer::named_in(&certificate).map_err(Fault::Name)
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

/// As `rustls` carries it to whoever wanted the connection. The peer is told by an alert: that its certificate has expired,
/// that the authority is unknown, or only that it is not wanted.
fn refuse(refusal: Refusal) -> rustls::Error {
    let error = match refusal {
        Refusal::Fault(Fault::Expired { .. }) => CertificateError::Expired,
        Refusal::Fault(Fault::OtherAuthority) => CertificateError::UnknownIssuer,
        other @ (Refusal::Fault(_) | Refusal::OtherBearer { .. }) => {
            CertificateError::Other(OtherError(Arc::new(other)))
        }
    };
    error.into()
}

/// What the two sides share.
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

/// The one who calls wants this site and no other, or any site.
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
        let found = self.authority.judge(certificate, between, KeyUsage::server_auth(), now);
        match (found.map_err(|fault| refuse(Refusal::Fault(fault)))?, &self.site) {
            (Bearer::Site(_), None) => Ok(ServerCertVerified::assertion()),
            (Bearer::Site(site), Some(expected)) if site == *expected => Ok(ServerCertVerified::assertion()),
            (found, Some(expected)) => {
                Err(refuse(Refusal::OtherBearer { expected: expected.clone(), found }))
            }
            (Bearer::Client(_), None) => Err(refuse(Refusal::Fault(Fault::Use))),
        }
    }

    signatures_of_tls13!();
}

/// The one who is called lets in whoever the authority has given a name.
#[derive(Debug)]
pub(super) struct ExpectBearer {
    pub(super) authority: Arc<Authority>,
    /// Also whoever shows nothing.
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
        let found = self.authority.judge(certificate, between, KeyUsage::client_auth(), now);
        found.map_err(|fault| refuse(Refusal::Fault(fault)))?;
        Ok(ClientCertVerified::assertion())
    }

    signatures_of_tls13!();
}
