//! Random input is parsed or refused without panics, and what is parsed is written back unchanged.

use axum::http::Method;
use meshlock_cluster::access::Principal;

use super::calls::{KvCall, Parameters};
use super::document::Document;
use super::names::{self, KeyPath};
use super::{duration, ids};
use crate::escape::{escaped, unescaped};

/// Typical input, which is cut up and recombined.
const SEEDS: [&str; 12] = [
    "jobs/.lock",
    "service/web/leader",
    "1b2d71dd-acfd-8a22-8700-6d6573686c6b",
    "00000000-0000-8000-8000-6f7468657273",
    r#"{"Limit":2,"Holders":{"1b2d71dd-acfd-8a22-8700-6d6573686c6b":true}}"#,
    r#"{"LockDelay":"15s","Name":"n","TTL":"1m30s","Behavior":"delete"}"#,
    "consul session 4d 2ddccbc058a50c18: host%c3%b6",
    "consul permit 7fffffffffffffff ffffffffffffffff",
    "18446744073709551615",
    "24h0m0.000000001s",
    "höst %zz %",
    "\u{0}\u{202e}日本語",
];

fn piece(chance: &mut fastrand::Rng) -> String {
    let seed: Vec<char> = SEEDS[chance.usize(..SEEDS.len())].chars().collect();
    let (from, to) = (chance.usize(..=seed.len()), chance.usize(..=seed.len()));
    seed[from.min(to)..from.max(to)].iter().collect()
}

#[test]
fn no_text_makes_a_reader_panic_and_what_is_read_is_written_as_it_was() {
    let mut chance = fastrand::Rng::with_seed(7);
    let (mut sessions, mut documents, mut labels) = (0, 0, 0);
    for _ in 0..50_000 {
        let text: String = (0..chance.usize(1..4)).map(|_| piece(&mut chance)).collect();
        // A whole seed would be rare otherwise.
        let text = if chance.u8(..) < 32 { SEEDS[chance.usize(..SEEDS.len())].to_owned() } else { text };
        if let Some(lease) = ids::lease(&text) {
            assert_eq!(ids::session(lease), text);
            sessions += 1;
        }
        if let Ok(document) = Document::read(text.as_bytes()) {
            assert_eq!(Document::read(&document.write()), Ok(document));
            documents += 1;
        }
        if let Some(said) = text.parse().ok().and_then(|label| names::read_label(&label)) {
            let label = names::label(&Principal::Local, said.form, said.lease, said.flags, &said.value);
            // The escaped form may be too long.
            assert!(label.is_err() || label.is_ok_and(|label| names::read_label(&label) == Some(said)));
            labels += 1;
        }
        assert_eq!(unescaped(&escaped(text.as_bytes())), Some(text.clone().into_bytes()));
        let _ = (duration::read(&text), KeyPath::of(&text), unescaped(&text));
        let given = ["index", "wait", "cas", "acquire", "flags", "keys", "separator"];
        let given = given.map(|name| (name.to_owned(), piece(&mut chance))).into_iter();
        let given = Parameters(given.filter(|_| chance.bool()).collect());
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let _ = KvCall::read(&method, &text, &given);
        }
    }
    assert!(sessions > 100 && documents > 100 && labels > 100, "{sessions} {documents} {labels}");
}
