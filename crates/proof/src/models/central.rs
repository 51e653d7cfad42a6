//! The coordinator for every number of sites, beside `crates/protocol/src/algorithms/central.rs`.
//!
//! Channels keep no order, and one site may be inside at the start. The queue is a set here: which of those who wait is
//! granted next is left open, so that the order of service is no part of what is proved.

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm as it ships, over channels that keep no order, with any site as coordinator. The order \
    of service is left open. Without crashes.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "the coordinator grants although somebody has the grant",
        erratum: None,
        replaced: &[("!queued(j) & !taken;", "!queued(j);")],
        fails_at: ("grant", "one_grant"),
    },
    WrongModel {
        about: "a site that leaves does not tell the coordinator",
        erratum: None,
        replaced: &[("release_sent(i, n) := release_sent(i, n) | n = requests(i);", "")],
        fails_at: ("leave", "grant_is_in_use"),
    },
];

/// What neither proof nor tie notices.
pub const BEYOND: &[(Mutant, &str)] = &[(
    Mutant::CentralSmallestFirst,
    "the queue is a set in the model, so that the order of service is no part of what is proved",
)];

/// The model.
pub const TEXT: &str = r#"
sort site, number;
ordered number;
var i, j, k: site;
var n, m, l: number;

// What all sites share: who is asked, and which number follows which.
fixed coordinator: site;
fixed zero: number;
fixed relation succ(number, number);

// The local process, and the number of the last request that it sent.
relation waiting(site), executing(site);
function requests(site): number;

// What only the coordinator keeps: the grant that is not released yet, who is queued, the last request of each site.
relation granted(site, number), taken;
relation queued(site);
function asked(site): number;

// REQUEST and RELEASE from a site to the coordinator, and GRANT from the coordinator to a site.
relation request_sent(site, number), grant_sent(site, number), release_sent(site, number);
sent request_sent(i, n) from i to coordinator;
sent grant_sent(i, n) from coordinator to i;
sent release_sent(i, n) from i to coordinator;

define idle(i) = !waiting(i) & !executing(i);

axiom zero_is_first "No number is before zero.": zero <= n;
axiom succ_rises "A number is before the one that follows it.": succ(n, m) -> n < m;
axiom succ_is_unique "One number follows each.": succ(n, m) & succ(n, l) -> m = l;

init nobody_waits "Nobody waits or is queued at the start.": !waiting(i) & !queued(i);
init one_holder "At most one site is inside, on the request before its first.":
    (executing(i) <-> granted(i, zero)) & (granted(i, n) -> n = zero) & (granted(i, n) & granted(j, m) -> i = j);
init taken_is_granted "The grant is taken exactly if somebody is inside.": taken <-> exists i. executing(i);
init numbers_are_zero "Nobody has made a request.": requests(i) = zero & asked(i) = zero;
init nothing_is_sent "Nothing is on its way.": !request_sent(i, n) & !grant_sent(i, n) & !release_sent(i, n);

action ask(i, n) "Exercise 9.6: a site sends the request to the coordinator." {
    when idle(i) & i != coordinator & succ(requests(i), n);
    requests(i) := n;
    waiting(i) := true;
    request_sent(i, n) := true;
}

action enter_own(i) "The coordinator's own process enters at once if nobody has the grant." {
    when idle(i) & i = coordinator & !taken;
    executing(i) := true;
    taken := true;
    granted(i, n) := n = asked(i);
}

action queue_own(i) "The coordinator's own process waits if somebody has the grant." {
    when idle(i) & i = coordinator & taken;
    waiting(i) := true;
    queued(i) := true;
}

action grant(j, n) "The coordinator lets in whoever asks if nobody has the grant." {
    when request_sent(j, n) & succ(asked(j), n) & !queued(j) & !taken;
    request_sent(j, n) := false;
    asked(j) := n;
    taken := true;
    granted(j, n) := true;
    grant_sent(j, n) := true;
}

action queue(j, n) "The coordinator queues whoever asks if somebody has the grant." {
    when request_sent(j, n) & succ(asked(j), n) & !queued(j) & taken;
    request_sent(j, n) := false;
    asked(j) := n;
    queued(j) := true;
}

action enter(i, n) "Whoever is granted enters." {
    when grant_sent(i, n) & waiting(i) & n = requests(i) & i != coordinator;
    grant_sent(i, n) := false;
    waiting(i) := false;
    executing(i) := true;
}

action leave(i) "A site that leaves tells the coordinator." {
    when executing(i) & i != coordinator;
    executing(i) := false;
    release_sent(i, n) := release_sent(i, n) | n = requests(i);
}

action leave_own(i) "The coordinator's own process leaves, and nobody waits." {
    when executing(i) & i = coordinator & forall j. !queued(j);
    executing(i) := false;
    taken := false;
    granted(j, n) := false;
}

action leave_own_to(i, k) "The coordinator's own process leaves, and one who waits is granted." {
    when executing(i) & i = coordinator & queued(k);
    executing(i) := false;
    queued(k) := false;
    granted(j, n) := j = k & n = asked(k);
    grant_sent(k, n) := grant_sent(k, n) | n = asked(k);
}

action release(j, n) "The coordinator hears of a release, and nobody waits." {
    when release_sent(j, n) & granted(j, n) & forall k. !queued(k);
    release_sent(j, n) := false;
    taken := false;
    granted(i, m) := false;
}

action release_to(j, n, k) "The coordinator hears of a release, and one who waits is granted." {
    when release_sent(j, n) & granted(j, n) & queued(k) & k != coordinator;
    release_sent(j, n) := false;
    queued(k) := false;
    granted(i, m) := i = k & m = asked(k);
    grant_sent(k, m) := grant_sent(k, m) | m = asked(k);
}

action release_to_own(j, n, k) "The coordinator hears of a release, and its own process enters." {
    when release_sent(j, n) & granted(j, n) & queued(k) & k = coordinator;
    release_sent(j, n) := false;
    queued(k) := false;
    granted(i, m) := i = k & m = asked(k);
    waiting(k) := false;
    executing(k) := true;
}

invariant one_phase "A process does not wait and execute at once.": !(waiting(i) & executing(i));
invariant one_grant "At most one request has the grant.": granted(i, n) & granted(j, m) -> i = j & n = m;
invariant taken_while_granted "Nobody has the grant unless it is taken.": granted(i, n) -> taken;
invariant grant_is_recorded "A grant that is taken is somebody's.": taken -> exists i, n. granted(i, n);
invariant queued_behind_a_grant "Nobody is queued while nobody has the grant (I1).": queued(i) -> taken;
invariant queued_waits "Whoever is queued waits, and its last request is the one that the coordinator knows (I2).":
    queued(i) -> waiting(i) & asked(i) = requests(i);
invariant own_waits_in_queue "The coordinator waits in the queue (I2).": waiting(i) & i = coordinator -> queued(i);
invariant own_is_not_numbered "The coordinator's own requests have no numbers.":
    i = coordinator -> requests(i) = asked(i) & !request_sent(i, n) & !grant_sent(i, n) & !release_sent(i, n);
invariant request_on_its_way "A REQUEST on its way is the sender's last, and the next that the coordinator expects.":
    request_sent(i, n) -> waiting(i) & !queued(i) & n = requests(i) & succ(asked(i), n);
invariant waits_for_something "Whoever waits has asked, is queued, or has the grant.":
    waiting(i) -> request_sent(i, requests(i)) | queued(i) | grant_sent(i, requests(i));
invariant known_or_on_its_way "The coordinator knows a site's last request, or it is on its way.":
    asked(i) != requests(i) -> request_sent(i, requests(i));
invariant grant_on_its_way "A GRANT on its way is that of the site which has the grant.":
    grant_sent(i, n) -> granted(i, n) & waiting(i) & !queued(i) & n = requests(i) & asked(i) = n;
invariant release_on_its_way "A RELEASE on its way is that of the site which has the grant, and has left.":
    release_sent(i, n) -> granted(i, n) & !executing(i) & !grant_sent(i, n);
invariant inside_is_granted "A site is inside only if the coordinator has granted it and waits for its release (I3).":
    executing(i) -> granted(i, requests(i)) & asked(i) = requests(i) & !grant_sent(i, n) & !release_sent(i, n);
invariant grant_is_in_use "A grant is on its way, in use, or on its way back.":
    granted(i, n) -> grant_sent(i, n) | executing(i) | release_sent(i, n);

safety exclusion "Two sites are never inside at once.": executing(i) & executing(j) -> i = j;

theorem no_refusal_of_requests "Every REQUEST is one that the coordinator accepts.":
    request_sent(i, n) -> i != coordinator & succ(asked(i), n) & !queued(i);
theorem no_refusal_of_grants "Every GRANT is one that its receiver accepts.":
    grant_sent(i, n) -> i != coordinator & waiting(i) & n = requests(i);
theorem no_refusal_of_releases "Every RELEASE is one that the coordinator accepts.":
    release_sent(i, n) -> i != coordinator & granted(i, n);
theorem somebody_moves "If somebody waits, a message is on its way or somebody is inside: no deadlock.":
    waiting(i) -> exists j, n. request_sent(j, n) | grant_sent(j, n) | release_sent(j, n) | executing(j);
"#;
