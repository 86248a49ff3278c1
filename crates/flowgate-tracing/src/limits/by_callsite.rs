use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;

/// Chains to begin with; a program with ten times as many callsites looks at ten entries.
const CHAINS: usize = 512;

/// Something for each callsite, made once and kept: what is there is found without a lock.
///
/// ```text
///  chain 0 ──▶ entry ──▶ entry ──▶ (empty)     an entry goes where a chain ends, and stays
///  chain 1 ──▶ (empty)
/// ```
pub(super) struct ByCallsite<T> {
    chains: Box<[Link<T>]>,
    hasher: RandomState,
}

type Link<T> = OnceLock<Box<Entry<T>>>;

struct Entry<T> {
    callsite: Identifier,
    value: T,
    next: Link<T>,
}

impl<T> ByCallsite<T> {
    pub(super) fn new() -> Self {
        Self {
            chains: (0..CHAINS).map(|_| OnceLock::new()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// What there is for the callsite.
    pub(super) fn get(&self, metadata: &Metadata<'_>) -> Option<&T> {
        let callsite = metadata.callsite();
        let mut link = self.chain(&callsite);
        while let Some(entry) = link.get() {
            if entry.callsite == callsite {
                return Some(&entry.value);
            }
            link = &entry.next;
        }
        None
    }

    /// The value of the callsite, which is created if there is none. If several threads come with a new callsite
    /// concurrently, one thread creates the value, and the others wait for it.
    pub(super) fn get_or_insert(&self, metadata: &Metadata<'_>, make: impl Fn() -> T) -> &T {
        let callsite = metadata.callsite();
        let mut link = self.chain(&callsite);
        loop {
            let entry = link.get_or_init(|| {
                Box::new(Entry {
                    callsite: callsite.clone(),
                    value: make(),
                    next: OnceLock::new(),
                })
            });
            if entry.callsite == callsite {
                return &entry.value;
            }
            link = &entry.next;
        }
    }

    /// All there is.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let chains = self.chains.iter();
        let entries =
            chains.flat_map(|first| std::iter::successors(first.get(), |entry| entry.next.get()));
        entries.map(|entry| &entry.value)
    }

    fn chain(&self, callsite: &Identifier) -> &Link<T> {
        let hash = self.hasher.hash_one(callsite);
        &self.chains[(hash % CHAINS as u64) as usize]
    }
}
