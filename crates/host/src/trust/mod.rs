//! What the connections of a node rely on: its certificate, the authorities that it trusts, and who is revoked. All of it can be replaced
//! while the node runs.
//!
//! New connections use what is current. Connections that exist stay, because nothing about them has become wrong; each of them is
//! registered here with what its peer has shown, and is ended when that is not valid any more:
//!
//! - the certificate, or one between it and the authority, or the authority's own, has ended, or a token ([`look`](Trust::look));
//! - the peer is revoked ([`set_revoked`](Trust::set_revoked)).
//!
//! A connection whose authority is not trusted any more stays, too: whoever replaces certificates must not lose a lock by it. The log
//! names its peer, which cannot come back.
//!
//! Invariant: a peer is judged and registered under one lock, by what is current then, and whoever replaces something looks at the
//! registered connections afterwards. So no connection slips through while its handshake and a change overlap.

mod connections;
mod reload;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use meshlock_cluster::names::SiteName;
use meshlock_tls::{
    Bearer, CertificateFault, Expiry, Identity, Revoked, Security, ShownBy, TlsError, wall_clock,
};
use rustls::Connection;
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch as watch_channel;
use tokio::time::Instant;

use connections::Connections;
pub use connections::{Ending, Untrusted, Watched};
pub use reload::{ReloadError, Reloaded};
pub use watch::log_refusal;

/// What the connections of a node rely on. Clones refer to the same.
#[derive(Clone)]
pub struct Trust(Arc<Inner>);

struct Inner {
    current: RwLock<Current>,
    connections: Mutex<Connections>,
    /// Held while something is replaced, so that two changes do not overlap.
    files: Mutex<reload::FileWatch>,
    clock: WallClock,
    /// Changes whenever the list of the revoked does.
    revocations: watch_channel::Sender<u64>,
}

/// What new connections use.
#[derive(Clone)]
struct Current {
    security: Security,
    /// Who is refused: by this site's own list and by the one that the cluster has agreed on.
    revoked: Arc<Revoked>,
    own: Arc<Revoked>,
    agreed: Arc<Revoked>,
}

/// The clock by which certificates are judged.
type WallClock = Arc<dyn Fn() -> UnixTime + Send + Sync>;

impl Default for Trust {
    fn default() -> Self {
        Trust::new(Security::default())
    }
}

impl From<Security> for Trust {
    fn from(security: Security) -> Self {
        Trust::new(security)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("security", &self.security()).finish_non_exhaustive()
    }
}

impl Trust {
    /// Begins with this protection, and nobody revoked.
    pub fn new(security: Security) -> Self {
        Trust::with_clock(security, Arc::new(wall_clock))
    }

    /// Like [`new`](Trust::new), with another clock, for tests.
    pub fn with_clock(security: Security, clock: WallClock) -> Self {
        let (revoked, own, agreed) = Default::default();
        let current = RwLock::new(Current { security, revoked, own, agreed });
        let (connections, files) = (Mutex::default(), Mutex::default());
        let revocations = watch_channel::Sender::new(0);
        Trust(Arc::new(Inner { current, connections, files, clock, revocations }))
    }

    /// Returns how new connections are protected.
    pub fn security(&self) -> Security {
        self.current().security
    }

    /// Returns whether connections are not protected. That never changes.
    pub fn is_plain(&self) -> bool {
        self.0.is_plain()
    }

    /// Returns when this node's certificate ends, and its authority's; nothing without TLS.
    pub fn expiries(&self) -> Vec<Expiry> {
        match self.security() {
            Security::Plain => Vec::new(),
            Security::Tls(identity) => identity.expiries().into(),
        }
    }

    /// Returns who is revoked.
    pub fn revoked(&self) -> Arc<Revoked> {
        self.current().revoked
    }

    /// Returns the time by the clock that certificates are judged by.
    pub fn now(&self) -> UnixTime {
        (self.0.clock)()
    }

    /// Returns the TLS state of an incoming connection; `None` without TLS.
    pub(crate) fn accepting(&self) -> Result<Option<Connection>, TlsError> {
        self.security().accepting()
    }

    /// Returns the TLS state of an outgoing connection to `site`; `None` without TLS.
    pub(crate) fn dialling(&self, site: &SiteName) -> Result<Option<Connection>, TlsError> {
        self.security().dialling(site)
    }

    /// Registers a connection whose handshake is complete, until the returned value is dropped. `chain` is what the peer has shown; it is
    /// judged again, because what is trusted may have changed since the handshake. `ending` is told when the connection must end.
    pub fn register(
        &self,
        chain: Option<&[CertificateDer<'_>]>,
        shown_by: ShownBy,
        ending: &Arc<Ending>,
    ) -> Result<Watched, TlsError> {
        let mut connections = self.connections();
        let shown = match (chain, self.security()) {
            (Some(chain), Security::Tls(identity)) => {
                let accepted = identity.judge(chain, shown_by, self.now()).map_err(TlsError::Peer)?;
                if let Some(warning) = connections.warning(&accepted, self.now(), Instant::now()) {
                    tracing::warn!(target: watch::LOG, days = warning.days, "{warning}");
                }
                let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
                Some(connections::Shown { chain, by: shown_by, accepted })
            }
            (None, _) | (_, Security::Plain) => None,
        };
        let id = connections.add(shown, ending.clone());
        drop(connections);
        Ok(Watched::new(self, id))
    }

    /// Registers a connection of this node's own protocols. Without TLS nothing is registered.
    pub(crate) fn register_tls(
        &self,
        tls: Option<&Connection>,
        ending: &Arc<Ending>,
    ) -> Result<Option<Watched>, TlsError> {
        let Some(tls) = tls else { return Ok(None) };
        let shown_by = match tls {
            Connection::Client(_) => ShownBy::Called,
            Connection::Server(_) => ShownBy::Caller,
        };
        let chain = tls.peer_certificates().ok_or(TlsError::Anonymous)?;
        self.register(Some(chain), shown_by, ending).map(Some)
    }

    /// Ends the connections whose certificates or tokens have ended by now. The node calls it every few seconds: the wall clock may be set,
    /// and the machine may sleep, so that no timer knows when a certificate ends.
    pub fn look(&self) {
        let now = self.now();
        self.connections().end_over(now);
    }

    /// Refuses everyone on this site's own list from now on, beside those of the cluster's, and ends their connections.
    pub fn set_revoked(&self, revoked: Revoked) {
        self.change_revoked(|current| current.own = Arc::new(revoked));
    }

    /// Refuses everyone on the list that the cluster has agreed on from now on, beside those of this site's own, and ends their connections.
    /// It waits for no file.
    pub fn set_agreed_revoked(&self, revoked: Revoked) {
        self.change_revoked(|current| current.agreed = Arc::new(revoked));
    }

    fn change_revoked(&self, change: impl FnOnce(&mut Current)) {
        let revoked = {
            let mut current = self.0.current.write().unwrap_or_else(PoisonError::into_inner);
            change(&mut current);
            let revoked = Arc::new(current.own.as_ref().clone().joined(&current.agreed));
            if let Security::Tls(identity) = &current.security {
                current.security = Security::Tls(identity.refusing(revoked.clone()));
            }
            current.revoked = revoked.clone();
            revoked
        };
        self.connections().end_revoked(&revoked);
        self.0.revocations.send_modify(|count| *count += 1);
    }

    /// Returns a channel that changes whenever the list of the revoked does.
    pub fn revocations(&self) -> watch_channel::Receiver<u64> {
        self.0.revocations.subscribe()
    }

    /// Replaces the certificate, the key and the authorities. Connections stay. Returns the peers of those that could not be made now, because
    /// their authority is not trusted any more.
    fn install(&self, identity: &Identity) -> BTreeSet<Bearer> {
        let before = {
            let mut current = self.0.current.write().unwrap_or_else(PoisonError::into_inner);
            let next = Security::Tls(identity.refusing(current.revoked.clone()));
            std::mem::replace(&mut current.security, next)
        };
        if let Security::Tls(before) = before
            && before.trusts_the_same(identity)
        {
            return BTreeSet::new();
        }
        // Signatures are checked without the lock: it takes a while if there are many connections, and new ones need the lock.
        let (registered, now) = (self.connections().shown(), self.now());
        let is_left = |shown: &connections::Shown| {
            let judged = identity.judge(&shown.chain, shown.by, now);
            matches!(judged, Err(CertificateFault::OtherAuthority))
        };
        registered.into_iter().filter(is_left).map(|shown| shown.accepted.bearer).collect()
    }

    fn current(&self) -> Current {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, reload::FileWatch> {
        self.0.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn is_plain(&self) -> bool {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        matches!(current.security, Security::Plain)
    }
}
