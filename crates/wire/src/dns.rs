//! Questions to a name server for `SRV` records, and its answers: the part of the Domain Name System (RFC 1035, RFC 2782) that the standard
//! library does not have. Addresses of names are looked up by the operating system.
//!
//! The answer comes from a network and is read as such: its size, the number of its records, the length of its names and how often a
//! compressed name may point elsewhere are bounded, and whatever does not fit is an error. Who answers falsely only makes a site try an
//! address where nobody proves to be the right one.

/// Maximum number of places that are taken from an answer.
pub const MAX_TARGETS: usize = 16;

/// Maximum number of records of an answer that are looked at.
const MAX_RECORDS: usize = 128;

/// Maximum length of a name, and of one of its labels.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// How often a compressed name may point elsewhere.
const MAX_JUMPS: usize = 16;

const SRV: u16 = 33;
const INTERNET: u16 = 1;
const HEADER: usize = 12;

/// A place that a service is at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SrvTarget {
    /// The lowest is tried first.
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    /// The name of the host, without a dot at the end.
    pub host: String,
}

/// Why there is no list of places.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// The name cannot be asked for.
    #[error("'{0}' is not a name of a service; write for example '_meshlock._tcp.example.com'")]
    Name(String),
    /// The answer is to another question: it is ignored.
    #[error("the name server answers another question")]
    OtherQuestion,
    /// The answer did not fit and must be asked for over TCP.
    #[error("the answer of the name server is cut off")]
    Truncated,
    /// The name server refuses; the number is its reason.
    #[error("the name server says: {}", reason(*.0))]
    Refused(u8),
    #[error("the answer of the name server cannot be read")]
    Malformed,
    /// The answer is valid and has no record of this kind.
    #[error("there is no SRV record of this name")]
    Nothing,
}

fn reason(code: u8) -> String {
    match code {
        2 => "server failure (2)".to_owned(),
        3 => "no such name (3)".to_owned(),
        5 => "refused (5)".to_owned(),
        other => format!("error {other}"),
    }
}

/// Returns the bytes of a question for the `SRV` records of a name.
pub fn srv_query(id: u16, name: &str) -> Result<Vec<u8>, DnsError> {
    let wrong = || DnsError::Name(name.chars().filter(|c| !c.is_control()).take(80).collect());
    let labels = name.strip_suffix('.').unwrap_or(name);
    if labels.is_empty() || labels.len() > MAX_NAME {
        return Err(wrong());
    }
    // Recursion is desired; one question.
    let mut bytes = [id.to_be_bytes(), [1, 0], [0, 1], [0, 0], [0, 0], [0, 0]].concat();
    for label in labels.split('.') {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if label.is_empty() || label.len() > MAX_LABEL || !label.bytes().all(is_plain) {
            return Err(wrong());
        }
        bytes.push(u8::try_from(label.len()).map_err(|_| wrong())?);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes.extend(SRV.to_be_bytes());
    bytes.extend(INTERNET.to_be_bytes());
    Ok(bytes)
}

/// Reads the answer to `query`. The places are sorted: the ones to try first come first.
pub fn read_srv(query: &[u8], answer: &[u8]) -> Result<Vec<SrvTarget>, DnsError> {
    let question = query.get(HEADER..).ok_or(DnsError::Malformed)?;
    let head = answer.first_chunk::<HEADER>().ok_or(DnsError::Malformed)?;
    let is_answer = head[2] & 0xf8 == 0x80;
    let repeated = answer.get(HEADER..HEADER + question.len()).unwrap_or_default();
    if head[..2] != query[..2]
        || !is_answer
        || head[4..6] != [0, 1]
        || !repeated.eq_ignore_ascii_case(question)
    {
        return Err(DnsError::OtherQuestion);
    }
    if head[2] & 2 != 0 {
        return Err(DnsError::Truncated);
    }
    if head[3] & 0xf != 0 {
        return Err(DnsError::Refused(head[3] & 0xf));
    }
    let mut at = HEADER + question.len();
    let mut targets = Vec::new();
    let records = usize::from(u16::from_be_bytes([head[6], head[7]])).min(MAX_RECORDS);
    for _ in 0..records {
        at = name_at(answer, at)?.1;
        let kind = (short(answer, at)?, short(answer, at + 2)?);
        let length = usize::from(short(answer, at + 8)?);
        let data = at + 10;
        if answer.len() < data + length {
            return Err(DnsError::Malformed);
        }
        if kind == (SRV, INTERNET) && targets.len() < MAX_TARGETS {
            let (host, end) = name_at(answer, data + 6)?;
            if end > data + length {
                return Err(DnsError::Malformed);
            }
            let (priority, weight, port) =
                (short(answer, data)?, short(answer, data + 2)?, short(answer, data + 4)?);
            // The root as a target says that the service is not there.
            if !host.is_empty() && port != 0 {
                targets.push(SrvTarget { priority, weight, port, host });
            }
        }
        at = data + length;
    }
    targets.sort_by(|a, b| {
        (a.priority, b.weight, &a.host, a.port).cmp(&(b.priority, a.weight, &b.host, b.port))
    });
    targets.dedup();
    if targets.is_empty() { Err(DnsError::Nothing) } else { Ok(targets) }
}

fn short(bytes: &[u8], at: usize) -> Result<u16, DnsError> {
    let pair = bytes.get(at..at + 2).ok_or(DnsError::Malformed)?;
    Ok(u16::from_be_bytes([pair[0], pair[1]]))
}

/// Reads a name, which may be compressed. Returns it, and where the bytes after it begin.
fn name_at(bytes: &[u8], start: usize) -> Result<(String, usize), DnsError> {
    let (mut name, mut at, mut end) = (String::new(), start, None);
    for _ in 0..=MAX_JUMPS + MAX_NAME {
        let length = usize::from(*bytes.get(at).ok_or(DnsError::Malformed)?);
        match length {
            0 => return Ok((name, end.unwrap_or(at + 1))),
            1..=MAX_LABEL => {
                let label = bytes.get(at + 1..at + 1 + length).ok_or(DnsError::Malformed)?;
                let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
                if name.len() + length + 1 > MAX_NAME || !label.iter().all(is_plain) {
                    return Err(DnsError::Malformed);
                }
                if !name.is_empty() {
                    name.push('.');
                }
                name.extend(label.iter().map(|byte| char::from(*byte)));
                at += 1 + length;
            }
            0xc0.. => {
                let to = usize::from(short(bytes, at)? & 0x3fff);
                end.get_or_insert(at + 2);
                // Only backwards, so that it comes to an end.
                if to >= at {
                    return Err(DnsError::Malformed);
                }
                at = to;
            }
            _ => return Err(DnsError::Malformed),
        }
    }
    Err(DnsError::Malformed)
}

/// Returns an answer with these places, as a name server sends it, for tests and fuzzers.
#[cfg(any(test, feature = "fuzz"))]
pub fn answer_of(query: &[u8], targets: &[SrvTarget]) -> Vec<u8> {
    let mut bytes = query.to_vec();
    bytes[2] |= 0x80;
    let count = u16::try_from(targets.len()).unwrap_or(u16::MAX);
    bytes[6..8].copy_from_slice(&count.to_be_bytes());
    for target in targets {
        // The name is that of the question.
        bytes.extend([0xc0, 12]);
        bytes.extend(SRV.to_be_bytes());
        bytes.extend(INTERNET.to_be_bytes());
        bytes.extend(60u32.to_be_bytes());
        let mut data = [target.priority, target.weight, target.port].map(u16::to_be_bytes).concat();
        for label in target.host.split('.').filter(|label| !label.is_empty()) {
            data.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
            data.extend(label.bytes());
        }
        data.push(0);
        bytes.extend(u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend(data);
    }
    bytes
}

/// Checks that whatever is read of an answer is within bounds, for fuzzers.
#[cfg(feature = "fuzz")]
pub(crate) fn fuzz(bytes: &[u8]) {
    let query = srv_query(7, "_meshlock._tcp.example").expect("a name");
    if let Ok(targets) = read_srv(&query, bytes) {
        assert!(!targets.is_empty() && targets.len() <= MAX_TARGETS);
        assert!(targets.iter().all(|target| target.port != 0 && (1..=MAX_NAME).contains(&target.host.len())));
        assert_eq!(read_srv(&query, &answer_of(&query, &targets)), Ok(targets));
    }
}

#[cfg(feature = "fuzz")]
pub(crate) fn models() -> Vec<Vec<u8>> {
    let query = srv_query(7, "_meshlock._tcp.example").expect("a name");
    let target = |port| SrvTarget { priority: 1, weight: 2, port, host: "a.example".to_owned() };
    vec![answer_of(&query, &[target(7400), target(7401)]), answer_of(&query, &[])]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(priority: u16, weight: u16, host: &str) -> SrvTarget {
        SrvTarget { priority, weight, port: 7400, host: host.to_owned() }
    }

    #[test]
    fn places_are_read_in_the_order_in_which_they_are_tried() {
        let query = srv_query(7, "_meshlock._tcp.Example").unwrap();
        let sent = [
            target(2, 0, "c.example"),
            target(1, 1, "a.example"),
            target(1, 9, "b.example"),
            target(1, 1, ""),
        ];
        let read = read_srv(&query, &answer_of(&query, &sent)).unwrap();
        assert_eq!(read, [sent[2].clone(), sent[1].clone(), sent[0].clone()]);
        // A server may write the name of the question in other letters.
        let lower = srv_query(7, "_meshlock._tcp.example").unwrap();
        assert_eq!(read_srv(&query, &answer_of(&lower, &sent)).unwrap(), read);
    }

    #[test]
    fn an_answer_to_another_question_a_cut_one_and_a_refusal_are_told_apart() {
        let query = srv_query(7, "_meshlock._tcp.example").unwrap();
        let good = answer_of(&query, &[target(1, 1, "a.example")]);
        let changed = |at: usize, to: u8| {
            let mut bytes = good.clone();
            bytes[at] = to;
            read_srv(&query, &bytes)
        };
        assert_eq!(changed(0, 9), Err(DnsError::OtherQuestion));
        assert_eq!(changed(2, 1), Err(DnsError::OtherQuestion), "it is a question");
        assert_eq!(changed(14, b'x'), Err(DnsError::OtherQuestion), "another name");
        assert_eq!(changed(2, 0x83), Err(DnsError::Truncated));
        assert_eq!(changed(3, 3), Err(DnsError::Refused(3)));
        assert_eq!(read_srv(&query, &answer_of(&query, &[])), Err(DnsError::Nothing));
        for cut in 0..good.len() {
            assert!(read_srv(&query, &good[..cut]).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn a_name_that_points_at_itself_comes_to_an_end() {
        let query = srv_query(7, "_m._tcp.example").unwrap();
        let mut bytes = answer_of(&query, &[target(1, 1, "a")]);
        let at = query.len();
        bytes[at..at + 2].copy_from_slice(&[0xc0, u8::try_from(at).unwrap()]);
        assert_eq!(read_srv(&query, &bytes), Err(DnsError::Malformed));
    }

    #[test]
    fn names_that_no_question_can_have_are_refused() {
        for name in ["", ".", "a..b", "a b", &"x".repeat(64), &["a"; 200].join("."), "ä.example"] {
            assert!(matches!(srv_query(1, name), Err(DnsError::Name(_))), "{name}");
        }
        assert_eq!(srv_query(1, "a.b."), srv_query(1, "a.b"));
    }
}
