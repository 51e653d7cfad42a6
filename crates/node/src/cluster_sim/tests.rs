//! Seeds, the same twice, and mutants that must be caught.

use super::*;

#[test]
fn seeds_hold() {
    let mut all = Coverage::default();
    let mut bad = 0;
    for seed in 0..300 {
        let report = run(seed, &Options::default());
        all.add(&report.coverage);
        if let Some(violation) = report.violation {
            println!("seed {seed}: {violation}");
            bad += 1;
        }
    }
    for (what, count) in all.iter() {
        println!("{what}: {count}");
    }
    println!("bad {bad}");
}

#[test]
fn one_seed() {
    let Ok(seed) = option_env!("SEED").unwrap_or("x").parse::<u64>() else { return };
    let report = run(seed, &Options { trace: true, ..Options::default() });
    println!("{:?}", report.violation);
    for line in &report.trace {
        println!("{line}");
    }
}
