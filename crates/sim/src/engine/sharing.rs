//! Processes that share the critical section: in which mode each request is made, and who may be inside together.
//!
//! A share of the requests is made by readers, the others are exclusive. The modes are drawn from a stream of their own, so that a run
//! without readers draws what it always has.

use meshlock_protocol::{Demand, Fence, Mode, SiteId};

use super::Checked;
use crate::draw::Draw;
use crate::settings::Settings;
use crate::violation::RunViolation;

/// The number that the seed of the modes is combined with.
const STREAM: u64 = 0x6d6f_6465_7321;

/// What the host knows of the processes' modes. Only in a run with readers.
#[derive(Clone, Debug)]
pub(super) struct ReaderModes {
    readers: f64,
    draw: Draw,
    /// By site: the mode in which its process waits or is inside.
    modes: Vec<Mode>,
    /// By mode: how many are inside.
    inside: [usize; 3],
    /// By mode: the largest fence of a grant in it.
    fences: [Option<Fence>; 3],
}

impl ReaderModes {
    /// `None` if nobody reads.
    pub(super) fn of(settings: &Settings) -> Option<Box<Self>> {
        let sharing = || ReaderModes {
            readers: settings.readers,
            draw: Draw::new(settings.seed ^ STREAM),
            modes: vec![Mode::Exclusive; settings.cluster.sites],
            inside: [0; 3],
            fences: [None; 3],
        };
        (settings.readers > 0.0).then(|| Box::new(sharing()))
    }

    /// Draws what the process of `site` asks for next.
    pub(super) fn demand(&mut self, site: SiteId) -> Demand {
        let reads = self.draw.fraction() < self.readers;
        let mode = if reads { Mode::Shared } else { Mode::Exclusive };
        self.modes[site.index()] = mode;
        Demand::of(mode)
    }

    /// The mode in which the process of `site` waits or is inside.
    pub(super) fn mode(&self, site: SiteId) -> Mode {
        self.modes[site.index()]
    }

    /// The process of `site` enters: checks that it may be inside with all who are, and that its fence is larger than those of all earlier
    /// grants that it excludes.
    pub(super) fn enter(&mut self, site: SiteId, fence: Fence) -> Checked {
        let mode = self.mode(site);
        let excluded = || Mode::ALL.into_iter().filter(|other| !mode.admits(*other));
        if let Some(beside) = excluded().find(|other| self.inside[*other as usize] > 0) {
            return Err(RunViolation::Excluded { site, mode, beside }.into());
        }
        if excluded().filter_map(|other| self.fences[other as usize]).any(|earlier| earlier >= fence) {
            return Err(RunViolation::FenceFellBack { site }.into());
        }
        self.inside[mode as usize] += 1;
        let largest = &mut self.fences[mode as usize];
        *largest = (*largest).max(Some(fence));
        Ok(())
    }

    /// The process of `site`, which was inside, has left or failed.
    pub(super) fn leave(&mut self, site: SiteId) {
        self.inside[self.mode(site) as usize] -= 1;
    }
}
