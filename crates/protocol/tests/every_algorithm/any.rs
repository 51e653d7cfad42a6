//! The type that can contain any algorithm behaves like the algorithm inside it, and refuses messages of others.

use std::collections::VecDeque;

use meshlock_protocol::registry::any::OTHER_ALGORITHM;
use meshlock_protocol::registry::{ALL, AnyMessage, AnyOutbox, AnyPlan, AnySite, SiteCall, Visitor, plan};
use meshlock_protocol::{
    Algorithm, Cluster, Demand, Effect, Holders, Message, Outbox, Phase, Site, SiteId, SiteSet, Spec,
};
use meshlock_testing::within_steps;

/// Lets site 2 of 3 request and delivers all messages. Returns the sites and the messages that were sent.
fn lone_entry(info: &'static meshlock_protocol::Info) -> (Vec<AnySite>, Vec<AnyMessage>) {
    let plan = AnyPlan::new(&Spec::plain(info), Cluster::of(3)).expect("the defaults fit");
    let mut sites: Vec<AnySite> = SiteId::all(3).map(|me| plan.start(me, &Holders::none())).collect();
    let mut out = AnyOutbox::default();
    let mut on_the_way = VecDeque::new();
    let mut sent = Vec::new();
    let me = SiteId::new(2);
    sites[2].call(SiteCall::Request(Demand::PLAIN), &mut out);
    let mut from = me;
    within_steps("no message is on its way", || {
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => {
                    sent.push(message.clone());
                    on_the_way.push_back((from, to, message));
                }
                Effect::Enter { .. } => assert_eq!(from, me, "{}", info.name),
                Effect::Upgraded | Effect::Timer { .. } | Effect::Chose { .. } => {}
                Effect::Misbehaved { why, .. } => panic!("{}: {why}", info.name),
            }
        }
        let Some((sender, to, message)) = on_the_way.pop_front() else { return true };
        sites[to.index()].deliver(sender, message, &mut out);
        from = to;
        false
    });
    (sites, sent)
}

#[test]
fn every_algorithm_lets_a_lone_site_in_through_the_common_type() {
    for info in ALL {
        let (sites, _) = lone_entry(info);
        assert_eq!(sites[2].phase(), Phase::Executing, "{}", info.name);
        assert_eq!(sites[2].info().name, info.name);
        assert_eq!(sites[2].check_invariants(), Ok(()));
    }
}

#[test]
fn a_message_of_another_algorithm_changes_nothing_and_is_reported() {
    let runs: Vec<_> = ALL.iter().map(|info| lone_entry(info)).collect();
    for (at, (sites, _)) in runs.iter().enumerate() {
        for (_, sent) in runs.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, run)| run) {
            let Some(foreign) = sent.first() else { continue };
            let (mut site, mut out) = (sites[0].clone(), AnyOutbox::default());
            site.deliver(SiteId::new(1), foreign.clone(), &mut out);
            let reported = Effect::Misbehaved { peer: SiteId::new(1), why: OTHER_ALGORITHM };
            assert_eq!(out.effects(), [reported]);
            assert_eq!(site, sites[0]);
        }
    }
}

/// Everything that a host can read from a site.
fn answers<A: Algorithm>(site: &A) -> String {
    let down: SiteSet = [SiteId::new(0)].into_iter().collect();
    let state = (format!("{site:?}"), site.info().name, site.view(), site.check_invariants());
    let shared = (site.mode(), site.is_upgrading(), site.may_share());
    let process = (site.phase(), shared, site.is_quiet(), site.timestamp(), site.tokens(), site.quorum());
    let limits = (site.survives(&down), site.cost_span().map(|span| span.most.text), site.is_within_bounds());
    format!("{state:?} {process:?} {limits:?}")
}

/// Everything that a host can read from a message.
fn printed<M: Message>(effects: &[Effect<M>]) -> Vec<String> {
    let print = |effect: &Effect<M>| match effect {
        Effect::Send { message, .. } => {
            format!("{effect:?} {} {} {}", message.kind(), message.words(), message.tokens())
        }
        Effect::Enter { .. }
        | Effect::Upgraded
        | Effect::Timer { .. }
        | Effect::Chose { .. }
        | Effect::Misbehaved { .. } => {
            format!("{effect:?}")
        }
    };
    effects.iter().map(print).collect()
}

/// Starts site 2 of 3 as its own type and in the enum, lets both request, and compares them.
struct Compare;

impl Visitor for Compare {
    type Output = ();

    fn visit<A: Algorithm>(self, spec: &Spec) {
        let (cluster, me) = (Cluster::of(3), SiteId::new(2));
        for holders in [Holders::none(), Holders::new(cluster, [me]).expect("a site of the cluster")] {
            let plan = plan::<A>(cluster, &spec.values).expect("the tested options fit");
            let mut own = A::start(&plan, me, &holders);
            let any = AnyPlan::new(spec, cluster).expect("the tested options fit");
            let mut any = any.start(me, &holders);
            assert_eq!(answers(&own), answers(&any), "{spec}");
            let (mut own_effects, mut any_effects) = (Outbox::new(), Outbox::new());
            if holders.is_empty() {
                own.request(&mut own_effects);
                any.request(&mut any_effects);
            } else {
                own.release_and_request(&mut own_effects);
                any.release_and_request(&mut any_effects);
            }
            assert_eq!(answers(&own), answers(&any), "{spec}");
            assert_eq!(printed(own_effects.effects()), printed(any_effects.effects()), "{spec}");
        }
    }
}

#[test]
fn the_common_type_answers_and_prints_as_the_site_inside_it() {
    for spec in ALL.iter().flat_map(|info| info.specs()) {
        spec.parse::<Spec>().expect("a spec of the registry").visit(Compare);
    }
}
