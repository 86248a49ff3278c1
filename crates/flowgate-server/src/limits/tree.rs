//! Descriptors to a rule, as envoyproxy/ratelimit finds it.

use super::Rule;
use crate::decision::DescriptorEntry;
use std::collections::HashMap;
use std::sync::Arc;

/// The descriptors of one level, by key.
#[derive(Debug, Default)]
pub(super) struct Tree {
    keys: HashMap<Box<str>, Branches>,
}

/// The descriptors of one key.
#[derive(Debug, Default)]
struct Branches {
    exact: HashMap<Box<[u8]>, Node>,
    /// In the order of the configuration.
    patterns: Vec<(Pattern, Node)>,
    any: Option<Node>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) rule: Option<Arc<Rule>>,
    pub(super) children: Tree,
}

impl Tree {
    pub(super) fn add(&mut self, key: &str, value: Option<&str>, node: Node) {
        let branches = self.keys.entry(key.into()).or_default();
        match value {
            None => branches.any = Some(node),
            Some(value) if value.contains('*') => {
                branches.patterns.push((Pattern::new(value), node));
            }
            Some(value) => _ = branches.exact.insert(value.as_bytes().into(), node),
        }
    }

    /// Returns the rule of this descriptor. The path of a rule is as long as the descriptor.
    ///
    /// At each level, an exact value goes before a pattern, and a pattern before a key without a value. Once a level is chosen,
    /// the others are not tried again.
    pub(super) fn find(&self, entries: &[DescriptorEntry<'_>]) -> Option<&Arc<Rule>> {
        let (last, before) = entries.split_last()?;
        let mut tree = self;
        for entry in before {
            tree = &tree.node(entry)?.children;
        }
        tree.node(last)?.rule.as_ref()
    }

    /// Returns the rule of entries without an order, and puts them into the order of its path.
    pub(super) fn find_in_any_order(
        &self,
        entries: &mut [DescriptorEntry<'_>],
    ) -> Option<&Arc<Rule>> {
        for place in 0..entries.len() {
            entries.swap(0, place);
            let (first, rest) = entries.split_first_mut()?;
            let found = self.node(first).and_then(|node| match rest.is_empty() {
                true => node.rule.as_ref(),
                false => node.children.find_in_any_order(rest),
            });
            if found.is_some() {
                return found;
            }
            entries.swap(0, place);
        }
        None
    }

    fn node(&self, entry: &DescriptorEntry<'_>) -> Option<&Node> {
        let branches = self.keys.get(entry.key)?;
        let fits = |(pattern, node)| Pattern::fits(pattern, entry.value).then_some(node);
        let by_pattern = || branches.patterns.iter().map(|(p, n)| (p, n)).find_map(fits);
        let exact = branches.exact.get(entry.value);
        exact.or_else(by_pattern).or(branches.any.as_ref())
    }
}

/// A value with `*`, which stands for any text.
#[derive(Debug)]
struct Pattern {
    /// The texts between the `*`, at least two.
    parts: Box<[Box<[u8]>]>,
}

impl Pattern {
    fn new(value: &str) -> Self {
        let parts = value.as_bytes().split(|&byte| byte == b'*');
        Self {
            parts: parts.map(Into::into).collect(),
        }
    }

    fn fits(&self, value: &[u8]) -> bool {
        let [first, middle @ .., last] = &*self.parts else {
            return false;
        };
        let Some(mut rest) = value.strip_prefix(&**first) else {
            return false;
        };
        // The earliest place of each leaves the most for the others.
        for part in middle.iter().filter(|part| !part.is_empty()) {
            let place = rest
                .windows(part.len())
                .position(|window| *window == **part);
            let Some(place) = place else {
                return false;
            };
            rest = &rest[place + part.len()..];
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, value, fits) in [
            ("*", "", true),
            ("*", "x", true),
            ("foo*", "foo", true),
            ("foo*", "foobar", true),
            ("foo*", "fo", false),
            ("*.png", "a.png", true),
            ("*.png", "a.png.gz", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("**", "x", true),
        ] {
            assert_eq!(
                Pattern::new(pattern).fits(value.as_bytes()),
                fits,
                "{pattern} {value}"
            );
        }
    }
}
