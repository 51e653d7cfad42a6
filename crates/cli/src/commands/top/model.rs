//! The state of `meshlock top`: the last sample, and what the user has chosen. Nothing here draws, or asks a node.

use std::collections::BTreeMap;
use std::time::Instant;

use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::LockQueue;
use meshlock_cluster::node::SiteLocks;
use meshlock_cluster::time::Span;
use meshlock_wire::clients::Status;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::status::{standing, who};
use super::super::voters::{Role, role};
use crate::output::Printable;

/// The answers of the node at one time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) status: Status,
    pub(super) sites: Vec<SiteLocks>,
    /// The queue of the lock whose queue is shown.
    pub(super) queue: Option<(LockName, LockQueue)>,
}

/// A row of the table of members.
#[derive(Clone, Debug)]
pub(super) struct MemberRow {
    pub(super) site: SiteName,
    pub(super) leads: bool,
    /// What it has to do with votes, if the node says so.
    pub(super) role: Option<Role>,
    pub(super) standing: String,
    pub(super) lease_left: Option<Span>,
    pub(super) sessions: u64,
    pub(super) granted: u64,
    /// Grants per second, known from the second sample on.
    pub(super) rate: Option<f64>,
    pub(super) answered: bool,
}

/// A row of the table of locks: one lock, summed over all sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LockRow {
    pub(super) lock: LockName,
    pub(super) holders: u64,
    pub(super) waiters: u64,
    /// The site of the longest holder; `who`, `fence` and `held` are about the same holder.
    pub(super) site: Option<SiteName>,
    pub(super) who: String,
    pub(super) fence: Option<i64>,
    pub(super) held: Option<Span>,
    /// How long the longest waiter has waited.
    pub(super) waited: Span,
}

/// The order of the locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SortOrder {
    /// By the number of waiters, largest first.
    #[default]
    Waiters,
    /// By how long they have been held, longest first.
    Held,
    Name,
}

impl SortOrder {
    pub(super) fn label(self) -> &'static str {
        match self {
            SortOrder::Waiters => "waiters",
            SortOrder::Held => "held for",
            SortOrder::Name => "name",
        }
    }

    fn next(self) -> Self {
        match self {
            SortOrder::Waiters => SortOrder::Held,
            SortOrder::Held => SortOrder::Name,
            SortOrder::Name => SortOrder::Waiters,
        }
    }
}

/// The pane below the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Locks,
    /// The queue of the selected lock.
    Queue,
    Help,
}

/// The state of `meshlock top`.
#[derive(Debug, Default)]
pub(super) struct Model {
    sample: Option<Sample>,
    members: Vec<MemberRow>,
    /// Time of the last sample, and the number of grants of each member then.
    before: Option<(Instant, BTreeMap<SiteName, u64>)>,
    pub(super) pane: Pane,
    pub(super) order: SortOrder,
    pub(super) filter: String,
    /// Whether the user types the filter.
    pub(super) typing: bool,
    selected: Option<LockName>,
    pub(super) complaint: Option<String>,
    over: bool,
    /// Whether a sample is needed before the interval is over.
    hurry: bool,
}

impl Model {
    /// Takes over a new sample.
    pub(super) fn take(&mut self, sample: Sample, at: Instant) {
        let granted: BTreeMap<SiteName, u64> =
            sample.sites.iter().map(|site| (site.site.clone(), site.granted)).collect();
        let rate = |site: &SiteLocks| {
            let (then, before) = self.before.as_ref()?;
            // A site that was restarted counts from zero.
            let more = site.granted.checked_sub(*before.get(&site.site)?)?;
            let seconds = at.saturating_duration_since(*then).as_secs_f64();
            (seconds > 0.0).then(|| more as f64 / seconds)
        };
        let row = |site: &SiteName| {
            let said = sample.sites.iter().find(|said| said.site == *site);
            let leaving = said.is_some_and(|said| said.leaving);
            let stands = said.map_or_else(|| "does not answer".to_owned(), |said| standing(&said.standing));
            MemberRow {
                site: site.clone(),
                leads: sample.status.leader.as_ref() == Some(site),
                role: role(sample.status.voters.as_ref(), site),
                standing: if leaving { format!("{stands}, about to leave") } else { stands },
                lease_left: said.and_then(|said| said.lease_left),
                sessions: said.map_or(0, |said| said.sessions),
                granted: said.map_or(0, |said| said.granted),
                rate: said.and_then(rate),
                answered: said.is_some(),
            }
        };
        self.members = sample.status.view.members.iter().map(|member| row(&member.site)).collect();
        self.before = Some((at, granted));
        self.sample = Some(sample);
        (self.complaint, self.hurry) = (None, false);
    }

    /// Notes that the last attempt to get a sample failed.
    pub(super) fn complain(&mut self, why: String) {
        (self.complaint, self.hurry) = (Some(Printable(why).to_string()), false);
    }

    pub(super) fn members(&self) -> &[MemberRow] {
        &self.members
    }

    pub(super) fn status(&self) -> Option<&Status> {
        self.sample.as_ref().map(|sample| &sample.status)
    }

    pub(super) fn epoch(&self) -> u32 {
        self.status().map_or(0, |status| status.view.epoch.number())
    }

    /// Returns the number of locks in use. A lock that is used at two sites counts twice if it is not listed.
    pub(super) fn locks_in_all(&self) -> u64 {
        let sites = self.sample.iter().flat_map(|sample| &sample.sites);
        let unlisted: u64 = sites.map(|site| site.locks_in_all.saturating_sub(site.locks.len() as u64)).sum();
        self.all_locks().len() as u64 + unlisted
    }

    /// Returns the locks that pass the filter, in the chosen order.
    pub(super) fn locks(&self) -> Vec<LockRow> {
        let mut rows: Vec<LockRow> = self.all_locks().into_values().collect();
        rows.retain(|row| row.lock.as_str().contains(&self.filter));
        // They are sorted by name already, and the sort is stable.
        match self.order {
            SortOrder::Waiters => rows.sort_by_key(|row| std::cmp::Reverse((row.waiters, row.holders))),
            SortOrder::Held => rows.sort_by_key(|row| std::cmp::Reverse(row.held)),
            SortOrder::Name => {}
        }
        rows
    }

    fn all_locks(&self) -> BTreeMap<LockName, LockRow> {
        let mut rows: BTreeMap<LockName, LockRow> = BTreeMap::new();
        for (site, used) in self
            .sample
            .iter()
            .flat_map(|sample| &sample.sites)
            .flat_map(|site| site.locks.iter().map(|used| (&site.site, used)))
        {
            let row = rows.entry(used.lock.clone()).or_insert_with(|| LockRow {
                lock: used.lock.clone(),
                holders: 0,
                waiters: 0,
                site: None,
                who: String::new(),
                fence: None,
                held: None,
                waited: Span::ZERO,
            });
            row.holders += used.holders;
            row.waiters += used.waiters;
            row.waited = row.waited.max(used.waited);
            if let Some(holder) =
                used.holder.as_ref().filter(|holder| row.held.is_none_or(|held| held < holder.age))
            {
                row.site = Some(site.clone());
                row.who = who(holder.label.as_ref());
                (row.fence, row.held) = (Some(holder.fence.value()), Some(holder.age));
            }
        }
        rows
    }

    /// Returns the index of the selected lock: the one that was selected before, or the first.
    pub(super) fn selection(&self, rows: &[LockRow]) -> Option<usize> {
        let found = rows.iter().position(|row| Some(&row.lock) == self.selected.as_ref());
        found.or(if rows.is_empty() { None } else { Some(0) })
    }

    /// Returns the lock whose queue is shown.
    pub(super) fn watched(&self) -> Option<&LockName> {
        self.selected.as_ref().filter(|_| self.pane == Pane::Queue)
    }

    /// Returns the queue that is shown, once a sample has it.
    pub(super) fn queue(&self) -> Option<&LockQueue> {
        let (lock, queue) = self.sample.as_ref()?.queue.as_ref()?;
        (Some(lock) == self.watched()).then_some(queue)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Returns whether something is shown that no sample has yet.
    pub(super) fn wants_sample(&self) -> bool {
        self.hurry
    }

    /// Handles a key. All other events only need a new frame.
    pub(super) fn on_event(&mut self, event: &Event) {
        if let Event::Key(key) = event
            && key.kind != KeyEventKind::Release
        {
            if self.typing { self.on_typed(*key) } else { self.on_key(*key) }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "there are many keys, and the others do nothing")]
    fn on_typed(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => self.over = true,
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "there are many keys, and the others do nothing")]
    fn on_key(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => self.over = true,
            KeyCode::Char('q') => self.over = true,
            KeyCode::Esc if self.pane == Pane::Locks => self.filter.clear(),
            KeyCode::Esc | KeyCode::Left => self.pane = Pane::Locks,
            KeyCode::Char('?') => self.pane = if self.pane == Pane::Help { Pane::Locks } else { Pane::Help },
            KeyCode::Char('/') => {
                (self.pane, self.typing) = (Pane::Locks, true);
            }
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Enter | KeyCode::Right => {
                let rows = self.locks();
                if let Some(at) = self.selection(&rows) {
                    self.selected = Some(rows[at].lock.clone());
                    (self.pane, self.hurry) = (Pane::Queue, true);
                }
            }
            _ => {}
        }
    }

    fn select(&mut self, by: isize) {
        let rows = self.locks();
        let Some(at) = self.selection(&rows) else { return };
        let at = at.saturating_add_signed(by).min(rows.len() - 1);
        self.selected = Some(rows[at].lock.clone());
        self.hurry = self.pane == Pane::Queue;
    }
}
