//! A map from small numbers that is copied cheaply before a change.

use std::sync::Arc;

/// Numbers of a page.
const PAGE: usize = 256;

/// Values by number. Clones share their pages, so that a change copies only one page and the list of pages. Numbers are small: the
/// list has a place for each page up to the last one.
#[derive(Clone, Debug)]
pub struct Pages<T> {
    pages: Vec<Option<Arc<Vec<Option<T>>>>>,
    len: usize,
}

impl<T> Default for Pages<T> {
    fn default() -> Pages<T> {
        Pages { pages: Vec::new(), len: 0 }
    }
}

impl<T: PartialEq> PartialEq for Pages<T> {
    fn eq(&self, other: &Pages<T>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for Pages<T> {}

impl<T> Pages<T> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value of a number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        let number = number as usize;
        self.pages.get(number / PAGE)?.as_ref()?[number % PAGE].as_ref()
    }

    /// Returns all numbers with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// Returns the numbers from `first` on with their values, in order.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        let pages = self.pages.iter().enumerate().skip(first as usize / PAGE);
        let pages = pages.filter_map(|(page, values)| Some((page, values.as_ref()?)));
        let values = pages.flat_map(|(page, values)| {
            values.iter().enumerate().map(move |(n, value)| (page * PAGE + n, value))
        });
        let values = values.filter_map(|(number, value)| Some((number as u32, value.as_ref()?)));
        values.skip_while(move |(number, _)| *number < first)
    }
}

impl<T: Clone> Pages<T> {
    /// Sets or removes the value of a number.
    pub fn set(&mut self, number: u32, value: Option<T>) {
        let (page, place) = (number as usize / PAGE, number as usize % PAGE);
        if page >= self.pages.len() {
            if value.is_none() {
                return;
            }
            self.pages.resize_with(page + 1, || None);
        }
        let values = self.pages[page].get_or_insert_with(|| Arc::new(vec![None; PAGE]));
        let of = &mut Arc::make_mut(values)[place];
        self.len = self.len + usize::from(value.is_some()) - usize::from(of.is_some());
        *of = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_keep_their_values() {
        let mut pages = Pages::default();
        pages.set(9, None);
        assert!(pages.is_empty() && pages.get(9).is_none());
        for number in [700, 3, 256, 255, 65_535] {
            pages.set(number, Some(number * 2));
        }
        let old = pages.clone();
        pages.set(256, None);
        pages.set(3, Some(1));
        pages.set(256, None);
        assert_eq!(
            pages.iter().collect::<Vec<_>>(),
            [(3, &1), (255, &510), (700, &1400), (65_535, &131_070)]
        );
        assert_eq!((pages.len(), old.len(), old.get(3), old.get(256)), (4, 5, Some(&6), Some(&512)));
        assert_eq!(pages.iter_from(256).map(|(number, _)| number).collect::<Vec<_>>(), [700, 65_535]);
        assert!(old.iter_from(70_000).next().is_none());
        let mut again = pages.clone();
        again.set(256, Some(0));
        assert!(again != pages);
        again.set(256, None);
        assert!(again == pages);
    }
}
