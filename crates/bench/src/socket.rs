//! Measures a lock over the Unix socket, compared with a bare round trip over such a socket. The client does its own I/O, because it sends
//! two messages at once and has no thread that reads; what the node's messages mean is the library's [`OpenRequests`].

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use meshlock::Node;
use meshlock_client::{OpenRequests, RequestState};
use meshlock_cluster::table::Wait;
use meshlock_wire::clients::{Tag, ToClient, ToNode, VERSIONS, put_to_node, take_to_client};

use super::reference::{echo, round_trips};
use super::report::{Goal, GoalRow, Reference};
use super::statistics::median;

pub(super) fn measure(times: usize) -> anyhow::Result<GoalRow> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("bench.sock");
    let _node = Node::builder().in_memory().socket(&path).start()?;
    let stream = UnixStream::connect(&path)?;
    let mut client = BlockingClient::new(stream);
    client.send(&[ToNode::Hello { version: VERSIONS.1, who: "bench".parse()? }])?;
    client.receive()?;
    let acquire = |tag| -> anyhow::Result<ToNode> {
        Ok(ToNode::Acquire { tag, lock: "bench".parse()?, wait: Wait::Forever, permits: None })
    };
    client.requests.open(0);
    client.send(&[acquire(0)?])?;
    client.wait_for(0)?;
    let mut trips = Vec::with_capacity(times);
    for tag in 1..=u64::try_from(times)? {
        let start = Instant::now();
        // The release and the next request are sent together, as a busy client would do.
        client.requests.forget(tag - 1);
        client.requests.open(tag);
        client.send(&[ToNode::Release(tag - 1), acquire(tag)?])?;
        client.wait_for(tag)?;
        trips.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let size = 48;
    let (mut here, there) = UnixStream::pair()?;
    let echoes = echo(there, size);
    let bare = round_trips(&mut here, size, times, Duration::ZERO)?;
    drop(here);
    let _ = echoes.join();
    Ok(GoalRow {
        what: "release and acquire, over the Unix socket".to_owned(),
        unit: "µs",
        ours: median(trips),
        reference: Some(Reference { what: "bare Unix-socket round trip".to_owned(), value: bare }),
        goal: Some(Goal::RatioAtMost(2.5)),
    })
}

/// A client that does its own I/O.
pub(super) struct BlockingClient<S> {
    stream: S,
    received: Vec<u8>,
    pub(super) requests: OpenRequests,
}

impl<S: Read + Write> BlockingClient<S> {
    pub(super) fn new(stream: S) -> Self {
        BlockingClient { stream, received: Vec::new(), requests: OpenRequests::default() }
    }

    pub(super) fn send(&mut self, messages: &[ToNode]) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        for message in messages {
            put_to_node(message, &mut bytes);
        }
        Ok(self.stream.write_all(&bytes)?)
    }

    pub(super) fn receive(&mut self) -> anyhow::Result<ToClient> {
        loop {
            if let Some((message, length)) = take_to_client(&self.received)? {
                self.received.drain(..length);
                return Ok(message);
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes)?;
            if count == 0 {
                bail!("the node has closed the connection");
            }
            self.received.extend_from_slice(&bytes[..count]);
        }
    }

    /// Waits until a request is granted.
    pub(super) fn wait_for(&mut self, tag: Tag) -> anyhow::Result<()> {
        loop {
            let message = self.receive().context("waiting for a grant")?;
            // The node is on this machine and has the same clock.
            self.requests.on_message(message, |time| time);
            match self.requests.state(tag) {
                Some(RequestState::Waiting) => {}
                Some(RequestState::Held { .. }) => return Ok(()),
                other => bail!("the node does not grant the lock: {other:?}"),
            }
        }
    }
}
