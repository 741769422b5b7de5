//! The whole pipeline as one control-flow graph, and what is known about it before code is emitted.
//!
//! **Deparsing** ([`Deparse`]). If the headers that leave are those that arrived, perhaps with others before them or
//! without the first ones, changed fields are written in place. Otherwise the headers are put together in a scratch
//! area and copied before the payload. The payload never moves. The choice is made at compile time where possible.
//!
//! **Hot paths** ([`HotPath`]). The nodes of a hot path exist a second time. Only packets on that path reach the second
//! copies, so everything that holds on the path is known there: which headers are valid, and where they lie. A packet
//! that takes another direction leaves the hot path by a side exit to the general nodes. So the code means the same
//! with any set of hot paths.
//!
//! **Checksums** ([`Sum`]). A checksum over bytes of the frame that an earlier checksum has added up, as when it is
//! verified and later updated, is corrected for the changed fields instead of being added up again.

use crate::ANALYSIS_STEPS_MAX;
use crate::codegen::Begins;
use crate::facts::{Facts, Knowledge};
use crate::memos::{self, Memo};
use p4jet_ir::columns::Columns;
use p4jet_ir::{
    Access, ActionId, Algorithm, Begin, BlockKind, Cfg, CopyFrame, Expr, FieldId, FieldKind, HeaderId,
    InstanceId, Intrinsic, Keep, Node, NodeId, Op, PacketCopy, Program, ReplicaList, Terminator,
    for_each_column_of,
};
use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A node of one of the blocks that run, in running order: an index into [`Flow::places`].
pub type Place = usize;

/// The position of a node in the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Index in [`Flow::sequence`].
    pub step: usize,
    /// The node.
    pub node: NodeId,
}

/// A hot path: its nodes, and the action that ran at each node that applies a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HotPath(pub Vec<(Position, Option<ActionId>)>);

/// Something that lives as long as a packet: a field, or one of the machine's own variables.
///
/// Indices: the fields, then the cursor, then one offset per header, then for each table the row that was found in it, then
/// the sums that are kept ([`Sum`]).
pub type Slot = usize;

/// A set of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSet(Vec<u64>);

impl SlotSet {
    fn new(count: usize) -> Self {
        SlotSet(vec![0; count.div_ceil(64)])
    }
    /// Adds a slot.
    pub fn insert(&mut self, slot: Slot) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }
    fn remove(&mut self, slot: Slot) {
        self.0[slot / 64] &= !(1 << (slot % 64));
    }
    /// Whether `slot` is in the set.
    pub fn contains(&self, slot: Slot) -> bool {
        self.0[slot / 64] >> (slot % 64) & 1 == 1
    }
    fn intersect(&mut self, other: &SlotSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
    }
    fn union(&mut self, other: &SlotSet) -> bool {
        let mut changed = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            let new = *a | b;
            changed |= new != *a;
            *a = new;
        }
        changed
    }
    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        members(self.0.iter().copied())
    }

    /// The members that `others` lacks, in order.
    pub fn iter_without<'s>(&'s self, others: &'s SlotSet) -> impl Iterator<Item = Slot> + 's {
        members(self.0.iter().zip(&others.0).map(|(word, other)| word & !other))
    }
}

fn members(words: impl Iterator<Item = u64>) -> impl Iterator<Item = Slot> {
    words.enumerate().flat_map(|(number, mut word)| {
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
            word &= word - 1;
            Some(64 * number + bit)
        })
    })
}

/// Places that an analysis has to visit, again and again in one order: what one round finds goes through all of them before it is
/// visited again where it came from.
struct Rounds {
    work: BTreeSet<(usize, Place)>,
    last: (usize, Place),
}

impl Rounds {
    fn new(work: impl Iterator<Item = (usize, Place)>) -> Rounds {
        Rounds { work: work.collect(), last: (0, 0) }
    }

    /// Visits a place, which has this number, again.
    fn insert(&mut self, number: usize, place: Place) {
        self.work.insert((number, place));
    }

    /// The place to visit now.
    fn next(&mut self) -> Option<Place> {
        let next = *self.work.range(self.last..).next().or_else(|| self.work.first())?;
        self.work.remove(&next);
        self.last = next;
        Some(next.1)
    }
}

/// In how many of the sets each slot is.
pub fn memberships(sets: &[SlotSet], slots: usize) -> Vec<u32> {
    // Bit `n` of the counts of 64 slots, by `n`: a set adds its word to the lowest, and what overflows to the next.
    let mut counts = vec![[0u64; 32]; slots.div_ceil(64)];
    for set in sets {
        for (bits, &word) in counts.iter_mut().zip(&set.0) {
            let mut carry = word;
            for bit in bits.iter_mut() {
                if carry == 0 {
                    break;
                }
                (*bit, carry) = (*bit ^ carry, *bit & carry);
            }
        }
    }
    let count = |slot: Slot| {
        let bits = &counts[slot / 64];
        (0..32).map(|bit| ((bits[bit] >> (slot % 64) & 1) as u32) << bit).sum()
    };
    (0..slots).map(count).collect()
}

/// What is known of the cursor before a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// Not reached.
    Unreached,
    /// Always this many bits.
    Bits(u32),
    /// Differs from packet to packet.
    Varying,
}

impl Cursor {
    fn join(self, other: Cursor) -> Cursor {
        use Cursor::*;
        match (self, other) {
            (Unreached, x) | (x, Unreached) => x,
            (Bits(a), Bits(b)) if a == b => Bits(a),
            _ => Varying,
        }
    }

    /// After an extract or advance of a known number of bits, or of an unknown one.
    fn advance(self, bits: Option<u32>) -> Cursor {
        use Cursor::*;
        match (self, bits) {
            (Unreached, _) => Unreached,
            (Bits(a), Some(b)) if u64::from(a) + u64::from(b) <= 1 << 24 => Bits(a + b),
            _ => Varying,
        }
    }
}

/// The place of a position that is on no hot path.
fn general(first: &[Place], at: Position) -> Place {
    first[at.step] + at.node.index()
}

/// Adds the places of the hot paths, of which those that begin alike share the beginning. Where each of them goes on: see
/// [`Flow::onward`].
fn add_hot_paths(
    places: &mut Vec<Position>,
    first: &[Place],
    hot_paths: &[HotPath],
) -> Vec<Vec<(Option<ActionId>, Place, Place)>> {
    let count = places.len();
    let mut onward: Vec<Vec<(Option<ActionId>, Place, Place)>> = Vec::new();
    for path in hot_paths {
        let mut at: Option<(Place, Option<ActionId>)> = None;
        for &(position, action) in &path.0 {
            let to = general(first, position);
            let known = match at {
                None => (!onward.is_empty()).then_some(count),
                Some((from, after)) => {
                    let ways = onward[from - count].iter();
                    ways.copied().find(|way| way.0 == after && way.1 == to).map(|way| way.2)
                }
            };
            let place = known.unwrap_or_else(|| {
                places.push(position);
                onward.push(Vec::new());
                if let Some((from, after)) = at {
                    onward[from - count].push((after, to, places.len() - 1));
                }
                places.len() - 1
            });
            at = Some((place, action));
        }
    }
    onward
}

fn slot_count(program: &Program) -> usize {
    first_sum_slot(program) + program.blocks.iter().flat_map(|block| sums_in(&block.body)).count()
}

/// The size of a set of slots for each node that runs.
pub fn liveness_bits(program: &Program) -> usize {
    let blocks = program.ingress.iter().chain(&program.egress).map(|b| &program.blocks[b.index()]);
    blocks.map(|block| block.body.nodes.len()).sum::<usize>().saturating_mul(slot_count(program))
}

fn first_sum_slot(program: &Program) -> usize {
    program.fields.len() + 1 + program.headers.len() + program.tables.len()
}

/// The checksums that a graph computes.
fn sums_in(body: &Cfg) -> impl Iterator<Item = &[Expr]> {
    body.nodes.iter().flat_map(|node| &node.stmts).filter_map(|stmt| summed(&stmt.op))
}

/// What a statement computes a checksum of.
fn summed(op: &Op) -> Option<&[Expr]> {
    match op {
        Op::Extern { function, args, .. } if function.plain_hash() == Some(Algorithm::Csum16) => Some(args),
        _ => None,
    }
}

/// How the frame that leaves is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deparse {
    /// Whatever path a packet took, it leaves with the headers it came with, where they were: changed fields are written
    /// back in place.
    InPlace,
    /// Decided per packet: in place if the headers match, else put together again.
    Checked,
    /// Always put together as the emits run (control flow in the deparser).
    Scratch,
}

/// The pipeline, flat.
pub struct Flow<'a> {
    /// The program.
    pub program: &'a Program,
    /// The blocks that run, in order: indices in [`Program::blocks`].
    pub sequence: Vec<usize>,
    /// All nodes of all steps, then those of the hot paths.
    pub places: Vec<Position>,
    first: Vec<Place>,
    /// For each place of a hot path: where it goes on. The action that ran there, if a table is applied, and the place where
    /// others go instead of that of the hot path.
    onward: Vec<Vec<(Option<ActionId>, Place, Place)>>,
    /// Where packets arrive.
    start: Place,
    /// Reverse post-order number of each place; `usize::MAX` if unreachable.
    pub order: Vec<usize>,
    /// Slots live before each place.
    pub live: Vec<SlotSet>,
    /// The cursor before each place.
    pub cursor: Vec<Cursor>,
    /// Header fields that any statement sets (extraction does not count).
    pub written: HashSet<FieldId>,
    /// Fields whose value anything needs.
    pub needed: HashSet<FieldId>,
    /// For each header: its offset in bytes, if every extraction puts it at the same.
    pub fixed_offset: Vec<Option<u32>>,
    /// Headers that some parser extracts.
    pub extracted: HashSet<HeaderId>,
    /// How each deparser works; `None` for other steps.
    pub deparse: Vec<Option<Deparse>>,
    /// Headers emitted by each deparser step, in order, where that order does not depend on the packet.
    pub emits: Vec<Vec<HeaderId>>,
    /// Places that can reach themselves.
    pub in_cycle: Vec<bool>,
    /// Places where no stage may end, because the next packet would come too early to a register: those inside atomic parts,
    /// and those with accesses before and after, one of them a write.
    pub uncut: Vec<bool>,
    /// Slots that some statement may have set before each place; extraction does not count.
    pub set_before: Vec<SlotSet>,
    /// What [`crate::facts`] found.
    pub knowledge: Knowledge,
    /// How columns lie in each other.
    pub columns: Columns,
    /// For each whole column, whether some index into it is not known before packets come: its fields have to lie in memory.
    pub is_indexed: Vec<bool>,
    /// Lookups that are remembered by row.
    pub memos: Vec<Memo>,
    /// Checksums that have to do with each other, by place and number of the statement.
    pub sums: HashMap<(Place, usize), Sum>,
    /// How many slots there are. Counted once: that takes a walk over the whole program.
    slots: usize,
    /// Words of sets of slots that the analyses have looked at so far.
    steps: usize,
    /// Where stages begin besides.
    stops: Stops,
    /// Whether there are copies, by where they begin.
    has_copies: [bool; 2],
    /// Slots that copies may bring along, by where they begin.
    brought: [SlotSet; 2],
    /// What each place reads.
    reads: Vec<Reads>,
    /// For each place that applies a table: what its actions read, and where they lead.
    applied: HashMap<Place, Vec<Applied>>,
    /// Slots live where packets and copies begin, once `ends` are known.
    live_at: [SlotSet; 2],
    /// Where stages end, and the slots that they need there.
    ends: HashMap<(Place, Begins), SlotSet>,
}

/// The slots that a node reads. What is known, or is still as the frame has it, is not read.
#[derive(Clone, Default)]
struct Reads {
    stmts: Vec<Vec<Slot>>,
    terminator: Vec<Slot>,
}

/// An action, run by the table of a place.
struct Applied {
    nodes: Vec<Reads>,
    ways: Vec<Place>,
}

/// How a slot gets its value back when a stage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing has set it: it is 0.
    Zero,
    /// Always this.
    Known(u64),
    /// An intrinsic that was never set.
    Intrinsic(Intrinsic),
    /// Still what the packet says, there in the frame if the header is valid; else 0.
    Frame(InFrame),
    /// Only the PHV knows.
    Phv,
}

/// Where in the frame a header, or part of it, begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFrame {
    /// The header.
    pub header: HeaderId,
    /// Bits from the start of the frame if the header is always at the same place, else from the start of the header.
    pub bit: u32,
    /// Whether the header is always at the same place.
    pub is_fixed: bool,
}

/// Where stages begin whatever the tables are: jumps go past no such place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// Nowhere.
    Nowhere,
    /// With every block.
    Blocks,
    /// At the begin of each part of the pipeline that runs on its own thread; the number of threads.
    Threads(usize),
}

/// What a checksum adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summand {
    /// The argument with this number, followed by this many bits.
    Argument(usize, u32),
    /// This many bytes of the frame, if the header is valid: several arguments, unchanged.
    Frame(InFrame, u32),
}

/// How a checksum has to do with another one over the same bytes of the frame: verified first, updated later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sum {
    /// The sum of the frame's words is kept in this slot.
    Kept(Slot),
    /// It is in this slot, and these fields are not what the frame has any more.
    Again(Slot, Vec<Changed>),
}

/// A field, whole bytes in one of the words that [`Summand::Frame`] adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The field.
    pub field: FieldId,
    /// Where the frame has it, in bytes from the start.
    pub byte: u32,
    /// Bytes of the word before it.
    pub behind: u32,
}

/// A checksum over bytes of the frame: its statement, and what may have changed before.
type Site = (Place, usize, Vec<Changed>);

/// A sum over the frame is corrected for at most this many fields; for more, adding up again is as cheap.
const CHANGED_MAX: usize = 2;
/// Of more checksums than this, each is computed by itself.
const SUMS_MAX: usize = 64;
/// Places times accesses of registers, beyond which no stage ends anywhere instead of only where packets stay in order.
const ACCESS_BITS_MAX: usize = 1 << 27;

/// Size of the words in which the frame is added up when this many bytes are left.
pub fn summed_bytes(left: u32) -> u32 {
    if left >= 4 { 4 } else { 2 }
}

/// Buffers have at least this many bytes, so fields below this offset can be read before their presence is known.
pub const READABLE_BYTES: u32 = 1024;

impl<'a> Flow<'a> {
    /// Analyses a program; `memoized` are the tables whose lookups are remembered by row where that is possible. Packets
    /// that take one of the `hot_paths` have places to themselves there, so that more is known of them.
    pub fn new(program: &'a Program, stops: Stops, memoized: &[bool], hot_paths: &[HotPath]) -> Flow<'a> {
        let sequence: Vec<usize> = program.ingress.iter().chain(&program.egress).map(|b| b.index()).collect();
        let mut places = Vec::new();
        let mut first = Vec::new();
        let mut uncut = Vec::new();
        for (step, &block) in sequence.iter().enumerate() {
            first.push(places.len());
            let body = &program.blocks[block].body;
            places.extend((0..body.nodes.len() as u32).map(|n| Position { step, node: NodeId(n) }));
            let nesting = body.nesting().unwrap_or_else(|| vec![1; body.nodes.len()]);
            uncut.extend(nesting.into_iter().map(|n| n > 0));
        }
        let onward = add_hot_paths(&mut places, &first, hot_paths);
        let start = if hot_paths.is_empty() { 0 } else { uncut.len() };
        for place in uncut.len()..places.len() {
            uncut.push(uncut[general(&first, places[place])]);
        }
        let slots = slot_count(program);
        let count = places.len();
        let mut flow = Flow {
            program,
            sequence,
            places,
            first,
            onward,
            start,
            order: vec![usize::MAX; count],
            live: vec![SlotSet::new(slots); count],
            cursor: vec![Cursor::Unreached; count],
            written: HashSet::new(),
            needed: HashSet::new(),
            fixed_offset: vec![None; program.headers.len()],
            extracted: HashSet::new(),
            deparse: Vec::new(),
            emits: Vec::new(),
            in_cycle: vec![false; count],
            uncut,
            set_before: vec![SlotSet::new(slots); count],
            knowledge: Knowledge::default(),
            // The verifier has seen that they fit.
            columns: Columns::of(program).unwrap_or_default(),
            is_indexed: Vec::new(),
            memos: Vec::new(),
            sums: HashMap::new(),
            slots,
            steps: 0,
            stops,
            has_copies: [false; 2],
            brought: [SlotSet::new(slots), SlotSet::new(slots)],
            reads: Vec::new(),
            applied: HashMap::new(),
            live_at: [SlotSet::new(slots), SlotSet::new(slots)],
            ends: HashMap::new(),
        };
        flow.find_order();
        flow.find_brought();
        flow.find_cycles();
        flow.find_uncut();
        let memos = memos::find(&flow, memoized).into_iter();
        // A row that came with the packet from another thread may mean something else by now.
        flow.memos =
            memos.filter(|memo| flow.thread_of(memo.row_at.step) == flow.thread(memo.place)).collect();
        flow.find_cursor();
        flow.find_writes();
        flow.find_deparse();
        flow.find_facts();
        flow.find_indexed();
        flow.find_needed();
        // Sums of what the frame still has need no fields.
        flow.find_set_before();
        flow.find_sums();
        flow.find_reads();
        flow.find_live();
        flow
    }

    /// From now on a slot is live only as long as its stage needs it; `ends` are the stages' ends, and what they need.
    pub fn end_stages(&mut self, ends: HashMap<(Place, Begins), SlotSet>) {
        if ends.is_empty() {
            return;
        }
        self.live_at = Begin::ALL.map(|begin| self.live_at(begin));
        self.ends = ends;
        self.live = vec![self.no_slots(); self.places.len()];
        self.find_live();
    }

    /// Slots that a stage needs when it begins there.
    pub fn live_from(&self, place: Place, begins: Begins) -> SlotSet {
        match begins {
            Begins::Place => self.live_before_statements(place, &mut |_, _| ()),
            Begins::Lookup => self.live_after(place),
            Begins::Action => self.live_before_actions(place),
        }
    }

    /// Whether a block after the first begins there.
    pub fn begins_block(&self, place: Place) -> bool {
        let position = self.places[place];
        position.node == NodeId(0) && position.step > 0
    }

    /// Whether a stage begins there whatever the tables are.
    pub fn stops_at(&self, place: Place) -> bool {
        self.begins_block(place)
            && match self.stops {
                Stops::Nowhere => false,
                Stops::Blocks => true,
                Stops::Threads(_) => {
                    let before = self.first[self.places[place].step - 1];
                    self.thread(before) < self.thread(place)
                }
            }
    }

    /// The thread that a place belongs to: parsers before ingress, ingress, egress, and the last deparser with what
    /// follows have one each if there are four; the first two parts and the last two share one if there are two, the
    /// middle ones if there are three.
    pub fn thread(&self, place: Place) -> usize {
        self.thread_of(self.places[place].step)
    }

    fn thread_of(&self, step: usize) -> usize {
        let Stops::Threads(threads) = self.stops else { return 0 };
        let kind = |step: usize| self.program.blocks[self.sequence[step]].kind;
        let egress = self.program.ingress.len();
        let deparser = (egress..self.sequence.len()).rev().find(|step| kind(*step) == BlockKind::Deparser);
        let part = match step < egress {
            true => usize::from((0..=step).any(|before| kind(before) != BlockKind::Parser)),
            false => 2 + usize::from(deparser.is_some_and(|deparser| step >= deparser)),
        };
        match threads {
            2 => part / 2,
            3 => part.div_ceil(2),
            _ => part,
        }
    }

    /// The slot of a field.
    pub fn field_slot(&self, field: FieldId) -> Slot {
        field.index()
    }
    /// The slot of the cursor, in bits.
    pub fn cursor_slot(&self) -> Slot {
        self.program.fields.len()
    }
    /// The slot of a header's offset in the frame in bytes, plus one; 0 when it did not come from the frame.
    pub fn offset_slot(&self, header: HeaderId) -> Slot {
        self.program.fields.len() + 1 + header.index()
    }

    /// Whether copies may bring a field along.
    pub fn brings(&self, field: FieldId) -> bool {
        Begin::ALL.iter().any(|&b| self.has_copies(b) && self.brought[b as usize].contains(field.index()))
    }

    /// The lookup of a place, if it is remembered by row, and its number.
    pub fn memo(&self, place: Place) -> Option<(usize, Memo)> {
        self.memos.iter().copied().enumerate().find(|(_, memo)| memo.place == place)
    }

    /// The slot of the row that the lookup of a place gives, if anything asks for it later.
    pub fn row_slot(&self, place: Place) -> Option<Slot> {
        let memo = self.memos.iter().find(|memo| memo.row_at == self.places[place])?;
        Some(self.row_slot_of(memo))
    }

    /// The slot of the row that remembers a lookup.
    pub fn row_slot_of(&self, memo: &Memo) -> Slot {
        self.program.fields.len() + 1 + self.program.headers.len() + memo.row_table.index()
    }

    /// Whether anything uses a slot.
    pub fn is_used(&self, slot: Slot) -> bool {
        match self.program.fields.get(slot) {
            Some(_) => self.needed.contains(&FieldId(slot as u32)),
            None if slot >= first_sum_slot(self.program) => {
                self.sums.values().any(|sum| matches!(sum, Sum::Again(of, _) if *of == slot))
            }
            None => match slot.checked_sub(self.program.fields.len() + 1 + self.program.headers.len()) {
                Some(table) => self.memos.iter().any(|memo| memo.row_table.index() == table),
                None => true,
            },
        }
    }

    /// The first place, if anything runs at all.
    pub fn start(&self) -> Option<Place> {
        (!self.places.is_empty()).then_some(self.start)
    }
    /// The first place of egress, if egress has any.
    fn egress_start(&self) -> Option<Place> {
        self.first.get(self.program.ingress.len()).copied()
    }
    /// Where copies begin.
    pub fn entry(&self, begin: Begin) -> Option<Place> {
        match begin {
            Begin::Ingress => self.start(),
            Begin::Egress => self.egress_start(),
        }
    }
    /// The copy statements that packets may reach, with their places.
    pub fn copies(&self) -> impl Iterator<Item = (Place, &'a PacketCopy)> {
        let reached = (0..self.places.len()).filter(|&place| self.order[place] != usize::MAX);
        reached.flat_map(|place| {
            let stmts = self.node(place).stmts.iter();
            stmts.filter_map(move |stmt| match &stmt.op {
                Op::Copy(copy) => Some((place, &**copy)),
                _ => None,
            })
        })
    }
    /// Whether packets can begin there that did not arrive.
    pub fn has_copies(&self, begin: Begin) -> bool {
        self.has_copies[begin as usize]
    }
    /// The slots that copies bring along and that something reads, in order.
    pub fn entered(&self, begin: Begin) -> Vec<Slot> {
        let mut live = self.live_at(begin);
        live.intersect(&self.brought[begin as usize]);
        live.iter().collect()
    }
    /// Slots that copies may bring along.
    pub fn brought(&self, begin: Begin) -> &SlotSet {
        &self.brought[begin as usize]
    }
    /// Slots live where copies or packets begin, in any stage.
    pub fn live_at(&self, begin: Begin) -> SlotSet {
        if !self.ends.is_empty() {
            return self.live_at[begin as usize].clone();
        }
        match self.entry(begin) {
            // What a stage takes from the frame again, a copy must say where.
            Some(place) if self.has_copies(begin) => {
                let (live, set) = (self.live[place].clone(), &self.set_before[place]);
                let mut all = self.no_slots();
                let carried = self.with_origins(place, live, set, &self.facts_before(place));
                carried.into_iter().for_each(|(slot, _)| all.insert(slot));
                all
            }
            Some(place) => self.live[place].clone(),
            None => {
                let mut live = self.no_slots();
                self.program.egress_port.iter().for_each(|f| live.insert(f.index()));
                live
            }
        }
    }
    /// Whether the frame of a copy still has the headers where the copy's offsets say, with the values that the packet
    /// had when they were extracted, if no statement set them.
    pub fn keeps_headers(&self, place: Place, copy: &PacketCopy) -> bool {
        copy.begin == Begin::Egress
            && copy.frame == CopyFrame::Current
            && copy.keep == Keep::All
            && !self.deparsed_before(place)
    }
    /// Whether a deparser may have run.
    fn deparsed_before(&self, place: Place) -> bool {
        self.deparsers().any(|step| step < self.places[place].step)
    }
    fn deparsers(&self) -> impl Iterator<Item = usize> {
        (0..self.sequence.len()).filter(|&step| self.kind(step) == BlockKind::Deparser)
    }
    /// The most bytes that the deparser of `place` emits, if that needs watching: emits in loops have no end by themselves.
    pub fn output_limit(&self, place: Place) -> Option<u32> {
        let block = self.block(place);
        let emits = |n: &usize| block.body.nodes[*n].stmts.iter().any(|s| matches!(s.op, Op::Emit { .. }));
        let mut emits = (0..block.body.nodes.len()).filter(emits);
        let first = self.first[self.places[place].step];
        emits.any(|n| self.in_cycle[first + n]).then(|| self.program.block_emitted_bytes_max(block))
    }
    fn kind(&self, step: usize) -> BlockKind {
        self.program.blocks[self.sequence[step]].kind
    }
    /// Whether the frame as it arrived is needed when it may have changed.
    pub fn needs_arrived(&self) -> bool {
        let truncates = self.places.iter().enumerate().any(|(place, _)| {
            self.node(place).stmts.iter().any(|stmt| matches!(stmt.op, Op::Truncate { .. }))
        });
        self.copies().any(|(place, copy)| {
            copy.frame == CopyFrame::Arrived && (truncates || self.deparsed_before(place))
        })
    }
    /// None.
    pub fn no_slots(&self) -> SlotSet {
        SlotSet::new(self.slots())
    }
    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots
    }
    /// The node at a place.
    pub fn node(&self, place: Place) -> &'a p4jet_ir::Node {
        let p = self.places[place];
        &self.program.blocks[self.sequence[p.step]].body.nodes[p.node.index()]
    }
    /// The block of a place.
    pub fn block(&self, place: Place) -> &'a p4jet_ir::Block {
        &self.program.blocks[self.sequence[self.places[place].step]]
    }
    /// Another node of the same step.
    pub fn sibling(&self, place: Place, node: NodeId) -> Place {
        self.onward(place, None, self.first[self.places[place].step] + node.index())
    }
    /// The same behind an action that the table of `place` ran.
    pub fn behind_action(&self, place: Place, action: ActionId, node: NodeId) -> Place {
        self.onward(place, Some(action), self.first[self.places[place].step] + node.index())
    }
    /// Where the step after that of `place` begins; `None` after the last.
    pub fn next_step(&self, place: Place) -> Option<Place> {
        Some(self.onward(place, None, self.next_step_on_error(place)?))
    }
    /// The same where a parser gives up, which is on no hot path.
    pub fn next_step_on_error(&self, place: Place) -> Option<Place> {
        self.first.get(self.places[place].step + 1).copied()
    }
    /// Where a packet goes whose block ends here, or ingress altogether; `None` if it leaves.
    pub fn after(&self, place: Place) -> Option<Place> {
        match self.node(place).terminator {
            Terminator::Egress => Some(self.onward(place, None, self.egress_start()?)),
            Terminator::Reject(_) => self.next_step_on_error(place),
            _ => self.next_step(place),
        }
    }
    fn onward(&self, place: Place, action: Option<ActionId>, to: Place) -> Place {
        let ways = self.onward.get(place.wrapping_sub(self.general_places())).into_iter().flatten();
        let way = ways.copied().find(|way| way.0 == action && way.1 == to);
        way.map_or(to, |way| way.2)
    }
    /// The place of a position that is on no hot path.
    pub fn general(&self, at: Position) -> Place {
        general(&self.first, at)
    }
    /// How many places are not a hot path's: the first ones.
    fn general_places(&self) -> usize {
        self.places.len() - self.onward.len()
    }
    /// Whether packets rarely reach a place, as far as known: there are hot paths, and the place is on none.
    pub fn is_cold(&self, place: Place) -> bool {
        !self.onward.is_empty() && place < self.general_places()
    }
    /// The action after which a hot path continues from a place.
    pub fn hot_action(&self, place: Place) -> Option<ActionId> {
        self.onward.get(place.wrapping_sub(self.general_places()))?.first()?.0
    }

    /// The places that may follow.
    pub fn successors(&self, place: Place) -> Vec<Place> {
        let mut out = Vec::new();
        let node = self.node(place);
        if node.stmts.iter().any(|s| s.op.may_reject()) {
            out.extend(self.next_step_on_error(place));
        }
        match &node.terminator {
            Terminator::Goto(n) => out.push(self.sibling(place, *n)),
            Terminator::If { then, otherwise, .. } => {
                out.push(self.sibling(place, *then));
                out.push(self.sibling(place, *otherwise));
            }
            Terminator::Switch { cases, default, .. } => {
                out.extend(cases.iter().map(|(_, n)| self.sibling(place, *n)));
                out.push(self.sibling(place, *default));
            }
            Terminator::Turn { next, spent, .. } => {
                out.push(self.sibling(place, *next));
                out.push(self.sibling(place, *spent));
            }
            Terminator::Apply { table, next, exit, .. } => {
                // A group without members runs none.
                out.push(self.sibling(place, *next));
                out.push(self.sibling(place, *exit));
                for action in &self.program.tables[table.index()].actions {
                    out.push(self.behind_action(place, action.action, *next));
                    out.push(self.behind_action(place, action.action, *exit));
                }
            }
            Terminator::Return | Terminator::Reject(_) | Terminator::Exit | Terminator::Egress => {
                out.extend(self.after(place))
            }
            Terminator::Drop(_) | Terminator::Done => {}
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    fn find_order(&mut self) {
        self.number(self.start().into_iter());
        if self.has_copies(Begin::Egress) {
            // The last root gets the lowest numbers.
            self.number(self.egress_start().into_iter().chain(self.start()));
        }
    }

    /// Numbers what can be reached from the roots.
    fn number(&mut self, roots: impl Iterator<Item = Place>) {
        let mut postorder = Vec::new();
        let mut seen = vec![false; self.places.len()];
        for root in roots {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            let mut stack: Vec<(Place, Vec<Place>)> = vec![(root, self.successors(root))];
            while let Some((place, rest)) = stack.last_mut() {
                match rest.pop() {
                    Some(next) if !seen[next] => {
                        seen[next] = true;
                        let successors = self.successors(next);
                        stack.push((next, successors));
                    }
                    Some(_) => {}
                    None => {
                        postorder.push(*place);
                        stack.pop();
                    }
                }
            }
        }
        for (number, place) in postorder.into_iter().rev().enumerate() {
            self.order[place] = number;
        }
        self.has_copies = Begin::ALL.map(|begin| self.copies().any(|(_, copy)| copy.begin == begin));
    }

    fn find_brought(&mut self) {
        let mut brought = self.brought.clone();
        for (_, copy) in self.copies() {
            brought[copy.begin as usize].union(&self.brought_by(copy));
        }
        self.brought = brought;
    }

    /// Slots that a copy may bring along.
    fn brought_by(&self, copy: &PacketCopy) -> SlotSet {
        let mut set = self.no_slots();
        match &copy.keep {
            Keep::All => (0..self.program.fields.len()).for_each(|slot| set.insert(slot)),
            Keep::Fields(fields) => fields.iter().for_each(|f| set.insert(f.index())),
        }
        copy_sets(copy, &mut |f| set.insert(f.index()));
        if copy.begin == Begin::Egress {
            set.insert(self.cursor_slot());
            (0..self.program.headers.len()).for_each(|h| set.insert(self.offset_slot(HeaderId(h as u32))));
        }
        if copy.queue.is_some() {
            let given = self.program.intrinsics.iter().filter(|(i, _)| i.begin() == Begin::Egress);
            given.for_each(|(_, f)| set.insert(f.index()));
        }
        set
    }

    fn find_cycles(&mut self) {
        let mut graph = petgraph::graph::DiGraph::<(), ()>::new();
        let nodes: Vec<_> = self.places.iter().map(|_| graph.add_node(())).collect();
        for place in 0..self.places.len() {
            for next in self.successors(place) {
                graph.add_edge(nodes[place], nodes[next], ());
                self.in_cycle[place] |= next == place;
            }
        }
        // Kosaraju's algorithm, because petgraph's does not recurse.
        for component in petgraph::algo::kosaraju_scc(&graph) {
            if component.len() > 1 {
                for node in component {
                    self.in_cycle[node.index()] = true;
                }
            }
        }
    }

    fn find_uncut(&mut self) {
        // Each instance has two bits: that it is accessed, and that it is written.
        let mut numbers: HashMap<InstanceId, usize> = HashMap::new();
        let bodies = self.all_bodies();
        for stmt in bodies.iter().flat_map(|body| &body.nodes).flat_map(|node| &node.stmts) {
            if let Some((instance, _)) = stmt.op.access() {
                let next = 2 * numbers.len();
                numbers.entry(instance).or_insert(next);
            }
        }
        if numbers.is_empty() {
            return;
        }
        let bits = 2 * numbers.len();
        if bits.saturating_mul(self.places.len()) > ACCESS_BITS_MAX {
            self.uncut.fill(true);
            return;
        }
        let of = |nodes: &[Node]| {
            let mut set = SlotSet::new(bits);
            for stmt in nodes.iter().flat_map(|node| &node.stmts) {
                if let Some((instance, access)) = stmt.op.access() {
                    set.insert(numbers[&instance]);
                    if access == Access::Write {
                        set.insert(numbers[&instance] + 1);
                    }
                }
            }
            set
        };
        let actions: Vec<SlotSet> = self.program.actions.iter().map(|a| of(&a.body.nodes)).collect();
        let places = self.in_reverse_postorder();
        // By the statements of each place, and by the actions that run there.
        let mut own: Vec<[SlotSet; 2]> = vec![[SlotSet::new(bits), SlotSet::new(bits)]; self.places.len()];
        for &place in &places {
            let node = self.node(place);
            own[place][0] = of(std::slice::from_ref(node));
            if let Terminator::Apply { table, .. } = node.terminator {
                for action in &self.program.tables[table.index()].actions {
                    own[place][1].union(&actions[action.action.index()]);
                }
            }
        }
        // Up to the end of a place's statements, and from there on.
        let mut before: Vec<SlotSet> = own.iter().map(|[stmts, _]| stmts.clone()).collect();
        let mut after: Vec<SlotSet> = own.iter().map(|[_, actions]| actions.clone()).collect();
        let mut changed = true;
        let mut compared = 0;
        while changed {
            compared += bits * self.places.len();
            if compared > 8 * ACCESS_BITS_MAX {
                self.uncut.fill(true);
                return;
            }
            changed = false;
            for &place in &places {
                let mut so_far = before[place].clone();
                so_far.union(&own[place][1]);
                for next in self.successors(place) {
                    changed |= before[next].union(&so_far);
                }
            }
            for &place in places.iter().rev() {
                for next in self.successors(place) {
                    let mut from_there = after[next].clone();
                    from_there.union(&own[next][0]);
                    changed |= after[place].union(&from_there);
                }
            }
        }
        for &place in &places {
            // Accessed on both sides, and written on one of them.
            let (before, after) = (&before[place], &after[place]);
            let conflict =
                |bit: Slot| bit.is_multiple_of(2) && (before.contains(bit + 1) || after.contains(bit + 1));
            self.uncut[place] |= before.iter().any(|bit| after.contains(bit) && conflict(bit));
        }
    }

    fn in_reverse_postorder(&self) -> Vec<Place> {
        let mut all: Vec<Place> = (0..self.places.len()).filter(|&p| self.order[p] != usize::MAX).collect();
        all.sort_by_key(|&p| self.order[p]);
        all
    }

    /// Bits of a header without varbit fields; `None` with.
    pub fn header_bits(&self, header: HeaderId) -> Option<u32> {
        let header = &self.program.headers[header.index()];
        header
            .fields
            .iter()
            .map(|f| if f.varbit_length.is_some() { None } else { Some(self.program.width(f.field)) })
            .sum()
    }

    fn find_cursor(&mut self) {
        let places = self.in_reverse_postorder();
        if let Some(start) = self.start() {
            self.cursor[start] = Cursor::Bits(0);
        }
        if let Some(start) = self.egress_start()
            && self.has_copies(Begin::Egress)
        {
            let moved = self.copies().any(|(place, copy)| {
                copy.begin == Begin::Egress && copy.frame == CopyFrame::Current && !self.just_deparsed(place)
            });
            let cursor = if moved { Cursor::Varying } else { Cursor::Bits(0) };
            self.cursor[start] = self.cursor[start].join(cursor);
        }
        let mut work = Rounds::new(places.iter().map(|&place| (self.order[place], place)));
        while let Some(place) = work.next() {
            let (after, on_error) = self.cursor_through(place, &mut |_, _| ());
            let error_target = self.next_step_on_error(place);
            for next in self.successors(place) {
                let mut value = self.cursor[next].join(after);
                if Some(next) == error_target {
                    value = value.join(on_error);
                }
                if value != self.cursor[next] {
                    self.cursor[next] = value;
                    work.insert(self.order[next], next);
                }
            }
        }
        let mut offsets: Vec<Vec<Cursor>> = vec![Vec::new(); self.program.headers.len()];
        for &place in &places {
            self.cursor_through(place, &mut |header, cursor| offsets[header.index()].push(cursor));
        }
        for (header, seen) in offsets.iter().enumerate() {
            if !seen.is_empty() {
                self.extracted.insert(HeaderId(header as u32));
            }
            self.fixed_offset[header] = match seen.first() {
                Some(&Cursor::Bits(b)) if seen.iter().all(|&c| c == Cursor::Bits(b)) => Some(b / 8),
                _ => None,
            };
        }
    }

    /// The cursor after a place, and where it gives up; tells `extracted` what the cursor is where a header begins.
    fn cursor_through(&self, place: Place, extracted: &mut dyn FnMut(HeaderId, Cursor)) -> (Cursor, Cursor) {
        let mut cursor = self.cursor[place];
        let mut on_error = Cursor::Unreached;
        for stmt in &self.node(place).stmts {
            match &stmt.op {
                Op::Extract { header, .. } => {
                    on_error = on_error.join(cursor);
                    extracted(*header, cursor);
                    cursor = cursor.advance(self.header_bits(*header));
                }
                Op::ExtractElement { headers, .. } => {
                    on_error = on_error.join(cursor);
                    headers.iter().for_each(|header| extracted(*header, cursor));
                    cursor = cursor.join(cursor.advance(self.header_bits(headers[0])));
                }
                Op::Advance { bits } => {
                    on_error = on_error.join(cursor);
                    let known = match bits {
                        Expr::Const { value, .. } => u32::try_from(value).ok(),
                        _ => None,
                    };
                    cursor = cursor.advance(known);
                }
                Op::Lookahead { .. } => on_error = on_error.join(cursor),
                _ => {}
            }
        }
        if self.block(place).kind == BlockKind::Deparser
            && matches!(self.node(place).terminator, Terminator::Return)
        {
            cursor = Cursor::Bits(0);
        }
        (cursor, on_error)
    }

    /// Whether the cursor is certainly at the start of the frame because a deparser has run and no parser since.
    fn just_deparsed(&self, place: Place) -> bool {
        let step = self.places[place].step;
        // Egress may begin with a copy or behind a block that ends ingress early.
        let first = if step >= self.program.ingress.len() { self.program.ingress.len() } else { 0 };
        let moves = |step: &usize| self.kind(*step) != BlockKind::Control;
        let last = (first..step).rev().find(moves);
        last.is_some_and(|step| self.kind(step) == BlockKind::Deparser)
    }

    fn all_bodies(&self) -> Vec<&'a Cfg> {
        let p = self.program;
        let mut steps: Vec<usize> = self.sequence.clone();
        steps.sort_unstable();
        steps.dedup();
        steps.iter().map(|&b| &p.blocks[b].body).chain(p.actions.iter().map(|a| &a.body)).collect()
    }

    fn find_writes(&mut self) {
        for body in self.all_bodies() {
            for node in &body.nodes {
                for stmt in &node.stmts {
                    op_sets(&stmt.op, &mut |f| {
                        self.written.insert(f);
                    });
                }
                apply_sets(&node.terminator, &mut |f| {
                    self.written.insert(f);
                });
            }
        }
        self.find_copied_headers();
        for block in &self.program.blocks {
            self.written.extend(block.error_field);
        }
        for action in &self.program.actions {
            self.written.extend(&action.params);
        }
        // After a deparser headers no longer lie where they were extracted. If another one may emit them again, it must have
        // all their fields.
        for header in self.emitted_after_deparsing() {
            let h = &self.program.headers[header.index()];
            self.written.extend(h.fields.iter().map(|f| f.field));
            self.written.extend(h.fields.iter().filter_map(|f| f.varbit_length));
        }
    }

    /// Headers that a deparser emits though they may have been extracted before another one ran.
    fn emitted_after_deparsing(&self) -> Vec<HeaderId> {
        let count = self.program.headers.len();
        let (mut extracted, mut emitted) = (vec![usize::MAX; count], vec![0; count]);
        for place in 0..self.places.len() {
            let step = self.places[place].step;
            for stmt in &self.node(place).stmts {
                stmt.op.for_each_extracted(&mut |header| {
                    let first = &mut extracted[header.index()];
                    *first = step.min(*first);
                });
                if let Op::Emit { header } = stmt.op {
                    let last = &mut emitted[header.index()];
                    *last = step.max(*last);
                }
            }
        }
        let deparsers: Vec<usize> = self.deparsers().collect();
        let between = |h: &usize| deparsers.iter().any(|&d| extracted[*h] < d && d < emitted[*h]);
        (0..count).filter(between).map(|h| HeaderId(h as u32)).collect()
    }

    /// Header fields that copies bring along count as written, unless the frame has them too.
    fn find_copied_headers(&mut self) {
        let mut written = Vec::new();
        for (place, copy) in self.copies() {
            copy_sets(copy, &mut |f| written.push(f));
            if self.keeps_headers(place, copy) {
                continue;
            }
            match &copy.keep {
                Keep::Fields(fields) => written.extend(fields),
                Keep::All => {
                    self.program.headers.iter().for_each(|h| h.for_each_field(&mut |f| written.push(f)));
                }
            }
        }
        self.written.extend(written);
    }

    fn find_deparse(&mut self) {
        for step in 0..self.sequence.len() {
            let block = &self.program.blocks[self.sequence[step]];
            if block.kind != BlockKind::Deparser {
                self.deparse.push(None);
                self.emits.push(Vec::new());
                continue;
            }
            match self.straight_emits(step) {
                Some(emits) => {
                    let in_place = self.always_in_place(step, &emits);
                    self.deparse.push(Some(if in_place { Deparse::InPlace } else { Deparse::Checked }));
                    self.emits.push(emits);
                }
                None => {
                    self.deparse.push(Some(Deparse::Scratch));
                    self.emits.push(Vec::new());
                }
            }
        }
    }

    /// The emits of a deparser that always runs the same way and does not touch the headers it emits.
    fn straight_emits(&self, step: usize) -> Option<Vec<HeaderId>> {
        let body = &self.program.blocks[self.sequence[step]].body;
        let mut emits = Vec::new();
        let mut node = 0usize;
        let mut seen = 0;
        loop {
            for stmt in &body.nodes[node].stmts {
                if let Op::Emit { header } = stmt.op {
                    emits.push(header);
                }
                let mut sets_header = false;
                op_sets(&stmt.op, &mut |f| {
                    let kind = &self.program.fields[f.index()].kind;
                    sets_header |= matches!(kind, FieldKind::Header(_) | FieldKind::Valid(_));
                });
                if sets_header {
                    return None;
                }
            }
            seen += 1;
            match &body.nodes[node].terminator {
                Terminator::Return => break,
                Terminator::Goto(n) if seen <= body.nodes.len() => node = n.index(),
                _ => return None,
            }
        }
        // A header with a varbit field whose length changed would need re-assembly by parts.
        let varbit_written = emits.iter().any(|h| self.varbit_written(*h));
        (!varbit_written).then_some(emits)
    }

    /// Whether anything but extraction sets a varbit field of the header or its length.
    pub fn varbit_written(&self, header: HeaderId) -> bool {
        self.program.headers[header.index()].fields.iter().any(|f| {
            f.varbit_length.is_some_and(|l| self.written.contains(&l) || self.written.contains(&f.field))
        })
    }

    /// Whether packets always leave a deparser with exactly the headers extracted since the one before, if there is one:
    /// nothing else changes validity, every header is extracted at most once and in the order of the emits, everything
    /// extracted is emitted, and nothing is skipped.
    fn always_in_place(&self, step: usize, emits: &[HeaderId]) -> bool {
        let first = self.deparsers().filter(|&d| d < step).last().map_or(0, |d| d + 1);
        let between = |place: Place| (first..=step).contains(&self.places[place].step);
        // The deparser before is not passed by.
        let ends_ingress = |place: Place| matches!(self.node(place).terminator, Terminator::Egress);
        if first > 0 && (0..self.places.len()).any(|p| self.places[p].step < first && ends_ingress(p)) {
            return false;
        }
        if (first..=step).contains(&self.program.ingress.len()) {
            // Copies that begin in between either have the cursor at the start, and no headers, or all that the packet
            // had. A session may cut a frame within its headers.
            let session =
                |copy: &PacketCopy| copy.replicas.as_ref().is_some_and(|r| r.list == ReplicaList::Session);
            let fits = |(place, copy): (Place, &PacketCopy)| {
                copy.begin == Begin::Ingress
                    || copy.frame == CopyFrame::Arrived
                    || self.just_deparsed(place)
                    || (first == 0 && self.keeps_headers(place, copy) && !session(copy))
            };
            if !self.copies().all(fits) {
                return false;
            }
        }
        let mut extracted = Vec::new();
        for place in 0..self.places.len() {
            for stmt in &self.node(place).stmts {
                // Which header that is, and whether it is one that comes later, is not known.
                if matches!(stmt.op, Op::ExtractElement { .. }) {
                    return false;
                }
                if let Op::Extract { header, .. } = stmt.op {
                    if between(place) {
                        extracted.push(header);
                    } else if emits.contains(&header) {
                        return false;
                    }
                }
            }
        }
        let valid_written = emits.iter().chain(&extracted).any(|h| {
            let header = &self.program.headers[h.index()];
            self.written.contains(&header.valid)
                || header.fields.iter().any(|f| f.varbit_length.is_some_and(|l| self.written.contains(&l)))
        });
        if valid_written {
            return false;
        }
        let rank = |h: HeaderId| {
            let mut at = emits.iter().enumerate().filter(|(_, e)| **e == h).map(|(i, _)| i);
            let first = at.next()?;
            at.next().is_none().then_some(first + 1)
        };
        // The rank of the last header extracted before each place: a longest path, so a cycle never settles.
        let mut before = vec![0usize; self.places.len()];
        for _ in 0..=emits.len() + 1 {
            let mut changed = false;
            for place in self.in_reverse_postorder().into_iter().filter(|&p| between(p)) {
                let mut last = before[place];
                for stmt in &self.node(place).stmts {
                    match &stmt.op {
                        Op::Extract { header, .. } => match rank(*header) {
                            Some(r) if r > last => last = r,
                            _ => return false,
                        },
                        Op::Advance { .. } => return false,
                        _ => {}
                    }
                }
                let copies = self.node(place).stmts.iter().any(|stmt| matches!(stmt.op, Op::Copy(_)));
                let copies_go_on = self.egress_start().filter(|_| copies);
                for next in self.successors(place).into_iter().chain(copies_go_on) {
                    if before[next] < last {
                        before[next] = last;
                        changed = true;
                    }
                }
            }
            if !changed {
                return true;
            }
        }
        false
    }

    fn find_needed(&mut self) {
        let mut needed: HashSet<FieldId> = HashSet::new();
        for body in self.all_bodies() {
            for node in &body.nodes {
                for stmt in &node.stmts {
                    op_uses(&stmt.op, &mut |f| {
                        needed.insert(f);
                    });
                    if let Op::Emit { header: header_id } = stmt.op {
                        let header = &self.program.headers[header_id.index()];
                        needed.insert(header.valid);
                        for f in &header.fields {
                            if self.written.contains(&f.field) || self.varbit_written(header_id) {
                                needed.insert(f.field);
                            }
                            needed.extend(f.varbit_length);
                        }
                    }
                }
                terminator_uses(&node.terminator, &mut |f| {
                    needed.insert(f);
                });
                if let Terminator::Turn { .. } = node.terminator {
                    needed.extend(self.program.turns);
                }
            }
        }
        needed.extend(self.program.egress_port);
        needed.extend(self.program.drop_place);
        // Whether the frame has a field says the header's validity.
        let validity = |f: &FieldId| match self.program.fields[f.index()].kind {
            FieldKind::Header(h) => Some(self.program.headers[h.index()].valid),
            _ => None,
        };
        let validities: Vec<FieldId> = needed.iter().filter_map(validity).collect();
        needed.extend(validities);
        self.needed = needed;
    }

    fn find_reads(&mut self) {
        let mut reads = vec![Reads::default(); self.places.len()];
        let mut applied = HashMap::new();
        for place in self.in_reverse_postorder() {
            let node = self.node(place);
            let (mut set, mut facts) = (self.set_before[place].clone(), self.facts_before(place));
            reads[place] = self.reads(place, node, true, &mut set, &mut facts);
            if let Some((_, memo)) = self.memo(place) {
                reads[place].terminator.push(self.row_slot_of(&memo));
            }
            if let Terminator::Apply { table, next, exit, .. } = &node.terminator {
                let set = self.set_before_actions(place);
                node.terminator.for_each_result(&mut |f| self.forget(&mut facts, f));
                let actions = self.program.tables[table.index()].actions.iter().map(|a| a.action);
                let of_action = |id: ActionId| {
                    let action = &self.program.actions[id.index()];
                    let set = self.set_in_action(&set, id);
                    let inside = self.facts_in_action(&facts, id);
                    let nodes = action.body.nodes.iter();
                    let nodes =
                        nodes.map(|n| self.reads(place, n, false, &mut set.clone(), &mut inside.clone()));
                    let after = self.facts_after_action(&facts, id);
                    let exits = self.may_exit(id).then_some(*exit);
                    let ways = std::iter::once(*next).chain(exits);
                    let ways =
                        ways.filter_map(|n| self.resolve(Some(self.behind_action(place, id, n)), &after));
                    Applied { nodes: nodes.collect(), ways: ways.collect() }
                };
                applied.insert(place, actions.map(of_action).collect());
            }
        }
        (self.reads, self.applied) = (reads, applied);
    }

    /// What a node, that of the place itself or one of an action there, reads when `set` are the slots that statements may
    /// have set before it. Goes on to after its statements.
    fn reads(&self, place: Place, node: &Node, is_own: bool, set: &mut SlotSet, facts: &mut Facts) -> Reads {
        let mut reads = Reads::default();
        for (i, stmt) in node.stmts.iter().enumerate() {
            let mut slots = Vec::new();
            match &stmt.op {
                _ if is_own && let Some(Sum::Again(slot, changed)) = self.sums.get(&(place, i)) => {
                    slots.push(*slot);
                    changed.iter().for_each(|c| self.slots_read(place, c.field, set, facts, &mut slots));
                }
                Op::Extern { function, args, .. } if function.plain_hash() == Some(Algorithm::Csum16) => {
                    for summand in self.summands(place, Some(set), args) {
                        match summand {
                            Summand::Argument(i, _) => {
                                self.slots_of_expr(place, &args[i], set, facts, &mut slots);
                            }
                            Summand::Frame(at, _) => self.slots_of_frame(place, at, set, facts, &mut slots),
                        }
                    }
                }
                op => op.for_each_expr(&mut |e| self.slots_of_expr(place, e, set, facts, &mut slots)),
            }
            reads.stmts.push(slots);
            self.learn(facts, &stmt.op);
            op_sets(&stmt.op, &mut |f| set.insert(f.index()));
        }
        let slots = &mut reads.terminator;
        node.terminator.for_each_expr(&mut |e| self.slots_of_expr(place, e, set, facts, slots));
        if matches!(node.terminator, Terminator::Turn { .. }) {
            slots.extend(self.program.turns.map(FieldId::index));
        }
        if matches!(node.terminator, Terminator::Drop(_)) {
            // Read where all ways to the drop have met.
            slots.extend(self.program.drop_place.map(FieldId::index));
        }
        reads
    }

    /// The slots that are read when the field is: code generation must decide alike, from the same facts and the same set
    /// (`Codegen::get`), or it reads a slot that nobody filled.
    fn slots_read(&self, place: Place, field: FieldId, set: &SlotSet, facts: &Facts, slots: &mut Vec<Slot>) {
        let slot = field.index();
        if self.known(facts, slot).is_some() || self.is_untouched(slot, set, facts) {
            return;
        }
        match self.framed(place, slot, set, facts) {
            Some(at) => self.slots_of_frame(place, at, set, facts, slots),
            None => slots.push(slot),
        }
    }

    /// The slots that are read when an expression is, likewise. Of a column, whichever the index chooses: they have to be
    /// where an index finds them.
    fn slots_of_expr(&self, place: Place, expr: &Expr, set: &SlotSet, facts: &Facts, slots: &mut Vec<Slot>) {
        match expr {
            Expr::Const { .. } => {}
            Expr::Field(f) => self.slots_read(place, *f, set, facts, slots),
            Expr::Element { column, index } => match self.value(facts, index) {
                Some(known) => {
                    if let Some(f) = chosen(column, known) {
                        self.slots_read(place, f, set, facts, slots);
                    }
                }
                None => {
                    self.slots_of_expr(place, index, set, facts, slots);
                    slots.extend(column.iter().map(|f| f.index()));
                }
            },
            Expr::Unary(_, a)
            | Expr::Slice { value: a, .. }
            | Expr::ZeroExtend(a, _)
            | Expr::SignExtend(a, _) => self.slots_of_expr(place, a, set, facts, slots),
            Expr::Binary(_, a, b) | Expr::Concat(a, b) => {
                self.slots_of_expr(place, a, set, facts, slots);
                self.slots_of_expr(place, b, set, facts, slots);
            }
            Expr::Select(c, a, b) => {
                let known = self.value(facts, c);
                if known.is_none() {
                    self.slots_of_expr(place, c, set, facts, slots);
                }
                if known != Some(0) {
                    self.slots_of_expr(place, a, set, facts, slots);
                }
                if known.is_none_or(|known| known == 0) {
                    self.slots_of_expr(place, b, set, facts, slots);
                }
            }
        }
    }

    /// Finds [`Self::is_indexed`].
    fn find_indexed(&mut self) {
        let mut is_indexed = vec![false; self.columns.whole.len()];
        if is_indexed.is_empty() {
            return;
        }
        let mut note = |column: &[FieldId]| {
            if let Some(part) = self.columns.part(column) {
                is_indexed[part.whole] = true;
            }
        };
        for place in 0..self.places.len() {
            let (node, mut facts) = (self.node(place), self.facts_before(place));
            for stmt in &node.stmts {
                self.for_each_indexed(&facts, &stmt.op, &mut note);
                self.learn(&mut facts, &stmt.op);
            }
            node.terminator.for_each_expr(&mut |e| self.for_each_indexed_in(&facts, e, &mut note));
        }
        // What is known in actions depends on who runs them.
        let nothing = self.no_facts();
        for node in self.program.actions.iter().flat_map(|action| &action.body.nodes) {
            node.stmts.iter().for_each(|stmt| self.for_each_indexed(&nothing, &stmt.op, &mut note));
            node.terminator.for_each_expr(&mut |e| self.for_each_indexed_in(&nothing, e, &mut note));
        }
        self.is_indexed = is_indexed;
    }

    /// Calls `note` with the columns of a statement into which an index leads that is not known.
    fn for_each_indexed(&self, facts: &Facts, op: &Op, note: &mut dyn FnMut(&[FieldId])) {
        op.for_each_expr(&mut |e| self.for_each_indexed_in(facts, e, note));
        match op {
            Op::SetElement { column, index, .. } if self.value(facts, index).is_none() => note(column),
            Op::ExtractElement { headers, index, .. } if self.value(facts, index).is_none() => {
                for_each_column_of(headers, &self.program.headers, &mut |column| note(&column));
            }
            _ => {}
        }
    }

    fn for_each_indexed_in(&self, facts: &Facts, expr: &Expr, note: &mut dyn FnMut(&[FieldId])) {
        expr.clone().rewrite(&mut |e| {
            if let Expr::Element { column, index } = e
                && self.value(facts, index).is_none()
            {
                note(column);
            }
        });
    }

    /// The slots that say where in the frame that is, and whether it is there.
    fn slots_of_frame(&self, place: Place, at: InFrame, set: &SlotSet, facts: &Facts, slots: &mut Vec<Slot>) {
        self.slots_read(place, self.program.headers[at.header.index()].valid, set, facts, slots);
        if !at.is_fixed {
            slots.push(self.offset_slot(at.header));
        }
    }

    /// Where in the frame a field begins that is still as the frame has it if its header is valid, and else 0, when `set`
    /// are the slots that statements may have set. Where the header always is at the same place only if it is valid:
    /// else it is loaded once, by extraction.
    pub fn framed(&self, place: Place, slot: Slot, set: &SlotSet, facts: &Facts) -> Option<InFrame> {
        let FieldKind::Header(header) = self.program.fields.get(slot)?.kind else { return None };
        let valid = self.program.headers[header.index()].valid.index();
        if set.contains(slot) || set.contains(valid) {
            return None;
        }
        let at = self.frame_bit(place, header, FieldId(slot as u32))?;
        (!at.is_fixed || self.known(facts, valid) == Some(1)).then_some(at)
    }

    /// Whether it is a field of a header that is not there, and was not before, and that no statement has set: it is 0.
    pub fn is_untouched(&self, slot: Slot, set: &SlotSet, facts: &Facts) -> bool {
        let Some(FieldKind::Header(header)) = self.program.fields.get(slot).map(|field| &field.kind) else {
            return false;
        };
        let valid = self.program.headers[header.index()].valid.index();
        !set.contains(slot) && !set.contains(valid) && self.known(facts, valid) == Some(0)
    }

    /// What statements may have set when the block of a place is left there.
    pub fn set_at_end(&self, place: Place) -> SlotSet {
        let mut set = self.set_before[place].clone();
        self.node(place).stmts.iter().for_each(|stmt| op_sets(&stmt.op, &mut |f| set.insert(f.index())));
        set
    }

    /// Of the header fields that a deparser emits, those that may differ from what the frame has, where it is left at a
    /// place; `None` if all that statements set anywhere do.
    pub fn changed_at_end(&self, place: Place) -> Option<SlotSet> {
        let is_straight = self.deparse[self.places[place].step] != Some(Deparse::Scratch);
        (is_straight && !self.deparsed_before(place)).then(|| self.set_at_end(place))
    }

    /// What statements, and the lookup, may have set before the actions of a place's table run.
    pub fn set_before_actions(&self, place: Place) -> SlotSet {
        let mut set = self.set_at_end(place);
        apply_sets(&self.node(place).terminator, &mut |f| set.insert(f.index()));
        set
    }

    /// What may have been set where the statements of an action run, if `set` may have been before.
    pub fn set_in_action(&self, set: &SlotSet, action: ActionId) -> SlotSet {
        let action = &self.program.actions[action.index()];
        let mut set = set.clone();
        action.params.iter().for_each(|p| set.insert(p.index()));
        if action.body.nodes.len() > 1 {
            let stmts = action.body.nodes.iter().flat_map(|node| &node.stmts);
            stmts.for_each(|stmt| op_sets(&stmt.op, &mut |f| set.insert(f.index())));
        }
        set
    }

    /// Whether an action may end what runs it.
    pub fn may_exit(&self, action: ActionId) -> bool {
        let nodes = &self.program.actions[action.index()].body.nodes;
        nodes.iter().any(|node| matches!(node.terminator, Terminator::Exit))
    }

    fn find_live(&mut self) {
        // What is live before a place is looked for anew when that of one changes to which it leads.
        let mut before: Vec<Vec<Place>> = vec![Vec::new(); self.places.len()];
        let entries = Begin::ALL.map(|begin| self.entry(begin));
        let places = self.in_reverse_postorder();
        for &place in &places {
            let mut next = self.ways(place);
            next.extend(self.applied.get(&place).into_iter().flatten().flat_map(|applied| &applied.ways));
            let stmts = &self.node(place).stmts;
            if stmts.iter().any(|stmt| matches!(stmt.op, Op::Copy(_))) {
                next.extend(entries.iter().flatten());
            }
            next.sort_unstable();
            next.dedup();
            next.iter().for_each(|&next| before[next].push(place));
        }
        let mut work = Rounds::new(places.iter().map(|&place| (usize::MAX - self.order[place], place)));
        while let Some(place) = work.next() {
            if !self.spend(self.edges(place)) {
                return;
            }
            let live = self.live_before_statements(place, &mut |_, _| ());
            if self.live[place].union(&live) {
                before[place].iter().for_each(|&before| work.insert(usize::MAX - self.order[before], before));
            }
        }
    }

    /// Counts the work of an analysis that visits this many sets of slots at a place. Returns whether it may continue.
    fn spend(&mut self, sets: usize) -> bool {
        self.steps = self.steps.saturating_add((1 + sets) * (32 + self.slots / 64));
        self.steps <= ANALYSIS_STEPS_MAX
    }

    /// Whether the analyses were too much work: then they have not ended.
    pub fn gave_up(&self) -> bool {
        self.steps > ANALYSIS_STEPS_MAX
    }

    /// Walks back from the end of a place and reports what is live after each statement.
    fn live_before_statements(&self, place: Place, after: &mut impl FnMut(usize, &SlotSet)) -> SlotSet {
        let mut live = match self.ends.get(&(place, Begins::Lookup)) {
            Some(needed) => needed.clone(),
            None => self.live_after(place),
        };
        let reads = &self.reads[place];
        reads.terminator.iter().for_each(|&slot| live.insert(slot));
        let changed = LazyCell::new(|| self.changed_at_end(place));
        for (i, stmt) in self.node(place).stmts.iter().enumerate().rev() {
            after(i, &live);
            if let Some(Sum::Kept(slot)) = self.sums.get(&(place, i)) {
                live.remove(*slot);
            }
            let is_changed = |f: FieldId| changed.as_ref().is_none_or(|changed| changed.contains(f.index()));
            self.live_through(place, &stmt.op, &reads.stmts[i], &is_changed, &mut live);
        }
        live
    }

    /// Slots live after the terminator of a place has read its operands; for a table, after its lookup.
    pub fn live_after(&self, place: Place) -> SlotSet {
        match self.ends.get(&(place, Begins::Action)) {
            Some(needed) => needed.clone(),
            None => self.live_before_actions(place),
        }
    }

    /// The same; for a table, before its action runs.
    fn live_before_actions(&self, place: Place) -> SlotSet {
        let mut live = self.no_slots();
        let node = self.node(place);
        match &node.terminator {
            Terminator::Apply { table, .. } => {
                let table = &self.program.tables[table.index()];
                let applied = self.applied.get(&place).into_iter().flatten();
                for (action, applied) in table.actions.iter().zip(applied) {
                    live.union(&self.live_before_action(place, action.action, applied));
                }
                // A group without members runs none.
                if table.profile.is_some() {
                    self.union_live(&self.ways(place), &mut live);
                }
                apply_sets(&node.terminator, &mut |f| live.remove(f.index()));
                self.row_slot(place).into_iter().for_each(|slot| live.remove(slot));
            }
            terminator => {
                self.union_live(&self.ways(place), &mut live);
                if matches!(
                    terminator,
                    Terminator::Return | Terminator::Reject(_) | Terminator::Exit | Terminator::Egress
                ) {
                    let deparse = self.deparse[self.places[place].step];
                    if matches!(deparse, Some(Deparse::Checked | Deparse::Scratch)) {
                        live.insert(self.cursor_slot());
                    }
                    if self.after(place).is_none() {
                        self.program.egress_port.iter().for_each(|f| live.insert(f.index()));
                    }
                }
            }
        }
        live
    }

    fn union_live(&self, places: &[Place], live: &mut SlotSet) {
        for &place in places {
            live.union(self.ends.get(&(place, Begins::Place)).unwrap_or(&self.live[place]));
        }
    }

    fn live_before_action(&self, place: Place, action: ActionId, applied: &Applied) -> SlotSet {
        let action = &self.program.actions[action.index()];
        let mut live = self.no_slots();
        self.union_live(&applied.ways, &mut live);
        let (nodes, reads) = (&action.body.nodes, &applied.nodes);
        if let ([node], [reads]) = (&nodes[..], &reads[..]) {
            reads.terminator.iter().for_each(|&slot| live.insert(slot));
            for (stmt, reads) in node.stmts.iter().zip(&reads.stmts).rev() {
                self.live_through(place, &stmt.op, reads, &|_| true, &mut live);
            }
        } else {
            for (node, reads) in nodes.iter().zip(reads) {
                reads.terminator.iter().for_each(|&slot| live.insert(slot));
                for (stmt, reads) in node.stmts.iter().zip(&reads.stmts) {
                    // What an action sets on one of its ways stays live before it.
                    let mut before = live.clone();
                    self.live_through(place, &stmt.op, reads, &|_| true, &mut before);
                    live.union(&before);
                }
            }
        }
        action.params.iter().for_each(|p| live.remove(p.index()));
        live
    }

    fn find_set_before(&mut self) {
        let slots = self.slots();
        for begin in Begin::ALL {
            if let Some(place) = self.entry(begin)
                && self.has_copies(begin)
            {
                let copies: Vec<_> = self.copies().filter(|(_, copy)| copy.begin == begin).collect();
                for (from, copy) in copies {
                    // Else it has what was set where it was made.
                    if !self.keeps_headers(from, copy) {
                        let brought = self.brought_by(copy);
                        self.set_before[place].union(&brought);
                    }
                }
                if begin == Begin::Egress {
                    // Copies have the intrinsics of arrival only if they keep them, and those of queues of their own.
                    let others = self.program.intrinsics.iter();
                    let others = others.filter(|(i, _)| *i != Intrinsic::EgressTimestamp);
                    others.for_each(|(_, f)| self.set_before[place].insert(f.index()));
                }
            }
        }
        let mut action_sets = Vec::new();
        for action in &self.program.actions {
            let mut set = SlotSet::new(slots);
            for node in &action.body.nodes {
                node.stmts.iter().for_each(|stmt| op_sets(&stmt.op, &mut |f| set.insert(f.index())));
            }
            action.params.iter().for_each(|p| set.insert(p.index()));
            action_sets.push(set);
        }
        let places = self.in_reverse_postorder();
        let mut work = Rounds::new(places.iter().map(|&place| (self.order[place], place)));
        while let Some(place) = work.next() {
            if !self.spend(self.edges(place)) {
                return;
            }
            let mut set = self.set_before[place].clone();
            let node = self.node(place);
            for stmt in &node.stmts {
                op_sets(&stmt.op, &mut |f| set.insert(f.index()));
                if let (Op::Copy(copy), Some(begin)) = (&stmt.op, self.egress_start())
                    && self.keeps_headers(place, copy)
                {
                    let mut brought = set.clone();
                    copy_sets(copy, &mut |f| brought.insert(f.index()));
                    if self.set_before[begin].union(&brought) {
                        work.insert(self.order[begin], begin);
                    }
                }
            }
            apply_sets(&node.terminator, &mut |f| set.insert(f.index()));
            if let Terminator::Apply { table, .. } = &node.terminator {
                for action in &self.program.tables[table.index()].actions {
                    set.union(&action_sets[action.action.index()]);
                }
            }
            // Where a parser gives up, by itself or by the program's will, the error field is set.
            self.block(place).error_field.iter().for_each(|f| set.insert(f.index()));
            for next in self.ways(place) {
                if self.set_before[next].union(&set) {
                    work.insert(self.order[next], next);
                }
            }
        }
    }

    /// The slots that live across a cut before the lookup of `place`, and how each gets its value back.
    pub fn carried_to_lookup(&self, place: Place) -> Vec<(Slot, Origin)> {
        let row = self.memo(place).map(|(_, memo)| self.row_slot_of(&memo));
        let mut carried = self.carried_to_action(place);
        if let Some(row) = row
            && let Err(at) = carried.binary_search_by_key(&row, |c| c.0)
        {
            carried.insert(at, (row, Origin::Phv));
        }
        carried
    }

    /// The same where the cut comes after the lookup.
    pub fn carried_to_action(&self, place: Place) -> Vec<(Slot, Origin)> {
        self.with_origins(place, self.live_after(place), &self.set_at_end(place), &self.facts_at_end(place))
    }

    /// The same where the cut comes before the statements of `place`.
    pub fn carried_to(&self, place: Place) -> Vec<(Slot, Origin)> {
        let facts = self.facts_before(place);
        self.with_origins(place, self.live[place].clone(), &self.set_before[place], &facts)
    }

    fn with_origins(
        &self,
        place: Place,
        mut live: SlotSet,
        set: &SlotSet,
        facts: &Facts,
    ) -> Vec<(Slot, Origin)> {
        let origin = |slot| match self.known(facts, slot) {
            Some(value) => Origin::Known(value),
            None if self.is_untouched(slot, set, facts) => Origin::Zero,
            None => self.origin(place, slot, set),
        };
        let slots: Vec<Slot> = live.iter().collect();
        for slot in slots {
            // Whether the frame has a field says the header's validity, live or not.
            if let Origin::Frame(at) = origin(slot) {
                live.insert(self.program.headers[at.header.index()].valid.index());
                if !at.is_fixed {
                    live.insert(self.offset_slot(at.header));
                }
            }
        }
        live.iter().map(|slot| (slot, origin(slot))).collect()
    }

    fn origin(&self, place: Place, slot: Slot, set: &SlotSet) -> Origin {
        let Some(field) = self.program.fields.get(slot) else { return Origin::Phv };
        if set.contains(slot) {
            return Origin::Phv;
        }
        match field.kind {
            FieldKind::Header(header) => match self.frame_bit(place, header, FieldId(slot as u32)) {
                Some(at) if !set.contains(self.program.headers[header.index()].valid.index()) => {
                    Origin::Frame(at)
                }
                _ if !self.extracted.contains(&header) => Origin::Zero,
                _ => Origin::Phv,
            },
            FieldKind::Valid(header) if self.extracted.contains(&header) => Origin::Phv,
            _ => {
                let intrinsic = self.program.intrinsics.iter().find(|(_, f)| f.index() == slot);
                match intrinsic {
                    // Taken when egress begins.
                    Some((intrinsic, _))
                        if intrinsic.begin() == Begin::Egress
                            && self.places[place].step < self.program.ingress.len() =>
                    {
                        Origin::Zero
                    }
                    Some((Intrinsic::PacketLength, _)) if self.length_changed(place) => Origin::Phv,
                    Some((i, _)) => Origin::Intrinsic(*i),
                    // Lengths of varbits are set by extraction.
                    None if self.is_varbit_length(FieldId(slot as u32)) => Origin::Phv,
                    None => Origin::Zero,
                }
            }
        }
    }

    fn is_varbit_length(&self, field: FieldId) -> bool {
        self.program.headers.iter().any(|h| h.fields.iter().any(|f| f.varbit_length == Some(field)))
    }

    /// Whether the frame may have another length than it came with.
    fn length_changed(&self, place: Place) -> bool {
        let truncated = |other: Place| {
            let stmts = &self.node(other).stmts;
            stmts.iter().any(|stmt| matches!(stmt.op, Op::Truncate { .. }))
        };
        self.deparsed_before(place) || (0..self.places.len()).any(truncated)
    }

    /// Where a header's field begins in the frame, where that can be said at `place`.
    fn frame_bit(&self, place: Place, header: HeaderId, field: FieldId) -> Option<InFrame> {
        if self.deparsed_before(place) || !self.extracted.contains(&header) {
            return None;
        }
        let offset = self.fixed_offset[header.index()];
        let is_fixed = offset.is_some();
        let mut bit = offset.unwrap_or(0) * 8;
        for f in &self.program.headers[header.index()].fields {
            if f.varbit_length.is_some() {
                return None;
            }
            let end = bit + self.program.width(f.field);
            if f.field == field {
                return (end <= READABLE_BYTES * 8).then_some(InFrame { header, bit, is_fixed });
            }
            bit = end;
        }
        None
    }

    /// What `csum16` of `args` adds up when `set` are the slots that statements may have set; `None` if that is not known.
    pub fn summands(&self, place: Place, set: Option<&SlotSet>, args: &[Expr]) -> Vec<Summand> {
        let widths: Vec<u32> = args.iter().map(|a| a.width(self.program)).collect();
        let mut behind = widths.iter().sum::<u32>().next_multiple_of(16);
        let mut summands = Vec::new();
        let mut i = 0;
        while i < args.len() {
            let run = set.and_then(|set| self.frame_run(place, set, &args[i..], behind));
            let (count, summand) = run.unwrap_or((1, Summand::Argument(i, behind - widths[i])));
            summands.push(summand);
            behind -= widths[i..i + count].iter().sum::<u32>();
            i += count;
        }
        summands
    }

    /// If `args` begin with neighbouring header fields that are still as the frame has them, in whole 16-bit words of the
    /// frame and of the sum: how many they are.
    fn frame_run(&self, place: Place, set: &SlotSet, args: &[Expr], behind: u32) -> Option<(usize, Summand)> {
        let in_frame = |arg: &Expr| -> Option<(InFrame, u32)> {
            let Expr::Field(field) = arg else { return None };
            let FieldKind::Header(header) = self.program.fields[field.index()].kind else { return None };
            let valid = self.program.headers[header.index()].valid;
            if set.contains(field.index()) || set.contains(valid.index()) {
                return None;
            }
            Some((self.frame_bit(place, header, *field)?, self.program.width(*field)))
        };
        let (first, _) = in_frame(args.first()?)?;
        let start = first.bit;
        let (mut end, mut best) = (start, None);
        for (i, arg) in args.iter().enumerate() {
            match in_frame(arg) {
                Some((at, width)) if at.header == first.header && at.bit == end => end += width,
                _ => break,
            }
            if start.is_multiple_of(8) && (end - start).is_multiple_of(16) && behind.is_multiple_of(16) {
                best = Some((i + 1, Summand::Frame(first, (end - start) / 8)));
            }
        }
        best
    }

    /// Finds checksums, up to [`SUMS_MAX`], over bytes of the frame that an earlier one has added up on every way: [`Self::sums`].
    fn find_sums(&mut self) {
        // By what is added up where nothing has changed: the places and statements, and the fields that may have.
        let mut sites: Vec<(Vec<Summand>, Vec<Site>)> = Vec::new();
        let mut found = 0;
        for place in self.in_reverse_postorder() {
            if found > SUMS_MAX {
                break;
            }
            let (mut set, mut facts) = (self.set_before[place].clone(), self.facts_before(place));
            for (i, stmt) in self.node(place).stmts.iter().enumerate() {
                if let Some(args) = summed(&stmt.op) {
                    let whole = self.summands(place, Some(&self.no_slots()), args);
                    if let Some(changed) = self.changed_in(&whole, args, &set, &facts) {
                        found += 1;
                        let site = (place, i, changed);
                        match sites.iter_mut().find(|(of, _)| *of == whole) {
                            Some((_, sites)) => sites.push(site),
                            None => sites.push((whole, vec![site])),
                        }
                    }
                }
                self.learn(&mut facts, &stmt.op);
                op_sets(&stmt.op, &mut |f| set.insert(f.index()));
            }
        }
        let mut sums = HashMap::new();
        // Hot paths may have the same statement more often than there are slots.
        let mut slots = first_sum_slot(self.program)..slot_count(self.program);
        for (_, sites) in sites {
            let gives = |place: Place| sites.iter().any(|(p, _, changed)| *p == place && changed.is_empty());
            let given = self.holds_before(gives);
            let is_there = |n: usize| {
                let place = sites[n].0;
                given[place] || sites[..n].iter().any(|(p, _, changed)| *p == place && changed.is_empty())
            };
            let Some(slot) = (0..sites.len()).any(is_there).then(|| slots.next()).flatten() else { continue };
            for (n, (place, i, changed)) in sites.iter().enumerate() {
                match is_there(n) {
                    true => sums.insert((*place, *i), Sum::Again(slot, changed.clone())),
                    false if changed.is_empty() => sums.insert((*place, *i), Sum::Kept(slot)),
                    false => None,
                };
            }
        }
        self.sums = sums;
    }

    /// Of the fields that are added up, those that may not be what the frame has; `None` if not all of it lies at one place of
    /// the frame, or the sum cannot be corrected for them.
    fn changed_in(
        &self,
        whole: &[Summand],
        args: &[Expr],
        set: &SlotSet,
        facts: &Facts,
    ) -> Option<Vec<Changed>> {
        let mut args = args.iter();
        let mut changed = Vec::new();
        for summand in whole {
            let &Summand::Frame(from, bytes) = summand else { return None };
            let valid = self.program.headers[from.header.index()].valid.index();
            if !from.is_fixed || set.contains(valid) || self.known(facts, valid) != Some(1) {
                return None;
            }
            let mut bit = 0;
            while bit < bytes * 8 {
                let Expr::Field(field) = args.next()? else { return None };
                let width = self.program.width(*field);
                if set.contains(field.index()) {
                    let word = bit / 32 * 4;
                    let behind = bit / 8 - word;
                    let fits = behind + width / 8 <= summed_bytes(bytes - word);
                    if !bit.is_multiple_of(8) || !matches!(width, 8 | 16 | 32) || !fits {
                        return None;
                    }
                    changed.push(Changed { field: *field, byte: (from.bit + bit) / 8, behind });
                }
                bit += width;
            }
        }
        (!whole.is_empty() && changed.len() <= CHANGED_MAX).then_some(changed)
    }

    /// For each place, whether packets have been through one of those that give something before, on every way.
    fn holds_before(&self, gives: impl Fn(Place) -> bool) -> Vec<bool> {
        let is_entry = |place: Place| {
            self.start() == Some(place)
                || self.has_copies(Begin::Egress) && self.entry(Begin::Egress) == Some(place)
        };
        // A parser that gives up on the way has not been through all of its node.
        let gives_whole =
            |place: Place| gives(place) && !self.node(place).stmts.iter().any(|stmt| stmt.op.may_reject());
        let mut holds: Vec<bool> = (0..self.places.len()).map(|place| !is_entry(place)).collect();
        let is_reached = |place: &Place| self.order[*place] != usize::MAX;
        let mut work: Vec<Place> =
            (0..self.places.len()).filter(|&p| is_entry(p)).filter(is_reached).collect();
        while let Some(place) = work.pop() {
            if !gives_whole(place) {
                for next in self.ways(place) {
                    if std::mem::replace(&mut holds[next], false) {
                        work.push(next);
                    }
                }
            }
        }
        holds
    }

    /// Slots live after each statement of a place.
    pub fn live_after_statements(&self, place: Place) -> Vec<SlotSet> {
        let mut all = vec![self.no_slots(); self.node(place).stmts.len()];
        self.live_before_statements(place, &mut |i, live| all[i] = live.clone());
        all
    }

    /// Whether ingress or egress needs the time.
    pub fn reads_time(&self) -> bool {
        let live = Begin::ALL.map(|begin| self.live_at(begin));
        let mut stamps = self.program.intrinsics.iter().filter(|(intrinsic, _)| {
            *intrinsic == Intrinsic::IngressTimestamp || intrinsic.begin() == Begin::Egress
        });
        stamps.any(|(_, field)| live.iter().any(|live| live.contains(field.index())))
    }

    /// Whether frames stay where they are, as long as they are.
    pub fn frames_stay(&self) -> bool {
        let truncates =
            |place: Place| self.node(place).stmts.iter().any(|stmt| matches!(stmt.op, Op::Truncate { .. }));
        self.deparse.iter().flatten().all(|mode| *mode == Deparse::InPlace)
            && !(0..self.places.len()).any(truncates)
    }

    /// Whether a packet may come to a node again, in a block or in an action.
    pub fn may_loop(&self) -> bool {
        let leads_back = |body: &Cfg| {
            body.nodes.iter().enumerate().any(|(number, node)| {
                let mut back = false;
                node.terminator.for_each_target(&mut |to| back |= to.index() <= number);
                back
            })
        };
        self.in_cycle.contains(&true) || self.program.actions.iter().any(|action| leads_back(&action.body))
    }

    fn live_through_copy(&self, place: Place, copy: &PacketCopy, live: &mut SlotSet) {
        let mut kept = self.live_at(copy.begin);
        kept.intersect(&self.brought[copy.begin as usize]);
        for field in 0..self.program.fields.len() {
            if matches!(&copy.keep, Keep::Fields(fields) if !fields.contains(&FieldId(field as u32))) {
                kept.remove(field);
            }
        }
        copy_sets(copy, &mut |f| kept.remove(f.index()));
        if !self.keeps_headers(place, copy) {
            (0..self.program.headers.len()).for_each(|h| kept.remove(self.offset_slot(HeaderId(h as u32))));
        }
        live.union(&kept);
        if copy.begin == Begin::Egress && copy.frame == CopyFrame::Current {
            live.insert(self.cursor_slot());
        }
    }

    /// From what is live after a statement to what is live before it. `is_changed`: of the fields that a deparser emits,
    /// what [`Self::changed_at_end`] says.
    fn live_through(
        &self,
        place: Place,
        op: &Op,
        reads: &[Slot],
        is_changed: &dyn Fn(FieldId) -> bool,
        live: &mut SlotSet,
    ) {
        match op {
            Op::Set { dest, .. } => live.remove(dest.index()),
            Op::Extern { function, outs, .. } => {
                outs.iter().for_each(|f| live.remove(f.index()));
                if function.reads_payload() {
                    live.insert(self.cursor_slot());
                }
            }
            Op::Extract { header, .. } => {
                let h = &self.program.headers[header.index()];
                live.remove(h.valid.index());
                for f in &h.fields {
                    live.remove(f.field.index());
                    f.varbit_length.iter().for_each(|l| live.remove(l.index()));
                }
                live.remove(self.offset_slot(*header));
            }
            Op::Lookahead { dest } => live.remove(dest.index()),
            // The other elements stay what they are.
            Op::SetElement { .. } | Op::ExtractElement { .. } => {}
            Op::Advance { .. } => {}
            Op::Truncate { .. } => live.insert(self.cursor_slot()),
            Op::Copy(copy) => self.live_through_copy(place, copy, live),
            Op::Emit { header } => {
                let h = &self.program.headers[header.index()];
                let mode = self.deparse[self.places[place].step];
                let in_place = mode == Some(Deparse::InPlace);
                let is_set = |f: &FieldId| is_changed(*f) && self.written.contains(f);
                // It stays where it is as it is.
                if in_place && !h.fields.iter().any(|f| is_set(&f.field)) {
                    return;
                }
                live.insert(h.valid.index());
                if !in_place || self.fixed_offset[header.index()].is_none() {
                    live.insert(self.offset_slot(*header));
                }
                for f in &h.fields {
                    if is_set(&f.field) || self.varbit_written(*header) {
                        live.insert(f.field.index());
                    }
                    f.varbit_length.iter().for_each(|l| live.insert(l.index()));
                }
            }
        }
        if op.may_reject() {
            live.insert(self.cursor_slot());
            // Where it leads when it fails, what was there before is seen. That is not told apart from where the place leads
            // else.
            self.union_live(&self.ways(place), live);
        }
        reads.iter().for_each(|&slot| live.insert(slot));
    }
}

/// The element of this number, if there is one.
pub fn chosen<T: Copy>(column: &[T], number: u64) -> Option<T> {
    column.get(usize::try_from(number).ok()?).copied()
}

/// Calls `set` for every field that a copy has with values of its own.
pub fn copy_sets(copy: &PacketCopy, set: &mut impl FnMut(FieldId)) {
    copy.set.iter().for_each(|(f, _)| set(*f));
    if let Some(replicas) = &copy.replicas {
        let fields = [replicas.port, replicas.instance, replicas.class_of_service];
        fields.into_iter().flatten().for_each(set);
    }
}

/// Calls `set` for every field a statement sets; extraction does not count.
pub fn op_sets(op: &Op, set: &mut impl FnMut(FieldId)) {
    match op {
        Op::Set { dest, .. } | Op::Lookahead { dest } => set(*dest),
        Op::SetElement { column, .. } => column.iter().for_each(|f| set(*f)),
        Op::Extern { outs, .. } => outs.iter().for_each(|f| set(*f)),
        Op::ExtractElement { .. }
        | Op::Extract { .. }
        | Op::Advance { .. }
        | Op::Emit { .. }
        | Op::Copy(_)
        | Op::Truncate { .. } => {}
    }
}

/// Calls `set` for every field that a table's lookup sets.
fn apply_sets(terminator: &Terminator, set: &mut impl FnMut(FieldId)) {
    if let Terminator::Apply { hit, action_run, entry, .. } = terminator {
        [hit, action_run, entry].into_iter().flatten().for_each(|f| set(*f));
    }
}

fn op_uses(op: &Op, use_: &mut impl FnMut(FieldId)) {
    op.for_each_expr(&mut |e| e.for_each_field(use_));
}

fn terminator_uses(terminator: &Terminator, use_: &mut impl FnMut(FieldId)) {
    terminator.for_each_expr(&mut |e| e.for_each_field(use_));
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERIFIED_AND_UPDATED: &str = r#"
program "p"
errors NoError, PacketTooShort
error_packet_too_short 1
drop_reasons "no header"
field h.$valid$: 1 valid h
field h.a: 8 in h
field h.b: 24 in h
field h.c: 16 in h
field h.sum: 16 in h
field meta.port: 9 metadata
field meta.sum: 16 metadata
field meta.error: 32 metadata
header h valid h.$valid$ { h.a, h.b, h.c, h.sum }
block "parse" parser error meta.error {
  n0:
    extract h
    return
}
block "verify" control {
  n0:
    if h.$valid$ then n1 else n2
  n1:
    if eq(h.a, 0x2:8) then n3 else n3
  n2:
    drop "no header"
  n3:
    meta.sum = call csum16(h.a, h.b, h.c)
    return
  n4:
    return
}
block "update" control {
  n0:
    h.a = 0x1:8
    h.sum = call csum16(h.a, h.b, h.c)
    return
}
ingress "parse", "verify", "update"
egress_port meta.port
"#;

    /// The sums of the program, changed.
    fn sums(from: &str, to: &str) -> Vec<Sum> {
        assert!(VERIFIED_AND_UPDATED.contains(from));
        let program = p4jet_ir::text::parse(&VERIFIED_AND_UPDATED.replace(from, to)).unwrap();
        let flow = Flow::new(&program, Stops::Nowhere, &[], &[]);
        let mut sums: Vec<_> = flow.sums.clone().into_iter().collect();
        sums.sort_by_key(|(at, _)| *at);
        sums.into_iter().map(|(_, sum)| sum).collect()
    }

    #[test]
    fn a_sum_over_the_same_bytes_is_kept_and_corrected() {
        let slot = |sums: &[Sum]| match sums.first() {
            Some(Sum::Kept(slot)) => *slot,
            _ => panic!("{sums:?}"),
        };
        let found = sums("h.a = 0x1:8", "h.a = 0x1:8");
        let a = Changed { field: FieldId(1), byte: 0, behind: 0 };
        assert_eq!(found[1..], [Sum::Again(slot(&found), vec![a])]);
        let found = sums("h.a = 0x1:8", "h.c = 0x1:16");
        let c = Changed { field: FieldId(3), byte: 4, behind: 0 };
        assert_eq!(found[1..], [Sum::Again(slot(&found), vec![c])]);
    }

    #[test]
    fn a_sum_is_not_kept_that_could_not_be_corrected_or_may_not_be_there() {
        // No word of the machine has it.
        assert_eq!(sums("h.a = 0x1:8", "h.b = 0x1:24"), []);
        // Other bytes.
        assert_eq!(sums("h.sum = call csum16(h.a, h.b, h.c)", "h.sum = call csum16(h.a, h.b)"), []);
        // One way leads past it.
        assert_eq!(sums("else n3", "else n4"), []);
        // The header may not be there.
        assert_eq!(sums("drop \"no header\"", "return"), []);
    }
}
