//! Finds the place in the program where a thread is stuck: a signal interrupts the thread, and its handler looks up
//! the interrupted instruction (`p4jet_jit::running_code`). The packet path only records, in programs with loops,
//! which packet it processes.
#![allow(unsafe_code)]

use p4jet_ir::SourceLoc;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// A signal that is ignored by default, so that a late one does no harm.
const SIGNAL: c_int = libc::SIGURG;
/// Maximum wait for an answer. A thread answers at once unless the system does not schedule it.
const WAIT_MAX: Duration = Duration::from_millis(500);
const FILE_BYTES_MAX: usize = 512;
const UNKNOWN: usize = usize::MAX;

/// The handler's answer. The handler may neither allocate nor lock.
struct Seen {
    /// The interrupted thread.
    thread: AtomicI32,
    is_there: AtomicBool,
    packet: AtomicUsize,
    line: AtomicU32,
    column: AtomicU32,
    file: [AtomicU8; FILE_BYTES_MAX],
    file_bytes: AtomicUsize,
}

static SEEN: Seen = Seen {
    thread: AtomicI32::new(0),
    is_there: AtomicBool::new(false),
    packet: AtomicUsize::new(UNKNOWN),
    line: AtomicU32::new(0),
    column: AtomicU32::new(0),
    file: [const { AtomicU8::new(0) }; FILE_BYTES_MAX],
    file_bytes: AtomicUsize::new(0),
};

/// Held during a look, so that only one is in progress.
static LOOKING: Mutex<()> = Mutex::new(());

thread_local! {
    /// The packet of the batch that this thread interprets.
    static PACKET: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// Records which packet of its batch this thread interprets.
pub(crate) fn interprets(packet: usize) {
    PACKET.set(packet);
}

/// Returns where a thread is: the index of the packet in its batch, and the place in the program's text. `None` if it
/// runs no program.
pub(crate) fn look(thread: i32) -> Option<(Option<usize>, String)> {
    static HANDLED: Once = Once::new();
    let _one = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    HANDLED.call_once(handle);
    SEEN.is_there.store(false, Ordering::SeqCst);
    SEEN.thread.store(thread, Ordering::SeqCst);
    // SAFETY: no pointers. If the thread has ended, the call only returns an error.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
    let start = Instant::now();
    while sent == 0 && !SEEN.is_there.load(Ordering::SeqCst) && start.elapsed() < WAIT_MAX {
        std::thread::sleep(Duration::from_millis(1));
    }
    SEEN.thread.store(0, Ordering::SeqCst);
    if !SEEN.is_there.load(Ordering::SeqCst) || SEEN.line.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let bytes = &SEEN.file[..SEEN.file_bytes.load(Ordering::Relaxed)];
    let bytes: Vec<u8> = bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    let (line, column) = (SEEN.line.load(Ordering::Relaxed), SEEN.column.load(Ordering::Relaxed));
    let packet = Some(SEEN.packet.load(Ordering::Relaxed)).filter(|packet| *packet != UNKNOWN);
    Some((packet, format!("{}:{line}:{column}", String::from_utf8_lossy(&bytes))))
}

fn handle() {
    // SAFETY: an action of zeros is valid; the handler has the three parameters that `SA_SIGINFO` requires.
    // Interrupted system calls are restarted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupted as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn interrupted(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: no pointers.
    if SEEN.thread.load(Ordering::SeqCst) != unsafe { libc::gettid() } {
        return;
    }
    // SAFETY: the kernel passes the handler a valid context.
    let (counter, stack) = registers(unsafe { &*context.cast::<libc::ucontext_t>() });
    // SAFETY: the registers belong to this thread, which continues when this returns.
    let (place, packet) = match unsafe { p4jet_jit::running_code(counter, stack) } {
        Some(there) => (there.place, there.packet),
        None => (p4jet_interp::interpreted(), PACKET.get()),
    };
    // SAFETY: it is null, or points to a place of the program that this thread runs.
    let place: Option<&SourceLoc> = unsafe { place.as_ref() };
    let file = place.map_or("", |place| place.file.as_str()).as_bytes();
    for (to, from) in SEEN.file.iter().zip(file) {
        to.store(*from, Ordering::Relaxed);
    }
    SEEN.file_bytes.store(file.len().min(FILE_BYTES_MAX), Ordering::Relaxed);
    SEEN.line.store(place.map_or(0, |place| place.line), Ordering::Relaxed);
    SEEN.column.store(place.map_or(0, |place| place.column), Ordering::Relaxed);
    SEEN.packet.store(packet, Ordering::Relaxed);
    SEEN.is_there.store(true, Ordering::SeqCst);
}

/// Returns the program counter and the stack pointer.
#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> (usize, usize) {
    let registers = &context.uc_mcontext.gregs;
    (registers[libc::REG_RIP as usize] as usize, registers[libc::REG_RSP as usize] as usize)
}

/// Returns unknown registers: only the interpreter's place can be found.
#[cfg(not(target_arch = "x86_64"))]
fn registers(_: &libc::ucontext_t) -> (usize, usize) {
    (0, usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EngineKind, Switch};
    use p4jet_packet::Batch;
    use std::sync::Arc;

    /// Packets that begin with 1 take all turns, the others none.
    const LOOP: &str = r#"
program "loop"
errors NoError
drop_reasons "loop ran too long"
field h.x: 8 in h
field h.$valid$: 1 valid h
field m.port: 9 metadata
field m.y: 32 metadata
field $turns: 32 temp
header h valid h.$valid$ { h.x }
block "parse" parser {
  n0:
    extract h @loop.p4:3:5
    return
}
block "c" control {
  n0:
    if eq(h.x, 0x1:8) then n1 else n3
  n1:
    m.y = add(mul(m.y, 0x35:32), 0x7:32) @loop.p4:7:9
    goto n2
  n2:
    turn n1 else n3
  n3:
    m.port = m.y[8:0] @loop.p4:9:5
    return
}
ingress "parse", "c"
egress_port m.port
turns $turns
"#;

    #[test]
    fn a_thread_in_a_loop_is_found_at_its_packet_and_place() {
        for engine in [EngineKind::Jit, EngineKind::Interp] {
            let switch = Switch::new(p4jet_ir::text::parse(LOOP).expect("it is IR")).expect("it compiles");
            let ended = Arc::new(AtomicBool::new(false));
            let (sender, events) = std::sync::mpsc::channel();
            let thread = std::thread::spawn({
                let ended = Arc::clone(&ended);
                move || {
                    let mut worker = switch.worker(engine, 0).expect("it is free");
                    let mut pool = worker.pool(2048, 64).expect("there is memory");
                    // SAFETY: no pointers.
                    sender.send(unsafe { libc::gettid() }).expect("the test waits");
                    while !ended.load(Ordering::Relaxed) {
                        let mut batch = Batch::new();
                        for first in [0, 0, 1, 0] {
                            batch.push(&mut pool, 0, &[first; 60]).expect("it has room");
                        }
                        worker.process(&mut pool, &mut batch);
                    }
                }
            });
            let id = events.recv().expect("the thread sends its number");
            let deadline = Instant::now() + Duration::from_secs(60);
            let found = loop {
                if let Some((Some(packet), place)) = look(id)
                    && place == "loop.p4:7:9"
                {
                    break packet;
                }
                assert!(Instant::now() < deadline, "{engine:?}: it is never seen in its loop");
            };
            assert_eq!(found, 2, "{engine:?}");
            ended.store(true, Ordering::Relaxed);
            thread.join().expect("it ends");
        }
    }
}
