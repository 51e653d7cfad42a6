//! What must hold, as numbered in the algorithm's header. (As printed, none of it does.)

use super::text::LodhaText;
use super::{LodhaKshemkalyani, Message};
use crate::algorithms::request::RequestState;
use crate::site::InFlight;
use crate::{SiteSet, Timestamp, invariant};

pub(super) fn of_one_site(site: &LodhaKshemkalyani) -> Result<(), &'static str> {
    if site.rules.text != LodhaText::Repaired {
        return Ok(());
    }
    let own = site.own();
    let in_queue = site.queue.iter().find(|queued| queued.site == site.me).copied();
    invariant!(
        site.queue.is_sorted_by(|a, b| a < b) && in_queue == own && (own.is_some() || site.queue.is_empty()),
        "I1: the queue is sorted and holds the site's own request, or is empty if there is none"
    );
    let queued: SiteSet =
        site.queue.iter().map(|queued| queued.site).filter(|&other| other != site.me).collect();
    invariant!(
        queued.is_subset(&site.answered)
            && (own.is_none() || site.deferred.is_subset(&site.answered))
            && !site.answered.contains(site.me),
        "I2: who is queued or deferred has answered, and nobody answers himself"
    );
    if let RequestState::Executing(mine) = site.state {
        invariant!(
            site.answered.len() == site.sites() - 1 && site.queue.first() == Some(&mine),
            "I3: a site that is inside has all answers and heads its queue"
        );
    }
    invariant!(
        own.is_none_or(|own| own.clock <= site.clock),
        "I4: the clock is not behind the site's own request"
    );
    invariant!(
        own.is_some() || site.deferred.is_empty() || site.timer_runs,
        "I8: who wants nothing keeps others waiting only while a timer runs"
    );
    let held = site.custody.iter().flat_map(|custody| &custody.held);
    invariant!(
        held.map(|owed| owed.request).all(|request| own.is_some_and(|own| own < request)),
        "I9: what is held for others is for later requests than the site's own"
    );
    Ok(())
}

pub(super) fn of_all_sites(
    sites: &[&LodhaKshemkalyani],
    in_flight: &[InFlight<'_, Message>],
) -> Result<(), &'static str> {
    if sites.iter().any(|site| site.rules.text != LodhaText::Repaired) {
        return Ok(());
    }
    let wanting = || sites.iter().filter_map(|site| Some((site, site.own()?)));
    for (later, mine) in wanting() {
        invariant!(
            sites.iter().all(|site| site.finished < Some(mine)),
            "I5: what any site takes for finished is finished"
        );
        let seen = |earlier: &LodhaKshemkalyani, theirs| {
            !later.answered.contains(earlier.me) || later.queue.contains(&theirs)
        };
        invariant!(
            wanting().all(|(earlier, theirs)| theirs >= mine || seen(earlier, theirs)),
            "I6: of two sites that want to enter, the later one queues the earlier one or misses its answer"
        );
        let missed = sites.iter().filter(|other| other.me != later.me && !later.answered.contains(other.me));
        for other in missed {
            invariant!(
                answer_is_due(sites, in_flight, mine, other),
                "I7: an answer that a waiting site misses is asked for, owed or on its way"
            );
        }
    }
    Ok(())
}

/// Whether the request `mine` is on its way to `other`, or its answer is owed, or on its way, also through others.
fn answer_is_due(
    sites: &[&LodhaKshemkalyani],
    in_flight: &[InFlight<'_, Message>],
    mine: Timestamp,
    other: &LodhaKshemkalyani,
) -> bool {
    let (me, you) = (mine.site, other.me);
    let held = || sites.iter().flat_map(|site| &site.custody).flat_map(|custody| &custody.held);
    other.deferred.contains(me)
        || held().any(|owed| owed.request == mine && owed.answered.contains(you))
        || in_flight.iter().any(|&(from, to, message)| match message {
            Message::Request { clock, .. } => {
                (from, to) == (you, me) || ((from, to) == (me, you) && *clock == mine.clock)
            }
            Message::Reply { to: answered, .. } => (from, to) == (you, me) && *answered == mine.clock,
            Message::Flush { .. } => false,
            Message::Handover { owed, .. } => {
                owed.iter().any(|owed| owed.request == mine && owed.answered.contains(you))
            }
        })
}
