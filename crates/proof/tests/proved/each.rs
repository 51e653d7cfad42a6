//! One test for each model and each kind of statement, so that they run side by side and a failure names the model.

use std::collections::BTreeSet;

use meshlock_proof::models;

/// A test for each of these models, which hands the model's name to `check`.
macro_rules! tests {
    ($statement:ident, $check:path: $($test:ident = $name:literal)*) => {
        mod $statement {
            $(
                #[test]
                fn $test() {
                    $check($name);
                }
            )*
        }
    };
}

/// The tests of every model; `soak` asks for the proofs that take longest.
macro_rules! every_model {
    (in ci { $($short:ident = $short_name:literal)* } in soak { $($long:ident = $long_name:literal)* }) => {
        const NAMES: &[&str] = &[$($short_name,)* $($long_name,)*];
        tests! { every_step_is_an_action_and_the_document_says_so, crate::ties::code_agrees:
            $($short = $short_name)* $($long = $long_name)* }
        tests! { every_mutant_breaks_the_tie_where_it_is_recorded, crate::mutants::mutants_break_the_tie:
            $($short = $short_name)* $($long = $long_name)* }
        tests! { a_wrong_model_fails_at_a_named_action_and_clause, crate::proofs::wrong_models_fail:
            $($short = $short_name)* $($long = $long_name)* }
        tests! { both_solvers_prove_everything, crate::proofs::both_solvers_prove: $($short = $short_name)* }
    };
}

every_model! {
    in ci {
        ricart_agrawala = "ricart-agrawala"
        suzuki_kasami = "suzuki-kasami"
        central = "central"
        token_ring = "token-ring"
        carvalho_roucairol = "carvalho-roucairol"
        singhal_dynamic = "singhal-dynamic"
    }
    in soak {
        lamport = "lamport"
        quorums = "maekawa"
        sanders = "sanders"
        naimi_trehel = "naimi-trehel"
        lodha_kshemkalyani = "lodha-kshemkalyani"
        singhal_heuristic = "singhal-heuristic"
        raymond = "raymond"
        delegated = "delegated"
        raymond_k = "raymond-k"
        srimani_reddy = "srimani-reddy"
        bulgannawar_vaidya = "bulgannawar-vaidya"
        makki = "makki"
        census = "census"
    }
}

#[test]
fn every_algorithm_has_a_model_or_a_reason_why_not() {
    for info in meshlock_protocol::registry::ALL {
        let excused = models::WITHOUT.iter().any(|(name, _)| *name == info.name);
        assert_ne!(models::find(info.name).is_some(), excused, "{}", info.name);
    }
}

#[test]
fn every_model_has_its_tests() {
    let all: BTreeSet<&str> = models::all().map(|covered| covered.name).collect();
    assert_eq!(NAMES.iter().copied().collect::<BTreeSet<_>>(), all);
}
