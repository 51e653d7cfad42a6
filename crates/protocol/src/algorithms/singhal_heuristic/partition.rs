//! Section VI-C: the network splits and heals.
//!
//! While it is split, into two parts or more, the sites of each part go on as if all others had failed; only one part can
//! have the token. When two parts merge, the smallest of their sites asks the others for their trails (`recovery.rs`) and so
//! learns which of the two is active, and tells them all. The sites of the other part *join*: they look to all of the active
//! part, which does not look to them, and arrange themselves above it. If neither is active, the other part
//! joins that of the site that asks, and all wait in a bigger inactive part. Only when the network is whole again is it certain that the token was
//! lost on its way across; then that site makes a new one. The paper has two methods of arranging the sites that join:
//!
//! ```text
//!  merge=order: each site knows its place, by the order of ids: it looks to those of its part that are after it
//!  merge=chain: i1 ──RECOVERING_PART──▶ i2, i3      i2 ──RECOVERING_PART──▶ i3       each when the one before it has
//! ```
//!
//! A site that waits asks all it looks to again, with a new number: what it had asked for before the split may be known
//! in the active part and forgotten there.

use crate::{Outbox, SiteId, SiteSet};

use super::message::{Message, Number, Trail};
use super::{SinghalHeuristic, SinghalState};

/// How the sites of the part without the token arrange themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Merge {
    /// The second method of the paper: by their order, without a message.
    Order,
    /// Its first method: one after the other, by `RECOVERING_PART`.
    Chain,
}

/// What a site keeps of a split, from its first one on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Partition {
    /// Whom I cannot reach now.
    pub(super) away: SiteSet,
    /// Whom I could not reach before the last merger.
    back: SiteSet,
    /// The sites whose request has come since then.
    requested: SiteSet,
    /// The sites that join, and the round in which it was found out.
    joined: Option<(Number, SiteSet)>,
    /// Whose `RECOVERING_PART` has come since.
    led: SiteSet,
    /// What has come of the chain before I knew who joins.
    early: Vec<(SiteId, Number, Option<Number>)>,
}

impl SinghalHeuristic {
    /// Whether `site` cannot be reached: failed, or beyond a split.
    pub(super) fn is_absent(&self, site: SiteId) -> bool {
        self.down.contains(site)
            || self.partition.as_ref().is_some_and(|partition| partition.away.contains(site))
    }

    /// Whether the network is split.
    pub(super) fn is_split(&self) -> bool {
        self.partition.as_ref().is_some_and(|partition| !partition.away.is_empty())
    }

    /// Handling network partitioning: only the sites of this part are up, as far as I am concerned.
    pub(super) fn on_partitioned(&mut self, away: &SiteSet, out: &mut Outbox<Message>) {
        self.partition.get_or_insert_default().away.union_with(away);
        self.row.subtract(away);
        match &mut self.state {
            SinghalState::Idle | SinghalState::Holding { .. } => {}
            SinghalState::Waiting { asked } => asked.subtract(away),
            SinghalState::Executing { token, .. } => token.requesting.subtract(away),
        }
        if let Trail::Sent { passes, to, .. } = self.trail
            && away.contains(to)
        {
            self.trail = Trail::Cut { passes };
        }
        self.drop_round();
        for site in away.iter() {
            self.lose_focus(site, out);
        }
    }

    /// Recovery from network partitioning: find out which of the merged parts has the token, if one has.
    pub(super) fn on_reunited(&mut self, back: &SiteSet, out: &mut Outbox<Message>) {
        let partition = self.partition.get_or_insert_default();
        partition.away.subtract(back);
        partition.back = back.clone();
        partition.requested.clear();
        partition.joined = None;
        partition.led.clear();
        partition.early.clear();
        self.seek_active_part(out);
    }

    /// All whom I can reach, with me.
    pub(super) fn present(&self) -> SiteSet {
        SiteId::all(self.last_requests.len()).filter(|&site| !self.is_absent(site)).collect()
    }

    /// The part of which `site` was before the last merger.
    fn part_of(&self, site: SiteId) -> SiteSet {
        let back = self.partition.as_ref().map(|partition| partition.back.clone()).unwrap_or_default();
        if back.contains(site) {
            return back;
        }
        let mut part = self.present();
        part.subtract(&back);
        part
    }

    /// The round has shown that the token is in the part of `site`, or in neither part: the others join that one.
    pub(super) fn merge_into_part_of(&mut self, site: SiteId, round: Number, out: &mut Outbox<Message>) {
        let mut joining = self.present();
        joining.subtract(&self.part_of(site));
        let mut others = self.present();
        others.remove(self.me);
        out.send_all(&others, &Message::Merge { round, joining: joining.clone() });
        self.join(round, joining, out);
    }

    /// The two parts are to be one again.
    pub(super) fn on_merge(
        &mut self,
        from: SiteId,
        round: Number,
        joining: SiteSet,
        out: &mut Outbox<Message>,
    ) {
        if joining.iter().any(|site| site.index() >= self.last_requests.len()) {
            return out.misbehaved(from, "a site joins that does not exist");
        }
        let open = self.partition.as_ref().is_some_and(|partition| partition.joined.is_none());
        if open && self.has_answered(from, round) {
            self.end_merging();
            self.join(round, joining, out);
        }
    }

    /// Notes that `from` has requested since the last merger, so that this site still looks to it after it
    /// has joined.
    pub(super) fn on_request_noted(&mut self, from: SiteId) {
        if let Some(partition) = &mut self.partition
            && partition.joined.is_none()
        {
            partition.requested.insert(from);
        }
    }

    /// Takes my place above the active part, if I am not of it.
    fn join(&mut self, round: Number, joining: SiteSet, out: &mut Outbox<Message>) {
        let partition = self.partition.get_or_insert_default();
        partition.joined = Some((round, joining.clone()));
        let (requested, early) =
            (std::mem::take(&mut partition.requested), std::mem::take(&mut partition.early));
        if !joining.contains(self.me) {
            return;
        }
        self.renew_number();
        let mut active = self.present();
        active.subtract(&joining);
        match self.options.merge {
            Merge::Order => {
                // They look to me from now on, unless they have begun to ask since.
                let before = joining.iter().filter(|&site| site < self.me && !requested.contains(site));
                self.row.subtract(&before.collect());
                active.extend(joining.iter().filter(|&site| site > self.me));
                self.look_to(&active, out);
            }
            Merge::Chain => {
                self.look_to(&active, out);
                if joining.first() == Some(self.me) {
                    self.lead_chain(out);
                }
                for (site, of, settled) in early {
                    self.on_recovering_part(site, of, settled, out);
                }
            }
        }
    }

    /// Merge method 1: all that come after me in the joining part stop looking to me, because I look to them.
    fn lead_chain(&mut self, out: &mut Outbox<Message>) {
        let Some((round, joining)) = self.partition.as_ref().and_then(|partition| partition.joined.clone())
        else {
            return;
        };
        let later: SiteSet = joining.iter().filter(|&site| site > self.me).collect();
        let settled = matches!(self.state, SinghalState::Idle).then_some(self.number);
        out.send_all(&later, &Message::RecoveringPart { round, settled });
        self.look_to(&later, out);
    }

    /// Merge method 1: the sender looks to me, so I need not look to it unless it asks; if I come next, I do the same.
    pub(super) fn on_recovering_part(
        &mut self,
        from: SiteId,
        round: Number,
        settled: Option<Number>,
        out: &mut Outbox<Message>,
    ) {
        let Some(partition) = &mut self.partition else {
            return out.misbehaved(from, "a part recovers of a network that was whole");
        };
        let Some((joined, joining)) = &partition.joined else {
            partition.early.retain(|&(site, ..)| site != from);
            partition.early.push((from, round, settled));
            return;
        };
        if *joined != round || !joining.contains(from) || from >= self.me || !partition.led.insert(from) {
            return; // Of an earlier split, or it has come again.
        }
        let next = joining.iter().find(|&site| site > from) == Some(self.me);
        if settled.is_some_and(|settled| self.last_requests[from.index()] <= settled) {
            self.row.remove(from);
        }
        if next {
            self.lead_chain(out);
        }
    }

    /// A request that was made before is made again with a new number, so that nobody takes it for the one it has heard
    /// of.
    fn renew_number(&mut self) {
        match &mut self.state {
            SinghalState::Idle => return,
            SinghalState::Waiting { asked }
            | SinghalState::Executing { asked, .. }
            | SinghalState::Holding { asked, .. } => {
                asked.clear();
            }
        }
        self.number = self.number.next();
        self.focus = None;
    }

    /// From now on I look to `sites`; what waits here is asked of all I look to, and if I keep the token, they look
    /// here.
    fn look_to(&mut self, sites: &SiteSet, out: &mut Outbox<Message>) {
        match std::mem::replace(&mut self.state, SinghalState::Idle) {
            SinghalState::Idle => self.row.union_with(sites),
            SinghalState::Waiting { asked } => {
                self.row.union_with(sites);
                self.state = SinghalState::Waiting { asked };
                self.ask_row(out);
            }
            SinghalState::Executing { token, asked } => {
                self.row.extend(sites.iter().filter(|&site| !asked.contains(site)));
                self.state = SinghalState::Executing { token, asked };
            }
            // As if I left just now: I may have heard of a request there before the network was split.
            SinghalState::Holding { token, asked } => {
                self.row.extend(sites.iter().filter(|&site| !asked.contains(site)));
                self.pass_or_hold(token, asked, out);
            }
        }
    }
}
