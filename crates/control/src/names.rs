//! Objects named by any unambiguous dotted suffix of their full names.

use crate::error::{CHOICES_MAX, ControlError, UNKNOWN_NAME};
use p4jet_suggest::{distance, nearest};
use std::collections::BTreeMap;

/// The names of all objects of one kind.
pub struct NameIndex {
    /// The singular noun for the objects, such as `table`.
    kind: &'static str,
    /// What has the objects, such as `program`.
    owner: &'static str,
    names: Vec<(String, u32)>,
    /// Sorted: loading a file looks up two names per line, and this is faster than hashing.
    by_suffix: Vec<(String, Found)>,
}

#[derive(Clone, Copy)]
enum Found {
    One(u32),
    Several,
}

/// A name that denotes no object, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The kind of object, such as `table`.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// True if the name denotes several objects.
    pub is_ambiguous: bool,
    /// The likely and the possible names, as text; empty if they are left out.
    pub hint: String,
    /// The valid names, if the list is short.
    pub choices: Vec<String>,
}

impl From<UnknownName> for ControlError {
    fn from(error: UnknownName) -> ControlError {
        let UnknownName { kind, name, is_ambiguous, hint, choices } = error;
        let state = if is_ambiguous { "ambiguous" } else { "unknown" };
        let colon = if hint.is_empty() { "" } else { ": " };
        let message = format!("the {kind} name `{name}` is {state}{colon}{hint}");
        ControlError::new(message).code(UNKNOWN_NAME).field(kind).choices(choices.iter().map(String::as_str))
    }
}

/// Maximum number of names in a message.
const LISTED_MAX: usize = 10;

impl NameIndex {
    /// The objects of a program: `names`, each with the index of its object.
    pub fn new(kind: &'static str, names: impl IntoIterator<Item = (String, u32)>) -> NameIndex {
        NameIndex::of(kind, "program", names)
    }

    /// The objects of a program, table or the like, which `owner` names in messages.
    pub(crate) fn of(
        kind: &'static str,
        owner: &'static str,
        names: impl IntoIterator<Item = (String, u32)>,
    ) -> NameIndex {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort();
        let mut by_suffix = BTreeMap::new();
        for (name, index) in &names {
            for suffix in suffixes(name).skip(1) {
                by_suffix
                    .entry(suffix.to_string())
                    .and_modify(|f| *f = Found::Several)
                    .or_insert(Found::One(*index));
            }
        }
        // A full name denotes its object even if another name ends with it.
        for (name, index) in &names {
            by_suffix.insert(name.clone(), Found::One(*index));
        }
        NameIndex { kind, owner, names, by_suffix: by_suffix.into_iter().collect() }
    }

    /// The object with the name `text`; otherwise a message with the candidates.
    ///
    /// # Errors
    ///
    /// There is none, or several have this suffix.
    pub fn find(&self, text: &str) -> Result<u32, UnknownName> {
        let text = without_dot(text);
        match self.found(text) {
            Some(Found::One(index)) => Ok(index),
            Some(Found::Several) => {
                let candidates: Vec<_> = self.names().filter(|n| suffixes(n).any(|s| s == text)).collect();
                let list = listed(candidates.iter().map(|name| (*name).to_string()).collect());
                let hint = format!("candidates are {list}");
                Err(self.unknown(text, true, hint, candidates.into_iter()))
            }
            None => Err(self.unknown(text, false, self.choices(text), self.names())),
        }
    }

    /// Like [`Self::find`], but the message lists no candidates, which take time and memory.
    ///
    /// # Errors
    ///
    /// Those of [`Self::find`].
    pub fn find_briefly(&self, text: &str) -> Result<u32, UnknownName> {
        let text = without_dot(text);
        match self.found(text) {
            Some(Found::One(index)) => Ok(index),
            found => Err(self.unknown(text, found.is_some(), String::new(), std::iter::empty())),
        }
    }

    fn found(&self, text: &str) -> Option<Found> {
        let place = self.by_suffix.binary_search_by(|(suffix, _)| suffix.as_str().cmp(text));
        place.ok().map(|place| self.by_suffix[place].1)
    }

    fn unknown<'n>(
        &self,
        text: &str,
        is_ambiguous: bool,
        hint: String,
        choices: impl Iterator<Item = &'n str>,
    ) -> UnknownName {
        let choices = choices.take(CHOICES_MAX).map(str::to_string).collect();
        UnknownName { kind: self.kind, name: text.to_string(), is_ambiguous, hint, choices }
    }

    fn choices(&self, text: &str) -> String {
        let NameIndex { kind, owner, .. } = self;
        if self.names.is_empty() {
            return format!("the {owner} has no {kind}");
        }
        unknown(text, self.names(), &format!("{kind}s of the {owner} are"))
    }

    /// The error for an index that no object has.
    pub(crate) fn no_such(&self) -> ControlError {
        let NameIndex { kind, owner, .. } = self;
        ControlError::new(format!("the {owner} has no such {kind}")).field(*kind).choices(self.names())
    }

    /// The full name of an object, empty if there is none.
    pub fn name(&self, index: u32) -> &str {
        self.names.iter().find(|(_, i)| *i == index).map_or("", |(name, _)| name.as_str())
    }

    /// The shortest name that denotes an object, empty if there is no such object.
    pub fn shortest(&self, index: u32) -> &str {
        let name = self.name(index);
        let denotes = |suffix: &&str| matches!(self.found(suffix), Some(Found::One(found)) if found == index);
        suffixes(name).filter(denotes).last().unwrap_or(name)
    }

    /// All full names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| name.as_str())
    }

    /// All objects, sorted by name.
    pub fn sorted(&self) -> impl Iterator<Item = u32> + '_ {
        self.names.iter().map(|(_, index)| *index)
    }
}

/// A name without the leading dot that marks a full name in P4.
fn without_dot(text: &str) -> &str {
    text.strip_prefix('.').unwrap_or(text)
}

/// `a.b.c`, `b.c`, `c`.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    std::iter::once(name).chain(name.match_indices('.').map(|(i, _)| &name[i + 1..]))
}

/// The error for a name that is not among `choices`: the likely name first, then the choices by similarity.
pub fn unknown<'a>(text: &str, choices: impl Iterator<Item = &'a str>, are: &str) -> String {
    let mut names: Vec<&str> = choices.collect();
    let close = close(text, names.iter().copied());
    let lower = text.to_lowercase();
    names.sort_by_cached_key(|name| {
        let distances = suffixes(name).map(|suffix| distance(&lower, &suffix.to_lowercase()));
        (distances.min(), *name)
    });
    let list = listed(names.iter().map(|name| (*name).to_string()).collect());
    match close {
        Some(name) => format!("did you mean `{name}`? {are} {list}"),
        None => format!("{are} {list}"),
    }
}

/// The name that was probably meant: one with a suffix similar to the given word.
pub fn close<'a>(text: &str, choices: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&str> = choices.collect();
    let near = nearest(text, names.iter().flat_map(|name| suffixes(name)))?;
    names.into_iter().find(|name| suffixes(name).any(|suffix| suffix == near))
}

/// Up to [`LISTED_MAX`] names in quotes.
pub fn listed(names: Vec<String>) -> String {
    let mut text = names.iter().take(LISTED_MAX).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    if names.len() > LISTED_MAX {
        text += &format!(" and {} more", names.len() - LISTED_MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> NameIndex {
        let names = ["ingress.ipv4_lpm", "ingress.acl", "egress.acl", "acl2", "x.y.acl2"];
        NameIndex::new("table", names.iter().enumerate().map(|(i, n)| (n.to_string(), i as u32)))
    }

    #[test]
    fn finds_by_suffix() {
        let index = index();
        assert_eq!(index.find("ipv4_lpm"), Ok(0));
        assert_eq!(index.find("egress.acl"), Ok(2));
        assert_eq!(index.find("acl2"), Ok(3), "a full name wins over a suffix");
        assert_eq!(index.find("y.acl2"), Ok(4));
        assert_eq!(index.find(".acl2"), Ok(3), "a leading dot is P4's mark of a full name");
        assert!(index.find("v4_lpm").is_err(), "suffixes begin at a dot");
        for name in ["ipv4_lpm", ".acl2", "acl", "v4_lpm", ""] {
            assert_eq!(index.find_briefly(name).ok(), index.find(name).ok(), "{name}");
        }
        for (name, message) in [
            ("ipv4_lmp", "the table name `ipv4_lmp` is unknown"),
            ("acl", "the table name `acl` is ambiguous"),
        ] {
            let error = ControlError::from(index.find_briefly(name).unwrap_err());
            assert_eq!((error.message.as_str(), error.choices.len()), (message, 0));
        }
    }

    #[test]
    fn tells_the_candidates() {
        assert_eq!(
            ControlError::from(index().find("acl").unwrap_err()).message,
            "the table name `acl` is ambiguous: candidates are `egress.acl`, `ingress.acl`"
        );
        assert_eq!(
            ControlError::from(index().find("ipv4_lmp").unwrap_err()).message,
            "the table name `ipv4_lmp` is unknown: did you mean `ingress.ipv4_lpm`? tables of the program are \
             `ingress.ipv4_lpm`, `acl2`, `egress.acl`, `ingress.acl`, `x.y.acl2`"
        );
        let many = NameIndex::new("table", (0..30).map(|i| (format!("t{i}"), i)));
        assert!(many.find("zzzzzzzzz").unwrap_err().hint.ends_with(" and 20 more"));
    }
}
