//! What a site says of itself to whoever looks for what is wrong with a cluster (`meshlock doctor`): to clients that may watch the whole
//! cluster, and to other sites.
//!
//! It is a report and nothing is decided by it. Whoever reads it has asked each site by itself, so that it is there also while the cluster
//! cannot agree on anything.

use meshlock_cluster::address::Address;
use meshlock_cluster::lease::Terms;
use meshlock_cluster::names::{ClusterName, SiteName};
use meshlock_cluster::time::Span;
use serde::{Deserialize, Serialize};

/// Maximum length of a report in bytes, on the wire between sites.
#[cfg(feature = "sites")]
const MAX_BYTES: usize = 1 << 19;

/// Maximum number of entries in each list of a report.
pub const MAX_ENTRIES: usize = 1024;

/// Maximum length of a text in a report, in bytes.
pub const MAX_TEXT: usize = 1024;

/// What a site says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    pub site: SiteName,
    pub incarnation: u64,
    pub cluster: ClusterName,
    /// The version of the program.
    pub program: String,
    /// The lowest and the highest version that it speaks with other sites.
    pub site_versions: (u16, u16),
    /// The lowest and the highest version that it speaks with clients.
    pub client_versions: (u16, u16),
    /// The sites that the cluster was founded with, as this site is configured.
    pub founders: Vec<SiteName>,
    /// The sites that vote, as far as this site knows.
    pub voters: Vec<SiteName>,
    /// Voters, by name, that do not vote any more, because their disk was lost.
    pub replaced: u32,
    /// The epoch of the view that it has installed, and the members of that view.
    pub epoch: u32,
    pub members: Vec<SiteName>,
    /// The leader, as far as it knows.
    pub leader: Option<SiteName>,
    /// Why it could not grant a lock now, even if the lock were free; `None` if it could.
    pub outage: Option<String>,
    /// Whether it is leaving the cluster.
    pub leaving: bool,
    /// What is wrong with its disk, if the last write failed.
    pub disk: Option<String>,
    pub lease: LeaseReport,
    /// The calendar time of its machine, in microseconds since 1970.
    pub wall_clock: u64,
    /// When its certificates end; none without TLS.
    pub certificates: Vec<CertificateEnd>,
    /// What it knows of the other sites.
    pub peers: Vec<PeerReport>,
    /// Parts of its configuration that are the same at all sites, each with a hash. A part that another program does not know is missing.
    pub configuration: Vec<(String, u64)>,
}

/// The lease of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseReport {
    /// The terms that the cluster has agreed on, or those of the configuration before there is a view.
    pub terms: Terms,
    /// The terms in the site's configuration.
    pub configured: Terms,
    /// How long the lease still lasts.
    pub left: Option<Span>,
    /// How much of the lease was left at the latest of its last renewals; `None` before the second one.
    pub tightest: Option<Span>,
}

/// When a certificate ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateEnd {
    /// Whether it is the authority's and not the site's own.
    pub is_authority: bool,
    /// In seconds since 1970.
    pub at: u64,
}

/// What a site knows of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerReport {
    pub site: SiteName,
    /// Where it is dialled.
    pub address: Option<Address>,
    /// How long ago something came from it; `None` if nothing has.
    pub heard: Option<Span>,
    /// The version that is spoken with it, if there is a connection.
    pub version: Option<u16>,
    /// Why it could not be reached the last time, if it was not reached since.
    pub error: Option<String>,
}

/// A site that was asked, directly, by another one on behalf of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedSite {
    pub site: SiteName,
    /// Where it was asked; `None` if no address is known.
    pub address: Option<Address>,
    /// How long the answer took.
    pub took: Span,
    /// By how many microseconds its calendar is ahead of that of the site that asked; about half of `took` is uncertain.
    pub ahead: i64,
    /// Its answer, or why there is none.
    pub answer: Result<Box<Diagnosis>, String>,
}

impl AskedSite {
    /// Returns that a site has not answered, and why.
    pub fn without_answer(site: SiteName, address: Option<Address>, why: &str) -> Self {
        let why = why[..why.floor_char_boundary(MAX_TEXT)].to_owned();
        AskedSite { site, address, took: Span::ZERO, ahead: 0, answer: Err(why) }
    }
}

/// The bytes are not a report.
#[cfg(feature = "sites")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its report cannot be read; it may run another version of Meshlock")]
pub struct DiagnosisError;

impl Diagnosis {
    /// Returns whether lists and texts are no longer than a site makes them.
    pub fn is_bounded(&self) -> bool {
        let texts = [Some(&self.program), self.outage.as_ref(), self.disk.as_ref()];
        let errors = self.peers.iter().filter_map(|peer| peer.error.as_ref());
        let parts = self.configuration.iter().map(|(part, _)| part);
        let lengths = [
            self.founders.len(),
            self.voters.len(),
            self.members.len(),
            self.certificates.len(),
            self.peers.len(),
            self.configuration.len(),
        ];
        lengths.iter().all(|length| *length <= MAX_ENTRIES)
            && texts.into_iter().flatten().chain(errors).chain(parts).all(|text| text.len() <= MAX_TEXT)
    }

    /// Shortens lists and texts that are too long, so that the report [is bounded](Diagnosis::is_bounded).
    #[must_use]
    pub fn bounded(mut self) -> Self {
        for list in [&mut self.founders, &mut self.voters, &mut self.members] {
            list.truncate(MAX_ENTRIES);
        }
        self.certificates.truncate(MAX_ENTRIES);
        self.peers.truncate(MAX_ENTRIES);
        self.configuration.truncate(MAX_ENTRIES);
        let texts = [Some(&mut self.program), self.outage.as_mut(), self.disk.as_mut()];
        let errors = self.peers.iter_mut().filter_map(|peer| peer.error.as_mut());
        for text in texts.into_iter().flatten().chain(errors) {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
        }
        self
    }

    /// Returns the bytes of the frame between sites: a length and the report.
    #[cfg(feature = "sites")]
    pub fn frame(&self) -> Vec<u8> {
        let body = postcard::to_stdvec(self).expect("a report is plain data");
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        [&length.to_le_bytes() as &[u8], &body].concat()
    }

    /// Reads a report from the front of `bytes`, if it is complete.
    #[cfg(feature = "sites")]
    pub fn take(bytes: &[u8]) -> Result<Option<Self>, DiagnosisError> {
        let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_BYTES {
            return Err(DiagnosisError);
        }
        let Some(body) = bytes.get(4..4 + length) else { return Ok(None) };
        let report: Diagnosis = postcard::from_bytes(body).map_err(|_| DiagnosisError)?;
        if report.is_bounded() { Ok(Some(report)) } else { Err(DiagnosisError) }
    }
}

/// Returns a report, for tests and fuzzers.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn sample() -> Diagnosis {
    let site = |name: &str| -> SiteName { name.parse().expect("a name") };
    let terms = Terms::default();
    Diagnosis {
        site: site("a"),
        incarnation: 7,
        cluster: "prod".parse().expect("a name"),
        program: "0.1.0".to_owned(),
        site_versions: (1, 4),
        client_versions: (2, 5),
        founders: vec![site("a"), site("b")],
        voters: vec![site("a"), site("b")],
        replaced: 0,
        epoch: 3,
        members: vec![site("a")],
        leader: Some(site("a")),
        outage: Some("a has no lease".to_owned()),
        leaving: false,
        disk: None,
        lease: LeaseReport { terms, configured: terms, left: Some(Span::TICK), tightest: None },
        wall_clock: 1_700_000_000_000_000,
        certificates: vec![CertificateEnd { is_authority: true, at: 1_800_000_000 }],
        peers: vec![PeerReport {
            site: site("b"),
            address: Some("b:1".parse().expect("an address")),
            heard: Some(Span::from_millis(70)),
            version: Some(4),
            error: Some("refused".to_owned()),
        }],
        configuration: vec![("access".to_owned(), 5)],
    }
}

#[cfg(all(test, feature = "sites"))]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_once_it_is_whole_and_not_if_it_is_too_long() {
        let whole = sample().frame();
        for cut in 0..whole.len() {
            assert_eq!(Diagnosis::take(&whole[..cut]), Ok(None), "{cut} bytes");
        }
        assert_eq!(Diagnosis::take(&whole), Ok(Some(sample())));
        assert_eq!(Diagnosis::take(&u32::MAX.to_le_bytes()), Err(DiagnosisError));
        assert_eq!(Diagnosis::take(&[1, 0, 0, 0, 255]), Err(DiagnosisError));
    }

    #[test]
    fn a_report_with_too_much_in_it_is_refused_and_a_site_shortens_its_own() {
        let long = "ä".repeat(MAX_TEXT);
        let mut report = sample();
        report.disk = Some(long.clone());
        report.peers = vec![report.peers[0].clone(); MAX_ENTRIES + 1];
        report.peers[0].error = Some(long);
        assert!(!report.is_bounded());
        assert_eq!(Diagnosis::take(&report.frame()), Err(DiagnosisError));
        let shortened = report.bounded();
        assert_eq!(Diagnosis::take(&shortened.frame()), Ok(Some(shortened)));
    }
}
