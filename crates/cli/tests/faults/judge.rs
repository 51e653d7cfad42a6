//! Checks the records of the guarded counter for the same properties as the simulation: exclusion, increasing fences, no lost updates,
//! and no refused write of a client whose lease was valid. All processes use this machine's clock, so their times can be compared.

use std::collections::BTreeMap;

use crate::counter::Counter;

/// One turn of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    client: String,
    fence: i64,
    enter: u64,
    /// The end of the lease: nobody else has the lock before.
    until: u64,
    /// The fences of other clients that were inside when this one entered.
    beside: Vec<i64>,
    /// When it left, and whether the resource had refused its write; `None` if it was killed.
    left: Option<(u64, bool)>,
}

impl Turn {
    /// Returns whether its lease was valid at that moment.
    fn is_promised(&self, moment: u64) -> bool {
        moment < self.until
    }
}

/// A write that the resource accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) value: u64,
    pub(crate) fence: i64,
    pub(crate) client: String,
    /// In microseconds.
    pub(crate) at: u64,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Number of accepted writes.
    pub(crate) updates: u64,
    /// Number of writes that were refused because of an old fence, by clients whose leases had ended.
    pub(crate) refused: u64,
    /// Number of turns that never ended because their clients were killed.
    pub(crate) unfinished: u64,
}

/// Checks what must hold at any moment. The error describes the violation.
pub(crate) fn judge_so_far(counter: &Counter) -> Result<(), String> {
    let turns = read_turns(&counter.turns())?;
    exclusion(&turns)?;
    fences(&turns)?;
    lost_updates(&counter.requests())?;
    refusals(&turns)?;
    Ok(())
}

/// Checks everything that must hold once all clients have ended.
pub(crate) fn judge(counter: &Counter) -> Result<Verdict, String> {
    judge_so_far(counter)?;
    let (turns, updates) = (read_turns(&counter.turns())?, updates(&counter.requests()));
    let refused = refusals(&turns)?;
    let unfinished = turns.iter().filter(|turn| turn.left.is_none()).count() as u64;
    let written = turns.iter().filter(|turn| matches!(turn.left, Some((_, false)))).count() as u64;
    let count = updates.len() as u64;
    // Whoever was killed inside may have written or not.
    if count < written || count > written + unfinished {
        return Err(format!(
            "{written} clients were told that they had written, {unfinished} never left; {count} writes are there"
        ));
    }
    Ok(Verdict { updates: count, refused, unfinished })
}

/// Returns the accepted writes in their order.
pub(crate) fn updates(requests: &str) -> Vec<Update> {
    let writes = requests.lines().filter_map(|line| line.strip_prefix("write "));
    let update = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().unwrap();
        Update {
            value: number(0),
            fence: words[1].parse().unwrap(),
            client: words[2].to_owned(),
            at: number(3),
        }
    };
    writes.map(update).collect()
}

fn read_turns(text: &str) -> Result<Vec<Turn>, String> {
    let mut turns: BTreeMap<(i64, String), Turn> = BTreeMap::new();
    let mut killed = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, fence, client, time, until, last] = words[..] else {
            return Err(format!("torn: '{line}'"));
        };
        let number = |word: &str| word.parse::<u64>().map_err(|_| format!("torn: '{line}'"));
        let key = (fence.parse().map_err(|_| format!("torn: '{line}'"))?, client.to_owned());
        let (time, until) = (number(time)?, number(until)?);
        if kind == "killed" {
            killed.push((client.to_owned(), time));
            continue;
        }
        match (kind, turns.get_mut(&key)) {
            ("enter", None) => {
                let beside = last.split(',').filter_map(|fence| fence.parse().ok()).collect();
                let turn =
                    Turn { client: client.to_owned(), fence: key.0, enter: time, until, beside, left: None };
                turns.insert(key, turn);
            }
            ("leave", Some(turn)) if turn.left.is_none() => turn.left = Some((time, last == "refused")),
            _ => return Err(format!("no client does this: '{line}'")),
        }
    }
    let mut turns: Vec<Turn> = turns.into_values().collect();
    for (herd, time) in killed {
        for turn in turns.iter_mut().filter(|turn| turn.left.is_none() && turn.client.starts_with(&herd)) {
            turn.until = turn.until.min(time);
        }
    }
    turns.sort_by_key(|turn| turn.enter);
    Ok(turns)
}

/// Exclusion: at no moment are two clients inside whose leases are both valid.
fn exclusion(turns: &[Turn]) -> Result<(), String> {
    let by_fence: BTreeMap<i64, &Turn> = turns.iter().map(|turn| (turn.fence, turn)).collect();
    for turn in turns {
        for beside in &turn.beside {
            // Whoever put its file up and has not said yet that it is in is about to see this one in turn.
            let Some(other) = by_fence.get(beside) else { continue };
            let moment = turn.enter.max(other.enter);
            if turn.is_promised(moment) && other.is_promised(moment) {
                return Err(format!("two are inside at {moment}: {turn:?} and {other:?}"));
            }
        }
    }
    // The same by their times alone; turns are in the order in which they began.
    for pair in turns.windows(2) {
        let Some((left, _)) = pair[0].left else { continue };
        if pair[1].enter < left.min(pair[0].until) && pair[1].is_promised(pair[1].enter) {
            return Err(format!("two turns overlap: {:?} and {:?}", pair[0], pair[1]));
        }
    }
    Ok(())
}

/// A client that enters later has a larger fence.
fn fences(turns: &[Turn]) -> Result<(), String> {
    let mut newest: Option<&Turn> = None;
    for turn in turns.iter().filter(|turn| turn.is_promised(turn.enter)) {
        if let Some(newest) = newest.filter(|newest| newest.fence >= turn.fence) {
            return Err(format!("fences do not rise: {newest:?}, then {turn:?}"));
        }
        newest = Some(turn);
    }
    Ok(())
}

/// No lost updates: after each write the counter equals the number of writes, and the fences of requests never decrease.
fn lost_updates(requests: &str) -> Result<(), String> {
    let updates = updates(requests);
    for (update, number) in updates.iter().zip(1..) {
        if update.value != number {
            return Err(format!("an update is lost: number {number} is {update:?}"));
        }
    }
    for pair in updates.windows(2) {
        if pair[0].fence >= pair[1].fence {
            return Err(format!("two updates without rising fences: {:?}, then {:?}", pair[0], pair[1]));
        }
    }
    Ok(())
}

/// Only clients whose leases had ended when they left are refused.
fn refusals(turns: &[Turn]) -> Result<u64, String> {
    let mut count = 0;
    for turn in turns {
        let Some((left, true)) = turn.left else { continue };
        if turn.is_promised(left) {
            return Err(format!("a holder is refused: {turn:?}"));
        }
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the violation that is found in these records.
    fn judged(turns: &str, requests: &str) -> Result<Verdict, String> {
        let dir = tempfile::tempdir().unwrap();
        let counter = Counter::new(dir.path());
        std::fs::write(dir.path().join("turns"), turns).unwrap();
        std::fs::write(dir.path().join("counter"), requests).unwrap();
        judge(&counter)
    }

    fn complaint(turns: &str, requests: &str) -> String {
        judged(turns, requests).unwrap_err()
    }

    const TWO_TURNS: &str =
        "enter 1 a 10 99 nobody\nleave 1 a 20 99 written\nenter 2 b 30 99 nobody\nleave 2 b 40 99 written\n";

    #[test]
    fn turns_one_after_the_other_are_fine_and_counted() {
        let requests = "read 0 1 a 11\nwrite 1 1 a 12\nread 1 2 b 31\nwrite 2 2 b 32\n";
        assert_eq!(judged(TWO_TURNS, requests), Ok(Verdict { updates: 2, refused: 0, unfinished: 0 }));
    }

    #[test]
    fn a_client_that_sees_another_inside_is_a_violation_unless_its_lease_has_ended() {
        let turns =
            |until| format!("enter 1 a 10 {until} nobody\nenter 2 b 30 99 1\nleave 2 b 40 99 written\n");
        assert!(complaint(&turns(31), "write 1 2 b 32\n").contains("two are inside"));
        assert!(
            judged(&turns(30), "write 1 2 b 32\n").is_ok(),
            "the first was not promised the time from 30 on"
        );
    }

    #[test]
    fn a_client_that_is_about_to_be_killed_is_no_violation() {
        let turns =
            "killed 0 a- 20 0 -\nenter 1 a-1 10 99 nobody\nenter 2 b-1 30 99 1\nleave 2 b-1 40 99 written\n";
        assert!(judged(turns, "write 1 2 b-1 32\n").is_ok());
        assert!(complaint(&turns.replace(" a- ", " c- "), "write 1 2 b-1 32\n").contains("two are inside"));
    }

    #[test]
    fn turns_that_overlap_by_their_times_are_a_violation() {
        let turns = "enter 1 a 10 99 nobody\nenter 2 b 15 99 nobody\nleave 1 a 20 99 written\nleave 2 b 25 99 written\n";
        assert!(complaint(turns, "write 1 1 a 12\nwrite 2 2 b 22\n").contains("overlap"));
    }

    #[test]
    fn fences_that_fall_or_stay_are_a_violation() {
        let turns = |second| TWO_TURNS.replace(" 2 b", &format!(" {second} b"));
        for second in [0, 1] {
            assert!(complaint(&turns(second), "write 1 1 a 12\nwrite 2 1 b 32\n").contains("do not rise"));
        }
        assert!(complaint(TWO_TURNS, "write 1 2 a 12\nwrite 2 2 b 32\n").contains("without rising fences"));
    }

    #[test]
    fn a_lost_update_is_a_violation() {
        assert!(complaint(TWO_TURNS, "write 1 1 a 12\nwrite 1 2 b 32\n").contains("lost"));
        assert!(complaint(TWO_TURNS, "write 1 1 a 12\n").contains("1 writes are there"));
    }

    #[test]
    fn only_those_are_refused_whose_time_is_over() {
        let refused = |until| format!("enter 1 a 10 {until} nobody\nleave 1 a 20 {until} refused\n");
        assert!(complaint(&refused(21), "").contains("a holder is refused"));
        assert_eq!(judged(&refused(20), "").map(|verdict| verdict.refused), Ok(1));
    }
}
