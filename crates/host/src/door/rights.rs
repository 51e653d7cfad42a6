//! Who a client is, which right each thing takes that it can say, and what of it is written down.

use super::super::gate::{Act, Caller, Connected, Kind, RequestId};
use super::super::permits::needs_rule;
use super::door::{Door, certified};
use super::serve::Client;
use meshlock_cluster::access::{Denied, Subject, Verb};
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::node::Answer;
use meshlock_cluster::table::Tell;
use meshlock_wire::clients::{Tag, ToClient, ToNode};

/// Who a client is, once it has said hello.
pub(super) struct Known {
    pub(super) caller: Caller,
    /// Counts the connection, where a network is between the two.
    _place: Option<Connected>,
}

/// What a client has to be allowed before it is heard.
struct Wants<'a> {
    tag: Tag,
    verb: Verb,
    subject: Subject<'a>,
}

/// What has to be asked about what a client says. Nothing about what keeps a session or gives something back: whoever has got a
/// lock may always do that.
fn wants(said: &ToNode) -> Option<Wants<'_>> {
    let (tag, verb, subject) = match said {
        ToNode::Hello { .. }
        | ToNode::Ping(_)
        | ToNode::Cancel(_)
        | ToNode::Release(_)
        | ToNode::Guard { .. } => return None,
        ToNode::Acquire { tag, lock, .. } => (*tag, Verb::Acquire, Subject::Lock(lock)),
        ToNode::Queue { tag, lock } => (*tag, Verb::Watch, Subject::Lock(lock)),
        // Of what its clients hold it shows what the one that asks may watch.
        ToNode::Status { tag } => (*tag, Verb::Watch, Subject::Some),
        // They name locks that are in use, whichever those are.
        ToNode::Locks { tag } | ToNode::Watch { tag, .. } => (*tag, Verb::Watch, Subject::Cluster),
        ToNode::Break { tag, lock } => (*tag, Verb::Break, Subject::Lock(lock)),
        ToNode::SetRules { tag, .. } | ToNode::Remove { tag, .. } | ToNode::Leave { tag } => {
            (*tag, Verb::Admin, Subject::Cluster)
        }
    };
    Some(Wants { tag, verb, subject })
}

impl Client {
    /// Who the client is, and what others are told of it.
    pub(super) fn introduce(&self, who: ClientLabel) -> Result<(Known, ClientLabel), String> {
        let principal = self.principal().map_err(|error| error.to_string())?;
        let place = match self.door {
            Door::Local { .. } => None,
            Door::Network { .. } => Some(self.gate.connect(&principal).map_err(|error| error.to_string())?),
        };
        let who = certified(who, &principal);
        let caller = Caller { principal, origin: self.origin(), request: RequestId::new() };
        Ok((Known { caller, _place: place }, who))
    }

    /// Whether what the client says is refused, and with which words. What gives something back never is.
    pub(super) fn judge(&self, caller: &Caller, said: &ToNode) -> Option<(Tag, String)> {
        let Wants { tag, verb, subject } = wants(said)?;
        if let Door::Local { .. } = self.door {
            return None;
        }
        if let Err(error) = self.gate.pace(caller, Kind::Ask) {
            return Some((tag, error.to_string()));
        }
        // Whoever may have a lock has to know whether the site leaves.
        if let ToNode::Status { .. } = said
            && self.gate.policy().access.check(&caller.principal, Verb::Acquire, Subject::Some).is_ok()
        {
            return None;
        }
        let checked =
            self.gate.check_subject(caller, verb, subject).and_then(|()| self.check_permits(caller, said));
        checked.err().map(|denied| (tag, denied.to_string()))
    }

    /// Whether a client keeps in touch too eagerly to be listened to.
    pub(super) fn pings_too_fast(&self, caller: &Caller) -> bool {
        matches!(self.door, Door::Network { .. }) && self.gate.pace(caller, Kind::Renew).is_err()
    }

    /// Whoever asks for permits that no rule gives a lock would change the cluster's rules.
    fn check_permits(&self, caller: &Caller, said: &ToNode) -> Result<(), Denied> {
        let ToNode::Acquire { lock, permits: Some(permits), .. } = said else { return Ok(()) };
        if !self.node.look(|node| needs_rule(node, lock, *permits)) {
            return Ok(());
        }
        self.gate.check_subject(caller, Verb::Admin, Subject::Cluster)
    }

    /// Leaves out of an answer what the client may not see.
    pub(super) fn hide(&self, message: &mut ToClient) {
        let (ToClient::Status { status, .. }, Some(Known { caller, .. })) = (message, self.greeted.get())
        else {
            return;
        };
        if let Door::Network { .. } = self.door {
            let policy = self.gate.policy();
            let access = &policy.access;
            status.held.retain(|held| {
                access.check(&caller.principal, Verb::Watch, Subject::Lock(&held.lock)).is_ok()
            });
        }
    }

    /// Writes something down, if whoever does it is known.
    pub(super) fn audit(&self, lock: Option<&LockName>, act: impl FnOnce() -> Act) {
        if let Some(Known { caller, .. }) = self.greeted.get() {
            self.gate.audit().note(caller, lock, act());
        }
    }
}

/// What an answer is in the audit log. It is written down with the node's lock held, and what everyone does all the time only
/// where somebody wants it.
pub(super) fn act_of(answer: &Answer, grants_too: bool) -> Option<Act> {
    if let Answer::Lock(Tell::Granted { fence, .. }) = answer {
        return grants_too.then(|| Act::Granted { fence: fence.value() });
    }
    if let Answer::Broken { cut_off, .. } = answer {
        return Some(Act::Broke { fences: cut_off.iter().map(|cut_off| cut_off.fence.value()).collect() });
    }
    if let Answer::RulesSet { epoch, .. } = answer {
        return Some(Act::SetRules { epoch: epoch.number() });
    }
    None
}
