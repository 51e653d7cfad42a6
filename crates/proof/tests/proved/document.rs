//! docs/PROVED.md, and what it is held to.

use meshlock_proof::examine::Examined;
use meshlock_proof::{document, models, recorded};

/// How to write the document again.
pub(crate) const RENEW: &str = "run: cargo run --release -- prove all --record docs/PROVED.md";

/// The document as it is.
pub(crate) fn text() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/PROVED.md");
    std::fs::read_to_string(path).expect("the document")
}

/// Holds the document to what was found about one model.
pub(crate) fn assert_says(examined: &Examined) {
    let document = text();
    if let Some(stale) = recorded::stale_line(&document, examined) {
        let name = examined.covered.name;
        panic!(
            "docs/PROVED.md is stale about {name}, {stale}\n{RENEW}\n(with `{name}` in place of `all`: only this part)"
        );
    }
}

/// What was found about a small model, and a document of it.
fn sample() -> (Examined, String) {
    let sample = || {
        let covered = models::find("central").expect("a model");
        let ties = covered.runs().into_iter().map(|run| (run, covered.compare(&run)));
        Examined::as_if_proved(covered, ties.collect())
    };
    (sample(), document::markdown(&[sample()], &[]))
}

#[test]
fn the_first_line_that_is_stale_is_shown() {
    let (examined, document) = sample();
    assert_eq!(recorded::stale_line(&document, &examined), None);
    for line in ["| [`central`](#central) |", "- `exclusion`:", "| `central` | 3 |"] {
        let at = document.find(line).expect("a line of the document");
        let end = at + document[at..].find('\n').expect("the line ends");
        let stale = format!("{}!{}", &document[..end], &document[end..]);
        let shown = recorded::stale_line(&stale, &examined).expect("it is stale");
        assert_eq!(shown.number, document[..at].lines().count() + 1);
        assert_eq!(shown.found.as_deref(), document[at..].lines().next());
        assert_ne!(shown.recorded, shown.found);
    }
}

#[test]
fn what_is_missing_is_stale() {
    let (examined, document) = sample();
    let cut = &document[..document.find("**Deliberate bugs**").expect("a section's last part")];
    assert_eq!(recorded::stale_line(cut, &examined).expect("it is stale").recorded, None);
    assert_eq!(recorded::stale_line("", &examined).expect("it is stale").recorded, None);
}

#[test]
fn what_a_document_says_of_one_model_is_written_anew() {
    let (examined, document) = sample();
    let stale = document.replace("`exclusion`", "`seclusion`").replace("| 144 |", "| 1 |");
    assert_ne!(stale, document);
    assert_eq!(recorded::renewed(&stale, &examined).as_deref(), Some(&*document));
    let before = models::find("naimi-trehel").expect("the model before it");
    let before = Examined::as_if_proved(before, Vec::new());
    let shorter = document::markdown(std::slice::from_ref(&before), &[]);
    let longer = document::markdown(&[before, examined], &[]);
    assert_eq!(recorded::renewed(&shorter, &sample().0), Some(longer));
    assert_eq!(recorded::renewed("# Nothing", &sample().0), None);
}
