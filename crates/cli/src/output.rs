//! The output that all subcommands share: tables, JSON, files, questions, and how a command ends.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::Path;

use comfy_table::{ContentArrangement, Table, TableComponent, presets};
pub(crate) use meshlock_cluster::printable::Printable;
use meshlock_cluster::printable::printable_json;
use ratatui::crossterm::terminal;
use serde::Serialize;

/// How a subcommand ended, if no error prevented it from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// Everything was done, and everything that was checked holds.
    Done,
    /// Something that was checked does not hold; the output says what.
    Refuted,
    /// Nothing that was checked fails, but not everything could be checked or done.
    Unfinished,
    /// The command ends with this exit code: that of the program that was run, or one that says why it was not run.
    Exit(u8),
}

/// A mistake in the arguments or in a file: the message names the thing and says what is expected.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl UsageError {
    /// Wraps the explanation of the mistake.
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        UsageError(why.to_string())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Returns a number with its noun, such as `1 lock` or `2 locks`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns an empty table with these column heads, in the style of this program. On a terminal it is not wider than the terminal:
/// long cells are wrapped. Elsewhere every row is one line, for other programs.
pub(crate) fn table(heads: &[&str]) -> Table {
    table_of_width(heads, terminal_width())
}

/// Returns the number of columns of the terminal that standard output is, if it is one.
pub(crate) fn terminal_width() -> Option<u16> {
    let size = io::stdout().is_terminal().then(terminal::size).and_then(Result::ok);
    size.map(|(columns, _)| columns)
}

fn table_of_width(heads: &[&str], width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.remove_style(TableComponent::HorizontalLines).remove_style(TableComponent::MiddleIntersections);
    table.set_header(heads.to_vec());
    table
}

/// Reads all text of `from`. A text of more than `max_bytes` is refused, so that a file that never ends does not fill the
/// memory.
pub(crate) fn read_text(from: impl Read, max_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    from.take(max_bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > max_bytes {
        return Err(io::Error::other(format!("more than {max_bytes} bytes, which is the most that is read")));
    }
    Ok(text)
}

/// Creates the file that `flag` names, or empties it.
pub(crate) fn create(flag: &str, path: &Path) -> Result<File, UsageError> {
    File::create(path).map_err(|error| cannot_write(flag, path, &error))
}

/// Checks that the file that `flag` names can be written, before the work whose results it is for. Its contents stay until
/// there are new results.
pub(crate) fn check_file(flag: &str, path: &Path) -> Result<(), UsageError> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| cannot_write(flag, path, &error))
}

/// Creates the folder that `flag` names if it does not exist, before the work whose results it is for.
pub(crate) fn check_folder(flag: &str, path: &Path) -> Result<(), UsageError> {
    fs::create_dir_all(path).map_err(|error| cannot_write(flag, path, &error))
}

fn cannot_write(flag: &str, path: &Path, error: &io::Error) -> UsageError {
    UsageError::new(format!("{flag} {}: cannot be written: {error}", path.display()))
}

/// Asks a yes-or-no question at the terminal.
pub(crate) fn is_confirmed(question: &str) -> io::Result<bool> {
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Writes `value` as one JSON document.
pub(crate) fn json(out: &mut dyn Write, value: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(PrintableJson(&mut *out), value)?;
    writeln!(out)?;
    Ok(())
}

/// Passes JSON on in such a form that its strings have no effect on a terminal.
pub(crate) struct PrintableJson<W>(pub(crate) W);

impl<W: Write> Write for PrintableJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A serializer writes whole pieces of text.
        match std::str::from_utf8(bytes) {
            Ok(text) => self.0.write_all(printable_json(text).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use meshlock_cluster::printable::is_invisible;

    use super::*;

    #[test]
    fn a_table_is_as_wide_as_the_terminal_and_elsewhere_as_wide_as_its_cells() {
        let widest = |width| {
            let mut table = table_of_width(&["id", "what"], width);
            table.add_row(["one", &"a long sentence about one thing ".repeat(8)]);
            table.lines().map(|line| line.chars().count()).max()
        };
        assert!(widest(Some(60)) <= Some(60) && widest(Some(60)) > Some(40));
        assert!(widest(None) > Some(200));
    }

    #[test]
    fn json_has_no_effect_on_a_terminal_and_reads_the_same() {
        let hostile = "\x1b[2J\u{202e}\u{9b}31m\u{7f}evil\n\u{feff}\u{61c}\u{e0041}é";
        let mut bytes = Vec::new();
        json(&mut bytes, &serde_json::json!({ "lock": hostile, "list": [1, 2] })).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.chars().any(|c| is_invisible(c) && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["lock"], hostile);
    }
}
