//! Certificates that are replaced, end and are revoked while connections exist, on a clock of the test.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use meshlock_testing::{async_test, in_time};
use meshlock_tls::{Bearer, ExpiringPart, Files, ca};
use tempfile::TempDir;
use tokio::time::Instant;

use super::watch::Warnings;
use super::*;

const DAY: u64 = 24 * 3600;

/// An authority, and the trust of the site `a` on a clock that the test moves.
struct Bench {
    dir: TempDir,
    files: Files,
    ahead: Arc<AtomicU64>,
    trust: Trust,
}

fn issue(dir: &Path, bearer: &str, days: u32) -> Files {
    let bearer = match bearer.split_once('/') {
        Some(("site", name)) => Bearer::Site(name.parse().unwrap()),
        Some((_, name)) => Bearer::Client(name.parse().unwrap()),
        None => panic!("site/NAME or client/NAME"),
    };
    ca::issue(dir, &bearer, days).unwrap()
}

/// Puts the files of another directory in the place of these.
fn replace(files: &Files, by: &Files) {
    for (from, to) in
        [(&by.authority, &files.authority), (&by.certificate, &files.certificate), (&by.key, &files.key)]
    {
        let next = to.with_extension("next");
        fs::copy(from, &next).unwrap();
        fs::rename(&next, to).unwrap();
    }
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        ca::init(dir.path(), 3650).unwrap();
        let files = issue(dir.path(), "site/a", 100);
        let ahead = Arc::new(AtomicU64::new(0));
        let moved = ahead.clone();
        let clock = move || {
            let ahead = moved.load(Ordering::Relaxed);
            UnixTime::since_unix_epoch(Duration::from_secs(wall_clock().as_secs() + ahead))
        };
        let security = Security::Tls(Identity::load(&files).unwrap());
        let trust = Trust::with_clock(security, Arc::new(clock));
        Bench { dir, files, ahead, trust }
    }

    fn set_days_ahead(&self, days: u64) {
        self.ahead.store(days * DAY, Ordering::Relaxed);
    }

    /// Registers a connection of somebody with a certificate for this many days.
    fn connect(&self, bearer: &str, days: u32) -> (Watched, Arc<Ending>) {
        self.try_connect(&issue(self.dir.path(), bearer, days)).unwrap()
    }

    fn try_connect(&self, files: &Files) -> Result<(Watched, Arc<Ending>), TlsError> {
        use rustls::pki_types::pem::PemObject;
        let chain: Vec<_> =
            CertificateDer::pem_file_iter(&files.certificate).unwrap().map(Result::unwrap).collect();
        let ending = Arc::default();
        let watched = self.trust.register(Some(&chain), ShownBy::Caller, &ending)?;
        Ok((watched, ending))
    }

    fn registered(&self) -> usize {
        self.trust.connections().len()
    }
}

/// Returns why a connection was ended; `None` if it was not.
fn ended(ending: &Ending) -> Option<String> {
    ending.reason().map(ToString::to_string)
}

#[test]
fn a_connection_ends_with_its_certificate_and_not_before() {
    let bench = Bench::new();
    let (_short, short) = bench.connect("client/short", 10);
    let (_long, long) = bench.connect("site/long", 90);
    bench.set_days_ahead(9);
    bench.trust.look();
    assert_eq!((ended(&short), ended(&long)), (None, None));
    bench.set_days_ahead(11);
    bench.trust.look();
    let why = ended(&short).unwrap();
    assert!(
        why.starts_with("the certificate of the client 'short' is not accepted any more: it has expired"),
        "{why}"
    );
    assert_eq!(ended(&long), None);
    let error = bench.try_connect(&issue(bench.dir.path(), "client/late", 5)).unwrap_err().to_string();
    assert!(error.contains("it has expired 6 days ago"), "{error}");
    // A clock that is set back ends nothing, and what has ended stays ended.
    bench.set_days_ahead(0);
    bench.trust.look();
    assert!(ended(&short).is_some() && ended(&long).is_none());
}

#[test]
fn a_connection_ends_with_its_authority() {
    let bench = Bench::new();
    let (_peer, ending) = bench.connect("site/b", 20_000);
    bench.set_days_ahead(3600);
    bench.trust.look();
    assert_eq!(ended(&ending), None);
    bench.set_days_ahead(3651);
    bench.trust.look();
    let why = ended(&ending).unwrap();
    assert!(why.contains("the authority that signed it has expired"), "{why}");
}

#[test]
fn the_task_of_a_connection_is_woken_when_it_must_end() {
    async_test(async {
        let bench = Bench::new();
        let (_peer, ending) = bench.connect("client/c", 10);
        let end = async {
            bench.set_days_ahead(11);
            bench.trust.look();
        };
        // The first of the two waits when the second one begins.
        let both = async { tokio::join!(ending.happened(), end) };
        let (why, ()) = in_time("it is told", both).await;
        assert!(why.to_string().contains("has expired"));
    });
}

#[test]
fn revoked_peers_are_ended_and_refused_by_name_serial_number_and_token() {
    let bench = Bench::new();
    let files = issue(bench.dir.path(), "client/ci", 50);
    let (_by_name, by_name) = bench.try_connect(&files).unwrap();
    let (_by_serial, by_serial) = bench.connect("client/laptop", 50);
    let (_other, other) = bench.connect("site/ci", 50);
    let (by_token, token_ended) = bench.connect("client/proxy", 50);
    by_token.note_token(&"bot".parse().unwrap(), None);
    let laptop = Identity::load(&Files::in_directory(&bench.dir.path().join("client-laptop"))).unwrap();
    let serial = format!("serial/{}", laptop.own().serial);
    let list = ["client/ci".to_owned(), serial, "client/bot".to_owned()];
    bench.trust.set_revoked(Revoked::new(&list).unwrap());
    assert!(ended(&by_name).unwrap().contains("the entry 'client/ci'"));
    assert!(ended(&by_serial).unwrap().contains("the entry 'serial/"));
    assert!(ended(&token_ended).unwrap().starts_with("'bot' is revoked"));
    assert_eq!(ended(&other), None, "the site has the name of the client");
    let error = bench.try_connect(&files).unwrap_err().to_string();
    assert!(error.contains("the entry 'client/ci'"), "{error}");
    // A reload does not forget the list.
    bench.trust.reload().unwrap();
    assert!(bench.try_connect(&files).is_err());
    bench.trust.set_revoked(Revoked::default());
    assert!(bench.try_connect(&files).is_ok());
}

#[test]
fn a_connection_ends_with_its_token() {
    let bench = Bench::new();
    let (watched, ending) = bench.connect("client/proxy", 50);
    let (name, now) = ("bot".parse().unwrap(), bench.trust.now().as_secs());
    watched.note_token(&name, Some(now + DAY));
    watched.note_token(&name, Some(now + 3 * DAY));
    bench.set_days_ahead(2);
    bench.trust.look();
    assert_eq!(ended(&ending), None, "a later token has taken its place");
    bench.set_days_ahead(3);
    bench.trust.look();
    assert!(ended(&ending).unwrap().starts_with("the token of 'bot' has expired"));
}

#[test]
fn a_connection_that_is_gone_is_forgotten() {
    let bench = Bench::new();
    let (watched, _) = bench.connect("client/c", 10);
    assert_eq!(bench.registered(), 1);
    drop(watched);
    assert_eq!(bench.registered(), 0);
}

#[test]
fn new_files_are_used_at_the_second_look_and_existing_connections_stay() {
    let bench = Bench::new();
    let (_peer, ending) = bench.connect("client/c", 50);
    assert!(bench.trust.look_at_files().is_none());
    let other = tempfile::tempdir().unwrap();
    ca::init(other.path(), 3650).unwrap();
    let next = issue(other.path(), "site/a", 200);
    replace(&bench.files, &next);
    assert!(bench.trust.look_at_files().is_none(), "it may be in the middle of being replaced");
    let reloaded = bench.trust.look_at_files().unwrap().unwrap();
    assert_eq!(reloaded.expiries[0].at, Identity::load(&next).unwrap().own().ends);
    assert_eq!(reloaded.left.iter().map(ToString::to_string).collect::<Vec<_>>(), ["the client 'c'"]);
    assert!(bench.trust.look_at_files().is_none());
    bench.trust.look();
    assert_eq!(ended(&ending), None);
    // New connections are judged by the new authority.
    assert!(bench.try_connect(&issue(bench.dir.path(), "client/d", 50)).is_err());
    assert!(bench.try_connect(&issue(other.path(), "client/e", 50)).is_ok());
}

#[test]
fn files_that_cannot_be_used_change_nothing_and_are_complained_about_once() {
    let bench = Bench::new();
    let before = bench.trust.expiries();
    let good = fs::read(&bench.files.certificate).unwrap();
    let others = issue(bench.dir.path(), "site/b", 50);
    let looks = |says: &str| {
        assert!(bench.trust.look_at_files().is_none());
        let error = bench.trust.look_at_files().unwrap().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(!error.contains("PRIVATE"), "{error}");
        assert!(bench.trust.look_at_files().is_none(), "once");
        assert_eq!(bench.trust.expiries(), before);
        let error = bench.trust.reload().unwrap_err().to_string();
        assert!(error.contains(says), "asked to, it says so again: {error}");
    };
    fs::write(&bench.files.certificate, "nonsense").unwrap();
    looks("cert.pem: no certificate in PEM form is in it");
    fs::copy(&others.certificate, &bench.files.certificate).unwrap();
    looks("key.pem: not the key of ");
    replace(&bench.files, &others);
    looks("cert.pem: it is the certificate of the site 'b', and this is the site 'a'; give it its own");
    fs::remove_file(&bench.files.certificate).unwrap();
    looks("cert.pem: cannot be read: No such file");
    let again = issue_again(&bench);
    replace(&bench.files, &again);
    assert!(bench.trust.look_at_files().is_none());
    assert!(bench.trust.look_at_files().unwrap().is_ok(), "as soon as they are good they are used");
    assert_ne!(fs::read(&bench.files.certificate).unwrap(), good);
}

/// Issues another certificate to the site `a`.
fn issue_again(bench: &Bench) -> Files {
    fs::rename(bench.dir.path().join("site-a"), bench.dir.path().join("old-a")).unwrap();
    let next = issue(bench.dir.path(), "site/a", 100);
    let kept = bench.dir.path().join("next-a");
    fs::rename(bench.dir.path().join("site-a"), &kept).unwrap();
    fs::rename(bench.dir.path().join("old-a"), bench.dir.path().join("site-a")).unwrap();
    drop(next);
    Files::in_directory(&kept)
}

#[test]
fn a_site_without_files_or_without_tls_says_why_nothing_can_be_read() {
    let bench = Bench::new();
    let [authority, certificate, key] = [&bench.files.authority, &bench.files.certificate, &bench.files.key]
        .map(|file| fs::read(file).unwrap());
    let identity = Identity::from_pem(&authority, &certificate, &key).unwrap();
    let trust = Trust::new(Security::Tls(identity.clone()));
    assert!(trust.look_at_files().is_none());
    assert!(matches!(trust.reload(), Err(ReloadError::NoFiles)));
    assert!(trust.replace_identity(&identity).is_ok());
    let plain = Trust::default();
    assert!(matches!(plain.reload(), Err(ReloadError::Plain)) && plain.expiries().is_empty());
    assert!(matches!(plain.replace_identity(&identity), Err(ReloadError::Plain)));
}

#[test]
fn a_client_whose_certificate_ends_soon_is_warned_about_once_a_day() {
    let bench = Bench::new();
    let start = Instant::now();
    let is_warned = |bearer: &str, days: u32, hours: u64| {
        let files = issue(bench.dir.path(), bearer, days);
        let accepted = Identity::load(&files).unwrap().own().clone();
        fs::remove_dir_all(files.key.parent().unwrap()).unwrap();
        let at = start + Duration::from_hours(hours);
        bench.trust.connections().warning(&accepted, bench.trust.now(), at).map(|warning| warning.to_string())
    };
    assert_eq!(is_warned("client/ci", 40, 0), None);
    assert_eq!(is_warned("site/b", 5, 0), None, "sites say it themselves");
    let warning = is_warned("client/ci", 5, 0).unwrap();
    assert!(
        warning.starts_with("at the client: the certificate of the client 'ci' ends in 5 days"),
        "{warning}"
    );
    assert_eq!(is_warned("client/ci", 5, 23), None);
    assert!(is_warned("client/other", 5, 23).is_some() && is_warned("client/ci", 5, 24).is_some());
}

#[test]
fn warnings_are_written_once_in_each_period_and_then_once_a_day() {
    let bench = Bench::new();
    let bearer = Bearer::Site("a".parse().unwrap());
    let own = bench.trust.expiries().remove(0);
    let (mut warnings, start) = (Warnings::default(), Instant::now());
    // Time of the clock that nobody sets, and how many days the wall clock is before the end.
    let mut is_due = |hours: u64, days_left: u64| {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(own.at.as_secs() - days_left * DAY));
        let warning = own.warning(&bearer, now);
        warnings.is_due(ExpiringPart::Own, warning.as_ref(), start + Duration::from_hours(hours))
    };
    assert!(!is_due(0, 40));
    assert!(is_due(1, 29));
    assert!(!is_due(2, 29) && !is_due(24, 28));
    assert!(is_due(25, 28), "a day later");
    assert!(is_due(26, 6), "the next period");
    assert!(!is_due(27, 29) && !is_due(28, 6), "a clock that jumps does not fill the log");
    assert!(is_due(29, 0));
    assert!(!is_due(30, 40), "replaced");
    assert!(is_due(31, 29));
}
