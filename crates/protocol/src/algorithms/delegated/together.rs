//! The invariants that span sites and the messages between them.

use crate::site::InFlight;
use crate::{Algorithm, Mode, Phase, Slot, invariant};

use super::dispatcher::Dispatcher;
use super::sharing::Sharer;
use super::{Delegated, DelegatedState, Message, Permit, Waiter};

pub(super) fn check(sites: &[&Delegated], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
    let Some(dispatcher) = sites.iter().find_map(|site| site.dispatcher.as_deref()) else { return Ok(()) };
    check_permits(dispatcher, sites, in_flight)?;
    check_followers(dispatcher, sites)?;
    check_sharers(dispatcher, sites, in_flight)?;
    check_known(dispatcher, sites, in_flight)
}

/// The request on which a message gives or takes the permit.
fn with_permit((from, to, message): InFlight<'_, Message>) -> Option<(Waiter, &Permit)> {
    match message {
        Message::Perm { number, permit } => Some((Waiter { site: to, number: *number }, permit)),
        Message::Release { number, permit } | Message::Downgrade { number, permit: Some(permit), .. } => {
            Some((Waiter { site: from, number: *number }, permit))
        }
        Message::Request { .. }
        | Message::Append { .. }
        | Message::Ask { .. }
        | Message::Share { .. }
        | Message::Close { .. }
        | Message::Done { .. }
        | Message::Upgrade { .. }
        | Message::Upgraded { .. }
        | Message::Downgrade { permit: None, .. } => None,
    }
}

fn check_permits(
    dispatcher: &Dispatcher,
    sites: &[&Delegated],
    in_flight: &[InFlight<'_, Message>],
) -> Result<(), &'static str> {
    let held = sites.iter().filter_map(|site| match &site.state {
        DelegatedState::Executing { permit } => Some((site.waiter(), &**permit)),
        DelegatedState::Idle
        | DelegatedState::Waiting { .. }
        | DelegatedState::Asking { .. }
        | DelegatedState::Sharing { .. } => None,
    });
    let out: Vec<(Waiter, &Permit)> = held.chain(in_flight.iter().copied().filter_map(with_permit)).collect();
    let mut slots: Vec<Slot> =
        dispatcher.slots_at_home().chain(out.iter().map(|(_, permit)| permit.slot)).collect();
    slots.sort_unstable();
    invariant!(
        slots.iter().map(|slot| slot.0 as usize).eq(0..sites[0].setup.cluster.permits),
        "I5: every permit is in exactly one place"
    );
    invariant!(
        out.iter().all(|(holder, permit)| dispatcher.knows(*holder, permit)),
        "I6: whoever has a permit is in its chain, followed by those that the permit names"
    );
    Ok(())
}

fn check_followers(dispatcher: &Dispatcher, sites: &[&Delegated]) -> Result<(), &'static str> {
    let told = sites.iter().filter_map(|site| match site.state {
        DelegatedState::Waiting { next: Some(next) } => Some((site.waiter(), next)),
        DelegatedState::Idle
        | DelegatedState::Waiting { .. }
        | DelegatedState::Executing { .. }
        | DelegatedState::Asking { .. }
        | DelegatedState::Sharing { .. } => None,
    });
    for (tail, next) in told {
        invariant!(
            dispatcher.follows(tail, next),
            "I7: whoever waits and is told what follows it is followed by that in its chain"
        );
    }
    Ok(())
}

/// The news of a change of mode or of the end that are on their way from a site.
fn is_news_of(waiter: Waiter, (from, _, message): InFlight<'_, Message>) -> bool {
    match message {
        Message::Done { number } | Message::Upgrade { number, .. } | Message::Downgrade { number, .. } => {
            (from, *number) == (waiter.site, waiter.number)
        }
        Message::Request { .. }
        | Message::Perm { .. }
        | Message::Append { .. }
        | Message::Release { .. }
        | Message::Ask { .. }
        | Message::Share { .. }
        | Message::Close { .. }
        | Message::Upgraded { .. } => false,
    }
}

/// What the sites know of sharing is known to the leader, or on its way there.
fn check_sharers(
    dispatcher: &Dispatcher,
    sites: &[&Delegated],
    in_flight: &[InFlight<'_, Message>],
) -> Result<(), &'static str> {
    for site in sites {
        let DelegatedState::Sharing { mode, upgrading, open } = site.state else { continue };
        let me = site.waiter();
        let leader = site.setup.leader;
        let tells = in_flight.iter().any(|sent| is_news_of(me, *sent));
        let known = dispatcher.sharers().find(|sharer| sharer.waiter == me);
        let brings = in_flight.iter().any(|sent| with_permit(*sent).is_some_and(|(from, _)| from == me));
        invariant!(
            known.is_some() || brings,
            "I12: whoever shares is known to the leader to share, or is bringing the permit home"
        );
        let Some(known) = known else { continue };
        let answered = |wanted: &Message| {
            in_flight.iter().any(|&(from, to, message)| (from, to, message) == (leader, me.site, wanted))
        };
        let number = me.number;
        let upgraded = answered(&Message::Upgraded { number, change: site.changes });
        let is_so = (known.mode, known.upgrading) == (mode, upgrading)
            || (upgraded && upgrading && (known.mode, known.upgrading) == (Mode::Exclusive, false));
        invariant!(
            tells || is_so,
            "I13: the mode of whoever shares is what the leader knows, or news of it are on their way"
        );
        invariant!(
            !open || known.open || answered(&Message::Close { number }),
            "I14: whoever is open is so for the leader, or is about to be told that somebody waits"
        );
    }
    Ok(())
}

/// What the leader knows of sharing is so, or is about to be.
fn check_known(
    dispatcher: &Dispatcher,
    sites: &[&Delegated],
    in_flight: &[InFlight<'_, Message>],
) -> Result<(), &'static str> {
    let is_so = |sharer: &Sharer| {
        let Waiter { site, number } = sharer.waiter;
        let told = |&(_, to, message): &InFlight<'_, Message>| {
            to == site && matches!(message, Message::Share { number: told, .. } if *told == number)
        };
        let left = |&(from, _, message): &InFlight<'_, Message>| {
            from == site && matches!(message, Message::Done { number: told } if *told == number)
        };
        let shares =
            |site: &Delegated| site.number == number && matches!(site.state, DelegatedState::Sharing { .. });
        sites.get(site.index()).is_some_and(|site| shares(site))
            || in_flight.iter().any(|sent| told(sent) || left(sent))
    };
    invariant!(
        dispatcher.sharers().all(is_so),
        "I15: whoever shares for the leader does, or is about to, or has left and said so"
    );
    let inside = || sites.iter().filter(|site| site.phase() == Phase::Executing);
    let excludes =
        |one: &&&Delegated| inside().any(|other| other.me > one.me && !one.mode().admits(other.mode()));
    invariant!(
        sites[0].setup.cluster.permits > 1 || !inside().any(|one| excludes(&one)),
        "I16: with one permit all who are inside admit each other"
    );
    Ok(())
}
