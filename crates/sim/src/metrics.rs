//! The measurements of a run while it goes on.

use std::collections::VecDeque;

use meshlock_protocol::{Info, Timestamp};

use crate::settings::Settings;
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

/// The measurements of one site. They are kept with the site's other state, which is needed at the same moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SiteCounters {
    pub(crate) sent: u64,
    /// Messages sent of the first kind that the algorithm lists: its requests.
    pub(crate) requests: u64,
    pub(crate) received: u64,
    pub(crate) entries: u64,
    /// The sum of the waits of its entries.
    pub(crate) waited: Time,
}

/// All measurements so far, but those of each site.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    info: &'static Info,
    pub(crate) now: Counters,
    /// The counters after each group of entries.
    pub(crate) groups: Vec<Counters>,
    group_size: u64,
    /// By entry: the time from the request to the entry.
    pub(crate) waits: Vec<Time>,
    /// By entry, in a run with readers: whether it is a reader's.
    pub(crate) reads: Vec<bool>,
    /// By exit: the time from the arrival of the request at its site to the exit.
    pub(crate) responses: Vec<Time>,
    /// By exit while someone waited: the time from the exit to the next entry.
    pub(crate) sync_delays: Vec<Time>,
    /// The place of each kind of message in the algorithm's list, by the address of its name: to compare names letter by letter
    /// would cost more than what it is counted for.
    places: Vec<(&'static str, usize)>,
    /// The place of the kind of the last message, and its length.
    last_sent: (Option<usize>, u64),
    pub(crate) fairness: Fairness,
    /// The exits while someone waited that no entry has followed yet.
    open_exits: VecDeque<Time>,
}

/// The number of groups that a run is divided into.
const GROUPS: u64 = 1000;

impl Metrics {
    pub(crate) fn new(info: &'static Info, settings: &Settings) -> Self {
        let (sites, entries) = (settings.cluster.sites, settings.entries);
        let capacity = usize::try_from(entries).unwrap_or(0).min(1 << 24) + sites;
        let now = Counters { by_kind: vec![0; info.messages.len()], ..Counters::default() };
        Metrics {
            info,
            groups: vec![now.clone()],
            now,
            group_size: (entries / GROUPS).max(1),
            waits: Vec::with_capacity(capacity),
            reads: Vec::with_capacity(if settings.readers > 0.0 { capacity } else { 0 }),
            responses: Vec::with_capacity(capacity),
            sync_delays: Vec::with_capacity(capacity),
            places: Vec::with_capacity(info.messages.len()),
            last_sent: (None, 0),
            fairness: Fairness::new(sites),
            open_exits: VecDeque::new(),
        }
    }

    /// The number of entries in one group.
    pub(crate) fn group_size(&self) -> u64 {
        self.group_size
    }

    #[inline]
    pub(crate) fn sent(&mut self, site: &mut SiteCounters, kind: &'static str, words: usize) {
        self.last_sent = (self.place(kind), words as u64);
        self.sent_copy(site);
    }

    /// One more message like the last.
    #[inline]
    pub(crate) fn sent_copy(&mut self, site: &mut SiteCounters) {
        let (at, words) = self.last_sent;
        self.now.messages += 1;
        self.now.words += words;
        site.sent += 1;
        if let Some(at) = at {
            self.now.by_kind[at] += 1;
            site.requests += u64::from(at == 0);
        }
    }

    /// The place of a kind in the algorithm's list.
    #[inline]
    fn place(&mut self, kind: &'static str) -> Option<usize> {
        let known = self.places.iter().find(|(known, _)| std::ptr::eq(*known, kind));
        known.map(|(_, at)| *at).or_else(|| self.look_up(kind))
    }

    #[cold]
    fn look_up(&mut self, kind: &'static str) -> Option<usize> {
        let at = self.info.messages.iter().position(|message| message.kind == kind)?;
        self.places.push((kind, at));
        Some(at)
    }

    /// Counts an entry, and in a run with readers whether it is a reader's.
    pub(crate) fn entered(&mut self, site: &mut SiteCounters, now: Time, asked: Time, reads: Option<bool>) {
        self.waits.push(now - asked);
        self.reads.extend(reads);
        site.entries += 1;
        site.waited += now - asked;
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

/// Overtaking, by the timestamps that the algorithm gives to requests; by those of the host's Lamport clock if it gives none.
#[derive(Clone, Debug)]
pub(crate) struct Fairness {
    /// The waiting requests in the order of their timestamps, and how many later ones have entered before each; only kept for few
    /// sites. Most are inserted at the back and removed at the front, where a queue moves little, and it does not allocate once it
    /// has reached its size.
    waiting: Option<VecDeque<(Timestamp, u64)>>,
    pub overtakes: u64,
    pub max_bypass: u64,
    /// Whether the algorithm has given all requests their timestamps.
    pub(crate) by_own_clock: bool,
}

/// With more sites than this, overtaking is not measured: it would cost more than the run.
const MAX_SITES_FOLLOWED: usize = 4096;

impl Fairness {
    fn new(sites: usize) -> Self {
        let waiting = (sites <= MAX_SITES_FOLLOWED).then(|| VecDeque::with_capacity(sites));
        Fairness { waiting, overtakes: 0, max_bypass: 0, by_own_clock: true }
    }

    /// Whether overtaking was measured.
    pub(crate) fn followed(&self) -> bool {
        self.waiting.is_some()
    }

    /// Takes a new request, and whether the algorithm itself has given it the timestamp.
    pub(crate) fn asked(&mut self, request: Timestamp, by_own_clock: bool) {
        self.by_own_clock &= by_own_clock;
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
