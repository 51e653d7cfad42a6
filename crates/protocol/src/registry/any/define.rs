//! Writes the enums over all algorithms, and the matches that need the name of a variant. Everything else about them is
//! plain code beside this file.

/// Defines the enums from the list of algorithms. The number of an algorithm is how a message names it when it is encoded: it is
/// never changed and never used again. `$d` is a dollar sign, for the macros that this one defines.
macro_rules! any {
    ($d:tt $($number:literal => $algorithm:ident,)*) => {
        /// What some algorithm prepares before its sites start.
        #[derive(Clone, Debug)]
        pub enum AnyPlan {
            $(#[doc = concat!("Of [`", stringify!($algorithm), "`].")]
            $algorithm(<$algorithm as Algorithm>::Plan),)*
        }

        /// One site of some algorithm. Boxed: a node keeps a million of them, and the largest is many times the smallest.
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum AnySite {
            $(#[doc = concat!("Of [`", stringify!($algorithm), "`].")]
            $algorithm(Box<$algorithm>),)*
        }

        /// A message of some algorithm.
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum AnyMessage {
            $(#[doc = concat!("Of [`", stringify!($algorithm), "`].")]
            $algorithm(<$algorithm as Site>::Message),)*
        }

        #[cfg(feature = "serde")]
        crate::numbered! { AnyMessage {
            $($number => $algorithm(message),)*
        } }

        #[cfg(feature = "serde")]
        impl AnyMessage {
            /// The name of each algorithm's variant, with the numbers and names of its messages' variants.
            pub const VARIANTS_OF_EACH: &[(&str, &[(u32, &str)])] = &[$((
                stringify!($algorithm),
                <<$algorithm as Site>::Message as crate::Numbered>::VARIANTS,
            ),)*];
        }

        /// One outbox for each algorithm: its sites write here, before their messages are wrapped.
        #[derive(Clone, Debug, Default)]
        #[expect(non_snake_case, reason = "one field for each algorithm, with the algorithm's name")]
        struct Scratch {
            $($algorithm: Outbox<<$algorithm as Site>::Message>,)*
        }

        /// The position of each algorithm in the list.
        #[derive(Clone, Copy)]
        enum Position {
            $($algorithm,)*
        }

        /// `of_site!(any, site => …)`: the expression for the site that is in `any`, whatever its type.
        macro_rules! of_site {
            ($d any:expr, $d site:pat => $d value:expr) => {
                match $d any { $(AnySite::$algorithm($d site) => $d value,)* }
            };
        }

        /// The same for a message.
        macro_rules! of_message {
            ($d any:expr, $d message:pat => $d value:expr) => {
                match $d any { $(AnyMessage::$algorithm($d message) => $d value,)* }
            };
        }

        use {of_message, of_site};

        impl AnyMessage {
            /// Which algorithm it is of: an index into [`ALL`].
            pub fn algorithm(&self) -> usize {
                match self { $(AnyMessage::$algorithm(_) => Position::$algorithm as usize,)* }
            }
        }

        impl AnySite {
            /// Makes one call.
            fn dispatch(&mut self, call: SiteCall<'_>, scratch: &mut Scratch, out: &mut Outbox<AnyMessage>) {
                match self {
                    $(AnySite::$algorithm(site) => {
                        let own = &mut scratch.$algorithm;
                        own.swap_chooser(out);
                        match call {
                            SiteCall::Request(demand) => site.request_as(demand, own),
                            SiteCall::Release => site.release(own),
                            SiteCall::ReleaseAndRequest(demand) => site.release_and_request_as(demand, own),
                            SiteCall::ChangeMode(to) => site.change_mode(to, own),
                            SiteCall::PeerFailed(peer) => site.peer_failed(peer, own),
                            SiteCall::PeerRecovered(peer) => site.peer_recovered(peer, own),
                            SiteCall::Restart => site.restart(own),
                            SiteCall::Partitioned(away) => site.partitioned(away, own),
                            SiteCall::Reunited(back) => site.reunited(back, own),
                            SiteCall::Wake => site.wake(own),
                        }
                        own.swap_chooser(out);
                        out.extend(own.drain().map(|effect| effect.map(AnyMessage::$algorithm)));
                    })*
                }
            }

            /// Delivers a message. One of another algorithm changes nothing and is reported.
            fn dispatch_message(
                &mut self,
                from: SiteId,
                message: AnyMessage,
                scratch: &mut Scratch,
                out: &mut Outbox<AnyMessage>,
            ) {
                match (self, message) {
                    $((AnySite::$algorithm(site), AnyMessage::$algorithm(message)) => {
                        let own = &mut scratch.$algorithm;
                        own.swap_chooser(out);
                        site.receive(from, message, own);
                        own.swap_chooser(out);
                        out.extend(own.drain().map(|effect| effect.map(AnyMessage::$algorithm)));
                    })*
                    _ => out.misbehaved(from, any::OTHER_ALGORITHM),
                }
            }

            /// [`Algorithm::plan`] of the algorithm whose options are given.
            fn plan_named(cluster: Cluster, values: &Values) -> Result<AnyPlan, PlanError> {
                $(if values.info().name == <$algorithm>::INFO.name {
                    return <$algorithm>::plan(cluster, values).map(AnyPlan::$algorithm);
                })*
                unreachable!("the options are those of a registered algorithm")
            }

            /// [`Algorithm::start`] of the algorithm that is planned.
            fn start_planned(plan: &AnyPlan, me: SiteId, holders: &Holders) -> AnySite {
                match plan {
                    $(AnyPlan::$algorithm(plan) => {
                        AnySite::$algorithm(Box::new(<$algorithm>::start(plan, me, holders)))
                    })*
                }
            }

            /// [`Algorithm::check_together`] of the algorithm that the sites run, which is the same at all of them.
            fn check_unwrapped(
                sites: &[&AnySite],
                in_flight: &[InFlight<'_, AnyMessage>],
            ) -> Result<(), &'static str> {
                match sites.first() {
                    None => Ok(()),
                    $(Some(AnySite::$algorithm(_)) => {
                        let sites = sites.iter().filter_map(|site| {
                            if let AnySite::$algorithm(site) = site { Some(&**site) } else { None }
                        });
                        let in_flight = in_flight.iter().filter_map(|&(from, to, message)| {
                            if let AnyMessage::$algorithm(message) = message { Some((from, to, message)) } else { None }
                        });
                        let (sites, in_flight): (Vec<_>, Vec<_>) = (sites.collect(), in_flight.collect());
                        <$algorithm>::check_together(&sites, &in_flight)
                    })*
                }
            }
        }
    };
}

pub(in crate::registry) use any;
