//! Reading configurations, and the errors for wrong ones.

use std::path::Path;

use meshlock_wire::fuzz;

use super::example::EXAMPLE;
use super::file::{ConfigSource, parse};
use super::{Flags, NodeSettings};

/// Flags that keep a test away from this user's directories.
fn flags() -> Flags {
    Flags { data: Some("/d".into()), socket: Some("/s".into()), ..Flags::default() }
}

fn settings(text: &str) -> anyhow::Result<NodeSettings> {
    let (file, source) = parse(Path::new("/etc/meshlock/a.toml"), text)?;
    NodeSettings::new(file, &source, flags())
}

fn refused(text: &str) -> String {
    settings(text).expect_err(text).to_string()
}

/// Describes the node that a configuration results in.
fn described(text: &str) -> String {
    settings(text).unwrap().node.describe().unwrap()
}

#[test]
fn a_site_without_a_configuration_is_a_cluster_of_its_own() {
    let settings = NodeSettings::new(super::File::default(), &ConfigSource::default(), flags()).unwrap();
    assert_eq!(settings.node.names().unwrap(), ("local".to_owned(), "meshlock".to_owned()));
    assert_eq!(settings.node.describe().unwrap(), described("site = 'local'"));
}

#[test]
fn the_example_has_every_key_and_shows_the_defaults() {
    let (file, _) = parse(Path::new("example"), EXAMPLE).unwrap();
    assert_eq!(file.sites.len(), 3);
    // With every key uncommented, the example still parses and has every key.
    let uncommented = |line: &'static str| {
        line.strip_prefix('#').filter(|key| key.starts_with(|c: char| c.is_ascii_lowercase())).unwrap_or(line)
    };
    let all: Vec<&str> = EXAMPLE.lines().map(uncommented).collect();
    let (file, source) = parse(Path::new("example"), &all.join("\n")).unwrap();
    for key in super::file::all_keys() {
        assert!(source.has(&key), "the example does not explain {key}");
    }
    // The values that are commented out are the defaults, except for addresses, paths, tokens, and what follows the network.
    let plain = || Some(super::TlsEntry::Off(super::file::TlsOff::Off));
    let said = super::File {
        tls: plain(),
        listen: None,
        advertise: None,
        clients: None,
        api: None,
        audit: None,
        try_within: None,
        join: super::file::JoinEntry::default(),
        bootstrap_expect: None,
        join_token: None,
        ..file
    };
    let said = NodeSettings::new(said, &source, flags()).unwrap();
    let (silent, source) = parse(Path::new("example"), EXAMPLE).unwrap();
    let silent = NodeSettings::new(super::File { tls: plain(), ..silent }, &source, flags()).unwrap();
    assert_eq!(said.node.describe().unwrap(), silent.node.describe().unwrap());
    assert_eq!(said.shutdown_grace, super::SHUTDOWN_GRACE);
}

#[test]
fn flags_come_before_the_file() {
    let text =
        "site = 'a'\ntls = 'off'\nsites = [{ name = 'a', address = 'a:1' }, { name = 'b', address = 'b:1' }]";
    let (file, source) = parse(Path::new("x"), text).unwrap();
    let flags =
        Flags { site: Some("b".parse().unwrap()), listen: Some("[::]:9".parse().unwrap()), ..flags() };
    let settings = NodeSettings::new(file, &source, flags).unwrap();
    assert_eq!(settings.node.site_name().unwrap(), "b");
    let said = format!("{text}\nlisten = '[::]:9'").replace("site = 'a'", "site = 'b'");
    assert_eq!(settings.node.describe().unwrap(), described(&said));
}

#[test]
fn lease_terms_and_rules_are_taken_over() {
    let text = "[lease]\nlength = '9s'\n[[rules]]\npattern = 'p*'\nalgorithm = 'raymond-k'\npermits = 4\nper_site = 2";
    let described = described(text);
    for part in ["9000000", "\"p*\"", "raymond-k", "permits: 4, per_site: 2"] {
        assert!(described.contains(part), "{part} in {described}");
    }
}

#[test]
fn who_changes_the_voters_is_taken_over() {
    assert!(described("site = 'a'").contains("voting: Auto"), "the default");
    assert!(described("voters = 'fixed'").contains("voting: Fixed"));
    let auto = described("voters = 'auto'\nreplace_voter_after = '1h'\npromote_voter_after = '77s'");
    assert!(auto.contains("Auto") && auto.contains("3600000000") && auto.contains("77000000"), "{auto}");
}

#[test]
fn errors_name_their_file_line_and_key() {
    let two = "sites = [{ name = 'a', address = 'a:1' }, { name = 'b', address = 'b:1' }]\n";
    for (text, says) in [
        (
            "clutser = 'x'",
            "a.toml:1: clutser: there is no such key (did you mean 'cluster'?); the keys here are cluster,",
        ),
        ("\n[lease]\nlenght = '5s'", "a.toml:3: lease.lenght: there is no such key (did you mean 'length'?)"),
        (
            "sites = [{ nam = 'a', address = 'x' }]",
            "a.toml:1: sites[1].nam: there is no such key (did you mean 'name'?)",
        ),
        (
            "[[sites]]\nname = 'a'\naddress = 'a:1'\n[[sites]]\nname = 'b b'\naddress = 'b:1'",
            "a.toml:5: sites[2].name: the site name 'b b'",
        ),
        ("[lease]\nlength = 5", "a.toml:2: lease.length: invalid type: integer `5`, expected"),
        ("[lease]\nlength = '5'", "a.toml:2: lease.length: '5' is not a length of time; give"),
        ("site = ", "a.toml:1: "),
        ("tls = 'on'", "a.toml:1: tls: say tls = \"off\", or give the files"),
        ("[tls]\nca = 'x'", "a.toml:1: tls: say tls = \"off\", or give the files"),
        ("socket_mode = '0o600'", "a.toml:1: socket_mode: '0o600' are not permissions; say"),
        (
            "socket_mode = '0066'",
            "a.toml:1: socket_mode: 0066 are not permissions of a socket that its own user",
        ),
        ("socket_mode = '10600'", "a.toml:1: socket_mode: 10600 are not permissions of a socket"),
        (
            "[[access]]\nprincipal = 'uid:alice'\nlocks = '*'\nverbs = ['watch']",
            "a.toml:1: access[1]: 'alice' is not a user; give uid: and the number",
        ),
        ("voters = 'some'", "a.toml:1: voters: unknown variant `some`, expected `fixed` or `auto`"),
        (
            "voters = 'auto'\nreplace_voter_after = '1s'",
            "a.toml:2: replace_voter_after: a voter that restarts is away for a while",
        ),
        (
            "promote_voter_after = '9s'\n[lease]\nlength = '5s'",
            "a.toml:1: promote_voter_after: whoever is a member may be gone",
        ),
        ("admission = 'shut'", "a.toml:1: admission: unknown variant `shut`, expected `open` or `closed`"),
        ("local_turns = 0", "a.toml:1: local_turns: give 1 or more"),
        ("try_within = '0s'", "a.toml:1: try_within: give a positive duration"),
        ("[lease]\nlength = '1s'\nrenew_every = '1s'", "a.toml:1: lease: a lease of 1000000"),
        ("[[rules]]\npattern = 'x'\nalgorithm = 'paxos'", "a.toml:1: rules: rule 'x': "),
        ("[[rules]]\npattern = 'x'\npermits = 2", "a.toml:1: rules[1]: missing field `algorithm`"),
        (
            "[[access]]\nprincipal = 'a'\nlock = 'b'\nverbs = []",
            "a.toml:3: access[1].lock: there is no such key (did you mean 'locks'?)",
        ),
        (
            "[[access]]\nprincipal = 'a'\nlocks = '*'\nverbs = ['aquire']",
            "a.toml:4: access[1].verbs: unknown variant `aquire`, expected one of `acquire`, `watch`",
        ),
        (
            "\n[[access]]\nprincipal = 'a'\nlocks = 'b/*'\nverbs = ['admin']",
            "a.toml:2: access[1]: the verb admin is about the whole cluster",
        ),
        ("[[access]]\nprincipal = 'a'\nlocks = 'x'", "a.toml:1: access[1]: missing field `verbs`"),
        ("[[tokens]]\nname = 'a'\nsha256 = 'secret'", "a.toml:3: tokens[1].sha256: a token's hash is 64"),
        (
            "[[tokens]]\nname = 'a b'\nsha256 = ''",
            "a.toml:2: tokens[1].name: 'a b' cannot be the name of a client",
        ),
        ("[limits]\nsessions = 0", "a.toml:2: limits.sessions: give 1 or more"),
        ("[limits.each]\nrate = 0", "a.toml:2: limits.each.rate: give 1 or more"),
        ("[limits.each]\nrat = 9", "a.toml:2: limits.each.rat: there is no such key (did you mean 'rate'?)"),
        ("audit = ''", "a.toml:1: audit: say which file"),
        (two, "a.toml: site: say which of the sites this one is"),
        (
            &format!("{two}site = 'a'"),
            "a.toml: tls: say where the files of `meshlock ca issue a` are, or tls",
        ),
        (&format!("{two}site = 'c'\ntls = 'off'"), "a.toml: advertise: this site is not in the list"),
        (
            &format!("{two}site = 'a'\n[tls]\nca = 'c'\ncert = 'd'\nkey = 'e'"),
            "a.toml:3: tls: /etc/meshlock/c",
        ),
    ] {
        let error = refused(text);
        assert!(error.starts_with("/etc/meshlock/a.toml"), "{text}: {error}");
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn no_file_brings_its_reader_down_and_whatever_is_refused_is_refused_in_words() {
    let small =
        "site = 'a'\ntls = 'off'\nlease = { length = '5s' }\nsites = [{ name = 'a', address = 'a:1' }]";
    let models: Vec<Vec<u8>> = [EXAMPLE, small, "site = 'a'"].map(|text| text.as_bytes().to_vec()).to_vec();
    let mut refusals = 0;
    fuzz::drive(&models, 1, 3000, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Err(error) = settings(text) {
            refusals += 1;
            assert!(error.to_string().len() > 10, "{error} for {text}");
        }
    });
    assert!(refusals > 300, "only {refusals} were refused");
}

/// Keys that are no method of the builder and no field of what one takes, and what says the same in code.
const OTHERWISE_IN_CODE: [(&str, &str); 8] = [
    ("shutdown_grace", "the argument of `Node::shut_down`"),
    ("sites[1].name", "the first of each pair of `sites`"),
    ("sites[1].address", "the second of each pair of `sites`"),
    ("rules[1].pattern", "the first argument of `rule`"),
    ("tls.ca", "the first argument of `Tls::from_files`"),
    ("tls.cert", "the second argument of `Tls::from_files`"),
    ("tls.key", "the third argument of `Tls::from_files`"),
    ("bootstrap_expect", "`sites`, with names that the program derives itself"),
];

#[test]
fn everything_that_a_file_can_say_can_be_said_in_code() {
    let builder = [
        include_str!("../../../meshlock/src/builder/mod.rs"),
        include_str!("../../../meshlock/src/builder/audit.rs"),
        include_str!("../../../meshlock/src/builder/founding.rs"),
        include_str!("../../../meshlock/src/builder/protection.rs"),
        include_str!("../../../meshlock/src/builder/tuning.rs"),
    ]
    .concat();
    let values = include_str!("../../../meshlock/src/config.rs");
    for key in super::file::all_keys() {
        if OTHERWISE_IN_CODE.iter().any(|(other, _)| *other == key) {
            continue;
        }
        let method = match key.as_str() {
            // A method adds one entry of a list.
            "rules" | "tokens" => key.trim_end_matches('s'),
            other => other,
        };
        let is_said = match key.rsplit_once('.') {
            Some((_, field)) => values.contains(&format!("    pub {field}: ")),
            None => ["(", "<"].iter().any(|open| builder.contains(&format!("    pub fn {method}{open}"))),
        };
        assert!(is_said, "the library's builder cannot say {key}");
    }
}
