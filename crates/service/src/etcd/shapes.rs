//! Recognises the few transactions that lock recipes use: pure. Everything else is refused.

use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, request_op,
};
use crate::sessions::registry::LeaseId;

/// A transaction of a lock recipe. It is about one key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) key: Vec<u8>,
    pub(crate) action: TxnAction,
    /// Reads after the action.
    pub(crate) then: Vec<RangeRequest>,
    /// Reads if the condition does not hold.
    pub(crate) otherwise: Vec<RangeRequest>,
}

/// What a transaction does if its condition holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TxnAction {
    /// Creates the key if it does not exist.
    Create { value: Vec<u8>, lease: LeaseId },
    /// Sets the value of the key if it matches.
    SetValue { which: KeyMatch, value: Vec<u8> },
    /// Deletes the key if it matches.
    Delete { which: KeyMatch },
    /// Only checks whether the key matches.
    Look { which: KeyMatch },
}

/// Which key of a name is meant: keys of the same name follow one another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyMatch {
    Created(i64),
    HasValue(Vec<u8>),
}

/// Why a transaction is refused; the end of a sentence.
pub(crate) type NotALock = &'static str;

/// Recognises a transaction.
pub(crate) fn shape(txn: TxnRequest) -> Result<Shape, NotALock> {
    let [compare]: [Compare; 1] =
        txn.compare.try_into().map_err(|_| "it does not have exactly one comparison")?;
    if compare.result() != CompareResult::Equal || !compare.range_end.is_empty() {
        return Err("its comparison is not that one key equals something");
    }
    let condition = condition(&compare)?;
    let key = compare.key;
    let (write, then) = split(txn.success)?;
    let (None, otherwise) = split(txn.failure)? else { return Err("its failure branch writes") };
    let action = match (condition, write) {
        (None, Some(WriteOp::Put(put))) if put.key == key => {
            let lease = LeaseId::new(put.lease).ok_or("it puts a key without a lease, which a lock needs")?;
            TxnAction::Create { value: put.value, lease }
        }
        (Some(which), Some(WriteOp::Put(put))) if put.key == key => {
            TxnAction::SetValue { which, value: put.value }
        }
        (Some(which), Some(WriteOp::Delete(delete))) if delete.key == key => TxnAction::Delete { which },
        (Some(which), None) => TxnAction::Look { which },
        (Some(_) | None, Some(WriteOp::Put(_) | WriteOp::Delete(_))) => {
            return Err("it writes another key than it compares, or deletes one that must not exist");
        }
        (None, None) => TxnAction::Look { which: KeyMatch::Created(0) },
    };
    Ok(Shape { key, action, then, otherwise })
}

/// Returns the condition of a comparison; `None` if the key must not exist.
fn condition(compare: &Compare) -> Result<Option<KeyMatch>, NotALock> {
    match (compare.target(), &compare.target_union) {
        // Protobuf omits zero.
        (CompareTarget::Create | CompareTarget::Version, None)
        | (CompareTarget::Create, Some(TargetUnion::CreateRevision(0)))
        | (CompareTarget::Version, Some(TargetUnion::Version(0))) => Ok(None),
        (CompareTarget::Create, Some(TargetUnion::CreateRevision(created))) => {
            Ok(Some(KeyMatch::Created(*created)))
        }
        (CompareTarget::Value, Some(TargetUnion::Value(value))) => {
            Ok(Some(KeyMatch::HasValue(value.clone())))
        }
        (CompareTarget::Value, None) => Ok(Some(KeyMatch::HasValue(Vec::new()))),
        (
            CompareTarget::Create
            | CompareTarget::Version
            | CompareTarget::Value
            | CompareTarget::Mod
            | CompareTarget::Lease,
            _,
        ) => Err("it compares neither when a key was created nor its value"),
    }
}

/// A write in a branch.
enum WriteOp {
    Put(PutRequest),
    Delete(DeleteRangeRequest),
}

/// Splits a branch into the write at its beginning, if any, and the reads after it.
fn split(branch: Vec<RequestOp>) -> Result<(Option<WriteOp>, Vec<RangeRequest>), NotALock> {
    let (mut write, mut reads) = (None, Vec::new());
    for (at, op) in branch.into_iter().enumerate() {
        match op.request {
            Some(request_op::Request::RequestRange(range)) => reads.push(range),
            Some(request_op::Request::RequestPut(put)) if at == 0 && is_plain(&put) => {
                write = Some(WriteOp::Put(put));
            }
            Some(request_op::Request::RequestDeleteRange(delete))
                if at == 0 && delete.range_end.is_empty() =>
            {
                write = Some(WriteOp::Delete(delete));
            }
            Some(
                request_op::Request::RequestPut(_)
                | request_op::Request::RequestDeleteRange(_)
                | request_op::Request::RequestTxn(_),
            )
            | None => return Err("it does more than a lock needs"),
        }
    }
    Ok((write, reads))
}

fn is_plain(put: &PutRequest) -> bool {
    !(put.ignore_value || put.ignore_lease || put.prev_kv)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(key: &[u8], revision: i64) -> Compare {
        let target_union = Some(TargetUnion::CreateRevision(revision));
        Compare {
            target: CompareTarget::Create.into(),
            key: key.to_vec(),
            target_union,
            ..Compare::default()
        }
    }

    fn has_value(key: &[u8], value: &[u8]) -> Compare {
        let target_union = Some(TargetUnion::Value(value.to_vec()));
        Compare { target: CompareTarget::Value.into(), key: key.to_vec(), target_union, ..Compare::default() }
    }

    fn put(key: &[u8], lease: i64) -> RequestOp {
        let put = PutRequest { key: key.to_vec(), value: b"v".to_vec(), lease, ..PutRequest::default() };
        RequestOp { request: Some(request_op::Request::RequestPut(put)) }
    }

    fn get(key: &[u8]) -> RequestOp {
        let range = RangeRequest { key: key.to_vec(), ..RangeRequest::default() };
        RequestOp { request: Some(request_op::Request::RequestRange(range)) }
    }

    fn delete(key: &[u8]) -> RequestOp {
        let delete = DeleteRangeRequest { key: key.to_vec(), ..DeleteRangeRequest::default() };
        RequestOp { request: Some(request_op::Request::RequestDeleteRange(delete)) }
    }

    fn txn(compare: Compare, success: &[RequestOp], failure: &[RequestOp]) -> Result<Shape, NotALock> {
        shape(TxnRequest { compare: vec![compare], success: success.to_vec(), failure: failure.to_vec() })
    }

    #[test]
    fn what_go_s_mutex_and_election_do_is_known() {
        let lease = LeaseId::new(0x4d).unwrap();
        let lock = txn(created(b"a/4d", 0), &[put(b"a/4d", 0x4d), get(b"a/")], &[get(b"a/4d"), get(b"a/")]);
        let lock = lock.unwrap();
        assert_eq!(lock.action, TxnAction::Create { value: b"v".to_vec(), lease });
        assert_eq!((lock.then.len(), lock.otherwise.len()), (1, 2));
        let which = KeyMatch::Created(7);
        let proclaim = txn(created(b"a/4d", 7), &[put(b"a/4d", 0x4d)], &[]).unwrap();
        assert_eq!(proclaim.action, TxnAction::SetValue { which: which.clone(), value: b"v".to_vec() });
        let resign = txn(created(b"a/4d", 7), &[delete(b"a/4d")], &[]).unwrap();
        assert_eq!(resign.action, TxnAction::Delete { which });
    }

    #[test]
    fn what_python_s_and_node_s_lock_do_is_known() {
        let lock = txn(created(b"/locks/a", 0), &[put(b"/locks/a", 9)], &[get(b"/locks/a")]).unwrap();
        assert!(matches!(lock.action, TxnAction::Create { .. }));
        let release = txn(has_value(b"/locks/a", b"v"), &[delete(b"/locks/a")], &[]).unwrap();
        assert_eq!(release.action, TxnAction::Delete { which: KeyMatch::HasValue(b"v".to_vec()) });
        // Protobuf omits zero.
        let unsaid = Compare { target_union: None, ..created(b"a", 0) };
        assert!(txn(unsaid, &[put(b"a", 9)], &[]).is_ok());
    }

    #[test]
    fn everything_else_is_refused() {
        let one = || created(b"a", 0);
        let nested = RequestOp { request: Some(request_op::Request::RequestTxn(TxnRequest::default())) };
        let less = Compare { result: CompareResult::Less.into(), ..one() };
        let many = Compare { range_end: b"b".to_vec(), ..one() };
        let by_lease = Compare { target: CompareTarget::Lease.into(), ..one() };
        for (what, refused) in [
            ("no lease", txn(one(), &[put(b"a", 0)], &[])),
            ("another key", txn(one(), &[put(b"b", 9)], &[])),
            ("two writes", txn(one(), &[put(b"a", 9), delete(b"a")], &[])),
            ("a write on failure", txn(one(), &[put(b"a", 9)], &[delete(b"a")])),
            ("deletes what is not there", txn(one(), &[delete(b"a")], &[])),
            ("nested", txn(one(), &[nested], &[])),
            ("less", txn(less, &[put(b"a", 9)], &[])),
            ("a range", txn(many, &[put(b"a", 9)], &[])),
            ("a lease", txn(by_lease, &[put(b"a", 9)], &[])),
            ("nothing", shape(TxnRequest::default())),
        ] {
            assert!(refused.is_err(), "{what}: {refused:?}");
        }
    }
}
