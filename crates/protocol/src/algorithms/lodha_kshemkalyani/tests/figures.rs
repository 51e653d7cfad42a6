//! The figures of the paper and of the chapter, step by step. Their P1 is `s1`, the code's site 0.

use super::*;
use crate::world::{enter, send};

/// Reference: section 3.4.1, Figure 3. Ricart and Agrawala's algorithm would take 12 messages.
#[test]
fn three_requests_that_cross_take_eight_messages() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = Lodha::of(3);
    // Instant t2: all have asked.
    assert_eq!(world.request(s1), [send(s2, request(1)), send(s3, request(1))]);
    assert_eq!(world.request(s2), [send(s1, request(1)), send(s3, request(1))]);
    assert_eq!(world.request(s3), [send(s1, request(1)), send(s2, request(1))]);
    assert_eq!([queue(&world, s1), queue(&world, s2), queue(&world, s3)], ["(1,S0)", "(1,S1)", "(1,S2)"]);
    // Instant t3: all have been asked, nobody replies, P1 enters.
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s3, s2), []);
    assert_eq!(world.deliver(s1, s3), []);
    assert_eq!(world.deliver(s2, s3), []);
    assert_eq!(world.deliver(s3, s1), [enter()]);
    for site in [s1, s2, s3] {
        assert_eq!(queue(&world, site), "(1,S0) (1,S1) (1,S2)");
    }
    // Instants t4 and t5: P1 leaves, and its FLUSH lets P2 in.
    assert_eq!(world.release(s1), [send(s2, flush(1))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(queue(&world, s2), "(1,S1) (1,S2)");
    // Instant t6: the same with P2 and P3. P3 has nobody to tell.
    assert_eq!(world.release(s2), [send(s3, flush(1))]);
    assert_eq!(world.deliver(s2, s3), [enter()]);
    assert_eq!(world.release(s3), []);
    assert!(world.is_quiet());
    assert_eq!(world.messages(), 8);
}

/// Reference: section 3.4.2, Figure 4. The timestamps are ours; the order of the requests is the figure's.
#[test]
fn a_site_enters_when_all_have_answered_and_it_heads_its_queue() {
    let [s1, s2, s3, s4, s5, s6] = SiteId::first();
    let mut world = Lodha::of(6);
    for site in [s1, s3, s5] {
        let _ = world.request(site);
    }
    let everyone_else = [s1, s2, s3, s5, s6].map(|site| send(site, request(1)));
    assert_eq!(world.request(s4), everyone_else);
    // (a) just after its request.
    assert_eq!((answered(&world, s4), queue(&world, s4)), ("{}".into(), "(1,S3)".into()));
    // (b) P1, P3 and P5 have asked, P2 has replied, P6 is silent.
    assert_eq!(world.deliver(s1, s4), []);
    assert_eq!(world.deliver(s3, s4), []);
    assert_eq!(world.deliver(s5, s4), []);
    assert_eq!(world.deliver(s4, s2), [send(s4, reply(1))]);
    assert_eq!(world.deliver(s2, s4), []);
    assert_eq!(
        (answered(&world, s4), queue(&world, s4)),
        ("{0,1,2,4}".into(), "(1,S0) (1,S2) (1,S3) (1,S4)".into())
    );
    // P1 is served and flushes to P3; P4 hears nothing of that.
    world.settle();
    assert_eq!(world.release(s1), [send(s3, flush(1))]);
    assert_eq!(world.deliver(s1, s3), [enter()]);
    // (c) P3's FLUSH stands for P1's as well: P4 is first.
    assert_eq!(answered(&world, s4), "{0,1,2,4,5}");
    assert_eq!(world.release(s3), [send(s4, flush(1))]);
    assert_eq!(world.deliver(s3, s4), [enter()]);
    assert_eq!(queue(&world, s4), "(1,S3) (1,S4)");
}

/// Reference: section 3.4.2, Figure 5, scenario 1.
#[test]
fn a_lone_request_gets_a_reply_from_everyone() {
    let [si, sj, sk] = SiteId::first();
    let mut world = Lodha::of(3);
    assert_eq!(world.request(si), [send(sj, request(1)), send(sk, request(1))]);
    assert_eq!(world.deliver(si, sj), [send(si, reply(1))]);
    assert_eq!(world.deliver(si, sk), [send(si, reply(1))]);
    assert_eq!(world.deliver(sj, si), []);
    assert_eq!(world.deliver(sk, si), [enter()]);
    assert_eq!(world.release(si), []);
    assert!(world.is_quiet());
}

/// Reference: section 3.4.2, Figure 5, scenario 2a.
#[test]
fn a_flush_lets_in_whoever_asked_at_the_same_time() {
    let [si, sj, sk] = SiteId::first();
    let mut world = Lodha::of(3);
    assert_eq!(world.request(si), [send(sj, request(1)), send(sk, request(1))]);
    assert_eq!(world.request(sj), [send(si, request(1)), send(sk, request(1))]);
    assert_eq!(world.deliver(si, sj), []);
    assert_eq!(world.deliver(sj, si), []);
    assert_eq!(world.deliver(sj, sk), [send(sj, reply(1))]);
    assert_eq!(world.deliver(si, sk), [send(si, reply(1))]);
    assert_eq!(world.deliver(sk, sj), []);
    assert_eq!(world.deliver(sk, si), [enter()]);
    assert_eq!(world.release(si), [send(sj, flush(1))]);
    assert_eq!(world.deliver(si, sj), [enter()]);
    assert_eq!(world.release(sj), []);
    assert!(world.is_quiet());
}

/// Reference: section 3.4.2, Figure 5, scenario 2b.
#[test]
fn a_request_made_after_its_reply_is_deferred() {
    let [si, sj, sk] = SiteId::first();
    let mut world = Lodha::of(3);
    assert_eq!(world.request(si), [send(sj, request(1)), send(sk, request(1))]);
    assert_eq!(world.deliver(si, sj), [send(si, reply(1))]);
    assert_eq!(world.request(sj), [send(si, request(2)), send(sk, request(2))]);
    assert_eq!(world.deliver(sj, si), []);
    // Pj's request finds its reply here already.
    assert_eq!(world.deliver(sj, si), []);
    assert_eq!(queue(&world, si), "(1,S0)");
    assert_eq!(world.deliver(si, sk), [send(si, reply(1))]);
    assert_eq!(world.deliver(sk, si), [enter()]);
    assert_eq!(world.release(si), [send(sj, reply_after(1, 2))]);
    assert_eq!(world.deliver(si, sj), []);
    assert_eq!(world.deliver(sj, sk), [send(sj, reply(2))]);
    assert_eq!(world.deliver(sk, sj), [enter()]);
    assert_eq!(world.release(sj), []);
    assert!(world.is_quiet());
}

/// Reference: section 3.4.2, Figure 5, scenario 2c.
#[test]
fn the_next_request_of_whoever_flushed_is_deferred() {
    let [si, sj, sk] = SiteId::first();
    let mut world = Lodha::of(3);
    let _ = world.request(si);
    let _ = world.request(sj);
    assert_eq!(world.deliver(si, sj), []);
    assert_eq!(world.deliver(sj, si), []);
    assert_eq!(world.deliver(si, sk), [send(si, reply(1))]);
    assert_eq!(world.deliver(sk, si), [enter()]);
    assert_eq!(world.release(si), [send(sj, flush(1))]);
    // Pj still misses Pk.
    assert_eq!(world.deliver(si, sj), []);
    assert_eq!(queue(&world, sj), "(1,S1)");
    assert_eq!(world.request(si), [send(sj, request(2)), send(sk, request(2))]);
    assert_eq!(world.deliver(si, sj), []);
    assert_eq!(world.deliver(sj, sk), [send(sj, reply(1))]);
    assert_eq!(world.deliver(sk, sj), [enter()]);
    assert_eq!(world.release(sj), [send(si, reply_after(1, 2))]);
    assert_eq!(world.deliver(sj, si), []);
    assert_eq!(world.deliver(si, sk), [send(si, reply(2))]);
    assert_eq!(world.deliver(sk, si), [enter()]);
    assert_eq!(world.release(si), []);
    assert!(world.is_quiet());
}

/// Reference: section 3.4.2, Figure 6. (It is Pj's request that is made before Pk's; the text says Pi's, which it calls
/// concurrent with Pk's in the sentence before.)
#[test]
fn a_reply_stands_for_all_earlier_requests() {
    let [si, sj, sk] = SiteId::first();
    let mut world = Lodha::of(3);
    assert_eq!(world.request(si), [send(sj, request(1)), send(sk, request(1))]);
    assert_eq!(world.request(sj), [send(si, request(1)), send(sk, request(1))]);
    assert_eq!(world.deliver(sj, sk), [send(sj, reply(1))]);
    assert_eq!(world.request(sk), [send(si, request(2)), send(sj, request(2))]);
    assert_eq!(world.deliver(si, sk), []);
    assert_eq!(queue(&world, sk), "(1,S0) (2,S2)");
    assert_eq!(world.deliver(si, sj), []);
    assert_eq!(world.deliver(sk, sj), []);
    assert_eq!(world.deliver(sk, sj), []);
    assert_eq!(queue(&world, sj), "(1,S0) (1,S1)");
    assert_eq!(world.deliver(sj, si), []);
    assert_eq!(world.deliver(sk, si), [enter()]);
    assert_eq!(queue(&world, si), "(1,S0) (1,S1) (2,S2)");
    // Pk is behind Pi in its own queue, but gets no FLUSH from it.
    assert_eq!(world.release(si), [send(sj, flush(1))]);
    assert_eq!(world.deliver(si, sj), [enter()]);
    assert_eq!(world.release(sj), [send(sk, reply_after(1, 2))]);
    assert_eq!(world.deliver(sj, sk), [enter()]);
    assert_eq!(queue(&world, sk), "(2,S2)");
    assert_eq!(world.release(sk), []);
    assert!(world.is_quiet());
}

/// Reference: section 3.4.2, Figure 7.
#[test]
fn a_site_may_need_more_than_one_flush() {
    let [si, sj, sk] = SiteId::first();
    let mut world = Lodha::of(3);
    let _ = world.request(si);
    let _ = world.request(sj);
    // Pi's first request does not cross Pk's; Pj's does.
    assert_eq!(world.deliver(si, sk), [send(si, reply(1))]);
    assert_eq!(world.request(sk), [send(si, request(2)), send(sj, request(2))]);
    assert_eq!(world.deliver(si, sj), []);
    assert_eq!(world.deliver(sj, sk), []);
    assert_eq!(world.deliver(sk, sj), []);
    assert_eq!(queue(&world, sj), "(1,S0) (1,S1) (2,S2)");
    assert_eq!(world.deliver(sk, si), []);
    assert_eq!(world.deliver(sj, si), [enter()]);
    assert_eq!(world.release(si), [send(sj, flush(1))]);
    assert_eq!(world.deliver(si, sj), [enter()]);
    // Pi asks again before it sees Pk's request, so it precedes Pk.
    assert_eq!(world.request(si), [send(sj, request(2)), send(sk, request(2))]);
    assert_eq!(world.deliver(si, sk), []);
    assert_eq!(queue(&world, sk), "(1,S1) (2,S0) (2,S2)");
    assert_eq!(world.deliver(sk, si), []);
    assert_eq!(world.release(sj), [send(sk, flush(1))]);
    assert_eq!(world.deliver(sj, sk), []);
    assert_eq!(queue(&world, sk), "(2,S0) (2,S2)");
    assert_eq!(world.deliver(si, sj), [send(si, reply_after(1, 2))]);
    assert_eq!(world.deliver(sj, si), [enter()]);
    assert_eq!(world.release(si), [send(sk, flush(2))]);
    assert_eq!(world.deliver(si, sk), [enter()]);
    assert_eq!(world.release(sk), []);
    assert!(world.is_quiet());
}

/// Reference: chapter 9, Figures 9.11 to 9.15. The text of Figure 9.15 says that P2 sends P3 a FLUSH; their requests are
/// not concurrent, as it says itself, so it must be a REPLY.
#[test]
fn a_request_that_did_not_cross_gets_a_reply_where_the_chapter_says_flush() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = Lodha::of(3);
    // Figure 9.11: P1 and P2 ask; P1's REQUEST to P3 is slow.
    assert_eq!(world.request(s1), [send(s2, request(1)), send(s3, request(1))]);
    assert_eq!(world.request(s2), [send(s1, request(1)), send(s3, request(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s1), []);
    // Figure 9.12: P3 replies to P2 only.
    assert_eq!(world.deliver(s2, s3), [send(s2, reply(1))]);
    assert_eq!(world.deliver(s3, s2), []);
    // Figure 9.13: P3 asks as P1's REQUEST arrives. P1 has all answers.
    assert_eq!(world.request(s3), [send(s1, request(2)), send(s2, request(2))]);
    assert_eq!(world.deliver(s1, s3), []);
    assert_eq!(world.deliver(s3, s2), []);
    assert_eq!(world.deliver(s3, s1), [enter()]);
    // Figure 9.14: P1 leaves.
    assert_eq!(world.release(s1), [send(s2, flush(1))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    // Figure 9.15: P3 takes (1,1) out of its queue and enters.
    assert_eq!(queue(&world, s3), "(1,S0) (2,S2)");
    assert_eq!(world.release(s2), [send(s3, reply_after(1, 2))]);
    assert_eq!(world.deliver(s2, s3), [enter()]);
    assert_eq!(queue(&world, s3), "(2,S2)");
    assert_eq!(world.release(s3), []);
    assert!(world.is_quiet());
}
