//! The order of the blocks, and the work of the target between them.

use std::collections::HashMap;

use p4jet_ir::{BlockId, BlockKind, Cfg, FieldKind, Function, Intrinsic, Loc, Op, Program, Stmt};
use p4jet_lower::{BlockArg, Lowered, Lowerer, ObjectId, Role};

use super::manager::Manager;
use super::memory::memory;
use super::standard::Standard;
use crate::writes::{Writes, reads};

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
    // The name that bmv2 users know, regardless of the parameter's name in the program.
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
        priority: member("priority"),
        instance_type: member("instance_type"),
        mcast_grp: member("mcast_grp"),
        egress_rid: member("egress_rid"),
        parser_error: member("parser_error"),
    };
    let queue_fields = [
        (Intrinsic::EnqueueTimestamp, member("enq_timestamp")),
        (Intrinsic::EnqueueDepth, member("enq_qdepth")),
        (Intrinsic::QueueTime, member("deq_timedelta")),
        (Intrinsic::DequeueDepth, member("deq_qdepth")),
        (Intrinsic::QueueNumber, member("qid")),
    ];
    let hdr_storage = cx.storage(hdr_ty, hdr_name, Role::Metadata, span)?;
    let meta_storage = cx.storage(meta_ty, meta_name, Role::Metadata, span)?;
    memory(cx).meta = Some((meta_ty.clone(), meta_storage.clone()));
    let mut metadata = meta_storage.leaves();
    metadata.extend(standard_storage.leaves());
    let headers = hdr_storage.leaves();
    let hdr = BlockArg::Storage(hdr_storage);
    let meta = BlockArg::Storage(meta_storage);
    let std = BlockArg::Storage(standard_storage);

    // Nearly as in bmv2, `packet_length` is the length on arrival in egress too, unless a header was added.
    for (intrinsic, field) in [
        (Intrinsic::IngressPort, standard.ingress_port),
        (Intrinsic::PacketLength, standard.packet_length),
        (Intrinsic::IngressTimestamp, standard.ingress_timestamp),
        (Intrinsic::EgressTimestamp, standard.egress_timestamp),
    ] {
        cx.ir.intrinsics.extend(field.map(|f| (intrinsic, f)));
    }

    // A failed `verify` or a too short packet does not cause a drop: ingress sees the error.
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

    // Without queues, packets have the queue metadata of an empty queue, which matters only to programs that read it.
    let blocks = [parser, verify, ingress, egress, compute, deparser];
    for (intrinsic, field) in queue_fields {
        let field = field.filter(|field| cx.queued || reads(&cx.ir, &blocks, *field));
        cx.ir.intrinsics.extend(field.map(|f| (intrinsic, f)));
    }

    // The packet leaves by the port that the traffic manager chose, even if egress writes `egress_port`.
    let egress_writes = Writes::of(&cx.ir, &[egress, compute]);
    let port = if egress_writes.has(standard.egress_port) {
        cx.field("$port", cx.ir.width(standard.egress_port), FieldKind::Metadata)
    } else {
        standard.egress_port
    };
    let manager = Manager {
        parser: Writes::of(&cx.ir, &[parser]),
        ingress: Writes::of(&cx.ir, &[parser, verify, ingress]),
        egress: egress_writes,
        standard,
        metadata,
        headers,
        port,
    };
    let clone_parsed = manager.after_parser(cx)?;
    let traffic_manager = manager.after_ingress(cx)?;
    let egress_start = manager.before_egress(cx)?;
    let egress_end = manager.after_egress(cx)?;
    let departure = manager.after_deparser(cx)?;
    let present = |list: &[Option<_>]| list.iter().copied().flatten().collect();
    cx.ir.ingress =
        present(&[Some(parser), clone_parsed, Some(verify), Some(ingress), Some(traffic_manager)]);
    cx.ir.egress =
        present(&[egress_start, Some(egress), Some(egress_end), Some(compute), Some(deparser), departure]);
    cx.ir.egress_port = Some(port);
    name_calculations(&mut cx.ir, &[ingress, egress, deparser, compute, verify]);
    Ok(())
}

/// Names the CRCs whose constants can be set like p4c, which calls all calculations of a program `calc`, `calc_0`,
/// `calc_1` and so on, those in actions first. A calculation in a function that several places call counts once.
fn name_calculations(program: &mut Program, blocks: &[BlockId]) {
    let Program { actions, blocks: bodies, .. } = program;
    let mut names: HashMap<Loc, String> = HashMap::new();
    let mut name = |stmt: &mut Stmt| {
        let Op::Extern { function, text, .. } = &mut stmt.op else { return };
        let Function::Hash(hash) = function else { return };
        let next = names.len();
        let name = names.entry(stmt.loc).or_insert_with(|| match next {
            0 => "calc".to_string(),
            n => format!("calc_{}", n - 1),
        });
        if hash.algorithm.custom_width().is_some() {
            *text = vec![name.clone()];
        }
    };
    actions.iter_mut().for_each(|action| visit(&mut action.body, &mut name));
    blocks.iter().for_each(|block| visit(&mut bodies[block.index()].body, &mut name));
}

fn visit(body: &mut Cfg, f: &mut impl FnMut(&mut Stmt)) {
    body.nodes.iter_mut().flat_map(|node| &mut node.stmts).for_each(f);
}
