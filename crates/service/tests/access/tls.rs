//! The API with TLS: which clients are accepted, with clients that are not part of Meshlock.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use meshlock_cluster::access::Verb;
use meshlock_cluster::node::Config;
use meshlock_host::front::Front;
use meshlock_host::gate::{Each, Policy};
use meshlock_host::{Engine, NodeSetup, Trust};
use meshlock_service::{ApiLimits, Serving};
use meshlock_testing::{BoundedCommand, needs_program};
use meshlock_tls::Security;
use meshlock_tls::ca::{self, BEARER_DAYS};
use meshlock_tls::{Bearer, Files, Identity, UnixTime, wall_clock};

use crate::{gate, policy};

pub(crate) struct Protected {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) site: Files,
    pub(crate) client: Files,
    pub(crate) serving: Serving,
    pub(crate) engine: Engine,
    /// By how many seconds the clock that certificates are judged by is ahead.
    pub(crate) ahead: Arc<AtomicU64>,
}

pub(crate) fn issue(dir: &Path, bearer: &Bearer) -> Files {
    let hosts: &[String] = if matches!(bearer, Bearer::Site(_)) { &["127.0.0.1".to_owned()] } else { &[] };
    ca::issue_for(dir, bearer, hosts, BEARER_DAYS).unwrap()
}

impl Protected {
    pub(crate) fn start() -> Self {
        Protected::with(policy(&[("ci", "*", &[Verb::Acquire, Verb::Watch])], &[]))
    }

    pub(crate) fn with(policy: Policy) -> Self {
        let dir = tempfile::tempdir().unwrap();
        ca::init(dir.path(), BEARER_DAYS).unwrap();
        let name: meshlock_cluster::names::SiteName = "local".parse().unwrap();
        let site = issue(dir.path(), &Bearer::Site(name.clone()));
        let client = issue(dir.path(), &Bearer::Client("ci".parse().unwrap()));
        let mut setup = NodeSetup::new(Config::new(name.clone(), vec![name]));
        let ahead = Arc::new(AtomicU64::new(0));
        let moved = ahead.clone();
        let clock = move || {
            let ahead = moved.load(Ordering::Relaxed);
            UnixTime::since_unix_epoch(Duration::from_secs(wall_clock().as_secs() + ahead))
        };
        let security = Security::Tls(Identity::load(&site).unwrap());
        setup.trust = Trust::with_clock(security, Arc::new(clock));
        let engine = Engine::start(setup).unwrap();
        // With TLS it may listen on all addresses.
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let setup = meshlock_service::ApiSetup { listener, limits: ApiLimits::default() };
        let serving =
            Serving::start(&Front::new((*engine).clone(), gate(policy, Each::default())), setup).unwrap();
        Protected { dir, site, client, serving, engine, ahead }
    }

    pub(crate) fn curl(&self, who: Option<&Files>, token: Option<&str>) -> Output {
        self.ask(who, token, "/v1/locks/a/acquire", &["-d", "{}"])
    }

    fn ask(&self, who: Option<&Files>, token: Option<&str>, path: &str, more: &[&str]) -> Output {
        self.command(who, token, path, more).output_in_time()
    }

    /// Returns the command that makes a call.
    pub(crate) fn command(
        &self,
        who: Option<&Files>,
        token: Option<&str>,
        path: &str,
        more: &[&str],
    ) -> Command {
        let url = format!("https://127.0.0.1:{}{path}", self.serving.address().port());
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "60", &url]).args(more).arg("--cacert").arg(&self.client.authority);
        if let Some(files) = who {
            curl.arg("--cert").arg(&files.certificate).arg("--key").arg(&files.key);
        }
        if let Some(token) = token {
            curl.args(["-H", &format!("Authorization: Bearer {token}")]);
        }
        curl
    }
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_client_with_a_certificate_and_a_rule_is_served_and_nobody_else() {
    if !needs_program("curl") {
        return;
    }
    let api = Protected::start();
    let served = api.curl(Some(&api.client), None);
    assert!(text(&served).contains("\"fence\""), "{served:?}");
    assert!(!api.curl(None, None).status.success(), "nobody knows who that is");
    assert!(!api.curl(None, Some("a guess")).status.success(), "there are no tokens here");
    let site = api.curl(Some(&api.site), None);
    assert!(text(&site).contains("sites are not clients"), "{site:?}");
    let other = Protected::start();
    assert!(!api.curl(Some(&other.client), None).status.success(), "another cluster's client");
}

#[test]
fn without_rules_a_certificate_is_not_enough_and_the_error_names_the_remedy() {
    if !needs_program("curl") {
        return;
    }
    let api = Protected::with(Policy::default());
    let refused = api.curl(Some(&api.client), None);
    let said = text(&refused);
    assert!(said.contains("\"denied\"") && said.contains("'ci' may not acquire"), "{said}");
    assert!(said.contains("this site has no [[access]] rules"), "{said}");
    let health = api.ask(Some(&api.client), None, "/healthz", &[]);
    assert!(text(&health).contains("\"ok\":true"), "{health:?}");
}

#[test]
fn a_token_replaces_a_certificate_and_an_invalid_token_is_refused_even_with_one() {
    if !needs_program("curl") {
        return;
    }
    let api = Protected::with(policy(
        &[("ci", "*", &[Verb::Acquire]), ("bot", "b", &[Verb::Acquire])],
        &[("bot", "a token of some length")],
    ));
    let token = Some("a token of some length");
    let denied = api.curl(None, token);
    assert!(text(&denied).contains("'bot' may not acquire 'a'"), "{denied:?}");
    let served = api.ask(None, token, "/v1/locks/b/acquire", &["-d", "{}"]);
    assert!(text(&served).contains("\"fence\""), "{served:?}");
    for (who, token) in [(None, None), (None, Some("a guess")), (Some(&api.client), Some("a guess"))] {
        let refused = api.curl(who, token);
        assert!(text(&refused).contains("\"unauthenticated\""), "{refused:?}");
        assert!(!text(&refused).contains("a guess"), "nobody says a token again");
    }
    // A client with both is the principal of its token; a site's certificate is never accepted.
    let both = api.curl(Some(&api.client), token);
    assert!(text(&both).contains("'bot' may not acquire 'a'"), "{both:?}");
    let site = api.curl(Some(&api.site), token);
    assert!(text(&site).contains("sites are not clients"), "{site:?}");
    let health = api.ask(None, None, "/healthz", &[]);
    assert!(text(&health).contains("\"ok\":true"), "{health:?}");
    // How many voters are up is for everyone, and who they are is not.
    for (who, shows_names) in [(None, false), (Some(&api.client), true)] {
        for path in ["/healthz?cluster", "/readyz"] {
            let probe = api.ask(who, None, path, &[]);
            let said = text(&probe);
            assert!(said.contains("\"failures_survived\":0"), "{path}: {said}");
            assert_eq!(said.contains("\"missing\":[]"), shows_names, "{path}: {said}");
        }
    }
}

/// Returns the output of `etcdctl lock jobs -- echo held` with these flags; `None` if it is not installed, and the test is skipped.
fn etcdctl(api: &Protected, flags: &[&str]) -> Option<Output> {
    if !needs_program("etcdctl") {
        return None;
    }
    let mut command = Command::new("etcdctl");
    command.arg("--endpoints");
    // The user of this machine may have set these variables.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("ETCDCTL_")) {
            command.env_remove(name);
        }
    }
    command.arg(format!("https://127.0.0.1:{}", api.serving.address().port()));
    command.arg("--cacert").arg(&api.client.authority).args(flags);
    command.args(["lock", "jobs", "--", "echo", "held"]).env("ETCDCTL_API", "3");
    Some(command.output_in_time())
}

#[test]
fn etcdctl_locks_over_tls() {
    let api = Protected::start();
    let (certificate, key) = (api.client.certificate.to_str().unwrap(), api.client.key.to_str().unwrap());
    let Some(held) = etcdctl(&api, &["--cert", certificate, "--key", key]) else { return };
    assert_eq!(text(&held).trim(), "held", "{held:?}");
}

#[test]
fn etcdctl_locks_with_a_token_as_the_password() {
    let rules: &[(&str, &str, &[Verb])] = &[("bot", "jobs", &[Verb::Acquire])];
    let api = Protected::with(policy(rules, &[("bot", "a-token"), ("other", "another-token")]));
    let Some(held) = etcdctl(&api, &["--user", "bot:a-token"]) else { return };
    assert_eq!(text(&held).trim(), "held", "{held:?}");
    for (user, says) in [
        ("bot:a-guess", "authentication failed"),
        ("other:a-token", "authentication failed"),
        ("other:another-token", "'other' may not acquire"),
    ] {
        let refused = etcdctl(&api, &["--user", user]).unwrap();
        assert!(!refused.status.success() && text(&refused).is_empty(), "{user}: {refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(says), "{user}: {refused:?}");
    }
}

#[test]
fn the_python_client_locks_over_tls_and_releases_explicitly() {
    if !needs_program("python3") {
        return;
    }
    let api = Protected::start();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/src");
    let mut python = Command::new("python3");
    python.arg("-c").arg(PYTHON).env("PYTHONPATH", source).env("PYTHONDONTWRITEBYTECODE", "1");
    python.arg(format!("https://127.0.0.1:{}", api.serving.address().port()));
    python.args([&api.client.authority, &api.client.certificate, &api.client.key]);
    let output = python.output_in_time();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text(&output), "done\n");
}

/// A lock that is released explicitly is free at once. A connection that only ends may have been cut, so its lock is free later.
const PYTHON: &str = r#"
import asyncio, sys, meshlock
url, ca, certificate, key = sys.argv[1:]
client = meshlock.Client(url, ca=ca, certificate=certificate, key=key)
fences = []
for _ in range(3):
    with client.lock("py", blocking=False) as held:
        assert not held.is_lost()
        fences.append(held.fence)
assert fences == sorted(set(fences)), fences

async def main():
    client = meshlock.AsyncClient(url, ca=ca, certificate=certificate, key=key)
    async with client.lock("py", wait=60) as held:
        assert not held.is_lost() and held.fence > fences[-1]
    # Nobody listens on the discard port of this machine: the other place is the nearest.
    several = meshlock.AsyncClient(["https://127.0.0.1:9", url], ca=ca, certificate=certificate, key=key)
    await (await several.acquire("py", wait=60)).release()
    assert list(several._places.order) == [1, 0], several._places.order

asyncio.run(main())
several = meshlock.Client(["https://127.0.0.1:9", url], ca=ca, certificate=certificate, key=key)
several.acquire("py", wait=60).release()
assert list(several._places.order) == [1, 0], several._places.order
# With another authority than the node's none of them can be used.
stranger = meshlock.Client(["https://127.0.0.1:9", url])
stranger._places.ask_all()
assert list(stranger._places.order) == [0, 1], stranger._places.order
print("done")
"#;
