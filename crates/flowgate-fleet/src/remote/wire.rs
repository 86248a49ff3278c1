//! The messages between a process and a decision server, and what they mean.
//!
//! Times in them are the authority's. Only the authority compares them with its clock: a process returns them.

use crate::call::{Call, Failure, GiveBack, Reply, Request, Run, Seen};
use crate::link::Outcome;
use crate::record::Record;
use crate::terms::{Kind, MOST, Terms};
use prost::{Enumeration, Message, Oneof};

/// Requests of one process, which are carried out together. Without requests, it is a PING.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseRequests {
    /// The answer has the same.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// They are answered in this order.
    #[prost(message, repeated, tag = "2")]
    pub requests: Vec<LeaseRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseRequest {
    #[prost(oneof = "Asked", tags = "1, 2, 3")]
    pub asked: Option<Asked>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Asked {
    #[prost(message, tag = "1")]
    Take(Take),
    #[prost(message, tag = "2")]
    TakeAll(TakeAll),
    #[prost(message, tag = "3")]
    GiveBack(Back),
}

#[derive(Clone, PartialEq, Message)]
pub struct Take {
    #[prost(message, optional, tag = "1")]
    pub limit: Option<Limit>,
    #[prost(message, optional, tag = "2")]
    pub seen: Option<Stated>,
    #[prost(message, repeated, tag = "3")]
    pub runs: Vec<TakeRun>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TakeAll {
    #[prost(message, repeated, tag = "1")]
    pub takes: Vec<Take>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Back {
    #[prost(message, optional, tag = "1")]
    pub limit: Option<Limit>,
    #[prost(uint64, tag = "2")]
    pub units: u64,
    #[prost(message, optional, tag = "3")]
    pub taken: Option<Stated>,
}

/// A record, and the quota that the process states.
#[derive(Clone, PartialEq, Message)]
pub struct Limit {
    /// A hash of the limit's name.
    #[prost(fixed64, tag = "1")]
    pub name: u64,
    #[prost(fixed64, tag = "2")]
    pub key_high: u64,
    #[prost(fixed64, tag = "3")]
    pub key_low: u64,
    #[prost(enumeration = "LimitKind", tag = "4")]
    pub kind: i32,
    #[prost(uint64, tag = "5")]
    pub count: u64,
    /// In parts of a unit, or microseconds of a window.
    #[prost(uint64, tag = "6")]
    pub period: u64,
    /// By the quota.
    #[prost(uint64, tag = "7")]
    pub burst: u64,
    /// By which this request is decided. Leases take turns in a larger one.
    #[prost(uint64, tag = "8")]
    pub burst_of_request: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
pub enum LimitKind {
    Bucket = 0,
    Window = 1,
    AlignedWindow = 2,
}

/// What the authority has stated of a record.
#[derive(Clone, PartialEq, Message)]
pub struct Stated {
    #[prost(uint64, tag = "1")]
    pub debt: u64,
    #[prost(uint64, tag = "2")]
    pub at_us: u64,
    #[prost(uint64, tag = "3")]
    pub began_us: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct TakeRun {
    #[prost(uint64, tag = "1")]
    pub times: u64,
    #[prost(uint64, tag = "2")]
    pub units: u64,
    #[prost(uint64, tag = "3")]
    pub least: u64,
}

/// The answer to [`LeaseRequests`].
#[derive(Clone, PartialEq, Message)]
pub struct LeaseAnswers {
    /// That of the requests.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// In the order of the requests.
    #[prost(message, repeated, tag = "2")]
    pub answers: Vec<LeaseAnswer>,
    /// The server does not reach its own authority.
    #[prost(bool, tag = "3")]
    pub is_cut_off: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseAnswer {
    #[prost(oneof = "Answered", tags = "1, 2, 3, 4")]
    pub answered: Option<Answered>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Answered {
    #[prost(message, tag = "1")]
    Replies(Replies),
    /// Nothing was taken, for this reason.
    #[prost(string, tag = "2")]
    Refused(String),
    /// Nothing was taken: the authority is away.
    #[prost(message, tag = "3")]
    Unreachable(Nothing),
    /// The authority has not answered. It may have taken something.
    #[prost(message, tag = "4")]
    Lost(Nothing),
}

#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub struct Replies {
    /// One for each record.
    #[prost(message, repeated, tag = "1")]
    pub replies: Vec<RecordReply>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RecordReply {
    #[prost(message, optional, tag = "1")]
    pub seen: Option<Stated>,
    #[prost(uint64, tag = "2")]
    pub healed: u64,
    #[prost(uint64, tag = "3")]
    pub reset_us: u64,
    #[prost(uint64, repeated, tag = "4")]
    pub taken: Vec<u64>,
}

/// Returns a number that the authority can count with.
fn counted(number: u64) -> Option<u64> {
    (u128::from(number) < MOST).then_some(number)
}

impl Stated {
    fn of(seen: Seen) -> Self {
        Self {
            debt: seen.debt,
            at_us: seen.at_us,
            began_us: seen.began_us,
        }
    }

    fn read(&self) -> Option<Seen> {
        Some(Seen {
            debt: counted(self.debt)?,
            at_us: counted(self.at_us)?,
            began_us: counted(self.began_us)?,
        })
    }
}

impl Limit {
    fn of(record: Record, terms: &Terms) -> Self {
        let [key_high, key_low] = record.key();
        let kind = match terms.kind {
            Kind::Bucket => LimitKind::Bucket,
            Kind::Window => LimitKind::Window,
            Kind::AlignedWindow => LimitKind::AlignedWindow,
        };
        Self {
            name: record.limit(),
            key_high,
            key_low,
            kind: kind.into(),
            count: terms.count,
            period: terms.period,
            burst: terms.quota_burst,
            burst_of_request: terms.burst,
        }
    }

    fn record(&self) -> Record {
        Record::from_parts([self.key_high, self.key_low], self.name)
    }

    /// Returns what the process states. It may be anything.
    fn stated(&self) -> Terms {
        let kind = match self.kind() {
            LimitKind::Bucket => Kind::Bucket,
            LimitKind::Window => Kind::Window,
            LimitKind::AlignedWindow => Kind::AlignedWindow,
        };
        Terms {
            kind,
            count: self.count,
            period: self.period,
            burst: self.burst_of_request,
            quota_burst: self.burst,
        }
    }
}

impl Take {
    fn of(call: &Call) -> Self {
        let run = |run: &Run| TakeRun {
            times: run.times,
            units: run.units,
            least: run.least,
        };
        Self {
            limit: Some(Limit::of(call.record, &call.terms)),
            seen: Some(Stated::of(call.seen)),
            runs: call.runs.iter().map(run).collect(),
        }
    }

    fn read(&self, quota: &impl Fn(u64, Terms) -> Result<Terms, String>) -> Result<Call, String> {
        let limit = self.limit.as_ref().ok_or_else(malformed)?;
        let terms = quota(limit.name, limit.stated())?;
        let mut seen = match &self.seen {
            Some(seen) => seen.read().ok_or_else(malformed)?,
            None => Seen::default(),
        };
        // A reminder counts up to a full bucket.
        let full = match terms.kind {
            Kind::Bucket => terms.burst * terms.period,
            _ => terms.burst,
        };
        seen.debt = seen.debt.min(full);
        let run = |run: &TakeRun| {
            let can_be = (1..=terms.burst).contains(&run.units) && run.least >= 1;
            can_be.then_some(Run {
                times: run.times,
                units: run.units,
                least: run.least,
            })
        };
        let runs: Option<Vec<Run>> = self.runs.iter().map(run).collect();
        Ok(Call {
            record: limit.record(),
            terms,
            seen,
            runs: runs.ok_or_else(malformed)?,
        })
    }
}

fn malformed() -> String {
    "the request is malformed".to_owned()
}

impl LeaseRequest {
    pub(super) fn of(request: &Request) -> Self {
        let asked = match request {
            Request::Take(call) => Asked::Take(Take::of(call)),
            Request::TakeAll(calls) => Asked::TakeAll(TakeAll {
                takes: calls.iter().map(Take::of).collect(),
            }),
            Request::GiveBack(back) => Asked::GiveBack(Back {
                limit: Some(Limit::of(back.record, &back.terms)),
                units: back.units,
                taken: Some(Stated::of(back.taken)),
            }),
        };
        Self { asked: Some(asked) }
    }

    /// Returns the request. `quota` returns the terms that decide, for the hash of a name and what is stated of it.
    ///
    /// # Errors
    ///
    /// The reason if it is refused.
    pub(super) fn read(
        &self,
        quota: &impl Fn(u64, Terms) -> Result<Terms, String>,
    ) -> Result<Request, String> {
        match self.asked.as_ref().ok_or_else(malformed)? {
            Asked::Take(take) => take.read(quota).map(Request::Take),
            Asked::TakeAll(all) => {
                let calls = all.takes.iter().map(|take| take.read(quota));
                let calls: Vec<Call> = calls.collect::<Result<_, _>>()?;
                let is_one = |call: &Call| {
                    let run = <&[Run; 1]>::try_from(&*call.runs);
                    run.is_ok_and(|[run]| run.times == 1) && !call.terms.kind.is_window()
                };
                match !calls.is_empty() && calls.iter().all(is_one) {
                    true => Ok(Request::TakeAll(calls)),
                    false => Err(malformed()),
                }
            }
            Asked::GiveBack(back) => {
                let limit = back.limit.as_ref().ok_or_else(malformed)?;
                let terms = quota(limit.name, limit.stated())?;
                let taken = back.taken.as_ref().and_then(Stated::read);
                let can_be = back.units <= terms.burst && !terms.kind.is_window();
                let taken = taken.filter(|_| can_be).ok_or_else(malformed)?;
                Ok(Request::GiveBack(GiveBack {
                    record: limit.record(),
                    terms,
                    units: back.units,
                    taken,
                }))
            }
        }
    }
}

impl LeaseAnswer {
    pub(super) fn of(outcome: Outcome) -> Self {
        let reply = |reply: Reply| RecordReply {
            seen: Some(Stated::of(reply.seen)),
            healed: reply.healed,
            reset_us: reply.reset_us,
            taken: reply.taken,
        };
        let answered = match outcome {
            Ok(replies) => Answered::Replies(Replies {
                replies: replies.into_iter().map(reply).collect(),
            }),
            Err(Failure::Refused(why)) => Answered::Refused(why),
            Err(Failure::Unreachable) => Answered::Unreachable(Nothing {}),
            Err(Failure::Lost) => Answered::Lost(Nothing {}),
        };
        Self {
            answered: Some(answered),
        }
    }

    /// Returns what became of `request`.
    pub(super) fn read(self, request: &Request) -> Outcome {
        // One number answers: how much was given back.
        const BACK: &[Run] = &[Run {
            times: u64::MAX,
            units: 1,
            least: 1,
        }];
        let replies = match self.answered {
            Some(Answered::Replies(replies)) => replies.replies,
            Some(Answered::Refused(why)) => return Err(Failure::Refused(why)),
            Some(Answered::Unreachable(_)) => return Err(Failure::Unreachable),
            // Of an answer that says nothing, nothing is known.
            Some(Answered::Lost(_)) | None => return Err(Failure::Lost),
        };
        let runs: Vec<&[Run]> = match request {
            Request::Take(call) => vec![&call.runs],
            Request::TakeAll(calls) => calls.iter().map(|call| &*call.runs).collect(),
            Request::GiveBack(_) => vec![BACK],
        };
        let reply = |(reply, runs): (RecordReply, &[Run])| {
            let seen = reply.seen.as_ref()?.read()?;
            let taken = reply.taken.iter().zip(runs);
            let is_less = |(taken, run): (&u64, &Run)| *taken <= run.times;
            let fits = reply.taken.len() == runs.len() && taken.into_iter().all(is_less);
            fits.then_some(Reply {
                seen,
                healed: counted(reply.healed)?,
                reset_us: counted(reply.reset_us)?,
                taken: reply.taken,
            })
        };
        if replies.len() != runs.len() {
            return Err(Failure::Lost);
        }
        let replies = replies.into_iter().zip(runs).map(reply);
        replies.collect::<Option<_>>().ok_or(Failure::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::draw_terms;
    use fastrand::Rng;

    fn draw_seen(random: &mut Rng, terms: &Terms) -> Seen {
        Seen {
            debt: random.u64(0..=terms.burst * terms.period),
            at_us: random.u64(0..MOST as u64),
            began_us: random.u64(0..MOST as u64),
        }
    }

    fn draw_call(random: &mut Rng, runs: usize) -> Call {
        let terms = draw_terms(random);
        let run = |random: &mut Rng| Run {
            times: if runs == 1 { 1 } else { random.u64(0..1_000) },
            units: random.u64(1..=terms.burst),
            least: random.u64(1..10),
        };
        Call {
            record: Record::of("api", &random.u64(..).to_le_bytes()),
            terms,
            seen: draw_seen(random, &terms),
            runs: (0..runs).map(|_| run(random)).collect(),
        }
    }

    fn draw_request(random: &mut Rng) -> Request {
        match random.u32(0..3) {
            0 => Request::Take(draw_call(random, 3)),
            1 => Request::TakeAll((0..3).map(|_| draw_call(random, 1)).collect()),
            _ => {
                let call = draw_call(random, 0);
                Request::GiveBack(GiveBack {
                    record: call.record,
                    terms: call.terms,
                    units: random.u64(0..=call.terms.burst),
                    taken: call.seen,
                })
            }
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let random = &mut Rng::with_seed(25);
        for _ in 0..2_000 {
            let request = draw_request(random);
            let bytes = LeaseRequest::of(&request).encode_to_vec();
            let message = LeaseRequest::decode(&*bytes).expect("a message");
            let read = message.read(&|name, stated| {
                assert_eq!(name, Record::of("api", b"").limit());
                Ok(stated)
            });
            let read = read.expect("it is well formed");
            assert_eq!(format!("{read:?}"), format!("{request:?}"));

            let reply = |runs: &[Run]| Reply {
                seen: Seen {
                    debt: 7,
                    at_us: 1 << 52,
                    began_us: 3,
                },
                healed: 1,
                reset_us: 2,
                taken: runs.iter().map(|run| run.times).collect(),
            };
            let outcomes = [
                Ok(match &request {
                    Request::Take(call) => vec![reply(&call.runs)],
                    Request::TakeAll(calls) => calls.iter().map(|call| reply(&call.runs)).collect(),
                    Request::GiveBack(_) => vec![reply(&[Run::of(5, 1)])],
                }),
                Err(Failure::Refused("why".to_owned())),
                Err(Failure::Unreachable),
                Err(Failure::Lost),
            ];
            for outcome in outcomes {
                let bytes = LeaseAnswer::of(outcome.clone()).encode_to_vec();
                let answer = LeaseAnswer::decode(&*bytes).expect("a message");
                assert_eq!(answer.read(&request), outcome);
            }
        }
    }

    #[test]
    fn an_answer_to_something_else_is_none() {
        let request = Request::Take(draw_call(&mut Rng::with_seed(25), 2));
        let Request::Take(call) = &request else {
            unreachable!()
        };
        let most: Vec<u64> = call.runs.iter().map(|run| run.times).collect();
        let read = |change: fn(&mut Reply), replies: usize| {
            let mut reply = Reply {
                taken: most.clone(),
                ..Reply::default()
            };
            change(&mut reply);
            LeaseAnswer::of(Ok(vec![reply; replies])).read(&request)
        };
        assert!(read(|_| {}, 1).is_ok());
        for (change, replies) in [
            ((|_| {}) as fn(&mut Reply), 0),
            (|_| {}, 2),
            (|reply| reply.taken[0] += 1, 1),
            (|reply| _ = reply.taken.pop(), 1),
            (|reply| reply.healed = 1 << 53, 1),
            (|reply| reply.reset_us = u64::MAX, 1),
            (|reply| reply.seen.debt = u64::MAX, 1),
        ] {
            assert_eq!(read(change, replies), Err(Failure::Lost));
        }
        assert_eq!(
            LeaseAnswer::default().read(&request),
            Err(Failure::Lost),
            "of an answer without anything, nothing is known"
        );
    }
}
