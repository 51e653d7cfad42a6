//! Errors of printed algorithms are detected: the run stops and reports the seed, the time and the last events, and the same seed
//! reproduces the violation.

use meshlock_protocol::{Cluster, Spec};
use meshlock_sim::draw::Distribution;
use meshlock_sim::network::Delay;
use meshlock_sim::settings::Load;
use meshlock_sim::violation::{RunViolation, Stopped};
use meshlock_sim::{Settings, Time, measure};

fn stopped(spec: &str, settings: &Settings) -> Stopped {
    let spec: Spec = spec.parse().expect("a registered name");
    measure(&spec, settings).expect_err("the printed rules are wrong")
}

fn settings(sites: usize, load: Load, seed: u64) -> Settings {
    let delay = Delay::Same(Distribution::Exponential { mean: 1.0 });
    Settings { load, delay, seed, entries: 20_000, ..Settings::new(Cluster::of(sites)) }
}

#[test]
fn printed_suzuki_kasami_leaves_a_site_waiting_for_ever() {
    let Stopped::Violated { violation, last, .. } =
        stopped("suzuki-kasami:text=printed", &settings(2, Load::Saturated, 1))
    else {
        panic!("a violation, not a refusal")
    };
    assert_eq!(violation, RunViolation::NothingLeft);
    // The token's holder has left, then learns of the request and keeps the token.
    assert!(last.last().expect("the last events").ends_with("receive REQUEST from S0"), "{last:#?}");
}

#[test]
fn printed_ricart_agrawala_breaks_mutual_exclusion() {
    let broken = |violation: &RunViolation| {
        matches!(violation, RunViolation::TooManyInside { .. } | RunViolation::FenceFellBack { .. })
    };
    for seed in 1..=20 {
        let Stopped::Violated { violation, last, .. } =
            stopped("ricart-agrawala:text=printed", &settings(10, Load::Closed, seed))
        else {
            panic!("a violation, not a refusal")
        };
        assert!(broken(&violation), "seed {seed}: {violation}");
        assert!(last.last().expect("the last events").ends_with(" enter"), "seed {seed}: {last:#?}");
    }
}

#[test]
fn a_violation_reports_seed_time_and_last_events_and_its_seed_reproduces_it() {
    let settings = settings(10, Load::Closed, 7);
    let first = stopped("ricart-agrawala:text=printed", &settings);
    let Stopped::Violated { seed, time, ref last, .. } = first else { panic!("a violation, not a refusal") };
    assert_eq!(seed, 7);
    assert!(time > Time::ZERO);
    assert_eq!(last.len(), 20);
    let text = first.to_string();
    assert!(text.contains(&format!("seed 7, time {}", time.as_units())), "{text}");
    assert!(last.iter().all(|line| text.contains(line)), "{text}");

    assert_eq!(stopped("ricart-agrawala:text=printed", &settings), first);
    let other = Settings { seed: 8, ..settings };
    assert_ne!(stopped("ricart-agrawala:text=printed", &other), first);
}
