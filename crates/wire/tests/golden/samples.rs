//! Values that samples are made of.

use meshlock_cluster::access::{
    AccessDocument, AgreedAccess, AgreedLimits, AgreedToken, JoinToken, RuleText, TokenHash, Verb,
};
use meshlock_cluster::claim::{ClaimKey, Proof, ProvedHold};
use meshlock_cluster::founding::{ClusterId, Founding};
use meshlock_cluster::lease::Terms;
use meshlock_cluster::membership::voters::{Voter, Voters};
use meshlock_cluster::names::{Incarnation, Member, SiteName};
use meshlock_cluster::report::{
    ChangeKind, CutOff, Deadlock, Deadlocks, LockChange, LockEntry, LockPage, LockQueue, LockSummary,
    NameFilter, PageQuestion, Party, PartyHold, PartyWait, PartyWaits, SiteHolder, SiteLocks, SitePage,
    SiteQueue, SiteWaits, Standing, StuckParty,
};
use meshlock_cluster::rules::{Clause, Pattern, RulesText};
use meshlock_cluster::table::{HolderReport, LockInUse, LockReport, Machinery, WaiterReport};
use meshlock_cluster::time::{Drift, Span};
use meshlock_cluster::view::View;
use meshlock_protocol::{Demand, Epoch, Fence, FenceClock, Mode};
use meshlock_wire::diagnosis::{AskedSite, CertificateEnd, Diagnosis, LeaseReport, PeerReport};

pub(crate) fn site(name: &str) -> SiteName {
    name.parse().expect("a name")
}

pub(crate) fn epoch(number: u32) -> Epoch {
    Epoch::new(number).expect("a small number")
}

pub(crate) fn fence() -> Fence {
    FenceClock::new(epoch(3)).enter()
}

pub(crate) fn proof() -> Proof {
    let holder = Member { site: site("a"), incarnation: Incarnation::new(7) };
    let lock = "jobs".parse().expect("a name");
    let hold = ProvedHold { holder, lock, permits: 3, slot: Some(2), fence: fence(), mode: Mode::Exclusive };
    Proof::new(&ClaimKey::new([7; ClaimKey::BYTES]), b"cluster", hold)
}

pub(crate) fn founding() -> Founding {
    Founding::new("prod".parse().expect("a name"), &[site("a"), site("b")])
}

pub(crate) fn diagnosis() -> Diagnosis {
    let terms = Terms::default();
    let peer = PeerReport {
        site: site("b"),
        address: Some("b:7400".parse().expect("an address")),
        heard: Some(Span::from_millis(70)),
        version: Some(4),
        error: Some("refused".to_owned()),
    };
    Diagnosis {
        site: site("a"),
        incarnation: 7,
        cluster: "prod".parse().expect("a name"),
        program: "0.1.0".to_owned(),
        site_versions: (1, 4),
        client_versions: (2, 5),
        founders: vec![site("a"), site("b")],
        voters: vec![site("a"), site("b")],
        replaced: 1,
        epoch: 3,
        members: vec![site("a")],
        leader: Some(site("a")),
        outage: Some("a has no lease".to_owned()),
        leaving: false,
        disk: Some("full".to_owned()),
        lease: LeaseReport { terms, configured: terms, left: Some(Span::from_millis(9)), tightest: None },
        wall_clock: 1_700_000_000_000_000,
        certificates: vec![CertificateEnd { is_authority: true, at: 1_800_000_000 }],
        peers: vec![peer],
        configuration: vec![("access".to_owned(), 5)],
    }
}

pub(crate) fn asked_sites() -> Vec<AskedSite> {
    let asked = |name, answer| AskedSite {
        site: site(name),
        address: Some(format!("{name}:7400").parse().expect("an address")),
        took: Span::from_millis(2),
        ahead: -300,
        answer,
    };
    vec![asked("a", Ok(Box::new(diagnosis()))), asked("b", Err("refused".to_owned()))]
}

pub(crate) fn cluster() -> ClusterId {
    founding().id()
}

pub(crate) fn member() -> Member {
    Member { site: site("a"), incarnation: Incarnation::new(7) }
}

pub(crate) fn rules() -> RulesText {
    let default = Clause::exclusive("naimi-trehel");
    RulesText { rules: vec![("pool/*".to_owned(), Clause::shared("srimani-reddy", 3))], default }
}

/// Rules whose numbers all differ.
pub(crate) fn rules_of_different_permits() -> RulesText {
    let clause =
        |algorithm: &str, permits, per_site| Clause { algorithm: algorithm.to_owned(), permits, per_site };
    let default = clause("raymond", 5, 4);
    RulesText { rules: vec![("pool/*".to_owned(), clause("srimani-reddy", 3, 2))], default }
}

pub(crate) fn view_of_different_permits() -> View {
    View { rules: rules_of_different_permits(), rules_version: 6, ..view() }
}

pub(crate) fn view() -> View {
    View {
        epoch: epoch(3),
        members: vec![member()],
        past: vec![Member { site: site("b"), incarnation: Incarnation::new(300) }],
        floor: Incarnation::new(5),
        addresses: [(site("a"), "10.0.0.1:7400".parse().expect("an address"))].into_iter().collect(),
        terms: Terms {
            length: Span::from_millis(5000),
            drift: Drift::from_ppm(1000),
            margin: Span::from_millis(500),
            renew_every: Span::from_millis(1000),
        },
        rules: rules(),
        rules_version: 2,
    }
}

pub(crate) fn holder() -> HolderReport {
    let label = Some("backup.sh".parse().expect("a label"));
    HolderReport {
        label,
        fence: fence(),
        slot: Some(1),
        age: Span::from_millis(9),
        lost: false,
        mode: Mode::Exclusive,
    }
}

pub(crate) fn report(machines: Machinery) -> LockReport {
    let waiters = vec![WaiterReport { label: None, age: Span::from_millis(4), demand: Demand::PLAIN }];
    LockReport { machines, holders: vec![holder()], holders_in_all: 1, waiters, waiters_in_all: 2 }
}

pub(crate) fn site_queue(standing: Standing, machines: Machinery) -> SiteQueue {
    let lock = report(machines);
    SiteQueue {
        site: site("a"),
        epoch: epoch(3),
        standing,
        leased: true,
        leaving: false,
        lock,
        settled: None,
    }
}

pub(crate) fn running() -> Machinery {
    Machinery::Running { idle: 1, waiting: 2, executing: 3 }
}

pub(crate) fn queue() -> LockQueue {
    let sites = vec![site_queue(Standing::Open, running())];
    LockQueue {
        epoch: epoch(3),
        algorithm: Some("raymond".to_owned()),
        permits: 1,
        sites,
        missing: vec![site("b")],
    }
}

pub(crate) fn site_locks() -> SiteLocks {
    let in_use = LockInUse {
        lock: "jobs".parse().expect("a name"),
        holders: 1,
        waiters: 2,
        holder: Some(holder()),
        waited: Span::from_millis(4),
    };
    SiteLocks {
        site: site("a"),
        standing: Standing::Open,
        lease_left: Some(Span::from_millis(4000)),
        leaving: true,
        sessions: 4,
        granted: 300,
        locks: vec![in_use],
        locks_in_all: 1,
    }
}

pub(crate) fn page_question() -> PageQuestion {
    let pattern = |text| Some(Pattern::parse(text).expect("a pattern"));
    let names = NameFilter { pattern: pattern("jobs*"), visible: pattern("pool/*").map(|only| vec![only]) };
    PageQuestion { names, after: Some("jobs/7".parse().expect("a name")), limit: 300 }
}

pub(crate) fn site_page() -> SitePage {
    let entry = LockEntry {
        lock: "jobs".parse().expect("a name"),
        permits: 3,
        holders: vec![holder()],
        holders_in_all: 2,
        waiters: 300,
        waited: Span::from_millis(4),
    };
    SitePage { site: site("a"), entries: vec![entry], more: true }
}

pub(crate) fn lock_page() -> LockPage {
    let summary = LockSummary {
        lock: "jobs".parse().expect("a name"),
        algorithm: Some("raymond".to_owned()),
        permits: 3,
        holders: vec![SiteHolder { site: site("b"), holder: holder() }],
        holders_in_all: 2,
        waiters: 300,
        waited: Span::from_millis(4),
    };
    LockPage { locks: vec![summary], next: Some("jobs".parse().expect("a name")), missing: vec![site("c")] }
}

pub(crate) fn lock_change(kind: ChangeKind) -> LockChange {
    LockChange {
        lock: "jobs".parse().expect("a name"),
        kind,
        who: Some("backup.sh".parse().expect("a label")),
        fence: fence(),
        slot: Some(2),
        ago: Span::from_millis(9),
    }
}

fn party_wait() -> PartyWait {
    let lock = "jobs".parse().expect("a name");
    PartyWait { request: 300, lock, permits: 3, waited: Span::from_millis(4), is_refusable: true }
}

fn party_hold() -> PartyHold {
    let lock = "pool".parse().expect("a name");
    PartyHold { lock, permits: 2, fence: fence(), slot: Some(1), held: Span::from_millis(9) }
}

pub(crate) fn site_waits() -> SiteWaits {
    let who = Some("backup.sh".parse().expect("a label"));
    let party = PartyWaits { party: Party(0xa5), who, waits: vec![party_wait()], holds: vec![party_hold()] };
    SiteWaits { site: site("a"), incarnation: Incarnation::new(300), parties: vec![party], more: true }
}

pub(crate) fn deadlocks() -> Deadlocks {
    let stuck = StuckParty {
        site: site("a"),
        incarnation: Incarnation::new(300),
        party: Party(0xa5),
        who: None,
        waits: vec![party_wait()],
        holds: vec![party_hold()],
    };
    Deadlocks { found: vec![Deadlock { parties: vec![stuck] }], missing: vec![site("b")], is_cut: true }
}

pub(crate) fn cut_off() -> CutOff {
    CutOff { site: site("a"), label: None, fence: fence() }
}

/// An access document with something of every kind.
pub(crate) fn access() -> AgreedAccess {
    let verbs = vec![Verb::Acquire, Verb::Watch, Verb::Break, Verb::Admin];
    let rule = RuleText { principal: "ops".to_owned(), locks: "*".to_owned(), verbs };
    let hash = TokenHash::of("secret");
    let token = AgreedToken {
        name: "ci".parse().expect("a name"),
        sha256: hash.clone(),
        expires: Some(1_900_000_000),
    };
    let mut document = AccessDocument {
        rules: vec![rule],
        tokens: vec![token],
        revoked: vec!["client/x".to_owned(), "serial/0a".to_owned()],
        limits: AgreedLimits { rate: Some(300), ..AgreedLimits::default() },
        ..AccessDocument::default()
    };
    document.admit(site("d"), Some(JoinToken { sha256: hash, expires: 1_900_000_000 }));
    document.close([&site("a"), &site("b")]);
    document.remove(&site("b"));
    AgreedAccess { version: 300, document }
}

/// Voters in the middle of a change.
pub(crate) fn voters() -> Voters {
    let voter =
        |id: u64, name: &str, disk: u64| Voter { id, site: site(name), disk: Some(Incarnation::new(disk)) };
    Voters {
        changed_at: 300,
        voters: vec![voter(1, "a", 7), voter(4, "d", 9)],
        outgoing: vec![voter(1, "a", 7), Voter { id: 2, site: site("b"), disk: None }],
        learners: vec![voter(5, "e", 10)],
        wanted: 2,
        replaced: Some(1),
        resting: vec![site("b")],
        next_id: 6,
    }
}
