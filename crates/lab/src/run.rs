//! A run that was played to its end, and can be shown at any step.
//!
//! Nothing of the past is stored but the lines and, at regular intervals, the whole playback: the state at any step is played
//! again from the nearest one before it, so that stepping back and forth returns to the same state by construction.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use meshlock_protocol::registry::Visitor;
use meshlock_protocol::{Algorithm, SiteId, Spec};
use meshlock_sim::trace::{Whose, Written};

use crate::columns::Columns;
use crate::moment::{self, Moment, ShownState};
use crate::playback::{ActError, LineKind, Playback, PlaybackLine};
use crate::setup::{RunSetup, SetupError};

/// The number of steps between two playbacks that are kept.
const INTERVAL: usize = 2048;

/// The number of moments that are kept.
const MAX_SHOWN: usize = 4;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// After the requested number of steps.
    Until,
    /// Nothing can happen any more.
    Nothing,
    /// An act was impossible.
    Refused(ActError),
}

/// A run of some algorithm that has been played.
pub trait Run: Send + Sync {
    /// The setup that it started from.
    fn setup(&self) -> &RunSetup;
    /// The algorithm and its options.
    fn spec(&self) -> &Spec;
    /// The number of its steps.
    fn steps(&self) -> usize;
    /// How it ended.
    fn end(&self) -> &End;
    /// Its lines as the page draws them.
    fn columns(&self) -> Columns;
    /// Everything after `step` steps.
    fn moment(&self, step: usize) -> Arc<Moment>;
    /// Its lines in the trace format.
    fn write_trace(&self, out: &mut dyn Write) -> std::io::Result<()>;
}

/// Plays the run of `setup`.
pub fn play(setup: RunSetup) -> Result<Box<dyn Run>, SetupError> {
    struct Play(Arc<RunSetup>);

    impl Visitor for Play {
        type Output = Result<Box<dyn Run>, SetupError>;

        fn visit<A: Algorithm>(self, spec: &Spec) -> Self::Output {
            Ok(Box::new(Played::<A>::new(self.0, spec.clone())?))
        }
    }

    let spec = setup.spec()?;
    meshlock_check::errata::visit(&spec, Play(Arc::new(setup)))
}

struct Played<A: Algorithm> {
    setup: Arc<RunSetup>,
    spec: Spec,
    lines: Vec<PlaybackLine<A::Message>>,
    /// The playback at every multiple of the interval.
    kept: Vec<Playback<A>>,
    steps: usize,
    end: End,
    shown: Mutex<LastShown<A>>,
}

/// What was shown last: the next moment is mostly the one after it, and is compared with it.
struct LastShown<A: Algorithm> {
    /// The playback that has come so far, and the states of its sites.
    last: Option<(Playback<A>, Vec<ShownState>)>,
    /// The last moments, latest first.
    moments: VecDeque<Arc<Moment>>,
}

impl<A: Algorithm> Default for LastShown<A> {
    fn default() -> Self {
        LastShown { last: None, moments: VecDeque::new() }
    }
}

impl<A: Algorithm> Played<A> {
    fn new(setup: Arc<RunSetup>, spec: Spec) -> Result<Self, SetupError> {
        let mut playback = Playback::<A>::new(&setup, &spec)?;
        let (mut kept, mut lines) = (vec![playback.clone()], Vec::new());
        let end = loop {
            if playback.steps() == setup.until {
                break End::Until;
            }
            match playback.advance() {
                Ok(true) => lines.append(&mut playback.take_lines()),
                Ok(false) => break End::Nothing,
                Err(refusal) => break End::Refused(refusal),
            }
            if playback.steps() % INTERVAL == 0 {
                kept.push(playback.clone());
            }
        };
        Ok(Played { steps: playback.steps(), setup, spec, lines, kept, end, shown: Mutex::default() })
    }

    /// The playback after `step` steps, played on from `near` if that is on the way.
    fn at(&self, step: usize, near: Option<Playback<A>>) -> Playback<A> {
        let kept = &self.kept[step.min(self.steps) / INTERVAL];
        let near = near.filter(|near| (kept.steps()..=step).contains(&near.steps()));
        let mut playback = near.unwrap_or_else(|| kept.clone());
        while playback.steps() < step && playback.advance() == Ok(true) {}
        playback
    }
}

impl<A: Algorithm> Run for Played<A> {
    fn setup(&self) -> &RunSetup {
        &self.setup
    }

    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn steps(&self) -> usize {
        self.steps
    }

    fn end(&self) -> &End {
        &self.end
    }

    fn columns(&self) -> Columns {
        let mut columns = Columns::default();
        for line in &self.lines {
            columns.push(line);
        }
        columns
    }

    fn moment(&self, step: usize) -> Arc<Moment> {
        let step = step.min(self.steps);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(moment) = shown.moments.iter().find(|moment| moment.step == step) {
            return Arc::clone(moment);
        }
        let earlier = step.saturating_sub(1);
        let (mut playback, before) = match shown.last.take() {
            Some((last, states)) if last.steps() == earlier => (last, states),
            last => {
                let playback = self.at(earlier, last.map(|(last, _)| last));
                let states = moment::states(&playback);
                (playback, states)
            }
        };
        while playback.steps() < step && playback.advance() == Ok(true) {}
        let now = moment::states(&playback);
        let moment = Arc::new(moment::of(&playback, &now, &before));
        shown.last = Some((playback, now));
        shown.moments.truncate(MAX_SHOWN - 1);
        shown.moments.push_front(Arc::clone(&moment));
        moment
    }

    fn write_trace(&self, out: &mut dyn Write) -> std::io::Result<()> {
        for line in &self.lines {
            let LineKind::Traced(kind) = line.what else { continue };
            let number = |site: SiteId| Whose::Number(site.index());
            let written = Written {
                peer: line.peer.map(number),
                message: line.message.as_ref().map(|(_, message)| format!("{message:?}")),
                choice: line.choice,
                ..Written::new(line.time.as_units(), kind, number(line.site), "lab")
            };
            serde_json::to_writer(&mut *out, &written)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}
