//! One line in the log for each setting of a store that lets a limit forget, or hold twice.

use crate::redis::Connection;
use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A restart that forgets a limit of a shorter period costs little.
const LASTING: Duration = Duration::from_secs(3_600);

/// The settings of the store, and the limits that wait to know them.
#[derive(Debug, Default)]
pub(crate) struct Advice(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    is_asked: bool,
    /// `None`: it has not answered yet.
    keeps: Option<Keeps>,
    /// Limits that were built before it answered.
    lasting: Vec<String>,
}

/// Whether a store keeps its records when it is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    Yes,
    No,
    Unknown,
}

impl Advice {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a store for its settings, once.
    pub(crate) fn look(self: &Arc<Self>, connection: &Connection, is_sentinel: bool) {
        if mem::replace(&mut self.known().is_asked, true) {
            return;
        }
        let (advice, connection) = (Arc::clone(self), connection.clone());
        tokio::spawn(async move {
            let settings = Settings::of(&connection).await;
            for warning in settings.warnings(is_sentinel) {
                tracing::warn!("{warning}");
            }
            let keeps = settings.keeps();
            let mut known = advice.known();
            known.keeps = Some(keeps);
            for name in mem::take(&mut known.lasting) {
                keeps.warn(&name);
            }
        });
    }

    /// Warns if a restart of the store would forget this limit.
    pub(crate) fn expect_memory(&self, name: &str, period: Duration) {
        if period < LASTING {
            return;
        }
        let mut known = self.known();
        match known.keeps {
            Some(keeps) => keeps.warn(name),
            None => known.lasting.push(name.to_owned()),
        }
    }
}

impl Keeps {
    fn warn(self, limit: &str) {
        match self {
            Self::Yes => {}
            Self::No => tracing::warn!(
                "the store keeps nothing on disk: a restart can forget the limit `{limit}`; set `appendonly yes`"
            ),
            Self::Unknown => tracing::warn!(
                "it is unknown whether the store keeps anything on disk: a restart can forget the limit `{limit}`"
            ),
        }
    }
}

/// Fields of `INFO`, and of `CONFIG GET` where that is not hidden.
#[derive(Debug)]
struct Settings(HashMap<String, String>);

impl Settings {
    async fn of(connection: &Connection) -> Self {
        let info: String = connection.ask(&["INFO"]).await.unwrap_or_default();
        let fields = info.lines().filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        let mut fields: HashMap<String, String> = fields.collect();
        for setting in ["save", "min-replicas-to-write"] {
            let answer = connection.ask(&["CONFIG", "GET", setting]).await;
            fields.extend(answer.unwrap_or_else(|_| HashMap::new()));
        }
        Self(fields)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn warnings(&self, is_sentinel: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        match self.get("maxmemory_policy") {
            Some("noeviction") => {}
            // Without a limit of its memory, it evicts nothing.
            Some(_) if self.get("maxmemory") == Some("0") => {}
            Some(policy) => warnings.push(format!(
                "the store evicts records when its memory is full (maxmemory-policy {policy}): limits forget; set `noeviction`"
            )),
            None => warnings.push(
                "it is unknown whether the store evicts records (INFO is hidden): limits may forget".to_owned(),
            ),
        }
        if is_sentinel {
            match self.get("min-replicas-to-write") {
                Some("0") => warnings.push(
                    "min-replicas-to-write is 0: for about 10 s after a failover, the old primary admits too; set \
                     `min-replicas-to-write 1` and `min-replicas-max-lag 2`"
                        .to_owned(),
                ),
                Some(_) if self.get("redis_version").is_some_and(|version| version.starts_with("6.")) => {
                    warnings.push(
                        "Redis 6 does not apply min-replicas-to-write to scripts: for about 10 s after a failover, the old primary admits \
                         too; update to 7.0 or later"
                            .to_owned(),
                    );
                }
                Some(_) => {}
                None => warnings.push(
                    "min-replicas-to-write is unknown (CONFIG is hidden): after a failover, the old primary may admit too"
                        .to_owned(),
                ),
            }
        }
        warnings
    }

    fn keeps(&self) -> Keeps {
        match (self.get("aof_enabled"), self.get("save")) {
            (Some("1"), _) => Keeps::Yes,
            (_, None) => Keeps::Unknown,
            (_, Some("")) => Keeps::No,
            // Snapshots: it forgets what came after the last one.
            _ => Keeps::Yes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(fields: &[(&str, &str)]) -> Settings {
        let fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings(fields.collect())
    }

    #[test]
    fn a_warning_is_given_for_each_setting_that_lets_a_limit_forget_or_hold_twice() {
        let safe = [
            ("maxmemory_policy", "noeviction"),
            ("min-replicas-to-write", "1"),
        ];
        assert!(settings(&safe).warnings(true).is_empty());
        let unused = [("maxmemory_policy", "allkeys-lru"), ("maxmemory", "0")];
        assert!(settings(&unused).warnings(false).is_empty());
        let evicts = [
            ("maxmemory_policy", "allkeys-lru"),
            ("maxmemory", "1000000"),
            ("min-replicas-to-write", "0"),
        ];
        let warnings = settings(&evicts).warnings(true);
        assert!(
            warnings[0].contains("allkeys-lru") && warnings[1].contains("min-replicas-to-write")
        );
        let old = [safe[0], safe[1], ("redis_version", "6.2.5")];
        assert!(settings(&old).warnings(true)[0].contains("7.0"));
        let hidden = settings(&[]).warnings(true);
        assert!(
            hidden.iter().all(|line| line.contains("unknown")),
            "{hidden:?}"
        );
        assert_eq!(hidden.len(), 2);
    }

    #[test]
    fn a_store_keeps_its_records_with_a_log_or_snapshots() {
        for (aof, save, keeps) in [
            (Some("1"), None, Keeps::Yes),
            (Some("0"), Some("3600 1"), Keeps::Yes),
            (Some("0"), Some(""), Keeps::No),
            (Some("0"), None, Keeps::Unknown),
            (None, None, Keeps::Unknown),
        ] {
            let fields = [("aof_enabled", aof), ("save", save)];
            let fields = fields
                .iter()
                .filter_map(|(name, value)| Some((*name, (*value)?)));
            assert_eq!(
                settings(&fields.collect::<Vec<_>>()).keeps(),
                keeps,
                "{aof:?} {save:?}"
            );
        }
    }
}
