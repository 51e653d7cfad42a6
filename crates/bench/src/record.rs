//! Writes the results of a run into a document, between two marker lines, where they replace those of an earlier run.

use std::path::Path;

use crate::output::InvalidArgument;

const BEGIN: &str = "<!-- written by `meshlock-bench --record`: begin -->";
const END: &str = "<!-- written by `meshlock-bench --record`: end -->";

/// Checks that the document has the marker lines, before anything is measured.
pub(super) fn check(path: &Path) -> Result<(), InvalidArgument> {
    place(path).map(drop)
}

/// Writes the text between the marker lines.
pub(super) fn write(path: &Path, command: &str, text: &str) -> anyhow::Result<()> {
    let (before, after) = place(path)?;
    let text = text.trim_end();
    std::fs::write(path, format!("{before}{BEGIN}\n```text\n$ {command}\n{text}\n```\n{END}{after}"))?;
    Ok(())
}

/// Returns the text before and after the marker lines.
fn place(path: &Path) -> Result<(String, String), InvalidArgument> {
    let named = |why: String| InvalidArgument::new(format!("--record {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| named(format!("cannot be read: {error}")))?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| {
        named(format!(
            "has no place for the results; write these two lines where they belong:\n{BEGIN}\n{END}"
        ))
    })?;
    Ok((before.to_owned(), after.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_the_place_of_the_last_one_and_leaves_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("doc.md");
        std::fs::write(&path, format!("# A\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        for text in ["one\n", "two\n"] {
            write(&path, "meshlock-bench", text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written, format!("# A\n{BEGIN}\n```text\n$ meshlock-bench\ntwo\n```\n{END}\nafter\n"));
    }

    #[test]
    fn a_document_without_a_place_is_refused_before_anything_is_measured() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("doc.md");
        assert!(check(&path).is_err(), "it is not there");
        std::fs::write(&path, "# A\n").unwrap();
        assert!(check(&path).unwrap_err().to_string().contains(BEGIN));
    }
}
