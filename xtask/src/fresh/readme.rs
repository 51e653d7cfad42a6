//! The commands of the README, read from it so that what is tried is what it says.

use anyhow::Context;

/// The words before the commands: how to run it, and how to test it.
const HEADINGS: [&str; 2] = ["**Run it**", "**Test it**"];

/// A command of the README.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadmeCommand {
    pub(super) command: String,
    /// The lines that it prints, if the README shows them.
    shown: Vec<String>,
}

impl ReadmeCommand {
    /// The first line that the README shows and `output` does not have. Numbers may differ.
    pub(super) fn first_missing(&self, output: &str) -> Option<&str> {
        let printed: Vec<String> = output.lines().map(without_numbers).collect();
        let missing = self.shown.iter().find(|line| !printed.contains(&without_numbers(line)));
        missing.map(String::as_str)
    }
}

/// The first block of shell commands after each heading, with the block of text that follows it at once, if there is one.
pub(super) fn commands(readme: &str) -> anyhow::Result<Vec<ReadmeCommand>> {
    let block = |heading: &str| {
        let (_, after) = readme.split_once(heading)?;
        let (_, block) = after.split_once("```sh\n")?;
        let (command, rest) = block.split_once("\n```\n")?;
        let shown = rest.strip_prefix("\n```text\n").and_then(|text| text.split_once("\n```"));
        let shown = shown.map(|(shown, _)| shown.lines().map(str::to_owned).collect()).unwrap_or_default();
        Some(ReadmeCommand { command: command.to_owned(), shown })
    };
    HEADINGS
        .iter()
        .map(|heading| block(heading).with_context(|| format!("README.md has no commands after '{heading}'")))
        .collect()
}

fn without_numbers(line: &str) -> String {
    line.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_says_how_to_run_and_to_test_it() {
        let readme = include_str!("../../../README.md");
        let commands = commands(readme).unwrap();
        assert!(commands.iter().all(|command| command.command.starts_with("cargo ")), "{commands:?}");
        assert_eq!(commands.len(), 2);
        assert!(commands[0].command.starts_with("cargo run --release -- run "), "the first takes a lock");
        assert!(commands[0].shown[0].contains("fence"), "and shows its fence");
        assert_eq!(commands[1], ReadmeCommand { command: "cargo xtask ci".to_owned(), shown: Vec::new() });
    }

    #[test]
    fn a_readme_without_a_command_is_refused() {
        let error = commands("**Run it**\n\n```sh\ncargo run\n```\n").unwrap_err();
        assert_eq!(error.to_string(), "README.md has no commands after '**Test it**'");
    }

    #[test]
    fn what_the_readme_shows_must_be_printed_but_for_numbers() {
        let readme = "**Run it**\n\n```sh\ncargo run\n```\n\n```text\nfence 12\nbye\n```\n\n**Test it**\n\n```sh\ncargo test\n```\n";
        let commands = commands(readme).unwrap();
        assert_eq!(commands[0].first_missing("Compiling 3 crates\nfence 345\nbye\n"), None);
        assert_eq!(commands[0].first_missing("fence 12\n"), Some("bye"));
        assert_eq!(commands[1].first_missing(""), None);
    }
}
