//! A second process under the name of a running site, with a disk of its own: whatever it sends, nobody notices.
//!
//! Here its packets reach the other sites, though the connection that they come over would be refused (`net/contest.rs` of the crate `host`), and
//! what is sent to the site reaches both processes, as if their connections displaced each other all the time.

use std::sync::mpsc::channel;

use meshlock_cluster::membership::disk::Disk;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{ClientAnswer, Config, Content, Input, Node, NodeOutput, Note, Packet};
use meshlock_cluster::table::LockEvent;
use meshlock_cluster::time::{Span, Time};

use crate::cluster::Cluster;

/// The second process of site 2.
struct Second {
    node: Node,
    notes: Vec<Note>,
}

impl Second {
    /// Gives the node an input. Returns what it sends.
    fn handle(&mut self, now: Time, input: Input) -> Vec<(SiteName, Packet)> {
        let (mut out, mut sent, mut inputs) = (Vec::new(), Vec::new(), vec![input]);
        while let Some(input) = inputs.pop() {
            self.node.handle(now, input, &mut out);
            for output in out.drain(..) {
                match output {
                    NodeOutput::Send { to, packet } => sent.push((to, packet)),
                    NodeOutput::Persist { token, .. } => inputs.push(Input::Persisted(token)),
                    NodeOutput::Note(note) => self.notes.push(note),
                    NodeOutput::Call { .. } => panic!("nobody forwards calls"),
                    NodeOutput::Answer(answer) => panic!("it has no clients: {answer:?}"),
                }
            }
        }
        sent
    }
}

fn site(at: usize) -> SiteName {
    format!("s{at}").parse().expect("a plain name")
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "no machine: the test and what it gives the cluster share what was sent"
)]
fn a_second_process_under_the_name_of_a_running_site_disturbs_nobody_and_is_told_so() {
    let mut cluster = Cluster::open(3, "naimi-trehel");
    for at in 0..3 {
        let request = cluster.acquire(at, &format!("held-{at}").parse().expect("a name"));
        cluster.pass(Span::from_millis(100));
        assert!(cluster.is_granted(request));
    }
    let view = cluster.nodes[0].view().clone();
    // What the others send, whoever it is for, except what only voters and members send each other.
    let (copies, overheard) = channel::<(usize, Packet)>();
    cluster.tamper(move |from, packet| {
        let is_personal = !matches!(packet.content, Content::Raft(_) | Content::Link { .. });
        if from != 2 && is_personal {
            copies.send((from, packet.clone())).expect("the test reads them");
        }
        vec![packet]
    });
    let mut config = Config::new(site(2), (0..3).map(site).collect());
    config.start_stamp = 7;
    let mut out = Vec::new();
    let node = Node::start(config.check().expect("sound"), Disk::default(), cluster.now(), &mut out);
    let mut second = Second { node: node.expect("an empty disk is no other cluster's"), notes: Vec::new() };
    let written = out.into_iter().filter_map(|output| match output {
        NodeOutput::Persist { token, .. } => Some(Input::Persisted(token)),
        NodeOutput::Send { .. } | NodeOutput::Answer(_) | NodeOutput::Note(_) | NodeOutput::Call { .. } => {
            None
        }
    });
    let mut sent: Vec<_> = written.flat_map(|input| second.handle(cluster.now(), input)).collect();
    for _ in 0..300 {
        for (to, packet) in sent.drain(..) {
            let to = (0..2).find(|at| site(*at) == to).expect("it sends to others only");
            cluster.input(to, Input::Packet { from: site(2), packet });
        }
        cluster.settle();
        cluster.pass(Span::from_millis(50));
        sent = second.handle(cluster.now(), Input::Time);
        for (from, packet) in overheard.try_iter() {
            sent.extend(second.handle(cluster.now(), Input::Packet { from: site(from), packet }));
        }
        for node in &cluster.nodes {
            assert!(node.lease().is_comfortable(cluster.now()) && *node.view() == view, "{}", node.me());
        }
    }
    let lost = |answer: &ClientAnswer| matches!(answer, ClientAnswer::Lock(LockEvent::Lost { .. }));
    assert!(!cluster.told.iter().any(lost));
    let taken = second.notes.iter().filter(|note| matches!(note, Note::NameTaken { .. })).count();
    assert_eq!(taken, 1, "{:?}", second.notes);
    assert!(!second.node.view().contains(second.node.me()));
}
