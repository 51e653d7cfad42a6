//! Scenarios: the figures of the papers, what the printed text does, the improvements, and what no correct peer sends.

mod figures;
mod hostile;
mod improvements;
mod printed;

use super::*;
use crate::world::World;

type Lodha = World<LodhaKshemkalyani>;

fn request(clock: u64) -> Message {
    Message::Request { clock: Clock::at(clock), answers: None }
}

/// The reply to the request `to`, of a site that has executed nothing yet.
fn reply(to: u64) -> Message {
    Message::Reply { to: Clock::at(to), executed: None, highest: None }
}

/// The reply to the request `to`, of a site that has executed its request `executed` last.
fn reply_after(executed: u64, to: u64) -> Message {
    Message::Reply { to: Clock::at(to), executed: Some(Clock::at(executed)), highest: None }
}

fn flush(executed: u64) -> Message {
    Message::Flush { executed: Clock::at(executed), highest: None }
}

/// `LRQ` of a site, with the sites counted from 0.
fn queue(world: &Lodha, site: SiteId) -> String {
    let ids: Vec<String> = world.site(site).queue.iter().map(Timestamp::to_string).collect();
    ids.join(" ")
}

/// `RV` of a site: who has answered, itself left out, with the sites counted from 0.
fn answered(world: &Lodha, site: SiteId) -> String {
    world.site(site).answered.to_string()
}

/// A request, by its clock and its site.
fn id(clock: u64, site: SiteId) -> Timestamp {
    Timestamp::new(Clock::at(clock), site)
}

/// The HANDOVER `number` of its sender. `owed` is (request, who has answered it).
fn handover(number: u64, finished: Timestamp, owed: &[(Timestamp, &[SiteId])]) -> Message {
    let owe = |&(request, sites): &(Timestamp, &[SiteId])| Owed {
        request,
        answered: sites.iter().copied().collect(),
    };
    Message::Handover { number, finished, highest: None, owed: owed.iter().map(owe).collect() }
}
