//! Starvation, shown on a toy whose state is bounded even if its sites ask for ever: a server that serves in the order of
//! asking starves nobody, one that always prefers the smallest site does.

use meshlock_check::{Bounds, Report, Verdict, explore};
use meshlock_protocol::registry::info::{
    Channels, Costs, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo, Order, Permits, Range,
    Tokens,
};
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{Algorithm, Cluster, Holders, Message, Outbox, Phase, PlanError, Site, SiteId};

fn server() -> SiteId {
    SiteId::new(0)
}

/// Site 0 keeps the queue; the others ask it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Toy {
    me: SiteId,
    fair: bool,
    phase: Phase,
    /// At the server: who waits, in the order of asking, and whether someone is inside.
    queue: Vec<SiteId>,
    busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Word {
    Ask,
    Go,
    Done,
}

impl Message for Word {
    fn kind(&self) -> &'static str {
        "WORD"
    }

    fn words(&self) -> usize {
        3
    }
}

impl Toy {
    fn serve(&mut self, out: &mut Outbox<Word>) {
        if self.busy || self.queue.is_empty() {
            return;
        }
        let smallest = self.queue.iter().enumerate().min_by_key(|&(_, site)| site).map(|(at, _)| at);
        let next = self.queue.remove(if self.fair { 0 } else { smallest.expect("not empty") });
        self.busy = true;
        if next == self.me { self.go(out) } else { out.send(next, Word::Go) }
    }

    fn go(&mut self, out: &mut Outbox<Word>) {
        self.phase = Phase::Executing;
        out.enter();
    }
}

impl Site for Toy {
    type Message = Word;

    fn request(&mut self, out: &mut Outbox<Word>) {
        self.phase = Phase::Waiting;
        if self.me == server() {
            self.queue.push(self.me);
            self.serve(out);
        } else {
            out.send(server(), Word::Ask);
        }
    }

    fn receive(&mut self, from: SiteId, word: Word, out: &mut Outbox<Word>) {
        match word {
            Word::Ask => self.queue.push(from),
            Word::Go => return self.go(out),
            Word::Done => self.busy = false,
        }
        self.serve(out);
    }

    fn release(&mut self, out: &mut Outbox<Word>) {
        self.phase = Phase::Idle;
        if self.me == server() {
            self.busy = false;
            self.serve(out);
        } else {
            out.send(server(), Word::Done);
        }
    }
}

const THREE: Formula = Formula::new("3", |_| 3.0);

impl Algorithm for Toy {
    type Plan = bool;

    const INFO: Info = Info {
        name: "toy",
        title: "a server with a queue",
        source: "this test",
        kind: Kind::Token,
        permits: Permits::One,
        tokens: Tokens::None,
        channels: Channels::Fifo,
        assumes: "reliable FIFO channels",
        order: Order::Fair,
        failures: Failures::NONE,
        options: &[OptionInfo {
            name: "fair",
            about: "in the order of asking",
            range: Range::Flag,
            default: "yes",
        }],
        variants: &[],
        messages: &[MessageInfo { kind: "WORD", about: "all of them" }],
        costs: Costs { lone_least: THREE, lone_most: THREE, heavy: THREE, always: None, sync_delay: "2T" },
        memory: Memory { fixed: 64, per_site: 8 },
        departures: &[],
    };

    fn plan(_: Cluster, values: &Values) -> Result<bool, PlanError> {
        Ok(values.flag("fair"))
    }

    fn start(&fair: &bool, me: SiteId, _: &Holders) -> Self {
        Toy { me, fair, phase: Phase::Idle, queue: Vec::new(), busy: false }
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn is_quiet(&self) -> bool {
        self.phase == Phase::Idle && self.queue.is_empty() && !self.busy
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

fn explored(fair: &str, bounds: &Bounds) -> Report {
    let mut values = Values::defaults(&Toy::INFO);
    values.set(&Toy::INFO, "fair", fair).expect("an option of the toy");
    explore::<Toy>(bounds, &values).expect("three sites are enough for anyone")
}

#[test]
fn a_server_that_serves_in_the_order_of_asking_starves_nobody_although_its_graph_is_full_of_cycles() {
    let report = explored("yes", &Bounds::new(3, 1).endless());
    assert_eq!(report.verdict, Verdict::Holds);
    assert!(report.edges > report.states, "sites that ask for ever go round");
    assert_eq!(report.messages, None, "a run without an end has no cost");
}

#[test]
fn a_server_that_prefers_the_smallest_site_starves_a_larger_one() {
    let report = explored("no", &Bounds::new(3, 1).endless());
    let Verdict::Starvation(starved) = &report.verdict else { panic!("{:?}", report.verdict) };
    assert!(starved.iter().all(|site| site.index() > 0), "{starved:?}");
    let round = report.round.expect("a starving schedule goes round");
    assert!(round < report.path.len(), "the round has steps");
}

#[test]
fn a_bounded_number_of_requests_starves_nobody_whoever_is_preferred() {
    let report = explored("no", &Bounds::new(3, 2));
    assert_eq!(report.verdict, Verdict::Holds);
    assert_eq!(
        report.messages,
        Some((12, 12)),
        "three messages for each of four entries, none for the server's own"
    );
}
