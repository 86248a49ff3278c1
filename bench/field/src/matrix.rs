//! Contract × limiter: the suite of `flowgate-testkit` over every limiter.

mod excess;
mod relaxed;

use std::cell::Cell as Counter;

use flowgate_testkit::conformance::{self, Contract, Finding};
use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::Setup;

use crate::peers::{Builder, Difference, Driven, Limits, Peer, Test};
pub use excess::Slack;
use relaxed::Relaxed;

/// Maximum difference that counts as rounding.
///
/// It is what refills in a millisecond, plus 10⁻⁵ of a token.
pub const ROUNDED: Slack = Slack {
    ns: 1_000_000,
    millionths: 10,
};

/// Histories in which a difference is measured, also in a quick run.
const MEASURED: u64 = 10_000;

/// A limiter and what the suite says of it.
pub struct Row {
    /// The limiter.
    pub peer: Peer,
    /// One for each of [`Contract::ALL`], in order.
    pub cells: Vec<Cell>,
}

/// What the suite says of one limiter and one contract.
pub enum Cell {
    /// Nothing was found.
    Kept {
        /// Number of histories of limiters that could be built; other drawn quotas do not count.
        limiters: u64,
    },
    /// It differs, and its documentation says so.
    Documented(Box<Finding>, &'static str),
    /// It breaks the contract only where limits are not [ordinary](Limits::are_ordinary), or the clock is past
    /// a hundred years.
    Beyond(Box<Finding>),
    /// It differs, but never by more than what comes back in [`ROUNDED`].
    Rounded(Box<Finding>),
    /// It breaks the contract.
    Broken(Box<Finding>),
    /// It has nothing that the contract is about.
    NotOffered,
    /// It cannot be given the times that it takes.
    NotDrivable,
}

impl Cell {
    /// As it stands in the table.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Kept { .. } => "kept",
            Self::Documented(..) => "by design",
            Self::Beyond(_) => "BROKEN°",
            Self::Rounded(_) => "rounded",
            Self::Broken(_) => "BROKEN",
            Self::NotOffered => "–",
            Self::NotDrivable => "?",
        }
    }

    /// What shows it, if there is something to show.
    pub fn finding(&self) -> Option<&Finding> {
        match self {
            Self::Documented(finding, _)
            | Self::Beyond(finding)
            | Self::Rounded(finding)
            | Self::Broken(finding) => Some(finding),
            Self::Kept { .. } | Self::NotOffered | Self::NotDrivable => None,
        }
    }
}

/// Judges all contracts of a limiter, each by `histories` random histories.
///
/// Only histories of limiters that could be built count.
pub fn judge(peer: Peer, histories: u64) -> Row {
    let cells = Contract::ALL
        .into_iter()
        .map(|contract| cell(&peer, contract, histories));
    Row {
        cells: cells.collect(),
        peer,
    }
}

fn cell(peer: &Peer, contract: Contract, histories: u64) -> Cell {
    let builder = match peer.driven {
        Driven::Not(_) => return Cell::NotDrivable,
        Driven::Forward(_) if contract == Contract::C4 => return Cell::NotDrivable,
        Driven::Periods(_) if contract == Contract::C4 => return Cell::NotOffered,
        Driven::Any(builder) | Driven::Forward(builder) | Driven::Periods(builder) => builder,
    };
    if !is_offered(peer.kind, &builder, contract) {
        return Cell::NotOffered;
    }
    let suite = Suite {
        kind: peer.kind,
        builder,
        contract,
        histories,
    };
    let everything = Scope::default();
    let found = match suite.run(&everything) {
        Ok(0) => return Cell::NotDrivable,
        Ok(limiters) => return Cell::Kept { limiters },
        Err(found) => found,
    };
    let documented = peer.documents(contract);
    if let Some(documented) = documented
        && suite
            .is_no_more_than(documented.difference, &everything)
            .is_ok()
    {
        return Cell::Documented(found, documented.says);
    }
    let ordinary = Scope {
        ordinary: true,
        not_early: false,
    };
    let ordinarily_found = match suite.run(&ordinary) {
        Ok(limiters) if limiters > 0 => return Cell::Beyond(found),
        Ok(_) => return Cell::Broken(found),
        Err(found) => found,
    };
    if let Some(documented) = documented
        && suite
            .is_no_more_than(documented.difference, &ordinary)
            .is_ok()
    {
        return Cell::Beyond(found);
    }
    match suite.is_no_more_than(Difference::Of(ROUNDED), &ordinary) {
        Ok(()) => Cell::Rounded(ordinarily_found),
        // That one shows more than rounding.
        Err(Some(found)) => Cell::Broken(found),
        Err(None) => Cell::Broken(ordinarily_found),
    }
}

/// Whether it has what the contract is about.
fn is_offered(kind: Kind, builder: &Builder, contract: Contract) -> bool {
    match contract {
        Contract::C1 | Contract::C2 | Contract::C4 => true,
        Contract::C3 => builder.can.retry_after || builder.can.reserve,
        Contract::C5 => builder.can.refund || builder.can.reserve,
        // What the others owe, and when, is between a bound and another.
        Contract::C8 => matches!(kind, Kind::Bucket | Kind::Window(_) | Kind::Sliding),
    }
}

/// One contract of one limiter.
struct Suite {
    kind: Kind,
    builder: Builder,
    contract: Contract,
    histories: u64,
}

/// Which limiters are judged, and how strictly.
#[derive(Clone, Copy, Default)]
struct Scope {
    /// Only [ordinary limits](Limits::are_ordinary), and only for a hundred years.
    ordinary: bool,
    /// It is not held against them that they would admit earlier than they told.
    not_early: bool,
}

impl Suite {
    /// Of how many limiters that could be built nothing was found.
    fn run(&self, scope: &Scope) -> Result<u64, Box<Finding>> {
        let built = Counter::new(0);
        let build = |setup: &Setup, test: Test<'_>| self.build(scope, &built, setup, test);
        conformance::check_contract(self.kind, &build, self.contract, self.drawn(scope))
            .map(|()| built.get())
    }

    /// Returns whether the finding is within this tolerance.
    ///
    /// # Errors
    ///
    /// Returns the excess, unless it is the finding itself.
    fn is_no_more_than(
        &self,
        difference: Difference,
        scope: &Scope,
    ) -> Result<(), Option<Box<Finding>>> {
        let built = Counter::new(0);
        let build = |setup: &Setup, test: Test<'_>| self.build(scope, &built, setup, test);
        // What a changed quota does is looked at by the suite alone.
        let changes = self.contract == Contract::C1 && self.builder.can.set_quota;
        match (difference, self.contract) {
            (Difference::Any, _) => Ok(()),
            (Difference::EarlierThanTold, _) => {
                let scope = Scope {
                    not_early: true,
                    ..*scope
                };
                self.run(&scope).map(|_| ()).map_err(Some)
            }
            (Difference::Of(slack), Contract::C1 | Contract::C2 | Contract::C4 | Contract::C5)
                if self.kind == Kind::Bucket && !changes =>
            {
                excess::check(slack, &build, self.contract, MEASURED).map_err(Some)
            }
            (Difference::Of(_), _) => Err(None),
        }
    }

    /// Whether it has types for such a quota, and is to be asked to keep it.
    fn is_asked(&self, scope: &Scope, setup: &Setup) -> bool {
        let limits = Limits::of(setup);
        (self.builder.takes)(&limits) && (!scope.ordinary || limits.are_ordinary())
    }

    fn build(&self, scope: &Scope, built: &Counter<u64>, setup: &Setup, test: Test<'_>) {
        if self.is_asked(scope, setup) {
            built.set(built.get() + 1);
            let relaxed = Relaxed {
                not_early: scope.not_early,
                a_century: scope.ordinary,
            };
            (self.builder.build)(setup, &mut |subject| relaxed.lend(subject, test));
        }
    }

    /// How many histories are to be drawn so that about enough are of limiters that can be built.
    fn drawn(&self, scope: &Scope) -> u64 {
        const SAMPLE: u64 = 1_000;
        const MOST: u64 = 50;
        if self.contract == Contract::C8 {
            return 0; // Its quotas are not drawn.
        }
        let fit = Counter::new(0);
        let count = |setup: &Setup, _: Test<'_>| {
            fit.set(fit.get() + u64::from(self.is_asked(scope, setup)));
        };
        let nothing_to_find = conformance::check_contract(self.kind, &count, Contract::C1, SAMPLE);
        debug_assert!(nothing_to_find.is_ok(), "nothing was built");
        let times = SAMPLE
            .checked_div(fit.get())
            .map_or(1, |times| times.clamp(1, MOST));
        self.histories * times
    }
}
