//! What the outputs of a comparison promise, with runs that are the same each time.

use std::sync::Arc;
use std::time::Duration;

use flowgate::{FixedWindow, Limiter, ManualClock, QuotaError, Timestamp, TokenBucket};
use flowgate_schedule::Schedule;
use flowgate_sim::{
    Arrivals, Keys, LimiterPolicy, Retries, RunOutcome, Server, Simulation, Traffic,
};

use super::{Comparison, Description, TextStyle};

const PLAIN: TextStyle = TextStyle {
    width: 80,
    is_ascii: false,
    has_color: false,
};

fn token(time: &ManualClock) -> Result<LimiterPolicy, QuotaError> {
    let limiter = TokenBucket::builder("100/s burst 20".parse()?).clock(time);
    Ok(LimiterPolicy::rate(Arc::new(limiter.build()?)))
}

fn waiting(time: &ManualClock) -> Result<LimiterPolicy, QuotaError> {
    Ok(token(time)?.wait(Duration::from_millis(200)))
}

fn fixed(time: &ManualClock) -> Result<LimiterPolicy, QuotaError> {
    let limiter = FixedWindow::builder("100/s".parse()?).align(Timestamp::ORIGIN);
    let limiter: Arc<dyn Limiter> = Arc::new(limiter.clock(time).build()?);
    Ok(LimiterPolicy::rate(limiter))
}

/// Bursts of 200 requests every 2 s, of keys of which few have most.
fn bursts() -> Traffic {
    let schedule = Schedule::bursts("100/s".parse().unwrap(), 200, 1_000);
    Traffic::new("users", Arrivals::Scheduled(schedule.unwrap())).keys(Keys::zipf(100, 1.1))
}

fn simulation() -> Simulation {
    Simulation::new(1, Duration::from_secs(10)).traffic(bursts())
}

fn description() -> Description {
    Description {
        title: "bursts of 200 every 2 s".to_owned(),
        scenario: "for = \"10s\"\n".to_owned(),
        seed: 1,
        key_names: [(0, "192.0.2.1".to_owned())].into(),
    }
}

fn outcomes(simulation: &Simulation) -> Vec<RunOutcome> {
    vec![
        simulation.run("token 100/s burst 20", token).unwrap(),
        simulation.run("token 100/s burst 20 wait 200ms", waiting).unwrap(),
        simulation.run("fixed 100/s", fixed).unwrap(),
    ]
}

fn compared() -> Comparison {
    Comparison::new(&description(), &outcomes(&simulation()))
}

#[test]
fn look() {
    let server = Simulation::new(1, Duration::from_secs(30))
        .traffic(Traffic::new("users", Arrivals::Scheduled(Schedule::poisson("150/s".parse().unwrap(), 1, 4_500).unwrap())).keys(Keys::zipf(1000, 1.1)).deadline(Duration::from_millis(500)).retries(Retries::new(3, Duration::from_millis(100))))
        .server(Server::new(4, "exponential 30ms".parse().unwrap()));
    let overload = Comparison::new(&Description { title: "overload, with retries".into(), ..description()}, &outcomes(&server));
    let alone = Comparison::new(&description(), &outcomes(&simulation())[..1]);
    let nothing = Comparison::new(&description(), &outcomes(&Simulation::new(1, Duration::from_secs(10))));
    for (name, comparison) in [("bursts", compared()), ("overload", overload), ("alone", alone), ("nothing", nothing), ("none", Comparison::new(&description(), &[]))] {
        println!("{}", comparison.to_text(PLAIN));
        let path = |ext: &str| format!("/tmp/simreport/{name}.{ext}");
        std::fs::write(path("html"), comparison.to_html()).unwrap();
        std::fs::write(path("svg"), comparison.to_svg()).unwrap();
        std::fs::write(path("png"), comparison.to_png().unwrap()).unwrap();
        std::fs::write(path("json"), comparison.to_json()).unwrap();
        std::fs::write(path("csv"), comparison.to_csv()).unwrap();
        std::fs::write(path("ansi"), comparison.to_text(TextStyle { has_color: true, ..PLAIN})).unwrap();
        std::fs::write(path("ascii"), comparison.to_text(TextStyle { is_ascii: true, width: 50, ..PLAIN})).unwrap();
    }
}
