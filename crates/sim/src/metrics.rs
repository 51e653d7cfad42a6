//! What is written down while a run goes on.

use std::collections::BTreeMap;

use meshlock_protocol::{Info, SiteId, Timestamp};

use crate::time::Time;

/// The counters that are read off at regular intervals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    /// Messages sent, by kind, in the order in which the algorithm lists its kinds.
    pub(crate) by_kind: Vec<u64>,
    pub(crate) messages: u64,
    pub(crate) words: u64,
    pub(crate) entries: u64,
    pub(crate) time: Time,
}

/// Everything measured so far.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    info: Info,
    pub(crate) now: Counters,
    /// The counters after each group of entries.
    pub(crate) groups: Vec<Counters>,
    group_size: u64,
    /// Of each entry: from the request to the entry.
    pub(crate) waits: Vec<Time>,
    /// Of each exit: from the arrival of the request at its site to the exit.
    pub(crate) responses: Vec<Time>,
    /// Of each exit while someone waited: from it to the next entry.
    pub(crate) sync_delays: Vec<Time>,
    pub(crate) sent_by: Vec<u64>,
    /// Messages of the first kind that the algorithm lists: its requests.
    pub(crate) requests_by: Vec<u64>,
    pub(crate) received_by: Vec<u64>,
    pub(crate) entries_by: Vec<u64>,
    pub(crate) fairness: Fairness,
    /// Exits that were followed by no entry yet, while someone waited.
    open_exits: std::collections::VecDeque<Time>,
}

/// How many groups a run is cut into.
const GROUPS: u64 = 1000;

impl Metrics {
    pub(crate) fn new(info: Info, sites: usize, entries: u64) -> Self {
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
            open_exits: std::collections::VecDeque::new(),
        }
    }

    /// How many entries one group has.
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

/// Who was overtaken, by the Lamport timestamps that the host gives to requests.
#[derive(Clone, Debug)]
pub(crate) struct Fairness {
    /// For each request that waits, how many later ones have entered before it; only kept for so many sites.
    waiting: Option<BTreeMap<Timestamp, u64>>,
    pub(crate) overtakes: u64,
    pub(crate) max_bypass: u64,
}

/// With more sites than this, overtaking is not followed: it would cost more than the run.
const MOST_SITES_FOLLOWED: usize = 4096;

impl Fairness {
    fn new(sites: usize) -> Self {
        let waiting = (sites <= MOST_SITES_FOLLOWED).then(BTreeMap::new);
        Fairness { waiting, overtakes: 0, max_bypass: 0 }
    }

    /// Whether overtaking was followed.
    pub(crate) fn followed(&self) -> bool {
        self.waiting.is_some()
    }

    pub(crate) fn asked(&mut self, request: Timestamp) {
        if let Some(waiting) = &mut self.waiting {
            waiting.insert(request, 0);
        }
    }

    pub(crate) fn entered(&mut self, request: Timestamp) {
        let Some(waiting) = &mut self.waiting else { return };
        waiting.remove(&request);
        let mut overtook = false;
        for (_, bypassed) in waiting.range_mut(..request) {
            overtook = true;
            *bypassed += 1;
            self.max_bypass = self.max_bypass.max(*bypassed);
        }
        self.overtakes += u64::from(overtook);
    }

    /// The request is gone with its site.
    pub(crate) fn gone(&mut self, request: Timestamp) {
        if let Some(waiting) = &mut self.waiting {
            waiting.remove(&request);
        }
    }
}
