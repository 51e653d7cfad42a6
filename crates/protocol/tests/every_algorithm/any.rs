//! The one type over all algorithms behaves as the algorithm inside it, and refuses the messages of others.

use std::collections::VecDeque;

use meshlock_protocol::registry::any::OTHER_ALGORITHM;
use meshlock_protocol::registry::{ALL, AnyMessage, AnyOutbox, AnyPlan, AnySite};
use meshlock_protocol::{Cluster, Effect, Holders, Phase, SiteId, Spec};

/// Lets site 2 of 3 ask, and delivers until nothing is on its way. Gives back what was sent.
fn lone_entry(info: &'static meshlock_protocol::Info) -> (Vec<AnySite>, Vec<AnyMessage>) {
    let plan = AnyPlan::new(&Spec::plain(info), Cluster::of(3)).expect("the defaults fit");
    let mut sites: Vec<AnySite> = SiteId::all(3).map(|me| plan.start(me, &Holders::none())).collect();
    let mut out = AnyOutbox::default();
    let mut on_the_way = VecDeque::new();
    let mut sent = Vec::new();
    let me = SiteId::new(2);
    sites[2].request(&mut out);
    let mut from = me;
    loop {
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => {
                    sent.push(message.clone());
                    on_the_way.push_back((from, to, message));
                }
                Effect::Enter { .. } => assert_eq!(from, me, "{}", info.name),
                Effect::Timer { .. } => {}
                Effect::Misbehaved { why, .. } => panic!("{}: {why}", info.name),
            }
        }
        let Some((sender, to, message)) = on_the_way.pop_front() else { break };
        sites[to.index()].receive(sender, message, &mut out);
        from = to;
    }
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
            site.receive(SiteId::new(1), foreign.clone(), &mut out);
            let reported = Effect::Misbehaved { peer: SiteId::new(1), why: OTHER_ALGORITHM };
            assert_eq!(out.effects(), [reported]);
            assert_eq!(format!("{site:?}"), format!("{:?}", sites[0]));
        }
    }
}
