//! Printed rules that are no variant of what ships: small machines of their own, for the errata only.

mod singhal;

use meshlock_protocol::registry::spec::SpecError;
use meshlock_protocol::registry::{AnySite, Visitor};
use meshlock_protocol::{Described, Spec};

use singhal::SinghalRecovery;

/// Parses the name of an algorithm with its options: one that is registered, or a twin that only errata know.
pub fn spec(text: &str) -> Result<Spec, SpecError> {
    let info = &SinghalRecovery::INFO;
    if text.split(':').next() == Some(info.name) { Spec::parse(text, &[info]) } else { text.parse() }
}

/// Runs `visitor` with the type of the algorithm that a spec from [`spec`] names.
pub(crate) fn visit_type<V: Visitor>(spec: &Spec, visitor: V) -> V::Output {
    if is_twin(spec) { visitor.visit::<SinghalRecovery>(spec) } else { spec.visit(visitor) }
}

/// Runs `visitor` with [`AnySite`], or with the twin's type if a spec from [`spec`] names the twin. What the visitor does is
/// compiled twice, and not once for each algorithm.
pub fn visit<V: Visitor>(spec: &Spec, visitor: V) -> V::Output {
    if is_twin(spec) { visitor.visit::<SinghalRecovery>(spec) } else { visitor.visit::<AnySite>(spec) }
}

fn is_twin(spec: &Spec) -> bool {
    spec.info.name == SinghalRecovery::INFO.name
}
