//! Two processes under one name: which of their connections stays.
//!
//! A site that was restarted connects again, and its old connection has ended, because the kernel of its machine closed it. If the old one
//! is still there, either that machine has failed without a word, or two processes run under one name. So before it is replaced by a connection
//! of another process, this site looks who sends what, and whether the old process still answers:
//!
//! | the new process | the old process | stays |
//! |---|---|---|
//! | takes part in the view | | the new connection |
//! | does not, or says nothing | answers | the old one; both processes are told |
//! | does not | does not answer within [`ANSWER_WITHIN`] | the new one |
//!
//! So two connections do not displace each other in circles, and whoever has started a site twice finds it in the logs of both processes, and in
//! the log of each site that the second one has tried.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::PacketHandler;
use super::peer::{Current, PeerConnection};
use meshlock_cluster::names::Incarnation;
use meshlock_wire::sites::take_packets;

/// Time in which a process answers if it runs and is reached.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How often a pending answer is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Maximum time and number of bytes until the first packet of a new connection is complete.
const FIRST_PACKET: (Duration, usize) = (Duration::from_secs(2), 256 << 10);

/// How long a refused process gets to read why it is refused.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// Decides between the connection that there is and a new one of another process, and refuses the new one if that stays. Returns the bytes that
/// were received on the new one if it is to replace the other.
pub(super) async fn decide<H: PacketHandler>(
    peer: &Arc<PeerConnection>,
    new: &Current,
    mut received: Vec<u8>,
    handler: &Arc<H>,
) -> Option<Vec<u8>> {
    let sender = timeout(FIRST_PACKET.0, first_sender(new, &mut received)).await.ok().flatten();
    let Some(sender) = sender else {
        new.channel.close();
        return None;
    };
    if handler.takes_part(&peer.site, sender) || !answers(peer, handler).await {
        return Some(received);
    }
    refuse(peer, new, sender, handler).await;
    None
}

/// Reads until the first packet is complete. Returns the incarnation that sent it.
async fn first_sender(new: &Current, received: &mut Vec<u8>) -> Option<Incarnation> {
    let mut scratch = vec![0; 16 << 10];
    loop {
        let mut first = None;
        take_packets(&mut received.clone(), new.version, |packet| {
            first.get_or_insert(packet.incarnation);
        })
        .ok()?;
        if first.is_some() {
            return first;
        }
        if received.len() > FIRST_PACKET.1 || !new.channel.read(&mut scratch, received).await.ok()? {
            return None;
        }
    }
}

/// Returns whether the process at the other end of the established connection sends something when it is asked to.
async fn answers<H: PacketHandler>(peer: &PeerConnection, handler: &Arc<H>) -> bool {
    let before = peer.traffic().received;
    peer.push(&handler.probe());
    peer.flush();
    let until = Instant::now() + ANSWER_WITHIN;
    while peer.is_connected() && Instant::now() < until {
        if peer.traffic().received != before {
            return true;
        }
        sleep(LOOK_EVERY).await;
    }
    false
}

/// Tells both processes and the log that the second one is refused, and closes its connection.
async fn refuse<H: PacketHandler>(
    peer: &PeerConnection,
    new: &Current,
    refused: Incarnation,
    handler: &Arc<H>,
) {
    let Some((in_use, at)) = peer.sender() else { return new.channel.close() };
    let (why, told) = handler.refusal(refused, in_use);
    peer.push(&told);
    peer.flush();
    if peer.is_first_refusal(new) {
        tracing::warn!(
            site = %peer.site,
            running = %shown(at),
            refused = %shown(new.address),
            "two processes run under the name of this site, and the second one is refused; stop one of them"
        );
    }
    new.channel.push(|bytes| why.iter().for_each(|packet| peer.put(packet, new.version, bytes)));
    new.channel.flush();
    // If this closed the connection with something unread, the other end could lose what it was told.
    let (mut scratch, mut unread) = (vec![0; 16 << 10], Vec::new());
    let reading = async {
        while new.channel.read(&mut scratch, &mut unread).await.unwrap_or(false) {
            unread.clear();
        }
    };
    let _ = timeout(READ_WITHIN, reading).await;
    new.channel.close();
}

fn shown(address: Option<std::net::SocketAddr>) -> String {
    address.map_or_else(|| "an unknown address".to_owned(), |address| address.to_string())
}
