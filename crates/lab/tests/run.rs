//! A run is its setup and its acts: the same address gives the same run, looking back changes nothing, a fork keeps its
//! past.

#![allow(clippy::unwrap_used, reason = "the helpers of tests end a test that cannot go on, as tests do")]

use std::collections::BTreeMap;

use meshlock_lab::lamps::Light;
use meshlock_lab::run::{End, Run, play};
use meshlock_lab::setup::{Parts, RunSetup, SetupError};
use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::Kind;
use meshlock_sim::draw::Draw;

fn parts(address: &str) -> Parts {
    let pairs = address.split('&').filter_map(|part| part.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<BTreeMap<_, _>>()
}

fn run(address: &str) -> Result<Box<dyn Run>, SetupError> {
    play(RunSetup::read(&parts(address))?)
}

/// The moment as the page gets it.
fn moment(run: &dyn Run, step: usize) -> String {
    serde_json::to_string(&run.moment(step)).unwrap()
}

fn broken(run: &dyn Run) -> Vec<&'static str> {
    let lamps = run.moment(run.steps()).lamps;
    lamps.into_iter().filter(|lamp| lamp.light == Light::Broken).map(|lamp| lamp.name).collect()
}

#[test]
fn every_algorithm_plays_under_every_load_and_nothing_breaks() {
    for info in ALL {
        for load in ["closed", "open", "saturated", "once"] {
            let run =
                run(&format!("algo={}&n=5&load={load}&until=600&seed=3&delay=wild", info.name)).unwrap();
            assert_eq!(broken(&*run), [""; 0], "{} under {load}", info.name);
            assert!(run.moment(run.steps()).counters.entries >= 5, "{} under {load}", info.name);
        }
    }
}

#[test]
fn looking_back_and_forth_returns_to_the_same_state() {
    let run = run("algo=maekawa&n=7&load=saturated&until=5000&seed=9").unwrap();
    let visits = [0, 4999, 1, 2047, 2048, 2049, 17, 5000, 0, 2048];
    let first: Vec<String> = visits.iter().map(|&step| moment(&*run, step)).collect();
    let again: Vec<String> = visits.iter().rev().map(|&step| moment(&*run, step)).collect();
    assert!(first.iter().eq(again.iter().rev()));
}

#[test]
fn the_same_address_gives_the_same_run_and_a_fork_keeps_its_past() {
    let address = "algo=raymond&n=6&until=300&seed=4";
    let (one, other) = (run(address).unwrap(), run(address).unwrap());
    let text = |run: &dyn Run| serde_json::to_string(&run.columns()).unwrap();
    assert_eq!(text(&*one), text(&*other));
    let fork = run(&format!("{address}&acts=120f3")).unwrap();
    assert_eq!(moment(&*one, 120), moment(&*fork, 120));
    assert_ne!(moment(&*one, 121), moment(&*fork, 121));
    assert_eq!(fork.moment(121).sites[3].phase, "failed");
}

#[test]
fn an_impossible_act_ends_the_run_with_the_reason() {
    for (acts, steps, why) in [
        ("0x1", 0, "S1 cannot release: its process is not inside"),
        ("0q1.q1", 1, "S1 cannot request: its process waits, is inside, or has failed"),
        ("0d0-1", 0, "no message number 0 is on its way from S0 to S1"),
        ("0q9", 0, "there is no site 9"),
        ("0c1-1", 0, "the network is not in a state for that: no link joins a site to itself"),
        (
            "0f1.v1",
            1,
            "ricart-agrawala leaves the return of failed sites to its host; a Meshlock node starts it again with the next view",
        ),
    ] {
        let run = run(&format!("algo=ricart-agrawala&n=3&load=hand&until=9&acts={acts}")).unwrap();
        let End::Refused(refusal) = run.end() else { panic!("{acts}: {:?}", run.end()) };
        assert_eq!((run.steps(), refusal.to_string().as_str()), (steps, why), "{acts}");
    }
}

#[test]
fn a_message_can_be_delivered_early_delayed_dropped_and_held_by_a_cut() {
    let at = |acts: &str, until: usize| {
        run(&format!("algo=central&n=3&load=hand&until={until}&acts={acts}")).unwrap()
    };
    // S1 and S2 ask the coordinator S0; S2's request is delivered first.
    assert_eq!(at("0q1.q2.d2-0.d1-0", 9).moment(5).sites[2].phase, "inside");
    // Delayed by 5 T it comes after the other.
    let delayed = at("0q1.q2.t1-0-0-50", 5);
    assert_eq!(delayed.moment(5).sites[2].phase, "inside");
    let dropped = at("0q1.l1-0", 9);
    assert_eq!(dropped.end(), &End::Nothing);
    let lamp = |run: &dyn Run| {
        run.moment(run.steps()).lamps.into_iter().find(|lamp| lamp.name == "deadlock").unwrap()
    };
    assert_eq!(lamp(&*dropped).light, Light::Watch, "{}", lamp(&*dropped).why);
    let cut = at("0q1.c0-1", 9);
    assert_eq!((cut.steps(), cut.moment(2).pending.len()), (2, 1));
    assert_eq!(at("0q1.c0-1.m0-1", 9).moment(9).sites[1].phase, "inside");
}

/// One thing that a person might do, possible or not; with or without faults.
fn some_act(draw: &mut Draw, faults: bool) -> String {
    let (a, b) = (draw.below(4), draw.below(4));
    match draw.below(if faults { 12 } else { 5 }) {
        0 => format!("q{a}"),
        1 => format!("x{a}"),
        2..5 => format!("d{a}-{b}"),
        5 => format!("l{a}-{b}"),
        6 => format!("u{a}-{b}"),
        7 => format!("f{a}"),
        8 => format!("v{a}"),
        9 => format!("s{a}"),
        10 => "h".to_owned(),
        _ => format!("n{a}-{b}"),
    }
}

#[test]
fn whatever_a_person_does_nothing_panics_and_nothing_is_broken_without_a_fault() {
    for info in ALL {
        let mut draw = Draw::new(11);
        for faults in [false, true] {
            let mut acts: Vec<String> = Vec::new();
            let play = |acts: &[String], until: usize| {
                run(&format!("algo={}&n=4&load=hand&until={until}&acts=0{}", info.name, acts.join(".")))
                    .unwrap()
            };
            for _ in 0..250 {
                acts.push(some_act(&mut draw, faults));
                // Only what is possible goes on.
                if matches!(play(&acts, acts.len()).end(), End::Refused(_)) {
                    acts.pop();
                }
            }
            let played = play(&acts, acts.len() + 200);
            // Where sites fail, all of them may soon have.
            let least = if faults { 8 } else { 20 };
            assert!(played.steps() > least, "{}: {}", info.name, acts.join("."));
            if !faults {
                assert_eq!(broken(&*played), [""; 0], "{}: {}", info.name, acts.join("."));
            }
        }
    }
}

#[test]
fn a_waiting_site_shows_whose_permissions_are_missing_and_arrows_lead_to_sites() {
    for info in ALL {
        let run = run(&format!("algo={}&n=5&load=saturated&until=150&seed=6", info.name)).unwrap();
        let mut waited = 0;
        for step in 0..=run.steps() {
            for (at, site) in run.moment(step).sites.iter().enumerate() {
                let waits = site.phase == "waiting";
                waited += usize::from(waits);
                assert!(waits || site.waits_for.is_empty(), "{} S{at} at {step}", info.name);
                assert!(site.pointers.iter().all(|pointer| pointer.to < 5), "{} S{at} at {step}", info.name);
                if info.kind != Kind::Token {
                    assert_eq!(waits, !site.waits_for.is_empty(), "{} S{at} at {step}: {site:#?}", info.name);
                }
            }
        }
        assert!(waited > 100, "{}", info.name);
    }
}

#[test]
fn the_trace_has_the_one_format_and_both_ends_of_every_message() {
    let run = run("algo=suzuki-kasami&n=4&until=400").unwrap();
    let mut text = Vec::new();
    run.write_trace(&mut text).unwrap();
    let lines: Vec<meshlock_sim::trace::Written> = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let count = |kind: &str| lines.iter().filter(|line| line.kind.name() == kind).count();
    let last = run.moment(run.steps());
    assert_eq!(count("send") as u64, last.counters.messages);
    assert_eq!(count("send") - count("receive"), last.pending.len());
    assert_eq!(count("enter"), last.counters.entries);
}
