use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt::Write;
use std::hash::Hasher;

/// Returns the name of the record that the store keeps for a key of a limit.
///
/// Both texts are hashed with their lengths, so that no two pairs are joined to the same text. The hash spreads the records over the
/// slots of a cluster. The prefix is the version of the record's format.
pub(crate) fn name(limit: &str, key: &[u8]) -> String {
    let mut hasher = SipHasher24::new();
    for part in [limit.as_bytes(), key] {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    let hash = hasher.finish128();
    let mut name = String::with_capacity(36);
    write!(name, "fg1:{:016x}{:016x}", hash.h1, hash.h2).expect("a string takes any text");
    name
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn no_two_pairs_are_joined() {
        let names = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")];
        let mut names = names.map(|(limit, key)| name(limit, key.as_bytes()));
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        assert!(names.iter().all(|name| name.len() == 36));
    }

    #[test]
    fn a_name_stays_the_same_from_release_to_release() {
        assert_eq!(name("api", b""), "fg1:e4a86271113af0e06136c2fcf3b428fb");
    }
}
