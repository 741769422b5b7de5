//! The traffic manager: what simple_switch does between the program's blocks (targets/simple_switch/simple_switch.cpp).
//!
//! It adds only what the program may need: a program that never clones has no code for cloning.

use p4jet_ir::{
    BinaryOp, BlockId, CopyFrame, Expr, FieldId, FieldKind, Keep, Op, PacketCopy, PipelineHalf, Queue,
    ReplicaList, Replicas, Terminator,
};
use p4jet_lower::{Lowered, Lowerer, build};

use super::DROP_PORT;
use super::memory::memory;
use super::standard::Standard;
use crate::writes::Writes;

/// Values of `instance_type`.
mod instance_type {
    pub(super) const NORMAL: u32 = 0;
    pub(super) const INGRESS_CLONE: u32 = 1;
    pub(super) const EGRESS_CLONE: u32 = 2;
    pub(super) const RECIRCULATED: u32 = 4;
    pub(super) const REPLICATED: u32 = 5;
    pub(super) const RESUBMITTED: u32 = 6;
}

/// The properties of the program that the glue needs.
pub(super) struct Manager {
    pub(super) standard: Standard,
    /// All fields of the user's and the standard metadata.
    pub(super) metadata: Vec<FieldId>,
    /// All fields and validity bits of the headers.
    pub(super) headers: Vec<FieldId>,
    /// The port by which a packet leaves.
    pub(super) port: FieldId,
    /// The fields written by the parser, by all ingress blocks, and by those of egress.
    pub(super) parser: Writes,
    pub(super) ingress: Writes,
    pub(super) egress: Writes,
}

impl Manager {
    /// An ingress clone is parsed again and then starts egress, with fresh metadata except for the preserved fields. If
    /// the parser writes a preserved field, a hidden field keeps its value until the parser is done.
    pub(super) fn after_parser(&self, cx: &mut Lowerer<'_>) -> Lowered<Option<BlockId>> {
        let Some(request) = memory(cx).clone.filter(|r| self.ingress.has(r.list)) else { return Ok(None) };
        let numbers = self.numbers(cx, &self.ingress, request.list);
        let preserved: Vec<FieldId> = numbers.iter().flat_map(|n| memory(cx).lists[n - 1].clone()).collect();
        let is_clone = cx.field(IS_CLONE, 1, FieldKind::Temporary);
        let intrinsics: Vec<FieldId> = cx.ir.intrinsics.iter().map(|(_, f)| *f).collect();
        let arrives = |f: &FieldId| {
            intrinsics.contains(f)
                && Some(*f) != self.standard.packet_length
                && Some(*f) != self.standard.egress_timestamp
        };
        let mut changed: Vec<FieldId> =
            self.metadata.iter().copied().filter(|f| self.parser.has(*f) || arrives(f)).collect();
        changed.extend(preserved.iter().filter(|f| self.parser.has(**f)));
        changed.sort_unstable();
        changed.dedup();
        changed.retain(|f| *f != self.port && Some(*f) != self.standard.egress_rid);
        let glue = cx.glue("clone_parsed", |cx| {
            cx.when(Expr::Field(is_clone), |cx| {
                for field in &changed {
                    let value = match preserved.contains(field) {
                        true => Expr::Field(self.kept(cx, *field)),
                        false => build::zero(cx.ir.width(*field)),
                    };
                    cx.set(*field, value);
                }
                self.set_type(cx, instance_type::INGRESS_CLONE);
                match cx.queued {
                    true => self.enqueue(cx, Vec::new()),
                    false => cx.terminate(Terminator::Egress),
                }
                Ok(())
            })
        })?;
        Ok(Some(glue))
    }

    /// Clone, resubmit, multicast, drop, unicast, in this order.
    pub(super) fn after_ingress(&self, cx: &mut Lowerer<'_>) -> Lowered<BlockId> {
        cx.glue("traffic_manager", |cx| {
            self.clone_ingress(cx)?;
            self.resubmit(cx)?;
            self.multicast(cx)?;
            self.drop_at_drop_port(cx);
            if let Some(field) = self.standard.instance_type
                && (self.ingress.has_nonzero(field)
                    || memory(cx).resubmit.is_some()
                    || memory(cx).recirculate.is_some())
            {
                self.set_type(cx, instance_type::NORMAL);
            }
            cx.set(self.port, Expr::Field(self.standard.egress_spec));
            let spec = self.egress_spec_at_egress(cx);
            match cx.queued {
                true => self.enqueue(cx, vec![(self.standard.egress_spec, spec)]),
                false => cx.set(self.standard.egress_spec, spec),
            }
            Ok(())
        })
    }

    /// Puts the packet, with all its state, into the queue of its port.
    fn enqueue(&self, cx: &mut Lowerer<'_>, set: Vec<(FieldId, Expr)>) {
        cx.emit(Op::Copy(Box::new(PacketCopy {
            begin: PipelineHalf::Egress,
            frame: CopyFrame::Current,
            keep: Keep::All,
            set,
            replicas: None,
            queue: self.queue(cx, Expr::Field(self.port)),
        })));
        cx.terminate(Terminator::Done);
    }

    /// Returns the queue of a port for the packet's priority, if there are queues.
    fn queue(&self, cx: &Lowerer<'_>, port: Expr) -> Option<Queue> {
        let number = self.standard.priority.map_or_else(|| build::zero(1), Expr::Field);
        cx.queued.then_some(Queue { port, number })
    }

    /// Sets the metadata of each packet that starts egress.
    pub(super) fn before_egress(&self, cx: &mut Lowerer<'_>) -> Lowered<Option<BlockId>> {
        if self.port == self.standard.egress_port {
            return Ok(None);
        }
        let glue = cx.glue("egress_start", |cx| {
            cx.set(self.standard.egress_port, Expr::Field(self.port));
            Ok(())
        })?;
        Ok(Some(glue))
    }

    /// Clone, then drop.
    pub(super) fn after_egress(&self, cx: &mut Lowerer<'_>) -> Lowered<BlockId> {
        cx.glue("egress_drop", |cx| {
            if let Some(request) = memory(cx).clone.filter(|r| self.egress.has(r.list)) {
                for number in self.numbers(cx, &self.egress, request.list) {
                    self.when_list(cx, request.list, number, |cx| {
                        let mut keep = self.headers.clone();
                        keep.extend(&memory(cx).lists[number - 1]);
                        keep.sort_unstable();
                        keep.dedup();
                        let mut set = self.egress_sets(cx, instance_type::EGRESS_CLONE);
                        if let Some(length) = self.standard.packet_length {
                            set.push((length, Expr::Field(length)));
                        }
                        let id = Expr::Field(request.session);
                        let priority = self.standard.priority.filter(|f| keep.contains(f));
                        let number = priority.map_or_else(|| build::zero(1), Expr::Field);
                        let queue = cx.queued.then(|| Queue { port: build::zero(1), number });
                        cx.emit(Op::Copy(Box::new(PacketCopy {
                            begin: PipelineHalf::Egress,
                            frame: CopyFrame::Current,
                            keep: Keep::Fields(keep),
                            set,
                            replicas: Some(self.replicas(ReplicaList::Session, id)),
                            queue,
                        })));
                        Ok(())
                    })?;
                }
            }
            self.drop_at_drop_port(cx);
            Ok(())
        })
    }

    /// Truncate, then recirculate.
    pub(super) fn after_deparser(&self, cx: &mut Lowerer<'_>) -> Lowered<Option<BlockId>> {
        let (truncate, recirculate) = (memory(cx).truncate, memory(cx).recirculate);
        if truncate.is_none() && recirculate.is_none() {
            return Ok(None);
        }
        let glue = cx.glue("departure", |cx| {
            if let Some(request) = truncate {
                cx.when(Expr::Field(request.wanted), |cx| {
                    cx.emit(Op::Truncate { bytes: Expr::Field(request.bytes) });
                    Ok(())
                })?;
            }
            if let Some(list) = recirculate {
                for number in 1..=memory(cx).lists.len() {
                    if !self.ingress.has_constant(list, number) && !self.egress.has_constant(list, number) {
                        continue;
                    }
                    self.when_list(cx, list, number, |cx| {
                        self.back_to_ingress(cx, CopyFrame::Current, number, instance_type::RECIRCULATED);
                        Ok(())
                    })?;
                }
            }
            Ok(())
        })?;
        Ok(Some(glue))
    }

    fn clone_ingress(&self, cx: &mut Lowerer<'_>) -> Lowered<()> {
        let Some(request) = memory(cx).clone.filter(|r| self.ingress.has(r.list)) else { return Ok(()) };
        let is_clone = cx.field_named(IS_CLONE);
        for number in self.numbers(cx, &self.ingress, request.list) {
            self.when_list(cx, request.list, number, |cx| {
                let (mut keep, mut set) = (Vec::new(), Vec::new());
                set.extend(is_clone.map(|f| (f, build::truth(true))));
                for field in memory(cx).lists[number - 1].clone() {
                    let arrives = cx.ir.intrinsics.iter().any(|(_, f)| *f == field);
                    match self.parser.has(field) || arrives {
                        true => set.push((self.kept(cx, field), Expr::Field(field))),
                        false => keep.push(field),
                    }
                }
                let spec = self.egress_spec_at_egress(cx);
                if spec != build::zero(cx.width(&spec)) {
                    set.push((self.standard.egress_spec, spec));
                }
                keep.retain(|f| *f != self.port && set.iter().all(|(s, _)| s != f));
                let id = Expr::Field(request.session);
                cx.emit(Op::Copy(Box::new(PacketCopy {
                    begin: PipelineHalf::Ingress,
                    frame: CopyFrame::Arrived,
                    keep: Keep::Fields(keep),
                    set,
                    replicas: Some(self.replicas(ReplicaList::Session, id)),
                    queue: None,
                })));
                Ok(())
            })?;
        }
        // Only requests made in egress are handled later.
        if self.egress.has(request.list) {
            cx.set(request.list, build::zero(cx.ir.width(request.list)));
        }
        Ok(())
    }

    fn resubmit(&self, cx: &mut Lowerer<'_>) -> Lowered<()> {
        let Some(list) = memory(cx).resubmit else { return Ok(()) };
        for number in self.numbers(cx, &self.ingress, list) {
            self.when_list(cx, list, number, |cx| {
                self.back_to_ingress(cx, CopyFrame::Arrived, number, instance_type::RESUBMITTED);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn multicast(&self, cx: &mut Lowerer<'_>) -> Lowered<()> {
        let Some(group) = self.standard.mcast_grp else { return Ok(()) };
        let kept = memory(cx).lists.iter().any(|list| list.contains(&group));
        if !self.ingress.has_nonzero(group) && !kept {
            return Ok(());
        }
        let none = build::zero(cx.ir.width(group));
        let wanted = build::binary(BinaryOp::Ne, Expr::Field(group), none);
        cx.when(wanted, |cx| {
            let mut set = self.egress_sets(cx, instance_type::REPLICATED);
            // bmv2 discards all requests: clone_with_phv, then clear_all.
            for request in [memory(cx).recirculate, memory(cx).clone.map(|r| r.list)].into_iter().flatten() {
                if self.ingress.has(request) {
                    set.push((request, build::zero(cx.ir.width(request))));
                }
            }
            cx.emit(Op::Copy(Box::new(PacketCopy {
                begin: PipelineHalf::Egress,
                frame: CopyFrame::Current,
                keep: Keep::All,
                set,
                replicas: Some(self.replicas(ReplicaList::Group, Expr::Field(group))),
                queue: self.queue(cx, build::zero(1)),
            })));
            cx.terminate(Terminator::Done);
            Ok(())
        })
    }

    /// Sends the packet back to the parser, with fresh metadata except for the preserved fields: as in bmv2, ingress port
    /// and arrival time are not set again if they are preserved.
    fn back_to_ingress(&self, cx: &mut Lowerer<'_>, frame: CopyFrame, list: usize, kind: u32) {
        let mut keep = memory(cx).lists[list - 1].clone();
        let mut set = Vec::new();
        for field in [self.standard.ingress_port, self.standard.ingress_timestamp].into_iter().flatten() {
            let value = match keep.contains(&field) {
                true => Expr::Field(field),
                false => build::zero(cx.ir.width(field)),
            };
            set.push((field, value));
        }
        if let Some(field) = self.standard.instance_type {
            set.push((field, Expr::constant(kind, cx.ir.width(field))));
        }
        keep.retain(|f| set.iter().all(|(s, _)| s != f));
        cx.emit(Op::Copy(Box::new(PacketCopy {
            begin: PipelineHalf::Ingress,
            frame,
            keep: Keep::Fields(keep),
            set,
            replicas: None,
            queue: None,
        })));
        cx.terminate(Terminator::Done);
    }

    /// Returns the fields that are set for a copy that starts in egress.
    fn egress_sets(&self, cx: &mut Lowerer<'_>, kind: u32) -> Vec<(FieldId, Expr)> {
        let spec = self.egress_spec_at_egress(cx);
        let mut set = vec![(self.standard.egress_spec, spec)];
        if let Some(field) = self.standard.instance_type {
            set.push((field, Expr::constant(kind, cx.ir.width(field))));
        }
        set
    }

    fn replicas(&self, list: ReplicaList, id: Expr) -> Replicas {
        Replicas {
            list,
            id,
            port: Some(self.port),
            instance: self.standard.egress_rid,
            class_of_service: None,
        }
    }

    /// simple_switch sets egress_spec to drop port + 1, "a value different from drop_port": 512, which is 0 in a 9-bit
    /// field. That is what egress reads.
    fn egress_spec_at_egress(&self, cx: &Lowerer<'_>) -> Expr {
        let width = cx.ir.width(self.standard.egress_spec);
        Expr::constant((DROP_PORT + 1) & ((1 << width.min(31)) - 1), width)
    }

    fn drop_at_drop_port(&self, cx: &mut Lowerer<'_>) {
        let width = cx.ir.width(self.standard.egress_spec);
        let drop = build::eq(Expr::Field(self.standard.egress_spec), Expr::constant(DROP_PORT, width));
        cx.drop_when(drop, "egress_spec is the drop port (mark_to_drop)");
    }

    fn set_type(&self, cx: &mut Lowerer<'_>, kind: u32) {
        if let Some(field) = self.standard.instance_type {
            cx.set(field, Expr::constant(kind, cx.ir.width(field)));
        }
    }

    /// Returns the numbers of the lists that blocks request.
    fn numbers(&self, cx: &mut Lowerer<'_>, writes: &Writes, list: FieldId) -> Vec<usize> {
        (1..=memory(cx).lists.len()).filter(|n| writes.has_constant(list, *n)).collect()
    }

    fn when_list(
        &self,
        cx: &mut Lowerer<'_>,
        list: FieldId,
        number: usize,
        then: impl FnOnce(&mut Lowerer<'_>) -> Lowered<()>,
    ) -> Lowered<()> {
        let asked = build::eq(Expr::Field(list), Expr::constant(number, cx.ir.width(list)));
        cx.when(asked, then)
    }

    /// Returns the hidden field that keeps a preserved one while a clone is parsed.
    fn kept(&self, cx: &mut Lowerer<'_>, field: FieldId) -> FieldId {
        let name = format!("{}.$kept$", cx.ir.fields[field.index()].name);
        match cx.field_named(&name) {
            Some(kept) => kept,
            None => cx.field(&name, cx.ir.width(field), FieldKind::Temporary),
        }
    }
}

const IS_CLONE: &str = "$clone.parsing$";
