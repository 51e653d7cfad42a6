//! `meshlock sim`, `compare` and `reproduce` as a user runs them.

use std::process::{Command, Output, Stdio};

fn meshlock(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshlock"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the binary starts")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = meshlock(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn sim_prints_its_stable_names() {
    let report = json(&["sim", "suzuki-kasami", "--entries", "2000", "--json"]);
    for name in ["algorithm", "sites", "permits", "seed", "entries", "events", "throughput", "wall_seconds"] {
        assert!(!report[name].is_null(), "{name} is there");
    }
    for (group, name) in [
        ("messages_per_entry", "mean"),
        ("messages_per_entry", "ci95"),
        ("messages_per_entry", "by_kind"),
        ("words_per_message", "mean"),
        ("wait", "p50"),
        ("response", "p99"),
        ("sync_delay", "max"),
        ("fairness", "jain"),
        ("fairness", "overtakes"),
        ("fairness", "max_bypass"),
    ] {
        assert!(!report[group][name].is_null(), "{group}.{name} is there");
    }
}

#[test]
fn sim_writes_a_trace_of_one_object_a_line() {
    let file = std::env::temp_dir().join(format!("meshlock-trace-{}.jsonl", std::process::id()));
    let path = file.to_str().expect("a path of letters");
    json(&["sim", "central", "--sites", "3", "--entries", "5", "--trace", path, "--json"]);
    let trace = std::fs::read_to_string(&file).expect("the trace was written");
    std::fs::remove_file(&file).expect("the trace can be removed");
    let lines: Vec<serde_json::Value> =
        trace.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let enters = lines.iter().filter(|line| line["kind"] == "enter").count();
    assert!(enters >= 5, "{enters} entries in the trace");
}

#[test]
fn compare_has_a_row_for_each_algorithm_rate_and_size() {
    let list = "central,raymond:tree=star";
    let arguments = [
        "compare",
        "--algorithms",
        list,
        "--rates",
        "0.01,0.1",
        "--sites",
        "3,5",
        "--entries",
        "500",
        "--json",
    ];
    let points = json(&arguments);
    assert_eq!(points.as_array().expect("a list").len(), 8);
    assert_eq!(points[7]["spec"], "raymond:tree=star");
    assert_eq!(points[7]["report"]["sites"], 5);
}

#[test]
fn reproduce_lists_what_there_is_and_compares_with_what_was_published() {
    let listed = json(&["reproduce", "--json"]);
    for id in ["singhal-1989-table-2", "sanders-1987-bounds", "lodha-2000-example"] {
        assert!(listed.as_array().expect("a list").iter().any(|entry| entry["id"] == id), "{id}");
    }
    let example = json(&["reproduce", "lodha-2000-example", "--json"]);
    assert_eq!(example["rows"][0]["measured"], 8.0);
    let limits = json(&["reproduce", "singhal-1989-limits", "--json"]);
    let rows = limits["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 12);
    assert!(rows.iter().all(|row| row["verdict"] == "agrees"), "{rows:#?}");
}

#[test]
fn bad_input_names_the_flag_and_the_value_and_exits_with_64() {
    for (arguments, says) in [
        (&["sim", "suzuki"][..], "unknown algorithm 'suzuki' (did you mean 'suzuki-kasami'?)"),
        (&["sim", "central", "--sites", "0"], "--sites 0: at least one site is needed"),
        (
            &["sim", "raymond-k", "--sites", "3", "--permits", "4"],
            "--permits 4: from 1 to --sites, which is 3",
        ),
        (&["sim", "central", "--permits", "2"], "central gives one permit, not 2"),
        (&["sim", "central", "--rate", "-1"], "--rate -1: must be positive"),
        (&["sim", "central", "--rate", "1,2"], "--rate: 2 rates for 10 sites"),
        (&["sim", "central", "--delay", "fast"], "--delay: 'fast' is no number"),
        (&["sim", "central", "--delay", "uniform:2..1"], "the first bound is larger than the second"),
        (&["sim", "central", "--fail", "1@5"], "central does not handle these failures by itself"),
        (&["reproduce", "table"], "unknown table or figure 'table'"),
    ] {
        let output = meshlock(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "nothing on stdout but results");
    }
}

#[test]
fn a_malformed_matrix_of_delays_is_named_by_its_row() {
    let file = std::env::temp_dir().join(format!("meshlock-matrix-{}.txt", std::process::id()));
    std::fs::write(&file, "# two sites\n0 1\n1\n").expect("the file can be written");
    let delay = format!("@{}", file.display());
    let output = meshlock(&["sim", "central", "--sites", "2", "--delay", &delay]);
    std::fs::remove_file(&file).expect("the file can be removed");
    assert_eq!(output.status.code(), Some(64));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("row 1: 1 delays, but there are 2 sites"), "{stderr}");
}
