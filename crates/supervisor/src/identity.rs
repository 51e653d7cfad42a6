//! Which supervisor and which `meshlock run` belong together.
//!
//! They are two programs that may be installed, replaced or built apart from each other, and what they say to each other may change with
//! every commit. So the one tells the other from which sources it was built.

/// All sources of this crate, whose text decides what the two programs say to each other.
const SOURCES: [&[u8]; 7] = [
    include_bytes!("control.rs"),
    include_bytes!("identity.rs"),
    include_bytes!("lib.rs"),
    include_bytes!("signals.rs"),
    include_bytes!("start.rs"),
    include_bytes!("supervisor.rs"),
    include_bytes!("terminal.rs"),
];

/// Length of an identity: 64 bits as hexadecimal digits.
const DIGITS: usize = 16;

/// The version and the sources from which this program was built, as one number.
const IDENTITY: [u8; DIGITS] = digits(checksum());

/// Returns the identity of this program. It is the same in `meshlock` and `meshlock-supervisor` if they were built from the same sources.
pub fn identity() -> &'static str {
    // A test changes it in the file of the program, so the compiler must not spread it over instructions.
    std::str::from_utf8(std::hint::black_box(&IDENTITY)).expect("digits are text")
}

/// Returns the FNV-1a hash of the version and all sources. It tells builds apart; it does not keep out an attacker.
const fn checksum() -> u64 {
    let mut hash = hash_of(env!("CARGO_PKG_VERSION").as_bytes(), 0xcbf2_9ce4_8422_2325);
    let mut at = 0;
    while at < SOURCES.len() {
        hash = hash_of(SOURCES[at], hash);
        at += 1;
    }
    hash
}

const fn hash_of(bytes: &[u8], mut hash: u64) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

const fn digits(mut number: u64) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    let mut at = DIGITS;
    while at > 0 {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
    digits
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_identity_covers_every_source() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let texts: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        assert_eq!(texts, SOURCES);
    }

    #[test]
    fn the_identity_is_a_number_of_sixteen_digits() {
        assert_eq!(format!("{:016x}", checksum()), identity());
        assert_ne!(hash_of(b"a", 1), hash_of(b"b", 1));
    }
}
