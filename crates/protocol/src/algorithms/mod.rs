//! One file per algorithm; each opens with its idea, its costs, and what differs from the published text.

pub mod carvalho_roucairol;
pub mod central;
pub mod lamport;
pub mod ricart_agrawala;
pub mod suzuki_kasami;
pub mod token_ring;
