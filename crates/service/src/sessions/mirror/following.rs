//! The side of the mirror: asks the member before it for its sessions, and looks who is silent or gone.

use std::pin::pin;
use std::sync::Weak;
use std::time::Duration;

use meshlock_cluster::names::Member;
use meshlock_cluster::time::Time;
use meshlock_system::now;
use meshlock_wire::sites::calls::{CallAsk, CallReply};
use meshlock_wire::sites::mirror::MirrorNews;
use tokio::time::sleep;

use super::contact::question_timeout;
use super::mirror_of;
use super::site_copy::SiteCopy;
use crate::forward::ForwardError;
use crate::sessions::{Inner, Sessions};

/// How often it is looked whether the other member is silent, or gone.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long nobody is asked after a question was refused.
const PAUSE: Duration = Duration::from_millis(200);

/// All that this site mirrors: the member before it, and members that are gone and whose sessions are not taken over yet.
#[derive(Default)]
struct Following {
    copies: Vec<SiteCopy>,
    neighbours: Neighbours,
}

/// Who takes part, as of the view with this epoch.
#[derive(Default)]
struct Neighbours {
    epoch: u32,
    /// The others, if this site takes part.
    members: Option<Vec<Member>>,
    /// The member that this site mirrors.
    source: Option<Member>,
}

impl Neighbours {
    /// Looks who takes part, if that may have changed: the node's lock is for locks.
    fn look(&mut self, here: &Sessions) {
        let (front, epoch) = (here.front(), here.front().epoch());
        if epoch == self.epoch {
            return;
        }
        let members = front.is_member().then(|| front.other_members());
        let sites = front.members();
        let is_source = |other: &&Member| mirror_of(&other.site, sites.iter()) == Some(here.site());
        let source = members.iter().flatten().find(is_source).cloned();
        *self = Neighbours { epoch, members, source };
    }
}

/// Follows the member before this one, until the last clone of the sessions is dropped.
pub(in crate::sessions) async fn follow(sessions: Weak<Inner>) {
    let mut following = Following::default();
    loop {
        let Some(inner) = sessions.upgrade() else { return };
        let here = Sessions(inner);
        following.look(&here, now());
        let Some((source, have)) = following.question(&here) else {
            drop(here);
            sleep(LOOK_EVERY).await;
            continue;
        };
        let sent = now();
        let reply = following.ask(&here, &source, have, sent).await;
        let is_answered = match reply {
            Some(Ok(CallReply::Mirror(news))) => following.on_news(&here, &source, news, (sent, now())),
            // It does not know the version: it begins anew.
            Some(Ok(CallReply::NotHere)) => {
                following.restart(&source);
                false
            }
            Some(Ok(_) | Err(_)) => false,
            None => true,
        };
        drop(here);
        if !is_answered {
            sleep(PAUSE).await;
        }
    }
}

impl Following {
    /// Asks a member what has changed of its sessions. Returns `None` if the answer takes too long, or nobody wants it any more.
    async fn ask(
        &mut self,
        here: &Sessions,
        source: &Member,
        have: u64,
        sent: Time,
    ) -> Option<Result<CallReply, ForwardError>> {
        let timeout = question_timeout(here.front().lease_terms(), self.has_sessions());
        let mut question = pin!(here.ask_member(&source.site, CallAsk::Mirror { have }));
        loop {
            tokio::select! {
                reply = &mut question => return Some(reply),
                () = sleep(LOOK_EVERY) => {
                    self.look(here, now());
                    let is_same = self.question(here).is_some_and(|(member, _)| member == *source);
                    if !is_same || now().since(sent) > timeout {
                        return None;
                    }
                }
            }
        }
    }

    fn has_sessions(&self) -> bool {
        self.copies.iter().any(|copy| !copy.sessions.is_empty())
    }

    fn copy_of(&mut self, source: &Member) -> Option<&mut SiteCopy> {
        self.copies.iter_mut().find(|copy| copy.source == *source)
    }

    /// Returns whom to ask, and which news of it this site has.
    fn question(&self, here: &Sessions) -> Option<(Member, u64)> {
        let source = self.source(here)?;
        let copy = self.copies.iter().find(|copy| copy.source == *source && copy.parked.is_none())?;
        Some((copy.source.clone(), copy.have))
    }

    /// Returns the member that this site mirrors; none if this site leaves.
    fn source(&self, here: &Sessions) -> Option<&Member> {
        self.neighbours.source.as_ref().filter(|_| !here.front().is_leaving())
    }

    /// Looks who is there and who is silent, and does what follows from it.
    fn look(&mut self, here: &Sessions, now: Time) {
        self.neighbours.look(here);
        let source = self.source(here).cloned();
        if let Some(source) = source.as_ref().filter(|source| self.copy_of(source).is_none()) {
            self.copies.push(SiteCopy::new(source.clone(), now));
        }
        let terms = here.front().lease_terms();
        let members = &self.neighbours.members;
        self.copies.retain_mut(|copy| {
            let is_member = members.as_ref().is_some_and(|members| members.contains(&copy.source));
            if members.is_none() {
                copy.drop_all(here);
                return false;
            }
            if is_member {
                copy.attend(here, now, terms);
                if source.as_ref() == Some(&copy.source) {
                    return true;
                }
                // Another member is its mirror, or this site leaves.
                copy.drop_unless(here, |session| session.is_relied_on(now));
                return !copy.sessions.is_empty();
            }
            copy.take_over(here, now, terms);
            !copy.sessions.is_empty()
        });
        here.meter().set_mirrored(self.copies.iter().map(|copy| copy.sessions.len()).sum());
    }

    /// Handles an answer to a question that was sent at `sent`. Returns whether it can be asked again at once.
    fn on_news(
        &mut self,
        here: &Sessions,
        source: &Member,
        news: MirrorNews,
        (sent, now): (Time, Time),
    ) -> bool {
        let Some(copy) = self.copy_of(source) else { return true };
        copy.on_news(here, news, (sent, now));
        let is_complete = !copy.is_incomplete;
        if !is_complete {
            copy.restart();
        }
        here.meter().set_mirrored(self.copies.iter().map(|copy| copy.sessions.len()).sum());
        is_complete
    }

    fn restart(&mut self, source: &Member) {
        if let Some(copy) = self.copy_of(source) {
            copy.restart();
        }
    }
}
