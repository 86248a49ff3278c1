//! What a server has done, for a program that shows it.

use crate::config::{Allows, Unit};
use crate::counts::{Answers, Outcome, ServerCounts};
use crate::limits::Rule;
use crate::reload::Current;
use flowgate_fleet::FleetBound;
use std::sync::Arc;

/// A handle that looks at a server while it runs.
///
/// ```
/// use flowgate_server::{Config, DecideLimits, DecideServer, DecisionTime};
///
/// let config = Config::parse("api", "{domain: api, descriptors: [{key: user, quota: 2/min}]}")?;
/// let server = DecideServer::new(DecideLimits::new(&config, &DecisionTime::system())?);
/// let view = server.viewer().view();
/// assert_eq!((view.rules[0].id.as_str(), view.rules[0].quota.as_str()), ("api.user", "2/min"));
/// assert_eq!(view.rules[0].counts.admitted, 0);
/// # Ok::<(), flowgate_server::Problem>(())
/// ```
#[derive(Clone, Debug)]
pub struct DecideViewer {
    current: Arc<Current>,
    counts: Arc<ServerCounts>,
}

/// What a server has counted since it began.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DecideView {
    /// The rules, by id.
    pub rules: Vec<RuleView>,
    /// Decisions of `CL.THROTTLE`.
    pub throttle: RuleCounts,
    /// Descriptors without a rule.
    pub unmatched: u64,
    /// Open connections of all doors, except that of operators.
    pub connections: u64,
    /// Whether there is a connection to the store. `None`: the limits are in memory.
    pub is_connected: Option<bool>,
}

/// One rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuleView {
    /// The [id](Rule::id).
    pub id: String,
    /// What it allows, such as `100/min burst 20`.
    pub quota: String,
    /// Whether it counts, and never refuses.
    pub is_shadow: bool,
    /// Its decisions.
    pub counts: RuleCounts,
    /// Tokens that all servers may have admitted beyond the quota, at most. `None`: without a bound.
    ///
    /// In memory, it is one burst for each key that an operator has set back to full.
    pub beyond: Option<u64>,
}

/// Decisions, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleCounts {
    /// The tokens were taken.
    pub admitted: u64,
    /// The limit refused.
    pub refused: u64,
    /// The limit would have refused, were it not a shadow rule.
    pub refused_in_shadow: u64,
    /// Another limit of the request refused.
    pub not_taken: u64,
    /// The store did not answer.
    pub undecided: u64,
}

impl DecideViewer {
    pub(crate) fn new(current: &Arc<Current>, counts: &Arc<ServerCounts>) -> Self {
        Self {
            current: Arc::clone(current),
            counts: Arc::clone(counts),
        }
    }

    /// Returns what has been counted until now. Decisions that are made meanwhile may be missing in some of the numbers.
    pub fn view(&self) -> DecideView {
        let limits = self.current.limits();
        let mut rules: Vec<_> = limits.rules().map(|rule| RuleView::of(rule)).collect();
        rules.sort_by(|one, other| one.id.cmp(&other.id));
        let stored = limits.rules().find_map(|rule| rule.stored());
        DecideView {
            rules,
            throttle: RuleCounts::of(limits.counts().throttle()),
            unmatched: limits.counts().unmatched_sum(),
            connections: self.counts.of_clients(),
            is_connected: stored.map(|stored| stored.is_connected()),
        }
    }
}

impl RuleView {
    fn of(rule: &Rule) -> Self {
        Self::bounded(rule, &rule.bound())
    }

    /// Returns the view of a rule, of which the bound is known.
    pub(crate) fn bounded(rule: &Rule, bound: &FleetBound) -> Self {
        Self {
            id: rule.id().to_owned(),
            quota: quota(rule.allows()),
            is_shadow: rule.is_shadow(),
            counts: RuleCounts::of(rule.answers()),
            beyond: bound.total(),
        }
    }
}

impl RuleCounts {
    fn of(answers: &Answers) -> Self {
        Self {
            admitted: answers.of(Outcome::Taken),
            refused: answers.of(Outcome::Refused),
            refused_in_shadow: answers.of(Outcome::RefusedInShadow),
            not_taken: answers.of(Outcome::NotTaken),
            undecided: answers.of(Outcome::Undecided),
        }
    }
}

fn quota(allows: &Allows) -> String {
    let per = |count: u32, unit: Unit| format!("{count}/{}", unit.name().to_ascii_lowercase());
    match *allows {
        Allows::Everything => "unlimited".to_owned(),
        Allows::Nothing { unit } => per(0, unit),
        Allows::Windows { count, unit } => per(count, unit),
        Allows::Quota { quota, .. } => quota.to_string(),
        Allows::TwoQuotas(quotas) => quotas.to_string(),
    }
}
