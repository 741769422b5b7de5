//! The begin and the end of a stage: the loop over packets, cuts, and the restored values after them.

use super::once::Once;
use super::slots::Reading;
use super::values::Limbs;
use super::{Blocks, Codegen, Current, EmitInputs, Error, Frame, Onces, Sites, fixed, plain};
use crate::analysis::liveness::At;
use crate::path_code::Site;
use crate::plan::{BatchWork, Cut, CutId, CutPlan, Entry, Home, Preparation, Reload, Restore, StagePlan};
use crate::runtime::Ctx;
use crate::slots::Slot;
use crate::widths::limb_count;
use cranelift_codegen::entity::{EntityRef, PrimaryMap, SecondaryMap};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use p4jet_ir::{FieldId, Intrinsic, PipelineHalf, Terminator};
use p4jet_packet::Packet;
use std::collections::HashMap;
use std::mem::offset_of;

/// Arrays of at most this many bytes are cleared without a loop.
const ZEROED_INLINE_BYTES_MAX: i32 = 256;

const PACKET_BYTES: i64 = size_of::<Packet>() as i64;

/// Emits what surrounds the code of one packet: the loop over the packets of the stage.
pub(super) fn prologue<'a, 'f>(
    mut b: FunctionBuilder<'f>,
    inputs: EmitInputs<'a>,
    sites: &'a mut Sites,
    stage: &'a StagePlan,
) -> Codegen<'a, 'f> {
    let EmitInputs { plan, tallies, helpers, size_max, marks_sites } = inputs;
    let number_of_stage = match stage.entry {
        Entry::Cut(cut) => cut.stage().index(),
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
    // The current packet in the first stage, which processes all packets in order.
    let packet_now = b.declare_var(types::I64);
    let data = b.declare_var(types::I64);
    let length = b.declare_var(types::I64);
    let out_offset = b.declare_var(types::I64);
    let zero = b.ins().iconst(types::I64, 0);
    b.def_var(index, zero);
    b.def_var(packet_now, packets);
    let packets_bytes = b.ins().imul_imm_u(count, PACKET_BYTES);
    let packets_end = b.ins().iadd(packets, packets_bytes);

    // The number of packets that wait for each later stage stays in registers while this stage runs.
    let counts_base = b.ins().load(types::I64, fixed(), ctx, offset_of!(Ctx, counts) as i32);
    let mut counts = PrimaryMap::new();
    for k in 0..=plan.cuts.len() {
        let var = b.declare_var(types::I64);
        if k > number_of_stage {
            let n = b.ins().load(types::I64, plain(), counts_base, 8 * k as i32);
            b.def_var(var, n);
        }
        counts.push(var);
    }
    let queue = (number_of_stage > 0).then(|| {
        let queues = b.ins().load(types::I64, plain(), ctx, offset_of!(Ctx, queues) as i32);
        b.ins().load(types::I64, plain(), queues, 8 * number_of_stage as i32)
    });
    let phv_base =
        plan.has_phv().then(|| b.ins().load(types::I64, plain(), ctx, offset_of!(Ctx, phv) as i32));
    b.ins().jump(head, &[]);

    if marks_sites {
        b.set_srcloc(Site::Stage.mark());
    }
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
    for (k, &var) in counts.values().enumerate().skip(number_of_stage + 1) {
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
    if plan.may_loop {
        b.ins().store(plain(), packet, ctx, offset_of!(Ctx, packet) as i32);
    }
    // A value that nothing changes need not be loaded if it is unused.
    let frame = if plan.frames_stay { fixed() } else { plain() };
    let data_now = b.ins().load(types::I64, frame, packet, offset_of!(Packet, data) as i32);
    let length_now = b.ins().uload32(frame, packet, offset_of!(Packet, len) as i32);
    b.def_var(data, data_now);
    b.def_var(length, length_now);
    let zero = b.ins().iconst(types::I64, 0);
    b.def_var(out_offset, zero);
    let phv = match phv_base {
        None => zero,
        Some(base) => {
            let at = b.ins().imul_imm_u(number, i64::from(plan.memory.stride));
            b.ins().iadd(base, at)
        }
    };

    let mut cg = Codegen {
        b,
        plan,
        stage,
        helpers,
        tallies,
        sites,
        frame: Frame { data, length, out_offset },
        current: Current { ctx, packet, phv, number, position: i },
        blocks: Blocks {
            places: HashMap::new(),
            work: Vec::new(),
            side_exits: Vec::new(),
            drops: HashMap::new(),
            current: None,
            finish,
            next_packet,
        },
        registers: SecondaryMap::new(),
        counts,
        once: Onces { values: HashMap::new(), entry, in_cold: false },
        buffers: HashMap::new(),
        reading: Reading::Plain,
        cursor: None,
        unplanned: None,
        entries: 0,
        size_max,
        marks_sites,
    };
    cg.declare_registers();
    cg
}

impl<'a> Codegen<'a, '_> {
    fn declare_registers(&mut self) {
        for slot in self.slots().all().filter(|slot| self.plan.homes[*slot] == Home::Registers) {
            let limbs = limb_count(self.graph().slot_width(slot));
            self.registers[slot] = (0..limbs).map(|_| self.b.declare_var(types::I64)).collect();
        }
    }

    /// Gives slots their values where the stage begins, and goes to its first place.
    pub(super) fn begin_stage(&mut self) -> Result<(), Error> {
        let stage = self.stage;
        if let Entry::Cut(_) = stage.entry {
            self.blocks.current = stage.begin;
        }
        if stage.clears_arrays {
            self.zero_arrays();
        }
        let zero = self.iconst(0);
        for &slot in &stage.zeroed {
            self.set(slot, &vec![zero; limb_count(self.graph().slot_width(slot))]);
        }
        stage.restored.iter().for_each(|(slot, restore)| self.restore(*slot, *restore));
        stage.reloads.iter().for_each(|reload| self.reload_from_frame(reload));
        match stage.entry {
            Entry::Start => {
                self.load_image_of_copies();
                if self.program().ingress.is_empty() {
                    self.load_intrinsics(PipelineHalf::Egress);
                }
            }
            Entry::Egress => self.load_image(),
            Entry::Cut(cut) => return self.resume(cut),
        }
        let block = self.target_block(stage.begin);
        self.b.ins().jump(block, &[]);
        Ok(())
    }

    fn restore(&mut self, slot: Slot, restore: Restore) {
        match restore {
            Restore::Known(value) => {
                let value = self.iconst(value);
                self.set(slot, &[value]);
            }
            Restore::Intrinsic(intrinsic, field) => self.load_intrinsic(intrinsic, field),
            Restore::Phv(offset) => {
                let limbs = self.phv_limbs(slot, offset);
                self.set(slot, &limbs);
            }
        }
    }

    /// Makes all elements 0 that indices may find.
    pub(super) fn zero_arrays(&mut self) {
        let (at, bytes) = (self.plan.memory.columns.at, self.plan.memory.columns.bytes);
        let zero = self.iconst(0);
        if bytes <= ZEROED_INLINE_BYTES_MAX {
            for behind in (0..bytes).step_by(8) {
                self.b.ins().store(plain(), zero, self.current.phv, at + behind);
            }
            return;
        }
        let begin = self.b.ins().iadd_imm_s(self.current.phv, i64::from(at));
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

    /// Sets the intrinsic fields of the begin of a half.
    pub(super) fn load_intrinsics(&mut self, begin: PipelineHalf) {
        let plan = self.plan;
        for &(intrinsic, field) in &plan.intrinsics[begin as usize] {
            self.load_intrinsic(intrinsic, field);
        }
    }

    pub(super) fn load_intrinsic(&mut self, intrinsic: Intrinsic, field: FieldId) {
        let value = match intrinsic {
            Intrinsic::IngressPort => {
                let offset = offset_of!(Packet, ingress_port) as i32;
                self.b.ins().uload32(plain(), self.current.packet, offset)
            }
            Intrinsic::PacketLength => self.b.use_var(self.frame.length),
            Intrinsic::IngressTimestamp | Intrinsic::EgressTimestamp | Intrinsic::EnqueueTimestamp => {
                self.b.ins().load(types::I64, plain(), self.current.ctx, offset_of!(Ctx, now_us) as i32)
            }
            Intrinsic::EnqueueDepth
            | Intrinsic::QueueTime
            | Intrinsic::DequeueDepth
            | Intrinsic::QueueNumber => self.iconst(0),
        };
        self.set_word(field, value);
    }

    /// Loads the inherited slots of a copy from the PHV.
    fn load_image(&mut self) {
        let stage = self.stage;
        stage.inherited.iter().for_each(|(slot, offset)| self.restore(*slot, Restore::Phv(*offset)));
    }

    /// Like [`Self::load_image`], in the stage where arriving packets begin too.
    fn load_image_of_copies(&mut self) {
        if self.plan.memory.entered[PipelineHalf::Ingress as usize].is_empty() {
            return;
        }
        let copies =
            self.b.ins().load(types::I64, fixed(), self.current.ctx, offset_of!(Ctx, of_copies) as i32);
        let load = self.b.create_block();
        let go_on = self.b.create_block();
        self.b.ins().brif(copies, load, &[], go_on, &[]);
        self.b.switch_to_block(load);
        self.load_image();
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    /// Reloads from the frame the fields that the stage uses.
    fn reload_from_frame(&mut self, reload: &'a Reload) {
        self.reading(Reading::AsIs(&reload.known), |cg| cg.reload_fields(reload));
    }

    fn reload_fields(&mut self, reload: &Reload) {
        let load = |cg: &mut Self| {
            for &(field, at) in &reload.fields {
                let base = cg.header_base(at);
                let value = cg.load_bits(base, at.bit, cg.program().width(field));
                cg.set_field(field, &value);
            }
        };
        if reload.is_valid {
            return load(self);
        }
        let valid = self.valid(reload.header);
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
        for &(field, _) in &reload.fields {
            let limbs = vec![zero; limb_count(self.program().width(field))];
            self.set_field(field, &limbs);
        }
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    /// Ends this stage for the packet: it waits for the next one, with the key or the result of its lookup.
    pub(super) fn cut(&mut self, cut: CutId, words: &[Value], selector: Value) {
        let plan = &self.plan.cuts[cut];
        for (i, &limb) in words.iter().chain(plan.has_selector.then_some(&selector)).enumerate() {
            let offset = self.plan.memory.key + 8 * i as i32;
            self.b.ins().store(plain(), limb, self.current.phv, offset);
        }
        for &(slot, offset) in &plan.spills {
            for (i, limb) in self.get(slot).into_iter().enumerate() {
                self.b.ins().store(plain(), limb, self.current.phv, offset + 8 * i as i32);
            }
        }
        if let Preparation::Prefetch(memory) = plan.cut.preparation {
            self.prefetch(memory, words);
        }
        let next = cut.stage();
        let queue = self.once(Once::Indirect(offset_of!(Ctx, queues), 8 * next.as_u32() as i32));
        let count = self.b.use_var(self.counts[next]);
        let at = self.b.ins().ishl_imm_u(count, 2);
        let at = self.b.ins().iadd(queue, at);
        let number = self.b.ins().ireduce(types::I32, self.current.number);
        self.b.ins().store(plain(), number, at, 0);
        let count = self.b.ins().iadd_imm_u(count, 1);
        self.b.def_var(self.counts[next], count);
        self.b.ins().jump(self.blocks.next_packet, &[]);
    }

    /// Continues at a cut.
    fn resume(&mut self, cut: CutId) -> Result<(), Error> {
        let CutPlan { cut: Cut { place, at, preparation, .. }, has_selector, .. } = self.plan.cuts[cut];
        self.mark(Site::Place(place));
        if at == At::Place {
            let block = self.target_block(Some(place));
            self.b.ins().jump(block, &[]);
            return Ok(());
        }
        if let Some(plan) = &self.plan.nodes.of_place[place] {
            self.reading = Reading::Planned(&plan.reads);
        }
        let Terminator::Apply { table, keys, .. } = &self.graph().node(place).terminator else {
            unreachable!("a table is applied there");
        };
        let limbs = match at {
            At::Lookup => limb_count(keys.iter().map(|k| k.width(self.program())).sum()),
            _ => 1,
        };
        let mut load = |i: usize| {
            self.b.ins().load(types::I64, plain(), self.current.phv, self.plan.memory.key + 8 * i as i32)
        };
        let selector = has_selector.then(|| load(limbs));
        if at == At::Action {
            let found = load(0);
            let selector = selector.unwrap_or_else(|| self.iconst(0));
            let is_selected = matches!(preparation, Preparation::Batch(BatchWork::Select(_)));
            let selected = is_selected.then(|| {
                let selected = self.once(Once::Ctx(offset_of!(Ctx, selected)));
                let at = self.b.ins().ishl_imm_u(self.current.position, 3);
                let at = self.b.ins().iadd(selected, at);
                self.b.ins().load(types::I64, plain(), at, 0)
            });
            return self.act(place, *table, found, selector, selected);
        }
        let found = if matches!(preparation, Preparation::Batch(BatchWork::Lookup(_))) {
            // The engine has looked up the keys of all packets.
            let rows = self.once(Once::Ctx(offset_of!(Ctx, rows)));
            let at = self.b.ins().ishl_imm_u(self.current.position, 2);
            let at = self.b.ins().iadd(rows, at);
            self.b.ins().uload32(plain(), at, 0)
        } else {
            let key: Limbs = (0..limbs).map(load).collect();
            self.lookup_at(place, *table, &key)
        };
        let selector = selector.unwrap_or_else(|| self.iconst(0));
        self.apply(place, *table, found, selector)
    }
}
