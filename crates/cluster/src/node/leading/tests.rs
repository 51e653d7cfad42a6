//! What is agreed on once and for ever: the identity of the cluster, the first voters, the terms of leases.

use super::super::tests::Lone;
use super::super::{Config, Input, Packet};
use super::*;
use crate::founding::{Founding, FoundingError};
use crate::lease::Terms;
use crate::membership::disk::Disk;
use crate::names::Incarnation;
use crate::time::{Span, Time};

#[test]
fn a_packet_of_another_cluster_is_noted_and_not_looked_at() {
    let mut lone = Lone::start(&["b"], Disk::default());
    lone.write();
    let view = View { epoch: Epoch::new(1).unwrap(), ..View::default() };
    let site: SiteName = "b".parse().unwrap();
    let cluster = Founding::new("elsewhere".parse().unwrap(), std::slice::from_ref(&site)).id();
    let (incarnation, content) = (Incarnation::new(1), Content::View(view));
    lone.sent.clear();
    lone.input(Input::Packet { from: site.clone(), packet: Packet { cluster, incarnation, content } });
    assert_eq!(lone.notes, [Note::OtherCluster { site, cluster }]);
    assert_eq!((lone.node.view(), &lone.sent), (&View::default(), &Vec::new()));
}

#[test]
fn the_first_start_records_the_founding_and_later_ones_must_agree_with_it() {
    let mut lone = Lone::start(&["a", "b"], Disk::default());
    lone.write();
    let disk = lone.disk.clone();
    let voters = |founding: &Founding| founding.voters.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(disk.founding.as_ref().map(voters), Some(vec!["a".to_owned(), "b".to_owned()]));
    let start = |config: Config, disk: &Disk| {
        Node::start(config.check().unwrap(), disk.clone(), Time::ZERO, &mut Vec::new()).err()
    };
    let config = |sites: &[&str]| {
        Config::new("a".parse().unwrap(), sites.iter().map(|site| site.parse().unwrap()).collect())
    };
    assert_eq!(start(config(&["a", "b"]), &disk), None);
    assert!(matches!(start(config(&["a", "c"]), &disk), Some(FoundingError::OtherVoters { .. })));
    let renamed = Config { cluster: "other".parse().unwrap(), ..config(&["a", "b"]) };
    assert!(matches!(start(renamed.clone(), &disk), Some(FoundingError::OtherCluster { .. })));
    assert_eq!(start(renamed, &Disk::default()), None, "an empty disk begins anew");
}

#[test]
fn a_site_follows_the_terms_of_the_first_view_that_it_learns_of_and_of_no_others() {
    let mut lone = Lone::start(&["b"], Disk::default());
    lone.write();
    let configured = lone.node.config.terms;
    let agreed = Terms { length: Span::from_millis(3000), margin: Span::from_millis(200), ..configured };
    let view = |epoch, terms| View { epoch: Epoch::new(epoch).unwrap(), terms, ..View::default() };
    let nonsense = Terms { length: agreed.margin, ..agreed };
    lone.receive_from("b", Content::View(view(1, nonsense)));
    assert_eq!(lone.node.view(), &View::default());
    lone.receive_from("b", Content::View(view(2, agreed)));
    assert_eq!((lone.node.view(), lone.node.config.terms), (&view(2, agreed), agreed));
    assert!(lone.notes.contains(&Note::OtherTerms { agreed, configured }));
    lone.receive_from("b", Content::View(view(3, configured)));
    assert_eq!(lone.node.view(), &view(2, agreed));
    assert!(matches!(lone.notes.last(), Some(Note::Misbehaved { why, .. }) if why.contains("terms")));
    lone.receive_from("b", Content::View(view(3, agreed)));
    assert_eq!(lone.node.view(), &view(3, agreed));
}
