//! A cache of the last runs, so that another step of a run can be shown without playing it again from its start.

use std::sync::{Arc, Mutex, PoisonError};

use crate::run::{Run, play};
use crate::setup::{Parts, RunSetup, SetupError};

/// The number of runs that are kept.
const KEPT: usize = 8;

/// The last runs, latest last.
#[derive(Default)]
pub(super) struct Cache {
    runs: Mutex<Vec<(String, Arc<dyn Run>)>>,
}

impl Cache {
    /// The run of an address, played now or before.
    pub(super) fn run(&self, parts: &Parts) -> Result<Arc<dyn Run>, SetupError> {
        let setup = RunSetup::read(parts)?;
        let key = setup.to_string();
        if let Some(run) = self.known(&key) {
            return Ok(run);
        }
        let run: Arc<dyn Run> = Arc::from(play(setup)?);
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() == KEPT {
            runs.remove(0);
        }
        runs.push((key, Arc::clone(&run)));
        Ok(run)
    }

    fn known(&self, key: &str) -> Option<Arc<dyn Run>> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let at = runs.iter().position(|(known, _)| known == key)?;
        let found = runs.remove(at);
        let run = Arc::clone(&found.1);
        runs.push(found);
        Some(run)
    }
}
