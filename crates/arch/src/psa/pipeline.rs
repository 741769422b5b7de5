//! The order of the blocks, and the work of the packet replication and queueing engines between them.

use p4jet_analysis::typed::Type;
use p4jet_ir::{
    BinaryOp, BlockKind, CopyFrame, Expr, FieldId, Intrinsic, Keep, Op, PacketCopy, PipelineHalf, Queue,
    ReplicaList, Replicas, Terminator,
};
use p4jet_lower::{BlockArg, Lowered, Lowerer, ObjectId, Role, Storage, build};

use super::PORT_RECIRCULATE;

/// Members of `PSA_PacketPath_t`. NORMAL is 0, the initial value for a packet from a port.
mod path {
    pub(super) const NORMAL_UNICAST: u32 = 1;
    pub(super) const NORMAL_MULTICAST: u32 = 2;
    pub(super) const CLONE_I2E: u32 = 3;
    pub(super) const CLONE_E2E: u32 = 4;
    pub(super) const RESUBMIT: u32 = 5;
    pub(super) const RECIRCULATE: u32 = 6;
}

/// A struct that the target defines, with its type.
struct Standard {
    ty: Type,
    storage: Storage,
}

impl Standard {
    fn new(cx: &mut Lowerer<'_>, ty: &Type, name: &str) -> Lowered<Standard> {
        let span = cx.main_span();
        let storage = cx.storage(ty, name, Role::Metadata, span)?;
        Ok(Standard { ty: ty.clone(), storage })
    }

    fn arg(&self) -> BlockArg {
        BlockArg::Storage(self.storage.clone())
    }

    fn field(&self, cx: &mut Lowerer<'_>, name: &str) -> Lowered<FieldId> {
        match cx.scalar_member(&self.ty, &self.storage, name) {
            Some(field) => Ok(field),
            None => {
                let span = cx.main_span();
                let what = format!("a {} without `{name}`", cx.type_name(&self.ty));
                cx.unsupported(span, what)
            }
        }
    }

    /// Returns an argument of another type, whose members are also members of this one.
    fn arg_as(&self, cx: &mut Lowerer<'_>, ty: &Type) -> Lowered<BlockArg> {
        let names: Vec<String> = cx.fields_of(ty).into_iter().map(|(name, _)| name).collect();
        let mut parts = Vec::new();
        for name in names {
            parts.push(Storage::Scalar(self.field(cx, &name)?));
        }
        Ok(BlockArg::Storage(Storage::Struct(parts.into())))
    }
}

pub(super) fn build(cx: &mut Lowerer<'_>, main: ObjectId) -> Lowered<()> {
    let span = cx.main_span();
    let [ingress, _, egress, _] = cx.package_objects(main)?[..] else {
        return cx.unsupported(span, "a PSA_Switch that does not have four parts");
    };
    let (ingress, egress) = (cx.package_objects(ingress)?, cx.package_objects(egress)?);
    let ([ip, ig, id], [ep, eg, ed]) = (&ingress[..], &egress[..]) else {
        return cx.unsupported(span, "a PSA pipeline that does not have three blocks");
    };
    let [ip, ig, id, ep, eg, ed] = [*ip, *ig, *id, *ep, *eg, *ed];
    let all_params = [ip, ig, id, ep, eg, ed].map(|block| cx.block_params(block));
    let [ip_params, ig_params, id_params, ep_params, eg_params, ed_params] = &all_params;
    let ([_, _, _, ip_in, _, recirculate], [hdr, meta, ig_in, ig_out]) = (&ip_params[..], &ig_params[..])
    else {
        return cx.unsupported(span, "a PSA ingress with other parameters than psa.p4 declares");
    };
    let ([_, clone_i2e, resubmit, normal, ..], [_, clone_e2e, ..]) = (&id_params[..], &ed_params[..]) else {
        return cx.unsupported(span, "a PSA deparser with other parameters than psa.p4 declares");
    };
    let ([_, _, _, ep_in, ..], [eg_hdr, eg_meta, eg_in, eg_out]) = (&ep_params[..], &eg_params[..]) else {
        return cx.unsupported(span, "a PSA egress with other parameters than psa.p4 declares");
    };
    let Some((_, edstd_ty)) = ed_params.last() else {
        return cx.unsupported(span, "a PSA deparser without parameters");
    };

    let mut user = |name: &str, ty: &Type| cx.storage(ty, name, Role::Metadata, span);
    let hdr = user(&hdr.0, &hdr.1)?;
    let meta = user(&meta.0, &meta.1)?;
    let eg_hdr = user(&format!("egress_{}", eg_hdr.0), &eg_hdr.1)?;
    let eg_meta = user(&format!("egress_{}", eg_meta.0), &eg_meta.1)?;
    let clone_i2e = user("clone_i2e_meta", &clone_i2e.1)?;
    let resubmit = user("resubmit_meta", &resubmit.1)?;
    let normal = user("normal_meta", &normal.1)?;
    let clone_e2e = user("clone_e2e_meta", &clone_e2e.1)?;
    let recirculate = user("recirculate_meta", &recirculate.1)?;
    let ig_in = Standard::new(cx, &ig_in.1, "psa_ingress_input_metadata")?;
    let ig_out = Standard::new(cx, &ig_out.1, "psa_ingress_output_metadata")?;
    let eg_in = Standard::new(cx, &eg_in.1, "psa_egress_input_metadata")?;
    let eg_out = Standard::new(cx, &eg_out.1, "psa_egress_output_metadata")?;
    let (ip_in, ep_in) = (ig_in.arg_as(cx, &ip_in.1)?, eg_in.arg_as(cx, &ep_in.1)?);
    let edstd = eg_in.arg_as(cx, edstd_ty)?;

    let ingress_port = ig_in.field(cx, "ingress_port")?;
    let ingress_path = ig_in.field(cx, "packet_path")?;
    let egress_port = eg_in.field(cx, "egress_port")?;
    let egress_path = eg_in.field(cx, "packet_path")?;
    let instance = eg_in.field(cx, "instance")?;
    let class_of_service = eg_in.field(cx, "class_of_service")?;
    let ingress_error = ig_in.field(cx, "parser_error")?;
    let egress_error = eg_in.field(cx, "parser_error")?;
    cx.ir.intrinsics = vec![
        (Intrinsic::IngressPort, ingress_port),
        (Intrinsic::IngressTimestamp, ig_in.field(cx, "ingress_timestamp")?),
        (Intrinsic::EgressTimestamp, eg_in.field(cx, "egress_timestamp")?),
    ];

    let arg = |storage: &Storage| BlockArg::Storage(storage.clone());
    let args = [BlockArg::PacketIn, arg(&hdr), arg(&meta), ip_in, arg(&resubmit), arg(&recirculate)];
    let ip = cx.block(ip, BlockKind::Parser, &args, Some(ingress_error));
    let args = [arg(&hdr), arg(&meta), ig_in.arg(), ig_out.arg()];
    let ig = cx.block(ig, BlockKind::Control, &args, None);
    let args = [
        BlockArg::PacketOut,
        arg(&clone_i2e),
        arg(&resubmit),
        arg(&normal),
        arg(&hdr),
        arg(&meta),
        ig_out.arg(),
    ];
    let id = cx.block(id, BlockKind::Deparser, &args, None);
    let args = [
        BlockArg::PacketIn,
        arg(&eg_hdr),
        arg(&eg_meta),
        ep_in,
        arg(&normal),
        arg(&clone_i2e),
        arg(&clone_e2e),
    ];
    let ep = cx.block(ep, BlockKind::Parser, &args, Some(egress_error));
    let args = [arg(&eg_hdr), arg(&eg_meta), eg_in.arg(), eg_out.arg()];
    let eg = cx.block(eg, BlockKind::Control, &args, None);
    let args = [
        BlockArg::PacketOut,
        arg(&clone_e2e),
        arg(&recirculate),
        arg(&eg_hdr),
        arg(&eg_meta),
        eg_out.arg(),
        edstd,
    ];
    let ed = cx.block(ed, BlockKind::Deparser, &args, None);
    let (ip, ig, id, ep, eg, ed) = (ip?, ig?, id?, ep?, eg?, ed?);

    let (clone, drop) = (ig_out.field(cx, "clone")?, ig_out.field(cx, "drop")?);
    let session = ig_out.field(cx, "clone_session_id")?;
    let resubmits = ig_out.field(cx, "resubmit")?;
    let group = ig_out.field(cx, "multicast_group")?;
    let wanted_port = ig_out.field(cx, "egress_port")?;
    let wanted_class = ig_out.field(cx, "class_of_service")?;
    let (egress_clone, egress_drop) = (eg_out.field(cx, "clone")?, eg_out.field(cx, "drop")?);
    let egress_session = eg_out.field(cx, "clone_session_id")?;

    let sessions = |id: FieldId| Replicas {
        list: ReplicaList::Session,
        id: Expr::Field(id),
        port: Some(egress_port),
        instance: Some(instance),
        class_of_service: Some(class_of_service),
    };
    let (i2e, e2e) = (sessions(session), sessions(egress_session));

    let start = cx.glue("ingress_defaults", |cx| {
        cx.set(drop, build::truth(true));
        Ok(())
    })?;
    let before_deparser = cx.glue("ingress_drop", |cx| {
        let gone = build::and(Expr::Field(drop), build::not(Expr::Field(clone)));
        cx.drop_when(gone, INGRESS_DROP);
        clear(cx, &resubmit);
        Ok(())
    })?;
    let replication = cx.glue("packet_replication", |cx| {
        cx.when(Expr::Field(clone), |cx| {
            let set = vec![(egress_path, number(cx, egress_path, path::CLONE_I2E))];
            let copy = copy(PipelineHalf::Egress, CopyFrame::Arrived, &clone_i2e, set, Some(i2e));
            enqueue(cx, copy, None, None);
            Ok(())
        })?;
        cx.drop_when(Expr::Field(drop), INGRESS_DROP);
        cx.when(Expr::Field(resubmits), |cx| {
            let kind = number(cx, ingress_path, path::RESUBMIT);
            let set = vec![(ingress_path, kind), (ingress_port, Expr::Field(ingress_port))];
            cx.emit(Op::Copy(copy(PipelineHalf::Ingress, CopyFrame::Arrived, &resubmit, set, None)));
            cx.terminate(Terminator::Done);
            Ok(())
        })?;
        let none = build::zero(cx.ir.width(group));
        cx.when(build::binary(BinaryOp::Ne, Expr::Field(group), none), |cx| {
            let kind = number(cx, egress_path, path::NORMAL_MULTICAST);
            let set = vec![(egress_path, kind), (class_of_service, Expr::Field(wanted_class))];
            let replicas = Replicas {
                list: ReplicaList::Group,
                id: Expr::Field(group),
                port: Some(egress_port),
                instance: Some(instance),
                class_of_service: None,
            };
            let copy = copy(PipelineHalf::Egress, CopyFrame::Current, &normal, set, Some(replicas));
            enqueue(cx, copy, None, Some(wanted_class));
            cx.terminate(Terminator::Done);
            Ok(())
        })?;
        let set = vec![
            (egress_port, Expr::Field(wanted_port)),
            (class_of_service, Expr::Field(wanted_class)),
            (egress_path, number(cx, egress_path, path::NORMAL_UNICAST)),
        ];
        match cx.queued {
            true => {
                let copy = copy(PipelineHalf::Egress, CopyFrame::Current, &normal, set, None);
                enqueue(cx, copy, Some(wanted_port), Some(wanted_class));
                cx.terminate(Terminator::Done);
            }
            false => set.into_iter().for_each(|(field, value)| cx.set(field, value)),
        }
        Ok(())
    })?;
    let before_egress_deparser = cx.glue("egress_metadata", |cx| {
        clear(cx, &clone_e2e);
        clear(cx, &recirculate);
        Ok(())
    })?;
    let queueing = cx.glue("egress_end", |cx| {
        cx.when(Expr::Field(egress_clone), |cx| {
            let set = vec![(egress_path, number(cx, egress_path, path::CLONE_E2E))];
            let copy = copy(PipelineHalf::Egress, CopyFrame::Current, &clone_e2e, set, Some(e2e));
            enqueue(cx, copy, None, None);
            Ok(())
        })?;
        cx.drop_when(Expr::Field(egress_drop), "egress asked to drop (psa_egress_output_metadata.drop)");
        let port = number(cx, egress_port, PORT_RECIRCULATE);
        cx.when(build::eq(Expr::Field(egress_port), port.clone()), |cx| {
            let kind = number(cx, ingress_path, path::RECIRCULATE);
            let set = vec![(ingress_path, kind), (ingress_port, number(cx, ingress_port, PORT_RECIRCULATE))];
            cx.emit(Op::Copy(copy(PipelineHalf::Ingress, CopyFrame::Current, &recirculate, set, None)));
            cx.terminate(Terminator::Done);
            Ok(())
        })
    })?;
    cx.ir.ingress = vec![start, ip, ig, before_deparser, id, replication];
    cx.ir.egress = vec![ep, eg, before_egress_deparser, ed, queueing];
    cx.ir.egress_port = Some(egress_port);
    Ok(())
}

const INGRESS_DROP: &str = "ingress did not ask to send (psa_ingress_output_metadata.drop)";

fn number(cx: &Lowerer<'_>, field: FieldId, value: u32) -> Expr {
    Expr::constant(value, cx.ir.width(field))
}

/// Clears an `out` parameter for metadata; values that the packet brought are lost.
fn clear(cx: &mut Lowerer<'_>, storage: &Storage) {
    for field in storage.leaves() {
        cx.set(field, build::zero(cx.ir.width(field)));
    }
}

/// Creates a copy that keeps only metadata set for it.
fn copy(
    begin: PipelineHalf,
    frame: CopyFrame,
    metadata: &Storage,
    set: Vec<(FieldId, Expr)>,
    replicas: Option<Replicas>,
) -> Box<PacketCopy> {
    Box::new(PacketCopy { begin, frame, keep: Keep::Fields(metadata.leaves()), set, replicas, queue: None })
}

/// Creates a copy that starts with egress. With output queues, it waits in one: replicas have their own ports, and those
/// of a session also its class of service.
fn enqueue(cx: &mut Lowerer<'_>, mut copy: Box<PacketCopy>, port: Option<FieldId>, class: Option<FieldId>) {
    let value = |field: Option<FieldId>| field.map_or_else(|| build::zero(1), Expr::Field);
    copy.queue = cx.queued.then(|| Queue { port: value(port), number: value(class) });
    cx.emit(Op::Copy(copy));
}
