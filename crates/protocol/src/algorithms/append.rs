//! The order in which a token's holder appends those who wait to the token's queue, where the papers leave it open.

use std::collections::VecDeque;

use crate::registry::info::{OptionInfo, Range};
use crate::registry::values::Values;
use crate::{Outbox, SiteId};

/// The order in which those who wait are appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum AppendOrder {
    /// In turn, from the site after the holder.
    InTurn,
    /// The host chooses.
    Any,
}

impl AppendOrder {
    /// The option that selects it.
    pub(super) const OPTION: OptionInfo = OptionInfo {
        name: "append",
        about: "in which order those who wait join the token's queue: in turn, from the site after the holder, or any, which the \
                host chooses",
        range: Range::Open { policies: &["turn"], any: "any" },
        default: "turn",
    };

    /// What the option asks for.
    pub(super) fn of(values: &Values) -> Self {
        if values.get("append") == "any" { AppendOrder::Any } else { AppendOrder::InTurn }
    }

    /// Arranges what was appended in turn to the first `before` of `queue`.
    pub(super) fn arrange<M>(self, queue: &mut VecDeque<SiteId>, before: usize, out: &mut Outbox<M>) {
        match self {
            AppendOrder::InTurn => {}
            AppendOrder::Any => out.shuffle(&mut queue.make_contiguous()[before..]),
        }
    }
}
