//! The context that generated code reads, and the functions that it calls where inlining does not pay.
#![allow(unsafe_code)]

use crate::copies::{Copies, CopyLayout, Making};
use num_bigint::BigUint;
use p4jet_externs::{CallSite, Env};
use p4jet_packet::Packet;
use p4jet_tables::View;

/// The argument of a stage: the state of one worker that generated code uses.
#[repr(C)]
pub struct Ctx {
    /// The current view of each table.
    pub views: *const *const View,
    /// The PHVs of a batch.
    pub phv: *mut u8,
    /// Microseconds since the process started.
    pub now_us: u64,
    /// For each stage, the numbers of the packets that wait for it.
    pub queues: *const *mut u32,
    /// For each stage, the number of packets that wait for it.
    pub counts: *mut u64,
    /// The rows of the packets that wait for the stage, if the engine looked up their keys in one call.
    pub rows: *mut u32,
    /// The words of the selected members, if the engine selected them in one call.
    pub selected: *const *const u64,
    /// The cells of each remembered lookup.
    pub memos: *const *mut u64,
    /// For each remembered lookup, the bits above the row in cells that are still valid.
    pub ages: *const u64,
    /// Cells of each register instance (null for others).
    pub registers: *const *mut u64,
    /// This worker's cells of each counter instance: packets and bytes (null for others).
    pub counters: *const *mut u64,
    /// The tallies of tables and drops, if the code counts them ([`p4jet_ir::tallies::Tallies::cells`]).
    pub tallies: *mut u64,
    /// The scratch memory in which deparsers assemble headers.
    pub scratch: *mut u8,
    /// The environment of extern functions.
    pub env: *mut Env<'static>,
    /// The call sites of extern functions.
    pub sites: *const CallSite,
    /// The batch.
    pub packets: *const Packet,
    /// 1 if the batch consists of copies, whose PHVs begin with their images.
    pub of_copies: u64,
    /// The layout of copies.
    pub copy_layout: *const CopyLayout,
    /// The copies that wait.
    pub copies: *mut Copies,
    /// The packet that is being processed, stored by the code of a program with loops.
    pub packet: *const Packet,
}

/// Operations on more than 64 bits that are not inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum WideOp {
    Mul,
    DivU,
    RemU,
    SatAddU,
    SatSubU,
    SatAddS,
    SatSubS,
    Shl,
    ShrU,
    ShrS,
}

const WIDE_OPS: [WideOp; 10] = [
    WideOp::Mul,
    WideOp::DivU,
    WideOp::RemU,
    WideOp::SatAddU,
    WideOp::SatSubU,
    WideOp::SatAddS,
    WideOp::SatSubS,
    WideOp::Shl,
    WideOp::ShrU,
    WideOp::ShrS,
];

fn to_big(limbs: &[u64]) -> BigUint {
    let digits: Vec<u32> = limbs.iter().flat_map(|&l| [l as u32, (l >> 32) as u32]).collect();
    BigUint::new(digits)
}

/// The meaning of a wide operation.
pub fn wide_op(op: WideOp, width: u32, a: &[u64], b: &[u64]) -> BigUint {
    let modulus = BigUint::from(1u32) << width;
    let (x, y) = (to_big(a), to_big(b));
    let zero = BigUint::default;
    let negative = |v: &BigUint| v.bit(u64::from(width) - 1);
    match op {
        WideOp::Mul => x * y % &modulus,
        WideOp::DivU => num_traits::CheckedDiv::checked_div(&x, &y).unwrap_or_else(zero),
        WideOp::RemU => {
            if y == zero() {
                y
            } else {
                x % y
            }
        }
        WideOp::SatAddU => (x + y).min(modulus - 1u32),
        WideOp::SatSubU => {
            if x < y {
                zero()
            } else {
                x - y
            }
        }
        WideOp::SatAddS | WideOp::SatSubS => {
            let y_effective = if op == WideOp::SatAddS { y.clone() } else { (&modulus - &y) % &modulus };
            let sum = (&x + y_effective) % &modulus;
            let (sx, ss) = (negative(&x), negative(&sum));
            let same = if op == WideOp::SatAddS { sx == negative(&y) } else { sx != negative(&y) };
            if same && ss != sx {
                let least = BigUint::from(1u32) << (width - 1);
                if sx { least } else { least - 1u32 }
            } else {
                sum
            }
        }
        WideOp::Shl | WideOp::ShrU | WideOp::ShrS => {
            let count = b[0].min(u64::from(width));
            match op {
                WideOp::Shl => (x << count) % &modulus,
                WideOp::ShrU => x >> count,
                _ if negative(&x) => {
                    let ones = &modulus - 1u32;
                    (x >> count) | (&ones - (ones.clone() >> count))
                }
                _ => x >> count,
            }
        }
    }
}

/// # Safety
/// `a`, `b` and `out` point to as many limbs as `width` takes (`b` to one for shifts); `op` is a [`WideOp`].
pub unsafe extern "C" fn wide(op: u64, width: u64, a: *const u64, b: *const u64, out: *mut u64) {
    let op = WIDE_OPS[op as usize];
    let limbs = (width as usize).div_ceil(64);
    let b_limbs = if matches!(op, WideOp::Shl | WideOp::ShrU | WideOp::ShrS) { 1 } else { limbs };
    // SAFETY: as the caller promises.
    let (a, b, out) = unsafe {
        (
            std::slice::from_raw_parts(a, limbs),
            std::slice::from_raw_parts(b, b_limbs),
            std::slice::from_raw_parts_mut(out, limbs),
        )
    };
    let digits = wide_op(op, width as u32, a, b).to_u64_digits();
    for (i, limb) in out.iter_mut().enumerate() {
        *limb = digits.get(i).copied().unwrap_or(0);
    }
}

/// Reads `bits` bits that begin `at` bits after `base` as a number.
///
/// # Safety
/// The bits lie inside readable memory; `out` points to `limbs` limbs, enough for them.
pub unsafe extern "C" fn read_bits(base: *const u8, at: u64, bits: u64, out: *mut u64, limbs: u64) {
    // SAFETY: as the caller promises.
    let out = unsafe { std::slice::from_raw_parts_mut(out, limbs as usize) };
    out.fill(0);
    for i in 0..bits {
        let bit = at + i;
        // SAFETY: as the caller promises.
        let byte = unsafe { *base.add((bit / 8) as usize) };
        let value = u64::from(byte >> (7 - bit % 8) & 1);
        let to = bits - 1 - i;
        out[(to / 64) as usize] |= value << (to % 64);
    }
}

/// Writes the low `bits` bits of a number, beginning `at` bits after `base`.
///
/// # Safety
/// The bits lie inside writable memory; `value` points to enough limbs for them.
pub unsafe extern "C" fn write_bits(base: *mut u8, at: u64, bits: u64, value: *const u64) {
    for i in 0..bits {
        let from = bits - 1 - i;
        // SAFETY: as the caller promises.
        let limb = unsafe { *value.add((from / 64) as usize) };
        let bit = at + i;
        let mask = 0x80 >> (bit % 8);
        // SAFETY: as the caller promises.
        let byte = unsafe { &mut *base.add((bit / 8) as usize) };
        if limb >> (from % 64) & 1 == 1 {
            *byte |= mask;
        } else {
            *byte &= !mask;
        }
    }
}

/// # Safety
/// Both runs of `bytes` bytes are valid and do not overlap.
pub unsafe extern "C" fn copy(to: *mut u8, from: *const u8, bytes: u64) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes as usize) };
}

/// Puts `length` bytes of `scratch` in place of the first `parsed` bytes of a frame. The payload stays where it is.
///
/// # Safety
/// `packet` is a packet of the running batch with enough headroom for the growth.
pub unsafe extern "C" fn replace(packet: *mut Packet, scratch: *const u8, length: u64, parsed: u64) {
    // SAFETY: the packet belongs to the running batch; the engine checked the headroom against what the program can emit.
    unsafe {
        let packet = &mut *packet;
        let start = packet.data.add(parsed as usize).sub(length as usize);
        std::ptr::copy_nonoverlapping(scratch, start, length as usize);
        packet.data = start;
        packet.len = packet.len - parsed as u32 + length as u32;
    }
}

/// Calls an extern function. `sizes` is the number of argument limbs, and of result limbs above bit 32. Gives 1 if the
/// packet must be dropped (a failed assertion).
///
/// # Safety
/// `ctx` is the running worker's; `site` is the index of one of its call sites; the pointers are valid for `sizes`.
pub unsafe extern "C" fn call_extern(
    ctx: *mut Ctx,
    site: u64,
    args: *const u64,
    outs: *mut u64,
    sizes: u64,
    packet: *const Packet,
    cursor: u64,
) -> u64 {
    // SAFETY: as the caller promises; env was set by the engine for this run, and nothing else uses it meanwhile.
    unsafe {
        let site = &*(*ctx).sites.add(site as usize);
        let args = std::slice::from_raw_parts(args, (sizes & 0xffff_ffff) as usize);
        let outs = std::slice::from_raw_parts_mut(outs, (sizes >> 32) as usize);
        let packet = &*packet;
        let env = &mut *(*ctx).env;
        env.set_packet(
            packet.data.add(cursor as usize),
            (packet.len as usize).saturating_sub(cursor as usize),
            packet.len,
        );
        site.call(env, args, outs);
        u64::from(env.take_failed())
    }
}

/// Makes the copies of a statement. `cursor` is 0 unless they keep it; `id` selects the replicas.
///
/// # Safety
/// `ctx` is the running worker's; `site` is the index of one of its copy sites; `image` has the limbs that its layout
/// says; `packet` is one of the running batch.
pub unsafe extern "C" fn make_copies(
    ctx: *mut Ctx,
    site: u64,
    image: *const u64,
    packet: *const Packet,
    cursor: u64,
    id: u64,
) {
    // SAFETY: as the caller promises.
    unsafe { make(ctx, site, image, packet, cursor, id, None) }
}

/// Like [`make_copies`]; the copies wait in queue `number` of `port`, unless replicas have their own queues.
///
/// # Safety
/// The conditions of [`make_copies`].
pub unsafe extern "C" fn make_queued_copies(
    ctx: *mut Ctx,
    site: u64,
    image: *const u64,
    packet: *const Packet,
    cursor: u64,
    id: u64,
    port: u64,
    number: u64,
) {
    // SAFETY: as the caller promises.
    unsafe { make(ctx, site, image, packet, cursor, id, Some((port, number))) }
}

/// # Safety
/// The conditions of [`make_copies`].
unsafe fn make(
    ctx: *mut Ctx,
    site: u64,
    image: *const u64,
    packet: *const Packet,
    cursor: u64,
    id: u64,
    queue: Option<(u64, u64)>,
) {
    // SAFETY: as the caller promises; nothing else uses the copies and the environment while generated code runs.
    unsafe {
        let ctx = &*ctx;
        let layout = &*ctx.copy_layout;
        let image = std::slice::from_raw_parts(image, layout.image_limbs);
        let maker = packet.offset_from(ctx.packets) as usize;
        let packet = &*packet;
        let making = Making { layout, site: site as usize, image, packet, maker, cursor, id, queue };
        (*ctx.copies).make(making, (*ctx.env).destinations());
    }
}
