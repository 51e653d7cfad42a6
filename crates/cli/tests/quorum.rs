//! `meshlock quorum` as a user runs it: build, check, analyse.

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use meshlock_testing::{BoundedChild, BoundedCommand, until_readable};

fn start(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshlock"));
    command.arg("quorum").args(arguments);
    command
}

fn quorum(arguments: &[&str]) -> Output {
    start(arguments).output_in_time()
}

/// Runs the command with `input` on standard input.
fn quorum_reading(input: &str, arguments: &[&str]) -> Output {
    let mut command = start(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.output_in_time()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("output is UTF-8")
}

/// Runs a command, asserts that it succeeds, and returns its output.
fn succeeds(arguments: &[&str]) -> String {
    let output = quorum(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    stdout(&output)
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("one JSON document")
}

/// Runs an invalid command, and returns its error message.
fn refused(arguments: &[&str]) -> String {
    let output = quorum(arguments);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(64), ""), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn check_and_analyse_read_the_output_of_build() {
    let constructions: [&[&str]; 8] = [
        &["plane", "--order", "3"],
        &["folded", "--sites", "10"],
        &["grid", "--sites", "10"],
        &["tree", "--sites", "15"],
        &["tree", "--sites", "7", "--all"],
        &["majority", "--sites", "5"],
        &["majority", "--sites", "5", "--all"],
        &["votes", "--votes", "3,1,1,1"],
    ];
    for construction in constructions {
        for form in [&[][..], &["--json"]] {
            let built = succeeds(&[&["build"], construction, form].concat());
            for command in ["check", "analyse"] {
                let output = quorum_reading(&built, &[command, "-"]);
                assert_eq!(output.status.code(), Some(0), "{construction:?}: {}", stderr(&output));
            }
        }
    }
}

#[test]
fn the_text_of_a_family_is_one_set_a_line() {
    let text = succeeds(&["build", "plane", "--order", "2"]);
    assert_eq!(
        text,
        "# projective plane of order 2: 7 sites, 7 sets\nsites 7\n\
         0.1.3\n1.2.4\n2.3.5\n3.4.6\n0.4.5\n1.5.6\n0.2.6\n"
    );
    let document = json(&succeeds(&["build", "votes", "--votes", "3,1,1,1", "--json"]));
    assert_eq!(document["sets"], serde_json::json!([[0, 1], [0, 2], [0, 3]]));
    assert_eq!(document["sites"], 4);
}

/// Reference: chapter 9, section 9.9.4; sites from 0 here.
#[test]
fn a_tree_quorum_avoids_failed_sites_and_reports_when_none_is_left() {
    let text = succeeds(&["build", "tree", "--sites", "15", "--failed", "2"]);
    assert!(text.contains("\n0.5.6.11.13\n") && text.lines().count() == 10, "{text}");
    let output = quorum(&["build", "tree", "--sites", "15", "--failed", "0,1,3,7"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "meshlock: no quorum can be formed when the sites {0,1,3,7} have failed\n");
}

#[test]
fn check_exits_1_and_names_the_sets_when_what_is_required_does_not_hold() {
    // The chapter's example of section 9.7.
    let output = quorum_reading("1.2.3\n2.5.7\n5.7.9\n", &["check", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("set 0 {1,2,3} and set 2 {5,7,9} have no site in common"));
    let not_minimal = "1.2.3\n1.3\n";
    assert_eq!(quorum_reading(not_minimal, &["check", "-"]).status.code(), Some(0));
    let output = quorum_reading(not_minimal, &["check", "-", "--require", "coterie", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let document = json(&stdout(&output));
    assert_eq!(document["holds"], false);
    assert_eq!(document["checks"][1]["why_not"], "set 0 {1,2,3} contains set 1 {1,3}");
    assert_eq!(document["checks"][1]["offending_sets"], serde_json::json!([0, 1]));
}

#[test]
fn check_knows_maekawas_conditions_and_k_coteries() {
    succeeds(&["check", "plane", "--order", "4", "--require", "maekawa"]);
    assert_eq!(quorum(&["check", "grid", "--sites", "10", "--require", "m3"]).status.code(), Some(1));
    let two_at_once = ["check", "votes", "--votes", "1,1,1,1,1", "--quota", "2", "--k", "2"];
    succeeds(&two_at_once);
    assert_eq!(quorum(&two_at_once[..6]).status.code(), Some(1), "they do not all meet");
}

#[test]
fn analyse_prints_the_known_figures_of_a_projective_plane() {
    let figures = json(&succeeds(&["analyse", "plane", "--order", "3", "--json"]));
    assert_eq!(figures["sites_asked"]["most"], 4);
    assert_eq!(figures["messages_alone"]["most"], 9);
    assert_eq!(figures["failures_survived"], serde_json::json!({ "at_least": 3, "at_most": 3 }));
    let load = figures["load"]["best"].as_f64().expect("a number");
    assert!((load - 4.0 / 13.0).abs() < 1e-9);
    assert_eq!(figures["load"]["of_sites"].as_array().map(Vec::len), Some(13));
    assert_eq!(figures["availability"]["method"], "subsets");
    assert_eq!(figures["availability"]["points"].as_array().map(Vec::len), Some(8));
}

#[test]
fn analyse_reports_how_it_computed_the_availability() {
    let text = |arguments: &[&str]| succeeds(&[&["analyse"], arguments].concat());
    assert!(text(&["grid", "--sites", "16"]).ends_with("exact, from all subsets of the sites\n"));
    assert!(text(&["tree", "--sites", "31"]).ends_with("exact, by inclusion and exclusion\n"));
    assert!(
        text(&["tree", "--sites", "1000", "--all"]).ends_with("exact, by the rule of the construction\n")
    );
    let sampled = ["folded", "--sites", "40", "--samples", "500", "--seed", "7"];
    assert!(text(&sampled).ends_with("from 500 samples of seed 7; ± at 95 % confidence\n"));
    assert_eq!(text(&sampled), text(&sampled));
}

#[test]
fn analyse_warns_of_sets_that_are_no_quorums() {
    let output = quorum_reading("0.1\n2.3\n", &["analyse", "-", "--down", "0.5"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stdout(&output).contains("These are no quorums: set 0 {0,1} and set 1 {2,3} have no site in common.")
    );
    let votes = succeeds(&["analyse", "votes", "--votes", "1,1,1,1", "--quota", "2"]);
    assert!(votes.contains("These are no quorums: set 0 {0,1} and set 5 {2,3}"), "{votes}");
}

#[test]
fn pictures_are_drawn_into_a_file() {
    let folder = std::env::temp_dir().join(format!("meshlock-quorum-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let commands: [&[&str]; 4] = [
        &["build", "grid", "--sites", "10"],
        &["build", "tree", "--sites", "15", "--failed", "2"],
        &["check", "plane", "--order", "3"],
        &["analyse", "majority", "--sites", "5", "--all"],
    ];
    for (at, command) in commands.into_iter().enumerate() {
        let path = folder.join(format!("{at}.svg"));
        let path_text = path.to_str().expect("UTF-8");
        succeeds(&[command, &["--svg", path_text]].concat());
        let picture = std::fs::read_to_string(&path).expect("it was drawn");
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
    assert!(refused(&["build", "grid", "--sites", "4", "--svg", "/no/such/folder/x.svg"]).contains("--svg"));
}

#[test]
fn invalid_arguments_are_rejected_with_a_valid_example() {
    assert!(refused(&["build", "plane", "--order", "6"]).contains("a power of a prime"));
    assert!(refused(&["build", "grid", "--sites", "0"]).contains("at least one"));
    assert!(refused(&["analyse", "majority", "--all", "--sites", "99999999999"]).contains("at most 10303"));
    let no_site = refused(&["build", "tree", "--sites", "3", "--failed", "4000000000"]);
    assert!(no_site.contains("site 4000000000 does not exist: the sites are 0 to 2"), "{no_site}");
    assert!(refused(&["build", "votes", "--votes", "1,2", "--quota", "9"]).contains("from 1 to 3"));
    let thousands = vec!["1"; 5_000].join(",");
    assert!(refused(&["build", "votes", "--votes", &thousands]).contains("more than 500000 sets"));
    assert!(refused(&["build", "majority", "--sites", "40", "--all"]).contains("500000 sets"));
    assert!(refused(&["check"]).contains("give a file of sets"));
    assert!(refused(&["check", "/no/such/file"]).contains("cannot read /no/such/file"));
    assert!(refused(&["analyse", "-", "--down", "2"]).contains("a number from 0 to 1"));
    let empty = quorum_reading("# nothing\n", &["check", "-"]);
    assert_eq!(empty.status.code(), Some(64));
    assert_eq!(
        stderr(&empty),
        "meshlock: standard input: no sets; write one a line, sites joined by '.': 0.1\n"
    );
    let garbage = quorum_reading("{\"sets\": 3}", &["check", "-"]);
    assert_eq!(garbage.status.code(), Some(64));
    assert_eq!(quorum_reading("0.x", &["analyse", "-"]).status.code(), Some(64));
    assert_eq!(quorum_reading("{\"sets\": [[0], []]}", &["check", "-"]).status.code(), Some(64));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut command = start(&["build", "plane", "--order", "31"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let (mut first, mut pipe) = ([0; 10], child.stdout.take().expect("it is piped"));
    until_readable("it writes", &pipe);
    pipe.read_exact(&mut first).expect("it writes");
    drop(pipe);
    let output = child.output_in_time();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}
