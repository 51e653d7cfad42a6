//! Claims: how a client keeps its locks, with the same fences, when its site dies or leaves.
//!
//! ```text
//!  client ── holds x through d, and has a proof of it ── d is gone ── shows the proof to s: "I claim x" ── pending ── settled
//!  s      ── knows d's key, from its census ────────────────────────▶ enters the claim                     ▲
//!  view   ── d and s are members ──────────────────────────────────────────────────── a view without d ──┘ s's census lists x
//! ```
//!
//! **Why a pending claim is safe.** The member s tells the client that nobody else gets x before the earlier of two times: the end
//! of s's lease, and the end of the time for which d keeps x for the client. As long as the incarnation d is in the view, x is held by d's
//! machines. So another client can get it in two ways only.
//! - *d gives x up.* If d's process has ended, it gives up nothing. If it runs, it gives up nothing without the client's word before the resume
//!   window W has passed since it last heard from the client: not if the connection is cut, nor if d's lease ends, nor
//!   if an operator takes the lock away (`table/resuming.rs`). The client says, when it sends the claim, how long ago it sent something that d
//!   has certainly received. The member s answers how much is left of W, and the client counts that *from when it sent the claim*, because
//!   nobody knows how long the claim was on its way. So it stops on its own clock no later than W after that contact, and d waits W·(1+drift)
//!   on its own. If d has said that it leaves, it gives up nothing any more, and no time limits the claim.
//! - *A view without d opens.* If s is a member of it, the view needs s's census, and s turns its claims on d into holds before it writes
//!   the census; so the view opens with x held by s. This is so whichever views s has missed in between: a view that has s as a member does not open
//!   anywhere before s has installed it. If s is not a member of it, its lease has ended before the view was agreed on.
//!
//! So a claim is refused if d is not in the view that s has installed: a view without d may be open. And it is refused if s has no
//! lease. What s has told a client counts until the client has certainly stopped: s does not leave the cluster before, and a view without d
//! finds x held by s, also if the client was told meanwhile that it has lost the claim, or was cut off. A client that was cut off may not have
//! heard of its loss; it relies on what it was told before, until the end of s's lease at that time.
//!
//! **What the client owes.** It claims nothing that it has released or was told is lost. A claim of such a lock does no harm to others: as
//! long as d is a member the claim is nothing but a note at s. When d is gone, and somebody else holds the lock, the name has more
//! holders than permits, nobody enters, and s gives up what was claimed. If nobody does, the client holds it, with an old fence.
//! A client that claims the same hold at two members loses it in the same way, unless it gives up one of the claims before. At one
//! member the later claim replaces the earlier one.
//!
//! **Standing claims.** Clients of the wire APIs know no proofs. For them one member claims what another one holds as soon as it hears of it
//! (`Reserved::Standing`), and keeps the claim for as long as the other one says that the client holds the lock. The claim is like all
//! others, except that s promises nobody anything by it: until when s may answer for d's clients is for whoever runs the mirror to know, and
//! has the same two ends (`crates/mirror`).

use super::{ClientAnswer, Node, NodeOutput};
use crate::claim::{ClaimKey, Proof, ProvedHold, Reserved};
use crate::mutant::{self, Mutant};
use crate::names::Member;
use crate::rules::Rules;
use crate::table::{Census, ClaimRefusal, LockClaim, Provable, Request, RequestRefusal};
use crate::time::Span;

impl Node {
    /// Gives a client the proof of a lock that it holds.
    pub(super) fn on_prove(&mut self, request: Request, out: &mut Vec<NodeOutput>) {
        let provable = self.config.claim_key.and_then(|key| Some((key, self.table.prove(request)?)));
        let proof = provable.map(|(key, Provable { lock, permits, slot, fence, mode })| {
            let hold = ProvedHold { holder: self.me.clone(), lock, permits, slot, fence, mode };
            Box::new(Proof::new(&key, &self.cluster.bytes(), hold))
        });
        out.push(NodeOutput::Answer(ClientAnswer::Proof { request, proof }));
    }

    /// Handles a client's claim.
    pub(super) fn on_claim(&mut self, claim: &LockClaim, out: &mut Vec<NodeOutput>) {
        let LockClaim { session, request, proof, reserved } = claim;
        let (checked, reserved) = (self.check_proof(proof), self.still_reserved(*reserved));
        let is_here = proof.hold().holder == self.me;
        self.in_table(out, |table, lease_clock, out| match checked {
            Err(why) => table.refuse_claim(*request, why, out),
            Ok(()) if is_here => table.resume(*session, *request, proof.hold(), lease_clock, out),
            Ok(()) => table.claim(claim, reserved, lease_clock, out),
        });
    }

    /// Checks that the member that the proof names has made it.
    fn check_proof(&self, proof: &Proof) -> Result<(), ClaimRefusal> {
        let holder = &proof.hold().holder;
        let key =
            if *holder == self.me { self.config.claim_key } else { self.claim_keys.get(holder).copied() };
        match key {
            Some(key) if proof.is_by(&key, &self.cluster.bytes()) => Ok(()),
            Some(_) if mutant::is_on(Mutant::ProofNotChecked) => Ok(()),
            Some(_) => Err(ClaimRefusal::BadProof),
            None if *holder == self.me => Err(ClaimRefusal::BadProof),
            None if self.view.contains(holder) => Err(ClaimRefusal::UnknownKey),
            None => Err(ClaimRefusal::NotMember),
        }
    }

    /// Returns for how long from now on, on this site's clock, the member that granted a lock certainly keeps it for the client; `None` if
    /// no time limits that.
    fn still_reserved(&self, reserved: Reserved) -> Option<Span> {
        let terms = self.lease.terms();
        match reserved {
            Reserved::Forever | Reserved::Standing => None,
            Reserved::For(span) => Some(span),
            Reserved::SinceContact { ago } => {
                let passed = terms.drift.stretch(ago).micros();
                Some(Span::from_micros(terms.resume_window().micros().saturating_sub(passed)))
            }
        }
    }

    /// Prepares to leave: no client gets a lock here any more, and nothing that somebody may claim elsewhere is given to others.
    pub(super) fn freeze(&mut self, out: &mut Vec<NodeOutput>) {
        self.in_table(out, |table, lease_clock, out| {
            table.freeze(lease_clock, out);
            table.turn_away(RequestRefusal::Leaving, out);
        });
    }

    /// Ends the view in the table, for the one that was just installed. Returns the census of this site.
    pub(super) fn stop_table(&mut self, rules: Option<&Rules>) -> Census {
        let view = &self.view;
        self.claim_keys.retain(|member, _| view.contains(member) || mutant::is_on(Mutant::ClaimOnDeparted));
        let is_late = mutant::is_on(Mutant::ClaimNotInCensus);
        if !is_late {
            self.table.install(&self.view.members);
        }
        let census = self.table.stop_in_pieces(self.config.limits.census_piece, rules);
        if is_late {
            self.table.install(&self.view.members);
        }
        census
    }

    /// Learns the keys of the members that have sent their census of the view that opens now.
    pub(super) fn learn_claim_keys(&mut self) {
        let (view, epoch) = (&self.view, self.view.epoch);
        let learnt = self.change.claim_keys(epoch).filter(|(member, _)| view.contains(member));
        let learnt: Vec<(Member, ClaimKey)> = learnt.map(|(member, key)| (member.clone(), key)).collect();
        self.claim_keys.extend(learnt);
    }
}
