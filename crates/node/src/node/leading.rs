//! What a node does while it leads: petitions, leases, the next view.

use super::leader::Leadership;
use super::wire::Content;
use super::{Node, Note, Output};
use crate::lease::Landlord;
use crate::membership::{self, MOST_VOTERS};
use crate::names::{Member, SiteName};
use crate::rules::Rules;
use crate::view::View;

impl Node {
    /// Something that only the leader can do is asked for.
    pub(super) fn on_petition(&mut self, from: Member, content: Content, out: &mut Vec<Output>) {
        let Some(view) = self.leadership.as_ref().and(self.membership.as_ref()).map(|m| m.view().clone())
        else {
            let leader = self.membership.as_ref().and_then(|membership| membership.leader()).cloned();
            if from.site != self.me.site {
                self.send(from.site, Content::NotLeader { leader }, out);
            }
            return;
        };
        let (now, Some(leadership)) = (self.now, &mut self.leadership) else { return };
        match content {
            Content::Renew { renewal, epoch, unreachable, leased, drained } => {
                if view.contains(&from) && unreachable.len() <= view.members.len() {
                    leadership.on_heard(&from, leased && epoch == view.epoch, now);
                    leadership.drained = drained.then_some(epoch).or(leadership.drained);
                    leadership.on_renew(from.clone(), renewal, unreachable);
                }
                if epoch < view.epoch {
                    self.send(from.site, Content::View(view), out);
                }
            }
            Content::Join { epoch, reached, address } => {
                if view.may_join(&from) && reached.len() <= view.members.len() + MOST_VOTERS {
                    leadership.on_join(from.clone(), address, reached, now);
                }
                if epoch < view.epoch {
                    self.send(from.site, Content::View(view), out);
                }
            }
            Content::Leave => {
                if view.contains(&from) {
                    leadership.landlord.on_gave_up(&from);
                } else {
                    self.send(from.site, Content::View(view), out);
                }
            }
            Content::SetRules { base, rules } => {
                let checked = Rules::new(rules).and_then(|rules| {
                    rules.fit(view.members.len().max(1))?;
                    Ok(rules)
                });
                match checked {
                    Ok(rules) if base == view.rules_version => leadership.rules = Some(rules.text().clone()),
                    Ok(_) => {}
                    Err(error) => Node::misbehaved(from.site, &error.to_string(), out),
                }
            }
            Content::Raft(_)
            | Content::Link { .. }
            | Content::Granted { .. }
            | Content::NotLeader { .. }
            | Content::View(_)
            | Content::Ping
            | Content::Pong
            | Content::Ask { .. }
            | Content::Reply { .. } => unreachable!("only petitions come here"),
        }
    }

    /// Does what a leader does, if this site leads.
    pub(super) fn lead(&mut self, out: &mut Vec<Output>) {
        let term = self.leads();
        if term != self.leadership.as_ref().map(|leadership| leadership.term) {
            let members = self.membership.as_ref().map_or(&[] as &[Member], |voter| &voter.view().members);
            let landlord = Landlord::new(self.config.terms, self.config.mutants, members, self.now);
            self.leadership = term.map(|term| Leadership::new(self.me.site.clone(), term, landlord));
            if let Some(term) = term {
                out.push(Output::Note(Note::Leads(term)));
                self.reach_out(out);
            }
        }
        let (now, tempo) = (self.now, self.tempo());
        if let Some(round) =
            self.leadership.as_mut().and_then(|leadership| leadership.begin_round(now, tempo))
        {
            self.in_membership(out, |membership, out| membership.confirm(round, out));
        }
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        let rules = self.first_rules.text();
        let Some(view) = leadership.next_view(membership.view(), rules, now, tempo) else { return };
        let mut proposed = false;
        leadership.pending = Some(view.clone());
        self.in_membership(out, |membership, out| proposed = membership.propose(&view, out));
        if let (false, Some(leadership)) = (proposed, &mut self.leadership) {
            leadership.pending = None;
        } else {
            out.push(Output::Note(Note::Proposed(view)));
        }
    }

    pub(super) fn on_confirmed(&mut self, round: membership::Round, out: &mut Vec<Output>) {
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        for (member, renewal) in leadership.on_confirmed(round, membership.view(), self.now) {
            out.push(Output::Note(Note::Granted(member.clone())));
            let (to, length) = (member.incarnation, self.config.terms.length);
            self.send(member.site, Content::Granted { to, renewal, length }, out);
        }
    }

    pub(super) fn on_agreed(&mut self, view: View, out: &mut Vec<Output>) {
        if let Some(leadership) = &mut self.leadership {
            leadership.on_agreed(&view, self.now);
            // Voters have it from the log; the others need to be told.
            let voters = &self.config.sites[..self.config.sites.len().min(MOST_VOTERS)];
            let told: Vec<SiteName> = view
                .members
                .iter()
                .map(|member| member.site.clone())
                .filter(|site| !voters.contains(site))
                .collect();
            for site in told {
                self.send(site, Content::View(view.clone()), out);
            }
        }
        self.learn(view, out);
    }
}
