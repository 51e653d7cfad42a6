//! The option `adaptive`, ours: an answer to what section V-B leaves open, a heuristic for heavy load.
//!
//! A site that leaves and wants in again at once writes its next request into the token that it passes on (TSV and TSN).
//! The request *rides*: no message is spent on it, and it is certain to be served, because whoever gets the token knows
//! it. When every site always wants in, an entry costs one message, the token itself, instead of N. At low load nothing
//! changes: nobody waits when a site leaves, so the token stays, and the site enters again without a message.
//!
//! Nobody starves: under `arbitration=nearest` a request that rides is served after all that the token met on its way round,
//! as any other. I5 and I6 hold as before. Whoever leaves while the request rides finds it in the token and looks to its
//! site; and those that waited when it was written leave before it is served, or still wait then.

use crate::{Outbox, SiteSet};

use super::info::Count;
use super::message::{Message, Token};
use super::{SinghalHeuristic, State};

impl SinghalHeuristic {
    /// Step 3, and step 1 again at once.
    pub(super) fn leave_and_ride(
        &mut self,
        mut token: Box<Token>,
        asked: SiteSet,
        out: &mut Outbox<Message>,
    ) {
        self.update(&mut token, &asked);
        let Some(next) = self.options.arbitration.next(self.me, &token) else {
            if self.options.count == Count::Entries {
                self.number = self.number.next();
            }
            self.state = State::Executing { token, asked };
            return out.enter();
        };
        self.number = self.number.next();
        let asked = self.row.intersection(&token.requesting);
        token.note(self.me, self.number);
        self.pass(token, next, out);
        // Who is left in the row had sent a request that came too late: it must have mine.
        self.state = State::Waiting { asked };
        self.ask_row(out);
    }
}
