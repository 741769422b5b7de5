//! Emits machine code for the flat pipeline.
//!
//! One *stage* is one function over a list of packets: `stage(ctx, packets, count)`. Stage 0 begins with the parser.
//!
//! **Cuts.** A stage ends at the key of a table that may be large: live values are stored in the packet's PHV, the slot
//! that the lookup will touch is prefetched, and the packet is queued for the stage that begins with the lookup. So the
//! cache misses of a batch overlap. A stage also ends after the lookup of a large table of routes. Where prefetching
//! one address does not help (tries, decision trees), the keys of all waiting packets are looked up in one call; at
//! most two such tables cut stages. If the number of entries is known, only large tables cut, also for what their rows
//! lead to: rows and counters are prefetched, and group members are selected for all waiting packets at once. A part of
//! the program that is atomic with respect to other packets ends no stage: between a register's read and its write no
//! other packet of the batch runs.
//!
//! **Fields.** Inside a stage every field is an SSA value. The longest-lived fields of a large program stay in the PHV
//! all the time. A field that no statement has set is read from the frame where it is needed, wherever its header lies;
//! only fields that some statement sets are written back. The fields of a column that is accessed with an unknown index
//! lie in the PHV at a fixed stride, with a bounds check and a load or store for each access. Columns whose indices are
//! all known at compile time stay in registers.
//!
//! **Misses.** A miss runs row 0 of its table. Row 0 holds the default action, or says that the default row holds it.
//!
//! **Copies.** Copies that begin with ingress start in stage 0; copies that begin with egress have a function of their
//! own. A program without copies has no code for them.
//!
//! **Watchdog.** The code of a program with loops stores which packet it processes, so that the watchdog can find the
//! packet; nothing else is recorded per packet.

use crate::copies::{Cell, CopySite, ReplicaSite, intrinsic_bit};
use crate::facts::Facts;
use crate::flow::{
    Deparse, Flow, InFrame, Origin, Place, Slot, SlotSet, Sum, Summand, chosen, copy_sets, memberships,
    op_sets, summed_bytes,
};
use crate::memos;
use crate::runtime::Ctx;
use crate::values::{Limbs, limb_count};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, FuncRef, InstBuilder, MemFlagsData, SigRef, SourceLoc, StackSlot, StackSlotData,
    StackSlotKind, Value, types,
};
use cranelift_frontend::{FunctionBuilder, Switch, Variable};
use num_bigint::BigUint;
use p4jet_externs::CallSite;
use p4jet_ir::columns::Part;
use p4jet_ir::tallies::Tallies;
use p4jet_ir::turns::TURNS_MAX;
use p4jet_ir::{
    ActionId, Algorithm, Begin, CopyFrame, DropReason, Expr, FieldId, FieldKind, Function, Header, HeaderId,
    InstanceKind, Intrinsic, Keep, Loc, Node, NodeId, Op, PacketCopy, Program, TableId, Terminator,
};
use p4jet_packet::{PORT_DROP, Packet, REASON_DONE};
use p4jet_tables::{Action as TableAction, Structure, View};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::offset_of;

/// What cannot be compiled, and where.
#[derive(Clone, Debug)]
pub struct Error {
    /// "not supported yet: …" or an internal failure.
    pub message: String,
    /// Source place in the program.
    pub loc: Loc,
}

/// Functions outside that generated code calls.
#[derive(Clone, Copy)]
pub struct Helpers {
    pub wide: FuncRef,
    pub call_extern: FuncRef,
    pub make_copies: FuncRef,
    pub make_queued_copies: FuncRef,
    pub read_bits: FuncRef,
    pub write_bits: FuncRef,
    pub copy: FuncRef,
    pub replace: FuncRef,
    pub prefetch: Option<FuncRef>,
    pub lookup: SigRef,
}

/// What a stage begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Begins {
    /// The place as a whole.
    Place,
    /// The lookup of the table that is applied there.
    Lookup,
    /// What the table's lookup leads to: counting, the action.
    Action,
}

/// Where one stage ends and another begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// At a lookup, after the statements and the key.
    pub place: Place,
    /// What comes after the cut.
    pub begins: Begins,
}

/// What the tables of a program are like.
pub struct Shapes {
    /// How they are searched.
    pub structures: Vec<Structure>,
    /// How many entries they may get, or had if that was observed.
    pub sizes: Vec<u32>,
    /// Whether it was.
    pub are_seen: bool,
}

/// Where the pipeline is cut, and what a packet carries across.
pub struct Layout {
    /// Stage `k + 1` begins at `cuts[k]`.
    pub cuts: Vec<Cut>,
    /// Their numbers.
    cut_numbers: HashMap<(Place, Begins), usize>,
    /// Tables with at least this many entries are prefetched before lookup.
    entries_min: u32,
    /// What each cut carries.
    pub carried: Vec<Vec<(Slot, Origin)>>,
    /// What copies bring along, by where they begin.
    pub entered: [Vec<Slot>; 2],
    /// PHV bytes, from the start, that hold all of that.
    pub image_bytes: u32,
    /// PHV offset of each slot that lives across some cut or comes with copies, in bytes.
    pub phv: HashMap<Slot, i32>,
    /// PHV offset of each slot that is there all the time: because registers for all would take too long to find, or because
    /// an index finds it there.
    pub in_memory: HashMap<Slot, i32>,
    /// Where the columns lie into which indices lead.
    pub columns: Arrays,
    /// PHV offset of the key of the pending lookup, or of what was found; the selector follows.
    pub key: i32,
    /// PHV bytes per packet.
    pub stride: u32,
}

impl Layout {
    /// Cuts at every table of `entries_min` entries or more whose lookup touches memory that prefetching helps, and at
    /// those where looking up the keys of all packets at once helps; after the lookup of large tables of routes; where
    /// the flow stops ([`Flow::stops_at`]); if `everywhere`, before and after every lookup. Keeps in registers what is
    /// live in nodes as long as that is at most `live_limbs_max` limbs, summed over the nodes.
    pub fn new(
        flow: &Flow,
        shapes: &Shapes,
        entries_min: u32,
        live_limbs_max: usize,
        everywhere: bool,
    ) -> Layout {
        let mut places: Vec<Place> = (0..flow.places.len())
            .filter(|&place| flow.order[place] != usize::MAX && !flow.in_cycle[place])
            .collect();
        places.sort_by_key(|&place| flow.order[place]);
        let mut cuts = Vec::new();
        for place in places {
            if flow.stops_at(place) {
                cuts.push(Cut { place, begins: Begins::Place });
            }
            if let Terminator::Apply { table, .. } = flow.node(place).terminator {
                if flow.uncut[place] {
                    continue;
                }
                if everywhere || is_large(shapes, entries_min, table) {
                    cuts.push(Cut { place, begins: Begins::Lookup });
                }
                // Whether a route is in a group is hard to predict: what depends on it waits for the others' lookups.
                let is_route = shapes.structures[table.index()] == Structure::Lpm32
                    && is_large(shapes, entries_min, table);
                if everywhere || is_route || has_far_rows(flow.program, shapes, entries_min, table) {
                    cuts.push(Cut { place, begins: Begins::Action });
                }
            }
        }
        let mut columns = Arrays::new(flow);
        let mut in_memory = too_many(flow, live_limbs_max, &columns.slots);
        let mut phv = HashMap::new();
        let mut key_limbs = 1;
        let mut offset = 0;
        let mut place = |slot: Slot| {
            phv.entry(slot).or_insert_with(|| {
                let at = offset;
                offset += 8 * limb_count(slot_width(flow, slot)) as i32;
                at
            });
            offset
        };
        let entered = Begin::ALL.map(|begin| flow.entered(begin));
        let image_bytes = entered.iter().flatten().map(|&slot| place(slot)).last().unwrap_or(0) as u32;
        let carried: Vec<Vec<(Slot, Origin)>> = cuts
            .iter()
            .map(|cut| match cut.begins {
                Begins::Place => flow.carried_to(cut.place),
                Begins::Lookup => flow.carried_to_lookup(cut.place),
                Begins::Action => flow.carried_to_action(cut.place),
            })
            .collect();
        for (&cut, carried) in cuts.iter().zip(&carried) {
            for &(slot, origin) in carried {
                if origin == Origin::Phv && !in_memory.contains(&slot) && !columns.slots.contains_key(&slot) {
                    place(slot);
                }
            }
            if let Terminator::Apply { table, keys, .. } = &flow.node(cut.place).terminator {
                let bits: u32 = keys.iter().map(|k| k.width(flow.program)).sum();
                let selector = usize::from(flow.program.tables[table.index()].profile.is_some());
                key_limbs = key_limbs.max(limb_count(bits).max(1) + selector);
            }
        }
        columns.at = offset;
        offset += columns.bytes;
        in_memory.retain(|slot| !columns.slots.contains_key(slot));
        let mut in_memory: HashMap<Slot, i32> = in_memory
            .into_iter()
            .map(|slot| {
                let at = offset;
                offset += 8 * limb_count(slot_width(flow, slot)) as i32;
                (slot, at)
            })
            .collect();
        in_memory.extend(columns.slots.iter().map(|(slot, behind)| (*slot, columns.at + behind)));
        let key = offset;
        let stride = (key as u32 + 8 * key_limbs as u32).next_multiple_of(64);
        let cut_numbers =
            cuts.iter().enumerate().map(|(number, cut)| ((cut.place, cut.begins), number)).collect();
        Layout {
            cuts,
            cut_numbers,
            entries_min,
            carried,
            entered,
            image_bytes,
            phv,
            in_memory,
            columns,
            key,
            stride,
        }
    }

    /// Where stages end, and the slots that they put away there.
    pub fn ends(&self, flow: &Flow) -> HashMap<(Place, Begins), SlotSet> {
        // What is in memory all the time is no stage's own.
        let is_kept =
            |&(slot, origin): &(Slot, Origin)| origin == Origin::Phv || self.in_memory.contains_key(&slot);
        let put_away = |carried: &[(Slot, Origin)]| {
            let mut slots = flow.no_slots();
            carried.iter().copied().filter(is_kept).for_each(|(slot, _)| slots.insert(slot));
            slots
        };
        let ends = self.cuts.iter().zip(&self.carried);
        ends.map(|(cut, carried)| ((cut.place, cut.begins), put_away(carried))).collect()
    }

    fn cut_at(&self, place: Place, begins: Begins) -> Option<usize> {
        self.cut_numbers.get(&(place, begins)).copied()
    }

    /// Whether generated code uses the PHV.
    fn has_phv(&self) -> bool {
        !self.cuts.is_empty() || self.image_bytes > 0 || !self.in_memory.is_empty()
    }

    /// Where the image of a copy has a field.
    pub fn cell(&self, flow: &Flow, begin: Begin, slot: Slot) -> Option<Cell> {
        self.entered[begin as usize].binary_search(&slot).ok()?;
        Some(Cell { limb: self.phv[&slot] as usize / 8, width: slot_width(flow, slot) })
    }
}

/// The columns into which indices lead that are not known before packets come. The fields of each lie side by side, and
/// behind them there is room for one more: what an index beyond the end writes goes there, and nobody reads it.
pub struct Arrays {
    /// PHV offset of the first.
    at: i32,
    /// All of them, in bytes.
    bytes: i32,
    /// Where each slot is, behind the first.
    slots: HashMap<Slot, i32>,
    /// For each whole column: where it begins, behind the first.
    begins: Vec<Option<i32>>,
    /// The same for the offsets of the headers whose validity bits it has.
    offsets_begin: Vec<Option<i32>>,
}

impl Arrays {
    fn new(flow: &Flow) -> Arrays {
        let none = vec![None; flow.columns.whole.len()];
        let mut arrays =
            Arrays { at: 0, bytes: 0, slots: HashMap::new(), begins: none.clone(), offsets_begin: none };
        for (number, column) in flow.columns.whole.iter().enumerate() {
            if !flow.is_indexed[number] {
                continue;
            }
            let bytes = 8 * limb_count(flow.program.width(column[0])) as i32;
            arrays.begins[number] = Some(arrays.bytes);
            for &field in column.iter() {
                arrays.slots.insert(flow.field_slot(field), arrays.bytes);
                arrays.bytes += bytes;
            }
            arrays.bytes += bytes;
            let headers: Option<Vec<HeaderId>> = column
                .iter()
                .map(|field| match flow.program.fields[field.index()].kind {
                    FieldKind::Valid(header) => Some(header),
                    _ => None,
                })
                .collect();
            if let Some(headers) = headers {
                arrays.offsets_begin[number] = Some(arrays.bytes);
                for header in headers {
                    arrays.slots.insert(flow.offset_slot(header), arrays.bytes);
                    arrays.bytes += 8;
                }
                arrays.bytes += 8;
            }
        }
        arrays
    }
}

/// Whether a table is worth a cut: its lookup touches memory that prefetching helps, or is long.
fn is_large(shapes: &Shapes, entries_min: u32, table: TableId) -> bool {
    let size = shapes.sizes[table.index()];
    match shapes.structures[table.index()] {
        Structure::Quotient | Structure::Hash | Structure::Lpm32 => size >= entries_min,
        Structure::Generic => size >= generic_entries_min(shapes, entries_min),
        Structure::Keyless | Structure::Direct => false,
    }
}

/// Whether what a lookup leads to is worth a cut: the way to a member of a group is long, and where entries have rows of
/// their own, many of them do not stay in the caches. Only where it was seen that there are as many.
fn has_far_rows(program: &Program, shapes: &Shapes, entries_min: u32, table: TableId) -> bool {
    let t = &program.tables[table.index()];
    let is_large = shapes.sizes[table.index()] >= entries_min;
    shapes.are_seen && (t.profile.is_some() || is_large && !t.direct.is_empty())
}

/// Whether it pays to remember what lookups in a table found, by the row that led there: those are cheaper than a search.
pub fn is_memoized(shapes: &Shapes, entries_min: u32, table: TableId) -> bool {
    !is_large(shapes, entries_min, table)
        && matches!(
            shapes.structures[table.index()],
            Structure::Quotient | Structure::Hash | Structure::Generic
        )
}

/// Tables of [`Structure::Generic`] with at least this many entries are worth a cut: their lookups are long.
pub const GENERIC_ENTRIES_MIN: u32 = 64;
/// But not more of them, the largest first: what lies between cuts is compiled for each way there.
const GENERIC_CUTS_MAX: usize = 2;

fn generic_entries_min(shapes: &Shapes, entries_min: u32) -> u32 {
    if entries_min < GENERIC_ENTRIES_MIN {
        return entries_min;
    }
    let tables = shapes.sizes.iter().zip(&shapes.structures);
    let mut sizes: Vec<u32> =
        tables.filter(|(_, s)| **s == Structure::Generic).map(|(size, _)| *size).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.get(GENERIC_CUTS_MAX).map_or(0, |next| next.saturating_add(1)).max(GENERIC_ENTRIES_MIN)
}

/// A program whose nodes weigh more than this together is compiled quickly, where each value lies in memory between two blocks
/// anyway. The gateway's nodes weigh 3,000.
const QUICK_WEIGHT: usize = 6_000;

/// There the time of the register allocator grows with all that lies between where a value is made and where it is used: at
/// most so much, the lives of values times the weight of all nodes.
const QUICK_LIVES_MAX: usize = 40_000_000;

/// Most words of fields in registers that are passed from node to node, counted on each way.
const PASSED_LIMBS_MAX: usize = 200_000;

/// Words of fields in registers, times the weight of all nodes: Cranelift's frontend has a cell for each word and block.
const VARIABLES_MAX: usize = 4 << 20;

/// How much code a node becomes.
fn weight(flow: &Flow, place: Place) -> usize {
    if flow.order[place] == usize::MAX {
        return 0;
    }
    let node = flow.node(place);
    let stmts = node.stmts.iter().map(|stmt| match &stmt.op {
        Op::Emit { header } | Op::Extract { header, .. } => {
            1 + flow.program.headers[header.index()].fields.len()
        }
        Op::ExtractElement { headers, .. } => headers.len(),
        _ => 1,
    });
    let mut targets = 0;
    node.terminator.for_each_target(&mut |_| targets += 1);
    1 + targets + stmts.sum::<usize>()
}

/// Most limbs live in one node that are kept in registers. The register allocator compares what is passed to a block with
/// all that is passed to it from elsewhere, and there are 16 registers.
const LIVE_AT_ONCE_MAX: usize = 512;

/// The slots to keep in memory, besides those in arrays, those with the longest lives first, so that at most
/// `live_limbs_max` remain, and [`LIVE_AT_ONCE_MAX`] in each node.
fn too_many(flow: &Flow, live_limbs_max: usize, in_arrays: &HashMap<Slot, i32>) -> BTreeSet<Slot> {
    let slots = flow.slots();
    let limbs: Vec<usize> = (0..slots).map(|slot| limb_count(slot_width(flow, slot))).collect();
    let mut lives: Vec<usize> = memberships(&flow.live, slots)
        .into_iter()
        .zip(&limbs)
        .map(|(count, limbs)| count as usize * limbs)
        .collect();
    in_arrays.keys().for_each(|slot| lives[*slot] = 0);
    let mut total: usize = lives.iter().sum();
    let mut by_life: Vec<Slot> = (0..slots).collect();
    by_life.sort_by_key(|&slot| std::cmp::Reverse(lives[slot]));
    let mut chosen = flow.no_slots();
    for &slot in &by_life {
        if total <= live_limbs_max {
            break;
        }
        total -= lives[slot];
        chosen.insert(slot);
    }
    let mut elsewhere = chosen.clone();
    in_arrays.keys().for_each(|slot| elsewhere.insert(*slot));
    // Where many nodes lead to many others, what is live is passed on each way.
    let mut ways_in = vec![0; flow.live.len()];
    for place in (0..flow.live.len()).filter(|&place| flow.order[place] != usize::MAX) {
        flow.ways(place).into_iter().for_each(|to| ways_in[to] += 1);
    }
    let mut passed = vec![0usize; slots];
    for (live, ways) in flow.live.iter().zip(&ways_in) {
        live.iter_without(&elsewhere).for_each(|slot| passed[slot] += ways * limbs[slot]);
    }
    let mut total: usize = passed.iter().sum();
    by_life.sort_by_key(|&slot| std::cmp::Reverse(passed[slot]));
    for &slot in &by_life {
        if total <= PASSED_LIMBS_MAX {
            break;
        }
        total -= passed[slot];
        chosen.insert(slot);
        elsewhere.insert(slot);
    }
    // In a large program what is live in few nodes lies between many others.
    let weights: Vec<usize> = (0..flow.live.len()).map(|place| weight(flow, place)).collect();
    let all: usize = weights.iter().sum();
    if all > QUICK_WEIGHT {
        let mut weighted = vec![0; slots];
        for (live, weight) in flow.live.iter().zip(&weights) {
            live.iter_without(&elsewhere).for_each(|slot| weighted[slot] += weight * limbs[slot]);
        }
        let mut total: usize = weighted.iter().sum();
        by_life.sort_by_key(|&slot| std::cmp::Reverse(weighted[slot]));
        for &slot in &by_life {
            if total <= QUICK_LIVES_MAX / all {
                break;
            }
            total -= weighted[slot];
            chosen.insert(slot);
            elsewhere.insert(slot);
        }
        // Those that live shortest are stored and loaded least.
        by_life.retain(|&slot| flow.is_used(slot) && !elsewhere.contains(slot));
        let mut in_registers: usize = by_life.iter().map(|slot| limbs[*slot]).sum();
        for &slot in by_life.iter().rev() {
            if in_registers.saturating_mul(all) <= VARIABLES_MAX {
                break;
            }
            in_registers -= limbs[slot];
            chosen.insert(slot);
            elsewhere.insert(slot);
        }
    }
    for live in &flow.live {
        let mut count: usize = live.iter_without(&elsewhere).map(|slot| limbs[slot]).sum();
        if count <= LIVE_AT_ONCE_MAX {
            continue;
        }
        let mut kept: Vec<Slot> = live.iter_without(&elsewhere).collect();
        kept.sort_by_key(|&slot| std::cmp::Reverse(lives[slot]));
        for slot in kept {
            if count <= LIVE_AT_ONCE_MAX {
                break;
            }
            count -= limbs[slot];
            chosen.insert(slot);
            elsewhere.insert(slot);
        }
    }
    chosen.iter().collect()
}

/// Which stage a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Packets arrive, or copies begin with ingress.
    Start,
    /// Packets that wait for the table of this cut.
    Cut(usize),
    /// Copies begin with egress.
    Egress,
}

fn slot_width(flow: &Flow, slot: Slot) -> u32 {
    flow.program.fields.get(slot).map_or(64, |f| f.width)
}

/// Where a node's terminator leads.
enum Scope<'s> {
    /// The node of a block.
    Place(Place),
    /// A node of an action that a table at `place` runs.
    Action { place: Place, blocks: &'s [Block], next: Block, exit: Block },
}

impl Scope<'_> {
    fn place(&self) -> Place {
        match self {
            Scope::Place(place) | Scope::Action { place, .. } => *place,
        }
    }
}

/// Where a slot's value is.
#[derive(Clone)]
enum Home {
    /// It is never read.
    Nowhere,
    /// In registers, one for each limb.
    Registers(Vec<Variable>),
    /// In the PHV at this offset.
    Memory(i32),
}

/// Data that functions called by generated code refer to by number.
#[derive(Default)]
pub struct Sites {
    pub calls: Vec<CallSite>,
    pub copies: Vec<CopySite>,
}

/// Where an element is.
struct Found {
    /// Whether there is one.
    inside: Value,
    address: Value,
}

/// What is extracted.
#[derive(Clone, Copy)]
enum Extracted<'h> {
    Header(HeaderId),
    /// One of these; there is such a one.
    Element {
        headers: &'h [HeaderId],
        index: Value,
        loc: Loc,
    },
}

/// Emits one stage.
pub struct Codegen<'a, 'f> {
    pub(crate) b: FunctionBuilder<'f>,
    pub(crate) flow: &'a Flow<'a>,
    pub(crate) helpers: Helpers,
    layout: &'a Layout,
    shapes: &'a Shapes,
    tallies: Option<&'a Tallies>,
    sites: &'a mut Sites,
    homes: Vec<Home>,
    data: Variable,
    length: Variable,
    out_offset: Variable,
    counts: Vec<Variable>,
    places: HashMap<Place, Block>,
    work: Vec<Place>,
    /// Whether the stage begins on a hot path.
    begins_hot: bool,
    /// The place whose code is being emitted.
    here: Option<Place>,
    /// Blocks where packets leave a hot path, and the places where they go.
    turnoffs: Vec<(Block, Place)>,
    buffers: HashMap<(usize, usize), StackSlot>,
    /// By reason, and place if that is counted; without a reason the packet is done.
    drops: HashMap<(Option<DropReason>, Loc), Block>,
    /// What is known before the statement or terminator that is being emitted.
    facts: Facts,
    /// What is loaded once per batch, and where: at the end of `entry`.
    once: HashMap<Once, Value>,
    /// What runs seldom loads it where it needs it, so that it takes no register elsewhere.
    in_cold: bool,
    entry: Block,
    /// What is live where packets or copies begin.
    live_at: [SlotSet; 2],
    /// What is live after the statement that is being emitted; `None` where that was not worth finding out.
    live_after: Option<SlotSet>,
    /// The place of what is being emitted, and what statements may have set before it; `None` where packets leave.
    so_far: Option<(Place, SlotSet)>,
    /// The statement that is being emitted, if it is one of a place: its number there.
    statement: Option<(Place, usize)>,
    /// While a deparser ends: what [`Flow::changed_at_end`] says.
    changed: Option<SlotSet>,
    /// The place that the stage begins with, if it begins with a place.
    resumed: Option<Place>,
    ctx: Value,
    packet: Value,
    phv: Value,
    number: Value,
    /// Which of the packets that wait for the stage it is.
    position: Value,
    finish: Block,
    next_packet: Block,
    /// Entries of jump tables so far.
    entries: usize,
    /// Most instructions and entries that the function may have.
    size_max: usize,
}

/// What generated code loads from outside and nothing changes while a batch runs. A load in the loop would be done for
/// every packet: behind stores it is not known to be the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Once {
    /// A word of [`Ctx`], at this offset.
    Ctx(usize),
    /// The PHVs' base, a queue …: what a word of [`Ctx`] points to, at this offset.
    Indirect(usize, i32),
    /// A word of the view of a table, at this offset.
    View(TableId, usize),
    /// The number of the default row of a table, 32 bits.
    Default(TableId),
}

/// Arrays of at most this many bytes are cleared without a loop.
const ZEROED_INLINE_BYTES_MAX: i32 = 256;

/// A jump table of more entries leads to blocks of its own, which go on to where it shall lead: what is passed to a block is
/// looked for among all entries of each table that leads there.
const DIRECT_ENTRIES_MAX: usize = 64;

/// Slots times statements of a place beyond which it is not found out what is live after each of them.
const LIVE_AFTER_BITS_MAX: usize = 1 << 27;

/// Most values of a stage that are loaded once: more would only be spilled.
const ONCE_MAX: usize = 32;

const PACKET_BYTES: i64 = size_of::<Packet>() as i64;

fn load_once<'f>(
    ins: impl InstBuilder<'f>,
    what: Once,
    flags: MemFlagsData,
    base: Value,
    offset: i32,
) -> Value {
    match what {
        Once::Default(_) => ins.uload32(flags, base, offset),
        _ => ins.load(types::I64, flags, base, offset),
    }
}

fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_aligned()
}
/// What never changes while a batch runs.
fn fixed() -> MemFlagsData {
    plain().with_readonly().with_can_move()
}

impl<'a, 'f> Codegen<'a, 'f> {
    /// Emits one stage into the builder's function and finishes it.
    #[allow(clippy::too_many_arguments)]
    pub fn emit(
        mut b: FunctionBuilder<'f>,
        flow: &'a Flow<'a>,
        layout: &'a Layout,
        shapes: &'a Shapes,
        tallies: Option<&'a Tallies>,
        helpers: Helpers,
        sites: &'a mut Sites,
        entry_point: Entry,
        frontend: cranelift_codegen::isa::TargetFrontendConfig,
        size_max: usize,
    ) -> Result<(), Error> {
        let stage = match entry_point {
            Entry::Cut(cut) => cut + 1,
            Entry::Start | Entry::Egress => 0,
        };
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let (ctx, packets, count) =
            (b.block_params(entry)[0], b.block_params(entry)[1], b.block_params(entry)[2]);
        let head = b.create_block();
        let body = b.create_block();
        let done = b.create_block();
        let next_packet = b.create_block();
        let finish = b.create_block();
        let index = b.declare_var(types::I64);
        // In the first stage, where every packet's turn comes: which one.
        let packet_now = b.declare_var(types::I64);
        let data = b.declare_var(types::I64);
        let length = b.declare_var(types::I64);
        let out_offset = b.declare_var(types::I64);
        let zero = b.ins().iconst(types::I64, 0);
        b.def_var(index, zero);
        b.def_var(packet_now, packets);
        let packets_bytes = b.ins().imul_imm_u(count, PACKET_BYTES);
        let packets_end = b.ins().iadd(packets, packets_bytes);

        // How many packets each later stage has got; kept in registers while this stage runs.
        let counts_base = b.ins().load(types::I64, fixed(), ctx, offset_of!(Ctx, counts) as i32);
        let mut counts = Vec::new();
        for k in 0..=layout.cuts.len() {
            let var = b.declare_var(types::I64);
            if k > stage {
                let n = b.ins().load(types::I64, plain(), counts_base, 8 * k as i32);
                b.def_var(var, n);
            }
            counts.push(var);
        }
        let queue = (stage > 0).then(|| {
            let queues = b.ins().load(types::I64, plain(), ctx, offset_of!(Ctx, queues) as i32);
            b.ins().load(types::I64, plain(), queues, 8 * stage as i32)
        });
        let phv_base =
            layout.has_phv().then(|| b.ins().load(types::I64, plain(), ctx, offset_of!(Ctx, phv) as i32));
        b.ins().jump(head, &[]);

        b.switch_to_block(head);
        let (now, end) = match queue {
            None => (b.use_var(packet_now), packets_end),
            Some(_) => (b.use_var(index), count),
        };
        let more = b.ins().icmp(IntCC::UnsignedLessThan, now, end);
        b.ins().brif(more, body, &[], done, &[]);

        b.switch_to_block(next_packet);
        for (var, step) in [(index, 1), (packet_now, PACKET_BYTES)] {
            let now = b.use_var(var);
            let next = b.ins().iadd_imm_s(now, step);
            b.def_var(var, next);
        }
        b.ins().jump(head, &[]);

        b.switch_to_block(done);
        for (k, &var) in counts.iter().enumerate().skip(stage + 1) {
            let n = b.use_var(var);
            b.ins().store(plain(), n, counts_base, 8 * k as i32);
        }
        b.ins().return_(&[]);

        b.switch_to_block(body);
        let i = b.use_var(index);
        let (number, packet) = match queue {
            None => (i, b.use_var(packet_now)),
            Some(queue) => {
                let at = b.ins().ishl_imm_u(i, 2);
                let at = b.ins().iadd(queue, at);
                let number = b.ins().uload32(plain(), at, 0);
                let at = b.ins().imul_imm_u(number, PACKET_BYTES);
                (number, b.ins().iadd(packets, at))
            }
        };
        // For the watchdog, which finds packets only where a program may take long.
        if flow.may_loop() {
            b.ins().store(plain(), packet, ctx, offset_of!(Ctx, packet) as i32);
        }
        // A value that nothing changes need not be loaded if it is unused.
        let frame = if flow.frames_stay() { fixed() } else { plain() };
        let data_now = b.ins().load(types::I64, frame, packet, offset_of!(Packet, data) as i32);
        let length_now = b.ins().uload32(frame, packet, offset_of!(Packet, len) as i32);
        b.def_var(data, data_now);
        b.def_var(length, length_now);
        let zero = b.ins().iconst(types::I64, 0);
        b.def_var(out_offset, zero);
        let phv = match phv_base {
            None => zero,
            Some(base) => {
                let at = b.ins().imul_imm_u(number, i64::from(layout.stride));
                b.ins().iadd(base, at)
            }
        };

        let mut cg = Codegen {
            b,
            flow,
            helpers,
            layout,
            shapes,
            tallies,
            sites,
            homes: vec![Home::Nowhere; flow.slots()],
            data,
            length,
            out_offset,
            counts,
            places: HashMap::new(),
            work: Vec::new(),
            begins_hot: match entry_point {
                Entry::Start => flow.start().is_some_and(|place| !flow.is_cold(place)),
                Entry::Cut(cut) => !flow.is_cold(layout.cuts[cut].place),
                Entry::Egress => false,
            },
            here: None,
            turnoffs: Vec::new(),
            buffers: HashMap::new(),
            drops: HashMap::new(),
            facts: flow.no_facts(),
            once: HashMap::new(),
            in_cold: false,
            entry,
            live_at: Begin::ALL.map(|begin| flow.live_at(begin)),
            live_after: None,
            so_far: None,
            statement: None,
            changed: None,
            resumed: None,
            ctx,
            packet,
            phv,
            number,
            position: i,
            finish,
            next_packet,
            entries: 0,
            size_max,
        };
        cg.declare_slots();
        match entry_point {
            Entry::Start => {
                cg.zero_arrays();
                cg.zero_at(Begin::Ingress);
                cg.load_intrinsics(false);
                cg.load_image_of_copies();
                if cg.program().ingress.is_empty() {
                    cg.load_intrinsics(true);
                }
                cg.begin(Begin::Ingress);
            }
            Entry::Egress => {
                cg.zero_arrays();
                cg.zero_at(Begin::Egress);
                cg.load_intrinsics(true);
                cg.load_image(Begin::Egress);
                cg.begin(Begin::Egress);
            }
            Entry::Cut(cut) => cg.resume(cut)?,
        }
        loop {
            if let Some(place) = cg.work.pop() {
                cg.emit_place(place)?;
            } else if let Some((block, place)) = cg.turnoffs.pop() {
                cg.b.switch_to_block(block);
                let to = cg.block_of(place);
                cg.b.ins().jump(to, &[]);
            } else {
                break;
            }
        }
        cg.emit_finish();
        cg.emit_drops();
        cg.b.seal_all_blocks();
        cg.b.finalize(frontend);
        Ok(())
    }

    pub(crate) fn program(&self) -> &'a Program {
        self.flow.program
    }

    /// A field that is never read needs no variable.
    fn declare_slots(&mut self) {
        for slot in 0..self.homes.len() {
            if !self.flow.is_used(slot) {
                continue;
            }
            self.homes[slot] = match self.layout.in_memory.get(&slot) {
                Some(&offset) => Home::Memory(offset),
                None => {
                    let limbs = limb_count(slot_width(self.flow, slot));
                    Home::Registers((0..limbs).map(|_| self.b.declare_var(types::I64)).collect())
                }
            };
        }
    }

    fn zero_slots(&mut self, which: impl Fn(Slot) -> bool) {
        let zero = self.iconst(0);
        for slot in 0..self.homes.len() {
            if which(slot) {
                self.set(slot, &vec![zero; limb_count(slot_width(self.flow, slot))]);
            }
        }
    }

    /// Makes what lies in no array 0; in memory only what may be read before it is set.
    fn zero_at(&mut self, begin: Begin) {
        let (layout, live) = (self.layout, self.live_at[begin as usize].clone());
        self.zero_slots(|slot| {
            let is_array = layout.columns.slots.contains_key(&slot);
            !is_array && (live.contains(slot) || !layout.in_memory.contains_key(&slot))
        });
    }

    /// Makes all elements 0 that indices may find.
    fn zero_arrays(&mut self) {
        let (at, bytes) = (self.layout.columns.at, self.layout.columns.bytes);
        let zero = self.iconst(0);
        if bytes <= ZEROED_INLINE_BYTES_MAX {
            for behind in (0..bytes).step_by(8) {
                self.b.ins().store(plain(), zero, self.phv, at + behind);
            }
            return;
        }
        let begin = self.b.ins().iadd_imm_s(self.phv, i64::from(at));
        let end = self.b.ins().iadd_imm_s(begin, i64::from(bytes));
        let (again, done) = (self.b.create_block(), self.b.create_block());
        self.b.append_block_param(again, types::I64);
        self.b.ins().jump(again, &[BlockArg::Value(begin)]);
        self.b.switch_to_block(again);
        let now = self.b.block_params(again)[0];
        self.b.ins().store(plain(), zero, now, 0);
        let next = self.b.ins().iadd_imm_s(now, 8);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, next, end);
        self.b.ins().brif(more, again, &[BlockArg::Value(next)], done, &[]);
        self.b.switch_to_block(done);
    }

    /// Sets the intrinsic fields of arrival, or those of the start of egress.
    fn load_intrinsics(&mut self, egress: bool) {
        for &(intrinsic, field) in &self.program().intrinsics {
            let begin = if egress { Begin::Egress } else { Begin::Ingress };
            if intrinsic.begin() == begin && self.live_at[begin as usize].contains(field.index()) {
                self.load_intrinsic(intrinsic, field);
            }
        }
    }

    fn load_intrinsic(&mut self, intrinsic: Intrinsic, field: FieldId) {
        let value = match intrinsic {
            Intrinsic::IngressPort => {
                let offset = offset_of!(Packet, ingress_port) as i32;
                self.b.ins().uload32(plain(), self.packet, offset)
            }
            Intrinsic::PacketLength => self.b.use_var(self.length),
            Intrinsic::IngressTimestamp | Intrinsic::EgressTimestamp | Intrinsic::EnqueueTimestamp => {
                self.b.ins().load(types::I64, plain(), self.ctx, offset_of!(Ctx, now_us) as i32)
            }
            Intrinsic::EnqueueDepth
            | Intrinsic::QueueTime
            | Intrinsic::DequeueDepth
            | Intrinsic::QueueNumber => self.iconst(0),
        };
        self.set_word(field, value);
    }

    /// Takes what a copy brings along from the PHV.
    fn load_image(&mut self, begin: Begin) {
        for &slot in &self.layout.entered[begin as usize] {
            self.load_from_phv(slot);
        }
    }

    /// The same where packets that arrive begin too.
    fn load_image_of_copies(&mut self) {
        if self.layout.entered[Begin::Ingress as usize].is_empty() {
            return;
        }
        let copies = self.b.ins().load(types::I64, fixed(), self.ctx, offset_of!(Ctx, of_copies) as i32);
        let load = self.b.create_block();
        let go_on = self.b.create_block();
        self.b.ins().brif(copies, load, &[], go_on, &[]);
        self.b.switch_to_block(load);
        self.load_image(Begin::Ingress);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    fn load_from_phv(&mut self, slot: Slot) {
        if !matches!(self.homes[slot], Home::Nowhere) {
            let limbs = self.phv_limbs(slot, self.layout.phv[&slot]);
            self.set(slot, &limbs);
        }
    }

    fn phv_limbs(&mut self, slot: Slot, offset: i32) -> Limbs {
        let limbs = limb_count(slot_width(self.flow, slot)) as i32;
        (0..limbs).map(|i| self.b.ins().load(types::I64, plain(), self.phv, offset + 8 * i)).collect()
    }

    /// Takes fields that no statement has set from the frame again, which is cheaper than keeping them in the PHV: what a
    /// stage does not use is never loaded.
    fn reload_from_frame(&mut self, header: HeaderId, fields: &[(FieldId, InFrame)]) {
        let load = |cg: &mut Self| {
            for &(field, at) in fields {
                let base = cg.header_base(at);
                let value = cg.load_bits(base, at.bit, cg.program().width(field));
                cg.set_field(field, &value);
            }
        };
        if self.always_valid(header) {
            return load(self);
        }
        let valid = self.valid(header);
        let yes = self.b.create_block();
        let no = self.b.create_block();
        let done = self.b.create_block();
        self.b.set_cold_block(no);
        self.b.ins().brif(valid, yes, &[], no, &[]);
        self.b.switch_to_block(yes);
        load(self);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(no);
        let zero = self.iconst(0);
        for &(field, _) in fields {
            let limbs = vec![zero; limb_count(self.program().width(field))];
            self.set_field(field, &limbs);
        }
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    /// What [`InFrame::bit`] counts from: the start of the frame, or of the header, which is there.
    fn header_base(&mut self, at: InFrame) -> Value {
        let data = self.b.use_var(self.data);
        if at.is_fixed {
            return data;
        }
        let plus_one = self.get(self.flow.offset_slot(at.header))[0];
        let behind = self.b.ins().iadd(data, plus_one);
        self.b.ins().iadd_imm_s(behind, -1)
    }

    /// The same, also where the header may not be there; with whether it is, then.
    fn maybe_header_base(&mut self, at: InFrame) -> (Value, Option<Value>) {
        let base = self.header_base(at);
        if self.always_valid(at.header) {
            return (base, None);
        }
        let valid = self.valid(at.header);
        if at.is_fixed {
            return (base, Some(valid));
        }
        let data = self.b.use_var(self.data);
        (self.b.ins().select(valid, base, data), Some(valid))
    }

    /// Whether a header is there.
    fn valid(&mut self, header: HeaderId) -> Value {
        self.get(self.flow.field_slot(self.program().headers[header.index()].valid))[0]
    }

    fn always_valid(&self, header: HeaderId) -> bool {
        self.flow.known(&self.facts, self.program().headers[header.index()].valid.index()) == Some(1)
    }

    /// The value of an expression, if it is known here.
    pub(crate) fn known_value(&self, expr: &Expr) -> Option<u64> {
        self.flow.value(&self.facts, expr)
    }

    /// A slot's value now.
    pub(crate) fn get(&mut self, slot: Slot) -> Limbs {
        if let Some(value) = self.flow.known(&self.facts, slot) {
            return vec![self.iconst(value)];
        }
        if let Some((_, set)) = &self.so_far
            && self.flow.is_untouched(slot, set, &self.facts)
        {
            let zero = self.iconst(0);
            return vec![zero; limb_count(slot_width(self.flow, slot))];
        }
        if let Some((place, set)) = &self.so_far
            && let Some(at) = self.flow.framed(*place, slot, set, &self.facts)
        {
            let (base, valid) = self.maybe_header_base(at);
            let mut value = self.load_bits(base, at.bit, self.program().width(FieldId(slot as u32)));
            if let Some(valid) = valid {
                let zero = self.iconst(0);
                value.iter_mut().for_each(|limb| *limb = self.b.ins().select(valid, *limb, zero));
            }
            return value;
        }
        match self.homes[slot].clone() {
            Home::Nowhere => unreachable!("whoever reads a field makes it needed"),
            Home::Registers(vars) => vars.into_iter().map(|v| self.b.use_var(v)).collect(),
            Home::Memory(offset) => self.phv_limbs(slot, offset),
        }
    }

    /// A field's value; 0 if nothing ever gives it another.
    fn get_or_zero(&mut self, field: FieldId) -> Limbs {
        if self.is_needed(field) {
            return self.get(self.flow.field_slot(field));
        }
        let zero = self.iconst(0);
        vec![zero; limb_count(self.program().width(field))]
    }

    fn set(&mut self, slot: Slot, limbs: &[Value]) {
        match self.homes[slot].clone() {
            Home::Nowhere => {}
            Home::Registers(vars) => {
                for (var, &limb) in vars.into_iter().zip(limbs) {
                    self.b.def_var(var, limb);
                }
            }
            Home::Memory(offset) => {
                for (i, &limb) in limbs.iter().enumerate() {
                    self.b.ins().store(plain(), limb, self.phv, offset + 8 * i as i32);
                }
            }
        }
    }

    fn set_field(&mut self, field: FieldId, limbs: &[Value]) {
        self.set(self.flow.field_slot(field), limbs);
    }

    /// Gives a field of any width the low bits of a word.
    fn set_word(&mut self, field: FieldId, word: Value) {
        let width = self.program().width(field);
        let mut limbs = vec![self.mask(word, width.min(64))];
        while limbs.len() < limb_count(width) {
            limbs.push(self.iconst(0));
        }
        self.set_field(field, &limbs);
    }

    fn is_needed(&self, field: FieldId) -> bool {
        !matches!(self.homes[self.flow.field_slot(field)], Home::Nowhere)
    }

    /// The address of a stack buffer of at least `limbs` limbs; one per purpose and size, so contents are short-lived.
    pub(crate) fn buffer(&mut self, purpose: usize, limbs: usize) -> Value {
        let limbs = limbs.max(1).next_power_of_two();
        let b = &mut self.b;
        let slot = *self.buffers.entry((purpose, limbs)).or_insert_with(|| {
            b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * limbs as u32, 3))
        });
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// The block of a place, to jump to from where code is emitted now.
    fn place_block(&mut self, place: Place) -> Block {
        if self.is_cold(place) && self.here.is_some_and(|here| !self.is_cold(here)) {
            // What only the place needs is done in a block between: not on the hot path.
            let block = self.b.create_block();
            self.b.set_cold_block(block);
            self.turnoffs.push((block, place));
            return block;
        }
        self.block_of(place)
    }

    /// Whether few of the packets of this stage reach a place.
    fn is_cold(&self, place: Place) -> bool {
        self.begins_hot && self.flow.is_cold(place)
    }

    fn block_of(&mut self, place: Place) -> Block {
        if let Some(&block) = self.places.get(&place) {
            return block;
        }
        let block = self.b.create_block();
        if self.is_cold(place) {
            self.b.set_cold_block(block);
        }
        self.places.insert(place, block);
        self.work.push(place);
        block
    }

    fn emit_place(&mut self, place: Place) -> Result<(), Error> {
        let block = self.places[&place];
        self.b.switch_to_block(block);
        self.here = Some(place);
        self.in_cold = self.is_cold(place);
        self.facts = self.flow.facts_before(place);
        self.so_far = Some((place, self.flow.set_before[place].clone()));
        if let Some(cut) = self.layout.cut_at(place, Begins::Place)
            && self.resumed != Some(place)
        {
            let none = self.iconst(0);
            self.cut(cut, &[], none);
            return Ok(());
        }
        let node = self.flow.node(place);
        self.emit_node(node, &Scope::Place(place))
    }

    /// Gives up where the function has become too large.
    pub(crate) fn check_size(&self) -> Result<(), Error> {
        let size = self.b.func.dfg.num_insts() + self.entries;
        if size <= self.size_max { Ok(()) } else { Err(crate::too_many_instructions()) }
    }

    fn emit_node(&mut self, node: &'a Node, scope: &Scope) -> Result<(), Error> {
        // An unused load stays where it is.
        let extracts = node.stmts.iter().any(|stmt| stmt.op.may_reject());
        let is_worth_it = node.stmts.len().saturating_mul(self.flow.slots()) <= LIVE_AFTER_BITS_MAX;
        let mut live = match scope {
            Scope::Place(place) if extracts && is_worth_it => {
                self.flow.live_after_statements(*place).into_iter()
            }
            _ => Vec::new().into_iter(),
        };
        for (i, stmt) in node.stmts.iter().enumerate() {
            self.check_size()?;
            self.live_after = live.next();
            self.statement = match scope {
                Scope::Place(place) => Some((*place, i)),
                Scope::Action { .. } => None,
            };
            self.set_source(stmt.loc);
            self.op(&stmt.op, stmt.loc, scope)?;
            self.flow.learn(&mut self.facts, &stmt.op);
            if let Some((_, set)) = &mut self.so_far {
                op_sets(&stmt.op, &mut |f| set.insert(f.index()));
            }
        }
        self.set_source(node.terminator_loc);
        self.terminator(node, scope)
    }

    /// What is emitted from now on comes from this place in the text.
    fn set_source(&mut self, loc: Loc) {
        if loc != Loc(0) {
            self.b.set_srcloc(SourceLoc::new(loc.0));
        }
    }

    /// Where the block of `place` goes when it returns, after what its end demands.
    fn leave_step(&mut self, place: Place, to: Option<Place>) {
        if let Some(mode) = self.flow.deparse[self.flow.places[place].step] {
            self.finish_deparser(place, mode);
        }
        if self.flow.places[place].step + 1 == self.program().ingress.len() {
            self.load_intrinsics(true);
        }
        self.go(to);
    }

    /// Begins with the first place; without one the packet leaves.
    fn begin(&mut self, begin: Begin) {
        // Not past it, like a jump: what is known there is taken into account only behind it.
        let block = match self.flow.entry(begin) {
            Some(place) => self.place_block(place),
            None => self.finish,
        };
        self.b.ins().jump(block, &[]);
    }

    /// On to a place; without one the packet leaves.
    fn go(&mut self, to: Option<Place>) {
        let block = match self.flow.resolve(to, &self.facts) {
            Some(place) => self.place_block(place),
            None => self.finish,
        };
        self.b.ins().jump(block, &[]);
    }

    fn emit_finish(&mut self) {
        self.b.switch_to_block(self.finish);
        self.facts = self.flow.no_facts();
        self.so_far = None;
        let port = match self.program().egress_port {
            Some(field) => self.get(self.flow.field_slot(field))[0],
            None => self.iconst(0),
        };
        let port = self.b.ins().ireduce(types::I32, port);
        self.b.ins().store(plain(), port, self.packet, offset_of!(Packet, egress_port) as i32);
        self.b.ins().jump(self.next_packet, &[]);
    }

    /// The blocks where packets end; off the hot path, without parameters.
    fn emit_drops(&mut self) {
        let mut drops: Vec<((Option<DropReason>, Loc), Block)> =
            self.drops.iter().map(|(&r, &b)| (r, b)).collect();
        drops.sort_by_key(|d| d.0);
        for ((reason, loc), block) in drops {
            self.b.switch_to_block(block);
            self.facts = self.flow.no_facts();
            self.so_far = None;
            self.tally_drop(reason, loc);
            let none = self.b.ins().iconst(types::I32, i64::from(PORT_DROP as i32));
            self.b.ins().store(plain(), none, self.packet, offset_of!(Packet, egress_port) as i32);
            let reason = reason.map_or(REASON_DONE, DropReason::number);
            let reason = self.b.ins().iconst(types::I32, i64::from(reason as i32));
            self.b.ins().store(plain(), reason, self.packet, offset_of!(Packet, drop_reason) as i32);
            self.b.ins().jump(self.next_packet, &[]);
        }
    }

    /// Counts a drop that this place carries out.
    fn tally_drop(&mut self, reason: Option<DropReason>, loc: Loc) {
        let (Some(tallies), Some(reason)) = (self.tallies, reason) else { return };
        let mut place = self.iconst(u64::from(loc.0));
        if let Some(field) = self.program().drop_place
            && matches!(reason, DropReason::Program(_))
        {
            let asked = self.get(self.flow.field_slot(field))[0];
            place = self.b.ins().select(asked, asked, place);
        }
        let first = tallies.drop_cell(reason);
        self.tally(first, place);
    }

    /// Adds 1 to the tally at this offset from `first`.
    fn tally(&mut self, first: usize, behind: Value) {
        let base = self.once(Once::Ctx(offset_of!(Ctx, tallies)));
        let at = self.b.ins().ishl_imm_u(behind, 3);
        let at = self.b.ins().iadd(base, at);
        let at = self.b.ins().iadd_imm_u(at, 8 * first as i64);
        let n = self.b.ins().load(types::I64, plain(), at, 0);
        let n = self.b.ins().iadd_imm_u(n, 1);
        self.b.ins().store(plain(), n, at, 0);
    }

    fn drop_block(&mut self, reason: Option<DropReason>, loc: Loc) -> Block {
        let reason = (reason, if self.tallies.is_some() { loc } else { Loc(0) });
        if let Some(&block) = self.drops.get(&reason) {
            return block;
        }
        let block = self.b.create_block();
        // Where copies go on in its place it may be most packets.
        if reason.0.is_some() {
            self.b.set_cold_block(block);
        }
        self.drops.insert(reason, block);
        block
    }

    /// Where a jump to a node leads under these facts.
    fn target(&mut self, scope: &Scope, node: NodeId, facts: &Facts) -> Block {
        match scope {
            Scope::Place(place) => self.sibling_block(*place, node, facts),
            Scope::Action { blocks, .. } => blocks[node.index()],
        }
    }

    fn sibling_block(&mut self, place: Place, node: NodeId, facts: &Facts) -> Block {
        self.resolved_block(self.flow.sibling(place, node), facts)
    }

    fn resolved_block(&mut self, to: Place, facts: &Facts) -> Block {
        let to = self.flow.resolve(Some(to), facts).expect("a place leads to a place");
        self.place_block(to)
    }

    /// The same if `expr` has this value.
    fn target_if(&mut self, scope: &Scope, node: NodeId, expr: &Expr, value: u64) -> Block {
        let mut facts = self.facts.clone();
        self.flow.suppose(&mut facts, expr, value);
        self.target(scope, node, &facts)
    }

    fn terminator(&mut self, node: &'a Node, scope: &Scope) -> Result<(), Error> {
        match &node.terminator {
            Terminator::Goto(to) => {
                let to = self.target(scope, *to, &self.facts.clone());
                self.b.ins().jump(to, &[]);
            }
            Terminator::If { cond: asked, then, otherwise } => {
                if let Some(value) = self.flow.value(&self.facts, asked) {
                    let node = if value == 0 { *otherwise } else { *then };
                    let to = self.target_if(scope, node, asked, value);
                    self.b.ins().jump(to, &[]);
                    return Ok(());
                }
                let cond = self.condition(asked)?;
                let then = self.target_if(scope, *then, asked, 1);
                let otherwise = self.target_if(scope, *otherwise, asked, 0);
                self.b.ins().brif(cond, then, &[], otherwise, &[]);
            }
            Terminator::Turn { weight, next, spent } => {
                let turns = self.program().turns.expect("the verifier asks for it");
                let taken = self.get(self.flow.field_slot(turns))[0];
                let taken = self.b.ins().iadd_imm_u(taken, i64::from(*weight));
                self.set_field(turns, &[taken]);
                let more = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, taken, i64::from(TURNS_MAX));
                let facts = self.facts.clone();
                let spent = self.target(scope, *spent, &facts);
                let next = self.target(scope, *next, &facts);
                self.b.ins().brif(more, spent, &[], next, &[]);
            }
            Terminator::Switch { value, cases, default } => self.switch(value, cases, *default, scope)?,
            Terminator::Apply { table, keys, selector, .. } => {
                let Scope::Place(place) = *scope else {
                    return Err(Error {
                        message: "a table inside an action".into(),
                        loc: node.terminator_loc,
                    });
                };
                let key = self.pack_key(*table, keys)?;
                let selector = match selector {
                    Some(selector) => self.expr(selector)?[0],
                    None => self.iconst(0),
                };
                match self.layout.cut_at(place, Begins::Lookup) {
                    Some(cut) => self.cut(cut, &key, selector),
                    None => {
                        let found = self.lookup_at(place, *table, &key);
                        self.apply(place, *table, found, selector)?;
                    }
                }
            }
            Terminator::Return => match scope {
                Scope::Place(place) => self.leave_step(*place, self.flow.after(*place)),
                Scope::Action { next, .. } => {
                    self.b.ins().jump(*next, &[]);
                }
            },
            Terminator::Exit => match scope {
                Scope::Place(place) => self.leave_step(*place, self.flow.after(*place)),
                Scope::Action { exit, .. } => {
                    self.b.ins().jump(*exit, &[]);
                }
            },
            Terminator::Reject(error) => {
                let place = scope.place();
                let code = self.expr(error)?;
                if let Some(field) = self.flow.block(place).error_field {
                    self.set_field(field, &code);
                    self.flow.forget(&mut self.facts, field);
                }
                self.leave_step(place, self.flow.next_step_on_error(place));
            }
            Terminator::Drop(reason) => {
                let block = self.drop_block(Some(DropReason::Program(*reason)), node.terminator_loc);
                self.b.ins().jump(block, &[]);
            }
            Terminator::Done => {
                let block = self.drop_block(None, Loc(0));
                self.b.ins().jump(block, &[]);
            }
            Terminator::Egress => {
                self.load_intrinsics(true);
                self.go(self.flow.after(scope.place()));
            }
        }
        Ok(())
    }

    fn switch(
        &mut self,
        value: &Expr,
        cases: &[(BigUint, NodeId)],
        default: NodeId,
        scope: &Scope,
    ) -> Result<(), Error> {
        let width = value.width(self.program());
        let limbs = self.expr(value)?;
        let default = self.target(scope, default, &self.facts.clone());
        // Few cases: a chain of compares beats a jump table (notes on generated code: 12 to 20 %).
        if limbs.len() == 1 && cases.len() > 6 {
            let mut entries = Vec::new();
            for (case, to) in cases {
                let case = case.to_u64_digits().first().copied().unwrap_or(0);
                entries.push((case.into(), self.target_if(scope, *to, value, case)));
            }
            self.jump_by(limbs[0], &entries, default);
            return Ok(());
        }
        for (case, to) in cases {
            let to = match case.to_u64_digits().as_slice() {
                [] => self.target_if(scope, *to, value, 0),
                [case] => self.target_if(scope, *to, value, *case),
                _ => self.target(scope, *to, &self.facts.clone()),
            };
            let want = self.constant(case, width);
            let equal = self.equal(&limbs, &want);
            let rest = self.b.create_block();
            self.b.ins().brif(equal, to, &[], rest, &[]);
            self.b.switch_to_block(rest);
        }
        self.b.ins().jump(default, &[]);
        Ok(())
    }

    /// Goes to the block of the entry that has this value.
    fn jump_by(&mut self, value: Value, entries: &[(u128, Block)], default: Block) {
        self.entries += entries.len();
        let mut switch = Switch::new();
        if entries.len() <= DIRECT_ENTRIES_MAX {
            entries.iter().for_each(|&(entry, to)| switch.set_entry(entry, to));
            return switch.emit(&mut self.b, value, default);
        }
        let mut between: BTreeMap<Block, Block> = BTreeMap::new();
        for to in entries.iter().map(|(_, to)| *to).chain([default]) {
            between.entry(to).or_insert_with(|| self.b.create_block());
        }
        entries.iter().for_each(|(entry, to)| switch.set_entry(*entry, between[to]));
        switch.emit(&mut self.b, value, between[&default]);
        for (to, between) in between {
            self.b.switch_to_block(between);
            self.b.seal_block(between);
            self.b.ins().jump(to, &[]);
        }
    }

    fn equal(&mut self, x: &[Value], y: &[Value]) -> Value {
        if x.len() == 1 {
            return self.b.ins().icmp(IntCC::Equal, x[0], y[0]);
        }
        let mut all = self.b.ins().bxor(x[0], y[0]);
        for i in 1..x.len() {
            let d = self.b.ins().bxor(x[i], y[i]);
            all = self.b.ins().bor(all, d);
        }
        self.b.ins().icmp_imm_u(IntCC::Equal, all, 0)
    }

    // ---- statements ----

    fn op(&mut self, op: &'a Op, loc: Loc, scope: &Scope) -> Result<(), Error> {
        match self.flow.settled(&self.facts, op) {
            Some(Some(Op::Set { dest, value })) => return self.set_to(dest, &value),
            Some(Some(Op::Extract { header, varbit_length })) => {
                return self.extract(header, varbit_length.as_ref(), scope.place());
            }
            Some(_) => return Ok(()),
            None => {}
        }
        match op {
            Op::Set { dest, value } => self.set_to(*dest, value)?,
            Op::SetElement { column, index, value } => {
                if column.iter().any(|f| self.is_needed(*f)) {
                    let value = self.expr(value)?;
                    let index = self.saturated_index(index)?;
                    let at = self.element(column, index, loc)?.address;
                    for (i, &limb) in value.iter().enumerate() {
                        self.b.ins().store(plain(), limb, at, 8 * i as i32);
                    }
                }
            }
            Op::ExtractElement { headers, index, varbit_length } => {
                let index = self.saturated_index(index)?;
                self.extract_element(headers, index, varbit_length.as_ref(), loc, scope.place())?;
            }
            Op::Extract { header, varbit_length } => {
                self.extract(*header, varbit_length.as_ref(), scope.place())?
            }
            Op::Advance { bits } => self.advance(bits, scope.place())?,
            Op::Lookahead { dest } => {
                let place = scope.place();
                let width = self.program().width(*dest);
                let at = self.require(u64::from(width.div_ceil(8)), place);
                if self.is_needed(*dest) {
                    let v = self.load_bits(at, 0, width);
                    self.set_field(*dest, &v);
                }
            }
            Op::Emit { header } => {
                if self.flow.deparse[self.flow.places[scope.place()].step] == Some(Deparse::Scratch) {
                    let so_far = self.so_far.take();
                    self.emit_to_scratch(*header, self.flow.output_limit(scope.place()));
                    self.so_far = so_far;
                }
            }
            Op::Copy(copy) => self.copy(copy, scope.place())?,
            Op::Truncate { bytes } => self.truncate(bytes)?,
            Op::Extern { function, instance, args, outs, text } => {
                self.call_extern(function, *instance, args, outs, text, loc, scope.place())?;
            }
        }
        Ok(())
    }

    fn set_to(&mut self, dest: FieldId, value: &Expr) -> Result<(), Error> {
        if self.is_needed(dest) {
            let value = self.expr(value)?;
            self.set_field(dest, &value);
        }
        Ok(())
    }

    /// What an index finds in a column: an address in any case, which if there is no such element is one that nobody reads.
    fn element(&mut self, column: &[FieldId], index: Value, loc: Loc) -> Result<Found, Error> {
        let flow = self.flow;
        let part = flow.columns.part(column);
        let Some((part, begin)) = part.and_then(|part| Some((part, self.layout.columns.begins[part.whole]?)))
        else {
            return Err(Error { message: "bug in p4jet: a column that is in no memory".into(), loc });
        };
        let bytes = 8 * limb_count(self.program().width(column[0])) as i64;
        Ok(self.found(part, column.len(), flow.columns.whole[part.whole].len(), bytes, begin, index))
    }

    fn found(
        &mut self,
        part: Part,
        count: usize,
        whole: usize,
        bytes: i64,
        begin: i32,
        index: Value,
    ) -> Found {
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, count as i64);
        let behind = self.b.ins().imul_imm_u(index, part.step as i64 * bytes);
        // Past the last one, whatever the part.
        let beyond = self.iconst((whole - part.first) as u64 * bytes as u64);
        let behind = self.b.ins().select(inside, behind, beyond);
        let at = self.b.ins().iadd(self.phv, behind);
        let first = i64::from(self.layout.columns.at + begin) + part.first as i64 * bytes;
        Found { inside, address: self.b.ins().iadd_imm_s(at, first) }
    }

    /// The value of the element that an index finds; 0 if there is none.
    pub(crate) fn get_element(&mut self, column: &[FieldId], index: &Expr) -> Result<Limbs, Error> {
        let zero = self.iconst(0);
        let limbs = limb_count(self.program().width(column[0]));
        if let Some(known) = self.flow.value(&self.facts, index) {
            return Ok(match chosen(column, known) {
                Some(field) => self.get(self.flow.field_slot(field)),
                None => vec![zero; limbs],
            });
        }
        let index = self.saturated_index(index)?;
        let found = self.element(column, index, Loc(0))?;
        let value = (0..limbs).map(|i| {
            let limb = self.b.ins().load(types::I64, plain(), found.address, 8 * i as i32);
            self.b.ins().select(found.inside, limb, zero)
        });
        Ok(value.collect())
    }

    /// Extracts the header that an index finds, if there is one.
    fn extract_element(
        &mut self,
        headers: &[HeaderId],
        index: Value,
        varbit: Option<&Expr>,
        loc: Loc,
        place: Place,
    ) -> Result<(), Error> {
        let (yes, go_on) = (self.b.create_block(), self.b.create_block());
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, headers.len() as i64);
        self.b.ins().brif(inside, yes, &[], go_on, &[]);
        self.b.switch_to_block(yes);
        self.extract_to(Extracted::Element { headers, index, loc }, varbit, place)?;
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
        Ok(())
    }

    /// Hands what the copies bring along to [`crate::copies::make_copies`].
    fn copy(&mut self, copy: &'a PacketCopy, place: Place) -> Result<(), Error> {
        let layout = self.layout;
        let cursor_slot = self.flow.cursor_slot();
        let offset_slots = cursor_slot + 1;
        let keeps_headers = self.flow.keeps_headers(place, copy);
        let at_cursor = copy.begin == Begin::Egress && copy.frame == CopyFrame::Current;
        let entered = &layout.entered[copy.begin as usize];
        let mut values: HashMap<Slot, Limbs> = HashMap::new();
        for (field, value) in &copy.set {
            if entered.binary_search(&field.index()).is_ok() {
                values.insert(field.index(), self.expr(value)?);
            }
        }
        let kept = |slot: Slot| match &copy.keep {
            _ if slot == cursor_slot => at_cursor,
            _ if slot >= offset_slots => keeps_headers,
            Keep::All => true,
            Keep::Fields(fields) => fields.contains(&FieldId(slot as u32)),
        };
        let image = self.buffer(6, layout.image_bytes as usize / 8);
        let zero = self.iconst(0);
        // What a copy takes is live as it is, be it in the frame or not.
        let so_far = self.so_far.take();
        for &slot in entered {
            let limbs = match values.remove(&slot) {
                Some(limbs) => limbs,
                None if kept(slot) => self.get(slot),
                None => vec![zero; limb_count(slot_width(self.flow, slot))],
            };
            for (i, limb) in limbs.into_iter().enumerate() {
                self.b.ins().store(plain(), limb, image, layout.phv[&slot] + 8 * i as i32);
            }
        }
        self.so_far = so_far;
        let id = match &copy.replicas {
            Some(replicas) => self.saturated_index(&replicas.id)?,
            None => zero,
        };
        let site = self.copy_site(copy, place);
        self.sites.copies.push(site);
        let site = self.iconst(self.sites.copies.len() as u64 - 1);
        let cursor = if at_cursor { self.cursor() } else { zero };
        let args = [self.ctx, site, image, self.packet, cursor, id];
        match &copy.queue {
            Some(queue) => {
                let queue = [self.saturated_index(&queue.port)?, self.saturated_index(&queue.number)?];
                self.b.ins().call(self.helpers.make_queued_copies, &[&args[..], &queue].concat());
            }
            None => {
                self.b.ins().call(self.helpers.make_copies, &args);
            }
        }
        Ok(())
    }

    fn copy_site(&self, copy: &PacketCopy, place: Place) -> CopySite {
        let cell = |slot: Slot| self.layout.cell(self.flow, copy.begin, slot);
        let field_cell = |field: Option<FieldId>| cell(self.flow.field_slot(field?));
        let mut set = 0;
        for &(intrinsic, field) in &self.program().intrinsics {
            copy_sets(copy, &mut |f| {
                if f == field {
                    set |= intrinsic_bit(intrinsic);
                }
            });
        }
        CopySite {
            begin: copy.begin,
            made_in: if self.flow.places[place].step < self.program().ingress.len() {
                Begin::Ingress
            } else {
                Begin::Egress
            },
            frame: copy.frame,
            set,
            cursor: cell(self.flow.cursor_slot()),
            replicas: copy.replicas.as_ref().map(|r| ReplicaSite {
                list: r.list,
                port: field_cell(r.port),
                instance: field_cell(r.instance),
                class_of_service: field_cell(r.class_of_service),
                queue_by_class: r.class_of_service.is_some(),
            }),
        }
    }

    /// Cuts the frame, but not what is before the cursor.
    fn truncate(&mut self, bytes: &Expr) -> Result<(), Error> {
        let bytes = self.saturated_index(bytes)?;
        let cursor = self.cursor();
        let bytes = self.b.ins().umax(bytes, cursor);
        let length = self.b.use_var(self.length);
        let length = self.b.ins().umin(bytes, length);
        self.b.def_var(self.length, length);
        let length = self.b.ins().ireduce(types::I32, length);
        self.b.ins().store(plain(), length, self.packet, offset_of!(Packet, len) as i32);
        Ok(())
    }

    fn cursor(&mut self) -> Value {
        self.get(self.flow.cursor_slot())[0]
    }

    /// Ends the block with an error unless `ok`; continues in a new block.
    fn check(&mut self, ok: Value, code: u32, place: Place) {
        let fail = self.b.create_block();
        let go_on = self.b.create_block();
        self.b.set_cold_block(fail);
        self.b.ins().brif(ok, go_on, &[], fail, &[]);
        self.b.switch_to_block(fail);
        if let Some(field) = self.flow.block(place).error_field {
            let limbs = self.constant(&BigUint::from(code), self.program().width(field));
            self.set_field(field, &limbs);
            let mut facts = self.facts.clone();
            self.flow.forget(&mut facts, field);
            let facts = std::mem::replace(&mut self.facts, facts);
            self.leave_step(place, self.flow.next_step_on_error(place));
            self.facts = facts;
        } else {
            self.leave_step(place, self.flow.next_step_on_error(place));
        }
        self.b.switch_to_block(go_on);
    }

    /// Makes sure that `bytes` lie behind the cursor; gives the cursor's address.
    fn require(&mut self, bytes: u64, place: Place) -> Value {
        let cursor = self.cursor();
        let end = self.b.ins().iadd_imm_u(cursor, bytes as i64);
        let length = self.b.use_var(self.length);
        let ok = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, length);
        self.check(ok, self.program().error_packet_too_short, place);
        let data = self.b.use_var(self.data);
        self.b.ins().iadd(data, cursor)
    }

    fn extract(&mut self, header: HeaderId, varbit: Option<&Expr>, place: Place) -> Result<(), Error> {
        self.extract_to(Extracted::Header(header), varbit, place)
    }

    /// Whether `holds` of that part of what is extracted.
    fn is_any_part(
        &self,
        to: Extracted,
        part: impl Fn(&Header) -> FieldId,
        holds: impl Fn(&Self, FieldId) -> bool,
    ) -> bool {
        let holds = |header: &HeaderId| holds(self, part(&self.program().headers[header.index()]));
        match to {
            Extracted::Header(header) => holds(&header),
            Extracted::Element { headers, .. } => headers.iter().any(holds),
        }
    }

    fn set_part(
        &mut self,
        to: Extracted,
        part: impl Fn(&Header) -> FieldId,
        limbs: &[Value],
    ) -> Result<(), Error> {
        let program = self.program();
        let field = |header: &HeaderId| part(&program.headers[header.index()]);
        match to {
            Extracted::Header(header) => self.set_field(field(&header), limbs),
            Extracted::Element { headers, index, loc } => {
                let column: Vec<FieldId> = headers.iter().map(field).collect();
                let at = self.element(&column, index, loc)?.address;
                for (i, &limb) in limbs.iter().enumerate() {
                    self.b.ins().store(plain(), limb, at, 8 * i as i32);
                }
            }
        }
        Ok(())
    }

    /// Notes where in the frame a header begins, plus one.
    fn set_offset(&mut self, to: Extracted, offset: Value) -> Result<(), Error> {
        match to {
            Extracted::Header(header) => self.set(self.flow.offset_slot(header), &[offset]),
            Extracted::Element { headers, index, loc } => {
                let flow = self.flow;
                let program = self.program();
                let column: Vec<FieldId> = headers.iter().map(|h| program.headers[h.index()].valid).collect();
                let part = flow.columns.part(&column);
                let Some((part, begin)) =
                    part.and_then(|part| Some((part, self.layout.columns.offsets_begin[part.whole]?)))
                else {
                    return Err(Error { message: "bug in p4jet: offsets in no memory".into(), loc });
                };
                let whole = flow.columns.whole[part.whole].len();
                let at = self.found(part, column.len(), whole, 8, begin, index).address;
                self.b.ins().store(plain(), offset, at, 0);
            }
        }
        Ok(())
    }

    fn extract_to(&mut self, to: Extracted, varbit: Option<&Expr>, place: Place) -> Result<(), Error> {
        let program = self.program();
        // Those of a column are of one layout.
        let header = match to {
            Extracted::Header(header) => header,
            Extracted::Element { headers, .. } => headers[0],
        };
        let h = &program.headers[header.index()];
        let fixed_bits: u32 =
            h.fields.iter().filter(|f| f.varbit_length.is_none()).map(|f| program.width(f.field)).sum();
        let fixed_bytes = fixed_bits / 8;
        let cursor = self.cursor();
        let mut var_bytes = None;
        if let (Some(length), Some(field)) = (varbit, h.fields.iter().find(|f| f.varbit_length.is_some())) {
            let bits = self.clamped(length)?;
            let rest = self.b.ins().band_imm_u(bits, 7);
            let whole = self.b.ins().icmp_imm_u(IntCC::Equal, rest, 0);
            self.check(whole, self.invalid_argument(), place);
            let fits = self.b.ins().icmp_imm_u(
                IntCC::UnsignedLessThanOrEqual,
                bits,
                i64::from(program.width(field.field)),
            );
            self.check(fits, program.error_header_too_short, place);
            var_bytes = Some(self.b.ins().ushr_imm_u(bits, 3));
        }
        let mut end = self.b.ins().iadd_imm_u(cursor, i64::from(fixed_bytes));
        if let Some(bytes) = var_bytes {
            end = self.b.ins().iadd(end, bytes);
        }
        let length = self.b.use_var(self.length);
        let ok = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, length);
        self.check(ok, program.error_packet_too_short, place);
        let data = self.b.use_var(self.data);
        // Where it is known, so that fields are loaded once.
        let known = self.flow.known(&self.facts, self.flow.cursor_slot());
        let (mut base, mut bit) = match known.and_then(|bytes| u32::try_from(8 * bytes).ok()) {
            Some(bits) => (data, bits),
            None => (self.b.ins().iadd(data, cursor), 0),
        };
        for (number, f) in h.fields.iter().enumerate() {
            let width = program.width(f.field);
            let part = |h: &Header| h.fields[number].field;
            match (f.varbit_length, var_bytes) {
                (Some(length_field), Some(bytes)) => {
                    let of = |h: &Header| h.fields[number].varbit_length.unwrap_or(length_field);
                    let mut length = vec![self.b.ins().ishl_imm_u(bytes, 3)];
                    length[0] = self.mask(length[0], program.width(length_field).min(64));
                    length.resize_with(limb_count(program.width(length_field)), || self.iconst(0));
                    self.set_part(to, of, &length)?;
                    if self.is_any_part(to, part, Self::is_needed) {
                        let n = limb_count(width);
                        let out = self.buffer(2, n);
                        let at = self.iconst(u64::from(bit));
                        let bits = self.b.ins().ishl_imm_u(bytes, 3);
                        let limbs = self.iconst(n as u64);
                        self.b.ins().call(self.helpers.read_bits, &[base, at, bits, out, limbs]);
                        let value = self.reload(out, n);
                        self.set_part(to, part, &value)?;
                    }
                    base = self.b.ins().iadd(base, bytes);
                }
                _ => {
                    let is_used = |cg: &Self, field: FieldId| {
                        let live = cg.live_after.as_ref().is_none_or(|live| live.contains(field.index()));
                        live && cg.is_needed(field)
                    };
                    if self.is_any_part(to, part, is_used) {
                        let value = self.load_bits(base, bit, width);
                        self.set_part(to, part, &value)?;
                    }
                    bit += width;
                }
            }
        }
        let one = self.iconst(1);
        self.set_part(to, |h| h.valid, &[one])?;
        let offset = self.b.ins().iadd_imm_u(cursor, 1);
        self.set_offset(to, offset)?;
        self.set(self.flow.cursor_slot(), &[end]);
        Ok(())
    }

    fn invalid_argument(&self) -> u32 {
        self.program().errors.iter().position(|e| e == "ParserInvalidArgument").unwrap_or(0) as u32
    }

    /// A count of bits as one limb; anything of 2^40 or more becomes 2^40, a multiple of 8 only if it was one.
    fn clamped(&mut self, expr: &Expr) -> Result<Value, Error> {
        let limbs = self.expr(expr)?;
        let huge = self.iconst(1 << 40);
        let low = self.b.ins().band_imm_u(limbs[0], 7);
        let huge = self.b.ins().bor(huge, low);
        let mut over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, limbs[0], huge);
        for &limb in &limbs[1..] {
            let more = self.b.ins().icmp_imm_u(IntCC::NotEqual, limb, 0);
            over = self.b.ins().bor(over, more);
        }
        Ok(self.b.ins().select(over, huge, limbs[0]))
    }

    fn advance(&mut self, bits: &Expr, place: Place) -> Result<(), Error> {
        let bits = self.clamped(bits)?;
        let rest = self.b.ins().band_imm_u(bits, 7);
        let whole = self.b.ins().icmp_imm_u(IntCC::Equal, rest, 0);
        self.check(whole, self.invalid_argument(), place);
        let bytes = self.b.ins().ushr_imm_u(bits, 3);
        let cursor = self.cursor();
        let end = self.b.ins().iadd(cursor, bytes);
        let length = self.b.use_var(self.length);
        let ok = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, length);
        self.check(ok, self.program().error_packet_too_short, place);
        self.set(self.flow.cursor_slot(), &[end]);
        Ok(())
    }

    // ---- deparsing ----

    /// Bytes of a header now.
    fn header_bytes(&mut self, header: HeaderId) -> Value {
        let program = self.program();
        let mut fixed = 0;
        let mut dynamic = None;
        for f in &program.headers[header.index()].fields {
            match f.varbit_length {
                None => fixed += program.width(f.field),
                Some(length) => {
                    let bits = self.get(self.flow.field_slot(length))[0];
                    let bytes = self.b.ins().ushr_imm_u(bits, 3);
                    dynamic = Some(match dynamic {
                        None => bytes,
                        Some(sum) => self.b.ins().iadd(sum, bytes),
                    });
                }
            }
        }
        match dynamic {
            None => self.iconst(u64::from(fixed / 8)),
            Some(bytes) => self.b.ins().iadd_imm_u(bytes, i64::from(fixed / 8)),
        }
    }

    fn finish_deparser(&mut self, place: Place, mode: Deparse) {
        let step = self.flow.places[place].step;
        let emits: Vec<HeaderId> = self.flow.emits[step].clone();
        // What they write is live, and headers may have moved.
        self.so_far = None;
        self.changed = self.flow.changed_at_end(place);
        match mode {
            Deparse::InPlace => self.write_back(&emits),
            Deparse::Checked if let Some((shift, begins)) = self.settled(&emits) => {
                if shift != 0 {
                    let shift = self.b.ins().iconst(types::I64, shift);
                    self.shift_front(shift);
                }
                for (header, begin) in begins {
                    let begin = self.iconst(begin);
                    self.write_at(header, begin);
                }
            }
            Deparse::Checked => {
                // Where each header begins in the frame that leaves, behind its start.
                let mut begins = Vec::new();
                let mut total = self.iconst(0);
                for &header in &emits {
                    let valid = self.valid(header);
                    let bytes = self.header_bytes(header);
                    let zero = self.iconst(0);
                    let bytes = self.b.ins().select(valid, bytes, zero);
                    begins.push((header, valid, total));
                    total = self.b.ins().iadd(total, bytes);
                }
                let cursor = self.cursor();
                let shift = self.b.ins().isub(cursor, total);
                let mut different = self.iconst(0);
                for &(header, valid, begin) in &begins {
                    if !self.flow.extracted.contains(&header) {
                        continue;
                    }
                    let plus_one = self.get(self.flow.offset_slot(header))[0];
                    let offset = self.b.ins().iadd_imm_s(plus_one, -1);
                    let expected = self.b.ins().iadd(shift, begin);
                    let apart = self.b.ins().bxor(offset, expected);
                    let zero = self.iconst(0);
                    let apart = self.b.ins().select(plus_one, apart, zero);
                    let apart = self.b.ins().select(valid, apart, zero);
                    different = self.b.ins().bor(different, apart);
                }
                let in_place = self.b.create_block();
                let rebuild = self.b.create_block();
                let done = self.b.create_block();
                self.b.ins().brif(different, rebuild, &[], in_place, &[]);
                self.b.switch_to_block(in_place);
                self.shift_front(shift);
                for (header, _, begin) in begins {
                    self.write_at(header, begin);
                }
                self.b.ins().jump(done, &[]);
                self.b.switch_to_block(rebuild);
                for &header in &emits {
                    self.emit_to_scratch(header, None);
                }
                self.replace_front();
                self.b.ins().jump(done, &[]);
                self.b.switch_to_block(done);
            }
            Deparse::Scratch => self.replace_front(),
        }
        self.changed = None;
        let zero = self.iconst(0);
        self.set(self.flow.cursor_slot(), &[zero]);
        for header in 0..self.program().headers.len() {
            self.set(self.flow.offset_slot(HeaderId(header as u32)), &[zero]);
        }
        self.flow.learn_end(&mut self.facts, place);
        self.b.def_var(self.out_offset, zero);
    }

    /// If it is known that the frame leaves with the headers where they are: by how much later it begins, and where from
    /// there each of them does.
    fn settled(&self, emits: &[HeaderId]) -> Option<(i64, Vec<(HeaderId, u64)>)> {
        let known = |slot: Slot| self.flow.known(&self.facts, slot);
        let mut begins = Vec::new();
        let mut total = 0;
        for &header in emits {
            if known(self.program().headers[header.index()].valid.index())? == 1 {
                begins.push((header, total));
                total += u64::from(self.flow.header_bits(header)?) / 8;
            }
        }
        let shift = known(self.flow.cursor_slot())? as i64 - total as i64;
        for &(header, begin) in &begins {
            let plus_one = known(self.flow.offset_slot(header))?;
            if plus_one != 0 && plus_one as i64 - 1 != shift + begin as i64 {
                return None;
            }
        }
        Some((shift, begins))
    }

    /// Whether the field of a header that leaves may not be what the frame has, or any statement may have set it if that
    /// is not known.
    fn is_written(&self, field: FieldId) -> bool {
        let changed = self.changed.as_ref().is_none_or(|changed| changed.contains(field.index()));
        changed && self.flow.written.contains(&field)
    }

    /// Puts the changed fields of valid headers back where they came from.
    fn write_back(&mut self, emits: &[HeaderId]) {
        let program = self.program();
        for &header in emits {
            let h = &program.headers[header.index()];
            if !self.flow.extracted.contains(&header) || !h.fields.iter().any(|f| self.is_written(f.field)) {
                continue;
            }
            let Some(go_on) = self.if_valid(header) else { continue };
            let offset = match self.flow.fixed_offset[header.index()] {
                Some(bytes) => self.iconst(u64::from(bytes)),
                None => {
                    let plus_one = self.get(self.flow.offset_slot(header))[0];
                    self.b.ins().iadd_imm_s(plus_one, -1)
                }
            };
            let data = self.b.use_var(self.data);
            let base = self.b.ins().iadd(data, offset);
            self.write_fields(header, base);
            self.end_if(go_on);
        }
    }

    /// Writes the header, if valid, so many bytes behind the start of the frame that leaves: all of it if it was not
    /// extracted, else what has changed.
    fn write_at(&mut self, header: HeaderId, begin: Value) {
        let h = &self.program().headers[header.index()];
        let is_extracted = self.flow.extracted.contains(&header);
        if is_extracted && !h.fields.iter().any(|f| self.is_written(f.field)) && !self.is_written(h.valid) {
            return;
        }
        let Some(go_on) = self.if_valid(header) else { return };
        let data = self.b.use_var(self.data);
        let to = self.b.ins().iadd(data, begin);
        if is_extracted {
            // A header that was added after all lies there as zeros first.
            let plus_one = self.get(self.flow.offset_slot(header))[0];
            if self
                .flow
                .known(&self.facts, self.flow.offset_slot(header))
                .is_none_or(|plus_one| plus_one == 0)
            {
                let zero = self.b.create_block();
                let patch = self.b.create_block();
                self.b.ins().brif(plus_one, patch, &[], zero, &[]);
                self.b.switch_to_block(zero);
                self.zero_bytes(to, self.fixed_bytes(header));
                self.b.ins().jump(patch, &[]);
                self.b.switch_to_block(patch);
            }
            self.write_fields(header, to);
        } else {
            self.write_all_fields(header, to);
        }
        self.end_if(go_on);
    }

    /// Moves the start of the frame by this many bytes, later or earlier.
    fn shift_front(&mut self, shift: Value) {
        let data = self.b.use_var(self.data);
        let data = self.b.ins().iadd(data, shift);
        self.b.ins().store(plain(), data, self.packet, offset_of!(Packet, data) as i32);
        self.b.def_var(self.data, data);
        let length = self.b.use_var(self.length);
        let length = self.b.ins().isub(length, shift);
        self.b.ins().istore32(plain(), length, self.packet, offset_of!(Packet, len) as i32);
        self.b.def_var(self.length, length);
    }

    /// What follows happens only if the header is valid, until [`Self::end_if`]; `None` if it never is.
    fn if_valid(&mut self, header: HeaderId) -> Option<Option<Block>> {
        match self.flow.known(&self.facts, self.program().headers[header.index()].valid.index()) {
            Some(0) => return None,
            Some(_) => return Some(None),
            None => {}
        }
        let valid = self.valid(header);
        let yes = self.b.create_block();
        let go_on = self.b.create_block();
        self.b.ins().brif(valid, yes, &[], go_on, &[]);
        self.b.switch_to_block(yes);
        Some(Some(go_on))
    }

    fn end_if(&mut self, go_on: Option<Block>) {
        if let Some(go_on) = go_on {
            self.b.ins().jump(go_on, &[]);
            self.b.switch_to_block(go_on);
        }
    }

    /// Stores every field that some statement sets.
    fn write_fields(&mut self, header: HeaderId, mut base: Value) {
        let program = self.program();
        let mut bit = 0;
        for f in &program.headers[header.index()].fields {
            let width = program.width(f.field);
            match f.varbit_length {
                None => {
                    if self.is_written(f.field) {
                        let limbs = self.get(self.flow.field_slot(f.field));
                        self.store_bits(base, bit, width, &limbs);
                    }
                    bit += width;
                }
                Some(length) => {
                    let bits = self.get(self.flow.field_slot(length))[0];
                    if self.flow.varbit_written(header) {
                        let limbs = self.get(self.flow.field_slot(f.field));
                        let value = self.spill(0, &limbs);
                        let at = self.iconst(u64::from(bit));
                        self.b.ins().call(self.helpers.write_bits, &[base, at, bits, value]);
                    }
                    let bytes = self.b.ins().ushr_imm_u(bits, 3);
                    base = self.b.ins().iadd(base, bytes);
                }
            }
        }
    }

    /// Bytes of a header without its varbits.
    fn fixed_bytes(&self, header: HeaderId) -> u32 {
        let program = self.program();
        let fields = program.headers[header.index()].fields.iter().filter(|f| f.varbit_length.is_none());
        fields.map(|f| program.width(f.field)).sum::<u32>() / 8
    }

    /// Appends the header, if valid, to the scratch memory. Drops the packet if there is not enough room.
    fn emit_to_scratch(&mut self, header: HeaderId, bytes_max: Option<u32>) {
        let program = self.program();
        let h = &program.headers[header.index()];
        let Some(go_on) = self.if_valid(header) else { return };
        let scratch = self.b.ins().load(types::I64, fixed(), self.ctx, offset_of!(Ctx, scratch) as i32);
        let at = self.b.use_var(self.out_offset);
        let to = self.b.ins().iadd(scratch, at);
        let bytes = self.header_bytes(header);
        if let Some(max) = bytes_max {
            let end = self.b.ins().iadd(at, bytes);
            let fits = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, end, i64::from(max));
            let drop = self.drop_block(Some(DropReason::EmitsTooMuch), Loc(0));
            let fit = self.b.create_block();
            self.b.ins().brif(fits, fit, &[], drop, &[]);
            self.b.switch_to_block(fit);
        }
        let has_varbit = h.fields.iter().any(|f| f.varbit_length.is_some());
        let fixed_bytes = self.fixed_bytes(header);
        // A varbit that statements set is written whole below; its old bytes may be fewer than the new.
        let copyable = self.flow.extracted.contains(&header) && !self.flow.varbit_written(header);
        if copyable {
            let plus_one = self.get(self.flow.offset_slot(header))[0];
            let copy = self.b.create_block();
            let zero = self.b.create_block();
            let patch = self.b.create_block();
            self.b.ins().brif(plus_one, copy, &[], zero, &[]);
            self.b.switch_to_block(copy);
            let offset = self.b.ins().iadd_imm_s(plus_one, -1);
            let data = self.b.use_var(self.data);
            let from = self.b.ins().iadd(data, offset);
            if has_varbit {
                self.b.ins().call(self.helpers.copy, &[to, from, bytes]);
            } else {
                self.copy_bytes(to, from, fixed_bytes);
            }
            self.b.ins().jump(patch, &[]);
            self.b.switch_to_block(zero);
            self.zero_bytes(to, fixed_bytes);
            self.b.ins().jump(patch, &[]);
            self.b.switch_to_block(patch);
            self.write_fields(header, to);
        } else {
            self.write_all_fields(header, to);
        }
        let end = self.b.ins().iadd(at, bytes);
        self.b.def_var(self.out_offset, end);
        self.end_if(go_on);
    }

    /// Writes a header that does not come from the frame, or not as it is: fields nobody sets are 0.
    fn write_all_fields(&mut self, header: HeaderId, mut base: Value) {
        let program = self.program();
        let h = &program.headers[header.index()];
        let total: u32 =
            h.fields.iter().filter(|f| f.varbit_length.is_none()).map(|f| program.width(f.field)).sum();
        if h.fields.iter().all(|f| f.varbit_length.is_none()) {
            let covered =
                h.fields.iter().all(|f| self.is_written(f.field) && program.width(f.field).is_multiple_of(8));
            if !covered {
                self.zero_bytes(base, total / 8);
            }
            self.write_fields(header, base);
            return;
        }
        let mut bit = 0;
        for f in &h.fields {
            let width = program.width(f.field);
            let limbs = self.get_or_zero(f.field);
            match f.varbit_length {
                None => {
                    self.store_bits(base, bit, width, &limbs);
                    bit += width;
                }
                Some(length) => {
                    let bits = self.get(self.flow.field_slot(length))[0];
                    let value = self.spill(0, &limbs);
                    let at = self.iconst(u64::from(bit));
                    self.b.ins().call(self.helpers.write_bits, &[base, at, bits, value]);
                    let bytes = self.b.ins().ushr_imm_u(bits, 3);
                    base = self.b.ins().iadd(base, bytes);
                }
            }
        }
    }

    /// Puts the scratch memory in place of what was parsed.
    fn replace_front(&mut self) {
        let scratch = self.b.ins().load(types::I64, fixed(), self.ctx, offset_of!(Ctx, scratch) as i32);
        let out = self.b.use_var(self.out_offset);
        let cursor = self.cursor();
        self.b.ins().call(self.helpers.replace, &[self.packet, scratch, out, cursor]);
        let data = self.b.ins().load(types::I64, plain(), self.packet, offset_of!(Packet, data) as i32);
        let length = self.b.ins().uload32(plain(), self.packet, offset_of!(Packet, len) as i32);
        self.b.def_var(self.data, data);
        self.b.def_var(self.length, length);
    }

    // ---- tables ----

    fn pack_key(&mut self, table: TableId, keys: &[Expr]) -> Result<Limbs, Error> {
        let widths: Vec<u32> = self.program().tables[table.index()].keys.iter().map(|k| k.width).collect();
        let mut out = vec![None; limb_count(widths.iter().sum())];
        let mut at = 0;
        for (expr, width) in keys.iter().zip(widths) {
            let limbs = self.expr(expr)?;
            self.place_limbs(&mut out, &limbs, width, at);
            at += width;
        }
        Ok(self.filled(out))
    }

    /// A value that is loaded once per batch; in cold code where it is needed, with all that leads there, so that nothing but
    /// [`Self::ctx`] has to be kept for that.
    fn once(&mut self, what: Once) -> Value {
        if let Some(&value) = self.once.get(&what).filter(|_| !self.in_cold) {
            return value;
        }
        let (base, offset) = match what {
            Once::Ctx(offset) => (self.ctx, offset as i32),
            Once::Indirect(ctx, offset) => (self.once(Once::Ctx(ctx)), offset),
            Once::View(table, offset) => (self.view(table), offset as i32),
            Once::Default(table) => (self.view(table), offset_of!(View, default_row) as i32),
        };
        if self.in_cold {
            return load_once(self.b.ins(), what, plain(), base, offset);
        }
        if self.once.len() >= ONCE_MAX {
            return load_once(self.b.ins(), what, fixed(), base, offset);
        }
        let mut at_entry = FuncCursor::new(self.b.func).at_last_inst(self.entry);
        let value = load_once(at_entry.ins(), what, plain(), base, offset);
        self.once.insert(what, value);
        value
    }

    fn view(&mut self, table: TableId) -> Value {
        self.once(Once::Indirect(offset_of!(Ctx, views), 8 * table.0 as i32))
    }

    fn view_word(&mut self, table: TableId, offset: usize) -> Value {
        self.once(Once::View(table, offset))
    }

    /// Looks for a tag in a bucket of [`Structure::Quotient`]: goes to `found` with the difference to the word that has it, or
    /// to `done` with 0 if the search ends there; else on, on a cold way.
    fn look_into_bucket(&mut self, at: Value, tag: Value, step: Value, found: Block, done: Block) {
        // All words at once: which one it is is hard to predict. Where one has the key, its difference is the least.
        let [first, second, third, last] = [0, 8, 16, 24].map(|offset| {
            let at = if offset == 0 { at } else { self.b.ins().iadd_imm_u(at, offset) };
            let word = self.b.ins().atomic_load(types::I64, plain(), at);
            self.b.ins().bxor(word, tag)
        });
        let nearest = self.b.ins().umin(first, second);
        let of_others = self.b.ins().umin(third, last);
        let nearest = self.b.ins().umin(nearest, of_others);
        let is_one = self.b.ins().icmp(IntCC::UnsignedLessThan, nearest, step);
        let (other, next) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(is_one, found, &[BlockArg::Value(nearest)], other, &[]);
        self.b.switch_to_block(other);
        let none = self.iconst(0);
        let ends = self.b.ins().icmp(IntCC::Equal, last, tag);
        self.b.ins().brif(ends, done, &[BlockArg::Value(none)], next, &[]);
        self.b.switch_to_block(next);
        self.b.set_cold_block(next);
    }

    /// The slot number where the probe for a key begins.
    fn hash(&mut self, table: TableId, key: &[Value]) -> Value {
        let seed = self.view_word(table, offset_of!(View, seed));
        let shift = self.view_word(table, offset_of!(View, shift));
        let mut h = self.b.ins().imul(key[0], seed);
        for &limb in &key[1..] {
            let turned = self.b.ins().rotl_imm_u(h, 32);
            let mixed = self.b.ins().bxor(turned, limb);
            h = self.b.ins().imul(mixed, seed);
        }
        self.b.ins().ushr(h, shift)
    }

    /// The address of the bucket where the search for a key begins, and what is compared with its words.
    fn quotient_home(&mut self, table: TableId, key: Value) -> (Value, Value) {
        let seed = self.view_word(table, offset_of!(View, seed));
        let product = self.b.ins().imul(key, seed);
        let buckets = self.view_word(table, offset_of!(View, buckets));
        let index = self.b.ins().umulhi(product, buckets);
        let base = self.view_word(table, offset_of!(View, base));
        let at = self.b.ins().ishl_imm_u(index, 5);
        let at = self.b.ins().iadd(base, at);
        let shift = self.view_word(table, offset_of!(View, shift));
        let remainder = self.b.ins().ishl(product, shift);
        let step = self.view_word(table, offset_of!(View, step));
        (at, self.b.ins().iadd(remainder, step))
    }

    fn lpm_key(&mut self, table: TableId, key: Value) -> Value {
        let width = self.program().tables[table.index()].keys[0].width;
        if width == 32 { key } else { self.b.ins().ishl_imm_u(key, i64::from(32 - width)) }
    }

    /// The address a lookup will touch first.
    fn first_address(&mut self, table: TableId, key: &[Value]) -> Value {
        let base = self.view_word(table, offset_of!(View, base));
        match self.shapes.structures[table.index()] {
            Structure::Quotient => self.quotient_home(table, key[0]).0,
            Structure::Hash => {
                let index = self.hash(table, key);
                let at = self.b.ins().imul_imm_u(index, 8 * (key.len() as i64 + 1));
                self.b.ins().iadd(base, at)
            }
            _ => {
                let key = self.lpm_key(table, key[0]);
                let index = self.b.ins().ushr_imm_u(key, 8);
                let at = self.b.ins().ishl_imm_u(index, 2);
                self.b.ins().iadd(base, at)
            }
        }
    }

    /// Ends this stage for the packet: it waits for the next one, with the key of its lookup or what was found.
    fn cut(&mut self, cut: usize, words: &[Value], selector: Value) {
        let Cut { place, begins } = self.layout.cuts[cut];
        let selected = match self.flow.node(place).terminator {
            Terminator::Apply { table, .. } => self.program().tables[table.index()].profile.is_some(),
            _ => false,
        };
        for (i, &limb) in words.iter().chain(selected.then_some(&selector)).enumerate() {
            self.b.ins().store(plain(), limb, self.phv, self.layout.key + 8 * i as i32);
        }
        for &(slot, origin) in &self.layout.carried[cut] {
            if matches!(self.homes[slot], Home::Registers(_)) && origin == Origin::Phv {
                let offset = self.layout.phv[&slot];
                for (i, limb) in self.get(slot).into_iter().enumerate() {
                    self.b.ins().store(plain(), limb, self.phv, offset + 8 * i as i32);
                }
            }
        }
        if let (Begins::Lookup, Terminator::Apply { table, .. }, Some(prefetch)) =
            (begins, &self.flow.node(place).terminator, self.helpers.prefetch)
            && self.shapes.structures[table.index()] != Structure::Generic
            && is_large(self.shapes, self.layout.entries_min, *table)
        {
            let address = self.first_address(*table, words);
            self.b.ins().call(prefetch, &[address]);
        }
        if let (Begins::Action, Terminator::Apply { table, .. }, Some(prefetch)) =
            (begins, &self.flow.node(place).terminator, self.helpers.prefetch)
            && has_far_rows(self.flow.program, self.shapes, self.layout.entries_min, *table)
            && !selected
        {
            let row = self.row_address(*table, words[0], self.row_words(*table).0);
            self.b.ins().call(prefetch, &[row]);
            for instance in &self.program().tables[table.index()].direct {
                let cell = self.counter_cell(instance.index(), words[0]);
                self.b.ins().call(prefetch, &[cell]);
            }
        }
        let queue = self.once(Once::Indirect(offset_of!(Ctx, queues), 8 * (cut as i32 + 1)));
        let count = self.b.use_var(self.counts[cut + 1]);
        let at = self.b.ins().ishl_imm_u(count, 2);
        let at = self.b.ins().iadd(queue, at);
        let number = self.b.ins().ireduce(types::I32, self.number);
        self.b.ins().store(plain(), number, at, 0);
        let count = self.b.ins().iadd_imm_u(count, 1);
        self.b.def_var(self.counts[cut + 1], count);
        self.b.ins().jump(self.next_packet, &[]);
    }

    /// Begins a stage: restores what [`Self::cut`] saved, then continues at that place.
    fn resume(&mut self, cut: usize) -> Result<(), Error> {
        let Cut { place, begins } = self.layout.cuts[cut];
        self.here = Some(place);
        self.facts = match begins {
            Begins::Place => self.flow.facts_before(place),
            _ => self.flow.facts_at_end(place),
        };
        self.so_far = None;
        let carried = &self.layout.carried[cut];
        let in_memory = &self.layout.in_memory;
        self.zero_slots(|slot| {
            !in_memory.contains_key(&slot)
                && carried.binary_search_by_key(&slot, |c| c.0).map_or(true, |i| carried[i].1 == Origin::Zero)
        });
        let live = self.flow.live_from(place, begins);
        let mut in_frame: BTreeMap<HeaderId, Vec<(FieldId, InFrame)>> = BTreeMap::new();
        for &(slot, origin) in carried {
            if !matches!(self.homes[slot], Home::Registers(_)) {
                continue;
            }
            match origin {
                Origin::Zero => {}
                Origin::Known(value) => {
                    let value = self.iconst(value);
                    self.set(slot, &[value]);
                }
                Origin::Intrinsic(intrinsic) => self.load_intrinsic(intrinsic, FieldId(slot as u32)),
                // The next stage may need it.
                Origin::Frame(_) if !live.contains(slot) => {}
                Origin::Frame(at) => {
                    in_frame.entry(at.header).or_default().push((FieldId(slot as u32), at));
                }
                Origin::Phv => self.load_from_phv(slot),
            }
        }
        for (header, fields) in in_frame {
            self.reload_from_frame(header, &fields);
        }
        if begins == Begins::Place {
            self.resumed = Some(place);
            self.go(Some(place));
            return Ok(());
        }
        let Terminator::Apply { table, keys, .. } = &self.flow.node(place).terminator else {
            unreachable!("a table is applied there");
        };
        let has_profile = self.program().tables[table.index()].profile.is_some();
        let limbs = match begins {
            Begins::Lookup => limb_count(keys.iter().map(|k| k.width(self.program())).sum()),
            _ => 1,
        };
        let mut load =
            |i: usize| self.b.ins().load(types::I64, plain(), self.phv, self.layout.key + 8 * i as i32);
        let selector = has_profile.then(|| load(limbs));
        if begins == Begins::Action {
            let found = load(0);
            let selector = selector.unwrap_or_else(|| self.iconst(0));
            let selected = has_profile.then(|| {
                let selected = self.once(Once::Ctx(offset_of!(Ctx, selected)));
                let at = self.b.ins().ishl_imm_u(self.position, 3);
                let at = self.b.ins().iadd(selected, at);
                self.b.ins().load(types::I64, plain(), at, 0)
            });
            return self.act(place, *table, found, selector, selected);
        }
        let found = if self.shapes.structures[table.index()] == Structure::Generic {
            // The engine has looked all of them up at once.
            let rows = self.once(Once::Ctx(offset_of!(Ctx, rows)));
            let at = self.b.ins().ishl_imm_u(self.position, 2);
            let at = self.b.ins().iadd(rows, at);
            self.b.ins().uload32(plain(), at, 0)
        } else {
            let key: Limbs = (0..limbs).map(load).collect();
            self.lookup_at(place, *table, &key)
        };
        let selector = selector.unwrap_or_else(|| self.iconst(0));
        self.apply(place, *table, found, selector)
    }

    /// The row that a lookup finds, or found the last time that the same row led there.
    fn lookup_at(&mut self, place: Place, table: TableId, key: &[Value]) -> Value {
        let Some((number, memo)) = self.flow.memo(place) else { return self.lookup(table, key) };
        let row = self.get(self.flow.row_slot_of(&memo))[0];
        let cells = self.once(Once::Indirect(offset_of!(Ctx, memos), 8 * number as i32));
        let age = self.once(Once::Indirect(offset_of!(Ctx, ages), 8 * number as i32));
        let wanted = self.b.ins().bor(row, age);
        let index = self.b.ins().band_imm_u(row, memos::CELLS as i64 - 1);
        let at = self.b.ins().ishl_imm_u(index, 4);
        let at = self.b.ins().iadd(cells, at);
        let known = self.b.create_block();
        let search = self.b.create_block();
        let done = self.b.create_block();
        self.b.set_cold_block(search);
        self.b.append_block_param(done, types::I64);
        let word = self.b.ins().load(types::I64, plain(), at, 0);
        let is_known = self.b.ins().icmp(IntCC::Equal, word, wanted);
        self.b.ins().brif(is_known, known, &[], search, &[]);

        self.b.switch_to_block(known);
        let found = self.b.ins().load(types::I64, plain(), at, 8);
        self.b.ins().jump(done, &[BlockArg::Value(found)]);

        self.b.switch_to_block(search);
        let was_cold = std::mem::replace(&mut self.in_cold, true);
        let found = self.lookup(table, key);
        self.in_cold = was_cold;
        // What row 0 does may change at any time.
        let nothing = self.iconst(memos::NOTHING);
        let wanted = self.b.ins().select(row, wanted, nothing);
        self.b.ins().store(plain(), wanted, at, 0);
        self.b.ins().store(plain(), found, at, 8);
        self.b.ins().jump(done, &[BlockArg::Value(found)]);

        self.b.switch_to_block(done);
        self.b.block_params(done)[0]
    }

    /// The row of the entry that matches, 0 if none.
    fn lookup(&mut self, table: TableId, key: &[Value]) -> Value {
        match self.shapes.structures[table.index()] {
            Structure::Keyless => self.iconst(0),
            Structure::Direct => {
                let base = self.view_word(table, offset_of!(View, base));
                let at = self.b.ins().ishl_imm_u(key[0], 2);
                let at = self.b.ins().iadd(base, at);
                self.load_row(at)
            }
            Structure::Lpm32 => {
                let at = self.first_address(table, key);
                let aux = self.view_word(table, offset_of!(View, aux));
                let key = self.lpm_key(table, key[0]);
                let row = self.load_row(at);
                let long = self.b.create_block();
                let done = self.b.create_block();
                self.b.append_block_param(done, types::I64);
                let bits = self.b.ins().ireduce(types::I32, row);
                let extended = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, bits, 0);
                self.b.ins().brif(extended, long, &[], done, &[BlockArg::Value(row)]);
                self.b.set_cold_block(long);
                self.b.switch_to_block(long);
                let low = self.mask(key, 8);
                let group = self.b.ins().band_imm_u(bits, (1 << 31) - 1);
                let group = self.b.ins().uextend(types::I64, group);
                let index = self.b.ins().ishl_imm_u(group, 8);
                let index = self.b.ins().bor(index, low);
                let at = self.b.ins().ishl_imm_u(index, 2);
                let at = self.b.ins().iadd(aux, at);
                let row = self.load_row(at);
                self.b.ins().jump(done, &[BlockArg::Value(row)]);
                self.b.switch_to_block(done);
                let row = self.b.block_params(done)[0];
                // Loaded last, and in any case: whether it is needed is hard to predict.
                let top = self.b.ins().ushr_imm_u(key, 24);
                let at = self.b.ins().ishl_imm_u(top, 2);
                let at = self.b.ins().iadd(aux, at);
                let short = self.load_row(at);
                self.b.ins().select(row, row, short)
            }
            Structure::Quotient => {
                let (home, tag) = self.quotient_home(table, key[0]);
                let step = self.view_word(table, offset_of!(View, step));
                let found = self.b.create_block();
                let done = self.b.create_block();
                self.b.append_block_param(found, types::I64);
                self.b.append_block_param(done, types::I64);
                // The first bucket is looked into in no loop: what a loop needs would be there before it.
                self.look_into_bucket(home, tag, step, found, done);
                let again = self.b.create_block();
                self.b.append_block_param(again, types::I64);
                self.b.append_block_param(again, types::I64);
                let at = self.b.ins().iadd_imm_u(home, 32);
                let tag = self.b.ins().iadd(tag, step);
                self.b.ins().jump(again, &[BlockArg::Value(at), BlockArg::Value(tag)]);

                self.b.switch_to_block(again);
                self.b.set_cold_block(again);
                let &[at, tag] = self.b.block_params(again) else { unreachable!("it has two") };
                self.look_into_bucket(at, tag, step, found, done);
                let at = self.b.ins().iadd_imm_u(at, 32);
                let tag = self.b.ins().iadd(tag, step);
                // The distance is the six bits of the tag from `step` on, 1 in the first bucket.
                let bits = self.b.ins().imul_imm_s(step, 63);
                let distance = self.b.ins().band(tag, bits);
                let too_far = self.b.ins().imul_imm_s(step, View::BUCKETS_MAX as i64 + 1);
                let is_too_far = self.b.ins().icmp(IntCC::Equal, distance, too_far);
                let none = self.iconst(0);
                let next = [BlockArg::Value(at), BlockArg::Value(tag)];
                self.b.ins().brif(is_too_far, done, &[BlockArg::Value(none)], again, &next);

                self.b.switch_to_block(found);
                let mask = self.view_word(table, offset_of!(View, mask));
                let nearest = self.b.block_params(found)[0];
                let row = self.b.ins().band(nearest, mask);
                self.b.ins().jump(done, &[BlockArg::Value(row)]);

                self.b.switch_to_block(done);
                self.b.block_params(done)[0]
            }
            Structure::Hash => {
                let base = self.view_word(table, offset_of!(View, base));
                let start = self.hash(table, key);
                let probe = self.b.create_block();
                let compare = self.b.create_block();
                let live = self.b.create_block();
                let step = self.b.create_block();
                let done = self.b.create_block();
                self.b.append_block_param(probe, types::I64);
                self.b.append_block_param(done, types::I64);
                self.b.ins().jump(probe, &[BlockArg::Value(start)]);

                self.b.switch_to_block(probe);
                let index = self.b.block_params(probe)[0];
                let at = self.b.ins().imul_imm_u(index, 8 * (key.len() as i64 + 1));
                let at = self.b.ins().iadd(base, at);
                // The value word before the key: the writer stores them the other way round.
                let word = self.b.ins().iadd_imm_u(at, 8 * key.len() as i64);
                let row = self.load_row(word);
                self.b.ins().brif(row, compare, &[], done, &[BlockArg::Value(row)]);

                self.b.switch_to_block(compare);
                let found: Limbs = (0..key.len())
                    .map(|i| self.b.ins().load(types::I64, plain(), at, 8 * i as i32))
                    .collect();
                let equal = self.equal(&found, key);
                self.b.ins().brif(equal, live, &[], step, &[]);

                self.b.switch_to_block(live);
                let bits = self.b.ins().ireduce(types::I32, row);
                let tombstone = self.b.ins().icmp_imm_s(IntCC::Equal, bits, -1);
                self.b.ins().brif(tombstone, step, &[], done, &[BlockArg::Value(row)]);

                self.b.switch_to_block(step);
                self.b.set_cold_block(step);
                let mask = self.view_word(table, offset_of!(View, mask));
                let next = self.b.ins().iadd_imm_u(index, 1);
                let next = self.b.ins().band(next, mask);
                self.b.ins().jump(probe, &[BlockArg::Value(next)]);

                self.b.switch_to_block(done);
                self.b.block_params(done)[0]
            }
            Structure::Generic => {
                let key = self.spill(3, key);
                let view = self.view(table);
                let lookup = self.view_word(table, offset_of!(View, lookup));
                let call = self.b.ins().call_indirect(self.helpers.lookup, lookup, &[view, key]);
                let row = self.b.inst_results(call)[0];
                self.b.ins().uextend(types::I64, row)
            }
        }
    }

    /// A row number that the writer may change at any time; what is loaded after it is as new as it.
    fn load_row(&mut self, at: Value) -> Value {
        // There every load is ordered, and this one extends as it loads.
        if cfg!(target_arch = "x86_64") {
            return self.b.ins().uload32(plain(), at, 0);
        }
        let row = self.b.ins().atomic_load(types::I32, plain(), at);
        self.b.ins().uextend(types::I64, row)
    }

    /// Continues with the row that was found; `selector` picks the member of a group.
    fn apply(&mut self, place: Place, table: TableId, found: Value, selector: Value) -> Result<(), Error> {
        match self.layout.cut_at(place, Begins::Action) {
            Some(cut) => {
                self.cut(cut, &[found], selector);
                Ok(())
            }
            None => self.act(place, table, found, selector, None),
        }
    }

    /// Does what the row demands that was found, or the default action's if none was.
    fn act(
        &mut self,
        place: Place,
        table: TableId,
        found: Value,
        selector: Value,
        selected: Option<Value>,
    ) -> Result<(), Error> {
        let program = self.program();
        let t = &program.tables[table.index()];
        let Terminator::Apply { hit, action_run, entry, next, exit, .. } = &self.flow.node(place).terminator
        else {
            unreachable!("called for tables only");
        };
        let node = self.flow.node(place);
        node.terminator.for_each_result(&mut |f| self.flow.forget(&mut self.facts, f));
        if let Some(field) = hit {
            let is_hit = self.b.ins().icmp_imm_u(IntCC::NotEqual, found, 0);
            let is_hit = self.bool_limb(is_hit);
            self.set_field(*field, &[is_hit]);
        }
        if !t.direct.is_empty() {
            let count = self.b.create_block();
            let go_on = self.b.create_block();
            self.b.ins().brif(found, count, &[], go_on, &[]);
            self.b.switch_to_block(count);
            for instance in &t.direct {
                self.count(instance.index(), found);
            }
            self.b.ins().jump(go_on, &[]);
            self.b.switch_to_block(go_on);
        }
        if let Some(slot) = self.flow.row_slot(place) {
            self.set(slot, &[found]);
        }
        let (words, member_words) = self.row_words(table);
        let has_data = member_words > 1 || t.profile.is_some();
        // The action of the hot path is tested first.
        let first = t.actions.iter().position(|a| self.flow.hot_action(place) == Some(a.action));
        // A group without members gives no action at all.
        let sure = t.profile.is_none();
        let asked = match t.actions.len() {
            n @ 0..=8 if sure => n.saturating_sub(1),
            _ => usize::from(first.is_some()),
        };
        let mut default_to = None;
        let (row, which) = if t.profile.is_some() {
            if t.idle_timeout {
                let (row, _) = self.row(table, found, words);
                self.note_hit(row, words);
            }
            match selected {
                Some(row) => (row, self.b.ins().load(types::I32, fixed(), row, 0)),
                None => self.select(place, table, found, selector, words, member_words),
            }
        } else if self.shapes.structures[table.index()] == Structure::Keyless {
            let default = self.once(Once::Default(table));
            self.row(table, default, words)
        } else {
            let (row, which) = self.row(table, found, words);
            if t.idle_timeout {
                self.note_hit(row, words);
            }
            if has_data {
                let dispatch = self.b.create_block();
                self.b.append_block_param(dispatch, types::I64);
                self.b.append_block_param(dispatch, types::I32);
                // What row 0 has is found out where it is not the action that is asked about first.
                if asked > 0 && self.tallies.is_none() && action_run.is_none() {
                    default_to = Some(dispatch);
                } else {
                    self.default_to(dispatch, table, which, words);
                }
                self.b.ins().jump(dispatch, &[BlockArg::Value(row), BlockArg::Value(which)]);
                self.b.switch_to_block(dispatch);
                let &[row, which] = self.b.block_params(dispatch) else { unreachable!("it has two") };
                (row, which)
            } else {
                (row, which)
            }
        };
        if let Some(tallies) = self.tallies {
            let mut action = self.b.ins().uextend(types::I64, which);
            if t.profile.is_some() {
                let none = self.iconst(t.actions.len() as u64);
                action = self.b.ins().umin(action, none);
            }
            let hit = self.b.ins().icmp_imm_u(IntCC::NotEqual, found, 0);
            let hit = self.b.ins().uextend(types::I64, hit);
            let behind = self.b.ins().ishl_imm_u(action, 1);
            let behind = self.b.ins().iadd(behind, hit);
            self.tally(tallies.table_cell(table), behind);
        }
        if let Some(field) = action_run {
            let wide = self.b.ins().uextend(types::I64, which);
            self.set_field(*field, &[wide]);
        }
        if let Some(field) = entry {
            self.set_field(*field, &[found]);
        }
        let (next_node, exit_node) = (*next, *exit);
        // Actions that do nothing have the way on.
        let mut entries: Vec<(usize, Block, bool)> = Vec::new();
        for (i, a) in t.actions.iter().enumerate() {
            let body = &program.actions[a.action.index()].body.nodes[0];
            let idle = body.stmts.is_empty() && body.terminator == Terminator::Return;
            let block = match idle {
                true => {
                    let next = self.flow.behind_action(place, a.action, next_node);
                    self.resolved_block(next, &self.facts.clone())
                }
                false => self.b.create_block(),
            };
            entries.push((i, block, idle));
        }
        let mut chain = entries.clone();
        if let Some(first) = first {
            chain[..=first].rotate_right(1);
        }
        for &(i, block, _) in &chain[..asked] {
            let rest = self.b.create_block();
            // In memory the second way comes next.
            let is_other = self.b.ins().icmp_imm_u(IntCC::NotEqual, which, i as i64);
            self.b.ins().brif(is_other, rest, &[], block, &[]);
            self.b.switch_to_block(rest);
            if let Some(dispatch) = default_to.take() {
                self.default_to(dispatch, table, which, words);
            }
        }
        debug_assert!(default_to.is_none(), "the default row is found out");
        match chain[asked..] {
            [(_, block, _)] if sure => _ = self.b.ins().jump(block, &[]),
            ref others => {
                let none = self.sibling_block(place, next_node, &self.facts.clone());
                let entries: Vec<(u128, Block)> =
                    others.iter().map(|&(i, block, _)| (i as u128, block)).collect();
                self.jump_by(which, &entries, none);
            }
        }
        let before = self.facts.clone();
        let set = self.flow.set_before_actions(place);
        for (a, (_, block, idle)) in t.actions.iter().zip(entries) {
            if !idle {
                self.b.switch_to_block(block);
                self.facts = self.flow.facts_after_action(&before, a.action);
                let facts = self.facts.clone();
                let next = self.resolved_block(self.flow.behind_action(place, a.action, next_node), &facts);
                let exit = match self.flow.may_exit(a.action) {
                    true => self.resolved_block(self.flow.behind_action(place, a.action, exit_node), &facts),
                    false => next,
                };
                self.facts = self.flow.facts_in_action(&before, a.action);
                self.so_far = Some((place, self.flow.set_in_action(&set, a.action)));
                self.emit_action(place, a.action, row, next, exit)?;
            }
        }
        Ok(())
    }

    /// The address of the words to run, and their action, of a row of a table with an action profile; see [`View`].
    fn select(
        &mut self,
        place: Place,
        table: TableId,
        found: Value,
        selector: Value,
        words: usize,
        member_words: usize,
    ) -> (Value, Value) {
        let is_narrow = match &self.flow.node(place).terminator {
            Terminator::Apply { selector: Some(selector), .. } => selector.width(self.program()) <= 32,
            _ => true,
        };
        let default = self.once(Once::Default(table));
        let row = self.b.ins().select(found, found, default);
        let (row, which) = self.row(table, row, words);
        let [group, listed, other, member, done] = std::array::from_fn(|_| self.b.create_block());
        self.b.append_block_param(member, types::I64);
        self.b.append_block_param(done, types::I64);
        self.b.append_block_param(done, types::I32);
        let as_args = |row, which| [BlockArg::Value(row), BlockArg::Value(which)];
        let slot = self.b.ins().uload32(plain(), row, 8);
        let is =
            |cg: &mut Self, action: u32| cg.b.ins().icmp_imm_s(IntCC::Equal, which, i64::from(action as i32));
        let is_group = is(self, TableAction::GROUP);
        self.b.ins().brif(is_group, group, &[], other, &[]);

        self.b.switch_to_block(other);
        let is_member = is(self, TableAction::MEMBER);
        self.b.ins().brif(is_member, member, &[BlockArg::Value(slot)], done, &as_args(row, which));

        self.b.switch_to_block(group);
        let groups = self.view_word(table, offset_of!(View, profile_groups));
        let at = self.b.ins().ishl_imm_u(slot, 3);
        let at = self.b.ins().iadd(groups, at);
        let list = match cfg!(target_arch = "x86_64") {
            true => self.b.ins().load(types::I64, plain(), at, 0),
            false => self.b.ins().atomic_load(types::I64, plain(), at),
        };
        let none = self.b.ins().iconst(types::I32, i64::from(TableAction::NONE as i32));
        self.b.ins().brif(list, listed, &[], done, &as_args(row, none));

        self.b.switch_to_block(listed);
        let nth = if is_narrow {
            let count = self.b.ins().load(types::I32, plain(), list, 0);
            let selector = self.b.ins().ireduce(types::I32, selector);
            let nth = self.b.ins().urem(selector, count);
            self.b.ins().uextend(types::I64, nth)
        } else {
            let count = self.b.ins().uload32(plain(), list, 0);
            self.b.ins().urem(selector, count)
        };
        let at = self.b.ins().ishl_imm_u(nth, 2);
        let at = self.b.ins().iadd(list, at);
        let slot = self.b.ins().uload32(plain(), at, 8);
        self.b.ins().jump(member, &[BlockArg::Value(slot)]);

        self.b.switch_to_block(member);
        let slot = self.b.block_params(member)[0];
        let members = self.view_word(table, offset_of!(View, profile_members));
        let at = self.b.ins().ishl_imm_u(slot, 2);
        let at = self.b.ins().iadd(members, at);
        let row = self.load_row(at);
        let rows = self.view_word(table, offset_of!(View, profile_rows));
        let at = self.b.ins().imul_imm_u(row, 8 * member_words as i64);
        let at = self.b.ins().iadd(rows, at);
        let which = self.b.ins().load(types::I32, plain(), at, 0);
        self.b.ins().jump(done, &as_args(at, which));

        self.b.switch_to_block(done);
        let &[row, which] = self.b.block_params(done) else { unreachable!("it has two") };
        (row, which)
    }

    /// As the table has it: the words of a row, which are those of the longest action, or of a member or group, and the time
    /// of the last hit; and those of a member.
    fn row_words(&self, table: TableId) -> (usize, usize) {
        let program = self.program();
        let t = &program.tables[table.index()];
        let data = t.actions.iter().map(|a| {
            let params = &program.actions[a.action.index()].params;
            params.iter().map(|p| limb_count(program.width(*p))).sum::<usize>()
        });
        let action = 1 + data.max().unwrap_or(0);
        (action.max(if t.profile.is_some() { 3 } else { 1 }) + usize::from(t.idle_timeout), action)
    }

    fn row_address(&mut self, table: TableId, row: Value, words: usize) -> Value {
        let rows = self.view_word(table, offset_of!(View, rows));
        let at = self.b.ins().imul_imm_u(row, 8 * words as i64);
        self.b.ins().iadd(rows, at)
    }

    /// The address of a row of this many words, and its action.
    fn row(&mut self, table: TableId, row: Value, words: usize) -> (Value, Value) {
        let at = self.row_address(table, row, words);
        // Not fixed: row 0 changes with the default action.
        (at, self.b.ins().load(types::I32, plain(), at, 0))
    }

    /// Goes on at `dispatch` with the row of the default action, and its action, if `which` says that row 0 has no room for
    /// it; else here.
    fn default_to(&mut self, dispatch: Block, table: TableId, which: Value, words: usize) {
        let default = self.b.create_block();
        let rest = self.b.create_block();
        self.b.set_cold_block(default);
        let is_elsewhere =
            self.b.ins().icmp_imm_s(IntCC::Equal, which, i64::from(TableAction::DEFAULT as i32));
        self.b.ins().brif(is_elsewhere, default, &[], rest, &[]);

        self.b.switch_to_block(default);
        let was_cold = std::mem::replace(&mut self.in_cold, true);
        let number = self.once(Once::Default(table));
        let (row, which) = self.row(table, number, words);
        self.in_cold = was_cold;
        self.b.ins().jump(dispatch, &[BlockArg::Value(row), BlockArg::Value(which)]);

        self.b.switch_to_block(rest);
    }

    fn emit_action(
        &mut self,
        place: Place,
        action: ActionId,
        row: Value,
        next: Block,
        exit: Block,
    ) -> Result<(), Error> {
        let program = self.program();
        let action = &program.actions[action.index()];
        let mut at = 8;
        for &param in &action.params {
            let limbs = limb_count(program.width(param));
            if self.is_needed(param) {
                let value: Limbs = (0..limbs)
                    .map(|i| self.b.ins().load(types::I64, fixed(), row, at + 8 * i as i32))
                    .collect();
                self.set_field(param, &value);
            }
            at += 8 * limbs as i32;
        }
        let blocks: Vec<Block> = action.body.nodes.iter().map(|_| self.b.create_block()).collect();
        self.b.ins().jump(blocks[0], &[]);
        let facts = self.facts.clone();
        for (node, &block) in action.body.nodes.iter().zip(&blocks) {
            self.b.switch_to_block(block);
            self.facts = facts.clone();
            self.emit_node(node, &Scope::Action { place, blocks: &blocks, next, exit })?;
        }
        Ok(())
    }

    // ---- externs ----

    fn counter_cell(&mut self, instance: usize, index: Value) -> Value {
        let base = self.once(Once::Indirect(offset_of!(Ctx, counters), 8 * instance as i32));
        let at = self.b.ins().ishl_imm_u(index, 4);
        self.b.ins().iadd(base, at)
    }

    /// Adds this packet to cell `index` of a counter, whose bounds the caller has checked.
    fn count(&mut self, instance: usize, index: Value) {
        let at = self.counter_cell(instance, index);
        let packets = self.b.ins().load(types::I64, plain(), at, 0);
        let packets = self.b.ins().iadd_imm_u(packets, 1);
        self.b.ins().store(plain(), packets, at, 0);
        let bytes = self.b.ins().load(types::I64, plain(), at, 8);
        let length = self.b.ins().uload32(plain(), self.packet, offset_of!(Packet, len) as i32);
        let bytes = self.b.ins().iadd(bytes, length);
        self.b.ins().store(plain(), bytes, at, 8);
    }

    /// Notes in a row of so many words that it was hit now, unless that stands there. Of row 0, a miss, nobody reads it.
    fn note_hit(&mut self, row: Value, words: usize) {
        let last = 8 * (words as i32 - 1);
        let now = self.once(Once::Ctx(offset_of!(Ctx, now_us)));
        let now = self.b.ins().ushr_imm_u(now, i64::from(p4jet_tables::HIT_SHIFT));
        let before = self.b.ins().load(types::I64, plain(), row, last);
        // Workers that share an entry would take its memory from each other with every packet.
        let same = self.b.ins().icmp(IntCC::Equal, now, before);
        let write = self.b.create_block();
        let go_on = self.b.create_block();
        self.b.set_cold_block(write);
        self.b.ins().brif(same, go_on, &[], write, &[]);
        self.b.switch_to_block(write);
        self.b.ins().store(plain(), now, row, last);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    #[allow(clippy::too_many_arguments)]
    fn call_extern(
        &mut self,
        function: &Function,
        instance: Option<p4jet_ir::InstanceId>,
        args: &'a [Expr],
        outs: &'a [FieldId],
        text: &[String],
        loc: Loc,
        place: Place,
    ) -> Result<(), Error> {
        let program = self.program();
        let kind = instance.map(|i| &program.instances[i.index()].kind);
        match (function, kind) {
            // No stage ends between them.
            (Function::AtomicBegin | Function::AtomicEnd, _) => return Ok(()),
            _ if function.plain_hash() == Some(Algorithm::Csum16) => {
                let sum = self.csum16(args, place)?;
                if let [out] = outs {
                    self.set_word(*out, sum);
                    return Ok(());
                }
            }
            _ if let Some(algorithm @ (Algorithm::Identity | Algorithm::Crc16 | Algorithm::Crc32)) =
                function.plain_hash() =>
            {
                let bits: u32 = args.iter().map(|a| a.width(program)).sum();
                if let [out] = outs
                    && args.iter().all(|a| a.width(program) > 0)
                    && (8..=64).contains(&bits)
                    && bits.is_multiple_of(8)
                {
                    let value = self.word_hash(algorithm, args, bits / 8)?;
                    self.set_word(*out, value);
                    return Ok(());
                }
            }
            (Function::Count, Some(InstanceKind::Counter { size, .. })) => {
                let index = self.saturated_index(&args[0])?;
                let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, i64::from(*size));
                let yes = self.b.create_block();
                let go_on = self.b.create_block();
                self.b.ins().brif(inside, yes, &[], go_on, &[]);
                self.b.switch_to_block(yes);
                self.count(instance.expect("matched").index(), index);
                self.b.ins().jump(go_on, &[]);
                self.b.switch_to_block(go_on);
                return Ok(());
            }
            (Function::RegisterRead, Some(InstanceKind::Register { width, size, .. }))
                if *width <= 64 && *size > 0 =>
            {
                if !self.is_needed(outs[0]) {
                    return Ok(());
                }
                let index = self.saturated_index(&args[0])?;
                let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, i64::from(*size));
                let zero = self.iconst(0);
                let safe = self.b.ins().select(inside, index, zero);
                let at = self.register_cell(instance.expect("matched").index(), safe);
                let value = self.b.ins().load(types::I64, plain(), at, 0);
                let value = self.b.ins().select(inside, value, zero);
                self.set_field(outs[0], &[value]);
                return Ok(());
            }
            (Function::RegisterWrite, Some(InstanceKind::Register { width, size, .. })) if *width <= 64 => {
                let index = self.saturated_index(&args[0])?;
                let value = self.expr(&args[1])?;
                let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, i64::from(*size));
                let yes = self.b.create_block();
                let go_on = self.b.create_block();
                self.b.ins().brif(inside, yes, &[], go_on, &[]);
                self.b.switch_to_block(yes);
                let at = self.register_cell(instance.expect("matched").index(), index);
                self.b.ins().store(plain(), value[0], at, 0);
                self.b.ins().jump(go_on, &[]);
                self.b.switch_to_block(go_on);
                return Ok(());
            }
            _ => {}
        }
        self.call_extern_out_of_line(function, instance, args, outs, text, loc)
    }

    /// An index of any width as one limb; larger than any array if it does not fit.
    fn saturated_index(&mut self, expr: &Expr) -> Result<Value, Error> {
        let limbs = self.expr(expr)?;
        let mut low = limbs[0];
        for &limb in &limbs[1..] {
            let most = self.iconst(u64::MAX);
            low = self.b.ins().select(limb, most, low);
        }
        Ok(low)
    }

    fn register_cell(&mut self, instance: usize, index: Value) -> Value {
        let base = self.once(Once::Indirect(offset_of!(Ctx, registers), 8 * instance as i32));
        let at = self.b.ins().ishl_imm_u(index, 3);
        self.b.ins().iadd(base, at)
    }

    /// A hash of this many bytes, at most a word.
    fn word_hash(&mut self, algorithm: Algorithm, args: &'a [Expr], bytes: u32) -> Result<Value, Error> {
        let mut word = self.iconst(0);
        for arg in args {
            let width = arg.width(self.program());
            let value = self.expr(arg)?[0];
            // All of them have at most 64 bits, so one of 64 is alone.
            word = if width == 64 { value } else { self.b.ins().ishl_imm_u(word, i64::from(width)) };
            if width < 64 {
                word = self.b.ins().bor(word, value);
            }
        }
        let Some(parts) = p4jet_externs::byte_parts(algorithm) else { return Ok(word) };
        let mut sum = self.iconst(u64::from(parts.of_zeros[bytes as usize]));
        for (behind, of_byte) in parts.of_byte.iter().enumerate().take(bytes as usize) {
            let byte = self.b.ins().ushr_imm_u(word, 8 * behind as i64);
            let byte = self.b.ins().band_imm_u(byte, 0xff);
            let at = self.b.ins().ishl_imm_u(byte, 2);
            let table = self.iconst(of_byte.as_ptr() as u64);
            let at = self.b.ins().iadd(table, at);
            let part = self.b.ins().uload32(fixed(), at, 0);
            sum = self.b.ins().bxor(sum, part);
        }
        Ok(sum)
    }

    /// RFC 1071 over the concatenated arguments: modulo 2^16 - 1 a value weighs 2^(its offset mod 16), so fields are
    /// added shifted by that, not assembled into words first. Section 2(B): the sum does not depend on the byte order, so
    /// all is added as a frame has it, and only the result is swapped.
    fn csum16(&mut self, args: &'a [Expr], place: Place) -> Result<Value, Error> {
        let flow = self.flow;
        let related = self.statement.and_then(|statement| flow.sums.get(&statement));
        let sum = match related {
            Some(Sum::Again(slot, changed)) => {
                // What a field adds is part of the sum as an integer, so taking it away gives the sum of the others.
                let mut sum = self.get(*slot)[0];
                for c in changed {
                    let width = self.program().width(c.field);
                    let data = self.b.use_var(self.data);
                    let old = self.frame_word(data, c.byte, width / 8);
                    let new = self.get(flow.field_slot(c.field))[0];
                    let new = self.frame_order(new, width);
                    let [old, new] = [old, new].map(|v| match c.behind {
                        0 => v,
                        bytes => self.b.ins().ishl_imm_u(v, 8 * i64::from(bytes)),
                    });
                    sum = self.b.ins().isub(sum, old);
                    sum = self.b.ins().iadd(sum, new);
                }
                Some(sum)
            }
            _ => self.sum16(args, place)?,
        };
        if let (Some(Sum::Kept(slot)), Some(sum)) = (related, sum) {
            self.set(*slot, &[sum]);
        }
        let sum = match sum {
            Some(sum) => self.fold16(sum),
            None => self.b.ins().iconst(types::I16, 0),
        };
        let sum = self.b.ins().bnot(sum);
        let sum = self.b.ins().bswap(sum);
        Ok(self.b.ins().uextend(types::I64, sum))
    }

    /// The sum of the arguments, neither folded nor swapped; `None` if there are none.
    fn sum16(&mut self, args: &'a [Expr], place: Place) -> Result<Option<Value>, Error> {
        let mut sum = None;
        for summand in self.flow.summands(place, self.so_far.as_ref().map(|(_, set)| set), args) {
            match summand {
                Summand::Frame(at, bytes) => {
                    let value = self.frame_sum(at, bytes);
                    self.add_to(&mut sum, value);
                }
                Summand::Argument(i, behind) => {
                    let width = args[i].width(self.program());
                    for (number, limb) in self.expr(&args[i])?.into_iter().enumerate() {
                        let bits = (width - 64 * number as u32).min(64);
                        self.add_swapped(&mut sum, limb, bits, behind % 16);
                    }
                }
            }
        }
        Ok(sum)
    }

    /// 1, 2 or 4 bytes of the frame as a little-endian number.
    fn frame_word(&mut self, base: Value, byte: u32, bytes: u32) -> Value {
        let flags = MemFlagsData::new().with_notrap();
        match bytes {
            1 => self.b.ins().uload8(types::I64, flags, base, byte as i32),
            2 => self.b.ins().uload16(types::I64, flags, base, byte as i32),
            _ => self.b.ins().uload32(flags, base, byte as i32),
        }
    }

    /// A value of 8, 16 or 32 bits as [`Self::frame_word`] would load it.
    fn frame_order(&mut self, value: Value, width: u32) -> Value {
        let ty = match width {
            8 => return value,
            16 => types::I16,
            _ => types::I32,
        };
        let value = self.b.ins().ireduce(ty, value);
        let value = self.b.ins().bswap(value);
        self.b.ins().uextend(types::I64, value)
    }

    fn add_to(&mut self, sum: &mut Option<Value>, value: Value) {
        *sum = Some(match *sum {
            None => value,
            Some(sum) => self.b.ins().iadd(sum, value),
        });
    }

    /// Adds the 16-bit words of `limb`, of `bits` bits, shifted left by `shift`, with their bytes swapped.
    fn add_swapped(&mut self, sum: &mut Option<Value>, limb: Value, bits: u32, shift: u32) {
        if bits + shift > 64 {
            let low = self.mask(limb, 32);
            let high = self.b.ins().ushr_imm_u(limb, 32);
            self.add_swapped(sum, low, 32, shift);
            return self.add_swapped(sum, high, bits - 32, shift);
        }
        // Inside one byte a shift does both.
        if bits + shift <= 8 {
            let value = self.b.ins().ishl_imm_u(limb, i64::from(shift + 8));
            return self.add_to(sum, value);
        }
        if shift >= 8 && bits + shift <= 16 {
            let value = if shift == 8 { limb } else { self.b.ins().ishl_imm_u(limb, i64::from(shift - 8)) };
            return self.add_to(sum, value);
        }
        let value = if shift == 0 { limb } else { self.b.ins().ishl_imm_u(limb, i64::from(shift)) };
        if bits + shift <= 32 {
            let ty = if bits + shift <= 16 { types::I16 } else { types::I32 };
            let value = self.b.ins().ireduce(ty, value);
            let value = self.b.ins().bswap(value);
            let value = self.b.ins().uextend(types::I64, value);
            return self.add_to(sum, value);
        }
        let value = self.b.ins().bswap(value);
        let low = self.mask(value, 32);
        self.add_to(sum, low);
        let high = self.b.ins().ushr_imm_u(value, 32);
        self.add_to(sum, high);
    }

    /// Folds an unsigned sum to 16 bits with end-around carry. By rotation: the high half of `s + rotl(s)` is the
    /// end-around sum of both halves.
    fn fold16(&mut self, sum: Value) -> Value {
        let turned = self.b.ins().rotl_imm_u(sum, 32);
        let s = self.b.ins().iadd(sum, turned);
        let s = self.b.ins().ushr_imm_u(s, 32);
        let s = self.b.ins().ireduce(types::I32, s);
        let turned = self.b.ins().rotl_imm_u(s, 16);
        let s = self.b.ins().iadd(s, turned);
        let s = self.b.ins().ushr_imm_u(s, 16);
        self.b.ins().ireduce(types::I16, s)
    }

    /// The sum of the words of the frame from byte `start` to before byte `end`, with their bytes swapped; 0 if the header
    /// is not there.
    fn frame_sum(&mut self, start: InFrame, bytes: u32) -> Value {
        let (base, valid) = self.maybe_header_base(start);
        let mut sum = None;
        let mut at = start.bit / 8;
        let end = at + bytes;
        while at < end {
            let bytes = summed_bytes(end - at);
            let word = self.frame_word(base, at, bytes);
            self.add_to(&mut sum, word);
            at += bytes;
        }
        let zero = self.iconst(0);
        match (sum, valid) {
            (Some(sum), Some(valid)) => self.b.ins().select(valid, sum, zero),
            (Some(sum), None) => sum,
            (None, _) => zero,
        }
    }

    fn call_extern_out_of_line(
        &mut self,
        function: &Function,
        instance: Option<p4jet_ir::InstanceId>,
        args: &'a [Expr],
        outs: &'a [FieldId],
        text: &[String],
        loc: Loc,
    ) -> Result<(), Error> {
        let program = self.program();
        let arg_widths = args.iter().map(|a| a.width(program)).collect();
        let out_widths = outs.iter().map(|&o| program.width(o)).collect();
        let site =
            CallSite::new(function.clone(), instance.map(|i| i.0), arg_widths, out_widths, text.to_vec());
        let site = site.map_err(|message| Error { message, loc })?;
        let number = self.sites.calls.iter().position(|s| *s == site).unwrap_or_else(|| {
            self.sites.calls.push(site);
            self.sites.calls.len() - 1
        });
        let mut limbs = Vec::new();
        for arg in args {
            limbs.extend(self.expr(arg)?);
        }
        let arg_limbs = limbs.len();
        let arguments = self.spill(4, &limbs);
        let out_limbs: usize = outs.iter().map(|&o| limb_count(program.width(o))).sum();
        let results = self.buffer(5, out_limbs);
        let number = self.iconst(number as u64);
        let cursor = self.cursor();
        let sizes = self.iconst(arg_limbs as u64 | (out_limbs as u64) << 32);
        let call = self.b.ins().call(
            self.helpers.call_extern,
            &[self.ctx, number, arguments, results, sizes, self.packet, cursor],
        );
        let failed = self.b.inst_results(call)[0];
        let drop = self.drop_block(Some(DropReason::AssertionFailed), loc);
        let go_on = self.b.create_block();
        self.b.ins().brif(failed, drop, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
        let mut at = 0;
        for &out in outs {
            let n = limb_count(program.width(out));
            let value: Limbs = (0..n)
                .map(|i| self.b.ins().load(types::I64, MemFlagsData::trusted(), results, (at + 8 * i) as i32))
                .collect();
            self.set_field(out, &value);
            at += 8 * n;
        }
        Ok(())
    }
}
