//! The XDP program that hands an interface's frames to AF_XDP sockets: six instructions, loaded and attached with
//! bpf(2) directly, so that nothing has to be compiled for another machine and no C library is needed.

// Reason: a system call on C structures.
#![allow(unsafe_code)]

use crate::interface::owned;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// linux/bpf.h: commands, kinds and flags.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const LINK_DETACH: libc::c_long = 34;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
const PROG_HAS_FRAGS: u32 = 1 << 5;
/// linux/if_link.h.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// One instruction: code, registers (destination in the low half), offset, immediate.
#[derive(Clone, Copy)]
#[repr(C)]
struct Instruction(u8, u8, i16, i32);

/// Where the kernel runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In the driver, before the kernel creates a packet for the frame.
    Native,
    /// After that: any driver, but slower. Native mode was refused with this error.
    Generic(i32),
}

/// The program on an interface. It is removed when this is dropped or the process ends for any reason.
#[derive(Debug)]
pub(crate) struct Program {
    map: OwnedFd,
    link: OwnedFd,
    pub(crate) mode: Mode,
}

impl Program {
    /// Attaches the program to the interface with number `index`, which has receive queues 0 to `queues` - 1. Until
    /// sockets are added, all frames continue to the kernel.
    pub(crate) fn attach(index: u32, queues: u32) -> io::Result<Program> {
        let map = create_map(queues)?;
        // Kernels before 5.18 do not support frames in several pieces; they refuse the flag.
        let program = load(&map, PROG_HAS_FRAGS).or_else(|_| load(&map, 0))?;
        match create_link(&program, index, XDP_FLAGS_DRV_MODE) {
            Ok(link) => Ok(Program { map, link, mode: Mode::Native }),
            Err(error) => match error.raw_os_error() {
                Some(libc::EBUSY | libc::EEXIST | libc::EPERM | libc::ENODEV) | None => Err(error),
                Some(code) => {
                    let link = create_link(&program, index, XDP_FLAGS_SKB_MODE)?;
                    Ok(Program { map, link, mode: Mode::Generic(code) })
                }
            },
        }
    }

    /// Makes `socket` receive what arrives on `queue`.
    pub(crate) fn add(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        #[repr(C)]
        struct Update {
            map: u32,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let value = socket.as_raw_fd() as u32;
        let update = Update {
            map: self.map.as_raw_fd() as u32,
            padding: 0,
            key: std::ptr::from_ref(&queue) as u64,
            value: std::ptr::from_ref(&value) as u64,
            flags: 0,
        };
        // SAFETY: key and value have the sizes with which the map was created, and outlive the call.
        unsafe { bpf(MAP_UPDATE_ELEM, &update) }.map(drop)
    }
}

impl Drop for Program {
    /// Detaches the program at once. Closing the link alone would leave it attached for as long as a child of this
    /// process that has not yet called exec(2) holds the descriptor.
    fn drop(&mut self) {
        let link = self.link.as_raw_fd();
        // SAFETY: no pointers. Kernels before 5.9 refuse the command; for these, closing the link must suffice.
        let _ = unsafe { bpf(LINK_DETACH, &link) };
    }
}

fn create_map(entries: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        kind: u32,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
        flags: u32,
    }
    let create = Create { kind: MAP_TYPE_XSKMAP, key_bytes: 4, value_bytes: 4, entries, flags: 0 };
    // SAFETY: no pointers.
    unsafe { bpf(MAP_CREATE, &create) }.and_then(|fd| owned(fd as i32))
}

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`: to the socket of the queue, or to the kernel if
/// there is none.
fn load(map: &OwnedFd, flags: u32) -> io::Result<OwnedFd> {
    const LOAD_32: u8 = 0x61;
    const LOAD_IMMEDIATE_64: u8 = 0x18;
    const MOVE_IMMEDIATE_64: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    /// Value of the source register field if the immediate is the descriptor of a map.
    const PSEUDO_MAP_FD: u8 = 1 << 4;
    const CONTEXT_RX_QUEUE_INDEX: i16 = 16;
    const XDP_PASS: i32 = 2;
    const FUNCTION_REDIRECT_MAP: i32 = 51;
    let program = [
        Instruction(LOAD_32, 2 | 1 << 4, CONTEXT_RX_QUEUE_INDEX, 0),
        Instruction(LOAD_IMMEDIATE_64, 1 | PSEUDO_MAP_FD, 0, map.as_raw_fd()),
        Instruction(0, 0, 0, 0),
        Instruction(MOVE_IMMEDIATE_64, 3, 0, XDP_PASS),
        Instruction(CALL, 0, 0, FUNCTION_REDIRECT_MAP),
        Instruction(EXIT, 0, 0, 0),
    ];
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_bytes: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        attach_type: u32,
    }
    let load = Load {
        kind: PROG_TYPE_XDP,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        // It calls nothing that requires a particular license.
        license: c"".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags,
        name: *b"p4jet\0\0\0\0\0\0\0\0\0\0\0",
        interface: 0,
        attach_type: ATTACH_TYPE_XDP,
    };
    // SAFETY: the pointers lead to this many instructions and to a string that ends in 0; both outlive the call.
    unsafe { bpf(PROG_LOAD, &load) }.and_then(|fd| owned(fd as i32))
}

fn create_link(program: &OwnedFd, index: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Link {
        program: u32,
        interface: u32,
        attach_type: u32,
        flags: u32,
    }
    let link =
        Link { program: program.as_raw_fd() as u32, interface: index, attach_type: ATTACH_TYPE_XDP, flags };
    // SAFETY: no pointers.
    unsafe { bpf(LINK_CREATE, &link) }.and_then(|fd| owned(fd as i32))
}

/// # Safety
///
/// `attributes` is the part of `union bpf_attr` that `command` reads; pointers in it are valid until this returns.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: pointer and length describe `attributes`, which these commands do not write.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            mem::size_of::<T>() as libc::c_long,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
