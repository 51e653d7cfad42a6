//! Mirrors: how sessions of the wire APIs outlive their site. Pure machines: whoever drives them passes in the time, what the sites say to
//! each other and what becomes of claims, and carries out what they return. `crates/service` does so for a node, and
//! `crates/cluster-sim` for whole clusters under faults.
//!
//! Clients of etcd, Consul and our own API know no proofs. So each site d has one *mirror* m, the next member in the order of names.
//! It knows which sessions of d hold something, and has [claimed](meshlock_cluster::claim::Reserved::Standing) all of it.
//!
//! ```text
//!  client ── lock ──▶ d ── granted ──▶ client            nothing of this waits for m
//!                     d ◀── what has changed since v? ── m      m has always one such question at d
//!                     d ── session, key, proof ────────▶ m      m claims the lock with the proof
//!                     d ◀── … since v+1? ─────────────── m      now d knows that m knows
//!  d is gone:
//!  client ── keep-alive ──▶ any site ──▶ m ── "2 s more" ──▶ client         the claim is pending
//!            a view without d is installed: the claims are holds of m, with the same fences, and m has the sessions
//! ```
//!
//! **Why nobody else gets a lock while its client counts on what m says.** As for every claim (`cluster/src/node/claims.rs`), there are two
//! ways in which another client can get it.
//! - *d gives it up.* Without its client's word d gives nothing to others that m may know of, before m has confirmed that it knows it is
//!   over, or before W·(1+drift) on d's clock since d answered m last ([`Source::is_cleared`]). And m promises nothing beyond W after it *sent*
//!   the last question that was answered, on its own clock ([`contact`]). A release or the end of a session is the client's word: the client
//!   counts on nothing more.
//! - *A view without d opens.* Then m's census lists the lock, or m's lease has ended before; and m promises nothing beyond its lease.
//!
//! While d answers, m answers for nobody: it withdraws what it has adopted when d was silent for a moment. Both may have answered a client in
//! between, which is no harm: each has said what it can keep. In that time m renews sessions, and nothing else: what would change them waits
//! until they are m's, or d's again.
//!
//! **Releases.** A release hands the lock over at once, but its client is told only when m knows it, for at most [`ACKNOWLEDGE_WITHIN`]: if d died
//! before, m would hold the lock again for the same session. Where m has not been heard of for that long nobody waits for it. If then
//! d dies and m comes back in time, the session holds the lock again, with its old fence, until it is released again or ends.
//!
//! **Whose time.** A session that nobody has renewed at m since d was heard of ends W after that (or with its own time to live, if that is
//! shorter): clients are told times that end before. After its first renewal at m it lasts as long as its client asked for.
//!
//! **A site that leaves** lets go of nothing that it has proved. It tells m so, and m adopts its sessions at once, for which no time is set. When m
//! has confirmed it, d forgets them and leaves; calls that come to d are forwarded to m like all others.
//! While m cannot keep all of them, it confirms nothing, and asks for everything anew: it has no lease, or its clients have as many permits of a
//! semaphore as one site may have, or its registry has a key of that name. What m has confirmed and d does not list any more is m's.
//!
//! **Changes of views.** A member that joins may become the mirror in m's place. m drops at once what no client counts on, begins to answer for
//! nobody, and asks d on, beside its own new question elsewhere: d tells it that all is over that it may know of, and m confirms that when nobody
//! counts on what it has said. Until then d tells the new mirror n of nothing that m may claim, and counts no release as known:
//!
//! ```text
//!  m ── what has changed? ──▶ d ── all of it is over ──▶ m ── (its promises end) ── confirmed ──▶ d ── session, key, proof ──▶ n
//! ```
//!
//! Were both told, both would claim, and void each other's claims when d dies; and what n knows to be released would come back through m, if m has
//! not heard it. d expects nothing of m any more W·(1+drift) after it answered m last, and when a view without m is installed: then m's
//! claims are over with its lease. In between nobody may claim a session for a moment, as when it is new.
//!
//! If m knows that d leaves, m stays the mirror: d has forgotten the sessions for which m answers by then.
//!
//! **Bounds.** m has one question at d, and d one answer on its way to each member, of at most 96 KiB of sessions. What is copied is limited in number
//! (`site_copy.rs`), and m believes no record without a proof of d. Sessions that last as long as a call, or have no time to live, are not mirrored.
//!
//! - [`Source`]: what d has told, and what it owes. [`HeldQuestion`]: when d answers. [`ReleaseWait`]: when a release is acknowledged.
//! - [`Mirror`]: all that m knows and decides, and the [effects](MirrorEffect) that its host carries out; [`contact`] says what m may promise.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

pub mod contact;
mod effect;
mod follower;
mod held_question;
mod mirror;
mod release;
mod session;
mod session_copy;
mod site_copy;
mod source;

pub use effect::{Adoption, ClaimNumber, ClaimState, MirrorEffect, NewClaim, Surroundings};
pub use held_question::HeldQuestion;
pub use mirror::{LOOK_EVERY, Mirror, PAUSE, Question, mirror_of};
pub use release::{ACKNOWLEDGE_WITHIN, ReleaseWait};
pub use session::{LeaseId, Vouched};
pub use site_copy::SiteCopy;
pub use source::{ChangeNumber, Source, UnknownVersion};
