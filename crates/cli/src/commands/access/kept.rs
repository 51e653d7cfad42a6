//! The access document in files that people keep: the same as on the wire, but with words where that has numbers.

use meshlock_cluster::access::{
    AccessDocument, Admission, AdmittedSite, AgreedLimits, AgreedToken, RuleText,
};
use meshlock_cluster::names::SiteName;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An access document as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptDocument {
    rules: Vec<RuleText>,
    tokens: Vec<AgreedToken>,
    revoked: Vec<String>,
    limits: AgreedLimits,
    admission: String,
    sites: Vec<AdmittedSite>,
    removed: Vec<SiteName>,
}

/// Writes a document that is to be kept.
#[expect(clippy::ref_option, reason = "serde calls it with a reference")]
pub(crate) fn serialize<S: Serializer>(document: &Option<AccessDocument>, to: S) -> Result<S::Ok, S::Error> {
    let kept = document.clone().map(|document| {
        let AccessDocument { rules, tokens, revoked, limits, admission, sites, removed } = document;
        let admission = admission.name().to_owned();
        KeptDocument { rules, tokens, revoked, limits, admission, sites, removed }
    });
    kept.serialize(to)
}

/// Reads a document that was kept.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<AccessDocument>, D::Error> {
    let Some(kept) = Option::<KeptDocument>::deserialize(from)? else { return Ok(None) };
    let KeptDocument { rules, tokens, revoked, limits, admission, sites, removed } = kept;
    let known = [Admission::Open, Admission::Closed];
    let admission = known.into_iter().find(|known| known.name() == admission).ok_or_else(|| {
        de::Error::custom(format!("access.admission is '{admission}', and neither 'open' nor 'closed'"))
    })?;
    Ok(Some(AccessDocument { rules, tokens, revoked, limits, admission, sites, removed }))
}
