//! The budget of copies: the number of copies that a packet, its copies and theirs may still make. All of them share
//! one budget.

use p4jet_ir::turns::COPIES_MAX;

/// The budget number of a packet that has created no copy yet.
pub(crate) const NO_BUDGET: u32 = u32::MAX;
/// The divisor of a budget for the part that a copy takes along to another worker while others still hold the budget:
/// each worker counts for itself.
const TAKEN_ALONG: u32 = 32;

struct Budget {
    left: u32,
    /// Number of packets and copies that share it.
    holders: u32,
}

/// The budgets of one worker's packets.
#[derive(Default)]
pub(crate) struct Budgets {
    all: Vec<Budget>,
    unused: Vec<u32>,
}

impl Budgets {
    /// Creates a budget with one holder and returns its number.
    pub fn open(&mut self, left: u32) -> u32 {
        let budget = Budget { left, holders: 1 };
        match self.unused.pop() {
            Some(index) => {
                self.all[index as usize] = budget;
                index
            }
            None => {
                self.all.push(budget);
                self.all.len() as u32 - 1
            }
        }
    }

    /// Charges a holder for a copy, which becomes a holder, too. Returns false if the budget is used up.
    pub fn charge(&mut self, budget: &mut u32) -> bool {
        if *budget == NO_BUDGET {
            *budget = self.open(COPIES_MAX as u32);
        }
        let budget = &mut self.all[*budget as usize];
        let Some(left) = budget.left.checked_sub(1) else { return false };
        budget.left = left;
        budget.holders += 1;
        true
    }

    /// Adds a holder that makes no copies.
    pub fn hold(&mut self, budget: u32) {
        self.all[budget as usize].holders += 1;
    }

    /// True if a budget has one holder only.
    pub fn has_one_holder(&self, budget: u32) -> bool {
        self.all[budget as usize].holders == 1
    }

    /// Removes a holder that has ended.
    pub fn release(&mut self, budget: u32) {
        let Some(found) = self.all.get_mut(budget as usize) else { return };
        found.holders -= 1;
        if found.holders == 0 {
            self.unused.push(budget);
        }
    }

    /// Removes a holder that goes to another worker. Returns the number of copies that it takes along.
    pub fn take_along(&mut self, budget: u32) -> u32 {
        let Budget { left, holders } = &mut self.all[budget as usize];
        let taken = if *holders == 1 { *left } else { *left / TAKEN_ALONG };
        *left -= taken;
        self.release(budget);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_and_copies_share_one_budget() {
        let mut budgets = Budgets::default();
        let mut first = NO_BUDGET;
        for _ in 0..COPIES_MAX {
            assert!(budgets.charge(&mut first));
        }
        let mut copy = first;
        assert!(!budgets.charge(&mut first) && !budgets.charge(&mut copy));
        (0..=COPIES_MAX).for_each(|_| budgets.release(first));
        budgets.release(NO_BUDGET);
        let mut next = NO_BUDGET;
        assert!(budgets.charge(&mut next));
        assert_eq!((next, budgets.all.len()), (first, 1), "it is used again");
    }

    #[test]
    fn packets_for_another_worker_leave_this_one() {
        let mut budgets = Budgets::default();
        let budget = budgets.open(100);
        assert!(budgets.charge(&mut { budget }));
        assert_eq!(budgets.take_along(budget), 99 / TAKEN_ALONG);
        assert_eq!(budgets.take_along(budget), 99 - 99 / TAKEN_ALONG, "the last takes the rest");
        assert_eq!(budgets.unused, [budget]);
    }
}
