//! The trace of a run as lines of JSON, in the format that all hosts share.

use meshlock_protocol::Fence;
use serde_json::{Value, json};

use super::clock::Moment;
use super::event::Event;
use super::faults::ClusterFault;
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::Note;

/// The lines so far, if they are requested.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    wanted: bool,
    pub(super) lines: Vec<String>,
}

impl Trace {
    pub(super) fn new(wanted: bool) -> Self {
        Trace { wanted, lines: Vec::new() }
    }

    fn line(&mut self, now: Moment, kind: &str, rest: impl FnOnce() -> Value) {
        if self.wanted {
            let mut line = json!({ "time": now.0 as f64 / 1e6, "kind": kind });
            if let (Value::Object(line), Value::Object(rest)) = (&mut line, rest()) {
                line.extend(rest);
            }
            self.lines.push(line.to_string());
        }
    }

    pub(super) fn event(&mut self, now: Moment, event: &Event) {
        match event {
            Event::Packet { from, to, packet, .. } | Event::Late { from, to, packet } => {
                self.line(now, "receive", || {
                    let message = format!("{:?}", packet.content);
                    json!({ "site": format!("s{to}"), "peer": format!("s{from}"), "message": message })
                });
            }
            Event::Call { machine, call, .. } => self.line(
                now,
                "call",
                || json!({ "site": format!("s{machine}"), "message": format!("{call:?}") }),
            ),
            Event::SiteMessage { machine, from, message, .. } => self.line(now, "call", || {
                let message = format!("{message:?}");
                json!({ "site": format!("s{machine}"), "peer": from.site.as_str(), "message": message })
            }),
            Event::SiteCall { machine, call, .. } => self.line(
                now,
                "call",
                || json!({ "site": format!("s{machine}"), "message": format!("{call:?}") }),
            ),
            Event::Wire { client, what } => {
                self.line(now, "client", || json!({ "client": client, "message": format!("{what:?}") }));
            }
            Event::SiteLook { .. }
            | Event::SiteStep { .. }
            | Event::Start(_)
            | Event::Wake(_)
            | Event::Resume(_)
            | Event::Synced { .. }
            | Event::Connect(..)
            | Event::Told { .. }
            | Event::Disconnected { .. }
            | Event::Client { .. }
            | Event::Update { .. }
            | Event::Mover { .. }
            | Event::Fault(_)
            | Event::Second
            | Event::Rejoin(_)
            | Event::StartRemoved(_)
            | Event::Unblock(_)
            | Event::Copy(_)
            | Event::Calm
            | Event::Bound => {}
        }
    }

    pub(super) fn note(&mut self, now: Moment, machine: usize, note: &Note) {
        let kind = if matches!(note, Note::Installed(_) | Note::Opened(_)) { "view" } else { "note" };
        self.line(now, kind, || json!({ "site": format!("s{machine}"), "message": format!("{note:?}") }));
    }

    pub(super) fn entered(&mut self, now: Moment, machine: usize, lock: &LockName, fence: Fence) {
        self.line(
            now,
            "enter",
            || json!({ "site": format!("s{machine}"), "lock": lock.as_str(), "fence": fence.value().to_string() }),
        );
    }

    pub(super) fn crashed(&mut self, now: Moment, machine: usize) {
        self.line(now, "fail", || json!({ "site": format!("s{machine}") }));
    }

    pub(super) fn fault(&mut self, now: Moment, fault: &ClusterFault) {
        self.line(now, "fault", || json!({ "message": format!("{fault:?}") }));
    }
}
