//! `flowgate simulate`: what limits do to traffic, in virtual time.

mod report;
