//! What it looks like, given how much each kind explains.

use crate::fit::Fit;
use crate::inquiry::count;
use crate::{Kind, Likeness, Observation, Outcome};

/// A kind that leaves this much more unexplained than the best is out: so many answers, and so large a part of all.
const MARGIN: u64 = 2;
const MARGIN_SHARE: f64 = 0.005;

/// More than this part unexplained is no explanation.
const MOST_UNEXPLAINED: f64 = 0.01;

/// Those that explain about as much as the best. `found` has the best first.
pub(crate) fn contenders(found: &[Fit]) -> &[Fit] {
    let Some(best) = found.first() else {
        return found;
    };
    let margin = MARGIN.max((best.of as f64 * MARGIN_SHARE) as u64);
    let are_left = |fit: &Fit| fit.unexplained <= best.unexplained + margin;
    let left = found.iter().take_while(|fit| are_left(fit)).count();
    &found[..left]
}

/// What all answers together look like.
pub(crate) fn likeness(found: &[Fit], record: &[Observation]) -> Likeness {
    let none = Likeness {
        kind: Kind::Unknown,
        or: Vec::new(),
        rate: None,
        burst: None,
        window: None,
        explained: 0,
        of: record.len() as u64 - count(record, Outcome::Failed),
    };
    let Some(best) = found.first() else {
        let is_free = count(record, Outcome::Refused) == 0 && count(record, Outcome::Admitted) > 0;
        let kind = if is_free {
            Kind::Unlimited
        } else {
            Kind::Unknown
        };
        let explained = if is_free { none.of } else { 0 };
        return Likeness {
            kind,
            explained,
            ..none
        };
    };
    let most = MARGIN.max((best.of as f64 * MOST_UNEXPLAINED) as u64);
    let is_explained = best.unexplained <= most;
    let left = contenders(found).iter().skip(1).map(Fit::kind);
    Likeness {
        kind: if is_explained {
            best.kind()
        } else {
            Kind::Unknown
        },
        or: if is_explained {
            left.collect()
        } else {
            vec![best.kind()]
        },
        rate: Some(best.rate),
        burst: Some(best.burst),
        window: best.window,
        explained: best.of - best.unexplained,
        of: best.of,
    }
}
