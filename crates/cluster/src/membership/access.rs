//! The access document as a part of the state that the voters agree on: an entry of the log has the whole next one.
//!
//! [`access`](crate::access) says what it is for. An entry applies only if its version follows the one before it, so that of two leaders'
//! proposals one is void. A program that does not know such entries takes them for invalid views: it never gets one, because they are not
//! sent to it (`RaftMessage::is_about_access`), and refuses a disk that has one (the format of the disk rises).

use super::{Membership, MembershipOutput};
use crate::access::AgreedAccess;

/// The first bytes of such an entry, where a view has its epoch. No epoch is read from them, and no change of voters begins with them.
const MARK: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0xfd];

/// Returns the bytes of a document in the log.
pub fn encode(access: &AgreedAccess) -> Vec<u8> {
    postcard::to_extend(access, MARK.to_vec()).expect("a document is plain data")
}

/// Returns whether the data of an entry is a document, readable or not.
pub fn is_access(data: &[u8]) -> bool {
    data.starts_with(&MARK)
}

/// Returns the document in the data of an entry, if it follows on `known`.
pub fn follow(known: Option<&AgreedAccess>, data: &[u8]) -> Option<AgreedAccess> {
    let next: AgreedAccess = match postcard::take_from_bytes(data.strip_prefix(&MARK)?) {
        Ok((next, [])) => next,
        Ok(_) | Err(_) => return None,
    };
    let follows = next.version == known.map_or(0, |known| known.version) + 1;
    (follows && next.is_well_formed()).then_some(next)
}

impl Membership {
    /// Returns the document that the voters have agreed on last, as far as this one knows; `None` before the first time.
    pub(crate) fn access(&self) -> Option<&AgreedAccess> {
        self.access.as_ref()
    }

    /// Proposes the next document, if this voter leads. Returns whether it is in the log now; it may still be lost with the leadership.
    pub(crate) fn propose_access(&mut self, next: &AgreedAccess, out: &mut Vec<MembershipOutput>) -> bool {
        let proposed = self.leads().is_some() && self.raw.propose(Vec::new(), encode(next)).is_ok();
        self.pump(out);
        proposed
    }

    pub(super) fn on_access(&mut self, access: AgreedAccess, out: &mut Vec<MembershipOutput>) {
        if self.access.as_ref() != Some(&access) {
            self.access = Some(access.clone());
            out.push(MembershipOutput::AccessAgreed(access));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::disk;
    use crate::membership::voters::VoterChange;
    use crate::view::View;

    #[test]
    fn a_document_is_read_as_nothing_else_and_only_after_the_one_before_it() {
        let first = AgreedAccess { version: 1, ..AgreedAccess::default() };
        let bytes = encode(&first);
        assert!(is_access(&bytes) && !VoterChange::is_change(&bytes));
        assert_eq!((disk::follow(&View::default(), &bytes), VoterChange::read(&bytes)), (None, None));
        assert!(!is_access(&VoterChange::Leave.encode()) && !is_access(&disk::encode(&View::default())));
        assert_eq!(follow(None, &bytes), Some(first.clone()));
        assert_eq!(follow(Some(&first), &bytes), None);
        let second = AgreedAccess { version: 2, ..first.clone() };
        assert_eq!(follow(Some(&first), &encode(&second)), Some(second.clone()));
        assert_eq!(follow(None, &encode(&second)), None);
        assert_eq!(follow(None, &[bytes, vec![0]].concat()), None);
    }
}
