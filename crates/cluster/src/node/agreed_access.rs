//! The access document, as a node knows and applies it: it learns it from the log or from the leader, refuses sites by it, and passes on what
//! operators ask for. [`access`](crate::access) says what it is.
//!
//! **Who knows.** Voters know it from the log. Once there is a document, every member tells the leader which version it knows, beside its
//! requests for renewals, and is sent the document if that is an older one. A joiner gets it together with the view, and before it, so that no site serves a client
//! that it would not serve if it knew the document. A member that knows none says nothing, and the document may not have reached it: so a leader
//! asks those of which it does not know better, whenever they renew their leases. What a site was told is on its disk: it applies also after a restart.
//!
//! **What the leader does by it.** It refuses requests to join, and answers why. It renews no lease of a site that is barred, which is
//! removed or revoked: so such a site is left out when its lease is over, whether it obeys or not, and nobody is in danger meanwhile. As soon
//! as a site has joined that needed a token, it proposes the document without that token.
//!
//! **Versions.** A program that does not know the document would let in whom it refuses. So nothing changes while a member has not said
//! which version it knows, which the leader asks before the first change; and once there is a document a site with such a program may not join.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::numbered;

use super::clients::ClientAnswer;
use super::packet::Content;
use super::{Node, NodeOutput, Note, Purpose};
use crate::access::{AccessDocument, AgreedAccess, JoinRefusal};
use crate::membership::disk::DiskWrite;
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member, SiteName};
use crate::report::Age;
use crate::table::Request;
use crate::time::{Span, Time};
use crate::view::View;

/// How long a change of the document may take before its client is told that it could not be done.
const CHANGE_WITHIN: Span = Span::from_millis(5000);

/// Maximum number of sites that a refusal names.
const MAX_NAMED: usize = 16;

/// Maximum number of sites whose refusal is noted once for each reason.
const MAX_NOTED: usize = 1024;

/// Maximum length of a join token in bytes.
const MAX_TOKEN_BYTES: usize = 512;

/// What the leader refuses by the document, or about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccessRefusal {
    /// The site may not take part.
    Join(JoinRefusal),
    /// The document is not changed as this site has asked.
    Change { base: u64, why: ChangeRefusal },
}

numbered! { AccessRefusal {
    0 => Join(value),
    1 => Change { base, why },
} }

/// The reason why a document is not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ChangeRefusal {
    #[error("{0}")]
    Invalid(String),
    #[error(
        "{} run a program that does not know the cluster's access document, or have not said yet that they do; upgrade them, and ask again",
        list(.0)
    )]
    OlderVersion(Vec<SiteName>),
    #[error(
        "it would revoke so many of the voters that the others could not decide anything any more; replace voters first (`meshlock site replace`)"
    )]
    NoMajority,
}

numbered! { ChangeRefusal {
    0 => Invalid(value),
    1 => OlderVersion(value),
    2 => NoMajority,
} }

fn list(sites: &[SiteName]) -> String {
    sites.iter().map(SiteName::as_str).collect::<Vec<_>>().join(", ")
}

/// A document that a client here asked for.
#[derive(Clone, Debug)]
pub(super) struct AccessWanted {
    request: Request,
    base: u64,
    document: AccessDocument,
    /// When the client is told that it could not be done.
    until: Time,
    /// Whether some leader may have received it.
    is_sent: bool,
}

impl AccessWanted {
    pub(super) fn until(&self) -> Time {
        self.until
    }
}

/// What a leader knows of members and the document.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessDuty {
    /// The version that each member has said that it knows.
    known: BTreeMap<Member, u64>,
    /// The version that was proposed last.
    proposed: Option<u64>,
    /// Since when it has asked members which version they know.
    asked_since: Option<Time>,
    /// When it has last asked them so that it can close the cluster.
    asked_at: Option<Time>,
    /// The refusals that were noted.
    noted: BTreeSet<(SiteName, JoinRefusal)>,
}

impl AccessDuty {
    /// Reacts to a view.
    pub(super) fn on_agreed(&mut self, view: &View) {
        self.known.retain(|member, _| view.contains(member));
    }

    /// Returns the members that have not said that they know the document.
    fn older(&self, view: &View) -> Vec<SiteName> {
        self.not_heard(view).take(MAX_NAMED).cloned().collect()
    }

    /// The same without a limit.
    pub(super) fn not_heard<'a>(&'a self, view: &'a View) -> impl Iterator<Item = &'a SiteName> {
        view.members.iter().filter(|member| !self.known.contains_key(*member)).map(|member| &member.site)
    }

    /// Returns whether it is time to ask the members again which version they know, at most once in `pause`.
    pub(super) fn asks_again(&mut self, now: Time, pause: Span) -> bool {
        let is_due = self.asked_at.is_none_or(|asked| now.since(asked) >= pause);
        if is_due {
            self.asked_at = Some(now);
        }
        is_due
    }

    /// Returns whether this refusal was not noted before.
    fn is_news(&mut self, site: &SiteName, why: JoinRefusal) -> bool {
        if self.noted.len() >= MAX_NOTED {
            self.noted.clear();
        }
        self.noted.insert((site.clone(), why))
    }
}

impl Node {
    /// Returns the access document, as far as this site knows.
    pub fn access(&self) -> &AgreedAccess {
        &self.access
    }

    /// Returns whether nothing is carried for a site, because it is revoked: it has no connection of its own any more.
    pub(super) fn is_shut_out(&self, site: &SiteName) -> bool {
        self.access.document.revokes(site) && !mutant::is_on(Mutant::RevokedIsCarried)
    }

    /// Returns the request to join, with the token that the operator has given this site.
    pub(super) fn join_request(&self, leader: &SiteName, reached: Vec<Member>) -> Content {
        let (epoch, address) = (self.view.epoch, self.config.address.clone());
        match &self.config.join_token {
            Some(token) if self.knows_access(leader) => {
                Content::JoinWithToken { epoch, reached, address, token: token.clone() }
            }
            Some(_) | None => Content::Join { epoch, reached, address },
        }
    }

    /// Tells the leader which document this member knows, if it knows one.
    pub(super) fn send_access_known(&mut self, leader: SiteName, out: &mut Vec<NodeOutput>) {
        if self.access.version > 0 {
            self.answer_access_known(leader, out);
        }
    }

    /// Tells the leader, which has asked, which document this site knows.
    pub(super) fn answer_access_known(&mut self, leader: SiteName, out: &mut Vec<NodeOutput>) {
        let version = self.access.version;
        self.send(leader, Content::AccessKnown { version, asks: false }, out);
    }

    /// Tells a site the document, unless it is known to have it.
    pub(super) fn tell_access(&mut self, site: &SiteName, out: &mut Vec<NodeOutput>) {
        let version = self.access.version;
        let member = self.view.member(site).or(self.membership.as_ref().and_then(|m| m.view().member(site)));
        let known = self.leadership.as_ref().zip(member);
        let is_known = known.is_some_and(|(leads, member)| leads.access.known.get(member) == Some(&version));
        if version > 0 && *site != self.me.site && !is_known {
            self.send(site.clone(), Content::Access(self.access.clone()), out);
        }
    }

    /// Handles a document that the leader says was agreed on.
    pub(super) fn on_access(&mut self, from: &SiteName, access: AgreedAccess, out: &mut Vec<NodeOutput>) {
        if !self.votes(from) {
            return Node::doubt(from.clone(), "an access document from a site that does not vote", out);
        }
        if !access.is_well_formed() {
            return Node::misbehaved(from.clone(), "an access document that cannot be", out);
        }
        if access.version > self.access.version {
            self.persist(vec![DiskWrite::KnownAccess(access.clone())], Purpose::Record, out);
            self.learn_access(access, out);
        }
    }

    /// Reacts to the voters having agreed on a document.
    pub(super) fn on_access_agreed(&mut self, access: AgreedAccess, out: &mut Vec<NodeOutput>) {
        if access.version > self.access.version {
            // It is in the log, but after a restart that is believed only when others have confirmed it: until then this site would go by an
            // older one.
            self.persist(vec![DiskWrite::KnownAccess(access.clone())], Purpose::Record, out);
        }
        self.learn_access(access, out);
        if let Some(leadership) = &mut self.leadership {
            leadership.forget_joiners();
            for site in self.others() {
                self.tell_access(&site, out);
            }
        }
    }

    /// Learns a document, if it is news.
    pub(super) fn learn_access(&mut self, access: AgreedAccess, out: &mut Vec<NodeOutput>) {
        if access.version <= self.access.version {
            return;
        }
        self.access = access;
        out.push(NodeOutput::Note(Note::AccessAgreed(self.access.clone())));
        self.answer_access(out);
    }

    /// Returns whether the leader handles a request of this site, by the document that it has applied. If not, the site is told why.
    pub(super) fn is_admitted(
        &mut self,
        from: &Member,
        content: &Content,
        out: &mut Vec<NodeOutput>,
    ) -> bool {
        let (document, site) = (&self.access.document, &from.site);
        let asks_to_join = matches!(content, Content::Join { .. } | Content::JoinWithToken { .. });
        let checked = if asks_to_join {
            let token = if let Content::JoinWithToken { token, .. } = content {
                Some(token.0.as_str())
            } else {
                None
            };
            let token = token.filter(|token| token.len() <= MAX_TOKEN_BYTES);
            let is_shut_out = self.is_shut_out_by_configuration(site);
            document.may_join(site, token, self.wall_clock).and(if is_shut_out {
                Err(JoinRefusal::NotListed)
            } else {
                Ok(())
            })
        } else if matches!(content, Content::Renew { .. }) && !mutant::is_on(Mutant::RemovedIsRenewed) {
            document.bars(site).map_or(Ok(()), Err)
        } else {
            Ok(())
        };
        let is_old = asks_to_join && self.access.version > 0 && !self.knows_access(site);
        let checked = checked.and(if is_old { Err(JoinRefusal::OlderVersion) } else { Ok(()) });
        let Err(why) = checked else { return true };
        if asks_to_join && mutant::is_on(Mutant::AdmissionIgnored) {
            return true;
        }
        if let Some(leadership) = &mut self.leadership {
            leadership.forget_joiner(site);
            if leadership.access.is_news(site, why) {
                out.push(NodeOutput::Note(Note::JoinRefused { site: site.clone(), why }));
            }
        }
        let answer = Content::AccessRefused { to: from.incarnation, why: AccessRefusal::Join(why) };
        self.send(site.clone(), answer, out);
        false
    }

    /// Handles a member's word which document it knows, as the leader.
    pub(super) fn on_access_known(&mut self, from: &Member, version: u64, out: &mut Vec<NodeOutput>) {
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        if !membership.view().contains(from) {
            return;
        }
        leadership.access.known.insert(from.clone(), version);
        if version < self.access.version {
            self.tell_access(&from.site, out);
        }
    }

    /// Asks a member that renews its lease which document it knows, as the leader, if there is one and the member may know none. Nobody
    /// may have told it: the leader that proposed the document may have lost its leadership before it knew that it was agreed on.
    pub(super) fn ask_access_known(&mut self, member: &Member, out: &mut Vec<NodeOutput>) {
        let (Some(leadership), version) = (&self.leadership, self.access.version) else { return };
        let may_know_none = leadership.access.known.get(member).is_none_or(|known| *known == 0);
        let is_other = member.site != self.me.site && self.view.contains(member);
        if version > 0 && may_know_none && is_other && !mutant::is_on(Mutant::DocumentToldOnce) {
            self.send(member.site.clone(), Content::AccessKnown { version, asks: true }, out);
        }
    }

    /// Handles a request for another document, as the leader.
    pub(super) fn on_access_request(
        &mut self,
        from: &Member,
        base: u64,
        document: AccessDocument,
        out: &mut Vec<NodeOutput>,
    ) {
        let (now, fresh) = (self.now, self.config.terms.renew_every.times(3));
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        let view = membership.view();
        if !view.contains(from) {
            return;
        }
        leadership.access.known.insert(from.clone(), base.min(self.access.version));
        let older = leadership.access.older(view);
        let asked: Vec<SiteName> = leadership.access.not_heard(view).cloned().collect();
        if older.is_empty() {
            leadership.access.asked_since = None;
        }
        let since = *leadership.access.asked_since.get_or_insert(now);
        let checked = document.check().map_err(|error| ChangeRefusal::Invalid(error.to_string()));
        let checked = checked.and_then(|()| {
            let decides = membership.voters().can_decide(|voter| !document.revokes(&voter.site));
            if decides { Ok(()) } else { Err(ChangeRefusal::NoMajority) }
        });
        let checked = checked.and_then(|()| {
            let all_know = older.is_empty() || mutant::is_on(Mutant::OlderMemberNotAsked);
            if all_know { Ok(()) } else { Err(ChangeRefusal::OlderVersion(older)) }
        });
        if let Err(why) = checked {
            // Whoever asked asks again, when the members have answered.
            let is_early = matches!(why, ChangeRefusal::OlderVersion(_)) && now.since(since) < fresh;
            if !is_early {
                let why = AccessRefusal::Change { base, why };
                self.send(from.site.clone(), Content::AccessRefused { to: from.incarnation, why }, out);
            }
            let version = self.access.version;
            for site in asked {
                self.send(site, Content::AccessKnown { version, asks: true }, out);
            }
            return;
        }
        if base == self.access.version || mutant::is_on(Mutant::AnyBaseAccepted) {
            self.propose_access(document, out);
        } else {
            self.tell_access(&from.site, out);
        }
    }

    /// Proposes the document without the tokens of sites that have joined, as the leader.
    pub(super) fn use_up_tokens(&mut self, out: &mut Vec<NodeOutput>) {
        let (Some(_), Some(membership)) = (&self.leadership, &self.membership) else { return };
        if self.access.document.sites.iter().all(|site| site.token.is_none()) {
            return;
        }
        let members = membership.view().members.iter().map(|member| &member.site);
        let used = self.access.document.with_tokens_used(members);
        if let Some(next) = used.filter(|_| !mutant::is_on(Mutant::TokenStays)) {
            self.propose_access(next, out);
        }
    }

    /// Proposes the next document, as the leader, unless the one that it would replace is not applied yet.
    pub(super) fn propose_access(&mut self, document: AccessDocument, out: &mut Vec<NodeOutput>) {
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        let version = membership.access().map_or(0, |access| access.version) + 1;
        if leadership.access.proposed >= Some(version) || self.access.version + 1 != version {
            return;
        }
        leadership.access.proposed = Some(version);
        let (next, mut proposed) = (AgreedAccess { version, document }, false);
        self.in_membership(out, |membership, out| proposed = membership.propose_access(&next, out));
        if let (false, Some(leadership)) = (proposed, &mut self.leadership) {
            leadership.access.proposed = None;
        }
    }

    /// Handles a client's call to change the document, which is checked before any other site receives it.
    pub(super) fn on_set_access(
        &mut self,
        request: Request,
        base: u64,
        document: AccessDocument,
        out: &mut Vec<NodeOutput>,
    ) {
        let refuse = |why: String| NodeOutput::Answer(ClientAnswer::AccessRefused { request, why });
        if self.access_wanted.is_some() {
            let why = "another change of the cluster's access document is under way at this site; ask again when it is done";
            return out.push(refuse(why.to_owned()));
        }
        if !self.view.contains(&self.me) {
            let why =
                "this site does not take part in its cluster; ask again when it does, or at another site";
            return out.push(refuse(why.to_owned()));
        }
        if let Err(error) = document.check() {
            return out.push(refuse(error.to_string()));
        }
        if base == self.access.version && document == self.access.document {
            return out.push(NodeOutput::Answer(ClientAnswer::AccessSet { request, version: base }));
        }
        let until = self.now + CHANGE_WITHIN;
        self.access_wanted = Some(AccessWanted { request, base, document, until, is_sent: false });
        if base < self.access.version {
            return self.answer_access(out);
        }
        // Asked now, and again with every renewal until there is such a version.
        self.reach_out(out);
    }

    /// Sends what a client asked for to the probable leader, unless too few voters are reachable: then nobody can change it, and what is not
    /// sent cannot take effect after the client has been told that it was not done.
    pub(super) fn send_access_wanted(&mut self, leader: &SiteName, out: &mut Vec<NodeOutput>) {
        if !self.voters_in_reach().is_majority() && !self.lease.is_valid(self.now) {
            return;
        }
        let Some(wanted) = &mut self.access_wanted else { return };
        wanted.is_sent = true;
        let content = Content::SetAccess { base: wanted.base, document: wanted.document.clone() };
        self.send(leader.clone(), content, out);
    }

    /// Answers a call to change the document, after this site has learnt one: is it the requested one?
    fn answer_access(&mut self, out: &mut Vec<NodeOutput>) {
        let version = self.access.version;
        let Some(wanted) = self.access_wanted.take_if(|wanted| version > wanted.base) else { return };
        let request = wanted.request;
        out.push(NodeOutput::Answer(if wanted.document == self.access.document {
            ClientAnswer::AccessSet { request, version }
        } else {
            let why =
                "someone else changed the cluster's access document meanwhile; look at it and ask again";
            ClientAnswer::AccessRefused { request, why: why.to_owned() }
        }));
    }

    /// Handles a refusal of the leader.
    pub(super) fn on_access_refused(
        &mut self,
        from: &SiteName,
        to: Incarnation,
        why: AccessRefusal,
        out: &mut Vec<NodeOutput>,
    ) {
        if !self.votes(from) {
            return Node::doubt(from.clone(), "refuses by the access document and does not vote", out);
        }
        if to != self.me.incarnation {
            return;
        }
        match why {
            AccessRefusal::Join(why) => {
                self.on_not_admitted(from, why, out);
            }
            AccessRefusal::Change { why: ChangeRefusal::OlderVersion(sites), .. }
                if sites.len() > MAX_NAMED =>
            {
                Node::misbehaved(from.clone(), "names more sites than it may", out);
            }
            AccessRefusal::Change { base, why } => {
                let Some(wanted) = self.access_wanted.take_if(|wanted| wanted.base == base) else { return };
                let (request, why) = (wanted.request, why.to_string());
                out.push(NodeOutput::Answer(ClientAnswer::AccessRefused { request, why }));
            }
        }
    }

    fn on_not_admitted(&mut self, by: &SiteName, why: JoinRefusal, out: &mut Vec<NodeOutput>) {
        // It is an answer: the leader need not be looked for.
        self.unanswered = 0;
        if self.noted_refusal.replace(why) != Some(why) {
            let site = self.me.site.clone();
            out.push(NodeOutput::Note(Note::NotAdmitted { site, by: by.clone(), why }));
        }
    }

    /// Gives up a change of the document that takes too long. This site does not ask for it again.
    pub(super) fn give_up_access_if_due(&mut self, out: &mut Vec<NodeOutput>) {
        let now = self.now;
        let Some(wanted) = self.access_wanted.take_if(|wanted| wanted.until <= now) else { return };
        let why = self.outage().map_or_else(
            || format!("the cluster has not agreed on it within {}", Age(CHANGE_WITHIN)),
            |outage| outage.to_string(),
        );
        let what = if wanted.is_sent {
            "the change may still take effect; look at `meshlock access show` before you repeat it"
        } else {
            "nothing was changed; repeat the command when a majority of the voters is reachable"
        };
        let (request, why) = (wanted.request, format!("{why}; {what}"));
        out.push(NodeOutput::Answer(ClientAnswer::Unavailable { request, why }));
    }
}
