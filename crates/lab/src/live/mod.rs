//! A running cluster: the lines of its sites in one order, of which the last are kept, and the status of its sites.
//!
//! The caller of [`Live::tell`] and [`Live::news`] knows the sites' protocol; here are only lines of the trace format.
//!
//! ```text
//!  site ─┐ tell                       ┌─▶ a ring of lines ──▶ the page, which asks for what is new
//!  site ─┼─────▶ merge ──▶ one order ─┤
//!  site ─┘                            └─▶ the recording, if there is one
//! ```

pub mod merge;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use meshlock_sim::trace::{TraceKind, Whose, Written};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::columns::Columns;
use crate::import::{PlacedLine, TraceLayout, shown_time, unit};
use merge::Merger;

/// The largest number of lines that are kept, and their approximate size in bytes.
pub(crate) const MAX_LINES: usize = 200_000;
const MAX_BYTES: usize = 128 << 20;

/// The largest number of lines in one answer.
const MAX_TOLD: usize = 20_000;

/// The largest number of sites that are shown although they have left.
const MAX_LEFT: usize = 50;

/// The status of one site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteNews {
    /// Whether it is watched now.
    pub watched: bool,
    /// Its address, and why it is not watched if it is not.
    pub place: String,
    /// The problem of the site; empty if there is none.
    pub why: String,
    /// The progress of its view.
    pub standing: String,
    /// The remaining time of its lease, in milliseconds.
    pub lease_left: Option<u64>,
    /// The view that it has installed.
    pub epoch: u32,
    /// The number of its lines that were lost.
    pub lost: u64,
    /// The first view without it, if it was a member and is not any more.
    pub left: Option<u32>,
}

/// The status of the cluster, according to the site that was asked last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusterNews {
    pub cluster: String,
    /// The number of its view.
    pub epoch: u32,
    pub leader: Option<String>,
    pub members: Vec<String>,
}

/// A running cluster.
pub struct Live {
    inner: Mutex<Inner>,
    /// Counts changes, for those who wait for news.
    changed: watch::Sender<u64>,
    started: Instant,
    /// The locks that are watched.
    pattern: String,
}

#[derive(Default)]
struct Inner {
    /// The largest number of lines that are kept.
    most: usize,
    merger: Merger,
    reader: TraceLayout,
    ring: VecDeque<PlacedLine>,
    bytes: usize,
    /// The number of lines that were dropped, which is the number of the first line that is kept.
    first: u64,
    /// The last view among those.
    dropped_view: Option<Written>,
    origin: Option<f64>,
    record: Option<Recording>,
    sites: BTreeMap<String, SiteNews>,
    cluster: ClusterNews,
}

/// The file that lines are written to, and the first error.
struct Recording {
    out: Box<dyn Write + Send>,
    failed: Option<std::io::Error>,
}

impl Live {
    /// A cluster without any lines yet. Its lines about these locks are recorded, if there is a recording.
    pub fn new(pattern: String, record: Option<Box<dyn Write + Send>>) -> Self {
        let record = record.map(|out| Recording { out, failed: None });
        let inner = Mutex::new(Inner { record, most: MAX_LINES, ..Inner::default() });
        Live { inner, changed: watch::Sender::new(0), started: Instant::now(), pattern }
    }

    /// The same for recording only: no lines are kept.
    pub fn recording(pattern: String, record: Box<dyn Write + Send>) -> Self {
        let live = Live::new(pattern, Some(record));
        live.lock().most = 0;
        live
    }

    /// Adds lines of sites, those of each site in order.
    pub fn tell(&self, lines: impl IntoIterator<Item = Written>) {
        let now = self.started.elapsed();
        self.lock().merger.push(lines, now);
        self.settle();
    }

    /// Sets the status of a site.
    pub fn news(&self, site: &str, news: SiteNews) {
        let mut inner = self.lock();
        let left = inner.sites.get(site).and_then(|known| known.left);
        let news = SiteNews { left, ..news };
        if inner.sites.get(site) != Some(&news) {
            inner.sites.insert(site.to_owned(), news);
            drop(inner);
            self.changed.send_modify(|count| *count += 1);
        }
    }

    /// The status of all sites.
    pub fn sites(&self) -> BTreeMap<String, SiteNews> {
        self.lock().sites.clone()
    }

    /// Forgets the status of the site with this name.
    pub fn forget(&self, site: &str) {
        if self.lock().sites.remove(site).is_some() {
            self.changed.send_modify(|count| *count += 1);
        }
    }

    /// Sets the status of the cluster, unless it is of an older view. Sites that have left stay, with the view that was
    /// the first without them.
    pub fn cluster_news(&self, news: ClusterNews) {
        let mut inner = self.lock();
        if inner.cluster != news && news.epoch >= inner.cluster.epoch {
            let before = std::mem::replace(&mut inner.cluster, news);
            let Inner { sites, cluster, .. } = &mut *inner;
            for member in &cluster.members {
                if let Some(known) = sites.get_mut(member) {
                    known.left = None;
                }
            }
            for gone in before.members.into_iter().filter(|member| !cluster.members.contains(member)) {
                sites.entry(gone).or_default().left = Some(cluster.epoch);
            }
            forget_earliest(sites);
            drop(inner);
            self.changed.send_modify(|count| *count += 1);
        }
    }

    /// Moves the lines that need not be held back any more to the drawing and the recording. To be called regularly.
    pub fn settle(&self) {
        let now = self.started.elapsed();
        let mut inner = self.lock();
        let mut taken = Vec::new();
        inner.merger.take(now, &mut taken);
        if taken.is_empty() {
            return;
        }
        if let Some(record) = &mut inner.record {
            record.write(&taken);
        }
        for line in taken {
            inner.keep(line);
        }
        drop(inner);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Waits until there is news after the version `known`.
    pub(crate) async fn until_news(&self, known: u64) {
        let mut changed = self.changed.subscribe();
        let _ = changed.wait_for(|count| *count != known).await;
    }

    /// The lines from number `from` on, up to the limit of one answer, and the status of all sites.
    pub(crate) fn answer(&self, from: u64) -> Value {
        let version = *self.changed.borrow();
        let inner = self.lock();
        let from = from.clamp(inner.first, inner.first + inner.ring.len() as u64);
        let skipped = usize::try_from(from - inner.first).unwrap_or(usize::MAX);
        let mut columns = Columns::default();
        let origin = inner.origin.unwrap_or_default();
        for row in inner.ring.iter().skip(skipped).take(MAX_TOLD) {
            columns.push_row(columns.len(), row, shown_time(&row.line, origin));
        }
        let names: Vec<String> = inner.reader.sites().iter().map(Whose::to_string).collect();
        let corrected: BTreeMap<String, f64> =
            inner.merger.corrected().map(|(site, by)| (site.to_string(), by / 1000.0)).collect();
        json!({
            "spec": "a running cluster", "pattern": self.pattern, "version": version, "first": inner.first, "from": from,
            "next": from + columns.len() as u64, "all": inner.first + inner.ring.len() as u64, "most": MAX_LINES,
            "names": names, "unit": unit(inner.reader.sites()), "lines": columns, "sites": inner.sites,
            "cluster": inner.cluster, "corrected": corrected,
            "record_failed": inner.record.as_ref().and_then(|record| record.failed.as_ref()).map(ToString::to_string),
        })
    }

    /// The lines that are kept, as a trace.
    pub(crate) fn trace(&self) -> Vec<u8> {
        let inner = self.lock();
        let mut text = Vec::new();
        let lines = inner.dropped_view.iter().chain(inner.ring.iter().map(|row| &row.line));
        for line in lines {
            // Writing to memory does not fail.
            let _ = write_line(&mut text, line);
        }
        text
    }

    /// The first error of the recording.
    pub fn record_failed(&self) -> Option<String> {
        self.lock().record.as_ref()?.failed.as_ref().map(ToString::to_string)
    }

    /// Ends the recording. Returns its first error.
    pub fn finish(&self) -> std::io::Result<()> {
        match self.lock().record.take() {
            Some(Recording { failed: Some(error), .. }) => Err(error),
            Some(mut record) => record.out.flush(),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the sites that left first, where more have left than are shown.
fn forget_earliest(sites: &mut BTreeMap<String, SiteNews>) {
    let mut left: Vec<(u32, String)> =
        sites.iter().filter_map(|(site, known)| Some((known.left?, site.clone()))).collect();
    left.sort_unstable();
    let many = left.len().saturating_sub(MAX_LEFT);
    for (_, site) in left.drain(..many) {
        sites.remove(&site);
    }
}

/// A line as it is written.
pub(crate) fn write_line(out: &mut dyn Write, line: &Written) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

impl Recording {
    fn write(&mut self, lines: &[Written]) {
        let written = lines.iter().try_for_each(|line| write_line(&mut self.out, line));
        if let Err(error) = written.and_then(|()| self.out.flush()) {
            self.failed.get_or_insert(error);
        }
    }
}

impl Inner {
    fn keep(&mut self, line: Written) {
        self.origin.get_or_insert(line.time);
        self.bytes += weight(&line);
        let row = self.reader.place(line);
        self.ring.push_back(row);
        while self.ring.len() > self.most || self.bytes > MAX_BYTES {
            let Some(row) = self.ring.pop_front() else { return };
            self.first += 1;
            self.bytes -= weight(&row.line);
            if let Some(number) = row.number.filter(|_| row.line.kind == TraceKind::Send) {
                self.reader.forget_before(number);
            }
            if row.line.kind == TraceKind::View {
                self.dropped_view = Some(row.line);
            }
        }
    }
}

/// The approximate size of a line in bytes.
fn weight(line: &Written) -> usize {
    let texts = [&line.message, &line.state, &line.who].into_iter().flatten().map(String::len);
    let members = line.members.iter().flatten().map(|member| member.len() + size_of::<String>());
    size_of::<PlacedLine>() + line.lock.len() + texts.chain(members).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(time: u32, kind: TraceKind) -> Written {
        Written::new(f64::from(time), kind, Whose::Name("a".to_owned()), "jobs")
    }

    #[test]
    fn only_the_last_lines_are_kept_and_a_trace_of_them_begins_with_the_view() {
        let live = Live::new("*".to_owned(), None);
        live.lock().most = 3;
        let members = Some(vec!["b".to_owned(), "a".to_owned()]);
        // A single site has no other to wait for.
        live.tell([Written { members, epoch: Some(4), ..line(1000, TraceKind::View) }]);
        live.tell((2..=6).map(|time| line(time * 1000, TraceKind::Request)));
        let answer = live.answer(0);
        assert_eq!((&answer["first"], &answer["from"], &answer["next"]), (&json!(3), &json!(3), &json!(6)));
        assert_eq!(answer["lines"]["time"], json!([3.0, 4.0, 5.0]), "in milliseconds since the first");
        assert_eq!(answer["names"], json!(["b", "a"]));
        assert_eq!(live.answer(5)["lines"]["time"], json!([5.0]));
        let trace = String::from_utf8(live.trace()).unwrap();
        assert_eq!(trace.lines().count(), 4);
        assert!(trace.starts_with(r#"{"time":1000.0,"kind":"view","site":"a""#), "{trace}");
    }

    fn cluster(epoch: u32, members: &[&str]) -> ClusterNews {
        let members = members.iter().map(ToString::to_string).collect();
        ClusterNews { epoch, members, ..ClusterNews::default() }
    }

    #[test]
    fn what_an_older_view_says_is_not_news_and_a_site_that_was_killed_stays_with_the_reason() {
        let live = Live::new("*".to_owned(), None);
        live.news("a", SiteNews { watched: true, ..SiteNews::default() });
        live.news("b", SiteNews { watched: true, ..SiteNews::default() });
        live.cluster_news(cluster(1, &["a", "b"]));
        live.news("b", SiteNews { why: "it does not answer".to_owned(), ..SiteNews::default() });
        live.cluster_news(cluster(2, &["a"]));
        live.cluster_news(cluster(1, &["a", "b"]));
        live.news("b", SiteNews { why: "connection refused".to_owned(), ..SiteNews::default() });
        let answer = live.answer(0);
        assert_eq!(answer["cluster"]["epoch"], 2);
        let b = &answer["sites"]["b"];
        assert_eq!((&b["left"], &b["why"]), (&json!(2), &json!("connection refused")));
        assert_eq!(answer["sites"]["a"]["left"], Value::Null);
        // It comes back.
        live.cluster_news(cluster(3, &["a", "b"]));
        assert_eq!(live.answer(0)["sites"]["b"]["left"], Value::Null);
    }

    #[test]
    fn of_many_sites_that_have_left_the_last_are_shown() {
        let live = Live::new("*".to_owned(), None);
        for epoch in 0..100 {
            live.cluster_news(cluster(epoch, &[&format!("site-{epoch}")]));
        }
        let sites = live.sites();
        assert_eq!(sites.len(), MAX_LEFT);
        assert!(sites.contains_key("site-98") && !sites.contains_key("site-48"), "{:?}", sites.keys());
    }
}
