//! The start of a node from its disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::attendance::Attendance;
use super::change::ViewChange;
use super::detour::Detours;
use super::inheritance::GrantHistory;
use super::outage::LastHeard;
use super::questions::Questions;
use super::registration::VoterRegistration;
use super::{Checked, Hurry, Node, NodeOutput, Purpose, WriteToken};
use crate::access::AgreedAccess;
use crate::founding::{Founding, FoundingError};
use crate::lease::MemberLease;
use crate::links::{Links, Outgoing};
use crate::membership::disk::{Disk, DiskWrite};
use crate::membership::voters::Voters;
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member};
use crate::table::LockTable;
use crate::time::Time;
use crate::view::View;

/// Returns the incarnation that begins with a start. A stamp is never that of an earlier start, so that nothing else of
/// this site has the incarnation that it names, whatever the disk says: the disk may have been lost, or put back from an
/// old copy that does not know all incarnations. If the host's calendar was set back, the leader knows a later one and
/// says which (`Content::TooOld`). Only a host that stamps two starts alike needs what the disk says.
fn first_incarnation(disk: &Disk, stamp: u64) -> Incarnation {
    let stamp = if mutant::is_on(Mutant::StampIgnored) { 0 } else { stamp };
    let (stamped, next) = (Incarnation::stamped(stamp), disk.incarnation.next());
    if next.is_of(stamp) || stamp == 0 || mutant::is_on(Mutant::OldDiskTrusted) {
        return next.max(stamped);
    }
    stamped
}

impl Node {
    /// Starts a new incarnation of the site from its disk, if the disk belongs to this cluster.
    pub fn start(
        checked: Checked,
        disk: Disk,
        now: Time,
        out: &mut Vec<NodeOutput>,
    ) -> Result<Self, FoundingError> {
        let Checked { config, rules } = checked;
        let founding = Founding::new(config.cluster.clone(), &config.sites);
        if let Some(known) = &disk.founding {
            founding.agrees_with(known)?;
        }
        let incarnation = first_incarnation(&disk, config.start_stamp);
        let me = Member { site: config.site.clone(), incarnation };
        let registration = VoterRegistration::new(&me.site, &founding.voters, &disk, incarnation);
        let first = Voters::founding(&founding.voters);
        let mut node = Node {
            cluster: founding.id(),
            history: GrantHistory::new(&first, now),
            voters: first.clone(),
            founding: first,
            voter_id: disk.voter_id,
            old_programs: BTreeMap::new(),
            attendance: Attendance::default(),
            access: AgreedAccess::default(),
            access_wanted: None,
            noted_refusal: None,
            wall_clock: None,
            registration,
            now,
            may_send: false,
            leaving: None,
            lease: MemberLease::new(config.terms, now).limit_to(config.limits.renewals),
            noticed: None,
            links: Links::new(config.link_timeouts_by(config.terms), config.link_limits),
            table: LockTable::new(config.table_config),
            view: View::default(),
            knows_rules: true,
            change: ViewChange::default(),
            leadership: None,
            lead_at: Time::ZERO,
            leader_hint: None,
            asked: None,
            unanswered: 0,
            hurry: Hurry::default(),
            answered_at: BTreeMap::new(),
            rules_wanted: None,
            voters_wanted: None,
            questions: Questions::default(),
            inquiries: VecDeque::new(),
            forgotten_inquiries: 0,
            heard: LastHeard::default(),
            detours: Detours::default(),
            noted_rival: None,
            leavers: BTreeSet::new(),
            serves_calls: false,
            lease_lost_at: None,
            has_lost_quorum: false,
            told_stale: None,
            next_look: now,
            next_tick: now + config.tick,
            writing: VecDeque::new(),
            last_token: WriteToken(0),
            wanted: Vec::new(),
            posted: Outgoing::new(),
            arrived: 0,
            claim_keys: BTreeMap::new(),
            first_rules: rules,
            membership: None,
            me,
            config,
        };
        if disk.founding.is_none() {
            node.record_founding(founding, out);
        }
        node.begin(disk, out);
        Ok(node)
    }

    /// Begins to act with what the disk says.
    fn begin(&mut self, disk: Disk, out: &mut Vec<NodeOutput>) {
        self.begin_incarnation(out);
        self.begin_voting(disk, out);
        if let Some(view) = self.membership.as_ref().map(|membership| membership.view().clone()) {
            self.learn(view, out);
        }
        self.in_membership(out, |membership, out| membership.on_start(out));
        self.lead_if_due(out);
    }

    /// Writes at the first start what the disk says for ever: the identity of the cluster and its own.
    fn record_founding(&mut self, founding: Founding, out: &mut Vec<NodeOutput>) {
        let registrations = DiskWrite::Registrations(self.registration.registrations());
        self.persist(vec![DiskWrite::Founding(founding), registrations], Purpose::Record, out);
    }
}
