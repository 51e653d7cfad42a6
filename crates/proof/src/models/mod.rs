//! The models, each in a file to be read beside its algorithm, with the runs in which the code is compared with it.

pub mod bulgannawar_vaidya;
pub mod carvalho_roucairol;
pub mod census;
pub mod central;
pub mod delegated;
pub mod lamport;
pub mod lodha_kshemkalyani;
pub mod makki;
pub mod naimi_trehel;
pub mod quorums;
pub mod raymond;
pub mod raymond_k;
pub mod ricart_agrawala;
mod runs;
pub mod sanders;
pub mod singhal_dynamic;
pub mod singhal_heuristic;
pub mod srimani_reddy;
pub mod suzuki_kasami;
pub mod token_ring;

use meshlock_protocol::algorithms::bulgannawar_vaidya::BulgannawarVaidya;
use meshlock_protocol::algorithms::carvalho_roucairol::CarvalhoRoucairol;
use meshlock_protocol::algorithms::central::Central;
use meshlock_protocol::algorithms::delegated::Delegated;
use meshlock_protocol::algorithms::lamport::Lamport;
use meshlock_protocol::algorithms::lodha_kshemkalyani::LodhaKshemkalyani;
use meshlock_protocol::algorithms::maekawa::Maekawa;
use meshlock_protocol::algorithms::majority::Majority;
use meshlock_protocol::algorithms::naimi_trehel::NaimiTrehel;
use meshlock_protocol::algorithms::raymond::Raymond;
use meshlock_protocol::algorithms::raymond_k::RaymondK;
use meshlock_protocol::algorithms::ricart_agrawala::RicartAgrawala;
use meshlock_protocol::algorithms::sanders::Sanders;
use meshlock_protocol::algorithms::singhal_dynamic::SinghalDynamic;
use meshlock_protocol::algorithms::singhal_heuristic::SinghalHeuristic;
use meshlock_protocol::algorithms::srimani_reddy::SrimaniReddy;
use meshlock_protocol::algorithms::suzuki_kasami::SuzukiKasami;
use meshlock_protocol::algorithms::token_ring::TokenRing;
use meshlock_protocol::algorithms::tree_quorum::TreeQuorum;
use meshlock_protocol::mutant::Mutant;
use meshlock_protocol::{Modelled, Spec};

use crate::model::ProofModel;
use crate::models::runs::{
    FOUR, Golden, OPEN, OPEN_PERMITS, PERMITS, THREE, TWO, WITHOUT_RETURNS, first, held, of, permits,
    returning, run,
};
use crate::text;
use crate::tie::{self, TieBreak, TieReport, TieRun};

/// An algorithm that is proved for every number of sites.
#[derive(Debug)]
pub struct Covered {
    /// The name of the algorithm, as `meshlock algorithms` lists it.
    pub name: &'static str,
    /// Other algorithms that are the same code, with how they are compared.
    pub also: &'static [(&'static str, Compare)],
    /// The model's text.
    pub text: &'static str,
    /// What is covered and what is not, as sentences.
    pub scope: &'static str,
    /// Of which number of permits the proof is, if not of every one that the algorithm is for: `K = 1`.
    pub only: Option<&'static str>,
    /// Guards that are assumptions, because what makes them true is no part of the model: the guard, and what stands for it.
    pub assumed: &'static [(&'static str, &'static str)],
    /// Runs that every test compares with the model.
    pub small: &'static [TieRun],
    /// Runs of the golden file, `docs/CHECKED.md`, that every test compares, too.
    pub golden: &'static [Golden],
    /// The rest of those that are small there, which `cargo xtask soak` compares.
    pub long_golden: &'static [Golden],
    /// Larger ones, which `soak` compares, too.
    pub larger: &'static [TieRun],
    /// Actions that no step of the code takes in these runs: they allow for what is not proved to be impossible.
    pub untaken: &'static [&'static str],
    /// Theorems about what is possible in no finite instance, which is what they are for: they say of a state without any step that it
    /// goes on without end.
    pub about_nothing: &'static [&'static str],
    /// Wrong models that must not be proved.
    pub wrong: &'static [WrongModel],
    /// The deliberate bugs of the code, and the step or clause at which the tie breaks.
    pub mutants: &'static [(Mutant, &'static str)],
    /// Deliberate bugs of the code that neither proof nor tie notices, each with the reason.
    pub beyond: &'static [(Mutant, &'static str)],
    /// Where there are no runs: what compares the code instead, as sentences.
    pub tied_by: &'static str,
    compare: Compare,
}

/// Compares a run of the code with a model.
pub type Compare = fn(&ProofModel, &Spec, &TieRun) -> Result<TieReport, TieBreak>;

/// A model with a bug in it.
#[derive(Debug)]
pub struct WrongModel {
    /// What is changed, in words.
    pub about: &'static str,
    /// The erratum whose printed text this is.
    pub erratum: Option<&'static str>,
    /// What is replaced in the text of the model: once, all at once.
    pub replaced: &'static [(&'static str, &'static str)],
    /// The action and the clause at which the proof fails; other questions may fail, too.
    pub fails_at: (&'static str, &'static str),
}

impl Covered {
    const fn new<A: Modelled>(name: &'static str, text: &'static str) -> Self {
        Covered::with(name, text, tie::compare::<A>)
    }

    /// A model that no run of the explorer is compared with.
    const fn alone(name: &'static str, text: &'static str) -> Self {
        Covered::with(name, text, |_, _, _| unreachable!("it has no runs"))
    }

    const fn with(name: &'static str, text: &'static str, compare: Compare) -> Self {
        Covered {
            name,
            also: &[],
            text,
            scope: "",
            only: None,
            assumed: &[],
            small: &[],
            golden: &[],
            long_golden: &[],
            larger: &[],
            untaken: &[],
            about_nothing: &[],
            wrong: &[],
            mutants: &[],
            beyond: &[],
            tied_by: "",
            compare,
        }
    }

    /// The names of the algorithms that are covered.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.also.iter().map(|&(name, _)| name))
    }

    /// The model.
    pub fn model(&self) -> ProofModel {
        text::parse(self.text).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Compares one run of the code with the model.
    pub fn compare(&self, run: &TieRun) -> Result<TieReport, TieBreak> {
        let spec: Spec = self.spec(run).parse().expect("a registered algorithm with its options");
        let other = self.also.iter().find(|(name, _)| *name == spec.info.name);
        let compare = other.map_or(self.compare, |&(_, compare)| compare);
        compare(&self.model(), &spec, run)
    }

    /// The spec of what a run compares.
    pub fn spec(&self, run: &TieRun) -> &'static str {
        run.spec.unwrap_or(self.name)
    }

    /// The runs that every test compares.
    pub fn runs(&self) -> Vec<TieRun> {
        let mut runs = self.small.to_vec();
        runs.extend(self.without(&runs, self.golden));
        runs
    }

    /// The runs that `cargo xtask soak` compares beside those.
    pub fn long_runs(&self) -> Vec<TieRun> {
        let mut runs = self.without(&self.runs(), self.long_golden);
        runs.extend(self.larger);
        runs
    }

    /// Those of these golden runs that are not among `runs`.
    fn without(&self, runs: &[TieRun], golden: &[Golden]) -> Vec<TieRun> {
        let all = golden.iter().flat_map(|&(spec, of_spec)| of_spec.iter().map(move |run| of(spec, *run)));
        let is_new = |run: &TieRun| {
            let same = |known: &TieRun| {
                self.spec(known) == self.spec(run) && TieRun { spec: run.spec, ..*known } == *run
            };
            !runs.iter().any(same)
        };
        all.filter(is_new).collect()
    }

    /// The model of this name with a bug in it.
    pub fn wrong_model(&self, wrong: &WrongModel) -> ProofModel {
        let mut changed = self.text.to_owned();
        for (from, to) in wrong.replaced {
            assert!(changed.contains(from), "{}: '{from}' is not in the model", self.name);
            changed = changed.replace(from, to);
        }
        text::parse(&changed).unwrap_or_else(|error| panic!("{}, {}: {error}", self.name, wrong.about))
    }
}

/// Algorithms without a model, each with the reason. The document names them.
pub const WITHOUT: &[(&str, &str)] = &[
    (
        "neilsen-mizuno",
        "it has no model yet. That there is one privilege is seen at once; that every request finds the sink needs paths in a tree whose \
         edges turn round, as those of `raymond` do, while several requests are on their way",
    ),
    (
        "cao-singhal",
        "it has no model yet. That each arbiter's permission is in one place (its invariant Q2) is explored; a model would have to say \
         which of the TRANSFERs that have been sent are void",
    ),
];

/// Every algorithm with a model, in the order in which tables list them.
pub const ALL: &[Covered] = &[
    Covered {
        scope: lamport::SCOPE,
        small: &[run(1, 2), run(2, 2), held(2, 1, 1), first(1_500, run(3, 1)), returning(2, 2)],
        golden: &[("lamport", TWO)],
        larger: &[first(20_000, run(3, 1))],
        wrong: lamport::WRONG,
        mutants: lamport::MUTANTS,
        ..Covered::new::<Lamport>("lamport", lamport::TEXT)
    },
    Covered {
        scope: ricart_agrawala::SCOPE,
        small: &[run(1, 2), run(2, 2), held(2, 2, 1), run(3, 1), held(3, 1, 0), returning(2, 2)],
        long_golden: &[("ricart-agrawala", THREE)],
        larger: &[first(20_000, run(4, 1))],
        wrong: ricart_agrawala::WRONG,
        mutants: ricart_agrawala::MUTANTS,
        ..Covered::new::<RicartAgrawala>("ricart-agrawala", ricart_agrawala::TEXT)
    },
    Covered {
        scope: suzuki_kasami::SCOPE,
        small: &[run(2, 2), held(2, 2, 1), held(3, 1, 2), first(10_000, run(3, 2)), returning(2, 2)],
        golden: &[("suzuki-kasami:append=any", OPEN)],
        long_golden: &[("suzuki-kasami", THREE), ("suzuki-kasami:append=any", &[run(3, 2)])],
        larger: &[first(20_000, run(4, 1))],
        wrong: suzuki_kasami::WRONG,
        mutants: suzuki_kasami::MUTANTS,
        ..Covered::new::<SuzukiKasami>("suzuki-kasami", suzuki_kasami::TEXT)
    },
    Covered {
        scope: naimi_trehel::SCOPE,
        small: &[run(1, 2), run(2, 2), held(2, 2, 1), run(3, 2), held(3, 1, 2), run(4, 1)],
        golden: &[("naimi-trehel", FOUR)],
        larger: &[run(4, 2)],
        wrong: naimi_trehel::WRONG,
        mutants: naimi_trehel::MUTANTS,
        ..Covered::new::<NaimiTrehel>("naimi-trehel", naimi_trehel::TEXT)
    },
    Covered {
        scope: central::SCOPE,
        small: &[
            run(1, 2),
            run(2, 2),
            held(2, 2, 1),
            run(3, 2),
            held(3, 1, 0),
            run(4, 1),
            of("central:coordinator=1", returning(3, 1)),
        ],
        golden: &[("central", FOUR)],
        larger: &[run(4, 2)],
        wrong: central::WRONG,
        beyond: central::BEYOND,
        ..Covered::new::<Central>("central", central::TEXT)
    },
    Covered {
        scope: token_ring::SCOPE,
        small: &[run(1, 2), run(2, 2), held(2, 2, 1), run(3, 2), held(3, 1, 2), run(4, 1)],
        golden: &[("token-ring", FOUR)],
        larger: &[run(4, 2)],
        wrong: token_ring::WRONG,
        mutants: token_ring::MUTANTS,
        ..Covered::new::<TokenRing>("token-ring", token_ring::TEXT)
    },
    Covered {
        also: &[("majority", tie::compare::<Majority>), ("tree-quorum", tie::compare::<TreeQuorum>)],
        scope: quorums::SCOPE,
        small: &[
            run(1, 2),
            run(2, 2),
            of("maekawa:deadlock=fail", run(2, 2)),
            of("majority", held(2, 2, 1)),
            of("tree-quorum", run(3, 1)),
            of("tree-quorum:deadlock=fail", held(3, 1, 1)),
            of("majority:deadlock=fail", run(3, 1)),
            run(3, 1),
            returning(2, 2),
        ],
        golden: &[
            ("maekawa:deadlock=fail", TWO),
            ("maekawa:quorums=grid", TWO),
            ("maekawa:quorums=grid,deadlock=fail", TWO),
            ("tree-quorum", TWO),
            ("tree-quorum:deadlock=fail", TWO),
            ("tree-quorum:path=any", TWO),
            ("majority", TWO),
            ("majority:deadlock=fail", TWO),
            ("majority:quorum=any", TWO),
        ],
        long_golden: &[
            ("maekawa", THREE),
            ("tree-quorum", THREE),
            ("tree-quorum:path=any", OPEN),
            ("majority", THREE),
        ],
        larger: &[first(5_000, of("majority:deadlock=fail", run(4, 1)))],
        about_nothing: &["somebody_keeps", "nobody_keeps_last"],
        wrong: quorums::WRONG,
        mutants: quorums::MUTANTS,
        beyond: quorums::BEYOND,
        ..Covered::new::<Maekawa>("maekawa", quorums::TEXT)
    },
    Covered {
        scope: sanders::SCOPE,
        small: &[
            run(1, 2),
            run(2, 2),
            of("sanders:structure=distributed", held(2, 2, 1)),
            of("sanders:structure=central", run(3, 1)),
            first(1_000, of("sanders:structure=distributed", run(3, 1))),
            first(1_000, of("sanders:structure=pair", run(3, 1))),
            first(1_000, of("sanders:structure=pair,deadlock=yield", held(3, 1, 2))),
            of("sanders:deadlock=yield", returning(2, 2)),
            of("sanders:structure=plane,deadlock=yield", run(2, 2)),
        ],
        golden: &[
            ("sanders:deadlock=yield", TWO),
            ("sanders:structure=plane", TWO),
            ("sanders:structure=pair", TWO),
            ("sanders:structure=pair,deadlock=yield", TWO),
            ("sanders:structure=central", FOUR),
            ("sanders:structure=distributed", TWO),
        ],
        long_golden: &[
            ("sanders:deadlock=yield", &[run(3, 2), held(3, 2, 2), returning(3, 2)]),
            ("sanders:structure=pair,deadlock=yield", FOUR),
        ],
        larger: &[run(3, 1), first(5_000, of("sanders:structure=pair", run(4, 1)))],
        about_nothing: &["somebody_keeps", "nobody_keeps_last"],
        wrong: sanders::WRONG,
        mutants: sanders::MUTANTS,
        ..Covered::new::<Sanders>("sanders", sanders::TEXT)
    },
    Covered {
        scope: carvalho_roucairol::SCOPE,
        small: &[run(1, 2), run(2, 2), held(2, 2, 1), run(3, 1), held(3, 1, 0), returning(2, 2)],
        long_golden: &[("carvalho-roucairol", THREE)],
        larger: &[first(20_000, run(4, 1))],
        wrong: carvalho_roucairol::WRONG,
        mutants: carvalho_roucairol::MUTANTS,
        ..Covered::new::<CarvalhoRoucairol>("carvalho-roucairol", carvalho_roucairol::TEXT)
    },
    Covered {
        scope: singhal_dynamic::SCOPE,
        small: &[run(1, 2), run(2, 2), held(2, 2, 1), run(3, 1), held(3, 1, 0), returning(2, 2)],
        long_golden: &[("singhal-dynamic", THREE)],
        larger: &[first(20_000, run(4, 1))],
        wrong: singhal_dynamic::WRONG,
        mutants: singhal_dynamic::MUTANTS,
        ..Covered::new::<SinghalDynamic>("singhal-dynamic", singhal_dynamic::TEXT)
    },
    Covered {
        scope: lodha_kshemkalyani::SCOPE,
        small: &[
            run(1, 2),
            run(2, 2),
            held(2, 2, 1),
            run(3, 1),
            held(3, 1, 0),
            first(4_000, run(3, 2)),
            returning(2, 2),
        ],
        long_golden: &[("lodha-kshemkalyani", THREE)],
        larger: &[first(20_000, run(4, 1))],
        wrong: lodha_kshemkalyani::WRONG,
        mutants: lodha_kshemkalyani::MUTANTS,
        ..Covered::new::<LodhaKshemkalyani>("lodha-kshemkalyani", lodha_kshemkalyani::TEXT)
    },
    Covered {
        scope: singhal_heuristic::SCOPE,
        small: &[
            run(1, 2),
            run(2, 2),
            held(2, 2, 1),
            of("singhal-heuristic:arbitration=any", run(3, 1)),
            of("singhal-heuristic:arbitration=lowest", held(3, 1, 2)),
            first(4_000, run(3, 2)),
            returning(2, 2),
            of("singhal-heuristic:merge=chain", returning(2, 2)),
        ],
        golden: &[
            ("singhal-heuristic:arbitration=lowest", TWO),
            ("singhal-heuristic:arbitration=any", OPEN),
            ("singhal-heuristic:merge=chain", TWO),
        ],
        long_golden: &[
            ("singhal-heuristic", FOUR),
            ("singhal-heuristic:arbitration=any", &[run(3, 2)]),
            ("singhal-heuristic:arbitration=lowest", FOUR),
            ("singhal-heuristic:merge=chain", FOUR),
        ],
        larger: &[first(20_000, of("singhal-heuristic:arbitration=any", run(4, 1)))],
        wrong: singhal_heuristic::WRONG,
        beyond: singhal_heuristic::BEYOND,
        ..Covered::new::<SinghalHeuristic>("singhal-heuristic", singhal_heuristic::TEXT)
    },
    Covered {
        scope: raymond::SCOPE,
        small: &[run(1, 2), run(2, 2), held(2, 2, 1), run(3, 2), held(3, 1, 2), run(4, 1)],
        golden: &[("raymond", FOUR), ("raymond:tree=star", FOUR), ("raymond:tree=line", FOUR)],
        larger: &[run(4, 2)],
        wrong: raymond::WRONG,
        mutants: raymond::MUTANTS,
        ..Covered::new::<Raymond>("raymond", raymond::TEXT)
    },
    Covered {
        scope: delegated::SCOPE,
        only: Some("K = 1"),
        small: &[run(1, 2), run(2, 2), held(2, 2, 1), first(3_000, run(3, 2)), held(3, 1, 2), run(4, 1)],
        golden: &[("delegated:leader=1", TWO)],
        long_golden: &[("delegated", WITHOUT_RETURNS), ("delegated:leader=1", WITHOUT_RETURNS)],
        larger: &[first(20_000, run(3, 3))],
        wrong: delegated::WRONG,
        mutants: delegated::MUTANTS,
        ..Covered::new::<Delegated>("delegated", delegated::TEXT)
    },
    Covered {
        scope: raymond_k::SCOPE,
        small: &[
            run(2, 2),
            permits(2, run(3, 1)),
            permits(2, held(3, 1, 2)),
            first(1_000, permits(2, run(3, 2))),
            returning(2, 2),
        ],
        long_golden: &[("raymond-k", THREE)],
        larger: &[first(20_000, permits(2, run(3, 2))), first(20_000, permits(2, run(4, 1)))],
        wrong: raymond_k::WRONG,
        mutants: raymond_k::MUTANTS,
        ..Covered::new::<RaymondK>("raymond-k", raymond_k::TEXT)
    },
    Covered {
        scope: srimani_reddy::SCOPE,
        small: &[
            run(2, 2),
            permits(2, run(3, 1)),
            permits(2, held(3, 1, 2)),
            first(3_000, permits(2, run(3, 2))),
            returning(2, 2),
        ],
        golden: &[
            ("srimani-reddy", &[permits(2, run(2, 2))]),
            ("srimani-reddy:append=any,token=any", OPEN_PERMITS),
        ],
        long_golden: &[("srimani-reddy", THREE)],
        larger: &[first(20_000, permits(2, run(3, 2))), first(20_000, permits(2, run(4, 1)))],
        wrong: srimani_reddy::WRONG,
        mutants: srimani_reddy::MUTANTS,
        ..Covered::new::<SrimaniReddy>("srimani-reddy", srimani_reddy::TEXT)
    },
    Covered {
        scope: bulgannawar_vaidya::SCOPE,
        small: &[
            run(2, 2),
            held(2, 1, 1),
            run(3, 1),
            permits(2, run(3, 1)),
            permits(2, held(3, 1, 2)),
            permits(2, held(3, 1, 0)),
            permits(2, held(3, 1, 1)),
            first(3_000, permits(2, run(3, 2))),
            returning(2, 2),
        ],
        golden: &[
            ("bulgannawar-vaidya", &[permits(2, run(2, 2))]),
            ("bulgannawar-vaidya:inform=0", PERMITS),
            (
                "bulgannawar-vaidya:inform=1",
                &[run(2, 2), permits(2, run(2, 2)), permits(2, run(4, 1)), permits(3, run(4, 1))],
            ),
            ("bulgannawar-vaidya:choice=random", &[run(2, 2), permits(2, run(2, 2))]),
            ("bulgannawar-vaidya:inform=0,choice=random", TWO),
            ("bulgannawar-vaidya:choice=random,informed=any", OPEN_PERMITS),
        ],
        long_golden: &[
            (
                "bulgannawar-vaidya",
                &[
                    permits(2, run(3, 2)),
                    permits(2, held(3, 2, 0)),
                    permits(2, returning(3, 2)),
                    run(4, 1),
                    permits(2, run(4, 1)),
                    permits(3, run(4, 1)),
                ],
            ),
            ("bulgannawar-vaidya:inform=1", PERMITS),
            ("bulgannawar-vaidya:choice=random", &[run(4, 1)]),
            ("bulgannawar-vaidya:inform=0,choice=random", PERMITS),
        ],
        untaken: &["refuse"],
        wrong: bulgannawar_vaidya::WRONG,
        mutants: bulgannawar_vaidya::MUTANTS,
        ..Covered::new::<BulgannawarVaidya>("bulgannawar-vaidya", bulgannawar_vaidya::TEXT)
    },
    Covered {
        scope: makki::SCOPE,
        tied_by: makki::TIED_BY,
        wrong: makki::WRONG,
        beyond: makki::BEYOND,
        ..Covered::alone("makki", makki::TEXT)
    },
];

/// Arguments about the node, without an algorithm that the explorer could run.
pub const NODE: &[Covered] = &[Covered {
    scope: census::SCOPE,
    assumed: census::ASSUMED,
    tied_by: census::TIED_BY,
    wrong: census::WRONG,
    ..Covered::alone("census", census::TEXT)
}];

/// Everything with a model.
pub fn all() -> impl Iterator<Item = &'static Covered> {
    ALL.iter().chain(NODE)
}

/// The model with this name.
pub fn find(name: &str) -> Option<&'static Covered> {
    all().find(|covered| covered.names().any(|other| other == name))
}
