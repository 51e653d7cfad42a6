//! Printed rules that are no variant of what ships: small machines of their own, for the errata only.

mod singhal;

use meshlock_protocol::registry::Visitor;
use meshlock_protocol::registry::spec::SpecError;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{Described, Spec};

pub(super) use singhal::SinghalRecovery;

/// The options of the twin that `spec` names, if it names one.
pub(super) fn values(spec: &str) -> Option<Values> {
    let info = &SinghalRecovery::INFO;
    let (name, option) = spec.split_once(':').unwrap_or((spec, ""));
    let mut values = (name == info.name).then(|| Values::defaults(info))?;
    if let Some((option, value)) = option.split_once('=') {
        values.set(option, value).expect("errata name options that exist");
    }
    Some(values)
}

/// The algorithm that `text` names with its options: one that is registered, or a twin that only errata know.
pub fn spec(text: &str) -> Result<Spec, SpecError> {
    let info = &SinghalRecovery::INFO;
    if text.split(':').next() == Some(info.name) { Spec::parse(text, &[info]) } else { text.parse() }
}

/// Lets `visitor` do its work with the algorithm of a spec that [`spec`] has read.
pub fn visit<V: Visitor>(spec: &Spec, visitor: V) -> V::Output {
    if spec.info.name == SinghalRecovery::INFO.name {
        visitor.visit::<SinghalRecovery>(spec)
    } else {
        spec.visit(visitor)
    }
}
