//! The program as people run it, with a tenth of the work.

use std::process::{Command, Output};
use std::time::Duration;

use meshlock_testing::BoundedCommand;

/// Runs it. The program `meshlock` stands beside it once the whole workspace is built.
fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_meshlock-bench")).args(arguments).output_within(Duration::from_mins(8))
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = bench(arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one document")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn bench_measures_ours_side_by_side_with_the_same_checks() {
    // A measurement whose counter has lost something, or whose fences do not grow, ends in an error.
    let report =
        json(&["--quick", "--peers", "none", "--json", "--only", "uncontended,socket,contended,many"]);
    assert!(report["machine"]["cores"].as_u64() > Some(0), "{report}");
    let sides = report["side_by_side"].as_array().expect("a list");
    assert_eq!(sides.len(), 4, "the library, the processes by socket and by API, the central server");
    for side in sides {
        assert!(side["uncontended"].as_f64() > Some(0.0), "{side}");
        assert!(side["many_locks"].as_f64() > Some(0.0), "{side}");
        let contended = side["contended"].as_array().expect("a list");
        let clients: Vec<u64> = contended.iter().filter_map(|run| run[0].as_u64()).collect();
        assert_eq!(clients, [3, 8, 24, 50]);
        assert!(contended.iter().all(|run| run[1].as_f64() > Some(0.0)), "{side}");
    }
    let goals = report["goals"].as_array().expect("a list");
    assert!(goals.iter().any(|goal| goal["reference"]["what"] == "smallest central server, TCP"), "{report}");
}

#[test]
fn bench_runs_the_workload_with_every_popularity_and_hold_time() {
    let report = json(&["--quick", "--peers", "none", "--json", "--only", "workload"]);
    assert!(report["bare_round_trip"].as_f64() > Some(0.0), "{report}");
    assert!(report["side_by_side"].as_array().is_some_and(Vec::is_empty), "nothing else is measured");
    let rows = report["workload"].as_array().expect("a list");
    let workload = |row: &serde_json::Value| (row["popularity"].to_string(), row["held_micros"].as_u64());
    let workloads: Vec<_> = rows.chunks(3).map(|rows| workload(&rows[0])).collect();
    let [uniform, zipf] = ["\"uniform\"", "\"Zipf 0.99\""].map(str::to_owned);
    let expected =
        [(uniform.clone(), Some(0)), (uniform, Some(20)), (zipf.clone(), Some(0)), (zipf, Some(20))];
    assert_eq!(workloads, expected, "each with the library, the processes and the central server");
    for row in rows {
        let figure = |name: &str| row[name].as_f64().expect("a figure");
        assert!(figure("entries_per_second") > 0.0 && figure("jain") > 0.0, "{row}");
        assert!(
            figure("p50") > 0.0 && figure("p50") <= figure("p99") && figure("p99") <= figure("p999"),
            "{row}"
        );
    }
}

#[test]
fn bench_refuses_a_document_without_a_place_for_its_results() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("document.md");
    std::fs::write(&path, "# Nothing\n").expect("it is written");
    let output = bench(&["--record", path.to_str().expect("a plain name")]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("has no place for the results"), "{}", stderr(&output));
}
