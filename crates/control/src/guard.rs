//! If memory runs out in the middle of a batch, or if p4jet itself fails, only that batch fails.

use crate::error::{ControlError, INTERNAL, NO_MEMORY, count};
use crate::update::Update;
use p4jet_tables::NoMemory;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that must be free for any file of commands.
const FREE_BYTES_MIN: usize = 1 << 20;
/// Memory for each of its lines: the parsed command and the entry in a table.
const FREE_BYTES_PER_LINE: usize = 1 << 10;
/// Memory for each byte of its text.
const FREE_BYTES_PER_BYTE: usize = 8;
/// Memory for each entry that tables have already, because growing indices are copied.
const FREE_BYTES_PER_ENTRY: usize = 128;

/// Runs a function. A panic in it becomes an error; the caller undoes what the function has done.
pub fn guarded<T, E: From<ControlError>>(act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| Err(failed(&*panic).into()))
}

fn failed(panic: &(dyn Any + Send)) -> ControlError {
    if let Some(NoMemory(why)) = panic.downcast_ref::<NoMemory>() {
        return ControlError::new(format!("no memory: {why}")).code(NO_MEMORY);
    }
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
    ControlError::new(format!("the command failed by a bug of p4jet: {text}")).code(INTERNAL)
}

/// Memory that commands in progress may take.
static CLAIMED: AtomicUsize = AtomicUsize::new(0);

/// Memory that a command may take, from the check that the system has it to the end of the command. Where the heap refuses memory
/// the process ends, so this must be known before the command changes anything. Claims add up: commands that run side by side do
/// not count on the same memory.
#[derive(Debug)]
pub struct MemoryClaim(usize);

impl MemoryClaim {
    /// Claims memory for `what`.
    ///
    /// # Errors
    ///
    /// [`NO_MEMORY`] if the system refuses this memory beside all other claims.
    pub fn new(bytes: usize, what: impl FnOnce() -> String) -> Result<MemoryClaim, ControlError> {
        if bytes == 0 {
            return Ok(MemoryClaim(0));
        }
        let with_others = |others: usize| {
            let all = others.checked_add(bytes)?;
            p4jet_threads::check_mappable(all).is_ok().then_some(all)
        };
        CLAIMED.fetch_update(Ordering::AcqRel, Ordering::Acquire, with_others).map_err(|_| {
            let mib = bytes.div_ceil(1 << 20);
            let what = what();
            ControlError::new(format!(
                "no memory: {what} may need {mib} MiB, which the system refuses (see ulimit -v)"
            ))
            .code(NO_MEMORY)
        })?;
        Ok(MemoryClaim(bytes))
    }

    /// The claimed number of bytes.
    pub fn bytes(&self) -> usize {
        self.0
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        CLAIMED.fetch_sub(self.0, Ordering::AcqRel);
    }
}

/// Claims memory for a file of commands.
pub fn claim_for_lines(text: &str, entries: usize) -> Result<MemoryClaim, ControlError> {
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let bytes = FREE_BYTES_MIN
        .saturating_add(FREE_BYTES_PER_LINE.saturating_mul(lines))
        .saturating_add(FREE_BYTES_PER_BYTE.saturating_mul(text.len()))
        .saturating_add(FREE_BYTES_PER_ENTRY.saturating_mul(entries));
    MemoryClaim::new(bytes, || count(lines, "line"))
}

/// Claims memory for updates of a batch.
pub(crate) fn claim_for_updates(updates: usize, entries: usize) -> Result<MemoryClaim, ControlError> {
    let bytes = FREE_BYTES_MIN
        .saturating_add(FREE_BYTES_PER_LINE.saturating_mul(updates))
        .saturating_add(FREE_BYTES_PER_ENTRY.saturating_mul(entries));
    MemoryClaim::new(bytes, || count(updates, "update"))
}

/// Claims memory for the list of a group, which is replaced. Short lists are counted with their updates.
pub(crate) fn claim_for_places(update: &Update) -> Result<Option<MemoryClaim>, ControlError> {
    let Update::SetGroup { members, .. } = update else { return Ok(None) };
    let places: usize = members.iter().map(|share| share.weight as usize).sum();
    // The list grows in steps of two.
    let bytes = 2 * size_of::<u32>() * places;
    (bytes > FREE_BYTES_PER_LINE / 2)
        .then(|| MemoryClaim::new(bytes, || format!("a group of weight {places}")))
        .transpose()
}

/// Claims memory to undo a change.
pub(crate) fn claim_for_undo(bytes: usize) -> Result<Option<MemoryClaim>, ControlError> {
    (bytes > 0)
        .then(|| MemoryClaim::new(bytes, || "the former state, to undo this change,".into()))
        .transpose()
}

/// Memory of a small block on the heap, with what the allocator adds.
pub(crate) const HEAP_BLOCK_BYTES: usize = 32;

/// Values for which [`collect_claimed`] claims memory first; later claims double the number.
const COLLECTED_MIN: usize = 1024;

/// Collects values to undo a change, of which there may be millions. Memory for them is claimed in steps. `heap_bytes` is what a
/// value takes on the heap.
pub(crate) fn collect_claimed<T>(
    values: impl Iterator<Item = T>,
    heap_bytes: usize,
) -> Result<Vec<T>, ControlError> {
    let mut all = Vec::new();
    let mut memory = None;
    for value in values {
        if all.len() == all.capacity() {
            let more = all.len().max(COLLECTED_MIN);
            // The list may move when it grows.
            let bytes = (all.len() + more) * size_of::<T>() + more * heap_bytes;
            // The memory of the step before is no claim any more: it is taken.
            drop(memory.take());
            memory = Some(claim_for_undo(bytes)?);
            all.reserve_exact(more);
        }
        all.push(value);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_command() {
        let error = guarded::<(), ControlError>(|| panic!("the {}th entry", 7)).unwrap_err();
        assert!(error.message.contains("a bug of p4jet: the 7th entry"), "{error}");
        let error =
            guarded::<(), ControlError>(|| NoMemory::raise(12_345, &std::io::Error::from_raw_os_error(12)))
                .unwrap_err();
        assert!(error.message.starts_with("no memory: ") && error.message.contains("12345"), "{error}");
        assert_eq!(guarded(|| Ok::<_, ControlError>(1)).ok(), Some(1));
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        assert_eq!(collect_claimed(0..5000, 0), Ok((0..5000).collect::<Vec<_>>()));
        let error = collect_claimed(0..5000, 1 << 50).unwrap_err();
        assert!(error.message.starts_with("no memory: the former state"), "{error}");
        assert_eq!(collect_claimed(std::iter::empty::<u8>(), 1 << 50), Ok(Vec::new()));
    }

    #[test]
    fn what_cannot_fit_is_refused() {
        assert!(claim_for_lines("table_add", 10).is_ok());
        let error = claim_for_lines("table_add", usize::MAX / 256).unwrap_err();
        assert!(error.message.starts_with("no memory: 1 line may need "), "{error}");
    }
}
