//! A configuration as text again.

use super::{Allows, Config, Descriptor, Exceeds, Terms};
use flowgate::LimiterKind;
use flowgate_fleet::CutOff;
use std::fmt::Write;

impl Config {
    /// Returns the configuration as YAML, with one document for each domain.
    ///
    /// Comments and keys without an effect are left out.
    ///
    /// ```
    /// use flowgate_server::Config;
    ///
    /// let config = Config::parse("a.yaml", "{domain: api, descriptors: [{key: user, quota: 60/min}]}")?;
    /// let text = "domain: \"api\"\ndescriptors:\n  - key: \"user\"\n    quota: \"60/min\"\n";
    /// assert_eq!(config.to_yaml(), text);
    /// # Ok::<(), flowgate_server::Problem>(())
    /// ```
    pub fn to_yaml(&self) -> String {
        let mut writer = Writer(String::new());
        for (place, domain) in self.domains.iter().enumerate() {
            if place > 0 {
                writer.0.push_str("---\n");
            }
            writer.field(0, "domain", &quoted(&domain.name));
            writer.descriptors(0, &domain.descriptors);
        }
        writer.0
    }
}

struct Writer(String);

impl Writer {
    fn field(&mut self, indent: usize, key: &str, value: &str) {
        // A string never fails to be written to.
        let _ = writeln!(self.0, "{:indent$}{key}: {value}", "");
    }

    fn flag(&mut self, indent: usize, key: &str, is_set: bool) {
        if is_set {
            self.field(indent, key, "true");
        }
    }

    fn descriptors(&mut self, indent: usize, list: &[Descriptor]) {
        if list.is_empty() {
            return;
        }
        let _ = writeln!(self.0, "{:indent$}descriptors:", "");
        for descriptor in list {
            self.descriptor(indent + 2, descriptor);
        }
    }

    fn descriptor(&mut self, indent: usize, descriptor: &Descriptor) {
        self.field(indent, "- key", &quoted(&descriptor.key));
        let indent = indent + 2;
        if let Some(value) = &descriptor.value {
            self.field(indent, "value", &quoted(value));
        }
        self.flag(indent, "share_threshold", descriptor.is_shared);
        if let Some(terms) = &descriptor.terms {
            self.terms(indent, terms);
        }
        self.descriptors(indent, &descriptor.children);
    }

    fn terms(&mut self, indent: usize, terms: &Terms) {
        let mut named = indent;
        match terms.allows {
            Allows::Quota { kind, quota } => {
                self.field(indent, "quota", &quoted(&quota.to_string()));
                if kind != LimiterKind::Token {
                    self.field(indent, "algorithm", kind.name());
                }
            }
            Allows::TwoQuotas(quotas) => {
                self.field(indent, "quota", &quoted(&quotas.to_string()));
            }
            Allows::Everything | Allows::Nothing { .. } | Allows::Windows { .. } => {
                let _ = writeln!(self.0, "{:indent$}rate_limit:", "");
                named += 2;
            }
        }
        let per = match terms.allows {
            Allows::Nothing { unit } => Some((0, unit)),
            Allows::Windows { count, unit } => Some((count, unit)),
            _ => None,
        };
        self.flag(named, "unlimited", terms.allows == Allows::Everything);
        if let Some((count, unit)) = per {
            self.field(named, "unit", &unit.name().to_ascii_lowercase());
            self.field(named, "requests_per_unit", &count.to_string());
        }
        if let Some(name) = &terms.name {
            self.field(named, "name", &quoted(name));
        }
        if !terms.replaces.is_empty() {
            let name = |name: &String| format!("{{ name: {} }}", quoted(name));
            let names: Vec<_> = terms.replaces.iter().map(name).collect();
            self.field(named, "replaces", &format!("[{}]", names.join(", ")));
        }
        self.flag(indent, "shadow_mode", terms.is_shadow);
        self.flag(indent, "allow_override", terms.allow_override);
        self.flag(indent, "rlqs", terms.is_assigned);
        match terms.cut_off {
            Some(CutOff::Deny) => self.field(indent, "when_cut_off", "deny"),
            Some(CutOff::Admit) => self.field(indent, "when_cut_off", "admit"),
            Some(CutOff::Share(of, nodes)) => {
                self.field(indent, "when_cut_off", &format!("{of}/{nodes}"));
            }
            _ => {}
        }
        if let Some(exceeds) = terms.leased {
            self.field(indent, "mode", "leased");
            let overshoot = match exceeds {
                Exceeds::Percent(percent) => format!("{percent}%"),
                Exceeds::Tokens(tokens) => tokens.to_string(),
            };
            self.field(indent, "overshoot", &overshoot);
        }
        if let Some(capacity) = terms.capacity {
            self.field(indent, "capacity", &capacity.to_string());
        }
    }
}

/// A text in quotation marks. Whatever could be read in another way is escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ' '..='~' => quoted.push(letter),
            _ if letter.is_alphanumeric() => quoted.push(letter),
            _ => _ = write!(quoted, "\\U{:08x}", u32::from(letter)),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::Config;
    use proptest::prelude::*;

    const ALL: &str = r#"domain: "api"
descriptors:
  - key: "user"
    quota: "100/min burst 20"
    name: "users"
    replaces: [{ name: "a" }, { name: "b" }]
    allow_override: true
    when_cut_off: 1/8
    capacity: 7
    descriptors:
      - key: "path"
        value: "/*"
        share_threshold: true
        rate_limit:
          unit: second
          requests_per_unit: 50
          name: "paths"
        shadow_mode: true
  - key: "site"
    quota: "10/s; 1000/day"
  - key: "busy"
    quota: "1000/s"
    mode: leased
    overshoot: 5%
  - key: "calm"
    quota: "1000/s"
    mode: leased
    overshoot: 70
  - key: "edge"
    quota: "100/s burst 20"
    rlqs: true
  - key: "old"
    quota: "5/h"
    algorithm: leaky
  - key: "friend"
    rate_limit:
      unlimited: true
  - key: "none"
    rate_limit:
      unit: year
      requests_per_unit: 0
  - key: "group"
---
domain: "other"
"#;

    #[test]
    fn every_key_is_written_as_it_was_read() {
        let config = Config::parse("a.yaml", ALL).unwrap();
        assert_eq!(config.to_yaml(), ALL);
        assert_eq!(config.len(), 9);
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_it_was_written(key in ".+", value in "\\PC*|[\\x00-\\xff]+") {
            let mut config = Config::parse("a.yaml", ALL).unwrap();
            config.domains[0].descriptors[0].key.clone_from(&key);
            config.domains[0].name.clone_from(&key);
            let child = &mut config.domains[0].descriptors[0].children[0];
            child.is_shared = false;
            child.value = Some(value.clone()).filter(|value| !value.is_empty());
            let again = Config::parse("a.yaml", &config.to_yaml()).unwrap();
            let descriptor = &again.domains[0].descriptors[0];
            prop_assert_eq!(&again.domains[0].name, &key);
            prop_assert_eq!(&descriptor.key, &key);
            prop_assert_eq!(descriptor.children[0].value.as_deref().unwrap_or_default(), value);
            prop_assert_eq!(&descriptor.terms, &config.domains[0].descriptors[0].terms);
        }
    }
}
