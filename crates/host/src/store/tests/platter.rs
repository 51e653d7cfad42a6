//! A disk in memory that can be full, can fail, and can lose what was not synced, as a real one does in a power failure.

use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use super::super::*;

/// Number of bytes that a power failure keeps or loses as a whole.
const SECTOR: usize = 512;

/// The disk's content.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// What survives a power failure.
    durable: Vec<u8>,
    /// What a read sees.
    pub(super) now: Vec<u8>,
    /// Operations since the last sync.
    unsynced: Vec<Operation>,
    /// Number of operations that succeed before every further one fails with this error.
    fault: Option<(usize, io::ErrorKind)>,
    /// Number of operations so far.
    pub(super) operations: usize,
}

#[derive(Clone, Debug)]
enum Operation {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Operation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Operation::Write(at, data) => {
                bytes.resize(bytes.len().max(at + data.len()), 0);
                bytes[*at..at + data.len()].copy_from_slice(data);
            }
            Operation::Length(length) => bytes.resize(*length, 0),
        }
    }
}

/// A disk in memory. All clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Platter(Arc<Mutex<Content>>);

impl Platter {
    pub(super) fn with(bytes: Vec<u8>) -> Self {
        Platter(Arc::new(Mutex::new(Content { durable: bytes.clone(), now: bytes, ..Content::default() })))
    }

    pub(super) fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }

    /// Opens the database on this disk, whatever the path.
    pub(super) fn opener(&self) -> Opener {
        let platter = self.clone();
        Box::new(move |_| Ok(Database::builder().create_with_backend(platter.clone())?))
    }

    /// Makes every operation fail after `operations` more.
    pub(super) fn fail_after(&self, operations: usize, kind: io::ErrorKind) {
        self.content().fault = Some((operations, kind));
    }

    /// Makes operations succeed again.
    pub(super) fn heal(&self) {
        self.content().fault = None;
    }

    /// Simulates a power failure: of the unsynced sectors some are written and some are not.
    pub(super) fn lose_power(&self, draw: &mut fastrand::Rng) {
        let mut content = self.content();
        let mut left = std::mem::take(&mut content.durable);
        for operation in std::mem::take(&mut content.unsynced) {
            if draw.bool() {
                operation.apply(&mut left);
            }
        }
        (content.now, content.durable, content.fault) = (left.clone(), left, None);
    }

    fn operate(&self) -> io::Result<MutexGuard<'_, Content>> {
        let mut content = self.content();
        content.operations += 1;
        match &mut content.fault {
            Some((0, kind)) => return Err(io::Error::from(*kind)),
            Some((left, _)) => *left -= 1,
            None => {}
        }
        Ok(content)
    }
}

impl StorageBackend for Platter {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        let content = self.content();
        let bytes = content.now.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut content = self.operate()?;
        let operation = Operation::Length(usize::try_from(len).unwrap());
        operation.apply(&mut content.now);
        content.unsynced.push(operation);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.operate()?;
        let mut durable = std::mem::take(&mut content.durable);
        content.unsynced.drain(..).for_each(|operation| operation.apply(&mut durable));
        content.durable = durable;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.operate()?;
        let mut at = usize::try_from(offset).unwrap();
        for piece in data.chunks(SECTOR) {
            let operation = Operation::Write(at, piece.to_vec());
            operation.apply(&mut content.now);
            content.unsynced.push(operation);
            at += piece.len();
        }
        Ok(())
    }
}
