//! Calls may come to any site: those that name a session are forwarded to the site that has it, and executed there as if they had come to its
//! own port.
//!
//! ```text
//!  client ──▶ a: guard ─▶ route ── whose is it? ──▶ here: the handlers of a
//!                           │
//!                           └─ b's ─▶ outgoing ═══ packets of the sites ═══▶ b: incoming ─▶ guard ─▶ the handlers of b
//! ```
//!
//! - `subject`: what a request is about, read from the request. Pure.
//! - `route`: the layer in front of all handlers.
//! - `outgoing`: calls of this site's clients, until they are answered, given up or lost. `incoming`: calls of other members.
//! - `stand_in`: calls for a site that does not answer, whose mirror does.
//! - `messages`: requests and answers of HTTP as they are forwarded.
//! - `sessions::whereabouts` answers where a session is.
//!
//! **At most once.** A call has a number that its site never uses again. It is repeated until something is heard of it, and the other site
//! executes it at the first time; later ones are answered with what became of it. Where the answer is lost for good, the client is told
//! that it is not known.
//!
//! **Waiting.** A call may wait for a lock as long as its client likes. If the client goes away, the other site is told, and notices in any
//! case that the call is not repeated any more. A call is over when either site is not a member any more in the same incarnation.
//!
//! **No circles.** What was forwarded once is executed where it arrives, or refused.
//!
//! **Trust.** The members' connections are authenticated, and only members of the view are listened to. A member says in whose name it
//! calls; it could as well hold any lock itself. Credentials are not forwarded.

mod incoming;
mod messages;
mod outgoing;
mod route;
mod stand_in;
mod subject;

#[cfg(test)]
pub(crate) use incoming::execute;
pub(crate) use incoming::{ForwardedBy, serve};
pub(crate) use outgoing::{ForwardError, Outgoing};
pub(crate) use route::route;
pub(crate) use subject::KEEP_ALIVE;
