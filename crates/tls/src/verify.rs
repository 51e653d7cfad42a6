//! Verifies certificates: only those of the cluster's own authority are accepted.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage};

use super::error::{CertificateFault, CertificateRefusal};
use super::name::Bearer;
use meshlock_cluster::names::SiteName;

/// The cluster's certificate authority, for verifying certificates.
#[derive(Debug)]
pub(super) struct Authority {
    anchors: Vec<TrustAnchor<'static>>,
    pub(super) provider: Arc<CryptoProvider>,
}

impl Authority {
    /// Trusts these authorities; there is more than one while one replaces another.
    pub(super) fn new(certificates: &[CertificateDer<'_>]) -> Result<Self, webpki::Error> {
        let anchors = certificates
            .iter()
            .map(|certificate| webpki::anchor_from_trusted_cert(certificate).map(|anchor| anchor.to_owned()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(Authority { anchors: anchors.collect::<Result<_, _>>()?, provider })
    }

    /// Returns whom the certificate names, if this authority has signed it for this use and it is valid now.
    pub(super) fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        usage: KeyUsage,
        now: UnixTime,
    ) -> Result<Bearer, CertificateFault> {
        let certificate = EndEntityCert::try_from(certificate).map_err(CertificateFault::of)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        certificate
            .verify_for_usage(algorithms, &self.anchors, between, now, usage, None, None)
            .map_err(CertificateFault::of)?;
        Bearer::named_in(&certificate).map_err(CertificateFault::Name)
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

/// Converts a refusal to the error that `rustls` returns to the caller. The peer is told by an alert: that its certificate has expired,
/// that the authority is unknown, or only that the certificate is not accepted.
fn refuse(refusal: CertificateRefusal) -> rustls::Error {
    let error = match refusal {
        CertificateRefusal::Fault(CertificateFault::Expired { .. }) => CertificateError::Expired,
        CertificateRefusal::Fault(CertificateFault::OtherAuthority) => CertificateError::UnknownIssuer,
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
        let found = self.authority.judge(certificate, between, KeyUsage::server_auth(), now);
        match (found.map_err(|fault| refuse(CertificateRefusal::Fault(fault)))?, &self.site) {
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
        let found = self.authority.judge(certificate, between, KeyUsage::client_auth(), now);
        found.map_err(|fault| refuse(CertificateRefusal::Fault(fault)))?;
        Ok(ClientCertVerified::assertion())
    }

    signatures_of_tls13!();
}
