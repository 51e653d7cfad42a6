//! The settings of the audit log.

use meshlock_host::gate::{AuditFile, AuditTarget, WhenUnwritable};

use super::NodeBuilder;
use crate::config::Audit;
use crate::error::StartError;

/// Minimum of `audit_max_bytes`: some lines fit into it.
const MIN_BYTES: u64 = 4096;

/// Maximum of `audit_files`.
const MAX_FILES: u32 = 1000;

/// The settings of the audit log, as they were given.
#[derive(Clone, Debug, Default)]
pub(super) struct AuditSettings {
    audit: Audit,
    max_bytes: Option<u64>,
    files: Option<u32>,
    when_unwritable: WhenUnwritable,
}

impl AuditSettings {
    pub(super) fn check(&self) -> Result<(), StartError> {
        if self.max_bytes.is_some_and(|bytes| bytes < MIN_BYTES) {
            return Err(StartError::setting("audit_max_bytes", format!("give {MIN_BYTES} or more")));
        }
        if self.files.is_some_and(|files| files > MAX_FILES) {
            return Err(StartError::setting("audit_files", format!("give {MAX_FILES} or fewer")));
        }
        if self.when_unwritable == WhenUnwritable::Refuse && !matches!(self.audit, Audit::File(_)) {
            let why = "only a file can be required; say which one with `audit`";
            return Err(StartError::setting("audit_required", why));
        }
        Ok(())
    }

    pub(super) fn target(&self) -> AuditTarget {
        match &self.audit {
            Audit::Notable => AuditTarget::Notable,
            Audit::Log => AuditTarget::Log,
            Audit::File(path) => AuditTarget::File(AuditFile {
                path: path.clone(),
                max_bytes: self.max_bytes.unwrap_or(AuditFile::MAX_BYTES),
                files: self.files.unwrap_or(AuditFile::FILES),
                when_unwritable: self.when_unwritable,
            }),
        }
    }
}

impl NodeBuilder {
    /// Sets where the audit log goes.
    ///
    /// ```
    /// use meshlock::config::Audit;
    ///
    /// let builder = meshlock::Node::builder().audit(Audit::File("/var/log/meshlock/audit.jsonl".into()));
    /// ```
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit.audit = audit;
        self
    }

    /// Sets the size at which the audit log's file is rotated, in bytes. Default: 64 MiB.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().audit_max_bytes(1 << 20);
    /// ```
    pub fn audit_max_bytes(mut self, bytes: u64) -> Self {
        self.audit.max_bytes = Some(bytes);
        self
    }

    /// Sets how many older files of the audit log are kept, as `audit.jsonl.1`, `audit.jsonl.2` and so on. Default: 4.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().audit_files(10);
    /// ```
    pub fn audit_files(mut self, files: u32) -> Self {
        self.audit.files = Some(files);
        self
    }

    /// Makes the site grant and change nothing while its audit log cannot be written, because the disk is full or too slow. By default
    /// lines are lost then, and counted.
    ///
    /// ```
    /// use meshlock::config::Audit;
    ///
    /// let audit = Audit::File("/var/log/meshlock/audit.jsonl".into());
    /// let builder = meshlock::Node::builder().audit(audit).audit_required();
    /// ```
    pub fn audit_required(mut self) -> Self {
        self.audit.when_unwritable = WhenUnwritable::Refuse;
        self
    }
}
