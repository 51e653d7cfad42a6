//! The TLA+ model of Lamport's algorithm written for `stateright` as one flat value: the fastest form that it allows, in which a
//! state owns no memory and no code of sites is called.

use stateright::{Model, Property};

const N: usize = 3;
const ACK: u8 = 200;
const REL: u8 = 201;

/// The model with its constraint.
pub(crate) struct Flat {
    most_clock: u8,
}

/// The module's variables. A channel holds at most three messages, oldest first, 0 where there is none; a request is its
/// clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Variables {
    clock: [u8; N],
    req: [[u8; N]; N],
    ack: [u8; N],
    network: [[[u8; 3]; N]; N],
    crit: [bool; N],
}

/// The module's actions that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Request(usize),
    Enter(usize),
    Exit(usize),
    Receive { from: usize, to: usize },
}

impl Flat {
    pub(crate) fn new(most_clock: u8) -> Self {
        Flat { most_clock }
    }
}

impl Variables {
    fn beats(&self, p: usize, q: usize) -> bool {
        let (mine, theirs) = (self.req[p][p], self.req[p][q]);
        theirs == 0 || (mine, p) < (theirs, q)
    }

    fn may_enter(&self, p: usize) -> bool {
        self.ack[p] == 0b111 && !self.crit[p] && (0..N).all(|q| q == p || self.beats(p, q))
    }

    fn send(&mut self, from: usize, to: usize, message: u8) {
        let channel = &mut self.network[from][to];
        let free = channel.iter_mut().find(|slot| **slot == 0);
        *free.expect("no channel ever holds more than three messages") = message;
    }

    fn broadcast(&mut self, from: usize, message: u8) {
        (0..N).filter(|&to| to != from).for_each(|to| self.send(from, to, message));
    }

    fn receive(&mut self, from: usize, to: usize) {
        let [message, second, third] = self.network[from][to];
        self.network[from][to] = [second, third, 0];
        match message {
            ACK => self.ack[to] |= 1 << from,
            REL => self.req[to][from] = 0,
            clock => {
                self.req[to][from] = clock;
                self.clock[to] = self.clock[to].max(clock) + 1;
                self.send(to, from, ACK);
            }
        }
    }
}

impl Model for Flat {
    type State = Variables;
    type Action = Action;

    fn init_states(&self) -> Vec<Variables> {
        let network = [[[0; 3]; N]; N];
        vec![Variables { clock: [1; N], req: [[0; N]; N], ack: [0; N], network, crit: [false; N] }]
    }

    fn actions(&self, state: &Variables, actions: &mut Vec<Action>) {
        for p in 0..N {
            if state.req[p][p] == 0 {
                actions.push(Action::Request(p));
            }
            if state.may_enter(p) {
                actions.push(Action::Enter(p));
            }
            if state.crit[p] {
                actions.push(Action::Exit(p));
            }
            let arriving = (0..N).filter(|&from| state.network[from][p][0] != 0);
            actions.extend(arriving.map(|from| Action::Receive { from, to: p }));
        }
    }

    fn next_state(&self, state: &Variables, action: Action) -> Option<Variables> {
        let mut next = state.clone();
        match action {
            Action::Request(p) => {
                next.req[p][p] = next.clock[p];
                next.ack[p] = 1 << p;
                next.broadcast(p, state.clock[p]);
            }
            Action::Enter(p) => next.crit[p] = true,
            Action::Exit(p) => {
                (next.crit[p], next.req[p][p], next.ack[p]) = (false, 0, 0);
                next.broadcast(p, REL);
            }
            Action::Receive { from, to } => next.receive(from, to),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("Mutex", |_: &Self, state: &Variables| {
            state.crit.iter().filter(|&&inside| inside).count() <= 1
        })]
    }

    fn within_boundary(&self, state: &Variables) -> bool {
        state.clock.iter().all(|&clock| clock <= self.most_clock)
    }
}
