//! The side of the mirror: asks the member before it for its sessions, and looks who is silent or gone.
//!
//! A member that has another mirror by now may have to be asked beside the present one, so that it knows that nothing is known here any more. So
//! each question is a future of its own.

use std::pin::Pin;
use std::sync::Weak;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_all;
use meshlock_cluster::names::Member;
use meshlock_cluster::time::Time;
use meshlock_mirror::{LOOK_EVERY, PAUSE, Question};
use meshlock_system::now;
use meshlock_wire::sites::calls::{CallAsk, CallReply};
use meshlock_wire::sites::mirror::MirrorNews;
use tokio::time::{sleep, timeout};

use super::effects::Following;
use crate::forward::ForwardError;
use crate::sessions::{Inner, Sessions};

/// Returns a time that this site waits for.
fn duration(span: meshlock_cluster::time::Span) -> Duration {
    Duration::from_micros(span.micros())
}

type Reply = Result<CallReply, ForwardError>;

/// A question that was sent, or one after which its member is asked nothing for a moment.
struct AskedSource {
    question: Question,
    /// What answers it; nothing in a pause.
    reply: Option<Pin<Box<dyn Future<Output = Reply> + Send>>>,
    at: Time,
}

/// Follows the member before this one, until the last clone of the sessions is dropped.
pub(in crate::sessions) async fn follow(sessions: Weak<Inner>) {
    let (mut following, mut asked) = (Following::default(), Vec::new());
    loop {
        let Some(inner) = sessions.upgrade() else { return };
        following.look_and_ask(&Sessions(inner), &sessions, &mut asked);
        let Some((at, reply)) = first_answer(&mut asked).await else { continue };
        let Some(inner) = sessions.upgrade() else { return };
        let AskedSource { question, at: sent, .. } = asked.swap_remove(at);
        if !following.on_reply(&Sessions(inner), &question, reply, sent) {
            asked.push(AskedSource { question, reply: None, at: now() });
        }
    }
}

/// Waits for an answer to any of the questions. Returns `None` if none comes for a while.
async fn first_answer(asked: &mut [AskedSource]) -> Option<(usize, Reply)> {
    let replies = asked.iter_mut().enumerate();
    let replies = replies.filter_map(|(at, asked)| Some(asked.reply.as_mut()?.map(move |reply| (at, reply))));
    let replies: Vec<_> = replies.collect();
    if replies.is_empty() {
        sleep(duration(LOOK_EVERY)).await;
        return None;
    }
    let (answer, ..) = timeout(duration(LOOK_EVERY), select_all(replies)).await.ok()?;
    Some(answer)
}

impl Following {
    /// Looks who is silent, gives up questions that take too long or that nobody wants answered any more, and asks the others.
    fn look_and_ask(&mut self, here: &Sessions, sessions: &Weak<Inner>, asked: &mut Vec<AskedSource>) {
        self.look(here, now());
        let (leaves, terms) = (here.front().is_leaving(), here.front().lease_terms());
        let mirror = &self.mirror;
        asked.retain(|asked| match asked.reply {
            Some(_) => !mirror.is_given_up(&asked.question, asked.at, leaves, now(), terms),
            None => now() < asked.at + PAUSE,
        });
        for question in mirror.questions(leaves) {
            if asked.iter().any(|asked| asked.question.source == question.source) {
                continue;
            }
            let (to, ask) = (question.source.site.clone(), CallAsk::Mirror { have: question.have });
            let sessions = sessions.clone();
            let reply = async move {
                match sessions.upgrade() {
                    Some(inner) => Sessions(inner).ask_member(&to, ask).await,
                    None => Ok(CallReply::NotHere),
                }
            };
            asked.push(AskedSource { question, reply: Some(Box::pin(reply)), at: now() });
        }
    }

    /// Handles the reply to a question. Returns whether its member can be asked again at once.
    fn on_reply(&mut self, here: &Sessions, question: &Question, reply: Reply, sent: Time) -> bool {
        match reply {
            Ok(CallReply::Mirror(news)) => self.on_answer(here, &question.source, news, sent),
            // It does not know the version: it begins anew.
            Ok(CallReply::NotHere) => {
                self.mirror.on_unknown(&question.source);
                false
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Handles an answer to a question that was sent at `sent`. Returns whether it can be asked again at once.
    fn on_answer(&mut self, here: &Sessions, source: &Member, news: MirrorNews, sent: Time) -> bool {
        let leaves = news.leaves;
        let is_complete = self.on_news(here, source, news, (sent, now()));
        if leaves {
            self.look(here, now());
        }
        // What could not be claimed is asked for anew, after a pause.
        let next = self.mirror.question_to(source, here.front().is_leaving());
        is_complete && next.is_none_or(|next| next.have > 0)
    }
}
