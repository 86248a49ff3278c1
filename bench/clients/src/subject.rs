//! A way to run a client, under the name it has in the tables.

use crate::client::Program;

/// The name of ours, which the others are compared with.
pub const OURS: &str = "flowgate";

/// One client with one set of arguments, for what a section asks of it.
pub struct Subject<Ask> {
    pub name: &'static str,
    pub program: Program,
    /// For a URL.
    pub arguments: fn(&Ask, &str) -> Vec<String>,
}

impl<Ask> Subject<Ask> {
    /// Is it asked for? Without a text every one is; otherwise those whose name contains it, and ours.
    pub fn is_chosen(&self, only: Option<&str>) -> bool {
        is_chosen(self.name, only)
    }
}

/// See [`Subject::is_chosen`].
pub fn is_chosen(name: &str, only: Option<&str>) -> bool {
    name == OURS || only.is_none_or(|text| name.contains(text))
}

/// The words of `text`: no argument here has a space in it.
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
