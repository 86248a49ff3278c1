//! Members that do not go together, or that a gate cannot use: an error when it is built, or an immediate refusal.

use flowgate::{
    ConcurrencyLimit, Denied, Gate, GateBuilder, GateError, KeyLimiter, Keyed, KeyedGate, Limiter,
    ManualClock, Observed, OwnedPermit, Quotas, TokenBucket, WhenFull,
};
use flowgate_testkit::task::Task;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn bucket(time: &ManualClock) -> TokenBucket {
    let builder = TokenBucket::builder("10/s burst 1".parse().unwrap());
    builder.clock(time).build().unwrap()
}

fn table(time: &ManualClock) -> Arc<Keyed<TokenBucket>> {
    let builder = Keyed::token_bucket("10/s burst 1".parse().unwrap());
    Arc::new(builder.clock(time).seed([1, 2]).capacity(10).unwrap())
}

fn slots(time: &ManualClock, limit: u32) -> ConcurrencyLimit {
    let builder = ConcurrencyLimit::builder(limit);
    builder.clock(time).build().unwrap()
}

#[track_caller]
fn assert_same(builder: GateBuilder, names: [&str; 2]) {
    let [first, second] = names.map(str::to_owned);
    let error = builder.build().unwrap_err();
    assert_eq!(error, GateError::SameLimiter { first, second });
    let text = error.to_string();
    assert!(
        names.iter().all(|name| text.contains(&format!("'{name}'"))),
        "{text}"
    );
}

/// With a burst of 1, it would be asked and say yes, and then not have enough: a wait without an end.
#[test]
fn c1_no_limiter_is_in_a_gate_twice() {
    let time = ManualClock::new();
    let site = Arc::new(bucket(&time));
    let any: Arc<dyn Limiter> = site.clone();
    let observed = || Observed::new(Arc::clone(&site));
    let twice = || Gate::builder().limit("site", Arc::clone(&site));
    assert_same(twice().limit("again", Arc::clone(&site)), ["site", "again"]);
    assert_same(twice().limit("any", any), ["site", "any"]);
    assert_same(twice().limit("observed", observed()), ["site", "observed"]);
    let both = Arc::new(Observed::new(bucket(&time)));
    let around = Gate::builder()
        .limit("a", both.clone())
        .limit("other", bucket(&time));
    assert_same(around.limit("b", both), ["a", "b"]);
    // Two that are alike are two.
    let others = Gate::builder()
        .limit("a", bucket(&time))
        .limit("b", bucket(&time));
    assert!(others.build().is_ok());
}

#[test]
fn c1_no_limiter_is_in_a_gate_twice_through_other_gates() {
    let time = ManualClock::new();
    let site = Arc::new(bucket(&time));
    let around = |name: &str| {
        let gate = Gate::builder().limit(name, Arc::clone(&site)).build();
        gate.unwrap()
    };
    let with_it = Gate::builder().limit("inner", around("site"));
    assert_same(with_it.limit("site", Arc::clone(&site)), ["inner", "site"]);
    let deep = Gate::builder()
        .limit("deep", around("site"))
        .build()
        .unwrap();
    let slots = slots(&time, 1);
    let both = Gate::builder().limit("slots", slots).limit("deep", deep);
    assert_same(both.limit("flat", around("site")), ["deep", "flat"]);
    // Each by itself may have it: they are asked by different callers.
    let gates = [around("one"), around("other")];
    drop(gates[0].try_acquire().unwrap());
    assert!(gates[1].try_acquire().is_err());
    // An observed gate is that gate.
    let inner = Observed::new(around("site"));
    let outer = Gate::builder().limit("inner", inner);
    assert_same(outer.limit("site", Arc::clone(&site)), ["inner", "site"]);
}

#[test]
fn c1_c7_no_key_is_in_a_gate_twice() {
    let time = ManualClock::new();
    let (tenants, others) = (table(&time), table(&time));
    let alice = || Gate::builder().limit("alice", tenants.key_owned("alice"));
    assert_same(
        alice().limit("again", tenants.key_owned("alice")),
        ["alice", "again"],
    );
    let shared = Arc::new(tenants.key_owned("alice"));
    assert_same(alice().limit("shared", shared), ["alice", "shared"]);
    assert!(
        alice()
            .limit("bob", tenants.key_owned("bob"))
            .build()
            .is_ok()
    );
    assert!(
        alice()
            .limit("other", others.key_owned("alice"))
            .build()
            .is_ok()
    );

    let keyed = |keys: &Arc<Keyed<TokenBucket>>| alice().keyed("tenant", Arc::clone(keys)).build();
    let error = keyed(&tenants).map(drop).unwrap_err();
    let [first, second] = ["alice", "tenant"].map(str::to_owned);
    assert_eq!(error, GateError::SameLimiter { first, second });
    assert!(keyed(&others).is_ok());
    let inner = alice().build().unwrap();
    let gate = Gate::builder()
        .limit("inner", inner)
        .keyed("tenant", Arc::clone(&tenants));
    let error = gate.build().map(drop).unwrap_err();
    assert!(matches!(error, GateError::SameLimiter { first, .. } if first == "inner"));
}

/// A gate of few slots, and a table that is full of keys that others use.
fn full(time: &ManualClock) -> (KeyedGate<TokenBucket>, Vec<u64>) {
    let tenants = Keyed::token_bucket("1/h burst 1".parse().unwrap()).clock(time);
    let tenants = tenants.when_full(WhenFull::Deny).seed([1, 2]).capacity(1);
    let tenants = Arc::new(tenants.unwrap());
    let in_table = |key: &u64| tenants.try_acquire(key).is_ok();
    let refused: Vec<_> = (0..100_000).filter(|key| !in_table(key)).take(3).collect();
    let builder = Gate::builder().limit("slots", slots(time, 5));
    (builder.keyed("tenant", tenants).build().unwrap(), refused)
}

/// It is refused, as at the table itself, and takes no slot with it.
#[test]
fn c7_a_key_that_its_table_has_no_room_for_is_refused() {
    let time = ManualClock::new();
    let (gate, keys) = full(&time);
    let is_full = |answer: Result<OwnedPermit<Gate>, Denied>| answer.unwrap_err().is_table_full();
    for key in keys {
        assert!(gate.keys().try_acquire(&key).unwrap_err().is_table_full());
        assert!(is_full(gate.try_acquire(&key)));
        let mut wait = Task::start(gate.acquire(&key));
        assert!(wait.run(), "it waits for other keys");
        assert!(is_full(wait.output.take().unwrap()));
        assert_eq!(
            gate.shared().inspect("slots", ConcurrencyLimit::in_flight),
            Some(0)
        );
    }
}

/// More than the key, or a shared limit, can ever keep, and more than there are numbers for.
#[test]
fn c3_amounts_that_a_member_cannot_keep_are_refused() {
    let time = ManualClock::new();
    let tenants = Keyed::dual_token_bucket("10/s burst 5; 3/min".parse::<Quotas>().unwrap());
    let tenants = tenants.clock(&time).capacity(10).unwrap();
    let builder = Gate::builder().limit("slots", slots(&time, 4));
    let gate = builder.keyed("tenant", tenants).build().unwrap();
    for (n, name) in [(4, "tenant"), (5, "tenant"), (u64::MAX, "tenant")] {
        let denied = gate.try_acquire_n("a", n).map(drop).unwrap_err();
        assert!(
            denied.is_never() && gate.name_of(&denied) == Some(name),
            "{denied}"
        );
        let denied = gate.acquire("a").n(n).block().map(drop).unwrap_err();
        assert!(
            denied.is_never() && gate.name_of(&denied) == Some(name),
            "{denied}"
        );
    }
    let narrow = Gate::builder().limit("slots", slots(&time, 2));
    let tenants = Keyed::token_bucket("10/s".parse().unwrap()).clock(&time);
    let narrow = narrow
        .keyed("tenant", tenants.capacity(10).unwrap())
        .build()
        .unwrap();
    let denied = narrow.acquire("a").n(3).block().map(drop).unwrap_err();
    assert!(
        denied.is_never() && narrow.name_of(&denied) == Some("slots"),
        "{denied}"
    );
    assert_eq!(narrow.keys().available("a"), 10);
}

/// A quota that grows too small for what is waited for ends the wait.
#[test]
fn c3_a_key_whose_quota_shrinks_below_what_is_waited_for_is_refused() {
    let time = ManualClock::new();
    let tenants = Keyed::token_bucket("10/s burst 5".parse().unwrap()).clock(&time);
    let tenants = Arc::new(tenants.capacity(10).unwrap());
    let builder = Gate::builder().limit("slots", slots(&time, 9));
    let gate = builder
        .keyed("tenant", Arc::clone(&tenants))
        .build()
        .unwrap();
    drop(gate.acquire("a").n(5).block().unwrap());
    let mut wait = Task::start(gate.acquire("a").n(5));
    assert!(wait.is_waiting());
    tenants.set_quota("10/s burst 4".parse().unwrap()).unwrap();
    time.advance(SECOND);
    assert!(wait.run());
    assert!(
        wait.output
            .take()
            .unwrap()
            .map(drop)
            .unwrap_err()
            .is_never()
    );
}

/// The member of a gate is what its table has for the key, also where that key is used alone, and where two gates share it.
#[test]
fn c5_a_key_that_two_gates_share_is_given_back_by_both() {
    let time = ManualClock::new();
    let tenants = table(&time);
    let key: Arc<KeyLimiter<'static, TokenBucket>> = Arc::new(tenants.key_owned("alice"));
    let gate = |limit| {
        let builder = Gate::builder().limit("alice", Arc::clone(&key));
        builder.limit("slots", slots(&time, limit)).build().unwrap()
    };
    let (one, other) = (gate(1), gate(0));
    assert!(other.try_acquire().is_err());
    drop(one.try_acquire().unwrap());
    let mut waits = [&one, &other].map(|gate| Task::start(gate.acquire()));
    assert!(waits.iter().all(Task::is_waiting));
    time.advance(SECOND / 10);
    assert!(waits[0].run(), "its token has come");
    assert!(waits[1].is_waiting());
    drop(waits);
    assert_eq!(tenants.available("alice"), 0);
    time.advance(SECOND / 10);
    assert_eq!(tenants.available("alice"), 1);
}
