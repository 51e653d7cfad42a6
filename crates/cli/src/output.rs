//! What all subcommands share about their output: tables, JSON, and how they end.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use comfy_table::{ContentArrangement, Table, TableComponent, presets};
use serde::Serialize;

/// How a subcommand ended when nothing went wrong with running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All done, and whatever was checked holds.
    Done,
    /// Something that was checked does not hold; the output says what.
    Refuted,
    /// Nothing that was checked fails, but a limit was reached before everything was.
    Unfinished,
    /// With the exit code of a command that was run, or one that says why it was not.
    Exit(u8),
}

/// The caller's mistake: the message names the thing and says what would be right.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    /// Wraps whatever explains the mistake.
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        Usage(why.to_string())
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An empty table with these column heads, in the one style of this program.
pub(crate) fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.remove_style(TableComponent::HorizontalLines).remove_style(TableComponent::MiddleIntersections);
    table.set_header(heads.to_vec());
    table
}

/// Reads the text that a user names, up to so many bytes: what is larger, or never ends, is refused before it fills the
/// memory.
pub(crate) fn read_text(from: impl Read, max_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    from.take(max_bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > max_bytes {
        return Err(io::Error::other(format!("more than {max_bytes} bytes, which is the most that is read")));
    }
    Ok(text)
}

/// Makes the file that `flag` names, empty.
pub(crate) fn create(flag: &str, path: &Path) -> Result<File, Usage> {
    File::create(path).map_err(|error| cannot_write(flag, path, &error))
}

/// Whether the file that `flag` names can be written to, found out before the work whose results it is for. What it holds
/// stays until there are new results.
pub(crate) fn check_file(flag: &str, path: &Path) -> Result<(), Usage> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| cannot_write(flag, path, &error))
}

/// Sees to it that the folder that `flag` names is there, before the work whose results it is for.
pub(crate) fn check_folder(flag: &str, path: &Path) -> Result<(), Usage> {
    fs::create_dir_all(path).map_err(|error| cannot_write(flag, path, &error))
}

fn cannot_write(flag: &str, path: &Path, error: &io::Error) -> Usage {
    Usage::new(format!("{flag} {}: cannot be written: {error}", path.display()))
}

/// Asks the person at the terminal.
pub(crate) fn is_confirmed(question: &str) -> io::Result<bool> {
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Writes `value` as one JSON document.
pub(crate) fn json(out: &mut dyn Write, value: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}
