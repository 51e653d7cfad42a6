//! Recovery: what a site's disk becomes when a majority of the voters is gone for good, and an operator makes this site the first of a
//! new cluster that knows the old one.
//!
//! The new cluster has one voter, this site, and so another [founding](crate::founding): its packets are not those of the old one, and a
//! site with a disk of the old one is refused until it joins anew with an empty one. What is known of the old cluster becomes the state with
//! which the new one's log begins:
//!
//! - **The access document** admits this site, whatever it said of it: otherwise nobody could take part.
//! - **Rules, terms of leases, past incarnations and the access document** are those of the last view in this site's log, *also if that was not committed*: an
//!   entry that this voter has may have been committed without its knowledge, and then its rules were confirmed to somebody.
//! - **Members** stay listed. So the new leader, which is this site, treats them as any new leader treats the members that it finds: it
//!   admits nobody, not even itself, before their leases are certainly over. Members that this site does not know of had leases of the same
//!   length, granted before the operator stopped them. That is why the wait also takes place if this site knows of no member: then
//!   its own last incarnation is listed.
//! - **The epoch** jumps by [`RECOVERY_JUMP`], and at least to the given one, which is that of the wall clock: the others may have agreed on
//!   views that this site does not know. They would have to be more than the jump, and more than one in four minutes since the founding,
//!   to have reached it.
//!
//! What no rule can replace is the operator's word that the others are stopped. If they are only cut off, they go on as the old cluster.

use std::collections::BTreeMap;

use meshlock_protocol::Epoch;

use super::disk::{Ballot, Disk, DiskWrite, Registrations, Saved};
use super::voters::Voters;
use crate::access::AgreedAccess;
use crate::fence_floor::RECOVERY_JUMP;
use crate::founding::Founding;
use crate::mutant::{self, Mutant};
use crate::names::{ClusterName, Incarnation, Member, SiteName};
use crate::view::View;

/// The reason why no cluster can be made of what a disk says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The site has never been started.
    #[error(
        "no cluster is known here: the site has never been started with this directory; there is nothing to recover"
    )]
    NeverStarted,
    /// Only voters write down what was agreed on.
    #[error(
        "this site does not know what its cluster has agreed on, because it did not vote; recover on a site that did, or found a new \
         cluster with empty data directories and --fence-floor-from BACKUP"
    )]
    NoView,
    /// The new cluster could not be told from the old one.
    #[error(
        "the cluster '{0}' was founded by this site alone, so that a new one of that name could not be told from it; give the new one \
         another name: --cluster NAME"
    )]
    SameFounding(ClusterName),
    /// Fences cannot rise any further.
    #[error("no epochs are left above {}: fences cannot rise any further", .0.number())]
    NoEpochs(Epoch),
}

/// How a site becomes the first of a new cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRecovery {
    /// What an empty disk is given.
    pub writes: Vec<DiskWrite>,
    /// The old cluster's name, and the new one's.
    pub clusters: (ClusterName, ClusterName),
    /// Who voted, as far as this site knows.
    pub voters: Voters,
    /// The last view that this site knows of.
    pub last: View,
    /// The index and the term of its last entry: of two survivors, the one with the higher term, then the higher index, knows more.
    pub known: (u64, u64),
    /// The state with which the new cluster begins.
    pub first: View,
}

impl Disk {
    /// Returns how the site becomes the first of a new cluster, of another name if one is given, whose epochs are above `least`.
    pub fn recovery(
        &self,
        site: &SiteName,
        name: Option<ClusterName>,
        least: Epoch,
    ) -> Result<ClusterRecovery, RecoveryError> {
        let old = self.founding.as_ref().ok_or(RecoveryError::NeverStarted)?;
        let founded = Voters::founding(&old.voters);
        let last_state = self.last_state(&founded);
        let last = last_state.view.clone();
        if last.epoch == Epoch::default() {
            return Err(RecoveryError::NoView);
        }
        let old_name = old.cluster().clone();
        let name = name.unwrap_or_else(|| old_name.clone());
        let founding = Founding::new(name.clone(), std::slice::from_ref(site));
        if founding == *old {
            return Err(RecoveryError::SameFounding(name));
        }
        let by_jump = last.epoch.number().checked_add(RECOVERY_JUMP).and_then(Epoch::new);
        let epoch = by_jump.ok_or(RecoveryError::NoEpochs(last.epoch))?.max(least);
        let known =
            self.known.as_ref().filter(|known| known.changed_at > last_state.voters(&founded).changed_at);
        let voters = known.unwrap_or(last_state.voters(&founded)).clone();
        let first = first_view(&last, site, self.incarnation, epoch);
        let (index, term) = (last_state.index + 1, self.ballot.term.max(last_state.term) + 1);
        // The document that bars sites and revokes clients must not be an older one than any that was confirmed.
        let access =
            [&last_state.access, &self.known_access].into_iter().flatten().max_by_key(|known| known.version);
        let access = access.cloned().map(|access| admitting(access, site));
        let disk = self.identity().unwrap_or(self.incarnation);
        let writes = vec![
            DiskWrite::Founding(founding),
            DiskWrite::Registrations(Registrations { disk, may_vote: true, others: BTreeMap::new() }),
            DiskWrite::Incarnation(self.incarnation),
            DiskWrite::Install(Saved { index, term, view: first.clone(), voters: None, access }),
            DiskWrite::Ballot(Ballot { term, vote: raft::INVALID_ID, commit: index }),
        ];
        let known = (last_state.index, last_state.term);
        Ok(ClusterRecovery { writes, clusters: (old_name, name), voters, last, known, first })
    }
}

/// Returns the document as the new cluster begins with it. Whoever makes a site the first of a cluster means that it takes part: a
/// document that bars it would leave a cluster without members, in which nothing can be changed any more.
fn admitting(access: AgreedAccess, site: &SiteName) -> AgreedAccess {
    let AgreedAccess { version, mut document } = access;
    if document.may_join(site, None, None).is_ok() || mutant::is_on(Mutant::RecoveredIsBarred) {
        return AgreedAccess { version, document };
    }
    document.revoked.retain(|entry| entry.strip_prefix("site/") != Some(site.as_str()));
    document.admit(site.clone(), None);
    AgreedAccess { version: version + 1, document }
}

/// Returns the state with which the new cluster begins: the last view, with the site's last incarnation among its members.
fn first_view(last: &View, site: &SiteName, incarnation: Incarnation, epoch: Epoch) -> View {
    let mut first = View { epoch, ..last.clone() };
    if first.member(site).is_none() {
        first.past.retain(|past| past.site != *site);
        first
            .members
            .push(Member { site: site.clone(), incarnation: incarnation.max(last.last_incarnation(site)) });
        first.members.sort();
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{AccessDocument, JoinRefusal};
    use crate::membership::disk::{self, LogEntry};
    use crate::names::Incarnation;

    fn name(text: &str) -> SiteName {
        text.parse().unwrap()
    }

    fn member(site: &str, incarnation: u64) -> Member {
        Member { site: name(site), incarnation: Incarnation::new(incarnation) }
    }

    fn epoch(number: u32) -> Epoch {
        Epoch::new(number).unwrap()
    }

    /// The disk of the voter a of three, whose log ends with a view that is not known to be committed.
    fn disk() -> Disk {
        let mut disk = Disk::default();
        let founding = Founding::new("prod".parse().unwrap(), &[name("a"), name("b"), name("c")]);
        let committed =
            View { epoch: epoch(40), members: vec![member("a", 1), member("b", 1)], ..View::default() };
        let after =
            View { epoch: epoch(41), rules_version: 7, past: vec![member("c", 1)], ..committed.clone() };
        for write in [
            DiskWrite::Founding(founding),
            DiskWrite::Incarnation(Incarnation::new(5)),
            DiskWrite::Install(Saved { index: 9, term: 3, view: committed, voters: None, access: None }),
            DiskWrite::Append(vec![LogEntry { index: 10, term: 4, data: disk::encode(&after) }]),
            DiskWrite::Ballot(Ballot { term: 6, vote: 2, commit: 9 }),
        ] {
            disk.apply(&write);
        }
        disk
    }

    fn applied(writes: &[DiskWrite]) -> Disk {
        let mut disk = Disk::default();
        for write in writes {
            disk.apply(write);
        }
        disk
    }

    #[test]
    fn the_new_cluster_begins_with_the_last_view_of_the_log_and_an_epoch_far_above_it() {
        let plan = disk().recovery(&name("a"), None, epoch(1)).unwrap();
        assert_eq!((plan.last.epoch, plan.known), (epoch(41), (10, 4)), "the entry may have been committed");
        assert_eq!(plan.first, View { epoch: epoch(41 + RECOVERY_JUMP), ..plan.last.clone() });
        assert_eq!(plan.first.rules_version, 7);
        let new = applied(&plan.writes);
        assert_eq!((new.ballot, new.saved.index), (Ballot { term: 7, vote: 0, commit: 11 }, 11));
        assert_eq!(new.founding, Some(Founding::new("prod".parse().unwrap(), &[name("a")])));
        assert!(
            new.registrations.is_some_and(|known| known.may_vote) && new.incarnation == Incarnation::new(5)
        );
        let high = disk().recovery(&name("a"), None, epoch(3_000_000)).unwrap();
        assert_eq!(high.first.epoch, epoch(3_000_000));
    }

    #[test]
    fn the_newest_access_document_stays_whether_it_comes_from_the_log_or_from_another_site() {
        let document = |version| AgreedAccess { version, ..AgreedAccess::default() };
        let recovered = |disk: &Disk| {
            applied(&disk.recovery(&name("a"), None, epoch(1)).unwrap().writes)
                .saved
                .access
                .map(|kept| kept.version)
        };
        let mut disk = disk();
        assert_eq!(recovered(&disk), None);
        let data = crate::membership::access::encode(&document(1));
        disk.apply(&DiskWrite::Append(vec![LogEntry { index: 11, term: 4, data }]));
        assert_eq!(recovered(&disk), Some(1));
        disk.apply(&DiskWrite::KnownAccess(document(3)));
        assert_eq!(recovered(&disk), Some(3));
    }

    #[test]
    fn a_site_that_was_removed_or_revoked_may_take_part_in_the_cluster_that_is_recovered_on_it() {
        let barred = |edit: fn(&mut AccessDocument)| {
            let mut document = AccessDocument::default();
            document.revoked.extend(["client/x".to_owned(), "site/b".to_owned()]);
            edit(&mut document);
            assert!(document.may_join(&name("a"), None, None).is_err());
            document
        };
        for document in [
            barred(|document| document.remove(&name("a"))),
            barred(|document| document.revoked.push("site/a".to_owned())),
            barred(|document| document.close(&[name("b")])),
        ] {
            let recovered = || {
                let mut disk = disk();
                disk.apply(&DiskWrite::KnownAccess(AgreedAccess { version: 3, document: document.clone() }));
                applied(&disk.recovery(&name("a"), None, epoch(1)).unwrap().writes).saved.access.unwrap()
            };
            let AgreedAccess { version, document: kept } = recovered();
            assert_eq!((version, kept.may_join(&name("a"), None, None)), (4, Ok(())));
            assert_eq!(kept.check(), Ok(()));
            assert_eq!(kept.revoked, ["client/x", "site/b"], "everyone else stays outside");
            assert_eq!(kept.bars(&name("b")), Some(JoinRefusal::Revoked));
            let mutant = mutant::with(Mutant::RecoveredIsBarred, recovered);
            assert!(mutant.document.may_join(&name("a"), None, None).is_err());
        }
    }

    #[test]
    fn a_site_that_is_no_member_lists_its_last_incarnation_so_that_leases_are_waited_for() {
        let mut disk = disk();
        let all_left =
            View { epoch: epoch(42), past: vec![member("a", 4), member("b", 1)], ..View::default() };
        disk.apply(&DiskWrite::Append(vec![LogEntry { index: 11, term: 4, data: disk::encode(&all_left) }]));
        let plan = disk.recovery(&name("a"), None, epoch(1)).unwrap();
        assert_eq!((plan.first.members, plan.first.past), (vec![member("a", 5)], vec![member("b", 1)]));
    }

    #[test]
    fn what_cannot_be_recovered_is_refused_with_the_next_step() {
        let refused = |disk: &Disk, name: Option<&str>, site: &str| {
            let name = name.map(|name| name.parse().unwrap());
            disk.recovery(&site.parse().unwrap(), name, epoch(1)).unwrap_err()
        };
        assert_eq!(refused(&Disk::default(), None, "a"), RecoveryError::NeverStarted);
        let mut bystander = Disk::default();
        bystander
            .apply(&DiskWrite::Founding(Founding::new("prod".parse().unwrap(), &[name("a"), name("b")])));
        assert_eq!(refused(&bystander, None, "c"), RecoveryError::NoView);
        let once = applied(&disk().recovery(&name("a"), None, epoch(1)).unwrap().writes);
        assert_eq!(refused(&once, None, "a"), RecoveryError::SameFounding("prod".parse().unwrap()));
        assert_eq!(refused(&once, Some("prod"), "a"), RecoveryError::SameFounding("prod".parse().unwrap()));
        assert!(once.recovery(&name("a"), Some("prod-2".parse().unwrap()), epoch(1)).is_ok());
        let mut last = disk();
        let view = View { epoch: Epoch::MAX, ..View::default() };
        last.apply(&DiskWrite::Install(Saved { index: 9, term: 3, view, voters: None, access: None }));
        assert_eq!(refused(&last, None, "a"), RecoveryError::NoEpochs(Epoch::MAX));
    }
}
