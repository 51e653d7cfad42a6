//! The document of a semaphore: pure. The Go API keeps the holders of permits in the key `PREFIX/.lock`, and every
//! client changes it by check-and-set. Here the document is computed from the holders of the lock, and a change of it
//! acquires or releases a permit.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The document as JSON.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct DocumentJson {
    limit: u32,
    holders: BTreeMap<String, bool>,
}

/// The number of permits, and the sessions that hold one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) limit: u32,
    pub(super) holders: BTreeSet<String>,
}

/// The difference between two documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DocumentChange {
    Nothing,
    /// This session requests a permit.
    Add(String),
    /// This session releases its permit.
    Remove(String),
}

impl DocumentChange {
    /// Returns the session that comes or goes.
    pub(super) fn session(&self) -> Option<&str> {
        match self {
            DocumentChange::Nothing => None,
            DocumentChange::Add(session) | DocumentChange::Remove(session) => Some(session),
        }
    }
}

/// Why a text is not a document or not a valid change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DocumentError {
    #[error("the value is not of the form {{\"Limit\":n,\"Holders\":{{session:true}}}}: {0}")]
    Unreadable(String),
    #[error("the semaphore has {has} permits and this program expects {wants}; change one of the two")]
    Limit { has: u32, wants: u32 },
    #[error("it adds or removes more than one session, but a client may only add or remove its own")]
    SeveralAtOnce,
    #[error("it is held as a lock, by acquiring its key; give locks and semaphores different names")]
    HeldAsALock,
}

impl Document {
    pub(super) fn read(body: &[u8]) -> Result<Self, DocumentError> {
        let written: DocumentJson =
            serde_json::from_slice(body).map_err(|error| DocumentError::Unreadable(error.to_string()))?;
        if written.limit == 0 {
            return Err(DocumentError::Unreadable("a limit of 0".to_owned()));
        }
        let holders = written.holders.into_iter().filter(|(_, holds)| *holds).map(|(holder, _)| holder);
        Ok(Document { limit: written.limit, holders: holders.collect() })
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let holders = self.holders.iter().map(|holder| (holder.clone(), true)).collect();
        let written = DocumentJson { limit: self.limit, holders };
        serde_json::to_vec(&written).expect("its keys are text")
    }

    /// Returns the change from this document to `next`.
    pub(super) fn change_to(&self, next: &Document) -> Result<DocumentChange, DocumentError> {
        if next.limit != self.limit {
            return Err(DocumentError::Limit { has: self.limit, wants: next.limit });
        }
        let added: Vec<&String> = next.holders.difference(&self.holders).collect();
        let removed: Vec<&String> = self.holders.difference(&next.holders).collect();
        match (added.as_slice(), removed.as_slice()) {
            ([], []) => Ok(DocumentChange::Nothing),
            ([one], []) => Ok(DocumentChange::Add((*one).clone())),
            ([], [one]) => Ok(DocumentChange::Remove((*one).clone())),
            _ => Err(DocumentError::SeveralAtOnce),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(limit: u32, holders: &[&str]) -> Document {
        Document { limit, holders: holders.iter().map(|&holder| holder.to_owned()).collect() }
    }

    #[test]
    fn it_is_read_as_the_go_api_writes_it_and_written_so() {
        let text = br#"{"Limit":2,"Holders":{"a":true,"b":true}}"#;
        assert_eq!(Document::read(text), Ok(document(2, &["a", "b"])));
        assert_eq!(document(2, &["a", "b"]).write(), text);
        assert_eq!(Document::read(br#"{"Limit":2,"Holders":{"a":false}}"#), Ok(document(2, &[])));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in [
            "",
            "hello",
            "[]",
            "{}",
            r#"{"Limit":2}"#,
            r#"{"Limit":0,"Holders":{}}"#,
            r#"{"Limit":-1,"Holders":{}}"#,
            r#"{"Limit":99999999999,"Holders":{}}"#,
            r#"{"Limit":2,"Holders":["a"]}"#,
            r#"{"Limit":2,"Holders":{},"More":1}"#,
        ] {
            let refused = Document::read(text.as_bytes());
            assert!(matches!(refused, Err(DocumentError::Unreadable(_))), "{text}: {refused:?}");
        }
    }

    #[test]
    fn one_session_at_a_time_comes_or_goes() {
        let before = document(3, &["a", "b"]);
        let change = |next: Document| before.change_to(&next);
        assert_eq!(change(document(3, &["a", "b", "c"])), Ok(DocumentChange::Add("c".to_owned())));
        assert_eq!(change(document(3, &["b"])), Ok(DocumentChange::Remove("a".to_owned())));
        assert_eq!(change(before.clone()), Ok(DocumentChange::Nothing));
        assert_eq!(change(document(3, &[])), Err(DocumentError::SeveralAtOnce));
        assert_eq!(change(document(3, &["a", "c"])), Err(DocumentError::SeveralAtOnce));
        assert_eq!(change(document(2, &["a"])), Err(DocumentError::Limit { has: 3, wants: 2 }));
    }
}
