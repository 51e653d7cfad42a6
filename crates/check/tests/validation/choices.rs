//! A small model that chooses: every combination of choices is explored, and a path names those that it takes.

use meshlock_check::{Bounds, Report, Step, StepEvent, Verdict, explore};
use meshlock_protocol::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo,
    Order, Permits, Range, Tokens,
};
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::{Action, Violation, World};
use meshlock_protocol::{
    Algorithm, Cluster, Described, Holders, Message, Outbox, Phase, PlanError, Site, SiteId, invariant,
};

/// One site that enters at once. When it requests it chooses one of two, and after the second one of three; and one of five, which
/// it forgets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Picker {
    phase: Phase,
    pick: usize,
    /// The pick that breaks the invariant.
    forbidden: usize,
}

/// The site is alone and says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Silence {}

impl std::fmt::Display for Silence {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {}
    }
}

impl Message for Silence {
    fn kind(&self) -> &'static str {
        match *self {}
    }

    fn words(&self) -> usize {
        match *self {}
    }
}

impl Site for Picker {
    type Message = Silence;

    fn request(&mut self, out: &mut Outbox<Silence>) {
        self.pick = if out.choose(2) == 0 { 0 } else { 1 + out.choose(3) };
        let _forgotten = out.choose(5);
        self.phase = Phase::Executing;
        out.enter();
    }

    fn receive(&mut self, _: SiteId, message: Silence, _: &mut Outbox<Silence>) {
        match message {}
    }

    fn release(&mut self, _: &mut Outbox<Silence>) {
        self.phase = Phase::Idle;
    }
}

const NOTHING: Formula = Formula::new("0", |_| 0.0);

impl Described for Picker {
    const INFO: Info = Info {
        name: "picker",
        title: "a site that chooses",
        source: "this test",
        kind: Kind::Token,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Fifo,
        assumes: "nothing",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing("only a test uses it"),
        failures: Failures::NONE,
        options: &[OptionInfo {
            name: "forbidden",
            about: "the pick that breaks the invariant",
            range: Range::Integer { least: 0, most: 9 },
            default: "9",
        }],
        variants: &[],
        messages: &[MessageInfo { kind: "SILENCE", about: "never" }],
        costs: Costs {
            lone_least: NOTHING,
            lone_most: NOTHING,
            heavy: NOTHING,
            always: None,
            sync_delay: "0",
        },
        memory: Memory { fixed: 64, per_site: 8 },
        departures: &[],
    };
}

impl Algorithm for Picker {
    type Plan = usize;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(_: Cluster, values: &Values) -> Result<usize, PlanError> {
        Ok(values.integer("forbidden"))
    }

    fn start(&forbidden: &usize, _: SiteId, _: &Holders) -> Self {
        Picker { phase: Phase::Idle, pick: 0, forbidden }
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn is_quiet(&self) -> bool {
        self.phase == Phase::Idle
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(self.pick != self.forbidden, "I1: the forbidden pick is not taken");
        Ok(())
    }
}

fn explored(values: &Values) -> Report {
    explore::<Picker>(&Bounds::new(1, 1), values).expect("one site is enough")
}

#[test]
fn every_different_result_of_the_choices_is_a_step_of_its_own() {
    let report = explored(&Values::defaults(&Picker::INFO));
    assert_eq!(report.verdict, Verdict::Holds);
    // One state at the start; four picks inside; four after it. What is forgotten makes no difference.
    assert_eq!((report.states, report.edges, report.depth), (9, 8, 2));
}

/// Also the last of a later choice, which is asked only after the last of an earlier one.
#[test]
fn a_violation_that_needs_certain_choices_is_found_and_its_path_replays_with_them() {
    for (forbidden, answers) in [(1, vec![1, 0, 0]), (3, vec![1, 2, 0])] {
        let mut values = Values::defaults(&Picker::INFO);
        values.set("forbidden", &forbidden.to_string()).expect("in range");
        let report = explored(&values);
        assert!(matches!(report.verdict, Verdict::Violated(Violation::Invariant { .. })), "{forbidden}");
        let request = StepEvent::Act(Action::Request(SiteId::new(0)));
        assert_eq!(report.path, [Step { event: request, answers: answers.clone() }]);
        let world = World::<Picker>::new(Cluster::of(1), &values, &Holders::none());
        let mut world = world.expect("one site is enough").tolerant();
        world.answer(&answers);
        let _ = world.request(SiteId::new(0));
        assert!(world.end_answers() && world.violation().is_some());
        // Without the answers nothing is wrong: the first alternatives are harmless.
        let world = World::<Picker>::new(Cluster::of(1), &values, &Holders::none());
        let _ = world.expect("one site is enough").request(SiteId::new(0));
    }
}
