//! Ids and aliases (P4Runtime specification, "ID Allocation for P4Info Objects" and "Preamble Message"), as p4c chooses
//! them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::proto::config::Prefix;

/// The bits of an id below the prefix.
const SUFFIX_BITS: u32 = 24;
const SUFFIX_MASK: u32 = (1 << SUFFIX_BITS) - 1;

/// The objects of a program: each name of each kind has one id.
#[derive(Default)]
pub struct Symbols {
    names: BTreeMap<Prefix, BTreeMap<String, Option<u32>>>,
    ids: HashMap<(Prefix, String), u32>,
    aliases: HashMap<String, String>,
}

impl PartialOrd for Prefix {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Prefix {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (*self as i32).cmp(&(*other as i32))
    }
}

/// The reason why an `@id` cannot be an id.
#[derive(Debug, PartialEq, Eq)]
pub enum BadId {
    /// Its highest byte is that of another kind; the variant holds the right one.
    Prefix(u32),
    /// Another object has it.
    Taken,
    /// It is 0.
    Zero,
}

impl Symbols {
    /// Adds an object, unless it is known; `id` is the number in `@id`.
    pub fn add(&mut self, kind: Prefix, name: &str, id: Option<u32>) -> Result<(), BadId> {
        let names = self.names.entry(kind).or_default();
        if names.contains_key(name) {
            return Ok(());
        }
        names.insert(name.to_string(), None);
        let Some(id) = id else { return Ok(()) };
        let prefix = (kind as u32) << SUFFIX_BITS;
        if id >> SUFFIX_BITS != 0 && id & !SUFFIX_MASK != prefix {
            return Err(BadId::Prefix(prefix));
        }
        if id & SUFFIX_MASK == 0 {
            return Err(BadId::Zero);
        }
        let id = prefix | id;
        if names.values().any(|taken| *taken == Some(id)) {
            return Err(BadId::Taken);
        }
        names.insert(name.to_string(), Some(id));
        Ok(())
    }

    /// Gives all objects their ids and aliases. No object can be added afterwards.
    pub fn settle(&mut self) {
        for (kind, names) in &mut self.names {
            let prefix = (*kind as u32) << SUFFIX_BITS;
            let mut taken: HashSet<u32> = names.values().flatten().copied().collect();
            // In the order of their names, so that ids do not depend on where objects are declared when hashes collide.
            for (name, id) in names.iter_mut() {
                let id = id.get_or_insert_with(|| {
                    let mut hash = hash(name.as_bytes());
                    while !taken.insert(prefix | (hash & SUFFIX_MASK)) {
                        hash = hash.wrapping_add(1);
                    }
                    prefix | (hash & SUFFIX_MASK)
                });
                self.ids.insert((*kind, name.clone()), *id);
            }
        }
        self.aliases = aliases(self.names.values().flat_map(BTreeMap::keys));
    }

    /// Returns the id of an object, 0 if it is not known.
    pub fn id(&self, kind: Prefix, name: &str) -> u32 {
        self.ids.get(&(kind, name.to_string())).copied().unwrap_or(0)
    }

    /// Returns the alias of a name.
    pub fn alias(&self, name: &str) -> String {
        self.aliases.get(name).cloned().unwrap_or_else(|| name.to_string())
    }
}

/// Returns the shortest suffix, of whole components, that only one of the names has. A name of two objects counts once.
fn aliases<'a>(names: impl Iterator<Item = &'a String>) -> HashMap<String, String> {
    let names: BTreeSet<&String> = names.collect();
    let mut users: HashMap<&str, u32> = HashMap::new();
    for name in &names {
        suffixes(name).for_each(|suffix| *users.entry(suffix).or_default() += 1);
    }
    names
        .into_iter()
        .map(|name| {
            let alias = suffixes(name).find(|suffix| users[suffix] < 2).unwrap_or(name);
            (name.clone(), alias.to_string())
        })
        .collect()
}

/// Returns the suffixes of whole components, the shortest first: `c`, `b.c`, `a.b.c`.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    let dots = name.rmatch_indices('.').map(|(at, _)| at + 1);
    dots.chain([0]).map(|at| &name[at..])
}

/// Bob Jenkins's one-at-a-time hash.
fn hash(bytes: &[u8]) -> u32 {
    let mixed = bytes.iter().fold(0u32, |hash, byte| {
        let hash = hash.wrapping_add(u32::from(*byte));
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    });
    let hash = mixed.wrapping_add(mixed << 3);
    let hash = hash ^ (hash >> 11);
    hash.wrapping_add(hash << 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(names: &[(Prefix, &str, Option<u32>)]) -> Symbols {
        let mut symbols = Symbols::default();
        for (kind, name, id) in names {
            symbols.add(*kind, name, *id).unwrap();
        }
        symbols.settle();
        symbols
    }

    #[test]
    fn ids_are_p4cs() {
        let symbols = symbols(&[
            (Prefix::Action, "NoAction", None),
            (Prefix::Table, "MyIngress.ipv4_lpm", None),
            (Prefix::Action, "MyIngress.drop", None),
            (Prefix::ControllerHeader, "packet_out_header_t", None),
        ]);
        assert_eq!(symbols.id(Prefix::Action, "NoAction"), 21_257_015);
        assert_eq!(symbols.id(Prefix::Table, "MyIngress.ipv4_lpm"), 37_375_156);
        assert_eq!(symbols.id(Prefix::Action, "MyIngress.drop"), 0x0187_6ee8);
        assert_eq!(symbols.id(Prefix::ControllerHeader, "packet_out_header_t"), 0x0492_3187);
    }

    #[test]
    fn a_given_id_is_kept_and_a_hash_that_meets_it_moves_on() {
        let drop = 0x0187_6ee8;
        let symbols = symbols(&[
            (Prefix::Action, "MyIngress.drop", None),
            (Prefix::Action, "other", Some(drop & SUFFIX_MASK)),
        ]);
        assert_eq!(symbols.id(Prefix::Action, "other"), drop);
        assert_eq!(symbols.id(Prefix::Action, "MyIngress.drop"), drop + 1);
    }

    #[test]
    fn a_given_id_may_be_wrong() {
        let mut symbols = Symbols::default();
        assert_eq!(symbols.add(Prefix::Table, "t", Some(0x0100_0001)), Err(BadId::Prefix(0x0200_0000)));
        assert_eq!(symbols.add(Prefix::Table, "zero", Some(0x0200_0000)), Err(BadId::Zero));
        assert_eq!(symbols.add(Prefix::Table, "u", Some(7)), Ok(()));
        assert_eq!(symbols.add(Prefix::Table, "v", Some(0x0200_0007)), Err(BadId::Taken));
        assert_eq!(symbols.add(Prefix::Action, "a", Some(7)), Ok(()), "in two kinds it is fine");
    }

    #[test]
    fn aliases_are_the_shortest_unique_suffixes() {
        let symbols = symbols(&[
            (Prefix::Table, "s.c1.t", None),
            (Prefix::Table, "s.c2.t", None),
            (Prefix::Action, "s.c1.a", None),
            (Prefix::Action, "x", None),
            (Prefix::Counter, "x", None),
            (Prefix::Counter, "t", None),
        ]);
        let of = |name: &str| symbols.alias(name);
        assert_eq!(of("s.c1.t"), "c1.t");
        assert_eq!(of("s.c2.t"), "c2.t");
        assert_eq!(of("s.c1.a"), "a");
        assert_eq!(of("x"), "x");
        assert_eq!(of("t"), "t", "all of it, because no suffix is unique");
    }
}
