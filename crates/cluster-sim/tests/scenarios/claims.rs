//! Clients that keep their locks when their site dies or leaves, and what whoever has no right to a lock gets by claiming it.

use meshlock_cluster::claim::{ClaimKey, Proof, Reserved};
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::{ClientAnswer, ClientCall, Input};
use meshlock_cluster::rules::Clause;
use meshlock_cluster::table::{ClaimEvent, ClaimRefusal, LockClaim, LockEvent, Request, Session};
use meshlock_cluster::time::Span;

use crate::cluster::Cluster;

/// Number of the claims of these tests, apart from the requests of the cluster.
const CLAIM: Request = Request(9000);

fn lock() -> LockName {
    "jobs".parse().expect("a fixed name")
}

/// Three sites, each with a key of its own.
fn cluster() -> Cluster {
    Cluster::open_configured(3, &Clause::exclusive("naimi-trehel"), |at, config| {
        let byte = u8::try_from(at).expect("three sites");
        config.claim_key = Some(ClaimKey::new([byte + 1; 32]));
    })
}

/// Lets a client of a site acquire the lock, and returns the request and the proof.
fn hold(cluster: &mut Cluster, at: usize) -> (Request, Proof) {
    let request = cluster.acquire(at, &lock());
    cluster.settle();
    (request, prove(cluster, at, request))
}

fn prove(cluster: &mut Cluster, at: usize, request: Request) -> Proof {
    cluster.input(at, Input::Call(ClientCall::Prove { request }));
    let answer = cluster.told.pop();
    let Some(ClientAnswer::Proof { request: of, proof: Some(proof) }) = answer else { panic!("{answer:?}") };
    assert_eq!(of, request);
    *proof
}

fn claim(cluster: &mut Cluster, at: usize, proof: &Proof, reserved: Reserved) -> ClaimEvent {
    claim_as(cluster, at, CLAIM, proof, reserved)
}

fn claim_as(
    cluster: &mut Cluster,
    at: usize,
    request: Request,
    proof: &Proof,
    reserved: Reserved,
) -> ClaimEvent {
    let claim = LockClaim { session: Session(request.0), request, proof: proof.clone(), reserved };
    cluster.input(at, Input::Call(ClientCall::Claim(Box::new(claim))));
    let answer = cluster.told.pop();
    let Some(ClientAnswer::Claim(event)) = answer else { panic!("{answer:?}") };
    event
}

fn is_settled(cluster: &Cluster, request: Request) -> bool {
    let settled = |answer: &ClientAnswer| matches!(answer, ClientAnswer::Claim(ClaimEvent::Settled { request: of, .. }) if *of == request);
    cluster.told.iter().any(settled)
}

fn has_granted(cluster: &Cluster, request: Request) -> bool {
    let granted = |answer: &ClientAnswer| matches!(answer, ClientAnswer::Lock(LockEvent::Granted { request: of, .. }) if *of == request);
    cluster.told.iter().any(granted)
}

#[test]
fn a_client_keeps_its_lock_and_its_fence_when_its_site_dies_whichever_that_is() {
    for dies in 0..3 {
        let mut cluster = cluster();
        let (_, proof) = hold(&mut cluster, dies);
        let (new, other) = ((dies + 1) % 3, (dies + 2) % 3);
        let waiter = cluster.acquire(other, &lock());
        cluster.settle();
        cluster.gone.insert(dies);
        let event = claim(&mut cluster, new, &proof, Reserved::Forever);
        assert!(matches!(event, ClaimEvent::Pending { until: None, .. }), "{event:?}");
        cluster.pass(Span::from_millis(12_000));
        assert!(is_settled(&cluster, CLAIM), "{:?}", cluster.told);
        assert!(!has_granted(&cluster, waiter));
        let second = prove(&mut cluster, new, CLAIM);
        assert_eq!(second.hold().fence, proof.hold().fence);
        assert_eq!(second.hold().holder.site, cluster.nodes[new].me().site);
        cluster.release(new, CLAIM);
        cluster.settle();
        assert!(has_granted(&cluster, waiter));
        let later = cluster.nodes[other].table().holders().count();
        assert_eq!(later, 1);
    }
}

#[test]
fn a_mirror_that_claims_at_once_holds_the_lock_when_its_site_dies_at_once_or_up_to_half_a_minute_later() {
    for after in [0, 3000, 30_000] {
        for dies in 0..3 {
            let mut cluster = cluster();
            let (_, proof) = hold(&mut cluster, dies);
            let (mirror, other) = ((dies + 1) % 3, (dies + 2) % 3);
            let event = claim(&mut cluster, mirror, &proof, Reserved::Standing);
            assert!(matches!(event, ClaimEvent::Pending { until: None, .. }), "{event:?}");
            let waiter = cluster.acquire(other, &lock());
            // Its site lives for a while: nothing comes of the claim.
            cluster.pass(Span::from_millis(after));
            assert!(!is_settled(&cluster, CLAIM) && !has_granted(&cluster, waiter), "{:?}", cluster.told);
            cluster.gone.insert(dies);
            cluster.pass(Span::from_millis(12_000));
            assert!(is_settled(&cluster, CLAIM) && !has_granted(&cluster, waiter), "{:?}", cluster.told);
            assert_eq!(prove(&mut cluster, mirror, CLAIM).hold().fence, proof.hold().fence);
            cluster.release(mirror, CLAIM);
            cluster.settle();
            assert!(has_granted(&cluster, waiter));
        }
    }
}

#[test]
fn a_mirror_that_dies_with_its_site_keeps_nothing() {
    let mut cluster = Cluster::open_configured(5, &Clause::exclusive("naimi-trehel"), |at, config| {
        let byte = u8::try_from(at).expect("five sites");
        config.claim_key = Some(ClaimKey::new([byte + 1; 32]));
    });
    let (_, proof) = hold(&mut cluster, 0);
    claim(&mut cluster, 1, &proof, Reserved::Standing);
    let waiter = cluster.acquire(3, &lock());
    cluster.gone.extend([0, 1]);
    cluster.pass(Span::from_millis(20_000));
    assert!(has_granted(&cluster, waiter), "{:?}", cluster.told);
}

#[test]
fn what_nobody_claims_is_free_when_the_lease_of_the_dead_site_is_over() {
    let mut cluster = cluster();
    let (_, proof) = hold(&mut cluster, 0);
    let waiter = cluster.acquire(2, &lock());
    cluster.settle();
    cluster.gone.insert(0);
    cluster.pass(Span::from_millis(12_000));
    assert!(has_granted(&cluster, waiter));
    let event = claim(&mut cluster, 1, &proof, Reserved::Forever);
    assert_eq!(event, ClaimEvent::Refused { request: CLAIM, why: ClaimRefusal::NotMember }, "too late");
}

#[test]
fn a_proof_that_was_changed_or_made_with_another_key_is_refused() {
    let mut cluster = cluster();
    let (_, proof) = hold(&mut cluster, 0);
    let refused = |why| ClaimEvent::Refused { request: CLAIM, why };
    let mut bytes = proof.to_bytes();
    *bytes.last_mut().expect("it has bytes") ^= 1;
    let changed = Proof::from_bytes(&bytes).expect("it has the form of a proof");
    assert_eq!(claim(&mut cluster, 1, &changed, Reserved::Forever), refused(ClaimRefusal::BadProof));
    let forged = Proof::new(&ClaimKey::new([2; 32]), b"", proof.hold().clone());
    for at in 0..2 {
        assert_eq!(claim(&mut cluster, at, &forged, Reserved::Forever), refused(ClaimRefusal::BadProof));
    }
}

#[test]
fn a_claim_lasts_as_long_as_the_former_site_keeps_the_lock_and_that_keeps_it_longer() {
    let mut cluster = cluster();
    let (request, proof) = hold(&mut cluster, 0);
    let waiter = cluster.acquire(2, &lock());
    cluster.settle();
    let (now, window) = (cluster.now(), Span::from_millis(10_000));
    let (session, relies_for) = (Session(1), Span::ZERO);
    cluster.input(0, Input::Call(ClientCall::SessionCut { session, last_contact: now, relies_for }));
    let ago = Span::from_millis(1_000);
    let event = claim(&mut cluster, 1, &proof, Reserved::SinceContact { ago });
    let ClaimEvent::Pending { until: Some(until), .. } = event else { panic!("{event:?}") };
    // A second and a millisecond of drift have passed.
    assert_eq!(until.since(now), Span::from_micros(window.micros() - 1_001_000));
    cluster.pass(Span::from_millis(10_009));
    assert!(!has_granted(&cluster, waiter), "the client has lost the claim, and nobody has the lock yet");
    let lost = |answer: &ClientAnswer| matches!(answer, ClientAnswer::Lock(LockEvent::Lost { request: CLAIM, act_by, .. }) if *act_by == until);
    assert!(cluster.told.iter().any(lost));
    cluster.pass(Span::from_millis(10));
    assert!(has_granted(&cluster, waiter) && request != waiter);
}

#[test]
fn a_client_whose_connection_was_cut_goes_on_at_its_site() {
    let mut cluster = cluster();
    let (_, proof) = hold(&mut cluster, 0);
    let now = cluster.now();
    let (session, relies_for) = (Session(1), Span::ZERO);
    cluster.input(0, Input::Call(ClientCall::SessionCut { session, last_contact: now, relies_for }));
    cluster.pass(Span::from_millis(5_000));
    let ago = Span::from_millis(5_000);
    let event = claim(&mut cluster, 0, &proof, Reserved::SinceContact { ago });
    let fence = proof.hold().fence;
    assert!(matches!(event, ClaimEvent::Settled { fence: of, .. } if of == fence), "{event:?}");
    cluster.pass(Span::from_millis(20_000));
    assert_eq!(cluster.nodes[0].table().holders().count(), 1);
}

#[test]
fn a_site_that_is_stopped_hands_its_clients_over_without_losing_a_lock() {
    for stopped in 0..3 {
        let mut cluster = cluster();
        let (_, proof) = hold(&mut cluster, stopped);
        let (new, other) = ((stopped + 1) % 3, (stopped + 2) % 3);
        let waiter = cluster.acquire(other, &lock());
        cluster.settle();
        cluster.input(stopped, Input::Call(ClientCall::Freeze));
        assert!(cluster.told.contains(&ClientAnswer::Leaving));
        // Its lease goes on, however long the clients take.
        cluster.pass(Span::from_millis(8_000));
        let event = claim(&mut cluster, new, &proof, Reserved::Forever);
        assert!(matches!(event, ClaimEvent::Pending { until: None, .. }), "{event:?}");
        cluster.input(stopped, Input::Call(ClientCall::SessionEnded(Session(1))));
        cluster.settle();
        assert!(!has_granted(&cluster, waiter));
        cluster.input(stopped, Input::Call(ClientCall::Leave { request: Request(8000) }));
        cluster.settle();
        cluster.pass(Span::from_millis(1_000));
        assert!(cluster.gone.contains(&stopped), "it has left at once");
        assert!(is_settled(&cluster, CLAIM) && !has_granted(&cluster, waiter));
        cluster.release(new, CLAIM);
        cluster.settle();
        assert!(has_granted(&cluster, waiter));
    }
}

#[test]
fn a_site_with_claims_does_not_leave_before_its_clients_have_stopped() {
    let mut cluster = cluster();
    let (_, proof) = hold(&mut cluster, 0);
    cluster.settle();
    let event = claim(&mut cluster, 1, &proof, Reserved::Forever);
    assert!(matches!(event, ClaimEvent::Pending { .. }), "{event:?}");
    cluster.input(1, Input::Call(ClientCall::Leave { request: Request(8000) }));
    cluster.settle();
    cluster.pass(Span::from_millis(1_500));
    assert!(!cluster.gone.contains(&1));
    cluster.release(1, CLAIM);
    cluster.pass(Span::from_millis(1_500));
    assert!(cluster.gone.contains(&1));
}

#[test]
fn the_latest_of_two_claims_at_one_site_counts_and_the_same_site_can_die_again() {
    // Two of them die, and the others must still be a majority of the voters.
    let mut cluster = Cluster::open_configured(5, &Clause::exclusive("central"), |at, config| {
        let byte = u8::try_from(at).expect("five sites");
        config.claim_key = Some(ClaimKey::new([byte + 1; 32]));
    });
    let (_, proof) = hold(&mut cluster, 3);
    cluster.gone.insert(3);
    assert!(matches!(claim(&mut cluster, 2, &proof, Reserved::Forever), ClaimEvent::Pending { .. }));
    let later = Request(9001);
    let event = claim_as(&mut cluster, 2, later, &proof, Reserved::Forever);
    assert!(matches!(event, ClaimEvent::Pending { .. }), "{event:?}");
    cluster.pass(Span::from_millis(12_000));
    assert!(is_settled(&cluster, later) && !is_settled(&cluster, CLAIM));
    let second = prove(&mut cluster, 2, later);
    cluster.gone.insert(2);
    let last = Request(9002);
    let event = claim_as(&mut cluster, 0, last, &second, Reserved::Forever);
    assert!(matches!(event, ClaimEvent::Pending { .. }), "{event:?}");
    cluster.pass(Span::from_millis(12_000));
    assert!(is_settled(&cluster, last));
    assert_eq!(prove(&mut cluster, 0, last).hold().fence, proof.hold().fence);
}
