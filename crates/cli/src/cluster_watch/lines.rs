//! Converts the trace lines of a node to the trace format of the simulator.

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{TraceEvent, TraceLine};
use meshlock_sim::trace::{Kind, Whose, Written};

/// Converts a line of `site`. The line's clock started when the machine's calendar clock showed `origin` microseconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "microseconds since 1970 are exact for another 200 years")]
pub(super) fn written(site: &str, origin: u64, line: TraceLine) -> Written {
    let TraceLine { time, epoch, lock, machine, event, state } = line;
    let time = origin.saturating_add(time.micros()) as f64;
    let lock = lock.map_or_else(String::new, |lock| lock.to_string());
    let base = |kind| Written {
        epoch: Some(epoch.number()),
        seat: machine,
        state,
        ..Written::new(time, kind, Whose::Name(site.to_owned()), lock)
    };
    let who = |label: Option<meshlock_cluster::names::ClientLabel>| label.map(|label| label.to_string());
    let name = |site: SiteName| Some(Whose::Name(site.to_string()));
    match event {
        TraceEvent::Waits { client, who: label } => {
            Written { client: Some(client), who: who(label), ..base(Kind::Waits) }
        }
        TraceEvent::Request { client, who: label } => {
            Written { client: Some(client), who: who(label), ..base(Kind::Request) }
        }
        TraceEvent::Holds { client, who: label, fence } => {
            Written { client: Some(client), who: who(label), fence: Some(fence.value()), ..base(Kind::Holds) }
        }
        TraceEvent::Enter { client, who: label, fence } => {
            Written { client: Some(client), who: who(label), fence: Some(fence.value()), ..base(Kind::Enter) }
        }
        TraceEvent::Cancel { client } => Written { client: Some(client), ..base(Kind::Cancel) },
        TraceEvent::Release { client } => Written { client: Some(client), ..base(Kind::Release) },
        TraceEvent::Send { to, number, message } => {
            Written { peer: name(to), number: Some(number), message: Some(message), ..base(Kind::Send) }
        }
        TraceEvent::Receive { from, number, message } => {
            Written { peer: name(from), number: Some(number), message: Some(message), ..base(Kind::Receive) }
        }
        TraceEvent::View { members } => {
            let members = members.iter().map(ToString::to_string).collect();
            Written { members: Some(members), ..base(Kind::View) }
        }
        TraceEvent::Fail => base(Kind::Fail),
        TraceEvent::Recover => base(Kind::Recover),
    }
}
