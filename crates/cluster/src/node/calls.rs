//! Calls of clients that one member forwards to another, because that one has the client's session.
//!
//! ```text
//!  client ── call ──▶ a ── Call ──▶ b     b executes it in the client's name
//!                     a ◀─ Answer ─ b     a passes the answer on, and says that it is done with the call
//!                     a ── Ended ─▶ b     or that its client has gone: then b stops executing it
//! ```
//!
//! The node only passes these messages between the hosts of two members; what a call says, how long it may take and what becomes of it
//! if a message is lost is the hosts' business. They are no part of a hand-over of a lock: they take neither the links nor the table.
//!
//! Only members are believed, and only the incarnation that is in this site's view: it vouches for the client in whose name it calls, as
//! it could hold any lock itself. A message for another incarnation of the receiver is dropped, so that a site that was restarted
//! executes nothing that was meant for its predecessor.

use super::packet::Content;
use super::{Node, NodeOutput};
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member};

/// Maximum length in bytes of a forwarded call and of its answer. Locks share the connection: a message must not keep them waiting.
pub const MAX_CALL_BYTES: usize = 256 << 10;

/// A message about a forwarded call, between the hosts of two members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallMessage {
    /// Identifies the call among those of the incarnation that forwards it.
    pub number: u64,
    pub part: CallPart,
}

/// What a message says about a forwarded call. The crate `wire` defines the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPart {
    /// To the site that has the session: execute this. May be repeated until there is an answer.
    Call(Vec<u8>),
    /// From there: the answer, or that it is still being executed. Empty if that site serves no calls.
    Answer(Vec<u8>),
    /// To there: no answer is wanted any more.
    Ended,
}

impl CallMessage {
    /// Returns the packet content for this incarnation of the receiver.
    fn content(self, to: Incarnation) -> Content {
        let number = self.number;
        match self.part {
            CallPart::Call(body) => Content::Call { to, number, body },
            CallPart::Answer(body) => Content::CallAnswer { to, number, body },
            CallPart::Ended => Content::CallEnded { to, number },
        }
    }

    /// Returns the message in a packet's content and the incarnation that it is for, if there is one.
    fn take(content: Content) -> Option<(Incarnation, Self)> {
        let (to, number, part) = if let Content::Call { to, number, body } = content {
            (to, number, CallPart::Call(body))
        } else if let Content::CallAnswer { to, number, body } = content {
            (to, number, CallPart::Answer(body))
        } else if let Content::CallEnded { to, number } = content {
            (to, number, CallPart::Ended)
        } else {
            return None;
        };
        Some((to, CallMessage { number, part }))
    }

    /// Returns the length of what it says in bytes.
    pub fn body_len(&self) -> usize {
        match &self.part {
            CallPart::Call(body) | CallPart::Answer(body) => body.len(),
            CallPart::Ended => 0,
        }
    }
}

impl Node {
    /// Returns whether calls can be forwarded to this member: it is in the view, and its program knows them.
    pub fn forwards_to(&self, member: &Member) -> bool {
        let knows = self.old_programs.get(&member.site).is_none_or(|known| known.forwards_calls);
        knows && self.may_send && self.view.contains(member) && *member != self.me
    }

    /// Sends a message about a call to another member, if it can be sent.
    pub(super) fn send_call(&mut self, to: Member, message: CallMessage, out: &mut Vec<NodeOutput>) {
        if self.forwards_to(&to) && message.body_len() <= MAX_CALL_BYTES {
            let content = message.content(to.incarnation);
            self.send(to.site, content, out);
        }
    }

    /// Handles a message about a call.
    pub(super) fn on_call_content(&mut self, from: Member, content: Content, out: &mut Vec<NodeOutput>) {
        let Some((to, message)) = CallMessage::take(content) else { return };
        if message.body_len() > MAX_CALL_BYTES {
            return Node::misbehaved(from.site, "a call beyond its bounds", out);
        }
        let is_for_me = to == self.me.incarnation || mutant::is_on(Mutant::PredecessorsCallsTaken);
        let is_member = self.view.contains(&from) || mutant::is_on(Mutant::StrangersCallsTaken);
        // A site may be one that was a member a moment ago, and does not know it yet: it is not reported.
        if !is_for_me || !is_member || !self.may_send {
            return;
        }
        if let (CallPart::Call(_), false) = (&message.part, self.serves_calls) {
            let answer = CallMessage { number: message.number, part: CallPart::Answer(Vec::new()) };
            return self.send_call(from, answer, out);
        }
        out.push(NodeOutput::Call { from, message });
    }
}
