//! Printed texts with errors: they must fail to be proved, or there is a reason why the model has no place for them.

use std::collections::BTreeSet;

use meshlock_proof::{models, unnoticed};

#[test]
fn every_error_of_a_printed_text_fails_to_be_proved_or_is_excused() {
    let shown: BTreeSet<&str> =
        models::all().flat_map(|covered| covered.wrong).filter_map(|wrong| wrong.erratum).collect();
    let excused: BTreeSet<&str> = unnoticed::ERRATA.iter().map(|(id, _)| *id).collect();
    assert!(shown.is_disjoint(&excused), "an excuse is stale: {shown:?}");
    let mut seen = BTreeSet::new();
    for (erratum, _) in unnoticed::explored().filter(|(_, printed)| printed.crashes == 0) {
        let id = erratum.id;
        assert!(
            shown.contains(id) || excused.contains(id),
            "{id} is neither shown by a wrong model nor excused"
        );
        seen.insert(id);
    }
    assert!(seen.len() > 20, "only {} errata are looked at", seen.len());
    for id in shown.iter().chain(&excused) {
        assert!(seen.contains(id), "{id} is shown or excused, and no erratum of an algorithm with a model");
    }
}
