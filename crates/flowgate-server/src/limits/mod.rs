//! Compiled rules.

mod state;
mod stored;
mod table;
mod time;
mod tree;

pub(crate) use stored::Stored;
pub(crate) use table::{Key, Keys, Table, built};
pub use time::DecisionTime;

use crate::config::{Allows, Config, Descriptor, Problem, Terms, Unit};
use crate::counts::{Answers, DecisionCounts, Reports};
use crate::decision::DescriptorEntry;
use crate::rlqs::Quotas;
use crate::throttle::Throttle;
use flowgate::{KeyedError, Quota, Snapshot};
use flowgate_fleet::{
    Fleet, FleetBound, FleetError, FleetKeyed, FleetStanding, LeaseAnswers, LeaseRequests,
};
use flowgate_tower::{Headers, LimitHeaders};
use hyper::header::{HeaderMap, HeaderValue};
use state::{Exports, StateWriter};
use std::collections::HashMap;
use std::collections::hash_map;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tree::{Node, Tree};

/// The command, and the name of its keys in a state.
const THROTTLE: &str = "CL.THROTTLE";
/// The name in a state of how many Envoys shared a limit.
const RLQS: &str = "RLQS";
/// The keys of a limit without `capacity`.
const CAPACITY: usize = 1_000_000;

/// Rules that can be asked.
///
/// [`decide`](Self::decide) answers descriptors, and [`ask`](Self::ask) a limit by its name.
pub struct DecideLimits {
    time: DecisionTime,
    store: Option<Fleet>,
    domains: HashMap<Box<str>, Tree>,
    rules: HashMap<Box<str>, Arc<Rule>>,
    /// By id and by name. `None`: several rules have that name.
    names: HashMap<Box<str>, Option<Arc<Rule>>>,
    /// Those in a store, by the hash of the id.
    lent: HashMap<u64, FleetKeyed>,
    pub(crate) throttle: Arc<Throttle>,
    /// Held while a request takes from several limits.
    pub(crate) several: Arc<Mutex<()>>,
    config: Arc<Config>,
    counts: Arc<DecisionCounts>,
    quotas: Arc<Quotas>,
}

/// A limit of the configuration.
#[derive(Debug)]
pub struct Rule {
    id: Box<str>,
    terms: Terms,
    /// For each entry, whether its value is a part of the key.
    open: Box<[bool]>,
    state: RuleState,
    headers: LimitHeaders,
    answers: Arc<Answers>,
}

/// Where the keys of a limit are kept.
#[derive(Debug)]
enum RuleState {
    /// Nothing is to be kept: everything is admitted, or nothing.
    None,
    Memory(Arc<Table>),
    Store(Stored),
    /// Envoys decide by the parts that they are assigned.
    Assigned(Arc<Reports>),
}

impl Rule {
    /// Returns the name in the configuration, or else the [id](Self::id).
    pub fn name(&self) -> &str {
        self.terms.name.as_deref().unwrap_or(&self.id)
    }

    /// Returns the domain, the keys and the values, joined with dots: `api.user`, `api.path_/search`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns whether the rule counts, and never refuses.
    pub fn is_shadow(&self) -> bool {
        self.terms.is_shadow
    }

    pub(crate) fn allows(&self) -> &Allows {
        &self.terms.allows
    }

    pub(crate) fn replaces(&self) -> &[String] {
        &self.terms.replaces
    }

    pub(crate) fn own_name(&self) -> Option<&str> {
        self.terms.name.as_deref()
    }

    /// Returns whether a request may name the quota of its key. Two quotas are not replaced by one.
    pub(crate) fn allow_override(&self) -> bool {
        self.terms.allow_override && !matches!(self.terms.allows, Allows::TwoQuotas(_))
    }

    /// Returns the keys in memory. `None` if they are in a store, or there is nothing to keep.
    pub(crate) fn table(&self) -> Option<&Arc<Table>> {
        match &self.state {
            RuleState::Memory(table) => Some(table),
            _ => None,
        }
    }

    /// Returns the keys in a store.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        match &self.state {
            RuleState::Store(stored) => Some(stored),
            _ => None,
        }
    }

    /// Returns how much may have been admitted beyond the quota of a key, in tokens. What Envoys decide is counted apart.
    pub(crate) fn bound(&self) -> FleetBound {
        if let Some(stored) = self.stored() {
            return stored.bound();
        }
        // In memory, the inequality of the limit is exact, unless an operator sets a key back to full.
        let mut bound = FleetBound::default();
        bound.reset = self.answers.reset();
        bound.others_alone = Some(0);
        bound
    }

    /// Returns what is left of a key: in a store, by its last answer. `None`: nothing is kept here.
    pub(crate) fn standing(&self, key: &Key<'_>, own: Option<Quota>) -> Option<Standing> {
        match &self.state {
            RuleState::Memory(table) => Some(Standing::in_memory(table.snapshot(key, own))),
            RuleState::Store(stored) => Some(Standing::in_store(&stored.standing(key))),
            RuleState::None | RuleState::Assigned(_) => None,
        }
    }

    /// Sets a key back to full. `None`: it is not in memory.
    ///
    /// Returns whether it was full. Then it is left alone: what others take meanwhile stays taken, and nothing is added to the bound.
    pub(crate) fn reset(&self, key: &Key<'_>) -> Option<bool> {
        let table = self.table()?;
        if table.is_full(key) {
            return Some(true);
        }
        table.reset(key);
        self.answers.add_reset(self.terms.allows.burst());
        Some(false)
    }

    /// Returns what Envoys report, if they decide about this limit.
    pub(crate) fn reports(&self) -> Option<&Arc<Reports>> {
        match &self.state {
            RuleState::Assigned(reports) => Some(reports),
            _ => None,
        }
    }

    /// Returns what is divided among Envoys. `None`: requests are decided here.
    pub(crate) fn assigned_quota(&self) -> Option<Quota> {
        match self.terms.allows {
            Allows::Quota { quota, .. } if self.terms.is_assigned => Some(quota),
            _ => None,
        }
    }

    fn shape(&self) -> String {
        shape(&self.id, &self.terms, &self.open)
    }

    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Adds the fields of a key, as a decision has `seen` it. A limit that is not in memory has none.
    pub(crate) fn describe(&self, key: &Key<'_>, seen: Option<Snapshot>, headers: &mut HeaderMap) {
        let Some(table) = self.table() else {
            return;
        };
        match (seen, table.policy()) {
            (Some(seen), Some(policy)) => {
                let more = |n| table.look(key, n, None);
                self.headers.describe_snapshot(seen, policy, more, headers);
            }
            _ => table.limiter(key, |limiter| self.headers.describe(limiter, headers)),
        }
    }

    /// Returns the values of `RateLimit-Policy` and `RateLimit` of a key, as a decision has `seen` it.
    pub(crate) fn draft(
        &self,
        key: &Key<'_>,
        seen: Option<Snapshot>,
    ) -> Option<(HeaderValue, String)> {
        let table = self.table()?;
        match (seen, table.policy()) {
            (Some(seen), Some(policy)) => {
                let more = |n| table.look(key, n, None);
                self.headers.draft_of_snapshot(seen, policy, more)
            }
            _ => table.limiter(key, |limiter| self.headers.draft_of(limiter)),
        }
    }

    pub(crate) fn is_unlimited(&self) -> bool {
        self.terms.allows == Allows::Everything
    }

    pub(crate) fn admits_nothing(&self) -> bool {
        matches!(self.terms.allows, Allows::Nothing { .. })
    }

    /// Returns the requests per unit, as envoyproxy/ratelimit reports them. `None` for the unit: the quota is of no such unit.
    pub(crate) fn per_unit(&self) -> Option<(u64, Option<Unit>)> {
        match self.terms.allows {
            Allows::Everything => None,
            Allows::Nothing { unit } => Some((0, Some(unit))),
            Allows::Windows { count, unit } => Some((count.into(), Some(unit))),
            Allows::Quota { quota, .. } => Some(per_unit(&quota)),
            Allows::TwoQuotas(quotas) => quotas.as_slice().first().map(per_unit),
        }
    }

    /// Returns the key for the entries of a descriptor.
    pub(crate) fn key<'a>(&'a self, entries: &'a [DescriptorEntry<'a>]) -> Key<'a> {
        let open = &*self.open;
        Key::Path { entries, open }
    }

    /// Returns whether values have limits of their own.
    pub(crate) fn has_keys(&self) -> bool {
        self.open.contains(&true)
    }

    /// Returns the key for the only open value.
    pub(crate) fn key_of_value<'a>(&self, value: &'a [u8]) -> Result<Key<'a>, Unknown> {
        match self.open.iter().filter(|open| **open).count() {
            0 if value.is_empty() => Ok(Key::Nothing),
            0 => Err(Unknown::NoKey),
            1 => Ok(Key::Value(value)),
            several => Err(Unknown::SeveralKeys(several)),
        }
    }
}

/// The rest of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The most tokens in one burst.
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    /// The time until all tokens are there again.
    pub(crate) reset_after: Duration,
    /// The same of a key in memory.
    pub(crate) seen: Option<Snapshot>,
}

impl Standing {
    fn in_memory(seen: Snapshot) -> Self {
        Self {
            limit: seen.limit,
            remaining: seen.remaining,
            reset_after: seen.reset_after,
            seen: Some(seen),
        }
    }

    fn in_store(seen: &FleetStanding) -> Self {
        Self {
            limit: seen.limit,
            remaining: seen.remaining,
            reset_after: seen.reset_after,
            seen: None,
        }
    }
}

/// A quota per second, minute and so on; or else its burst.
pub(crate) fn per_unit(quota: &Quota) -> (u64, Option<Unit>) {
    let is_it = |unit: &Unit| unit.length() == quota.period();
    match Unit::ALL.into_iter().find(is_it) {
        Some(unit) => (quota.count(), Some(unit)),
        None => (quota.max_burst(), None),
    }
}

/// Why no rule was found by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// No limit has this name.
    Name,
    /// Several limits have this name.
    Ambiguous,
    /// The limit has one count for all, and a key was given.
    NoKey,
    /// The limit needs this number of values as a key.
    SeveralKeys(usize),
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name => f.write_str("no limit has this name"),
            Self::Ambiguous => {
                f.write_str("several limits have this name; write the id, such as api.user")
            }
            Self::NoKey => f.write_str("this limit has no keys; write an empty key"),
            Self::SeveralKeys(count) => {
                write!(
                    f,
                    "this limit needs {count} values as a key; ask with descriptors"
                )
            }
        }
    }
}

impl std::error::Error for Unknown {}

impl DecideLimits {
    /// Compiles a configuration. All memory for keys is allocated here.
    ///
    /// # Errors
    ///
    /// Returns a [`Problem`] if a limit cannot be kept: a quota out of range, or not enough memory for its keys.
    pub fn new(config: &Config, time: &DecisionTime) -> Result<Self, Problem> {
        let keys = Keys::None { capacity: CAPACITY };
        Self::compile(config, time, None, throttle(keys, time)?, &Before::Nothing)
    }

    /// Compiles a configuration, and goes on with a [state](Self::state). What was taken stays taken.
    ///
    /// `name` is what problems call the state. No time counts as passed since it was made. A limit begins anew for the reasons of
    /// [`reloaded`](Self::reloaded).
    ///
    /// ```
    /// use flowgate_server::{Config, DecideLimits, DecisionTime};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let config = Config::parse("api", "{domain: api, descriptors: [{key: user, quota: 2/day}]}")?;
    /// let time = DecisionTime::system();
    /// let limits = DecideLimits::new(&config, &time)?;
    /// limits.ask("api.user", b"alice", 2).await?;
    /// let state = limits.state(); // … after a restart:
    /// let limits = DecideLimits::restored(&config, &time, "api.state", &state)?;
    /// assert!(limits.ask("api.user", b"alice", 1).await?.is_over);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a [`Problem`] for the reasons of [`new`](Self::new), and if the state is damaged.
    pub fn restored(
        config: &Config,
        time: &DecisionTime,
        name: &str,
        state: &[u8],
    ) -> Result<Self, Problem> {
        let damaged = || {
            let what =
                "the state is damaged, or of another version; remove it to begin with full limits";
            Problem::new(name, None, what)
        };
        let exports = state::exports(state).ok_or_else(damaged)?;
        let keys = exports.get(THROTTLE).ok_or_else(damaged)?;
        let throttle = throttle(Keys::Export(keys), time)?;
        Self::compile(config, time, None, throttle, &Before::Exports(exports))
    }

    /// Returns what was taken, for [`restored`](Self::restored). It takes 24 bytes for each key that is not full.
    ///
    /// Requests that are decided meanwhile may be missing: end the server before. A caller that can write the state
    /// can change what was taken, so keep it as other secrets.
    pub fn state(&self) -> Vec<u8> {
        let mut writer = StateWriter::new();
        writer.add(THROTTLE, &self.throttle.export());
        for rule in self.rules() {
            if let Some(table) = rule.table() {
                writer.add(&rule.shape(), &table.export());
            }
        }
        let clients = self.quotas.clients(self.time.clock().now()) as u64;
        if clients > 0 {
            writer.add(RLQS, &clients.to_be_bytes());
        }
        writer.finish()
    }

    /// Compiles a configuration whose limits are in a store. All servers with this store and configuration share them.
    ///
    /// Limits are token buckets and windows, and a request asks one of them. CL.THROTTLE is refused.
    ///
    /// ```
    /// use flowgate_fleet::Fleet;
    /// use flowgate_server::{Config, DecideLimits, DecisionTime};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let config = Config::parse("api", "{domain: api, descriptors: [{key: user, quota: 2/min}]}")?;
    /// let store = Fleet::local().nodes(2).open()?; // `Fleet::redis` in production
    /// let limits = DecideLimits::in_store(&config, &DecisionTime::system(), &store)?;
    /// assert_eq!(limits.ask("api.user", b"alice", 1).await?.remaining, 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a [`Problem`] if a limit cannot be kept in a store.
    pub fn in_store(config: &Config, time: &DecisionTime, store: &Fleet) -> Result<Self, Problem> {
        // It is never asked.
        let throttle = throttle(Keys::None { capacity: 1 }, time)?;
        Self::compile(config, time, Some(store), throttle, &Before::Nothing)
    }

    /// Compiles another configuration in place of this one. What was taken stays taken.
    ///
    /// A limit is the same if its domain, keys and values are. A limit whose algorithm, capacity or kind of key is another one
    /// begins anew. Nothing changes if there is an error.
    ///
    /// # Errors
    ///
    /// Returns a [`Problem`] for the reasons of [`new`](Self::new).
    pub fn reloaded(&self, config: &Config) -> Result<Self, Problem> {
        let throttle = Arc::clone(&self.throttle);
        let before = Before::Limits(self);
        let limits = Self::compile(config, &self.time, self.store.as_ref(), throttle, &before)?;
        limits.set_stored_quotas()?;
        for rule in limits.rules() {
            let Some(before) = self.rule_of(&rule.id) else {
                continue;
            };
            if before.terms.allows != rule.terms.allows
                && let (Some(old), Some(new)) = (before.table(), rule.table())
                && Arc::ptr_eq(old, new)
            {
                // Compiling has tried it on a table of its own.
                let _ = new.set_quotas(&rule.terms.allows);
            }
        }
        Ok(limits)
    }

    /// Replaces the quotas of all limits in a store.
    ///
    /// # Errors
    ///
    /// Returns a [`Problem`] if one cannot be kept, and replaces none. Compiling has asked the limits of this configuration, but a program
    /// that shares the fleet may have a limit of the same name.
    fn set_stored_quotas(&self) -> Result<(), Problem> {
        let each = |act: fn(&Stored) -> Result<(), FleetError>| {
            for rule in self.rules() {
                let done = rule.stored().map(act).transpose();
                done.map_err(|error| Problem::new(&rule.id, None, error.to_string()))?;
            }
            Ok(())
        };
        each(Stored::check_quota)?;
        each(Stored::set_quota)
    }

    fn compile(
        config: &Config,
        time: &DecisionTime,
        store: Option<&Fleet>,
        throttle: Arc<Throttle>,
        before: &Before<'_>,
    ) -> Result<Self, Problem> {
        let kept = match before {
            Before::Limits(before) => Some(*before),
            _ => None,
        };
        let mut limits = Self {
            time: time.clone(),
            store: store.cloned(),
            domains: HashMap::new(),
            rules: HashMap::new(),
            names: HashMap::new(),
            lent: HashMap::new(),
            throttle,
            several: kept.map_or_else(Arc::default, |before| Arc::clone(&before.several)),
            config: Arc::new(config.clone()),
            counts: kept.map_or_else(Arc::default, |before| Arc::clone(&before.counts)),
            quotas: match before {
                Before::Limits(before) => Arc::clone(&before.quotas),
                _ => Arc::new(Quotas::new(time.clock().now(), before.clients())),
            },
        };
        for domain in &config.domains {
            let mut compiler = Compiler {
                limits: &mut limits,
                before,
                file: &domain.file,
            };
            let tree = compiler.tree(&domain.descriptors, &domain.name, &[])?;
            limits.domains.insert(domain.name.as_str().into(), tree);
        }
        Ok(limits)
    }

    pub(crate) fn find(&self, domain: &str, entries: &[DescriptorEntry<'_>]) -> Option<&Rule> {
        Some(self.domains.get(domain)?.find(entries)?)
    }

    /// Returns the rule of entries without an order, and puts them into the order of its path.
    pub(crate) fn find_in_any_order(
        &self,
        domain: &str,
        entries: &mut [DescriptorEntry<'_>],
    ) -> Option<&Rule> {
        Some(self.domains.get(domain)?.find_in_any_order(entries)?)
    }

    /// Returns a rule and a key of it, by name.
    pub(crate) fn named<'a>(
        &self,
        name: &str,
        value: &'a [u8],
    ) -> Result<(&Rule, Key<'a>), Unknown> {
        let rule = self.rule_of_name(name)?;
        Ok((rule, rule.key_of_value(value)?))
    }

    /// Returns a rule by its name or id.
    pub(crate) fn rule_of_name(&self, name: &str) -> Result<&Rule, Unknown> {
        let rule = self.names.get(name).ok_or(Unknown::Name)?;
        Ok(rule.as_ref().ok_or(Unknown::Ambiguous)?)
    }

    fn rule_of(&self, id: &str) -> Option<&Arc<Rule>> {
        self.rules.get(id)
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.values()
    }

    /// Returns the configuration that was compiled.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether the limits are in a store, and not in memory.
    pub fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Carries out the requests of a process that leases. `None`: the limits are in memory.
    pub(crate) fn lend(
        &self,
        requests: &LeaseRequests,
    ) -> Option<impl Future<Output = LeaseAnswers> + Send + use<>> {
        let limit = |name| self.lent.get(&name);
        Some(self.store.as_ref()?.lend(requests, &limit))
    }

    pub(crate) fn counts(&self) -> &DecisionCounts {
        &self.counts
    }

    pub(crate) fn quotas(&self) -> &Arc<Quotas> {
        &self.quotas
    }

    pub(crate) fn time(&self) -> &DecisionTime {
        &self.time
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory for keys.
    pub fn bytes(&self) -> usize {
        let of = |rule: &Arc<Rule>| rule.table().map_or(0, |table| table.bytes());
        self.rules().map(of).sum::<usize>() + self.throttle.bytes()
    }
}

/// What the tables begin with.
enum Before<'a> {
    Nothing,
    /// A configuration is loaded again.
    Limits(&'a DecideLimits),
    /// The process was restarted.
    Exports(Exports<'a>),
}

impl Before<'_> {
    /// Returns how many Envoys shared a limit before a restart, at most.
    fn clients(&self) -> usize {
        let Self::Exports(exports) = self else {
            return 0;
        };
        let bytes = exports
            .get(RLQS)
            .and_then(|bytes| <[u8; 8]>::try_from(*bytes).ok());
        bytes
            .map_or(0, u64::from_be_bytes)
            .try_into()
            .unwrap_or(usize::MAX)
    }
}

fn throttle(keys: Keys<'_>, time: &DecisionTime) -> Result<Arc<Throttle>, Problem> {
    let throttle = Throttle::new(keys, time);
    let throttle = throttle.map_err(|error| Problem::new(THROTTLE, None, error.to_string()))?;
    Ok(Arc::new(throttle))
}

struct Compiler<'a> {
    limits: &'a mut DecideLimits,
    before: &'a Before<'a>,
    file: &'a str,
}

impl Compiler<'_> {
    fn tree(&mut self, list: &[Descriptor], above: &str, open: &[bool]) -> Result<Tree, Problem> {
        let mut tree = Tree::default();
        for descriptor in list {
            let Descriptor { key, value, .. } = descriptor;
            let id = match value {
                Some(value) => format!("{above}.{key}_{value}"),
                None => format!("{above}.{key}"),
            };
            let is_pattern = value.as_ref().is_none_or(|value| value.contains('*'));
            let mut open = open.to_vec();
            open.push(is_pattern && !descriptor.is_shared);
            let rule = match &descriptor.terms {
                Some(terms) => Some(self.rule(descriptor, terms, &id, &open)?),
                None => None,
            };
            let children = self.tree(&descriptor.children, &id, &open)?;
            tree.add(key, value.as_deref(), Node { rule, children });
        }
        Ok(tree)
    }

    fn rule(
        &mut self,
        descriptor: &Descriptor,
        terms: &Terms,
        id: &str,
        open: &[bool],
    ) -> Result<Arc<Rule>, Problem> {
        let problem = |what: String| Problem::new(self.file, Some(descriptor.place), what);
        let has_keys = open.contains(&true);
        let capacity = match has_keys {
            true => terms.capacity.unwrap_or(CAPACITY),
            false => 1,
        };
        let before = match self.before {
            Before::Limits(before) => before.rule_of(id),
            _ => None,
        };
        let state = match &self.limits.store {
            Some(_) if terms.is_assigned => {
                let what = "`rlqs` is for a limit in this server's memory: remove it, or run without --store";
                return Err(problem(what.to_owned()));
            }
            Some(fleet) => {
                let before = before.and_then(|before| before.stored());
                let stored = Stored::new(fleet, id, terms, before).map_err(problem)?;
                stored.map_or(RuleState::None, RuleState::Store)
            }
            None if terms.cut_off.is_some() => {
                let what =
                    "`when_cut_off` is for limits in a store: remove it, or run with --store";
                return Err(problem(what.to_owned()));
            }
            None if terms.leased.is_some() => {
                let what =
                    "`mode: leased` is for limits in a store: remove it, or run with --store";
                return Err(problem(what.to_owned()));
            }
            None if terms.is_assigned => {
                let before = before.and_then(|before| before.reports());
                RuleState::Assigned(before.map_or_else(Arc::default, Arc::clone))
            }
            None => {
                let shape = shape(id, terms, open);
                let table = self.table(terms, capacity, &shape, before);
                let table = table.map_err(|error| problem(error.to_string()))?;
                table.map_or(RuleState::None, RuleState::Memory)
            }
        };
        let name = terms.name.as_deref().unwrap_or(id);
        let rule = Arc::new(Rule {
            id: id.into(),
            headers: Headers::draft().of_limit(name),
            terms: terms.clone(),
            open: open.into(),
            state,
            answers: before.map_or_else(Arc::default, |before| Arc::clone(&before.answers)),
        });
        let rules = &mut self.limits.rules;
        if rules.insert(id.into(), Arc::clone(&rule)).is_some() {
            let what = format!("another limit has the id `{id}`; give one of them another key");
            return Err(problem(what));
        }
        if let Some(stored) = rule.stored() {
            let lent = &mut self.limits.lent;
            lent.insert(stored.limit().name_hash(), stored.limit().clone());
        }
        let own = rule.own_name().filter(|name| *name != id);
        for name in [Some(id), own].into_iter().flatten() {
            match self.limits.names.entry(name.into()) {
                hash_map::Entry::Vacant(place) => _ = place.insert(Some(Arc::clone(&rule))),
                hash_map::Entry::Occupied(mut place) => _ = place.insert(None),
            }
        }
        Ok(rule)
    }

    /// Returns a table that goes on with the keys of before, if it can. `None` if such a rule needs none.
    fn table(
        &self,
        terms: &Terms,
        capacity: usize,
        shape: &str,
        before: Option<&Arc<Rule>>,
    ) -> Result<Option<Arc<Table>>, KeyedError> {
        let fresh = |keys| Table::new(&terms.allows, keys, &self.limits.time);
        let is_as_large = |table: &Arc<Table>| table.capacity() == capacity;
        let kept = before.filter(|before| before.shape() == shape);
        let kept = kept.and_then(|before| before.table());
        if let Some(table) = kept.filter(|table| is_as_large(table)) {
            // Whether the quota can be kept.
            fresh(Keys::None { capacity: 1 })?;
            return Ok(Some(Arc::clone(table)));
        }
        if let Before::Exports(exports) = self.before
            && let Some(export) = exports.get(shape)
        {
            let table = fresh(Keys::Export(export))?.map(Arc::new);
            if let Some(table) = table.filter(is_as_large) {
                return Ok(Some(table));
            }
        }
        Ok(fresh(Keys::None { capacity })?.map(Arc::new))
    }
}

/// Returns what a limit has to have in common with another one to go on with its keys. Quotas may differ.
fn shape(id: &str, terms: &Terms, open: &[bool]) -> String {
    let kind = match terms.allows {
        Allows::Everything | Allows::Nothing { .. } => "none",
        Allows::Windows { unit, .. } => unit.name(),
        Allows::Quota { .. } if terms.is_assigned => "rlqs",
        Allows::Quota { kind, .. } => kind.name(),
        Allows::TwoQuotas(_) => "two",
    };
    let open = open.iter().map(|open| if *open { '*' } else { '.' });
    format!("{kind} {} {id}", open.collect::<String>())
}

impl std::fmt::Debug for DecideLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limits")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}
