//! The numbered invariants, one assertion each.

use crate::SiteId;
use crate::invariant;
use crate::registry::info::Text;
use crate::site::InFlight;

use super::adaptive::Focus;
use super::message::{Message, SinghalToken};
use super::{SinghalHeuristic, SinghalState};

pub(super) fn site(site: &SinghalHeuristic) -> Result<(), &'static str> {
    let SinghalHeuristic { me, state, row, .. } = site;
    invariant!(!row.contains(*me), "I1: no site looks to itself");
    match state {
        SinghalState::Idle | SinghalState::Executing { .. } => {}
        SinghalState::Waiting { asked } => {
            let one_is_enough = matches!(site.focus, Some(Focus::On { .. }));
            invariant!(
                site.is_recovering() || one_is_enough || row.is_subset(asked),
                "I2: a waiting site has asked all it looks to, or one that is certain to be served"
            );
        }
        SinghalState::Holding { token, .. } => {
            invariant!(row.is_empty(), "I3: a site with the idle token looks to nobody");
            invariant!(token.requesting.is_empty(), "I4: an idle token knows of nobody who waits");
        }
    }
    Ok(())
}

pub(super) fn together(
    sites: &[&SinghalHeuristic],
    in_flight: &[InFlight<'_, Message>],
) -> Result<(), &'static str> {
    cases_that_cannot_occur(sites, in_flight)?;
    let recovering =
        |site: &SinghalHeuristic| site.recovery.as_ref().is_some_and(|recovery| !recovery.is_settled());
    let rearranging =
        |message: &Message| matches!(message, Message::Merge { .. } | Message::RecoveringPart { .. });
    if sites.iter().any(|site| site.options.text == Text::Printed || recovering(site))
        || in_flight.iter().any(|(_, _, message)| rearranging(message))
    {
        return Ok(());
    }
    let between = |a: &SinghalHeuristic, b: &SinghalHeuristic| {
        let ends = [(a.me, b.me), (b.me, a.me)];
        in_flight.iter().any(|&(from, to, message)| {
            ends.contains(&(from, to)) && matches!(message, Message::Request { .. } | Message::Focus { .. })
        })
    };
    for a in sites {
        for b in sites.iter().filter(|b| b.me != a.me) {
            invariant!(
                a.row.contains(b.me) || b.row.contains(a.me) || between(a, b),
                "I5: of two sites one looks to the other, or a request is on its way between them"
            );
            invariant!(
                !matches!(b.state, SinghalState::Holding { .. }) || a.row.contains(b.me) || between(a, b),
                "I6: every site looks to the one with the idle token, or a request is on its way between them"
            );
        }
    }
    for token in tokens(sites, in_flight) {
        // What a site's former incarnation had asked for is left out as soon as the holder knows of the new one.
        let is_current =
            |site: &&SinghalHeuristic| token.numbers[site.me.index()].incarnation == site.number.incarnation;
        let mut known = token.requesting.iter().map(|site| sites[site.index()]).filter(is_current);
        invariant!(
            known.all(|site| matches!(
                site.state,
                SinghalState::Waiting { .. } | SinghalState::Executing { .. }
            )),
            "I7: whom the token knows to be requesting is requesting (Lemma 1)"
        );
    }
    Ok(())
}

/// The cases of the detailed update rules (section III-G-1) of which the paper says that they cannot occur, at every site and not
/// only at the one that has the token. Failures are not the concern of those rules.
fn cases_that_cannot_occur(
    sites: &[&SinghalHeuristic],
    in_flight: &[InFlight<'_, Message>],
) -> Result<(), &'static str> {
    if sites.iter().any(|site| site.recovery.is_some() || site.partition.is_some()) {
        return Ok(());
    }
    for token in tokens(sites, in_flight) {
        for site in sites {
            for other in SiteId::others_from(site.me, sites.len()) {
                let (last, known) = (site.last_requests[other.index()], token.numbers[other.index()]);
                match (site.row.contains(other), token.requesting.contains(other)) {
                    // Rule 4: all three cases occur.
                    (true, false) => {}
                    (false, true) => {
                        invariant!(last < known, "I8: SV = N and TSV = R only if SN < TSN (Rule 5)");
                    }
                    (false, false) => {
                        invariant!(last <= known, "I9: SV = N and TSV = N only if SN <= TSN (Rule 6)");
                    }
                    (true, true) => {
                        invariant!(last <= known, "I10: SV = R and TSV = R only if SN <= TSN (Rule 7)");
                    }
                }
            }
        }
    }
    Ok(())
}

fn tokens<'a>(
    sites: &'a [&'a SinghalHeuristic],
    in_flight: &'a [InFlight<'_, Message>],
) -> impl Iterator<Item = &'a SinghalToken> {
    let at_sites = sites.iter().filter_map(|site| match &site.state {
        SinghalState::Executing { token, .. } | SinghalState::Holding { token, .. } => Some(&**token),
        SinghalState::Idle | SinghalState::Waiting { .. } => None,
    });
    let travelling = in_flight.iter().filter_map(|(_, to, message)| match message {
        // One that was sent to a former incarnation of its receiver is lost already.
        Message::Token(token) => (token.numbers[to.index()].incarnation
            == sites[to.index()].number.incarnation)
            .then_some(&**token),
        Message::Request { .. }
        | Message::Focus { .. }
        | Message::Miss { .. }
        | Message::Recovering { .. }
        | Message::Welcome { .. }
        | Message::Ask { .. }
        | Message::Answer { .. }
        | Message::Merge { .. }
        | Message::RecoveringPart { .. } => None,
    });
    at_sites.chain(travelling)
}
