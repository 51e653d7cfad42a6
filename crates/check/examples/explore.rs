//! Explores one algorithm: `cargo run --release -p meshlock-check --example explore -- SPEC SITES ENTRIES [unordered]
//! [permits=K] [holder=S] [crashes=C] [recover] [return] [most=STATES]`, and prints the verdict with the shortest story
//! behind it.

use meshlock_check::{Bounds, Verdict, explore_spec, story_spec};
use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Holders, SiteId, Spec};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [spec, sites, entries, rest @ ..] = arguments.as_slice() else {
        panic!("give an algorithm, the number of sites and the entries of each");
    };
    let spec: Spec = spec.parse().unwrap_or_else(|error| panic!("{error}"));
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let mut bounds = Bounds::new(number(sites), u8::try_from(number(entries)).expect("a small number"));
    let mut holders = Vec::new();
    for word in rest {
        match word.split_once('=').unwrap_or((word, "")) {
            ("unordered", _) => bounds.delivery = Delivery::Unordered,
            ("permits", k) => bounds.cluster.permits = number(k),
            ("holder", site) => holders.push(SiteId::new(number(site))),
            ("crashes", c) => bounds.crashes = u8::try_from(number(c)).expect("a small number"),
            ("recover", _) => bounds.recoveries = true,
            ("nofences", _) => {
                bounds.properties = bounds.properties.without(meshlock_check::Property::Fences);
            }
            ("endless", _) => bounds = bounds.endless(),
            ("return", _) => bounds.returns = true,
            ("most", states) => bounds.most_states = number(states),
            _ => panic!("unknown word '{word}'"),
        }
    }
    bounds.holders = Holders::new(bounds.cluster, holders).expect("holders within the cluster");
    let report = explore_spec(&spec, &bounds);
    for line in story_spec(&spec, &bounds, &report.path).lines {
        eprintln!("{line}");
    }
    eprintln!("{spec}: {:?}, {} states, depth {}", report.verdict, report.states, report.depth);
    eprintln!(
        "{} edges, {} local states, {} bytes a state",
        report.edges,
        report.local_states,
        report.memory / report.states
    );
    eprintln!("messages {:?}, round {:?}", report.messages, report.round);
    std::process::exit(i32::from(report.verdict != Verdict::Holds));
}
