//! Our own API about queues, holders, site status and rules.

use futures_util::stream;
use meshlock_cluster::access::Verb;
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{CutOff, InLine, line};
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::table::HolderReport;
use meshlock_cluster::time::Span;
use meshlock_host::front::{Admitted, BrokenLock, shown};
use tonic::{Code, Status};

use super::errors::{api_error, bad, denied, unanswered};
use super::voters::voters_of;
use super::{Answers, Own};
use crate::proto::meshlock::{
    BreakResponse, Holder, Holders, QueueResponse, Rule, Rules, StatusResponse, Waiter,
};
use crate::sessions::{self, NotAnswered, WatchError};

pub(super) fn millis(span: Span) -> u64 {
    span.micros() / 1000
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

pub(super) fn names(sites: &[SiteName]) -> Vec<String> {
    sites.iter().map(SiteName::to_string).collect()
}

pub(super) fn who(label: Option<&meshlock_cluster::names::ClientLabel>) -> String {
    label.map(|label| shown(label).to_string()).unwrap_or_default()
}

pub(super) fn holder(site: &SiteName, report: &HolderReport) -> Holder {
    Holder {
        site: site.to_string(),
        who: who(report.label.as_ref()),
        fence: report.fence.value(),
        slot: report.slot,
        lost: report.lost,
        held_ms: millis(report.age),
    }
}

impl Own {
    pub(super) async fn queue_of(&self, caller: &Admitted, lock: LockName) -> Result<QueueResponse, Status> {
        let queue = self.sessions.front().queue(caller, lock.clone()).await.map_err(unanswered)?;
        let waiter = |InLine { site, waiter, why }: &InLine| Waiter {
            site: site.to_string(),
            who: who(waiter.label.as_ref()),
            waited_ms: millis(waiter.age),
            why: why.to_string(),
        };
        let holders =
            queue.sites.iter().flat_map(|site| site.lock.holders.iter().map(|report| (&site.site, report)));
        Ok(QueueResponse {
            lock: lock.as_str().to_owned(),
            algorithm: queue.algorithm.unwrap_or_default(),
            permits: queue.permits,
            epoch: queue.epoch.number(),
            holders: holders.map(|(site, report)| holder(site, report)).collect(),
            waiters: line(&queue.sites, &queue.missing, queue.permits).iter().map(waiter).collect(),
            missing: names(&queue.missing),
        })
    }

    pub(super) fn holders_of(&self, caller: &Admitted, lock: LockName) -> Result<Answers<Holders>, Status> {
        let watching = self.sessions.watch(caller, Verb::Watch, &lock).map_err(|error| match error {
            WatchError::Denied(error) => denied(error),
            WatchError::TooMany(_) | WatchError::TooManyOf { .. } | WatchError::Limit(_) => {
                api_error("too_many", Code::ResourceExhausted, error)
            }
        })?;
        let seen = |lock: &LockName, holders: &[sessions::Holder]| {
            let holder = |holder: &sessions::Holder| Holder {
                site: holder.site.to_string(),
                who: who(holder.label.as_ref()),
                fence: holder.fence,
                slot: holder.slot,
                lost: holder.lost,
                held_ms: 0,
            };
            Holders { lock: lock.as_str().to_owned(), holders: holders.iter().map(holder).collect() }
        };
        let changes = stream::unfold((watching, lock, true), move |(mut watching, lock, first)| async move {
            let holders = if first { watching.first().await } else { watching.next().await? };
            Some((Ok(seen(&lock, &holders)), (watching, lock, false)))
        });
        Ok(Box::pin(changes))
    }

    pub(super) async fn break_lock(
        &self,
        caller: &Admitted,
        lock: LockName,
    ) -> Result<BreakResponse, Status> {
        let BrokenLock { cut_off, missing } =
            self.sessions.front().break_lock(caller, lock.clone()).await.map_err(unanswered)?;
        let holder = |CutOff { site, label, fence }: &CutOff| Holder {
            site: site.to_string(),
            who: who(label.as_ref()),
            fence: fence.value(),
            slot: None,
            lost: true,
            held_ms: 0,
        };
        let cut_off = cut_off.iter().map(holder).collect();
        Ok(BreakResponse { lock: lock.as_str().to_owned(), cut_off, missing: names(&missing) })
    }

    pub(super) async fn status_response(&self, caller: &Admitted) -> Result<StatusResponse, Status> {
        let overview = self.sessions.front().overview(caller).await.map_err(unanswered)?;
        let counts = overview.counts;
        Ok(StatusResponse {
            site: overview.member.site.to_string(),
            cluster: overview.cluster.to_string(),
            leader: overview.leader.map(|leader| leader.to_string()).unwrap_or_default(),
            ready: self.sessions.front().is_ready(),
            leaving: overview.leaving,
            epoch: overview.view.epoch.number(),
            members: overview.view.members.iter().map(|member| member.site.to_string()).collect(),
            lease_left_ms: overview.lease_left.map_or(0, millis),
            locks: count(counts.locks),
            holders: count(counts.holders),
            waiters: count(counts.waiters),
            sessions: count(counts.sessions),
            disk: self.sessions.front().disk_complaint().unwrap_or_default(),
            voters: Some(voters_of(&overview.voters)),
        })
    }

    pub(super) fn rules(&self, caller: &Admitted) -> Result<Rules, Status> {
        let (epoch, text) = self.sessions.front().rules(caller).map_err(denied)?;
        Ok(rules_of(epoch.number(), &text))
    }

    pub(super) async fn change_rules(&self, caller: &Admitted, rules: Rules) -> Result<Rules, Status> {
        let text = text_of(rules)?;
        let epoch =
            self.sessions.front().set_rules(caller, text.clone()).await.map_err(|error| match error {
                NotAnswered::Refused(_) => api_error("bad_rules", Code::FailedPrecondition, error),
                NotAnswered::Unavailable(_) | NotAnswered::Stopping | NotAnswered::Denied(_) => {
                    unanswered(error)
                }
            })?;
        Ok(rules_of(epoch.number(), &text))
    }
}

fn rules_of(epoch: u32, text: &RulesText) -> Rules {
    let rule = |(pattern, clause): (&str, &Clause)| Rule {
        pattern: pattern.to_owned(),
        algorithm: clause.algorithm.clone(),
        permits: clause.permits,
        per_site: clause.per_site,
    };
    let named = text.rules.iter().map(|(pattern, clause)| (pattern.as_str(), clause));
    Rules { epoch, rules: named.chain([("", &text.default)]).map(rule).collect() }
}

fn text_of(rules: Rules) -> Result<RulesText, Status> {
    let clause = |rule: &Rule| {
        let permits = rule.permits.max(1);
        let per_site = if rule.per_site == 0 { Clause::shared("", permits).per_site } else { rule.per_site };
        Clause { algorithm: rule.algorithm.clone(), permits, per_site }
    };
    let mut defaults = rules.rules.iter().filter(|rule| rule.pattern.is_empty());
    let (Some(default), None) = (defaults.next(), defaults.next()) else {
        return Err(bad(
            "give exactly one rule with an empty pattern, which applies to all names that no other rule matches",
        ));
    };
    let named = rules.rules.iter().filter(|rule| !rule.pattern.is_empty());
    Ok(RulesText {
        rules: named.map(|rule| (rule.pattern.clone(), clause(rule))).collect(),
        default: clause(default),
    })
}
