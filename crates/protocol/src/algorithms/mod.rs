//! One file per algorithm; each opens with its idea, its costs, and what differs from the published text.

pub mod arbiter;
pub mod maekawa;
pub mod majority;
pub mod ricart_agrawala;
pub mod tree_quorum;
