//! Names of clusters, sites, their incarnations, locks and clients.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::printable::{Printable, is_refused_in_label};

/// The reason why a text cannot be a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    #[error("a {what} name is empty; give it at least one character")]
    Empty { what: &'static str },
    /// The name would not fit into a message.
    #[error("a {what} name has {bytes} bytes; at most {most} are allowed: '{start}…'")]
    TooLong { what: &'static str, bytes: usize, most: usize, start: String },
    /// The name could be mistaken for something else in files and addresses.
    #[error("the {what} name '{name}' contains '{found}'; use letters, digits, '.', '-' and '_'")]
    BadCharacter {
        what: &'static str,
        name: String,
        /// The first character that is not allowed.
        found: char,
    },
    /// The label would have an effect on the terminal that prints it.
    #[error("a client label contains the character U+{code:04X}, which cannot be printed; remove it")]
    Invisible {
        /// The first such character.
        code: u32,
    },
}

fn measured(what: &'static str, text: &str, most: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { what });
    }
    if text.len() > most {
        let start = text.chars().take(20).collect();
        return Err(NameError::TooLong { what, bytes: text.len(), most, start });
    }
    Ok(())
}

/// Checks a name that is also used in files and addresses.
fn plain(what: &'static str, text: &str) -> Result<(), NameError> {
    measured(what, text, SiteName::MAX_BYTES)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match text.chars().find(|&c| !allowed(c)) {
        Some(found) => Err(NameError::BadCharacter { what, name: text.to_owned(), found }),
        None => Ok(()),
    }
}

/// Returns the FNV-1a hash in 64 bits. It is fixed for ever, because all sites must compute the same.
pub fn fnv_1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The name of a cluster, made of the same characters as a site's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// Returns the name as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ClusterName {
    fn default() -> Self {
        ClusterName("meshlock".into())
    }
}

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        plain("cluster", text)?;
        Ok(ClusterName(text.into()))
    }
}

/// The name of a site, which never changes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteName(Arc<str>);

impl SiteName {
    /// Maximum length in bytes.
    const MAX_BYTES: usize = 64;

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SiteName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        plain("site", text)?;
        Ok(SiteName(text.into()))
    }
}

/// The name of a lock: any text of 1 to 255 bytes.
///
/// It prints as [`Printable`] text, because anyone who may acquire a lock can choose its name; [`as_str`](LockName::as_str) returns the name
/// itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<str>);

impl LockName {
    /// Maximum length in bytes.
    pub(crate) const MAX_BYTES: usize = 255;

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks that a text can be a lock's name.
    pub(crate) fn check(text: &str) -> Result<(), NameError> {
        measured("lock", text, Self::MAX_BYTES)
    }

    /// Returns the index among `members` members of the lock's home: where its token, coordinator or root starts.
    ///
    /// The index is the FNV-1a hash of the name's bytes, modulo the number of members: all members of a view must
    /// compute the same.
    pub(crate) fn home(&self, members: usize) -> usize {
        let hash = fnv_1a(self.0.bytes());
        let members = u64::try_from(members.max(1)).unwrap_or(u64::MAX);
        usize::try_from(hash % members).unwrap_or(0)
    }
}

/// Names are ordered and hashed as their text.
impl Borrow<str> for LockName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for LockName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        LockName::check(text)?;
        Ok(LockName(text.into()))
    }
}

/// A description of a client for people, such as "backup.sh, process 812 on host a": 1 to 200 bytes of printable text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientLabel(Arc<str>);

impl ClientLabel {
    /// Maximum length in bytes.
    pub const MAX_BYTES: usize = 200;

    /// Returns the label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the label by which others see a client that has proved to be `proved`, and calls itself `given`. What was proved comes
    /// first and what was only said is quoted, so that no client can pass for another by the label that it gives:
    /// `uid:1000 (label "deploy.sh, client oncall")`. A label that is too long is cut.
    #[must_use]
    pub fn proved(proved: &impl fmt::Display, given: &ClientLabel) -> ClientLabel {
        let start = format!("{proved} (label \"");
        let room = Self::MAX_BYTES.saturating_sub(start.len() + QUOTE_END.len());
        // A quotation mark would end the quotation.
        let mut given = given.0.replace('"', "'");
        if given.len() > room {
            let most = room.saturating_sub(CUT.len_utf8());
            given.truncate(given.floor_char_boundary(most));
            given.push(CUT);
        }
        ClientLabel(format!("{start}{given}{QUOTE_END}").into())
    }

    /// Returns whether a client that calls itself `given` can have this label, whatever it has proved.
    pub fn is_of(&self, given: &ClientLabel) -> bool {
        let Some((proved, _)) = self.0.split_once(" (label \"") else { return self == given };
        *self == ClientLabel::proved(&proved, given)
    }
}

/// The end of a label that was given, in the label that others see; and what takes the place of its end if it is too long.
const QUOTE_END: &str = "\")";
const CUT: char = '…';

impl FromStr for ClientLabel {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        measured("client", text, Self::MAX_BYTES)?;
        match text.chars().find(|&c| is_refused_in_label(c)) {
            Some(found) => Err(NameError::Invisible { code: u32::from(found) }),
            None => Ok(ClientLabel(text.into())),
        }
    }
}

/// Reads a name from text and checks it. A census has many names, so the text is copied once only.
struct NameReader<N>(PhantomData<N>);

impl<N: FromStr<Err = NameError>> Visitor<'_> for NameReader<N> {
    type Value = N;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<N, E> {
        text.parse().map_err(E::custom)
    }
}

/// Implements what all kinds of names share: reading and writing, conversion from and to strings, and printing.
macro_rules! prints_as_its_text {
    ($($name:ident)*) => {$(
        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(NameReader(PhantomData))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", Printable(&self.0))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", Printable(&self.0))
            }
        }
    )*};
}

prints_as_its_text! { ClusterName SiteName LockName ClientLabel }

/// An incarnation of a site: larger for a later one. It is kept on the site's disk and raised before the site sends
/// anything, at every start and whenever the site finds itself excluded. Its upper bits are the host's stamp of the
/// start, such as the time of day, so that a site that has lost its disk does not use an incarnation again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(u64);

impl Incarnation {
    /// Returns the `number`-th incarnation; the first one is 1.
    pub const fn new(number: u64) -> Self {
        Incarnation(number)
    }

    /// Returns the number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Number of bits for the incarnations of one start, before they run into the next stamp.
    const BITS_BELOW_THE_STAMP: u32 = 20;

    /// Returns the first incarnation of a start with this stamp.
    pub(crate) const fn stamped(stamp: u64) -> Self {
        let most = u64::MAX >> Self::BITS_BELOW_THE_STAMP;
        Incarnation((if stamp < most { stamp } else { most }) << Self::BITS_BELOW_THE_STAMP)
    }

    /// Returns whether a start with this stamp can have begun this incarnation.
    pub(crate) const fn is_of(self, stamp: u64) -> bool {
        self.0 >> Self::BITS_BELOW_THE_STAMP == stamp
    }

    /// Returns the incarnation after this one, for the process that has had this one.
    #[must_use]
    pub(crate) const fn next(self) -> Self {
        Incarnation(self.0.saturating_add(1))
    }

    /// Number of later stamps of which one is chosen for a process that begins after an incarnation of another one.
    const STAMPS_TO_CHOOSE_FROM: u64 = 1 << 20;

    /// Returns an incarnation after this one, for a process that has not had this one: of a later stamp, which `chosen` tells apart
    /// from those of other processes of the site. The process that has had this incarnation may be running, and take the next one.
    #[must_use]
    pub(crate) const fn after_anothers(self, chosen: u64) -> Self {
        let stamp = self.0 >> Self::BITS_BELOW_THE_STAMP;
        Incarnation::stamped(stamp + 1 + chosen % Self::STAMPS_TO_CHOOSE_FROM)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamp = self.0 >> Self::BITS_BELOW_THE_STAMP;
        let below = self.0 & ((1 << Self::BITS_BELOW_THE_STAMP) - 1);
        if stamp == 0 { write!(f, "{below}") } else { write!(f, "{stamp}.{below}") }
    }
}

/// One incarnation of one site: what a view lists.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    pub site: SiteName,
    pub incarnation: Incarnation,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.site, self.incarnation)
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_name_has_1_to_255_bytes() {
        assert_eq!("".parse::<LockName>(), Err(NameError::Empty { what: "lock" }));
        assert!("x".repeat(255).parse::<LockName>().is_ok());
        let error = "é".repeat(128).parse::<LockName>().unwrap_err().to_string();
        assert!(error.starts_with("a lock name has 256 bytes; at most 255"), "{error}");
    }

    #[test]
    fn a_site_name_is_plain() {
        assert!("db-1.eu_west".parse::<SiteName>().is_ok());
        let error = "db 1".parse::<SiteName>().unwrap_err().to_string();
        assert_eq!(error, "the site name 'db 1' contains ' '; use letters, digits, '.', '-' and '_'");
        assert!("x".repeat(65).parse::<SiteName>().is_err());
    }

    #[test]
    fn a_client_label_is_what_a_terminal_can_print() {
        let label: ClientLabel = "backup.sh, process 812 on höst a".parse().unwrap();
        assert_eq!(label.to_string(), "backup.sh, process 812 on höst a");
        for hostile in ["a\nb", "\u{1b}[2J", "harmless\u{202e}", "\u{feff}"] {
            assert!(
                matches!(hostile.parse::<ClientLabel>(), Err(NameError::Invisible { .. })),
                "{hostile:?}"
            );
        }
        assert!("x".repeat(200).parse::<ClientLabel>().is_ok());
        assert!("x".repeat(201).parse::<ClientLabel>().is_err() && "".parse::<ClientLabel>().is_err());
    }

    #[test]
    fn a_lock_name_has_no_effect_on_the_terminal_that_prints_it() {
        let hostile: LockName = "\x1b[2J\u{202e}evil\n".parse().unwrap();
        assert_eq!(hostile.to_string(), r"\u{1b}[2J\u{202e}evil\n");
        assert_eq!(format!("{hostile:?}"), hostile.to_string());
        assert_eq!(hostile.as_str(), "\x1b[2J\u{202e}evil\n");
    }

    #[test]
    fn a_label_that_a_client_gives_cannot_be_taken_for_what_it_has_proved() {
        let given: ClientLabel = "deploy.sh, client oncall".parse().unwrap();
        let seen = ClientLabel::proved(&"uid:1000", &given);
        assert_eq!(seen.as_str(), r#"uid:1000 (label "deploy.sh, client oncall")"#);
        assert!(seen.is_of(&given) && !seen.is_of(&"deploy.sh".parse().unwrap()));
        let forged: ClientLabel = r#"x") oncall (label "y"#.parse().unwrap();
        let seen = ClientLabel::proved(&"ci", &forged);
        assert_eq!(seen.as_str(), r#"ci (label "x') oncall (label 'y")"#);
        assert!(seen.is_of(&forged));
        let long: ClientLabel = "é".repeat(100).parse().unwrap();
        let seen = ClientLabel::proved(&"c".repeat(64), &long);
        assert!(seen.as_str().len() <= ClientLabel::MAX_BYTES && seen.as_str().ends_with("é…\")"), "{seen}");
        assert!(seen.is_of(&long));
    }

    #[test]
    fn the_home_of_a_lock_is_fixed_for_ever() {
        // FNV-1a's published test vectors: "" is not a valid name, "a" and "foobar" are.
        let home = |name: &str| name.parse::<LockName>().unwrap().home(usize::MAX) as u64;
        assert_eq!(home("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(home("foobar"), 0x8594_4171_f739_67e8);
        assert!("a".parse::<LockName>().unwrap().home(1) == 0);
    }

    #[test]
    fn an_incarnation_is_later_than_all_incarnations_of_an_earlier_stamp() {
        let (first, second) = (Incarnation::stamped(7), Incarnation::stamped(8));
        assert!(Incarnation::new(1) < first && first < first.next() && first.next() < second);
        assert_eq!(
            [first, first.next(), Incarnation::new(3)].map(|incarnation| incarnation.to_string()),
            ["7.0", "7.1", "3"]
        );
        assert!(Incarnation::stamped(u64::MAX) < Incarnation::stamped(u64::MAX).next());
    }

    #[test]
    fn a_process_begins_after_an_incarnation_of_another_one_where_that_one_does_not_go_on() {
        let others = Incarnation::stamped(7).next();
        let [one, two] = [3, 4].map(|chosen| others.after_anothers(chosen));
        assert!(others < one && one < two && !one.is_of(7) && one.next() < two);
        assert!(others.after_anothers(u64::MAX).is_of(7 + Incarnation::STAMPS_TO_CHOOSE_FROM));
        assert!(Incarnation::new(u64::MAX).after_anothers(5) > Incarnation::new(u64::MAX >> 1));
    }

    #[test]
    fn a_name_read_from_outside_is_checked_too() {
        let long = postcard::to_stdvec(&"x".repeat(300)).unwrap();
        assert!(postcard::from_bytes::<LockName>(&long).is_err());
        let name: LockName = "jobs".parse().unwrap();
        let bytes = postcard::to_stdvec(&name).unwrap();
        assert_eq!(postcard::from_bytes::<LockName>(&bytes), Ok(name));
    }
}
