//! The library's client over TCP, when the site that it is connected to is killed or stopped: it keeps what it holds, with the same
//! fences, as `meshlock run` does.

use meshlock::{AcquireError, Client, Endpoint, Guard};
use meshlock_testing::{async_test, eventually};

use crate::cluster::Cluster;

const LOCK: &str = "library/jobs";

/// Connects to all sites over TCP.
async fn client(cluster: &Cluster, first: usize) -> Client {
    let doors = cluster.doors(first);
    let endpoints = doors.iter().map(|door| Endpoint::tcp_plaintext(door).unwrap());
    Client::connect(endpoints).await.unwrap()
}

/// Takes the lock, and a permit, and waits until the client has the proofs of both.
async fn hold(client: &Client) -> (Guard, Guard) {
    let guard = client.lock(LOCK).await.unwrap();
    let permit = client.semaphore("library/pool", 3).acquire().await.unwrap();
    // A connection's messages are answered in order, and the proofs were asked for before this.
    drop(client.lock("library/other").await.unwrap());
    (guard, permit)
}

/// Takes a lock and a permit, and lets `fault` happen to the client's site: both must be kept until they are released, and others have
/// them after that.
fn keeps_what_it_holds(fault: impl Fn(&mut Cluster, usize)) {
    async_test(async {
        let mut cluster = Cluster::start();
        let ours = client(&cluster, 0).await;
        let (guard, permit) = hold(&ours).await;
        let fence = guard.fence();
        let (site, said) = cluster.holder(0, LOCK).expect("it is held");
        let connected_to = ours.site();
        assert_eq!(said, fence.to_string());
        let other = (site + 1) % 3;
        let others = client(&cluster, other).await;
        fault(&mut cluster, site);
        eventually("it is held through another site", || {
            cluster.holder(other, LOCK).is_some_and(|(at, said)| at != site && said == fence.to_string())
        });
        assert!(!guard.is_lost() && !permit.is_lost(), "the client keeps what it holds");
        let taken = others.try_lock(LOCK).await;
        assert!(matches!(taken, Err(AcquireError::Busy { .. })), "{taken:?}");
        assert!(ours.site().is_some() && ours.site() != connected_to, "it says where it is now");
        // The session goes on with other requests, too.
        drop(ours.lock("library/other").await.unwrap());
        assert_eq!(guard.fence(), fence);
        assert!(!guard.is_lost() && !permit.is_lost(), "it is still held");
        drop(guard);
        let next = others.lock(LOCK).await.unwrap();
        assert!(next.fence() > fence, "fences rise");
    });
}

#[test]
fn a_client_whose_site_is_killed_keeps_its_locks_and_their_fences() {
    keeps_what_it_holds(Cluster::kill);
}

#[test]
fn a_client_whose_site_is_stopped_keeps_its_locks_and_their_fences() {
    keeps_what_it_holds(Cluster::stop);
}

#[test]
fn a_client_whose_session_has_moved_goes_back_when_the_other_site_leaves() {
    async_test(async {
        let mut cluster = Cluster::start();
        let doors = cluster.doors(0);
        let endpoints = doors[..2].iter().map(|door| Endpoint::tcp_plaintext(door).unwrap());
        let ours = Client::connect(endpoints).await.unwrap();
        let held = hold(&ours).await;
        let (site, _) = cluster.holder(2, LOCK).expect("it is held");
        let other = 1 - site;
        cluster.kill(site);
        eventually("the session has moved", || cluster.holder(2, LOCK).is_some_and(|(at, _)| at == other));
        drop(held);
        cluster.start_again(site);
        // It does not leave while this is held, and refuses all that is new.
        let mut holder = cluster.client_of(other);
        holder.acquire("library/holder");
        let mut leaving = cluster.begin_to_leave(other);
        let guard = ours.lock(LOCK).await.unwrap();
        assert_eq!(cluster.holder(2, LOCK), Some((site, guard.fence().to_string())));
        holder.release();
        assert!(leaving.end().success(), "{}", leaving.log());
    });
}
