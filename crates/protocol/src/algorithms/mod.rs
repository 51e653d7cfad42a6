//! One file per algorithm; each opens with its idea, its costs, and what differs from the published text.

pub mod delegated;
pub mod makki;
pub mod raymond_k;
pub mod ricart_agrawala;
pub mod srimani_reddy;
