//! A run is its setup and its acts: the same address gives the same run, looking back changes nothing, a fork keeps its
//! past.

#![allow(clippy::unwrap_used, reason = "the helpers of tests end a test that cannot go on, as tests do")]

mod addresses;

use std::collections::BTreeMap;

use addresses::parts;
use meshlock_lab::gallery::erratum;
use meshlock_lab::lamps::Light;
use meshlock_lab::run::{End, Run, play};
use meshlock_lab::setup::{RunSetup, SetupError};
use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::Kind;
use meshlock_sim::draw::Draw;
use serde_json::Value;

fn run(address: &str) -> Result<Box<dyn Run>, SetupError> {
    play(RunSetup::read(&parts(address))?)
}

/// The moment as the page gets it.
fn moment(run: &dyn Run, step: usize) -> String {
    serde_json::to_string(&*run.moment(step)).unwrap()
}

fn broken(run: &dyn Run) -> Vec<&'static str> {
    let moment = run.moment(run.steps());
    moment.lamps.iter().filter(|lamp| lamp.light == Light::Broken).map(|lamp| lamp.name).collect()
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
        run.moment(run.steps()).lamps.iter().find(|lamp| lamp.name == "deadlock").unwrap().clone()
    };
    assert_eq!(lamp(&*dropped).light, Light::Watch, "{}", lamp(&*dropped).why);
    let cut = at("0q1.c0-1", 9);
    assert_eq!((cut.steps(), cut.moment(2).pending.len()), (2, 1));
    assert_eq!(at("0q1.c0-1.m0-1", 9).moment(9).sites[1].phase, "inside");
}

#[test]
fn the_lamp_of_the_bypass_bound_breaks_with_the_entry_that_is_one_too_many_and_is_dark_after_a_fault() {
    let lamp = |run: &dyn Run, step: usize| {
        run.moment(step).lamps.iter().find(|lamp| lamp.name == "bypass").unwrap().clone()
    };
    let address = erratum("singhal-heuristic-twice").unwrap().address.unwrap();
    let twice = run(&address).unwrap();
    let last = twice.steps();
    assert_eq!(lamp(&*twice, last - 1).light, Light::Holds);
    assert_eq!(lamp(&*twice, last).light, Light::Broken, "{}", lamp(&*twice, last).why);
    // What ships claims nothing; nor does anyone claim anything of a run with a fault.
    let repaired = run("algo=singhal-heuristic&n=3&until=9").unwrap();
    assert_eq!(lamp(&*repaired, 9).light, Light::Dark);
    let dropped = run("algo=central&n=3&load=hand&until=9&acts=0q1.l1-0").unwrap();
    assert_eq!([1, 2].map(|step| lamp(&*dropped, step).light), [Light::Holds, Light::Dark]);
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

/// What the page makes of the difference between two moments.
fn applied(base: &Value, change: &Value) -> Value {
    let mut next = change.as_object().unwrap().clone();
    let gone = next.remove("gone").unwrap();
    let sites = change["sites"].as_object().unwrap();
    let all = base["sites"].as_array().unwrap().iter().enumerate();
    let all: Vec<&Value> = all.map(|(at, site)| sites.get(&at.to_string()).unwrap_or(site)).collect();
    let number = |message: &Value| message["number"].as_u64().unwrap();
    let due = |message: &Value| message["due"].as_f64().unwrap();
    let kept = base["pending"].as_array().unwrap().iter();
    let kept = kept.filter(|message| !gone.as_array().unwrap().contains(&message["number"]));
    let mut pending: Vec<&Value> = kept.chain(change["pending"].as_array().unwrap()).collect();
    pending.sort_by(|one, other| due(one).total_cmp(&due(other)).then(number(one).cmp(&number(other))));
    next.insert("sites".to_owned(), serde_json::json!(all));
    next.insert("pending".to_owned(), serde_json::json!(pending));
    Value::Object(next)
}

#[test]
fn a_moment_is_the_one_before_with_what_differs() {
    for (address, steps) in [
        ("algo=lamport&n=4&until=80&acts=20c0-1.40m0-1.50f2", vec![0, 1, 2, 30, 31, 45, 44, 51, 52, 70, 3]),
        ("algo=maekawa&n=7&load=saturated&until=200", vec![10, 11, 100, 99, 150, 0]),
        ("algo=central&n=3&load=hand&until=9&acts=0q1.q2.u2-0.t1-0-0-50", vec![0, 1, 2, 3, 4, 3, 8]),
    ] {
        let run = run(address).unwrap();
        let value = |step: usize| serde_json::to_value(&*run.moment(step)).unwrap();
        for pair in steps.windows(2) {
            let base = run.moment(pair[0]);
            let change = serde_json::to_value(run.moment(pair[1]).since(&base)).unwrap();
            assert_eq!(applied(&value(pair[0]), &change), value(pair[1]), "{address}: {pair:?}");
        }
    }
}

#[test]
fn a_step_among_fifty_sites_is_told_in_a_tenth_of_a_moment() {
    for algorithm in ["lamport", "ricart-agrawala", "maekawa", "suzuki-kasami"] {
        let run = run(&format!("algo={algorithm}&n=50&load=saturated&until=400")).unwrap();
        let whole = moment(&*run, 300).len();
        let step = serde_json::to_string(&run.moment(301).since(&run.moment(300))).unwrap().len();
        assert!(step * 10 < whole, "{algorithm}: a step is {step} bytes, the whole {whole}");
    }
}

#[test]
fn messages_are_told_as_their_papers_write_them() {
    for info in ALL {
        let run = run(&format!("algo={}&n=5&load=saturated&until=300&seed=2", info.name)).unwrap();
        let columns = serde_json::to_value(run.columns()).unwrap();
        let texts = |name: &str| -> Vec<String> { serde_json::from_value(columns[name].clone()).unwrap() };
        for (text, kind) in texts("texts").iter().zip(texts("text_kinds")) {
            let rest = text.strip_prefix(&kind).unwrap_or_else(|| panic!("{}: {text}", info.name));
            let in_brackets = rest.is_empty() || rest.ends_with(')') && rest.contains('(');
            let of_rust = [" { ", "Some(", "None", "Clock", "Count", "Box", "::"];
            assert!(in_brackets && !of_rust.iter().any(|word| rest.contains(word)), "{}: {text}", info.name);
        }
    }
}

#[test]
fn sites_show_what_their_papers_draw() {
    for (algorithm, permits, shown) in [
        ("suzuki-kasami", 1, vec!["RN", "LN", "token queue Q"]),
        ("srimani-reddy", 2, vec!["RN", "LN", "token queue Q"]),
        ("ricart-agrawala", 1, vec!["deferred", "missing replies", "highest ts seen", "last ts seen"]),
        ("carvalho-roucairol", 1, vec!["status set S", "request set R", "deferred"]),
        ("raymond-k", 2, vec!["deferred", "missing replies", "may be missing to enter"]),
        ("token-ring", 1, vec!["next", "token", "successor has asked"]),
        ("delegated", 2, vec!["leader", "queue", "permits at home", "permit", "next"]),
        ("neilsen-mizuno", 1, vec!["tree", "NEXT", "FOLLOW"]),
        ("cao-singhal", 1, vec!["quorum", "req_queue", "tran_stack", "lock"]),
        ("makki", 2, vec!["token queue", "semaphore", "collects", "collected"]),
    ] {
        let run = run(&format!("algo={algorithm}&n=5&k={permits}&load=saturated&until=150&seed=6")).unwrap();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for step in 0..=run.steps() {
            for site in serde_json::to_value(&*run.moment(step)).unwrap()["sites"].as_array().unwrap() {
                let named = ["pointers", "sets", "queues", "tables"].into_iter();
                let named = named.flat_map(|list| site[list].as_array().unwrap()).map(|one| &one["name"]);
                let values = site["values"].as_array().unwrap().iter().map(|one| &one[0]);
                for name in named.chain(values) {
                    *seen.entry(name.as_str().unwrap().to_owned()).or_default() += 1;
                }
            }
        }
        for name in shown {
            assert!(seen.contains_key(name), "{algorithm} never shows {name}: {seen:?}");
        }
    }
}

#[test]
fn what_a_step_changed_of_a_site_is_marked() {
    // S0 leaves with the token, which goes to S1.
    let run = run("algo=suzuki-kasami&n=3&load=hand&acts=0q0.q1.d1-0.x0&until=4").unwrap();
    let changed = |step: usize, site: usize| {
        serde_json::to_value(&*run.moment(step)).unwrap()["sites"][site]["changed"].clone()
    };
    assert_eq!(changed(3, 0), serde_json::json!(["RN"]));
    assert_eq!(changed(4, 0), serde_json::json!(["LN", "token queue Q"]));
    assert_eq!(changed(4, 2), serde_json::json!([]));
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

#[test]
fn an_address_carries_the_choices_of_a_run_and_refuses_those_that_it_does_not_ask_for() {
    let start = "algo=bulgannawar-vaidya:inform=0,choice=random&n=3&k=2&load=hand&channels=any&until=99";
    // Which token is asked for says whom the request goes to.
    for (choice, to) in [(0, 0), (1, 1)] {
        let run = run(&format!("{start}&acts=0q2_{choice}")).unwrap();
        let mut trace = Vec::new();
        run.write_trace(&mut trace).unwrap();
        let trace = String::from_utf8(trace).unwrap();
        assert!(
            trace.contains(&format!(
                "\"kind\":\"choose\",\"site\":2,\"lock\":\"lab\",\"choice\":[{choice},2]"
            )),
            "{trace}"
        );
        assert!(trace.contains(&format!("\"kind\":\"send\",\"site\":2,\"peer\":{to},")), "{trace}");
        assert_eq!(moment(&*run, 1), moment(&*play(run.setup().clone()).unwrap(), 1));
    }
    for acts in ["0q2_2", "0q2_0-0", "0q2_1.x2_0"] {
        let run = run(&format!("{start}&acts={acts}")).unwrap();
        let End::Refused(why) = run.end() else { panic!("{acts}: {:?}", run.end()) };
        let (says, expected) = (why.to_string(), acts == "0q2_1.x2_0");
        assert_eq!(says.starts_with("S2 cannot release"), expected, "{acts}: {says}");
        assert_eq!(says.contains("does not ask for the choices"), !expected, "{acts}: {says}");
        assert_eq!(run.moment(run.steps()).counters.entries, 0, "{acts}: nothing has changed");
    }
}
