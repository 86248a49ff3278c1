//! The algorithms that are compared.

use std::sync::Arc;

use flowgate::{Adapt, AdaptiveLimit, Aimd, Bdp, FineLimit, Gradient, ManualClock, Vegas};

use crate::limit::Limit;
use crate::others;

/// What sets the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Gradient,
    /// `Gradient` without its trials: for a test.
    #[allow(dead_code)]
    NoTrials,
    Bdp,
    Vegas,
    Aimd,
    /// Netflix's default: every call is a sample.
    NetflixVegas,
    /// The same in Netflix's windows of one second.
    NetflixVegasWindowed,
    NetflixGradient2,
    Envoy,
    Brpc,
    Failsafe,
    CongestionAimd,
}

impl Algorithm {
    /// Those of flowgate are the first four.
    pub const ALL: [Self; 11] = [
        Self::Gradient,
        Self::Bdp,
        Self::Vegas,
        Self::Aimd,
        Self::Envoy,
        Self::Brpc,
        Self::NetflixVegas,
        Self::NetflixVegasWindowed,
        Self::NetflixGradient2,
        Self::Failsafe,
        Self::CongestionAimd,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Gradient => "Gradient",
            Self::NoTrials => "Gradient without trials",
            Self::Bdp => "Bdp",
            Self::Vegas => "Vegas",
            Self::Aimd => "Aimd",
            Self::NetflixVegas => "Netflix Vegas",
            Self::NetflixVegasWindowed => "Netflix Vegas, windows",
            Self::NetflixGradient2 => "Netflix Gradient2",
            Self::Envoy => "Envoy",
            Self::Brpc => "brpc",
            Self::Failsafe => "failsafe-go",
            Self::CongestionAimd => "congestion-limiter AIMD",
        }
    }

    /// Whether overloads are all that it reads. A call that is served after its deadline is one for these algorithms, as they would never
    /// learn anything otherwise.
    pub fn reads_overloads_only(self) -> bool {
        matches!(self, Self::Aimd | Self::CongestionAimd)
    }

    /// A limit of 1 to 2,000 permits.
    ///
    /// Those of flowgate start at this number of permits, and the others at their own defaults.
    pub fn starting_at(self, permits: u32, seed: u64, time: &ManualClock) -> Limit {
        let initial = FineLimit::whole(permits);
        let gradient = Gradient::builder().initial(initial);
        let built = |gradient: flowgate::GradientBuilder| gradient.build().expect("valid settings");
        match self {
            Self::Gradient => adaptive(built(gradient), time),
            Self::NoTrials => adaptive(built(gradient.without_trials()), time),
            Self::Bdp => adaptive(Bdp::starting_at(initial), time),
            Self::Vegas => adaptive(Vegas::starting_at(initial), time),
            Self::Aimd => adaptive(Aimd::starting_at(initial), time),
            Self::NetflixVegas => Limit::other(Box::new(others::Vegas::new(seed))),
            Self::NetflixVegasWindowed => {
                let vegas = others::Vegas::new(seed);
                Limit::other(Box::new(others::Windowed::netflix(vegas)))
            }
            Self::NetflixGradient2 => {
                let gradient = others::Gradient2::new();
                Limit::other(Box::new(others::Windowed::netflix(gradient)))
            }
            Self::Envoy => Limit::other(Box::new(others::Envoy::new(seed))),
            Self::Brpc => Limit::other(Box::new(others::Brpc::new(seed))),
            Self::Failsafe => Limit::other(Box::new(others::Failsafe::new())),
            Self::CongestionAimd => {
                let aimd = others::Windowed::congestion(others::Aimd::new());
                Limit::other(Box::new(aimd))
            }
        }
    }
}

fn adaptive(algorithm: impl Adapt, time: &ManualClock) -> Limit {
    let algorithm: Box<dyn Adapt> = Box::new(algorithm);
    let limit = AdaptiveLimit::builder(algorithm)
        .bounds(FineLimit::ONE, FineLimit::whole(others::MAX as u32))
        .clock(time)
        .build();
    Limit::Adaptive(Arc::new(limit.expect("valid settings")))
}
