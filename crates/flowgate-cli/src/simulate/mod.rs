//! `flowgate simulate`: what limits do to traffic, in virtual time.

pub(crate) mod report;
