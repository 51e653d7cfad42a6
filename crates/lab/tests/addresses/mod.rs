//! Addresses, read as browsers do.

use meshlock_lab::setup::Parts;

/// The parts of an address: what follows its question mark.
pub(crate) fn parts(address: &str) -> Parts {
    let decoded = |text: &str| text.replace('+', " ").replace("%2B", "+");
    let pairs = address.split('&').filter_map(|part| part.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}
