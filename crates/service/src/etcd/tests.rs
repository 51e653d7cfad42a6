//! What clients see of keys in states that last too short to be observed from outside.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use meshlock_cluster::table::Wait;
use meshlock_testing::{async_test, in_time};
use tokio::sync::mpsc;

use super::Etcd;
use super::watch::Watches;
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::{WatchCancelRequest, WatchCreateRequest, WatchResponse};
use crate::sessions::KeyRequest;
use crate::sessions::registry::NewKey;
use crate::sessions::tests::{key_request, lease, me, poll, sessions};

#[test]
fn a_key_with_the_name_of_its_lock_is_not_there_while_it_only_tries() {
    async_test(async {
        let (_engine, sessions) = sessions();
        let (etcd, caller) = (Etcd::new(sessions.clone(), "test"), &me(&sessions));
        let first = sessions.acquire(caller, key_request(lease(&sessions), Wait::Forever));
        let held = in_time("the lock is granted", first).await.unwrap().0;
        let direct = key_request(lease(&sessions), Wait::Forever);
        let wanted = NewKey { name: b"a".to_vec(), ..direct.wanted };
        let mut tries = Box::pin(sessions.acquire(caller, KeyRequest { wanted, ..direct }));
        assert!(poll(tries.as_mut()).is_pending());
        assert_eq!(etcd.local(b"a"), None);
        sessions.release(caller, &held.name).unwrap();
        let (key, grant) = in_time("the lock is handed over", tries).await.unwrap();
        let seen = etcd.local(b"a").unwrap();
        assert_eq!((seen.lease, seen.mod_revision), (key.lease.number(), grant.fence));
    });
}

#[test]
fn a_watch_whose_number_is_taken_is_refused_and_the_one_that_has_it_goes_on() {
    async_test(async {
        let (_engine, sessions) = sessions();
        let (out, mut said) = mpsc::channel(8);
        let mut watches = Watches::new(Etcd::new(sessions.clone(), "test"), me(&sessions), out);
        let create = || {
            let create =
                WatchCreateRequest { key: b"a".to_vec(), watch_id: 7, ..WatchCreateRequest::default() };
            RequestUnion::CreateRequest(create)
        };
        let cancel = RequestUnion::CancelRequest(WatchCancelRequest { watch_id: 7 });
        for request in [create(), create(), cancel.clone(), cancel] {
            assert!(watches.on_request(request).await.is_ok());
        }
        drop(watches);
        let mut answers = Vec::new();
        while let Some(answer) = in_time("an answer or the end", said.recv()).await {
            let WatchResponse { watch_id, created, canceled, .. } = answer.unwrap();
            answers.push((watch_id, created, canceled));
        }
        // The second cancel finds no watch.
        assert_eq!(answers, [(7, true, false), (-1, true, true), (7, false, true)]);
    });
}
