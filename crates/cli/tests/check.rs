//! `meshlock check` as a user runs it.

use std::path::PathBuf;
use std::process::{Command, Output};

use meshlock_testing::BoundedCommand;
use serde_json::Value;

fn meshlock(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshlock"));
    command.args(arguments).output_in_time()
}

/// Runs the command, asserts that it exits with `code`, and returns its output.
fn output(code: i32, arguments: &[&str]) -> String {
    let output = meshlock(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

fn json(code: i32, arguments: &[&str]) -> Value {
    serde_json::from_str(&output(code, arguments)).expect("one JSON document")
}

/// A file of one test, which is removed when this is dropped.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("meshlock-check-{}-{name}", std::process::id()))
}

const LAMPORT_WITHOUT_ORDER: [&str; 7] =
    ["check", "lamport", "--sites", "2", "--entries", "1", "--network=unordered"];

#[test]
fn a_property_that_holds_is_reported_with_its_figures_and_exits_with_0() {
    let text = output(0, &["check", "suzuki-kasami", "--sites", "2"]);
    for words in
        ["suzuki-kasami: holds in every schedule", "2 sites × 2 entries, unordered network", "83 states"]
    {
        assert!(text.contains(words), "{text}");
    }
    assert!(text.contains("messages  ") && text.contains("per entry"), "{text}");
}

#[test]
fn a_violation_is_reported_step_by_step_and_exits_with_1() {
    let text = output(1, &LAMPORT_WITHOUT_ORDER);
    assert!(text.starts_with("lamport: violated after 4 steps: "), "{text}");
    assert!(text.contains("    1. ") && text.contains("    4. ") && !text.contains("    5. "), "{text}");
    let replay = text.lines().find_map(|line| line.strip_prefix("replay: meshlock ")).expect("a replay line");
    let again = output(1, &replay.split(' ').collect::<Vec<_>>());
    assert_eq!(again.lines().next(), text.lines().next(), "the replay command finds the same");
}

#[test]
fn json_has_its_stable_names() {
    let found = json(0, &["check", "central", "--json"]);
    for name in
        ["algorithm", "sites", "entries", "network", "crashes", "states", "depth", "seconds", "result"]
    {
        assert!(!found[name].is_null(), "{name} is there: {found}");
    }
    assert_eq!(found["result"], "holds");
    assert!(found["property"].is_null() && found.get("property").is_some());
    assert!(found["messages_per_entry"]["least"].as_f64() <= found["messages_per_entry"]["most"].as_f64());
    assert_eq!(found["trace"].as_array().map(Vec::len), Some(0));
    let mut arguments = LAMPORT_WITHOUT_ORDER.to_vec();
    arguments.push("--json");
    let found = json(1, &arguments);
    assert_eq!((&found["result"], &found["network"]), (&"violated".into(), &"unordered".into()));
    assert!(found["property"].is_string() && found["trace"].as_array().is_some_and(|lines| lines.len() >= 4));
}

#[test]
fn the_trace_file_contains_the_counterexample_in_the_common_format() {
    let file = file("trace.jsonl");
    let mut arguments = LAMPORT_WITHOUT_ORDER.to_vec();
    arguments.extend(["--trace", file.to_str().expect("a path of letters"), "--trace-state"]);
    output(1, &arguments);
    let text = std::fs::read_to_string(&file).expect("the trace was written");
    std::fs::remove_file(&file).expect("the trace can be removed");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let count = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    let steps = lines.last().expect("a line").get("time").and_then(Value::as_f64);
    assert_eq!((lines[0]["kind"].as_str(), steps), (Some("request"), Some(4.0)));
    assert!(count("send") > 0 && count("receive") > 0, "{text}");
    for line in &lines {
        assert!(line["site"].is_u64() && line["state"].is_string(), "{line}");
        let is_message = line["kind"] == "send" || line["kind"] == "receive";
        assert_eq!((line["peer"].is_u64(), line["message"].is_string()), (is_message, is_message), "{line}");
    }
}

#[test]
fn a_counterexample_becomes_a_test_that_replays_it() {
    let mut arguments = LAMPORT_WITHOUT_ORDER.to_vec();
    arguments.push("--as-test");
    let text = output(1, &arguments);
    assert!(text.contains("#[test]\nfn lamport_violates_"), "{text}");
    assert_eq!(text.matches("world.apply(Action::").count(), 4, "{text}");
    assert!(text.contains("assert_eq!(world.inside().len(), 2);"), "{text}");
    let held = meshlock(&["check", "central", "--sites", "2", "--as-test"]);
    assert_eq!(held.status.code(), Some(64));
    assert!(
        String::from_utf8_lossy(&held.stderr).contains("nothing is violated"),
        "there is nothing to test"
    );
}

#[test]
fn a_limit_on_memory_ends_with_a_clear_message_and_2() {
    let text = output(2, &["check", "lamport", "--memory", "8MiB"]);
    assert!(text.contains("not finished: the limit of 8.0 MiB was reached"), "{text}");
    assert!(text.contains("Raise --memory, or lower --sites or --entries"), "{text}");
    assert_eq!(json(2, &["check", "lamport", "--memory", "8MiB", "--json"])["result"], "unfinished");
}

#[test]
fn a_search_whose_runs_all_end_continues_when_the_memory_limit_is_reached() {
    let text = output(0, &["check", "lamport", "--entries", "1", "--memory", "8MiB"]);
    assert!(
        text.contains("holds in every schedule") && text.contains("swept     8.0 MiB were used"),
        "{text}"
    );
    let found = json(0, &["check", "lamport", "--entries", "1", "--memory", "8MiB", "--json"]);
    let whole = json(0, &["check", "lamport", "--entries", "1", "--json"]);
    assert_eq!((&found["states"], &found["depth"]), (&whole["states"], &whole["depth"]));
    assert!(found["swept"].is_number() && whole["swept"].is_null(), "{found}");
    assert!(found["bytes_per_state"].is_null() && whole["bytes_per_state"].is_number(), "{found}");
}

#[test]
fn the_number_of_threads_does_not_change_the_result() {
    let found = |threads| {
        let found = json(0, &["check", "maekawa", "--threads", threads, "--json"]);
        ["states", "depth", "edges", "local_states"].map(|name| found[name].clone())
    };
    assert_eq!(found("1"), found("2"));
}

#[test]
fn only_the_named_property_is_checked() {
    let printed = ["check", "maekawa:text=printed", "--entries", "1"];
    assert_eq!(json(1, &[&printed[..], &["--json"]].concat())["property"], "deadlock");
    let exclusion = json(0, &[&printed[..], &["--property", "exclusion", "--json"]].concat());
    assert_eq!(exclusion["properties"], serde_json::json!(["exclusion"]));
}

#[test]
fn failures_and_starting_holders_can_be_asked_for() {
    let found = json(
        0,
        &[
            "check",
            "raymond",
            "--sites=2",
            "--network=fifo",
            "--crashes=1",
            "--recover",
            "--holder=1",
            "--json",
        ],
    );
    assert_eq!((&found["crashes"], &found["holders"]), (&1.into(), &serde_json::json!([1])));
    let stuck = json(1, &["check", "central", "--sites=2", "--crashes=1", "--survivors", "--json"]);
    assert_eq!(stuck["property"], "deadlock");
}

#[test]
fn the_matrix_can_be_run_for_one_algorithm_and_recorded() {
    let file = file("matrix.md");
    let path = file.to_str().expect("a path of letters");
    let rows = json(0, &["check", "all", "--only", "token-ring", "--record", path, "--json"]);
    let rows = rows.as_array().expect("a row a run").len();
    let text = std::fs::read_to_string(&file).expect("the record was written");
    assert_eq!(text.lines().filter(|line| line.starts_with("| token-ring ")).count(), rows, "{text}");
    let rest = json(0, &["check", "all", "--only", "token-ring", "--record", path, "--resume", "--json"]);
    assert_eq!(rest.as_array().map(Vec::len), Some(0), "nothing is left to do");
    output(0, &["check", "all", "--only", "central", "--record", path]);
    let both = std::fs::read_to_string(&file).expect("the record was written");
    std::fs::remove_file(&file).expect("the record can be removed");
    assert!(both.contains("| token-ring ") && both.contains("| central "), "{both}");
    let small = output(0, &["check", "all", "--small", "--only", "central", "--markdown"]);
    assert!(both.lines().filter(|line| line.starts_with("| central ")).all(|line| small.contains(line)));
}

#[test]
fn assumptions_are_checked_one_by_one() {
    let found = json(0, &["check", "--assumptions", "suzuki-kasami", "--walks", "20", "--json"]);
    assert_eq!(found["paper_assumes"], "reliable channels");
    let needed = |name: &str| {
        let all = found["assumptions"].as_array().expect("a list");
        all.iter().find(|one| one["assumption"] == name).expect("each is tried")["result"].clone()
    };
    let results = ["holds", "not shown to be needed", "needed"].map(Value::from);
    assert_eq!(["none", "order", "no-losses"].map(needed), results);
    let text = output(0, &["check", "--assumptions", "lamport", "--walks", "20"]);
    assert!(text.starts_with("lamport: its paper assumes: reliable FIFO channels"), "{text}");
    assert!(
        text.contains("messages overtake each other: ") && text.contains("replay: meshlock check"),
        "{text}"
    );
}

#[test]
fn a_search_up_to_symmetry_says_which_symmetries_it_has_used_or_why_none() {
    let run = ["check", "naimi-trehel", "--sites", "4", "--entries", "1"];
    let [full, alike] =
        [&[][..], &["--symmetry"]].map(|more| json(0, &[&run[..], more, &["--json"]].concat()));
    assert_eq!((&alike["symmetries"], &full["symmetries"]), (&6.into(), &serde_json::Value::Null));
    let states = |found: &Value| found["states"].as_u64().expect("a number");
    assert!(states(&alike) < states(&full) / 5, "{} of {}", states(&alike), states(&full));
    let text = output(0, &[&run[..], &["--symmetry", "--reduce"]].concat());
    assert!(
        text.contains("one state was kept of those that 6 permutations of the sites make of each other"),
        "{text}"
    );
    let text = output(0, &["check", "token-ring", "--symmetry"]);
    assert!(
        text.contains("no symmetry was found, so that all states were kept; not a symmetry is S1→S2→S1"),
        "{text}"
    );
}

#[test]
fn bad_input_names_the_flag_and_the_value_and_exits_with_64() {
    for (arguments, says) in [
        (&["check"][..], "check what? Name an algorithm"),
        (&["check", "lamporte"], "unknown algorithm 'lamporte' (did you mean 'lamport'?)"),
        (&["check", "lamport", "--sites", "0"], "--sites 0: from 1 to 16"),
        (&["check", "lamport", "--sites", "17"], "--sites 17: from 1 to 16"),
        (&["check", "lamport", "--entries", "0"], "--entries 0: from 1 to 100, or endless"),
        (&["check", "lamport", "--entries", "many"], "--entries many: from 1 to 100, or endless"),
        (&["check", "lamport", "--network", "lossy"], "--network lossy: one of fifo, unordered, duplicating"),
        (&["check", "lamport", "--permits", "2"], "lamport gives one permit, not 2"),
        (&["check", "raymond-k", "--permits", "22"], "--permits 22: at least 1, and --permits times --sites"),
        (&["check", "lamport", "--holder", "3"], "--holder: site 3 does not exist: the sites are 0 to 2"),
        (&["check", "lamport", "--property", "speed"], "--property speed: one of exclusion, deadlock"),
        (&["check", "lamport", "--memory", "8GB"], "--memory 8GB: give a size such as 512MiB or 8GiB"),
        (&["check", "lamport", "--threads", "0"], "--threads 0: from 1 to 256"),
        (&["check", "raymond", "--recover"], "--recover: nothing fails; give --crashes 1 too"),
        (&["check", "lamport", "--crashes=1", "--recover"], "--recover: lamport leaves the return"),
        (&["check", "lamport", "--crashes", "300"], "300 is not in 0..=255"),
        (&["check", "lamport", "--losses", "200"], "--losses 200: from 0 to 100"),
        (
            &["check", "lamport", "--trace", "/no/such/folder/x"],
            "--trace /no/such/folder/x: cannot be written",
        ),
        (&["check", "all", "--only", "lamporte"], "unknown algorithm 'lamporte'"),
        (&["check", "all", "--only", "lamport:text=printed"], "lamport has no option 'text'"),
        (&["check", "all", "--record", env!("CARGO_MANIFEST_DIR")], "name a file that this command wrote"),
        (&["check", "--assumptions", "nobody"], "unknown algorithm 'nobody'"),
        (&["check", "central", "--symmetry", "--crashes", "1"], "--symmetry: not with failures"),
        (
            &["check", "central", "--symmetry", "--sites", "7"],
            "nor with more than 6 sites; leave the flag out",
        ),
        (
            &["check", "central", "--symmetry", "--property", "bypass"],
            "--property bypass: a search with --symmetry does not decide it",
        ),
        (
            &["check", "central", "--reduce", "--property", "starvation"],
            "--property starvation: a search with --reduce does not decide it",
        ),
        (&["check", "lamport", "--assumptions", "lamport"], "cannot be used with"),
        (&["check", "--assumptions", "lamport", "--sites", "2"], "cannot be used with"),
    ] {
        let output = meshlock(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "nothing on stdout but results");
    }
}
