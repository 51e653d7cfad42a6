//! Results as a table in Markdown that people and tests read.

use std::fmt::{self, Write};
use std::str::FromStr;

use meshlock_protocol::Mode;

use super::{Case, MEDIUM, SMALL, SMALL_REDUCED};
use crate::bypass::MAX_STATES as BYPASS_STATES;
use crate::{Bypass, BypassBound, Entries, NetworkModel, Property, Report, Verdict};

/// How a run of the matrix ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseEnding {
    /// All states were visited and nothing is wrong.
    Holds,
    Violated(Property),
    /// The memory was not enough.
    Unfinished {
        /// The limit, in MiB.
        mebibytes: usize,
    },
}

/// The text in the verdict between the end of a sweep and its memory limit.
const SWEPT: &str = ", swept in ";
const MEBIBYTES: &str = " MiB";

/// The result of a run of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaseOutcome {
    pub ending: CaseEnding,
    /// The memory limit in MiB that was reached, if levels were discarded.
    pub(crate) swept: Option<usize>,
    pub states: usize,
    /// The number of steps to the farthest state.
    pub depth: usize,
    /// The fewest and the most messages of a complete run.
    pub(crate) messages: Option<(usize, usize)>,
    /// How often others can enter while a site waits, if that was computed.
    pub bypass: Option<Bypass>,
}

impl CaseOutcome {
    /// The result of `report`, whose memory limit was this many bytes.
    pub fn of(report: &Report, memory: usize) -> CaseOutcome {
        let mebibytes = memory >> 20;
        let ending = match (report.verdict.property(), &report.verdict) {
            (Some(property), _) => CaseEnding::Violated(property),
            (None, Verdict::Unfinished) => CaseEnding::Unfinished { mebibytes },
            (None, _) => CaseEnding::Holds,
        };
        CaseOutcome {
            ending,
            swept: report.swept.map(|_| mebibytes),
            states: report.states,
            depth: report.depth,
            messages: report.messages,
            bypass: report.bypass,
        }
    }
}

impl fmt::Display for CaseEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaseEnding::Holds => f.write_str("holds"),
            CaseEnding::Violated(property) => write!(f, "violated: {}", property.name()),
            CaseEnding::Unfinished { mebibytes } => write!(f, "unfinished within {mebibytes}{MEBIBYTES}"),
        }
    }
}

/// One row: a run and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseRecord {
    pub case: Case,
    pub outcome: CaseOutcome,
}

impl CaseRecord {
    /// Whether it was explored completely.
    pub fn is_finished(&self) -> bool {
        !matches!(self.outcome.ending, CaseEnding::Unfinished { .. })
    }

    /// Whether nothing is missing that the command would find out today: also the bypass bound, unless there are too many states for it, or
    /// the search is a reduced one.
    pub fn is_complete(&self) -> bool {
        let CaseOutcome { ending, swept, states, bypass, .. } = self.outcome;
        let is_whole = swept.is_none() && !self.case.reduces;
        let can_be_passed = ending == CaseEnding::Holds && is_whole && states <= BYPASS_STATES;
        self.is_finished() && (bypass.is_some() || !can_be_passed)
    }

    /// Whether it is small enough to be explored by every run of the tests.
    pub fn is_small(&self) -> bool {
        self.is_finished() && self.outcome.states <= self.small()
    }

    /// Whether it is too large for every run of the tests, and small enough for those of `cargo xtask soak`.
    pub fn is_medium(&self) -> bool {
        self.is_finished() && (self.small() + 1..=MEDIUM).contains(&self.outcome.states)
    }

    /// The most states of a small run of this kind.
    fn small(&self) -> usize {
        if self.case.reduces { SMALL_REDUCED } else { SMALL }
    }

    /// The words of its row.
    pub fn cells(&self) -> [String; COLUMNS] {
        let CaseRecord { case, outcome } = self;
        let more = if self.is_finished() { "" } else { "> " };
        let swept = outcome.swept.map_or_else(String::new, |limit| format!("{SWEPT}{limit}{MEBIBYTES}"));
        [
            case.spec.clone(),
            case.sites.to_string(),
            entries(case),
            case.permits.to_string(),
            inside(case),
            case.network.name().to_owned(),
            case.crashes.to_string(),
            if case.recovers { "yes" } else { "no" }.to_owned(),
            if case.returns { "yes" } else { "no" }.to_owned(),
            format!("{more}{}", outcome.states),
            outcome.depth.to_string(),
            outcome.messages.map_or_else(|| "–".to_owned(), |(least, most)| format!("{least} to {most}")),
            outcome.bypass.map_or_else(
                || "–".to_owned(),
                |bypass| format!("{} / {}", bypass.from_call, bypass.once_heard),
            ),
            self.starvation().to_owned(),
            format!("{}{swept}", outcome.ending),
        ]
    }

    /// How it was shown that nobody starves.
    fn starvation(&self) -> &'static str {
        match (self.case.entries, self.case.window, self.outcome.bypass) {
            _ if self.outcome.ending != CaseEnding::Holds => NEITHER,
            (Entries::Endless, None, _) => "fair cycles",
            (Entries::Endless, Some(_), _) => "fair cycles in window",
            (Entries::Each(_), _, Some(_)) => "bypass",
            (Entries::Each(_), _, None) => NEITHER,
        }
    }
}

/// The starvation column of a run that shows nothing about starvation.
const NEITHER: &str = "neither";

/// The words between the entries and the window of an endless run.
const WINDOW: &str = "endless, window ";

/// The words between the entries and the modes in which they are asked for, and behind the number of changes of mode.
const AS: &str = " as ";
const CHANGES: &str = " changes";

fn entries(case: &Case) -> String {
    let entries = match (case.entries, case.window) {
        (Entries::Each(entries), _) => entries.to_string(),
        (Entries::Endless, None) => "endless".to_owned(),
        (Entries::Endless, Some(window)) => format!("{WINDOW}{window}"),
    };
    if case.modes == [Mode::Exclusive] {
        return entries;
    }
    let modes: String = case.modes.iter().map(|mode| mode.letter()).collect();
    match case.changes {
        0 => format!("{entries}{AS}{modes}"),
        changes => format!("{entries}{AS}{modes}, {changes}{CHANGES}"),
    }
}

fn inside(case: &Case) -> String {
    match (case.holder, case.held) {
        (None, _) => "nobody".to_owned(),
        (Some(site), Mode::Exclusive) => site.to_string(),
        (Some(site), held) => format!("{site}{AS}{}", held.letter()),
    }
}

/// The number of columns.
const COLUMNS: usize = 15;

/// The heads of the columns.
pub const HEADS: [&str; COLUMNS] = [
    "algorithm",
    "N",
    "entries",
    "K",
    "inside",
    "network",
    "crashes",
    "recover",
    "return",
    "states",
    "depth",
    "messages",
    "bypass",
    "starvation",
    "verdict",
];

/// Writes all rows as a document, with the command that makes it.
pub fn write(records: &[CaseRecord]) -> String {
    let (smaller, full): (Vec<&CaseRecord>, Vec<&CaseRecord>) =
        records.iter().partition(|record| record.case.reduces);
    let (alike, reduced): (Vec<&CaseRecord>, Vec<&CaseRecord>) =
        smaller.into_iter().partition(|record| record.case.up_to_symmetry);
    let mut text = write_full(&full);
    for (records, section) in [(reduced, reduced_section as fn(usize) -> String), (alike, alike_section)] {
        if !records.is_empty() {
            text.push_str(&section(records.len()));
            write_table(&records, &mut text);
        }
    }
    text
}

/// Writes the rows of full searches, which come first.
fn write_full(records: &[&CaseRecord]) -> String {
    let count = |is_so: fn(&CaseRecord) -> bool| records.iter().filter(|record| is_so(record)).count();
    let holds = count(|record| record.outcome.ending == CaseEnding::Holds);
    let unfinished = count(|record| !record.is_finished());
    let states: usize = records.iter().map(|record| record.outcome.states).sum();
    let mut text = format!(
        "<!-- Generated by `cargo run --release -- check all --record docs/CHECKED.md`. Do not edit. -->
# What was explored

Every interleaving of the runs below: {} runs, of which {holds} hold, {} are violated and {unfinished} are unfinished;
{states} states in all. Made by

```sh
cargo run --release -- check all --record docs/CHECKED.md
```

with 8 GiB of memory, or with the `--memory` that a row names. *unfinished*: the memory was not enough. With `--resume` only such rows
are explored again, and those that lack a figure which the command would find out today. *swept*: memory was used up and the oldest levels were discarded. No state is missed, but a state reached again
later is counted again.

Each of N sites requests one of K permits *entries* times. *inside* lists the sites that are inside at the start, *crashes* is the number of
sites that may fail at any moment, *recover* says whether a failed site comes back, *return* whether a site may leave and request again
in one step. Where an algorithm knows modes, each of the entries is tried in each of the modes S (shared), U (upgradeable) and X (exclusive) that
*entries* names, and who is inside may change its mode so many times as it says, to each of those. *depth* is the number of steps from the start to the farthest state, *messages* the minimum and the maximum number of
messages of a complete run, for all its entries together (– if not counted).

*bypass* is how often others can enter while a site waits, the most over all schedules and sites: from the call of its request on / from
a moment on at which nothing that it has sent is in flight (– if not computed; it is for up to {BYPASS_STATES} states that fit into memory).
The second number is held against what the algorithm's source claims, where it claims anything and nothing fails; a message may take as
long as it likes, so the first one says little in a short run.

*starvation* says how it was shown that no site starves. *bypass*: the run is bounded, so that only this figure says something about it.
*fair cycles*: sites request without end, numbers that only grow are made relative to each other, and no cycle of the whole graph is fair
to every message and yet leaves a site waiting. *fair cycles in window*: the same, but a site requests only while none of its numbers is above
the window, and while it has no more messages than that in flight to one site; what follows the other requests was not explored. *neither*: nothing was
shown, because the run has more than {BYPASS_STATES} states, or did not fit into memory.
That every request of a bounded run is served says only that there is no deadlock. The rows with *neither* are also older than the
check that one site's timestamps rise: *order* means for them only that no request passes an earlier one. The endless rows do not check that either.

`meshlock check ALGORITHM` with the same settings
explores one row again; the tests do so with every row of up to {SMALL} states, `cargo xtask soak --only explorations` with those of up to
{MEDIUM}.

{}

",
        records.len(),
        records.len() - holds - unfinished,
        checked(),
    );
    write_table(records, &mut text);
    text
}

/// What the section of reduced searches says before its table.
fn reduced_section(runs: usize) -> String {
    format!(
        "
{REDUCED}

{runs} larger runs, explored by `meshlock check ALGORITHM --reduce` with the same settings: a delivery that nobody but its receiver
notices is put off until it matters, and only the states of the schedules that are left are kept and counted. Every site goes through the
same local states by the same steps as in a full search, and exclusion, deadlock, order, fences, tokens, refusals, quiet and the invariants
of single sites are decided alike; invariants that span sites are checked in the kept states only. *depth* is the largest number of
kept states one after the other. Nothing is shown of starvation, bypass and the number of messages.

The tests explore every row of up to {SMALL_REDUCED} states again, `cargo xtask soak --only explorations` those of up to {MEDIUM}. They
compare reduced searches with full ones for every algorithm and variant in small runs.

"
    )
}

/// What the section of searches up to symmetry says before its table.
fn alike_section(runs: usize) -> String {
    format!(
        "
{ALIKE}

{runs} runs of algorithms that treat sites alike, explored by `meshlock check ALGORITHM --reduce --symmetry`: of the states that differ only in
which site is which, one is kept and counted. That a permutation of the sites changes nothing else is found out by following each step that
the search takes, and every image of it. What is decided is what the reduced searches above decide.

The tests explore the rows again as they do those above, and compare such searches with full ones for every algorithm and variant that has a
symmetry, in small runs ([testing.md](testing.md#one-algorithm)).

"
    )
}

fn write_table(records: &[&CaseRecord], text: &mut String) {
    let mut line = |cells: &[String]| writeln!(text, "| {} |", cells.join(" | "));
    let written = line(&HEADS.map(str::to_owned)).and_then(|()| line(&HEADS.map(|_| "---".to_owned())));
    let written = written.and_then(|()| records.iter().try_for_each(|record| line(&record.cells())));
    written.expect("a string takes all that is written to it");
}

/// The line that names the properties that were checked.
fn checked() -> String {
    format!("What is checked: {}.", Property::ALL.map(Property::name).join(", "))
}

/// Whether exactly the present properties were checked for the rows of a document.
pub fn is_current(text: &str) -> bool {
    text.lines().any(|line| line == checked())
}

/// The heading of the table of reduced searches.
const REDUCED: &str = "## Reduced searches";

/// The heading of the table of searches up to symmetry.
const ALIKE: &str = "## Searches up to symmetry";

/// The number of lines before the rows of a table.
const HEAD_LINES: usize = 2;

/// Why a document cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: '{cell}' is no {what}")]
pub struct Malformed {
    line: usize,
    cell: String,
    /// Description of the expected text.
    what: &'static str,
}

/// Parses the rows of a document that [`write()`] made.
pub fn read(text: &str) -> Result<Vec<CaseRecord>, Malformed> {
    let (mut records, mut reduces, mut up_to_symmetry, mut heads) = (Vec::new(), false, false, HEAD_LINES);
    for (line, number) in text.lines().zip(1..) {
        if line == REDUCED || line == ALIKE {
            (reduces, up_to_symmetry, heads) = (true, line == ALIKE, HEAD_LINES);
        } else if line.starts_with('|') && heads > 0 {
            heads -= 1;
        } else if line.starts_with('|') {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let row = RowParser { line: number };
            let cells = cells.try_into().map_err(|_| row.malformed(line, "row of fifteen cells"))?;
            let mut record = row.record(cells)?;
            (record.case.reduces, record.case.up_to_symmetry) = (reduces, up_to_symmetry);
            records.push(record);
        }
    }
    Ok(records)
}

/// Parses the cells of one row. It knows the row's line, for the errors.
#[derive(Clone, Copy)]
struct RowParser {
    line: usize,
}

impl RowParser {
    fn malformed(self, cell: &str, what: &'static str) -> Malformed {
        Malformed { line: self.line, cell: cell.to_owned(), what }
    }

    fn number<T: FromStr>(self, cell: &str) -> Result<T, Malformed> {
        cell.parse().map_err(|_| self.malformed(cell, "number"))
    }

    fn is_yes(self, cell: &str) -> Result<bool, Malformed> {
        match cell {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(self.malformed(cell, "yes or no")),
        }
    }

    fn messages(self, cell: &str) -> Result<Option<(usize, usize)>, Malformed> {
        match cell.split_once(" to ") {
            Some((least, most)) => Ok(Some((self.number(least)?, self.number(most)?))),
            None if cell == "–" => Ok(None),
            None => Err(self.malformed(cell, "least and most messages")),
        }
    }

    /// The modes and the number of changes, as they stand behind the entries.
    fn modes(self, cell: Option<&str>) -> Result<(Vec<Mode>, u8), Malformed> {
        let Some(cell) = cell else { return Ok((vec![Mode::Exclusive], 0)) };
        let (modes, changes) =
            cell.split_once(", ").map_or((cell, None), |(modes, changes)| (modes, Some(changes)));
        let modes = modes.chars().map(|letter| self.mode(&letter.to_string())).collect::<Result<_, _>>()?;
        let number = |words: &str| {
            let number =
                words.strip_suffix(CHANGES).ok_or_else(|| self.malformed(words, "number of changes"))?;
            self.number(number)
        };
        Ok((modes, changes.map(number).transpose()?.unwrap_or(0)))
    }

    fn mode(self, letter: &str) -> Result<Mode, Malformed> {
        let named = Mode::ALL.into_iter().find(|mode| mode.letter().to_string() == letter);
        named.ok_or_else(|| self.malformed(letter, "letter of a mode"))
    }

    fn inside(self, cell: &str) -> Result<(Option<usize>, Mode), Malformed> {
        Ok(match cell.split_once(AS) {
            Some((site, mode)) => (Some(self.number(site)?), self.mode(mode)?),
            None if cell == "nobody" => (None, Mode::Exclusive),
            None => (Some(self.number(cell)?), Mode::Exclusive),
        })
    }

    fn entries(self, cell: &str) -> Result<(Entries, Option<u8>), Malformed> {
        Ok(match cell.strip_prefix(WINDOW) {
            Some(window) => (Entries::Endless, Some(self.number(window)?)),
            None if cell == "endless" => (Entries::Endless, None),
            None => (Entries::Each(self.number(cell)?), None),
        })
    }

    fn bypass(self, cell: &str) -> Result<Option<Bypass>, Malformed> {
        let bound = |cell: &str| match cell {
            "unbounded" => Ok(BypassBound::Unbounded),
            _ => self.number(cell).map(BypassBound::AtMost),
        };
        match cell.split_once(" / ") {
            Some((call, heard)) => Ok(Some(Bypass { from_call: bound(call)?, once_heard: bound(heard)? })),
            None if cell == "–" => Ok(None),
            None => Err(self.malformed(cell, "bypass from the call and once heard")),
        }
    }

    fn ending(self, cell: &str) -> Result<CaseEnding, Malformed> {
        let broken = || Property::named(cell.strip_prefix("violated: ")?).map(CaseEnding::Violated);
        let unfinished = || {
            let mebibytes = self.mebibytes(cell.strip_prefix("unfinished within ")?).ok()?;
            Some(CaseEnding::Unfinished { mebibytes })
        };
        match cell {
            "holds" => Ok(CaseEnding::Holds),
            _ => broken().or_else(unfinished).ok_or_else(|| self.malformed(cell, "verdict")),
        }
    }

    fn mebibytes(self, words: &str) -> Result<usize, Malformed> {
        let number = words.strip_suffix(MEBIBYTES).ok_or_else(|| self.malformed(words, "number of MiB"))?;
        self.number(number)
    }

    fn record(self, cells: [&str; COLUMNS]) -> Result<CaseRecord, Malformed> {
        let [
            spec,
            sites,
            entries,
            permits,
            holder,
            network,
            crashes,
            recovers,
            returns,
            states,
            depth,
            messages,
            bypass,
            starvation,
            verdict,
        ] = cells;
        let (entries, modes) =
            entries.split_once(AS).map_or((entries, None), |(left, right)| (left, Some(right)));
        let ((modes, changes), (entries, window)) = (self.modes(modes)?, self.entries(entries)?);
        let (holder, held) = self.inside(holder)?;
        let case = Case {
            spec: spec.to_owned(),
            sites: self.number(sites)?,
            entries,
            window,
            permits: self.number(permits)?,
            modes,
            changes,
            holder,
            held,
            network: NetworkModel::named(network).ok_or_else(|| self.malformed(network, "network"))?,
            crashes: self.number(crashes)?,
            recovers: self.is_yes(recovers)?,
            returns: self.is_yes(returns)?,
            reduces: false,
            up_to_symmetry: false,
        };
        let (ending, limit) = verdict.split_once(SWEPT).unzip();
        let outcome = CaseOutcome {
            ending: self.ending(ending.unwrap_or(verdict))?,
            swept: limit.map(|limit| self.mebibytes(limit)).transpose()?,
            states: self.number(states.trim_start_matches("> "))?,
            depth: self.number(depth)?,
            messages: self.messages(messages)?,
            bypass: self.bypass(bypass)?,
        };
        let record = CaseRecord { case, outcome };
        if starvation != record.starvation() {
            return Err(self.malformed(starvation, "way in which such a row shows that nobody starves"));
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<CaseRecord> {
        let endings = [
            CaseEnding::Holds,
            CaseEnding::Violated(Property::Order),
            CaseEnding::Unfinished { mebibytes: 64 },
        ];
        let with = |(case, ending): (Case, CaseEnding)| CaseRecord {
            outcome: CaseOutcome {
                ending,
                swept: (case.sites == 4).then_some(64),
                states: 7,
                depth: 3,
                messages: (ending == CaseEnding::Holds).then_some((4, 6)),
                bypass: (case.sites == 3).then_some(Bypass {
                    from_call: BypassBound::Unbounded,
                    once_heard: BypassBound::AtMost(2),
                }),
            },
            case,
        };
        super::super::cases().into_iter().zip(endings.into_iter().cycle()).map(with).collect()
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(read(&write(&records())), Ok(records()));
    }

    #[test]
    fn a_malformed_cell_is_named_with_its_line() {
        let text = write(&records()[..1]).replace("| 7 |", "| many |");
        let error = read(&text).unwrap_err().to_string();
        assert!(error.ends_with("'many' is no number"), "{error}");
        assert!(read("|\n|\n| x |").unwrap_err().to_string().contains("no row of fifteen cells"));
    }
}
