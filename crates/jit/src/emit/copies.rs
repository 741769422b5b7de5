//! Copies of packets.

use super::values::Limbs;
use super::{Buffer, Codegen, Error, plain};
use crate::copies::{CopySite, ReplicaSite, intrinsic_bit};
use crate::graph::{Place, StatementSite};
use crate::plan::CopiedValue;
use crate::slots::Slot;
use crate::widths::limb_count;
use cranelift_codegen::ir::InstBuilder;
use p4jet_ir::{FieldId, Intrinsic, PacketCopy};

impl<'a> Codegen<'a, '_> {
    /// Passes the image of the copies to [`crate::runtime::make_copies`].
    pub(super) fn copy(&mut self, copy: &'a PacketCopy, site: StatementSite) -> Result<(), Error> {
        let Some(plan) = self.plan.copies.get(&site) else {
            return Err(crate::internal(format!("the copies of {} are not planned", site.place)));
        };
        let mut is_set = vec![false; copy.set.len()];
        for &(.., value) in &plan.image {
            if let CopiedValue::Set(n) = value {
                is_set[n] = true;
            }
        }
        let mut values: Vec<Limbs> = Vec::with_capacity(copy.set.len());
        for ((_, value), is_set) in copy.set.iter().zip(is_set) {
            values.push(if is_set { self.expr(value)? } else { Limbs::new() });
        }
        let image = self.buffer(Buffer::Image, self.plan.memory.image_bytes as usize / 8);
        let zero = self.iconst(0);
        for &(slot, offset, value) in &plan.image {
            let limbs = match value {
                CopiedValue::Set(n) => std::mem::take(&mut values[n]),
                CopiedValue::Known(known) => vec![self.iconst(known)],
                CopiedValue::Kept => self.get_kept(slot),
                CopiedValue::Zero => vec![zero; limb_count(self.graph().slot_width(slot))],
            };
            for (i, limb) in limbs.into_iter().enumerate() {
                self.b.ins().store(plain(), limb, image, offset + 8 * i as i32);
            }
        }
        let id = match &copy.replicas {
            Some(replicas) => self.saturated_index(&replicas.id)?,
            None => zero,
        };
        let site = self.copy_site(copy, &plan.intrinsics, site.place);
        self.sites.copies.push(site);
        let site = self.iconst(self.sites.copies.len() as u64 - 1);
        let cursor = if plan.keeps_cursor { self.cursor() } else { zero };
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

    fn copy_site(&self, copy: &PacketCopy, own: &[Intrinsic], place: Place) -> CopySite {
        let cell = |slot: Slot| self.plan.memory.cell(self.graph(), copy.begin, slot);
        let field_cell = |field: Option<FieldId>| cell(self.slots().field(field?));
        CopySite {
            begin: copy.begin,
            made_in: self.graph().half(place),
            frame: copy.frame,
            set: own.iter().fold(0, |set, &intrinsic| set | intrinsic_bit(intrinsic)),
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
