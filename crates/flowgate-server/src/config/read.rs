//! The tree of YAML as domains and rules.

use super::yaml::{self, Field, Node, Value};
use super::{Allows, Descriptor, Domain, Exceeds, Place, Problem, Terms, Unit};
use flowgate::{LimiterKind, Quota, Quotas};
use flowgate_fleet::CutOff;
use std::collections::HashSet;
use std::time::Duration;

/// Keys of a document.
const OF_DOMAIN: &[&str] = &["domain", "descriptors"];
/// Keys of a descriptor.
const OF_DESCRIPTOR: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "quota",
    "algorithm",
    "capacity",
    "allow_override",
    "name",
    "replaces",
    "quota_mode",
    "mode",
    "overshoot",
    "when_cut_off",
    "rlqs",
];
/// Keys of `rate_limit`.
const OF_RATE_LIMIT: &[&str] = &["unit", "requests_per_unit", "unlimited", "name", "replaces"];
/// Keys of a descriptor that belong to its `quota`.
const OF_QUOTA: &[&str] = &["algorithm", "name", "replaces"];
/// The largest number of keys of a limit.
const MAX_CAPACITY: u64 = 1 << 30;

type Read<T> = Result<T, Problem>;

/// Reads the domains of a file, and keys that have no effect.
pub(super) fn domains(file: &str, text: &str) -> Read<(Vec<Domain>, Vec<Problem>)> {
    let documents =
        yaml::read(text).map_err(|(place, what)| Problem::new(file, Some(place), what))?;
    let mut reader = Reader {
        file,
        notes: Vec::new(),
    };
    let is_there = |document: &&Node| !document.is_null();
    let domains: Vec<_> = documents
        .iter()
        .filter(is_there)
        .map(|document| reader.domain(document))
        .collect::<Read<_>>()?;
    if domains.is_empty() {
        let what = "empty; write `domain: NAME` and `descriptors:`";
        return Err(Problem::new(file, Some(Place { line: 1, column: 1 }), what));
    }
    Ok((domains, reader.notes))
}

struct Reader<'a> {
    file: &'a str,
    notes: Vec<Problem>,
}

/// A map whose keys are known.
struct Fields<'a> {
    place: Place,
    fields: &'a [Field],
}

impl<'a> Fields<'a> {
    fn field(&self, key: &str) -> Option<&'a Field> {
        self.fields.iter().find(|field| field.key == key)
    }

    /// Returns the value; `None` if it is absent or null.
    fn get(&self, key: &str) -> Option<&'a Node> {
        let value = &self.field(key)?.value;
        (!value.is_null()).then_some(value)
    }
}

impl<'a> Reader<'a> {
    fn problem(&self, place: Place, what: impl Into<String>) -> Problem {
        Problem::new(self.file, Some(place), what)
    }

    fn domain(&mut self, document: &Node) -> Read<Domain> {
        let what = "a document is a map: write `domain: NAME` and `descriptors:`";
        let fields = self.fields(document, OF_DOMAIN, what)?;
        let name = match fields.get("domain") {
            Some(name) => self.word(name, "domain")?,
            None => return Err(self.problem(fields.place, "no domain: write `domain: NAME`")),
        };
        Ok(Domain {
            name,
            file: self.file.to_owned(),
            place: document.place,
            descriptors: self.descriptors(fields.get("descriptors"))?,
        })
    }

    fn descriptors(&mut self, list: Option<&Node>) -> Read<Vec<Descriptor>> {
        let Some(list) = list else {
            return Ok(Vec::new());
        };
        let Value::List(items) = &list.value else {
            let what = "`descriptors` is a list: begin each descriptor with `- key: NAME`";
            return Err(self.problem(list.place, what));
        };
        let mut seen = HashSet::new();
        let mut descriptors = Vec::with_capacity(items.len());
        for item in items {
            let descriptor = self.descriptor(item)?;
            if !seen.insert((descriptor.key.clone(), descriptor.value.clone())) {
                let Descriptor { key, value, .. } = &descriptor;
                let which = match value {
                    Some(value) => format!("key `{key}` and value `{value}`"),
                    None => format!("key `{key}` and no value"),
                };
                let what =
                    format!("a descriptor with {which} is already there; remove one of them");
                return Err(self.problem(item.place, what));
            }
            descriptors.push(descriptor);
        }
        Ok(descriptors)
    }

    fn descriptor(&mut self, item: &Node) -> Read<Descriptor> {
        let what = "a descriptor is a map: write `- key: NAME`";
        let fields = self.fields(item, OF_DESCRIPTOR, what)?;
        self.refuse_what_needs_more(&fields)?;
        let key = match fields.get("key") {
            Some(key) => self.word(key, "key")?,
            None => return Err(self.problem(item.place, "no key: write `key: NAME`")),
        };
        let value = match fields.get("value") {
            Some(value) => Some(self.text(value, "value")?).filter(|value| !value.is_empty()),
            None => None,
        };
        let is_shared = self.flag(&fields, "share_threshold")?;
        if is_shared && !value.as_ref().is_some_and(|value| value.contains('*')) {
            let what = "`share_threshold` needs a value with `*`, whose matches share the limit";
            return Err(self.problem(fields.place_of("share_threshold"), what));
        }
        for key in ["detailed_metric", "value_to_metric"] {
            if self.flag(&fields, key)? {
                let what = format!("`{key}` has no effect: metrics have no values of requests");
                self.notes.push(self.problem(fields.place_of(key), what));
            }
        }
        let terms = self.terms(&fields)?;
        let children = self.descriptors(fields.get("descriptors"))?;
        Ok(Descriptor {
            key,
            value,
            terms,
            children,
            is_shared,
            place: item.place,
        })
    }

    /// Refuses keys whose meaning this version cannot keep.
    fn refuse_what_needs_more(&self, fields: &Fields<'_>) -> Read<()> {
        if self.flag(fields, "quota_mode")? {
            let what = "`quota_mode` is not supported; remove it, or write `shadow_mode: true`";
            return Err(self.problem(fields.place_of("quota_mode"), what));
        }
        Ok(())
    }

    fn terms(&mut self, fields: &Fields<'_>) -> Read<Option<Terms>> {
        let (allows, named) = match (fields.get("rate_limit"), fields.get("quota")) {
            (Some(_), Some(quota)) => {
                let what = "a descriptor has `quota` or `rate_limit`; remove one of them";
                return Err(self.problem(quota.place, what));
            }
            (None, None) => return self.terms_without_limit(fields),
            (None, Some(quota)) => (self.quota(quota, fields)?, None),
            (Some(rate_limit), None) => {
                for key in OF_QUOTA {
                    if let Some(field) = fields.field(key) {
                        let what = match *key {
                            "algorithm" => "`algorithm` belongs to `quota`, and `rate_limit` is a window; remove it".to_owned(),
                            key => format!("move `{key}` into `rate_limit`"),
                        };
                        return Err(self.problem(field.place, what));
                    }
                }
                let what = "`rate_limit` is a map: write `unit:` and `requests_per_unit:`";
                let inner = self.fields(rate_limit, OF_RATE_LIMIT, what)?;
                (self.rate_limit(&inner)?, Some(inner))
            }
        };
        let named = named.as_ref().unwrap_or(fields);
        let name = match named.get("name") {
            Some(name) => Some(self.word(name, "name")?),
            None => None,
        };
        let replaces = self.replaces(named.get("replaces"))?;
        if let Some(own) = name.as_ref().filter(|name| replaces.contains(name)) {
            let what = format!("the limit `{own}` cannot replace itself");
            return Err(self.problem(named.place_of("replaces"), what));
        }
        let capacity = match fields.get("capacity") {
            Some(capacity) => Some(self.number(capacity, "capacity", 1..=MAX_CAPACITY)? as usize),
            None => None,
        };
        Ok(Some(Terms {
            name,
            replaces,
            allows,
            is_shadow: self.flag(fields, "shadow_mode")?,
            allow_override: self.flag(fields, "allow_override")?,
            capacity,
            cut_off: self.cut_off(fields.get("when_cut_off"))?,
            leased: self.leased(fields, &allows)?,
            is_assigned: self.is_assigned(fields, &allows)?,
        }))
    }

    /// Reads `rlqs`, whose limits are token buckets that Envoy can have a part of.
    fn is_assigned(&self, fields: &Fields<'_>, allows: &Allows) -> Read<bool> {
        if !self.flag(fields, "rlqs")? {
            return Ok(false);
        }
        for key in [
            "shadow_mode",
            "allow_override",
            "capacity",
            "when_cut_off",
            "mode",
            "overshoot",
            "replaces",
        ] {
            if let Some(field) = fields.field(key) {
                let what =
                    format!("`{key}` has no effect on a limit with `rlqs`; remove one of them");
                return Err(self.problem(field.place, what));
            }
        }
        let what = match allows {
            Allows::Quota {
                kind: LimiterKind::Token,
                quota,
            } if is_often(quota) => return Ok(true),
            Allows::Quota {
                kind: LimiterKind::Token,
                ..
            } => "`rlqs` needs a quota of 1/h or more: write another one, or remove it",
            _ => "`rlqs` needs one token bucket: write `quota: 100/s burst 20`, or remove it",
        };
        Err(self.problem(fields.place_of("rlqs"), what))
    }

    /// A descriptor that only has others below it. Keys of a limit are then a mistake.
    fn terms_without_limit(&self, fields: &Fields<'_>) -> Read<Option<Terms>> {
        let of_limits = [
            "capacity",
            "allow_override",
            "when_cut_off",
            "mode",
            "overshoot",
            "rlqs",
        ];
        for key in of_limits.iter().chain(OF_QUOTA) {
            if let Some(field) = fields.field(key) {
                let what = format!("`{key}` without a limit: write `quota: 100/min`, or remove it");
                return Err(self.problem(field.place, what));
            }
        }
        Ok(None)
    }

    fn quota(&self, quota: &Node, fields: &Fields<'_>) -> Read<Allows> {
        let text = self.text(quota, "quota")?;
        if text.split(';').count() > 2 {
            let what = "a descriptor has one quota or two: remove the others, or give them descriptors of their own";
            return Err(self.problem(quota.place, what));
        }
        let quotas: Quotas = text
            .parse()
            .map_err(|error| self.problem(quota.place, format!("{error}")))?;
        let kind = match fields.get("algorithm") {
            None => LimiterKind::Token,
            Some(algorithm) => {
                let word = self.text(algorithm, "algorithm")?;
                match word.as_str() {
                    "token" => LimiterKind::Token,
                    "leaky" => LimiterKind::Leaky,
                    "fixed" => LimiterKind::Fixed,
                    "aligned" => LimiterKind::Aligned,
                    "segmented" => LimiterKind::Segmented,
                    _ => {
                        let what = format!(
                            "no algorithm `{word}`: write token, leaky, fixed, aligned or segmented"
                        );
                        return Err(self.problem(algorithm.place, what));
                    }
                }
            }
        };
        let &[only] = quotas.as_slice() else {
            return match kind {
                LimiterKind::Token => Ok(Allows::TwoQuotas(quotas)),
                _ => Err(self.problem(quota.place, "two quotas need `algorithm: token`")),
            };
        };
        let has_burst = matches!(kind, LimiterKind::Token | LimiterKind::Leaky);
        if only.explicit_burst().is_some() && !has_burst {
            let what = "a window has no burst: remove it, or write `algorithm: token`";
            return Err(self.problem(quota.place, what));
        }
        Ok(Allows::Quota { kind, quota: only })
    }

    fn rate_limit(&self, fields: &Fields<'_>) -> Read<Allows> {
        if self.flag(fields, "unlimited")? {
            for key in ["unit", "requests_per_unit"] {
                if let Some(field) = fields.field(key) {
                    let what = format!("`unlimited` has no `{key}`; remove one of them");
                    return Err(self.problem(field.place, what));
                }
            }
            return Ok(Allows::Everything);
        }
        let Some(unit) = fields.get("unit") else {
            let what = "no unit: write `unit: second`, minute, hour, day, week, month or year";
            return Err(self.problem(fields.place, what));
        };
        let word = self.text(unit, "unit")?;
        let is_it = |unit: &Unit| unit.name().eq_ignore_ascii_case(&word);
        let Some(unit) = Unit::ALL.into_iter().find(is_it) else {
            let what =
                format!("no unit `{word}`: write second, minute, hour, day, week, month or year");
            return Err(self.problem(unit.place, what));
        };
        let Some(count) = fields.get("requests_per_unit") else {
            let what = "no number: write `requests_per_unit: 100`";
            return Err(self.problem(fields.place, what));
        };
        let most = u64::from(u32::MAX);
        let count = self.number(count, "requests_per_unit", 0..=most)? as u32;
        Ok(match count {
            0 => Allows::Nothing { unit },
            count => Allows::Windows { count, unit },
        })
    }

    /// Reads `deny`, `admit`, or a share such as `1/8`.
    fn cut_off(&self, node: Option<&Node>) -> Read<Option<CutOff>> {
        let Some(node) = node else {
            return Ok(None);
        };
        let text = self.text(node, "when_cut_off")?;
        let share = || {
            let (of, nodes) = text.split_once('/')?;
            let (of, nodes) = (of.parse().ok()?, nodes.parse().ok()?);
            (1 <= of && of <= nodes).then_some(CutOff::Share(of, nodes))
        };
        let cut_off = match text.as_str() {
            "deny" => Some(CutOff::Deny),
            "admit" => Some(CutOff::Admit),
            _ => share(),
        };
        let what = "`when_cut_off` is deny, admit, or a share of the limit, such as 1/8";
        cut_off.map_or_else(|| Err(self.problem(node.place, what)), |it| Ok(Some(it)))
    }

    /// Reads `mode`, and the `overshoot` of a leased limit, which is a token bucket.
    fn leased(&self, fields: &Fields<'_>, allows: &Allows) -> Read<Option<Exceeds>> {
        let is_leased = match fields.get("mode") {
            None => false,
            Some(mode) => match self.text(mode, "mode")?.as_str() {
                "strict" => false,
                "leased" => true,
                _ => return Err(self.problem(mode.place, "`mode` is strict or leased")),
            },
        };
        match (is_leased, fields.get("overshoot")) {
            (false, None) => Ok(None),
            (false, Some(_)) => {
                let what = "`overshoot` is for a leased limit: write `mode: leased`, or remove it";
                Err(self.problem(fields.place_of("overshoot"), what))
            }
            (true, _) if !is_one_bucket(allows) => {
                let what = "`mode: leased` needs one token bucket: write `quota: 5000/s burst 5000`, or remove it";
                Err(self.problem(fields.place_of("mode"), what))
            }
            (true, None) => {
                let what =
                    "a leased limit may be exceeded: write by how much, such as `overshoot: 5%`";
                Err(self.problem(fields.place_of("mode"), what))
            }
            (true, Some(overshoot)) => self.overshoot(overshoot).map(Some),
        }
    }

    /// Reads a part of the burst such as `5%`, or a number of tokens.
    fn overshoot(&self, node: &Node) -> Read<Exceeds> {
        let text = self.text(node, "overshoot")?;
        let percent = || {
            let percent = text.strip_suffix('%')?.parse().ok()?;
            (1..=100)
                .contains(&percent)
                .then_some(Exceeds::Percent(percent))
        };
        let tokens = || {
            let tokens = text.parse().ok().filter(|tokens| *tokens >= 1)?;
            Some(Exceeds::Tokens(tokens))
        };
        let what = "`overshoot` is a part of the burst from 1% to 100%, or a number of tokens";
        let overshoot = percent().or_else(tokens);
        overshoot.ok_or_else(|| self.problem(node.place, what))
    }

    /// Reads `[{name: a}, {name: b}]`.
    fn replaces(&self, list: Option<&Node>) -> Read<Vec<String>> {
        let Some(list) = list else {
            return Ok(Vec::new());
        };
        let what = "`replaces` is a list: write `- name: NAME`";
        let Value::List(items) = &list.value else {
            return Err(self.problem(list.place, what));
        };
        let name = |item: &Node| {
            let fields = self.fields(item, &["name"], what)?;
            match fields.get("name") {
                Some(name) => self.word(name, "name"),
                None => Err(self.problem(item.place, what)),
            }
        };
        items.iter().map(name).collect()
    }

    /// Checks that a node is a map of known keys.
    fn fields<'n>(&self, node: &'n Node, known: &[&str], expected: &str) -> Read<Fields<'n>> {
        let Value::Map(fields) = &node.value else {
            return Err(self.problem(node.place, expected));
        };
        for Field { place, key, .. } in fields {
            if known.contains(&key.as_str()) {
                continue;
            }
            let near = known
                .iter()
                .map(|word| (distance(key, word), word))
                .filter(|(distance, word)| *distance <= word.len().div_ceil(3))
                .min();
            let what = match near {
                Some((_, word)) => format!("unknown key `{key}`; did you mean `{word}`?"),
                None => format!("unknown key `{key}`; write one of {}", known.join(", ")),
            };
            return Err(self.problem(*place, what));
        }
        Ok(Fields {
            place: node.place,
            fields,
        })
    }

    fn text(&self, node: &Node, key: &str) -> Read<String> {
        match &node.value {
            Value::Scalar { text, .. } => Ok(text.clone()),
            _ => Err(self.problem(node.place, format!("`{key}` is one word or text"))),
        }
    }

    /// Reads a text that is not empty.
    fn word(&self, node: &Node, key: &str) -> Read<String> {
        let text = self.text(node, key)?;
        match text.is_empty() {
            true => Err(self.problem(node.place, format!("`{key}` is empty"))),
            false => Ok(text),
        }
    }

    fn number(&self, node: &Node, key: &str, range: std::ops::RangeInclusive<u64>) -> Read<u64> {
        let text = self.text(node, key)?;
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = range.into_inner();
            let what =
                format!("`{key}` is a whole number from {least} to {most}, and not `{text}`");
            self.problem(node.place, what)
        })
    }

    fn flag(&self, fields: &Fields<'_>, key: &str) -> Read<bool> {
        let Some(node) = fields.get(key) else {
            return Ok(false);
        };
        match &node.value {
            Value::Scalar {
                text,
                is_plain: true,
            } if text == "true" => Ok(true),
            Value::Scalar {
                text,
                is_plain: true,
            } if text == "false" => Ok(false),
            _ => Err(self.problem(node.place, format!("`{key}` is true or false"))),
        }
    }
}

fn is_one_bucket(allows: &Allows) -> bool {
    let kind = LimiterKind::Token;
    matches!(allows, Allows::Quota { kind: this, .. } if *this == kind)
}

/// Returns whether a thousandth of a quota is more than a token in a year, which is the least rate of Envoy.
fn is_often(quota: &Quota) -> bool {
    quota.period().as_nanos() / u128::from(quota.count()) <= Duration::from_secs(3600).as_nanos()
}

impl Fields<'_> {
    fn place_of(&self, key: &str) -> Place {
        self.field(key).map_or(self.place, |field| field.place)
    }
}

/// Returns the edit distance (Levenshtein) of two words.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<_> = other.chars().collect();
    let mut distances: Vec<_> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut diagonal = row;
        distances[0] = row + 1;
        for (column, &opposite) in other.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != opposite);
            diagonal = distances[column + 1];
            distances[column + 1] = exchanged.min(distances[column].min(diagonal) + 1);
        }
    }
    distances[other.len()]
}
