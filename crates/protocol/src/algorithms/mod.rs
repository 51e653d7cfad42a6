//! One file per algorithm; each opens with its idea, its costs, and what differs from the published text.

pub mod bulgannawar_vaidya;
pub mod naimi_trehel;
pub mod raymond;
pub mod ricart_agrawala;
