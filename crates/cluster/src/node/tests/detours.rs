//! Packets that another site carries: who may carry them, and for whom.

use super::*;
use crate::mutant;

/// A voter `a` of eight sites; the last one, `h`, does not vote. Only `a`, `b` and `h` take part.
fn voter() -> Lone {
    let mut lone = Lone::start(&["a", "b", "c", "d", "e", "f", "g", "h"], Disk::default());
    lone.write();
    let members =
        ["a", "b", "h"].map(|site| Member { site: site.parse().unwrap(), incarnation: Incarnation::new(1) });
    let addresses = members.iter().map(|member| (member.site.clone(), Address::from(&member.site))).collect();
    let terms = lone.node.config.terms;
    let epoch = Epoch::new(1).unwrap();
    let view = View { epoch, members: members.to_vec(), addresses, terms, ..View::default() };
    lone.receive_from("b", Content::View(view));
    lone.write();
    assert_eq!(lone.node.view().members.len(), 3);
    lone.sent.clear();
    lone.notes.clear();
    lone
}

fn carried(lone: &mut Lone, carrier: &str, route: Route, content: Content) {
    let packet = Packet { route, ..Packet::direct(lone.node.cluster, Incarnation::new(1), content) };
    lone.input(Input::Packet { from: carrier.parse().unwrap(), packet });
}

fn name(text: &str) -> SiteName {
    text.parse().unwrap()
}

fn blames(lone: &Lone) -> Vec<&SiteName> {
    let mut blamed = Vec::new();
    for note in &lone.notes {
        if let Note::Misbehaved { site, .. } = note {
            blamed.push(site);
        }
    }
    blamed
}

#[test]
fn a_carried_packet_is_believed_only_if_a_voter_carries_it() {
    let beat = || Content::Beat { sent: Time::from_micros(300), hearing: Hearing::Nothing };
    let suspects = |lone: &Lone| lone.node.detours.is_suspect(&name("b"));
    let mut lone = voter();
    carried(&mut lone, "h", Route::From(name("b")), beat());
    // It may have become a voter meanwhile, and is not blamed.
    let doubted = |note: &Note| matches!(note, Note::Doubted { site, .. } if *site == name("h"));
    assert_eq!((suspects(&lone), blames(&lone)), (false, vec![]));
    assert!(lone.notes.iter().any(doubted));
    mutant::with(Mutant::AnyoneCarries, || {
        let mut lone = voter();
        carried(&mut lone, "h", Route::From(name("b")), beat());
        assert!(suspects(&lone), "the mutant believes it");
    });
    let mut lone = voter();
    carried(&mut lone, "c", Route::From(name("b")), beat());
    assert_eq!((suspects(&lone), blames(&lone)), (true, vec![]));
}

#[test]
fn nobody_carries_packets_to_itself_or_to_their_sender_or_pretends_to_be_another() {
    for (from, route) in [
        ("b", Route::To(name("a"))),
        ("b", Route::To(name("b"))),
        ("b", Route::From(name("a"))),
        ("b", Route::From(name("b"))),
    ] {
        let mut lone = voter();
        carried(&mut lone, from, route.clone(), Content::Ping);
        assert_eq!((lone.sent.len(), blames(&lone)), (0, vec![&name(from)]), "{route:?}");
    }
}

#[test]
fn a_voter_carries_for_and_to_members_and_voters_and_for_nobody_else() {
    for (from, to, is_carried) in
        [("b", "h", true), ("x", "h", true), ("h", "x", false), ("c", "x", false), ("x", "y", false)]
    {
        let mut lone = voter();
        carried(&mut lone, from, Route::To(name(to)), Content::Ping);
        let sent = if is_carried { vec![(name(to), Content::Ping)] } else { vec![] };
        assert_eq!(lone.sent, sent, "from {from} to {to}");
        assert_eq!(blames(&lone), Vec::<&SiteName>::new());
    }
}

#[test]
fn nothing_is_carried_to_a_site_whose_program_is_too_old() {
    for carries in [false, true] {
        let mut lone = voter();
        let abilities = Abilities { carries, ..Abilities::ALL };
        lone.input(Input::Connected { site: name("h"), abilities });
        lone.sent.clear();
        carried(&mut lone, "b", Route::To(name("h")), Content::Ping);
        assert_eq!(!lone.sent.is_empty(), carries);
    }
}

/// Returns what `a` says, in the order of its beats, of how it hears `b`, whose first beat comes through `c` and then directly.
fn says_of_a_beat_that_came_twice() -> Vec<Hearing> {
    let mut lone = voter();
    let beat = || Content::Beat { sent: Time::from_micros(300), hearing: Hearing::Nothing };
    carried(&mut lone, "c", Route::From(name("b")), beat());
    lone.receive_from("b", beat());
    // Copies that others carry come, too, and nothing more is said because of them.
    carried(&mut lone, "d", Route::From(name("b")), beat());
    lone.receive_from("b", beat());
    let mut said = BTreeMap::new();
    for (_, content) in lone.sent {
        if let Content::Beat { sent, hearing } = content {
            let before = said.insert(sent, hearing.clone());
            assert!(before.is_none_or(|before| before == hearing), "one of two beats must be the newer one");
        }
    }
    said.into_values().collect()
}

#[test]
fn a_peer_whose_first_beat_was_carried_is_told_at_once_that_it_is_heard_directly() {
    let through = Hearing::Through(name("c"));
    assert_eq!(says_of_a_beat_that_came_twice(), [through.clone(), Hearing::Directly]);
    let said = mutant::with(Mutant::DirectWayNotTold, says_of_a_beat_that_came_twice);
    assert_eq!(said, [through]);
}
