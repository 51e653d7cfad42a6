//! The access document: each version is the same at all sites, all members know the last one in the end, and nobody joins whom it does not
//! admit.
//!
//! A change names the version that it is based on. So each document here has, besides what it says, the versions that it was made after: a
//! document that does not contain what the one before it had has replaced something that nobody looked at.

use std::collections::BTreeMap;

use super::{CheckResult, broken};
use crate::clock::Moment;
use meshlock_cluster::access::{AccessDocument, AgreedAccess};
use meshlock_cluster::node::Node;
use meshlock_cluster::view::View;

/// The document of each version, as it was first learnt.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionCheck(BTreeMap<u64, AccessDocument>);

impl AdmissionCheck {
    /// Checks a document that a site has learnt.
    pub(crate) fn on_learnt(&mut self, machine: usize, access: &AgreedAccess, now: Moment) -> CheckResult {
        let AgreedAccess { version, document } = access;
        let known = self.0.entry(*version).or_insert_with(|| document.clone());
        if known != document {
            let what =
                format!("s{machine} learns an access document {version} that differs from another site's");
            return broken("admission", now, what);
        }
        let before = self.0.range(..version).next_back();
        if let Some((last, before)) = before.filter(|(last, _)| **last + 1 == *version)
            && !before.revoked.iter().all(|entry| document.revoked.contains(entry))
        {
            let what = format!("access document {version} has lost what document {last} had");
            return broken("admission", now, what);
        }
        Ok(())
    }

    /// Checks that whoever is new in a view is admitted, by the document that the leader knows.
    pub(crate) fn on_proposed(machine: usize, node: &Node, view: &View, now: Moment) -> CheckResult {
        let document = &node.access().document;
        let newcomers = view.members.iter().filter(|member| !node.view().contains(member));
        for member in newcomers {
            if let Err(why) = document.may_join(&member.site, None, None) {
                let what = format!("s{machine} lets {member} in, although {}", why.about(&member.site));
                return broken("admission", now, what);
            }
        }
        Ok(())
    }

    /// Checks that all members know the last document, when there was time enough.
    pub(crate) fn check_end<'a>(
        &self,
        members: impl Iterator<Item = (usize, &'a Node)>,
        now: Moment,
    ) -> CheckResult {
        let Some((last, _)) = self.0.last_key_value() else { return Ok(()) };
        for (machine, node) in members {
            let known = node.access().version;
            if known != *last {
                let what = format!("s{machine} knows access document {known}, and the last one is {last}");
                return broken("admission", now, what);
            }
        }
        Ok(())
    }
}
