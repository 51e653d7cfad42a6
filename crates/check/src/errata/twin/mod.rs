//! Printed rules that are no variant of what ships: small machines of their own, for the errata only.

mod singhal;
mod unnamed;

use meshlock_protocol::registry::spec::SpecError;
use meshlock_protocol::registry::{AnySite, Visitor};
use meshlock_protocol::{Described, Info, Spec};

use singhal::SinghalRecovery;
use unnamed::UnnamedQuorum;

const SINGHAL: &Info = &SinghalRecovery::INFO;
const UNNAMED: &Info = &UnnamedQuorum::INFO;

/// Parses the name of an algorithm with its options: one that is registered, or a twin that only errata know.
pub fn spec(text: &str) -> Result<Spec, SpecError> {
    let name = text.split(':').next();
    if [SINGHAL, UNNAMED].iter().any(|info| name == Some(info.name)) {
        Spec::parse(text, &[SINGHAL, UNNAMED])
    } else {
        text.parse()
    }
}

/// Runs `visitor` with the type of the algorithm that a spec from [`spec`] names.
pub(crate) fn visit_type<V: Visitor>(spec: &Spec, visitor: V) -> V::Output {
    match spec.info.name {
        name if name == SINGHAL.name => visitor.visit::<SinghalRecovery>(spec),
        name if name == UNNAMED.name => visitor.visit::<UnnamedQuorum>(spec),
        _ => spec.visit(visitor),
    }
}

/// Runs `visitor` with [`AnySite`], or with the twin's type if a spec from [`spec`] names a twin. What the visitor does is
/// compiled once for each twin and once for all algorithms.
pub fn visit<V: Visitor>(spec: &Spec, visitor: V) -> V::Output {
    match spec.info.name {
        name if name == SINGHAL.name => visitor.visit::<SinghalRecovery>(spec),
        name if name == UNNAMED.name => visitor.visit::<UnnamedQuorum>(spec),
        _ => visitor.visit::<AnySite>(spec),
    }
}
