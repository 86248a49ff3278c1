//! OpenTelemetry's own entry in the trace state: `ot=th:…;rv:…`.
//!
//! Source: *TraceState Handling* and *TraceState: Probability Sampling* of the OpenTelemetry specification.

use opentelemetry::trace::TraceState;

const ENTRY: &str = "ot";
const THRESHOLD: &str = "th";
const RANDOMNESS: &str = "rv";
/// Of 56 bits.
const DIGITS: usize = 14;

/// The randomness that who began the trace has chosen, if it has, and if it is 14 hexadecimal digits.
pub(super) fn randomness(trace_state: &TraceState) -> Option<u64> {
    let members = trace_state.get(ENTRY)?.split(';');
    let value = members
        .filter_map(|member| member.split_once(':'))
        .find_map(|(key, value)| (key == RANDOMNESS).then_some(value))?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if value.len() != DIGITS || !value.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(value, 16).ok()
}

/// Adds the threshold to the trace state: 56 bits, of which zeros at the end are omitted.
pub(super) fn with_threshold(trace_state: &TraceState, threshold: u64) -> TraceState {
    let digits = format!("{threshold:0DIGITS$x}");
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        some => some,
    };
    let own = format!("{THRESHOLD}:{digits}");
    let mut entry = own.clone();
    for member in others(trace_state) {
        entry.push(';');
        entry.push_str(member);
    }
    // With too much from others there, it is refused; what is true of this trace is the threshold.
    let said = trace_state.insert(ENTRY, entry);
    said.or_else(|_| trace_state.insert(ENTRY, own))
        .unwrap_or_default()
}

/// Of a trace that is not picked, no probability is known.
pub(super) fn without_threshold(trace_state: TraceState) -> TraceState {
    let Some(entry) = trace_state.get(ENTRY) else {
        return trace_state;
    };
    if !entry.split(';').any(is_threshold) {
        return trace_state;
    }
    let rest: Vec<_> = others(&trace_state).collect();
    let said = if rest.is_empty() {
        trace_state.delete(ENTRY)
    } else {
        trace_state.insert(ENTRY, rest.join(";"))
    };
    said.unwrap_or_default()
}

/// The other members of the entry.
fn others(trace_state: &TraceState) -> impl Iterator<Item = &str> {
    let entry = trace_state.get(ENTRY).unwrap_or_default();
    let members = entry.split(';');
    members.filter(|member| !member.is_empty() && !is_threshold(member))
}

fn is_threshold(member: &str) -> bool {
    member
        .split_once(':')
        .is_some_and(|(key, _)| key == THRESHOLD)
}
