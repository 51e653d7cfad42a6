//! Buckets: how states get from the task that found them to the shard that keeps them, encoded one after the other.

use smallvec::SmallVec;

use crate::store::{Inserted, Shard, StatePlace, TOUCHED};

/// Inserts the states of a bucket into their shard, a few at a time, and notes where they are. Returns how many were known from this
/// level or before.
pub(crate) fn empty(
    bucket: &[u8],
    shard: &mut Shard,
    level_end: u64,
    mut landed: Option<&mut Vec<u64>>,
) -> usize {
    let (mut rest, mut retreats) = (bucket, 0);
    if let Some(landed) = &mut landed {
        landed.clear();
    }
    let mut group = SmallVec::<[Staged<'_>; TOUCHED]>::new();
    while !rest.is_empty() {
        group.clear();
        group.extend(std::iter::from_fn(|| Staged::read(&mut rest)).take(TOUCHED));
        shard.touch(group.iter().map(|staged| staged.hash));
        for &Staged { hash, parent, body } in &group {
            let offset = match shard.insert(hash, parent, body) {
                Inserted::New(offset) => offset,
                Inserted::Known(offset) => {
                    retreats += usize::from(offset < level_end);
                    offset
                }
            };
            if let Some(landed) = &mut landed {
                landed.push(offset);
            }
        }
    }
    retreats
}

/// A state in a bucket.
pub(crate) struct Staged<'a> {
    pub(crate) hash: u64,
    pub(crate) parent: StatePlace,
    pub(crate) body: &'a [u8],
}

impl<'a> Staged<'a> {
    pub(crate) fn write(&self, bucket: &mut Vec<u8>) {
        let length = u16::try_from(self.body.len()).expect("a state of a few sites takes a few bytes");
        bucket.extend_from_slice(&self.hash.to_le_bytes());
        bucket.extend_from_slice(&self.parent.to_bytes());
        bucket.extend_from_slice(&length.to_le_bytes());
        bucket.extend_from_slice(self.body);
    }

    fn read(bucket: &mut &'a [u8]) -> Option<Self> {
        const HEAD: usize = 8 + StatePlace::BYTES + 2;
        let (head, tail) = bucket.split_at_checked(HEAD)?;
        let length = usize::from(u16::from_le_bytes([head[HEAD - 2], head[HEAD - 1]]));
        let (body, next) = tail.split_at(length);
        *bucket = next;
        let hash = u64::from_le_bytes(*head.first_chunk().expect("eight bytes"));
        Some(Staged { hash, parent: StatePlace::from_bytes(&head[8..]), body })
    }
}
