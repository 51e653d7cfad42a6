//! The measurements of a run while it goes on.

use std::collections::VecDeque;

use meshlock_protocol::{Info, SiteId, Timestamp};

use crate::time::Time;

/// Counters that are copied at regular intervals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    /// Messages sent, by kind, in the order in which the algorithm lists its kinds.
    pub(crate) by_kind: Vec<u64>,
    pub messages: u64,
    pub(crate) words: u64,
    pub entries: u64,
    pub(crate) time: Time,
}

/// All measurements so far.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    info: &'static Info,
    pub(crate) now: Counters,
    /// The counters after each group of entries.
    pub(crate) groups: Vec<Counters>,
    group_size: u64,
    /// By entry: the time from the request to the entry.
    pub(crate) waits: Vec<Time>,
    /// By exit: the time from the arrival of the request at its site to the exit.
    pub(crate) responses: Vec<Time>,
    /// By exit while someone waited: the time from the exit to the next entry.
    pub(crate) sync_delays: Vec<Time>,
    pub(crate) sent_by: Vec<u64>,
    /// Messages of the first kind that the algorithm lists: its requests.
    pub(crate) requests_by: Vec<u64>,
    pub(crate) received_by: Vec<u64>,
    pub(crate) entries_by: Vec<u64>,
    pub(crate) fairness: Fairness,
    /// The exits while someone waited that no entry has followed yet.
    open_exits: VecDeque<Time>,
}

/// The number of groups that a run is divided into.
const GROUPS: u64 = 1000;

impl Metrics {
    pub(crate) fn new(info: &'static Info, sites: usize, entries: u64) -> Self {
        let capacity = usize::try_from(entries).unwrap_or(0).min(1 << 24) + sites;
        let now = Counters { by_kind: vec![0; info.messages.len()], ..Counters::default() };
        Metrics {
            info,
            groups: vec![now.clone()],
            now,
            group_size: (entries / GROUPS).max(1),
            waits: Vec::with_capacity(capacity),
            responses: Vec::with_capacity(capacity),
            sync_delays: Vec::with_capacity(capacity),
            sent_by: vec![0; sites],
            requests_by: vec![0; sites],
            received_by: vec![0; sites],
            entries_by: vec![0; sites],
            fairness: Fairness::new(sites),
            open_exits: VecDeque::new(),
        }
    }

    /// The number of entries in one group.
    pub(crate) fn group_size(&self) -> u64 {
        self.group_size
    }

    pub(crate) fn sent(&mut self, from: SiteId, kind: &'static str, words: usize) {
        self.now.messages += 1;
        self.now.words += words as u64;
        self.sent_by[from.index()] += 1;
        if let Some(at) = self.info.messages.iter().position(|message| message.kind == kind) {
            self.now.by_kind[at] += 1;
            self.requests_by[from.index()] += u64::from(at == 0);
        }
    }

    pub(crate) fn entered(&mut self, site: SiteId, now: Time, asked: Time) {
        self.waits.push(now - asked);
        self.entries_by[site.index()] += 1;
        if let Some(exit) = self.open_exits.pop_front() {
            self.sync_delays.push(now - exit);
        }
        self.now.entries += 1;
        if self.now.entries.is_multiple_of(self.group_size) {
            self.now.time = now;
            self.groups.push(self.now.clone());
        }
    }

    pub(crate) fn left(&mut self, now: Time, arrived: Time, waiting: usize) {
        self.responses.push(now - arrived);
        if waiting > self.open_exits.len() {
            self.open_exits.push_back(now);
        }
    }
}

/// Overtaking, by the Lamport timestamps that the host gives to requests.
#[derive(Clone, Debug)]
pub(crate) struct Fairness {
    /// The waiting requests in the order of their timestamps, and how many later ones have entered before each; only kept for few
    /// sites. Most are inserted at the back and removed at the front, where a queue moves little, and it does not allocate once it
    /// has reached its size.
    waiting: Option<VecDeque<(Timestamp, u64)>>,
    pub overtakes: u64,
    pub max_bypass: u64,
}

/// With more sites than this, overtaking is not measured: it would cost more than the run.
const MAX_SITES_FOLLOWED: usize = 4096;

impl Fairness {
    fn new(sites: usize) -> Self {
        let waiting = (sites <= MAX_SITES_FOLLOWED).then(|| VecDeque::with_capacity(sites));
        Fairness { waiting, overtakes: 0, max_bypass: 0 }
    }

    /// Whether overtaking was measured.
    pub(crate) fn followed(&self) -> bool {
        self.waiting.is_some()
    }

    pub(crate) fn asked(&mut self, request: Timestamp) {
        if let Some(waiting) = &mut self.waiting {
            let place = waiting.partition_point(|(earlier, _)| *earlier < request);
            waiting.insert(place, (request, 0));
        }
    }

    pub(crate) fn entered(&mut self, request: Timestamp) {
        let Some(place) = self.remove(request) else { return };
        self.overtakes += u64::from(place > 0);
        for (_, bypassed) in self.waiting.iter_mut().flat_map(|waiting| waiting.range_mut(..place)) {
            *bypassed += 1;
            self.max_bypass = self.max_bypass.max(*bypassed);
        }
    }

    /// Removes a request whose site has failed.
    pub(crate) fn gone(&mut self, request: Timestamp) {
        self.remove(request);
    }

    /// Removes the request. Returns how many earlier ones wait.
    fn remove(&mut self, request: Timestamp) -> Option<usize> {
        let waiting = self.waiting.as_mut()?;
        let place = waiting.binary_search_by_key(&request, |(waits, _)| *waits).ok()?;
        waiting.remove(place);
        Some(place)
    }
}
