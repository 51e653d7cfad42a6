//! A line of a trace as it is serialized.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::TraceKind;

/// A site in a trace: by its number where sites are numbered, by its name in a real cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Whose {
    Number(usize),
    Name(String),
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Number(number) => write!(f, "S{number}"),
            Whose::Name(name) => f.write_str(name),
        }
    }
}

/// A line of a trace. The fields that only a real cluster has are left out elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// When it happened: in units, or in microseconds of the calendar clock where sites have names.
    pub time: f64,
    pub kind: TraceKind,
    pub site: Whose,
    /// The other end of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Whose>,
    /// The lock that it is about; empty if it is about the whole site.
    pub lock: Cow<'static, str>,
    /// The message, as the algorithm prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The alternative that the site chose, from 0, and the number of alternatives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<(u32, u32)>,
    /// The message's number between the two sites, the same where it is sent and received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The view that is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    /// The site's number in messages and states, if that is not its number in the trace.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "seat")]
    pub machine: Option<u32>,
    /// The client of the site that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<u64>,
    /// The label of that client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The number of a grant. It is written as text; recordings of earlier versions have a number.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "fence_text")]
    pub fence: Option<i64>,
    /// The members of a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
    /// The number of lines that are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The site's state after the step that the line is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A fence as text, because the numbers of some programs that read JSON are exact up to 53 bits only.
mod fence_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Number(i64),
        Text(String),
    }

    #[expect(clippy::ref_option, reason = "serde calls it with a reference")]
    pub(super) fn serialize<S: Serializer>(fence: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
        match fence {
            Some(fence) => to.collect_str(fence),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
        match Option::<Given>::deserialize(from)? {
            None => Ok(None),
            Some(Given::Number(fence)) => Ok(Some(fence)),
            Some(Given::Text(fence)) => fence.parse().map(Some).map_err(de::Error::custom),
        }
    }
}

impl Written {
    /// A line with only these fields.
    pub fn new(time: f64, kind: TraceKind, site: Whose, lock: impl Into<Cow<'static, str>>) -> Self {
        Written {
            time,
            kind,
            site,
            peer: None,
            lock: lock.into(),
            message: None,
            choice: None,
            number: None,
            epoch: None,
            machine: None,
            client: None,
            who: None,
            fence: None,
            members: None,
            count: None,
            state: None,
        }
    }
}
