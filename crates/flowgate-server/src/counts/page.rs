//! The counts as a page for Prometheus, in its text format 0.0.4.
//!
//! It is made here. The crates that make such pages keep counters of their own in a registry, and these counters belong to the
//! limits. What remains of them is below: three kinds of lines.

use super::seconds::BOUNDS;
use super::{DecisionCounts, DoorCounts, Loads, Outcome, ServerCounts};
use crate::limits::DecideLimits;
use crate::server::Door;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Returns the page. It reads every entry of every table.
pub(crate) fn page(limits: &DecideLimits, server: &ServerCounts) -> String {
    let mut page = Page(String::new());
    page.limits(limits);
    page.decisions(limits.counts());
    page.assignments(limits);
    page.connections(server);
    page.configuration(limits, server);
    page.0
}

struct Page(String);

/// One of the counts of a door.
type CountOf = fn(&DoorCounts) -> &AtomicU64;

/// Names and values.
type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    fn limits(&mut self, limits: &DecideLimits) {
        let mut rules: Vec<_> = limits.rules().collect();
        rules.sort_by_key(|rule| rule.id());
        let name = "flowgate_decisions_total";
        self.family(name, "counter", "Decisions of a limit, by result.");
        for rule in &rules {
            for outcome in Outcome::ALL {
                let labels = [("rule", rule.id()), ("result", outcome.name())];
                self.line(name, &labels, rule.answers().of(outcome));
            }
        }
        let name = "flowgate_keys";
        self.family(name, "gauge", "Keys of a limit that are not full.");
        for rule in &rules {
            let keys = rule.table().map_or(0, |table| table.len());
            self.line(name, &[("rule", rule.id())], keys);
        }
        let name = "flowgate_keys_evicted_total";
        let help = "Keys that were evicted because the table was full.";
        self.family(name, "counter", help);
        for rule in &rules {
            let evicted = rule.table().map_or(0, |table| table.evicted());
            self.line(name, &[("rule", rule.id())], evicted);
        }
        if let Some(stored) = rules.iter().find_map(|rule| rule.stored()) {
            let name = "flowgate_store_connected";
            self.family(name, "gauge", "1 if the store can be reached, or else 0.");
            self.line(name, &[], u8::from(stored.is_connected()));
        }
        let name = "flowgate_key_memory_bytes";
        self.family(name, "gauge", "Memory for keys of all limits.");
        self.line(name, &[], limits.bytes());
    }

    fn decisions(&mut self, counts: &DecisionCounts) {
        let name = "flowgate_throttle_decisions_total";
        self.family(name, "counter", "Decisions of CL.THROTTLE, by result.");
        for outcome in [Outcome::Taken, Outcome::Refused] {
            let result = [("result", outcome.name())];
            self.line(name, &result, counts.throttle().of(outcome));
        }
        let name = "flowgate_unmatched_descriptors_total";
        self.family(name, "counter", "Descriptors without a limit.");
        self.line(name, &[], counts.unmatched_sum());
        let name = "flowgate_decision_seconds";
        self.family(name, "histogram", "Time of a decision.");
        let bucket = format!("{name}_bucket");
        let up_to = counts.seconds.up_to();
        for ((_, bound), count) in BOUNDS.iter().zip(up_to) {
            self.line(&bucket, &[("le", bound)], count);
        }
        // The parts add up, although decisions go on meanwhile.
        let all = up_to[BOUNDS.len() - 1] + counts.seconds.longer();
        self.line(&bucket, &[("le", "+Inf")], all);
        let sum = counts.seconds.sum().as_secs_f64();
        self.line(&format!("{name}_sum"), &[], sum);
        self.line(&format!("{name}_count"), &[], all);
    }

    fn assignments(&mut self, limits: &DecideLimits) {
        let mut rules: Vec<_> = limits.rules().collect();
        rules.sort_by_key(|rule| rule.id());
        let reports = || {
            rules
                .iter()
                .filter_map(|rule| Some((rule.id(), rule.reports()?)))
        };
        if reports().next().is_none() {
            return;
        }
        let name = "flowgate_rlqs_requests_total";
        let help = "Requests that Envoys decided by their assignments, by result.";
        self.family(name, "counter", help);
        for (id, reports) in reports() {
            for (result, count) in [("allowed", &reports.allowed), ("denied", &reports.denied)] {
                let labels = [("rule", id), ("result", result)];
                self.line(name, &labels, count.load(Relaxed));
            }
        }
        let name = "flowgate_rlqs_unassigned_allowed_total";
        let help = "Requests of these that Envoys allowed beyond their assignments.";
        self.family(name, "counter", help);
        for (id, reports) in reports() {
            self.line(name, &[("rule", id)], reports.unassigned.load(Relaxed));
        }
        let name = "flowgate_rlqs_unanswered_buckets_total";
        let help = "Reports about buckets that got no assignment.";
        self.family(name, "counter", help);
        self.line(name, &[], limits.quotas().unanswered());
        let name = "flowgate_rlqs_streams";
        self.family(name, "gauge", "Envoys that ask for assignments.");
        self.line(name, &[], limits.quotas().streams());
        let name = "flowgate_rlqs_limits";
        let help = "Limits that are divided, each key by itself.";
        self.family(name, "gauge", help);
        self.line(name, &[], limits.quotas().len());
    }

    fn connections(&mut self, counts: &ServerCounts) {
        let name = "flowgate_leasing_processes";
        self.family(name, "gauge", "Processes that lease from this server.");
        self.line(name, &[], counts.leasing.load(Relaxed));
        let name = "flowgate_connections";
        self.family(name, "gauge", "Open connections of a door.");
        for door in Door::ALL {
            self.line(name, &[("door", door.name())], counts.door(door).open());
        }
        let refused = "Connections that were closed because their address had too many.";
        let late = "Connections that were closed because the client was slow or silent.";
        let families: [(_, _, CountOf); 4] = [
            ("", "Connections that were accepted.", |of| &of.opened),
            ("_refused", refused, |of| &of.refused),
            ("_late", late, |of| &of.late),
            (
                "_without_tls",
                "Connections whose TLS handshake failed.",
                |of| &of.not_encrypted,
            ),
        ];
        for (what, help, of) in families {
            let name = format!("flowgate_connections{what}_total");
            self.family(&name, "counter", help);
            for door in Door::ALL {
                let count = of(counts.door(door)).load(Relaxed);
                self.line(&name, &[("door", door.name())], count);
            }
        }
        let name = "flowgate_accept_errors_total";
        let help = "Times when the system had no connection to give, such as too many open files.";
        self.family(name, "counter", help);
        self.line(name, &[], counts.accept_errors.load(Relaxed));
        let name = "flowgate_spans_total";
        let help = "Spans of sampled requests, by what became of them.";
        self.family(name, "counter", help);
        let spans = &counts.spans;
        for (result, count) in [
            ("sent", &spans.sent),
            ("failed", &spans.failed),
            ("skipped", &spans.skipped),
        ] {
            self.line(name, &[("result", result)], count.load(Relaxed));
        }
    }

    fn configuration(&mut self, limits: &DecideLimits, counts: &ServerCounts) {
        let name = "flowgate_limits";
        self.family(name, "gauge", "Limits of the configuration.");
        self.line(name, &[], limits.len());
        let name = "flowgate_configuration_loads_total";
        self.family(name, "counter", "Configurations that were read, by result.");
        self.loads(name, &counts.loads);
        let name = "flowgate_configuration_loaded_timestamp_seconds";
        let help = "When the configuration was loaded, in seconds since 1970.";
        self.family(name, "gauge", help);
        self.line(name, &[], counts.loaded_at_s.load(Relaxed));
        let name = "flowgate_certificate_loads_total";
        let help = "Certificates that were read again, by result.";
        self.family(name, "counter", help);
        self.loads(name, &counts.certificates);
        let name = "flowgate_build_info";
        self.family(name, "gauge", "The version of this program.");
        self.line(name, &[("version", env!("CARGO_PKG_VERSION"))], 1);
    }

    fn loads(&mut self, name: &str, loads: &Loads) {
        let good = loads.good.load(Relaxed);
        self.line(name, &[("result", "ok")], good);
        let bad = loads.bad.load(Relaxed);
        self.line(name, &[("result", "error")], bad);
    }

    /// Begins what several lines have in common.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // A string never fails to be written to.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            self.0.push(if place == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            for letter in text.chars() {
                match letter {
                    '\n' => self.0.push_str("\\n"),
                    '"' | '\\' => self.0.extend(['\\', letter]),
                    letter => self.0.push(letter),
                }
            }
            self.0.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn values_of_labels_cannot_end_their_line() {
        let mut page = Page(String::new());
        page.line("a", &[], 1);
        page.line("b", &[("c", "x\"y\\z\nw"), ("d", "")], 0.5);
        assert_eq!(page.0, "a 1\nb{c=\"x\\\"y\\\\z\\nw\",d=\"\"} 0.5\n");
    }
}
