//! Naimi and Trehel's algorithm for every number of sites, beside `crates/protocol/src/algorithms/naimi_trehel.rs`.
//!
//! Channels keep no order, and the token starts at any one site, which may be inside. For exclusion it is enough that there is one token.
//! That every request finds the tail of the queue is harder: path reversal turns the fathers round, and while requests are on their way
//! there are many queues, each with a tail of its own. The proof records them in ghosts (`ghost.rs`).

use meshlock_protocol::mutant::Mutant;

use crate::models::WrongModel;

/// What is covered.
pub const SCOPE: &str = "Covers the algorithm as it ships, over channels that keep no order, with every site's father at the start the one \
    with the token. Without crashes. What a site remembers of earlier requests \
    is not in the model; the theorem `requests_are_news` says why it refuses none.";

/// Wrong models, and where the proof of each fails.
pub const WRONG: &[WrongModel] = &[
    WrongModel {
        about: "a site that gives the token away keeps it, too",
        erratum: None,
        replaced: &[("    keeping(i) := false;\n    token_sent", "    token_sent")],
        fails_at: ("hand_over", "here_or_there"),
    },
    WrongModel {
        about: "a site that makes a requester its next does not take it for its father",
        erratum: None,
        replaced: &[(
            "    fatherless(i) := false;\n    next(i, k, n) := true;",
            "    next(i, k, n) := true;",
        )],
        fails_at: ("note_next", "tail_has_no_next"),
    },
    WrongModel {
        about: "a site that passes a request on keeps its father",
        erratum: None,
        replaced: &[(
            "    father(i, y) := y = k;\n    leads(y, z) := leads(y, tail(k)) & leads(y, z) & z != i\n        | !leads(y, tail(k)) & leads(y, i) & (leads(y, z) | leads(k, z) & leads(z, tail(k)))\n        | !leads(y, tail(k)) & !leads(y, i) & leads(y, z);\n    visited",
            "    visited",
        )],
        fails_at: ("pass_on", "request_is_first"),
    },
];

/// The deliberate bugs of the code, and where each breaks the tie.
pub const MUTANTS: &[(Mutant, &str)] = &[(
    Mutant::NaimiTrehelForgottenForward,
    "step `− father(site0, site1), − request_sent(site2, site0, site2, number1), + father(site0, site2)`",
)];

/// The model.
pub const TEXT: &str = r#"
sort site, number;
ordered number;
var i, j, k, x, y, y1, y2, z, w: site;
var n, m, l: number;

fixed zero: number;
fixed relation succ(number, number);

// The local process and the token: idle with it, waiting without it, inside with it. Without any of these a site is away.
relation keeping(site), waiting(site), inside(site);
// How many requests a site has made.
function requests(site): number;
// Whom a site believes to have asked last; a site without a father believes that it was itself.
relation father(site, site), fatherless(site);
// Who gets the token from a site, with the number of its request.
relation next(site, site, number), has_next(site);

// REQUEST from the first site to the second, for the third and its request; TOKEN with the number of the request that it serves.
relation request_sent(site, site, site, number), token_sent(site, site, number);

// Of the proof only. Sites that wait in each other's `next` are a queue: the line is that of the token, each other one is that of a head
// whose REQUEST is on its way. `tail` is the last of a head's queue. A site hangs on its father, and the tail of a queue where the REQUEST of
// its head is: so all sites are one tree at any time. `leads` are its paths, from a site to itself, too.
ghost function tail(site): site;
ghost relation leads(site, site);
// The first stands in the queue of the second, a head; or in the line. In a queue the first is ahead of the second.
ghost relation follows(site, site), in_line(site), ahead(site, site);
// The present request of the second has been at the first.
ghost relation visited(site, site);

define has_token(i) = keeping(i) | inside(i);
define busy(i) = waiting(i) | inside(i);

axiom zero_is_first "No number is before zero.": zero <= n;
axiom succ_rises "A number is before the one that follows it.": succ(n, m) -> n < m;
axiom succ_is_unique "One number follows each.": succ(n, m) & succ(n, l) -> m = l;

init one_token "The token is at one site.": (has_token(i) & has_token(j) -> i = j) & exists k. has_token(k);
init fathers_are_home "Every father is the site with the token.": father(i, j) -> has_token(j);
init tails_at_start "Everyone is a queue of its own.": tail(i) = i;
init tree_at_start "The tree is that of the fathers.": leads(i, j) <-> i = j | has_token(j);
init no_queue "Nobody follows anyone.": follows(i, j) <-> false;
init no_line "Nobody is in the line.": in_line(i) <-> false;
init nobody_is_ahead "Nobody is ahead of anyone.": ahead(i, j) <-> false;
init nothing_was_seen "No request has been anywhere.": visited(i, j) <-> false;
init one_phase_at_start "Nobody waits, and nobody keeps the token while inside.": !waiting(i) & !(keeping(i) & inside(i));
init token_is_root "Exactly the site with the token has no father.": fatherless(i) <-> has_token(i);
init fathers_at_start "Who has a father has no other, and is not fatherless.":
    (father(i, j) -> !fatherless(i)) & (father(i, j) & father(i, k) -> j = k);
init nobody_is_next "Nobody is next, and nobody has made a request.": !next(i, j, n) & !has_next(i) & requests(i) = zero;
init nothing_is_sent "Nothing is on its way.": !request_sent(i, j, k, n) & !token_sent(i, j, n);

action enter_at_once(i, n) "A site without a father has the token, and enters." {
    when !busy(i) & fatherless(i) & succ(requests(i), n);
    requests(i) := n;
    keeping(i) := false;
    inside(i) := true;
}

action ask(i, j, n) "A site asks its father, and becomes the tail." {
    when !busy(i) & !fatherless(i) & father(i, j) & succ(requests(i), n);
    requests(i) := n;
    keeping(i) := false;
    waiting(i) := true;
    father(i, k) := false;
    fatherless(i) := true;
    tail(i) := i;
    follows(i, x) := x = i;
    visited(x, i) := false;
    request_sent(i, j, i, m) := request_sent(i, j, i, m) | m = n;
}

action pass_on(i, j, k, n, x) "Path reversal: the request goes on to the father, and the requester is the new father." {
    when request_sent(j, i, k, n) & k != i & !fatherless(i) & father(i, x);
    request_sent(y, y1, y2, m) :=
        request_sent(y, y1, y2, m) & !(y = j & y1 = i & y2 = k & m = n) | y = i & y1 = x & y2 = k & m = n;
    father(i, y) := y = k;
    leads(y, z) := leads(y, tail(k)) & leads(y, z) & z != i
        | !leads(y, tail(k)) & leads(y, i) & (leads(y, z) | leads(k, z) & leads(z, tail(k)))
        | !leads(y, tail(k)) & !leads(y, i) & leads(y, z);
    visited(i, k) := true;
}

action note_next(i, j, k, n) "At the tail, which needs the token itself: the requester is the next." {
    when request_sent(j, i, k, n) & k != i & fatherless(i) & busy(i);
    request_sent(j, i, k, n) := false;
    father(i, y) := y = k;
    leads(y, z) := leads(y, tail(k)) & leads(y, z) & z != i
        | !leads(y, tail(k)) & leads(y, i) & (leads(y, z) | leads(k, z) & leads(z, tail(k)))
        | !leads(y, tail(k)) & !leads(y, i) & leads(y, z);
    fatherless(i) := false;
    next(i, k, n) := true;
    has_next(i) := true;
    follows(x, y) := follows(x, k) & follows(i, y) | !follows(x, k) & follows(x, y);
    in_line(x) := in_line(x) | follows(x, k) & (in_line(i) | inside(i));
    ahead(x, y) := ahead(x, y) | (x = i | ahead(x, i)) & follows(y, k);
    tail(x) := if tail(x) = i then tail(k) else tail(x);
    visited(i, k) := true;
}

action hand_over(i, j, k, n) "At the tail, which keeps the token unused: the requester gets it." {
    when request_sent(j, i, k, n) & k != i & fatherless(i) & keeping(i);
    request_sent(j, i, k, n) := false;
    father(i, y) := y = k;
    leads(y, z) := leads(y, tail(k)) & leads(y, z) & z != i
        | !leads(y, tail(k)) & leads(y, i) & (leads(y, z) | leads(k, z) & leads(z, tail(k)))
        | !leads(y, tail(k)) & !leads(y, i) & leads(y, z);
    fatherless(i) := false;
    keeping(i) := false;
    token_sent(i, k, n) := true;
    follows(x, y) := follows(x, y) & y != k;
    in_line(x) := follows(x, k);
    visited(i, k) := true;
}

action enter(i, j, n) "A waiting site that gets the token enters." {
    when token_sent(j, i, n) & waiting(i) & n = requests(i);
    token_sent(j, i, n) := false;
    waiting(i) := false;
    inside(i) := true;
    in_line(i) := false;
}

action leave_and_keep(i) "A site leaves, and nobody is next: it keeps the token." {
    when inside(i) & !has_next(i);
    inside(i) := false;
    keeping(i) := true;
    ahead(i, y) := false;
}

action leave_and_give(i, k, n) "A site leaves, and the token goes to the next." {
    when inside(i) & has_next(i) & next(i, k, n);
    inside(i) := false;
    next(i, y, m) := false;
    has_next(i) := false;
    token_sent(i, k, n) := true;
    ahead(i, y) := false;
}

invariant one_phase "A process is in one state at a time.":
    !(waiting(i) & keeping(i)) & !(waiting(i) & inside(i)) & !(keeping(i) & inside(i));
invariant one_holder "At most one site has the token.": has_token(i) & has_token(j) -> i = j;
invariant one_on_its_way "At most one token is on its way.":
    token_sent(i, j, n) & token_sent(x, y, m) -> i = x & j = y & n = m;
invariant here_or_there "The token is not at a site while it is on its way.": !(has_token(i) & token_sent(j, k, n));
invariant token_is_somewhere "The token is at a site or on its way.":
    (exists i. has_token(i)) | exists i, j, n. token_sent(i, j, n);
invariant one_father "A site has one father at most, and none if it believes to be the tail.":
    (father(i, j) & father(i, k) -> j = k) & (father(i, j) -> !fatherless(i));
invariant idle_tail_keeps "A site without a father that wants nothing has the token (I1).":
    fatherless(i) -> keeping(i) | busy(i);
invariant keeper_is_tail "A site that keeps the token has no father (I1).": keeping(i) -> fatherless(i);
invariant tail_has_no_next "A site without a father has no next (I1).": has_next(i) -> !fatherless(i);
invariant end_is_tail "A site that is busy and has no next has no father (I1).": busy(i) & !has_next(i) -> fatherless(i);
invariant next_while_busy "A site has a next only while it wants to enter or is inside (I2).": has_next(i) -> busy(i);
invariant next_is_one "A site has one next at most.":
    (next(i, j, n) -> has_next(i)) & (next(i, j, n) & next(i, k, m) -> j = k & n = m);
invariant asked_waits "Whoever is asked for waits, with its last request.":
    request_sent(j, i, k, n) -> waiting(k) & n = requests(k);
invariant next_waits "Whoever is next waits, with its last request.": next(j, k, n) -> waiting(k) & n = requests(k) & j != k;
invariant served_waits "Whoever the token is on its way to waits, with its last request.":
    token_sent(j, k, n) -> waiting(k) & n = requests(k);
invariant one_request "One message at most asks for a site.":
    request_sent(j, i, k, n) & request_sent(x, y, k, m) -> j = x & i = y;
invariant one_predecessor "A site is next to one other at most.": next(j, k, n) & next(x, k, m) -> j = x;
invariant asked_or_next "Nobody is next while its request is on its way.": !(request_sent(j, i, k, n) & next(x, k, m));
invariant asked_or_served "No token is on its way to a site whose request is.": !(request_sent(j, i, k, n) & token_sent(x, k, m));
invariant next_or_served "No token is on its way to a site that is next.": !(next(j, k, n) & token_sent(x, k, m));

invariant path_to_itself "A path leads from each site to itself.": leads(x, x);
invariant no_circle "No paths lead from two sites to each other: the tree has no circle.": leads(x, y) & leads(y, x) -> x = y;
invariant paths_go_on "A path goes on where another one begins.": leads(x, y) & leads(y, z) -> leads(x, z);
invariant one_path "Of two places that a site leads to, one leads to the other.":
    leads(x, y) & leads(x, z) -> leads(y, z) | leads(z, y);
invariant father_is_up "A path leads from a site to its father, who is another one.": father(x, y) -> leads(x, y) & x != y;
invariant father_is_first "And to everything else by way of the father.": father(x, y) & leads(x, z) & x != z -> leads(y, z);
invariant request_is_up "A path leads from a head to the tail of its queue, which has no father, and on to where its REQUEST is.":
    request_sent(j, y, k, n) -> leads(tail(k), y) & tail(k) != y & leads(k, tail(k)) & fatherless(tail(k));
invariant request_is_first "And from that tail to everything else by way of the REQUEST.":
    request_sent(j, y, k, n) & leads(tail(k), z) & tail(k) != z -> leads(y, z);
invariant root_has_no_path "No path leads from a site without a father if no REQUEST hangs on it.":
    fatherless(x) & leads(x, z) & x != z -> exists j, y, k, n. request_sent(j, y, k, n) & tail(k) = x;
invariant tails_differ "Two queues have different tails.":
    request_sent(j, i, k, n) & request_sent(y1, y2, w, m) & tail(k) = tail(w) -> k = w;

invariant queue_waits "Who stands in the queue of a head waits; the REQUEST of the head is on its way.":
    follows(x, k) -> waiting(x) & (exists y, y1, m. request_sent(y, y1, k, m)) & !in_line(x);
invariant head_and_tail "A head stands in its queue, and so does the tail.":
    request_sent(j, y, k, n) -> follows(k, k) & !in_line(k) & follows(tail(k), k);
invariant one_queue "A site stands in one queue.": follows(x, k) & follows(x, w) -> k = w;
invariant last_is_tail "Who stands in a queue, and has neither father nor next, is the tail.":
    follows(x, k) & fatherless(x) & !has_next(x) -> tail(k) = x;
invariant next_in_queue "A site stands in the same queue as its next.": next(x, y, n) -> (follows(x, k) <-> follows(y, k));
invariant line_waits "Who stands in the line waits, and nobody keeps the token unused.": in_line(x) -> waiting(x) & !keeping(y);
invariant served_in_line "Whoever the token is on its way to stands in the line.": token_sent(y, x, n) -> in_line(x);
invariant next_in_line "A site that is next stands in the line if the other one does, or is inside.":
    next(x, y, n) -> (in_line(y) <-> in_line(x) | inside(x));
invariant waits_somewhere "Whoever waits stands in the line, or in the queue of a head.":
    waiting(x) -> in_line(x) | exists k. follows(x, k);
invariant inside_is_ahead "Who is inside is ahead of all in the line.": inside(x) & in_line(y) -> ahead(x, y);
invariant served_is_ahead "And so is whoever the token is on its way to.":
    token_sent(j, x, n) & in_line(y) & x != y -> ahead(x, y);
invariant next_is_ahead "Who is next is ahead of all others that the site before is ahead of.":
    next(x, y, n) & ahead(x, z) & z != y -> ahead(y, z);
invariant last_is_ahead_of_nobody "A site without a next is ahead of nobody.": !has_next(x) -> !ahead(x, z);
invariant head_is_ahead "A head is ahead of all in its queue.": follows(x, k) & x != k -> ahead(k, x);
invariant visited_is_behind "A request is not where it has been: from there a path leads to the tail of its queue.":
    request_sent(j, y, k, n) & visited(x, k) -> leads(x, tail(k)) & x != y;

safety exclusion "Two sites are never inside at once.": inside(i) & inside(j) -> i = j;

theorem no_refusal_of_tokens "Every TOKEN is one that its receiver accepts.":
    token_sent(j, i, n) -> waiting(i) & n = requests(i);

theorem no_refusal_of_requests "Every REQUEST comes to another site than its own, which can pass it on, queue it or serve it.":
    request_sent(j, i, k, n) -> k != i & (!fatherless(i) | busy(i) | keeping(i));

theorem somebody_moves "If somebody waits, a message is on its way or somebody is inside: no deadlock.":
    waiting(i) -> exists x, y, k, n. request_sent(x, y, k, n) | token_sent(x, y, n) | inside(x);
theorem requests_are_news "No REQUEST comes to a site a second time.": request_sent(j, i, k, n) -> !visited(i, k);
"#;
