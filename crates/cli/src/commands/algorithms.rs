//! `meshlock algorithms [NAME]`: lists the algorithms of the registry, or shows one in detail.

use std::io::Write;

use clap::Args;
use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::{Channels, ClaimedBypass, Kind, Order, Permits, Range, Since};
use meshlock_protocol::{Info, Spec};
use serde_json::{Value, json};

use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock algorithms`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The algorithm to show in detail; without it all algorithms are listed
    name: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match &arguments.name {
        Some(name) => {
            let spec: Spec = name.parse().map_err(UsageError::new)?;
            if arguments.json { output::json(out, &facts(spec.info))? } else { detail(spec.info, out)? }
        }
        None if arguments.json => output::json(out, &ALL.iter().map(|info| facts(info)).collect::<Vec<_>>())?,
        None => overview(out)?,
    }
    Ok(CommandOutcome::Done)
}

fn overview(out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = output::table(&[
        "algorithm",
        "kind",
        "K",
        "messages alone",
        "under load",
        "delay",
        "channels",
        "order",
    ]);
    for info in ALL {
        table.add_row([
            info.name,
            kind(info.kind),
            permits(info.permits),
            &alone_in_brief(info),
            brief(info.costs.heavy.text),
            brief(info.costs.sync_delay),
            channels(info.channels),
            order(info.order),
        ]);
    }
    writeln!(out, "{table}")?;
    writeln!(out, "N sites, K permits, k the size of a quorum, T one message delay.")?;
    writeln!(out, "* A request waits for one particular permit, even while another one is free.")?;
    writeln!(out, "`meshlock algorithms NAME` shows one in detail.")?;
    Ok(())
}

fn detail(info: &Info, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{}: {}", info.name, info.title)?;
    writeln!(out)?;
    let failures = failures(info);
    for (label, text) in [
        ("described in", info.source),
        ("kind", kind(info.kind)),
        ("permits", permits(info.permits)),
        ("order", order(info.order)),
        ("channels it needs", channels(info.channels)),
        ("the paper assumes", info.assumes),
        ("failures it handles", &failures),
        ("messages alone", &alone(info)),
        ("messages under load", info.costs.heavy.text),
        ("messages always", &always(info)),
        ("synchronisation delay", info.costs.sync_delay),
        ("entries before one's", &bypass(info)),
    ] {
        writeln!(out, "{label:>22}  {text}")?;
    }
    let memory = info.memory;
    writeln!(
        out,
        "{:>22}  {} + {}·N bytes at most",
        "memory of a quiet site", memory.fixed, memory.per_site
    )?;
    section(
        out,
        "Messages",
        info.messages.iter().map(|message| (message.kind.to_owned(), message.about.to_owned())),
    )?;
    let options = info.options.iter().map(|option| {
        let about = format!("{}; {} (default {})", option.about, option.range, option.default);
        (option.name.to_owned(), about)
    });
    section(out, "Options", options)?;
    if !info.departures.is_empty() {
        writeln!(out, "\nDepartures from the published text")?;
        for departure in info.departures {
            writeln!(out, "  - {departure}")?;
        }
    }
    Ok(())
}

fn section(
    out: &mut dyn Write,
    title: &str,
    rows: impl Iterator<Item = (String, String)>,
) -> anyhow::Result<()> {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, about) in rows {
        writeln!(out, "  {name:<width$}  {about}")?;
    }
    Ok(())
}

fn facts(info: &Info) -> Value {
    let options: Vec<Value> = info
        .options
        .iter()
        .map(|option| {
            let range = match option.range {
                Range::Flag => json!({ "flag": true }),
                Range::Choice(words) => json!({ "choice": words }),
                Range::Open { policies, any } => json!({ "policies": policies, "host_chooses": any }),
                Range::Integer { least, most } => json!({ "least": least, "most": most }),
                Range::WordsOr { words, notation } => json!({ "words": words, "notation": notation }),
            };
            json!({ "name": option.name, "about": option.about, "default": option.default, "range": range })
        })
        .collect();
    let messages: Vec<Value> =
        info.messages.iter().map(|m| json!({ "kind": m.kind, "about": m.about })).collect();
    json!({
        "name": info.name,
        "title": info.title,
        "source": info.source,
        "kind": kind(info.kind),
        "permits": permits(info.permits),
        "order": order(info.order),
        "channels": channels(info.channels),
        "assumes": info.assumes,
        "failures": {
            "crash": info.failures.crash,
            "recovery": info.failures.recovery,
            "partition": info.failures.partition,
        },
        "costs": {
            "alone_least": info.costs.lone_least.text,
            "alone_most": info.costs.lone_most.text,
            "heavy": info.costs.heavy.text,
            "always_least": info.costs.always.map(|span| span.least.text),
            "always_most": info.costs.always.map(|span| span.most.text),
            "sync_delay": info.costs.sync_delay,
        },
        "bypass": bypass(info),
        "memory": { "fixed": info.memory.fixed, "per_site": info.memory.per_site },
        "options": options,
        "messages": messages,
        "departures": info.departures,
    })
}

fn alone(info: &Info) -> String {
    from_to(info.costs.lone_least.text, info.costs.lone_most.text)
}

fn alone_in_brief(info: &Info) -> String {
    from_to(brief(info.costs.lone_least.text), brief(info.costs.lone_most.text))
}

fn always(info: &Info) -> String {
    let bounded = info.costs.always.map(|span| from_to(span.least.text, span.most.text));
    bounded.map_or_else(|| "no bound is stated".to_owned(), |span| format!("{span} (with the defaults)"))
}

/// How often others may enter before a site that waits, with the source of the claim.
fn bypass(info: &Info) -> String {
    match info.bypass {
        ClaimedBypass::AtMost(claim) => {
            let since = match claim.since {
                Since::Call => "from the request on",
                Since::Heard => "once all that the site sent was received",
            };
            format!("at most {} {since} ({})", claim.entries.text, claim.source)
        }
        ClaimedBypass::Nothing(why) => format!("nothing is claimed: {why}"),
    }
}

fn from_to(least: &str, most: &str) -> String {
    if least == most { least.to_owned() } else { format!("{least} … {most}") }
}

/// Returns a cost without its conditions, which only the detailed view shows.
fn brief(text: &str) -> &str {
    let end = [";", ",", " at ", " from "].iter().filter_map(|mark| text.find(mark)).min();
    &text[..end.unwrap_or(text.len())]
}

fn failures(info: &Info) -> String {
    let handled = [
        (info.failures.crash, "crash"),
        (info.failures.recovery, "recovery"),
        (info.failures.partition, "partition"),
    ];
    let names: Vec<&str> = handled.iter().filter(|(handles, _)| *handles).map(|(_, name)| *name).collect();
    if names.is_empty() { "none by itself; a host starts it again".to_owned() } else { names.join(", ") }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Permission => "permission",
        Kind::Quorum => "quorum",
        Kind::Token => "token",
    }
}

fn permits(permits: Permits) -> &'static str {
    match permits {
        Permits::One => "1",
        Permits::Many => "any",
        Permits::Chosen => "any*",
    }
}

fn channels(channels: Channels) -> &'static str {
    match channels {
        Channels::Fifo => "FIFO",
        Channels::Unordered => "unordered",
    }
}

fn order(order: Order) -> &'static str {
    match order {
        Order::Timestamp => "timestamp",
        Order::Fair => "fair",
    }
}
