//! Chooses headers, tables and actions.

use super::{
    Action, Choice, Field, Header, Keys, Kind, Model, NUMBER_BITS, Role, SCRATCH, Shape, Source, Table,
};
use crate::random::Random;
use std::collections::HashSet;

pub(super) fn model(random: &mut Random, shape: Shape) -> Model {
    let headers = headers(random, shape.headers);
    let extras = (0..random.range(1, 2))
        .map(|_| (0..random.range(1, 4)).map(|_| 16 * random.range(1, 4) as u32).collect());
    let extras = extras.collect();
    let verifies = random.percent(60);
    let mut model = Model { shape, headers, extras, keys: Vec::new(), tables: Vec::new(), verifies };
    // One table has the maximum number of entries.
    let largest = random.below(shape.tables);
    let egress = if shape.tables > 3 { random.below(3) } else { 0 };
    for i in 0..shape.tables {
        let entries = match i == largest {
            true => shape.entries,
            // About uniformly distributed orders of magnitude.
            false => {
                let bits = random.below(shape.entries.ilog2() as usize + 1);
                1 + random.below(1 << bits)
            }
        };
        let table = table(random, &mut model, i == largest, entries);
        model.tables.push(table);
        model.tables[i].is_egress = i + egress >= shape.tables;
    }
    for i in 0..shape.tables {
        actions(random, &mut model, i);
    }
    model
}

fn free(name: String, bits: u32) -> Field {
    Field { name, bits, role: Role::Free }
}

/// Headers in the order of the parser, each reachable.
fn headers(random: &mut Random, count: usize) -> Vec<Header> {
    let ipv4 = (count > 2 && random.percent(60)).then(|| random.range(1, count - 1));
    let mut headers: Vec<Header> =
        (0..count).map(|i| if Some(i) == ipv4 { ipv4_header() } else { header(random, i == 0) }).collect();
    for to in 1..count {
        let mut from = random.below(to);
        // Chains are as likely as bushes.
        if random.percent(50) || headers[from].edges.len() > 3 {
            from = to - 1;
        }
        connect(random, &mut headers, from, to);
        if to > 1 && random.percent(25) {
            let from = random.below(to);
            connect(random, &mut headers, from, to);
        }
    }
    headers
}

/// Adds an edge with a value that no other edge has.
fn connect(random: &mut Random, headers: &mut [Header], from: usize, to: usize) {
    let header = &mut headers[from];
    let next = header.with(Role::Next)[0];
    let value = random.bits(header.fields[next].bits);
    if header.edges.iter().all(|(other, target)| *other != value && *target != to) {
        header.edges.push((value, to));
    }
}

fn header(random: &mut Random, is_first: bool) -> Header {
    let mut fields = Vec::new();
    let wide = [8, 16, 16, 24, 32, 32, 48, 48, 64, 128];
    let split: [&[u32]; 6] = [&[4, 4], &[3, 13], &[12, 4], &[1, 7], &[20, 12], &[9, 7]];
    for _ in 0..random.range(if is_first { 3 } else { 2 }, 6) {
        let widths = match random.percent(25) {
            true => *random.pick(&split),
            false => std::slice::from_ref(random.pick(&wide)),
        };
        for bits in widths {
            fields.push(free(format!("f{}", fields.len()), *bits));
        }
    }
    let next = Field { name: "next".to_string(), bits: *random.pick(&[8, 16]), role: Role::Next };
    fields.push(next);
    Header { fields, edges: Vec::new(), is_ipv4: false }
}

fn ipv4_header() -> Header {
    let field = |name: &str, bits, role| Field { name: name.to_string(), bits, role };
    let fields = vec![
        field("version", 4, Role::Fixed(4)),
        field("ihl", 4, Role::Fixed(5)),
        field("diffserv", 8, Role::Free),
        field("totalLen", 16, Role::Length),
        field("identification", 16, Role::Free),
        field("flags", 3, Role::Fixed(2)),
        field("fragOffset", 13, Role::Fixed(0)),
        field("ttl", 8, Role::Free),
        field("protocol", 8, Role::Next),
        field("hdrChecksum", 16, Role::Checksum),
        field("srcAddr", 32, Role::Free),
        field("dstAddr", 32, Role::Free),
    ];
    Header { fields, edges: Vec::new(), is_ipv4: true }
}

/// A table, without its actions.
fn table(random: &mut Random, model: &mut Model, is_largest: bool, entries: usize) -> Table {
    let source = match !model.tables.is_empty() && random.percent(30) {
        true => Source::Number,
        false => Source::Keys(keys(random, model, is_largest, entries)),
    };
    let (header, kinds) = match source {
        Source::Number => (0, vec![Kind::Exact]),
        Source::Keys(keys) => {
            let Keys { header, fields, .. } = &model.keys[keys];
            let bits = fields.iter().map(|field| model.headers[*header].fields[*field].bits);
            (*header, kinds(random, &bits.collect::<Vec<_>>(), entries))
        }
    };
    let entries = match source {
        Source::Keys(keys) => entries.min(model.keys[keys].tuples.len()),
        Source::Number => entries,
    };
    let condition = random.percent(30).then(|| {
        let (field, bits) = target(random, model, header);
        let shift = bits.saturating_sub(8);
        format!(
            "{field}[{}:{shift}] {} {}",
            bits - 1,
            random.pick(&["<", ">=", "!="]),
            1u128 << (bits - shift - 1)
        )
    });
    // A table that most packets hit, and not many of them, so that not all packets are dropped.
    let is_hit = match source {
        Source::Number => false,
        Source::Keys(keys) => {
            let keys = &model.keys[keys];
            keys.known_percent >= 80 && entries == keys.tuples.len()
        }
    };
    let miss_drops = is_hit && model.tables.iter().filter(|table| table.miss_drops).count() < 2;
    Table {
        source,
        header,
        kinds,
        entries,
        actions: Vec::new(),
        // Of a few entries, one could have all packets.
        entries_drop: random.percent(25) && entries >= 20,
        miss_drops: random.percent(50) && miss_drops,
        is_counted: random.percent(25),
        condition,
        otherwise: Vec::new(),
        is_egress: false,
        externs: Vec::new(),
    }
}

/// Chooses fields that no table has as key so far, or if there are none, the keys of another table.
fn keys(random: &mut Random, model: &mut Model, is_largest: bool, entries: usize) -> usize {
    // Some field remains for actions.
    let candidates = |model: &Model| -> Vec<(usize, Vec<usize>)> {
        let free = |header: &Header| {
            let free = header.with(Role::Free).into_iter();
            free.filter(|field| header.fields[*field].bits >= 8).collect::<Vec<_>>()
        };
        (0..model.headers.len())
            .map(|i| (i, free(&model.headers[i])))
            .filter(|(_, free)| free.len() > 1)
            .collect()
    };
    let mut found = candidates(model);
    // The largest table is one that all packets look up.
    if is_largest && found.iter().any(|(header, _)| *header == 0) {
        found.retain(|(header, _)| *header == 0);
    }
    if found.is_empty() || !model.keys.is_empty() && random.percent(10) {
        return random.below(model.keys.len());
    }
    let (header, mut fields) = found.swap_remove(random.below(found.len()));
    random.shuffle(&mut fields);
    let wanted = random.range(1, 3).min(fields.len() - 1);
    // Enough bits for the entries.
    let bits = |field: &usize| model.headers[header].fields[*field].bits;
    fields.sort_by_key(|field| (bits(field) < entries.ilog2() + 4) as u8);
    fields.truncate(wanted);
    let widths: Vec<u32> = fields.iter().map(bits).collect();
    let room = widths.iter().sum::<u32>().min(60);
    let entries = entries.min(1 << (room - 2));
    let mut seen = HashSet::new();
    let mut tuples = Vec::new();
    while tuples.len() < entries {
        let tuple: Vec<u128> = widths.iter().map(|bits| random.bits(*bits)).collect();
        if seen.insert(tuple.clone()) {
            tuples.push(tuple);
        }
    }
    for field in &fields {
        model.headers[header].fields[*field].role = Role::Key;
    }
    let known_percent = *random.pick(&[100, 95, 80, 60]);
    model.keys.push(Keys { header, fields, tuples, known_percent, is_skewed: random.percent(40) });
    model.keys.len() - 1
}

/// Entries of tables that compare with masks.
const MASKED_MAX: usize = 2000;

fn kinds(random: &mut Random, bits: &[u32], entries: usize) -> Vec<Kind> {
    let mut kinds = vec![Kind::Exact; bits.len()];
    let masked = if entries > MASKED_MAX { 0 } else { 40 };
    match random.below(100) {
        chance if chance < masked => {
            for (kind, bits) in kinds.iter_mut().zip(bits) {
                *kind = match random.below(4) {
                    0 | 1 => Kind::Ternary,
                    2 if *bits <= 32 => Kind::Range,
                    _ => Kind::Optional,
                };
            }
            // Something narrows the search.
            kinds[0] = Kind::Ternary;
        }
        chance if chance < masked + 30 => {
            let longest = (0..bits.len()).max_by_key(|i| bits[*i]).unwrap_or(0);
            if bits[longest] >= 16 {
                kinds[longest] = Kind::Lpm;
            }
        }
        _ => (),
    }
    kinds
}

/// A field of a header, or of the metadata, that actions may write, with its width.
fn target(random: &mut Random, model: &Model, header: usize) -> (String, u32) {
    let free = model.headers[header].with(Role::Free);
    if free.is_empty() || random.percent(25) {
        return scratch(random);
    }
    let field = &model.headers[header].fields[*random.pick(&free)];
    (format!("hdr.h{header}.{}", field.name), field.bits)
}

fn scratch(random: &mut Random) -> (String, u32) {
    let i = random.below(SCRATCH.len());
    (format!("meta.m{i}"), SCRATCH[i])
}

/// A constant of a width.
fn constant(random: &mut Random, bits: u32) -> String {
    format!("{bits}w{:#x}", random.bits(bits))
}

fn actions(random: &mut Random, model: &mut Model, i: usize) {
    let header = model.tables[i].header;
    // The next table may want a number.
    let next = model.tables.get(i + 1).filter(|next| matches!(next.source, Source::Number));
    let number = next.map(|next| next.entries);
    let mut made = Vec::new();
    let mut externs = Vec::new();
    for a in 0..random.range(1, 3) {
        let mut action = Action { name: format!("a{i}_{a}"), params: Vec::new(), body: Vec::new() };
        for _ in 0..random.range(1, 4) {
            statement(random, model, header, &mut action, &mut externs, i);
        }
        if let Some(number) = number {
            action.body.push(format!("meta.number = p{};", action.params.len()));
            action.params.push((NUMBER_BITS, Choice::Number(number)));
        }
        if !model.tables[i].is_egress && random.percent(60) {
            action.body.push(format!("std.egress_spec = p{};", action.params.len()));
            action.params.push((9, Choice::Port));
        }
        made.push(action);
    }
    let mut otherwise = Action { name: String::new(), params: Vec::new(), body: Vec::new() };
    if model.tables[i].condition.is_some() && random.percent(50) {
        arithmetic(random, model, header, &mut otherwise);
    }
    let table = &mut model.tables[i];
    table.actions = made;
    table.externs = externs;
    // Parameters exist in actions only.
    if otherwise.params.is_empty() {
        table.otherwise = otherwise.body;
    }
}

/// Adds a statement to an action of table `table`.
fn statement(
    random: &mut Random,
    model: &Model,
    header: usize,
    action: &mut Action,
    externs: &mut Vec<String>,
    table: usize,
) {
    match random.below(20) {
        // An extern of its own: no other table uses it.
        0 | 1 => {
            let (size, register) = (1 << random.range(3, 14), format!("r{table}_{}", externs.len()));
            let (field, _) = target(random, model, header);
            externs.push(format!("register<bit<32>>({size}) {register};"));
            let (count, cell) = (format!("v_{register}"), format!("c_{register}"));
            action.body.insert(0, format!("bit<32> {count};"));
            action.body.insert(1, format!("bit<32> {cell};"));
            action.body.push(format!("{cell} = (bit<32>) {field} & {};", size - 1));
            action.body.push(format!("{register}.read({count}, {cell});"));
            action.body.push(format!("{count} = {count} + {};", random.range(1, 9)));
            action.body.push(format!("{register}.write({cell}, {count});"));
            action.body.push(format!("meta.m1 = {count};"));
        }
        2 | 3 => {
            let (size, counter) = (random.range(1, 4096), format!("k{table}_{}", externs.len()));
            externs.push(format!("counter({size}, CounterType.packets_and_bytes) {counter};"));
            action.body.push(format!("{counter}.count(p{});", action.params.len()));
            action.params.push((32, Choice::Below(size)));
        }
        4 | 5 => {
            let algorithm = *random.pick(&["crc32", "crc16", "csum16"]);
            let data: Vec<String> =
                (0..random.range(1, 4)).map(|_| target(random, model, header).0).collect();
            let bits = random.range(4, 16);
            action.body.push(format!(
                "hash(meta.m0, HashAlgorithm.{algorithm}, 16w0, {{ {}, meta.m1 }}, 32w{});",
                data.join(", "),
                1u32 << bits
            ));
        }
        6 if model.headers.len() > 1 => {
            let other = random.range(1, model.headers.len() - 1);
            // The action may write fields of its own one.
            if other != header {
                action.body.push(format!("hdr.h{other}.setInvalid();"));
            }
        }
        7 | 8 => {
            let extra = random.below(model.extras.len());
            action.body.push(format!("hdr.x{extra}.setValid();"));
            for (i, bits) in model.extras[extra].iter().enumerate() {
                action.body.push(format!("hdr.x{extra}.f{i} = p{};", action.params.len()));
                action.params.push((*bits, Choice::Any));
            }
        }
        _ => arithmetic(random, model, header, action),
    }
}

/// Adds an assignment.
fn arithmetic(random: &mut Random, model: &Model, header: usize, action: &mut Action) {
    let (to, bits) = target(random, model, header);
    let text = match random.below(10) {
        0..4 => {
            action.params.push((bits, Choice::Any));
            format!("{to} = p{};", action.params.len() - 1)
        }
        4 | 5 => {
            let operator = *random.pick(&["+", "-", "^", "&", "|", "|+|"]);
            action.params.push((bits, Choice::Any));
            format!("{to} = {to} {operator} p{};", action.params.len() - 1)
        }
        6 => {
            let (from, _) = target(random, model, header);
            format!("{to} = {to} + (bit<{bits}>) {from};")
        }
        7 => {
            let (from, from_bits) = scratch(random);
            let by = random.range(1, 15);
            format!(
                "{to} = (bit<{bits}>) ({from} {} {by}) ^ (bit<{bits}>) {};",
                random.pick(&["<<", ">>"]),
                constant(random, from_bits)
            )
        }
        8 if bits >= 8 => {
            let (low, high) = (bits / 4, bits - 1 - bits / 4);
            format!("{to}[{high}:{low}] = {};", constant(random, high - low + 1))
        }
        _ => {
            let (from, from_bits) = target(random, model, header);
            let limit = constant(random, from_bits);
            let (one, other) = (constant(random, bits), constant(random, bits));
            format!("{to} = {from} < {limit} ? {one} : {to} + {other};")
        }
    };
    action.body.push(text);
}
