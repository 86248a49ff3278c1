//! From traffic to a limit: a fleet of 600 instances takes 150,000 calls per second, 40 ms each. How many concurrent calls
//! should each instance allow, and how many may wait?
//!
//! ```text
//! cargo run -p flowgate --example sizing
//! cargo run -p flowgate --example sizing -- 250 40 200     calls per second, mean ms, deadline ms
//! ```

use flowgate::sizing;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let (qps, mean_ms, deadline_ms) = match &given[..] {
        [] => (150_000.0 / 600.0, 40, 200),
        [qps, mean_ms, deadline_ms] => (qps.parse()?, mean_ms.parse()?, deadline_ms.parse()?),
        _ => return Err("give three numbers: calls per second, mean ms, deadline ms".into()),
    };
    let (mean, deadline) = (
        Duration::from_millis(mean_ms),
        Duration::from_millis(deadline_ms),
    );

    let in_service = sizing::bare(qps, mean)?;
    println!("{qps} calls per second of {mean:?}: {in_service} in flight on average");
    if (1.0..f64::from(sizing::MAX_LIMIT)).contains(&in_service) {
        let bare = in_service as u32;
        let rejects = 100.0 * sizing::rejected(bare, qps, mean)?;
        println!("a limit of {bare} turns away {rejects:.1} % of them, with no overload at all");
    }
    println!();
    println!(" turned away   limit   carries up to   may wait");
    for percent in [10.0, 1.0, 0.1, 0.01] {
        let target = percent / 100.0;
        let limit = sizing::limit_for(qps, mean, target)?;
        let most = sizing::qps_for(limit, mean, target)?;
        let waiting = sizing::queue_len(limit, mean, deadline)?;
        println!(" {percent:>9} % {limit:>7} {most:>13.1}/s {waiting:>10}");
    }
    println!();
    println!("Who waits behind more than that is late for a deadline of {deadline:?}, on average.");
    Ok(())
}
