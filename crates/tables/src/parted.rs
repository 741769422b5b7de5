//! A hash table in parts that grow one at a time, so that no insertion waits for all of it to move.

use hashbrown::HashTable;

const PARTS: usize = 256;

/// Who calls knows the hashes: 64 bits that depend on all of the key.
pub(crate) struct Parted<T>(Vec<HashTable<T>>);

/// Which part: bits of a hash that its table does not use.
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

    /// Adds what is not there. `hash_of` gives the hashes of others, when their part grows.
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
