//! What a node is told to be: its configuration file, its flags, and the places that it uses where neither says anything.

pub(crate) mod lasting;
pub(crate) mod places;
