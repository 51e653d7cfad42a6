//! docs/PROVED.md, and what it is held to.

use meshlock_proof::examine::Examined;
use meshlock_proof::inequality::{JudgedInequality, lease};
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

/// The document if everything is proved, without any run of the code: for what it says of no single model.
fn without_runs() -> String {
    let examined: Vec<Examined> =
        models::all().map(|covered| Examined::as_if_proved(covered, Vec::new())).collect();
    let inequalities: Vec<JudgedInequality> = lease::ALL.iter().map(JudgedInequality::as_if_proved).collect();
    document::markdown(&examined, &inequalities)
}

/// Each model's part is held to what is found by the test that compares its code; this is everything else: the words at the beginning and at
/// the end, the order of the models, the inequalities, and what no proof notices. The solvers' part of it is asked for elsewhere.
#[test]
fn what_the_document_says_of_no_single_model_is_current() {
    let (recorded, found) = (recorded::frame(&text()), recorded::frame(&without_runs()));
    let mut lines = recorded.lines().zip(found.lines());
    if let Some((recorded, found)) = lines.find(|(one, other)| one != other) {
        panic!("docs/PROVED.md is stale:\n  recorded: {recorded}\n  found:    {found}\n{RENEW}");
    }
    assert_eq!(recorded.len(), found.len(), "one of them goes on; {RENEW}");
}

#[test]
fn the_frame_of_a_document_is_all_but_the_models() {
    let document = without_runs();
    let frame = recorded::frame(&document);
    for (said, other) in [
        ("never by a clock", "by a clock"),
        ("Claim, proved", "Claim, NOT proved"),
        ("## lease: exclusion", "## lease: inclusion"),
        ("| `FenceClockDeaf` |", "| `FenceClock` |"),
        ("# What is not proved", "# What is proved"),
    ] {
        assert!(document.contains(said), "{said}");
        assert_ne!(recorded::frame(&document.replace(said, other)), frame, "{said}");
    }
    let moved = document.replace("\n## central\n", "\n## lamport\n");
    assert_ne!(recorded::frame(&moved), frame);
    // What is in a model's part is the model's.
    let other = document.replace("Two sites are never inside at once.", "They are.");
    assert_ne!(other, document);
    assert_eq!(recorded::frame(&other), frame);
}
