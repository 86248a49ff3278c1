use std::fmt;

/// A line and a column, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A mistake in a configuration, its place, and what to write instead.
///
/// ```
/// use flowgate_server::Config;
///
/// let text = "domain: api\ndescriptors:\n  - key: user\n    quotas: 100/min\n";
/// let problem = Config::parse("limits.yaml", text).unwrap_err();
/// assert_eq!(problem.to_string(), "limits.yaml:4:5: unknown key `quotas`; did you mean `quota`?");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    file: String,
    place: Option<Place>,
    what: String,
}

impl Problem {
    pub(crate) fn new(file: &str, place: Option<Place>, what: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            place,
            what: what.into(),
        }
    }

    /// Returns the line, from 1. `None` if the file could not be read.
    pub fn line(&self) -> Option<usize> {
        self.place.map(|place| place.line)
    }

    /// Returns the column in characters, from 1. `None` if the file could not be read.
    pub fn column(&self) -> Option<usize> {
        self.place.map(|place| place.column)
    }
}

/// `file:line:column: what`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, place, what } = self;
        match place {
            Some(Place { line, column }) => write!(f, "{file}:{line}:{column}: {what}"),
            None => write!(f, "{file}: {what}"),
        }
    }
}

impl std::error::Error for Problem {}
