//! What is known of Raymond's algorithm, how it starts, and what must hold.

use std::collections::VecDeque;

use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo,
    Order, Permits, Span, Text, Tokens,
};
use crate::registry::values::Values;
use crate::shared::Shared;
use crate::site::InFlight;
use crate::{
    Algorithm, Cluster, Described, Family, Holders, Numbers, Phase, PlanError, SiteId, View, invariant,
};

use super::{Edge, Holder, Message, Raymond, Tree};

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan {
    tree: Shared<Tree>,
    text: Text,
}

/// A site of the balanced tree has at most three neighbours, and a place in its queue for each and for itself.
const QUIET_SITE: usize = size_of::<Raymond>() + 3 * size_of::<Edge>() + 4 * size_of::<SiteId>();

impl Described for Raymond {
    const INFO: Info = Info {
        name: "raymond",
        title: "Raymond: the privilege moves along a tree whose edges point to it",
        source: "Kshemkalyani & Singhal ch. 9, section 9.12",
        kind: Kind::Token,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::One,
        channels: Channels::Unordered,
        assumes: "reliable channels; for recovery also FIFO and certain knowledge of failures",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "section 9.12.4 gives no number: while a neighbour's REQUEST on behalf of the site is under way, others enter without end",
        ),
        failures: Failures { crash: false, recovery: true, partition: false },
        options: &[
            Tree::option("balanced"),
            OptionInfo::text(
                "printed: recovery ends after a delay, which makes a second privilege; for the checker only",
            ),
        ],
        variants: &["raymond:tree=star", "raymond:tree=line"],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "to the neighbour on the way to the privilege: I wait for it",
            },
            MessageInfo { kind: "PRIVILEGE", about: "to a neighbour that has asked: it is yours" },
            MessageInfo {
                kind: "INITIALIZE",
                about: "at the start, to a neighbour: the privilege is on my side",
            },
            MessageInfo { kind: "RESTART", about: "from a site that runs again, to its neighbours" },
            MessageInfo { kind: "ADVISE", about: "the answer to a RESTART: what the sender knows" },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("2⌊log₂N⌋ from the root, 4⌊log₂N⌋ at worst later", |scale| {
                2.0 * f64::from(scale.sites.ilog2())
            }),
            heavy: Formula::new("4(N−1)/N", |scale| 4.0 * (scale.sites - 1) as f64 / scale.sites as f64),
            always: Some(Span {
                least: Formula::new("0", |_| 0.0),
                most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            }),
            sync_delay: "T to 2T⌊log₂N⌋",
        },
        memory: Memory { fixed: QUIET_SITE, per_site: 0 },
        departures: &[
            "REQUEST and PRIVILEGE carry how often the privilege has crossed their edge: duplicates are recognised",
            "recovery waits for every neighbour, not for a delay (which could make a second privilege)",
            "a failed neighbour leaves the queue, and asks again when it has recovered",
            "neighbours that recover at the same time advise each other; the smaller id takes a lost privilege",
        ],
    };
}

impl Algorithm for Raymond {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        Ok(Plan { tree: Shared::new(Tree::chosen(cluster, values)?), text: values.text() })
    }

    /// All edges point at the home of the privilege.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let home = holders.token_home();
        let mut site = Raymond::unaware(plan, me);
        site.holder = if me == home {
            Holder::Me
        } else {
            Holder::Via { neighbour: plan.tree.toward(me, home), asked: false }
        };
        if holders.contains(me) {
            site.phase = Phase::Executing;
        }
        site
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn is_quiet(&self) -> bool {
        let knows_and_waits_for_nothing = match self.holder {
            Holder::Me | Holder::Via { asked: false, .. } => true,
            Holder::Via { asked: true, .. } | Holder::Unknown | Holder::Sought(_) => false,
        };
        self.phase == Phase::Idle && self.queue.is_empty() && knows_and_waits_for_nothing
    }

    fn tokens(&self) -> usize {
        usize::from(self.holder == Holder::Me)
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        let me = self.me;
        for (neighbour, edge) in self.tree.neighbours(me).zip(&mut self.edges) {
            numbers.number(Family::Pair(me.min(neighbour), me.max(neighbour)), &mut edge.crossings);
        }
    }

    fn view(&self) -> View {
        let view = View::new().queue("REQUEST_Q", &self.queue);
        let neighbours = self.tree.neighbours(self.me);
        let view = neighbours.fold(view, |view, neighbour| view.pointer("tree", neighbour));
        match self.holder {
            Holder::Via { neighbour, .. } if self.phase == Phase::Waiting => {
                view.pointer("HOLDER", neighbour).waiting_for([neighbour])
            }
            Holder::Via { neighbour, .. } => view.pointer("HOLDER", neighbour),
            Holder::Me | Holder::Unknown | Holder::Sought(_) => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        let mut queued = usize::from(self.phase == Phase::Waiting);
        queued += self.edges.iter().filter(|edge| edge.queued).count();
        let belongs = |site: &SiteId| match self.tree.place(self.me, *site) {
            Some(place) => self.edges[place].queued,
            None => *site == self.me && self.phase == Phase::Waiting,
        };
        let no_other = |at: usize| self.queue.iter().skip(at + 1).all(|other| *other != self.queue[at]);
        invariant!(
            self.queue.len() == queued
                && self.queue.iter().all(belongs)
                && (0..self.queue.len()).all(no_other),
            "I1: the queue holds each queued neighbour once, and the site itself while it wants to enter"
        );
        let inside = self.phase == Phase::Executing;
        invariant!(
            if self.holder == Holder::Me { inside || self.queue.is_empty() } else { !inside },
            "I2: only the site that has the privilege is inside; if it is not, nobody is queued there"
        );
        if let Holder::Via { asked, .. } = self.holder {
            invariant!(
                asked || self.queue.is_empty(),
                "I3: a site that has someone queued has asked its HOLDER"
            );
        }
        Ok(())
    }

    fn check_together(sites: &[&Self], _: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let knows = |site: &Self| matches!(site.holder, Holder::Me | Holder::Via { .. });
        let looks_to =
            |a: &Self, b: &Self| matches!(a.holder, Holder::Via { neighbour, .. } if neighbour == b.me);
        for a in sites.iter().filter(|site| knows(site)) {
            for (place, neighbour) in a.tree.neighbours(a.me).enumerate() {
                let b = &sites[neighbour.index()];
                if b.me < a.me || !knows(b) {
                    continue;
                }
                invariant!(
                    looks_to(a, b) || looks_to(b, a),
                    "I4: of two neighbours at least one has the other for its HOLDER"
                );
                let back = b.tree.place(b.me, a.me).expect("neighbours are mutual");
                let apart = a.edges[place].crossings.abs_diff(b.edges[back].crossings);
                invariant!(apart <= 1, "I5: the ends of an edge count its crossings the same, but for one");
            }
        }
        Ok(())
    }
}

impl Raymond {
    /// The site `me` before INITIALIZE has come (section 9.12.6): it does not know where the privilege is. One site of
    /// all must then be chosen and told to [`initialize`](Raymond::initialize) the others.
    pub fn unaware(plan: &Plan, me: SiteId) -> Self {
        let neighbours = plan.tree.degree(me);
        Raymond {
            me,
            tree: plan.tree.clone(),
            text: plan.text,
            incarnation: 0,
            phase: Phase::Idle,
            holder: Holder::Unknown,
            queue: VecDeque::with_capacity(neighbours + 1),
            edges: vec![Edge::default(); neighbours].into(),
        }
    }
}
