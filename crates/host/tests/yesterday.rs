//! A node and a client of today among programs of yesterday, whose part is played by bytes that such programs have said
//! (`crates/wire/tests/recorded`).
//!
//! Here no lock goes from one site to another: the recorded frames on a link are addressed to one incarnation of `a`, which a node
//! takes from the clock, and so it ignores them. `crates/wire/tests/golden/handover.rs` hands locks over with these frames, to the pure
//! node, whose incarnation can be chosen.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use meshlock_client::{Connection, ConnectionError, Keeping, NodeEndpoint};
use meshlock_cluster::names::{ClientLabel, Incarnation};
use meshlock_cluster::node::{Config, Content};
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::table::HolderReport;
use meshlock_cluster::time::{Span, Time};
use meshlock_cluster::view::View;
use meshlock_host::front::Front;
use meshlock_host::{Engine, NodeSetup, door};
use meshlock_testing::{Deadline, WITHIN, async_test, eventually, in_time, joined};
use meshlock_tls::Security;
use meshlock_wire::clients::{
    ToClient, ToNode, VERSIONS, put_to_client, put_to_node, take_to_client, take_to_node,
};
use meshlock_wire::sites::{Versions, decode_packet, take_greeting};

const SITES: [(u16, &str); 2] = [
    (1, include_str!("../../wire/tests/recorded/sites-v1.txt")),
    (2, include_str!("../../wire/tests/recorded/sites-v2.txt")),
];

const CLIENTS: &str = include_str!("../../wire/tests/recorded/clients-v2.txt");

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// What one side said in a recorded conversation, frame by frame.
fn said_by(who: &str, lines: &str) -> Vec<Vec<u8>> {
    let said = lines.lines().filter_map(|line| line.strip_prefix(who)?.strip_prefix(' '));
    said.map(bytes).collect()
}

/// The recorded conversation that begins with this title.
fn conversation(title: &str) -> &'static str {
    let (_, rest) = CLIENTS.split_once(&format!("= {title}\n")).unwrap_or_else(|| panic!("no '{title}'"));
    rest.split("\n= ").next().expect("there is a first part")
}

/// The number of a message's variant.
fn number(frame: &[u8]) -> u8 {
    frame[4]
}

/// Reads one whole frame.
fn frame(stream: &mut impl Read) -> Vec<u8> {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame).expect("the other side says something");
    let length = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]);
    frame.resize(4 + length as usize, 0);
    stream.read_exact(&mut frame[4..]).expect("all of it");
    frame
}

/// A node of one site that serves clients on a socket.
struct Served {
    front: Front,
    dir: tempfile::TempDir,
    _engine: Engine,
}

impl Served {
    fn new() -> Self {
        let site: meshlock_cluster::names::SiteName = "local".parse().unwrap();
        let engine = Engine::start(NodeSetup::new(Config::new(site.clone(), vec![site]))).unwrap();
        let front = Front::new((*engine).clone(), Arc::default());
        let dir = tempfile::tempdir().unwrap();
        door::serve(&front, door::listen(&dir.path().join("sock"), door::PRIVATE).unwrap(), |_| {});
        Served { front, dir, _engine: engine }
    }

    fn add_rule(&self, lock: &str, clause: Clause) {
        let rules = RulesText { rules: vec![(lock.to_owned(), clause)], ..RulesText::default() };
        async_test({
            let front = self.front.clone();
            async move {
                in_time("the rule is set", front.set_rules(&front.in_process(), rules)).await.unwrap();
            }
        });
    }

    fn socket(&self) -> std::path::PathBuf {
        self.dir.path().join("sock")
    }

    /// Waits until the node has noticed that all sessions but so many have ended: what it says of itself depends on it.
    fn until_sessions(&self, open: usize) {
        eventually("the other sessions have ended", || self.front.node().readings().sessions == open);
    }
}

/// A client of version 2 that says what was recorded, line by line.
struct Replayed {
    stream: UnixStream,
    title: &'static str,
    lines: std::iter::Filter<std::str::Lines<'static>, fn(&&'static str) -> bool>,
}

impl Replayed {
    fn new(served: &Served, title: &'static str) -> Self {
        let stream = UnixStream::connect(served.socket()).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        let lines =
            conversation(title).lines().filter((|line| !line.is_empty()) as fn(&&'static str) -> bool);
        Replayed { stream, title, lines }
    }

    /// Goes on until the node has said so many things, and compares each with what was recorded. That leases last longer is left out,
    /// which depends on time.
    fn until_answers(&mut self, mut answers: usize) {
        while answers > 0 {
            let line = self.lines.next().unwrap_or_else(|| panic!("'{}' is at its end", self.title));
            let (who, recorded) = line.split_once(' ').expect("who said it, and what");
            let recorded = bytes(recorded);
            if who == ">" {
                self.say(&recorded);
            } else if number(&recorded) != EXTENDED {
                let now = answer(&mut self.stream);
                assert_eq!(said(&now), said(&recorded), "{}", self.title);
                answers -= 1;
            }
        }
    }

    fn say(&mut self, recorded: &[u8]) {
        let (message, _) = take_to_node(recorded).unwrap().unwrap();
        // The process group of that time is gone.
        if !matches!(message, ToNode::Guard { .. }) {
            self.stream.write_all(recorded).unwrap();
        }
    }

    /// Goes on to the end.
    fn finish(mut self) {
        let is_answer = |line: &&str| line.starts_with('<') && number(&bytes(&line[2..])) != EXTENDED;
        let answers = self.lines.clone().filter(is_answer).count();
        assert!(answers > 0, "'{}' has answers", self.title);
        self.until_answers(answers);
    }
}

/// The number of the message that says that leases last longer.
const EXTENDED: u8 = 3;

/// What the node says next, but that leases last longer.
fn answer(stream: &mut UnixStream) -> Vec<u8> {
    let deadline = Deadline::default();
    loop {
        let frame = frame(stream);
        if number(&frame) != EXTENDED {
            return frame;
        }
        deadline.check("the node says something else than that leases last longer");
    }
}

/// The label that a client gave itself. Nodes of yesterday did not add what the client had proved.
fn given(label: &mut Option<ClientLabel>) {
    let Some(shown) = label else { return };
    let text = shown.as_str().split_once(" (label \"").and_then(|(_, given)| given.strip_suffix("\")"));
    *label = Some(text.unwrap_or(shown.as_str()).parse().unwrap());
}

/// The number of a message, which tells its version, and what it says, without what differs from one run to the next: times, and the
/// incarnation, which is a time too.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other was recorded")]
fn said(frame: &[u8]) -> (u8, ToClient) {
    let (mut message, length) = take_to_client(frame).unwrap().unwrap();
    assert_eq!(length, frame.len());
    let holder = |holder: &mut HolderReport| {
        holder.age = Span::ZERO;
        given(&mut holder.label);
    };
    match &mut message {
        // How a client of this machine can stay in touch was not said then, and nobody need do it.
        ToClient::Welcome { time, contact, .. } => (*time, *contact) = (Time::ZERO, None),
        ToClient::Granted { lease_end, .. } => *lease_end = Time::ZERO,
        ToClient::Lost { act_by, .. } => *act_by = Time::ZERO,
        ToClient::Queue { queue, .. } => {
            queue.sites.iter_mut().flat_map(|site| &mut site.lock.holders).for_each(holder);
        }
        ToClient::Status { status, .. } => {
            status.incarnation = 0;
            timeless(&mut status.view);
            status.lease_left = status.lease_left.map(|_| Span::ZERO);
            status.held.iter_mut().for_each(|held| held.age = Span::ZERO);
            status.held.iter_mut().for_each(|held| given(&mut held.who));
        }
        ToClient::Locks { sites, .. } => {
            for site in sites {
                site.lease_left = site.lease_left.map(|_| Span::ZERO);
                site.locks.iter_mut().for_each(|lock| lock.waited = Span::ZERO);
                site.locks.iter_mut().filter_map(|lock| lock.holder.as_mut()).for_each(holder);
            }
        }
        ToClient::Broken { cut_off, .. } => cut_off.iter_mut().for_each(|client| given(&mut client.label)),
        ToClient::Refused { .. } | ToClient::Busy(_) | ToClient::TimedOut(_) => {}
        other => panic!("not recorded: {other:?}"),
    }
    (number(frame), message)
}

/// Replaces the incarnations of a view.
fn timeless(view: &mut View) {
    view.members.iter_mut().for_each(|member| member.incarnation = Incarnation::new(0));
}

/// The whole recording, in its order: what clients of version 2 did at one node, one of which held a lock until it was broken.
#[test]
fn clients_of_version_2_are_answered_as_by_a_node_of_version_2() {
    let served = Served::new();
    let replay = |title| {
        let open = served.front.node().readings().sessions;
        Replayed::new(&served, title).finish();
        served.until_sessions(open);
    };
    replay("meshlock run jobs, while the lock is free");
    let mut holds = Replayed::new(&served, "meshlock run jobs, until somebody breaks the lock");
    holds.until_answers(2);
    replay("meshlock run jobs --try, while it is held");
    replay("meshlock run jobs --wait 100ms, while it is held");
    replay("meshlock queue jobs");
    replay("meshlock status");
    replay("meshlock top --once");
    replay("meshlock break jobs");
    holds.finish();
    served.until_sessions(0);
    // The nodes of that time added a rule for a semaphore.
    served.add_rule("pool", Clause::shared("srimani-reddy", 2));
    replay("meshlock run pool --permits 2");
    replay("meshlock run pool --permits 3, where it has 2");
    replay("meshlock rules show");
}

/// Says hello in a version to a node of today; returns its answer.
fn greeted(served: &Served, version: u16) -> Vec<u8> {
    let mut stream = UnixStream::connect(served.socket()).unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let mut hello = Vec::new();
    put_to_node(&ToNode::Hello { version, who: "other".parse().unwrap() }, &mut hello);
    stream.write_all(&hello).unwrap();
    frame(&mut stream)
}

#[test]
fn a_client_of_a_newer_version_is_served_in_the_version_of_today() {
    let served = Served::new();
    for theirs in [VERSIONS.1, VERSIONS.1 + 1, u16::MAX] {
        let (answer, _) = take_to_client(&greeted(&served, theirs)).unwrap().unwrap();
        assert!(
            matches!(answer, ToClient::Welcome { version, .. } if version == VERSIONS.1),
            "{theirs}: {answer:?}"
        );
    }
}

#[test]
fn a_client_that_is_too_old_is_told_so_in_words_that_it_can_read() {
    let served = Served::new();
    let refused = greeted(&served, 1);
    assert_eq!(number(&refused), 9, "as in version 2");
    let (message, _) = take_to_client(&refused).unwrap().unwrap();
    assert!(matches!(message, ToClient::Refused { why, .. } if why.contains("speaks versions 2 to 7")));
}

/// Where a played node listens.
trait Listens: Send + 'static {
    type Stream: Read + Write;

    fn next(&self) -> Self::Stream;
}

impl Listens for UnixListener {
    type Stream = UnixStream;

    fn next(&self) -> UnixStream {
        let (stream, _) = self.accept().unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream
    }
}

impl Listens for TcpListener {
    type Stream = TcpStream;

    fn next(&self) -> TcpStream {
        let (stream, _) = self.accept().unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream
    }
}

/// Plays a node of version 2 for a client of today: it refuses any other version, and is asked again.
fn play_a_node_of_version_2(listener: impl Listens) -> std::thread::JoinHandle<Vec<ToNode>> {
    std::thread::spawn(move || {
        let refusal = said_by("<", conversation("a client of version 3, which such a node refuses"));
        let mut first = listener.next();
        let mut heard = vec![frame(&mut first)];
        first.write_all(&refusal[0]).unwrap();
        drop(first);
        let mut second = listener.next();
        let answers = said_by("<", conversation("meshlock status"));
        for answer in answers {
            heard.push(frame(&mut second));
            second.write_all(&answer).unwrap();
        }
        heard.iter().map(|frame| take_to_node(frame).unwrap().unwrap().0).collect()
    })
}

fn talk_to_a_node_of_version_2(endpoint: &NodeEndpoint, listener: impl Listens) {
    let node = play_a_node_of_version_2(listener);
    let label = "today".parse().unwrap();
    let mut connection = Connection::connect(endpoint, &label, &Keeping::Thread).unwrap();
    assert_eq!(connection.site().as_str(), "local");
    let answer = connection.ask(WITHIN, |tag| ToNode::Status { tag }).unwrap();
    assert!(matches!(answer, ToClient::Status { status, .. } if status.site.as_str() == "local"));
    let heard = joined("the conversation ends", node);
    let versions: Vec<u16> = heard
        .iter()
        .filter_map(|said| if let ToNode::Hello { version, .. } = said { Some(*version) } else { None })
        .collect();
    assert_eq!(versions, [VERSIONS.1, 2]);
}

#[test]
fn a_client_of_today_talks_to_a_node_of_version_2() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("sock");
    let listener = UnixListener::bind(&socket).unwrap();
    talk_to_a_node_of_version_2(&NodeEndpoint::Socket(socket), listener);
}

#[test]
fn a_client_of_today_talks_to_a_node_of_version_2_over_a_network() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    talk_to_a_node_of_version_2(&NodeEndpoint::Tcp { address, security: Security::Plain }, listener);
}

#[test]
fn a_client_refuses_a_node_that_answers_in_a_version_that_it_does_not_speak() {
    for theirs in [VERSIONS.0 - 1, VERSIONS.1 + 1, 9] {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let node = std::thread::spawn(move || {
            let mut stream = listener.next();
            frame(&mut stream);
            let (site, time) = ("other".parse().unwrap(), Time::ZERO);
            let welcome = ToClient::Welcome { version: theirs, site, time, contact: None };
            let mut bytes = Vec::new();
            put_to_client(&welcome, VERSIONS.1, &mut bytes);
            stream.write_all(&bytes).unwrap();
        });
        let connected =
            Connection::connect(&NodeEndpoint::Socket(socket), &"today".parse().unwrap(), &Keeping::Thread);
        let error = connected.map(|_| ()).unwrap_err();
        assert!(
            matches!(error, ConnectionError::Version { theirs: found, ours, .. } if (found, ours) == (theirs, VERSIONS)),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(
            text.contains(&format!("speaks version {theirs} to clients, and this program versions 2 to 7")),
            "{text}"
        );
        joined("the node has answered", node);
    }
}

#[test]
fn a_site_of_an_older_version_is_greeted_heard_and_answered_in_its_version() {
    for (version, text) in SITES {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut config = Config::new("a".parse().unwrap(), vec!["a".parse().unwrap(), "b".parse().unwrap()]);
        config.cluster = "recorded".parse().unwrap();
        config.address = address.to_string().parse().unwrap();
        let mut setup = NodeSetup::new(config);
        setup.listen = Some(listener);
        let _engine = Engine::start(setup).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        let said = said_by("b", text);
        stream.write_all(&said[0]).unwrap();
        let mut heard = Vec::new();
        let (hello, common) = loop {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            heard.push(byte[0]);
            if let Some(greeted) = take_greeting(&mut heard, Versions::up_to(version)).unwrap() {
                break greeted;
            }
        };
        assert_eq!((hello.from.as_str(), common), ("a", version));
        // All that b has said, and at the end what can only be answered: so all of it was read.
        for frame in &said[1..] {
            stream.write_all(frame).unwrap();
        }
        let is_ping = |frame: &&Vec<u8>| {
            decode_packet(&frame[4..], version).is_ok_and(|packet| packet.content == Content::Ping)
        };
        let ping = said[1..].iter().find(is_ping).expect("b has asked whether it is heard");
        stream.write_all(ping).unwrap();
        let pings = said[1..].iter().filter(is_ping).count() + 1;
        let (mut pongs, deadline) = (0, Deadline::default());
        while pongs < pings {
            deadline.check("every ping is answered");
            let packet = decode_packet(&frame(&mut stream)[4..], version).unwrap();
            pongs += usize::from(packet.content == Content::Pong);
        }
    }
}
