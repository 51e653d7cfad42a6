//! What is known of Bulgannawar and Vaidya's algorithm, how it starts, and what must hold.

use std::collections::VecDeque;

use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo,
    Order, Permits, Range, Scale, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{Algorithm, Cluster, Described, Holders, Phase, PlanError, SiteId, Slot, View, invariant};

use super::{
    BulgannawarText, BulgannawarToken, BulgannawarVaidya, Choice, Held, Informed, Message, QueueEntry,
    RequestId, Seen, Settings, TokenState, Way,
};

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: Cluster,
    settings: Settings,
}

/// How many are told of an idle token, as in section 5 of the report.
fn informed(scale: Scale) -> f64 {
    2.0_f64.min((scale.sites - 1) as f64)
}

impl Described for BulgannawarVaidya {
    const INFO: Info = Info {
        name: "bulgannawar-vaidya",
        title: "Bulgannawar and Vaidya: K tokens, each found along a forest of pointers",
        source: "Bulgannawar & Vaidya 1994, section 2",
        kind: Kind::Token,
        permits: Permits::Chosen,
        demands: Demands::PLAIN,
        tokens: Tokens::PerPermit,
        channels: Channels::Fifo,
        assumes: "reliable FIFO channels",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "the report's proof gives no number: while others forward the request, sites enter again and again",
        ),
        failures: Failures::NONE,
        options: &[
            OptionInfo {
                name: "inform",
                about: "ν: how many sites are told of a token that becomes idle",
                range: Range::Integer { least: 0, most: 1_000_000 },
                default: "2",
            },
            OptionInfo {
                name: "choice",
                about: "which token a site asks for: the one it last heard of, or any, which the host chooses",
                range: Range::Open { policies: &["last-seen"], any: "random" },
                default: "last-seen",
            },
            OptionInfo {
                name: "informed",
                about: "which sites are told of it: they take turns, or any, which the host chooses",
                range: Range::Open { policies: &["turns"], any: "any" },
                default: "turns",
            },
            OptionInfo::texts(
                BulgannawarText::WORDS,
                "printed: every INFORM is obeyed, however old; others: as the prose has it, or could be read; requests get lost; \
                 for the checker only",
            ),
        ],
        variants: &[
            "bulgannawar-vaidya:inform=0",
            "bulgannawar-vaidya:inform=1",
            "bulgannawar-vaidya:choice=random",
            "bulgannawar-vaidya:inform=0,choice=random",
        ],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants to enter, along one token's pointers",
            },
            MessageInfo { kind: "TOKEN", about: "to the first of its queue, with the queue" },
            MessageInfo { kind: "INFORM", about: "from a site that keeps an idle token, to ν others" },
        ],
        costs: Costs {
            lone_least: Formula::new("ν", informed),
            lone_most: Formula::new("2 + ν at the start, N + ν at worst later", |scale| {
                informed(scale) + if scale.sites > scale.permits { 2.0 } else { 0.0 }
            }),
            heavy: Formula::new("2; ν if K ≥ N", |scale| {
                if scale.sites > scale.permits { 2.0 } else { informed(scale) }
            }),
            always: None,
            sync_delay: "T",
        },
        memory: Memory {
            fixed: size_of::<BulgannawarVaidya>() + size_of::<BulgannawarToken>() + size_of::<Way>(),
            per_site: size_of::<Seen>() + size_of::<Held>() + size_of::<QueueEntry>(),
        },
        departures: &[
            "INFORM is obeyed only if it is news (as printed, a late one closes a circle and a request is lost)",
            "where prose and pseudo-code differ, the pseudo-code",
            "requests are numbered and count their hops, so that duplicates are recognised",
            "which token to ask for and whom to inform, which the report leaves open: the last seen one, in turns; or the host chooses",
        ],
    };
}

impl Algorithm for BulgannawarVaidya {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let choice = if values.get("choice") == "random" { Choice::Random } else { Choice::LastSeen };
        let informed = if values.get("informed") == "any" { Informed::Any } else { Informed::Turns };
        let (inform, text) = (values.integer("inform"), BulgannawarText::of(values));
        let settings = Settings { inform, informed, choice, text };
        Ok(Plan { cluster, settings })
    }

    /// The first tokens are at the holders, the rest where [`Holders::slot_home`] puts them; all pointers lead there.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let Cluster { sites, permits } = plan.cluster;
        let homes = (0..permits).map(|slot| holders.slot_home(slot, sites));
        let ways: Box<[Way]> = homes.map(|pointer| Way { pointer, possessions: 0 }).collect();
        let slot = |at: usize| Slot(u32::try_from(at).expect("tokens are numbered by 32 bits"));
        let state = match ways.iter().position(|way| way.pointer == me) {
            None => TokenState::Away,
            Some(at) => {
                let queue = VecDeque::with_capacity(sites);
                let token = Box::new(BulgannawarToken { id: slot(at), possessions: 0, queue });
                if holders.contains(me) { TokenState::Inside(token) } else { TokenState::Keeping(token) }
            }
        };
        BulgannawarVaidya {
            me,
            cluster: plan.cluster,
            settings: plan.settings,
            state,
            requests: 0,
            node_queue: Vec::with_capacity(sites),
            surplus: ways.iter().filter(|way| way.pointer == me).count().saturating_sub(1),
            last_seen: slot(me.index() % permits),
            ways,
            seen: vec![Seen::default(); sites].into(),
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            TokenState::Away | TokenState::Keeping(_) => Phase::Idle,
            TokenState::Waiting(_) => Phase::Waiting,
            TokenState::Inside(_) => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.phase() == Phase::Idle
    }

    fn tokens(&self) -> usize {
        usize::from(self.token().is_some()) + self.surplus
    }

    fn view(&self) -> View {
        let slots = (0..).map(Slot).zip(&self.ways).filter(|(_, way)| way.pointer != self.me);
        let view = slots.fold(View::new(), |view, (slot, way)| view.pointer_of("pointer", slot, way.pointer));
        let view = view.queue("node-queue", self.node_queue.iter().map(|held| held.ask.site));
        match &self.state {
            TokenState::Keeping(token) | TokenState::Inside(token) => {
                view.queue("token-queue", token.queue.iter().map(|entry| entry.ask.site))
            }
            TokenState::Waiting(slot) => view.waiting_for([self.ways[slot.0 as usize].pointer]),
            TokenState::Away => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(
            self.node_queue.is_empty() || self.phase() == Phase::Waiting,
            "I1: only a waiting site keeps requests in its node-queue"
        );
        if let TokenState::Keeping(token) = &self.state {
            invariant!(token.queue.is_empty(), "I2: the queue of a token that is kept unused is empty");
        }
        if self.settings.text == BulgannawarText::Repaired && self.surplus == 0 {
            let held = self.token().map(|token| token.id.0 as usize);
            let mut ways = self.ways.iter().enumerate();
            invariant!(
                ways.all(|(token, way)| (way.pointer == self.me) == (held == Some(token))),
                "I3: the pointer of a held token is the site itself, and no other pointer is"
            );
        }
        Ok(())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        if sites[0].settings.text != BulgannawarText::Repaired {
            return Ok(());
        }
        let mut expected: Vec<RequestId> = sites
            .iter()
            .filter(|site| site.phase() == Phase::Waiting)
            .map(|site| RequestId { site: site.me, number: site.requests })
            .collect();
        let travelling = in_flight.iter().filter_map(|&(_, _, message)| match message {
            Message::Token(token) => Some(&**token),
            Message::Request { .. } | Message::Inform { .. } => None,
        });
        let tokens: Vec<&BulgannawarToken> =
            sites.iter().filter_map(|site| site.token()).chain(travelling).collect();
        let requests = in_flight.iter().filter_map(|&(_, _, message)| match message {
            Message::Request { ask, .. } => Some(*ask),
            Message::Token(_) | Message::Inform { .. } => None,
        });
        let held = sites.iter().flat_map(|site| site.node_queue.iter().map(|held| held.ask));
        let queued = tokens.iter().flat_map(|token| token.queue.iter().map(|entry| entry.ask));
        let mut found: Vec<RequestId> = requests.chain(held).chain(queued).collect();
        expected.sort_by_key(|ask| ask.site);
        found.sort_by_key(|ask| ask.site);
        invariant!(found == expected, "I4: the request of each waiting site is in exactly one place");
        let mut ids: Vec<Slot> = tokens.iter().map(|token| token.id).collect();
        ids.sort_unstable();
        ids.dedup();
        invariant!(ids.len() == tokens.len(), "I5: each token is in exactly one place");
        Ok(())
    }
}
