//! The scenarios by which adaptive limits are judged, against the best fixed limit.
//!
//! `cargo run --release -p flowgate-sim --example adaptive_scenarios -- [SEEDS] [FIRST] [SIZES] [NAME]`

mod plant;
mod policy;
mod scenarios;

use scenarios::{Algorithm, Measure, Scenario, Target};

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::Gradient,
    Algorithm::Bdp,
    Algorithm::Vegas,
    Algorithm::Aimd,
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "trace") {
        trace(&arguments[1..]);
        return;
    }
    let text = |at: usize, default: &str| arguments.get(at).cloned().unwrap_or(default.to_owned());
    let seeds: u64 = text(0, "20").parse().expect("a number of seeds");
    let first: u64 = text(1, "1001").parse().expect("the first seed");
    let sizes = text(2, "4,20,100,400");
    let sizes: Vec<u32> = sizes
        .split(',')
        .map(|size| size.parse().expect("sizes"))
        .collect();
    let name = text(3, "");
    let algorithms = &ALGORITHMS[..text(4, "4").parse().expect("how many algorithms")];
    println!(
        "| scenario | C | measure | target |{} verdict |",
        algorithms
            .iter()
            .map(|one| format!(" {one:?} |"))
            .collect::<String>()
    );
    println!("|---|---|---|---|{}---|", "---|".repeat(algorithms.len()));
    for scenario in scenarios::all(&sizes) {
        if scenario.name.contains(&name) {
            judge(&scenario, first..first + seeds, algorithms);
        }
    }
}

/// Prints a line for each measure: the median and the worst seed of each algorithm. The verdict is that of the first one.
fn judge(scenario: &Scenario, seeds: std::ops::Range<u64>, algorithms: &[Algorithm]) {
    let runs: Vec<Vec<Vec<Measure>>> = seeds.map(|seed| (scenario.run)(seed, algorithms)).collect();
    for index in 0..runs[0][0].len() {
        let Measure { what, target, .. } = runs[0][0][index];
        let mut verdict = "";
        let mut cells = String::new();
        for algorithm in 0..algorithms.len() {
            let mut values: Vec<f64> = runs.iter().map(|run| run[algorithm][index].value).collect();
            values.sort_by(f64::total_cmp);
            let median = values[values.len() / 2];
            let worst = match target {
                Target::AtMost(_) => values[values.len() - 1],
                _ => values[0],
            };
            cells += &format!(" {} ({}) |", number(median), number(worst));
            if algorithm == 0 {
                verdict = match (target, target.is_met(worst)) {
                    (Target::None, _) => "",
                    (_, true) => "met",
                    (_, false) => "**missed**",
                };
            }
        }
        let target = match target {
            Target::AtLeast(least) => format!("≥ {least}"),
            Target::AtMost(most) => format!("≤ {most}"),
            Target::None => String::new(),
        };
        println!(
            "| {} | {} | {what} | {target} |{cells} {verdict} |",
            scenario.name, scenario.workers
        );
    }
}

fn number(value: f64) -> String {
    match value.abs() >= 10.0 {
        true => format!("{value:.1}"),
        false => format!("{value:.3}"),
    }
}

/// Prints the windows of one run: WORKERS SERVICE LOAD SECONDS ALGORITHM SEED FAULT
fn trace(arguments: &[String]) {
    use flowgate_sim::{FaultKind, Share};
    use plant::{Plant, Setting};
    let text = |at: usize, default: &str| arguments.get(at).cloned().unwrap_or(default.to_owned());
    let service: &'static str = Box::leak(text(1, "exponential 10ms").into_boxed_str());
    let seconds: f64 = text(3, "30").parse().expect("seconds");
    let plant = Plant::new(
        text(0, "20").parse().expect("workers"),
        service,
        text(2, "2").parse().expect("load"),
        seconds,
    );
    let plant = match text(6, "none").as_str() {
        "slow" => plant.fault(FaultKind::Service(3.0), 15.0, 40.0),
        "capacity" => plant.fault(FaultKind::Capacity(Share::new(0.25)), 15.0, 10.0),
        "spike" => plant.fault(FaultKind::Service(5.0), 15.0, 2.0),
        "pause" => plant.fault(FaultKind::Pause, 15.0, 2.0),
        _ => plant,
    };
    let initial = text(7, "20").parse().expect("an initial limit");
    let algorithm = match text(4, "gradient").as_str() {
        "plain" => Algorithm::NoTrials,
        "bdp" => Algorithm::Bdp,
        "vegas" => Algorithm::Vegas,
        "aimd" => Algorithm::Aimd,
        _ => Algorithm::Gradient,
    };
    let seed = text(5, "1").parse().expect("seed");
    let record = plant.run(
        seed,
        &Setting::Adaptive(&|time| algorithm.starting_at(initial, time)),
    );
    for window in &record.windows {
        println!(
            "{:8.3} L {:7.2} r {:7.2} b {:7.2} {}",
            window.at_ns as f64 / 1e9,
            window.limit,
            window.latency_ms,
            window.baseline_ms,
            if window.is_measuring { "*" } else { "" }
        );
    }
    println!("{:?}", plant.result(&record, 5.0, seconds));
}
