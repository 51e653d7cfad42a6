//! Proofs that a client held a lock, with which it keeps the lock when its site dies or leaves.
//!
//! A client asks its site for a *proof* of each lock that it holds. If it loses its site, it shows the proof to another member and
//! *claims* the lock there (`node/claims.rs` and `table/claims/` say what that member does, and why it is safe). A proof names the hold
//! and is authenticated by a key that the site's process has drawn at its start. The members learn each other's keys with the
//! census, so that everyone who has opened a view can check a proof of every member of it.
//!
//! A proof is valid for whoever shows it: it is told to nobody but the client, and its debug output does not show it. It needs no nonce:
//! the key is never used by another process, an incarnation has one member, and a site gives one fence for a lock once. So no two
//! holds ever have the same proof, and a proof is worth nothing when its incarnation is not a member any more.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use meshlock_protocol::{Fence, Mode};
use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::names::{LockName, Member};
use crate::time::Span;

/// The key with which the process of a site authenticates its proofs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClaimKey([u8; ClaimKey::BYTES]);

impl ClaimKey {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// Returns the key with these bytes, which must come from a source of randomness for cryptography.
    pub const fn new(bytes: [u8; ClaimKey::BYTES]) -> Self {
        ClaimKey(bytes)
    }

    /// Returns the bytes, to send them to another member.
    pub const fn bytes(&self) -> &[u8; ClaimKey::BYTES] {
        &self.0
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

impl fmt::Debug for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClaimKey(…)")
    }
}

/// A hold that a proof is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "EncodedHold", try_from = "EncodedHold")]
pub struct ProvedHold {
    /// The site that granted the lock.
    pub holder: Member,
    pub lock: LockName,
    /// How many clients may hold the lock at a time.
    pub permits: u32,
    /// Which of them, where they are numbered.
    pub slot: Option<u32>,
    pub fence: Fence,
    /// In which mode. After a change of mode the proof proves only what it says.
    pub mode: Mode,
}

/// A hold as its bytes say it. The mode is in the number of permits, above the largest one that a lock can have, so that the proof of an
/// exclusive hold has the bytes that it always had, and a program that knows no modes takes another one for a hold with a number of
/// permits that goes with no rule: it lets nobody in beside it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename = "ProvedHold")]
struct EncodedHold {
    holder: Member,
    lock: LockName,
    permits: u32,
    slot: Option<u32>,
    fence: Fence,
}

/// The bits of the number of permits.
const PERMIT_BITS: u32 = 16;

impl From<ProvedHold> for EncodedHold {
    fn from(hold: ProvedHold) -> Self {
        let mode: u32 = match hold.mode {
            Mode::Exclusive => 0,
            Mode::Shared => 1,
            Mode::Upgradeable => 2,
        };
        let ProvedHold { holder, lock, permits, slot, fence, .. } = hold;
        EncodedHold { holder, lock, permits: permits | mode << PERMIT_BITS, slot, fence }
    }
}

impl TryFrom<EncodedHold> for ProvedHold {
    type Error = ProofError;

    fn try_from(encoded: EncodedHold) -> Result<Self, ProofError> {
        let mode = match encoded.permits >> PERMIT_BITS {
            0 => Mode::Exclusive,
            1 => Mode::Shared,
            2 => Mode::Upgradeable,
            _ => return Err(ProofError),
        };
        let EncodedHold { holder, lock, permits, slot, fence } = encoded;
        Ok(ProvedHold { holder, lock, permits: permits & ((1 << PERMIT_BITS) - 1), slot, fence, mode })
    }
}

/// A proof that a client of a site held a lock. Whoever has it can claim the lock.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proof {
    hold: ProvedHold,
    mac: [u8; 32],
}

/// The bytes or the text are not a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a proof of a lock; show the one that the site gave, unchanged")]
pub struct ProofError;

/// Stands before everything that is authenticated, so that a key is of no use for anything else.
const PURPOSE: &[u8] = b"meshlock proof of a lock, 1\0";

impl Proof {
    /// Maximum length of a proof in bytes: the longest names fit.
    pub const MAX_BYTES: usize = 512;

    /// Makes the proof of a hold in the cluster that is identified by `cluster`.
    pub fn new(key: &ClaimKey, cluster: &[u8], hold: ProvedHold) -> Self {
        let mut mac = [0; 32];
        mac.copy_from_slice(hmac::sign(&key.hmac(), &authenticated(cluster, &hold)).as_ref());
        Proof { hold, mac }
    }

    /// Returns whether the proof was made with this key for this cluster, in a time that does not depend on how much of it agrees.
    pub fn is_by(&self, key: &ClaimKey, cluster: &[u8]) -> bool {
        hmac::verify(&key.hmac(), &authenticated(cluster, &self.hold), &self.mac).is_ok()
    }

    /// Returns the hold that the proof is about, whether the proof is true or not.
    pub fn hold(&self) -> &ProvedHold {
        &self.hold
    }

    /// Returns the bytes that a client keeps.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a proof is plain data")
    }

    /// Reads a proof from bytes; all of them must belong to it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ProofError> {
        if bytes.len() > Proof::MAX_BYTES {
            return Err(ProofError);
        }
        match postcard::take_from_bytes(bytes) {
            Ok((proof, [])) => Ok(proof),
            Ok(_) | Err(_) => Err(ProofError),
        }
    }

    /// Returns the proof as text that clients may put into an address or a header.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.to_bytes())
    }
}

impl FromStr for Proof {
    type Err = ProofError;

    fn from_str(text: &str) -> Result<Self, ProofError> {
        // Four characters for three bytes.
        if text.len() > Proof::MAX_BYTES * 2 {
            return Err(ProofError);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| ProofError)?;
        Proof::from_bytes(&bytes)
    }
}

/// Shows the hold, and not what makes it a proof.
impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Proof").field(&self.hold).finish()
    }
}

/// Returns the bytes that a proof authenticates.
fn authenticated(cluster: &[u8], hold: &ProvedHold) -> Vec<u8> {
    let bytes = postcard::to_extend(cluster, PURPOSE.to_vec()).expect("bytes are plain data");
    postcard::to_extend(hold, bytes).expect("a hold is plain data")
}

/// For how long the site that granted a lock keeps it for its client, as the client knows when it claims the lock elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Until a view without that site: its process has certainly ended, or it has said that it leaves and gives up nothing any more.
    Forever,
    /// For the resume window from the last contact on.
    SinceContact {
        /// How long ago, on the client's clock, the client sent the last message that the site has certainly received, for it has answered.
        ago: Span,
    },
    /// For this long, counted from when the claim is made.
    For(Span),
    /// Whoever claims is a *mirror* of the site that granted the lock. It claims before anything has happened to that site, and knows by
    /// itself until when its clients may count on what it answers: nothing is promised by the claim.
    Standing,
}
