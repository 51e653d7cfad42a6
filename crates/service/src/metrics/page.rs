//! Families of metrics in the words of the text that Prometheus reads.

use std::fmt;

use meshlock_cluster::histogram::Histogram;
use meshlock_cluster::time::Span;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Names of labels, and their values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// One label.
pub(super) fn label(name: &'static str, value: impl ToString) -> Labels {
    vec![(name, value.to_string())]
}

/// What is written.
pub(super) struct Page<'a>(pub(super) DescriptorEncoder<'a>);

/// A family: its name without what its kind adds, and what it tells.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
}

impl Page<'_> {
    /// What this is, in labels.
    pub(super) fn info(&mut self, family: Family, labels: &Labels) -> fmt::Result {
        self.begin(family, None, MetricType::Info)?.encode_info(&labels.as_slice())
    }

    /// What only rises.
    pub(super) fn counters<V: EncodeCounterValue>(
        &mut self,
        family: Family,
        values: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result {
        let mut encoder = self.begin(family, None, MetricType::Counter)?;
        for (labels, value) in values {
            let count =
                |encoder: &mut MetricEncoder<'_>| encoder.encode_counter::<NoLabelSet, _, u64>(&value, None);
            within(&mut encoder, &labels, count)?;
        }
        Ok(())
    }

    /// How something is now.
    pub(super) fn gauges<V: EncodeGaugeValue>(
        &mut self,
        family: Family,
        values: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result {
        let mut encoder = self.begin(family, None, MetricType::Gauge)?;
        for (labels, value) in values {
            within(&mut encoder, &labels, |encoder| encoder.encode_gauge(&value))?;
        }
        Ok(())
    }

    /// One number.
    pub(super) fn gauge(&mut self, family: Family, value: impl EncodeGaugeValue) -> fmt::Result {
        self.gauges(family, [(Labels::new(), value)])
    }

    /// How long things took.
    pub(super) fn histograms<'h>(
        &mut self,
        family: Family,
        values: impl IntoIterator<Item = (Labels, &'h Histogram)>,
    ) -> fmt::Result {
        let mut encoder = self.begin(family, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (labels, histogram) in values {
            let end = |end: Option<u64>| end.map_or(f64::MAX, |micros| seconds(Span::from_micros(micros)));
            let classes: Vec<(f64, u64)> =
                histogram.buckets().map(|(bound, count)| (end(bound), count)).collect();
            let (sum, count) = (seconds(histogram.total()), histogram.count());
            within(&mut encoder, &labels, |encoder| {
                encoder.encode_histogram::<NoLabelSet>(sum, count, &classes, None)
            })?;
        }
        Ok(())
    }

    fn begin<'s>(
        &'s mut self,
        family: Family,
        unit: Option<&'s Unit>,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(family.name, family.help, unit, kind)
    }
}

/// Does something with the encoder of a series; one without labels has none of its own.
fn within(
    encoder: &mut MetricEncoder<'_>,
    labels: &Labels,
    act: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if labels.is_empty() {
        return act(encoder);
    }
    act(&mut encoder.encode_family(labels)?)
}

/// A length of time as Prometheus counts it.
pub(super) fn seconds(span: Span) -> f64 {
    span.micros() as f64 / 1e6
}
