//! The limit, and the length of the block that follows once it is used up.

use crate::inquiry::count;
use crate::models::{Block, Since, blocks};
use crate::text::four_digits;
use crate::{
    BlockStart, DetectedAlgorithm, DetectedBlock, DetectedKind, Estimate, Observation, ProbeOutcome,
};

/// A block is known within this multiple of its length.
const TAKES: f64 = 12.0;

/// Number of blocks that were provoked and ended.
const BLOCKS: usize = 4;

/// Number of these before which exactly the limit was admitted.
const EXACT: usize = 3;

/// Number of these that had pauses between the first and the last admission and before the first refusal.
const WITH_PAUSES: usize = 2;

/// A pause is so much shorter than the time for which the limit may hold.
const PAUSES: f64 = 2.5;

/// The pauses are this many times as long as the range of lengths is wide.
pub(crate) const CLEAR: f64 = 3.0;

/// Number of these in which one request was refused, and the next one late in the block.
const LATE: usize = 2;

/// The least share of the length that is late.
const LATE_SHARE: f64 = 0.5;

/// Number of these in which only one request was refused.
const SILENT: usize = 1;

/// The smallest limit. A limit of one is a bucket of one, whatever its block is counted from.
const LEAST_LIMIT: u64 = 2;

/// Largest relative width of the range of lengths.
const WIDEST: f64 = 0.1;

/// A block, as far as a record shows one.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) blocks: Vec<Block>,
    pub(crate) limit: u64,
    /// The bounds of the length for each of [`Since::ALL`]; `None` if a response contradicts it.
    bounds: [Option<(f64, f64)>; 4],
}

impl Blocks {
    /// `None` if no block explains the responses.
    pub(crate) fn of(record: &[Observation]) -> Option<Self> {
        if count(record, ProbeOutcome::Failed) > 0 {
            return None;
        }
        let blocks = blocks(record);
        let begun = || blocks.iter().filter(|block| block.has_begun());
        // A limiter that has admitted fewer since the last refusal than at first does not forget everything.
        let limit = begun().next().map(Block::admitted)?;
        if begun().any(|block| block.admitted() < limit) {
            return None;
        }
        let window = begun()
            .map(|block| block.holds_for(limit))
            .fold(0.0, f64::max);
        if blocks.iter().any(|block| block.is_over(limit, window)) {
            return None;
        }
        let bounds = Since::ALL.map(|since| {
            let all = begun().map(|block| block.bounds(since, limit));
            let (least, most) = all.fold((0.0_f64, f64::INFINITY), |a, b| {
                (a.0.max(b.0), a.1.min(b.1))
            });
            (least <= most).then_some((least, most))
        });
        let found = Self {
            blocks,
            limit,
            bounds,
        };
        found.is_possible().then_some(found)
    }

    /// Returns what the length may be counted from, with its bounds.
    pub(crate) fn possible(&self) -> impl Iterator<Item = (Since, (f64, f64))> {
        let all = Since::ALL.into_iter().zip(self.bounds);
        all.filter_map(|(since, bounds)| Some((since, bounds?)))
    }

    /// Returns whether a block was seen to end.
    pub(crate) fn have_ended(&self) -> bool {
        self.blocks.iter().any(Block::has_ended)
    }

    /// Returns whether this may be more than a window.
    fn is_possible(&self) -> bool {
        self.limit >= LEAST_LIMIT
            && self
                .possible()
                .any(|(since, _)| since != Since::FirstAdmission)
    }

    /// Returns whether this may be a window that begins with its first request.
    pub(crate) fn may_be_a_window(&self) -> bool {
        self.possible()
            .any(|(since, _)| since == Since::FirstAdmission)
    }

    /// Returns what the length is counted from, with its bounds, if only one start is possible.
    pub(crate) fn only(&self) -> Option<(BlockStart, (f64, f64))> {
        let mut possible = self.possible();
        let (since, bounds) = possible.next().filter(|_| possible.next().is_none())?;
        let since = match since {
            Since::FirstAdmission => return None,
            Since::LastAdmission => BlockStart::LastAdmission,
            Since::FirstRefusal => BlockStart::FirstRefusal,
            Since::LastRefusal => BlockStart::LastRefusal,
        };
        Some((since, bounds))
    }

    /// Returns the bounds of the length, whatever it is counted from.
    pub(crate) fn range(&self) -> (f64, f64) {
        self.possible().fold((f64::INFINITY, 0.0_f64), |a, (_, b)| {
            (a.0.min(b.0), a.1.max(b.1))
        })
    }

    /// Returns the longest pauses, as a share of the length, after which the limit may still hold.
    pub(crate) fn longest_pause(&self) -> f64 {
        let times = self.blocks.iter();
        let times = times.map(|block| block.held_at_most(self.limit));
        times.fold(f64::INFINITY, f64::min) / (PAUSES * self.range().0)
    }

    /// Returns which blocks are missing among those that were provoked after a time, to know what their length is counted
    /// from.
    pub(crate) fn missing(&self, from_ns: u64) -> Option<Missing> {
        let (least, most) = self.range();
        let ended = || {
            let blocks = self.blocks.iter();
            blocks.filter(|block| block.has_ended() && block.began() >= from_ns as f64)
        };
        let exact = || ended().filter(|block| block.admitted() == self.limit);
        let is_clear = |block: &&Block| {
            let [first, second] = block.pauses();
            first.min(second) >= CLEAR * (most - least)
        };
        let is_late = |block: &&Block| block.silence() >= LATE_SHARE * least;
        let late = exact().filter(|block| block.refused() > 1);
        let silent = exact().filter(|block| block.refused() == 1);
        if exact().filter(is_clear).count() < WITH_PAUSES {
            Some(Missing::Pauses)
        } else if late.filter(is_late).count() < LATE {
            Some(Missing::Late)
        } else if silent.count() < SILENT || exact().count() < EXACT || ended().count() < BLOCKS {
            Some(Missing::Silent)
        } else {
            None
        }
    }
}

/// Blocks of which more are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// With pauses before the last admission and before the first refusal.
    Pauses,
    /// With a request late in the block.
    Late,
    /// Without any request during the block.
    Silent,
}

/// Returns the block that explains the record, if the blocks that were provoked after a time show what it is counted from.
/// `steadily` is a rate per second of which nothing was refused.
pub(crate) fn block(
    record: &[Observation],
    from_ns: u64,
    steadily: Option<f64>,
) -> Option<DetectedAlgorithm> {
    let found = Blocks::of(record)?;
    let (counted_from, (least, most)) = found.only()?;
    if found.missing(from_ns).is_some() || most - least > WIDEST * least {
        return None;
    }
    let length = Estimate {
        value: (least + most) / 2e9,
        plus_minus: (most - least) / 2e9,
    };
    Some(DetectedAlgorithm {
        kind: DetectedKind::BlocksAfterLimit,
        alternatives: Vec::new(),
        rate: None,
        burst: Some(Estimate {
            value: found.limit as f64,
            plus_minus: 0.0,
        }),
        window: None,
        clock_tick: None,
        limits: Vec::new(),
        delays: None,
        block: Some(DetectedBlock {
            length,
            counted_from,
            admitted_rate: steadily,
        }),
        consistent: record.len() as u64,
        answers: record.len() as u64,
    })
}

/// Returns what is known if a block explains the record and a window that begins with its first request does not, but what
/// the block is counted from is open.
pub(crate) fn open_block(record: &[Observation]) -> Option<String> {
    let found = Blocks::of(record)?;
    let (least, most) = found.range();
    if found.may_be_a_window() || !most.is_finite() {
        return None;
    }
    let (began_ns, ended_ns) = (record.first()?.sent_ns, record.last()?.answered_ns);
    let elapsed = ended_ns.saturating_sub(began_ns) as f64;
    let [least, most, takes] = [least, most, elapsed + TAKES * most].map(|time| time / 1e9);
    Some(format!(
        "once {} requests were admitted, it admits none for {} to {} s: a block after the limit; allow more time than {:.0} s",
        found.limit,
        four_digits(least),
        four_digits(most),
        takes.ceil(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advertised;
    use crate::ProbeOutcome::{Admitted, Failed, Refused};

    const MS: u64 = 1_000_000;

    /// Requests at these times in milliseconds, each decided within 1 ms.
    fn record(seen: &[(u64, ProbeOutcome)]) -> Vec<Observation> {
        let seen = seen.iter().map(|&(at_ms, outcome)| Observation {
            sent_ns: at_ms * MS,
            answered_ns: (at_ms + 1) * MS,
            connection: 0,
            key: 0,
            outcome,
            advertised: Advertised::default(),
        });
        seen.collect()
    }

    /// Blocks of 1 s from the first refusal. Two are admitted, the second one and the first refusal after a pause each; more
    /// requests are refused so long after the first refusal, in milliseconds.
    fn blocks_of_a_second() -> Vec<(u64, ProbeOutcome)> {
        let mut all = Vec::new();
        let mut began = 0;
        for (pause, more) in [
            (100, &[][..]),
            (150, &[700, 950]),
            (100, &[]),
            (150, &[750, 990]),
        ] {
            let refused = began + 2 * pause;
            all.extend([
                (began, Admitted),
                (began + pause, Admitted),
                (refused, Refused),
            ]);
            all.extend(more.iter().map(|after| (refused + after, Refused)));
            began = refused + 1_005;
        }
        all.extend([(began, Admitted)]);
        all
    }

    #[test]
    fn one_start_is_left_if_it_alone_explains_all_blocks() {
        let seen = record(&blocks_of_a_second());
        let found = Blocks::of(&seen).expect("a block");
        assert_eq!(found.limit, 2);
        let (start, (least, most)) = found.only().expect("one start");
        assert_eq!(start, BlockStart::FirstRefusal);
        assert!(least <= 1e9 && 1e9 <= most, "{least} {most}");
        assert_eq!(found.missing(0), None);
        assert_eq!(found.missing(1), Some(Missing::Silent), "three blocks");
        let shown = block(&seen, 0, None).and_then(|shown| shown.block);
        let shown = shown.expect("enough blocks");
        assert_eq!(shown.counted_from, BlockStart::FirstRefusal);
        assert!((shown.length.value - 1.0).abs() <= shown.length.plus_minus);
        assert!(block(&seen, 1, None).is_none(), "too few blocks");
    }

    #[test]
    fn what_does_not_forget_everything_fails_or_admits_one_is_no_block() {
        let mut fewer = blocks_of_a_second();
        let last = fewer.last().map_or(0, |last| last.0);
        fewer.extend([(last + 100, Refused)]);
        assert!(Blocks::of(&record(&fewer)).is_none(), "one instead of two");

        let mut failing = blocks_of_a_second();
        failing.extend([(last + 100, Failed)]);
        assert!(Blocks::of(&record(&failing)).is_none());

        let one = [(0, Admitted), (100, Refused), (1_000, Admitted)];
        assert!(Blocks::of(&record(&one)).is_none());
    }

    #[test]
    fn a_window_from_the_first_request_may_be_a_block_until_a_pause() {
        let at_once = [
            (0, Admitted),
            (1, Admitted),
            (2, Refused),
            (990, Refused),
            (1_003, Admitted),
        ];
        let found = Blocks::of(&record(&at_once)).expect("possible");
        assert!(found.may_be_a_window() && found.only().is_none());
        assert_eq!(open_block(&record(&at_once)), None);

        let mut paused = at_once.to_vec();
        paused.extend([(1_400, Admitted), (1_800, Refused), (2_005, Admitted)]);
        assert!(Blocks::of(&record(&paused)).is_none(), "a window of 1 s");
    }

    #[test]
    fn what_is_open_is_said() {
        let seen = record(&blocks_of_a_second()[..9]);
        let text = open_block(&seen).expect("no window");
        assert!(
            text.contains("once 2 requests were admitted, it admits none for 0.9"),
            "{text}"
        );
        assert!(text.contains("allow more time than"), "{text}");
    }
}
