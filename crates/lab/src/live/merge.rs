//! Merges the lines of several sites into one possible order, in which no message is received before it is sent.
//!
//! Each site's lines arrive in their order, with times of the site's own clock. Of the next lines of all sites the earliest is taken, but
//! a receive only after its send. If the receiver's clock shows less than the sender's did, it is behind by at least that
//! much: from then on the difference is added to its times. So times never decrease along a message, and the corrections are reported.
//!
//! A line is held back for a moment, because an earlier one of another site may still arrive. A receive whose send does
//! not arrive although its sender is watched (the line was lost) is held back for longer, then taken without it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use meshlock_sim::trace::{TraceKind, Whose, Written};

/// The time that a line is held back.
pub(crate) const HOLD: Duration = Duration::from_millis(150);

/// The time that a receive waits for its send.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// The largest number of lines that wait; if there are more, the oldest are taken as they are.
const MAX_WAITING: usize = 50_000;

/// The largest number of sends that are remembered until their receives arrive.
const MAX_SENT: usize = 100_000;

/// The identity of a message: sender, receiver, view, number.
type MessageKey = (Whose, Whose, Option<u32>, u64);

/// Merges the lines of several sites.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    sites: BTreeMap<Whose, SiteLines>,
    waiting: usize,
    /// Messages that have been sent and not received, with the corrected time of their sending.
    sent: BTreeMap<MessageKey, f64>,
    sent_in_order: VecDeque<MessageKey>,
    /// The corrected time of the line that was taken last.
    last: f64,
}

#[derive(Debug, Default)]
struct SiteLines {
    lines: VecDeque<(Duration, Written)>,
    /// The correction of its clock, in microseconds.
    behind: f64,
}

impl Merger {
    /// Adds the next lines of one or several sites, which arrived at `now`.
    pub(crate) fn push(&mut self, lines: impl IntoIterator<Item = Written>, now: Duration) {
        for line in lines {
            self.waiting += 1;
            self.sites.entry(line.site.clone()).or_default().lines.push_back((now, line));
        }
    }

    /// The corrections of the sites' clocks that are not zero, in microseconds.
    pub(crate) fn corrected(&self) -> impl Iterator<Item = (&Whose, f64)> {
        self.sites.iter().filter(|(_, site)| site.behind > 0.0).map(|(name, site)| (name, site.behind))
    }

    /// Takes all lines that need not be held back any more, in order, with corrected times.
    pub(crate) fn take(&mut self, now: Duration, taken: &mut Vec<Written>) {
        while let Some(site) = self.next(now) {
            let Some(waits) = self.sites.get_mut(&site) else { return };
            let Some((_, mut line)) = waits.lines.pop_front() else { return };
            self.waiting -= 1;
            let key = key(&line);
            let mut time = line.time + waits.behind;
            match key {
                Some(key) if line.kind == TraceKind::Receive => {
                    if let Some(sent) = self.sent.remove(&key).filter(|sent| *sent > time) {
                        waits.behind += sent - time;
                        time = sent;
                    }
                }
                Some(key) => self.remember(key, time.max(self.last)),
                None => {}
            }
            // A line that arrived too late for its place is drawn after those that are drawn already.
            self.last = time.max(self.last);
            line.time = self.last;
            taken.push(line);
        }
    }

    /// The site whose next line is taken next.
    fn next(&self, now: Duration) -> Option<Whose> {
        let crowded = self.waiting > MAX_WAITING;
        let all_have_one = self.sites.values().all(|site| !site.lines.is_empty());
        let heads = self.sites.iter().filter_map(|(name, site)| {
            let (came, line) = site.lines.front()?;
            let age = now.saturating_sub(*came);
            let is_sent = |key: MessageKey| self.sent.contains_key(&key) || !self.sites.contains_key(&key.0);
            let sent = line.kind != TraceKind::Receive || key(line).is_none_or(is_sent);
            (sent || age >= SEND_TIMEOUT || crowded).then_some((line.time + site.behind, age, name))
        });
        let (_, age, name) = heads.min_by(|(one, ..), (other, ..)| one.total_cmp(other))?;
        (age >= HOLD || all_have_one || crowded).then(|| name.clone())
    }

    fn remember(&mut self, key: MessageKey, time: f64) {
        self.sent.insert(key.clone(), time);
        self.sent_in_order.push_back(key);
        while self.sent_in_order.len() > MAX_SENT {
            if let Some(oldest) = self.sent_in_order.pop_front() {
                self.sent.remove(&oldest);
            }
        }
    }
}

/// The identity of the message of a line.
fn key(line: &Written) -> Option<MessageKey> {
    let (peer, number) = (line.peer.clone()?, line.number?);
    let (from, to) =
        if line.kind == TraceKind::Receive { (peer, line.site.clone()) } else { (line.site.clone(), peer) };
    Some((from, to, line.epoch, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(site: &str, time: f64, kind: TraceKind) -> Written {
        Written::new(time, kind, Whose::Name(site.to_owned()), "jobs")
    }

    fn message(site: &str, time: f64, kind: TraceKind, peer: &str, number: u64) -> Written {
        Written { peer: Some(Whose::Name(peer.to_owned())), number: Some(number), ..line(site, time, kind) }
    }

    fn taken(merger: &mut Merger, now: Duration) -> Vec<(String, f64)> {
        let mut taken = Vec::new();
        merger.take(now, &mut taken);
        taken.iter().map(|line| (format!("{} {}", line.site, line.kind.name()), line.time)).collect()
    }

    fn told(lines: &[(&str, f64)]) -> Vec<(String, f64)> {
        lines.iter().map(|(line, time)| ((*line).to_owned(), *time)).collect()
    }

    #[test]
    fn lines_are_kept_back_until_all_sites_have_spoken_or_a_moment_has_passed() {
        let mut merger = Merger::default();
        merger.push([line("a", 30.0, TraceKind::Enter)], Duration::ZERO);
        merger.push([line("b", 10.0, TraceKind::Request)], Duration::ZERO);
        // All have spoken: the earliest may go, the other waits for what b may still say.
        assert_eq!(taken(&mut merger, Duration::ZERO), told(&[("b request", 10.0)]));
        merger.push([line("b", 20.0, TraceKind::Cancel)], Duration::ZERO);
        assert_eq!(taken(&mut merger, Duration::ZERO), told(&[("b cancel", 20.0)]));
        assert_eq!(taken(&mut merger, HOLD), told(&[("a enter", 30.0)]));
        assert_eq!(merger.waiting, 0);
    }

    #[test]
    fn a_receipt_comes_behind_its_sending_and_a_slow_clock_is_corrected_from_then_on() {
        let mut merger = Merger::default();
        merger.push([line("a", 50.0, TraceKind::Waits)], Duration::ZERO);
        merger.push(
            [message("b", 100.0, TraceKind::Receive, "a", 1), line("b", 101.0, TraceKind::Enter)],
            Duration::ZERO,
        );
        assert_eq!(taken(&mut merger, HOLD), told(&[("a waits", 50.0)]));
        merger.push(
            [message("a", 5000.0, TraceKind::Send, "b", 1), line("a", 5001.5, TraceKind::Request)],
            HOLD,
        );
        let all =
            told(&[("a send", 5000.0), ("b receive", 5000.0), ("b enter", 5001.0), ("a request", 5001.5)]);
        assert_eq!(taken(&mut merger, HOLD * 2), all);
        let corrected: Vec<_> = merger.corrected().map(|(site, by)| (site.to_string(), by)).collect();
        assert_eq!(corrected, [("b".to_owned(), 4900.0)]);
    }

    #[test]
    fn a_receipt_whose_sending_nobody_saw_is_not_waited_for_for_ever() {
        let mut merger = Merger::default();
        merger.push([line("a", 50.0, TraceKind::Waits), line("a", 60.0, TraceKind::Cancel)], Duration::ZERO);
        merger.push([message("b", 100.0, TraceKind::Receive, "a", 1)], Duration::ZERO);
        assert_eq!(taken(&mut merger, SEND_TIMEOUT / 2).len(), 2);
        assert_eq!(taken(&mut merger, SEND_TIMEOUT), told(&[("b receive", 100.0)]));
        // Of a sender that is not watched nothing will come.
        merger.push([message("b", 200.0, TraceKind::Receive, "z", 1)], SEND_TIMEOUT);
        assert_eq!(taken(&mut merger, SEND_TIMEOUT + HOLD), told(&[("b receive", 200.0)]));
    }

    #[test]
    fn whatever_comes_late_is_drawn_behind_what_is_drawn() {
        let mut merger = Merger::default();
        merger.push([line("a", 30.0, TraceKind::Enter)], Duration::ZERO);
        assert_eq!(taken(&mut merger, HOLD), told(&[("a enter", 30.0)]));
        merger.push([line("b", 10.0, TraceKind::Request)], HOLD);
        assert_eq!(taken(&mut merger, HOLD * 2), told(&[("b request", 30.0)]));
    }

    #[test]
    fn more_than_is_kept_back_is_let_go() {
        let mut merger = Merger::default();
        merger.push([line("a", 0.5, TraceKind::Waits)], Duration::ZERO);
        let many =
            (0..=MAX_WAITING as u64 + 10).map(|number| message("b", 1.0, TraceKind::Receive, "a", number));
        merger.push(many, Duration::ZERO);
        assert_eq!(taken(&mut merger, Duration::ZERO).len(), 12);
    }
}
