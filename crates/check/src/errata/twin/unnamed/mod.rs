//! Rules for quorums as two texts print them, with messages that do not say which request they are about.
//!
//! What ships names the request and the turn in every message, so that an answer to something that is over is recognised. The printed
//! messages name only their sender. That matters where a YIELD answers an INQUIRE that is no longer open, and no variant of what ships
//! can show it. So here are the printed rules as one small machine, for the readings that they allow:
//!
//! - Kshemkalyani and Singhal, chapter 9, section 9.9.5, rules 1 to 8 (`text=tree-…`);
//! - Sanders 1987, section 5 (`text=sanders-…`), with every INQUIRE answered when it comes, as printed.
//!
//! Over FIFO channels, without failures. Whom a site asks and informs is an information structure; the tree's is a path through the
//! site itself. A message of a site to itself is handled at once.

mod message;

use meshlock_protocol::information::InformationStructure;
use meshlock_protocol::information::notation::NOTATION;
use meshlock_protocol::quorum::Tree;
use meshlock_protocol::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo,
    Order, Permits, Range, Tokens,
};
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{
    Algorithm, Clock, Cluster, Described, Holders, Outbox, Phase, PlanError, Shared, Site, SiteId, SiteSet,
    Timestamp,
};

pub(crate) use message::Message;

/// A reading of one of the two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reading {
    /// Section 9.9.5. The head of the queue is the earliest request, whether or not it has had the REPLY: rule 2 orders the queue by
    /// timestamps, and rule 6 inquires of the head.
    TreeLiteral,
    /// The head is the request that has had the REPLY. Every earlier request makes the site inquire.
    TreeEvery,
    /// The same, but a site that has inquired waits for the answer, and takes only a YIELD of the site that it has inquired of.
    TreeWaiting,
    /// Section 5. A FAIL is a reason to yield until the request has been executed, also inside the critical section.
    SandersFailInside,
    /// The same, but only while the site waits.
    SandersFailKept,
    /// A FAIL is a reason to yield until its sender grants. A site that waits yields also what it has not been granted.
    SandersUngranted,
}

impl Reading {
    const WORDS: &[&str] = &[
        "tree-literal",
        "tree-every",
        "tree-waiting",
        "sanders-fail-inside",
        "sanders-fail-kept",
        "sanders-ungranted",
    ];

    fn of(values: &Values) -> Self {
        match values.get("text") {
            "tree-literal" => Reading::TreeLiteral,
            "tree-every" => Reading::TreeEvery,
            "sanders-fail-inside" => Reading::SandersFailInside,
            "sanders-fail-kept" => Reading::SandersFailKept,
            "sanders-ungranted" => Reading::SandersUngranted,
            _ => Reading::TreeWaiting,
        }
    }

    fn is_of_sanders(self) -> bool {
        !matches!(self, Reading::TreeLiteral | Reading::TreeEvery | Reading::TreeWaiting)
    }
}

/// One site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnnamedQuorum {
    me: SiteId,
    plan: Plan,
    clock: Clock,
    process: Phase,
    /// The sites that have granted the request.
    granted: SiteSet,
    /// The sites whose FAIL is a reason to yield.
    refused: SiteSet,
    /// The sites that were sent a YIELD and have not granted again.
    yielded: SiteSet,
    /// The request at the head (rules 3 and 6), CSSTAT (section 5).
    head: Option<Timestamp>,
    /// The other requests, the earliest first.
    queue: Vec<Timestamp>,
    /// The sites with a request here that has been granted.
    replied: SiteSet,
    /// The sites with a request here that has been sent FAIL.
    told: SiteSet,
    /// The INQUIREs without an answer: the site, and the request on whose behalf.
    inquiries: Vec<(SiteId, Timestamp)>,
    /// The clock of the last request of each site.
    last: Box<[Clock]>,
}

impl Site for UnnamedQuorum {
    type Message = Message;

    /// Rule 1. The own request comes last and is answered within this step.
    fn request(&mut self, out: &mut Outbox<Message>) {
        self.process = Phase::Waiting;
        (self.granted, self.refused, self.yielded) = (SiteSet::new(), SiteSet::new(), SiteSet::new());
        let clock = self.clock.tick();
        let structure = self.plan.structure.clone();
        let (own, others): (Vec<SiteId>, Vec<SiteId>) =
            structure.request(self.me).iter().partition(|&site| site == self.me);
        for site in others.into_iter().chain(own) {
            self.say(site, Message::Request { clock }, out);
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        match message {
            Message::Request { clock } => self.on_request(Timestamp::new(clock, from), out),
            Message::Grant => self.on_grant(from, out),
            Message::Fail => {
                self.refused.insert(from);
            }
            Message::Inquire => self.on_inquire(from, out),
            Message::Yield => self.on_yield(from, out),
            Message::Release => self.on_release(from, out),
        }
    }

    /// Rule 5.
    fn release(&mut self, out: &mut Outbox<Message>) {
        self.process = Phase::Idle;
        for site in self.plan.structure.clone().inform(self.me).iter() {
            self.say(site, Message::Release, out);
        }
    }
}

impl UnnamedQuorum {
    fn say(&mut self, to: SiteId, message: Message, out: &mut Outbox<Message>) {
        if to == self.me { self.receive(to, message, out) } else { out.send(to, message) }
    }

    /// Rule 4; section 3.2, entry code.
    fn on_grant(&mut self, from: SiteId, out: &mut Outbox<Message>) {
        if self.process != Phase::Waiting {
            return;
        }
        self.granted.insert(from);
        self.yielded.remove(from);
        if self.plan.reading == Reading::SandersUngranted {
            self.refused.remove(from);
        }
        if self.plan.structure.request(self.me).is_subset(&self.granted) {
            self.process = Phase::Executing;
            out.enter();
        }
    }

    /// Rule 7; section 5, INQUIRE.
    fn on_inquire(&mut self, from: SiteId, out: &mut Outbox<Message>) {
        let waits = self.process == Phase::Waiting;
        let must_wait = !self.refused.is_empty() || !self.yielded.is_empty();
        let is_due = match self.plan.reading {
            Reading::TreeLiteral | Reading::TreeEvery | Reading::TreeWaiting => waits,
            Reading::SandersFailInside => must_wait && self.granted.contains(from),
            Reading::SandersFailKept => waits && must_wait && self.granted.contains(from),
            Reading::SandersUngranted => waits && must_wait,
        };
        if is_due {
            self.granted.remove(from);
            self.yielded.insert(from);
            self.say(from, Message::Yield, out);
        }
    }

    /// Rules 2, 3 and 6; section 5, REQUEST.
    fn on_request(&mut self, request: Timestamp, out: &mut Outbox<Message>) {
        self.clock.observe(request.clock);
        self.last[request.site.index()] = request.clock;
        self.told.remove(request.site);
        self.enqueue(request);
        let Some(head) = self.head else { return self.grant_next(out) };
        let is_earlier = request < head;
        if self.plan.reading.is_of_sanders() {
            return self.consider(request, is_earlier, head.site, out);
        }
        let may_inquire = self.plan.reading != Reading::TreeWaiting || self.inquiries.is_empty();
        if is_earlier && may_inquire {
            if self.plan.reading == Reading::TreeLiteral {
                self.move_to_head(request);
            }
            self.inquiries.push((head.site, request));
            self.say(head.site, Message::Inquire, out);
        }
    }

    /// Section 5, REQUEST, step 2.
    fn consider(&mut self, request: Timestamp, is_earlier: bool, holder: SiteId, out: &mut Outbox<Message>) {
        let must_wait = |other: &&Timestamp| **other > request || (**other == request && !is_earlier);
        let behind: Vec<SiteId> = self.queue.iter().filter(must_wait).map(|other| other.site).collect();
        for site in behind {
            if self.told.insert(site) {
                self.say(site, Message::Fail, out);
            }
        }
        if is_earlier && self.inquiries.is_empty() {
            self.inquiries.push((holder, request));
            self.say(holder, Message::Inquire, out);
        }
    }

    /// Rule 8; section 5, YIELD.
    fn on_yield(&mut self, from: SiteId, out: &mut Outbox<Message>) {
        let found = self.inquiries.iter().position(|&(site, _)| site == from);
        if self.plan.reading.is_of_sanders() {
            self.replied.remove(from);
            self.enqueue(Timestamp::new(self.last[from.index()], from));
            self.head = None;
            self.inquiries.clear();
            return self.grant_next(out);
        }
        if let Some(at) = found {
            let (_, pending) = self.inquiries.remove(at);
            self.replied.remove(from);
            self.move_to_head(pending);
            self.reply(pending.site, out);
        }
    }

    /// Rule 5; section 3.2, RELEASE.
    fn on_release(&mut self, from: SiteId, out: &mut Outbox<Message>) {
        self.replied.remove(from);
        self.inquiries.retain(|(asked, pending)| *asked != from && pending.site != from);
        self.queue.retain(|request| request.site != from);
        self.head = self.head.filter(|head| head.site != from);
        if self.head.is_none() {
            self.grant_next(out);
        }
    }

    fn enqueue(&mut self, request: Timestamp) {
        self.queue.retain(|other| other.site != request.site);
        let at = self.queue.partition_point(|other| *other < request);
        self.queue.insert(at, request);
    }

    /// Makes `request` the head; the former one goes back to where its timestamp belongs.
    fn move_to_head(&mut self, request: Timestamp) {
        self.queue.retain(|other| *other != request);
        if let Some(former) = self.head.replace(request).filter(|former| *former != request) {
            self.enqueue(former);
        }
    }

    /// Rule 3; section 3.2, RELEASE, steps 2 and 3: the earliest request becomes the head, unless its grant need not be remembered.
    fn grant_next(&mut self, out: &mut Outbox<Message>) {
        while self.head.is_none() && !self.queue.is_empty() {
            let next = self.queue.remove(0);
            let is_remembered = self.plan.structure.status(self.me).contains(next.site);
            self.head = is_remembered.then_some(next);
            self.reply(next.site, out);
        }
    }

    /// Grants the request of `site`, unless it has been granted.
    fn reply(&mut self, site: SiteId, out: &mut Outbox<Message>) {
        if !self.plan.structure.status(self.me).contains(site) || self.replied.insert(site) {
            self.say(site, Message::Grant, out);
        }
    }
}

/// What all sites share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Plan {
    structure: Shared<InformationStructure>,
    reading: Reading,
}

const MESSAGES: Formula = Formula::new("3(k−1) or more", |scale| 3.0 * (scale.quorum - 1) as f64);

impl Described for UnnamedQuorum {
    const INFO: Info = Info {
        name: "unnamed-quorum",
        title: "Rules for quorums as they are printed, with messages that name no request",
        source: "Kshemkalyani & Singhal ch. 9, section 9.9.5; Sanders 1987, section 5",
        kind: Kind::Quorum,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Fifo,
        assumes: "reliable FIFO channels; no failures",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing("only errata use it"),
        failures: Failures { crash: false, recovery: false, partition: false },
        options: &[
            OptionInfo {
                name: "structure",
                about: "who informs and asks whom",
                range: Range::WordsOr { words: &["tree"], notation: NOTATION },
                default: "tree",
            },
            OptionInfo {
                name: "text",
                about: "which text in which reading",
                range: Range::Choice(Reading::WORDS),
                default: "tree-waiting",
            },
        ],
        variants: &[],
        messages: &[
            MessageInfo { kind: "REQUEST", about: "from a site that wants to enter, to its request set" },
            MessageInfo { kind: "GRANT", about: "REPLY in the chapter: from a site that consents" },
            MessageInfo { kind: "FAIL", about: "from a site that grants an earlier request first" },
            MessageInfo { kind: "INQUIRE", about: "asks for a grant back, on behalf of an earlier request" },
            MessageInfo { kind: "YIELD", about: "gives a grant back" },
            MessageInfo { kind: "RELEASE", about: "from a site that has left, to its inform set" },
        ],
        costs: Costs {
            lone_least: MESSAGES,
            lone_most: MESSAGES,
            heavy: MESSAGES,
            always: None,
            sync_delay: "2T",
        },
        memory: Memory { fixed: 600, per_site: 40 },
        departures: &[],
    };
}

impl Algorithm for UnnamedQuorum {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let sites = cluster.sites;
        let structure = match values.get("structure") {
            "tree" => InformationStructure::from_fn(sites, |site| {
                let path = Tree::new(sites).quorum_for(site, &SiteSet::new());
                let path = path.expect("no site has failed");
                (path.clone(), path)
            }),
            given => InformationStructure::parse(sites, given)
                .map_err(|error| PlanError::Option { option: "structure", why: error.to_string() })?,
        };
        Ok(Plan { structure: Shared::new(structure), reading: Reading::of(values) })
    }

    /// Nobody waits. No run of this machine begins with a holder.
    fn start(plan: &Plan, me: SiteId, _: &Holders) -> Self {
        UnnamedQuorum {
            me,
            plan: plan.clone(),
            clock: Clock::ZERO,
            process: Phase::Idle,
            granted: SiteSet::new(),
            refused: SiteSet::new(),
            yielded: SiteSet::new(),
            head: None,
            queue: Vec::new(),
            replied: SiteSet::new(),
            told: SiteSet::new(),
            inquiries: Vec::new(),
            last: vec![Clock::ZERO; plan.structure.sites()].into(),
        }
    }

    fn phase(&self) -> Phase {
        self.process
    }

    fn is_quiet(&self) -> bool {
        self.process == Phase::Idle
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        Ok(())
    }
}
