//! The tables of the database: writes a batch as a transaction, and reads the tables back as a [`Disk`].

use std::path::Path;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde::de::DeserializeOwned;

use super::error::StoreError;
use meshlock_cluster::access::AgreedAccess;
use meshlock_cluster::founding::Founding;
use meshlock_cluster::membership::access;
use meshlock_cluster::membership::disk::{
    Ballot, Disk, DiskWrite, LogEntry, Registrations, Saved, is_marked_first,
};
use meshlock_cluster::membership::voters::{VoterChange, Voters};
use meshlock_cluster::names::{Incarnation, SiteName};
use meshlock_wire::disk as record;
use meshlock_wire::disk::RecordError;

/// The newest format version of the tables below. It rises with every change that an older program would misread.
///
/// A file has format 1 until the voters change: then it gets [`VOTERS`], [`VOTER_ID`] or [`KNOWN`], or changes of voters in its log. A program that knows
/// only format 1 would go on counting the first voters, and refuses the file.
///
/// It has format 3 from the moment on when its log gets a first view with an epoch of its own, which older programs do not read, and with
/// the first access document ([`ACCESS`], [`KNOWN_ACCESS`], or one in its log): an older program would let in whom the document refuses.
pub(super) const FORMAT: u8 = 3;

/// The format of a file that says that the voters have changed.
const CHANGED_VOTERS_FORMAT: u8 = 2;

/// The format of a file with a first view that has an epoch of its own.
const FIRST_EPOCH_FORMAT: u8 = 3;

/// The format of a file with an access document. Programs that know the one know the other.
const ACCESS_FORMAT: u8 = 3;

/// The format of a new file.
const FIRST_FORMAT: u8 = 1;

/// The format as one byte, and the site's name as text. Every format has this table.
const IDENTITY: TableDefinition<&str, &[u8]> = TableDefinition::new("meshlock identity");
/// Single values, as records.
const STATE: TableDefinition<&str, &[u8]> = TableDefinition::new("state");
/// Entries by index, as records.
const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

const FOUNDING: &str = "founding";
/// This name is part of format 1.
const REGISTRATIONS: &str = "pledges";
const INCARNATION: &str = "incarnation";
const BALLOT: &str = "ballot";
const SAVED: &str = "saved";
/// Who votes by the saved state, if not the first voters. From format 2 on.
const VOTERS: &str = "voters";
/// The id of the voter whose disk this is, if not the one that the founding gives. From format 2 on.
const VOTER_ID: &str = "voter id";
/// Who votes, as another site has said. From format 2 on.
const KNOWN: &str = "known voters";
/// The access document of the saved state. From format 3 on.
const ACCESS: &str = "access";
/// The access document, as another site has said. From format 3 on.
const KNOWN_ACCESS: &str = "known access";

/// The first transaction of a new file.
pub(super) fn found(database: &Database, site: &SiteName) -> Result<(), redb::Error> {
    let transaction = begin(database)?;
    {
        let mut identity = transaction.open_table(IDENTITY)?;
        identity.insert("format", [FIRST_FORMAT].as_slice())?;
        identity.insert("site", site.as_str().as_bytes())?;
        transaction.open_table(STATE)?;
        transaction.open_table(LOG)?;
    }
    Ok(transaction.commit()?)
}

/// Writes a batch in one durable transaction.
pub(super) fn commit(database: &Database, batch: &[DiskWrite]) -> Result<(), redb::Error> {
    let transaction = begin(database)?;
    for write in batch {
        apply(&transaction, write)?;
    }
    Ok(transaction.commit()?)
}

/// Begins a transaction with two-phase commit, which counts only when all of it is on the disk. With one phase a damaged commit looks like
/// one that a crash interrupted, and the database would silently go back to the previous one: a voter would forget its vote.
fn begin(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

/// Applies a write to the tables, as [`Disk::apply`] does to the pure disk.
fn apply(transaction: &WriteTransaction, write: &DiskWrite) -> Result<(), redb::Error> {
    match write {
        DiskWrite::Founding(founding) => put(transaction, FOUNDING, &record::encode(founding)),
        DiskWrite::Registrations(registrations) => {
            put(transaction, REGISTRATIONS, &record::encode(registrations))
        }
        DiskWrite::VoterId(id) => {
            raise_format(transaction, CHANGED_VOTERS_FORMAT)?;
            transaction.open_table(LOG)?.retain(|_, _| false)?;
            for key in [BALLOT, SAVED, VOTERS, ACCESS] {
                transaction.open_table(STATE)?.remove(key)?;
            }
            put(transaction, VOTER_ID, &record::encode(id))
        }
        DiskWrite::Known(voters) => {
            raise_format(transaction, CHANGED_VOTERS_FORMAT)?;
            put(transaction, KNOWN, &record::encode(voters))
        }
        DiskWrite::KnownAccess(access) => {
            raise_format(transaction, ACCESS_FORMAT)?;
            put(transaction, KNOWN_ACCESS, &record::encode(access))
        }
        DiskWrite::Incarnation(incarnation) => put(transaction, INCARNATION, &record::encode(incarnation)),
        DiskWrite::Ballot(ballot) => put(transaction, BALLOT, &record::encode(ballot)),
        DiskWrite::Append(entries) => {
            let Some(first) = entries.first() else { return Ok(()) };
            if entries.iter().any(|entry| VoterChange::is_change(&entry.data)) {
                raise_format(transaction, CHANGED_VOTERS_FORMAT)?;
            }
            if entries.iter().any(|entry| is_marked_first(&entry.data)) {
                raise_format(transaction, FIRST_EPOCH_FORMAT)?;
            }
            if entries.iter().any(|entry| access::is_access(&entry.data)) {
                raise_format(transaction, ACCESS_FORMAT)?;
            }
            let mut log = transaction.open_table(LOG)?;
            log.retain_in(first.index.., |_, _| false)?;
            for entry in entries {
                log.insert(entry.index, record::encode(entry).as_slice())?;
            }
            Ok(())
        }
        DiskWrite::Compact(saved) => {
            transaction.open_table(LOG)?.retain_in(..=saved.index, |_, _| false)?;
            put_saved(transaction, saved)
        }
        DiskWrite::Install(saved) => {
            transaction.open_table(LOG)?.retain(|_, _| false)?;
            put_saved(transaction, saved)
        }
    }
}

fn put_saved(transaction: &WriteTransaction, saved: &Saved) -> Result<(), redb::Error> {
    put(transaction, SAVED, &record::encode(saved))?;
    if let Some(voters) = &saved.voters {
        raise_format(transaction, CHANGED_VOTERS_FORMAT)?;
        put(transaction, VOTERS, &record::encode(voters))?;
    } else {
        transaction.open_table(STATE)?.remove(VOTERS)?;
    }
    if let Some(access) = &saved.access {
        raise_format(transaction, ACCESS_FORMAT)?;
        put(transaction, ACCESS, &record::encode(access))?;
    } else {
        transaction.open_table(STATE)?.remove(ACCESS)?;
    }
    Ok(())
}

/// Makes the file one that programs which do not know this format refuse.
fn raise_format(transaction: &WriteTransaction, format: u8) -> Result<(), redb::Error> {
    let mut identity = transaction.open_table(IDENTITY)?;
    let known = identity.get("format")?.and_then(|known| known.value().first().copied());
    identity.insert("format", [known.map_or(format, |known| known.max(format))].as_slice())?;
    Ok(())
}

fn put(transaction: &WriteTransaction, key: &str, record: &[u8]) -> Result<(), redb::Error> {
    transaction.open_table(STATE)?.insert(key, record)?;
    Ok(())
}

/// Returns the format of a file.
#[cfg(test)]
pub(super) fn format_of(database: &Database) -> Result<u8, redb::Error> {
    let format =
        database.begin_read()?.open_table(IDENTITY)?.get("format")?.map(|format| format.value().to_vec());
    Ok(format.and_then(|format| format.first().copied()).unwrap_or(0))
}

/// Reads and checks the whole file.
pub(super) struct StoreReader<'a> {
    dir: &'a Path,
    file: &'a Path,
    transaction: ReadTransaction,
}

impl<'a> StoreReader<'a> {
    pub(super) fn new(dir: &'a Path, file: &'a Path, database: &Database) -> Result<Self, StoreError> {
        let transaction = database.begin_read().map_err(|error| broken(file)(error.into()))?;
        Ok(StoreReader { dir, file, transaction })
    }

    /// Checks that the file has a format that this program knows, and belongs to this site.
    pub(super) fn check_identity(&self, site: &SiteName) -> Result<(), StoreError> {
        let format = self.value(IDENTITY, "format").map_err(broken(self.file))?;
        match format.as_deref() {
            Some([FIRST_FORMAT..=FORMAT]) => {}
            Some(&[found]) if found > FORMAT => return Err(self.newer(found, FORMAT)),
            Some(_) | None => return Err(self.damaged("its format is not a number".to_owned())),
        }
        let found = self.value(IDENTITY, "site").map_err(broken(self.file))?;
        let found = found.ok_or_else(|| self.damaged("no site's name is in it".to_owned()))?;
        if found == site.as_str().as_bytes() {
            return Ok(());
        }
        let found = String::from_utf8_lossy(&found).into_owned();
        Err(StoreError::OtherSite { dir: self.dir.to_owned(), found, wanted: site.clone() })
    }

    /// Returns what was written, as if it had been applied to an empty [`Disk`].
    pub(super) fn disk(&self) -> Result<Disk, StoreError> {
        let mut disk = Disk::default();
        if let Some(founding) = self.record::<Founding>(FOUNDING)? {
            disk.apply(&DiskWrite::Founding(founding));
        }
        if let Some(registrations) = self.record::<Registrations>(REGISTRATIONS)? {
            disk.apply(&DiskWrite::Registrations(registrations));
        }
        if let Some(incarnation) = self.record::<Incarnation>(INCARNATION)? {
            disk.apply(&DiskWrite::Incarnation(incarnation));
        }
        if let Some(id) = self.record::<u64>(VOTER_ID)? {
            disk.apply(&DiskWrite::VoterId(id));
        }
        if let Some(voters) = self.record::<Voters>(KNOWN)? {
            disk.apply(&DiskWrite::Known(voters));
        }
        let mut saved = self.record::<Saved>(SAVED)?.unwrap_or_default();
        saved.voters = self.record::<Voters>(VOTERS)?;
        if saved.voters.as_ref().is_some_and(|voters| !voters.is_well_formed()) {
            return Err(self.damaged("its voters cannot be".to_owned()));
        }
        saved.access = self.record::<AgreedAccess>(ACCESS)?;
        if saved.access.as_ref().is_some_and(|access| !access.is_well_formed()) {
            return Err(self.damaged("its access document cannot be".to_owned()));
        }
        if let Some(access) = self.record::<AgreedAccess>(KNOWN_ACCESS)? {
            disk.apply(&DiskWrite::KnownAccess(access));
        }
        let entries = self.entries(saved.index)?;
        let ballot = self.record::<Ballot>(BALLOT)?.unwrap_or_default();
        let last = saved.index + entries.len() as u64;
        if ballot.commit < saved.index || ballot.commit > last {
            let (commit, first) = (ballot.commit, saved.index);
            return Err(self.damaged(format!("entry {commit} is committed, and there are {first} to {last}")));
        }
        disk.apply(&DiskWrite::Install(saved));
        disk.apply(&DiskWrite::Append(entries));
        disk.apply(&DiskWrite::Ballot(ballot));
        Ok(disk)
    }

    /// Returns the log, which continues where the saved state ends.
    fn entries(&self, saved: u64) -> Result<Vec<LogEntry>, StoreError> {
        let records = self.log().map_err(broken(self.file))?;
        let mut entries = Vec::with_capacity(records.len());
        for (expected, (index, bytes)) in (saved.saturating_add(1)..).zip(records) {
            let entry: LogEntry = self.decode("an entry", &bytes)?;
            if index != expected || entry.index != expected {
                return Err(self.damaged(format!("entry {index} is where {expected} should be")));
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    fn log(&self) -> Result<Vec<(u64, Vec<u8>)>, redb::Error> {
        let log = self.transaction.open_table(LOG)?;
        let rows = log.iter()?.map(|row| row.map(|(index, bytes)| (index.value(), bytes.value().to_vec())));
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn record<T: DeserializeOwned>(&self, key: &'static str) -> Result<Option<T>, StoreError> {
        let bytes = self.value(STATE, key).map_err(broken(self.file))?;
        bytes.map(|bytes| self.decode(key, &bytes)).transpose()
    }

    fn value(
        &self,
        table: TableDefinition<&'static str, &'static [u8]>,
        key: &str,
    ) -> Result<Option<Vec<u8>>, redb::Error> {
        Ok(self.transaction.open_table(table)?.get(key)?.map(|bytes| bytes.value().to_vec()))
    }

    fn decode<T: DeserializeOwned>(&self, what: &str, bytes: &[u8]) -> Result<T, StoreError> {
        record::decode(bytes).map_err(|error| match error {
            RecordError::Version(found) => self.newer(found, record::VERSION),
            RecordError::Malformed => self.damaged(format!("{what} cannot be read")),
        })
    }

    fn newer(&self, found: u8, known: u8) -> StoreError {
        StoreError::Newer { file: self.file.to_owned(), found, known }
    }

    fn damaged(&self, what: String) -> StoreError {
        StoreError::Damaged { file: self.file.to_owned(), what }
    }
}

fn broken(file: &Path) -> impl FnOnce(redb::Error) -> StoreError {
    StoreError::database(file, "cannot be read")
}
