//! Everything that the page shows of one moment of a run.

use meshlock_protocol::registry::info::{Formula, Scale};
use meshlock_protocol::{Algorithm, SiteId, SiteSet, View};
use serde::Serialize;

use crate::lamps::{self, Lamp};
use crate::stage::Stage;
use crate::state;

/// One field of a site's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether the last step changed it.
    pub changed: bool,
}

/// An arrow of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Arrow {
    /// What the paper calls it.
    pub name: &'static str,
    /// Where it points.
    pub to: usize,
    /// Of which token, if it is one's.
    pub slot: Option<u32>,
}

/// A set or a list, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named<T> {
    /// What the paper calls it.
    pub name: &'static str,
    /// What is in it.
    pub items: Vec<T>,
}

/// One site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteMoment {
    /// What its process does: `idle`, `waiting`, `inside` or `failed`.
    pub phase: &'static str,
    /// The timestamp of its request, if it has one.
    pub timestamp: Option<String>,
    /// How many tokens are here.
    pub tokens: usize,
    /// How many have entered since it asked.
    pub passed: usize,
    /// Whether all know that it failed and it can come back.
    pub can_recover: bool,
    /// Its state.
    pub fields: Vec<Field>,
    /// Its arrows.
    pub pointers: Vec<Arrow>,
    /// Its sets.
    pub sets: Vec<Named<usize>>,
    /// Its lists.
    pub queues: Vec<Named<String>>,
    /// Whom it waits for, as far as it knows.
    pub waits_for: Vec<usize>,
}

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PendingMoment {
    /// Its number.
    pub number: usize,
    /// From here.
    pub from: usize,
    /// To there.
    pub to: usize,
    /// So many older ones of the same pair are on their way.
    pub nth: usize,
    /// When it is due.
    pub due: f64,
    /// Its kind.
    pub kind: &'static str,
    /// The message.
    pub text: String,
    /// Whether its link is cut.
    pub held: bool,
}

/// What has been counted so far, beside what the paper says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counters {
    /// How many have entered.
    pub entries: usize,
    /// How many messages have been sent.
    pub messages: u64,
    /// The same for each entry; none before the first.
    pub per_entry: Option<f64>,
    /// By kind.
    pub by_kind: Vec<(&'static str, u64)>,
    /// What the paper says: under which load, the formula, its value here.
    pub formulas: Vec<(&'static str, &'static str, f64)>,
    /// From one exit to the next entry, in message delays.
    pub sync_delay: &'static str,
}

/// An entry into the critical section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryMoment {
    /// Who.
    pub site: usize,
    /// On which permit.
    pub slot: u32,
    /// With which fence.
    pub fence: i64,
    /// How many earlier requests it overtook.
    pub overtook: usize,
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// After so many steps.
    pub step: usize,
    /// When.
    pub time: f64,
    /// The sites, in order.
    pub sites: Vec<SiteMoment>,
    /// The messages on their way.
    pub pending: Vec<PendingMoment>,
    /// The links that are cut.
    pub cut: Vec<[usize; 2]>,
    /// One side of a split network.
    pub away: Vec<usize>,
    /// The properties.
    pub lamps: Vec<Lamp>,
    /// What has been counted.
    pub counters: Counters,
    /// The last entries, latest first.
    pub entries: Vec<EntryMoment>,
}

/// How many of the last entries are told.
const ENTRIES_TOLD: usize = 12;

/// What every site prints of itself.
pub(crate) fn printed<A: Algorithm>(stage: &Stage<A>) -> Vec<String> {
    stage.world().sites().iter().map(|site| format!("{site:?}")).collect()
}

/// The moment of `stage`; `before` is what the sites printed one step earlier.
pub(crate) fn of<A: Algorithm>(stage: &Stage<A>, before: &[String]) -> Moment {
    let world = stage.world();
    let now = printed(stage);
    let sites = SiteId::all(now.len());
    Moment {
        step: stage.steps(),
        time: stage.now().as_units(),
        sites: sites.map(|id| site(stage, id, &now[id.index()], &before[id.index()])).collect(),
        pending: pending(stage),
        cut: stage.cut().map(|link| link.ends().map(SiteId::index)).collect(),
        away: indices(world.away()),
        lamps: lamps::of(stage),
        counters: counters(stage),
        entries: world
            .entries()
            .iter()
            .rev()
            .take(ENTRIES_TOLD)
            .map(|entry| EntryMoment {
                site: entry.site.index(),
                slot: entry.slot.0,
                fence: entry.fence.value(),
                overtook: entry.overtook,
            })
            .collect(),
    }
}

fn indices(sites: &SiteSet) -> Vec<usize> {
    sites.iter().map(SiteId::index).collect()
}

fn site<A: Algorithm>(stage: &Stage<A>, id: SiteId, now: &str, before: &str) -> SiteMoment {
    let world = stage.world();
    let machine = world.site(id);
    let View { pointers, sets, queues, waits_for } = machine.view();
    SiteMoment {
        phase: match (world.is_up(id), world.inside().contains(id), world.is_waiting(id)) {
            (false, ..) => "failed",
            (true, true, _) => "inside",
            (true, false, true) => "waiting",
            (true, false, false) => "idle",
        },
        timestamp: machine.timestamp().map(|timestamp| timestamp.to_string()),
        tokens: machine.tokens(),
        passed: stage.passed(id),
        can_recover: world.info().failures.recovery && world.can_recover(id),
        fields: changes(now, before),
        pointers: pointers
            .into_iter()
            .map(|arrow| Arrow {
                name: arrow.name,
                to: arrow.to.index(),
                slot: arrow.slot.map(|slot| slot.0),
            })
            .collect(),
        sets: sets.into_iter().map(|(name, set)| Named { name, items: indices(&set) }).collect(),
        queues: queues.into_iter().map(|(name, items)| Named { name, items }).collect(),
        waits_for: if world.is_waiting(id) { indices(&waits_for) } else { Vec::new() },
    }
}

/// The fields of a state, with those marked that differ from the state before.
pub(crate) fn changes(now: &str, before: &str) -> Vec<Field> {
    let before = state::fields(before);
    let changed = |field: &state::Field| !before.contains(field);
    let fields = state::fields(now).into_iter();
    fields.map(|field| Field { changed: changed(&field), name: field.0, value: field.1 }).collect()
}

fn pending<A: Algorithm>(stage: &Stage<A>) -> Vec<PendingMoment> {
    let world = stage.world();
    let cut: Vec<[SiteId; 2]> = stage.cut().map(|link| link.ends()).collect();
    let mut all = Vec::new();
    for ((from, to), channel) in stage.channels() {
        let held = cut.contains(&[from.min(to), from.max(to)]);
        for (nth, (pending, packet)) in channel.iter().zip(world.packets(from, to)).enumerate() {
            all.push(PendingMoment {
                number: pending.number,
                from: from.index(),
                to: to.index(),
                nth,
                due: pending.due().as_units(),
                kind: meshlock_protocol::Message::kind(&packet.message),
                text: format!("{:?}", packet.message),
                held,
            });
        }
    }
    all.sort_by(|one, other| one.due.total_cmp(&other.due).then(one.number.cmp(&other.number)));
    all
}

fn counters<A: Algorithm>(stage: &Stage<A>) -> Counters {
    let world = stage.world();
    let (entries, messages) = (world.entries().len(), world.messages());
    let quorums: Vec<usize> = world.sites().iter().filter_map(A::quorum).collect();
    let cluster = world.cluster();
    let quorum = quorums.iter().sum::<usize>().checked_div(quorums.len()).unwrap_or(cluster.sites);
    let scale = Scale { sites: cluster.sites, permits: cluster.permits, quorum };
    let formula = |load, formula: &Formula| (load, formula.text, (formula.messages)(scale));
    let costs = &world.info().costs;
    let mut formulas =
        vec![formula("alone, at least", &costs.lone_least), formula("alone, at most", &costs.lone_most)];
    if costs.lone_least.text == costs.lone_most.text {
        formulas = vec![formula("alone", &costs.lone_most)];
    }
    formulas.push(formula("heavy load", &costs.heavy));
    Counters {
        entries,
        messages,
        per_entry: (entries > 0).then(|| messages as f64 / entries as f64),
        by_kind: world.sent().iter().map(|(&kind, &count)| (kind, count)).collect(),
        formulas,
        sync_delay: costs.sync_delay,
    }
}
