//! A small model: a server with a queue, whose state is bounded even if its sites request for ever. It serves requests in their order,
//! or the smallest site first. Optionally, after a number of entries, the server and a site exchange messages for a long time or for
//! ever.

use meshlock_check::{Bounds, Report, explore};
use meshlock_protocol::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo,
    Order, Permits, Range, Tokens,
};
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{
    Algorithm, Cluster, Described, Holders, Message, Outbox, Phase, PlanError, Site, SiteId,
};

fn server() -> SiteId {
    SiteId::new(0)
}

/// Site 0 is the server; the others send it requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Toy {
    me: SiteId,
    fair: bool,
    phase: Phase,
    /// At the server: the sites that wait, in the order of their requests, and whether a site is inside.
    queue: Vec<SiteId>,
    busy: bool,
    /// At the server: after how many entries it sends an echo, and with which number.
    silence: u8,
    echo: u16,
}

/// The number of an echo that never ends.
const FOR_EVER: u16 = u16::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Word {
    Ask,
    Go,
    Done,
    /// Is sent back with a number smaller by one, down to zero.
    Echo(u16),
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
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

    fn done(&mut self, site: SiteId, out: &mut Outbox<Word>) {
        self.busy = false;
        if self.silence > 0 {
            self.silence -= 1;
            if self.silence == 0 {
                out.send(site, Word::Echo(self.echo));
            }
        }
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
            Word::Done => self.done(from, out),
            Word::Echo(0) => {}
            Word::Echo(FOR_EVER) => out.send(from, word),
            Word::Echo(more) => out.send(from, Word::Echo(more - 1)),
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

impl Described for Toy {
    const INFO: Info = Info {
        name: "toy",
        title: "a server with a queue",
        source: "this test",
        kind: Kind::Token,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Fifo,
        assumes: "reliable FIFO channels",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing("only a test uses it"),
        failures: Failures::NONE,
        options: &[
            OptionInfo { name: "fair", about: "in the order of asking", range: Range::Flag, default: "yes" },
            OptionInfo {
                name: "echo",
                about: "how often a word goes to and fro after six entries of others",
                range: Range::WordsOr { words: &["never", "for-ever"], notation: "TIMES" },
                default: "never",
            },
        ],
        variants: &[],
        messages: &[MessageInfo { kind: "WORD", about: "all of them" }],
        costs: Costs { lone_least: THREE, lone_most: THREE, heavy: THREE, always: None, sync_delay: "2T" },
        memory: Memory { fixed: 64, per_site: 8 },
        departures: &[],
    };
}

impl Algorithm for Toy {
    /// Whether it is fair, and the echo's number.
    type Plan = (bool, Option<u16>);

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(_: Cluster, values: &Values) -> Result<Self::Plan, PlanError> {
        let echo = match values.get("echo") {
            "never" => None,
            "for-ever" => Some(FOR_EVER),
            times => Some(times.parse().expect("a number of the tests")),
        };
        Ok((values.flag("fair"), echo))
    }

    fn start(&(fair, echo): &Self::Plan, me: SiteId, _: &Holders) -> Self {
        let silence = if echo.is_some() { 6 } else { 0 };
        Toy { me, fair, phase: Phase::Idle, queue: Vec::new(), busy: false, silence, echo: echo.unwrap_or(0) }
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

/// Explores the model with these options.
pub(crate) fn explored(options: &[(&str, &str)], bounds: &Bounds) -> Report {
    let mut values = Values::defaults(&Toy::INFO);
    for (name, value) in options {
        values.set(name, value).expect("an option of the toy");
    }
    explore::<Toy>(bounds, &values).expect("three sites are enough for anyone")
}
