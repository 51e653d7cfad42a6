//! Starvation in a small model: a server that serves requests in their order starves no site; one that always prefers the smallest
//! site does.

use meshlock_check::{Bounds, Verdict};

use crate::toy::explored;

#[test]
fn a_server_that_serves_in_order_starves_no_site_although_its_graph_has_cycles() {
    let report = explored(&[], &Bounds::new(3, 1).endless());
    assert_eq!(report.verdict, Verdict::Holds);
    assert!(report.edges > report.states, "sites that ask for ever go round");
    assert_eq!(report.messages, None, "a run without an end has no cost");
}

#[test]
fn a_server_that_prefers_the_smallest_site_starves_a_larger_one() {
    let report = explored(&[("fair", "no")], &Bounds::new(3, 1).endless());
    let Verdict::Starvation(starved) = &report.verdict else { panic!("{:?}", report.verdict) };
    assert!(starved.iter().all(|site| site.index() > 0), "{starved:?}");
    let round = report.round.expect("a starving schedule goes round");
    assert!(round < report.path.len(), "the round has steps");
}

#[test]
fn with_a_bounded_number_of_requests_no_preference_starves_a_site() {
    let report = explored(&[("fair", "no")], &Bounds::new(3, 2));
    assert_eq!(report.verdict, Verdict::Holds);
    assert_eq!(
        report.messages,
        Some((12, 12)),
        "three messages for each of four entries, none for the server's own"
    );
}
