//! The simulator against what is known in closed form.

use meshlock_protocol::algorithms::ricart_agrawala::RicartAgrawala;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{Algorithm, Cluster};
use meshlock_sim::settings::{Load, Rates};
use meshlock_sim::trace::NoTrace;
use meshlock_sim::{Settings, simulate};

#[test]
fn ricart_agrawala_costs_two_messages_a_peer_at_any_load() {
    for (load, rate) in [(Load::Open, 0.01), (Load::Closed, 0.5), (Load::Saturated, 0.0)] {
        let mut settings = Settings::new(Cluster::of(10));
        settings.load = load;
        settings.rates = Rates::Same(rate);
        settings.entries = 20_000;
        let report =
            simulate::<RicartAgrawala>(&settings, &Values::defaults(&RicartAgrawala::INFO), &mut NoTrace)
                .unwrap();
        assert!((report.messages_per_entry.mean - 18.0).abs() < 0.05, "{report:#?}");
    }
}
