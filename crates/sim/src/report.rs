//! The report of a run, with the names that `meshlock sim --json` prints.

use std::collections::BTreeMap;

use meshlock_protocol::Info;
use serde::Serialize;

use crate::metrics::{Metrics, SiteCounters};
use crate::settings::{Settings, WarmUp};
use crate::statistics::{Mean, batch_mean, batch_ratio, is_growing, steady_from};
use crate::time::Time;

/// Messages per entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessagesPerEntry {
    /// The mean over all kinds.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval.
    pub ci95: Option<f64>,
    pub by_kind: BTreeMap<&'static str, f64>,
}

/// Words per message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Words {
    pub mean: f64,
    /// Half the width of its 95 % confidence interval.
    pub ci95: Option<f64>,
}

/// A duration, in units of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Duration {
    pub mean: f64,
    /// Half the width of its 95 % confidence interval.
    pub ci95: Option<f64>,
    pub p50: f64,
    /// The value that one in a hundred exceeds.
    pub p99: f64,
    pub max: f64,
}

/// Entries per unit of time: a plain number beside its interval, not an object like the durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Throughput {
    #[serde(rename = "throughput")]
    pub mean: f64,
    /// Half the width of its 95 % confidence interval.
    #[serde(rename = "throughput_ci95")]
    pub ci95: Option<f64>,
}

/// The entries in one mode, after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ModeReport {
    pub entries: u64,
    /// From the request to the entry. It has no confidence interval: the entries of one mode are no groups of equal size.
    pub wait: Duration,
}

/// Readers and writers, counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ByMode {
    pub shared: ModeReport,
    pub exclusive: ModeReport,
}

/// The clock that orders requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderClock {
    /// The algorithm gives its requests timestamps.
    Algorithm,
    /// It gives none: the Lamport clock that the host carries on every message does.
    Host,
}

/// Fairness: the share of each site, and overtaking.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fairness {
    /// Jain's index over the sites' entries: 1 if all sites had the same number.
    pub jain: f64,
    /// The clock whose timestamps say which of two requests is the earlier one.
    pub clock: OrderClock,
    /// The number of entries that overtook a request with an earlier timestamp of that clock; `None` if there were too many sites to
    /// measure it.
    pub overtakes: Option<u64>,
    /// The largest number of later requests that entered while one waited.
    pub max_bypass: Option<u64>,
}

/// With more sites than this, a report does not list the load of each of them.
const MAX_SITES_LISTED: usize = 1000;

/// Messages of each site, per entry of the whole system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteLoad {
    /// Sent, by the most and the least busy site.
    pub sent_most: f64,
    /// See `sent_most`.
    pub sent_least: f64,
    /// Received, by the most and the least busy site.
    pub received_most: f64,
    /// See `received_most`.
    pub received_least: f64,
    /// Sent by each site, unless there are too many sites to list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sent: Vec<f64>,
    /// Received by each site, unless there are too many sites to list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) received: Vec<f64>,
}

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub(crate) algorithm: &'static str,
    /// N.
    pub sites: usize,
    /// K.
    pub permits: usize,
    /// The seed that reproduces the run.
    pub seed: u64,
    /// The number of entries measured, after the warm-up.
    pub entries: u64,
    /// The number of entries discarded as warm-up.
    pub warm_up: u64,
    /// Whether the run reached a steady state: false if the time from the arrival of a request to its exit still grows at the end.
    /// Then the means describe this run, and a longer one has others.
    pub steady_state: bool,
    /// The number of events of the whole run.
    pub events: u64,
    pub messages_per_entry: MessagesPerEntry,
    pub words_per_message: Words,
    /// From the request to the entry.
    pub wait: Duration,
    /// The same for readers and for writers, in a run with readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_mode: Option<ByMode>,
    /// From the arrival of the request at its site to the exit.
    pub response: Duration,
    /// From an exit to the next entry, while someone waits.
    pub sync_delay: Duration,
    /// Entries per unit of time.
    #[serde(flatten)]
    pub throughput: Throughput,
    pub fairness: Fairness,
    pub site_load: SiteLoad,
    /// By site: its entries in the whole run.
    #[serde(skip)]
    pub(crate) entries_by_site: Vec<u64>,
    /// By site: the mean of its waits in the whole run.
    #[serde(skip)]
    pub(crate) wait_by_site: Vec<f64>,
    /// By site: the request messages that it sent (those of the first kind that the algorithm lists), in the whole run.
    #[serde(skip)]
    pub(crate) requests_by_site: Vec<u64>,
}

pub(crate) fn of(
    info: &Info,
    settings: &Settings,
    metrics: &Metrics,
    sites: &[SiteCounters],
    events: u64,
) -> Report {
    let size = usize::try_from(metrics.group_size()).expect("a group is small");
    let wait_groups = chunk_means(&metrics.waits, size);
    let cut = match settings.warm_up {
        WarmUp::Keep => 0,
        WarmUp::Found => steady_from(&wait_groups).min(metrics.groups.len().saturating_sub(2)),
    };
    let skip = cut * size;
    let (first, last) = (&metrics.groups[cut], &metrics.groups[metrics.groups.len() - 1]);
    let entries = (last.entries - first.entries).max(1) as f64;
    let by_kind = info
        .messages
        .iter()
        .enumerate()
        .map(|(at, message)| (message.kind, (last.by_kind[at] - first.by_kind[at]) as f64 / entries));
    let per_group = |count: fn(&crate::metrics::Counters) -> f64| -> Vec<f64> {
        metrics.groups[cut..].windows(2).map(|pair| count(&pair[1]) - count(&pair[0])).collect()
    };
    let messages: Vec<f64> =
        per_group(|at| at.messages as f64).iter().map(|sent| sent / size as f64).collect();
    let rates: Vec<f64> = per_group(|at| at.time.as_units()).iter().map(|time| size as f64 / time).collect();
    let Mean { mean, ci95 } = batch_mean(&messages);
    let words = batch_ratio(
        &metrics.groups[cut..]
            .windows(2)
            .map(|pair| {
                ((pair[1].words - pair[0].words) as f64, (pair[1].messages - pair[0].messages) as f64)
            })
            .collect::<Vec<_>>(),
    );
    let span = last.time.as_units() - first.time.as_units();
    Report {
        algorithm: info.name,
        sites: settings.cluster.sites,
        permits: settings.cluster.permits,
        seed: settings.seed,
        entries: last.entries - first.entries,
        warm_up: skip as u64,
        steady_state: !is_growing(&chunk_means(
            &metrics.responses[skip.min(metrics.responses.len())..],
            size,
        )),
        events,
        messages_per_entry: MessagesPerEntry { mean, ci95, by_kind: by_kind.collect() },
        words_per_message: Words { mean: words.mean, ci95: words.ci95 },
        wait: duration(&metrics.waits, skip, size),
        by_mode: (settings.readers > 0.0).then(|| by_mode(metrics, skip)),
        response: duration(&metrics.responses, skip, size),
        // Delays and entries are counted separately; the same share of both is warm-up.
        sync_delay: duration(
            &metrics.sync_delays,
            share(metrics.sync_delays.len(), skip, metrics.waits.len()),
            size,
        ),
        throughput: Throughput { mean: entries / span, ci95: batch_mean(&rates).ci95 },
        fairness: fairness(metrics, sites),
        site_load: site_load(metrics, sites),
        entries_by_site: sites.iter().map(|site| site.entries).collect(),
        wait_by_site: sites.iter().map(|site| site.waited.as_units() / site.entries.max(1) as f64).collect(),
        requests_by_site: sites.iter().map(|site| site.requests).collect(),
    }
}

fn by_mode(metrics: &Metrics, skip: usize) -> ByMode {
    let of = |reads: bool| {
        let entries = metrics.waits.iter().zip(&metrics.reads).skip(skip);
        let waits: Vec<Time> = entries.filter(|(_, read)| **read == reads).map(|(wait, _)| *wait).collect();
        ModeReport { entries: waits.len() as u64, wait: Duration { ci95: None, ..duration(&waits, 0, 1) } }
    };
    ByMode { shared: of(true), exclusive: of(false) }
}

/// The same share of `length` as `part` is of `whole`.
fn share(length: usize, part: usize, whole: usize) -> usize {
    length * part / whole.max(1)
}

fn mean_of(times: &[Time]) -> f64 {
    times.iter().map(|time| time.as_units()).sum::<f64>() / times.len() as f64
}

/// The means of as many groups of `size` as there are.
fn chunk_means(times: &[Time], size: usize) -> Vec<f64> {
    times.chunks_exact(size).map(mean_of).collect()
}

fn duration(times: &[Time], skip: usize, size: usize) -> Duration {
    let steady = &times[skip.min(times.len())..];
    if steady.is_empty() {
        return Duration::default();
    }
    let Mean { ci95, .. } = batch_mean(&chunk_means(steady, size));
    let mut values = steady.to_vec();
    let mut at = |share: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
        let index = (share * (values.len() - 1) as f64).round() as usize;
        values.select_nth_unstable(index).1.as_units()
    };
    Duration { mean: mean_of(steady), ci95, p50: at(0.5), p99: at(0.99), max: at(1.0) }
}

fn fairness(metrics: &Metrics, sites: &[SiteCounters]) -> Fairness {
    let entries: Vec<f64> = sites.iter().map(|site| site.entries as f64).collect();
    let sum: f64 = entries.iter().sum();
    let squares: f64 = entries.iter().map(|count| count * count).sum();
    let jain = if squares > 0.0 { sum * sum / (entries.len() as f64 * squares) } else { 1.0 };
    let followed = metrics.fairness.followed();
    Fairness {
        jain,
        clock: if metrics.fairness.by_own_clock { OrderClock::Algorithm } else { OrderClock::Host },
        overtakes: followed.then_some(metrics.fairness.overtakes),
        max_bypass: followed.then_some(metrics.fairness.max_bypass),
    }
}

fn site_load(metrics: &Metrics, sites: &[SiteCounters]) -> SiteLoad {
    let entries = metrics.now.entries.max(1) as f64;
    let counts = |count: fn(&SiteCounters) -> u64| sites.iter().map(count);
    let most = |count| counts(count).max().map_or(0.0, |count| count as f64 / entries);
    let least = |count| counts(count).min().map_or(0.0, |count| count as f64 / entries);
    let each = |count| match sites.len() {
        ..=MAX_SITES_LISTED => counts(count).map(|count| count as f64 / entries).collect(),
        _ => Vec::new(),
    };
    let sent = |site: &SiteCounters| site.sent;
    let received = |site: &SiteCounters| site.received;
    SiteLoad {
        sent: each(sent),
        received: each(received),
        sent_most: most(sent),
        sent_least: least(sent),
        received_most: most(received),
        received_least: least(received),
    }
}
