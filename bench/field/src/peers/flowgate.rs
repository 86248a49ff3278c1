//! flowgate's own: the controls.

use flowgate_testkit::promise::{Anchor, Kind};
use flowgate_testkit::script::Setup;
use flowgate_testkit::subject::{self, Capabilities};

use super::{Builder, Driven, Peer, Test};

const WINDOWS: Capabilities = Capabilities {
    overdraw: false,
    reserve: false,
    set_quota: false,
    set_refill: false,
    ..Capabilities::BUCKET
};

pub const PEERS: [Peer; 6] = [
    peer(
        "flowgate TokenBucket",
        Kind::Bucket,
        Capabilities::BUCKET,
        subject::token_bucket,
    ),
    peer(
        "flowgate LeakyBucket",
        Kind::Bucket,
        Capabilities::BUCKET,
        subject::leaky_bucket,
    ),
    peer(
        "flowgate SlidingWindow",
        Kind::Sliding,
        WINDOWS,
        subject::sliding_window,
    ),
    peer(
        "flowgate SegmentedWindow, k = 1",
        Kind::Segmented { segments: 1 },
        WINDOWS,
        subject::segmented_window,
    ),
    peer(
        "flowgate ApproximateWindow",
        Kind::Approximate,
        WINDOWS,
        subject::approximate_window,
    ),
    peer(
        "flowgate FixedWindow",
        Kind::Window(Anchor::FirstGrant),
        WINDOWS,
        subject::fixed_window,
    ),
];

const fn peer(
    name: &'static str,
    kind: Kind,
    can: Capabilities,
    build: fn(&Setup, Test<'_>),
) -> Peer {
    Peer {
        name,
        kind,
        takes: "all that are drawn",
        driven: Driven::Any(Builder {
            takes: |_| true,
            can,
            build,
        }),
        documented: &[],
    }
}
