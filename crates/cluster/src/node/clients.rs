//! What clients ask of a node, and what they are told.

use meshlock_protocol::Epoch;

use super::questions::{Ask, CutOff, Overview};
use super::queue::{LockQueue, SiteLocks};
use super::trace::TraceLine;
use super::{Node, Output, RulesWanted};
use crate::mutant::{self, Mutant};
use crate::names::{ClientLabel, LockName, SiteName};
use crate::rules::{Rules, RulesText};
use crate::table::{Acquire, LockEvent, LockTable, Refusal, Request, Session, Watch};
use crate::time::Span;

/// What a client asks for.
#[derive(Clone, Debug)]
pub enum Call {
    /// A lock.
    Acquire(Acquire),
    /// Not to wait any more, or to give back what it got meanwhile.
    Cancel(Request),
    /// To give a lock back.
    Release(Request),
    /// Nothing any more: the client is gone.
    SessionEnded(Session),
    /// To be known by a name, from now until its session ends.
    Introduce {
        /// Who speaks.
        session: Session,
        /// Its name.
        who: ClientLabel,
        /// After so long it has heard what it was told, or has given up by itself what it holds: nothing for a client of
        /// this machine, longer for one that a network can cut off.
        hears_within: Span,
    },
    /// Who holds a lock and who waits for it, in the whole cluster.
    Query {
        /// The question's number.
        request: Request,
        /// Which lock.
        lock: LockName,
    },
    /// How this site is.
    Overview {
        /// The question's number.
        request: Request,
    },
    /// To take a lock away from whoever holds it, in the whole cluster.
    Break {
        /// The order's number.
        request: Request,
        /// Which lock.
        lock: LockName,
    },
    /// How all members are, and which locks are in use.
    Locks {
        /// The question's number.
        request: Request,
    },
    /// That another site leaves the cluster, or this one.
    Remove {
        /// The order's number.
        request: Request,
        /// Which site.
        site: SiteName,
    },
    /// Other rules for the whole cluster.
    SetRules {
        /// The wish.
        request: Request,
        /// The rules.
        rules: RulesText,
    },
    /// That this site leaves the cluster. Nobody gets a lock here any more; whoever waits is told so. Whoever holds one may
    /// keep it as long as the lease lasts, which is not renewed, and is told before its end as always. When nothing is
    /// held any more, the lease is given up, and the others need not wait for its end.
    Leave {
        /// The wish.
        request: Request,
    },
    /// To be told all that happens here, from now until it says otherwise or its session ends.
    Watch(Watch),
    /// Everything that clients hold here is taken away from them: they have the margin of a lease to stop.
    TakeAllAway,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// About a lock.
    Lock(LockEvent),
    /// Who holds a lock and who waits for it.
    Queue { request: Request, queue: LockQueue },
    /// How this site is.
    Overview {
        /// Which question.
        request: Request,
        /// How it is.
        overview: Box<Overview>,
    },
    /// A lock was taken away.
    Broken {
        /// Which order.
        request: Request,
        /// From whom. They have been told, and have as long as the margin of a lease to stop, or as long as they may not hear of
        /// it if that is more; nobody else has the lock before.
        cut_off: Vec<CutOff>,
        /// Members that have not said that they did so: give the order again, if they are not gone.
        missing: Vec<SiteName>,
    },
    /// The rules that it asked for hold from this view on.
    RulesSet {
        /// Which wish.
        request: Request,
        /// The view.
        epoch: Epoch,
    },
    /// The rules were not changed.
    RulesRefused {
        /// Which wish.
        request: Request,
        /// Why.
        why: String,
    },
    /// How all members are, and which locks are in use.
    Locks {
        /// Which question.
        request: Request,
        /// What the members say, in the order of their names.
        sites: Vec<SiteLocks>,
        /// Those that did not answer.
        missing: Vec<SiteName>,
    },
    /// A site was told to leave.
    Leaves {
        /// Which order.
        request: Request,
        /// Whether it has heard it.
        leaves: bool,
    },
    /// What happened here, to somebody who watches.
    Traced {
        /// Which wish.
        request: Request,
        /// In the order in which it happened.
        lines: Vec<TraceLine>,
        /// How much more there was that is not told.
        lost: u64,
    },
    /// This site is no member any more.
    Left {
        /// Which wish.
        request: Request,
    },
}

impl Node {
    pub(super) fn on_call(&mut self, call: Call, out: &mut Vec<Output>) {
        match call {
            Call::Acquire(wanted) if self.leaving.is_some() => {
                self.in_table(out, |table, _, out| table.refuse(wanted.request, Refusal::Leaving, out));
            }
            Call::Acquire(wanted) => {
                self.in_table(out, |table, lease_clock, out| table.acquire(wanted, lease_clock, out));
            }
            Call::Cancel(request) if self.end_watch(request, out) => {}
            Call::Watch(watch) => self.on_watch(watch, out),
            Call::Cancel(request) => {
                self.in_table(out, |table, lease_clock, out| table.cancel(request, lease_clock, out));
            }
            Call::Release(request) => {
                self.in_table(out, |table, lease_clock, out| table.release(request, lease_clock, out));
            }
            Call::SessionEnded(_) if mutant::is_on(Mutant::GoneClientKeepsLocks) => {}
            Call::SessionEnded(session) => {
                self.table.unwatch(|watch| watch.session == session);
                self.in_table(out, |table, lease_clock, out| {
                    table.on_session_ended(session, lease_clock, out);
                });
            }
            Call::Introduce { session, who, hears_within } => {
                self.table.introduce(session, who, hears_within);
            }
            Call::Query { request, lock } => self.on_question(request, Ask::Queue(lock), out),
            Call::Break { request, lock } => self.on_question(request, Ask::Break(lock), out),
            Call::Locks { request } => self.on_question(request, Ask::Locks, out),
            Call::Remove { request, site } => {
                let member = self.view.members.iter().find(|member| member.site == site).cloned();
                match member {
                    Some(member) => self.on_question(request, Ask::Leave(member), out),
                    None => out.push(Output::Answer(Answer::Leaves { request, leaves: false })),
                }
            }
            Call::Overview { request } => {
                let overview = Box::new(self.overview());
                out.push(Output::Answer(Answer::Overview { request, overview }));
            }
            Call::SetRules { request, rules } => self.on_set_rules(request, rules, out),
            Call::Leave { request } => self.begin_to_leave(Some(request), out),
            Call::TakeAllAway => self.in_table(out, LockTable::take_all_away),
        }
    }

    /// This site leaves; `asked` wants to know when it has.
    pub(super) fn begin_to_leave(&mut self, asked: Option<Request>, out: &mut Vec<Output>) {
        self.leaving.get_or_insert_default().extend(asked);
        self.in_table(out, |table, _, out| table.turn_away(Refusal::Leaving, out));
        if self.view.contains(&self.me) {
            self.reach_out(out);
        } else {
            self.tell_that_it_has_left(out);
        }
    }

    pub(super) fn tell_that_it_has_left(&mut self, out: &mut Vec<Output>) {
        let asked = self.leaving.as_mut().map(std::mem::take).unwrap_or_default();
        out.extend(asked.into_iter().map(|request| Output::Answer(Answer::Left { request })));
    }

    /// Rules are checked here, before anyone else hears of them.
    fn on_set_rules(&mut self, request: Request, rules: RulesText, out: &mut Vec<Output>) {
        let refuse = |why: String| Output::Answer(Answer::RulesRefused { request, why });
        if self.rules_wanted.is_some() {
            return out
                .push(refuse("another change of rules is under way; ask again when it is done".to_owned()));
        }
        if self.view.epoch == Epoch::default() {
            let why = "this site does not know the cluster's rules yet; ask again when it takes part";
            return out.push(refuse(why.to_owned()));
        }
        if rules == self.view.rules {
            let epoch = self.view.epoch;
            return out.push(Output::Answer(Answer::RulesSet { request, epoch }));
        }
        let members = self.view.members.len().max(1);
        match Rules::new(rules).and_then(|rules| rules.fit(members).map(|()| rules)) {
            Ok(rules) => {
                let base = self.view.rules_version;
                self.rules_wanted = Some(RulesWanted { request, base, rules: rules.text().clone() });
            }
            Err(error) => out.push(refuse(error.to_string())),
        }
    }

    /// A view has been installed: is it the one with the rules that a client asked for?
    pub(super) fn answer_rules(&mut self, out: &mut Vec<Output>) {
        let Some(wanted) = &self.rules_wanted else { return };
        let RulesWanted { request, base, .. } = *wanted;
        if wanted.rules == self.view.rules {
            out.push(Output::Answer(Answer::RulesSet { request, epoch: self.view.epoch }));
        } else if self.view.rules_version != base {
            let why = "someone else changed the rules meanwhile; look at them and ask again".to_owned();
            out.push(Output::Answer(Answer::RulesRefused { request, why }));
        } else {
            return;
        }
        self.rules_wanted = None;
    }
}
