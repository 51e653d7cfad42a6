//! Bearer tokens: a caller that shows a token is the client whose name is stored beside the token's hash.
//!
//! A token is 32 random bytes, so a plain hash reveals nothing about it, and a stored hash is of no use for getting in.
//! Hashes are compared in constant time.

use std::fmt;
use std::str::FromStr;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::{ClientName, hash_of};

/// Maximum number of tokens of a site: every request that shows a token is compared with all of them.
const MAX_TOKENS: usize = 1000;

/// Maximum length of a token in bytes; a longer one is rejected without hashing it.
const MAX_BYTES: usize = 512;

/// The SHA-256 of a token.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; 32]);

/// The reason why a text is not the hash of a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token's hash is 64 hexadecimal digits; `meshlock token new NAME` prints one to store")]
pub struct TokenHashError;

impl TokenHash {
    /// Hashes a token.
    pub fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        TokenHash(hash)
    }

    /// Returns whether this is the hash of the token, in a time that does not depend on how much of it agrees.
    pub fn is_of(&self, token: &str) -> bool {
        token.len() <= MAX_BYTES && bool::from(self.0.ct_eq(&TokenHash::of(token).0))
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hash.to_string()
    }
}

impl FromStr for TokenHash {
    type Err = TokenHashError;

    fn from_str(text: &str) -> Result<Self, TokenHashError> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(TokenHashError);
        }
        let mut hash = [0; 32];
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| TokenHashError)?;
        }
        Ok(TokenHash(hash))
    }
}

impl TryFrom<String> for TokenHash {
    type Error = TokenHashError;
    fn try_from(text: String) -> Result<Self, TokenHashError> {
        text.parse()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The reason why a list of tokens is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// Two names have the same token, so that its bearer could be either.
    #[error(
        "the tokens of '{0}' and '{1}' are the same; replace one of them with a new one from `meshlock token new`"
    )]
    Same(ClientName, ClientName),
    /// Access rules use the name for something else.
    #[error("a token cannot be called '{0}', which means something else in rules; give it another name")]
    Reserved(ClientName),
    /// There are more tokens than can be compared for every request.
    #[error("{0} tokens; at most {MAX_TOKENS} are allowed: give clients certificates")]
    TooMany(usize),
}

/// A token that a site knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownToken {
    pub name: ClientName,
    pub hash: TokenHash,
    /// The second since 1970, by the wall clock, from which on it is refused; `None` if it does not end.
    pub expires: Option<u64>,
}

impl KnownToken {
    /// Returns whether the token is refused at this second since 1970.
    pub fn is_over(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }
}

/// A token that does not end.
impl From<(ClientName, TokenHash)> for KnownToken {
    fn from((name, hash): (ClientName, TokenHash)) -> Self {
        KnownToken { name, hash, expires: None }
    }
}

/// The tokens that a site knows. A name may have several, for the time in which one replaces the other.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Vec<KnownToken>);

impl Tokens {
    /// Returns a hash of the names, hashes and ends of all tokens, whatever their order. It tells nothing about a token.
    pub fn fingerprint(&self) -> u64 {
        hash_of(
            self.0.iter().map(|KnownToken { name, hash, expires }| format!("{name}\n{hash}\n{expires:?}")),
        )
    }

    /// Checks a list of tokens. An error comes with the index of the token it is about.
    pub fn new<T: Into<KnownToken>>(tokens: Vec<T>) -> Result<Self, (usize, TokensError)> {
        let tokens: Vec<KnownToken> = tokens.into_iter().map(Into::into).collect();
        if tokens.len() > MAX_TOKENS {
            return Err((MAX_TOKENS, TokensError::TooMany(tokens.len())));
        }
        for (at, KnownToken { name, hash, .. }) in tokens.iter().enumerate() {
            if name.is_reserved() {
                return Err((at, TokensError::Reserved(name.clone())));
            }
            if let Some(other) = tokens[..at].iter().find(|before| before.hash == *hash) {
                return Err((at, TokensError::Same(other.name.clone(), name.clone())));
            }
        }
        Ok(Tokens(tokens))
    }

    /// Returns the tokens of both. Of a token that is in both, this one's name and end count.
    #[must_use]
    pub fn joined(mut self, other: Tokens) -> Self {
        let more = other.0.into_iter().filter(|token| self.0.iter().all(|own| own.hash != token.hash));
        let more: Vec<KnownToken> = more.collect();
        self.0.extend(more);
        self
    }

    /// Returns all tokens.
    pub fn iter(&self) -> impl Iterator<Item = &KnownToken> {
        self.0.iter()
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what is known of this token, also if it is over. Every stored hash is compared, whichever matches.
    pub fn find(&self, token: &str) -> Option<&KnownToken> {
        if token.is_empty() || token.len() > MAX_BYTES {
            return None;
        }
        let shown = TokenHash::of(token);
        let mut found = None;
        for known in &self.0 {
            if bool::from(known.hash.0.ct_eq(&shown.0)) {
                found = Some(known);
            }
        }
        found
    }
}
