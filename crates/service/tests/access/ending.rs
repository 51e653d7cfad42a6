//! Connections to the API whose certificate or token ends or is revoked, and certificates that are replaced.

use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;

use meshlock_cluster::access::{KnownToken, TokenHash, Tokens, Verb};
use meshlock_host::gate::Policy;
use meshlock_testing::{BoundedChild, BoundedCommand, Lines, eventually, needs_program};
use meshlock_tls::{Bearer, Files, Identity, Revoked, ca, wall_clock};

use crate::policy;
use crate::tls::{Protected, issue, text};

const DAY: u64 = 24 * 3600;

/// A call that holds the lock `a` for as long as its connection lasts.
struct Holding {
    child: Child,
    lines: Lines,
}

impl Holding {
    fn start(api: &Protected, who: Option<&Files>, token: Option<&str>) -> Self {
        let mut command = api.command(who, token, "/v1/locks/a/hold", &["-N", "-d", "{}"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        let first = lines.next("the lock is granted").unwrap_or_default();
        assert!(first.contains("fence"), "{first}");
        Holding { child, lines }
    }

    fn until_end(mut self) {
        self.lines.until_end("the connection ends");
        self.child.wait_in_time();
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.child.end();
    }
}

/// The token `t` of the client `bot` ends in two days.
fn with_token() -> Protected {
    let rules = policy(&[("*", "*", &[Verb::Acquire, Verb::Watch])], &[]);
    let token = KnownToken {
        expires: Some(wall_clock().as_secs() + 2 * DAY),
        ..("bot".parse().unwrap(), TokenHash::of("t")).into()
    };
    Protected::with(Policy { tokens: Tokens::new(vec![token]).unwrap(), ..rules })
}

#[test]
fn a_connection_ends_with_its_certificate_and_its_lock_becomes_free() {
    if !needs_program("curl") {
        return;
    }
    let api = Protected::start();
    let holding = Holding::start(&api, Some(&api.client), None);
    api.ahead.store(u64::from(ca::BEARER_DAYS + 1) * DAY, Ordering::Relaxed);
    api.engine.trust().look();
    holding.until_end();
    eventually("nobody holds the lock any more", || api.serving.metrics().contains("\nmeshlock_holders 0\n"));
    assert!(!api.curl(Some(&api.client), None).status.success(), "it has ended");
}

#[test]
fn a_token_that_has_ended_is_refused_by_name_and_its_connection_ends() {
    if !needs_program("curl") {
        return;
    }
    let api = with_token();
    let holding = Holding::start(&api, None, Some("t"));
    api.ahead.store(2 * DAY, Ordering::Relaxed);
    let refused = text(&api.curl(None, Some("t")));
    assert!(refused.contains("\"unauthenticated\""), "{refused}");
    assert!(
        refused.contains("the token of 'bot' has expired; make a new one with `meshlock token new bot`"),
        "{refused}"
    );
    api.engine.trust().look();
    holding.until_end();
}

#[test]
fn a_revoked_client_is_refused_whatever_it_shows_and_its_connections_end() {
    if !needs_program("curl") {
        return;
    }
    let api = with_token();
    let by_token = Holding::start(&api, None, Some("t"));
    api.engine.trust().set_revoked(Revoked::new(&["client/bot"]).unwrap());
    by_token.until_end();
    let refused = text(&api.curl(None, Some("t")));
    assert!(refused.contains("'bot' is revoked: the list `revoked` of this site"), "{refused}");
    let by_certificate = Holding::start(&api, Some(&api.client), None);
    api.engine.trust().set_revoked(Revoked::new(&["client/ci"]).unwrap());
    by_certificate.until_end();
    let refused = api.curl(Some(&api.client), None);
    assert!(!refused.status.success(), "{refused:?}");
    api.engine.trust().set_revoked(Revoked::default());
    assert!(text(&api.curl(None, Some("t"))).contains("\"fence\""));
}

#[test]
fn new_connections_are_shown_the_new_certificate_and_old_ones_stay() {
    if !needs_program("curl") {
        return;
    }
    let api = Protected::start();
    let holding = Holding::start(&api, Some(&api.client), None);
    std::fs::rename(api.site.key.parent().unwrap(), api.dir.path().join("before")).unwrap();
    let renewed = issue(api.dir.path(), &Bearer::Site("local".parse().unwrap()));
    api.engine.trust().reload().unwrap();
    let shown = api.command(Some(&api.client), None, "/healthz", &["-w", "%{certs}"]).output_in_time();
    let shown = text(&shown);
    let serial = Identity::load(&renewed).unwrap().own().serial.to_string();
    let digits: String = shown.to_lowercase().chars().filter(char::is_ascii_hexdigit).collect();
    assert!(digits.contains(serial.trim_start_matches('0')), "{serial}: {shown}");
    assert!(api.serving.metrics().contains("\nmeshlock_holders 1\n"));
    let expires = Identity::load(&renewed).unwrap().own().ends.as_secs();
    let metric = format!("\nmeshlock_certificate_expires_seconds{{certificate=\"own\"}} {expires}\n");
    assert!(api.serving.metrics().contains(&metric), "{}", api.serving.metrics());
    drop(holding);
}
