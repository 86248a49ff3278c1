use super::advice::Advice;
use flowgate::{Acquire, Clock, ConcurrencyLimit, Denied, Permits, Timestamp};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::future::Future;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// How many hosts' pauses are kept.
const MAX_HOSTS: usize = 10_000;

/// Which hosts nothing is sent to, and until when.
pub(crate) struct Pauses {
    hosts: Mutex<HashMap<String, Pause>>,
    /// Has no slots, so that who waits for one waits for a deadline.
    never: Arc<ConcurrencyLimit>,
    clock: Clock,
    settings: Settings,
    random: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    first: Duration,
    longest: Duration,
    most: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Timestamp,
    /// How many pauses in a row it has asked for.
    in_a_row: u32,
}

impl Pauses {
    pub(super) fn new(clock: Clock) -> Self {
        Self::with(
            clock,
            Settings {
                first: Duration::from_millis(500),
                longest: Duration::from_secs(60),
                most: Duration::from_secs(3600),
            },
        )
    }

    fn with(clock: Clock, settings: Settings) -> Self {
        Self {
            hosts: Mutex::default(),
            // None is within the range.
            never: ConcurrencyLimit::builder(0)
                .clock(clock.clone())
                .build()
                .unwrap_or_else(|_| ConcurrencyLimit::new(0))
                .into(),
            clock,
            settings,
            random: RandomState::new(),
        }
    }

    pub(super) fn with_backoff(&self, first: Duration, longest: Duration) -> Self {
        let settings = Settings {
            first,
            longest,
            ..self.settings
        };
        Self::with(self.clock.clone(), settings)
    }

    pub(super) fn with_max_pause(&self, most: Duration) -> Self {
        let settings = Settings {
            most,
            ..self.settings
        };
        Self::with(self.clock.clone(), settings)
    }

    /// Until when nothing is sent to `host`, if that is ahead.
    pub(super) fn until(&self, host: &str) -> Option<Timestamp> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let until = hosts.get(host)?.until;
        drop(hosts);
        (until > self.clock.now()).then_some(until)
    }

    /// Waits until then.
    pub(super) fn sleep(&self, until: Timestamp) -> Sleep {
        Sleep(self.never.acquire_owned().by(until))
    }

    /// Takes to heart what `host` has said.
    pub(super) fn heed(&self, host: &str, advice: Advice) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let known = hosts.get(host).copied();
        let before = known.unwrap_or(Pause {
            until: Timestamp::ORIGIN,
            in_a_row: 0,
        });
        // Answers to what had been sent before the pause say the same thing again.
        let is_under_way = before.until > now;
        let pause = match advice {
            Advice::Fine if is_under_way => return,
            Advice::Fine => {
                if known.is_some() {
                    hosts.remove(host);
                }
                return;
            }
            Advice::Rest(rest) => Pause {
                until: self.after(now, rest).max(before.until),
                in_a_row: 0,
            },
            Advice::Stop(None) if is_under_way => return,
            Advice::Stop(told) => {
                let rest = told.unwrap_or_else(|| self.backoff(before.in_a_row, now));
                Pause {
                    until: self.after(now, rest).max(before.until),
                    in_a_row: before.in_a_row.saturating_add(u32::from(!is_under_way)),
                }
            }
        };
        if known.is_none() && hosts.len() >= MAX_HOSTS {
            make_room(&mut hosts, now);
        }
        hosts.insert(host.to_owned(), pause);
    }

    fn after(&self, now: Timestamp, rest: Duration) -> Timestamp {
        let rest = rest.min(self.settings.most).as_nanos();
        let rest = u64::try_from(rest).unwrap_or(u64::MAX);
        Timestamp::from_nanos(now.as_nanos().saturating_add(rest))
    }

    /// The next pause after so many in a row: twice as long each time, less up to half of it at random, so that
    /// clients which were turned away together do not come back together.
    fn backoff(&self, in_a_row: u32, now: Timestamp) -> Duration {
        let Settings { first, longest, .. } = self.settings;
        let doubled = 2u32
            .checked_pow(in_a_row)
            .and_then(|factor| first.checked_mul(factor));
        let most = doubled.unwrap_or(longest).min(longest);
        let random = self.random.hash_one((in_a_row, now.as_nanos()));
        let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        let less_ns = (u128::from(random) * u128::from(most_ns / 2)) >> 64;
        most - Duration::from_nanos(less_ns as u64)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.hosts.lock().map_or(0, |hosts| hosts.len())
    }
}

/// A wait for a time. An error if too many wait.
pub(super) struct Sleep(Acquire<Permits<Arc<ConcurrencyLimit>>>);

impl Future for Sleep {
    type Output = Result<(), Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(context)) {
            Err(denied) if denied.is_queue_full() => Err(denied),
            // Refused when the deadline has come, and not before.
            _ => Ok(()),
        })
    }
}

/// Forgets those that are over, or else the one that is over first.
fn make_room(hosts: &mut HashMap<String, Pause>, now: Timestamp) {
    hosts.retain(|_, pause| pause.until > now);
    if hosts.len() >= MAX_HOSTS {
        let soonest = hosts.iter().min_by_key(|(_, pause)| pause.until);
        if let Some(host) = soonest.map(|(host, _)| host.clone()) {
            hosts.remove(&host);
        }
    }
}

impl fmt::Debug for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pauses")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowgate::ManualClock;

    #[test]
    fn what_is_kept_is_bounded() {
        let time = ManualClock::new();
        let pauses = Pauses::new(time.clone().into());
        for n in 0..MAX_HOSTS + 100 {
            let rest = Duration::from_secs(10 + n as u64);
            pauses.heed(&n.to_string(), Advice::Stop(Some(rest)));
        }
        assert_eq!(pauses.len(), MAX_HOSTS);
        assert_eq!(pauses.until("0"), None);
        assert!(pauses.until("10099").is_some());
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_begin_small_again() {
        let time = ManualClock::new();
        let pauses = Pauses::new(time.clone().into());
        let pauses = pauses.with_backoff(Duration::from_secs(1), Duration::from_secs(10));
        for most in [1, 2, 4, 8, 10, 10, 10] {
            pauses.heed("host", Advice::Stop(None));
            // Of those that had been sent before.
            pauses.heed("host", Advice::Stop(None));
            pauses.heed("host", Advice::Fine);
            let until = pauses.until("host").expect("a pause");
            let rest = until.saturating_duration_since(time.now());
            let most = Duration::from_secs(most);
            assert!(most / 2 <= rest && rest <= most, "{rest:?} of {most:?}");
            time.set(until);
            assert_eq!(pauses.until("host"), None);
        }
        pauses.heed("host", Advice::Fine);
        assert_eq!(pauses.len(), 0);
        pauses.heed("host", Advice::Stop(None));
        let until = pauses.until("host").expect("a pause");
        let rest = until.saturating_duration_since(time.now());
        assert!(rest <= Duration::from_secs(1));
    }

    #[test]
    fn nobody_stops_it_for_ever() {
        let time = ManualClock::new();
        let pauses = Pauses::new(time.clone().into());
        pauses.heed("host", Advice::Stop(Some(Duration::MAX)));
        let hour = Timestamp::from_nanos(3_600_000_000_000);
        assert_eq!(pauses.until("host"), Some(hour));
        // A shorter one does not shorten it.
        pauses.heed("host", Advice::Stop(Some(Duration::from_secs(1))));
        assert_eq!(pauses.until("host"), Some(hour));
    }
}
