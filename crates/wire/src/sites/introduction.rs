//! Introductions: what a site tells a newcomer that knows only its address: the name of the cluster, its initial sites
//! and their addresses.
//!
//! A greeting whose sender names itself as the receiver asks for it. More can be asked in the same way ([`SiteQuestion`]): the answer
//! follows the introduction. A program that does not know the question closes the connection after the introduction.

use meshlock_cluster::address::Address;
use meshlock_cluster::names::{ClusterName, SiteName};
use serde::{Deserialize, Serialize};

/// Maximum length that is read: a thousand sites with long names fit.
const MAX_BYTES: usize = 1 << 19;

/// What a site is asked by a greeting whose sender names itself as the receiver. Its number stands in the greeting where the number of the
/// program's start is otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteQuestion {
    /// Which cluster is this? Every program answers this one first.
    Introduction,
    /// Where are all the sites that you know? The answer is another introduction, with all of them.
    Everyone,
    /// How are you? The answer is a [report](crate::diagnosis::Diagnosis).
    Diagnosis,
}

impl SiteQuestion {
    /// Returns the number that stands in the greeting.
    pub fn number(self) -> u64 {
        match self {
            SiteQuestion::Introduction => 0,
            SiteQuestion::Everyone => 1,
            SiteQuestion::Diagnosis => 2,
        }
    }

    /// Returns the question with this number; whoever asks something else is introduced to the cluster.
    pub fn of_number(number: u64) -> Self {
        match number {
            1 => SiteQuestion::Everyone,
            2 => SiteQuestion::Diagnosis,
            _ => SiteQuestion::Introduction,
        }
    }
}

/// What a site says about its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    pub cluster: ClusterName,
    /// The initial sites, in their order, with their addresses as far as they are known.
    pub sites: Vec<(SiteName, Option<Address>)>,
}

/// The bytes are not an introduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its introduction of the cluster cannot be read")]
pub struct IntroductionError;

impl Introduction {
    /// Returns the bytes of the frame: a length and the introduction.
    pub fn frame(&self) -> Vec<u8> {
        let body = postcard::to_stdvec(self).expect("an introduction is plain data");
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        [&length.to_le_bytes() as &[u8], &body].concat()
    }

    /// Reads an introduction from the front of `bytes`, if it is complete.
    pub fn take(bytes: &[u8]) -> Result<Option<Self>, IntroductionError> {
        Ok(Introduction::take_with_length(bytes)?.map(|(introduction, _)| introduction))
    }

    /// The same; also returns the number of bytes that it took.
    pub fn take_with_length(bytes: &[u8]) -> Result<Option<(Self, usize)>, IntroductionError> {
        let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_BYTES {
            return Err(IntroductionError);
        }
        let Some(body) = bytes.get(4..4 + length) else { return Ok(None) };
        let introduction = postcard::from_bytes(body).map_err(|_| IntroductionError)?;
        Ok(Some((introduction, 4 + length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_is_read_once_it_is_whole_and_not_if_it_is_too_long() {
        let sites = vec![("a".parse().unwrap(), Some("a:1".parse().unwrap())), ("b".parse().unwrap(), None)];
        let introduction = Introduction { cluster: "c".parse().unwrap(), sites };
        let whole = introduction.frame();
        for cut in 0..whole.len() {
            assert!(matches!(Introduction::take(&whole[..cut]), Ok(None)), "{cut} bytes");
        }
        assert_eq!(Introduction::take(&whole).unwrap(), Some(introduction));
        assert!(Introduction::take(&u32::MAX.to_le_bytes()).is_err());
        assert!(Introduction::take(&[1, 0, 0, 0, 255]).is_err());
    }
}
