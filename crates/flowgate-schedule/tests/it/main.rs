//! Tests of schedules: closed forms, lists, changing rates, random times.

mod schedule;
mod schedule_lists;
mod schedule_random;
mod schedule_rates;
