//! Handshakes in memory, with certificates made for the purpose.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::Connection;
use rustls::pki_types::UnixTime;
use tempfile::TempDir;

use super::*;
use meshlock_cluster::names::SiteName;

fn site(name: &str) -> Bearer {
    Bearer::Site(name.parse().unwrap())
}

fn client(name: &str) -> Bearer {
    Bearer::Client(name.parse().unwrap())
}

fn named(name: &str) -> SiteName {
    name.parse().unwrap()
}

fn authority() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    ca::init(dir.path(), ca::AUTHORITY_DAYS).unwrap();
    dir
}

fn issued(dir: &Path, bearer: &Bearer) -> Identity {
    Identity::load(&ca::issue(dir, bearer, ca::BEARER_DAYS).unwrap()).unwrap()
}

/// What both sides get when `caller` calls `wanted` and `called` answers.
fn shake(
    caller: &Identity,
    wanted: &str,
    called: &Identity,
) -> (Result<(), TlsError>, Result<Bearer, TlsError>) {
    shake_hands(caller.call(&named(wanted)).unwrap(), called.answer().unwrap())
}

fn shake_hands(
    mut calling: Connection,
    mut called: Connection,
) -> (Result<(), TlsError>, Result<Bearer, TlsError>) {
    let (mut caller, mut answerer) = (Ok(()), Ok(()));
    for _ in 0..4 {
        answerer = answerer.and_then(|()| pass(&mut calling, &mut called));
        caller = caller.and_then(|()| pass(&mut called, &mut calling));
    }
    assert!(caller.is_err() || !calling.is_handshaking(), "the caller is done");
    assert!(answerer.is_err() || caller.is_err() || !called.is_handshaking(), "so is the other side");
    (caller, answerer.and_then(|()| bearer_of(&called)))
}

/// Moves pending bytes from one side to the other.
fn pass(from: &mut Connection, to: &mut Connection) -> Result<(), TlsError> {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).unwrap();
    }
    receive(to, &wire)
}

fn receive(connection: &mut Connection, mut wire: &[u8]) -> Result<(), TlsError> {
    while !wire.is_empty() {
        connection.read_tls(&mut wire).unwrap();
        let processed = connection.process_new_packets();
        processed.map_err(|error| TlsError::of(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    }
    Ok(())
}

#[test]
fn two_sites_know_each_other_by_name() {
    let dir = authority();
    let (a, b) = (issued(dir.path(), &site("a")), issued(dir.path(), &site("B_2.eu")));
    let (caller, called) = shake(&a, "B_2.eu", &b);
    assert_eq!((caller.unwrap(), called.unwrap()), ((), site("a")));
}

#[test]
fn another_site_at_the_address_is_refused_by_the_caller() {
    let dir = authority();
    let (a, b) = (issued(dir.path(), &site("a")), issued(dir.path(), &site("b")));
    let (caller, called) = shake(&a, "c", &b);
    let error = caller.unwrap_err().to_string();
    assert_eq!(
        error,
        "the site 'b' answers where the site 'c' should; look at its address in the configuration"
    );
    assert!(matches!(called.unwrap_err(), TlsError::Refused(_)));
}

#[test]
fn a_client_may_call_but_is_never_taken_for_a_site() {
    let dir = authority();
    let (a, other) = (issued(dir.path(), &site("a")), issued(dir.path(), &client("a")));
    let (caller, called) = shake(&other, "a", &a);
    assert_eq!((caller.unwrap(), called.unwrap()), ((), client("a")));
    let (caller, called) = shake(&a, "a", &other);
    let error = caller.unwrap_err();
    assert!(matches!(error, TlsError::Peer(CertificateFault::Use)), "{error}");
    assert!(matches!(called.unwrap_err(), TlsError::Refused(_)));
}

#[test]
fn whoever_looks_for_any_site_learns_which_it_is_and_takes_no_client_for_one() {
    let dir = authority();
    let (a, other) = (issued(dir.path(), &site("a")), issued(dir.path(), &client("a")));
    let mut calling = other.call_any_site().unwrap();
    let mut called = a.answer().unwrap();
    for _ in 0..4 {
        pass(&mut calling, &mut called).unwrap();
        pass(&mut called, &mut calling).unwrap();
    }
    assert_eq!(site_of(&calling).unwrap(), named("a"));
    assert_eq!(client_of(&called).unwrap().to_string(), "a");
    let (caller, _) = shake_hands(a.call_any_site().unwrap(), other.answer().unwrap());
    assert!(matches!(caller.unwrap_err(), TlsError::Peer(CertificateFault::Use)));
    // A site is not a client either.
    let (_, called) = shake(&a, "a", &a);
    assert_eq!(called.unwrap(), site("a"));
    let mut calling = a.call_any_site().unwrap();
    let mut called = a.answer().unwrap();
    for _ in 0..4 {
        pass(&mut calling, &mut called).unwrap();
        pass(&mut called, &mut calling).unwrap();
    }
    assert!(matches!(client_of(&called).unwrap_err(), TlsError::NotAClient { .. }));
}

#[test]
fn certificates_of_another_authority_are_refused_by_both_sides() {
    let (ours, theirs) = (authority(), authority());
    let (a, b) = (issued(ours.path(), &site("a")), issued(theirs.path(), &site("b")));
    let (caller, _) = shake(&a, "b", &b);
    let error = caller.unwrap_err();
    assert!(matches!(error, TlsError::Peer(CertificateFault::OtherAuthority)), "{error}");

    // A site that trusts both authorities dials one that does not.
    let files = Files::in_directory(&ours.path().join("site-a"));
    let both =
        [&files.authority, &theirs.path().join("ca.pem")].map(|file| fs::read_to_string(file).unwrap());
    fs::write(&files.authority, both.concat()).unwrap();
    let (caller, called) = shake(&Identity::load(&files).unwrap(), "b", &b);
    let error = called.unwrap_err();
    assert!(matches!(error, TlsError::Peer(CertificateFault::OtherAuthority)), "{error}");
    let error = caller.unwrap_err().to_string();
    assert_eq!(error, "the peer refuses this side's certificate: the peer has another authority's ca.pem");
}

/// A clock that is this many days ahead.
#[derive(Debug)]
struct Ahead(u64);

impl rustls::time_provider::TimeProvider for Ahead {
    fn current_time(&self) -> Option<UnixTime> {
        let ahead = Duration::from_secs(self.0 * 24 * 3600);
        Some(UnixTime::since_unix_epoch(Duration::from_secs(UnixTime::now().as_secs()) + ahead))
    }
}

#[test]
fn an_expired_certificate_is_refused_by_both_sides() {
    let dir = authority();
    let [old, new] = [("old", 10), ("new", 30)]
        .map(|(name, days)| Identity::load(&ca::issue(dir.path(), &site(name), days).unwrap()).unwrap());
    let hands = |caller: &Identity, wanted: &str, called: &Identity| {
        let (mut calling, mut answering) = (caller.calling(Some(&named(wanted))), called.called());
        calling.time_provider = Arc::new(Ahead(20));
        answering.time_provider = Arc::new(Ahead(20));
        let calling = connect::begin_call(Arc::new(calling)).unwrap();
        shake_hands(calling, connect::begin_answer(Arc::new(answering)).unwrap())
    };
    let (caller, called) = hands(&new, "old", &old);
    let error = caller.unwrap_err();
    assert!(matches!(error, TlsError::Peer(CertificateFault::Expired { .. })), "{error}");
    let error = called.unwrap_err().to_string();
    assert_eq!(error, "the peer refuses this side's certificate: it has expired, by the peer's clock");

    let (caller, called) = hands(&old, "new", &new);
    assert!(matches!(caller.unwrap_err(), TlsError::Refused(why) if why.contains("expired")));
    let error = called.unwrap_err().to_string();
    assert!(error.starts_with("the peer's certificate: it has expired; issue a new one"), "{error}");
}

#[test]
fn a_certificate_is_judged_by_the_time_it_is_looked_at() {
    let dir = authority();
    let files = ca::issue(dir.path(), &site("a"), 10).unwrap();
    let bytes = std::fs::read(&files.authority).unwrap();
    let authority = identity::authority_in(&files.authority, &bytes).unwrap();
    let certificate = identity::certificates(&files.certificate).unwrap().remove(0);
    let now = UnixTime::now().as_secs();
    let at = |seconds: u64| {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        authority.judge(&certificate, &[], ShownBy::Caller, time)
    };
    let accepted = at(now).unwrap();
    assert_eq!(accepted.bearer, site("a"));
    assert!(accepted.until().as_secs().abs_diff(now + 10 * 24 * 3600) < 60, "{accepted:?}");
    let error = at(now + 15 * 24 * 3600).unwrap_err().to_string();
    assert!(error.starts_with("it has expired 5 days ago; issue a new one"), "{error}");
    let error = at(now - 5 * 24 * 3600).unwrap_err().to_string();
    assert!(error.starts_with("it is not valid yet, but in 4 days; set the clocks"), "{error}");
}

#[test]
fn who_does_not_speak_tls_gets_an_error_and_not_a_connection() {
    let dir = authority();
    let mut called = issued(dir.path(), &site("a")).answer().unwrap();
    let error = receive(&mut called, b"GET / HTTP/1.1\r\n\r\n").unwrap_err();
    assert!(matches!(error, TlsError::OtherProtocol(_)), "{error}");
    assert!(error.to_string().contains("is it set to plain TCP?"), "{error}");
    assert!(matches!(bearer_of(&called), Err(TlsError::Anonymous)));
}

#[test]
fn who_shows_no_certificate_is_refused() {
    let dir = authority();
    let a = issued(dir.path(), &site("a"));
    let mut anonymous = a.calling(Some(&named("a")));
    anonymous.client_auth_cert_resolver = Arc::new(Nobody);
    let calling = connect::begin_call(Arc::new(anonymous)).unwrap();
    let (caller, called) = shake_hands(calling, a.answer().unwrap());
    let error = called.unwrap_err();
    assert!(matches!(error, TlsError::Anonymous), "{error}");
    assert_eq!(
        caller.unwrap_err().to_string(),
        "the peer refuses this side's certificate: the peer got none"
    );
}

#[test]
fn where_only_sites_may_be_a_client_is_refused_by_name() {
    let dir = authority();
    let (a, laptop) = (issued(dir.path(), &site("a")), issued(dir.path(), &client("laptop")));
    let (mut calling, mut called) = (laptop.call(&named("a")).unwrap(), a.answer().unwrap());
    for _ in 0..4 {
        pass(&mut calling, &mut called).unwrap();
        pass(&mut called, &mut calling).unwrap();
    }
    assert_eq!(site_of(&calling).unwrap(), named("a"));
    let error = site_of(&called).unwrap_err().to_string();
    assert!(error.starts_with("the peer is the client 'laptop', and only sites may call here"), "{error}");
}

#[derive(Debug)]
struct Nobody;

impl rustls::client::ResolvesClientCert for Nobody {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[test]
fn keys_are_for_their_owner_only_and_nothing_is_overwritten() {
    let dir = authority();
    let files = ca::issue(dir.path(), &site("a"), 30).unwrap();
    for key in [dir.path().join("ca-key.pem"), files.key.clone()] {
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600, "{}", key.display());
    }
    let before = fs::read(&files.key).unwrap();
    let error = ca::issue(dir.path(), &site("a"), 30).unwrap_err();
    assert!(matches!(error, ca::CaError::Exists { .. }), "{error}");
    let error = ca::init(dir.path(), 30).unwrap_err();
    assert!(error.to_string().contains("ca.pem exists, and is never overwritten; move it away"), "{error}");
    assert_eq!(fs::read(&files.key).unwrap(), before);
}

#[test]
fn a_site_whose_name_is_a_path_gets_a_directory_inside_all_the_same() {
    let dir = authority();
    let files = ca::issue(dir.path(), &site(".."), 30).unwrap();
    assert_eq!(files.key, dir.path().join("site-../key.pem"));
    assert_eq!(Identity::load(&files).unwrap().bearer(), &site(".."));
}

#[test]
fn the_key_of_another_authority_issues_nothing() {
    let (ours, theirs) = (authority(), authority());
    fs::copy(theirs.path().join("ca-key.pem"), ours.path().join("ca-key.pem")).unwrap();
    let error = ca::issue(ours.path(), &site("a"), 30).unwrap_err().to_string();
    assert!(error.contains("it is not from this cluster's authority"), "{error}");
    assert!(!ours.path().join("site-a").exists(), "nothing is left behind");
}

#[test]
fn files_that_cannot_be_an_identity_are_named() {
    let dir = authority();
    let a = ca::issue(dir.path(), &site("a"), 30).unwrap();
    let b = ca::issue(dir.path(), &site("b"), 30).unwrap();
    let says = |files: Files, text: &str| {
        let error = Identity::load(&files).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    says(Files { key: dir.path().join("none"), ..a.clone() }, "none: cannot be read: No such file");
    says(Files { key: b.key.clone(), ..a.clone() }, "site-b/key.pem: not the key of ");
    says(Files { certificate: a.key.clone(), ..a.clone() }, "key.pem: no certificate in PEM form is in it");
    says(Files { certificate: a.authority.clone(), ..a.clone() }, "ca.pem");
    fs::write(&b.key, "no key").unwrap();
    says(Files { key: b.key.clone(), ..a.clone() }, "key.pem: no private key in PEM form is in it");
    fs::set_permissions(&a.key, fs::Permissions::from_mode(0o660)).unwrap();
    says(a.clone(), "the group of the file can replace this key; `chmod 600 ");
    fs::set_permissions(&a.key, fs::Permissions::from_mode(0o644)).unwrap();
    says(a, "everyone on this machine can read this key; `chmod 600 ");
}

#[test]
fn an_error_of_a_stream_that_is_not_about_tls_stays_what_it_is() {
    let error = TlsError::of(io::Error::from(io::ErrorKind::ConnectionReset));
    assert!(matches!(error, TlsError::Io(error) if error.kind() == io::ErrorKind::ConnectionReset));
}

/// Seconds of this many days.
fn days(days: u64) -> u64 {
    days * 24 * 3600
}

fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

/// The certificates in a file, as a peer shows them.
fn chain_of(files: &Files) -> Vec<rustls::pki_types::CertificateDer<'static>> {
    identity::certificates(&files.certificate).unwrap()
}

#[test]
fn nothing_can_be_relied_on_for_longer_than_its_authority() {
    let dir = tempfile::tempdir().unwrap();
    ca::init(dir.path(), 20).unwrap();
    let files = ca::issue(dir.path(), &site("a"), 100).unwrap();
    let identity = Identity::load(&files).unwrap();
    let now = wall_clock().as_secs();
    let accepted = identity.judge(&chain_of(&files), ShownBy::Called, at(now)).unwrap();
    assert!(accepted.until().as_secs().abs_diff(now + days(20)) < 60, "{accepted:?}");
    assert!(accepted.ends.as_secs().abs_diff(now + days(100)) < 60, "{accepted:?}");
    let [own, authority] = identity.expiries();
    assert_eq!((own.at, authority.at), (accepted.ends, accepted.authority_ends));
    assert!(own.file.ends_with("cert.pem") && authority.file.ends_with("ca.pem"));
    let late =
        identity.judge(&chain_of(&files), ShownBy::Caller, at(now + days(30))).unwrap_err().to_string();
    assert!(late.contains("the authority that signed it has expired"), "{late}");
    // The last second counts.
    assert!(identity.judge(&chain_of(&files), ShownBy::Caller, accepted.until()).is_ok());
}

#[test]
fn an_authority_that_has_expired_is_no_obstacle_to_another_one() {
    let (old, new) = (tempfile::tempdir().unwrap(), authority());
    ca::init(old.path(), 20).unwrap();
    let files = ca::issue(new.path(), &site("a"), 100).unwrap();
    let both = [old.path().join("ca.pem"), new.path().join("ca.pem")];
    fs::write(&files.authority, both.map(|file| fs::read_to_string(file).unwrap()).concat()).unwrap();
    let identity = Identity::load(&files).unwrap();
    let later = at(wall_clock().as_secs() + days(30));
    assert!(identity.judge(&chain_of(&files), ShownBy::Caller, later).is_ok());
    let others = ca::issue(old.path(), &site("b"), 100).unwrap();
    assert!(identity.judge(&chain_of(&others), ShownBy::Caller, wall_clock()).is_ok(), "both are trusted");
    let error = identity.judge(&chain_of(&others), ShownBy::Caller, later).unwrap_err().to_string();
    assert!(error.contains("the authority that signed it has expired"), "{error}");
}

#[test]
fn too_many_authorities_are_refused() {
    let dir = authority();
    let files = ca::issue(dir.path(), &site("a"), 30).unwrap();
    let one = fs::read_to_string(&files.authority).unwrap();
    fs::write(&files.authority, one.repeat(17)).unwrap();
    let error = Identity::load(&files).unwrap_err().to_string();
    assert!(error.contains("17 certificates; at most 16 are allowed"), "{error}");
}

#[test]
fn a_revoked_peer_is_refused_and_both_sides_say_why() {
    let dir = authority();
    let [a, b] = ["a", "b"].map(|name| ca::issue(dir.path(), &site(name), 30).unwrap());
    let [a, b] = [a, b].map(|files| Identity::load(&files).unwrap());
    let serial = b.own().serial.clone();
    for entry in ["site/b".to_owned(), format!("serial/{serial}")] {
        let careful = a.refusing(Arc::new(Revoked::new(&[entry]).unwrap()));
        // The revoked site calls.
        let (caller, called) = shake(&b, "a", &careful);
        assert!(matches!(called.unwrap_err(), TlsError::PeerRevoked));
        let error = caller.unwrap_err().to_string();
        assert!(error.contains("refuses this side's certificate: it is revoked"), "{error}");
        // The revoked site is called.
        let (caller, called) = shake(&careful, "b", &b);
        assert!(matches!(caller.unwrap_err(), TlsError::PeerRevoked));
        assert!(called.unwrap_err().to_string().contains("it is revoked"));
    }
    let careful = a.refusing(Arc::new(Revoked::new(&["client/b", "serial/00"]).unwrap()));
    let (caller, called) = shake(&b, "a", &careful);
    assert_eq!((caller.unwrap(), called.unwrap()), ((), site("b")));
}

#[test]
fn a_client_that_connects_again_uses_what_its_files_have_by_then() {
    let dir = authority();
    let files = ca::issue(dir.path(), &client("ci"), 30).unwrap();
    let before = Identity::load(&files).unwrap();
    assert_eq!(before.renewed().own(), before.own());
    fs::rename(dir.path().join("client-ci"), dir.path().join("before")).unwrap();
    assert_eq!(before.renewed().own(), before.own(), "there are no files");
    ca::issue(dir.path(), &client("ci"), 60).unwrap();
    let after = before.renewed();
    assert!(after.own().ends > before.own().ends && after.renewed().own() == after.own());
    fs::write(&files.certificate, "nonsense").unwrap();
    assert_eq!(after.renewed().own(), after.own());
    let other = ca::issue(dir.path(), &client("other"), 90).unwrap();
    fs::copy(other.certificate, &files.certificate).unwrap();
    fs::copy(other.key, &files.key).unwrap();
    assert_eq!(after.renewed().own(), after.own(), "it does not become somebody else");
    let [authority, certificate, key] =
        ["ca.pem", "cert.pem", "key.pem"].map(|file| fs::read(dir.path().join("before").join(file)).unwrap());
    let in_memory = Identity::from_pem(&authority, &certificate, &key).unwrap();
    assert_eq!(in_memory.renewed().own(), before.own());
}

#[test]
fn hostile_files_are_errors_and_never_a_panic() {
    let dir = authority();
    let files = ca::issue(dir.path(), &site("a"), 30).unwrap();
    let [authority, certificate, key] =
        [&files.authority, &files.certificate, &files.key].map(|file| fs::read(file).unwrap());
    for (which, good) in [&authority, &certificate, &key].into_iter().enumerate() {
        for at in (0..good.len()).step_by(7) {
            let mut changed = good.clone();
            changed[at] = changed[at].wrapping_add(1);
            for bad in [good[..at].to_vec(), changed] {
                let mut three = [authority.clone(), certificate.clone(), key.clone()];
                three[which] = bad;
                let _ = Identity::from_pem(&three[0], &three[1], &three[2]);
            }
        }
    }
    let header = b"-----BEGIN CERTIFICATE-----\n".repeat(1000);
    assert!(Identity::from_pem(&header, &certificate, &key).is_err());
    fs::write(&files.certificate, vec![b'-'; 1 << 19]).unwrap();
    assert!(Identity::load(&files).unwrap_err().to_string().contains("more than 262144 bytes"));
}
