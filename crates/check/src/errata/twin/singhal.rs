//! Singhal's algorithm with the recovery that his section VI-B prints, as one small machine.
//!
//! The algorithm that ships finds a lost token by asking and numbers its requests by incarnations; it shares nothing with the printed
//! recovery that could be switched. So here are the printed rules: the vectors SV and SN, the token's TSV and TSN, Rules 1 to
//! 11, the crash recovery procedure of case I, and what cases III and IV add. `text=repaired` repairs the slips that the other
//! values make, one each; `text=second-step-1` has the second form of step 1. The update rules are carried out in their condensed
//! form, and the cases of Rules 5 to 7 that "cannot occur" are an invariant while nothing has failed.
//!
//! The paper leaves the loss of a token to timeouts (case II, and the second situation of case III), which say nothing that
//! could be checked. A run in which the token is lost with a failed site, or may be, is not followed any further.
//!
//! **Invariants**
//! - I1 (case III): the token is not sent to a site that is known to have failed.
//! - I2 (Rules 5 to 7): no case arises that the rules say cannot occur, as long as nothing has failed.

use std::fmt;

use meshlock_protocol::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo,
    Order, Permits, Range, Tokens,
};
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{
    Algorithm, Cluster, Described, Holders, Outbox, Phase, PlanError, Site, SiteId, SiteSet,
};

/// One slip of section VI-B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Slip {
    /// Step 2 of the crash recovery procedure: all entries of SN become 0, the site's own among them.
    Numbers,
    /// The same: all entries of SV become R, the site's own among them.
    OwnEntry,
    /// Case III: a failed site's entry in the token is left as it is.
    InToken,
    /// Case III: a site that learns of a failure sets its own entry to N, not that of the failed site.
    Indices,
    /// No slip: the second form of step 1, which counts every entry.
    SecondStep1,
}

/// Table I.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SiteState {
    /// Not requesting.
    N,
    /// Requesting.
    R,
    /// Executing.
    E,
    /// Holding the idle token.
    H,
}

/// One site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SinghalRecovery {
    me: SiteId,
    slip: Option<Slip>,
    /// What the process does, as its host knows it; the rules know it as `SV[me]`.
    process: Phase,
    /// SV: the last known state of each site.
    states: Box<[SiteState]>,
    /// SN: the last known request of each site.
    numbers: Box<[u32]>,
    /// The sites that were sent the waiting request (case IV).
    asked: SiteSet,
    token: Option<Box<TwinToken>>,
    /// The site that was sent the token last, until it comes back.
    passed_to: Option<SiteId>,
    /// The sites that have failed. The paper keeps this in SV only.
    down: SiteSet,
    /// The invariant that was broken.
    broken: Option<&'static str>,
    /// Something has failed, as far as this site knows: the rules of section III assume that nothing does.
    failures: bool,
    /// The token may be lost: what follows is not the paper's concern here.
    lost: bool,
}

/// The token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TwinToken {
    /// TSV: the sites that wait.
    waiting: SiteSet,
    /// TSN: the last known request of each site.
    numbers: Box<[u32]>,
}

/// The messages between sites.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// This request of mine waits.
    Request { number: u32 },
    /// Enter.
    Token(Box<TwinToken>),
    /// I had failed and run again.
    Recovering,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { number } => write!(f, "REQUEST(SN {number})"),
            Message::Token(token) => {
                write!(f, "TOKEN(TSV = R at {}, TSN = {:?})", token.waiting, token.numbers)
            }
            Message::Recovering => f.write_str("RECOVERING"),
        }
    }
}

impl meshlock_protocol::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Token(_) => "TOKEN",
            Message::Recovering => "RECOVERING",
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 4,
            Message::Token(token) => 4 + token.numbers.len(),
            Message::Recovering => 3,
        }
    }

    fn tokens(&self) -> usize {
        usize::from(matches!(self, Message::Token(_)))
    }
}

impl Site for SinghalRecovery {
    type Message = Message;

    /// Step 1 (Rules 1 and 2).
    fn request(&mut self, out: &mut Outbox<Message>) {
        self.process = Phase::Waiting;
        if self.slip == Some(Slip::SecondStep1) && self.own() == SiteState::H {
            self.numbers[self.me.index()] += 1;
        }
        if self.own() == SiteState::H {
            return self.execute(out);
        }
        self.set_own(SiteState::R);
        self.numbers[self.me.index()] += 1;
        self.asked = self.others().filter(|site| self.states[site.index()] == SiteState::R).collect();
        out.send_all(&self.asked, &self.request_message());
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        match message {
            Message::Request { number } => self.on_request(from, number, out),
            Message::Token(token) => self.on_token(token, out),
            Message::Recovering => {
                self.failures = true;
                self.states[from.index()] = SiteState::N;
                self.down.remove(from);
            }
        }
    }

    /// Step 3 (Rule 3).
    fn release(&mut self, out: &mut Outbox<Message>) {
        self.process = Phase::Idle;
        self.pass_or_hold(out);
    }

    /// Cases I, III and IV.
    fn peer_failed(&mut self, peer: SiteId, out: &mut Outbox<Message>) {
        self.lost |= self.passed_to == Some(peer) && self.slip != Some(Slip::OwnEntry);
        self.down.insert(peer);
        self.failures = true;
        if self.slip == Some(Slip::Indices) {
            return self.set_own(SiteState::N);
        }
        self.states[peer.index()] = SiteState::N;
        if self.own() == SiteState::R && self.asked.iter().eq([peer]) {
            self.asked = self.others().filter(|&site| site != peer).collect();
            out.send_all(&self.asked, &self.request_message());
        }
    }

    /// The crash recovery procedure. The repaired one needs the site's own number on stable storage.
    fn restart(&mut self, out: &mut Outbox<Message>) {
        let last = self.numbers[self.me.index()];
        self.lost |= self.token.take().is_some();
        self.process = Phase::Idle;
        self.states.fill(SiteState::R);
        self.numbers.fill(0);
        if self.slip != Some(Slip::OwnEntry) {
            self.set_own(SiteState::N);
        }
        if self.slip != Some(Slip::Numbers) {
            self.numbers[self.me.index()] = last;
        }
        self.failures = true;
        (self.asked, self.down, self.passed_to) = (SiteSet::new(), SiteSet::new(), None);
        out.broadcast(self.me, self.states.len(), &Message::Recovering);
    }
}

impl SinghalRecovery {
    fn own(&self) -> SiteState {
        self.states[self.me.index()]
    }

    fn set_own(&mut self, state: SiteState) {
        self.states[self.me.index()] = state;
    }

    /// All others, the nearest first.
    fn others(&self) -> impl Iterator<Item = SiteId> + use<> {
        SiteId::others_from(self.me, self.states.len())
    }

    fn request_message(&self) -> Message {
        Message::Request { number: self.numbers[self.me.index()] }
    }

    fn execute(&mut self, out: &mut Outbox<Message>) {
        self.set_own(SiteState::E);
        self.process = Phase::Executing;
        out.enter();
    }

    /// The request message handler (Rules 8 to 11).
    fn on_request(&mut self, from: SiteId, number: u32, out: &mut Outbox<Message>) {
        if self.numbers[from.index()] >= number {
            return;
        }
        self.numbers[from.index()] = number;
        let before = std::mem::replace(&mut self.states[from.index()], SiteState::R);
        match self.own() {
            SiteState::N | SiteState::E => {}
            SiteState::R => {
                if before != SiteState::R {
                    self.asked.insert(from);
                    out.send(from, self.request_message());
                }
            }
            SiteState::H => {
                self.set_own(SiteState::N);
                let Some(mut token) = self.token.take() else { return };
                token.waiting.insert(from);
                token.numbers[from.index()] = number;
                self.pass(token, from, out);
            }
        }
    }

    /// Step 2. A token that comes to a site that does not want it goes on, or stays idle: the paper does not say.
    fn on_token(&mut self, token: Box<TwinToken>, out: &mut Outbox<Message>) {
        self.token = Some(token);
        self.passed_to = None;
        if self.own() == SiteState::R { self.execute(out) } else { self.pass_or_hold(out) }
    }

    /// Step 3: the update rules in their condensed form, then the first arbitration rule, with the second among equals.
    fn pass_or_hold(&mut self, out: &mut Outbox<Message>) {
        self.set_own(SiteState::N);
        let Some(mut token) = self.token.take() else { return };
        token.waiting.remove(self.me);
        for site in SiteId::all(self.states.len()) {
            let (state, number) = (&mut self.states[site.index()], &mut self.numbers[site.index()]);
            let known = &mut token.numbers[site.index()];
            let waits = (*state == SiteState::R, token.waiting.contains(site));
            if !self.failures && cannot_occur(waits, *number, *known) {
                self.broken = Some(IMPOSSIBLE);
            }
            if *number > *known {
                *known = *number;
                if *state == SiteState::R {
                    token.waiting.insert(site)
                } else {
                    token.waiting.remove(site)
                };
            } else {
                *number = *known;
                *state = if token.waiting.contains(site) { SiteState::R } else { SiteState::N };
            }
        }
        if self.slip != Some(Slip::InToken) {
            token.waiting.subtract(&self.down);
            self.down.iter().for_each(|site| self.states[site.index()] = SiteState::N);
        }
        let waiting = self.others().filter(|&site| token.waiting.contains(site));
        if let Some(next) = waiting.min_by_key(|site| token.numbers[site.index()]) {
            self.pass(token, next, out);
        } else {
            self.set_own(SiteState::H);
            self.token = Some(token);
        }
    }

    fn pass(&mut self, token: Box<TwinToken>, to: SiteId, out: &mut Outbox<Message>) {
        if self.down.contains(to) {
            self.broken = Some(WASTED);
        }
        self.passed_to = Some(to);
        out.send(to, Message::Token(token));
    }
}

/// Whether Rules 4 to 7 say of a case that it cannot occur, given whether SV and TSV are R, SN and TSN.
fn cannot_occur(waits: (bool, bool), number: u32, known: u32) -> bool {
    match waits {
        (true, false) => false,                          // Rule 4.
        (false, true) => number >= known,                // Rule 5.
        (false, false) | (true, true) => number > known, // Rules 6 and 7.
    }
}

/// The invariants, as they are reported.
const WASTED: &str = "I1: the token is not sent to a site that is known to have failed";
const IMPOSSIBLE: &str = "I2: no case arises that Rules 5 to 7 say cannot occur";

/// What all sites share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    cluster: Cluster,
    slip: Option<Slip>,
}

const MESSAGES: Formula = Formula::new("0 to N", |scale| scale.sites as f64);

impl Described for SinghalRecovery {
    const INFO: Info = Info {
        name: "singhal-1989-recovery",
        title: "Singhal's heuristic algorithm with the recovery of its section VI-B",
        source: "Singhal 1989, sections III and VI-B",
        kind: Kind::Token,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::One,
        channels: Channels::Fifo,
        assumes: "reliable FIFO channels; one failure, known to all, without the token",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing("only errata use it"),
        failures: Failures { crash: false, recovery: true, partition: false },
        options: &[OptionInfo {
            name: "text",
            about: "which slip of the printed text is made",
            range: Range::Choice(&[
                "repaired",
                "numbers",
                "own-entry",
                "in-token",
                "indices",
                "second-step-1",
            ]),
            default: "repaired",
        }],
        variants: &[],
        messages: &[
            MessageInfo { kind: "REQUEST", about: "to the sites that are believed to be requesting" },
            MessageInfo { kind: "TOKEN", about: "to a site that waits" },
            MessageInfo { kind: "RECOVERING", about: "from a site that runs again, to all others" },
        ],
        costs: Costs {
            lone_least: MESSAGES,
            lone_most: MESSAGES,
            heavy: MESSAGES,
            always: None,
            sync_delay: "T",
        },
        memory: Memory { fixed: 256, per_site: 16 },
        departures: &[],
    };
}

impl Algorithm for SinghalRecovery {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let slip = match values.get("text") {
            "numbers" => Some(Slip::Numbers),
            "own-entry" => Some(Slip::OwnEntry),
            "in-token" => Some(Slip::InToken),
            "indices" => Some(Slip::Indices),
            "second-step-1" => Some(Slip::SecondStep1),
            _ => None,
        };
        Ok(Plan { cluster, slip })
    }

    /// Section III-F: the staircase, with the token at the first site. No run of this machine begins with a holder.
    fn start(plan: &Plan, me: SiteId, _: &Holders) -> Self {
        let sites = plan.cluster.sites;
        let first = me.index() == 0;
        let mut states = vec![SiteState::N; sites];
        states[..me.index()].fill(SiteState::R);
        if first {
            states[0] = SiteState::H;
        }
        let token = || Box::new(TwinToken { waiting: SiteSet::new(), numbers: vec![0; sites].into() });
        SinghalRecovery {
            me,
            slip: plan.slip,
            process: Phase::Idle,
            states: states.into(),
            numbers: vec![0; sites].into(),
            asked: SiteSet::new(),
            token: first.then(token),
            passed_to: None,
            down: SiteSet::new(),
            broken: None,
            failures: false,
            lost: false,
        }
    }

    fn phase(&self) -> Phase {
        self.process
    }

    fn is_quiet(&self) -> bool {
        self.process == Phase::Idle
    }

    fn tokens(&self) -> usize {
        usize::from(self.token.is_some())
    }

    fn is_within_bounds(&self) -> bool {
        !self.lost
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        self.broken.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use meshlock_protocol::Effect;
    use meshlock_protocol::world::World;

    use super::*;

    /// Case III, first situation, with its premise: every running site knows of the failure before the token is sent.
    #[test]
    fn the_token_goes_to_a_failed_site_although_all_have_been_told() {
        let [s0, s1, s2] = SiteId::first();
        let sent_to_s2 = |text: &str| {
            let mut world = World::<SinghalRecovery>::with(3, &[("text", text)]).tolerant();
            for site in [s0, s1, s2] {
                let _ = world.request(site);
            }
            let _ = (world.deliver(s1, s0), world.deliver(s2, s0), world.deliver(s2, s1));
            // The token knows that S1 and S2 wait, and goes to S1.
            let _ = (world.release(s0), world.deliver(s0, s1));
            assert!(world.inside().contains(s1));
            world.fail(s2);
            let _ = (world.tell(s0, s2), world.tell(s1, s2));
            let effects = world.release(s1);
            effects
                .iter()
                .any(|effect| matches!(effect, Effect::Send { to, message: Message::Token(_) } if *to == s2))
        };
        assert!(sent_to_s2("in-token") && !sent_to_s2("repaired"));
    }
}
