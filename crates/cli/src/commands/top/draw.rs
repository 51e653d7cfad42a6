//! Draws the frames of `meshlock top`.

use meshlock_cluster::node::{Age, VoterPresence, VotersReport, line};
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};
use ratatui::{Frame, Terminal};

use super::super::queue::holders;
use super::super::status::who;
use super::super::voters::Role;
use super::model::{LockRow, MemberRow, Model, Pane};
use crate::output::{Printable, counted};

/// The help pane: what the keys do.
const HELP: [&str; 8] = [
    "up, down, k, j   select a lock",
    "Enter            show the queue of the selected lock; Esc goes back",
    "/                show only locks whose names contain what you type; Enter keeps it, Esc clears it",
    "s                sort by another column: waiters, held for, name",
    "?                show or hide this help",
    "q, Ctrl-C        quit",
    "",
    "grants/s counts grants per second since the last frame. Each site lists its hundred busiest locks.",
];

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
const WORSE: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws the whole frame.
pub(super) fn frame(model: &mut Model, frame: &mut Frame<'_>) {
    let members = u16::try_from(model.members().len() + 1).unwrap_or(u16::MAX);
    // If there is no room for both, locks matter more.
    let members = members.min((frame.area().height / 2).max(2));
    let parts = [
        Constraint::Length(1),
        Constraint::Length(members),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [title, top, _, below, foot] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Line::styled(title_of(model), HEAD), title);
    frame.render_widget(members_table(model.members()), top);
    match model.pane {
        Pane::Locks => draw_locks(model, frame, below),
        Pane::Queue => frame.render_widget(Paragraph::new(queue_lines(model)), below),
        Pane::Help => frame.render_widget(Paragraph::new(HELP.map(Line::from).to_vec()), below),
    }
    frame.render_widget(foot_of(model), foot);
}

fn title_of(model: &Model) -> String {
    let Some(status) = model.status() else { return "meshlock top".to_owned() };
    let rates: Vec<f64> = model.members().iter().filter_map(|member| member.rate).collect();
    let rate = if rates.is_empty() {
        String::new()
    } else {
        format!(" · {} grants/s", rounded(rates.iter().sum()))
    };
    format!(
        "{} · view {} · {}{} · {} in use{rate} · seen by {}",
        status.cluster,
        status.view.epoch.number(),
        counted(status.view.members.len() as u64, "member"),
        status.voters.as_ref().map(voters_of).unwrap_or_default(),
        counted(model.locks_in_all(), "lock"),
        status.site
    )
}

/// Says how many voters are up, and how many more may fail; of a single one nothing needs to be said.
fn voters_of(voters: &VotersReport) -> String {
    let (up, all) = (voters.up(), voters.voters.len());
    if (up, all) == (1, 1) && !voters.is_changing() {
        return String::new();
    }
    let spare = match voters.spare() {
        Some(spare) => format!("{spare} may fail"),
        None => "TOO FEW".to_owned(),
    };
    let change = if voters.is_changing() { ", changing" } else { "" };
    format!(" · {up} of {all} voters up, {spare}{change}")
}

fn foot_of(model: &Model) -> Line<'static> {
    if let Some(complaint) = &model.complaint {
        return Line::styled(format!("not updated: {complaint}"), WORSE);
    }
    if model.typing {
        return Line::from(format!("/{}_", model.filter));
    }
    let filter = if model.filter.is_empty() { String::new() } else { format!(" · only '{}'", model.filter) };
    Line::from(format!(
        "sorted by {}{filter} · Enter queue · / filter · s sort · ? help · q end",
        model.order.label()
    ))
}

fn members_table(members: &[MemberRow]) -> Table<'static> {
    let row = |member: &MemberRow| {
        let lease = member.lease_left.map_or_else(|| "none".to_owned(), |left| Age(left).to_string());
        let rate = member.rate.map_or_else(|| "-".to_owned(), rounded);
        let cells = [
            member.site.to_string(),
            if member.leads { "leads" } else { member.role.map(short).unwrap_or_default() }.to_owned(),
            if member.answered { lease } else { "-".to_owned() },
            member.sessions.to_string(),
            rate,
            member.standing.clone(),
        ];
        let style = if member.answered && member.lease_left.is_some() { Style::new() } else { WORSE };
        Row::new(cells.map(Cell::from)).style(style)
    };
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Fill(3),
    ];
    let heads = Row::new(["site", "", "lease", "clients", "grants/s", "standing"]).style(HEAD);
    Table::new(members.iter().map(row), widths).header(heads)
}

/// Returns what a site has to do with votes, in the width of its column.
fn short(role: Role) -> &'static str {
    match role {
        Role::Voter(VoterPresence::Up) => "votes",
        Role::Voter(VoterPresence::Away) => "away",
        Role::Voter(VoterPresence::WithoutDisk) => "disk?",
        Role::Learner => "joins",
    }
}

fn draw_locks(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let rows = model.locks();
    let row = |lock: &LockRow| {
        let held = lock.held.map(|held| Age(held).to_string()).unwrap_or_default();
        let waited = if lock.waiters == 0 { String::new() } else { Age(lock.waited).to_string() };
        let site = lock.site.as_ref().map(ToString::to_string).unwrap_or_default();
        let by = if site.is_empty() { String::new() } else { format!("{} of {site}", lock.who) };
        let cells =
            [lock.lock.to_string(), lock.holders.to_string(), lock.waiters.to_string(), held, waited, by];
        Row::new(cells.map(Cell::from))
    };
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(5),
        Constraint::Length(5),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Fill(3),
    ];
    let heads = Row::new(["lock", "hold", "wait", "held for", "waited", "held by"]).style(HEAD);
    let table = Table::new(rows.iter().map(row), widths).header(heads).row_highlight_style(CHOSEN);
    let mut state = TableState::default().with_selected(model.selection(&rows));
    frame.render_stateful_widget(table, area, &mut state);
}

fn queue_lines(model: &Model) -> Vec<Line<'static>> {
    let Some(lock) = model.watched() else { return Vec::new() };
    let Some(queue) = model.queue() else { return vec![Line::from(format!("{lock}: asking…"))] };
    let algorithm = queue.algorithm.as_deref().unwrap_or("an algorithm that this node does not know");
    let mut lines =
        vec![Line::styled(format!("{lock}: {}, permits: {}", Printable(algorithm), queue.permits), HEAD)];
    for (site, holder) in holders(queue) {
        let (name, age) = (who(holder.label.as_ref()), Age(holder.age));
        let lost = if holder.lost { ", lost" } else { "" };
        lines.push(Line::from(format!(
            "  held by {name} of {site}, for {age}, fence {}{lost}",
            holder.fence.value()
        )));
    }
    for (at, waiting) in line(&queue.sites, &queue.missing, queue.permits).iter().enumerate() {
        let (name, age) = (who(waiting.waiter.label.as_ref()), Age(waiting.waiter.age));
        lines.push(Line::from(format!(
            "  {}. {name} of {}, for {age}: it waits {}",
            at + 1,
            waiting.site,
            waiting.why
        )));
    }
    lines
}

/// Returns a frame as text, as high as necessary.
pub(super) fn as_text(model: &mut Model, width: u16) -> String {
    let below = match model.pane {
        Pane::Locks => model.locks().len() + 1,
        Pane::Queue => queue_lines(model).len(),
        Pane::Help => HELP.len(),
    };
    let members = model.members().len() + 1;
    // At most half of the frame is for members.
    let height = u16::try_from(3 + (members + below).max(2 * members)).unwrap_or(u16::MAX);
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|drawn| frame(model, drawn));
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width.max(1)));
    let text = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    };
    lines.map(text).collect()
}

/// Formats a rate with one decimal if it is small.
fn rounded(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
