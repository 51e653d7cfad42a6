//! Writes a counterexample in the trace format: replays the path, with a line for each event. Time is the number of the step.

use std::io::Write;

use anyhow::Context;
use meshlock_check::{Bounds, Happened, Step, StepEvent, replay};
use meshlock_protocol::registry::AnyMessage;
use meshlock_protocol::world::Action;
use meshlock_protocol::{Effect, SiteId, Spec};
use meshlock_sim::Time;
use meshlock_sim::trace::{JsonLines, Trace, TraceKind, TracedEvent};
use serde_json::Value;

/// Writes the lines of `path`, with the state of the site in each line if `with_state`.
pub(super) fn write(
    spec: &Spec,
    bounds: &Bounds,
    path: &[Step],
    with_state: bool,
    out: impl Write,
) -> std::io::Result<()> {
    let mut lines = JsonLines::new(out, with_state).about("check");
    let mut step_number = 0_u32;
    replay(spec, bounds, path, &mut |happened| {
        step_number += 1;
        let (effects, actor) = (happened.effects, actor(happened.step.event));
        let time = Time::units(f64::from(step_number));
        let mut teller = Teller { time, happened, lines: &mut lines };
        teller.tell();
        if let Some(site) = actor {
            for effect in effects {
                teller.tell_effect(site, effect);
            }
        }
    });
    lines.finish()
}

/// Returns the lines of `path` as JSON values.
pub(super) fn values(spec: &Spec, bounds: &Bounds, path: &[Step]) -> anyhow::Result<Vec<Value>> {
    let mut text = Vec::new();
    write(spec, bounds, path, false, &mut text)?;
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).context("a line of a trace is JSON")).collect()
}

/// Returns the site whose code runs in this step.
fn actor(step: StepEvent) -> Option<SiteId> {
    match step {
        StepEvent::Act(
            Action::Request(site)
            | Action::RequestAs(site, _)
            | Action::Release(site)
            | Action::Return(site)
            | Action::ReturnAs(site, _)
            | Action::ChangeMode(site, _)
            | Action::Wake(site),
        )
        | StepEvent::Recover(site) => Some(site),
        StepEvent::Act(
            Action::Deliver { to, .. } | Action::Duplicate { to, .. } | Action::Tell { to, .. },
        ) => Some(to),
        StepEvent::Act(Action::Lose { .. }) | StepEvent::Fail(_) => None,
    }
}

struct Teller<'a, W: Write> {
    time: Time,
    happened: Happened<'a>,
    lines: &'a mut JsonLines<W>,
}

impl<'a, W: Write> Teller<'a, W> {
    /// Writes the lines for the cause of the step. A lost message has none: it was sent and is never received. News of failures and
    /// timers show only in their effects.
    fn tell(&mut self) {
        let Happened { before, step, .. } = self.happened;
        match step.event {
            StepEvent::Act(Action::Request(site) | Action::RequestAs(site, _)) => {
                self.line(TraceKind::Request, site, None, None);
            }
            StepEvent::Act(Action::Release(site)) => self.line(TraceKind::Release, site, None, None),
            StepEvent::Act(Action::Return(site) | Action::ReturnAs(site, _)) => {
                self.line(TraceKind::Release, site, None, None);
                self.line(TraceKind::Request, site, None, None);
            }
            StepEvent::Act(Action::Deliver { from, to, nth } | Action::Duplicate { from, to, nth }) => {
                let packet = before.packets(from, to).nth(nth);
                if before.is_up(to) {
                    self.line(TraceKind::Receive, to, Some(from), packet.map(|packet| &packet.message));
                }
            }
            StepEvent::Act(
                Action::ChangeMode(..) | Action::Lose { .. } | Action::Wake(_) | Action::Tell { .. },
            ) => {}
            StepEvent::Fail(site) => self.line(TraceKind::Fail, site, None, None),
            StepEvent::Recover(site) => self.line(TraceKind::Recover, site, None, None),
        }
    }

    fn tell_effect(&mut self, site: SiteId, effect: &Effect<AnyMessage>) {
        match effect {
            Effect::Send { to, message } => self.line(TraceKind::Send, site, Some(*to), Some(message)),
            Effect::Enter { .. } => self.line(TraceKind::Enter, site, None, None),
            Effect::Chose { taken, of } => {
                let line = self.about(TraceKind::Choose, site, None, None);
                self.lines.line(TracedEvent { choice: Some((*taken, *of)), ..line });
            }
            Effect::Upgraded | Effect::Timer { .. } | Effect::Misbehaved { .. } => {}
        }
    }

    fn line(&mut self, kind: TraceKind, site: SiteId, peer: Option<SiteId>, message: Option<&AnyMessage>) {
        let line = self.about(kind, site, peer, message);
        self.lines.line(line);
    }

    fn about<'b>(
        &self,
        kind: TraceKind,
        site: SiteId,
        peer: Option<SiteId>,
        message: Option<&'b AnyMessage>,
    ) -> TracedEvent<'b>
    where
        'a: 'b,
    {
        let (time, state) = (self.time, self.happened.after.site(site));
        TracedEvent { time, kind, site, peer, message, choice: None, state }
    }
}
