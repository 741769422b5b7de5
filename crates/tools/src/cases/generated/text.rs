//! The P4 text of a generated program.

use super::{Header, Kind, Model, NUMBER_BITS, Role, SCRATCH, Source, Table};
use std::fmt::Write as _;

pub(super) fn program(model: &Model, number: u64) -> String {
    let mut text = format!(
        "// Program {number} of the generator in cases/generated.\n#include <core.p4>\n#include <v1model.p4>\n\n"
    );
    // Writing to a String cannot fail.
    let _ = declarations(&mut text, model).and_then(|()| parser(&mut text, model));
    let _ = checksums(&mut text, model, "MyVerify", "verify_checksum", model.verifies);
    let _ = control(&mut text, model, false).and_then(|()| control(&mut text, model, true));
    let _ = checksums(&mut text, model, "MyCompute", "update_checksum", true);
    let emits: String =
        (0..model.headers.len()).map(|i| format!("        packet.emit(hdr.h{i});\n")).collect();
    let extras: String =
        (0..model.extras.len()).map(|i| format!("        packet.emit(hdr.x{i});\n")).collect();
    // The added headers are behind the first one.
    let (first, rest) = emits.split_at(emits.find('\n').map_or(0, |at| at + 1));
    let _ = write!(
        text,
        "control MyDeparser(packet_out packet, in headers_t hdr) {{\n    apply {{\n{first}{extras}{rest}    }}\n}}\n\n\
         V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;\n"
    );
    text
}

fn declarations(text: &mut String, model: &Model) -> std::fmt::Result {
    for (i, header) in model.headers.iter().enumerate() {
        writeln!(text, "header h{i}_t {{")?;
        for field in &header.fields {
            writeln!(text, "    bit<{}> {};", field.bits, field.name)?;
        }
        writeln!(text, "}}\n")?;
    }
    for (i, widths) in model.extras.iter().enumerate() {
        writeln!(text, "header x{i}_t {{")?;
        for (f, bits) in widths.iter().enumerate() {
            writeln!(text, "    bit<{bits}> f{f};")?;
        }
        writeln!(text, "}}\n")?;
    }
    writeln!(text, "struct headers_t {{")?;
    for i in 0..model.headers.len() {
        writeln!(text, "    h{i}_t h{i};")?;
    }
    for i in 0..model.extras.len() {
        writeln!(text, "    x{i}_t x{i};")?;
    }
    writeln!(text, "}}\n\nstruct metadata_t {{\n    bit<{NUMBER_BITS}> number;")?;
    for (i, bits) in SCRATCH.iter().enumerate() {
        writeln!(text, "    bit<{bits}> m{i};")?;
    }
    writeln!(text, "}}\n")
}

const PARAMS: &str = "inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std";

fn parser(text: &mut String, model: &Model) -> std::fmt::Result {
    writeln!(
        text,
        "parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{"
    )?;
    writeln!(text, "    state start {{\n        transition parse_h0;\n    }}")?;
    for (i, header) in model.headers.iter().enumerate() {
        writeln!(text, "    state parse_h{i} {{\n        packet.extract(hdr.h{i});")?;
        if header.edges.is_empty() {
            writeln!(text, "        transition accept;\n    }}")?;
            continue;
        }
        let next = &header.fields[header.with(Role::Next)[0]].name;
        writeln!(text, "        transition select(hdr.h{i}.{next}) {{")?;
        for (value, to) in &header.edges {
            writeln!(text, "            {value:#x}: parse_h{to};")?;
        }
        writeln!(text, "            default: accept;\n        }}\n    }}")?;
    }
    writeln!(text, "}}\n")
}

fn checksums(text: &mut String, model: &Model, name: &str, call: &str, wanted: bool) -> std::fmt::Result {
    writeln!(text, "control {name}(inout headers_t hdr, inout metadata_t meta) {{\n    apply {{")?;
    let ipv4 = model.headers.iter().position(|header| header.is_ipv4);
    if let Some(i) = ipv4.filter(|_| wanted) {
        let fields = model.headers[i].fields.iter().filter(|field| field.role != Role::Checksum);
        let fields: Vec<String> = fields.map(|field| format!("hdr.h{i}.{}", field.name)).collect();
        writeln!(
            text,
            "        {call}(hdr.h{i}.isValid(), {{ {} }}, hdr.h{i}.hdrChecksum, HashAlgorithm.csum16);",
            fields.join(", ")
        )?;
    }
    writeln!(text, "    }}\n}}\n")
}

fn control(text: &mut String, model: &Model, is_egress: bool) -> std::fmt::Result {
    let name = if is_egress { "MyEgress" } else { "MyIngress" };
    writeln!(text, "control {name}({PARAMS}) {{\n    action drop() {{\n        mark_to_drop(std);\n    }}")?;
    let own = || model.tables.iter().enumerate().filter(|(_, table)| table.is_egress == is_egress);
    for (i, table) in own() {
        declare(text, model, i, table)?;
    }
    writeln!(text, "    apply {{")?;
    if !is_egress {
        writeln!(text, "        std.egress_spec = 1;")?;
        if model.verifies && model.headers.iter().any(|header: &Header| header.is_ipv4) {
            writeln!(
                text,
                "        if (std.checksum_error == 1) {{\n            drop();\n            return;\n        }}"
            )?;
        }
    }
    for (i, table) in own() {
        let mut conditions = Vec::new();
        if table.header > 0 {
            conditions.push(format!("hdr.h{}.isValid()", table.header));
        }
        if matches!(table.source, Source::Number) {
            conditions.push("meta.number != 0".to_string());
        }
        conditions.extend(table.condition.clone());
        match conditions.is_empty() {
            true => writeln!(text, "        t{i}.apply();")?,
            false => {
                writeln!(text, "        if ({}) {{\n            t{i}.apply();", conditions.join(" && "))?;
                if !table.otherwise.is_empty() {
                    // The header may be the reason.
                    let guard = match table.header {
                        0 => String::new(),
                        header => format!("if (hdr.h{header}.isValid()) "),
                    };
                    writeln!(text, "        }} else {guard}{{")?;
                    for line in &table.otherwise {
                        writeln!(text, "            {line}")?;
                    }
                }
                writeln!(text, "        }}")?;
            }
        }
        if table.entries_drop || table.miss_drops {
            writeln!(text, "        if (std.egress_spec == 511) {{\n            return;\n        }}")?;
        }
    }
    writeln!(text, "    }}\n}}\n")
}

fn declare(text: &mut String, model: &Model, i: usize, table: &Table) -> std::fmt::Result {
    for line in &table.externs {
        writeln!(text, "    {line}")?;
    }
    if table.is_counted {
        writeln!(text, "    direct_counter(CounterType.packets_and_bytes) d{i};")?;
    }
    for action in &table.actions {
        let params = action.params.iter().enumerate().map(|(p, (bits, _))| format!("bit<{bits}> p{p}"));
        writeln!(text, "    action {}({}) {{", action.name, params.collect::<Vec<_>>().join(", "))?;
        for line in &action.body {
            writeln!(text, "        {line}")?;
        }
        writeln!(text, "    }}")?;
    }
    writeln!(text, "    table t{i} {{\n        key = {{")?;
    match table.source {
        Source::Number => writeln!(text, "            meta.number : exact;")?,
        Source::Keys(keys) => {
            let keys = &model.keys[keys];
            for (field, kind) in keys.fields.iter().zip(&table.kinds) {
                let kind = match kind {
                    Kind::Exact => "exact",
                    Kind::Lpm => "lpm",
                    Kind::Ternary => "ternary",
                    Kind::Range => "range",
                    Kind::Optional => "optional",
                };
                let field = &model.headers[keys.header].fields[*field].name;
                writeln!(text, "            hdr.h{}.{field} : {kind};", keys.header)?;
            }
        }
    }
    let names: String = table.actions.iter().map(|action| format!("{}; ", action.name)).collect();
    let default = if table.miss_drops { "drop" } else { "NoAction" };
    writeln!(
        text,
        "        }}\n        actions = {{ {names}drop; NoAction; }}\n        default_action = {default}();"
    )?;
    if table.is_counted {
        writeln!(text, "        counters = d{i};")?;
    }
    writeln!(text, "        size = {};\n    }}", table.entries.max(64))
}
