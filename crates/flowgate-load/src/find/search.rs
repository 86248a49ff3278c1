//! The search for the highest level that keeps an objective. Pure: it says what to try next, and is told what came of it.
//!
//! It multiplies the level until a step breaks the objective, and then halves the ratio of the two nearest levels. If a broken
//! step showed what the server completes, the search tries that level first. In the end, it tries both nearest levels again if
//! they were judged by a quick look only.

/// Factor of the next level while the objective is far from broken.
const FAST: f64 = 4.0;
/// Factor of the next level otherwise.
const SLOW: f64 = 2.0;

/// Levels that have been tried, and the next one.
#[derive(Clone, Debug)]
pub(super) struct Search {
    range: Range,
    /// The last outcome of each level.
    tried: Vec<Tried>,
    /// A level that a broken step pointed at, and that has not been tried.
    hint: Option<f64>,
    next: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Tried {
    level: f64,
    is_met: bool,
    is_quick: bool,
}

/// The levels of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) first: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
    /// Half of the interval in which the result is, as a share of it.
    pub(super) precision: f64,
    /// Whether levels are whole numbers.
    pub(super) is_whole: bool,
}

/// What came of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// It kept the objective; `is_far`: with much room.
    Met { is_far: bool },
    /// It broke it. A level that the server may be able to bear, if the step showed one.
    Broken { hint: Option<f64> },
}

impl Search {
    pub(super) fn new(range: Range) -> Search {
        let first = range.first.clamp(range.lowest, range.highest);
        Search {
            range,
            tried: Vec::new(),
            hint: None,
            next: Some(first),
        }
    }

    /// Returns the level to try, or `None` at the end.
    pub(super) fn next(&self) -> Option<f64> {
        self.next
    }

    /// Returns whether a quick look is enough at the next level: it only has to show the size of the result.
    pub(super) fn is_quick(&self) -> bool {
        !matches!(self.bracket(), (Some(_), Some(_)))
    }

    /// Returns the highest level that kept the objective, and the lowest that broke it.
    pub(super) fn bracket(&self) -> (Option<f64>, Option<f64>) {
        let [met, broken] = self.ends();
        (met.map(|met| met.level), broken.map(|broken| broken.level))
    }

    fn ends(&self) -> [Option<Tried>; 2] {
        let by_level = |one: &&Tried, other: &&Tried| one.level.total_cmp(&other.level);
        let broken = self.tried.iter().filter(|tried| !tried.is_met);
        let broken = broken.min_by(by_level).copied();
        let most = broken.map_or(f64::INFINITY, |broken| broken.level);
        let met = self.tried.iter().filter(|tried| tried.is_met);
        let met = met.filter(|met| met.level < most).max_by(by_level).copied();
        [met, broken]
    }

    /// Returns about how many more levels will be tried.
    pub(super) fn left(&self) -> u32 {
        match (self.next, self.bracket()) {
            (None, _) => 0,
            (_, (Some(met), Some(broken))) => {
                let halvings = ((broken / met).ln() / (2.0 * self.range.precision).ln_1p()).log2();
                halvings.ceil().clamp(1.0, 10.0) as u32
            }
            _ => 8,
        }
    }

    /// Takes what came of the level that [`next`](Self::next) returned.
    pub(super) fn tell(&mut self, outcome: Outcome) {
        let Some(level) = self.next else { return };
        let is_quick = self.is_quick();
        self.tried.retain(|tried| tried.level != level);
        self.tried.push(Tried {
            level,
            is_met: matches!(outcome, Outcome::Met { .. }),
            is_quick,
        });
        if let Outcome::Broken { hint: Some(hint) } = outcome {
            self.hint = Some(hint);
        }
        self.next = match (self.ends(), outcome) {
            ([Some(met), Some(broken)], _) => self.between(met, broken),
            ([Some(_), None], _) if level >= self.range.highest => None,
            ([Some(met), None], outcome) => {
                let is_far = matches!(outcome, Outcome::Met { is_far: true });
                Some(self.at(met.level * if is_far { FAST } else { SLOW }))
            }
            ([None, Some(_)], _) if level <= self.range.lowest => None,
            ([None, Some(broken)], _) => {
                // Half of what the server completed is a level that it can bear.
                let bearable = self.hint.take().unwrap_or(broken.level) / SLOW;
                Some(self.at(bearable.min(broken.level / FAST)))
            }
            ([None, None], _) => None,
        };
    }

    /// Ends the search at a level that cannot be tried.
    pub(super) fn give_up(&mut self) {
        self.next = None;
    }

    /// Returns the next level of the bracket, or `None` if it is small enough.
    fn between(&mut self, met: Tried, broken: Tried) -> Option<f64> {
        let (low, high) = (met.level, broken.level);
        let is_small = high - low <= self.range.precision * (high + low);
        if is_small || self.range.is_whole && high - low <= 1.0 {
            let quick = [met, broken].into_iter().find(|end| end.is_quick);
            return quick.map(|end| end.level);
        }
        // As near to an end as the result needs it.
        let reach = 1.0 + 1.9 * self.range.precision;
        let hinted = self.hint.take().map(|hint| hint.max(low * reach));
        let hinted = hinted.filter(|&hint| hint < high / reach);
        let level = self.at(hinted.unwrap_or((low * high).sqrt()));
        match self.range.is_whole {
            true => Some(level.clamp(low + 1.0, high - 1.0)),
            false => Some(level),
        }
    }

    fn at(&self, level: f64) -> f64 {
        let level = match self.range.is_whole {
            true => level.round(),
            // Four digits are more than the result has.
            false => format!("{level:.3e}").parse().unwrap_or(level),
        };
        level.clamp(self.range.lowest, self.range.highest)
    }
}
