//! probe
use meshlock_node::cluster_sim::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a.len() == 3 {
        let (lo, hi): (u64, u64) = (a[1].parse().unwrap(), a[2].parse().unwrap());
        let mut bad = 0;
        let mut cov = coverage::Coverage::default();
        let mut nm = 0u64;
        let mut ev = 0u64;
        let t = std::time::Instant::now();
        for s in lo..hi {
            let r = run(s, &Options::default());
            cov.add(&r.coverage);
            nm += r.node_micros;
            ev += r.events;
            if let Some(v) = r.violation {
                bad += 1;
                println!("seed {s}: {}", v.to_string().chars().take(150).collect::<String>());
            }
        }
        println!("bad {bad} of {} in {:?}; {} node-s, {} events", hi - lo, t.elapsed(), nm / 1_000_000, ev);
        for (w, c) in cov.iter() {
            eprintln!("{w}: {c}");
        }
    } else {
        let s = a[1].parse().unwrap();
        let set = settings::Settings::draw(s);
        println!(
            "machines {} founders {} starts {:?} beyond {} clients {} locks {:?} delay {} hold {} disk {} calm {} terms {:?}",
            set.machines,
            set.founders,
            set.starts,
            set.beyond_drift,
            set.clients,
            set.locks,
            set.delay,
            set.hold,
            set.disk,
            set.calm,
            set.terms
        );
        println!("{:?}", set.rules);
        for f in &set.faults {
            println!("{f:?}");
        }
        let r = run(s, &Options { trace: true, ..Options::default() });
        for l in &r.trace {
            println!("{l}");
        }
        println!("{:?}", r.violation);
    }
}
