//! If memory runs out in the middle of a batch, or if p4jet itself fails, only that batch fails.

use crate::error::{CommandError, INTERNAL, NO_MEMORY, count};
use p4jet_tables::NoMemory;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Memory that must be free for a file of commands, however short it is.
const FREE_BYTES_MIN: usize = 1 << 20;
/// The same for each of its lines: what it becomes when it is read, and what its entry takes in a table.
const FREE_BYTES_PER_LINE: usize = 1 << 10;
/// The same for each byte of its text.
const FREE_BYTES_PER_BYTE: usize = 8;
/// The same for each entry that tables have already: indices that grow are copied.
const FREE_BYTES_PER_ENTRY: usize = 128;

/// Runs a function. A panic in it becomes an error; the caller undoes what the function has done.
pub fn guarded<T, E: From<CommandError>>(act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| Err(failed(&*panic).into()))
}

fn failed(panic: &(dyn Any + Send)) -> CommandError {
    if let Some(NoMemory(why)) = panic.downcast_ref::<NoMemory>() {
        return CommandError::new(format!("no memory: {why}")).code(NO_MEMORY);
    }
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
    CommandError::new(format!("the command failed by a bug of p4jet: {text}")).code(INTERNAL)
}

/// Refuses a file of commands for which there is not enough memory. Where the heap refuses memory the process ends, so this
/// must be known before the file changes anything.
pub fn require_memory(text: &str, entries: usize) -> Result<(), CommandError> {
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let bytes = FREE_BYTES_MIN
        + FREE_BYTES_PER_LINE.saturating_mul(lines)
        + FREE_BYTES_PER_BYTE.saturating_mul(text.len())
        + FREE_BYTES_PER_ENTRY.saturating_mul(entries);
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(bytes).map_err(|_| {
        let mib = bytes.div_ceil(1 << 20);
        CommandError::new(format!(
            "no memory: {lines} lines may need {mib} MiB, which the system refuses (see ulimit -v); \
             use smaller files"
        ))
        .code(NO_MEMORY)
    })
}

/// Refuses `updates` updates for which there is not enough memory, as [`require_memory`] refuses a file of commands.
pub(crate) fn require_memory_for_updates(updates: usize, entries: usize) -> Result<(), CommandError> {
    let bytes = FREE_BYTES_MIN
        .saturating_add(FREE_BYTES_PER_LINE.saturating_mul(updates))
        .saturating_add(FREE_BYTES_PER_ENTRY.saturating_mul(entries));
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(bytes).map_err(|_| {
        let (updates, mib) = (count(updates, "update"), bytes.div_ceil(1 << 20));
        CommandError::new(format!(
            "no memory: {updates} may need {mib} MiB, which the system refuses (see ulimit -v); \
             use smaller batches"
        ))
        .code(NO_MEMORY)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_command() {
        let error = guarded::<(), CommandError>(|| panic!("the {}th entry", 7)).unwrap_err();
        assert!(error.message.contains("a bug of p4jet: the 7th entry"), "{error}");
        let error =
            guarded::<(), CommandError>(|| NoMemory::raise(12_345, &std::io::Error::from_raw_os_error(12)))
                .unwrap_err();
        assert!(error.message.starts_with("no memory: ") && error.message.contains("12345"), "{error}");
        assert_eq!(guarded(|| Ok::<_, CommandError>(1)).ok(), Some(1));
    }

    #[test]
    fn what_cannot_fit_is_refused() {
        assert!(require_memory("table_add", 10).is_ok());
        assert!(require_memory("table_add", usize::MAX / 256).is_err());
    }
}
