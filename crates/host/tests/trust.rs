//! Two sites whose certificates end while one of them holds a lock, on a clock of the test.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Config;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::Span;
use meshlock_host::front::{AcquireParams, AcquireState, Ended, Front, NotGranted, Owner};
use meshlock_host::gate::Gate;
use meshlock_host::{Engine, NodeSetup, Trust, listen};
use meshlock_testing::{async_test, eventually_async, in_time};
use meshlock_tls::{Bearer, Identity, Revoked, Security, UnixTime, ca, wall_clock};

const DAY: u64 = 24 * 3600;

/// A site, and what its connections rely on.
struct Site {
    engine: Engine,
    front: Front,
    trust: Trust,
}

/// Makes a certificate in the directory `dir` of an authority that is made for it if need be.
fn identity(dir: &Path, name: &SiteName, days: u32) -> Identity {
    let target = dir.join(format!("site-{name}"));
    if target.exists() {
        std::fs::remove_dir_all(&target).unwrap();
    }
    Identity::load(&ca::issue(dir, &Bearer::Site(name.clone()), days).unwrap()).unwrap()
}

/// Starts two sites with certificates for ten days, on a clock that is `ahead` of the true one.
fn two_sites(dir: &Path, ahead: &Arc<AtomicU64>) -> [Site; 2] {
    ca::init(dir, 3650).unwrap();
    let names: [SiteName; 2] = ["a", "b"].map(|name| name.parse().unwrap());
    let listeners = [(); 2].map(|()| listen("127.0.0.1:0").unwrap());
    let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
    let addresses: BTreeMap<SiteName, String> =
        names.iter().cloned().zip(listeners.iter().map(address)).collect();
    let mut listeners = listeners.into_iter();
    names.clone().map(|name| {
        let ahead = ahead.clone();
        let clock = move || {
            let ahead = ahead.load(Ordering::Relaxed);
            UnixTime::since_unix_epoch(Duration::from_secs(wall_clock().as_secs() + ahead))
        };
        let security = Security::Tls(identity(dir, &name, 10));
        let trust = Trust::with_clock(security, Arc::new(clock));
        let mut config = Config::new(name, names.to_vec());
        // However slow the machine is: the sites are apart for a shorter time than this.
        config.terms.length = Span::from_millis(120_000);
        let mut setup = NodeSetup::new(config);
        (setup.listen, setup.addresses) = (listeners.next(), addresses.clone());
        setup.trust = trust.clone();
        let engine = Engine::start(setup).unwrap();
        let front = Front::new(engine.clone(), Arc::new(Gate::default()));
        Site { engine, front, trust }
    })
}

impl Site {
    /// Returns whether the site is connected to the other one.
    fn is_connected(&self) -> bool {
        self.engine.readings().traffic.iter().any(|peer| peer.version.is_some())
    }

    /// Asks for the lock, and waits for the answer.
    async fn ask(&self, wait: Wait) -> (Arc<meshlock_host::front::Acquisition<()>>, AcquireState) {
        let owner = Owner::Session(self.front.open_session(&self.front.in_process()));
        let wanted = AcquireParams { lock: "x".parse().unwrap(), wait, permits: None, cause: None };
        let asked = self.front.acquire(&self.front.in_process(), owner, wanted, ());
        let state = in_time("an answer", asked.until(|state| *state != AcquireState::Waiting)).await;
        (asked, state)
    }
}

fn look_at_both(a: &Site, b: &Site) {
    a.trust.look();
    b.trust.look();
}

#[test]
fn sites_whose_certificates_have_ended_are_apart_until_they_have_new_ones_and_no_lock_is_lost() {
    async_test(async {
        let (dir, ahead) = (tempfile::tempdir().unwrap(), Arc::new(AtomicU64::new(0)));
        let [a, b] = two_sites(dir.path(), &ahead);
        for site in [&a, &b] {
            in_time("the site can grant locks", site.front.until_ready()).await;
        }
        let (held, granted) = a.ask(Wait::Forever).await;
        assert!(matches!(granted, AcquireState::Held(_)), "{granted:?}");
        assert!(a.is_connected() && b.is_connected());

        ahead.store(9 * DAY, Ordering::Relaxed);
        look_at_both(&a, &b);
        assert!(a.is_connected() && b.is_connected(), "nothing has ended yet");
        ahead.store(11 * DAY, Ordering::Relaxed);
        look_at_both(&a, &b);
        eventually_async("the connection has ended", tokio::time::sleep, || {
            !a.is_connected() && !b.is_connected()
        })
        .await;

        for site in [&a, &b] {
            let renewed = identity(dir.path(), site.front.site(), 100);
            site.trust.replace_identity(&renewed).unwrap();
        }
        eventually_async("it is made anew", tokio::time::sleep, || a.is_connected() && b.is_connected())
            .await;
        assert_eq!(held.state(), granted, "it was held all the time");
        let (_, state) = b.ask(Wait::Try).await;
        assert_eq!(state, AcquireState::Ended(Ended::NotGranted(NotGranted::Busy)));
        held.release();
        let (_next, state) = b.ask(Wait::Forever).await;
        assert!(matches!(state, AcquireState::Held(_)), "{state:?}");
    });
}

#[test]
fn a_revoked_site_is_cut_off_and_cannot_come_back_while_it_is_listed() {
    async_test(async {
        let (dir, ahead) = (tempfile::tempdir().unwrap(), Arc::new(AtomicU64::new(0)));
        let [a, b] = two_sites(dir.path(), &ahead);
        for site in [&a, &b] {
            in_time("the site can grant locks", site.front.until_ready()).await;
        }
        let (_held, granted) = a.ask(Wait::Forever).await;
        assert!(matches!(granted, AcquireState::Held(_)), "{granted:?}");
        a.trust.set_revoked(Revoked::new(&["site/b"]).unwrap());
        eventually_async("the connection has ended", tokio::time::sleep, || {
            !a.is_connected() && !b.is_connected()
        })
        .await;
        // Also with another certificate.
        b.trust.replace_identity(&identity(dir.path(), b.front.site(), 100)).unwrap();
        let (_, state) = b.ask(Wait::Try).await;
        let is_unavailable =
            matches!(state, AcquireState::Ended(Ended::NotGranted(NotGranted::Unavailable(_))));
        assert!(is_unavailable, "nobody answers it who holds the lock: {state:?}");
        assert!(!a.is_connected() && !b.is_connected());
        a.trust.set_revoked(Revoked::default());
        eventually_async("it is let in again", tokio::time::sleep, || a.is_connected() && b.is_connected())
            .await;
    });
}
