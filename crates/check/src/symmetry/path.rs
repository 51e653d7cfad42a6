//! Runs of the sites themselves along the states that a search up to symmetry has kept.

use crate::moves::Taken;
use crate::reduce::{Ahead, Lookahead};
use crate::search::Search;
use crate::state::GlobalState;
use crate::store::StatePlace;
use crate::symmetry::Lookalikes;
use crate::worker::{Finding, Worker};

impl Search {
    /// A run through states for which those at `places` stand, and its last state.
    pub(crate) fn run_along(&self, places: &[StatePlace]) -> (Vec<Taken>, GlobalState) {
        let (mut path, mut state) = (Vec::new(), self.state_at(places[0]));
        for &place in &places[1..] {
            let wanted = self.state_at(place);
            let (steps, next) =
                self.step_to(&state, &wanted).expect("what can follow a state can follow its images");
            path.extend(steps);
            state = next;
        }
        (path, state)
    }

    /// Steps from `state` to one for which `wanted` stands.
    fn step_to(&self, state: &GlobalState, wanted: &GlobalState) -> Option<(Vec<Taken>, GlobalState)> {
        let (table, layout) = (&self.table, self.layout);
        let (mut found, mut alike) = (None, Lookalikes::default());
        let mut look = |steps: &dyn Fn() -> Vec<Taken>, next: &GlobalState| {
            let mut kept = next.clone();
            table.exchange_sites(layout, &mut kept, &mut alike);
            if found.is_none() && kept == *wanted {
                found = Some((steps(), next.clone()));
            }
        };
        if table.bounds.reduces {
            let mut lookahead = Lookahead::that_looks_itself();
            lookahead.run(table, layout, state, &mut |steps, seen| {
                if let Ahead::Burst { next, .. } = seen {
                    look(&|| steps.taken(), next);
                }
            });
            return found;
        }
        let (mut moves, mut next) = (Vec::new(), GlobalState::default());
        table.moves(layout, state, &mut moves);
        for step in moves {
            let known = table.apply_all(layout, state, step, &mut next, |taken, wrong, next| {
                if wrong.is_none() {
                    look(&|| vec![taken], next);
                }
            });
            known.expect("the images of all steps were learnt");
        }
        found
    }

    /// What is wrong with a state, or in the first steps from it, for which a kept state stands with which something is wrong.
    pub(crate) fn judge_again(&self, state: &GlobalState, at: StatePlace) -> Finding {
        let (mut worker, mut body) = (Worker::that_looks_itself(), Vec::new());
        self.layout.encode(state, &mut body);
        let known = worker.expand(&self.table, self.layout, at, at, &body);
        known.expect("the images of all steps were learnt");
        let findings = worker.findings.into_iter();
        findings.min_by_key(|finding| finding.steps.len()).expect("its image is wrong as well")
    }
}
