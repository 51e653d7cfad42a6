//! Attributes every message of Sanders' algorithm to the request that caused it, and times the hand-overs.
//!
//! Section 6.1: "The sequence of INQUIRE, YIELD, and new GRANT is associated with the process whose REQUEST induced it. The
//! original grant […] has been counted with the original REQUEST."

use std::collections::BTreeMap;

use meshlock_protocol::{Message, SiteId, SiteSet};

use crate::time::Time;
use crate::trace::{Trace, TraceKind, TracedEvent};

/// A request: its site, and its number among the requests of that site.
type Request = (SiteId, usize);

/// From one site to another.
type Channel = (SiteId, SiteId);

/// The messages of each request in one run, and the delays between exits and entries.
#[derive(Debug)]
pub(super) struct Attribution {
    /// By site: the number of messages of each of its requests.
    messages: Vec<Vec<u32>>,
    /// By site: the number of its entries. A RELEASE is about the last of them.
    entries: Vec<usize>,
    /// The site whose request causes the present step.
    requester: Option<SiteId>,
    /// From a site that inquires to the one that has its grant: the request that caused the INQUIRE.
    inquired: BTreeMap<Channel, Request>,
    /// From a site that got its grant back to the one that returned it: the request that caused the YIELD.
    returned: BTreeMap<Channel, Request>,
    waiting: SiteSet,
    in_flight: usize,
    /// The last exit, if no message was in flight then: its time, its site, and the sites that waited.
    exit: Option<(Time, SiteId, SiteSet)>,
    /// For (i, j): the delays from an exit of j to the next entry, of i.
    delays: BTreeMap<(SiteId, SiteId), Vec<Time>>,
}

impl Attribution {
    pub(super) fn new(sites: usize) -> Self {
        Attribution {
            messages: vec![Vec::new(); sites],
            entries: vec![0; sites],
            requester: None,
            inquired: BTreeMap::new(),
            returned: BTreeMap::new(),
            waiting: SiteSet::new(),
            in_flight: 0,
            exit: None,
            delays: BTreeMap::new(),
        }
    }

    /// The number of messages of each request of these sites.
    pub(super) fn messages(&self, sites: &[SiteId]) -> impl Iterator<Item = f64> {
        sites.iter().flat_map(|site| &self.messages[site.index()]).map(|&count| f64::from(count))
    }

    /// The delays from each exit of `j` to the next entry, of `i`.
    pub(super) fn delays(&self, (i, j): (SiteId, SiteId)) -> impl Iterator<Item = f64> {
        self.delays.get(&(i, j)).into_iter().flatten().map(|time| time.as_units())
    }

    /// The last request of `site`.
    fn last(&self, site: SiteId) -> Request {
        (site, self.messages[site.index()].len() - 1)
    }

    /// The request that caused a message.
    fn cause_of(&mut self, kind: &str, from: SiteId, to: SiteId) -> Request {
        match kind {
            "REQUEST" => self.last(from),
            "FAIL" => self.last(to),
            "RELEASE" => (from, self.entries[from.index()] - 1),
            "INQUIRE" => {
                let requester = self.requester.expect("only a request makes a site inquire");
                let request = self.last(requester);
                self.inquired.insert((from, to), request);
                request
            }
            "YIELD" => {
                let request = self.inquired[&(to, from)];
                self.returned.insert((to, from), request);
                request
            }
            "GRANT" => self.returned.remove(&(from, to)).unwrap_or_else(|| self.last(to)),
            other => unreachable!("Sanders' algorithm has no {other}"),
        }
    }

    fn leave(&mut self, time: Time, site: SiteId) {
        self.exit = (self.in_flight == 0).then(|| (time, site, self.waiting.clone()));
    }

    fn enter(&mut self, time: Time, site: SiteId) {
        self.entries[site.index()] += 1;
        self.waiting.remove(site);
        if let Some((left, before, waiting)) = self.exit.take()
            && waiting.contains(site)
        {
            self.delays.entry((site, before)).or_default().push(time - left);
        }
    }
}

impl Trace for Attribution {
    fn line(&mut self, line: TracedEvent<'_>) {
        let TracedEvent { time, kind, site, .. } = line;
        let carried = line.peer.zip(line.message.map(Message::kind));
        match (kind, carried) {
            (TraceKind::Request, _) => {
                self.messages[site.index()].push(0);
                self.waiting.insert(site);
                self.requester = Some(site);
            }
            (TraceKind::Send, Some((to, message))) => {
                self.in_flight += 1;
                let (owner, nth) = self.cause_of(message, site, to);
                self.messages[owner.index()][nth] += 1;
            }
            (TraceKind::Receive, Some((from, message))) => {
                self.in_flight -= 1;
                self.requester = (message == "REQUEST").then_some(from);
            }
            (TraceKind::Enter, _) => self.enter(time, site),
            (TraceKind::Release, _) => self.leave(time, site),
            (TraceKind::Choose, _) => {}
            (TraceKind::Send | TraceKind::Receive, None) => unreachable!("a message has a peer"),
            (
                TraceKind::Fail
                | TraceKind::Recover
                | TraceKind::View
                | TraceKind::Cancel
                | TraceKind::Waits
                | TraceKind::Holds
                | TraceKind::Lost,
                _,
            ) => unreachable!("nothing fails in these runs, and they are watched from their start"),
        }
    }
}

/// Least, mean and most of some values; all 0 if there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) least: f64,
    pub(super) mean: f64,
    pub(super) most: f64,
}

impl Spread {
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut most, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
        for value in values {
            (least, most) = (value.min(least), value.max(most));
            sum += value;
            count += 1.0;
        }
        if count == 0.0 {
            return Spread { least: 0.0, mean: 0.0, most: 0.0 };
        }
        Spread { least, mean: sum / count, most }
    }
}
