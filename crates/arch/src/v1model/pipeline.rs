//! The order of the blocks, and what the target does between them.

use p4jet_ir as ir;
use p4jet_ir::{BlockKind, Expr, FieldId, FieldKind, Intrinsic, Op};
use p4jet_lower::{BlockArg, Lowered, Lowerer, ObjectId, Role, build};

use super::DROP_PORT;

/// The fields of `standard_metadata` that the target itself reads or writes. A program may bring an older
/// `v1model.p4`, so that some are missing.
struct Standard {
    ingress_port: Option<FieldId>,
    egress_spec: FieldId,
    egress_port: FieldId,
    packet_length: Option<FieldId>,
    ingress_timestamp: Option<FieldId>,
    egress_timestamp: Option<FieldId>,
    mcast_grp: Option<FieldId>,
    parser_error: Option<FieldId>,
}

pub(super) fn build(cx: &mut Lowerer<'_>, main: ObjectId) -> Lowered<()> {
    let span = cx.main_span();
    let blocks = cx.package_objects(main)?;
    let [parser, verify, ingress, egress, compute, deparser] = blocks[..] else {
        return cx.unsupported(span, "a V1Switch that does not have six blocks");
    };
    let params = cx.block_params(parser);
    let [_, (hdr_name, hdr_ty), (meta_name, meta_ty), (_, standard_ty)] = &params[..] else {
        return cx.unsupported(span, "a v1model parser that does not have four parameters");
    };
    // Whatever the program calls its parameters: this name is the one that bmv2 users know.
    let standard_storage = cx.storage(standard_ty, "standard_metadata", Role::Metadata, span)?;
    let member = |name: &str| cx.scalar_member(standard_ty, &standard_storage, name);
    let (Some(egress_spec), Some(egress_port)) = (member("egress_spec"), member("egress_port")) else {
        return cx.unsupported(span, "a standard_metadata_t without egress_spec and egress_port");
    };
    let standard = Standard {
        ingress_port: member("ingress_port"),
        egress_spec,
        egress_port,
        packet_length: member("packet_length"),
        ingress_timestamp: member("ingress_global_timestamp"),
        egress_timestamp: member("egress_global_timestamp"),
        mcast_grp: member("mcast_grp"),
        parser_error: member("parser_error"),
    };
    let hdr = BlockArg::Storage(cx.storage(hdr_ty, hdr_name, Role::Metadata, span)?);
    let meta = BlockArg::Storage(cx.storage(meta_ty, meta_name, Role::Metadata, span)?);
    let std = BlockArg::Storage(standard_storage);

    // `packet_length` is the length on arrival in egress too, unless a header is added there: as in bmv2, nearly.
    for (intrinsic, field) in [
        (Intrinsic::IngressPort, standard.ingress_port),
        (Intrinsic::PacketLength, standard.packet_length),
        (Intrinsic::IngressTimestamp, standard.ingress_timestamp),
        (Intrinsic::EgressTimestamp, standard.egress_timestamp),
    ] {
        cx.ir.intrinsics.extend(field.map(|f| (intrinsic, f)));
    }

    // A failed `verify`, or a packet that is too short, does not drop: ingress sees the error.
    let error_field = match standard.parser_error {
        Some(field) => field,
        None => cx.field("$parser_error", 32, FieldKind::Metadata),
    };
    let args = [BlockArg::PacketIn, hdr.clone(), meta.clone(), std.clone()];
    let parser = cx.block(parser, BlockKind::Parser, &args, Some(error_field));
    let checksum = [hdr.clone(), meta.clone()];
    let verify = cx.block(verify, BlockKind::Control, &checksum, None);
    let control = [hdr.clone(), meta.clone(), std.clone()];
    let ingress = cx.block(ingress, BlockKind::Control, &control, None);
    let egress = cx.block(egress, BlockKind::Control, &control, None);
    let compute = cx.block(compute, BlockKind::Control, &checksum, None);
    let deparser = cx.block(deparser, BlockKind::Deparser, &[BlockArg::PacketOut, hdr], None);
    let (parser, verify, ingress) = (parser?, verify?, ingress?);
    let (egress, compute, deparser) = (egress?, compute?, deparser?);

    // The packet leaves by the port that the traffic manager chose, whatever egress writes into `egress_port`.
    let out_port = if writes(&cx.ir, &[egress, compute], standard.egress_port) {
        let field = cx.field("$port", cx.ir.width(standard.egress_port), FieldKind::Metadata);
        Some(field)
    } else {
        None
    };
    let traffic_manager = cx.glue("traffic_manager", |cx| {
        traffic_manager(cx, &standard, out_port);
        Ok(())
    })?;
    let drop = cx.glue("egress_drop", |cx| {
        drop_at_drop_port(cx, standard.egress_spec);
        Ok(())
    })?;
    cx.ir.ingress = vec![parser, verify, ingress, traffic_manager];
    cx.ir.egress = vec![egress, drop, compute, deparser];
    cx.ir.egress_port = Some(out_port.unwrap_or(standard.egress_port));
    Ok(())
}

fn traffic_manager(cx: &mut Lowerer<'_>, standard: &Standard, out_port: Option<FieldId>) {
    if let Some(group) = standard.mcast_grp {
        let none = build::zero(cx.ir.width(group));
        let wanted = build::binary(ir::BinaryOp::Ne, Expr::Field(group), none);
        cx.drop_when(wanted, "multicast not supported yet");
    }
    drop_at_drop_port(cx, standard.egress_spec);
    cx.set(standard.egress_port, Expr::Field(standard.egress_spec));
    if let Some(out_port) = out_port {
        cx.set(out_port, Expr::Field(standard.egress_spec));
    }
    // simple_switch writes drop port + 1 into egress_spec here, "a value different from drop_port": 512, of which a
    // 9-bit field keeps 0. That is what egress reads.
    let width = cx.ir.width(standard.egress_spec);
    cx.set(standard.egress_spec, Expr::constant((DROP_PORT + 1) & ((1 << width.min(31)) - 1), width));
}

fn drop_at_drop_port(cx: &mut Lowerer<'_>, egress_spec: FieldId) {
    let width = cx.ir.width(egress_spec);
    let drop = build::eq(Expr::Field(egress_spec), Expr::constant(DROP_PORT, width));
    cx.drop_when(drop, "egress_spec is the drop port (mark_to_drop)");
}

/// Whether the blocks, or the actions of tables they apply, write a field.
fn writes(program: &ir::Program, blocks: &[ir::BlockId], field: FieldId) -> bool {
    let mut graphs: Vec<&ir::Cfg> = blocks.iter().map(|b| &program.blocks[b.index()].body).collect();
    let mut at = 0;
    while at < graphs.len() {
        for node in &graphs[at].nodes {
            for stmt in &node.stmts {
                match &stmt.op {
                    Op::Set { dest, .. } if *dest == field => return true,
                    Op::Extern { outs, .. } if outs.contains(&field) => return true,
                    _ => {}
                }
            }
            if let ir::Terminator::Apply { table, .. } = node.terminator {
                let actions = &program.tables[table.index()].actions;
                graphs.extend(actions.iter().map(|a| &program.actions[a.action.index()].body));
            }
        }
        at += 1;
    }
    false
}
