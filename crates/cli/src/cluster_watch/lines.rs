//! Converts the trace lines of a node to the trace format of the simulator.

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{TraceEvent, TraceLine};
use meshlock_sim::trace::{TraceKind, Whose, Written};

/// Converts a line of `site`. The line's clock started when the machine's calendar clock showed `origin` microseconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "microseconds since 1970 are exact for another 200 years")]
pub(super) fn written(site: &str, origin: u64, line: TraceLine) -> Written {
    let TraceLine { time, epoch, lock, machine, event, state } = line;
    let time = origin.saturating_add(time.micros()) as f64;
    let lock = lock.map_or_else(String::new, |lock| lock.as_str().to_owned());
    let base = |kind| Written {
        epoch: Some(epoch.number()),
        machine,
        state,
        ..Written::new(time, kind, Whose::Name(site.to_owned()), lock)
    };
    let who = |label: Option<meshlock_cluster::names::ClientLabel>| label.map(|label| label.to_string());
    let name = |site: SiteName| Some(Whose::Name(site.to_string()));
    match event {
        TraceEvent::Waits { client, who: label } => {
            Written { client: Some(client), who: who(label), ..base(TraceKind::Waits) }
        }
        TraceEvent::Request { client, who: label } => {
            Written { client: Some(client), who: who(label), ..base(TraceKind::Request) }
        }
        TraceEvent::Holds { client, who: label, fence } => Written {
            client: Some(client),
            who: who(label),
            fence: Some(fence.value()),
            ..base(TraceKind::Holds)
        },
        TraceEvent::Enter { client, who: label, fence } => Written {
            client: Some(client),
            who: who(label),
            fence: Some(fence.value()),
            ..base(TraceKind::Enter)
        },
        TraceEvent::Cancel { client } => Written { client: Some(client), ..base(TraceKind::Cancel) },
        TraceEvent::Release { client } => Written { client: Some(client), ..base(TraceKind::Release) },
        TraceEvent::Send { to, number, message } => {
            Written { peer: name(to), number: Some(number), message: Some(message), ..base(TraceKind::Send) }
        }
        TraceEvent::Receive { from, number, message } => Written {
            peer: name(from),
            number: Some(number),
            message: Some(message),
            ..base(TraceKind::Receive)
        },
        TraceEvent::View { members } => {
            let members = members.iter().map(ToString::to_string).collect();
            Written { members: Some(members), ..base(TraceKind::View) }
        }
        TraceEvent::Fail => base(TraceKind::Fail),
        TraceEvent::Recover => base(TraceKind::Recover),
    }
}
