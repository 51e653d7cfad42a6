//! Explores one algorithm: `cargo run --release -p meshlock-check --example explore -- SPEC SITES ENTRIES [unordered]
//! [permits=K] [holder=S] [crashes=C] [recover] [return] [most=STATES]`, and prints the verdict with the shortest story behind it.

use meshlock_check::{Bounds, Report, Verdict, explore, story};
use meshlock_protocol::registry::Visitor;
use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Algorithm, Holders, SiteId, Spec};

struct Explore(Bounds);

impl Visitor for Explore {
    type Output = (Report, Vec<String>);

    fn visit<A: Algorithm>(self, spec: &Spec) -> Self::Output {
        let report = explore::<A>(&self.0, &spec.values);
        let lines = story::<A>(&self.0, &spec.values, &report.path);
        (report, lines)
    }
}

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
            ("return", _) => bounds.returns = true,
            ("most", states) => bounds.most_states = number(states),
            _ => panic!("unknown word '{word}'"),
        }
    }
    bounds.holders = Holders::new(bounds.cluster, holders).expect("holders within the cluster");
    let (report, lines) = spec.visit(Explore(bounds));
    for line in lines {
        eprintln!("{line}");
    }
    eprintln!("{spec}: {:?}, {} states, depth {}", report.verdict, report.states, report.depth);
    std::process::exit(i32::from(report.verdict != Verdict::Holds));
}
