//! Finds the place in the program that a thread executes, for a signal handler on that thread: from the interrupted
//! instruction, or from the return address of the function that generated code has called, by the source places that
//! Cranelift keeps.

use crate::Compiled;
use crate::runtime::Ctx;
use p4jet_ir::{Loc, SourceLoc};
use p4jet_packet::Packet;
use std::cell::Cell;

#[derive(Clone, Copy)]
struct Entered {
    ctx: *const Ctx,
    compiled: *const Compiled,
}

thread_local! {
    static ENTERED: Cell<Option<Entered>> = const { Cell::new(None) };
}

/// While this value lives, this thread runs the code with the context.
pub(crate) struct Inside(());

impl Inside {
    /// Both outlive the value; the context lies on this thread's stack.
    pub fn enter(ctx: *const Ctx, compiled: *const Compiled) -> Inside {
        ENTERED.set(Some(Entered { ctx, compiled }));
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        ENTERED.set(None);
    }
}

/// The packet and the source place that generated code is processing.
#[derive(Clone, Copy, Debug)]
pub struct RunningCode {
    /// The number of the packet in the batch; `usize::MAX` if the program has no loop and so cannot get stuck.
    pub packet: usize,
    /// The place in the program's text, valid as long as the code runs.
    pub place: *const SourceLoc,
}

/// The position of this thread's generated code when a signal interrupted the thread; `None` if no generated code was running, or the place
/// is not known. It neither allocates nor locks: a signal handler may call it.
///
/// # Safety
/// `counter` and `stack` are the program counter and the stack pointer that the thread had when it was interrupted, and the
/// thread does not continue before this returns.
pub unsafe fn running_code(counter: usize, stack: usize) -> Option<RunningCode> {
    let entered = ENTERED.get()?;
    // SAFETY: they live as long as `ENTERED` has them.
    let compiled = unsafe { &*entered.compiled };
    // In a function that generated code called, the address to return to is on the stack, below the context.
    let called = (stack.next_multiple_of(8)..entered.ctx as usize).step_by(8).map(|at| {
        // SAFETY: between the stack pointer and a value on the same stack there is only stack.
        unsafe { (at as *const usize).read_volatile() }.wrapping_sub(1)
    });
    let place = std::iter::once(counter).chain(called).find_map(|at| compiled.source_of(at))?;
    // SAFETY: as above; generated code may have written the field.
    let (packet, packets) =
        unsafe { ((&raw const (*entered.ctx).packet).read_volatile(), (*entered.ctx).packets) };
    let bytes = (packet as usize).checked_sub(packets as usize);
    let packet = bytes.map_or(usize::MAX, |bytes| bytes / size_of::<Packet>());
    Some(RunningCode { packet, place })
}

/// The places in the text that the code of a stage comes from.
pub(crate) struct StageSources {
    /// The address of the code.
    pub begin: usize,
    /// The length of the code in bytes.
    pub bytes: usize,
    /// The first byte of each part of the code, and the source place of the part, in order.
    pub places: Vec<(u32, Loc)>,
}

impl Compiled {
    /// The source place of an instruction, or of the last instruction before it that has one.
    fn source_of(&self, address: usize) -> Option<&SourceLoc> {
        let stage = self.sources.iter().find(|s| address.wrapping_sub(s.begin) < s.bytes)?;
        let byte = (address - stage.begin) as u32;
        let behind = stage.places.partition_point(|(from, _)| *from <= byte);
        let (_, loc) = stage.places[..behind].last().or(stage.places.first())?;
        self.locs.get(loc.index())
    }
}
