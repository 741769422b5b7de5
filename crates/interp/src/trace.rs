//! What happened to one packet, step by step.

use num_bigint::BigUint;
use p4jet_ir::{
    ActionId, Begin, BlockId, Expr, FieldId, HeaderId, InstanceId, Loc, Queued, ReplicaList, TableId,
};
use p4jet_tables::{Entry, EntryHandle, HitReason, Near};

/// The steps of one packet, in order. [`Trace::render`] formats them for people, [`Trace::to_json`] for tools.
#[derive(Debug, Default)]
pub struct Trace {
    /// The steps.
    pub events: Vec<TraceEvent>,
    /// Steps that a brief trace does not have.
    pub left_out: u64,
    brief: bool,
}

/// Steps of a brief trace; a loop that does not end makes hundreds of thousands.
const BRIEF_MAX: usize = 4000;

impl Trace {
    /// Nothing yet, and not all of what comes: at most 4000 steps, and not what takes a look at all entries of a table (why
    /// one matched, which came near).
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
    /// The packet came in.
    Arrived {
        /// Where.
        port: u32,
        /// Bytes.
        length: usize,
    },
    /// A block begins.
    Block {
        /// Which.
        block: BlockId,
    },
    /// A node with a label begins: a parser state, a branch.
    Node {
        /// Its label.
        label: String,
    },
    /// A header was taken off the packet.
    Extract {
        /// Which.
        header: HeaderId,
        /// Its first bit in the frame.
        at_bit: u64,
        /// How many bits of the frame it took.
        bits: u64,
        /// What its fields hold now.
        fields: Vec<(FieldId, BigUint)>,
        /// Where the program says so.
        loc: Loc,
    },
    /// The frame ends too early; the parser rejects.
    TooShort {
        /// The header, if it was an extract.
        header: Option<HeaderId>,
        /// Bits it takes.
        bits_needed: BigUint,
        /// Bits that are left.
        bits_available: u64,
        /// Where the program says so.
        loc: Loc,
    },
    /// A varbit field cannot hold what an extract puts there; the parser rejects.
    VarbitTooLong {
        /// The header.
        header: HeaderId,
        /// Bits the varbit should get.
        bits: BigUint,
        /// Bits it can hold.
        bits_max: u32,
        /// Where the program says so.
        loc: Loc,
    },
    /// The cursor moved.
    Advance {
        /// Number of bits.
        bits: BigUint,
        /// Where the program says so.
        loc: Loc,
    },
    /// Bits ahead of the cursor were read.
    Lookahead {
        /// Where they went.
        dest: FieldId,
        /// What they are.
        value: BigUint,
        /// Where the program says so.
        loc: Loc,
    },
    /// A field of a header, a validity bit or metadata was written.
    Set {
        /// Which.
        field: FieldId,
        /// Before.
        old: BigUint,
        /// After.
        new: BigUint,
        /// Where the program says so.
        loc: Loc,
    },
    /// A condition was decided.
    Branch {
        /// The condition.
        condition: Expr,
        /// The values of the fields in it.
        fields: Vec<(FieldId, BigUint)>,
        /// Whether it held.
        held: bool,
        /// Where the program says so.
        loc: Loc,
    },
    /// One of many ways was chosen.
    Switch {
        /// What was looked at.
        selector: Expr,
        /// Its value.
        value: BigUint,
        /// Whether a case has that value.
        matched: bool,
        /// Where the program says so.
        loc: Loc,
    },
    /// A table was looked up.
    Apply {
        /// Which.
        table: TableId,
        /// The values of its keys.
        keys: Vec<BigUint>,
        /// For each key the header that it reads although that is not valid.
        absent: Vec<Option<Absent>>,
        /// What was found.
        matched: Matched,
        /// Where the program says so.
        loc: Loc,
    },
    /// The entry named a member or a group.
    Selected {
        /// The group, if it was one.
        group: Option<u32>,
        /// What picked the member of the group.
        selector: u64,
        /// The member; none if the group has none.
        member: Option<u32>,
        /// Where the program says so.
        loc: Loc,
    },
    /// An action begins.
    Action {
        /// Which.
        action: ActionId,
        /// Its data.
        data: Vec<BigUint>,
    },
    /// The action ends.
    ActionEnd {
        /// Which.
        action: ActionId,
        /// Whether the block that applied the table ends, too.
        exits: bool,
    },
    /// An extern function was called.
    Extern {
        /// Which.
        function: String,
        /// On what.
        instance: Option<InstanceId>,
        /// Values and their widths.
        args: Vec<(BigUint, u32)>,
        /// Results.
        outs: Vec<(FieldId, BigUint)>,
        /// Compile-time texts.
        text: Vec<String>,
        /// Where the program says so.
        loc: Loc,
    },
    /// A deparser came to a header.
    Emit {
        /// Which.
        header: HeaderId,
        /// Whether it was valid, and so was written.
        valid: bool,
        /// Bits written.
        bits: u64,
        /// Where the program says so.
        loc: Loc,
    },
    /// A deparser is done.
    Deparsed {
        /// Bytes of headers.
        header_bytes: usize,
        /// Bytes that were never parsed.
        payload_bytes: usize,
    },
    /// Copies were made.
    Copied {
        /// Where they will begin.
        begin: Begin,
        /// For replicas: the list, its number and the ports in it.
        to: Option<(ReplicaList, BigUint, Vec<u32>)>,
        /// Where the program says so.
        loc: Loc,
    },
    /// A copy enters an output queue.
    Enqueued {
        /// The port.
        port: u32,
        /// Which of its queues.
        queue: u32,
        /// Why it did not get in.
        why: Option<String>,
    },
    /// A copy begins its own way; what follows is about it.
    CopyBegins {
        /// Where.
        begin: Begin,
        /// Bytes.
        length: usize,
        /// The output queue that it leaves: the port, the queue metadata, and the time.
        queue: Option<(u32, Queued, u64)>,
    },
    /// The end of the frame was cut off.
    Truncated {
        /// Bytes left.
        length: usize,
        /// Where the program says so.
        loc: Loc,
    },
    /// Copies were not made, or not carried on with.
    CopiesDropped {
        /// In words.
        why: String,
    },
    /// The packet ends, its copies go on.
    Done,
    /// The parser rejects by the program's own choice.
    Reject {
        /// The error.
        code: BigUint,
        /// Where the program says so.
        loc: Loc,
    },
    /// The packet is dropped.
    Dropped {
        /// As in [`crate::Outcome::Dropped`].
        reason: u32,
        /// Where the program says so.
        loc: Loc,
        /// What led there.
        causes: Vec<Cause>,
    },
    /// The packet left.
    Sent {
        /// Where.
        port: u32,
        /// Bytes.
        length: usize,
        /// What decided the port.
        causes: Vec<Cause>,
    },
}

/// What a lookup found.
#[derive(Debug)]
pub enum Matched {
    /// An entry.
    Hit {
        /// Its name.
        handle: EntryHandle,
        /// What it says.
        entry: Entry,
        /// Why this one.
        reason: Option<HitReason>,
    },
    /// Nothing; the default action runs.
    Miss {
        /// The entries that came nearest, what they say and what differed.
        nearest: Vec<(Near, Entry)>,
    },
}

/// A field that decided something, and who wrote it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The field.
    pub field: FieldId,
    /// What it held.
    pub value: BigUint,
    /// Who wrote it; `None` if nothing did since the packet arrived.
    pub written: Option<Written>,
    /// The header that it is in, if that is not valid.
    pub absent: Option<Absent>,
}

/// A header that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Which.
    pub header: HeaderId,
    /// Since when.
    pub since: Since,
}

/// Since when a header is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Nothing extracted it or set it valid.
    Ever,
    /// Since the program said so here.
    Here(Loc),
    /// It came so with the copy that is traced.
    TheCopyBegan,
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where the program says so.
    pub loc: Loc,
    /// The action and the table that ran it, if it was one.
    pub by: Option<(ActionId, TableId)>,
}
