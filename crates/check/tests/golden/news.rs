//! News of failures that do not wait for what the papers let them wait for: who needs it, and who does not.

use meshlock_check::{Bounds, Report, Verdict, explore_spec, story_spec};
use meshlock_protocol::Spec;
use meshlock_protocol::world::{News, Violation};

const OVERTAKE: News = News { overtake: true, late: false };
const LATE: News = News { overtake: false, late: true };

/// Explores with one failure and such news, and lets the world replay what was found.
fn explored(spec: &str, bounds: Bounds, news: News) -> Report {
    let spec: Spec = spec.parse().expect("a registered name");
    let bounds = bounds.with_crashes(1).with_news(news);
    let report = explore_spec(&spec, &bounds);
    let story = story_spec(&spec, &bounds, &report.path);
    assert_eq!(story.lines.len(), report.path.len(), "the world can replay it");
    if let Verdict::Violated(violation) = &report.verdict {
        assert_eq!(story.violation.as_ref(), Some(violation), "the world sees the same");
    }
    report
}

#[test]
fn singhal_recreates_a_token_that_is_on_its_way_if_the_news_overtake_it() {
    let run = || Bounds::new(2, 1).unordered();
    assert_eq!(explored("singhal-heuristic", run(), News::default()).verdict, Verdict::Holds);
    let report = explored("singhal-heuristic", run(), OVERTAKE);
    assert_eq!(
        (report.verdict, report.path.len()),
        (Verdict::Violated(Violation::TokensNotConserved { found: 2, expected: 1 }), 4)
    );
}

#[test]
fn majority_does_not_mind_news_that_overtake() {
    let run = || Bounds::new(2, 1).unordered();
    let (usual, overtaking) =
        (explored("majority", run(), News::default()), explored("majority", run(), OVERTAKE));
    assert_eq!((usual.verdict, overtaking.verdict), (Verdict::Holds, Verdict::Holds));
    assert!(overtaking.states > usual.states, "there are schedules that the others do not have");
}

#[test]
fn majority_needs_everyone_to_know_before_a_failed_site_recovers() {
    let run = || Bounds::new(2, 1).with_recoveries();
    assert_eq!(explored("majority", run(), News::default()).verdict, Verdict::Holds);
    let report = explored("majority", run(), LATE);
    assert!(matches!(report.verdict, Verdict::Deadlock(_)), "{}", report.verdict);
    assert_eq!(report.path.len(), 6);
}
