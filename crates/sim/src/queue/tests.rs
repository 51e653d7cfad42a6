//! The order of events, wherever they wait.

use std::collections::BTreeSet;

use super::*;
use crate::draw::Draw;

/// Inserts numbered events, in the lane where it takes them, at times of which many are equal; removes some in between,
/// and compares with a sorted set.
fn comes_out_in_order(events: usize, spread: usize, keep: usize) {
    let mut draw = Draw::new(1);
    let (mut queue, mut lane) = (EventQueue::default(), Lane::default());
    let mut expected: BTreeSet<(u64, usize)> = BTreeSet::new();
    let mut now = 0;
    let pop = |queue: &mut EventQueue<usize>, lane: &mut Lane<usize>| {
        if lane.first() < queue.first() {
            let time = time_of(lane.first());
            return lane.pop().map(|event| (time.ticks(), event));
        }
        queue.pop().map(|(time, event)| (time.ticks(), event))
    };
    for number in 0..events {
        let time = Time::from_ticks(now + draw.below(spread) as u64);
        if draw.below(2) == 0 && lane.takes(time) {
            lane.push(queue.next_key(time), number);
        } else {
            queue.push(time, number);
        }
        expected.insert((time.ticks(), number));
        if expected.len() > keep {
            let popped = pop(&mut queue, &mut lane);
            assert_eq!(popped, expected.pop_first());
            now = popped.expect("one was just inserted").0;
        }
    }
    for event in expected {
        assert_eq!(pop(&mut queue, &mut lane), Some(event));
    }
    assert_eq!(pop(&mut queue, &mut lane), None);
}

#[test]
fn events_come_out_by_time_and_then_in_the_order_of_putting_in() {
    comes_out_in_order(1000, 50, 3);
    comes_out_in_order(1000, 50, 300);
}

#[test]
fn a_queue_that_is_divided_by_time_keeps_the_order() {
    // Far more than fit the heap; times that are all the same, dense, and sparse.
    for spread in [1, 1000, 1 << 40] {
        comes_out_in_order(60_000, spread, 40_000);
    }
}

#[test]
fn the_end_of_time_is_a_time_like_others() {
    let mut queue = EventQueue::default();
    let times = (0..20_000u64).map(|number| if number % 2 == 0 { number } else { u64::MAX - number });
    for (number, time) in times.clone().enumerate() {
        queue.push(Time::from_ticks(time), number);
    }
    let mut sorted: Vec<u64> = times.collect();
    sorted.sort_unstable();
    for time in sorted {
        assert_eq!(queue.pop().map(|(time, _)| time.ticks()), Some(time));
    }
    assert_eq!(queue.first(), NEVER);
}

#[test]
fn a_few_events_at_the_end_of_time_wait_behind_many() {
    let mut queue = EventQueue::default();
    for number in 0..10_000 {
        queue.push(Time::from_ticks(number), number);
    }
    assert_eq!(queue.pop(), Some((Time::from_ticks(0), 0)));
    for time in [u64::MAX, 1 << 40, u64::MAX / 2] {
        queue.push(Time::from_ticks(time), time);
    }
    let rest = (1..10_000).chain([1 << 40, u64::MAX / 2, u64::MAX]);
    for time in rest {
        assert_eq!(queue.pop(), Some((Time::from_ticks(time), time)));
    }
    assert_eq!(queue.pop(), None);
}
