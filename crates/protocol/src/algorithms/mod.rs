//! One file per algorithm; each opens with its idea, its costs, and what differs from the published text.

mod append;
pub mod arbiter;
pub mod bulgannawar_vaidya;
pub mod cao_singhal;
pub mod carvalho_roucairol;
pub mod central;
pub mod delegated;
pub mod lamport;
pub mod lodha_kshemkalyani;
pub mod maekawa;
pub mod majority;
pub mod makki;
pub mod naimi_trehel;
pub mod neilsen_mizuno;
pub mod raymond;
pub mod raymond_k;
pub mod request;
pub mod ricart_agrawala;
pub mod sanders;
pub mod singhal_dynamic;
pub mod singhal_heuristic;
pub mod srimani_reddy;
pub mod suzuki_kasami;
pub mod token_ring;
mod tree;
pub mod tree_quorum;
