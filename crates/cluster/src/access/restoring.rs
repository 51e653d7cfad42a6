//! What a backup gives back to a cluster's access document.
//!
//! A backup is older than what was decided since, and a cluster that was founded again has no document at all. So:
//!
//! - Rules, tokens and limits are those of the backup.
//! - Who is revoked by either stays revoked: an old backup must not let in whom somebody has shut out since.
//! - Where the cluster is open and nobody has said which sites may join, admission is that of the backup: a cluster that was closed is not
//!   left open by being founded again. The sites that belong to the cluster now may join whatever the backup says.
//! - A site that was removed stays removed, unless it belongs to the cluster now or was added again.

use super::{AccessDocument, Admission};
use crate::mutant::{self, Mutant};
use crate::names::SiteName;

impl AccessDocument {
    /// Takes over what a backup says. `known` are the sites that belong to the cluster.
    pub fn restore(&mut self, backup: &AccessDocument, known: &[SiteName]) {
        self.rules.clone_from(&backup.rules);
        self.tokens.clone_from(&backup.tokens);
        self.limits = backup.limits;
        if mutant::is_on(Mutant::RestoreForgets) {
            return self.revoked.clone_from(&backup.revoked);
        }
        for entry in &backup.revoked {
            if !self.revoked.contains(entry) {
                self.revoked.push(entry.clone());
            }
        }
        let is_unsaid = self.admission == Admission::Open && self.sites.is_empty();
        if backup.admission == Admission::Closed && is_unsaid {
            self.close(known);
            for site in &backup.sites {
                let is_listed = self.sites.iter().any(|listed| listed.name == site.name);
                if !is_listed && !self.removed.contains(&site.name) {
                    self.admit(site.name.clone(), site.token.clone());
                }
            }
        }
        for site in &backup.removed {
            let is_added = self.sites.iter().any(|listed| listed.name == *site);
            if !known.contains(site) && !is_added {
                self.remove(site);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> SiteName {
        name.parse().unwrap()
    }

    fn names(document: &AccessDocument) -> (Vec<&str>, Vec<&str>) {
        let admitted = document.sites.iter().map(|site| site.name.as_str()).collect();
        (admitted, document.removed.iter().map(SiteName::as_str).collect())
    }

    /// The backup of a closed cluster of a, b and x, from which r and c were removed.
    fn backup() -> AccessDocument {
        let mut backup = AccessDocument::default();
        backup.close(&[site("a"), site("b"), site("x")]);
        backup.remove(&site("r"));
        backup.remove(&site("c"));
        backup.revoked.push("client/old".to_owned());
        backup.limits.rate = Some(7);
        backup
    }

    #[test]
    fn a_cluster_that_was_founded_again_is_closed_as_the_lost_one_was_and_whoever_was_removed_stays_outside()
    {
        let mut founded = AccessDocument::default();
        // One of its sites had been removed from the lost cluster: whoever founded it anew means that it takes part.
        founded.restore(&backup(), &[site("a"), site("b"), site("c")]);
        assert_eq!(founded.admission, Admission::Closed);
        assert_eq!(names(&founded), (vec!["a", "b", "c", "x"], vec!["r"]));
        assert_eq!((founded.limits.rate, founded.check()), (Some(7), Ok(())));
        let again = founded.clone();
        founded.restore(&backup(), &[site("a"), site("b"), site("c")]);
        assert_eq!(founded, again, "a second time changes nothing");
    }

    #[test]
    fn nobody_who_was_shut_out_after_the_backup_is_let_in_by_it() {
        let restored = || {
            let mut current = AccessDocument::default();
            current.revoked.push("client/new".to_owned());
            current.remove(&site("x"));
            // Somebody has said who may join: the backup does not say otherwise.
            current.admit(site("r"), None);
            current.restore(&backup(), &[site("a")]);
            current
        };
        let current = restored();
        assert_eq!(current.revoked, ["client/new", "client/old"]);
        assert_eq!((current.admission, names(&current)), (Admission::Open, (vec!["r"], vec!["c", "x"])));
        assert_eq!(mutant::with(Mutant::RestoreForgets, restored).revoked, ["client/old"]);
    }
}
