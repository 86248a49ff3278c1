//! The limits of several algorithms over time, as pictures.

use std::path::Path;

use flowgate_chart::{Axis, Chart, Layer, Look, Picture, Point, Unit};
use flowgate_sim::{FaultKind, Share};

use crate::algorithm::Algorithm;
use crate::plant::Plant;
use crate::policy::Window;
use crate::scenarios::{BIMODAL, CONSTANT, EXPONENTIAL, LOGNORMAL};

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

/// A run of each algorithm on the same requests.
struct Scene {
    name: &'static str,
    title: &'static str,
    plant: Plant,
    /// The limit that flowgate's algorithms start with.
    initial: u32,
}

impl Scene {
    fn new(name: &'static str, title: &'static str, plant: Plant) -> Self {
        Self {
            name,
            title,
            plant,
            initial: 20,
        }
    }
}

/// A scene of each scenario in which the limit is to stay or to move: 1 to 10, as the table numbers them.
fn scenes() -> Vec<Scene> {
    let plant = |load, seconds| Plant::new(20, EXPONENTIAL, load, seconds);
    let service = |service, load| Plant::new(20, service, load, 30.0);
    vec![
        Scene::new(
            "adaptive-light-load",
            "20 workers, and 0.8 of the load that they can serve",
            plant(0.8, 30.0),
        ),
        Scene::new(
            "adaptive-overload",
            "20 workers, and twice the load that they can serve",
            plant(2.0, 30.0),
        ),
        Scene::new(
            "adaptive-overload-constant",
            "20 workers with constant service times, and twice the load",
            service(CONSTANT, 2.0),
        ),
        Scene::new(
            "adaptive-overload-bimodal",
            "20 workers, one call in nine takes ten times as long, and twice the load",
            service(BIMODAL, 2.0),
        ),
        Scene::new(
            "adaptive-ten-times-the-load",
            "20 workers, and ten times the load that they can serve",
            plant(10.0, 10.0),
        ),
        Scene::new(
            "adaptive-hour-of-overload",
            "4 workers, and an hour of twice the load that they can serve",
            Plant::new(4, EXPONENTIAL, 2.0, 3_600.0),
        ),
        Scene {
            initial: 1,
            ..Scene::new(
                "adaptive-cold-start",
                "20 workers, and twice the load; Gradient starts with one permit",
                plant(2.0, 5.0),
            )
        },
        Scene::new(
            "adaptive-capacity-drops",
            "20 workers, and 5 of them from 15 s to 35 s",
            plant(2.0, 60.0).fault(FaultKind::Capacity(Share::new(0.25)), 15.0, 20.0),
        ),
        Scene::new(
            "adaptive-service-slows",
            "20 workers, which take three times as long from 15 s to 55 s",
            plant(2.0, 80.0).fault(FaultKind::Service(3.0), 15.0, 40.0),
        ),
        Scene::new(
            "adaptive-spike",
            "20 workers, which take five times as long from 15 s to 17 s",
            plant(2.0, 30.0).fault(FaultKind::Service(5.0), 15.0, 2.0),
        ),
        Scene::new(
            "adaptive-pause",
            "20 workers, which stand still from 15 s to 17 s",
            plant(2.0, 30.0).fault(FaultKind::Pause, 15.0, 2.0),
        ),
        Scene::new(
            "adaptive-light-load-lognormal",
            "20 workers with lognormal service times, and 0.8 of the load",
            service(LOGNORMAL, 0.8),
        ),
    ]
}

/// Draws `adaptive-*.svg`.
pub fn draw(folder: &Path) -> std::io::Result<()> {
    for scene in scenes() {
        let picture = Picture::new(scene.title).chart(limits(&scene));
        let path = folder.join(scene.name).with_extension("svg");
        std::fs::write(path, picture.to_string())?;
    }
    Ok(())
}

/// The limit of each algorithm: means of parts of the run.
fn limits(scene: &Scene) -> Chart {
    let Scene {
        name,
        title,
        plant,
        initial,
    } = scene;
    let y = Axis::from_zero(Unit::Count, [HIGHEST]);
    let mut chart = Chart::new(*name, *title, Axis::time(plant.seconds), y)
        .names("time", "limit in permits")
        .wide();
    for (index, algorithm) in DRAWN.into_iter().enumerate().rev() {
        let record = plant.run_starting_at(*initial, SEED, algorithm);
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
