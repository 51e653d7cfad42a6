//! The golden file of explorations, `docs/CHECKED.md`: every small row of it is compared with a model, or there is a reason why it cannot be.

use meshlock_check::Entries;
use meshlock_check::matrix::{self, Case, CaseRecord};
use meshlock_proof::models::{self, Covered};
use meshlock_proof::tie::{TieBreak, TieRun};

/// Why rows are left out.
struct Excuse {
    reason: &'static str,
    covers: fn(&Case) -> bool,
}

/// Rows of algorithms that are not compared.
const EXCUSED: &[Excuse] = &[
    Excuse {
        reason: "makki is proved, and not tied: no state of a site says which permit is where",
        covers: |case| case.algorithm() == "makki",
    },
    Excuse {
        reason: "the algorithm has no model",
        covers: |case| models::WITHOUT.iter().any(|(name, _)| *name == case.algorithm()),
    },
    Excuse {
        reason: "`omit-replies` is not in the model",
        covers: |case| has_option(case, &["omit-replies"]),
    },
    Excuse {
        reason: "the model of lodha-kshemkalyani is of the default",
        covers: |case| has_option(case, &["combined-exit", "keep-deferred", "sequence-on-all"]),
    },
    Excuse {
        reason: "`count=entries`, `adaptive` and `focused` are not in the model",
        covers: |case| has_option(case, &["count=entries", "adaptive", "focused"]),
    },
    Excuse {
        reason: "how long a chain is, and a K-th of a queue, are numbers that the model of delegated cannot say",
        covers: |case| is_delegated(case) && (case.permits > 1 || case.spec.contains("chain=")),
    },
    Excuse {
        reason: "the models know exclusive requests only, of sites that do not say what they want to share",
        covers: |case| has_option(case, &["modes"]),
    },
    Excuse {
        reason: "in delegated the request of a process that returns rides on the permit, a message that the model does not have",
        covers: |case| is_delegated(case) && case.returns,
    },
    Excuse {
        reason: "with as many permits as sites nobody asks anybody, and raymond-k does not do what it else does",
        covers: |case| case.algorithm() == "raymond-k" && case.permits >= case.sites,
    },
];

fn is_delegated(case: &Case) -> bool {
    case.algorithm() == "delegated"
}

/// Whether one of these options is given.
fn has_option(case: &Case, options: &[&str]) -> bool {
    let given = case.spec.split_once(':').map_or("", |(_, given)| given);
    given.split(',').any(|given| options.contains(&given))
}

/// The rows that are held against models: the small ones of full searches without crashes, in which each site requests a number of times.
fn rows() -> Vec<Case> {
    let recorded =
        matrix::read(include_str!("../../../../docs/CHECKED.md")).expect("as the command writes it");
    let rows = recorded.into_iter().filter(CaseRecord::is_small).map(|record| record.case);
    rows.filter(|case| !case.reduces && case.crashes == 0 && case.entries != Entries::Endless).collect()
}

/// Whether a run that is compared whole is this row.
fn is_of(covered: &Covered, run: &TieRun, case: &Case) -> bool {
    (covered.spec(run), run.most_states) == (&case.spec, usize::MAX)
        && (run.sites, Entries::Each(run.entries), run.permits) == (case.sites, case.entries, case.permits)
        && (run.inside, run.returns) == (case.holder, case.returns)
}

#[test]
fn every_small_run_of_the_golden_file_is_compared_with_its_model_or_excused() {
    let rows = rows();
    assert!(rows.len() > 260, "only {} rows are looked at", rows.len());
    for case in &rows {
        let is_tied = models::find(case.algorithm()).is_some_and(|covered| {
            covered.runs().iter().chain(&covered.long_runs()).any(|run| is_of(covered, run, case))
        });
        let excuses: Vec<&str> =
            EXCUSED.iter().filter(|excuse| (excuse.covers)(case)).map(|excuse| excuse.reason).collect();
        assert!(is_tied || !excuses.is_empty(), "{case:?} is neither compared with a model nor excused");
        assert!(!is_tied || excuses.is_empty(), "{case:?} is compared, although {excuses:?}");
    }
    for Excuse { reason, covers } in EXCUSED {
        assert!(rows.iter().any(covers), "no row needs the excuse that {reason}");
    }
}

#[test]
fn what_is_listed_as_of_the_golden_file_is_in_it() {
    let rows = rows();
    for covered in models::ALL {
        for (spec, runs) in covered.golden.iter().chain(covered.long_golden) {
            for run in *runs {
                let run = TieRun { spec: Some(spec), ..*run };
                assert!(rows.iter().any(|case| is_of(covered, &run, case)), "{run:?} is no small row");
            }
        }
    }
}

/// A message that carries two things is more than leaving and then asking.
#[test]
fn a_request_that_rides_on_a_permit_is_no_action_of_the_model() {
    let covered = models::find("delegated").expect("a model");
    let run = TieRun { returns: true, ..covered.small[1] };
    let TieRun { sites, entries, .. } = run;
    assert_eq!((sites, entries), (2, 2));
    assert!(covered.compare(&TieRun { returns: false, ..run }).is_ok());
    let differs = covered.compare(&run).expect_err("the request rides");
    assert!(matches!(differs, TieBreak::Step { .. }), "{differs}");
}
