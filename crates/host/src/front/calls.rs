//! Forwarding calls of clients to the member that has the client's session, and executing those of other members.

use std::sync::Arc;

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::{Member, SiteName};
use meshlock_cluster::node::{CallMessage, ClientCall};

use super::{Admitted, Front};
use crate::calls::CallListener;
use crate::gate::{AuditEvent, Caller};

/// Why a call cannot be forwarded to a site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotForwarded {
    #[error("the site '{0}' is no member at present; try again, or begin a new session")]
    NotAMember(SiteName),
    #[error("the program of the site '{0}' is too old to be sent calls; use its own address, or upgrade it")]
    OlderVersion(SiteName),
    #[error("the site '{0}' has begun anew or has left meanwhile, so its answer will not come; ask again")]
    Over(SiteName),
}

/// Two members between which calls are forwarded, in their incarnations at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardPath {
    pub from: Member,
    pub to: Member,
}

impl Front {
    /// From now on messages about forwarded calls go to `listener`; with `None`, other members are told that this site executes none.
    pub fn serve_calls(&self, listener: Option<Arc<dyn CallListener>>) {
        let serves = listener.is_some();
        self.node().shared.calls.set(listener);
        self.node().with(|node| node.call(ClientCall::ServeCalls(serves)));
    }

    /// Returns the members of the installed view except this site, in this view's incarnations.
    pub fn other_members(&self) -> Vec<Member> {
        self.node().look(|node| {
            let others = node.view().members.iter().filter(|member| *member != node.me());
            others.cloned().collect()
        })
    }

    /// Returns the way to a site to which calls can be forwarded now.
    pub fn path_to(&self, site: &SiteName) -> Result<ForwardPath, NotForwarded> {
        self.node().look(|node| {
            let Some(to) = node.view().member(site).filter(|_| node.view().contains(node.me())) else {
                return Err(NotForwarded::NotAMember(site.clone()));
            };
            if !node.forwards_to(to) {
                return Err(NotForwarded::OlderVersion(site.clone()));
            }
            Ok(ForwardPath { from: node.me().clone(), to: to.clone() })
        })
    }

    /// Sends a message about a call. Fails if one of the two is no member any more: a later incarnation would take the call for another one.
    pub fn send_call(&self, path: &ForwardPath, message: CallMessage) -> Result<(), NotForwarded> {
        self.node().with(|node| {
            if *node.node().me() != path.from || !node.node().forwards_to(&path.to) {
                return Err(NotForwarded::Over(path.to.site.clone()));
            }
            node.call(ClientCall::SendCall { to: path.to.clone(), message });
            Ok(())
        })
    }

    /// Answers a message about a call of another member, if that is still one.
    pub fn answer_call(&self, to: &Member, message: CallMessage) {
        self.node().with(|node| node.call(ClientCall::SendCall { to: to.clone(), message }));
    }

    /// Writes to the audit log that a call of the caller was forwarded to a site.
    pub fn note_forwarded(&self, caller: &Admitted, to: &SiteName, call: &str) {
        let event = AuditEvent::Forwarded { to: to.clone(), call: call.to_owned() };
        self.audit().note(caller, None, event);
    }

    /// Writes to the audit log that a site has forwarded a call of the caller to this one.
    pub fn note_received(&self, caller: &Caller, by: &SiteName, call: &str) {
        let event = AuditEvent::Received { by: by.clone(), call: call.to_owned() };
        self.audit().note(caller, None, event);
    }

    /// Returns whether a client is shut out of the cluster, or of this site.
    pub fn is_revoked(&self, principal: &Principal) -> bool {
        match principal {
            Principal::Named(name) => self.node().trust().revoked().has_client(name),
            Principal::Local | Principal::User(_) | Principal::Anyone => false,
        }
    }
}
