//! Every kind of message has a colour of its own within its algorithm, and none has that of unknown kinds.

#![allow(clippy::unwrap_used, reason = "the helpers of tests end a test that cannot go on, as tests do")]

use std::collections::BTreeMap;

use meshlock_protocol::registry::ALL;

const COLOURS: &str = include_str!("../assets/colours.js");
const STYLE: &str = include_str!("../assets/style.css");

/// The number after `name = ` in the script.
fn constant(name: &str) -> usize {
    let (_, rest) = COLOURS.split_once(&format!("const {name} = ")).unwrap();
    rest.split(';').next().unwrap().parse().unwrap()
}

/// The place of each listed kind among the colours: what stands in `["REQUEST WANTED", 0]`.
fn listed() -> BTreeMap<String, usize> {
    let (_, list) = COLOURS.split_once("OF_KIND = new Map([").unwrap();
    let (list, _) = list.split_once("].flatMap").unwrap();
    let mut listed = BTreeMap::new();
    for pair in list.split("[\"").skip(1) {
        let (kinds, rest) = pair.split_once("\", ").unwrap();
        let colour: usize = rest.split(']').next().unwrap().parse().unwrap();
        for kind in kinds.split(' ') {
            let before = listed.insert(kind.to_owned(), colour);
            assert_eq!(before, None, "{kind} is listed twice");
        }
    }
    listed
}

#[test]
fn kinds_of_one_algorithm_have_different_colours() {
    let (listed, unknown) = (listed(), constant("KINDS") - 1);
    assert!(listed.len() > 25, "only {} kinds were found in the script", listed.len());
    for info in ALL {
        let mut taken = BTreeMap::new();
        for message in info.messages {
            let (name, kind) = (info.name, message.kind);
            let colour = listed.get(&kind.replace('_', ""));
            let &colour = colour.unwrap_or_else(|| panic!("{name}: {kind} has no colour of its own"));
            assert!(colour < unknown, "{name}: {kind} has the colour of unknown kinds");
            if let Some(other) = taken.insert(colour, kind) {
                panic!("{name}: {other} and {kind} have the same colour");
            }
        }
    }
}

#[test]
fn every_colour_is_in_the_style_sheet_in_light_and_dark() {
    for kind in 0..constant("KINDS") {
        assert_eq!(STYLE.matches(&format!("--kind-{kind}: #")).count(), 2, "--kind-{kind}");
        assert!(STYLE.contains(&format!(".kind-{kind} {{ color: var(--kind-{kind}); }}")), ".kind-{kind}");
    }
}
