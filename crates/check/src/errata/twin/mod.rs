//! Printed rules that are no variant of what ships: small machines of their own, for the errata only.

mod singhal;

use meshlock_protocol::Algorithm;
use meshlock_protocol::registry::values::Values;

pub(super) use singhal::SinghalRecovery;

/// The options of the twin that `spec` names, if it names one.
pub(super) fn values(spec: &str) -> Option<Values> {
    let info = &SinghalRecovery::INFO;
    let (name, option) = spec.split_once(':').unwrap_or((spec, ""));
    let mut values = (name == info.name).then(|| Values::defaults(info))?;
    if let Some((option, value)) = option.split_once('=') {
        values.set(info, option, value).expect("errata name options that exist");
    }
    Some(values)
}
