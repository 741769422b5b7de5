//! Work for a client that may leave before it is done.

use crate::error::{ControlError, Result};
use crate::update::Update;

/// Number of commands between two checks whether the client is still connected. An update of a whole array may take as long as
/// millions of others, so a check precedes each of them.
const COMMANDS_MAX: u32 = 64;

/// The client for which a file or batch is carried out. If it leaves, the rest is cancelled.
pub struct Presence<'c> {
    has_left: &'c dyn Fn() -> bool,
    /// Commands since the last check.
    since: u32,
    left: bool,
}

impl<'c> Presence<'c> {
    /// A client that has left if the function returns true.
    pub fn new(has_left: &'c dyn Fn() -> bool) -> Presence<'c> {
        Presence { has_left, since: 0, left: false }
    }

    /// Checks that the client is there, often enough if this is called before each command of the file or batch: for an update
    /// or a command that reads.
    ///
    /// # Errors
    ///
    /// The client has left.
    pub fn check(&mut self, next: Option<&Update>) -> Result<()> {
        self.since += 1;
        if self.since >= COMMANDS_MAX || next.is_none_or(Update::is_of_arrays) {
            self.since = 0;
            self.left = self.left || (self.has_left)();
        }
        match self.left {
            true => Err(ControlError::left()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_client_that_has_left_is_noticed() {
        let (left, looks) = (Cell::new(false), Cell::new(0));
        let has_left = || {
            looks.set(looks.get() + 1);
            left.get()
        };
        let mut presence = Presence::new(&has_left);
        let short = Update::CreateMulticastGroup(1);
        (0..640).for_each(|_| presence.check(Some(&short)).unwrap());
        assert_eq!(looks.get(), 10);
        for long in [None, Some(Update::Reset)] {
            presence.check(long.as_ref()).unwrap();
        }
        assert_eq!(looks.get(), 12);
        left.set(true);
        let noticed = (0..COMMANDS_MAX).position(|_| presence.check(Some(&short)).is_err());
        assert_eq!(noticed, Some(63));
        left.set(false);
        assert!(presence.check(Some(&short)).is_err(), "it cannot come back");
    }
}
