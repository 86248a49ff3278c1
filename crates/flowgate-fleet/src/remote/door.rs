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
        self.record(b"").limit()
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
