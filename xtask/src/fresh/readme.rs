//! The commands of the README, read from it so that what is tried is what it says.

use anyhow::Context;

/// The words before the commands: how to run it, and how to test it.
const HEADINGS: [&str; 2] = ["**Run it**", "**Test it**"];

/// What stands in the first block of shell commands after each heading.
pub(super) fn commands(readme: &str) -> anyhow::Result<Vec<String>> {
    let block = |heading: &str| {
        let (_, after) = readme.split_once(heading)?;
        let (_, block) = after.split_once("```sh\n")?;
        let (block, _) = block.split_once("\n```")?;
        Some(block.to_owned())
    };
    HEADINGS
        .iter()
        .map(|heading| block(heading).with_context(|| format!("README.md has no commands after '{heading}'")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_says_how_to_run_and_to_test_it() {
        let readme = include_str!("../../../README.md");
        let commands = commands(readme).unwrap();
        assert!(commands.iter().all(|command| command.starts_with("cargo ")), "{commands:?}");
        assert_eq!(commands.len(), 2);
    }

    #[test]
    fn a_readme_without_a_command_is_refused() {
        let error = commands("**Run it**\n\n```sh\ncargo run\n```\n").unwrap_err();
        assert_eq!(error.to_string(), "README.md has no commands after '**Test it**'");
    }
}
