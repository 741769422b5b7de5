//! Changes between packets.

/// Maximum number of cells that are set while packets wait, unless one update sets more.
const HELD_CELLS_MAX: u64 = 256;

/// Calls `run` for each item in order, until one fails. Items that must not fall between two steps of a packet run inside `hold`, which
/// calls its argument once while no packets are processed. One hold covers several such items, because it costs more than they do:
/// up to [`HELD_CELLS_MAX`] cells. `held_cells` is the number of cells that such an item sets; 0 for other items.
///
/// # Errors
///
/// That of the item that failed.
pub fn each_held<T, E>(
    items: impl Iterator<Item = T>,
    held_cells: impl Fn(&T) -> u64,
    mut hold: impl FnMut(&mut dyn FnMut()),
    mut run: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let mut items = items.peekable();
    let mut done = Ok(());
    while done.is_ok()
        && let Some(next) = items.next()
    {
        if held_cells(&next) == 0 {
            done = run(next);
            continue;
        }
        let (mut first, mut cells) = (Some(next), 0);
        hold(&mut || {
            while done.is_ok() {
                let fits = |item: &T| held_cells(item) > 0 && cells + held_cells(item) <= HELD_CELLS_MAX;
                let Some(item) = first.take().or_else(|| items.next_if(fits)) else { return };
                cells += held_cells(&item);
                done = run(item);
            }
        });
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_holds_cover_many_items_in_order() {
        let (mut holds, mut seen) = (Vec::new(), Vec::new());
        // 600 that wait, one that does not, and two that wait.
        let items = (0..603).map(|item| (item, u64::from(item != 600)));
        let mut count = 0;
        let hold = |change: &mut dyn FnMut()| {
            change();
            holds.push(());
        };
        let done = each_held(
            items,
            |(_, held)| *held,
            hold,
            |(item, _)| {
                seen.push(item);
                count += 1;
                Ok::<(), ()>(())
            },
        );
        assert_eq!((done, count, holds.len()), (Ok(()), 603, 4));
        assert!(seen.iter().copied().eq(0..603));
    }

    #[test]
    fn large_items_have_holds_of_their_own() {
        let mut holds = 0;
        let hold = |change: &mut dyn FnMut()| {
            change();
            holds += 1;
        };
        let cells = [1 << 24, 1 << 24, 200, 56, 1];
        assert_eq!(each_held(cells.into_iter(), |cells| *cells, hold, |_| Ok::<(), ()>(())), Ok(()));
        assert_eq!(holds, 4);
    }

    #[test]
    fn the_first_failure_ends_it() {
        let mut seen = Vec::new();
        let run = |item: u32| {
            seen.push(item);
            if item == 3 { Err("three") } else { Ok(()) }
        };
        assert_eq!(each_held(0..9, |_| 1, |change| change(), run), Err("three"));
        assert_eq!(seen, [0, 1, 2, 3]);
    }
}
