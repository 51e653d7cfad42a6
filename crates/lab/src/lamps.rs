//! The properties as lamps: what holds so far, what broke and when.

use meshlock_check::Property;
use meshlock_protocol::registry::info::{Order, Tokens};
use meshlock_protocol::{Algorithm, SiteId};
use serde::Serialize;

use crate::stage::Stage;

/// How a lamp shines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Light {
    /// It holds so far.
    Holds,
    /// Worth a look: it holds, but not by much.
    Watch,
    /// It is broken.
    Broken,
    /// This algorithm does not promise it.
    Dark,
}

/// One property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lamp {
    /// Its name, as `meshlock check --property` has it.
    pub name: &'static str,
    /// How it shines.
    pub light: Light,
    /// Why, in a line.
    pub why: String,
    /// At which step it broke.
    pub step: Option<usize>,
    /// Who promises it.
    pub promise: &'static str,
}

/// What can be seen at one moment; that nobody ever starves is for the checker to say.
const SHOWN: [Property; 8] = [
    Property::Exclusion,
    Property::Deadlock,
    Property::Starvation,
    Property::Order,
    Property::Fences,
    Property::Tokens,
    Property::Invariants,
    Property::Refusals,
];

/// The lamps of one moment.
pub(crate) fn of<A: Algorithm>(stage: &Stage<A>) -> Vec<Lamp> {
    SHOWN.map(|property| lamp(stage, property)).into()
}

fn lamp<A: Algorithm>(stage: &Stage<A>, property: Property) -> Lamp {
    let broken = stage.violations().find(|(violation, _)| Property::of(violation) == property);
    let (light, why, step) = if let Some((violation, step)) = broken {
        (Light::Broken, violation.to_string(), Some(step))
    } else {
        let (light, why) = unbroken(stage, property);
        (light, why, None)
    };
    Lamp { name: property.name(), light, why, step, promise: property.sentence() }
}

fn unbroken<A: Algorithm>(stage: &Stage<A>, property: Property) -> (Light, String) {
    match property {
        Property::Deadlock => deadlock(stage),
        Property::Starvation => starvation(stage),
        Property::Order if stage.world().info().order != Order::Timestamp => {
            (Light::Dark, "this algorithm promises no order of timestamps".to_owned())
        }
        Property::Tokens if stage.world().info().tokens == Tokens::None => {
            (Light::Dark, "this algorithm has no tokens".to_owned())
        }
        Property::Exclusion
        | Property::Order
        | Property::Fences
        | Property::Tokens
        | Property::Invariants
        | Property::Refusals
        | Property::Quiet
        | Property::Messages => (Light::Holds, "holds after every step so far".to_owned()),
    }
}

fn deadlock<A: Algorithm>(stage: &Stage<A>) -> (Light, String) {
    if !stage.is_stuck() {
        return (Light::Holds, "something can still happen, or nobody waits".to_owned());
    }
    let world = stage.world();
    let waiting: Vec<SiteId> =
        SiteId::all(world.sites().len()).filter(|&site| world.is_waiting(site)).collect();
    let who = waiting.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if stage.dropped() > 0 {
        return (
            Light::Watch,
            format!("{who} wait for ever: a message was lost, which no algorithm here is made for"),
        );
    }
    if waiting.iter().all(|&site| !world.site(site).survives(world.down())) {
        let why = if stage.world().info().failures.crash {
            "with these failures nobody can be served".to_owned()
        } else {
            format!("{} leaves failures to its host", stage.world().info().name)
        };
        return (Light::Watch, format!("{who} wait for ever: {why}"));
    }
    (Light::Broken, format!("nothing is on its way, nobody is inside, and {who} wait for ever"))
}

/// That a site is passed over a few times is no starvation; that it is more often than all others could once in turn is worth
/// a look.
fn starvation<A: Algorithm>(stage: &Stage<A>) -> (Light, String) {
    let sites = stage.world().sites().len();
    let most = SiteId::all(sites).map(|site| (stage.passed(site), site)).max_by_key(|&(passed, _)| passed);
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
