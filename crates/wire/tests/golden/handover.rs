//! A site of today shares a lock with a recorded site of yesterday.
//!
//! One of the two recorded sites is the pure node of today, the one that does not lead; what the other said is told to it, in the
//! recorded order. Recorded frames are addressed to one incarnation, so it starts with that one; a node with sockets takes its
//! incarnation from the clock. Its clients acquire and release where those of the recorded site did. What it says about the lock must be
//! what was recorded, byte for byte.

use meshlock_cluster::cause::Cause;
use meshlock_cluster::membership::disk::Disk;
use meshlock_cluster::node::{ClientAnswer, ClientCall, Config, Input, Node, NodeOutput, Packet};
use meshlock_cluster::table::{Acquire, LockEvent, Request, Session, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_protocol::algorithms::naimi_trehel::Message;
use meshlock_protocol::registry::AnyMessage;
use meshlock_wire::sites::{decode_packet, encode_packet};

use super::recorded::{SITES, lines, read};
use super::samples::site;
use super::{MESSAGE_ADVICE, hex};

/// The number of bits of an incarnation that the clock does not decide.
const BITS_BELOW_THE_STAMP: u32 = 20;

/// A site as today's program runs it.
struct Today {
    node: Node,
    now: Time,
    /// The lock messages that it has sent and nobody has looked at.
    sent: Vec<Packet>,
    /// The fences of all grants.
    fences: Vec<i64>,
    last_request: Request,
    holds: bool,
}

impl Today {
    /// Starts the incarnation that the recorded frames are about.
    fn start(name: &str, incarnation: u64) -> Self {
        let mut config = Config::new(site(name), vec![site("a"), site("b")]);
        config.cluster = "recorded".parse().expect("a name");
        config.start_stamp = incarnation >> BITS_BELOW_THE_STAMP;
        let (now, mut out) = (Time::from_micros(1_000_000), Vec::new());
        let node = Node::start(config.check().expect("it is valid"), Disk::default(), now, &mut out)
            .expect("the disk is new");
        let (sent, fences, last_request) = (Vec::new(), Vec::new(), Request(0));
        let mut today = Today { node, now, sent, fences, last_request, holds: false };
        today.perform(out);
        assert_eq!(today.node.me().incarnation.number(), incarnation);
        today
    }

    /// Lets a moment pass and handles an input. The disk is quick.
    fn handle(&mut self, input: Input) {
        self.now = self.now + Span::from_millis(1);
        let mut out = Vec::new();
        self.node.handle(self.now, input, &mut out);
        self.perform(out);
    }

    fn perform(&mut self, outputs: Vec<NodeOutput>) {
        for output in outputs {
            match output {
                NodeOutput::Send { packet, .. } if packet.content.lock_message().is_some() => {
                    self.sent.push(packet);
                }
                NodeOutput::Persist { token, .. } => self.handle(Input::Persisted(token)),
                NodeOutput::Answer(ClientAnswer::Lock(LockEvent::Granted { fence, .. })) => {
                    self.fences.push(fence.value());
                    self.holds = true;
                }
                NodeOutput::Send { .. }
                | NodeOutput::Answer(_)
                | NodeOutput::Note(_)
                | NodeOutput::Call { .. } => {}
            }
        }
    }

    fn acquire(&mut self, lock: &str, cause: Option<Cause>) {
        self.last_request.0 += 1;
        self.handle(Input::Call(ClientCall::Acquire(Acquire {
            session: Session(1),
            request: self.last_request,
            lock: lock.parse().expect("a name"),
            permits: 1,
            wait: Wait::Forever,
            cause,
            demand: meshlock_protocol::Demand::PLAIN,
        })));
    }

    /// Gives back what it holds, if it does: an idle token has gone when it was asked for.
    fn release(&mut self) {
        if std::mem::take(&mut self.holds) {
            self.handle(Input::Call(ClientCall::Release(self.last_request)));
        }
    }
}

/// Plays a conversation, of which `name` is the site of today. Returns how often it entered and how often it handed the lock over.
fn replay(version: u16, text: &str, name: &str) -> (usize, usize) {
    let said: Vec<(&str, Packet, Vec<u8>)> = lines(text)
        .filter(|(_, frame)| !frame.starts_with(b"MESHLOCK"))
        .map(|(who, frame)| (who, read(&frame, decode_packet(&frame[4..], version)), frame[4..].to_vec()))
        .collect();
    let (_, first, _) = said.iter().find(|(who, ..)| *who == name).expect("it has said something");
    let mut today = Today::start(name, first.incarnation.number());
    let causes: Vec<Option<Cause>> = said
        .iter()
        .filter(|(who, ..)| *who == name)
        .filter_map(|(_, packet, _)| packet.content.lock_message())
        .map(|message| message.cause)
        .collect();
    let (mut handed_over, mut releases_early) = (0, false);
    for (who, packet, bytes) in said {
        if who != name {
            today.handle(Input::Packet { from: site(who), packet });
            if releases_early {
                today.release();
            }
            continue;
        }
        let Some(recorded) = packet.content.lock_message() else { continue };
        let AnyMessage::NaimiTrehel(message) = &recorded.message else { panic!("another algorithm") };
        match message {
            Message::Request(_) => {
                assert!(!today.holds, "it asks for what it does not hold");
                today.acquire(recorded.lock.as_str(), recorded.cause);
                // If the token then went because the other site asked, the client had left before.
                let next = causes.iter().skip_while(|cause| **cause != recorded.cause).nth(1);
                releases_early = next.is_some_and(|cause| cause.is_some() && *cause != recorded.cause);
            }
            Message::Token { .. } => {
                today.release();
                handed_over += 1;
            }
        }
        let sent: Vec<String> =
            today.sent.drain(..).map(|packet| hex(&encode_packet(&packet, version))).collect();
        let said = recorded.message.printed();
        assert_eq!(sent, [hex(&bytes)], "{name} says {said} otherwise now. {MESSAGE_ADVICE}");
    }
    assert!(today.fences.is_sorted_by(|one, next| one < next), "fences rise: {:?}", today.fences);
    (today.fences.len(), handed_over)
}

#[test]
fn a_site_of_today_gets_a_lock_from_one_of_yesterday_and_hands_it_back() {
    for ((version, text), follower) in SITES.into_iter().zip(["b", "a"]) {
        let counts = replay(version, text, follower);
        assert_eq!(counts, (3, 3), "version {version}: entered, and handed over. {MESSAGE_ADVICE}");
    }
}
