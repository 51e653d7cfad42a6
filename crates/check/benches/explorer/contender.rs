//! The contenders, and their runs in separate processes.

use meshlock_check::{Bounds, NetworkModel, Properties, Property, Report, Verdict, explore, explore_spec};
use meshlock_protocol::algorithms::ricart_agrawala::RicartAgrawala;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{Algorithm, Described, Spec};
use rayon::ThreadPoolBuilder;
use stateright::{Checker, Model};

use crate::lamport_mutex::{self, LamportMutex};
use crate::measure::peak_memory;
use crate::peer::Peer;
use crate::spin::{self, Order};
use crate::{Subject, flat::Flat};

/// A contender; the numbers are threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// This crate.
    Ours(usize),
    /// `stateright`, breadth first, with the same sites.
    Stateright(usize),
    /// `stateright`, breadth first, with the model written for it in one flat value.
    StaterightFlat(usize),
    /// SPIN with the model written in Promela.
    Spin(Order),
}

impl Contender {
    pub(crate) const ALL: [Contender; 8] = [
        Contender::Ours(1),
        Contender::Ours(2),
        Contender::Stateright(1),
        Contender::Stateright(2),
        Contender::StaterightFlat(1),
        Contender::StaterightFlat(2),
        Contender::Spin(Order::Breadth),
        Contender::Spin(Order::Depth),
    ];

    pub(crate) fn name(self) -> String {
        let threads =
            |threads: usize| if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        match self {
            Contender::Ours(n) => format!("meshlock, {}", threads(n)),
            Contender::Stateright(n) => format!("stateright, {}", threads(n)),
            Contender::StaterightFlat(n) => format!("stateright flat, {}", threads(n)),
            Contender::Spin(Order::Breadth) => "SPIN, breadth first".to_owned(),
            Contender::Spin(Order::Depth) => "SPIN, depth first".to_owned(),
        }
    }

    /// Returns whether the contender has this model and its programs are installed.
    pub(crate) fn can_run(self, subject: Subject) -> bool {
        match self {
            Contender::Ours(_) => true,
            Contender::Stateright(_) => !matches!(subject, Subject::Whole(..)),
            Contender::StaterightFlat(_) => matches!(subject, Subject::LamportMutex(_)),
            Contender::Spin(_) => !matches!(subject, Subject::Whole(..)) && spin::is_installed(),
        }
    }
}

/// A run of one contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) subject: Subject,
    pub(crate) contender: Contender,
}

impl Task {
    /// Returns the run as two words for the command line.
    pub(crate) fn words(self) -> [String; 2] {
        [self.subject.name(), self.contender.name()]
    }

    pub(crate) fn parse(subject: &str, contender: &str) -> Option<Self> {
        let subject = Subject::ALL.into_iter().find(|known| known.name() == subject)?;
        let contender = Contender::ALL.into_iter().find(|known| known.name() == contender)?;
        Some(Task { subject, contender })
    }

    /// Runs, and prints the number of states, their memory by the contender's own count, and the peak memory of the process.
    pub(crate) fn run(self) {
        let (states, memory) = match self.subject {
            Subject::LamportMutex(clock) if matches!(self.contender, Contender::StaterightFlat(_)) => {
                (checked(Flat::new(clock), self.contender.threads()), 0)
            }
            Subject::LamportMutex(clock) => {
                let values = lamport_mutex::most_clock(clock);
                self.explored::<LamportMutex>(&lamport_mutex::bounds(), &values)
            }
            Subject::RicartAgrawala(entries) => {
                let values = Values::defaults(&RicartAgrawala::INFO);
                self.explored::<RicartAgrawala>(&Bounds::new(3, entries), &values)
            }
            Subject::Whole(spec, sites, entries) => self.explored_whole(spec, sites, entries),
        };
        println!("{states} {memory} {}", peak_memory());
    }

    /// Explores a run with every property and every figure.
    fn explored_whole(self, spec: &str, sites: usize, entries: u8) -> (usize, usize) {
        let spec: Spec = spec.parse().expect("a registered algorithm");
        let bounds = Bounds::new(sites, entries).over(NetworkModel::from(spec.info.channels));
        let pool = ThreadPoolBuilder::new().num_threads(self.contender.threads()).build();
        let report = pool.expect("a few threads").install(|| explore_spec(&spec, &bounds));
        assert_eq!(report.verdict, Verdict::Holds);
        assert!(report.bypass.is_some() && report.messages.is_some(), "everything was found out");
        (report.states, report.memory)
    }

    fn explored<A: Algorithm + 'static>(self, bounds: &Bounds, values: &Values) -> (usize, usize) {
        let properties = [Property::Exclusion, Property::Deadlock].into_iter().collect::<Properties>();
        let bounds = bounds.clone().checking(properties);
        let threads = self.contender.threads();
        if matches!(self.contender, Contender::Stateright(_)) {
            return (checked(Peer::<A>::new(&bounds, values), threads), 0);
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("a few threads");
        let Report { verdict, states, memory, .. } =
            pool.install(|| explore::<A>(&bounds, values)).expect("the bounds are right");
        assert_eq!(verdict, Verdict::Holds);
        (states, memory)
    }
}

impl Contender {
    fn threads(self) -> usize {
        match self {
            Contender::Ours(n) | Contender::Stateright(n) | Contender::StaterightFlat(n) => n,
            Contender::Spin(_) => 1,
        }
    }
}

/// Returns the number of states that `stateright` counts, and asserts that it found no violation.
fn checked<M>(model: M, threads: usize) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + std::fmt::Debug + PartialEq,
{
    let checker = model.checker().threads(threads).spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}
