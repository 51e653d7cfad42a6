//! Bulgannawar and Vaidya's algorithm: K tokens, each with a forest of pointers that lead to it.
//!
//! Bulgannawar and Vaidya, Technical Report 94-066 (1994), section 2, on the base of Naimi and Trehel's algorithm.
//!
//! Each site has a pointer for each token. One that wants to enter and has no token chooses one and sends its request
//! along that token's pointers, which turn to the requester as it passes. A site that waits for the same token keeps
//! the request in its node-queue; a site that has *any* token puts it into that token's queue, with a *tag* if it was
//! another one that was asked for, so that the requester can mend its pointer. A token travels along its queue. A site
//! that leaves and finds the queue empty keeps the token and tells ν others (INFORM).
//!
//! ```text
//!  alone (K = 1, ν = 2):  S1 ──REQUEST(S1,t)──▶ S0 (keeps t)   contended: S0 is inside with u, S1 asks for t
//!                         S1 ◀────TOKEN(t)───── S0             S1 ──REQUEST(S1,t)──▶ S0     queue of u: S1, tag S0
//!                         S1 enters, leaves                    S0 leaves: S0 ──TOKEN(u)──▶ S1
//!                         S1 ──INFORM(t)──▶ S2, S3             S1: pointer[t] = S0, enters with u
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | ν to N+ν; for K = 1, ν = 0 H(N−1) on average | – | K pointers, N numbers | REQUEST 5, INFORM 4 |
//! | heavy load | 2 (`random`: up to 2.6), measured | T | the same, up to N queue entries | TOKEN 4 + 2 per queue entry |
//!
//! The defaults are those of the report's section 5: ν = 2 and the last seen token.
//!
//! **Assumes** reliable FIFO channels. With one token FIFO is not needed. With more it is: a request that overtakes the
//! token on the way from an old holder to a tagged receiver comes home and is lost.
//!
//! A known weakness: a busy site absorbs every request that reaches it, so a requester can wait behind a long critical
//! section while another token is idle.
//!
//! **Departures**
//! - Where prose and pseudo-code differ, the pseudo-code is followed: `Handle_TOKEN` sets the pointer of the token that
//!   was *asked for* to the tag; an idle holder sets the pointer of the token it *gives*; it queues before it sends.
//!   (`text=token-prose`, `holder-prose` and `holder-silent` keep the other readings for the checker; errata
//!   `bulgannawar-vaidya-…`.)
//! - Tokens count their possessions, and an INFORM is obeyed only if it is news. As printed (`text=printed`) an INFORM
//!   that arrives late closes a circle of pointers, the request comes home and its site waits for ever, from N = 3, K =
//!   1 on: the report's proof overlooks `Handle_INFORM`. A site keeps the count that it last knew of each token. A
//!   REQUEST carries the largest that any site on its way knew; it stays with the request in the queues, and a site
//!   that is served by another token takes it over. An INFORM about the token that a site holds or waits for changes no
//!   pointer.
//! - Requests are numbered and count their hops, so that duplicates are recognised. (Through a passing circle a request
//!   may visit a site twice.)
//! - The report leaves two **choices** open: "choose token t using some heuristics" and "to any ν nodes". With `choice=random` the
//!   host chooses the token, with `informed=any` the sites that are informed. The defaults are fixed policies: the last seen
//!   token, as in section 5, where "last seen" starts at id mod K (ours), so that not all chase one token; and the ν
//!   sites take turns (ours).
//! - Where K exceeds N, the surplus tokens stay where they start; every site has one and none ever asks.
//!
//! **Invariants**
//! - I1: only a waiting site keeps requests in its node-queue.
//! - I2: the queue of a token that is kept unused is empty.
//! - I3: the pointer of a held token is the site itself, and no other pointer is.
//! - I4: the request of a waiting site is in exactly one place: on its way, in a node-queue, or in a token-queue. No
//!   other request is anywhere.
//! - I5: each token is in exactly one place.

mod facts;
mod info;
mod message;
#[cfg(test)]
mod tests;
mod text;

pub use info::Plan;
pub use message::{BulgannawarToken, Message, QueueEntry, Tag};

use smallvec::SmallVec;

use text::BulgannawarText;

use crate::algorithms::request::RequestId;
use crate::mutant::{self, Mutant};
use crate::{Cluster, NOT_A_PEER, Outbox, Site, SiteId, Slot};

/// One site (the report says node) of Bulgannawar and Vaidya's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BulgannawarVaidya {
    // This site.
    me: SiteId,
    cluster: Cluster,
    settings: Settings,
    // The local process.
    state: TokenState,
    /// How many requests I have made.
    requests: u64,
    /// `node-queue`: who waits for the token that I wait for.
    node_queue: Vec<Held>,
    /// How many tokens are here beside the one I use; only where there are more tokens than sites.
    surplus: usize,
    // What this site knows of the others.
    /// One for each token.
    ways: Box<[Way]>,
    /// The token of the last TOKEN or INFORM.
    last_seen: Slot,
    /// The last request that came from each site.
    seen: Box<[Seen]>,
}

/// What the options say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Settings {
    /// ν.
    inform: usize,
    informed: Informed,
    choice: Choice,
    text: BulgannawarText,
}

/// How a site chooses the token to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Choice {
    /// The host chooses.
    Random,
    LastSeen,
}

/// Which ν sites are told of a token that becomes idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Informed {
    /// They take turns.
    Turns,
    /// The host chooses.
    Any,
}

/// State of the local process, and which token is here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TokenState {
    /// Idle without a token.
    Away,
    /// Idle with a token that nobody wants.
    Keeping(Box<BulgannawarToken>),
    /// Waits to enter, and has asked for this token.
    Waiting(Slot),
    Inside(Box<BulgannawarToken>),
}

/// A request in a node-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    ask: RequestId,
    /// The most possessions of the token that any site on its way knew of.
    possessions: u64,
}

/// What I know of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Way {
    /// My parent in the token's forest.
    pointer: SiteId,
    /// The most possessions that I know of.
    possessions: u64,
}

/// The last request that came from one site: its number and how many had passed it on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Seen {
    number: u64,
    hops: u32,
}

impl Site for BulgannawarVaidya {
    type Message = Message;

    /// `Entry_CS`.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.phase_is_idle(), "the host requests only while the process is idle");
        self.requests += 1;
        match std::mem::replace(&mut self.state, TokenState::Away) {
            TokenState::Keeping(token) => self.enter_with(token, out),
            TokenState::Away | TokenState::Waiting(_) | TokenState::Inside(_) => {
                let token = self.choose(out);
                let Way { pointer, possessions } = self.ways[token.0 as usize];
                self.state = TokenState::Waiting(token);
                let ask = RequestId { site: self.me, number: self.requests };
                // A site without the token points at itself only as the prose has it; the request goes nowhere.
                if pointer != self.me {
                    out.send(pointer, Message::Request { ask, token, hops: 0, possessions });
                }
            }
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if !self.cluster.is_peer(self.me, from) {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { ask, token, hops, possessions } => {
                if let Err(why) = self.note_request(ask, token, hops) {
                    return out.misbehaved(from, why);
                }
                self.on_request(Held { ask, possessions }, token, hops, out);
            }
            Message::Token(token) => self.on_token(from, token, out),
            Message::Inform { token, possessions } => self.on_inform(from, token, possessions, out),
        }
    }

    /// `Exit_CS`.
    fn release(&mut self, out: &mut Outbox<Message>) {
        let TokenState::Inside(token) = std::mem::replace(&mut self.state, TokenState::Away) else {
            panic!("the host releases only while the process is inside");
        };
        if token.queue.is_empty() {
            self.inform(&token, out);
            self.state = TokenState::Keeping(token);
        } else {
            let untagged = token.queue.iter().rev().find(|entry| entry.tag.is_none());
            let last = untagged.unwrap_or(&token.queue[0]).ask.site;
            self.way_mut(token.id).pointer = last;
            give(token, out);
        }
    }
}

impl BulgannawarVaidya {
    /// Remembers the request, unless no correct peer could have sent it.
    fn note_request(&mut self, ask: RequestId, token: Slot, hops: u32) -> Result<(), &'static str> {
        if !self.cluster.is_peer(self.me, ask.site) {
            return Err("a request of no other site");
        }
        if token.0 as usize >= self.ways.len() {
            return Err("a request for a token that does not exist");
        }
        let this = Seen { number: ask.number, hops };
        if this <= self.seen[ask.site.index()] {
            return Err("a request that was here before");
        }
        let queued =
            self.token().is_some_and(|token| token.queue.iter().any(|entry| entry.ask.site == ask.site));
        let noted = self.node_queue.iter().any(|held| held.ask.site == ask.site);
        if self.settings.text == BulgannawarText::Repaired && (queued || noted) {
            return Err("a second request before the first was served");
        }
        self.seen[ask.site.index()] = this;
        Ok(())
    }

    /// `Handle_REQUEST`.
    fn on_request(&mut self, request: Held, wanted: Slot, hops: u32, out: &mut Outbox<Message>) {
        let (me, way) = (self.me, self.ways[wanted.0 as usize]);
        let possessions = request.possessions.max(way.possessions);
        let ask = request.ask;
        match &mut self.state {
            TokenState::Inside(token) => {
                let tag = (token.id != wanted).then_some(Tag { by: me, possessions });
                token.queue.push_back(QueueEntry { ask, tag });
            }
            TokenState::Keeping(_) => {
                let TokenState::Keeping(mut token) = std::mem::replace(&mut self.state, TokenState::Away)
                else {
                    unreachable!("the state was just matched");
                };
                let tag = (token.id != wanted).then_some(Tag { by: me, possessions });
                token.queue.push_back(QueueEntry { ask, tag });
                let turned =
                    if self.settings.text == BulgannawarText::HolderProse { wanted } else { token.id };
                self.way_mut(turned).pointer = ask.site;
                if self.settings.text == BulgannawarText::HolderSilent {
                    self.state = TokenState::Keeping(token);
                } else {
                    give(token, out);
                }
            }
            TokenState::Waiting(token) if *token == wanted => self.node_queue.push(Held { ask, possessions }),
            // Only as the prose has it; the request goes nowhere.
            TokenState::Away | TokenState::Waiting(_) if way.pointer == me => {}
            TokenState::Away | TokenState::Waiting(_) => {
                self.way_mut(wanted).pointer = ask.site;
                let hops = hops.saturating_add(1);
                out.send(way.pointer, Message::Request { ask, token: wanted, hops, possessions });
            }
        }
    }

    /// `Handle_TOKEN`.
    fn on_token(&mut self, from: SiteId, mut token: Box<BulgannawarToken>, out: &mut Outbox<Message>) {
        let TokenState::Waiting(wanted) = self.state else {
            return out.misbehaved(from, "a token that nobody waits for");
        };
        if !self.is_sound(&token) {
            return out.misbehaved(from, "a token of a wrong shape");
        }
        let mine = RequestId { site: self.me, number: self.requests };
        let Some(&QueueEntry { ask, tag }) = token.queue.front() else {
            unreachable!("a sound token is for someone")
        };
        if ask != mine || tag.is_none() != (token.id == wanted) {
            return out.misbehaved(from, "a token that nobody waits for");
        }
        token.queue.pop_front();
        if let Some(tag) = tag.filter(|_| self.settings.text != BulgannawarText::TokenProse) {
            let way = self.way_mut(wanted);
            way.pointer = tag.by;
            way.possessions = way.possessions.max(tag.possessions);
        }
        token.queue.extend(self.node_queue.drain(..).map(|held| {
            let possessions = |tag: Tag| tag.possessions.max(held.possessions);
            QueueEntry {
                ask: held.ask,
                tag: tag.map(|tag| Tag { by: tag.by, possessions: possessions(tag) }),
            }
        }));
        token.possessions = token.possessions.saturating_add(1);
        let prose = tag.filter(|_| self.settings.text == BulgannawarText::TokenProse);
        let pointer = prose.map_or(self.me, |tag| tag.by);
        *self.way_mut(token.id) = Way { pointer, possessions: token.possessions };
        self.last_seen = token.id;
        self.enter_with(token, out);
    }

    /// `Handle_INFORM`, of news only.
    fn on_inform(&mut self, from: SiteId, token: Slot, possessions: u64, out: &mut Outbox<Message>) {
        let held = self.token().is_some_and(|held| held.id == token);
        let Some(way) = self.ways.get_mut(token.0 as usize) else {
            return out.misbehaved(from, "news of a token that does not exist");
        };
        if held && possessions > way.possessions {
            return out.misbehaved(from, "news of a token that is here");
        }
        let waiting = matches!(&self.state, TokenState::Waiting(wanted) if *wanted == token);
        let obeyed = match self.settings.text {
            BulgannawarText::Printed => !waiting,
            _ if possessions <= way.possessions && !mutant::is_on(Mutant::BulgannawarVaidyaStaleInform) => {
                return;
            }
            BulgannawarText::Repaired
            | BulgannawarText::TokenProse
            | BulgannawarText::HolderProse
            | BulgannawarText::HolderSilent => {
                way.possessions = possessions;
                !waiting
            }
        };
        self.last_seen = token;
        if obeyed {
            way.pointer = from;
        }
    }

    /// The last part of `Exit_CS`: tells "any ν nodes" where the token is.
    fn inform(&self, token: &BulgannawarToken, out: &mut Outbox<Message>) {
        let (me, sites) = (self.me, self.cluster.sites);
        let count = self.settings.inform.min(sites - 1);
        let message = Message::Inform { token: token.id, possessions: token.possessions };
        match self.settings.informed {
            Informed::Turns => {
                for nth in 0..count as u64 {
                    let turn =
                        self.requests.wrapping_mul(count as u64).wrapping_add(nth) % (sites as u64 - 1);
                    let step = 1 + usize::try_from(turn).expect("below the number of sites");
                    out.send(SiteId::new((me.index() + step) % sites), message.clone());
                }
            }
            Informed::Any => {
                let mut others: SmallVec<[SiteId; 16]> = SiteId::others_from(me, sites).collect();
                out.shuffle_first(count, &mut others);
                // In which order they are told does not matter.
                out.send_all(&others[..count].iter().copied().collect(), &message);
            }
        }
    }

    /// "Choose token t using some heuristics" (section 3).
    fn choose(&self, out: &mut Outbox<Message>) -> Slot {
        match self.settings.choice {
            Choice::LastSeen => self.last_seen,
            Choice::Random => {
                let drawn = out.choose(self.ways.len());
                Slot(u32::try_from(drawn).expect("tokens are numbered by 32 bits"))
            }
        }
    }

    fn enter_with(&mut self, token: Box<BulgannawarToken>, out: &mut Outbox<Message>) {
        out.enter_slot(token.id);
        self.state = TokenState::Inside(token);
    }

    fn way_mut(&mut self, token: Slot) -> &mut Way {
        &mut self.ways[token.0 as usize]
    }

    /// Whether all that a token carries is within the cluster, and it is for someone.
    fn is_sound(&self, token: &BulgannawarToken) -> bool {
        let exists = |site: SiteId| site.index() < self.cluster.sites;
        let is_right =
            |entry: &QueueEntry| exists(entry.ask.site) && entry.tag.is_none_or(|tag| exists(tag.by));
        let not_by_me =
            token.queue.front().is_some_and(|entry| entry.tag.is_none_or(|tag| tag.by != self.me));
        (token.id.0 as usize) < self.ways.len()
            && token.queue.len() <= self.cluster.sites
            && not_by_me
            && token.queue.iter().all(is_right)
            && token.queue.iter().skip(1).all(|entry| entry.ask.site != self.me)
    }

    fn phase_is_idle(&self) -> bool {
        matches!(self.state, TokenState::Away | TokenState::Keeping(_))
    }

    fn token(&self) -> Option<&BulgannawarToken> {
        match &self.state {
            TokenState::Away | TokenState::Waiting(_) => None,
            TokenState::Keeping(token) | TokenState::Inside(token) => Some(token),
        }
    }
}

/// The token goes to the first of its queue.
fn give(token: Box<BulgannawarToken>, out: &mut Outbox<Message>) {
    out.send(token.queue[0].ask.site, Message::Token(token));
}
