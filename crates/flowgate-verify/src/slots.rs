//! What was admitted and refused over time.

use crate::{Observation, ProbeOutcome, SeenSlot};

/// Maximum number of slots.
const MOST: u64 = 120;

/// Shortest slot.
const SHORTEST_NS: u64 = 1_000_000;

/// Counts the responses by the time of the request, in slots of equal length from `began_ns` to `ended_ns`.
pub(crate) fn slots(record: &[Observation], began_ns: u64, ended_ns: u64) -> Vec<SeenSlot> {
    let last_ns = record.iter().map(|seen| seen.sent_ns).max();
    let Some(last_ns) = last_ns.map(|last_ns| last_ns.max(ended_ns)) else {
        return Vec::new();
    };
    let whole_ns = last_ns.saturating_sub(began_ns);
    let slot_ns = (whole_ns / MOST + 1).max(SHORTEST_NS);
    let count = whole_ns / slot_ns + 1;
    let mut slots: Vec<SeenSlot> = (0..count)
        .map(|index| SeenSlot {
            at: (index * slot_ns) as f64 / 1e9,
            seconds: slot_ns as f64 / 1e9,
            admitted: 0,
            refused: 0,
        })
        .collect();
    for seen in record {
        let index = seen.sent_ns.saturating_sub(began_ns) / slot_ns;
        let Some(slot) = slots.get_mut(index as usize) else {
            continue;
        };
        match seen.outcome {
            ProbeOutcome::Admitted => slot.admitted += 1,
            ProbeOutcome::Refused => slot.refused += 1,
            ProbeOutcome::Failed => {}
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advertised;

    #[test]
    fn each_response_is_in_the_slot_of_its_request() {
        let seen = |sent_ns, outcome| Observation {
            sent_ns,
            answered_ns: sent_ns + 5_000_000,
            connection: 0,
            key: 0,
            outcome,
            advertised: Advertised::default(),
        };
        let record = [
            seen(1_000, ProbeOutcome::Admitted),
            seen(999_000, ProbeOutcome::Refused),
            seen(1_001_000, ProbeOutcome::Refused),
            seen(2_500_000, ProbeOutcome::Failed),
        ];
        let slots = slots(&record, 1_000, 2_501_000);
        let counts: Vec<_> = slots
            .iter()
            .map(|slot| (slot.at, slot.admitted, slot.refused))
            .collect();
        assert_eq!(counts, [(0.0, 1, 1), (0.001, 0, 1), (0.002, 0, 0)]);
        assert_eq!(super::slots(&[], 0, 9), []);
        let long = super::slots(&record, 0, 86_400_000_000_000);
        assert!(long.len() as u64 <= MOST, "{}", long.len());
    }
}
