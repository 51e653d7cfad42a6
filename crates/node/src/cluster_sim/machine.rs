//! A site's machine: the process of its node, its disk, its clock.

use std::collections::VecDeque;

use super::clock::{Clock, Moment};
use super::event::Event;
use super::faults::Death;
use crate::membership::disk::{Disk, Write};
use crate::node::{Node, Token};
use crate::rules::Rules;

/// A site's machine: the process of its node, its disk, its clock.
pub(super) struct Machine {
    pub(super) node: Option<Node>,
    /// Which process.
    pub(super) life: u64,
    pub(super) disk: Disk,
    pub(super) unsynced: VecDeque<(Token, Vec<Write>)>,
    pub(super) clock: Clock,
    /// The rules of the view that its process has installed last, as it said.
    pub(super) rules: Option<Rules>,
    pub(super) paused_until: Option<Moment>,
    /// What has come for it meanwhile.
    pub(super) postponed: VecDeque<Event>,
    pub(super) slow_until: Moment,
    /// The wake-up that counts.
    pub(super) wake: Option<Moment>,
    /// When it dies, and how long it stays down.
    pub(super) dying: Option<(Death, u64)>,
    /// An operator has taken it out.
    pub(super) left: bool,
}

impl Machine {
    pub(super) fn new(clock: Clock) -> Self {
        Machine {
            node: None,
            life: 0,
            disk: Disk::default(),
            unsynced: VecDeque::new(),
            clock,
            rules: None,
            paused_until: None,
            postponed: VecDeque::new(),
            slow_until: Moment::default(),
            wake: None,
            dying: None,
            left: false,
        }
    }
}
