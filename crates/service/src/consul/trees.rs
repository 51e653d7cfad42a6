//! Deleting all keys with a prefix.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use futures_util::future::try_join_all;
use meshlock_cluster::access::Verb;
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_host::front::Admitted;

use super::errors::ConsulError;
use super::names::Form;
use super::{Consul, ids};

impl Consul {
    /// Deletes the caller's keys that begin with `prefix`, at all sites, which releases what they hold. Keys of others stay; if somebody
    /// else holds the lock of that name, nothing is deleted. `target` is how the other sites are asked to do the same; without it only
    /// this site's keys are deleted.
    pub(super) async fn delete_tree(
        &self,
        caller: &Admitted,
        prefix: &str,
        lock: &LockName,
        target: Option<&str>,
    ) -> Result<(), ConsulError> {
        if let Some(target) = target {
            self.check_only_of(caller, lock).await?;
            let members = self.sessions.front().other_members();
            let asked = members.iter().map(|member| self.delete_tree_at(caller, &member.site, target));
            try_join_all(asked).await?;
        }
        self.delete_tree_here(caller, prefix);
        Ok(())
    }

    /// Fails if a lock is held by anything but the caller's sessions, at whichever site they are.
    async fn check_only_of(&self, caller: &Admitted, lock: &LockName) -> Result<(), ConsulError> {
        let seen = self.observe(&self.reader(caller, Verb::Acquire, lock)?).await?;
        let is_here = |session: &str| ids::lease(session).is_some_and(|lease| self.is_alive(caller, lease));
        let mut held = seen.holders.iter().map(|held| held.session.as_str());
        let elsewhere: Vec<&str> = held.by_ref().filter(|session| !is_here(session)).collect();
        if elsewhere.is_empty() {
            return Ok(());
        }
        let members = self.sessions.front().other_members();
        let others =
            try_join_all(members.iter().map(|member| self.sessions_at(caller, &member.site))).await?;
        let its: BTreeSet<&str> =
            others.iter().flatten().filter_map(|session| session["ID"].as_str()).collect();
        let Some(session) = elsewhere.into_iter().find(|session| !its.contains(session)) else {
            return Ok(());
        };
        Err(ConsulError::new(
            StatusCode::CONFLICT,
            format!(
                "meshlock: nothing is deleted: '{lock}' is held by the session {session}, which is not the caller's: only its \
                 holder can release it (operators: meshlock break)"
            ),
        ))
    }

    /// Lets another member delete the caller's keys that it has.
    async fn delete_tree_at(
        &self,
        caller: &Admitted,
        site: &SiteName,
        target: &str,
    ) -> Result<(), ConsulError> {
        let failed = |why: &str| {
            let message =
                format!("meshlock: the keys at the site '{site}' are not deleted: {why}; try again");
            ConsulError::new(StatusCode::SERVICE_UNAVAILABLE, message)
        };
        let answer = self.sessions.delete_at_site(caller, site, target).await;
        match answer.map_err(|status| failed(status.message()))? {
            Some(answer) if answer.status != 200 => Err(failed(&String::from_utf8_lossy(&answer.body))),
            Some(_) | None => Ok(()),
        }
    }

    /// Deletes the keys of the caller's sessions at this site.
    fn delete_tree_here(&self, caller: &Admitted, prefix: &str) {
        let keys = self.records().keys_from(prefix);
        for (lease, lock, form) in keys {
            if !self.is_alive(caller, lease) {
                continue;
            }
            match form {
                Some(Form::Whole) => self.let_go(caller, &lock, lease),
                Some(Form::Permit) | None => self.withdraw(caller, &lock, lease),
            };
        }
    }
}
