//! One file per algorithm; each opens with its idea, its costs, and what differs from the published text.

pub mod bulgannawar_vaidya;
pub mod lamport;
pub mod lodha_kshemkalyani;
pub mod naimi_trehel;
pub mod raymond;
pub mod raymond_k;
pub mod ricart_agrawala;
pub mod sanders;
pub mod singhal_dynamic;
pub mod singhal_heuristic;
pub mod suzuki_kasami;
