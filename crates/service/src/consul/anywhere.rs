//! Which session a call of Consul's API is about, so that it can be executed at the site that has the session: pure.

use axum::extract::Query;
use axum::http::{Method, Uri};
use meshlock_wire::sites::calls::CallSubject;

use super::calls::{KvCall, KvWrite, Parameters, ReadTarget};
use super::ids;
use super::names::KeyPath;

/// Returns the number of the lease of a session.
pub(crate) fn lease_of(session: &str) -> Option<i64> {
    ids::lease(session).map(|lease| lease.number())
}

/// Returns a part of a path as it was meant, if it is text.
pub(crate) fn percent_decoded(part: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(part.len()), part.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Returns what a call under `/v1/kv/` is about, if one site has it.
pub(crate) fn subject_of_key(method: &Method, key: &str, query: &str) -> Option<CallSubject> {
    let uri: Uri = format!("/?{query}").parse().ok()?;
    let Query(given) = Query::<Vec<(String, String)>>::try_from_uri(&uri).ok()?;
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let of_session = |session: &str| lease_of(session).map(CallSubject::Lease);
    match KvCall::read(method, key, &Parameters(given)).ok()? {
        // What a session wants, only its site knows.
        KvCall::Read { target: ReadTarget::Key { path: KeyPath::Contender(_, lease), .. }, .. } => {
            Some(CallSubject::Lease(lease.number()))
        }
        KvCall::Write { write: KvWrite::Acquire { session, .. } | KvWrite::Release { session }, .. } => {
            of_session(&session)
        }
        KvCall::Write { write: KvWrite::Delete { .. }, path, .. } => Some(match path {
            KeyPath::Contender(_, lease) => CallSubject::Lease(lease.number()),
            KeyPath::Lock(lock) | KeyPath::Document(lock) => CallSubject::Lock(lock),
        }),
        // Any site can say who holds a lock. Which session changes a document shows only when it is compared with the current one.
        // The site that is asked to delete a tree asks the others.
        KvCall::Read { .. }
        | KvCall::Write { write: KvWrite::Change { .. }, .. }
        | KvCall::DeleteTree { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once_and_whole() {
        assert_eq!(percent_decoded("a%2Fb%25c").as_deref(), Some("a/b%c"));
        assert_eq!(percent_decoded("h%C3%B6st").as_deref(), Some("höst"));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(percent_decoded(wrong), None, "{wrong}");
        }
    }
}
