//! YAML as a tree whose nodes have places. The only file that names the YAML crate.

use super::problem::Place;
use granit_parser::{Event, Options, Parser, ScalarStyle};
use std::collections::{HashMap, HashSet};

/// The deepest nesting.
const MAX_DEPTH: usize = 64;
/// The most nodes that aliases may add.
const MAX_COPIED: usize = 10_000;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Scalar {
        text: String,
        /// Without quotation marks: `true` can be a flag.
        is_plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Field>),
}

/// A key of a map, and its value.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) place: Place,
    pub(super) key: String,
    pub(super) value: Node,
}

impl Node {
    /// Returns the number of nodes.
    fn len(&self) -> usize {
        1 + match &self.value {
            Value::Scalar { .. } => 0,
            Value::List(items) => items.iter().map(Node::len).sum(),
            Value::Map(fields) => fields.iter().map(|field| field.value.len()).sum(),
        }
    }

    /// Returns whether this is the absence of a value: nothing, `null` or `~`.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, is_plain: true } if ["", "~", "null"].contains(&text.as_str()))
    }
}

/// A mistake and its place.
pub(super) type Wrong = (Place, String);

/// Reads all documents of a text.
pub(super) fn read(text: &str) -> Result<Vec<Node>, Wrong> {
    let mut options = Options::default();
    options.block_nesting_limit = MAX_DEPTH * 2;
    options.flow_nesting_limit = MAX_DEPTH * 2;
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(text, options),
        anchors: HashMap::new(),
        copied: 0,
    };
    let mut documents = Vec::new();
    loop {
        match reader.next()? {
            (_, Event::StreamEnd) => return Ok(documents),
            (_, Event::DocumentStart(..)) => {
                reader.anchors.clear();
                let event = reader.next()?;
                documents.push(reader.node(event, 0)?);
            }
            _ => {}
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    copied: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Place, Event<'a>), Wrong> {
        let place = |mark: &granit_parser::Marker| Place {
            line: mark.line(),
            column: mark.col() + 1,
        };
        match self.events.next() {
            Some(Ok((event, span))) => Ok((place(&span.start), event)),
            Some(Err(error)) => {
                let mut what = error.info();
                if what.split(' ').any(|word| word == "tab") {
                    what.push_str("; indent with spaces");
                }
                Err((place(error.marker()), what))
            }
            None => Ok((Place::default(), Event::StreamEnd)),
        }
    }

    /// Reads the node that begins with this event.
    fn node(&mut self, (place, event): (Place, Event<'a>), depth: usize) -> Result<Node, Wrong> {
        if depth > MAX_DEPTH {
            return Err((place, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let value = Value::Scalar {
                    text: text.into_owned(),
                    is_plain: style == ScalarStyle::Plain,
                };
                (value, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (Value::List(self.list(depth)?), anchor),
            Event::MappingStart(_, anchor, _) => (Value::Map(self.map(depth)?), anchor),
            Event::Alias(anchor) => return self.copy(place, anchor),
            _ => return Err((place, "a value is missing".to_owned())),
        };
        let node = Node { place, value };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn copy(&mut self, place: Place, anchor: usize) -> Result<Node, Wrong> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err((place, "an alias of a value that contains it".to_owned()));
        };
        self.copied += node.len();
        if self.copied > MAX_COPIED {
            return Err((place, format!("aliases add more than {MAX_COPIED} values")));
        }
        Ok(node.clone())
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Wrong> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (_, Event::SequenceEnd) => return Ok(items),
                event => items.push(self.node(event, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Field>, Wrong> {
        let mut fields = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let event = self.next()?;
            if event.1 == Event::MappingEnd {
                return Ok(fields);
            }
            let Node { place, value } = self.node(event, depth + 1)?;
            let Value::Scalar { text: key, .. } = value else {
                return Err((place, "a key is a word, and not a list or a map".to_owned()));
            };
            if key == "<<" {
                let what = "the merge key `<<` is not supported; write the keys out";
                return Err((place, what.to_owned()));
            }
            if !seen.insert(key.clone()) {
                return Err((
                    place,
                    format!("`{key}` is already there; remove one of them"),
                ));
            }
            let event = self.next()?;
            let value = self.node(event, depth + 1)?;
            fields.push(Field { place, key, value });
        }
    }
}
