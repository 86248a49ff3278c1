//! Tests of the testkit: each wrong limiter is convicted, and verification in process is right.

mod behind_a_change;
mod cancellations;
mod handovers;
mod museum;
mod verify;
mod verify_nginx;
mod verify_slow;
