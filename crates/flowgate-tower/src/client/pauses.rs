use super::advice::{Advice, Heard, Stop};
use super::countdown::Countdown;
use super::reset::Window;
use flowgate::{Clock, Timestamp};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many hosts' pauses are kept.
const MAX_HOSTS: usize = 10_000;

/// Requests that are let through before a host is trusted again, after the first refusal that shows that it was trusted
/// too much. The number doubles with each further one.
const WARY_FIRST: u16 = 16;
const WARY_MOST: u16 = 1024;

/// The state of each host: until when nothing is sent to it, and how requests go on after that.
pub(crate) struct Pauses {
    hosts: Mutex<HashMap<String, Pause>>,
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
    /// The next request that waited for the end of the pause is sent at this time.
    next: Timestamp,
    /// The time between these requests.
    each: Duration,
    /// The number of pauses without a time of their own in a row.
    in_a_row: u32,
    /// Whether nothing was left in the last response.
    is_used_up: bool,
    /// When the host last said that nothing is left, and the time until which that may hold, although only a part of it
    /// was waited for.
    doubted: [Timestamp; 2],
    /// Responses that nothing is left, until a part of the time is enough again.
    wary: u16,
    /// The value of `wary` after the next refusal.
    wary_next: u16,
    /// What its responses tell of its window.
    countdown: Option<Countdown>,
    /// What `X-RateLimit-Reset` tells of it.
    window: Option<Window>,
}

impl Pause {
    const NONE: Self = Self {
        until: Timestamp::ORIGIN,
        next: Timestamp::ORIGIN,
        each: Duration::ZERO,
        in_a_row: 0,
        is_used_up: false,
        doubted: [Timestamp::ORIGIN; 2],
        wary: 0,
        wary_next: WARY_FIRST,
        countdown: None,
        window: None,
    };

    /// Whether the host was once trusted too much.
    fn is_learned(&self) -> bool {
        self.wary_next > WARY_FIRST
    }

    /// Whether it still delays requests.
    fn matters(&self, now: Timestamp) -> bool {
        self.until > now || self.next > now
    }
}

/// Whether a request may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Open,
    /// Nothing is sent until then.
    Paused(Timestamp),
    /// The pause is over, and this is the time of this request.
    At(Timestamp),
}

/// Where a request stands that may have to wait for a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    No,
    /// For the end of a pause.
    Paused,
    /// For its time after a pause.
    InTurn,
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

    /// Whether a request to `host` that has `waited` may go on. Requests that waited for the end of a pause go on one by
    /// one, and so do those that come meanwhile.
    pub(super) fn enter(&self, host: &str, waited: Waited) -> Entry {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pause) = hosts.get_mut(host) else {
            return Entry::Open;
        };
        let now = self.clock.now();
        if pause.until > now {
            return Entry::Paused(pause.until);
        }
        match waited {
            Waited::InTurn => return Entry::Open,
            Waited::No if pause.next <= now => return Entry::Open,
            Waited::No | Waited::Paused => {}
        }
        let at = pause.next;
        // A request that comes late does not have others leave together.
        pause.next = at.max(before(now, pause.each)) + pause.each;
        match at > now {
            true => Entry::At(at),
            false => Entry::Open,
        }
    }

    /// Follows the `advice` of `host` to a request that was sent at `sent`, and what was `heard` of its window. `each` is the
    /// time for each request at the rate of the client's own limit.
    pub(super) fn heed(
        &self,
        host: &str,
        advice: Advice,
        Heard { sight, reset }: Heard,
        sent: Timestamp,
        each: impl FnOnce() -> Option<Duration>,
    ) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let known = hosts.get(host).copied();
        let mut pause = known.unwrap_or(Pause::NONE);
        let (sight, advice) = match reset {
            Some(reset) => {
                let window = Window::after(pause.window, reset, sent, now);
                pause.window = Some(window);
                let sight = window.sight(reset);
                let used_up = sight.filter(|sight| sight.remaining == 0);
                let advice = match (advice, used_up) {
                    (Advice::Fine, Some(sight)) => Advice::Rest(reset.rest(sight.policy)),
                    _ => advice,
                };
                (sight, advice)
            }
            None => (sight, advice),
        };
        // A refusal takes nothing, so it does not count.
        let is_refusal = matches!(advice, Advice::Stop(_));
        if let Some(sight) = sight.filter(|_| !is_refusal) {
            pause.countdown = Some(Countdown::after(pause.countdown, sight, sent, now));
        }
        // Responses to what was sent before the pause repeat what is known.
        let is_under_way = pause.until > now;
        let (until, servers) = match advice {
            Advice::Fine if is_under_way => (pause.until, None),
            Advice::Fine => {
                pause.in_a_row = 0;
                pause.is_used_up = false;
                (pause.until, None)
            }
            Advice::Rest(rest) => {
                pause.in_a_row = 0;
                let is_first = !std::mem::replace(&mut pause.is_used_up, true);
                // The end of a burst is waited for a little longer after each refusal.
                let times = match is_first {
                    true => u32::from(pause.wary_next / WARY_FIRST),
                    false => 1,
                };
                let window = pause.countdown.and_then(|heard| heard.rest(now, rest.most));
                let whole = match window {
                    Some(window) => window.clamp(rest.certain, rest.most),
                    None => rest.longer(times),
                };
                let whole = self.after(now, whole);
                pause.doubted = [now, whole];
                // The first one ends a burst. If all responses say so, waiting for too long would add up.
                let until = match pause.wary.checked_sub(1) {
                    Some(wary) => {
                        pause.wary = wary;
                        whole
                    }
                    None if is_first && rest.is_bounded() => whole,
                    None => self.after(sent, rest.certain),
                };
                (until, rest.each)
            }
            Advice::Stop(Stop { time: None, .. }) if is_under_way => return,
            Advice::Stop(stop) => {
                let [from, to] = pause.doubted;
                if from < sent && sent < to {
                    pause.doubted = Pause::NONE.doubted;
                    pause.wary = pause.wary_next;
                    pause.wary_next = pause.wary.saturating_mul(2).min(WARY_MOST);
                }
                let rest = stop
                    .time
                    .unwrap_or_else(|| self.backoff(pause.in_a_row, now));
                let more = u32::from(!is_under_way);
                pause.in_a_row = pause.in_a_row.saturating_add(more);
                (self.after(now, rest), stop.each)
            }
        };
        if until > pause.until {
            pause.until = until;
            pause.next = pause.next.max(until);
            let rest = until.saturating_duration_since(now);
            pause.each = each().or(servers).unwrap_or_default().min(rest);
        }
        let is_known = pause.is_learned() || pause.countdown.is_some() || pause.window.is_some();
        if advice == Advice::Fine && !is_known && !pause.matters(now) {
            hosts.remove(host);
            return;
        }
        if known.is_none() && hosts.len() >= MAX_HOSTS {
            make_room(&mut hosts, now);
        }
        match hosts.get_mut(host) {
            Some(known) => *known = pause,
            None => _ = hosts.insert(host.to_owned(), pause),
        }
    }

    fn after(&self, now: Timestamp, rest: Duration) -> Timestamp {
        now + rest.min(self.settings.most)
    }

    /// The next pause after `in_a_row` pauses. Each pause is twice as long as the one before, less up to half of it at
    /// random, so that clients which were refused together do not come back together.
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

fn before(now: Timestamp, time: Duration) -> Timestamp {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_sub(nanos))
}

/// Forgets those that are over, or else the one that is over first.
fn make_room(hosts: &mut HashMap<String, Pause>, now: Timestamp) {
    hosts.retain(|_, pause| pause.matters(now));
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
mod tests;
