//! The side of the mirror: asks the member before it for its sessions, and looks who is silent or gone.

use std::pin::pin;
use std::sync::Weak;
use std::time::Duration;

use meshlock_cluster::time::Time;
use meshlock_mirror::{LOOK_EVERY, PAUSE, Question};
use meshlock_system::now;
use meshlock_wire::sites::calls::{CallAsk, CallReply};
use meshlock_wire::sites::mirror::MirrorNews;
use tokio::time::sleep;

use super::effects::Following;
use crate::forward::ForwardError;
use crate::sessions::{Inner, Sessions};

/// Returns a time that this site waits for.
fn duration(span: meshlock_cluster::time::Span) -> Duration {
    Duration::from_micros(span.micros())
}

/// Follows the member before this one, until the last clone of the sessions is dropped.
pub(in crate::sessions) async fn follow(sessions: Weak<Inner>) {
    let mut following = Following::default();
    loop {
        let Some(inner) = sessions.upgrade() else { return };
        let here = Sessions(inner);
        following.look(&here, now());
        let Some(question) = following.question(&here) else {
            drop(here);
            sleep(duration(LOOK_EVERY)).await;
            continue;
        };
        let sent = now();
        let reply = following.ask(&here, &question, sent).await;
        let is_answered = match reply {
            Some(Ok(CallReply::Mirror(news))) => following.on_answer(&here, &question, news, sent),
            // It does not know the version: it begins anew.
            Some(Ok(CallReply::NotHere)) => {
                following.mirror.on_unknown(&question.source);
                false
            }
            Some(Ok(_) | Err(_)) => false,
            None => true,
        };
        drop(here);
        if !is_answered {
            sleep(duration(PAUSE)).await;
        }
    }
}

impl Following {
    /// Asks a member what has changed of its sessions. Returns `None` if the answer takes too long, or nobody wants it any more.
    async fn ask(
        &mut self,
        here: &Sessions,
        question: &Question,
        sent: Time,
    ) -> Option<Result<CallReply, ForwardError>> {
        let mut asked = pin!(here.ask_member(&question.source.site, CallAsk::Mirror { have: question.have }));
        loop {
            tokio::select! {
                reply = &mut asked => return Some(reply),
                () = sleep(duration(LOOK_EVERY)) => {
                    self.look(here, now());
                    let (leaves, terms) = (here.front().is_leaving(), here.front().lease_terms());
                    if self.mirror.is_given_up(question, sent, leaves, now(), terms) {
                        return None;
                    }
                }
            }
        }
    }

    fn question(&self, here: &Sessions) -> Option<Question> {
        self.mirror.question(here.front().is_leaving())
    }

    /// Handles an answer to a question that was sent at `sent`. Returns whether it can be asked again at once.
    fn on_answer(&mut self, here: &Sessions, question: &Question, news: MirrorNews, sent: Time) -> bool {
        let leaves = news.leaves;
        let is_complete = self.on_news(here, &question.source, news, (sent, now()));
        if leaves {
            self.look(here, now());
        }
        // What could not be claimed is asked for anew, after a pause.
        is_complete && self.question(here).is_none_or(|next| next.have > 0)
    }
}
