//! A hash table in parts that grow one at a time, so that no insertion has to move all of it.

use hashbrown::HashTable;

const PARTS: usize = 256;

/// Callers compute the hashes: 64 bits that depend on the whole key.
pub(crate) struct Parted<T>(Vec<HashTable<T>>);

/// Returns the part for a hash, by bits that the part's table does not use.
fn part(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}

impl<T> Parted<T> {
    pub fn new() -> Parted<T> {
        Parted((0..PARTS).map(|_| HashTable::new()).collect())
    }

    pub fn find(&self, hash: u64, same: impl FnMut(&T) -> bool) -> Option<&T> {
        self.0[part(hash)].find(hash, same)
    }

    /// Adds a value that is not present. `hash_of` returns the hashes of other values when their part grows.
    pub fn insert(&mut self, hash: u64, value: T, hash_of: impl Fn(&T) -> u64) {
        self.0[part(hash)].insert_unique(hash, value, hash_of);
    }

    pub fn remove(&mut self, hash: u64, same: impl FnMut(&T) -> bool) {
        if let Ok(found) = self.0[part(hash)].find_entry(hash, same) {
            found.remove();
        }
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(HashTable::allocation_size).sum::<usize>() + PARTS * size_of::<HashTable<T>>()
    }
}
