//! Scenarios of `delegated`, its costs under load, how often anyone is bypassed, and every interleaving of a few sites that share.

mod bypass;
mod chains;
mod exhaustive;
mod mutants;
mod priorities;
mod sharing;
mod strangers;
mod upgrading;

use super::*;
use crate::registry::values::Values;
use crate::world::{Action, Delivery, World, misbehaved, send};
use crate::{Algorithm, Described, Effect, Holders, Slot};

fn world(sites: usize, permits: usize, chain: &str, holders: &[SiteId]) -> World<Delegated> {
    let cluster = Cluster::of(sites).with_permits(permits);
    let mut values = Values::defaults(&Delegated::INFO);
    values.set("chain", chain).unwrap();
    World::new(cluster, &values, &Holders::new(cluster, holders.iter().copied()).unwrap()).unwrap()
}

fn req(number: u64) -> Message {
    Message::Request { number }
}

fn waiter((site, number): (SiteId, u64)) -> Waiter {
    Waiter { site, number }
}

fn permit(slot: u32, next: &[(SiteId, u64)], again: &[(SiteId, u64)]) -> Permit {
    let next = next.iter().copied().map(waiter).collect();
    Permit { slot: Slot(slot), next, again: again.iter().copied().map(waiter).collect() }
}

fn perm(number: u64, next: &[(SiteId, u64)], again: &[(SiteId, u64)]) -> Message {
    Message::Perm { number, permit: Box::new(permit(0, next, again)) }
}

fn rel(number: u64, again: &[(SiteId, u64)]) -> Message {
    Message::Release { number, permit: Box::new(permit(0, &[], again)) }
}

fn append(after: u64, next: (SiteId, u64)) -> Message {
    Message::Append { after, next: waiter(next) }
}

fn enter(slot: u32) -> Effect<Message> {
    Effect::Enter { slot: Slot(slot) }
}

const SHARED: Demand = Demand::of(Mode::Shared);
const UPGRADEABLE: Demand = Demand::of(Mode::Upgradeable);

/// A world with these options in which processes may ask for anything, up to priority 3, and with these holders at the start.
fn sharing_world(sites: usize, options: &[(&str, &str)], holders: &[(SiteId, Mode)]) -> World<Delegated> {
    let values = values(options);
    let cluster = Cluster::of(sites);
    let holders = Holders::sharing(cluster, holders.iter().copied()).unwrap();
    let priorities =
        (0..=3).flat_map(|priority| Mode::ALL.map(|mode| Demand::of(mode).with_priority(priority)));
    let demands: Vec<Demand> = priorities.collect();
    World::new(cluster, &values, &holders).unwrap().demanding(&values, &demands).unwrap()
}

fn values(options: &[(&str, &str)]) -> Values {
    let mut values = Values::defaults(&Delegated::INFO);
    for (name, value) in options {
        values.set(name, value).unwrap();
    }
    values
}

fn ask(number: u64, demand: Demand) -> Message {
    Message::Ask { number, demand }
}

fn share(number: u64) -> Message {
    Message::Share { number, open: false }
}

fn share_open(number: u64) -> Message {
    Message::Share { number, open: true }
}

fn close(number: u64) -> Message {
    Message::Close { number }
}

fn done(number: u64) -> Message {
    Message::Done { number }
}

fn upgrade(number: u64, change: u64) -> Message {
    Message::Upgrade { number, change }
}

fn upgraded(number: u64, change: u64) -> Message {
    Message::Upgraded { number, change }
}

fn downgrade(number: u64, change: u64, to: Mode) -> Message {
    Message::Downgrade { number, change, to, permit: None }
}

/// A downgrade that brings the permit home.
fn home(number: u64, change: u64, to: Mode) -> Message {
    Message::Downgrade { number, change, to, permit: Some(Box::new(permit(0, &[], &[]))) }
}
