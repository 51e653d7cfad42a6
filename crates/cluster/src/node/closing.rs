//! Admission that is closed from the founding on, because the configuration says so.
//!
//! Without that key a cluster admits every site that shows a certificate until an operator says which sites may join: between the founding and
//! that moment somebody with a certificate could join. With it, a leader admits only the sites of its list while there is no access
//! document, and proposes the first document, which closes the cluster and lists those sites and the members, as soon as all members have
//! said that they know documents. From then on the document counts and the key does not. The setting of the site that leads counts, as for
//! voters.

use super::packet::Content;
use super::{Node, NodeOutput};
use crate::access::{AccessDocument, Admission};
use crate::mutant::{self, Mutant};
use crate::names::SiteName;

impl Node {
    /// Returns whether the configuration closes the cluster, and nothing that was agreed on says otherwise.
    fn is_closed_by_configuration(&self) -> bool {
        let is_configured = self.config.admission == Admission::Closed && self.access.version == 0;
        is_configured && !mutant::is_on(Mutant::FoundedOpen)
    }

    /// Returns whether a site may not join, because the configuration closes the cluster and the cluster does not know the site.
    pub(super) fn is_shut_out_by_configuration(&self, site: &SiteName) -> bool {
        let view = self.membership.as_ref().map_or(&self.view, |membership| membership.view());
        let mut known = view.members.iter().chain(&view.past).map(|member| &member.site);
        self.is_closed_by_configuration()
            && !self.config.sites.contains(site)
            && !known.any(|known| known == site)
    }

    /// Proposes the document that closes the cluster, as the leader, if the configuration says so and there is no document yet.
    pub(super) fn close_if_configured(&mut self, out: &mut Vec<NodeOutput>) {
        if !self.is_closed_by_configuration() {
            return;
        }
        let (now, pause) = (self.now, self.config.terms.renew_every);
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        let members = &membership.view().members;
        if members.is_empty() {
            return;
        }
        let unknown: Vec<SiteName> = leadership.access.not_heard(membership.view()).cloned().collect();
        if unknown.is_empty() {
            let mut document = AccessDocument::default();
            document.close(self.config.sites.iter().chain(members.iter().map(|member| &member.site)));
            return self.propose_access(document, out);
        }
        if leadership.access.asks_again(now, pause) {
            for site in unknown {
                self.send(site, Content::AccessKnown { version: 0, asks: true }, out);
            }
        }
    }
}
