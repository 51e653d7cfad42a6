//! The connections that exist, with what each of them relies on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use meshlock_cluster::access::ClientName;
use meshlock_tls::{
    Accepted, Bearer, CertificateFault, ExpiringPart, Expiry, ExpiryWarning, Revoked, ShownBy,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Trust;
use super::watch::WARN_EVERY;

/// Maximum number of clients that the log warns about in a day.
const MAX_WARNED: usize = 1000;

/// Why a connection is ended although its handshake was in order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error("the certificate of {bearer} is not accepted any more: {fault}")]
    Certificate { bearer: Bearer, fault: CertificateFault },
    #[error("the token of '{0}' has expired; make a new one with `meshlock token new {0}`")]
    TokenExpired(ClientName),
    #[error("'{0}' is revoked: the list `revoked` of this site or of the cluster has the entry 'client/{0}'")]
    ClientRevoked(ClientName),
}

/// Tells the task of a connection that the connection must end.
#[derive(Debug, Default)]
pub struct Ending {
    why: OnceLock<Untrusted>,
    happened: Notify,
}

impl Ending {
    /// Waits until the connection must end, and returns why. One task waits.
    pub async fn happened(&self) -> &Untrusted {
        loop {
            if let Some(why) = self.why.get() {
                return why;
            }
            self.happened.notified().await;
        }
    }

    #[cfg(test)]
    pub(super) fn reason(&self) -> Option<&Untrusted> {
        self.why.get()
    }

    fn end(&self, why: Untrusted) {
        if self.why.set(why).is_ok() {
            self.happened.notify_one();
        }
    }
}

/// A registered connection. It is registered until this is dropped.
#[derive(Debug)]
pub struct Watched {
    trust: Trust,
    id: u64,
}

impl Watched {
    pub(super) fn new(trust: &Trust, id: u64) -> Self {
        Watched { trust: trust.clone(), id }
    }

    /// Notes that the connection also relies on a token of this client, which is refused from this second since 1970 on.
    pub fn note_token(&self, name: &ClientName, expires: Option<u64>) {
        self.trust.connections().note_token(self.id, name, expires);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.trust.connections().all.remove(&self.id);
    }
}

/// What the peer of a connection has shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) chain: Arc<[CertificateDer<'static>]>,
    pub(super) by: ShownBy,
    pub(super) accepted: Accepted,
}

impl Shown {
    fn untrusted(&self, fault: CertificateFault) -> Untrusted {
        Untrusted::Certificate { bearer: self.accepted.bearer.clone(), fault }
    }
}

/// A connection and what it relies on.
#[derive(Debug)]
struct Registered {
    shown: Option<Shown>,
    /// The clients whose tokens were shown on it, and from which second since 1970 on these are refused.
    tokens: BTreeMap<ClientName, Option<u64>>,
    ending: Arc<Ending>,
}

/// All registered connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: BTreeMap<u64, Registered>,
    last: u64,
    /// The clients whose certificates end soon, and when the log last said so.
    warned: BTreeMap<Bearer, Instant>,
}

impl Connections {
    pub(super) fn add(&mut self, shown: Option<Shown>, ending: Arc<Ending>) -> u64 {
        self.last += 1;
        self.all.insert(self.last, Registered { shown, tokens: BTreeMap::new(), ending });
        self.last
    }

    /// Returns the warning to write about the certificate of a client, which nobody else may look at: once a day for each.
    pub(super) fn warning(&mut self, of: &Accepted, now: UnixTime, at: Instant) -> Option<ExpiryWarning> {
        let Bearer::Client(_) = of.bearer else { return None };
        let expiry = Expiry { of: ExpiringPart::Own, file: PathBuf::from("at the client"), at: of.until() };
        let warning = expiry.warning(&of.bearer, now)?;
        self.warned.retain(|_, last| at.duration_since(*last) < WARN_EVERY);
        if self.warned.len() >= MAX_WARNED || self.warned.contains_key(&of.bearer) {
            return None;
        }
        self.warned.insert(of.bearer.clone(), at);
        Some(warning)
    }

    /// The number of tokens of a site is limited, and so is what is kept here.
    fn note_token(&mut self, id: u64, name: &ClientName, expires: Option<u64>) {
        let Some(registered) = self.all.get_mut(&id) else { return };
        match registered.tokens.get_mut(name) {
            // The connection lasts as long as the token that was shown last.
            Some(noted) => *noted = expires,
            None => drop(registered.tokens.insert(name.clone(), expires)),
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns what the peers have shown.
    pub(super) fn shown(&self) -> Vec<Shown> {
        self.all.values().filter_map(|registered| registered.shown.clone()).collect()
    }

    /// Ends the connections that rely on something that has ended by `now`.
    pub(super) fn end_over(&mut self, now: UnixTime) {
        for registered in self.all.values() {
            if let Some(why) = registered.over(now) {
                registered.ending.end(why);
            }
        }
    }

    /// Ends the connections of everyone on the list.
    pub(super) fn end_revoked(&mut self, revoked: &Revoked) {
        for registered in self.all.values() {
            if let Some(why) = registered.refused_by(revoked) {
                registered.ending.end(why);
            }
        }
    }
}

impl Registered {
    fn over(&self, now: UnixTime) -> Option<Untrusted> {
        if let Some(shown) = &self.shown
            && shown.accepted.until() < now
        {
            let ago =
                |end: UnixTime| std::time::Duration::from_secs(now.as_secs().saturating_sub(end.as_secs()));
            let Accepted { ends, authority_ends, .. } = shown.accepted;
            let fault = if ends < now {
                CertificateFault::Expired { ago: Some(ago(ends)) }
            } else {
                CertificateFault::AuthorityExpired { ago: ago(authority_ends) }
            };
            return Some(shown.untrusted(fault));
        }
        let over = self.tokens.iter().find(|(_, end)| end.is_some_and(|end| now.as_secs() >= end));
        over.map(|(name, _)| Untrusted::TokenExpired(name.clone()))
    }

    fn refused_by(&self, revoked: &Revoked) -> Option<Untrusted> {
        if let Some(shown) = &self.shown
            && let Some(entry) = revoked.entry_for(&shown.accepted.bearer, &shown.accepted.serial)
        {
            return Some(shown.untrusted(CertificateFault::Revoked { entry }));
        }
        let listed = self.tokens.keys().find(|name| revoked.has_client(name));
        listed.map(|name| Untrusted::ClientRevoked(name.clone()))
    }
}
