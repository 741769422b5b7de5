//! The trace of one packet, step by step.

use num_bigint::BigUint;
use p4jet_ir::{
    ActionId, BlockId, DropReason, Expr, FieldId, HeaderId, InstanceId, Loc, PipelineHalf, Queued,
    ReplicaList, TableId,
};
use p4jet_tables::{Entry, EntryHandle, HitReason, Near};

/// The steps of one packet, in order. [`Trace::render`] formats them for people, [`Trace::to_json`] for tools.
#[derive(Debug, Default)]
pub struct Trace {
    /// The steps.
    pub events: Vec<TraceEvent>,
    /// Number of steps omitted from a brief trace.
    pub left_out: u64,
    brief: bool,
}

/// Maximum number of steps in a brief trace; an endless loop produces hundreds of thousands.
const BRIEF_MAX: usize = 4000;

impl Trace {
    /// Creates an empty trace that will not contain everything: at most 4000 steps, and no explanations that require
    /// examining all entries of a table (why one matched, which nearly matched).
    pub fn brief() -> Trace {
        Trace { brief: true, ..Trace::default() }
    }

    pub(crate) fn is_brief(&self) -> bool {
        self.brief
    }

    pub(crate) fn is_full(&self) -> bool {
        self.brief && self.events.len() >= BRIEF_MAX
    }
}

/// A step.
#[derive(Debug)]
pub enum TraceEvent {
    /// The packet was received.
    Arrived {
        /// The ingress port.
        port: u32,
        /// Number of bytes.
        length: usize,
    },
    /// A block starts.
    Block {
        /// The block.
        block: BlockId,
    },
    /// A labelled node starts: a parser state, a branch.
    Node {
        /// Its label.
        label: String,
    },
    /// A header was extracted.
    Extract {
        /// The header.
        header: HeaderId,
        /// Its first bit in the frame.
        at_bit: u64,
        /// Number of bits that it took from the frame.
        bits: u64,
        /// The new values of its fields.
        fields: Vec<(FieldId, BigUint)>,
        /// Source place.
        loc: Loc,
    },
    /// The frame is too short; the parser rejects.
    TooShort {
        /// The header, if it was an extract.
        header: Option<HeaderId>,
        /// Number of bits needed.
        bits_needed: BigUint,
        /// Number of bits left.
        bits_available: u64,
        /// Source place.
        loc: Loc,
    },
    /// A varbit field is too small for an extract; the parser rejects.
    VarbitTooLong {
        /// The header.
        header: HeaderId,
        /// Number of bits for the varbit.
        bits: BigUint,
        /// Maximum number of bits of the varbit.
        bits_max: u32,
        /// Source place.
        loc: Loc,
    },
    /// The cursor moved.
    Advance {
        /// Number of bits.
        bits: BigUint,
        /// Source place.
        loc: Loc,
    },
    /// Bits after the cursor were read.
    Lookahead {
        /// Destination field.
        dest: FieldId,
        /// Their value.
        value: BigUint,
        /// Source place.
        loc: Loc,
    },
    /// A field of a header, a validity bit or metadata was written.
    Set {
        /// The field.
        field: FieldId,
        /// The old value.
        old: BigUint,
        /// The new value.
        new: BigUint,
        /// Source place.
        loc: Loc,
    },
    /// A condition was evaluated.
    Branch {
        /// The condition.
        condition: Expr,
        /// The values of the fields in it.
        fields: Vec<(FieldId, BigUint)>,
        /// True if it held.
        held: bool,
        /// Source place.
        loc: Loc,
    },
    /// One of several branches was selected.
    Switch {
        /// The selecting expression.
        selector: Expr,
        /// Its value.
        value: BigUint,
        /// True if a case has that value.
        matched: bool,
        /// Source place.
        loc: Loc,
    },
    /// A table was looked up.
    Apply {
        /// The table.
        table: TableId,
        /// The values of its keys.
        keys: Vec<BigUint>,
        /// For each key, the invalid header that it reads, if any.
        absent: Vec<Option<Absent>>,
        /// The result.
        matched: Matched,
        /// Source place.
        loc: Loc,
    },
    /// The entry named a member or a group.
    Selected {
        /// The group, if it was one.
        group: Option<u32>,
        /// The number that selected the member of the group.
        selector: u64,
        /// The member; `None` if the group has none.
        member: Option<u32>,
        /// Source place.
        loc: Loc,
    },
    /// An action starts.
    Action {
        /// The action.
        action: ActionId,
        /// Its data.
        data: Vec<BigUint>,
    },
    /// The action ends.
    ActionEnd {
        /// The action.
        action: ActionId,
        /// True if the block that applied the table ends too.
        exits: bool,
    },
    /// An extern function was called.
    Extern {
        /// The function.
        function: String,
        /// The instance.
        instance: Option<InstanceId>,
        /// Arguments with their widths.
        args: Vec<(BigUint, u32)>,
        /// Results.
        outs: Vec<(FieldId, BigUint)>,
        /// Compile-time strings.
        text: Vec<String>,
        /// Source place.
        loc: Loc,
    },
    /// A deparser reached a header.
    Emit {
        /// The header.
        header: HeaderId,
        /// True if the header was valid and was therefore written.
        valid: bool,
        /// Number of bits written.
        bits: u64,
        /// Source place.
        loc: Loc,
    },
    /// A deparser ended.
    Deparsed {
        /// Number of bytes of headers.
        header_bytes: usize,
        /// Number of bytes that were not parsed.
        payload_bytes: usize,
    },
    /// Copies were created.
    Copied {
        /// The pipeline half with which they start.
        begin: PipelineHalf,
        /// For replicas: the list, its number and the ports in it.
        to: Option<(ReplicaList, BigUint, Vec<u32>)>,
        /// Source place.
        loc: Loc,
    },
    /// A copy enters an output queue.
    Enqueued {
        /// The port.
        port: u32,
        /// The number of the queue.
        queue: u32,
        /// The reason why the queue refused it, if it did.
        why: Option<String>,
    },
    /// A copy starts; the following steps concern it.
    CopyBegins {
        /// The pipeline half with which it starts.
        begin: PipelineHalf,
        /// Number of bytes.
        length: usize,
        /// The output queue that it leaves: the port, the queue metadata, and the time.
        queue: Option<(u32, Queued, u64)>,
    },
    /// The frame was truncated.
    Truncated {
        /// Number of bytes left.
        length: usize,
        /// Source place.
        loc: Loc,
    },
    /// Copies were not created, or not processed further.
    CopiesDropped {
        /// The reason.
        why: String,
    },
    /// The trace ends here, although packets wait in output queues.
    Ends {
        /// Their number.
        waiting: usize,
    },
    /// The packet ends; its copies continue.
    Done,
    /// The parser rejects because the program says so.
    Reject {
        /// The error.
        code: BigUint,
        /// Source place.
        loc: Loc,
    },
    /// The packet is dropped.
    Dropped {
        /// The reason.
        reason: DropReason,
        /// Source place.
        loc: Loc,
        /// The fields that caused it.
        causes: Vec<Cause>,
    },
    /// The packet was sent.
    Sent {
        /// The egress port.
        port: u32,
        /// Number of bytes.
        length: usize,
        /// The fields that determined the port.
        causes: Vec<Cause>,
    },
}

/// The result of a lookup.
#[derive(Debug)]
pub enum Matched {
    /// An entry.
    Hit {
        /// Its handle.
        handle: EntryHandle,
        /// Its contents.
        entry: Entry,
        /// The reason why it won.
        reason: Option<HitReason>,
    },
    /// No entry; the default action runs.
    Miss {
        /// The nearest entries, their contents and the differences.
        nearest: Vec<(Near, Entry)>,
    },
}

/// A field that influenced a decision, and its last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The field.
    pub field: FieldId,
    /// Its value.
    pub value: BigUint,
    /// The last write; `None` if there was none since the packet arrived or the copy began.
    pub written: Option<Written>,
    /// The header that contains it, if that is invalid.
    pub absent: Option<Absent>,
    /// True if it influenced a copy, which begins with values of the packet that created it.
    pub of_copy: bool,
}

/// An invalid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The header.
    pub header: HeaderId,
    /// The time from which it is invalid.
    pub since: Since,
}

/// The time from which a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// From the start: nothing extracted it or set it valid.
    Ever,
    /// From this place of the program on.
    Here(Loc),
    /// It was invalid when the traced copy started.
    TheCopyBegan,
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Source place.
    pub loc: Loc,
    /// The action and the table that ran it, if the write is in an action.
    pub by: Option<(ActionId, TableId)>,
}
