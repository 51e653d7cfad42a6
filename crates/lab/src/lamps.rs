//! Lamps: the page's indicators of the properties that hold so far or are violated.

use meshlock_check::Property;
use meshlock_protocol::registry::info::{Order, Tokens};
use meshlock_protocol::{Algorithm, SiteId};
use serde::Serialize;

use crate::playback::Playback;

/// The state of a lamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Light {
    /// The property holds so far.
    Holds,
    /// The property holds, but deserves attention.
    Watch,
    /// The property is violated.
    Broken,
    /// The algorithm does not promise the property.
    Dark,
}

/// The lamp of one property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lamp {
    /// The name of the property, as given with `meshlock check --property`.
    pub name: &'static str,
    pub light: Light,
    /// The reason, in one line.
    pub why: String,
    /// The step of the violation.
    pub(crate) step: Option<usize>,
    /// The sentence that promises the property.
    pub(crate) promise: &'static str,
}

/// The properties that can be judged at one moment. Only the checker can tell that nobody ever starves.
const SHOWN: [Property; 9] = [
    Property::Exclusion,
    Property::Deadlock,
    Property::Starvation,
    Property::Bypass,
    Property::Order,
    Property::Fences,
    Property::Tokens,
    Property::Invariants,
    Property::Refusals,
];

/// The lamps of one moment.
pub(crate) fn of<A: Algorithm>(playback: &Playback<A>) -> Vec<Lamp> {
    SHOWN.map(|property| lamp(playback, property)).into()
}

fn lamp<A: Algorithm>(playback: &Playback<A>, property: Property) -> Lamp {
    let broken = playback.violations().find(|(violation, _)| Property::of(violation) == property);
    let bypassed = playback.bypassed().filter(|_| property == Property::Bypass);
    let (light, why, step) = if let Some((violation, step)) = broken {
        (Light::Broken, violation.to_string(), Some(step))
    } else if let Some(bypassed) = bypassed {
        (Light::Broken, bypassed.verdict.to_string(), Some(bypassed.step))
    } else {
        let (light, why) = unbroken(playback, property);
        (light, why, None)
    };
    Lamp { name: property.name(), light, why, step, promise: property.sentence() }
}

fn unbroken<A: Algorithm>(playback: &Playback<A>, property: Property) -> (Light, String) {
    match property {
        Property::Deadlock => deadlock(playback),
        Property::Starvation => starvation(playback),
        Property::Bypass if let Err(why) = playback.bypass_claim() => (Light::Dark, why.to_owned()),
        Property::Order if playback.world().info().order != Order::Timestamp => {
            (Light::Dark, "this algorithm promises no order of timestamps".to_owned())
        }
        Property::Tokens if playback.world().info().tokens == Tokens::None => {
            (Light::Dark, "this algorithm has no tokens".to_owned())
        }
        Property::Exclusion
        | Property::Order
        | Property::Fences
        | Property::Tokens
        | Property::Invariants
        | Property::Refusals
        | Property::Bypass
        | Property::Quiet
        | Property::Messages => (Light::Holds, "holds after every step so far".to_owned()),
    }
}

fn deadlock<A: Algorithm>(playback: &Playback<A>) -> (Light, String) {
    if !playback.is_stuck() {
        return (Light::Holds, "something can still happen, or nobody waits".to_owned());
    }
    let world = playback.world();
    let waiting: Vec<SiteId> =
        SiteId::all(world.sites().len()).filter(|&site| world.is_waiting(site)).collect();
    let who = waiting.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if playback.dropped() > 0 {
        return (
            Light::Watch,
            format!("{who} wait for ever: a message was lost, which no algorithm here is made for"),
        );
    }
    if waiting.iter().all(|&site| !world.site(site).survives(world.down())) {
        let why = if playback.world().info().failures.crash {
            "with these failures nobody can be served".to_owned()
        } else {
            format!("{} leaves failures to its host", playback.world().info().name)
        };
        return (Light::Watch, format!("{who} wait for ever: {why}"));
    }
    (Light::Broken, format!("nothing is on its way, nobody is inside, and {who} wait for ever"))
}

/// Others may enter a few times before a site that waits: that is no starvation. If they enter more often than each
/// could in turn, that deserves attention.
fn starvation<A: Algorithm>(playback: &Playback<A>) -> (Light, String) {
    let sites = playback.world().sites().len();
    let most = SiteId::all(sites).map(|site| (playback.passed(site), site)).max_by_key(|&(passed, _)| passed);
    match most {
        Some((passed, site)) if passed > 2 * sites => {
            (Light::Watch, format!("{passed} have entered while {site} waited"))
        }
        Some((passed, site)) if passed > 0 => {
            (Light::Holds, format!("so far: at most {passed} have entered while one waited ({site})"))
        }
        Some(_) | None => (Light::Holds, "so far: nobody has been passed over".to_owned()),
    }
}
