//! Tables in the documents that are made from the code, so that they cannot go stale.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use meshlock_protocol::Info;
use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::{Channels, Order, Permits};

const BEGIN: &str = "<!-- generated: algorithms -->";
const END: &str = "<!-- end of generated -->";

/// Which document has the table of algorithms.
const DOCUMENT: &str = "README.md";

/// What `meshlock errata` finds.
const ERRATA: &str = "docs/ERRATA.md";

/// Writes the tables anew.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    let path = root.join(DOCUMENT);
    fs::write(&path, renewed(root)?).with_context(|| format!("cannot write {DOCUMENT}"))
}

/// Looks into all errata anew and writes their page. A test compares it; that takes longer than `tidy` should.
pub(crate) fn write_errata(root: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root).args([
        "run",
        "--quiet",
        "--release",
        "-p",
        "meshlock-cli",
        "--",
        "errata",
        "--markdown",
    ]);
    let output = command.stderr(Stdio::inherit()).output().context("cannot start meshlock errata")?;
    if !output.status.success() {
        bail!("meshlock errata failed");
    }
    fs::write(root.join(ERRATA), output.stdout).with_context(|| format!("cannot write {ERRATA}"))
}

/// What the document should say.
pub(crate) fn renewed(root: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(root.join(DOCUMENT)).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let Some((before, rest)) = text.split_once(BEGIN) else {
        bail!("{DOCUMENT} has no line '{BEGIN}'");
    };
    let Some((_, after)) = rest.split_once(END) else {
        bail!("{DOCUMENT} has no line '{END}'");
    };
    Ok(format!("{before}{BEGIN}\n{}{END}{after}", algorithms()))
}

fn algorithms() -> String {
    let mut table = String::from(
        "| name | after | permits | messages alone | under load | sync delay | channels | order |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for info in ALL {
        let (after, _) = info.title.split_once(':').unwrap_or((info.title, ""));
        let permits = if info.permits == Permits::One { "1" } else { "K" };
        let channels = if info.channels == Channels::Fifo { "FIFO" } else { "any" };
        let order = if info.order == Order::Timestamp { "timestamp" } else { "fair" };
        let (heavy, delay) = (info.costs.heavy.text, info.costs.sync_delay);
        writeln!(
            table,
            "| `{}` | {after} | {permits} | {} | {heavy} | {delay} | {channels} | {order} |",
            info.name,
            alone(info)
        )
        .expect("a string takes all that is written to it");
    }
    table
}

fn alone(info: &Info) -> String {
    let (least, most) = (info.costs.lone_least.text, info.costs.lone_most.text);
    if least == most { least.to_owned() } else { format!("{least} … {most}") }
}
