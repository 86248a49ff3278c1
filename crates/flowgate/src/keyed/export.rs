//! What a limiter knows about its keys, as bytes for another process.
//!
//! An export consists of 64-bit numbers, with the lowest byte first:
//!
//! 1. The head.
//! 2. Each entry: its line and two halves.
//! 3. Each cell of the sketch: its index and its value.
//! 4. The largest burst.
//! 5. How far decisions are ahead of the clock, and how far the last change of quota is.
//! 6. A checksum, which is the hash of all numbers before it.
//!
//! If an export does not contain the last change, the import takes the time of the last decision for it.

use super::Keyed;
use super::algorithm::KeyedAlgorithm;
use super::entry::{Entry, Reading, Seed, ticks};
use super::error::{KeyedError, Reason};
use super::names::Hashed;
use super::rule::{Change, Rule, Terms};
use super::size::{SLOTS_PER_KEYS, SLOTS_PER_KEYS_TO_SPARE, lines_for};
use crate::primitive::Ordering;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use siphasher::sip::SipHasher13;

fn rejected(why: &'static str) -> KeyedError {
    KeyedError(Reason::Export(why))
}

const MAGIC: u64 = u64::from_le_bytes(*b"fgkeyed4");

/// The content of an export, read back; see [`Keyed::export`].
pub(super) struct Export<A> {
    pub(super) seed: Seed,
    pub(super) capacity: usize,
    /// Of its table: where a key is, depends on that.
    pub(super) lines: usize,
    now: u128,
    terms: Terms,
    largest: u64,
    /// How many nanoseconds after `now` the last decision was.
    ahead_ns: u64,
    /// How many nanoseconds after `now` the last change of quota was; at most `ahead_ns`.
    changed_ahead_ns: u64,
    /// The entries, each with its line.
    entries: Vec<(usize, Entry)>,
    cells: Vec<(usize, u64)>,
    algorithm: PhantomData<fn() -> A>,
}

impl<A: KeyedAlgorithm> Keyed<A, Hashed> {
    /// Returns what this limiter knows about its keys, for a restart or other settings.
    ///
    /// Pass the bytes to [`KeyedBuilder::import`](super::KeyedBuilder::import). They take 24 bytes for each active key, 16 bytes
    /// for each used cell of the sketch, and a head. They contain the [seed](super::KeyedBuilder::seed), so keep them as secret as
    /// the seed.
    ///
    /// Concurrent decisions may be missing from the export. To lose none, stop all requests before the call. Keys are hashed by the
    /// [`Hash`](core::hash::Hash) of their type, which can differ between versions of the program or of Rust.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let limits = Keyed::token_bucket("10/h".parse()?).capacity(100)?;
    /// limits.try_acquire("alice")?;
    /// let kept = limits.export(); // for a file that nobody else can read
    /// // … after the restart:
    /// let limits = Keyed::token_bucket("10/h".parse()?).import(&kept)?;
    /// assert_eq!(limits.available("alice"), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn export(&self) -> Vec<u8> {
        // The guard prevents a change of quota, so that all entries are in the same terms.
        let _in_force = self.keys.force.quota();
        // This is read before the clock. It is ahead of the clock only if the clock has been set back or callers pass later times.
        let newest_ns = self.keys.newest_ns(self.asked_latest());
        let now_ns = self.clock.now().as_nanos();
        let terms = self.keys.force.terms();
        let seed = self.keys.table.seed;
        let mut file = Writer::default();
        file.numbers(&[
            MAGIC,
            checksum(&seed, A::NAME),
            seed.0[0],
            seed.0[1],
            self.capacity as u64,
            self.keys.table.lines() as u64,
            now_ns,
        ]);
        file.number_of_two(terms.unit);
        file.number_of_two(terms.span);
        file.numbers(&[terms.most, terms.scale, terms.count_bits.into()]);
        let entries: Vec<_> = self.live(ticks(now_ns)).collect();
        file.numbers(&[entries.len() as u64]);
        for (line, entry) in entries {
            file.numbers(&[line as u64]);
            file.number_of_two(entry.0);
        }
        let cells = self.keys.sketch.cells().iter().enumerate();
        // The cells are marked as of an odd generation. A new limiter begins with an even one, and therefore restates them.
        let odd = Change {
            from: terms,
            to: Terms {
                reading: Reading::of_table(1),
                ..terms
            },
            at: ticks(now_ns),
        };
        let cells = cells.map(|(index, cell)| {
            let cell = cell.load(Ordering::Acquire);
            [index as u64, A::Rule::updated(cell, &odd, odd.at)]
        });
        let cells: Vec<_> = cells
            .filter(|[_, cell]| A::Rule::free_at(*cell, &terms) > ticks(now_ns))
            .collect();
        file.numbers(&[cells.len() as u64]);
        cells.iter().for_each(|cell| file.numbers(cell));
        file.numbers(&[
            self.keys.largest.load(Ordering::Acquire),
            newest_ns.saturating_sub(now_ns),
            self.keys.force.current_from_ns().saturating_sub(now_ns),
        ]);
        let sum = checksum(&seed, &file.0[..]);
        file.numbers(&[sum]);
        file.0
    }

    /// Returns the active entries, each with its line.
    fn live(&self, now: u128) -> impl Iterator<Item = (usize, Entry)> {
        self.keys.table.all().filter_map(move |(line, slot)| {
            let is_used = slot.entry.fingerprint() != 0;
            let entry = slot.entry.with_waits(false);
            (is_used && entry.state() > now).then_some((line, entry))
        })
    }
}

impl<A: KeyedAlgorithm> Export<A> {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, KeyedError> {
        let not_whole = || rejected("it has been cut off or changed");
        let mut file = Reader(bytes);
        if file.number() != Some(MAGIC) {
            return Err(rejected(
                "it does not begin as an export of this version does",
            ));
        }
        let (kind, seed) = (file.number(), [file.number(), file.number()]);
        let ([Some(one), Some(other)], Some(kind)) = (seed, kind) else {
            return Err(not_whole());
        };
        let seed = Seed([one, other]);
        let (all, sum) = bytes
            .split_at_checked(bytes.len().wrapping_sub(8))
            .ok_or_else(not_whole)?;
        if Reader(sum).number() != Some(checksum(&seed, all)) {
            return Err(not_whole());
        }
        if kind != checksum(&seed, A::NAME) {
            return Err(rejected("it is of another kind of limiter"));
        }
        Self::read_body(seed, &mut file).ok_or_else(not_whole)
    }

    /// Returns `None` if the body is cut off, or has values that no limiter writes. A caller that knows the seed can write any
    /// numbers with a matching checksum, but the rules rely on sound states.
    fn read_body(seed: Seed, file: &mut Reader<'_>) -> Option<Self> {
        let capacity = usize::try_from(file.number()?).ok()?;
        let lines = usize::try_from(file.number()?).ok()?;
        let is_made = |ratio| lines_for::<A::Rule>(capacity, ratio) == lines as u128;
        if ![SLOTS_PER_KEYS, SLOTS_PER_KEYS_TO_SPARE]
            .into_iter()
            .any(is_made)
        {
            return None;
        }
        let now = ticks(file.number()?);
        let terms = Terms {
            unit: file.number_of_two()?,
            span: file.number_of_two()?,
            most: file.number()?,
            scale: file.number()?,
            count_bits: u32::try_from(file.number()?).ok()?,
            reading: Reading::of_table(0),
        };
        if !A::Rule::is_sound(&terms) {
            return None;
        }
        let is_sound = |entry: &Entry| {
            let reading = entry.reading();
            let is_read = !reading.is_own() || A::Rule::has_class(reading.class(), &terms);
            entry.fingerprint() != 0 && !entry.waits() && is_read
        };
        let entries = (0..file.number()?).map(|_| {
            let line = usize::try_from(file.number()?).ok()?;
            let entry = Some(Entry(file.number_of_two()?)).filter(is_sound);
            Some((line, entry?))
        });
        let entries = entries.collect::<Option<_>>()?;
        let cells = (0..file.number()?).map(|_| {
            let index = usize::try_from(file.number()?).ok()?;
            Some((index, file.number()?))
        });
        let cells = cells.collect::<Option<_>>()?;
        let largest = file.number()?;
        let ahead_ns = file.number()?;
        let changed_ahead_ns = match file.0.len() > size_of::<u64>() {
            true => file.number()?.min(ahead_ns),
            // Only the checksum remains.
            false => ahead_ns,
        };
        Some(Self {
            seed,
            capacity,
            lines,
            now,
            terms,
            largest,
            ahead_ns,
            changed_ahead_ns,
            entries,
            cells,
            algorithm: PhantomData,
        })
    }

    pub(super) fn carry_to(&self, keyed: &Keyed<A, Hashed>) -> Result<(), KeyedError> {
        let (now, then) = (self.now, ticks(keyed.clock.now().as_nanos()));
        let (from, to) = (&self.terms, keyed.keys.force.terms());
        A::Rule::goes_with(from, &to)?;
        let largest = Terms {
            most: self.largest,
            ..to
        };
        keyed.keys.allow(&largest);
        // The content is true from that time on.
        let newest = then + ticks(self.ahead_ns);
        // A clock that has been set back is before the change. The export does not contain the quota that was current then.
        let current_from = match self.changed_ahead_ns {
            0 => 0,
            ahead_ns => then + ticks(ahead_ns),
        };
        keyed.keys.begin(newest, current_from);
        let change = Change {
            from: *from,
            to,
            at: newest,
        };
        for &(line, entry) in &self.entries {
            let own = entry.reading().is_own();
            let terms = match own {
                true => A::Rule::of_class(entry.reading().class(), from),
                false => *from,
            };
            let state = A::Rule::carry(entry.state(), now, then, &terms);
            if state <= then {
                continue;
            }
            let carried = match own {
                true => entry.with(entry.reading(), state),
                false => entry.with(to.reading, change.restated::<A::Rule>(state, newest)),
            };
            if line >= keyed.keys.table.lines() || !keyed.keys.table.add(line, carried) {
                return Err(rejected("it has more keys in a line than there are slots"));
            }
        }
        let cells = keyed.keys.sketch.cells();
        let restated = |cell| A::Rule::updated(cell, &change, newest);
        for &(index, cell) in &self.cells {
            let cell = A::Rule::carry_cell(cell, now, then, from);
            let Some(slot) = cells.get(index) else {
                return Err(rejected(
                    "keys have made way for others, and only a limiter that evicts can remember them",
                ));
            };
            slot.store(restated(cell), Ordering::Release);
        }
        Ok(())
    }
}

/// Returns a checksum that cannot be computed without the seed.
fn checksum(seed: &Seed, of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(seed.0[0], seed.0[1]);
    of.hash(&mut hasher);
    hasher.finish()
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn numbers(&mut self, numbers: &[u64]) {
        self.0
            .extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    fn number_of_two(&mut self, number: u128) {
        self.0.extend(number.to_le_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn number_of_two(&mut self) -> Option<u128> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u128::from_le_bytes(*bytes))
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;
    use crate::clock::{ManualClock, Timestamp};
    use crate::types::fixed_window::FixedWindow;

    #[test]
    fn c4_an_export_without_the_last_change_is_read_as_if_that_were_the_last_decision() {
        let clock = ManualClock::new();
        let quota = "6/s".parse().expect("a quota");
        let limits = Keyed::fixed_window(quota).clock(&clock).capacity(9);
        let limits = limits.expect("a quota of this kind");
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        limits.at(at(3_000)).try_acquire("a").expect("the first");
        let file = limits.export();
        let read = |bytes: &[u8]| {
            let export = Export::<FixedWindow>::read(bytes).expect("it is whole");
            (export.ahead_ns, export.changed_ahead_ns)
        };
        assert_eq!(read(&file), (3_000_000_000, 0));
        let mut earlier = file[..file.len() - 16].to_vec();
        let sum = checksum(&limits.keys.table.seed, &earlier[..]);
        earlier.extend(sum.to_le_bytes());
        assert_eq!(read(&earlier), (3_000_000_000, 3_000_000_000));
    }
}
