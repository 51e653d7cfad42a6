//! The API behind the cluster's certificates: who is let in, with clients that know nothing of Meshlock.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Output};

use meshlock_node::node::Config;
use meshlock_node::shell::tls::ca::{self, BEARER_DAYS};
use meshlock_node::shell::tls::{Bearer, Files, Identity};
use meshlock_node::shell::{Engine, Security, Setup};
use meshlock_service::{Limits, Serving};

struct Protected {
    _dir: tempfile::TempDir,
    site: Files,
    client: Files,
    serving: Serving,
    _engine: Engine,
}

fn issue(dir: &Path, bearer: &Bearer) -> Files {
    let hosts: &[String] = if matches!(bearer, Bearer::Site(_)) { &["127.0.0.1".to_owned()] } else { &[] };
    ca::issue_for(dir, bearer, hosts, BEARER_DAYS).unwrap()
}

impl Protected {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        ca::init(dir.path(), BEARER_DAYS).unwrap();
        let name: meshlock_node::names::SiteName = "local".parse().unwrap();
        let site = issue(dir.path(), &Bearer::Site(name.clone()));
        let client = issue(dir.path(), &Bearer::Client("ci".parse().unwrap()));
        let engine = Engine::start(Setup::new(Config::new(name.clone(), vec![name]))).unwrap();
        // Protected, it may listen everywhere.
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let security = Security::Tls(Identity::load(&site).unwrap());
        let setup = meshlock_service::Setup { listener, security, limits: Limits::default() };
        let serving = Serving::start(&engine, setup).unwrap();
        Protected { _dir: dir, site, client, serving, _engine: engine }
    }

    fn curl(&self, who: Option<&Files>) -> Output {
        let url = format!("https://127.0.0.1:{}/v1/locks/a/acquire", self.serving.address().port());
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "60", "-d", "{}", &url, "--cacert"]).arg(&self.client.authority);
        if let Some(files) = who {
            curl.arg("--cert").arg(&files.certificate).arg("--key").arg(&files.key);
        }
        curl.output().expect("curl is here")
    }
}

#[test]
fn a_client_with_a_certificate_is_served_and_nobody_else() {
    let api = Protected::start();
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let served = api.curl(Some(&api.client));
    assert!(text(&served).contains("\"fence\""), "{served:?}");
    assert!(!api.curl(None).status.success(), "nobody knows who that is");
    let site = api.curl(Some(&api.site));
    assert!(text(&site).contains("sites are not clients"), "{site:?}");
    let other = Protected::start();
    assert!(!api.curl(Some(&other.client)).status.success(), "another cluster's client");
}

#[test]
fn etcdctl_locks_over_tls() {
    let api = Protected::start();
    let run = || {
        Command::new("timeout")
            .args([
                "60",
                "etcdctl",
                "--endpoints",
                &format!("https://127.0.0.1:{}", api.serving.address().port()),
            ])
            .arg("--cacert")
            .arg(&api.client.authority)
            .arg("--cert")
            .arg(&api.client.certificate)
            .arg("--key")
            .arg(&api.client.key)
            .args(["lock", "jobs", "--", "echo", "held"])
            .env("ETCDCTL_API", "3")
            .output()
            .unwrap()
    };
    let is_here = Command::new("etcdctl").arg("version").env("ETCDCTL_API", "3").output().is_ok();
    if !is_here {
        assert!(
            std::env::var_os("MESHLOCK_ALL_TESTS").is_none(),
            "etcdctl is missing, and all tests must run"
        );
        eprintln!("left out: etcdctl is missing");
        return;
    }
    let held = run();
    assert_eq!(String::from_utf8_lossy(&held.stdout).trim(), "held", "{held:?}");
}
