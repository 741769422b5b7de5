//! Follows a packet and its copies through a trace and counts.

use super::count::{Counts, Lookup};
use super::statements::{Statements, Whole};
use num_bigint::BigUint;
use num_traits::{ToPrimitive, Zero};
use p4jet_dataplane::{Matched, Trace, TraceEvent};
use p4jet_ir::{
    Algorithm, FieldId, FieldKind, Function, Hash, HeaderId, InstanceId, InstanceKind, Loc, MatchKind, Op,
    PipelineHalf, Program, TableId,
};
use std::collections::{HashMap, HashSet, VecDeque};

/// What is the same for all packets of a program.
pub(super) struct Map<'a> {
    program: &'a Program,
    statements: &'a Statements,
    /// The headers that parsers extract or deparsers emit, by [`HeaderId`]. Others are variables.
    of_packet: Vec<bool>,
}

/// What a packet does.
pub(super) struct Followed {
    /// The packet itself.
    pub packet: Counts,
    /// Its copies and theirs, in the order in which they run.
    pub copies: Vec<Counts>,
    /// True if the packet itself was sent.
    pub sent: bool,
    /// True if the trace lacks steps.
    pub is_cut: bool,
}

impl<'a> Map<'a> {
    pub fn new(program: &'a Program, statements: &'a Statements) -> Map<'a> {
        let mut of_packet = vec![false; program.headers.len()];
        let stmts = program.cfgs().flat_map(|id| &program.cfg(id).nodes).flat_map(|node| &node.stmts);
        for stmt in stmts {
            match &stmt.op {
                Op::Extract { header, .. } | Op::Emit { header } => of_packet[header.index()] = true,
                Op::ExtractElement { headers, .. } => {
                    headers.iter().for_each(|header| of_packet[header.index()] = true);
                }
                _ => {}
            }
        }
        Map { program, statements, of_packet }
    }

    /// Counts the steps of a trace.
    pub fn follow(&self, trace: &Trace) -> Followed {
        let mut all: Vec<Counts> = Vec::new();
        let mut follower = Follower::new(self, State::default());
        let (mut sent, mut is_cut) = (false, false);
        for event in &trace.events {
            match event {
                TraceEvent::CopyBegins { begin, length, .. } => {
                    let mut state = follower.waiting.pop_front().unwrap_or_default();
                    if *begin == PipelineHalf::Ingress {
                        state = State::default();
                    }
                    state.touched.clear();
                    state.frame_bits = 8 * *length as u64;
                    let waiting = std::mem::take(&mut follower.waiting);
                    all.push(follower.end());
                    follower = Follower { waiting, ..Follower::new(self, state) };
                }
                TraceEvent::Sent { .. } if all.is_empty() => sent = true,
                TraceEvent::LeftOut { .. } => is_cut = true,
                event => follower.step(event),
            }
        }
        all.push(follower.end());
        let packet = all.remove(0);
        Followed { packet, copies: all, sent, is_cut }
    }
}

/// What is known about a packet between two steps.
#[derive(Clone, Default)]
struct State {
    valid: HashSet<HeaderId>,
    /// Headers whose validity this packet or copy has set. A copy need not keep the validity of others.
    touched: HashSet<HeaderId>,
    /// For headers that are variables: the header of the packet from which they were assigned.
    origins: HashMap<HeaderId, HeaderId>,
    /// Where headers were extracted, in bits from the start of the frame.
    places: HashMap<HeaderId, u64>,
    cursor: u64,
    frame_bits: u64,
}

impl State {
    fn set_valid(&mut self, header: HeaderId, valid: bool) {
        self.touched.insert(header);
        match valid {
            true => self.valid.insert(header),
            false => self.valid.remove(&header),
        };
    }
}

/// A write of a field.
struct Write {
    field: FieldId,
    /// The old and new value, as validity.
    was_set: bool,
    is_set: bool,
    changes: bool,
}

/// What a statement does to a header.
#[derive(Default)]
struct Done {
    /// The validity before and after, if it is written.
    valid: Option<(bool, bool)>,
    /// The written fields, and whether their values change.
    fields: Vec<(FieldId, bool)>,
}

/// Counts the steps of one packet or copy.
struct Follower<'a> {
    map: &'a Map<'a>,
    counts: Counts,
    state: State,
    /// The states of copies that have not started.
    waiting: VecDeque<State>,
    /// The writes of the present statement, and its place.
    run: Vec<Write>,
    run_loc: Loc,
    /// The place of the last checksum.
    checksum_loc: Option<Loc>,
    modified: HashSet<HeaderId>,
    /// Headers that were added or are targets of copies.
    fresh: HashSet<HeaderId>,
    /// The headers that the present deparser emitted, with their places in its output and their sizes, in bits.
    emitted: Vec<(HeaderId, u64, u64)>,
    /// True if the last lookup is to be counted and its action has not started.
    is_looking: bool,
}

impl<'a> Follower<'a> {
    fn new(map: &'a Map<'a>, state: State) -> Follower<'a> {
        Follower {
            map,
            counts: Counts::default(),
            state,
            waiting: VecDeque::new(),
            run: Vec::new(),
            run_loc: Loc(0),
            checksum_loc: None,
            modified: HashSet::new(),
            fresh: HashSet::new(),
            emitted: Vec::new(),
            is_looking: false,
        }
    }

    fn end(mut self) -> Counts {
        self.statement_ends();
        self.counts.modified = self.modified.difference(&self.fresh).count() as u32;
        self.counts
    }

    fn step(&mut self, event: &TraceEvent) {
        if let TraceEvent::Set { field, old, new, loc } = event {
            return self.write(*field, old, new, *loc);
        }
        self.statement_ends();
        let counts = &mut self.counts;
        match event {
            TraceEvent::Arrived { length, .. } | TraceEvent::Truncated { length, .. } => {
                self.state.frame_bits = 8 * *length as u64;
            }
            TraceEvent::Extract { header, at_bit, bits, .. } => {
                counts.parsed += 1;
                counts.parsed_bytes += bits / 8;
                self.state.set_valid(*header, true);
                self.state.places.insert(*header, *at_bit);
                self.state.cursor = at_bit + bits;
            }
            TraceEvent::Advance { bits, .. } => {
                let bits = bits.to_u64().unwrap_or(0);
                counts.parsed_bytes += bits / 8;
                self.state.cursor += bits;
            }
            TraceEvent::Branch { .. } | TraceEvent::Switch { .. } => counts.branches += 1,
            TraceEvent::Apply { table, matched, .. } => self.look_up(*table, matched),
            TraceEvent::Action { action, .. } => {
                if std::mem::take(&mut self.is_looking)
                    && let Some(lookup) = counts.lookups.last_mut()
                {
                    let program = self.map.program;
                    let action = &program.actions[action.index()];
                    lookup.action = Some(action.control_name.clone());
                    lookup.data_bits = action.params.iter().map(|param| program.width(*param)).sum();
                }
            }
            TraceEvent::Extern { function, instance, args, outs, loc, .. } => {
                self.call(function, *instance, args, *loc);
                if self.checksum_loc != Some(*loc) {
                    for (out, value) in outs {
                        self.write(*out, &BigUint::ZERO, value, *loc);
                    }
                }
            }
            TraceEvent::Emit { header, valid: true, bits, .. } => {
                let at = self.emitted.last().map_or(0, |(_, at, bits)| at + bits);
                self.emitted.push((*header, at, *bits));
            }
            TraceEvent::Deparsed { header_bytes, payload_bytes } => {
                self.deparsed(8 * *header_bytes as u64);
                self.state.frame_bits = 8 * (header_bytes + payload_bytes) as u64;
            }
            TraceEvent::Copied { to, .. } => {
                let copies = to.as_ref().map_or(1, |(_, _, ports)| ports.len());
                counts.packet_copies += copies as u32;
                self.waiting.extend(std::iter::repeat_n(self.state.clone(), copies));
            }
            _ => {}
        }
    }

    fn look_up(&mut self, id: TableId, matched: &Matched) {
        let table = &self.map.program.tables[id.index()];
        self.is_looking = !table.hidden;
        if table.hidden {
            return;
        }
        let kind = |kind| match kind {
            MatchKind::Exact => "exact",
            MatchKind::Lpm => "lpm",
            MatchKind::Ternary => "ternary",
            MatchKind::Range => "range",
            MatchKind::Optional => "optional",
        };
        self.counts.lookups.push(Lookup {
            table: table.name.clone(),
            keys: table.keys.iter().map(|key| (kind(key.kind), key.width)).collect(),
            size: table.size,
            counters: table.direct.len() as u32,
            hit: matches!(matched, Matched::Hit { .. }),
            action: None,
            data_bits: 0,
        });
    }

    fn call(&mut self, name: &str, instance: Option<InstanceId>, args: &[(BigUint, u32)], loc: Loc) {
        let instance = instance.map(|id| &self.map.program.instances[id.index()]);
        let widths = |args: &[(BigUint, u32)]| args.iter().map(|(_, width)| u64::from(*width)).sum::<u64>();
        let function: Option<Function> = name.parse().ok();
        let bits = match &function {
            Some(Function::Hash(hash)) => {
                let data = if hash.continues { args.get(1..).unwrap_or_default() } else { args };
                let bits = match hash.pieces {
                    // Before each datum stands its length.
                    true => data.iter().step_by(2).map(|(length, _)| length.to_u64().unwrap_or(0)).sum(),
                    false => widths(data),
                };
                bits + if hash.payload { self.state.frame_bits.saturating_sub(self.state.cursor) } else { 0 }
            }
            Some(Function::SendDigest | Function::LogMsg) => widths(args),
            _ => match instance.map(|instance| &instance.kind) {
                Some(InstanceKind::Register { width, .. }) => u64::from(*width),
                _ => 0,
            },
        };
        let bytes = bits.div_ceil(8);
        let is_checksum =
            matches!(&function, Some(Function::Hash(hash)) if hash.algorithm == Algorithm::Csum16);
        self.checksum_loc = is_checksum.then_some(loc);
        if is_checksum {
            self.counts.checksums += 1;
            self.counts.checksum_bytes += bytes;
        } else {
            // Whether p4jet passes the data whole or in pieces is no matter of the program.
            let whole = match function {
                Some(Function::Hash(hash)) => Function::Hash(Hash { pieces: false, ..hash }).to_string(),
                _ => name.to_string(),
            };
            self.counts.add_call(&whole, instance.map(|instance| instance.name.as_str()), bytes);
        }
    }

    /// Compares the places of the emitted headers with those of the received frame, as distances from the payload.
    fn deparsed(&mut self, output_bits: u64) {
        for (header, at, bits) in std::mem::take(&mut self.emitted) {
            self.counts.emitted += 1;
            self.counts.emitted_bytes += bits / 8;
            let before = self.state.places.get(&header).map(|place| self.state.cursor.saturating_sub(*place));
            if before.is_some_and(|before| before != output_bits.saturating_sub(at)) {
                self.counts.moved += 1;
                self.counts.moved_bytes += bits / 8;
            }
        }
        self.state.places.clear();
        self.state.cursor = 0;
    }

    /// Adds a write to the present statement. A field that it has written already is written by its next execution.
    fn write(&mut self, field: FieldId, old: &BigUint, new: &BigUint, loc: Loc) {
        if loc != self.run_loc || self.run.iter().any(|write| write.field == field) {
            self.statement_ends();
            self.run_loc = loc;
        }
        let (was_set, is_set) = (!old.is_zero(), !new.is_zero());
        self.run.push(Write { field, was_set, is_set, changes: old != new });
    }

    /// Counts what the statement that ends has done to headers.
    fn statement_ends(&mut self) {
        let mut done: Vec<(HeaderId, Done)> = Vec::new();
        for write in std::mem::take(&mut self.run) {
            let kind = self.map.program.fields[write.field.index()].kind;
            let (FieldKind::Header(header) | FieldKind::Valid(header)) = kind else { continue };
            let at = done.iter().position(|(id, _)| *id == header).unwrap_or_else(|| {
                done.push((header, Done::default()));
                done.len() - 1
            });
            match kind {
                FieldKind::Valid(_) => done[at].1.valid = Some((write.was_set, write.is_set)),
                _ => done[at].1.fields.push((write.field, write.changes)),
            }
        }
        let empty: Vec<HeaderId> = done
            .iter()
            .flat_map(|(header, _)| self.map.statements.emptied(self.run_loc, *header))
            .filter(|emptied| done.iter().all(|(header, _)| header != *emptied))
            .copied()
            .collect();
        // Headers that became invalid, and invalid ones that received a copy: a stack moves its headers by copies.
        let (mut ended, mut filled) = (0u32, 0u32);
        for (header, done) in done {
            self.header(header, &done, &mut ended, &mut filled);
        }
        for header in empty {
            ended += u32::from(self.state.valid.contains(&header));
            self.state.set_valid(header, false);
        }
        self.counts.removed += ended.saturating_sub(filled);
    }

    fn header(&mut self, header: HeaderId, done: &Done, ended: &mut u32, filled: &mut u32) {
        let program = self.map.program;
        let whole = self.map.statements.whole(self.run_loc, header);
        let was_valid = match done.valid {
            // Before the passes it may have been another.
            Some((was, _)) if !self.state.touched.contains(&header) => was,
            _ => self.state.valid.contains(&header),
        };
        let mut is_valid = done.valid.map_or(was_valid, |(_, is)| is);
        let mut source = None;
        if let Some(Whole::Assigned(sources)) = whole {
            source = self.origin(sources);
            // A pass removed the write of the validity if another one follows.
            if done.valid.is_none() {
                is_valid = sources.len() > 1 || self.state.valid.contains(&sources[0]);
            }
        }
        if is_valid != was_valid || done.valid.is_some() {
            self.state.set_valid(header, is_valid);
        }
        if !self.map.of_packet[header.index()] {
            match source {
                Some(source) => _ = self.state.origins.insert(header, source),
                None if done.valid.is_some() => _ = self.state.origins.remove(&header),
                None => {}
            }
            return;
        }
        if source.is_some_and(|source| source != header) {
            match (was_valid, is_valid) {
                (_, true) => {
                    self.counts.copied += 1;
                    self.counts.copied_bytes += u64::from(program.header_bits_max(header) / 8);
                    self.fresh.insert(header);
                    *filled += u32::from(!was_valid);
                }
                (true, false) => *ended += 1,
                (false, false) => {}
            }
            return;
        }
        match (was_valid, is_valid) {
            (false, true) => {
                self.counts.added += 1;
                self.fresh.insert(header);
            }
            (true, false) => *ended += 1,
            _ => {}
        }
        if whole == Some(&Whole::Added) || self.checksum_loc == Some(self.run_loc) || !is_valid {
            return;
        }
        // A variable that returns to the header from which it came changes only some fields.
        let written = done.fields.iter().filter(|(_, changes)| source.is_none() || *changes);
        let bits: Vec<u64> = written.map(|(field, _)| u64::from(program.width(*field))).collect();
        if !bits.is_empty() {
            self.modified.insert(header);
            self.counts.fields_written += bits.len() as u32;
            self.counts.written_bits += bits.iter().sum::<u64>();
        }
    }

    /// Returns the header of the packet whose values an assignment of one of these headers takes, if they come from one.
    fn origin(&self, sources: &[HeaderId]) -> Option<HeaderId> {
        sources.iter().find_map(|source| match self.map.of_packet[source.index()] {
            true => Some(*source),
            false => self.state.origins.get(source).copied(),
        })
    }
}
