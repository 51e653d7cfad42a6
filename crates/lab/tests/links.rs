//! Every link of earlier versions still opens the same run: the same steps, in the same order and at the same times.
//!
//! `links.txt` has addresses, each with a hash of the run that it opened when it was added. Lines are added, and never changed: whoever has
//! a link has it from some version. Two versions may tell a message differently, so that the hash has its kind only.

#![allow(clippy::unwrap_used, reason = "the helpers of tests end a test that cannot go on, as tests do")]

mod addresses;

use addresses::parts;
use meshlock_lab::gallery::{entry, errata};
use meshlock_lab::run::{Run, play};
use meshlock_lab::setup::RunSetup;
use meshlock_protocol::registry::ALL;
use meshlock_sim::trace::Written;

const LINKS: &str = include_str!("links.txt");

/// A line of the list.
struct Link {
    view: &'static str,
    /// The hash of what it opens.
    hash: &'static str,
    /// What it names there.
    names: &'static str,
}

fn links() -> impl Iterator<Item = Link> {
    let lines = LINKS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("'{line}' is no link"));
        Link { view: word(), hash: word(), names: word() }
    })
}

/// A 64-bit hash (FNV-1a) of what happens in a run: at each line when, what, where, with whom, and the kind of message.
fn hash(run: &dyn Run) -> String {
    let mut text = Vec::new();
    run.write_trace(&mut text).unwrap();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |word: &str| {
        for byte in word.bytes().chain([b'\n']) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(&run.steps().to_string());
    for line in String::from_utf8(text).unwrap().lines() {
        let Written { time, kind, site, peer, message, choice, .. } = serde_json::from_str(line).unwrap();
        add(&format!("{time:.6} {} {site}", kind.name()));
        add(&peer.map_or(String::new(), |peer| peer.to_string()));
        let message = message.unwrap_or_default();
        add(message.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default());
        add(&choice.map_or(String::new(), |(chosen, of)| format!("{chosen} of {of}")));
    }
    format!("{hash:016x}")
}

/// What a link opens today, as the list writes it; or why it opens nothing.
fn opens(link: &Link) -> Result<String, String> {
    let setup = match link.view {
        "run" => RunSetup::read(&parts(link.names)),
        "figure" => entry(link.names).ok_or("there is no such figure")?.setup(),
        // The checker finds its run again, which takes long; that it breaks its property is a test of the gallery.
        "erratum" => {
            let found =
                errata().find(|erratum| erratum.id == link.names).ok_or("there is no such erratum")?;
            return Ok(if found.has_run { "run" } else { "calculation" }.to_owned());
        }
        other => return Err(format!("there is no view '{other}'")),
    };
    let run = setup.and_then(play).map_err(|error| error.to_string())?;
    Ok(hash(&*run))
}

#[test]
fn every_link_opens_what_it_opened_when_it_was_added() {
    let mut changed = Vec::new();
    for link in links() {
        let found = opens(&link).unwrap_or_else(|error| error);
        if found != link.hash {
            changed.push(format!("{} {} {}: it opens {found}", link.view, link.hash, link.names));
        }
    }
    assert!(
        changed.is_empty(),
        "links that somebody has do not open the same any more:\n{}",
        changed.join("\n")
    );
}

#[test]
fn the_list_has_every_algorithm_figure_and_erratum() {
    let named = |view: &str, name: &str| links().any(|link| link.view == view && link.names == name);
    for info in ALL {
        let algorithm = |link: &Link| {
            parts(link.names).get("algo").map(|spec| spec.split(':').next().unwrap_or_default() == info.name)
        };
        assert!(links().any(|link| algorithm(&link) == Some(true)), "no link to a run of {}", info.name);
    }
    for figure in meshlock_lab::gallery::entries() {
        assert!(named("figure", figure.id), "no link to the figure {}", figure.id);
    }
    for erratum in errata() {
        assert!(named("erratum", erratum.id), "no link to the erratum {}", erratum.id);
    }
}

#[test]
fn another_run_has_another_hash() {
    let of = |address: &str| hash(&*play(RunSetup::read(&parts(address)).unwrap()).unwrap());
    let plain = of("algo=raymond&n=5&until=60");
    assert_eq!(plain, of("algo=raymond&n=5&until=60"));
    for other in [
        "algo=raymond&n=5&until=61",
        "algo=raymond&n=5&until=60&seed=2",
        "algo=raymond&n=5&until=60&acts=30f1",
    ] {
        assert_ne!(plain, of(other), "{other}");
    }
}
