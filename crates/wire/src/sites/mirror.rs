//! What a member tells its mirror about the sessions of its clients, so that the mirror can answer for them when the member is gone:
//! the bodies of [`CallAsk::Mirror`](super::calls::CallAsk::Mirror) and [`CallReply::Mirror`](super::calls::CallReply::Mirror).
//! `crates/mirror` says what both do with it.

use meshlock_cluster::claim::Proof;
use meshlock_cluster::names::LockName;
use serde::{Deserialize, Serialize};

use super::calls::ForwardedCaller;

/// Maximum number of sessions in one message, and of keys of one session.
pub const MAX_MIRRORED: usize = 4096;

/// What has changed since the mirror asked last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorNews {
    /// The number of this message. The mirror's next question says whether it has it.
    pub version: u64,
    /// The mirror begins anew: it knows nothing but what this message says.
    pub is_first: bool,
    /// The member leaves and lets go of nothing any more: from now on the mirror answers for its sessions.
    pub leaves: bool,
    /// Sessions that are over, or hold nothing any more.
    pub ended: Vec<i64>,
    /// Sessions that hold something, as they are now.
    pub changed: Vec<MirroredSession>,
}

/// A session that holds something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirroredSession {
    /// The number of its lease.
    pub lease: i64,
    pub owner: ForwardedCaller,
    /// The label of its client.
    pub label: Option<String>,
    /// For how long its client asked, in microseconds.
    pub lasts: u64,
    /// For how long its locks stay taken after its end.
    pub delay: u64,
    pub keys: Vec<MirroredKey>,
    /// What only clients of Consul's API know of it.
    pub consul: Option<MirroredConsul>,
}

/// A key by which a session holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirroredKey {
    pub name: Vec<u8>,
    pub value: Vec<u8>,
    /// The label by which other sites know the holder.
    pub label: String,
    /// The revisions that etcd's clients are told.
    pub created: i64,
    pub modified: i64,
    pub version: i64,
    /// The proof that the member holds the lock for the session, with the lock's name, its permits, the slot and the fence.
    pub proof: Vec<u8>,
}

/// The options and keys of a Consul session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirroredConsul {
    pub name: String,
    /// Its keys are deleted at its end, instead of released.
    pub deletes: bool,
    pub lock_delay: u64,
    /// The time to live, as the client wrote it.
    pub ttl: String,
    pub contents: Vec<MirroredContent>,
}

/// The content of a key of Consul's API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirroredContent {
    pub lock: LockName,
    /// Whether the session holds the lock, or wants a permit of it.
    pub is_held: bool,
    /// Whether the lock is held as one of several permits.
    pub is_permit: bool,
    pub key: String,
    pub flags: u64,
    pub value: Vec<u8>,
}

/// What a member says is not within the bounds of a [`MirrorNews`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "at most {MAX_MIRRORED} sessions, keys of one session and contents of them are told at a time, each with a proof"
)]
pub struct MirrorBoundsError;

impl MirrorNews {
    /// Checks the numbers of everything that it lists.
    pub(super) fn check(&self) -> Result<(), MirrorBoundsError> {
        let within = |session: &MirroredSession| {
            let contents = session.consul.as_ref().map_or(0, |consul| consul.contents.len());
            let are_short = session.keys.iter().all(|key| key.proof.len() <= Proof::MAX_BYTES);
            session.keys.len() <= MAX_MIRRORED && contents <= MAX_MIRRORED && are_short
        };
        let counts = [self.ended.len(), self.changed.len()];
        let is_within = counts.iter().all(|count| *count <= MAX_MIRRORED) && self.changed.iter().all(within);
        if is_within { Ok(()) } else { Err(MirrorBoundsError) }
    }
}

impl MirroredSession {
    /// Returns about how many bytes it takes in a message.
    pub fn size(&self) -> usize {
        let texts = |consul: &MirroredConsul| {
            let contents = consul
                .contents
                .iter()
                .map(|content| content.key.len() + content.value.len() + content.lock.as_str().len() + 24);
            consul.name.len() + consul.ttl.len() + 32 + contents.sum::<usize>()
        };
        let key =
            |key: &MirroredKey| key.name.len() + key.value.len() + key.label.len() + key.proof.len() + 48;
        let keys = self.keys.iter().map(key).sum::<usize>();
        // The name of a client and the label are short.
        512 + keys + self.consul.as_ref().map_or(0, texts)
    }
}

/// Returns news with everything in it, for tests and fuzzers.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn model() -> MirrorNews {
    use meshlock_cluster::access::Principal;
    let owner = ForwardedCaller::new(&Principal::Local, ([10, 0, 0, 1], 4000).into(), 9);
    let content = MirroredContent {
        lock: "jobs".parse().expect("a name"),
        is_held: true,
        is_permit: false,
        key: "jobs".to_owned(),
        flags: 7,
        value: vec![1],
    };
    let consul = MirroredConsul {
        name: "n".to_owned(),
        deletes: true,
        lock_delay: 15_000_000,
        ttl: "10s".to_owned(),
        contents: vec![content],
    };
    let key = MirroredKey {
        name: b"jobs/4d".to_vec(),
        value: vec![2],
        label: "a client".to_owned(),
        created: 7,
        modified: 300,
        version: 1,
        proof: vec![3; 40],
    };
    let session = MirroredSession {
        lease: 77,
        owner: owner.expect("known everywhere"),
        label: Some("a client".to_owned()),
        lasts: 60_000_000,
        delay: 1_400_000,
        keys: vec![key],
        consul: Some(consul),
    };
    MirrorNews { version: 300, is_first: false, leaves: true, ended: vec![78], changed: vec![session] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::calls::{CallError, CallReply};

    #[test]
    fn news_is_limited_in_all_that_it_lists() {
        let refused = |news: MirrorNews| {
            let bytes = CallReply::Mirror(news).bytes().unwrap();
            CallReply::read(&bytes) == Err(CallError::Mirror(MirrorBoundsError))
        };
        assert!(!refused(model()));
        assert!(refused(MirrorNews { ended: vec![1; MAX_MIRRORED + 1], ..model() }));
        let mut long = model();
        long.changed[0].keys[0].proof = vec![0; Proof::MAX_BYTES + 1];
        assert!(refused(long));
        let mut many = model();
        let contents = &mut many.changed[0].consul.as_mut().unwrap().contents;
        *contents = vec![contents[0].clone(); MAX_MIRRORED + 1];
        assert!(refused(many));
    }

    #[test]
    fn a_session_takes_no_more_bytes_than_it_says() {
        let session = &model().changed[0];
        assert!(postcard::to_stdvec(session).unwrap().len() <= session.size());
    }
}
