//! One type over all algorithms, for a host whose locks do not all run the same one.
//!
//! Hosts that run one algorithm at a time stay generic ([`Visitor`](super::Visitor)); a node keeps many locks, each with
//! the algorithm that its rules name, and reads messages from a network before it knows which lock they are for.

use crate::{Effect, Outbox, Site};

/// Why a message is refused that belongs to another algorithm than the lock runs.
pub const OTHER_ALGORITHM: &str = "a message of another algorithm";

/// Makes one call of a site and hands its effects on, messages wrapped.
pub(super) fn call<A: Site, M>(
    site: &mut A,
    own: &mut Outbox<A::Message>,
    all: &mut Outbox<M>,
    wrap: fn(A::Message) -> M,
    call: impl FnOnce(&mut A, &mut Outbox<A::Message>),
) {
    call(site, own);
    for effect in own.drain() {
        match effect {
            Effect::Send { to, message } => all.send(to, wrap(message)),
            Effect::Enter { slot } => all.enter_slot(slot),
            Effect::Timer { delays } => all.set_timer(delays),
            Effect::Misbehaved { peer, why } => all.misbehaved(peer, why),
        }
    }
}

/// Writes the enums over all algorithms. The order of the list is the order of the variants, which is how a message names
/// its algorithm when it is written: new algorithms go to the end.
macro_rules! any {
    ($($algorithm:ident,)*) => {
        /// What some algorithm needs to know before its sites start.
        #[derive(Clone, Debug)]
        pub enum AnyPlan {
            $(#[doc = concat!("Of [`", stringify!($algorithm), "`].")]
            $algorithm(<$algorithm as Algorithm>::Plan),)*
        }

        /// One site of some algorithm. Boxed: a node keeps a million of them, and the largest is many times the smallest.
        #[derive(Clone, Debug)]
        pub enum AnySite {
            $(#[doc = concat!("Of [`", stringify!($algorithm), "`].")]
            $algorithm(Box<$algorithm>),)*
        }

        /// Collects the effects of a call of any site. One serves all sites of a host, so that a site that rests keeps
        /// no memory for its next call.
        #[derive(Clone, Debug, Default)]
        #[expect(non_snake_case, reason = "one field for each algorithm, with the algorithm's name")]
        pub struct AnyOutbox {
            all: Outbox<AnyMessage>,
            $($algorithm: Outbox<<$algorithm as Site>::Message>,)*
        }

        /// A message of some algorithm.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum AnyMessage {
            $(#[doc = concat!("Of [`", stringify!($algorithm), "`].")]
            $algorithm(<$algorithm as Site>::Message),)*
        }

        impl AnyMessage {
            /// As the algorithm prints it, in the words of every trace.
            pub fn printed(&self) -> String {
                match self {
                    $(AnyMessage::$algorithm(message) => format!("{message:?}"),)*
                }
            }
        }

        impl AnySite {
            /// The state as the algorithm prints it, in the words of every trace.
            pub fn printed(&self) -> String {
                match self {
                    $(AnySite::$algorithm(site) => format!("{site:?}"),)*
                }
            }
        }

        impl AnyPlan {
            /// Checks the algorithm that `spec` names against the cluster and lets it prepare itself.
            pub fn new(spec: &Spec, cluster: Cluster) -> Result<Self, PlanError> {
                $(if spec.info.name == <$algorithm>::INFO.name {
                    return plan::<$algorithm>(cluster, &spec.values).map(AnyPlan::$algorithm);
                })*
                unreachable!("a spec names a registered algorithm")
            }

            /// The site `me`, at the moment when exactly `holders` are inside and nothing is on its way.
            pub fn start(&self, me: SiteId, holders: &Holders) -> AnySite {
                match self {
                    $(AnyPlan::$algorithm(plan) => {
                        AnySite::$algorithm(Box::new(<$algorithm>::start(plan, me, holders)))
                    })*
                }
            }
        }

        impl AnySite {
            /// Makes one call that every site has.
            fn call(&mut self, out: &mut AnyOutbox, call: any::Call) {
                match self {
                    $(AnySite::$algorithm(site) => {
                        let (own, all) = (&mut out.$algorithm, &mut out.all);
                        any::call(&mut **site, own, all, AnyMessage::$algorithm, |site, out| match call {
                            any::Call::Request => site.request(out),
                            any::Call::Release => site.release(out),
                            any::Call::ReleaseAndRequest => site.release_and_request(out),
                            any::Call::Wake => site.wake(out),
                        });
                    })*
                }
            }

            /// [`Site::receive`]; a message of another algorithm changes nothing and is reported.
            pub fn receive(&mut self, from: SiteId, message: AnyMessage, out: &mut AnyOutbox) {
                match (self, message) {
                    $((AnySite::$algorithm(site), AnyMessage::$algorithm(message)) => {
                        let (own, all) = (&mut out.$algorithm, &mut out.all);
                        any::call(&mut **site, own, all, AnyMessage::$algorithm, |site, out| {
                            site.receive(from, message, out);
                        });
                    })*
                    _ => out.all.misbehaved(from, any::OTHER_ALGORITHM),
                }
            }

            /// [`Algorithm::phase`].
            pub fn phase(&self) -> Phase {
                match self { $(AnySite::$algorithm(site) => site.phase(),)* }
            }

            /// [`Algorithm::is_quiet`].
            pub fn is_quiet(&self) -> bool {
                match self { $(AnySite::$algorithm(site) => site.is_quiet(),)* }
            }

            /// [`Algorithm::check_invariants`].
            pub fn check_invariants(&self) -> Result<(), &'static str> {
                match self { $(AnySite::$algorithm(site) => site.check_invariants(),)* }
            }

            /// What is known of its algorithm.
            pub fn info(&self) -> &'static Info {
                match self { $(AnySite::$algorithm(_) => &<$algorithm>::INFO,)* }
            }
        }

        /// Where each algorithm stands in the list.
        #[derive(Clone, Copy)]
        enum Place {
            $($algorithm,)*
        }

        impl AnyMessage {
            /// Which algorithm it is of, by its place in [`ALL`].
            pub fn algorithm(&self) -> usize {
                match self { $(AnyMessage::$algorithm(_) => Place::$algorithm as usize,)* }
            }
        }

        impl crate::Message for AnyMessage {
            fn kind(&self) -> &'static str {
                match self { $(AnyMessage::$algorithm(message) => message.kind(),)* }
            }

            fn words(&self) -> usize {
                match self { $(AnyMessage::$algorithm(message) => message.words(),)* }
            }

            fn tokens(&self) -> usize {
                match self { $(AnyMessage::$algorithm(message) => message.tokens(),)* }
            }
        }
    };
}

pub(super) use any;

/// The calls of a site that carry nothing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Request,
    Release,
    ReleaseAndRequest,
    Wake,
}
