//! The number of threads changes neither the counts nor the violations nor the paths to them.

use meshlock_check::{Bounds, Report, Verdict, explore_spec};
use meshlock_protocol::Spec;
use rayon::ThreadPoolBuilder;

fn on_threads(threads: usize, spec: &Spec, bounds: &Bounds) -> Report {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("a few threads");
    pool.install(|| {
        assert_eq!(rayon::current_num_threads(), threads);
        explore_spec(spec, bounds)
    })
}

/// Explores with one, two and three threads, asserts that the reports are equal, and returns one.
fn same_on_all(spec: &str, bounds: &Bounds) -> Report {
    let spec: Spec = spec.parse().expect("a registered name");
    let told = |report: &Report| {
        let Report {
            verdict,
            states,
            depth,
            edges,
            local_states,
            swept,
            messages,
            bypass,
            withheld,
            passed,
            symmetry,
            path,
            round,
            memory: _,
        } = report;
        format!(
            "{verdict:?} {states} {depth} {edges} {local_states} {swept:?} {messages:?} {bypass:?} {withheld:?} {passed:?} {symmetry:?} {path:?} {round:?}"
        )
    };
    let alone = on_threads(1, &spec, bounds);
    for threads in [2, 3] {
        assert_eq!(told(&on_threads(threads, &spec, bounds)), told(&alone), "{spec} on {threads} threads");
    }
    alone
}

#[test]
fn a_spec_that_holds_is_explored_alike_on_any_number_of_threads() {
    let report = same_on_all("suzuki-kasami", &Bounds::new(3, 2).unordered());
    assert_eq!(report.verdict, Verdict::Holds);
    assert!(report.states > 67_719, "with the knowledge of fences there are more states than without");
    assert_eq!(same_on_all("lamport", &Bounds::new(3, 1)).verdict, Verdict::Holds);
    let reduced = same_on_all("suzuki-kasami", &Bounds::new(3, 2).unordered().reduced());
    assert!(reduced.states < report.states / 10, "{} states", reduced.states);
    let alike = same_on_all("naimi-trehel", &Bounds::new(4, 1).unordered().reduced().up_to_symmetry());
    assert_eq!(alike.symmetry.map(|found| found.permutations), Some(6));
}

#[test]
fn a_violation_is_found_by_the_same_path_on_any_number_of_threads() {
    let printed = same_on_all("carvalho-roucairol:text=printed", &Bounds::new(3, 2));
    assert_eq!((matches!(printed.verdict, Verdict::Deadlock(_)), printed.path.len()), (true, 21));
    let printed = same_on_all("ricart-agrawala:text=printed", &Bounds::new(3, 2));
    assert!(matches!(printed.verdict, Verdict::Violated(_)), "{:?}", printed.verdict);
}
