//! Copies of packets.

use super::slots::Reading;
use super::values::Limbs;
use super::{Codegen, Error, plain};
use crate::analysis::effects::copy_sets;
use crate::analysis::reads::Statement;
use crate::copies::{CopySite, ReplicaSite, intrinsic_bit};
use crate::graph::Place;
use crate::slots::{Slot, SlotKind};
use crate::widths::limb_count;
use cranelift_codegen::ir::InstBuilder;
use p4jet_ir::{Begin, CopyFrame, FieldId, Keep, PacketCopy};
use std::collections::HashMap;

impl<'a> Codegen<'a, '_> {
    /// Hands what the copies bring along to [`crate::copies::make_copies`].
    pub(super) fn copy(
        &mut self,
        copy: &'a PacketCopy,
        plan: &'a Statement,
        place: Place,
    ) -> Result<(), Error> {
        let memory = &self.plan.memory;
        let keeps_headers = self.graph().keeps_headers(place, copy);
        let at_cursor = copy.begin == Begin::Egress && copy.frame == CopyFrame::Current;
        let entered = &memory.entered[copy.begin as usize];
        let mut values: HashMap<Slot, Limbs> = HashMap::new();
        for (field, value) in &copy.set {
            let slot = self.slots().field(*field);
            if entered.binary_search(&slot).is_ok() {
                values.insert(slot, self.expr(value)?);
            }
        }
        let slots = self.slots();
        let kept = |slot: Slot| match (slots.kind(slot), &copy.keep) {
            (SlotKind::Field(_), Keep::All) => true,
            (SlotKind::Field(field), Keep::Fields(fields)) => fields.contains(&field),
            (SlotKind::Cursor, _) => at_cursor,
            _ => keeps_headers,
        };
        let image = self.buffer(6, memory.image_bytes as usize / 8);
        let zero = self.iconst(0);
        // What a copy inherits is live as it is, be it in the frame or not.
        self.reading(Reading::AsIs(&plan.known), |cg| {
            for &slot in entered {
                let limbs = match values.remove(&slot) {
                    Some(limbs) => limbs,
                    None if kept(slot) => cg.get(slot),
                    None => vec![zero; limb_count(cg.graph().slot_width(slot))],
                };
                for (i, limb) in limbs.into_iter().enumerate() {
                    cg.b.ins().store(plain(), limb, image, memory.phv[&slot] + 8 * i as i32);
                }
            }
        });
        let id = match &copy.replicas {
            Some(replicas) => self.saturated_index(&replicas.id)?,
            None => zero,
        };
        let site = self.copy_site(copy, place);
        self.sites.copies.push(site);
        let site = self.iconst(self.sites.copies.len() as u64 - 1);
        let cursor = if at_cursor { self.cursor() } else { zero };
        let args = [self.current.ctx, site, image, self.current.packet, cursor, id];
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

    pub(super) fn copy_site(&self, copy: &PacketCopy, place: Place) -> CopySite {
        let cell = |slot: Slot| self.plan.memory.cell(self.graph(), copy.begin, slot);
        let field_cell = |field: Option<FieldId>| cell(self.slots().field(field?));
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
            made_in: self.graph().half(place),
            frame: copy.frame,
            set,
            cursor: cell(self.slots().cursor()),
            replicas: copy.replicas.as_ref().map(|r| ReplicaSite {
                list: r.list,
                port: field_cell(r.port),
                instance: field_cell(r.instance),
                class_of_service: field_cell(r.class_of_service),
                queue_by_class: r.class_of_service.is_some(),
            }),
        }
    }
}
