//! The server's side: requests of other processes, by the quotas of this one.

use super::wire::{LeaseAnswer, LeaseAnswers, LeaseRequests};
use crate::call::Failure;
use crate::fleet::{Announced, Fleet};
use crate::limit::FleetKeyed;
use crate::names::describe;
use crate::terms::{Kind, Terms};
use tokio::sync::oneshot;

impl FleetKeyed {
    /// Returns the hash of the limit's name, by which other processes ask for it.
    #[doc(hidden)]
    pub fn name_hash(&self) -> u64 {
        self.question.record.limit()
    }

    /// Returns the terms that decide a request in which a process states these.
    fn lends(&self, stated: Terms) -> Result<Terms, String> {
        let strict = &self.question.strict;
        if !strict.is_stated(&stated) {
            let has = describe(strict.terms().kind, self.quota());
            return Err(format!(
                "the server has this limit with {has}: state the same"
            ));
        }
        let most = match stated.kind {
            Kind::Bucket => stated.most_burst(),
            _ => stated.quota_burst,
        };
        match (1..=most).contains(&stated.burst) {
            true => Ok(stated),
            false => Err("the server cannot count this burst".to_owned()),
        }
    }
}

impl Fleet {
    /// Carries out requests of another process, on limits of this fleet.
    ///
    /// `limit` returns a limit by the hash of its name. The answer has the number of the requests.
    #[doc(hidden)]
    pub fn lend<'a>(
        &self,
        requests: &LeaseRequests,
        limit: &dyn Fn(u64) -> Option<&'a FleetKeyed>,
    ) -> impl Future<Output = LeaseAnswers> + Send + use<> {
        let quota = |name, stated| {
            match limit(name) {
            Some(limit) => limit.lends(stated),
            None => Err(
                "the server has no limit of this name: a name is an id of its configuration, such as api.user"
                    .to_owned(),
            ),
        }
        };
        let read = requests.requests.iter().map(|request| request.read(&quota));
        let mut refused: Vec<Option<String>> = Vec::with_capacity(requests.requests.len());
        let mut carried = Vec::with_capacity(requests.requests.len());
        for request in read {
            match request {
                Ok(request) => {
                    carried.push(request);
                    refused.push(None);
                }
                Err(why) => refused.push(Some(why)),
            }
        }
        let (tell, told) = oneshot::channel();
        let is_any = !carried.is_empty();
        if is_any {
            let tell = Box::new(move |outcomes| drop(tell.send(outcomes)));
            self.announce(Announced::Passed(carried, tell));
        }
        let (number, fleet) = (requests.number, self.clone());
        async move {
            let outcomes = match is_any {
                true => told.await.unwrap_or_default(),
                false => Vec::new(),
            };
            let mut outcomes = outcomes.into_iter();
            let answer = |refused: Option<String>| {
                LeaseAnswer::of(match refused {
                    Some(why) => Err(Failure::Refused(why)),
                    None => outcomes.next().unwrap_or(Err(Failure::Lost)),
                })
            };
            LeaseAnswers {
                number,
                answers: refused.into_iter().map(answer).collect(),
                is_cut_off: !fleet.is_up(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{
        Answered, Asked, Back, LeaseRequest, Limit, LimitKind, Stated, Take, TakeAll, TakeRun,
    };
    use super::*;
    use crate::record::Record;
    use crate::{CutOff, LocalStore};
    use fastrand::Rng;
    use flowgate::ManualClock;
    use tokio::runtime::Builder;

    const QUOTAS: [&str; 4] = [
        "4/day",
        "1000/s burst 100",
        "999999937/day burst 9",
        "3000000/s burst 5",
    ];

    /// A number that may be anything.
    fn wild(random: &mut Rng, usual: u64) -> u64 {
        match random.u32(0..8) {
            0 => 0,
            1 => u64::MAX,
            2 => (1 << 53) - random.u64(0..3),
            3 => random.u64(..),
            4 => random.u64(0..10),
            _ => usual,
        }
    }

    fn limit(random: &mut Rng, terms: &Terms) -> Limit {
        let record = Record::of("api", &[random.u8(0..3)]);
        let [key_high, key_low] = record.key();
        Limit {
            name: record.limit(),
            key_high,
            key_low,
            kind: if terms.kind.is_window() {
                LimitKind::Window
            } else {
                LimitKind::Bucket
            }
            .into(),
            count: terms.count,
            period: terms.period,
            burst: terms.quota_burst,
            burst_of_request: wild(random, terms.burst),
        }
    }

    fn stated(random: &mut Rng) -> Stated {
        Stated {
            debt: wild(random, 5),
            at_us: wild(random, 1_000_000),
            began_us: wild(random, 1_000_000),
        }
    }

    fn take(random: &mut Rng, terms: &Terms) -> Take {
        let run = |random: &mut Rng| TakeRun {
            times: wild(random, 1),
            units: wild(random, 1),
            least: wild(random, 1),
        };
        Take {
            limit: Some(limit(random, terms)),
            seen: Some(stated(random)),
            runs: (0..random.usize(0..3)).map(|_| run(random)).collect(),
        }
    }

    fn request(random: &mut Rng, terms: &Terms) -> LeaseRequest {
        let asked = match random.u32(0..4) {
            0 => Asked::TakeAll(TakeAll {
                takes: (0..random.usize(0..3))
                    .map(|_| take(random, terms))
                    .collect(),
            }),
            1 => Asked::GiveBack(Back {
                limit: Some(limit(random, terms)),
                units: wild(random, 1),
                taken: Some(stated(random)),
            }),
            _ => Asked::Take(take(random, terms)),
        };
        LeaseRequest { asked: Some(asked) }
    }

    /// Whatever a process states, the server's records stay sound: a request is refused, or carried out.
    #[test]
    fn wild_numbers_are_refused_and_harm_nothing() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let random = &mut Rng::with_seed(25);
        for (quota, is_window) in QUOTAS
            .into_iter()
            .flat_map(|quota| [(quota, false), (quota, true)])
        {
            let time = ManualClock::new();
            let fleet = LocalStore::new(&time).fleet().open().expect("a fleet");
            let text = if is_window {
                quota.split(' ').next().expect("a word")
            } else {
                quota
            };
            let quota = text.parse().expect("a quota");
            let limit = match is_window {
                true => fleet
                    .keyed_window("api", quota)
                    .when_cut_off(CutOff::Deny)
                    .build(),
                false => fleet.keyed("api", quota).when_cut_off(CutOff::Deny).build(),
            };
            let limit = limit.expect("a limit");
            let terms = limit.question.strict.terms();
            let (mut replied, mut refused) = (0, 0);
            for number in 0..2_000 {
                let requests = (0..3).map(|_| request(random, &terms)).collect();
                let message = LeaseRequests { number, requests };
                let of = |name| (name == limit.name_hash()).then_some(&limit);
                let answers = runtime.block_on(fleet.lend(&message, &of));
                assert_eq!((answers.number, answers.answers.len()), (number, 3));
                for answer in answers.answers {
                    match answer.answered {
                        Some(Answered::Replies(_)) => replied += 1,
                        Some(Answered::Refused(_)) => refused += 1,
                        // The fleet's thread would have ended.
                        other => panic!("{other:?} of {message:?}"),
                    }
                }
                time.advance(std::time::Duration::from_micros(random.u64(0..1_000)));
            }
            assert!(replied >= 100 && refused >= 100, "{replied}, {refused}");
            // A bucket is full again, as its quota says. A window of a time that was far ahead ends within two.
            let full = quota.period() * 2 * u32::try_from(quota.max_burst()).expect("small");
            time.advance(full + std::time::Duration::from_secs(2));
            let burst = limit.question.strict.terms().burst;
            assert!(limit.ask([0]).n(burst).block().is_ok(), "{text}");
            assert!(limit.ask([0]).n(burst).block().is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_and_a_quota_are_those_of_the_server() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let fleet = LocalStore::new(ManualClock::new())
            .fleet()
            .open()
            .expect("a fleet");
        let quota = "4/day".parse().expect("a quota");
        let api = fleet
            .keyed("api", quota)
            .when_cut_off(CutOff::Deny)
            .build()
            .expect("a limit");
        let ask = |change: fn(&mut Limit)| {
            let terms = api.question.strict.terms();
            let mut asked = limit(&mut Rng::with_seed(0), &terms);
            asked.burst_of_request = terms.burst;
            change(&mut asked);
            let take = Take {
                limit: Some(asked),
                ..Take::default()
            };
            let request = LeaseRequest {
                asked: Some(Asked::Take(take)),
            };
            let message = LeaseRequests {
                number: 1,
                requests: vec![request],
            };
            let of = |name| (name == api.name_hash()).then_some(&api);
            let mut answers = runtime.block_on(fleet.lend(&message, &of)).answers;
            match answers.remove(0).answered.expect("an answer") {
                Answered::Replies(_) => Ok(()),
                Answered::Refused(why) => Err(why),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ask(|_| {}), Ok(()));
        // Leases take turns in a larger burst, or keep a smaller one.
        assert_eq!(ask(|limit| limit.burst_of_request = 6), Ok(()));
        assert_eq!(ask(|limit| limit.burst_of_request = 2), Ok(()));
        for change in [
            (|limit| limit.name += 1) as fn(&mut Limit),
            |limit| limit.count += 1,
            |limit| limit.period += 1,
            |limit| limit.burst += 1,
            |limit| limit.kind = LimitKind::Window.into(),
            |limit| limit.burst_of_request = 0,
            |limit| limit.burst_of_request = 1 << 53,
        ] {
            assert!(ask(change).is_err());
        }
    }
}
