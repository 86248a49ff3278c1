//! How many instructions a request takes, under callgrind.

use std::hint::black_box;

use crate::subject::{self, Situation, Whose};
use crate::window;

/// Requests in a window: a request takes thousands of instructions, and what a window costs besides hundreds.
const REQUESTS: u64 = 1_000;

/// Every situation with one key: a thousand in turn take as many.
pub fn all() {
    let situations = Situation::all().into_iter();
    for situation in situations.filter(|situation| situation.whose != Whose::Addresses(1_000)) {
        for case in subject::cases(situation) {
            // It reads the operating system's clock, which callgrind does not count.
            if case.subject == subject::TOWER {
                continue;
            }
            let repeat = |times| _ = black_box((case.batch)(times));
            let row = row(case.subject, situation);
            // Counting allocations takes instructions, too.
            allocation_counter::opt_out(|| window::count(&row, "default", REQUESTS, &repeat));
        }
    }
}

/// One word: `tower_governor_admit_fields_global`.
fn row(subject: &str, situation: Situation) -> String {
    let subject = match subject {
        subject::BARE => "nobody",
        subject::GOVERNOR => "tower_governor",
        subject::FLOWGATE => "flowgate_tower",
        subject::FLOWGATE_LEGACY => "flowgate_tower_legacy",
        _ => "two_fields_alone",
    };
    let answer = if situation.admits { "admit" } else { "refuse" };
    let fields = if situation.has_fields {
        "fields"
    } else {
        "plain"
    };
    let whose = match situation.whose {
        Whose::Everybodys => "global",
        Whose::Addresses(_) => "address",
    };
    format!("{subject}_{answer}_{fields}_{whose}")
}
