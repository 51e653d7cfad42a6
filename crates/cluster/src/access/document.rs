//! The access document: what the cluster itself keeps about access, the same at every site.
//!
//! The voters agree on it as they agree on views, so that one command changes all sites. It has access rules, tokens, limits, who is
//! revoked, and which sites may join. What applies at a site is its own file and this document together: rules only grant, so that both
//! give what either gives; who is revoked by one of them is refused; and where the document has a limit it replaces the file's.
//!
//! **Which sites may join.** Admission is *open* in the beginning: whoever shows a certificate of a site may join, as before there was
//! this document. It is *closed* by an operator, and then only listed sites may. In both cases a removed site is barred until an operator adds
//! it again, and a revoked one until it is not revoked any more.
//!
//! **Versions.** Each change makes the next version, and names the one that it is based on: of two operators who change it at the same time
//! one is refused, and looks again.

use std::collections::BTreeSet;

use meshlock_protocol::numbered;
use serde::{Deserialize, Serialize};

use super::{Access, AccessError, ClientName, KnownToken, RuleText, TokenHash, Tokens, TokensError};
use crate::names::SiteName;

/// Maximum length of an encoded document in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 128 << 10;

/// Maximum number of sites in each list.
const MAX_SITES: usize = 1024;

/// Maximum number of entries of the list of the revoked.
const MAX_REVOKED: usize = 4096;

/// Maximum number of hexadecimal digits of a serial number: a certificate's has at most twenty bytes.
const MAX_SERIAL_DIGITS: usize = 40;

/// Upper bound for versions: there is room to count on from there.
const MAX_VERSION: u64 = u64::MAX >> 1;

/// The document, and how often it has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgreedAccess {
    /// How often the document has changed: 0 before the first time.
    pub version: u64,
    pub document: AccessDocument,
}

/// What the cluster keeps about access.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessDocument {
    pub rules: Vec<RuleText>,
    pub tokens: Vec<AgreedToken>,
    /// Who is refused: `client/NAME`, `site/NAME` or `serial/HEX`.
    pub revoked: Vec<String>,
    pub limits: AgreedLimits,
    pub admission: Admission,
    /// The sites that may join, in the order of their names. While admission is open, only those that need a token are of interest.
    pub sites: Vec<AdmittedSite>,
    /// Sites that an operator has removed, in the order of their names.
    pub removed: Vec<SiteName>,
}

/// A token of a client: its hash, never the token itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgreedToken {
    pub name: ClientName,
    pub sha256: TokenHash,
    /// The second since 1970 from which on it is refused; `None` if it does not end.
    pub expires: Option<u64>,
}

/// Limits of what one client may do, as far as the cluster sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgreedLimits {
    /// Requests per second.
    pub rate: Option<u32>,
    /// Requests that are allowed at once after a quiet period.
    pub burst: Option<u32>,
    /// Connections of one client to one site.
    pub connections: Option<u32>,
    /// Locks that one client may hold or wait for at one site.
    pub locks: Option<u32>,
    /// How often one client may wait for the same lock at one site.
    pub waiters: Option<u32>,
    /// Open watches of one client at one site.
    pub watches: Option<u32>,
}

/// Who may join the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Admission {
    /// Every site that is not barred.
    #[default]
    Open,
    /// Only the listed sites.
    Closed,
}

numbered! { Admission {
    0 => Open,
    1 => Closed,
} }

impl Admission {
    /// Returns the name that commands use.
    pub const fn name(self) -> &'static str {
        match self {
            Admission::Open => "open",
            Admission::Closed => "closed",
        }
    }
}

/// A site that may join.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AdmittedSite {
    pub name: SiteName,
    /// The token that it must show when it joins for the first time.
    pub token: Option<JoinToken>,
}

/// A one-time token with which a site joins.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JoinToken {
    pub sha256: TokenHash,
    /// The second since 1970 from which on it is refused.
    pub expires: u64,
}

/// A join token as a site shows it. It is not printed with what contains it.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShownToken(pub String);

impl std::fmt::Debug for ShownToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShownToken(…)")
    }
}

/// The reason why a site may not take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum JoinRefusal {
    #[error(
        "it was removed from the cluster; `meshlock site add {name}` at a member admits it again",
        name = "NAME"
    )]
    Removed,
    #[error("it is revoked; `meshlock access show` at a member shows by which entry")]
    Revoked,
    #[error("it is not admitted; run `meshlock site add {name}` at a member first", name = "NAME")]
    NotListed,
    #[error(
        "it shows no join token, and needs one the first time; set `join_token` to what `meshlock site add {name} --token` printed",
        name = "NAME"
    )]
    TokenMissing,
    #[error("its join token is another one; run `meshlock site add {name} --token` again", name = "NAME")]
    TokenWrong,
    #[error("its join token has expired; run `meshlock site add {name} --token` again", name = "NAME")]
    TokenExpired,
    #[error("its program does not know the cluster's access document; upgrade it")]
    OlderVersion,
}

numbered! { JoinRefusal {
    0 => Removed,
    1 => Revoked,
    2 => NotListed,
    3 => TokenMissing,
    4 => TokenWrong,
    5 => TokenExpired,
    6 => OlderVersion,
} }

impl JoinRefusal {
    /// Returns the reason for people, about this site.
    pub fn about(self, site: &SiteName) -> String {
        self.to_string().replace("NAME", site.as_str())
    }
}

/// The reason why a document is rejected. The one that was agreed on stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("rule {}: {error}", at + 1)]
    Rule { at: usize, error: AccessError },
    #[error("token {}: {error}", at + 1)]
    Token { at: usize, error: TokensError },
    #[error("'{given}' names nobody to revoke; say client/NAME, site/NAME or serial/HEX")]
    Revoked { given: String },
    #[error("{given} {what}; at most {most} are allowed")]
    TooMany { what: &'static str, given: usize, most: usize },
    #[error("the limit {what} is 0, so that nobody could do anything; give 1 or more")]
    Zero { what: &'static str },
    #[error("'{0}' is listed twice, or as admitted and as removed")]
    Twice(SiteName),
    #[error(
        "the cluster's access document would have {0} bytes; at most {MAX_DOCUMENT_BYTES} are allowed: use patterns, and remove what nobody needs"
    )]
    TooLong(usize),
}

impl AgreedAccess {
    /// Returns whether a document of this version can have been agreed on.
    pub fn is_well_formed(&self) -> bool {
        self.version > 0 && self.version <= MAX_VERSION && self.document.is_bounded()
    }
}

impl AgreedToken {
    /// Returns the token as a site knows it.
    pub fn known(&self) -> KnownToken {
        KnownToken { name: self.name.clone(), hash: self.sha256.clone(), expires: self.expires }
    }
}

impl AgreedLimits {
    /// Returns each limit with its name.
    pub fn named(&self) -> [(&'static str, Option<u32>); 6] {
        let AgreedLimits { rate, burst, connections, locks, waiters, watches } = *self;
        [
            ("rate", rate),
            ("burst", burst),
            ("connections", connections),
            ("locks", locks),
            ("waiters", waiters),
            ("watches", watches),
        ]
    }

    /// Returns the limit of this name, to change it.
    pub fn by_name(&mut self, name: &str) -> Option<&mut Option<u32>> {
        match name {
            "rate" => Some(&mut self.rate),
            "burst" => Some(&mut self.burst),
            "connections" => Some(&mut self.connections),
            "locks" => Some(&mut self.locks),
            "waiters" => Some(&mut self.waiters),
            "watches" => Some(&mut self.watches),
            _ => None,
        }
    }
}

impl AccessDocument {
    /// Checks the document. Whoever has not done so neither proposes nor applies it.
    pub fn check(&self) -> Result<(), DocumentError> {
        Access::new(&self.rules).map_err(|(at, error)| DocumentError::Rule { at, error })?;
        let tokens = self.tokens.iter().map(AgreedToken::known).collect::<Vec<_>>();
        Tokens::new(tokens).map_err(|(at, error)| DocumentError::Token { at, error })?;
        if let Some(wrong) = self.revoked.iter().find(|entry| !names_someone(entry)) {
            return Err(DocumentError::Revoked { given: wrong.chars().take(80).collect() });
        }
        for (what, given, most) in [
            ("revoked entries", self.revoked.len(), MAX_REVOKED),
            ("admitted sites", self.sites.len(), MAX_SITES),
            ("removed sites", self.removed.len(), MAX_SITES),
        ] {
            if given > most {
                return Err(DocumentError::TooMany { what, given, most });
            }
        }
        if let Some((what, _)) = self.limits.named().into_iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(DocumentError::Zero { what });
        }
        let mut seen = BTreeSet::new();
        let all = self.sites.iter().map(|site| &site.name).chain(&self.removed);
        if let Some(twice) = all.into_iter().find(|name| !seen.insert(*name)) {
            return Err(DocumentError::Twice(twice.clone()));
        }
        let bytes = self.encoded_len();
        if bytes > MAX_DOCUMENT_BYTES { Err(DocumentError::TooLong(bytes)) } else { Ok(()) }
    }

    /// Returns whether the document takes no more room than any may, whatever it says.
    fn is_bounded(&self) -> bool {
        self.encoded_len() <= MAX_DOCUMENT_BYTES
    }

    fn encoded_len(&self) -> usize {
        postcard::to_stdvec(self).map_or(usize::MAX, |bytes| bytes.len())
    }

    /// Returns why a site may take no part at all, not even if it is a member.
    pub fn bars(&self, site: &SiteName) -> Option<JoinRefusal> {
        if self.revokes(site) {
            return Some(JoinRefusal::Revoked);
        }
        self.removed.contains(site).then_some(JoinRefusal::Removed)
    }

    /// Returns whether the site is revoked by its name.
    pub fn revokes(&self, site: &SiteName) -> bool {
        self.revoked.iter().any(|entry| entry.strip_prefix("site/") == Some(site.as_str()))
    }

    /// Checks whether a site may join that shows this token. `now` is the second since 1970; without it no token is accepted.
    pub fn may_join(
        &self,
        site: &SiteName,
        shown: Option<&str>,
        now: Option<u64>,
    ) -> Result<(), JoinRefusal> {
        if let Some(why) = self.bars(site) {
            return Err(why);
        }
        let Some(listed) = self.sites.iter().find(|listed| listed.name == *site) else {
            let is_open = self.admission == Admission::Open;
            return if is_open { Ok(()) } else { Err(JoinRefusal::NotListed) };
        };
        let Some(token) = &listed.token else { return Ok(()) };
        let Some(shown) = shown else { return Err(JoinRefusal::TokenMissing) };
        if !token.sha256.is_of(shown) {
            return Err(JoinRefusal::TokenWrong);
        }
        if now.is_none_or(|now| now >= token.expires) { Err(JoinRefusal::TokenExpired) } else { Ok(()) }
    }

    /// Returns the document after these sites have joined: their tokens are used up. `None` if none of them needed one.
    pub fn with_tokens_used<'a>(&self, joined: impl IntoIterator<Item = &'a SiteName>) -> Option<Self> {
        let joined: BTreeSet<&SiteName> = joined.into_iter().collect();
        let mut next = self.clone();
        let used = next.sites.iter_mut().filter(|site| joined.contains(&site.name));
        let used = used.filter_map(|site| site.token.take()).count();
        (used > 0).then_some(next)
    }

    /// Admits a site, with a token or without, also one that was removed.
    pub fn admit(&mut self, name: SiteName, token: Option<JoinToken>) {
        self.removed.retain(|removed| *removed != name);
        match self.sites.binary_search_by(|site| site.name.cmp(&name)) {
            Ok(at) => self.sites[at].token = token,
            Err(at) => self.sites.insert(at, AdmittedSite { name, token }),
        }
    }

    /// Admits only listed sites from now on. Those that belong to the cluster already are listed, unless they were removed.
    pub fn close<'a>(&mut self, known: impl IntoIterator<Item = &'a SiteName>) {
        self.admission = Admission::Closed;
        for name in known {
            let is_listed = self.sites.iter().any(|site| site.name == *name);
            if !is_listed && !self.removed.contains(name) {
                self.admit(name.clone(), None);
            }
        }
    }

    /// Removes a site, which does not come back before it is admitted again.
    pub fn remove(&mut self, name: &SiteName) {
        self.sites.retain(|site| site.name != *name);
        if let Err(at) = self.removed.binary_search(name) {
            self.removed.insert(at, name.clone());
        }
    }

    /// Adds a rule, or replaces the one for the same principal and locks.
    pub fn set_rule(&mut self, rule: RuleText) {
        let is_same = |other: &&mut RuleText| other.principal == rule.principal && other.locks == rule.locks;
        match self.rules.iter_mut().find(is_same) {
            Some(other) => *other = rule,
            None => self.rules.push(rule),
        }
    }
}

/// Returns whether an entry of the list of the revoked names somebody.
fn names_someone(entry: &str) -> bool {
    match entry.split_once('/') {
        Some(("client", name)) => name.parse::<ClientName>().is_ok(),
        Some(("site", name)) => name.parse::<SiteName>().is_ok(),
        Some(("serial", digits)) => {
            let count = digits.bytes().filter(|byte| *byte != b':').count();
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
            is_hex && (1..=MAX_SERIAL_DIGITS).contains(&count)
        }
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Verb;

    fn site(name: &str) -> SiteName {
        name.parse().unwrap()
    }

    #[test]
    fn removed_and_revoked_sites_stay_outside_whoever_else_may_join() {
        let mut document = AccessDocument::default();
        assert_eq!(document.may_join(&site("x"), None, None), Ok(()), "open in the beginning");
        document.remove(&site("x"));
        assert_eq!(document.may_join(&site("x"), None, None), Err(JoinRefusal::Removed));
        document.admit(site("x"), None);
        assert_eq!((document.may_join(&site("x"), None, None), document.bars(&site("x"))), (Ok(()), None));
        document.revoked.push("site/x".to_owned());
        assert_eq!(document.may_join(&site("x"), None, None), Err(JoinRefusal::Revoked));
        assert_eq!(document.bars(&site("y")), None, "another name that begins alike is not meant");
    }

    #[test]
    fn once_it_is_closed_only_listed_sites_join() {
        let mut document = AccessDocument::default();
        document.remove(&site("c"));
        document.close([&site("b"), &site("a"), &site("c"), &site("a")]);
        let names: Vec<String> = document.sites.iter().map(|site| site.name.to_string()).collect();
        assert_eq!((names, document.check()), (vec!["a".to_owned(), "b".to_owned()], Ok(())));
        assert_eq!(document.may_join(&site("d"), None, Some(1)), Err(JoinRefusal::NotListed));
        assert_eq!(document.may_join(&site("c"), None, Some(1)), Err(JoinRefusal::Removed));
    }

    #[test]
    fn a_token_is_needed_until_it_is_used_and_ends_by_the_calendar() {
        let mut document = AccessDocument::default();
        document.admit(site("d"), Some(JoinToken { sha256: TokenHash::of("right"), expires: 100 }));
        let join = |shown, now| document.may_join(&site("d"), shown, now);
        assert_eq!(join(None, Some(1)), Err(JoinRefusal::TokenMissing));
        assert_eq!(join(Some("wrong"), Some(1)), Err(JoinRefusal::TokenWrong));
        assert_eq!(join(Some("right"), Some(99)), Ok(()));
        assert_eq!(join(Some("right"), Some(100)), Err(JoinRefusal::TokenExpired));
        assert_eq!(join(Some("right"), None), Err(JoinRefusal::TokenExpired), "the time is not known");
        assert_eq!(document.with_tokens_used([&site("e")]), None);
        let used = document.with_tokens_used([&site("d")]).unwrap();
        assert_eq!(used.may_join(&site("d"), None, None), Ok(()));
        assert_eq!(used.with_tokens_used([&site("d")]), None);
    }

    #[test]
    fn documents_that_cannot_be_are_refused_with_the_reason() {
        let refused = |edit: fn(&mut AccessDocument)| {
            let mut document = AccessDocument::default();
            edit(&mut document);
            document.check().unwrap_err().to_string()
        };
        let nothing = RuleText { principal: "x".to_owned(), locks: "*".to_owned(), verbs: vec![] };
        assert_eq!(AccessDocument::default().check(), Ok(()));
        assert!(refused(|document| document.revoked.push("x".to_owned())).contains("names nobody to revoke"));
        assert!(refused(|document| document.revoked.push("serial/xy".to_owned())).contains("names nobody"));
        assert!(refused(|document| document.limits.rate = Some(0)).contains("the limit rate is 0"));
        assert!(refused(|document| document.removed = vec![site("a"), site("a")]).contains("listed twice"));
        let mut document = AccessDocument { rules: vec![nothing], ..AccessDocument::default() };
        assert!(document.check().unwrap_err().to_string().starts_with("rule 1: a rule without verbs"));
        document.rules[0].verbs.push(Verb::Watch);
        document.rules = (0..900)
            .map(|at| RuleText { locks: format!("{at}{}", "x".repeat(200)), ..document.rules[0].clone() })
            .collect();
        assert!(document.check().unwrap_err().to_string().contains("at most 131072 are allowed"));
        assert!(!AgreedAccess { version: 1, document }.is_well_formed());
    }
}
