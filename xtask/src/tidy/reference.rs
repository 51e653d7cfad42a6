//! Checks that the reference documents name what the code has: every configuration key and every metric, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// Keys of the configuration file, and the document that lists them.
const CONFIGURATION: (&str, &str) = ("crates/cli/src/settings/file.rs", "docs/configuration.md");

/// Families of metrics, and the document that lists them.
const METRICS: (&str, &str) = ("crates/service/src/metrics/families.rs", "docs/metrics.md");

/// Endings that the kind of a metric adds to the name of its family.
const KINDS: [&str; 4] = ["", "_total", "_seconds", "_info"];

/// Compares both documents with the code.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let read =
        |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"));
    let (code, document) = CONFIGURATION;
    compare(document, &config_keys(&read(code)?), &rows(&read(document)?, ""), faults);
    let (code, document) = METRICS;
    let listed = rows(&read(document)?, "meshlock_");
    compare(document, &metric_names(&read(code)?, &listed), &listed, faults);
    Ok(())
}

/// Reports what is missing in a document and what it lists though it does not exist.
fn compare(document: &str, known: &BTreeSet<String>, listed: &BTreeSet<String>, faults: &mut Vec<String>) {
    for name in known.difference(listed) {
        faults.push(format!("{document}: has no table row for `{name}`"));
    }
    for name in listed.difference(known) {
        faults.push(format!("{document}: has a table row for `{name}`, which does not exist"));
    }
}

/// Names in the first column of a document's tables that begin with `start` and are written in lower case. Names in upper case are
/// environment variables.
fn rows(document: &str, start: &str) -> BTreeSet<String> {
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let is_name = |name: &str| name.starts_with(start) && !name.contains(|c: char| c.is_ascii_uppercase());
    rows.map(|(name, _)| name).filter(|name| is_name(name)).map(str::to_owned).collect()
}

/// Keys of the constant `KEYS`: a list of tables, each with its name and the names of its keys. Keys that are tables themselves are left
/// out; those of lists are written `list[].key`.
fn config_keys(code: &str) -> BTreeSet<String> {
    let list = code.split_once("const KEYS").map_or("", |(_, rest)| rest);
    let list = list.split_once("\n];").map_or(list, |(list, _)| list);
    let (mut table, mut found) = ("", Vec::new());
    let mut tables = BTreeSet::new();
    // Strings are every second part between quotation marks; the name of a table stands before a list.
    let parts: Vec<&str> = list.split('"').collect();
    for pair in parts[1..].chunks(2) {
        let (text, behind) = (pair[0], pair.get(1).copied().unwrap_or_default());
        if behind.trim_start_matches(',').trim_start().starts_with("&[") {
            table = text;
            tables.insert(text);
        } else {
            found.push((table, text));
        }
    }
    let path = |(table, key): &(&str, &str)| match *table {
        "" => (*key).to_owned(),
        "sites" | "rules" | "access" | "tokens" => format!("{table}[].{key}"),
        "each" => format!("limits.each.{key}"),
        table => format!("{table}.{key}"),
    };
    found.iter().filter(|(_, key)| !tables.contains(key)).map(path).collect()
}

/// Families of metrics by the names that are exported: where the document lists the family with the ending of a kind, with that.
fn metric_names(code: &str, listed: &BTreeSet<String>) -> BTreeSet<String> {
    let families = code.split("name: \"").skip(1).filter_map(|rest| rest.split_once('"'));
    let exported = |family: &str| {
        let mut names = KINDS.iter().map(|kind| format!("meshlock_{family}{kind}"));
        names.find(|name| listed.contains(name)).unwrap_or_else(|| format!("meshlock_{family}"))
    };
    families.map(|(family, _)| exported(family)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn keys_are_read_with_the_tables_that_they_are_in() {
        let code = "const KEYS: [(&str, &[&str]); 3] = [\n    (\n        \"\",\n        &[\n            \"cluster\",\n            \
                    \"sites\",\n        ],\n    ),\n    (\"sites\", &[\"name\", \"address\"]),\n    (\"each\", &[\"rate\"]),\n];\n\"x\"";
        let keys = set(&["cluster", "sites[].name", "sites[].address", "limits.each.rate"]);
        assert_eq!(config_keys(code), keys);
    }

    #[test]
    fn what_is_missing_and_what_does_not_exist_are_faults() {
        let document =
            "| key |\n| `a` | x |\n| `meshlock_wait_seconds` | y |\n| `XDG_HOME` | z |\ntext `b`\n";
        assert_eq!(rows(document, ""), set(&["a", "meshlock_wait_seconds"]));
        let listed = rows(document, "meshlock_");
        let known = metric_names("name: \"wait\", help: \"\"\nname: \"locks\"", &listed);
        let mut faults = Vec::new();
        compare("d", &known, &listed, &mut faults);
        assert_eq!(faults, ["d: has no table row for `meshlock_locks`"]);
        compare("d", &set(&[]), &listed, &mut faults);
        assert_eq!(faults[1], "d: has a table row for `meshlock_wait_seconds`, which does not exist");
    }
}
