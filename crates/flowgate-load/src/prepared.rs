//! What a run sends, and where: built once, before the first request, and shared by all threads.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::connection::{Connector, HttpVersion, Message, Peer};
use crate::engine::{RunError, connections, resolve};
use crate::plan::{MAX_CONNECTIONS, Pace, Plan, Template};
use crate::pool::Job;
use crate::stop::Stop;
use crate::target::Target;

/// Maximum number of servers of one run. Each thread has a timer for each of them.
const MAX_SERVERS: usize = 100;

/// The messages and servers of a run.
pub(crate) struct Prepared {
    messages: Vec<Message>,
    /// Index of the server of each message.
    server_of: Vec<usize>,
    /// Indices of the messages, sent in this order again and again; empty if all are sent in turn.
    order: Vec<u32>,
    pub(crate) servers: Vec<Server>,
    /// The target line of the report.
    pub(crate) target: String,
}

/// A server: what is before the path in a URL.
pub(crate) struct Server {
    /// One of its URLs.
    pub(crate) target: Target,
    pub(crate) connector: Connector,
    pub(crate) addresses: Vec<Peer>,
}

impl Prepared {
    /// Builds the messages, and resolves the hosts.
    pub(crate) fn new(plan: &Plan, stop: &Stop) -> Result<Prepared, RunError> {
        let keep_alive = plan.keep_alive;
        let is_1_1 = plan.connect.version == HttpVersion::Http1;
        if !is_1_1 && (plan.follow > 0 || plan.cookies) {
            let message =
                "redirects and cookies need HTTP/1.1: remove --http2, or --follow and --cookies";
            return Err(RunError::Targets(message.to_owned()));
        }
        if plan.follow > 0 && matches!(plan.pace, Pace::Under(..)) {
            // Each redirect is one more request, of which the limiter does not know.
            let message = "redirects would exceed the limit: do not follow them, or hold a rate";
            return Err(RunError::Targets(message.to_owned()));
        }
        let message = |template: &Template, target: &Target| {
            let proxy = plan.connect.proxy.as_ref();
            template.message(target, keep_alive, proxy.filter(|_| !target.is_tls()))
        };
        let (targets, messages): (Vec<Target>, Vec<Message>) = match &plan.mix {
            None => {
                one_server(&plan.targets)?;
                let messages = plan
                    .targets
                    .iter()
                    .map(|target| message(&plan.template, target));
                let messages = messages.collect();
                (plan.targets.clone(), messages)
            }
            Some(mix) => {
                let requests = mix.iter();
                let both =
                    requests.map(|(target, template)| (target.clone(), message(template, target)));
                both.unzip()
            }
        };
        let (firsts, server_of) = servers(&targets);
        if firsts.len() > MAX_SERVERS {
            return Err(RunError::Targets(format!(
                "{} servers exceed the maximum of {MAX_SERVERS}: write fewer",
                firsts.len()
            )));
        }
        let all = firsts.len().saturating_mul(connections(plan));
        if all > MAX_CONNECTIONS {
            return Err(RunError::Targets(format!(
                "{} servers with {} connections each exceed the maximum of {MAX_CONNECTIONS} connections: \
                 allow at most {} for each",
                firsts.len(),
                connections(plan),
                MAX_CONNECTIONS / firsts.len()
            )));
        }
        if plan.connect.proxy.is_some() && !is_1_1 && targets.iter().any(|target| !target.is_tls())
        {
            let message = "a proxy forwards http:// only over HTTP/1.1: remove --http2";
            return Err(RunError::Targets(message.to_owned()));
        }
        let connectors = Connector::each(&firsts, &plan.connect).map_err(RunError::Tls)?;
        let server = |(target, connector): (&Target, Connector)| {
            Ok(Server {
                target: target.clone(),
                connector: connector.collecting(plan.decode),
                addresses: resolve(target, &plan.connect, stop)?,
            })
        };
        let target = in_words(&targets, firsts.len());
        let order = plan.mix.as_ref().map(|mix| mix.order().to_vec());
        Ok(Prepared {
            messages,
            server_of,
            order: order.unwrap_or_default(),
            servers: firsts
                .into_iter()
                .zip(connectors)
                .map(server)
                .collect::<Result<_, RunError>>()?,
            target,
        })
    }

    /// Returns the request with this index in the whole run.
    pub(crate) fn job(&self, index: usize, scheduled: Instant) -> Job {
        let message = self.message_of(index);
        Job {
            scheduled,
            message,
            server: self.server_of[message],
        }
    }

    fn message_of(&self, index: usize) -> usize {
        match self.order.is_empty() {
            true => index % self.messages.len(),
            false => self.order[index % self.order.len()] as usize,
        }
    }

    /// Returns the server of the request with this index.
    pub(crate) fn server(&self, index: usize) -> usize {
        self.server_of[self.message_of(index)]
    }

    /// Returns whether any request from `first` on, at every `step`, is for this server.
    pub(crate) fn is_for(&self, server: usize, first: usize, step: usize) -> bool {
        let all = match self.order.is_empty() {
            true => self.messages.len(),
            false => self.order.len(),
        };
        // After as many steps, they begin again.
        let (first, step) = (first % all, step % all);
        (0..all).any(|turn| self.server((first + turn * step) % all) == server)
    }

    pub(crate) fn message(&self, job: Job) -> &Message {
        &self.messages[job.message]
    }
}

/// Returns the target line of a report.
fn in_words(targets: &[Target], servers: usize) -> String {
    match (targets, servers) {
        ([], _) => String::new(),
        ([target], _) => target.to_string(),
        ([first, other], _) => format!("{first} and {other}"),
        ([first, others @ ..], 1) => format!("{first} and {} others", others.len()),
        ([first, others @ ..], servers) => {
            format!("{first} and {} others on {servers} servers", others.len())
        }
    }
}

/// Checks that there is a target, and that all have the same host and port.
fn one_server(targets: &[Target]) -> Result<(), RunError> {
    let [first, others @ ..] = targets else {
        return Err(RunError::Targets("no URL is given".to_owned()));
    };
    match others.iter().find(|other| !other.is_at(first)) {
        None => Ok(()),
        Some(other) => Err(RunError::Targets(format!(
            "{first} and {other} differ in host or port: run one command per server"
        ))),
    }
}

/// Returns the first target on each server, and the index of the server of each target.
pub(crate) fn servers<'a>(
    targets: impl IntoIterator<Item = &'a Target>,
) -> (Vec<&'a Target>, Vec<usize>) {
    let mut firsts: Vec<&Target> = Vec::new();
    let mut known = BTreeMap::new();
    let server_of = targets
        .into_iter()
        .map(|target| {
            let server = (target.is_tls(), target.host(), target.port());
            *known.entry(server).or_insert_with(|| {
                firsts.push(target);
                firsts.len() - 1
            })
        })
        .collect();
    (firsts, server_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestMix, Schedule};
    use flowgate::Quota;

    fn plan(ports: &[u16]) -> Plan {
        let to = |port| Target::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
        let requests = ports.iter().map(|port| (to(*port), Template::default(), 1));
        let schedule = Schedule::of(Quota::per_second(10), 10).unwrap();
        let mut plan = Plan::new(to(ports[0]), schedule);
        plan.mix = Some(RequestMix::weighted(requests.collect()).unwrap());
        plan
    }

    #[test]
    fn a_part_of_the_requests_may_have_none_for_a_server() {
        let prepared = Prepared::new(&plan(&[1, 2, 1, 3]), &Stop::new()).unwrap();
        let servers = |first, step| [0, 1, 2].map(|server| prepared.is_for(server, first, step));
        assert_eq!(servers(0, 1), [true, true, true]);
        assert_eq!(servers(0, 2), [true, false, false]);
        assert_eq!(servers(1, 2), [false, true, true]);
        assert_eq!(servers(usize::MAX, usize::MAX), [true, true, true]);
    }

    #[test]
    fn redirects_are_not_followed_under_a_limit() {
        let mut plan = plan(&[1]);
        plan.follow = 1;
        assert!(Prepared::new(&plan, &Stop::new()).is_ok());
        let limiter = "2/s".parse().map(crate::PacingLimiter::at_most).unwrap();
        plan.pace = Pace::Under(limiter, crate::Extent::Requests(1));
        let error = Prepared::new(&plan, &Stop::new()).err().expect("refused");
        assert!(error.to_string().contains("exceed the limit"), "{error}");
    }
}
