//! The limits of several algorithms over time, as pictures.

use std::path::Path;

use flowgate_chart::{Axis, Chart, Layer, Look, Picture, Point, Unit};
use flowgate_sim::{FaultKind, Share};

use crate::algorithm::Algorithm;
use crate::plant::Plant;
use crate::policy::Window;
use crate::scenarios::EXPONENTIAL;

const SEED: u64 = 1001;
/// Higher limits are cut off.
const HIGHEST: f64 = 80.0;
/// A line has this number of points.
const POINTS: f64 = 240.0;

const DRAWN: [Algorithm; 6] = [
    Algorithm::Gradient,
    Algorithm::Envoy,
    Algorithm::Brpc,
    Algorithm::NetflixVegas,
    Algorithm::NetflixGradient2,
    Algorithm::Failsafe,
];

/// Draws `adaptive-*.svg`.
pub fn draw(folder: &Path) -> std::io::Result<()> {
    let plant = |workers, seconds| Plant::new(workers, EXPONENTIAL, 2.0, seconds);
    for (name, title, plant) in [
        (
            "adaptive-service-slows",
            "20 workers, which take three times as long from 15 s to 55 s",
            plant(20, 80.0).fault(FaultKind::Service(3.0), 15.0, 40.0),
        ),
        (
            "adaptive-capacity-drops",
            "20 workers, and 5 of them from 15 s to 35 s",
            plant(20, 60.0).fault(FaultKind::Capacity(Share::new(0.25)), 15.0, 20.0),
        ),
        (
            "adaptive-hour-of-overload",
            "4 workers, and an hour of twice the load that they can serve",
            plant(4, 3_600.0),
        ),
    ] {
        let picture = Picture::new(title).chart(limits(name, title, &plant));
        std::fs::write(folder.join(name).with_extension("svg"), picture.to_string())?;
    }
    Ok(())
}

/// The limit of each algorithm: means of parts of the run.
fn limits(name: &str, title: &str, plant: &Plant) -> Chart {
    let y = Axis::from_zero(Unit::Count, [HIGHEST]);
    let mut chart = Chart::new(name, title, Axis::time(plant.seconds), y)
        .names("time", "limit in permits")
        .wide();
    for (index, algorithm) in DRAWN.into_iter().enumerate().rev() {
        let record = plant.run(SEED, algorithm);
        let part_ns = (plant.seconds * 1e9 / POINTS) as u64;
        let of_part = |a: &Window, b: &Window| a.at_ns / part_ns == b.at_ns / part_ns;
        let points = record.windows.chunk_by(of_part).map(|windows| {
            let mean =
                windows.iter().map(|window| window.limit).sum::<f64>() / windows.len() as f64;
            Point::new(windows[0].at_ns as f64 / 1e9, mean.min(HIGHEST))
        });
        let points: Vec<Point> = points.collect();
        chart = chart.layer(Layer::line(algorithm.name(), Look::of(index), [points]));
    }
    chart
}
