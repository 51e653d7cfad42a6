//! The registry: every algorithm by name, its description, its options, and how to run it if its name is known only at run
//! time.

pub mod any;
pub mod info;
pub mod spec;
pub mod values;

use crate::algorithms::bulgannawar_vaidya::BulgannawarVaidya;
use crate::algorithms::cao_singhal::CaoSinghal;
use crate::algorithms::carvalho_roucairol::CarvalhoRoucairol;
use crate::algorithms::central::Central;
use crate::algorithms::delegated::Delegated;
use crate::algorithms::lamport::Lamport;
use crate::algorithms::lodha_kshemkalyani::LodhaKshemkalyani;
use crate::algorithms::maekawa::Maekawa;
use crate::algorithms::majority::Majority;
use crate::algorithms::makki::Makki;
use crate::algorithms::naimi_trehel::NaimiTrehel;
use crate::algorithms::neilsen_mizuno::NeilsenMizuno;
use crate::algorithms::raymond::Raymond;
use crate::algorithms::raymond_k::RaymondK;
use crate::algorithms::ricart_agrawala::RicartAgrawala;
use crate::algorithms::sanders::Sanders;
use crate::algorithms::singhal_dynamic::SinghalDynamic;
use crate::algorithms::singhal_heuristic::SinghalHeuristic;
use crate::algorithms::srimani_reddy::SrimaniReddy;
use crate::algorithms::suzuki_kasami::SuzukiKasami;
use crate::algorithms::token_ring::TokenRing;
use crate::algorithms::tree_quorum::TreeQuorum;
use crate::site::InFlight;
use crate::{
    Algorithm, Cluster, Demand, Described, Holders, Info, Mode, Outbox, PlanError, Priority, Site, SiteId,
    Spec,
};

pub use any::{AnyOutbox, SiteCall};
use info::{Known, Permits};
use spec::SpecError;
use values::Values;

/// A function that is generic over algorithms, called with the type that a name stands for. It is compiled once for each
/// algorithm: where that was not measured to matter, use [`AnySite`].
pub trait Visitor {
    /// The result.
    type Output;

    /// Runs with the algorithm `A`, whose options are in `spec`.
    fn visit<A: Algorithm>(self, spec: &Spec) -> Self::Output;
}

macro_rules! registry {
    ($d:tt $($number:literal => $algorithm:ident,)*) => {
        any::any! { $d $($number => $algorithm,)* }

        /// Every algorithm, in the order in which tables list them.
        pub const ALL: &[&Info] = &[$(&<$algorithm>::INFO),*];

        impl Spec {
            /// Runs `visitor` with the type of the algorithm that this spec names.
            pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
                $(if self.info.name == <$algorithm>::INFO.name {
                    return visitor.visit::<$algorithm>(self);
                })*
                unreachable!("a spec names a registered algorithm")
            }
        }
    };
}

// The number names the algorithm in messages between sites; the order is that of tables.
registry! {
    $
    0 => Lamport,
    1 => RicartAgrawala,
    2 => CarvalhoRoucairol,
    3 => SinghalDynamic,
    4 => LodhaKshemkalyani,
    5 => Maekawa,
    6 => TreeQuorum,
    7 => Majority,
    8 => Sanders,
    9 => SuzukiKasami,
    10 => SinghalHeuristic,
    11 => Raymond,
    12 => NaimiTrehel,
    13 => Central,
    14 => TokenRing,
    15 => Delegated,
    16 => BulgannawarVaidya,
    17 => RaymondK,
    18 => SrimaniReddy,
    19 => Makki,
    20 => NeilsenMizuno,
    21 => CaoSinghal,
}

impl std::str::FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Spec::parse(text, ALL)
    }
}

/// Checks the cluster against what the algorithm can do, then lets it prepare itself.
pub fn plan<A: Algorithm>(cluster: Cluster, values: &Values) -> Result<A::Plan, PlanError> {
    check_cluster(values.info(), cluster)?;
    A::plan(cluster, values)
}

/// Checks that processes may ask for this in this cluster, with these options. A host does so before it lets any.
pub fn check_demand(cluster: Cluster, values: &Values, demand: Demand) -> Result<(), PlanError> {
    let Demand { mode, priority } = demand;
    let demands = values.info().demands;
    let algorithm = || Spec::of(values.clone()).to_string();
    if mode != Mode::Exclusive && !demands.modes.holds(values) {
        return Err(PlanError::ExclusiveOnly { algorithm: algorithm(), mode, instead: that_know_modes() });
    }
    if mode != Mode::Exclusive && cluster.permits > 1 {
        return Err(PlanError::ModeOfMany { permits: cluster.permits, mode });
    }
    if priority != Priority::default() && !demands.priorities.holds(values) {
        return Err(PlanError::NoPriorities { algorithm: algorithm(), instead: that_know_priorities() });
    }
    Ok(())
}

/// Lists the algorithms that know modes, with the option that they need for it.
pub fn that_know_modes() -> String {
    that_know(|info| info.demands.modes)
}

/// Lists the algorithms that know priorities, with the option that they need for it.
pub fn that_know_priorities() -> String {
    that_know(|info| info.demands.priorities)
}

/// Lists the algorithms that know demands of this kind, with the option that they need for it.
fn that_know(kind: impl Fn(&Info) -> Known) -> String {
    let named = |info: &&Info| match kind(info) {
        Known::No => None,
        Known::With(option) => Some(format!("{}:{option}", info.name)),
        Known::Yes => Some(info.name.to_owned()),
    };
    ALL.iter().filter_map(named).collect::<Vec<_>>().join(", ")
}

fn check_cluster(info: &Info, cluster: Cluster) -> Result<(), PlanError> {
    let Cluster { sites, permits } = cluster;
    if sites == 0 {
        return Err(PlanError::NoSites);
    }
    if permits == 0 {
        return Err(PlanError::NoPermits);
    }
    if u32::try_from(sites.max(permits)).is_err() {
        return Err(PlanError::TooLarge { sites, permits });
    }
    if info.permits == Permits::One && permits > 1 {
        let many = ALL.iter().filter(|info| info.permits != Permits::One).map(|info| info.name);
        let instead = many.collect::<Vec<_>>().join(", ");
        return Err(PlanError::OnePermitOnly { algorithm: info.name, permits, instead });
    }
    Ok(())
}
