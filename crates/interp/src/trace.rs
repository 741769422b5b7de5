//! The trace of one packet, step by step.

use num_bigint::BigUint;
use p4jet_ir::{
    ActionId, BlockId, DropReason, Expr, FieldId, HeaderId, InstanceId, Loc, PipelineHalf, Queued,
    ReplicaList, TableId,
};
use p4jet_tables::{Difference, Entry, EntryHandle, HitReason, KeyMatch, Near};

/// The steps of one packet, in order. [`Trace::render`] formats them for people, [`Trace::to_json`] for tools.
#[derive(Debug, Default)]
pub struct Trace {
    /// The steps.
    pub events: Vec<TraceEvent>,
    limit: Limit,
    /// Memory for the steps, with their text and JSON, unless the trace is brief.
    bytes: usize,
    is_full: bool,
}

/// The limit of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Limit {
    /// [`Trace::brief`]
    Brief,
    /// [`Trace::new`]
    #[default]
    Bytes,
}

/// Maximum number of steps in a brief trace; an endless loop produces hundreds of thousands.
const BRIEF_MAX: usize = 4000;

/// Memory for the steps of a trace, with their text and JSON. A quarter of it is for the ends of packets and copies.
pub const TRACE_BYTES_MAX: usize = 16 << 20;

/// Memory for a step: the event, its line, and its JSON object.
const STEP_BYTES: usize = 2 << 10;
/// Memory for the last steps, of which a trace has one each: what becomes of packets that wait or were not created.
const LAST_BYTES: usize = 8 * STEP_BYTES;
/// Memory for a field among others in a step.
const FIELD_BYTES: usize = 256;
/// Memory for a part of a step that is a JSON object of its own, such as a key.
const PART_BYTES: usize = 1 << 10;

impl Trace {
    /// Creates an empty trace. Its memory is limited: of packets that take very many steps it contains the first ones and the
    /// ends.
    pub fn new() -> Trace {
        Trace::default()
    }

    /// Creates an empty trace that will not contain everything: at most 4000 steps and the end of the packet, and no explanations
    /// that require examining all entries of a table (why one matched, which nearly matched).
    pub fn brief() -> Trace {
        Trace { limit: Limit::Brief, ..Trace::new() }
    }

    /// Memory for the steps, with their text and JSON; 0 for a brief trace, which limits their number.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_brief(&self) -> bool {
        self.limit == Limit::Brief
    }

    /// True if it takes no further steps except the ends of packets.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Adds a step if there is room.
    pub fn add(&mut self, event: TraceEvent) {
        let is_last = matches!(event, TraceEvent::CopiesDropped { .. } | TraceEvent::Ends { .. });
        let ends = is_last
            || matches!(event, TraceEvent::Sent { .. } | TraceEvent::Dropped { .. } | TraceEvent::Done);
        let bytes = match self.limit {
            Limit::Brief => 0,
            // Before an end there may be a count of steps left out.
            Limit::Bytes => event.bytes() + if ends { STEP_BYTES } else { 0 },
        };
        let has_room = match self.limit {
            Limit::Brief => ends || self.events.len() < BRIEF_MAX,
            Limit::Bytes if is_last => self.bytes + bytes <= TRACE_BYTES_MAX,
            Limit::Bytes if ends => self.bytes + bytes <= TRACE_BYTES_MAX - LAST_BYTES,
            Limit::Bytes => !self.is_full && self.bytes + bytes <= TRACE_BYTES_MAX / 4 * 3,
        };
        if !has_room {
            self.is_full = true;
            return self.leave_out();
        }
        self.bytes += bytes;
        self.events.push(event);
    }

    /// Counts a step that the trace does not contain.
    pub(crate) fn leave_out(&mut self) {
        match self.events.last_mut() {
            Some(TraceEvent::LeftOut { steps }) => *steps += 1,
            _ => self.events.push(TraceEvent::LeftOut { steps: 1 }),
        }
    }
}

impl TraceEvent {
    /// The memory that a step may take, with its text and JSON.
    fn bytes(&self) -> usize {
        // The value itself, and its digits in the text and in JSON.
        let value = |value: &BigUint| value.bits() as usize;
        let text = |text: &String| 4 * text.len();
        let fields = |fields: &[(FieldId, BigUint)]| -> usize {
            fields.iter().map(|(_, v)| FIELD_BYTES + value(v)).sum()
        };
        let entry = |entry: &Entry| -> usize {
            let part = |part: &KeyMatch| match part {
                KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) | KeyMatch::Lpm { value: v, .. } => value(v),
                KeyMatch::Ternary { value: v, mask: w } | KeyMatch::Range { lo: v, hi: w } => {
                    value(v) + value(w)
                }
                KeyMatch::Optional(None) => 0,
            };
            entry.key.iter().map(|key| PART_BYTES + part(key)).sum()
        };
        let near = |(near, of): &(Near, Entry)| -> usize {
            let differences = near.fields.iter().flatten();
            let part =
                |d: &Difference| value(&d.found) + value(&d.expected) + d.mask.as_ref().map_or(0, value);
            PART_BYTES + entry(of) + differences.map(|d| PART_BYTES + part(d)).sum::<usize>()
        };
        let causes =
            |causes: &[Cause]| -> usize { causes.iter().map(|cause| PART_BYTES + value(&cause.value)).sum() };
        let parts = match self {
            TraceEvent::Node { label } => text(label),
            TraceEvent::Extract { fields: of, .. } => fields(of),
            TraceEvent::TooShort { bits_needed: bits, .. }
            | TraceEvent::VarbitTooLong { bits, .. }
            | TraceEvent::Advance { bits, .. }
            | TraceEvent::Lookahead { value: bits, .. } => value(bits),
            TraceEvent::Set { old, new, .. } => value(old) + value(new),
            TraceEvent::Branch { condition, fields: of, .. } => condition.size() * FIELD_BYTES + fields(of),
            TraceEvent::Switch { selector, value: v, .. } => selector.size() * FIELD_BYTES + value(v),
            TraceEvent::Apply { keys, matched, .. } => {
                let keys: usize = keys.iter().map(|key| 2 * PART_BYTES + value(key)).sum();
                keys + match matched {
                    Matched::Hit { entry: of, .. } => entry(of),
                    Matched::Miss { nearest } => nearest.iter().map(near).sum(),
                }
            }
            TraceEvent::Action { data, .. } => data.iter().map(|v| FIELD_BYTES + value(v)).sum(),
            TraceEvent::Extern { function, args, outs, text: texts, .. } => {
                let args: usize = args.iter().map(|(v, _)| FIELD_BYTES + value(v)).sum();
                text(function) + args + fields(outs) + texts.iter().map(text).sum::<usize>()
            }
            TraceEvent::Copied { to: Some((_, _, ports)), .. } => ports.len() * FIELD_BYTES,
            TraceEvent::Enqueued { why: Some(why), .. } | TraceEvent::CopiesDropped { why } => text(why),
            TraceEvent::Dropped { causes: of, .. } | TraceEvent::Sent { causes: of, .. } => causes(of),
            TraceEvent::Arrived { .. }
            | TraceEvent::Block { .. }
            | TraceEvent::Selected { .. }
            | TraceEvent::ActionEnd { .. }
            | TraceEvent::Emit { .. }
            | TraceEvent::Deparsed { .. }
            | TraceEvent::Copied { to: None, .. }
            | TraceEvent::Enqueued { why: None, .. }
            | TraceEvent::CopyBegins { .. }
            | TraceEvent::Truncated { .. }
            | TraceEvent::Ends { .. }
            | TraceEvent::LeftOut { .. }
            | TraceEvent::Done
            | TraceEvent::Reject { .. } => 0,
        };
        STEP_BYTES + parts
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
    /// Steps that the trace does not contain, because it has a limit.
    LeftOut {
        /// Their number.
        steps: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> TraceEvent {
        TraceEvent::Emit { header: HeaderId(0), valid: true, bits: 8, loc: Loc(0) }
    }

    fn left_out(trace: &Trace) -> Vec<u64> {
        let steps = |event: &TraceEvent| match event {
            TraceEvent::LeftOut { steps } => Some(*steps),
            _ => None,
        };
        trace.events.iter().filter_map(steps).collect()
    }

    #[test]
    fn a_trace_has_the_first_steps_and_the_ends() {
        let mut trace = Trace::new();
        (0..1_000_000).for_each(|_| trace.add(step()));
        let steps = TRACE_BYTES_MAX / 4 * 3 / STEP_BYTES;
        assert_eq!((trace.events.len(), left_out(&trace)), (steps + 1, vec![1_000_000 - steps as u64]));
        trace.add(TraceEvent::Done);
        trace.add(step());
        assert!(matches!(trace.events[steps + 1..], [TraceEvent::Done, TraceEvent::LeftOut { steps: 1 }]));
        // Even the ends have a limit.
        (0..1_000_000).for_each(|_| trace.add(TraceEvent::Done));
        assert!(trace.events.len() <= TRACE_BYTES_MAX / STEP_BYTES + 1, "{}", trace.events.len());
        trace.add(TraceEvent::Ends { waiting: 1 });
        assert!(matches!(trace.events.last(), Some(TraceEvent::Ends { .. })));
        assert!(trace.bytes() <= TRACE_BYTES_MAX, "{}", trace.bytes());
    }

    #[test]
    fn large_steps_count_by_their_size() {
        let mut trace = Trace::new();
        let call = || TraceEvent::Extern {
            function: "log_msg".into(),
            instance: None,
            args: Vec::new(),
            outs: Vec::new(),
            text: vec!["x".repeat(60_000)],
            loc: Loc(0),
        };
        (0..1000).for_each(|_| trace.add(call()));
        assert!((10..60).contains(&trace.events.len()), "{}", trace.events.len());
        // Later steps would have room, but the trace has no gaps.
        trace.add(step());
        let whole: u64 = trace.events.len() as u64 - 1 + left_out(&trace)[0];
        assert_eq!((left_out(&trace).len(), whole), (1, 1001));
    }

    #[test]
    fn a_brief_trace_has_4000_steps_and_the_end() {
        let mut trace = Trace::brief();
        (0..5000).for_each(|_| trace.add(step()));
        trace.add(TraceEvent::Done);
        assert_eq!((trace.events.len(), left_out(&trace)), (BRIEF_MAX + 2, vec![1000]));
    }
}
