//! One site of a quorum algorithm: both halves, over any coterie.

use std::fmt::Debug;
use std::hash::Hash;

use crate::registry::info::Span;
use crate::registry::values::Values;
use crate::shared::Shared;
use crate::site::InFlight;
use crate::{
    Algorithm, Clock, Cluster, Described, Holders, Info, NOT_A_PEER, Numbers, Outbox, Phase, PlanError, Site,
    SiteId, SiteSet, Timestamp, View, invariant,
};

use super::{Arbiter, DeadlockRules, Judged, Message, Post, Presence, Requester};

/// The quorums that sites may form: every two of them meet, whatever is known of failures where. This is all that
/// differs from one quorum algorithm to the next.
pub trait Coterie: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// What is known of the algorithm with these quorums.
    const INFO: Info;

    /// Builds the quorums that the options ask for.
    fn build(cluster: Cluster, values: &Values) -> Result<Self, PlanError>;

    /// How deadlocks are kept away.
    fn rules(&self) -> DeadlockRules;

    /// How many sites there are.
    fn sites(&self) -> usize;

    /// Whom the process at `me` asks when its clock shows `clock`, if the sites of `absent` cannot be asked; `None` if
    /// that leaves no quorum.
    fn quorum(&self, me: SiteId, clock: Clock, absent: &SiteSet) -> Option<SiteSet>;

    /// Whether the host chooses the quorum of each request, and not [`quorum`](Coterie::quorum).
    fn is_open(&self) -> bool {
        false
    }

    /// Any quorum without the sites of `absent`, which the host chooses; `None` if there is none.
    fn any_quorum(&self, absent: &SiteSet, post: &mut Post<'_>) -> Option<SiteSet> {
        let _ = (absent, post);
        unreachable!("only of coteries that are open")
    }

    /// Whether the quorum depends on the clock itself, so that clocks cannot be made relative.
    fn chooses_by_clock(&self) -> bool {
        false
    }

    /// How many sites may ask `arbiter`, itself included, as long as nobody has failed: what its queue must hold.
    fn askers(&self, arbiter: SiteId) -> usize;
}

/// One site of a quorum algorithm: an arbiter and a requester.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuorumSite<C> {
    // This site.
    pub(super) me: SiteId,
    pub(super) coterie: Shared<C>,
    /// No request that I have seen has a larger clock.
    pub(super) clock: Clock,
    // The local process.
    pub(super) requester: Requester,
    // What I give.
    pub(super) arbiter: Arbiter,
    // Which sites are up.
    pub(super) presence: Presence,
}

impl<C: Coterie> Site for QuorumSite<C> {
    type Message = Message;

    /// Algorithm 9.5, step (a). The site's own arbiter is asked within this step: were its answer to come later, a
    /// request of another could come between.
    fn request(&mut self, out: &mut Outbox<Message>) {
        let request = Timestamp::new(self.clock.tick(), self.me);
        self.act(out, |site, post| {
            let quorum = site.choose(request.clock, post);
            site.requester.request(request, quorum.as_ref(), post);
        });
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.sites() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        let mut judged = Ok(());
        self.act(out, |site, post| judged = site.on_message(from, message, post));
        if let Err(why) = judged {
            out.misbehaved(from, why);
        }
    }

    /// Algorithm 9.5, step (d).
    fn release(&mut self, out: &mut Outbox<Message>) {
        self.act(out, |site, post| {
            site.requester.release(post);
            site.welcome_the_owed(post);
        });
    }

    fn peer_failed(&mut self, peer: SiteId, out: &mut Outbox<Message>) {
        self.act(out, |site, post| site.on_failure(peer, post));
    }

    /// Nothing yet: the returning site says HELLO itself.
    fn restart(&mut self, out: &mut Outbox<Message>) {
        self.act(out, |site, post| site.on_return(post));
    }
}

impl<C: Coterie> QuorumSite<C> {
    /// Makes one step: does `first`, then gives each half what the other has sent meanwhile.
    fn act(&mut self, out: &mut Outbox<Message>, first: impl FnOnce(&mut Self, &mut Post<'_>)) {
        let mut post = Post::new(self.me, self.clock, out);
        first(self, &mut post);
        while let Some(message) = post.take_home() {
            // A site refuses its own words only if a lying peer has driven its clock to the end.
            let _ = self.on_message(self.me, message, &mut post);
        }
        self.clock = post.clock;
    }

    fn on_message(&mut self, from: SiteId, message: Message, post: &mut Post<'_>) -> Judged {
        let request = |clock| Timestamp::new(clock, from);
        let of_return = matches!(message, Message::Hello { .. } | Message::Welcome { .. });
        if self.presence.is_unwelcomed_by(from) && !of_return {
            return Ok(()); // Meant for this site's former incarnation.
        }
        match message {
            Message::Request { clock } => {
                self.may_ask(from)?;
                self.arbiter.on_request(request(clock), post)
            }
            Message::Reply { to, turn, clock } => self.requester.on_reply(from, to, (turn, clock), post),
            Message::Failed { to } => self.requester.on_failed(from, to, post),
            Message::Inquire { to, turn } => self.requester.on_inquire(from, to, turn, post),
            Message::Yield { request: clock, turn } => self.arbiter.on_yield(request(clock), turn, post),
            Message::Release { request: clock } => self.arbiter.on_release(request(clock), post),
            Message::Hello { incarnation } => self.on_hello(from, incarnation, post),
            Message::Welcome { incarnation, arbiter, clock } => {
                self.on_welcome(from, incarnation, (arbiter, clock), post)
            }
            Message::Ready => self.on_ready(from, post),
        }
    }

    /// Whether this site can be asked, and by `from`.
    fn may_ask(&self, from: SiteId) -> Judged {
        if !self.presence.is_arbiter() {
            return Err("a request to a site that is no arbiter yet");
        }
        if self.presence.has_failed(from) {
            return Err("a request of a failed site");
        }
        Ok(())
    }

    /// The quorum for a request made at `clock`, as failures are known here now.
    pub(super) fn choose(&self, clock: Clock, post: &mut Post<'_>) -> Option<SiteSet> {
        if self.coterie.is_open() {
            self.coterie.any_quorum(&self.presence.absent(self.me), post)
        } else {
            self.usual(clock)
        }
    }

    /// The quorum for a request made at `clock`, if the host has no choice.
    pub(super) fn usual(&self, clock: Clock) -> Option<SiteSet> {
        self.coterie.quorum(self.me, clock, &self.presence.absent(self.me))
    }

    pub(super) fn rules(&self) -> DeadlockRules {
        self.coterie.rules()
    }

    pub(super) fn sites(&self) -> usize {
        self.coterie.sites()
    }
}

impl<C: Coterie> Described for QuorumSite<C> {
    const INFO: Info = C::INFO;
}

impl<C: Coterie> Algorithm for QuorumSite<C> {
    type Plan = Shared<C>;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Shared<C>, PlanError> {
        C::build(cluster, values).map(Shared::new)
    }

    /// The site `me` at the start: a holder is inside on the permissions of its quorum, which are with it.
    fn start(coterie: &Shared<C>, me: SiteId, holders: &Holders) -> Self {
        let nobody = SiteSet::new();
        let quorum_of = |site| {
            coterie
                .quorum(site, Clock::ZERO, &nobody)
                .expect("there is a quorum as long as nobody has failed")
        };
        let (rules, request) = (coterie.rules(), |site| Timestamp::new(Clock::ZERO, site));
        let holder = holders.only().filter(|&holder| quorum_of(holder).contains(me)).map(request);
        let mut requester = Requester::new(rules);
        requester.make_room(quorum_of(me).len() + 1);
        let mut arbiter = Arbiter::new(rules, holder);
        arbiter.make_room(coterie.askers(me));
        if holders.contains(me) {
            requester = requester.inside(request(me), &quorum_of(me));
        }
        QuorumSite {
            me,
            clock: Clock::ZERO,
            requester,
            arbiter,
            presence: Presence::all(),
            coterie: coterie.clone(),
        }
    }

    fn phase(&self) -> Phase {
        self.requester.phase()
    }

    /// Whether the process is idle, the permission is here, and nobody waits for a welcome.
    fn is_quiet(&self) -> bool {
        self.requester.phase() == Phase::Idle && self.arbiter.is_free() && !self.presence.owes()
    }

    fn timestamp(&self) -> Option<Timestamp> {
        self.requester.timestamp()
    }

    /// The size of the quorum that a request would ask, or has asked just now.
    fn quorum(&self) -> Option<usize> {
        self.usual(self.clock).map(|quorum| quorum.len())
    }

    /// None if the host chooses: its quorums may be of several sizes, and without the requester.
    fn cost_span(&self) -> Option<Span> {
        Self::INFO.costs.always.filter(|_| !self.coterie.is_open())
    }

    /// Whether the coterie has a quorum without those that are down and those that are not arbiters again yet.
    fn survives(&self, down: &SiteSet) -> bool {
        let mut absent = self.presence.absent(self.me);
        absent.union_with(down);
        down.is_empty() || self.coterie.quorum(self.me, self.clock, &absent).is_some()
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        if self.coterie.chooses_by_clock() {
            return numbers.clock(&mut Clock::ZERO.clone()); // Nothing is subtracted where something is zero.
        }
        numbers.clock(&mut self.clock);
        self.requester.numbers(numbers);
        self.arbiter.numbers(numbers);
    }

    fn view(&self) -> View {
        let mut quorum = self.requester.asked().collect::<SiteSet>();
        if quorum.is_empty() {
            // Whom it would ask now.
            let mut clock = self.clock;
            quorum = self.usual(clock.tick()).unwrap_or_default();
        }
        let view = View::new().set("quorum", &quorum).queue("queue", self.arbiter.waiting());
        let lock = self.arbiter.holder();
        let view = lock.into_iter().fold(view, |view, request| view.pointer("permission", request.site));
        view.waiting_for(self.requester.missing())
    }

    /// A1 to A5, R1 to R5, P1 and P2 of one site.
    fn check_invariants(&self) -> Result<(), &'static str> {
        self.arbiter.check_invariants()?;
        self.requester.check_invariants()?;
        self.presence.check_invariants()?;
        let own = self.timestamp().map_or(Clock::ZERO, |request| request.clock);
        invariant!(own <= self.clock, "Q1: the clock is not behind the site's own request");
        Ok(())
    }

    /// What spans sites; as long as no failure is known, since a failed site's state says nothing.
    fn check_together(sites: &[&Self], _: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        if sites.iter().any(|site| !site.presence.is_complete()) {
            return Ok(());
        }
        for site in sites {
            let holds = |arbiter: SiteId| sites[arbiter.index()].arbiter.holder() == site.timestamp();
            invariant!(
                site.requester.permitted_by().all(holds),
                "Q2: whoever counts an arbiter's permission has it, and so nobody else does"
            );
        }
        Ok(())
    }
}
