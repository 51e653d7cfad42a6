//! Moments: everything that the page shows of a run after one step.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::registry::info::{Formula, Scale};
use meshlock_protocol::{Algorithm, SiteId, SiteSet, View};
use serde::Serialize;

use crate::lamps::{self, Lamp};
use crate::playback::Playback;
use crate::state;

/// One field of a site's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StateField {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) changed: bool,
}

/// An arrow of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Arrow {
    /// What the paper calls it.
    pub(crate) name: &'static str,
    pub to: usize,
    /// The token that it belongs to, if each token has its own.
    pub(crate) slot: Option<u32>,
}

/// A set or a list, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Named<T> {
    /// What the paper calls it.
    pub(crate) name: &'static str,
    pub(crate) items: Vec<T>,
}

/// A value for each site, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ValueTable {
    /// What the paper calls it.
    pub(crate) name: &'static str,
    /// The token that it belongs to, if each token has its own.
    pub(crate) slot: Option<u32>,
    pub(crate) values: Vec<String>,
}

/// One site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteMoment {
    /// What its process does: `idle`, `waiting`, `inside` or `failed`.
    pub phase: &'static str,
    /// The timestamp of its request, if it has one.
    pub(crate) timestamp: Option<String>,
    pub(crate) tokens: usize,
    /// The number of entries since its request.
    pub(crate) passed: usize,
    /// Whether it can recover: it has failed, and all others know.
    pub(crate) can_recover: bool,
    pub(crate) fields: Vec<StateField>,
    /// The names of what the last step changed of the rest.
    pub(crate) changed: BTreeSet<&'static str>,
    pub pointers: Vec<Arrow>,
    pub(crate) sets: Vec<Named<usize>>,
    pub(crate) queues: Vec<Named<String>>,
    pub(crate) tables: Vec<ValueTable>,
    /// Single values, by name.
    pub(crate) values: Vec<(&'static str, String)>,
    /// The sites that it waits for, as far as it knows.
    pub waits_for: Vec<usize>,
}

/// A message in flight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PendingMoment {
    pub(crate) number: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The number of older messages of the same pair in flight.
    pub(crate) nth: usize,
    pub(crate) due: f64,
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// Whether its link is cut.
    pub(crate) held: bool,
}

/// The counters so far, and what the paper says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counters {
    pub entries: usize,
    pub messages: u64,
    /// Messages per entry; `None` before the first entry.
    pub(crate) per_entry: Option<f64>,
    /// Messages by kind.
    pub(crate) by_kind: Vec<(&'static str, u64)>,
    /// The paper's costs: the load, the formula, its value for this run.
    pub(crate) formulas: Vec<(&'static str, &'static str, f64)>,
    /// The paper's delay from one exit to the next entry, in message delays.
    pub(crate) sync_delay: &'static str,
}

/// An entry into the critical section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct EntryMoment {
    pub(crate) site: usize,
    pub(crate) slot: u32,
    pub(crate) fence: i64,
    /// The number of earlier requests that it overtook.
    pub(crate) overtook: usize,
}

/// Everything after one step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// The number of steps taken.
    pub(crate) step: usize,
    pub(crate) time: f64,
    pub sites: Vec<SiteMoment>,
    pub pending: Vec<PendingMoment>,
    pub(crate) cut: Vec<[usize; 2]>,
    /// One side of a split network.
    pub(crate) away: Vec<usize>,
    pub lamps: Vec<Lamp>,
    pub counters: Counters,
    /// The last entries, latest first.
    pub(crate) entries: Vec<EntryMoment>,
}

/// What differs between two moments of one run. What is small is there in any case.
#[derive(Debug, Serialize)]
pub struct MomentChange<'a> {
    step: usize,
    time: f64,
    /// The sites that differ.
    sites: BTreeMap<usize, &'a SiteMoment>,
    /// The numbers of the messages that are not in flight any more, or not as they were.
    gone: Vec<usize>,
    /// The messages that are in flight now and were not, or not as they are now.
    pending: Vec<&'a PendingMoment>,
    cut: &'a [[usize; 2]],
    away: &'a [usize],
    lamps: &'a [Lamp],
    counters: &'a Counters,
    entries: &'a [EntryMoment],
}

impl Moment {
    /// What differs from another moment of the same run.
    pub fn since<'a>(&'a self, base: &Moment) -> MomentChange<'a> {
        let sites = self.sites.iter().enumerate().zip(&base.sites);
        let numbered = |pending: &'a [PendingMoment]| -> BTreeMap<usize, &'a PendingMoment> {
            pending.iter().map(|message| (message.number, message)).collect()
        };
        let (now, before) = (numbered(&self.pending), &base.pending);
        let same = |message: &&PendingMoment| now.get(&message.number).is_some_and(|now| *now == *message);
        let kept: BTreeSet<usize> = before.iter().filter(same).map(|message| message.number).collect();
        MomentChange {
            step: self.step,
            time: self.time,
            sites: sites.filter(|((_, now), before)| now != before).map(|(now, _)| now).collect(),
            gone: before
                .iter()
                .map(|message| message.number)
                .filter(|number| !kept.contains(number))
                .collect(),
            pending: self.pending.iter().filter(|message| !kept.contains(&message.number)).collect(),
            cut: &self.cut,
            away: &self.away,
            lamps: &self.lamps,
            counters: &self.counters,
            entries: &self.entries,
        }
    }
}

/// The number of the last entries that are shown.
const ENTRIES_TOLD: usize = 12;

/// The state of one site, as it prints it and as its paper draws it.
#[derive(Clone, Debug)]
pub(crate) struct ShownState {
    printed: String,
    view: View,
}

/// The state of every site.
pub(crate) fn states<A: Algorithm>(playback: &Playback<A>) -> Vec<ShownState> {
    let shown = |site: &A| ShownState { printed: format!("{site:?}"), view: site.view() };
    playback.world().sites().iter().map(shown).collect()
}

/// The moment of `playback`; `now` and `before` have the states of its sites, these of one step earlier.
pub(crate) fn of<A: Algorithm>(playback: &Playback<A>, now: &[ShownState], before: &[ShownState]) -> Moment {
    let world = playback.world();
    let sites = SiteId::all(now.len());
    Moment {
        step: playback.steps(),
        time: playback.now().as_units(),
        sites: sites.map(|id| site(playback, id, &now[id.index()], &before[id.index()])).collect(),
        pending: pending(playback),
        cut: playback.cut().map(|link| link.ends().map(SiteId::index)).collect(),
        away: indices(&world.away()),
        lamps: lamps::of(playback),
        counters: counters(playback),
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

fn site<A: Algorithm>(
    playback: &Playback<A>,
    id: SiteId,
    now: &ShownState,
    before: &ShownState,
) -> SiteMoment {
    let world = playback.world();
    let machine = world.site(id);
    let changed = changed(&now.view, &before.view);
    let View { pointers, sets, queues, tables, values, waits_for } = now.view.clone();
    SiteMoment {
        phase: match (world.is_up(id), world.inside().contains(id), world.is_waiting(id)) {
            (false, ..) => "failed",
            (true, true, _) => "inside",
            (true, false, true) => "waiting",
            (true, false, false) => "idle",
        },
        timestamp: machine.timestamp().map(|timestamp| timestamp.to_string()),
        tokens: machine.tokens(),
        passed: playback.passed(id),
        can_recover: world.info().failures.recovery && world.can_recover(id),
        fields: changes(&now.printed, &before.printed),
        changed,
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
        tables: tables
            .into_iter()
            .map(|table| ValueTable {
                name: table.name,
                slot: table.slot.map(|slot| slot.0),
                values: table.rows.into_iter().map(|(_, value)| value).collect(),
            })
            .collect(),
        values,
        waits_for: if world.is_waiting(id) { indices(&waits_for) } else { Vec::new() },
    }
}

/// The names of the pointers, sets, lists and values that differ.
fn changed(now: &View, before: &View) -> BTreeSet<&'static str> {
    fn differing<T: PartialEq>(
        now: &[T],
        before: &[T],
        name: impl Fn(&T) -> &'static str,
    ) -> Vec<&'static str> {
        let gone = before.iter().filter(|one| !now.contains(one));
        now.iter().filter(|one| !before.contains(one)).chain(gone).map(name).collect()
    }
    [
        differing(&now.pointers, &before.pointers, |pointer| pointer.name),
        differing(&now.sets, &before.sets, |(name, _)| name),
        differing(&now.queues, &before.queues, |(name, _)| name),
        differing(&now.tables, &before.tables, |table| table.name),
        differing(&now.values, &before.values, |(name, _)| name),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The fields of a state, with those marked that differ from the state before.
pub(crate) fn changes(now: &str, before: &str) -> Vec<StateField> {
    let before = state::fields(before);
    let changed = |field: &state::FieldText| !before.contains(field);
    let fields = state::fields(now).into_iter();
    fields.map(|field| StateField { changed: changed(&field), name: field.0, value: field.1 }).collect()
}

fn pending<A: Algorithm>(playback: &Playback<A>) -> Vec<PendingMoment> {
    let world = playback.world();
    let cut: Vec<[SiteId; 2]> = playback.cut().map(|link| link.ends()).collect();
    let mut all = Vec::new();
    for ((from, to), channel) in playback.channels() {
        let held = cut.contains(&[from.min(to), from.max(to)]);
        for (nth, (pending, packet)) in channel.iter().zip(world.packets(from, to)).enumerate() {
            all.push(PendingMoment {
                number: pending.number,
                from: from.index(),
                to: to.index(),
                nth,
                due: pending.due().as_units(),
                kind: meshlock_protocol::Message::kind(&packet.message),
                text: packet.message.to_string(),
                held,
            });
        }
    }
    all.sort_by(|one, other| one.due.total_cmp(&other.due).then(one.number.cmp(&other.number)));
    all
}

fn counters<A: Algorithm>(playback: &Playback<A>) -> Counters {
    let world = playback.world();
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
