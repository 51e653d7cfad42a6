//! Errors that need no run to be shown: a formula or a figure that contradicts its own text.

use meshlock_protocol::algorithms::lodha_kshemkalyani::LodhaKshemkalyani;
use meshlock_protocol::information::InformationStructure;
use meshlock_protocol::quorum::Tree;
use meshlock_protocol::world::World;
use meshlock_protocol::{Effect, Message, SiteId, SiteSet};

/// One quantity: what the text says of it, what its formula or figure gives, and what the repaired one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalculatedValue {
    /// The quantity.
    pub what: String,
    /// The value according to the text.
    pub claimed: String,
    /// The value according to the printed formula, rule or figure.
    pub printed: String,
    /// The value according to the repaired one.
    pub right: String,
}

/// `D_ij` to the letter: 2 if the inform sets meet.
fn printed_delay(structure: &InformationStructure, i: SiteId, j: SiteId) -> usize {
    match i == j {
        true => 0,
        false if structure.inform(i).intersects(structure.inform(j)) => 2,
        false => 1,
    }
}

/// Sanders 1987, section 6.2: D and `D_ij` of her own figures.
pub(super) fn sanders_delay() -> Vec<CalculatedValue> {
    let [s0, _, s2] = SiteId::first();
    let (central, figure_2) = (InformationStructure::figure_1a(), InformationStructure::figure_2());
    let sites = central.sites();
    let pairs = || central.all().flat_map(|i| central.all().map(move |j| (i, j)));
    let ordered_pairs = sites * (sites - 1);
    let mean = |sum: usize| format!("{:.2}", sum as f64 / ordered_pairs as f64);
    vec![
        CalculatedValue {
            what: format!("D of Figure 1a, the centralised structure, N = {sites}"),
            claimed: format!("{:.2}", 2.0 * (sites - 1) as f64 / sites as f64),
            printed: mean(pairs().map(|(i, j)| printed_delay(&central, i, j)).sum()),
            right: mean(pairs().map(|(i, j)| central.delay(i, j)).sum()),
        },
        CalculatedValue {
            what: "D_02 of Figure 2".to_owned(),
            claimed: "1".to_owned(),
            printed: printed_delay(&figure_2, s0, s2).to_string(),
            right: figure_2.delay(s0, s2).to_string(),
        },
    ]
}

/// Sanders 1987, section 6.1: the DM of the fully distributed structure, for site 0.
pub(super) fn sanders_messages() -> Vec<CalculatedValue> {
    let structure = InformationStructure::figure_1b();
    let [i] = SiteId::first();
    let conflict = |j: SiteId| {
        let few = structure.status(j).iter().all(|k| k == i || k == j);
        if few { 1 } else { 4 }
    };
    let printed: usize = structure.request(i).iter().map(conflict).sum();
    vec![CalculatedValue {
        what: format!("DM of Figure 1b, fully distributed, N = {}", structure.sites()),
        claimed: (structure.sites() - 1).to_string(),
        printed: printed.to_string(),
        right: (structure.max_messages(i) - structure.min_messages(i)).to_string(),
    }]
}

/// Algorithm 9.6 to the letter, the left child first: an error ends the search.
fn printed_quorum(tree: Tree, site: SiteId, failed: &SiteSet) -> Result<SiteSet, ()> {
    let mut children = tree.children(site);
    let below =
        |child: Option<SiteId>| child.map_or(Ok(SiteSet::new()), |child| printed_quorum(tree, child, failed));
    if !failed.contains(site) {
        let mut quorum = below(children.next())?;
        quorum.insert(site);
        return Ok(quorum);
    }
    let (mut left, right) = (below(children.next())?, below(children.next())?);
    if left.is_empty() || right.is_empty() {
        return Err(()); // Line 15.
    }
    left.union_with(&right);
    Ok(left)
}

/// Chapter 9, section 9.9.4: fewer than log n failures leave a quorum.
pub(super) fn tree_quorums() -> Vec<CalculatedValue> {
    let calculate = |levels: u32| {
        let sites = (1_usize << levels) - 1;
        let tree = Tree::new(sites);
        let chosen = |bits: usize| -> SiteSet {
            SiteId::all(sites).filter(|site| bits >> site.index() & 1 == 1).collect()
        };
        let few: Vec<SiteSet> =
            (0..1 << sites).map(chosen).filter(|failed| failed.len() < levels as usize).collect();
        let printed = few.iter().filter(|failed| printed_quorum(tree, Tree::root(), failed).is_ok()).count();
        let right = few.iter().filter(|failed| tree.quorum(failed, |_| true).is_some()).count();
        CalculatedValue {
            what: format!("sets of fewer than {levels} failed sites that leave a quorum, N = {sites}"),
            claimed: few.len().to_string(),
            printed: printed.to_string(),
            right: right.to_string(),
        }
    };
    vec![calculate(3), calculate(4)]
}

/// Chapter 9, Figures 9.11 to 9.15: what Algorithm 9.4 itself, to the letter and repaired, lets P2 send.
pub(super) fn figure_9_15() -> Vec<CalculatedValue> {
    vec![CalculatedValue {
        what: "what P2 sends to P3, whose request is not concurrent with its own".to_owned(),
        claimed: sent_in_figure_9_15("printed"),
        printed: "FLUSH".to_owned(),
        right: sent_in_figure_9_15("repaired"),
    }]
}

fn sent_in_figure_9_15(text: &str) -> String {
    let [p1, p2, p3] = SiteId::first();
    let mut world = World::<LodhaKshemkalyani>::with(3, &[("text", text)]);
    // Figure 9.11: P1 and P2 ask at once; P1's REQUEST to P3 is slow. Figure 9.12: P3 replies to P2.
    let _ = (world.request(p1), world.request(p2));
    let _ = (world.deliver(p1, p2), world.deliver(p2, p1), world.deliver(p2, p3), world.deliver(p3, p2));
    // Figure 9.13: P3 asks, then P1's REQUEST arrives. Figure 9.14: P1 enters, leaves, and P2 enters.
    let _ = (world.request(p3), world.deliver(p1, p3), world.deliver(p3, p2), world.deliver(p3, p1));
    let _ = (world.release(p1), world.deliver(p1, p2));
    let kinds = world.release(p2).into_iter().filter_map(|effect| match effect {
        Effect::Send { to, message } if to == p3 => Some(message.kind()),
        Effect::Send { .. }
        | Effect::Enter { .. }
        | Effect::Upgraded
        | Effect::Timer { .. }
        | Effect::Chose { .. }
        | Effect::Misbehaved { .. } => None,
    });
    kinds.collect::<Vec<_>>().join(", ")
}
