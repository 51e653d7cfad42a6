//! Which sites may join: `site add` and `site remove` record it in the cluster's access document.

use std::io::Write;
use std::time::Duration;

use meshlock_client::{Connection, ConnectionError};
use meshlock_cluster::access::{Admission, AdmittedSite, AgreedAccess, JoinToken, TokenHash};
use meshlock_cluster::names::SiteName;
use meshlock_host::gate::new_token;
use meshlock_tls::wall_clock;
use meshlock_wire::clients::{RefusalKind, Status};
use serde_json::{Value, json};

use crate::commands::access::document;
use crate::output::UsageError;
use crate::settings::end_date::EndDate;

/// Reads the access document, for a list of sites; `None` if the node does not know it or the caller may not see it.
pub(super) fn read_if_allowed(remote: &mut Connection) -> anyhow::Result<Option<AgreedAccess>> {
    if !document::knows(remote) {
        return Ok(None);
    }
    match document::read(remote) {
        Ok(access) => Ok(Some(access)),
        Err(error) => match error.downcast_ref::<ConnectionError>() {
            Some(ConnectionError::Refused { kind: RefusalKind::Denied, .. }) => Ok(None),
            Some(_) | None => Err(error),
        },
    }
}

/// Prints which sites may join.
pub(super) fn print(access: &AgreedAccess, status: &Status, out: &mut dyn Write) -> anyhow::Result<()> {
    let AgreedAccess { document, .. } = access;
    let expected = |site: &&AdmittedSite| status.view.member(&site.name).is_none();
    let shown = |site: &AdmittedSite| match &site.token {
        Some(token) => format!("{} (with its token, until {})", site.name, EndDate::of_second(token.expires)),
        None => site.name.to_string(),
    };
    let expected: Vec<String> = document.sites.iter().filter(expected).map(shown).collect();
    let expected = if expected.is_empty() { "none".to_owned() } else { expected.join(", ") };
    match document.admission {
        Admission::Open => writeln!(
            out,
            "Admission is open: every site with a certificate may join. `meshlock site add` or `access set admission closed` closes it."
        )?,
        Admission::Closed => {
            writeln!(out, "Admission is closed. Sites that may join and are not members: {expected}.")?;
        }
    }
    if !document.removed.is_empty() {
        let removed: Vec<&str> = document.removed.iter().map(SiteName::as_str).collect();
        writeln!(out, "Removed, and not let in before `meshlock site add`: {}.", removed.join(", "))?;
    }
    Ok(())
}

/// Returns which sites may join as JSON.
pub(super) fn document(access: &AgreedAccess) -> Value {
    let AgreedAccess { version, document } = access;
    let site = |site: &AdmittedSite| json!({ "site": site.name, "needs_token": site.token.is_some() });
    json!({
        "state": document.admission.name(),
        "version": version,
        "admitted": document.sites.iter().map(site).collect::<Vec<_>>(),
        "removed": document.removed,
    })
}

/// What was recorded for a new site.
pub(super) struct Admitted {
    /// The token that the site shows when it joins, and when that ends.
    pub(super) token: Option<(String, u64)>,
    /// Whether from now on only added sites may join, which was not so before.
    pub(super) has_closed: bool,
}

/// Records that a site may join, with a new one-time token that lasts for this long if one is wanted. The first time, admission is closed:
/// whoever says which sites may join means that others may not.
pub(super) fn admit(
    remote: &mut Connection,
    status: &Status,
    name: &SiteName,
    token_for: Option<Duration>,
) -> anyhow::Result<Admitted> {
    let token = match token_for {
        None => None,
        Some(lasts) => Some((new_token()?, wall_clock().as_secs().saturating_add(lasts.as_secs()))),
    };
    let known = known_sites(status);
    let closes = |access: &AgreedAccess| {
        access.document.admission == Admission::Open && access.document.sites.is_empty()
    };
    let has_closed = std::cell::Cell::new(false);
    document::change(remote, |document, current| {
        has_closed.set(closes(current));
        if has_closed.get() {
            document.close(&known);
        }
        let token = token.as_ref();
        document.admit(
            name.clone(),
            token.map(|(token, expires)| JoinToken { sha256: TokenHash::of(token), expires: *expires }),
        );
        Ok(())
    })?;
    Ok(Admitted { token, has_closed: has_closed.get() })
}

/// The result of recording that a site may not come back.
pub(super) enum Barred {
    Recorded,
    /// It was recorded before.
    Already,
    /// The cluster does not know such a site.
    Unknown,
    /// It could not be recorded, for this reason. The site can be removed all the same, and comes back if it is restarted.
    Not(String),
}

/// Records that a site may not come back before it is added again.
pub(super) fn bar(remote: &mut Connection, status: &Status, name: &SiteName) -> anyhow::Result<Barred> {
    if !document::knows(remote) {
        return Ok(Barred::Not(format!("the node of {} runs an older version", remote.site())));
    }
    let access = document::read(remote)?;
    if access.document.removed.contains(name) {
        return Ok(Barred::Already);
    }
    let is_listed = access.document.sites.iter().any(|site| site.name == *name);
    let was_member = status.view.past.iter().any(|member| member.site == *name);
    if !is_listed && !was_member && !known_sites(status).contains(name) {
        return Ok(Barred::Unknown);
    }
    let barred = document::change(remote, |document, _| {
        document.remove(name);
        Ok(())
    });
    match barred {
        Ok(_) => Ok(Barred::Recorded),
        Err(error) => match error.downcast::<UsageError>() {
            Ok(refused) => Ok(Barred::Not(refused.to_string())),
            Err(error) => Err(error),
        },
    }
}

/// Returns the sites that belong to the cluster: those of its founding, and its members.
fn known_sites(status: &Status) -> Vec<SiteName> {
    let members = status.view.members.iter().map(|member| &member.site);
    status.sites.iter().chain(members).cloned().collect()
}
