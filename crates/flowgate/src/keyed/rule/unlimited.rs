//! No limit. Nothing is kept of a key, so the table never creates an entry.

use super::super::entry::Reading;
use super::{Rule, Terms};
use crate::quota::{Quota, QuotaError};

#[derive(Debug)]
pub struct NoLimit;

/// The state of every key.
const NOTHING: u128 = 0;

impl Rule for NoLimit {
    type Quota = Quota;
    const FLOWS: bool = false;
    const ADMITS_ALL: bool = true;

    fn terms(quota: &Quota) -> Result<Terms, QuotaError> {
        Ok(Terms {
            unit: 0,
            most: u64::MAX,
            scale: quota.scale(),
            span: 0,
            count_bits: 0,
            reading: Reading::of_table(0),
        })
    }

    fn is_sound(terms: &Terms) -> bool {
        terms.most == u64::MAX && terms.scale > 0 && terms.span == 0 && terms.unit == 0
    }

    fn take(_: u128, _: u128, _: u64, _: &Terms) -> Result<u128, u128> {
        Ok(NOTHING)
    }

    fn left(_: u128, _: u128, terms: &Terms) -> u64 {
        terms.most
    }

    fn whole_after(_: u128, _: u128, _: &Terms) -> u128 {
        0
    }

    fn give_back(_: u128, _: u128, _: u64, _: &Terms) -> (u128, u64) {
        (NOTHING, 0)
    }

    fn take_back(_: u128, _: u128, _: u128, _: u64, _: &Terms) -> u128 {
        NOTHING
    }

    fn restate(_: u128, _: &Terms, _: &Terms, _: u128) -> u128 {
        NOTHING
    }

    fn has_class(class: u16, _: &Terms) -> bool {
        class == 0
    }

    fn unknown_until(_: u128, _: u128, _: &Terms) -> u128 {
        NOTHING
    }

    fn to_cell(_: u128, _: &Terms) -> u64 {
        0
    }

    fn from_cell(_: u64, _: u128, _: &Terms, _: &Terms) -> u128 {
        NOTHING
    }

    fn carry(_: u128, _: u128, _: u128, _: &Terms) -> u128 {
        NOTHING
    }
}
