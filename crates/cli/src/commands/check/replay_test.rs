//! Prints a counterexample as a Rust test, which replays the path in a world and asserts the violation at its end.

use std::fmt::Write;

use anyhow::Context;
use meshlock_check::{Bounds, Report, StepEvent, Verdict, story_spec};
use meshlock_protocol::world::{Action, Delivery, News, Violation};
use meshlock_protocol::{Demand, Mode, SiteId, Spec};

/// Returns the source of the test for the violation in `report`, or an error if the world cannot show it.
pub(super) fn source(spec: &Spec, bounds: &Bounds, report: &Report) -> anyhow::Result<String> {
    let claims = claims(spec, bounds, report)?;
    let module = spec.info.name.replace('-', "_");
    let kind: String = spec.info.name.split('-').map(capitalised).collect();
    let property = report.verdict.property().context("something is violated")?.name();
    let (sites, permits) = (bounds.cluster.sites, bounds.cluster.permits);
    let holders: Vec<(usize, Mode)> =
        bounds.holders.with_modes().map(|(site, mode)| (site.index(), mode)).collect();
    let shares = bounds.has_modes() || bounds.demands != [Demand::PLAIN];
    let mut text = String::new();
    writeln!(text, "/// {}", meshlock_check::command(spec, bounds))?;
    writeln!(text, "#[test]\nfn {module}_violates_{property}_after_{}_steps() {{", report.path.len())?;
    writeln!(text, "    use meshlock_protocol::algorithms::{module}::{kind};")?;
    let delivery = if claims.iter().any(|claim| claim.contains("Delivery::")) { "Delivery, " } else { "" };
    writeln!(text, "    use meshlock_protocol::world::{{Action, {delivery}World}};")?;
    let more = if shares { "Demand, Mode, " } else { "" };
    writeln!(text, "    use meshlock_protocol::{{Cluster, {more}Holders, SiteId, Spec}};\n")?;
    writeln!(text, "    let spec: Spec = {:?}.parse().unwrap();", spec.to_string())?;
    writeln!(text, "    let cluster = Cluster::of({sites}).with_permits({permits});")?;
    if shares {
        let inside = holders.iter().map(|(site, mode)| format!("({site}, Mode::{mode:?})"));
        let inside = inside.collect::<Vec<_>>().join(", ");
        writeln!(text, "    let inside: [(usize, Mode); {}] = [{inside}];", holders.len())?;
        writeln!(text, "    let inside = inside.map(|(site, mode)| (SiteId::new(site), mode));")?;
        writeln!(text, "    let holders = Holders::sharing(cluster, inside).unwrap();")?;
    } else {
        let inside: Vec<usize> = holders.iter().map(|(site, _)| *site).collect();
        writeln!(text, "    let inside: [usize; {}] = {inside:?};", inside.len())?;
        writeln!(text, "    let holders = Holders::new(cluster, inside.map(SiteId::new)).unwrap();")?;
    }
    writeln!(
        text,
        "    let mut world = World::<{kind}>::new(cluster, &spec.values, &holders).unwrap().tolerant();"
    )?;
    if shares {
        let asked: Vec<String> = bounds.demands.iter().copied().map(demanded).collect();
        writeln!(text, "    let asked: [Demand; {}] = [{}];", asked.len(), asked.join(", "))?;
        writeln!(text, "    let mut world = world.demanding(&spec.values, &asked).unwrap();")?;
    }
    if bounds.news != News::default() {
        let News { overtake, late } = bounds.news;
        writeln!(
            text,
            "    let news = meshlock_protocol::world::News {{ overtake: {overtake}, late: {late} }};"
        )?;
        writeln!(text, "    let mut world = world.with_news(news);")?;
    }
    writeln!(text, "    let site = SiteId::new;")?;
    for step in &report.path {
        if step.answers.is_empty() {
            writeln!(text, "    {}", statement(step.event))?;
        } else {
            writeln!(text, "    world.answer(&{:?});", step.answers)?;
            writeln!(text, "    {}", statement(step.event))?;
            writeln!(text, "    assert!(world.end_answers());")?;
        }
    }
    writeln!(text, "    // {}", report.verdict)?;
    for claim in claims {
        writeln!(text, "    {claim}")?;
    }
    writeln!(text, "}}")?;
    Ok(text)
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

fn statement(step: StepEvent) -> String {
    let action = match step {
        StepEvent::Fail(site) => return format!("world.fail(site({}));", site.index()),
        StepEvent::Recover(site) => return format!("let _ = world.recover(site({}));", site.index()),
        StepEvent::Act(action) => action,
    };
    let call = |name: &str, site: SiteId| format!("{name}(site({}))", site.index());
    let message = |name: &str, from: SiteId, to: SiteId, nth: usize| {
        format!("{name} {{ from: site({}), to: site({}), nth: {nth} }}", from.index(), to.index())
    };
    let action = match action {
        Action::Request(site) => call("Request", site),
        Action::Release(site) => call("Release", site),
        Action::Return(site) => call("Return", site),
        Action::RequestAs(site, demand) => format!("RequestAs(site({}), {})", site.index(), demanded(demand)),
        Action::ReturnAs(site, demand) => format!("ReturnAs(site({}), {})", site.index(), demanded(demand)),
        Action::ChangeMode(site, to) => format!("ChangeMode(site({}), Mode::{to:?})", site.index()),
        Action::Wake(site) => call("Wake", site),
        Action::Deliver { from, to, nth } => message("Deliver", from, to, nth),
        Action::Duplicate { from, to, nth } => message("Duplicate", from, to, nth),
        Action::Lose { from, to, nth } => message("Lose", from, to, nth),
        Action::Tell { to, about } => {
            format!("Tell {{ to: site({}), about: site({}) }}", to.index(), about.index())
        }
    };
    format!("let _ = world.apply(Action::{action});")
}

/// A demand as it is written in Rust.
fn demanded(demand: Demand) -> String {
    format!("Demand::of(Mode::{:?}).with_priority({})", demand.mode, demand.priority.0)
}

/// Returns assertions about the world at the end of the path.
fn claims(spec: &Spec, bounds: &Bounds, report: &Report) -> anyhow::Result<Vec<String>> {
    let waits = |sites: &[SiteId]| -> Vec<String> {
        let or_upgrading = |site: usize| match bounds.changes {
            0 => format!("assert!(world.is_waiting(site({site})));"),
            _ => format!("assert!(world.is_waiting(site({site})) || world.is_upgrading(site({site})));"),
        };
        sites.iter().map(|site| or_upgrading(site.index())).collect()
    };
    let delivery = match bounds.delivery {
        Delivery::Fifo => "Fifo",
        Delivery::Unordered => "Unordered",
    };
    // A process that waits to be exclusive could still give up.
    let leaves = "assert!(world.inside().iter().all(|site| world.is_upgrading(site)));";
    let leaves = if bounds.changes > 0 { leaves } else { "assert_eq!(world.releases().next(), None);" };
    let stuck =
        [format!("assert_eq!(world.deliveries(Delivery::{delivery}).next(), None);"), leaves.to_owned()];
    match &report.verdict {
        Verdict::Deadlock(waiting) => Ok(stuck.into_iter().chain(waits(waiting)).collect()),
        Verdict::Starvation(waiting) => Ok(waits(waiting)),
        Verdict::Bypassed { site, .. } => Ok(waits(&[*site])),
        Verdict::NotQuiet => {
            Ok(stuck.into_iter().chain(["assert!(!world.is_quiet());".to_owned()]).collect())
        }
        Verdict::Violated(violation) => Ok(vec![claim_of(spec, bounds, report, violation)?]),
        Verdict::Costs { .. } => {
            anyhow::bail!(
                "no test can show this: the smallest and the largest number of messages are known only from all runs"
            )
        }
        Verdict::Holds | Verdict::Unfinished => {
            anyhow::bail!("nothing is violated, so there is nothing to test")
        }
    }
}

/// Returns the assertion for a violation. The world keeps only the first violation, which need not be the one in the report.
fn claim_of(spec: &Spec, bounds: &Bounds, report: &Report, violation: &Violation) -> anyhow::Result<String> {
    let seen = story_spec(spec, bounds, &report.path).violation;
    if seen.as_ref() == Some(violation) {
        let words = violation.to_string();
        return Ok(format!("assert_eq!(world.violation().unwrap().to_string(), {words:?});"));
    }
    if let Violation::TooManyInside { inside, .. } = violation {
        return Ok(format!("assert_eq!(world.inside().len(), {inside});"));
    }
    anyhow::bail!(
        "no test can show this: in the replay another property is violated first; check all properties"
    )
}
