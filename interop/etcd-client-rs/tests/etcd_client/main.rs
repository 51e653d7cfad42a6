//! The `etcd-client` crate, each scenario against Meshlock and against a real etcd: what a program sees must be the same.

mod servers;

use std::future::Future;

use etcd_client::{
    Client, Compare, CompareOp, LockOptions, ProclaimOptions, PutOptions, ResignOptions, Txn, TxnOp,
};
use servers::Server;

/// Runs a scenario against both servers.
fn compare<T: PartialEq + std::fmt::Debug, F: Future<Output = T>>(scenario: impl Fn(Client) -> F) -> T {
    let ours = run(&Server::meshlock(), &scenario);
    let theirs = run(&Server::etcd(), &scenario);
    assert_eq!(ours, theirs, "what a program sees at Meshlock, and at etcd");
    ours
}

fn run<T, F: Future<Output = T>>(server: &Server, scenario: impl Fn(Client) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect([format!("http://{}", server.address)], None).await.unwrap();
        scenario(client).await
    })
}

/// An error as a program sees it.
fn error<T>(result: Result<T, etcd_client::Error>) -> String {
    match result {
        Ok(_) => "no error".to_owned(),
        Err(etcd_client::Error::GRpcStatus(status)) => format!("{:?}: {}", status.code(), status.message()),
        Err(other) => format!("{other}"),
    }
}

#[test]
fn locks_are_handed_over_with_rising_revisions() {
    let seen = compare(|mut client| async move {
        let first = client.lease_grant(100, None).await.unwrap().id();
        let second = client.lease_grant(100, None).await.unwrap().id();
        let with = |lease| Some(LockOptions::new().with_lease(lease));
        let held = client.lock("jobs", with(first)).await.unwrap();
        let again = client.lock("jobs", with(first)).await.unwrap();
        let is_same = held.key() == again.key()
            && held.header().unwrap().revision() == again.header().unwrap().revision();
        let named = held.key() == format!("jobs/{first:x}").as_bytes();
        let waits = tokio::spawn({
            let mut client = client.clone();
            async move { client.lock("jobs", with(second)).await.unwrap() }
        });
        client.unlock(held.key()).await.unwrap();
        let next = waits.await.unwrap();
        let rises = next.header().unwrap().revision() > held.header().unwrap().revision();
        // A key that is no more unlocks nobody.
        client.unlock(held.key()).await.unwrap();
        let kept = client.get(next.key(), None).await.unwrap().kvs().len();
        client.lease_revoke(second).await.unwrap();
        let gone = client.get(next.key(), None).await.unwrap().kvs().len();
        (is_same, named, rises, kept, gone)
    });
    assert_eq!(seen, (true, true, true, 1, 0));
}

#[test]
fn leases_are_kept_alive_and_end() {
    let seen = compare(|mut client| async move {
        let granted = client.lease_grant(100, None).await.unwrap();
        let (mut keeper, mut answers) = client.lease_keep_alive(granted.id()).await.unwrap();
        keeper.keep_alive().await.unwrap();
        let alive = answers.message().await.unwrap().unwrap().ttl();
        let leases = client.leases().await.unwrap().leases().len();
        client.lease_revoke(granted.id()).await.unwrap();
        keeper.keep_alive().await.unwrap();
        let dead = answers.message().await.unwrap().unwrap().ttl();
        let left = client.lease_time_to_live(granted.id(), None).await.unwrap().ttl();
        let twice = error(client.lease_revoke(granted.id()).await);
        let unknown = error(client.lock("jobs", Some(LockOptions::new().with_lease(4711))).await);
        (granted.ttl(), alive, leases, dead, left, twice, unknown)
    });
    assert_eq!((seen.0, seen.1, seen.2, seen.3, seen.4), (100, 100, 1, 0, -1));
    assert_eq!(seen.5, "NotFound: etcdserver: requested lease not found");
    assert_eq!(seen.6, "Unknown: etcdserver: requested lease not found");
}

#[test]
fn leaders_are_elected_observed_and_resign() {
    let seen = compare(|mut client| async move {
        let nobody = error(client.leader("boss").await);
        let (first, second) = (
            client.lease_grant(100, None).await.unwrap().id(),
            client.lease_grant(100, None).await.unwrap().id(),
        );
        let leader = client.campaign("boss", "alice", first).await.unwrap().take_leader().unwrap();
        let mut observed = client.observe("boss").await.unwrap();
        let mut seen = vec![text(observed.message().await.unwrap().unwrap().kv().unwrap().value())];
        let proclaim = ProclaimOptions::new().with_leader(leader.clone());
        client.proclaim("alice again", Some(proclaim)).await.unwrap();
        seen.push(text(observed.message().await.unwrap().unwrap().kv().unwrap().value()));
        let waits = tokio::spawn({
            let mut client = client.clone();
            async move { client.campaign("boss", "bob", second).await.unwrap().take_leader().unwrap() }
        });
        client.resign(Some(ResignOptions::new().with_leader(leader.clone()))).await.unwrap();
        let next = waits.await.unwrap();
        seen.push(text(observed.message().await.unwrap().unwrap().kv().unwrap().value()));
        seen.push(text(client.leader("boss").await.unwrap().kv().unwrap().value()));
        // Who has resigned speaks for nobody.
        let stale = ProclaimOptions::new().with_leader(leader.clone());
        seen.extend([nobody, error(client.proclaim("late", Some(stale)).await)]);
        (next.rev() > leader.rev(), seen)
    });
    let said = [
        "alice",
        "alice again",
        "bob",
        "bob",
        "Unknown: election: no leader",
        "Unknown: election: not leader",
    ];
    assert_eq!(seen, (true, said.map(str::to_owned).to_vec()));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_transaction_that_is_no_lock_is_refused_by_meshlock_alone() {
    run(&Server::meshlock(), |mut client| async move {
        let put = TxnOp::put("config", "1", None);
        let free = Compare::create_revision("config", CompareOp::Equal, 0);
        let refused = error(client.txn(Txn::new().when([free.clone()]).and_then([put])).await);
        assert!(
            refused.starts_with("Unimplemented: meshlock: a transaction: it puts a key without a lease"),
            "{refused}"
        );
        assert!(refused.contains("Meshlock keeps locks, not data"), "{refused}");
        let unleased = TxnOp::put("config", "1", Some(PutOptions::new().with_lease(4711)));
        let refused = error(client.txn(Txn::new().when([free]).and_then([unleased])).await);
        assert_eq!(refused, "NotFound: etcdserver: requested lease not found");
        for refused in [
            error(client.put("config", "1", None).await),
            error(client.delete("a", Some(etcd_client::DeleteOptions::new().with_prefix())).await),
            error(client.get("", Some(etcd_client::GetOptions::new().with_all_keys())).await),
            error(client.compact(1, None).await),
            error(client.member_list().await),
        ] {
            assert!(
                refused.starts_with("Unimplemented: ") && refused.contains("Meshlock keeps locks"),
                "{refused}"
            );
        }
    });
}
