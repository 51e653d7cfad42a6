//! What protects a running node, and can be replaced while it runs: rules, tokens, certificates, who is revoked; and its audit log.

use meshlock_host::Trust;
use meshlock_host::gate::Policy;

use crate::config::{AccessRule, AccessToken, policy, revoked};
use crate::error::StartError;
use crate::node::Node;
use crate::tls::{Tls, TlsError};

impl Node {
    /// Replaces the access rules and tokens of `clients` and the API. Locks that were granted before are kept.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// use meshlock::config::{AccessRule, Verb};
    ///
    /// node.set_access(&[AccessRule::new("ci-*", "deploy/*", [Verb::Acquire])], &[])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_access(&self, access: &[AccessRule], tokens: &[AccessToken]) -> Result<(), StartError> {
        let policy: Policy = policy(access, tokens)?;
        self.front().set_policy(policy);
        Ok(())
    }

    /// Replaces the list of those who are refused ([`NodeBuilder::revoked`](crate::NodeBuilder::revoked)). Their connections are ended. What they hold is free for others
    /// once they cannot rely on it any more.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// node.set_revoked(&["client/laptop-7".to_owned()])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_revoked(&self, entries: &[String]) -> Result<(), StartError> {
        self.trust().set_revoked(revoked(entries)?);
        Ok(())
    }

    /// Reads the files of [`Tls::from_files`](crate::Tls::from_files) or [`Tls::from_dir`](crate::Tls::from_dir) again. New connections use
    /// what they contain; existing ones stay, unless their peer's authority is not trusted any more. If the files cannot be used, nothing
    /// changes.
    ///
    /// A node looks every few seconds whether these files have changed, and reads them by itself; this does it at once. It reads files, and
    /// blocks meanwhile.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = meshlock::Tls::from_dir("site-db-1")?;
    /// let node = meshlock::Node::builder().site("db-1").tls(tls).in_memory().start()?;
    /// // … new files were put in the place of the old ones …
    /// node.reload_tls()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reload_tls(&self) -> Result<(), TlsError> {
        self.trust().reload().map(drop).map_err(TlsError::of_reload)
    }

    /// Uses another certificate of this site from now on, with its key and its authorities, like [`reload_tls`](Node::reload_tls).
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// node.set_tls(&meshlock::Tls::from_dir("site-db-1-renewed")?)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_tls(&self, tls: &Tls) -> Result<(), TlsError> {
        self.trust().replace_identity(tls.identity()).map(drop).map_err(TlsError::of_reload)
    }

    fn trust(&self) -> &Trust {
        self.front().node().trust()
    }

    /// Reopens the audit log's file, after log rotation has moved it away.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("audit.jsonl");
    /// let audit = meshlock::config::Audit::File(path.clone());
    /// let node = meshlock::Node::builder().in_memory().audit(audit).start()?;
    /// std::fs::rename(&path, dir.path().join("audit.1"))?;
    /// node.reopen_audit_log();
    /// # Ok(())
    /// # }
    /// ```
    pub fn reopen_audit_log(&self) {
        self.front().audit().reopen();
    }

    /// Waits for a limited time until the events so far are written to the audit log's file.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// node.flush_audit_log();
    /// # Ok(())
    /// # }
    /// ```
    pub fn flush_audit_log(&self) {
        self.front().audit().flush();
    }
}
