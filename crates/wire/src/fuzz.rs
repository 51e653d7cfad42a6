//! Fuzz targets: every decoder of bytes from a network, a disk or an operator, with the properties that must hold for
//! whatever it reads. Only with the feature `fuzz`.
//!
//! The folder `fuzz/` at the root drives them by coverage, for any length of time; tests drive them briefly, with valid
//! bytes that were [changed](change) at random.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clients::{self, ToClient, ToNode};
use crate::disk::fuzz as store;
use crate::sites::calls;
use crate::sites::fuzz as net;
use crate::sites::{access_packets, call_packets, lock_packet, permit_packets, voter_packets};
use meshlock_cluster::access::AgreedAccess;
use meshlock_cluster::address::Address;
use meshlock_cluster::cause::Cause;
use meshlock_cluster::founding::Founding;
use meshlock_cluster::membership::disk::{Ballot, LogEntry, Registrations, Saved};
use meshlock_cluster::membership::voters::Voters;
use meshlock_cluster::names::{ClientLabel, ClusterName, Incarnation, LockName, SiteName};
use meshlock_cluster::node::{Content, Packet};
use meshlock_cluster::printable::is_invisible;
use meshlock_cluster::rules::{Clause, Rules, RulesText};
use meshlock_cluster::table::Wait;

/// One decoder.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    /// Lets the decoder read these bytes. Panics if the decoder is wrong, never because the bytes are.
    pub run: fn(&[u8]),
    /// Valid bytes to start from.
    pub models: fn() -> Vec<Vec<u8>>,
}

/// Every decoder of this crate.
pub const TARGETS: &[Target] = &[
    Target { name: "greeting", run: net::greeting, models: net::greetings },
    Target { name: "introduction", run: net::introduction, models: net::introductions },
    Target { name: "diagnosis", run: net::diagnosis, models: net::diagnoses },
    Target { name: "srv", run: crate::dns::fuzz, models: crate::dns::models },
    Target { name: "packets", run: net::packets, models: packet_models },
    Target { name: "calls", run: calls::fuzz, models: calls::models },
    Target { name: "client", run: client, models: client_models },
    Target { name: "disk", run: disk, models: disk_models },
    Target { name: "names", run: names, models: name_models },
    Target { name: "rules", run: rules, models: rule_models },
];

/// Lets the decoder with this name read these bytes.
///
/// # Panics
/// If the decoder is wrong, or there is none with this name.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a decoder of that name");
    (target.run)(bytes);
}

/// Changes bytes: a few of them, or their number.
pub fn change(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..=random.usize(..3) {
        let at = random.usize(..bytes.len().max(1));
        match random.u8(..6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), random.u8(..)),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            4 if at < bytes.len() => bytes[at] = *random.choice(&[0, 1, 2, 127, 128, 255]).unwrap_or(&0),
            _ if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1),
            _ => {}
        }
    }
}

/// Calls `each` with `cases` changed copies of the models, the same ones for the same seed.
pub fn drive(models: &[Vec<u8>], seed: u64, cases: usize, mut each: impl FnMut(&[u8])) {
    let mut random = fastrand::Rng::with_seed(seed);
    for model in models {
        each(model);
    }
    for _ in 0..cases {
        let mut bytes = models[random.usize(..models.len())].clone();
        change(&mut bytes, &mut random);
        each(&bytes);
    }
}

fn packet_models() -> Vec<Vec<u8>> {
    let cluster = Founding::new("c".parse().expect("a name"), &["a".parse().expect("a name")]).id();
    let contents = [Content::Ping, Content::Pong, Content::Leave];
    let packet = |content| Packet::direct(cluster, Incarnation::new(3), content);
    let locks = [None, Cause::new(7), Cause::new(u64::MAX)].map(lock_packet);
    contents
        .map(packet)
        .into_iter()
        .chain(locks)
        .chain(permit_packets())
        .chain(voter_packets())
        .chain(access_packets())
        .chain(call_packets())
        .map(|packet| net::frames(&[packet]))
        .collect()
}

/// Checks that a value that was read is encoded so that the same value is read again: nobody else gets a different
/// value.
fn reads_again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = postcard::to_stdvec(value).expect("what was read can be written");
    assert_eq!(postcard::from_bytes::<T>(&bytes).as_ref(), Ok(value));
}

/// Messages between clients and nodes.
fn client(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((message, taken))) = clients::take_to_node(rest) {
        reads_again::<ToNode>(&message);
        rest = &rest[taken..];
    }
    rest = bytes;
    while let Ok(Some((message, taken))) = clients::take_to_client(rest) {
        reads_again::<ToClient>(&message);
        rest = &rest[taken..];
    }
}

fn client_models() -> Vec<Vec<u8>> {
    let lock = || "jobs/1".parse().expect("a name");
    let says = [
        ToNode::Hello { version: clients::VERSIONS.1, who: "me".parse().expect("a label") },
        ToNode::Acquire { tag: 1, lock: lock(), wait: Wait::Forever, permits: Some(2) },
        ToNode::Break { tag: 3, lock: lock() },
        ToNode::SetRules { tag: 4, rules: RulesText::default() },
        ToNode::SetAccess { tag: 6, base: 1, document: Box::default() },
        ToNode::Remove { tag: 5, site: "a".parse().expect("a name") },
    ];
    let framed = says.iter().map(|message| {
        let mut bytes = Vec::new();
        clients::put_to_node(message, &mut bytes);
        bytes
    });
    framed.collect()
}

/// Records on the disk: a damaged value is detected, and never read as another one.
fn disk(bytes: &[u8]) {
    store::read::<Founding>(bytes);
    store::read::<Registrations>(bytes);
    store::read::<Incarnation>(bytes);
    store::read::<Ballot>(bytes);
    store::read::<LogEntry>(bytes);
    store::read::<Saved>(bytes);
    store::read::<Voters>(bytes);
    store::read::<AgreedAccess>(bytes);
}

fn disk_models() -> Vec<Vec<u8>> {
    vec![
        store::written(&Incarnation::new(300)),
        store::written(&Ballot { term: 2, vote: 3, commit: 4 }),
        store::written(&LogEntry { index: 7, term: 2, data: vec![9, 8] }),
        store::written(&AgreedAccess { version: 1, ..AgreedAccess::default() }),
        store::written(&Voters::founding(&["a".parse().expect("a name")])),
        store::written(&Founding::new("c".parse().expect("a name"), &["a".parse().expect("a name")])),
    ]
}

/// Names given by people and other programs: a text that is accepted as a name is printed and parsed as the same name; the name of a
/// lock and the label of a client, which can be nearly any text, are printed so that it has no effect on a terminal.
fn names(bytes: &[u8]) {
    fn same<T: std::str::FromStr + ToString + PartialEq + std::fmt::Debug>(text: &str) {
        if let Ok(name) = text.parse::<T>() {
            assert_eq!(name.to_string().parse::<T>().ok(), Some(name), "{text:?}");
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(name) = text.parse::<LockName>() {
        assert_eq!(name.as_str(), text);
        let printed = name.to_string();
        assert!(!printed.chars().any(is_invisible), "{printed:?}");
    }
    same::<SiteName>(text);
    same::<ClusterName>(text);
    if let Ok(label) = text.parse::<ClientLabel>() {
        assert_eq!(label.as_str(), text);
        let printed = label.to_string();
        assert!(!printed.chars().any(is_invisible), "{printed:?}");
    }
    same::<Address>(text);
    if let Ok(spec) = text.parse::<meshlock_protocol::Spec>() {
        let printed = spec.to_string();
        let again = printed.parse::<meshlock_protocol::Spec>().map(|spec| spec.to_string());
        assert_eq!(again, Ok(printed), "{text:?}");
    }
}

fn name_models() -> Vec<Vec<u8>> {
    let texts = [
        "jobs/1",
        "site-1.example",
        "10.0.0.1:7400",
        "[::1]:7400",
        "a label",
        "maekawa:quorums=grid,deadlock=fail",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Rules: the first line is a pattern, the second an algorithm, the third its permits.
fn rules(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n');
    let mut next = || lines.next().unwrap_or_default();
    let (pattern, algorithm) = (next().to_owned(), next().to_owned());
    let permits = next().parse().unwrap_or(1);
    let clause = Clause { algorithm, permits, per_site: next().parse().unwrap_or(1) };
    let text = RulesText { rules: vec![(pattern, clause.clone())], default: clause };
    let Ok(rules) = Rules::new(text) else { return };
    // Rules that were accepted run with any number of members.
    for members in [1, 3, 7] {
        rules.rule(&"jobs/1".parse().expect("a name")).plan(members);
        rules.default_rule().plan(members);
    }
}

fn rule_models() -> Vec<Vec<u8>> {
    let texts = [
        "jobs/*\nbulgannawar-vaidya:inform=2\n3\n2",
        "one\nmaekawa:quorums=grid\n1\n1",
        "*\nraymond:tree=star",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
