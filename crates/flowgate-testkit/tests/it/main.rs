//! Tests of the testkit: each wrong limiter is detected, and verification in process is right.

mod behind_a_change;
mod broken;
mod cancellations;
mod effort;
mod handovers;
mod verify;
mod verify_blocks;
mod verify_coverage;
mod verify_delays;
mod verify_nginx;
mod verify_servers;
mod verify_slow;
