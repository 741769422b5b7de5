//! The pipeline IR: the meaning of a P4 program, independent of P4.
//!
//! The IR is monomorphic, inlined and fixed-width. A [`Program`] is a set of scalar [`Field`]s (header fields, validity bits,
//! metadata, temporaries, action data), [`Header`]s that group some of them, [`Table`]s, [`Action`]s, and [`Block`]s (parsers,
//! controls, deparsers), which are control-flow graphs over them. An architecture decides which blocks run in which order
//! ([`Program::ingress`], [`Program::egress`]) and which fields have intrinsic values ([`Program::intrinsics`]); this crate
//! knows no architecture's name.
//!
//! # Meaning, for every executor
//!
//! * Every field except the intrinsics is 0 when a packet arrives. Fields hold values of exactly their width, as unsigned bit
//!   patterns; operators define signedness. `bool` has width 1. Width 0 does not occur, except as varbit values.
//! * A header's validity is an ordinary 1-bit field. Reading the fields of an invalid header just reads the fields
//!   (lowering emits the zeroing that P4 and bmv2 require).
//! * Expressions are pure. Statements of a [`Node`] run in order, then its terminator.
//! * The blocks of [`Program::ingress`] run in order, then those of [`Program::egress`]. [`Terminator::Return`] continues with
//!   the next block, [`Terminator::Egress`] with the first block of egress; after the last block the packet leaves by the port
//!   in [`Program::egress_port`]. [`Terminator::Drop`] ends the packet at once, and so does [`Terminator::Done`], which is not
//!   a drop.
//! * [`Op::Copy`] creates copies of the packet, which are processed independently: see [`PacketCopy`].
//! * The packet cursor starts at the first byte of the frame and is always on a byte boundary: headers have a whole number of
//!   bytes (which the verifier checks). The bytes after the cursor are the payload. A block of kind [`BlockKind::Deparser`]
//!   starts with an empty output, to which [`Op::Emit`] appends; when it returns, the output followed by the payload becomes
//!   the frame, and the cursor is 0 again.
//! * When [`Op::Extract`], [`Op::ExtractElement`], [`Op::Advance`] or [`Op::Lookahead`] would pass the end of the frame, nothing is changed, the
//!   block's [`Block::error_field`] becomes [`Program::error_packet_too_short`] and the block returns (reject). An
//!   extract whose varbit length exceeds the field's width sets [`Program::error_header_too_short`] instead; a varbit
//!   length or an advance that is not a multiple of 8 sets [`Program::error_invalid_argument`]. Order of the checks: invalid argument, header too short, packet too short.
//! * The processing of every packet ends: each cycle of a graph is bounded by a counter, consumes bytes of the frame, or passes
//!   a [`Terminator::Turn`], which spends the packet's budget of turns ([`turns`]). Nothing restores the budget.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use num_bigint::BigUint;

pub mod atomic;
pub mod columns;
mod components;
mod drops;
pub mod eval;
mod function;
pub mod passes;
#[cfg(feature = "random")]
pub mod random;
pub mod tallies;
pub mod text;
pub mod turns;
pub mod verify;
mod walk;
mod work;

pub use drops::DropReason;
pub use function::{Access, Algorithm, Effect, Function, Hash};
pub use walk::for_each_column_of;

macro_rules! index {
    ($(#[$doc:meta] $name:ident;)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// Returns the id as an index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

index! {
    /// Index in [`Program::fields`].
    FieldId;
    /// Index in [`Program::headers`].
    HeaderId;
    /// Index in [`Program::actions`].
    ActionId;
    /// Index in [`Program::tables`].
    TableId;
    /// Index in [`Program::blocks`].
    BlockId;
    /// Index in [`Cfg::nodes`].
    NodeId;
    /// Index in [`Program::instances`].
    InstanceId;
    /// Index in [`columns::Columns::whole`].
    ColumnId;
    /// Index in [`Program::locs`]; 0 is "nowhere".
    Loc;
}

/// A graph: the body of an action or of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CfgId {
    /// An action.
    Action(ActionId),
    /// A block.
    Block(BlockId),
}

/// A whole program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Name of the program (file stem), for reports.
    pub name: String,
    /// All scalar storage of a packet.
    pub fields: Vec<Field>,
    /// Headers that are extracted or emitted.
    pub headers: Vec<Header>,
    /// Actions reachable from tables.
    pub actions: Vec<Action>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Extern instances with state.
    pub instances: Vec<Instance>,
    /// Parsers, controls, deparsers.
    pub blocks: Vec<Block>,
    /// The blocks that run when a packet arrives, in order.
    pub ingress: Vec<BlockId>,
    /// The blocks that run once per packet or copy that leaves, in order.
    pub egress: Vec<BlockId>,
    /// The port by which a packet leaves.
    pub egress_port: Option<FieldId>,
    /// Fields set when a packet arrives.
    pub intrinsics: Vec<(Intrinsic, FieldId)>,
    /// Names of the error codes; the code of an error is its index. 0 is NoError.
    pub errors: Vec<String>,
    /// Code of PacketTooShort.
    pub error_packet_too_short: u32,
    /// Code of HeaderTooShort.
    pub error_header_too_short: u32,
    /// Code of ParserInvalidArgument.
    pub error_invalid_argument: u32,
    /// Drop reasons; [`Terminator::Drop`] names one by index.
    pub drop_reasons: Vec<String>,
    /// Types whose values controllers see under other names (`@p4runtime_translation`), with their width in packets.
    pub translated: Vec<(String, u32)>,
    /// The field, of width 32, with the place ([`Loc`]) that requested a later drop; 0 if only the
    /// [`Terminator::Drop`] has a place. Set by [`passes::place_drops`].
    pub drop_place: Option<FieldId>,
    /// The number of loop turns that the packet has taken, of width 32. Only [`Terminator::Turn`] reads and writes it, and
    /// copies start with [`Program::turns_of_copy`].
    pub turns: Option<FieldId>,
    /// Source places, for traces and reports; entry 0 is a dummy.
    pub locs: Vec<SourceLoc>,
}

/// A place in the P4 text as line and column, so that the text itself is not needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceLoc {
    /// File name as given.
    pub file: String,
    /// 1-based line; 0 for none.
    pub line: u32,
    /// 1-based column.
    pub column: u32,
}

/// Values that the packet loop supplies for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intrinsic {
    /// Ingress port.
    IngressPort,
    /// Bytes of the frame.
    PacketLength,
    /// Microseconds since the process started.
    IngressTimestamp,
    /// Like [`Self::IngressTimestamp`], taken at the start of egress.
    EgressTimestamp,
    /// Like [`Self::IngressTimestamp`], taken when the packet entered its queue. This and the following values are set at the
    /// start of egress; a packet that did not wait in a queue has the values of one that left its queue as soon as it entered.
    EnqueueTimestamp,
    /// Number of packets in the queue at that time.
    EnqueueDepth,
    /// Microseconds spent in the queue.
    QueueTime,
    /// Number of packets in the queue after the packet had left it.
    DequeueDepth,
    /// The number of the queue among those of its port.
    QueueNumber,
}

impl Program {
    /// Returns the ids of all graphs: first those of actions.
    pub fn cfgs(&self) -> impl Iterator<Item = CfgId> + use<> {
        let actions = (0..self.actions.len() as u32).map(|action| CfgId::Action(ActionId(action)));
        actions.chain((0..self.blocks.len() as u32).map(|block| CfgId::Block(BlockId(block))))
    }

    /// Returns a graph.
    pub fn cfg(&self, id: CfgId) -> &Cfg {
        match id {
            CfgId::Action(action) => &self.actions[action.index()].body,
            CfgId::Block(block) => &self.blocks[block.index()].body,
        }
    }

    /// Returns a graph to change.
    pub(crate) fn cfg_mut(&mut self, id: CfgId) -> &mut Cfg {
        match id {
            CfgId::Action(action) => &mut self.actions[action.index()].body,
            CfgId::Block(block) => &mut self.blocks[block.index()].body,
        }
    }

    /// True if packets wait in output queues.
    pub fn is_queued(&self) -> bool {
        let nodes = self.blocks.iter().flat_map(|block| &block.body.nodes);
        nodes.flat_map(|node| &node.stmts).any(|s| matches!(&s.op, Op::Copy(copy) if copy.queue.is_some()))
    }

    /// True if the program's behaviour depends on queueing: depths and times.
    pub fn reads_queues(&self) -> bool {
        let waiting: Vec<FieldId> = self
            .intrinsics
            .iter()
            .filter(|(intrinsic, _)| intrinsic.is_of_waiting())
            .map(|(_, field)| *field)
            .collect();
        if waiting.is_empty() {
            return false;
        }
        let mut found = false;
        let mut look = |field| found |= waiting.contains(&field);
        let bodies = self.actions.iter().map(|action| &action.body);
        for node in bodies.chain(self.blocks.iter().map(|block| &block.body)).flat_map(|body| &body.nodes) {
            for stmt in &node.stmts {
                // A copy only keeps their values.
                if !matches!(stmt.op, Op::Copy(_)) {
                    stmt.op.for_each_read(&self.headers, &mut look);
                }
            }
            node.terminator.for_each_expr(&mut |expr| expr.for_each_field(&mut look));
        }
        found
    }
}

impl Intrinsic {
    /// True if it describes how a packet waited in an output queue.
    fn is_of_waiting(self) -> bool {
        use Intrinsic::{DequeueDepth, EnqueueDepth, EnqueueTimestamp, QueueTime};
        matches!(self, EnqueueTimestamp | EnqueueDepth | QueueTime | DequeueDepth)
    }

    /// Returns the pipeline half in which it is set.
    pub fn begin(self) -> PipelineHalf {
        match self {
            Intrinsic::IngressPort | Intrinsic::PacketLength | Intrinsic::IngressTimestamp => {
                PipelineHalf::Ingress
            }
            _ => PipelineHalf::Egress,
        }
    }
}

/// Queue metadata of a packet that leaves a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// The value of [`Intrinsic::EnqueueTimestamp`].
    pub enqueued_us: u64,
    /// The value of [`Intrinsic::EnqueueDepth`].
    pub enqueue_depth: u32,
    /// The value of [`Intrinsic::DequeueDepth`].
    pub dequeue_depth: u32,
    /// The value of [`Intrinsic::QueueNumber`].
    pub queue: u32,
}

impl Queued {
    /// Returns the value of an intrinsic that is set at the start of egress.
    pub fn value(self, intrinsic: Intrinsic, now_us: u64) -> u64 {
        match intrinsic {
            Intrinsic::EnqueueTimestamp => self.enqueued_us,
            Intrinsic::EnqueueDepth => self.enqueue_depth.into(),
            Intrinsic::QueueTime => now_us.saturating_sub(self.enqueued_us),
            Intrinsic::DequeueDepth => self.dequeue_depth.into(),
            Intrinsic::QueueNumber => self.queue.into(),
            _ => now_us,
        }
    }
}

/// A scalar.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Full dotted name, unique: `hdr.ipv4.ttl`, `hdr.vlan[0].$valid$`, `standard_metadata.egress_spec`.
    pub name: String,
    /// Width in bits; for a varbit the maximum.
    pub width: u32,
    /// The kind of storage.
    pub kind: FieldKind,
}

/// The kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A field of a header.
    Header(HeaderId),
    /// The validity bit of a header.
    Valid(HeaderId),
    /// User or intrinsic metadata: named in the program, shown in traces.
    Metadata,
    /// Action data of one action, set from the entry before the action runs.
    ActionData(ActionId),
    /// Anything else: local variables, inlined parameters, results.
    Temporary,
}

/// A header instance. Elements of stacks and members of unions are separate headers.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Full dotted name: `hdr.ipv4`, `hdr.vlan[0]`.
    pub name: String,
    /// Its 1-bit validity field.
    pub valid: FieldId,
    /// Its fields in wire order.
    pub fields: Vec<HeaderField>,
}

/// A field inside a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderField {
    /// The field.
    pub field: FieldId,
    /// For a varbit: the field that holds its current length in bits. The value is right-aligned (the number that the
    /// bits form).
    pub varbit_length: Option<FieldId>,
}

/// An action that tables run.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Full dotted name, unique: the control-plane name, with a number if several actions share it.
    pub name: String,
    /// Full dotted control-plane name, which users type and see. An action of the P4 text becomes several actions if tables
    /// bind its parameters to different arguments; no table lists two of them.
    pub control_name: String,
    /// Action data: fields of kind [`FieldKind::ActionData`], set from the entry.
    pub params: Vec<FieldId>,
    /// Its code. [`Terminator::Return`] ends it, [`Terminator::Exit`] ends it and the applying block.
    pub body: Cfg,
    /// The place of its declaration.
    pub loc: Loc,
}

/// The match kind of a key field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchKind {
    /// Equal.
    Exact,
    /// Longest prefix.
    Lpm,
    /// Value and mask.
    Ternary,
    /// From low to high.
    Range,
    /// Equal, or don't care.
    Optional,
}

impl MatchKind {
    /// True if entries of a table with such a key need a priority, because several may match.
    pub fn needs_priority(self) -> bool {
        matches!(self, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional)
    }
}

/// A key field of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Control-plane name: `hdr.ipv4.dstAddr`.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// Its match kind.
    pub kind: MatchKind,
}

/// The number that stands for the action where none runs: the entry names a group without members.
pub const NO_ACTION: u32 = u32::MAX;

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Full dotted control-plane name: `ingress.ipv4_lpm`.
    pub name: String,
    /// Key fields.
    pub keys: Vec<Key>,
    /// Actions in declaration order. Entries, the default action and `action_run` refer to them by index.
    pub actions: Vec<TableAction>,
    /// Default action.
    pub default: ActionCall,
    /// True if the control plane must not change it.
    pub const_default: bool,
    /// Maximum number of entries.
    pub size: u32,
    /// Entries declared in the program, best priority first.
    pub entries: Vec<Entry>,
    /// True if the control plane must not change the entries or add any.
    pub const_entries: bool,
    /// Direct counters that count every hit in the entry's cell. Other direct counters, and direct meters, are updated by calls
    /// with the cell as an argument ([`Terminator::Apply`]'s `entry`).
    pub direct: Vec<InstanceId>,
    /// True if lowering created the table (for value sets); it is not shown among the program's tables.
    pub hidden: bool,
    /// The action profile whose members and groups the entries name instead of actions.
    pub profile: Option<InstanceId>,
    /// True if idle entries are reported to the control plane (`support_timeout`).
    pub idle_timeout: bool,
    /// The place of its declaration.
    pub loc: Loc,
}

impl Table {
    /// True if a lookup may have to compare many entries: with ternary, range or optional keys, or several lpm keys.
    pub fn is_searched(&self) -> bool {
        let prefixes = self.keys.iter().filter(|key| key.kind == MatchKind::Lpm).count();
        prefixes > 1 || self.keys.iter().any(|key| key.kind.needs_priority())
    }

    /// Returns for each entry of `old` the entry of this table with the same key; entries with one key are paired in their order.
    pub fn entries_like(&self, old: &Table) -> Vec<Option<u32>> {
        let mut places: HashMap<&[KeyMatch], VecDeque<u32>> = HashMap::new();
        for (entry, place) in self.entries.iter().zip(0..).filter(|_| self.keys == old.keys) {
            places.entry(&entry.key).or_default().push_back(place);
        }
        old.entries.iter().map(|entry| places.get_mut(entry.key.as_slice())?.pop_front()).collect()
    }
}

/// An action in a table's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableAction {
    /// The action.
    pub action: ActionId,
    /// The action cannot be the default action (`@tableonly`).
    pub table_only: bool,
    /// The action can only be the default action (`@defaultonly`).
    pub default_only: bool,
}

/// An action of a table with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionCall {
    /// Index in [`Table::actions`].
    pub action: u32,
    /// One value per action parameter.
    pub data: Vec<BigUint>,
}

/// An entry declared in the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One per key.
    pub key: Vec<KeyMatch>,
    /// The smallest number wins.
    pub priority: u32,
    /// The priority that the control plane shows, which need not be related to `priority`.
    pub shown_priority: u32,
    /// True if the control plane must not change it, which holds for every entry of a table with [`Table::const_entries`].
    pub is_const: bool,
    /// The action with its data.
    pub action: ActionCall,
    /// Source place.
    pub loc: Loc,
}

/// The match of one key field of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyMatch {
    /// This value.
    Exact(BigUint),
    /// The first `prefix_len` bits of `value`.
    Lpm {
        /// Value, 0 beyond the prefix.
        value: BigUint,
        /// Length of the prefix.
        prefix_len: u32,
    },
    /// Values that equal `value` where `mask` has ones.
    Ternary {
        /// Value, 0 where the mask is 0.
        value: BigUint,
        /// Mask.
        mask: BigUint,
    },
    /// From `lo` to `hi`, inclusive.
    Range {
        /// Lowest.
        lo: BigUint,
        /// Highest.
        hi: BigUint,
    },
    /// This value, or any value.
    Optional(Option<BigUint>),
}

/// An extern instance with state.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Full dotted control-plane name.
    pub name: String,
    /// The kind.
    pub kind: InstanceKind,
    /// The place of its declaration.
    pub loc: Loc,
}

/// The unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Both.
    Both,
}

/// Kinds of extern state.
#[derive(Clone, Debug, PartialEq)]
pub enum InstanceKind {
    /// Array of values.
    Register {
        /// Width of a cell in bits.
        width: u32,
        /// Number of cells.
        size: u32,
        /// Initial value of each cell.
        initial: BigUint,
    },
    /// Array of counters.
    Counter {
        /// Unit of the counter.
        unit: CounterUnit,
        /// Number of cells.
        size: u32,
    },
    /// One counter per entry of `table`.
    DirectCounter {
        /// Unit of the counter.
        unit: CounterUnit,
        /// The table.
        table: TableId,
    },
    /// Array of two-rate three-colour meters (RFC 2698).
    Meter {
        /// Unit of the meter; not `Both`.
        unit: CounterUnit,
        /// Number of cells.
        size: u32,
    },
    /// One meter per entry of `table`.
    DirectMeter {
        /// Unit of the meter; not `Both`.
        unit: CounterUnit,
        /// The table.
        table: TableId,
    },
    /// Members, each an action with its data, and groups of members. Tables with this [`Table::profile`] share it and
    /// list the same actions.
    ActionProfile {
        /// Maximum number of members; 0 for no limit.
        size: u32,
        /// True if there are groups (an action selector).
        selector: bool,
    },
    /// Messages to the control plane.
    Digest {
        /// Name and width of each field.
        fields: Vec<(String, u32)>,
    },
}

/// The kind of a block; only reports and the verifier use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// May extract; rejects by setting its error field.
    Parser,
    /// May apply tables and create copies.
    Control,
    /// May emit.
    Deparser,
}

/// A parser, control or deparser.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Name of the P4 object: `ParserImpl`, `ingress`.
    pub name: String,
    /// The kind.
    pub kind: BlockKind,
    /// The code.
    pub body: Cfg,
    /// The field that receives the error code when a parser rejects.
    pub error_field: Option<FieldId>,
}

/// Maximum number of bytes that all emits in a deparser's loops may append together.
pub const LOOP_EMIT_BYTES_MAX: u32 = 4096;

/// A control-flow graph. Execution starts at node 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cfg {
    /// The nodes.
    pub nodes: Vec<Node>,
}

/// A basic block.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Description for reports: the parser state or "then of router.p4:41"; may be empty.
    pub label: String,
    /// Statements in order.
    pub stmts: Vec<Stmt>,
    /// The terminator, which names the successors.
    pub terminator: Terminator,
    /// Source place of the terminator.
    pub terminator_loc: Loc,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// The operation.
    pub op: Op,
    /// Source place.
    pub loc: Loc,
}

/// The kinds of statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `dest = value`; widths are equal.
    Set {
        /// Destination.
        dest: FieldId,
        /// Value.
        value: Expr,
    },
    /// `column[index] = value`; no effect if the column has no such field.
    SetElement {
        /// The fields.
        column: Column,
        /// Index. Any width.
        index: Expr,
        /// Value, of the width of the fields.
        value: Expr,
    },
    /// Parser: [`Op::Extract`] of `headers[index]`; no effect if there is no such header.
    ExtractElement {
        /// The headers.
        headers: HeaderColumn,
        /// Index. Any width.
        index: Expr,
        /// The length of the varbit, as in [`Op::Extract`].
        varbit_length: Option<Expr>,
    },
    /// Parser: moves the header's bits from the packet into its fields and makes the header valid.
    Extract {
        /// The header.
        header: HeaderId,
        /// Length in bits of its (only) varbit field, if it has one. Any width.
        varbit_length: Option<Expr>,
    },
    /// Parser: moves the cursor.
    Advance {
        /// Number of bits. Any width.
        bits: Expr,
    },
    /// Parser: reads bits after the cursor without moving it, as many as the width of `dest`.
    Lookahead {
        /// Destination.
        dest: FieldId,
    },
    /// Deparser: appends the header to the output if it is valid. The packet is dropped if that makes the output longer
    /// than [`Program::block_emitted_bytes_max`].
    Emit {
        /// The header.
        header: HeaderId,
    },
    /// Control: creates copies of the packet.
    Copy(Box<PacketCopy>),
    /// Control: truncates the frame to at most this many bytes, but keeps the bytes before the cursor.
    Truncate {
        /// Number of bytes. Any width.
        bytes: Expr,
    },
    /// Calls an extern function, which crate externs computes.
    Extern {
        /// The function.
        function: Function,
        /// The instance it works on.
        instance: Option<InstanceId>,
        /// Arguments.
        args: Vec<Expr>,
        /// Fields that receive the results.
        outs: Vec<FieldId>,
        /// Compile-time strings, such as a format string.
        text: Vec<String>,
    },
}

/// Copies of a packet. They run after the packet that creates them, in the order of their creation, and end like any packet:
/// sent, dropped, or done. Their own copies run after them.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketCopy {
    /// The pipeline half with which they start.
    pub begin: PipelineHalf,
    /// Their frame.
    pub frame: CopyFrame,
    /// The fields that keep the packet's values; the others are 0. Intrinsics are set at `begin`, even if they are kept.
    pub keep: Keep,
    /// Fields that are set at the start, including intrinsics, to values of the packet that creates the copy.
    pub set: Vec<(FieldId, Expr)>,
    /// The destinations of several copies; one copy if empty.
    pub replicas: Option<Replicas>,
    /// The output queue in which they wait; only for copies that start with egress.
    pub queue: Option<Queue>,
}

/// An output queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// The port; each replica has its own. Any width.
    pub port: Expr,
    /// The number of the port's queue. Any width; numbers above [`QUEUE_MAX`] count as [`QUEUE_MAX`]. The class of service of a
    /// clone session replaces it where [`Replicas::class_of_service`] is set.
    pub number: Expr,
}

/// The highest queue number of a port.
pub const QUEUE_MAX: u32 = 7;

/// The pipeline half with which a copy starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PipelineHalf {
    /// The first block of [`Program::ingress`]: the cursor is at the start and all intrinsics of arrival are set, with the
    /// ingress port by which the frame entered the switch.
    Ingress,
    /// The first block of [`Program::egress`]: only the intrinsics of egress are set. If the frame is the current one, the
    /// cursor stays where it is.
    Egress,
}

/// The frame of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyFrame {
    /// The frame as it was when this packet started ingress.
    Arrived,
    /// The current frame.
    Current,
}

/// The fields that a copy keeps.
#[derive(Clone, Debug, PartialEq)]
pub enum Keep {
    /// Every field.
    All,
    /// These fields.
    Fields(Vec<FieldId>),
}

/// One copy for each destination that the control plane configured; none without destinations.
#[derive(Clone, Debug, PartialEq)]
pub struct Replicas {
    /// The kind of list.
    pub list: ReplicaList,
    /// The number of the group or session. Any width.
    pub id: Expr,
    /// Receives the port of each copy.
    pub port: Option<FieldId>,
    /// Receives the replication id (instance) of each copy.
    pub instance: Option<FieldId>,
    /// Receives the class of service of a clone session.
    pub class_of_service: Option<FieldId>,
}

/// Lists of destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplicaList {
    /// A multicast group.
    Group,
    /// A clone (mirror) session; it may also truncate the frame of its copies.
    Session,
}

/// Fields of one width from which an index selects one: the same part of each element of an array or header stack. An
/// access names all fields of the column, so reads and writes are visible as for other fields. Accesses share the list,
/// so each adds only one expression or statement to the program.
pub type Column = Arc<[FieldId]>;

/// Headers of one layout from which an index selects one. Their validity bits, each of their fields, and their lengths form a
/// [`Column`] each.
pub type HeaderColumn = Arc<[HeaderId]>;

/// The end of a node, with its successors.
#[derive(Clone, Debug, PartialEq)]
pub enum Terminator {
    /// Continues at a node.
    Goto(NodeId),
    /// A branch with two successors.
    If {
        /// Width 1.
        cond: Expr,
        /// Successor if it is 1.
        then: NodeId,
        /// Successor if it is 0.
        otherwise: NodeId,
    },
    /// A branch by value.
    Switch {
        /// The value.
        value: Expr,
        /// Distinct values of its width.
        cases: Vec<(BigUint, NodeId)>,
        /// Successor if no value is equal.
        default: NodeId,
    },
    /// Adds its weight to [`Program::turns`].
    Turn {
        /// The number of turns that this one counts as, by the work until the next one ([`turns::WORK_PER_TURN`]): at least 1,
        /// and at most [`turns::TURNS_MAX`] + 1.
        weight: u32,
        /// Successor, unless the sum exceeds [`turns::TURNS_MAX`].
        next: NodeId,
        /// Successor if the sum exceeds it.
        spent: NodeId,
    },
    /// Looks up the keys, runs the entry's action or the default action, and continues.
    Apply {
        /// The table.
        table: TableId,
        /// One expression per key, of its width.
        keys: Vec<Expr>,
        /// Receives 1 on a hit, 0 on a miss, before the action runs.
        hit: Option<FieldId>,
        /// Receives the index in [`Table::actions`] of the action, before it runs; [`NO_ACTION`] if the entry names a group
        /// without members. Width 32.
        action_run: Option<FieldId>,
        /// Receives the cell of the entry in direct counters and meters, 0 on a miss, before the action runs. Width 32.
        entry: Option<FieldId>,
        /// Selects the member if the entry names a group. Any width.
        selector: Option<Expr>,
        /// Successor.
        next: NodeId,
        /// Successor if the action ends with [`Terminator::Exit`].
        exit: NodeId,
    },
    /// End of the block or action.
    Return,
    /// In an action: the end of the action and of the block that applied the table.
    Exit,
    /// Parser: sets the block's error field to this code (width 32) and ends the block.
    Reject(Expr),
    /// The packet is dropped. Index in [`Program::drop_reasons`].
    Drop(u32),
    /// The packet ends here; its copies continue in its place.
    Done,
    /// In an ingress control: the end of ingress.
    Egress,
}

/// A pure expression of a fixed width.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number below 2^width.
    Const {
        /// Value.
        value: BigUint,
        /// Width in bits.
        width: u32,
    },
    /// A field's value.
    Field(FieldId),
    /// The value of `column[index]`; 0 where the column has no such field.
    Element {
        /// The fields.
        column: Column,
        /// Index. Any width.
        index: Box<Expr>,
    },
    /// An operator with one operand.
    Unary(UnaryOp, Box<Expr>),
    /// An operator with two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// Bits `hi` down to `lo` of the operand; width `hi - lo + 1`.
    Slice {
        /// Operand.
        value: Box<Expr>,
        /// Highest bit.
        hi: u32,
        /// Lowest bit.
        lo: u32,
    },
    /// The first operand above the second.
    Concat(Box<Expr>, Box<Expr>),
    /// Zero-extension to a larger width.
    ZeroExtend(Box<Expr>, u32),
    /// Sign-extension to a larger width.
    SignExtend(Box<Expr>, u32),
    /// `cond` (width 1) ? a : b
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Unary operators; the result has the operand's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// Every bit inverted.
    Not,
    /// Two's complement.
    Neg,
}

/// Binary operators. Unless stated otherwise, operands and result have equal widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Modulo 2^width.
    Add,
    /// Modulo 2^width.
    Sub,
    /// Modulo 2^width.
    Mul,
    /// Unsigned; division by 0 gives 0.
    DivU,
    /// Unsigned; modulo 0 gives 0.
    RemU,
    /// Saturating at 2^width - 1.
    SatAddU,
    /// Saturating at 0.
    SatSubU,
    /// Saturating, two's complement.
    SatAddS,
    /// Saturating, two's complement.
    SatSubS,
    /// Bitwise.
    And,
    /// Bitwise.
    Or,
    /// Bitwise.
    Xor,
    /// Left; the count may have any width; a count of width or more gives 0.
    Shl,
    /// Right with zeros; the count may have any width.
    ShrU,
    /// Right with the sign; the count may have any width.
    ShrS,
    /// Width 1.
    Eq,
    /// Width 1.
    Ne,
    /// Unsigned, width 1.
    LtU,
    /// Unsigned, width 1.
    LeU,
    /// Two's complement, width 1.
    LtS,
    /// Two's complement, width 1.
    LeS,
}

impl Expr {
    /// Returns a constant.
    pub fn constant(value: impl Into<BigUint>, width: u32) -> Expr {
        Expr::Const { value: value.into(), width }
    }

    /// Returns the expression's width in bits.
    pub fn width(&self, program: &Program) -> u32 {
        match self {
            Expr::Const { width, .. } => *width,
            Expr::Field(f) => program.fields[f.index()].width,
            Expr::Element { column, .. } => program.fields[column[0].index()].width,
            Expr::Unary(_, a) => a.width(program),
            Expr::Binary(op, a, _) => {
                if op.is_comparison() {
                    1
                } else {
                    a.width(program)
                }
            }
            Expr::Slice { hi, lo, .. } => hi - lo + 1,
            Expr::Concat(a, b) => a.width(program) + b.width(program),
            Expr::ZeroExtend(_, w) | Expr::SignExtend(_, w) => *w,
            Expr::Select(_, a, _) => a.width(program),
        }
    }
}

impl BinaryOp {
    /// True if the result has width 1.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::*;
        matches!(self, Eq | Ne | LtU | LeU | LtS | LeS)
    }

    /// True if the second operand may have any width.
    pub fn is_shift(self) -> bool {
        use BinaryOp::*;
        matches!(self, Shl | ShrU | ShrS)
    }
}

impl Cfg {
    /// True if control may return to the node.
    pub fn is_on_cycle(&self, node: NodeId) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut work = vec![node];
        while let Some(at) = work.pop() {
            self.nodes[at.index()].terminator.for_each_target(&mut |next| {
                if !std::mem::replace(&mut seen[next.index()], true) {
                    work.push(next);
                }
            });
        }
        seen[node.index()]
    }

    /// Returns for each node whether control may return to it, in linear time: by Tarjan's algorithm for strongly connected
    /// components.
    pub fn on_cycles(&self) -> Vec<bool> {
        let targets: Vec<Vec<u32>> = self.nodes.iter().map(Node::targets).collect();
        let mut result = vec![false; self.nodes.len()];
        for component in components::components(&targets) {
            let is_cycle = component.len() > 1 || targets[component[0] as usize].contains(&component[0]);
            component.into_iter().for_each(|node| result[node as usize] = is_cycle);
        }
        result
    }
}

impl Node {
    /// The indices of its targets, in order.
    fn targets(&self) -> Vec<u32> {
        let mut targets = Vec::new();
        self.terminator.for_each_target(&mut |to| targets.push(to.0));
        targets
    }
}

impl Program {
    /// Returns the highest port number that the program can distinguish from others.
    pub fn port_max(&self) -> u32 {
        let port = self.intrinsics.iter().find(|(intrinsic, _)| *intrinsic == Intrinsic::IngressPort);
        match port.map(|(_, field)| self.width(*field)) {
            Some(width @ 0..=31) => (1 << width) - 1,
            _ => u32::MAX - 1,
        }
    }

    /// Returns the width of a field in bits.
    pub fn width(&self, field: FieldId) -> u32 {
        self.fields[field.index()].width
    }

    /// Returns the name of an action's parameter without the name of the action.
    pub fn param_name(&self, action: ActionId, param: FieldId) -> &str {
        let name = self.fields[param.index()].name.as_str();
        let inner =
            name.strip_prefix(&self.actions[action.index()].name).and_then(|rest| rest.strip_prefix('.'));
        inner.unwrap_or_else(|| name.rsplit('.').next().unwrap_or(name))
    }

    /// Returns the maximum growth of a frame in bytes: the headroom that a packet may need.
    pub fn emitted_bytes_max(&self) -> u32 {
        self.blocks.iter().fold(0, |sum, block| self.block_emitted_bytes_max(block).saturating_add(sum))
    }

    /// Returns the maximum number of bytes that a deparser emits: each header once for each [`Op::Emit`] of it, and
    /// [`LOOP_EMIT_BYTES_MAX`] if there are emits on cycles. A packet for which it would emit more is dropped.
    pub fn block_emitted_bytes_max(&self, block: &Block) -> u32 {
        let (mut bits, mut looped) = (0u64, 0);
        let on_cycles = block.body.on_cycles();
        for (node, on_cycle) in block.body.nodes.iter().zip(on_cycles) {
            let emits = node.stmts.iter().filter_map(|stmt| match stmt.op {
                Op::Emit { header } => Some(u64::from(self.header_bits_max(header))),
                _ => None,
            });
            let node_bits: u64 = emits.sum();
            if node_bits > 0 && on_cycle {
                looped = u64::from(LOOP_EMIT_BYTES_MAX);
            } else {
                bits += node_bits;
            }
        }
        u32::try_from(bits.div_ceil(8) + looped).unwrap_or(u32::MAX)
    }

    /// Returns the number of bits of a header with varbits of maximum length.
    pub fn header_bits_max(&self, header: HeaderId) -> u32 {
        self.headers[header.index()].fields.iter().map(|f| self.width(f.field)).sum()
    }
}
