//! The memory of a program's machine code.

use cranelift_jit::{BranchProtection, JITMemoryKind, JITMemoryProvider, SystemMemoryProvider};
use cranelift_module::ModuleResult;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Memory for a far call of one relocation: processors whose calls are short get some.
const FAR_CALL_BYTES: usize = if cfg!(target_arch = "aarch64") { 32 } else { 0 };

/// The size of the region, which is known when all functions are compiled.
#[derive(Clone, Default)]
pub struct RegionSize(Arc<AtomicUsize>);

impl RegionSize {
    /// Adds a function. All must be added before the first is defined.
    pub fn add(&self, bytes: usize, align: usize, relocations: usize) {
        self.0.fetch_add(bytes + align + relocations * FAR_CALL_BYTES, Ordering::Relaxed);
    }
}

/// One region for all functions of a module: they call each other with 32-bit offsets, so they must be within 2 GiB. Cranelift's own
/// provider asks the system for memory again and again, and gigabytes of tables may lie between the pieces.
pub struct Region {
    system: SystemMemoryProvider,
    size: RegionSize,
    /// The part that no function has taken.
    free: AtomicPtr<u8>,
    free_bytes: usize,
}

impl Region {
    /// A region of a size that is known when it first allocates.
    pub fn new(size: RegionSize) -> Region {
        Region {
            system: SystemMemoryProvider::new(),
            size,
            free: AtomicPtr::new(ptr::null_mut()),
            free_bytes: 0,
        }
    }
}

impl JITMemoryProvider for Region {
    fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
        if !matches!(kind, JITMemoryKind::Executable) {
            return self.system.allocate(size, align, kind);
        }
        let free = self.free.get_mut();
        if free.is_null() {
            self.free_bytes = self.size.0.load(Ordering::Relaxed);
            *free = self.system.allocate(self.free_bytes, align, kind)?;
        }
        let skipped = free.align_offset(usize::try_from(align).map_err(io::Error::other)?);
        let taken = skipped.checked_add(size).filter(|taken| *taken <= self.free_bytes);
        let taken = taken.ok_or_else(|| io::Error::other("bug in p4jet: more code than was announced"))?;
        self.free_bytes -= taken;
        let function = free.wrapping_add(skipped);
        *free = free.wrapping_add(taken);
        Ok(function)
    }

    unsafe fn free_memory(&mut self) {
        // SAFETY: the caller no longer runs the code.
        unsafe { self.system.free_memory() };
    }

    fn finalize(&mut self, protection: BranchProtection) -> ModuleResult<()> {
        self.system.finalize(protection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the system place small and large pieces of memory far from each other.
    struct Apart(*mut libc::c_void);

    const PAGE: usize = 4096;
    const APART_BYTES: usize = 5 << 30;

    impl Apart {
        fn new() -> Apart {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: new memory, of which only pages that nothing uses are unmapped.
            unsafe {
                let all = libc::mmap(ptr::null_mut(), APART_BYTES, libc::PROT_NONE, flags, -1, 0);
                assert_ne!(all, libc::MAP_FAILED);
                for hole in 1..200 {
                    assert_eq!(libc::munmap(all.byte_add(APART_BYTES - 2 * hole * PAGE), PAGE), 0);
                }
                Apart(all)
            }
        }
    }

    impl Drop for Apart {
        fn drop(&mut self) {
            // Only the part without holes: others may have memory in these.
            // SAFETY: nothing uses this memory.
            unsafe { libc::munmap(self.0, APART_BYTES - 400 * PAGE) };
        }
    }

    #[test]
    fn all_functions_are_within_reach() {
        let _apart = Apart::new();
        let size = RegionSize::default();
        let functions = [(4, 16), (20_000, 16), (100, 64), (3 << 20, 32)];
        functions.iter().for_each(|(bytes, align)| size.add(*bytes, *align, 0));
        let mut region = Region::new(size);
        let mut end = 0;
        for (bytes, align) in functions {
            let at = region.allocate(bytes, align as u64, JITMemoryKind::Executable).unwrap().addr();
            assert!(at % align == 0 && (end == 0 || (end..end + 64).contains(&at)), "{at:x} after {end:x}");
            end = at + bytes;
        }
        assert!(region.allocate(1 << 20, 16, JITMemoryKind::Executable).is_err());
        // SAFETY: nothing runs there.
        unsafe { region.free_memory() };
    }
}
