//! An array that grows in pieces, so that no change has to move all of it. Elements that were never written have the
//! default value.

const PIECE: usize = 1024;

pub(crate) struct BySlot<T>(Vec<Vec<T>>);

impl<T: Default> BySlot<T> {
    pub fn new() -> BySlot<T> {
        BySlot(Vec::new())
    }

    /// `None` if nothing near it was written.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.0.get(at / PIECE)?.get(at % PIECE)
    }

    pub fn get_mut(&mut self, at: usize) -> &mut T {
        if self.0.len() <= at / PIECE {
            self.0.resize_with(at / PIECE + 1, Vec::new);
        }
        let piece = &mut self.0[at / PIECE];
        if piece.is_empty() {
            piece.resize_with(PIECE, T::default);
        }
        &mut piece[at % PIECE]
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        let pieces: usize = self.0.iter().map(Vec::capacity).sum();
        pieces * size_of::<T>() + self.0.capacity() * size_of::<Vec<T>>()
    }
}

impl<T: Default + Copy + PartialEq> BySlot<T> {
    /// The elements that differ from the default, with their indices.
    pub fn used(&self) -> impl Iterator<Item = (u32, T)> {
        let pieces = (0..).step_by(PIECE).zip(&self.0);
        let values = pieces.flat_map(|(first, piece)| (first..).zip(piece.iter().copied()));
        values.filter(|(_, value)| *value != T::default())
    }

    /// The value; the default where nothing was written.
    pub fn value(&self, at: usize) -> T {
        self.get(at).copied().unwrap_or_default()
    }
}
