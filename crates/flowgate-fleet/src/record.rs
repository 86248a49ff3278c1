use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt;
use std::hash::Hasher;

/// The record that the store keeps for a key of a limit.
///
/// Both texts are hashed with their lengths, so that no two pairs are joined to the same text. The hash spreads the records over the
/// slots of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Record {
    key: [u64; 2],
    /// A hash of the limit's name, by which a decision server finds it.
    limit: u64,
}

impl Record {
    pub(crate) fn of(limit: &str, key: &[u8]) -> Self {
        let mut name = SipHasher24::new();
        name.write(limit.as_bytes());
        let of_limit = Self {
            key: [0; 2],
            limit: name.finish128().h1,
        };
        of_limit.with_key(limit, key)
    }

    /// Returns the record of another key of this limit, whose name is `limit`.
    pub(crate) fn with_key(self, limit: &str, key: &[u8]) -> Self {
        let mut hasher = SipHasher24::new();
        for part in [limit.as_bytes(), key] {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        let hash = hasher.finish128();
        Self {
            key: [hash.h1, hash.h2],
            ..self
        }
    }

    /// Returns a record from its parts, as another process has named it.
    pub(crate) fn from_parts(key: [u64; 2], limit: u64) -> Self {
        Self { key, limit }
    }

    /// Returns the hash of the names of the limit and the key.
    pub(crate) fn key(self) -> [u64; 2] {
        self.key
    }

    /// Returns the hash of the limit's name.
    pub(crate) fn limit(self) -> u64 {
        self.limit
    }

    /// Returns one of `n` numbers, each as often as the others.
    pub(crate) fn spread(self, n: usize) -> usize {
        (self.key[0] % n as u64) as usize
    }
}

/// The name in the store. The prefix is the version of the record's format.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, low] = self.key;
        write!(f, "fg1:{high:016x}{low:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::Record;

    #[test]
    fn no_two_pairs_are_joined() {
        let pairs = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")];
        let mut names = pairs.map(|(limit, key)| Record::of(limit, key.as_bytes()).to_string());
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        assert!(names.iter().all(|name| name.len() == 36));
    }

    #[test]
    fn a_name_stays_the_same_from_release_to_release() {
        let name = Record::of("api", b"").to_string();
        assert_eq!(name, "fg1:e4a86271113af0e06136c2fcf3b428fb");
    }
}
