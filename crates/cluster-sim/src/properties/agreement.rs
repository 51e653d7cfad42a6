//! Each epoch has one view: all sites that install a view of an epoch install the same.

use std::collections::BTreeMap;

use meshlock_protocol::Epoch;

use super::{CheckResult, broken};
use crate::clock::Moment;
use meshlock_cluster::view::View;

/// The view of each epoch, as it was first installed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agreement(BTreeMap<Epoch, View>);

impl Agreement {
    pub(crate) fn on_installed(&mut self, machine: usize, view: &View, now: Moment) -> CheckResult {
        let known = self.0.entry(view.epoch).or_insert_with(|| view.clone());
        if known == view {
            return Ok(());
        }
        let epoch = view.epoch.number();
        let what = format!(
            "s{machine} installs a view {epoch} of {:?}, another one of {:?}",
            view.members, known.members
        );
        broken("agreement", now, what)
    }
}
