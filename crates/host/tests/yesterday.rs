//! A node and a client of today among programs of yesterday, whose part is played by bytes that such programs have said
//! (`crates/wire/tests/recorded`).
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use meshlock_client::{Connection, Keeping, NodeEndpoint};
use meshlock_cluster::node::{Config, Content};
use meshlock_cluster::table::Wait;
use meshlock_host::front::{AcquireParams, AcquireState, Acquisition, Front, Owner};
use meshlock_host::{Engine, NodeSetup, door};
use meshlock_testing::{Deadline, WITHIN, in_time, joined};
use meshlock_wire::clients::{ToClient, ToNode, put_to_node, take_to_client, take_to_node};
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
        door::serve(&front, door::listen(&dir.path().join("sock")).unwrap(), |_| {});
        Served { front, dir, _engine: engine }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.dir.path().join("sock")
    }

    /// Someone who holds a lock until it is dropped and given back.
    fn hold(&self, lock: &str) -> Arc<Acquisition<()>> {
        let owner = Owner::Own { label: "someone".parse().unwrap(), silence: None };
        let wanted =
            AcquireParams { lock: lock.parse().unwrap(), wait: Wait::Forever, permits: None, cause: None };
        let held = self.front.acquire(&self.front.in_process(), owner, wanted, ());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let is_decided = |state: &AcquireState| *state != AcquireState::Waiting;
        let decided = runtime.block_on(in_time("it is decided who has the lock", held.until(is_decided)));
        assert!(matches!(decided, AcquireState::Held(_)), "{decided:?}");
        held
    }

    /// Says again what a client of version 2 has said, line by line; returns the numbers of what the node of that time answered, and
    /// of what this one does. That leases last longer is left out, which depends on time.
    fn replay(&self, title: &str) -> (Vec<u8>, Vec<u8>) {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        let (mut then, mut now) = (Vec::new(), Vec::new());
        for line in conversation(title).lines().filter(|line| !line.is_empty()) {
            let (who, recorded) = line.split_once(' ').expect("who said it, and what");
            let recorded = bytes(recorded);
            if who == ">" {
                let (message, _) = take_to_node(&recorded).unwrap().unwrap();
                // The process group of that time is gone.
                if !matches!(message, ToNode::Guard { .. }) {
                    stream.write_all(&recorded).unwrap();
                }
            } else if number(&recorded) != EXTENDED {
                then.push(number(&recorded));
                now.push(answer(&mut stream));
            }
        }
        (then, now)
    }
}

/// The number of the message that says that leases last longer.
const EXTENDED: u8 = 3;

/// The number of what the node says next, but that leases last longer.
fn answer(stream: &mut UnixStream) -> u8 {
    loop {
        let kind = number(&frame(stream));
        if kind != EXTENDED {
            return kind;
        }
    }
}

#[test]
fn a_client_of_version_2_is_answered_in_version_2() {
    let served = Served::new();
    for title in
        ["meshlock run jobs, while the lock is free", "meshlock status", "meshlock run pool --permits 2"]
    {
        let (then, now) = served.replay(title);
        assert_eq!(then, now, "{title}");
    }
    let (then, now) = served.replay("meshlock run pool --permits 3, where it has 2");
    assert_eq!(then, now, "a refusal has no kind in version 2");
    let held = served.hold("jobs");
    for title in [
        "meshlock run jobs --try, while it is held",
        "meshlock run jobs --wait 100ms, while it is held",
        "meshlock queue jobs",
        "meshlock top --once",
        "meshlock break jobs",
    ] {
        let (then, now) = served.replay(title);
        assert_eq!(then, now, "{title}");
    }
    drop(held);
}

#[test]
fn a_client_of_version_2_whose_lock_is_broken_is_told_in_version_2() {
    let served = Served::new();
    let recorded = conversation("meshlock run jobs, until somebody breaks the lock");
    let mut stream = UnixStream::connect(served.socket()).unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    for said in said_by(">", recorded).iter().take(2) {
        stream.write_all(said).unwrap();
    }
    let mut told = vec![number(&frame(&mut stream)), number(&frame(&mut stream))];
    served.replay("meshlock break jobs");
    told.push(answer(&mut stream));
    let then: Vec<u8> = said_by("<", recorded).iter().map(|frame| number(frame)).collect();
    assert_eq!(told, then, "welcome, granted, lost");
}

#[test]
fn a_client_that_is_too_old_is_told_so_in_words_that_it_can_read() {
    let served = Served::new();
    let mut stream = UnixStream::connect(served.socket()).unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let mut hello = Vec::new();
    put_to_node(&ToNode::Hello { version: 1, who: "old".parse().unwrap() }, &mut hello);
    stream.write_all(&hello).unwrap();
    let refused = frame(&mut stream);
    assert_eq!(number(&refused), 9, "as in version 2");
    let (message, _) = take_to_client(&refused).unwrap().unwrap();
    assert!(matches!(message, ToClient::Refused { why, .. } if why.contains("speaks versions 2 to 3")));
}

/// Plays a node of version 2 for a client of today: it refuses version 3, and is asked again.
fn play_a_node_of_version_2(socket: &Path) -> std::thread::JoinHandle<Vec<ToNode>> {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let refusal = said_by("<", conversation("a client of version 3, which such a node refuses"));
        let (mut first, _) = listener.accept().unwrap();
        first.set_read_timeout(Some(WITHIN)).unwrap();
        let mut heard = vec![frame(&mut first)];
        first.write_all(&refusal[0]).unwrap();
        drop(first);
        let (mut second, _) = listener.accept().unwrap();
        second.set_read_timeout(Some(WITHIN)).unwrap();
        let answers = said_by("<", conversation("meshlock status"));
        for answer in answers {
            heard.push(frame(&mut second));
            second.write_all(&answer).unwrap();
        }
        heard.iter().map(|frame| take_to_node(frame).unwrap().unwrap().0).collect()
    })
}

#[test]
fn a_client_of_today_talks_to_a_node_of_version_2() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("sock");
    let node = play_a_node_of_version_2(&socket);
    let label = "today".parse().unwrap();
    let mut connection =
        Connection::connect(&NodeEndpoint::Socket(socket), &label, &Keeping::Thread).unwrap();
    assert_eq!(connection.site().as_str(), "local");
    let answer = connection.ask(WITHIN, |tag| ToNode::Status { tag }).unwrap();
    assert!(matches!(answer, ToClient::Status { status, .. } if status.site.as_str() == "local"));
    let heard = joined("the conversation ends", node);
    let versions: Vec<u16> = heard
        .iter()
        .filter_map(|said| if let ToNode::Hello { version, .. } = said { Some(*version) } else { None })
        .collect();
    assert_eq!(versions, [3, 2]);
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
