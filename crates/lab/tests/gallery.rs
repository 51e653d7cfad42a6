//! Every prepared run shows what its figure shows, and every erratum's counterexample breaks what it says.

mod addresses;

use addresses::parts;
use meshlock_lab::gallery::{entries, entry, errata, erratum};
use meshlock_lab::run::{End, play};
use meshlock_lab::setup::RunSetup;

#[test]
fn each_prepared_run_shows_its_figures_facts() {
    for entry in entries() {
        let run = play(entry.setup().unwrap()).unwrap();
        assert!(
            !matches!(run.end(), End::Refused(_)),
            "{}: {:?} at step {}",
            entry.id,
            run.end(),
            run.steps()
        );
        for fact in entry.judge(&*run) {
            let moment = run.moment(fact.step);
            assert_eq!(
                fact.holds,
                Some(true),
                "{}, step {}: {}\n{moment:#?}",
                entry.id,
                fact.step,
                fact.says
            );
        }
        for scene in entry.scenes {
            assert!(scene.step <= run.steps(), "{}: a scene after the end", entry.id);
        }
        assert!(!entry.facts.is_empty() && !entry.scenes.is_empty(), "{}", entry.id);
    }
}

#[test]
fn a_fact_that_does_not_hold_is_detected() {
    let lamport = entry("chapter-9-3").unwrap();
    let run = play(lamport.setup().unwrap()).unwrap();
    let see = meshlock_lab::gallery::See::Inside(&[1]);
    assert!(!see.is_in(&run.moment(10)) && see.is_in(&run.moment(12)));
}

#[test]
fn each_errata_counterexample_breaks_the_property_that_it_names() {
    let mut runs = 0;
    for listed in errata() {
        let found = erratum(listed.id).unwrap();
        assert_eq!(listed.has_run, found.calculated.is_empty(), "{}", listed.id);
        let (Some(address), Some(property)) = (found.address, found.property) else { continue };
        runs += 1;
        let run = play(RunSetup::read(&parts(&address)).unwrap()).unwrap();
        assert_eq!((run.steps(), run.end()), (found.steps, &End::Until), "{}: {address}", listed.id);
        let moment = run.moment(run.steps());
        let lamp = moment.lamps.iter().find(|lamp| lamp.name == property).unwrap();
        let light = format!("{:?}", lamp.light);
        // A starving site is found by the round that the schedule can go for ever, which no moment shows.
        let expected =
            if property == "starvation" { ["Holds", "Watch"].contains(&&*light) } else { light == "Broken" };
        assert!(expected, "{}: {property} is {light}: {}\n{address}", listed.id, lamp.why);
    }
    assert!(runs > 20, "{runs}");
}
