//! The code compared with the models.

use meshlock_check::{Bounds, Properties, Property, explore_spec};
use meshlock_proof::models::{self, Covered};
use meshlock_proof::tie::TieReport;
use meshlock_protocol::Spec;
use meshlock_protocol::registry::info::Channels;

/// Compares all runs, and makes sure that the code takes every action of the model in one of them.
fn agrees(name: &str) {
    let covered = models::find(name).expect("a model");
    let mut taken = vec![0; covered.model().actions.len()];
    for run in covered.runs {
        let report = covered.compare(run).unwrap_or_else(|why| panic!("{name}, {run:?}: {why}"));
        taken.iter_mut().zip(&report.taken).for_each(|(all, some)| *all += some);
    }
    for (action, taken) in covered.model().actions.iter().zip(taken) {
        let is_untaken = covered.untaken.contains(&action.name.as_str());
        assert_eq!(
            taken == 0,
            is_untaken,
            "{name}: {taken} steps of the code are the action {}",
            action.name
        );
    }
}

#[test]
fn every_step_of_central_is_an_action_of_its_model() {
    agrees("central");
}

#[test]
fn every_step_of_lamport_is_an_action_of_its_model() {
    agrees("lamport");
}

#[test]
fn every_step_of_naimi_trehel_is_an_action_of_its_model() {
    agrees("naimi-trehel");
}

#[test]
fn every_step_of_ricart_agrawala_is_an_action_of_its_model() {
    agrees("ricart-agrawala");
}

#[test]
fn every_step_of_suzuki_kasami_is_an_action_of_its_model() {
    agrees("suzuki-kasami");
}

#[test]
fn every_step_of_token_ring_is_an_action_of_its_model() {
    agrees("token-ring");
}

#[test]
fn every_step_of_the_quorum_algorithms_is_an_action_of_their_model() {
    agrees("maekawa");
}

#[test]
fn every_step_of_sanders_is_an_action_of_its_model() {
    agrees("sanders");
}

#[test]
fn every_step_of_carvalho_roucairol_is_an_action_of_its_model() {
    agrees("carvalho-roucairol");
}

#[test]
fn every_step_of_singhal_dynamic_is_an_action_of_its_model() {
    agrees("singhal-dynamic");
}

#[test]
fn every_step_of_bulgannawar_vaidya_is_an_action_of_its_model() {
    agrees("bulgannawar-vaidya");
}

#[test]
fn every_step_of_raymond_is_an_action_of_its_model() {
    agrees("raymond");
}

#[test]
fn every_step_of_raymond_k_is_an_action_of_its_model() {
    agrees("raymond-k");
}

#[test]
fn every_step_of_srimani_reddy_is_an_action_of_its_model() {
    agrees("srimani-reddy");
}

/// A visit that missed states would prove nothing.
#[test]
fn a_visit_sees_as_many_states_as_the_explorer() {
    for covered in models::ALL {
        let Covered { name, .. } = covered;
        let run = &covered.runs[1];
        let spec: Spec = run.spec.unwrap_or(name).parse().expect("a registered algorithm with its options");
        let mut bounds = Bounds::new(run.sites, run.entries).with_permits(run.permits);
        if spec.info.channels == Channels::Unordered {
            bounds = bounds.unordered();
        }
        if let Some(inside) = run.inside {
            bounds = bounds.held_by(&[inside]).expect("one site");
        }
        let bounds = bounds.checking(Properties::all().without(Property::Fences));
        let explored = explore_spec(&spec, &bounds);
        let TieReport { states, steps, .. } = covered.compare(run).expect("they agree");
        assert_eq!((states, steps), (explored.states, explored.edges), "{name}");
    }
}
