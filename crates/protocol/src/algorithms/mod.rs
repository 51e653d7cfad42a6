//! One file per algorithm; each opens with its idea, its costs, and what differs from the published text.

pub mod lodha_kshemkalyani;
pub mod ricart_agrawala;
pub mod singhal_dynamic;
