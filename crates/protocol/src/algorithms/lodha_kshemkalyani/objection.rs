//! What no correct peer sends. (As printed, correct peers do.)

use super::message::Owed;
use super::{LodhaKshemkalyani, Message};
use crate::algorithms::request::RequestState;
use crate::{SiteId, SiteSet, Timestamp};

impl LodhaKshemkalyani {
    /// What is wrong with a message, if anything is.
    pub(super) fn objection(&self, from: SiteId, message: &Message) -> Option<&'static str> {
        if !self.fits_the_options(message) {
            return Some("a message of a wrong shape");
        }
        let last = self.last_request_of(from);
        let last_can_be_finished = last.is_none_or(|last| self.can_be_finished(last));
        match message {
            Message::Request { clock, .. } if *clock <= self.last_request[from.index()] => {
                Some("a request that is not newer than its last")
            }
            Message::Request { .. } => (self.deferred.contains(from) || !last_can_be_finished)
                .then_some("a second request before the first was served"),
            Message::Reply { to, executed, .. } => {
                let expected = matches!(self.state, RequestState::Waiting(mine) if mine.clock == *to);
                if !expected || self.answered.contains(from) {
                    return Some("a reply that nobody waits for");
                }
                let is_last = executed.unwrap_or_default() == self.last_request[from.index()];
                (!is_last || !last_can_be_finished).then_some("a reply that calls finished what is not")
            }
            Message::Flush { executed, .. } => {
                let is_last = last == Some(Timestamp::new(*executed, from));
                (!is_last || !last_can_be_finished).then_some("a flush that calls finished what is not")
            }
            Message::Handover { number, finished, owed, .. } => {
                self.objection_to_handover(from, *number, *finished, owed)
            }
        }
    }

    /// Whether it carries what the options in use ask for, and no more.
    fn fits_the_options(&self, message: &Message) -> bool {
        match message {
            Message::Request { answers, .. } => answers.is_none() || self.rules.combined_exit,
            Message::Reply { highest, .. }
            | Message::Flush { highest, .. }
            | Message::Handover { highest, .. } => highest.is_some() == self.rules.sequence_on_all,
        }
    }

    fn objection_to_handover(
        &self,
        from: SiteId,
        number: u64,
        finished: Timestamp,
        owed: &[Owed],
    ) -> Option<&'static str> {
        let Some(custody) = &self.custody else {
            return Some("a hand-over without combined-exit");
        };
        if number <= custody.received[from.index()] {
            return Some("a hand-over that came before");
        }
        let in_view = |site: SiteId| site.index() < self.sites();
        let for_me = owed.first().is_some_and(|first| first.request.site == self.me);
        let well_formed = for_me
            && owed.iter().map(|owed| owed.request.site).collect::<SiteSet>().len() == owed.len()
            && owed.is_sorted_by(|a, b| a.request < b.request)
            && in_view(finished.site)
            && owed.iter().all(|owed| {
                let names_itself = owed.answered.contains(owed.request.site);
                in_view(owed.request.site) && owed.answered.iter().all(in_view) && !names_itself
            });
        if !well_formed {
            return Some("a hand-over of a wrong shape");
        }
        (!self.can_be_finished(finished)).then_some("a hand-over that calls finished what is not")
    }

    /// Whether `done` can be finished: not while an earlier request waits or executes here.
    fn can_be_finished(&self, done: Timestamp) -> bool {
        self.own().is_none_or(|mine| done < mine)
    }
}
