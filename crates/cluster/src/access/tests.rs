//! Access rules as a table of cases; tokens; rate limits.

use super::*;
use crate::time::{Span, Time};

fn rule(principal: &str, locks: &str, verbs: &[Verb]) -> RuleText {
    RuleText { principal: principal.to_owned(), locks: locks.to_owned(), verbs: verbs.to_vec() }
}

fn named(name: &str) -> Principal {
    Principal::Named(name.parse().unwrap())
}

fn may(access: &Access, principal: &Principal, verb: Verb, lock: &str) -> bool {
    let lock: LockName = lock.parse().unwrap();
    access.check(principal, verb, Subject::Lock(&lock)).is_ok()
}

const ALL: [Verb; 4] = [Verb::Acquire, Verb::Watch, Verb::Break, Verb::Admin];

#[test]
fn without_rules_only_this_machine_may_do_anything() {
    let access = Access::default();
    for verb in ALL {
        assert!(may(&access, &Principal::Local, verb, "a"));
        for other in [Principal::Anyone, named("ci"), named("local"), named("anyone")] {
            assert!(!may(&access, &other, verb, "a"), "{other} {verb}");
            assert!(access.check(&other, verb, Subject::Some).is_err());
            assert!(access.check(&other, verb, Subject::Cluster).is_err());
        }
    }
    let error = access.check(&named("ci"), Verb::Acquire, Subject::Some).unwrap_err().to_string();
    assert!(error.starts_with("'ci' may not acquire: this site has no [[access]] rules"), "{error}");
}

#[test]
fn the_patterns_of_a_principal_are_those_of_the_rules_that_give_it_something() {
    let text = |access: &Access, who: &Principal| {
        access
            .patterns(who, Verb::Watch)
            .map(|patterns| patterns.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(text(&Access::default(), &Principal::Local), None, "this machine may watch everything");
    assert_eq!(text(&Access::default(), &named("ci")), Some(Vec::new()));
    let access = Access::new(&[
        rule("ci", "jobs/*", &[Verb::Watch]),
        rule("ci*", "deploy", &[Verb::Acquire, Verb::Watch]),
        rule("ci", "secret", &[Verb::Acquire]),
        rule("ops", "*", &[Verb::Watch]),
        rule("ops", "jobs/*", &[Verb::Watch]),
    ])
    .unwrap();
    assert_eq!(text(&access, &named("ci")), Some(vec!["deploy".to_owned(), "jobs/*".to_owned()]));
    assert_eq!(text(&access, &named("ops")), None);
    for lock in ["jobs/1", "deploy", "secret", "other"] {
        let name: LockName = lock.parse().unwrap();
        let shown = access.patterns(&named("ci"), Verb::Watch).unwrap();
        let is_shown = shown.iter().any(|pattern| pattern.matches(name.as_str()));
        assert_eq!(is_shown, may(&access, &named("ci"), Verb::Watch, lock), "{lock}");
    }
}

#[test]
fn another_user_of_the_machine_may_do_only_what_a_rule_gives_that_user() {
    let nobody = Access::default();
    assert!(!may(&nobody, &Principal::User(1000), Verb::Acquire, "a"));
    let access = Access::new(&[
        rule("uid:1000", "a", &[Verb::Acquire]),
        rule("uid:*", "b", &[Verb::Watch]),
        rule("*", "c", &[Verb::Watch]),
        rule("local", "d", &[Verb::Watch]),
    ])
    .unwrap();
    for (user, verb, lock, expected) in [
        (1000, Verb::Acquire, "a", true),
        (1000, Verb::Break, "a", false),
        (100, Verb::Acquire, "a", false),
        (10_000, Verb::Acquire, "a", false),
        (1000, Verb::Watch, "b", true),
        (0, Verb::Watch, "b", true),
        (1000, Verb::Watch, "c", false),
        (1000, Verb::Watch, "d", false),
    ] {
        assert_eq!(may(&access, &Principal::User(user), verb, lock), expected, "uid:{user} {verb} {lock}");
    }
    assert!(!may(&access, &named("1000"), Verb::Acquire, "a"));
    for wrong in ["uid:", "uid:+1", "uid:alice", "uid:10*", "uid:4294967296"] {
        let error = Access::new(&[rule(wrong, "*", &[Verb::Watch])]).unwrap_err();
        assert!(matches!(error, (0, AccessError::User { .. })), "{wrong}: {error:?}");
    }
    let denied = access.check(&Principal::User(7), Verb::Acquire, Subject::Some).unwrap_err().to_string();
    assert!(denied.contains("principal = \"uid:7\""), "{denied}");
}

#[test]
fn a_rule_gives_its_verbs_on_its_locks_to_its_principals_and_nothing_else() {
    let access = Access::new(&[
        rule("ci-*", "deploy/*", &[Verb::Acquire, Verb::Watch]),
        rule("ops", "*", &[Verb::Break, Verb::Admin]),
        rule("*", "public", &[Verb::Watch]),
        rule("anyone", "guest", &[Verb::Watch]),
    ])
    .unwrap();
    for (principal, verb, lock, expected) in [
        (named("ci-1"), Verb::Acquire, "deploy/web", true),
        (named("ci-1"), Verb::Watch, "deploy/", true),
        (named("ci-1"), Verb::Acquire, "deploy", false),
        (named("ci-1"), Verb::Break, "deploy/web", false),
        (named("ci"), Verb::Acquire, "deploy/web", false),
        (named("CI-1"), Verb::Acquire, "deploy/web", false),
        (named("ops"), Verb::Break, "deploy/web", true),
        (named("ops"), Verb::Acquire, "deploy/web", false),
        (named("ops"), Verb::Watch, "public", true),
        (Principal::Anyone, Verb::Watch, "public", false),
        (Principal::Anyone, Verb::Watch, "guest", true),
        (named("anyone"), Verb::Watch, "guest", false),
        (named("local"), Verb::Watch, "public", false),
        (Principal::Local, Verb::Admin, "x", true),
    ] {
        assert_eq!(may(&access, &principal, verb, lock), expected, "{principal} {verb} {lock}");
    }
    assert!(access.check(&named("ops"), Verb::Admin, Subject::Cluster).is_ok());
    assert!(access.check(&named("ci-1"), Verb::Admin, Subject::Cluster).is_err());
    assert!(access.check(&named("ci-1"), Verb::Acquire, Subject::Some).is_ok());
    let denied = access.check(&named("ci-1"), Verb::Break, Subject::Lock(&"deploy/web".parse().unwrap()));
    let text = denied.unwrap_err().to_string();
    assert!(text.starts_with("'ci-1' may not break 'deploy/web': no [[access]] rule"), "{text}");
    assert!(text.contains("verbs = [\"break\"]) and send it SIGHUP"), "{text}");
}

#[test]
fn a_rule_for_local_takes_away_what_it_does_not_give() {
    let access = Access::new(&[rule("local", "jobs/*", &[Verb::Acquire])]).unwrap();
    assert!(may(&access, &Principal::Local, Verb::Acquire, "jobs/a"));
    assert!(!may(&access, &Principal::Local, Verb::Acquire, "x"));
    assert!(!may(&access, &Principal::Local, Verb::Watch, "jobs/a"));
    let closed = Access::new(&[rule("local", "*", &[])]).unwrap();
    assert!(ALL.iter().all(|&verb| !may(&closed, &Principal::Local, verb, "a")));
}

#[test]
fn rules_that_make_no_sense_are_refused_with_their_number() {
    let good = rule("a", "b", &[Verb::Watch]);
    for (bad, says) in [
        (rule("a*b", "x", &[Verb::Watch]), "'a*b' has a '*' that is not at its end"),
        (rule("", "x", &[Verb::Watch]), "'' is not a name"),
        (rule("a", "", &[Verb::Watch]), "'' is not a name"),
        (rule("a", "x*y*", &[Verb::Watch]), "'x*y*' has a '*' that is not at its end"),
        (rule("a", "x", &[]), "a rule without verbs gives nothing"),
        (rule("a", "x/*", &[Verb::Admin]), "the verb admin is about the whole cluster"),
    ] {
        let (at, error) = Access::new(&[good.clone(), bad.clone()]).unwrap_err();
        assert_eq!(at, 1, "{bad:?}");
        assert!(error.to_string().starts_with(says), "{bad:?}: {error}");
    }
    assert!(Access::new(&vec![good; MAX_RULES + 1]).is_err());
}

#[test]
fn a_token_is_known_by_its_hash_only() {
    let hash: TokenHash = TokenHash::of("abc").to_string().parse().unwrap();
    // From FIPS 180-4's own example.
    assert_eq!(hash.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let tokens = Tokens::new(vec![
        ("ci".parse().unwrap(), hash.clone()),
        ("ci".parse().unwrap(), TokenHash::of("the next one")),
        ("ops".parse().unwrap(), TokenHash::of("x")),
    ])
    .unwrap();
    let whose = |token: &str| tokens.find(token).map(|known| known.name.as_str().to_owned());
    assert_eq!(whose("abc").as_deref(), Some("ci"));
    assert_eq!(whose("the next one").as_deref(), Some("ci"));
    assert_eq!(whose("x").as_deref(), Some("ops"));
    for other in ["", "ABC", "abc ", &hash.to_string(), &"x".repeat(1000)] {
        assert_eq!(whose(other), None, "{other}");
    }
    for text in ["", "ba78", &"g".repeat(64), &"é".repeat(32)] {
        assert!(text.parse::<TokenHash>().is_err(), "{text}");
    }
}

#[test]
fn a_token_is_over_from_the_second_of_its_end_on() {
    let token = |expires| KnownToken { expires, ..("ci".parse().unwrap(), TokenHash::of("t")).into() };
    assert!(!token(None).is_over(u64::MAX));
    assert!(!token(Some(100)).is_over(99));
    assert!(token(Some(100)).is_over(100) && token(Some(100)).is_over(101));
    // Whoever looks it up learns that it is over, and not that it is unknown.
    let tokens = Tokens::new(vec![token(Some(0))]).unwrap();
    assert_eq!(tokens.find("t").map(|known| known.is_over(1)), Some(true));
}

#[test]
fn tokens_that_could_be_two_or_mean_something_else_are_refused() {
    let one = |name: &str| (name.parse::<ClientName>().unwrap(), TokenHash::of("t"));
    let (at, error) = Tokens::new(vec![one("a"), one("b")]).unwrap_err();
    assert!(at == 1 && error.to_string().starts_with("the tokens of 'a' and 'b' are the same"), "{error}");
    let (_, error) = Tokens::new(vec![one("local")]).unwrap_err();
    assert!(error.to_string().starts_with("a token cannot be called 'local'"), "{error}");
    assert!(Tokens::new(vec![one("a"); 1001]).is_err());
}

#[test]
fn a_bucket_gives_its_burst_and_then_its_rate() {
    let pace = Pace { rate: 10, burst: 3 };
    let at = |millis: u64| Time::from_micros(millis * 1000);
    let mut bucket = Bucket::full(pace, at(0));
    assert!((0..3).all(|_| bucket.take(pace, at(0)).is_ok()));
    assert_eq!(bucket.take(pace, at(0)), Err(Span::from_millis(100)));
    assert_eq!(bucket.take(pace, at(40)), Err(Span::from_millis(60)));
    assert!(bucket.take(pace, at(100)).is_ok() && bucket.take(pace, at(100)).is_err());
    // A clock that goes back adds nothing, and nothing is saved up beyond the burst.
    assert!(bucket.take(pace, at(50)).is_err());
    assert!(!bucket.is_full(pace, at(399)) && bucket.is_full(pace, at(400)));
    assert!((0..3).all(|_| bucket.take(pace, at(1_000_000)).is_ok()));
    assert!(bucket.take(pace, at(1_000_000)).is_err());
    let served = (0..10_000).filter(|ms| bucket.take(pace, at(1_000_000 + ms)).is_ok()).count();
    assert_eq!(served, 99, "ten a second");
    let mut bucket = Bucket::full(pace, at(0));
    bucket.spend(2);
    assert!(bucket.take(pace, at(0)).is_ok() && bucket.take(pace, at(0)).is_err());
    bucket.spend(u32::MAX);
    assert_eq!(bucket.take(pace, at(0)), Err(Span::from_millis(100)), "a bucket does not go below zero");
}

#[test]
fn the_hash_of_rules_and_tokens_tells_different_ones_apart_and_not_their_order() {
    let rule = |principal: &str, verbs: &[Verb]| RuleText {
        principal: principal.to_owned(),
        locks: "*".to_owned(),
        verbs: verbs.to_vec(),
    };
    let hash = |rules: &[RuleText]| Access::new(rules).unwrap().fingerprint();
    let (a, b) = (rule("a", &[Verb::Watch, Verb::Acquire]), rule("b", &[Verb::Watch]));
    assert_eq!(hash(&[a.clone(), b.clone()]), hash(&[b.clone(), rule("a", &[Verb::Acquire, Verb::Watch])]));
    let different = [vec![], vec![a.clone()], vec![b.clone()], vec![a, b], vec![rule("a", &[Verb::Watch])]];
    let hashes: std::collections::BTreeSet<u64> = different.iter().map(|rules| hash(rules)).collect();
    assert_eq!(hashes.len(), different.len());
    let token = |name: &str, text: &str, expires| KnownToken {
        name: name.parse().unwrap(),
        hash: TokenHash::of(text),
        expires,
    };
    let tokens = |tokens: Vec<KnownToken>| Tokens::new(tokens).unwrap().fingerprint();
    let (x, y) = (token("x", "1", None), token("y", "2", Some(9)));
    assert_eq!(tokens(vec![x.clone(), y.clone()]), tokens(vec![y.clone(), x.clone()]));
    assert_ne!(tokens(vec![x, y.clone()]), tokens(vec![y.clone()]));
    assert_ne!(tokens(vec![y]), tokens(vec![token("y", "2", Some(10))]));
}
