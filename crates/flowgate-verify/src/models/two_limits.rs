//! Two limits that both apply: a request is admitted if both admit it, and counts in both.

use super::Model;
use crate::Observation;
use crate::ProbeOutcome::Refused;
use crate::clock::Clock;
use crate::evidence::Evidence;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TwoLimits {
    pub(crate) one: Model,
    pub(crate) other: Model,
}

impl TwoLimits {
    /// Counts the responses that cannot be right: admissions beyond either limit, and refusals that neither explains.
    pub(crate) fn unexplained(&self, evidence: &Evidence) -> u64 {
        let by_one = self.one.explained_refusals(evidence);
        let by_other = self.other.explained_refusals(evidence);
        let by_neither = by_one.iter().zip(by_other).filter(|(a, b)| !**a && !*b);
        let over = self.one.over(evidence) + self.other.over(evidence);
        over + by_neither.count() as u64
    }
}

/// Returns the responses without the refusals that `model` explains. If a second limit also applies, it explains the
/// refusals that are left.
pub(crate) fn left_by(model: &Model, clock: Clock, record: &[Observation]) -> Vec<Observation> {
    let evidence = Evidence::on(clock, record);
    let explained = model.explained_refusals(&evidence);
    let mut refused: Vec<usize> = (0..record.len())
        .filter(|index| record[*index].outcome == Refused)
        .collect();
    // In the order of the evidence.
    refused.sort_by(|a, b| {
        let [a, b] = [a, b].map(|index| clock.latest(record[*index].answered_ns as f64));
        a.total_cmp(&b)
    });
    let mut is_left = vec![true; record.len()];
    for (index, explained) in refused.into_iter().zip(explained) {
        is_left[index] = !explained;
    }
    let left = record.iter().zip(is_left).filter(|(_, is_left)| *is_left);
    left.map(|(seen, _)| seen.clone()).collect()
}
