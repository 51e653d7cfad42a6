//! The binary as a user runs it.

use std::io::Read;
use std::process::{Command, Output, Stdio};

use meshlock_testing::{BoundedChild, BoundedCommand, eventually, until_readable};
use rustix::process::{Pid, Signal, kill_process};

fn meshlock(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshlock"));
    command.args(arguments).output_in_time()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("output is UTF-8")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = meshlock(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn demo_runs_every_algorithm_and_all_checks_pass() {
    let rows = json(&["demo", "--json"]);
    let rows = rows.as_array().expect("a row an algorithm");
    assert_eq!(rows.len(), meshlock_protocol::registry::ALL.len());
    for row in rows {
        assert_eq!(row["entries"], 100, "{row}");
        assert_eq!(row["violation"], serde_json::Value::Null, "{row}");
    }
}

#[test]
fn the_same_seed_gives_the_same_output() {
    let run = |seed| stdout(&meshlock(&["demo", "--seed", seed]));
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn algorithms_lists_each_one_and_shows_each_in_detail() {
    let table = stdout(&meshlock(&["algorithms"]));
    for info in meshlock_protocol::registry::ALL {
        assert!(table.contains(info.name), "{} is in the table", info.name);
        let detail = stdout(&meshlock(&["algorithms", info.name]));
        assert!(detail.starts_with(info.name) && detail.contains("Messages"), "{detail}");
        assert_eq!(json(&["algorithms", info.name, "--json"])["name"], info.name);
    }
}

#[test]
fn bad_input_names_the_thing_and_exits_with_64() {
    for (arguments, says) in [
        (
            &["algorithms", "ricart-agrawal"][..],
            "unknown algorithm 'ricart-agrawal' (did you mean 'ricart-agrawala'?)",
        ),
        (&["demo", "--sites", "3", "--permits", "4"], "--permits 4: at most --sites, which is 3"),
        (&["demo", "--sites", "0"], "0 is not in 1..=30"),
        (&["dst", "--seeds", "9..3"], "the second number must be larger"),
        (&["dst", "--seeds", "9"], "give two numbers, as in 0..1000"),
        (&["dst", "--trace", "trace.jsonl"], "--one"),
        (&["dst", "--minutes", "0"], "give a number of minutes above 0, as in 60 or 0.5"),
        (&["dst", "--minutes", "1", "--seeds", "0..9"], "cannot be used with"),
        (&["dst", "--first", "7"], "--minutes"),
        (&["dmeo"], "a similar subcommand exists: 'demo'"),
        (
            &["errata", "suzuki-kasami-step"],
            "unknown erratum 'suzuki-kasami-step' (did you mean 'suzuki-kasami-step-b'?)",
        ),
        (&["errata", "lodha-not-live", "--markdown"], "cannot be used with"),
        (&["prove", "centrl"], "no model of 'centrl' (did you mean 'central'?)"),
        (&["prove", "lease", "--record", "x.md"], "--record writes the document of `all`, or of one model"),
    ] {
        let output = meshlock(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "nothing on stdout but results");
    }
}

#[test]
fn prove_shows_the_table_of_clauses_and_what_was_compared() {
    if !(meshlock_testing::needs_program("z3") && meshlock_testing::needs_program("cvc5")) {
        return;
    }
    let output = meshlock(&["prove", "suzuki-kasami"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for says in ["parked_knows_nobody", "hand_over", "proved for every N in the model; code and model agree"]
    {
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn prove_prints_each_question_with_its_solvers_their_verdicts_and_steps_as_json() {
    if !(meshlock_testing::needs_program("z3") && meshlock_testing::needs_program("cvc5")) {
        return;
    }
    let documents = json(&["prove", "census", "--json"]);
    let [census] = documents.as_array().expect("a list").as_slice() else { panic!("{documents}") };
    assert_eq!((&census["algorithm"], &census["holds"]), (&"census".into(), &true.into()));
    for question in census["questions"].as_array().expect("a list") {
        assert!(question["action"].is_string() && question["clause"].is_string(), "{question}");
        assert_eq!(question["judgement"], "proved");
        assert!(question["counterexample"].is_null());
        let answers = question["answers"].as_array().expect("a list");
        assert_eq!(answers.iter().map(|answer| &answer["solver"]).collect::<Vec<_>>(), ["z3", "cvc5"]);
        for answer in answers {
            assert_eq!(answer["answer"], "impossible");
            assert!(
                answer["steps"].as_u64() < answer["limit"].as_u64() && answer["steps"].is_u64(),
                "{answer}"
            );
        }
    }
    let possible = census["possible"].as_array().expect("a list");
    assert!(possible.iter().all(|found| !found["state"].as_array().expect("a state").is_empty()));
    let file = std::env::temp_dir().join(format!("meshlock-counterexamples-{}.json", std::process::id()));
    let path = file.to_str().expect("a path in UTF-8");
    let wrong = json(&["prove", "census", "--wrong", "--json", "--counterexamples", path]);
    let [first, ..] = wrong.as_array().expect("a list").as_slice() else { panic!("{wrong}") };
    assert_eq!((&first["action"], &first["clause"]), (&"open".into(), &"all_have_stopped".into()));
    assert!(first["counterexample"]["step"].as_str().expect("a step").starts_with("open("), "{first}");
    // The same counterexamples are in the file that the lab draws.
    let written = std::fs::read_to_string(&file).expect("the file");
    std::fs::remove_file(&file).expect("it is ours");
    let written: serde_json::Value = serde_json::from_str(&written).expect("a JSON document");
    let drawn = written["counterexamples"].as_array().expect("a list");
    assert_eq!(drawn.len(), wrong.as_array().expect("a list").len());
    assert_eq!((&drawn[0]["wrong"], &drawn[0]["step"]["action"]), (&first["wrong"], &first["action"]));
    assert!(drawn[0]["before"]["facts"].is_array() && drawn[0]["after"]["messages"].is_array(), "{written}");
}

#[test]
fn a_missing_solver_is_named_with_its_package() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshlock"));
    let output = command.args(["prove", "central"]).env("PATH", "/nonexistent").output_in_time();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot start z3") && stderr(&output).contains("apt-get install z3"));
}

/// What `meshlock` says with this shell script in place of z3, and another one in place of cvc5.
fn with_solvers(arguments: &[&str], z3: &str, cvc5: Option<&str>) -> Output {
    use std::os::unix::fs::PermissionsExt as _;
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("meshlock-solvers-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, script) in [("z3", Some(z3)), ("cvc5", cvc5)] {
        let Some(script) = script else { continue };
        let file = folder.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshlock"));
    let output = command.args(arguments).env("PATH", &folder).output_in_time();
    std::fs::remove_dir_all(&folder).expect("it is ours");
    output
}

/// What `meshlock prove census` says with these solvers, which do not answer everything.
fn proved_by(z3: &str, cvc5: Option<&str>) -> Output {
    let output = with_solvers(&["prove", "census", "--json"], z3, cvc5);
    assert_eq!(stdout(&output), "", "nothing on stdout but results");
    output
}

/// A script that answers the first question so, and proves all others. It knows no small instance of anything.
fn answering(first: &str, steps: &str) -> String {
    format!(
        "PATH=/usr/bin:/bin; exec awk '/_is_0/ {{ small = 1 }} \
         /^\\(check-sat\\)/ {{ print (small || asked++) ? \"unsat\" : \"{first}\" }} /^\\(get-info/ {{ print \"{steps}\" }}'"
    )
}

#[test]
fn what_the_solvers_say_of_a_question_is_put_together_in_table_and_json() {
    for (z3, cvc5, mark, judgement, code) in [
        ("sat", "unsat", "solvers disagree", "contradictory", 1),
        ("unsat", "sat", "solvers disagree", "contradictory", 1),
        ("sat", "unknown", "✗", "refuted", 1),
        ("unknown", "unknown", "?", "open", 2),
        ("unknown", "unsat", "c", "proved", 2),
        ("unsat", "unknown", "z", "proved", 2),
    ] {
        let z3 = answering(z3, "(:rlimit 5)");
        let cvc5 = answering(cvc5, "(:all-statistics ())");
        let table = with_solvers(&["prove", "census"], &z3, Some(&cvc5));
        let what = format!("{judgement}: {}{}", stdout(&table), stderr(&table));
        assert_eq!(table.status.code(), Some(code), "{what}");
        let text = stdout(&table);
        let row = text.lines().find_map(|line| line.split_once(" installed_is_agreed ")).expect("a row");
        assert_eq!(row.1.trim_start().split("  ").next(), Some(mark), "{what}");
        let failure = "not proved: (start), installed_is_agreed\n  no small counterexample to induction";
        assert_eq!(text.contains(failure), judgement != "proved", "{what}");
        // No small instance is found, hence not of what must be possible either.
        assert!(text.contains("a proof about nothing: no small instance of open"), "{what}");
        assert!(text.contains("census: NOT proved: 27 questions"), "{what}");
        let document = with_solvers(&["prove", "census", "--json"], &z3, Some(&cvc5));
        assert_eq!(document.status.code(), Some(code), "{what}");
        let document: serde_json::Value =
            serde_json::from_slice(&document.stdout).expect("one JSON document");
        let (first, second) = (&document[0]["questions"][0], &document[0]["questions"][1]);
        assert_eq!((&first["judgement"], &second["judgement"]), (&judgement.into(), &"proved".into()));
        assert_eq!((&first["counterexample"], &document[0]["holds"]), (&().into(), &false.into()));
    }
}

#[test]
fn wrong_models_are_told_with_the_state_and_the_step_that_break_a_clause() {
    // Nothing is found for what was never asked of a solver that knows nothing.
    let nothing = with_solvers(&["prove", "census", "--wrong"], &answering("unsat", "(:rlimit 5)"), None);
    assert_eq!(nothing.status.code(), Some(1), "{}", stderr(&nothing));
    assert!(
        stdout(&nothing).contains("fails at open, all_have_stopped\n  NO small counterexample to induction")
    );
    if !meshlock_testing::needs_program("z3") {
        return;
    }
    let census = meshlock(&["prove", "census", "--wrong"]);
    assert_eq!(census.status.code(), Some(0), "{}", stderr(&census));
    let text = stdout(&census);
    let (_, told) =
        text.split_once("census: machines start although a census is missing").expect("the first one");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[1], "  fails at open, all_have_stopped");
    assert!(lines[2].starts_with("  in this state: ") && lines[2].contains("installed(site0)"), "{text}");
    assert!(lines[3].starts_with("  open(site") && lines[3].contains(") breaks it: + runs(site"), "{text}");
    let printed = stdout(&meshlock(&["prove", "ricart-agrawala", "--wrong"]));
    assert!(printed.contains("(printed: `meshlock errata lodha-figure-1-highest-seen`)"), "{printed}");
}

#[test]
fn a_solver_that_dies_or_talks_nonsense_is_named_with_what_it_said() {
    // It is started once without questions, to see that it is there.
    let idle = "read first || exit 0; ";
    for (script, says) in [
        ("exit 3", "z3 answered 0 of 27 questions, then exit status: 3, and said: nothing"),
        ("echo 'no such option' >&2; exit 1", "and said: no such option"),
        ("while :; do echo rubbish; done", "was stopped because it made no sense, and said: rubbish"),
        (
            "echo unsat; echo '(:rlimit 5)'; echo unsat; echo '(:rlimit 5)'; kill -9 $$",
            "z3 answered 2 of 27 questions, then signal: 9 (SIGKILL)",
        ),
        ("echo unsat; echo unsat", "z3 answered 0 of 27 questions"),
        ("printf '\\377\\n'", "z3 answered 0 of 27 questions"),
    ] {
        let output = proved_by(&format!("{idle}{script}"), Some("exit 0"));
        assert_eq!(output.status.code(), Some(2), "{script}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{script}: {}", stderr(&output));
    }
    // Answers without the values that they were about.
    let sat = "while read line; do case \"$line\" in '(check-sat)') echo sat;; '(get-info'*) echo '(:rlimit 5)';; \
               '(get-value'*) echo '((site 1';; esac; done";
    let cvc5 = "while read line; do case \"$line\" in '(check-sat)') echo unsat;; '(get-info'*) \
                echo '(:all-statistics ())';; esac; done";
    let output = proved_by(sat, Some(cvc5));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("z3 answered 1 of 1 questions, then exit status: 0, and said: ((site 1")
    );
    // The second one is missing: that is said before the first one is asked.
    let output = proved_by(&format!("{idle}echo unasked >&2"), None);
    assert!(stderr(&output).contains("cannot start cvc5") && !stderr(&output).contains("unasked"));
}

#[test]
fn dst_passes_reports_what_it_exercised_and_records_a_seed() {
    let summary = json(&["dst", "--seeds", "0..20", "--json"]);
    assert_eq!(summary["seeds"], 20, "{summary}");
    assert_eq!(summary["failure"], serde_json::Value::Null, "{summary}");
    assert!(summary["coverage"].as_array().expect("a list").len() > 20, "{summary}");
    let trace = std::env::temp_dir().join(format!("meshlock-dst-{}.jsonl", std::process::id()));
    let path = trace.to_str().expect("a plain path");
    assert_eq!(json(&["dst", "--one", "3", "--trace", path, "--json"])["seeds"], 1);
    let lines = std::fs::read_to_string(&trace).expect("the trace was written");
    std::fs::remove_file(&trace).expect("it can be removed");
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a JSON object a line");
        assert!(line["kind"].is_string(), "{line}");
    }
}

#[test]
fn dst_goes_on_with_fresh_seeds_until_its_minutes_are_over_and_says_which_they_were() {
    let summary = json(&["dst", "--minutes", "0.0001", "--first", "5", "--json"]);
    let (from, to) = (&summary["range"]["from"], &summary["range"]["to"]);
    assert_eq!((from, summary["failure"].is_null()), (&5.into(), true), "{summary}");
    assert_eq!(summary["seeds"].as_u64(), to.as_u64().map(|to| to - 5), "{summary}");
    let drawn = meshlock(&["dst", "--minutes", "0.0001"]);
    let said = stderr(&drawn);
    let first = said.split("the first seed is ").nth(1).and_then(|rest| rest.split(';').next());
    let first: u64 = first.expect("it is said").parse().expect("a number");
    assert!(stdout(&drawn).contains(&format!("meshlock dst --seeds {first}..")), "{said}");
}

#[test]
fn an_interrupted_run_of_seeds_shows_what_was_done() {
    let command = &mut Command::new(env!("CARGO_BIN_EXE_meshlock"));
    command.args(["dst", "--seeds", "0..100_000_000"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("meshlock starts");
    let pid = Pid::from_child(&child).as_raw_nonzero();
    // SIGINT is bit 1 of the mask. Before the command watches for it, it would just end the process.
    eventually("SIGINT is watched for", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask");
        u64::from_str_radix(blocked.trim(), 16).expect("a number") & 0b10 != 0
    });
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.output_in_time();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains(" seeds hold: ") && text.contains("of the 100000000 seeds"), "{text}");
}

#[test]
fn an_erratum_is_shown_with_its_counterexample_and_a_check_of_its_repair() {
    let text = stdout(&meshlock(&["errata", "suzuki-kasami-step-b"]));
    assert!(text.starts_with("## suzuki-kasami-step-b") && text.contains("waits for ever"), "{text}");
    let anew = stdout(&meshlock(&["errata", "suzuki-kasami-step-b", "--verify"]));
    assert!(text.starts_with(&anew), "what is recorded is what is found:\n{text}\n{anew}");
    let recorded = json(&["errata", "suzuki-kasami-step-b", "--json"]);
    let found = json(&["errata", "suzuki-kasami-step-b", "--verify", "--json"]);
    assert_eq!((&recorded["verified"], &found["verified"]), (&false.into(), &true.into()));
    assert_eq!((&recorded["verdict"], &recorded["steps"]), (&found["verdict"], &found["steps"]));
    assert_eq!(found["verdict"], "confirmed");
    let example = &found["counterexample"];
    assert_eq!(example["property"], "deadlock");
    assert_eq!(example["steps"], example["trace"].as_array().expect("a line a step").len());
    assert!(found["explored"].as_array().expect("runs").iter().all(|run| run["holds"] == true));
    assert_eq!(json(&["errata", "sanders-d-misprint", "--verify", "--json"])["verdict"], "confirmed");
    assert_eq!(json(&["errata", "lamport-fifo-not-needed", "--verify", "--json"])["verdict"], "refuted");
}

#[test]
fn the_list_of_errata_shows_the_recorded_verdicts_without_exploring() {
    let list = json(&["errata", "--json"]);
    let list = list.as_array().expect("a list");
    assert!(list.len() > 30 && list.iter().all(|erratum| erratum["verified"] == false), "{list:?}");
    let text = stdout(&meshlock(&["errata"]));
    assert!(text.contains("lodha-not-live") && text.contains("meshlock errata --verify"), "{text}");
}

#[test]
fn a_closed_pipe_is_success() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_meshlock"))
        .args(["algorithms", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdout.take().expect("stdout is piped");
    let mut first = [0_u8; 1];
    until_readable("something is written", &pipe);
    pipe.read_exact(&mut first).expect("something is written");
    drop(pipe);
    assert_eq!(child.wait_in_time().code(), Some(0));
}
