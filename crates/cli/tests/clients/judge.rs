//! What must be true of the records that the examples print: no two programs believed in the same lock at the same time, and fences
//! only rise.

use std::collections::BTreeMap;

/// What a program says of one grant (see `watch` of the examples).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) lock: String,
    pub(crate) slot: u32,
    pub(crate) fence: i64,
    /// The first moment at which the program knew that it held the lock, in microseconds.
    from: u64,
    /// The last one. It may be before the first, if the program's clock is coarse: then nothing is known.
    until: u64,
}

impl Record {
    /// Reads `held LOCK FENCE SLOT FROM UNTIL`.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.strip_prefix("held ")?.split(' ').collect();
        let [lock, fence, slot, from, until] = words[..] else { return None };
        let (fence, slot) = (fence.parse().ok()?, slot.parse().ok()?);
        Some(Record {
            lock: lock.to_owned(),
            fence,
            slot,
            from: from.parse().ok()?,
            until: until.parse().ok()?,
        })
    }
}

/// Checks all records; the error says which two contradict each other.
pub(crate) fn judge(records: &[Record]) -> Result<(), String> {
    let mut permits: BTreeMap<(&str, u32), Vec<&Record>> = BTreeMap::new();
    for record in records {
        permits.entry((&record.lock, record.slot)).or_default().push(record);
    }
    for grants in permits.values_mut() {
        grants.sort_by_key(|record| record.fence);
        if let Some(pair) = grants.windows(2).find(|pair| pair[0].fence == pair[1].fence) {
            return Err(format!("two grants with the same fence: {pair:?}"));
        }
        // Whoever has the larger fence came later, also after those before the last one.
        let mut latest: Option<&Record> = None;
        for record in grants.iter().filter(|record| record.from <= record.until) {
            match latest {
                Some(before) if before.until > record.from => {
                    return Err(format!("two programs believed in one lock: {before:?} and {record:?}"));
                }
                Some(before) if before.until > record.until => {}
                Some(_) | None => latest = Some(record),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lines: &[&str]) -> Vec<Record> {
        lines.iter().map(|line| Record::read(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }

    #[test]
    fn turns_one_after_the_other_are_fine() {
        let fine =
            ["held jobs 7 0 10 20", "held jobs 9 0 20 20", "held jobs 8 0 20 20", "held other 7 0 0 99"];
        assert_eq!(judge(&records(&fine)), Ok(()));
        // Permits of one semaphore overlap.
        assert_eq!(judge(&records(&["held pool 7 0 10 20", "held pool 8 1 10 20"])), Ok(()));
        // A clock was too coarse to say anything.
        assert_eq!(judge(&records(&["held jobs 7 0 1000 0", "held jobs 8 0 900 950"])), Ok(()));
        assert_eq!(Record::read("done counter"), None);
        assert_eq!(Record::read("held jobs 7 0 1"), None);
    }

    #[test]
    fn two_holders_at_once_are_found() {
        let together = records(&["held jobs 7 0 10 20", "held jobs 8 0 19 30"]);
        assert!(judge(&together).unwrap_err().starts_with("two programs believed in one lock"));
        // A third one between them in the order of fences hides nothing.
        let hidden = records(&["held jobs 7 0 10 90", "held jobs 8 0 95 96", "held jobs 9 0 50 60"]);
        assert!(judge(&hidden).is_err());
    }

    #[test]
    fn fences_that_fall_or_stay_are_found() {
        assert!(judge(&records(&["held jobs 8 0 10 20", "held jobs 7 0 30 40"])).is_err());
        let same = records(&["held jobs 7 0 10 20", "held jobs 7 0 30 40"]);
        assert!(judge(&same).unwrap_err().starts_with("two grants with the same fence"));
    }
}
