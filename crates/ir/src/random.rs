//! Random programs and packets, to compare executors and to test passes (feature `random`).
//!
//! [`program`] generates valid programs that terminate; the same seed generates the same program. [`packet`] generates
//! frames that match the program's parser and its tables' entries often enough to be useful.
//!
//! Blind spots: graphs only have shapes that structured P4 can produce (loops consist of one or two nodes); the only
//! externs are registers and counters; indices into nested arrays are not nested; multiplications have at most 128 bits
//! and divisions 64.

use num_bigint::BigUint;
use num_traits::{One, ToPrimitive, Zero};

use crate::*;

/// Generates a valid program.
pub fn program(seed: u64) -> Program {
    Maker::new(seed).program()
}

/// Generates a frame for `program`.
pub fn packet(seed: u64, program: &Program) -> Vec<u8> {
    Sender { rng: Rng::new(seed), program, bits: Vec::new(), place_of: vec![None; program.fields.len()] }
        .packet()
}

/// Marsaglia's xorshift64*, seeded through one round of splitmix64 so that small seeds differ.
pub struct Rng(u64);

impl Rng {
    /// Creates the generator for this seed.
    pub fn new(seed: u64) -> Rng {
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The state must not be 0.
        Rng((z ^ (z >> 31)) | 1)
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next_u64() >> 32) as usize) % n
    }

    /// Returns a number from `lo` to `hi`.
    pub fn range(&mut self, lo: usize, hi: usize) -> usize {
        lo + self.below(hi - lo + 1)
    }

    /// True in one of `n` calls on average.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of these.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Returns a value of this width; extreme and small values are frequent.
    pub fn value(&mut self, width: u32) -> BigUint {
        let top = BigUint::one() << width;
        match self.below(8) {
            0 => BigUint::zero(),
            1 => top - 1u32,
            2 => BigUint::one() << (width - 1),
            3 => (top >> 1u32) - u32::from(width > 1),
            4 => BigUint::from(self.below(9)) % top,
            _ => {
                let mut value = BigUint::zero();
                for _ in 0..width.div_ceil(64) {
                    value = (value << 64u32) | BigUint::from(self.next_u64());
                }
                value % top
            }
        }
    }
}

/// Widths that executors are likely to treat differently.
const WIDTHS: [u32; 26] =
    [1, 1, 2, 3, 7, 8, 8, 9, 12, 13, 16, 16, 24, 31, 32, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 260];

struct Maker {
    rng: Rng,
    p: Program,
    /// Fields that any code may read and write.
    common: Vec<FieldId>,
    egress_spec: FieldId,
    parser_error: FieldId,
    loop_counters: u32,
    /// Fields that can be addressed by an index.
    columns: Vec<Column>,
    /// Headers of one layout; each list has a field that counts the extracted ones.
    stacks: Vec<(HeaderColumn, FieldId)>,
    /// Headers that the next parser and deparser use.
    known_headers: std::ops::Range<usize>,
    /// True if code may read and write validity bits.
    validity_is_common: bool,
}

impl Maker {
    fn new(seed: u64) -> Maker {
        let mut maker = Maker {
            rng: Rng::new(seed),
            p: Program { name: format!("random_{seed}"), ..Program::default() },
            common: Vec::new(),
            egress_spec: FieldId(0),
            parser_error: FieldId(0),
            loop_counters: 0,
            columns: Vec::new(),
            stacks: Vec::new(),
            known_headers: 0..0,
            validity_is_common: true,
        };
        maker.p.locs = vec![SourceLoc::default()];
        for line in 1..=40 {
            maker.p.locs.push(SourceLoc { file: "random.p4".to_string(), line, column: 1 + line % 7 });
        }
        maker
    }

    fn loc(&mut self) -> Loc {
        Loc(self.rng.below(self.p.locs.len()) as u32)
    }

    fn field(&mut self, name: impl Into<String>, width: u32, kind: FieldKind) -> FieldId {
        let id = FieldId(self.p.fields.len() as u32);
        self.p.fields.push(Field { name: name.into(), width, kind });
        id
    }

    fn common_field(&mut self, name: impl Into<String>, width: u32, kind: FieldKind) -> FieldId {
        let id = self.field(name, width, kind);
        self.common.push(id);
        id
    }

    fn program(mut self) -> Program {
        self.p.errors = [
            "NoError",
            "PacketTooShort",
            "NoMatch",
            "HeaderTooShort",
            "ParserTimeout",
            "ParserInvalidArgument",
        ]
        .map(String::from)
        .to_vec();
        self.p.error_packet_too_short = 1;
        self.p.error_header_too_short = 3;
        self.p.error_invalid_argument = 5;
        self.p.drop_reasons = ["parser", "policy", "egress_spec is the drop port"].map(String::from).to_vec();
        for (name, width, intrinsic) in [
            ("standard_metadata.ingress_port", 9, Intrinsic::IngressPort),
            ("standard_metadata.packet_length", 32, Intrinsic::PacketLength),
            ("standard_metadata.ingress_global_timestamp", 48, Intrinsic::IngressTimestamp),
            ("standard_metadata.egress_global_timestamp", 48, Intrinsic::EgressTimestamp),
        ] {
            let field = self.common_field(name, width, FieldKind::Metadata);
            self.p.intrinsics.push((intrinsic, field));
        }
        self.egress_spec = self.common_field("standard_metadata.egress_spec", 9, FieldKind::Metadata);
        self.parser_error = self.common_field("standard_metadata.parser_error", 32, FieldKind::Metadata);
        if !self.rng.once_in(10) {
            self.p.egress_port = Some(self.egress_spec);
        }
        for index in 0..self.rng.range(2, 8) {
            let width = *self.rng.pick(&WIDTHS);
            self.common_field(format!("meta.m{index}"), width, FieldKind::Metadata);
        }
        for index in 0..self.rng.range(1, 5) {
            let width = *self.rng.pick(&WIDTHS);
            self.common_field(format!("t{index}"), width, FieldKind::Temporary);
        }
        self.validity_is_common = !self.rng.once_in(4);
        for _ in 0..self.rng.range(1, 5) {
            self.header();
        }
        if self.rng.once_in(2) {
            self.stack();
        }
        for index in 0..self.rng.below(3) {
            self.array(index);
        }
        // Two parsers, each with its own headers, or one.
        let headers = self.p.headers.len();
        let two_parsers = self.rng.once_in(8);
        let egress_headers = match two_parsers && self.rng.once_in(2) {
            true => headers / 2..headers,
            false => 0..headers,
        };
        self.known_headers = 0..if egress_headers.start > 0 { headers / 2 } else { headers };
        self.instances();
        // Generated code selects one of more than eight actions differently.
        let actions = if self.rng.once_in(6) { self.rng.range(12, 24) } else { self.rng.range(1, 5) };
        for _ in 0..actions {
            self.action();
        }
        for _ in 0..self.rng.range(1, 3) {
            self.table();
        }
        let parser = self.parser("parser");
        let ingress = self.control("ingress");
        let egress = self.control("egress");
        if two_parsers {
            let middle_deparser = self.deparser("ingress_deparser");
            self.known_headers = egress_headers;
            let middle_parser = self.parser("egress_parser");
            let deparser = self.deparser("deparser");
            self.p.ingress = vec![parser, ingress, middle_deparser];
            self.p.egress = vec![middle_parser, egress, deparser];
        } else {
            let deparser = self.deparser("deparser");
            self.p.ingress = vec![parser, ingress];
            self.p.egress = vec![egress, deparser];
        }
        if self.rng.once_in(3) {
            let rounds = self.field("$rounds", 8, FieldKind::Metadata);
            if self.rng.once_in(2) {
                let start = self.copier("start", rounds, true);
                let at = self.rng.range(1, self.p.ingress.len());
                self.p.ingress.insert(at, start);
            }
            if self.rng.once_in(2) {
                let middle = self.copier("middle", rounds, false);
                let at = self.rng.below(self.p.egress.len());
                self.p.egress.insert(at, middle);
            }
            let traffic_manager = self.copier("traffic_manager", rounds, true);
            self.p.ingress.push(traffic_manager);
            let end = self.copier("end", rounds, false);
            self.p.egress.push(end);
        }
        turns::count(&mut self.p);
        self.p
    }

    fn header(&mut self) {
        let id = HeaderId(self.p.headers.len() as u32);
        let name =
            if self.rng.once_in(4) { format!("hdr.stack[{}]", id.0) } else { format!("hdr.h{}", id.0) };
        let valid = self.field(format!("{name}.$valid$"), 1, FieldKind::Valid(id));
        if self.validity_is_common {
            self.common.push(valid);
        }
        let mut fields = Vec::new();
        let mut bits = 0;
        for index in 0..self.rng.range(1, 6) {
            let width = *self.rng.pick(&WIDTHS);
            bits += width;
            let field = self.common_field(format!("{name}.f{index}"), width, FieldKind::Header(id));
            fields.push(HeaderField { field, varbit_length: None });
        }
        if bits % 8 != 0 {
            let field = self.common_field(format!("{name}.rest"), 8 - bits % 8, FieldKind::Header(id));
            fields.push(HeaderField { field, varbit_length: None });
        }
        if self.rng.once_in(3) {
            let width = 8 * self.rng.range(1, 40) as u32;
            let field = self.common_field(format!("{name}.options"), width, FieldKind::Header(id));
            let length = self.field(format!("{name}.options.$length$"), 32, FieldKind::Temporary);
            let place = self.rng.below(fields.len() + 1);
            fields.insert(place, HeaderField { field, varbit_length: Some(length) });
        }
        self.p.headers.push(Header { name, valid, fields });
    }

    /// Headers like the last one.
    fn stack(&mut self) {
        let model = self.p.headers[self.p.headers.len() - 1].clone();
        let mut headers = vec![HeaderId(self.p.headers.len() as u32 - 1)];
        for _ in 0..self.rng.range(1, 4) {
            let id = HeaderId(self.p.headers.len() as u32);
            let name = format!("{}.next{}", model.name, id.0);
            let valid = self.field(format!("{name}.$valid$"), 1, FieldKind::Valid(id));
            if self.validity_is_common {
                self.common.push(valid);
            }
            let mut fields = Vec::new();
            for (index, f) in model.fields.iter().enumerate() {
                let width = self.p.width(f.field);
                let field = self.common_field(format!("{name}.f{index}"), width, FieldKind::Header(id));
                let varbit_length = f
                    .varbit_length
                    .map(|_| self.field(format!("{name}.f{index}.$length$"), 32, FieldKind::Temporary));
                fields.push(HeaderField { field, varbit_length });
            }
            self.p.headers.push(Header { name, valid, fields });
            headers.push(id);
        }
        let next = self.field(format!("{}.$next$", model.name), 32, FieldKind::Metadata);
        for_each_column_of(&headers, &self.p.headers, &mut |column| {
            // Validity bits only if any code may set them, and no lengths, because these must fit the varbit.
            if column.iter().all(|f| self.common.contains(f)) {
                self.columns.push(column);
            }
        });
        self.stacks.push((headers.into(), next));
    }

    /// Adds fields of one width, and sometimes a part of them.
    fn array(&mut self, number: usize) {
        let width = *self.rng.pick(&WIDTHS);
        let count = self.rng.range(1, 9);
        let kind = *self.rng.pick(&[FieldKind::Metadata, FieldKind::Temporary]);
        let fields: Vec<FieldId> =
            (0..count).map(|i| self.common_field(format!("array{number}[{i}]"), width, kind)).collect();
        if self.rng.once_in(2) {
            let step = self.rng.range(1, 3);
            let first = self.rng.below(count);
            let part: Vec<FieldId> = fields.iter().copied().skip(first).step_by(step).collect();
            if part.len() < count {
                self.columns.push(part.into());
            }
        }
        self.columns.push(fields.into());
    }

    /// Returns an index that is mostly inside a column of this length.
    fn index(&mut self, count: usize, scope: &[FieldId]) -> Expr {
        let needed = usize::BITS - count.leading_zeros();
        match self.rng.below(8) {
            0 => Expr::constant(self.rng.below(count + 1), needed),
            1 => {
                let width = *self.rng.pick(&WIDTHS);
                self.expr(width, scope, 1)
            }
            _ => self.expr(needed, scope, 1),
        }
    }

    /// Returns an element, converted to this width, if there is a column.
    fn element(&mut self, width: u32, scope: &[FieldId]) -> Option<Expr> {
        let same: Vec<Column> =
            self.columns.iter().filter(|column| self.p.width(column[0]) == width).cloned().collect();
        if same.is_empty() {
            return None;
        }
        let column = self.rng.pick(&same).clone();
        let index = Box::new(self.index(column.len(), scope));
        Some(Expr::Element { column, index })
    }

    fn instances(&mut self) {
        for index in 0..self.rng.below(3) {
            let kind = if self.rng.once_in(2) {
                InstanceKind::Register {
                    width: self.rng.range(1, 64) as u32,
                    size: self.rng.range(1, 20) as u32,
                    initial: self.rng.below(2).into(),
                }
            } else {
                InstanceKind::Counter {
                    unit: *self.rng.pick(&CounterUnit::ALL),
                    size: self.rng.range(1, 20) as u32,
                }
            };
            let loc = self.loc();
            self.p.instances.push(Instance { name: format!("instance{index}"), kind, loc });
        }
    }

    fn action(&mut self) {
        let id = ActionId(self.p.actions.len() as u32);
        let params: Vec<FieldId> = (0..self.rng.below(4))
            .map(|index| {
                let width = *self.rng.pick(&WIDTHS);
                self.field(format!("action{}.p{index}", id.0), width, FieldKind::ActionData(id))
            })
            .collect();
        let mut scope = self.common.clone();
        scope.extend(&params);
        let mut body = Cfg::default();
        let (_, last) = self.straight(&mut body, &scope, 3, 0, true);
        if self.rng.once_in(4) {
            body.nodes[last.index()].terminator = Terminator::Exit;
        }
        let loc = self.loc();
        let name = format!("ingress.action{}", id.0);
        self.p.actions.push(Action { control_name: name.clone(), name, params, body, loc });
    }

    fn table(&mut self) {
        let id = TableId(self.p.tables.len() as u32);
        let mut lpm = false;
        let keys: Vec<Key> = (0..self.rng.below(4))
            .map(|index| {
                let mut kind = *self.rng.pick(&MatchKind::ALL);
                if kind == MatchKind::Lpm && std::mem::replace(&mut lpm, true) {
                    kind = MatchKind::Exact;
                }
                Key { name: format!("k{index}"), width: *self.rng.pick(&WIDTHS), kind }
            })
            .collect();
        let mut actions: Vec<TableAction> = Vec::new();
        for action in 0..self.p.actions.len() as u32 {
            if actions.is_empty() || self.rng.once_in(2) {
                actions.push(TableAction {
                    action: ActionId(action),
                    table_only: false,
                    default_only: false,
                });
            }
        }
        let default = self.action_call(&actions);
        let const_entries = self.rng.once_in(2);
        let mut entries: Vec<Entry> = Vec::new();
        for _ in 0..if keys.is_empty() { 0 } else { self.rng.below(9) } {
            let key: Vec<KeyMatch> = keys.iter().map(|k| self.key_match(k)).collect();
            if entries.iter().any(|e| e.key == key) {
                continue;
            }
            let priority = entries.len() as u32 + 1;
            let action = self.action_call(&actions);
            let loc = self.loc();
            let is_const = const_entries || self.rng.once_in(4);
            let shown_priority = self.rng.below(9) as u32;
            entries.push(Entry { key, priority, shown_priority, is_const, action, loc });
        }
        let mut direct = Vec::new();
        if self.rng.once_in(3) {
            direct.push(InstanceId(self.p.instances.len() as u32));
            let kind = InstanceKind::DirectCounter { unit: *self.rng.pick(&CounterUnit::ALL), table: id };
            self.p.instances.push(Instance { name: format!("ingress.direct{}", id.0), kind, loc: Loc(0) });
        }
        let loc = self.loc();
        self.p.tables.push(Table {
            name: format!("ingress.table{}", id.0),
            keys,
            actions,
            default,
            const_default: self.rng.once_in(2),
            size: 64,
            const_entries,
            entries,
            direct,
            hidden: self.rng.once_in(8),
            profile: None,
            idle_timeout: false,
            loc,
        });
    }

    fn action_call(&mut self, actions: &[TableAction]) -> ActionCall {
        let index = self.rng.below(actions.len());
        let params = self.p.actions[actions[index].action.index()].params.clone();
        let data = params.iter().map(|f| self.rng.value(self.p.width(*f))).collect();
        ActionCall { action: index as u32, data }
    }

    fn key_match(&mut self, key: &Key) -> KeyMatch {
        let value = self.rng.value(key.width);
        match key.kind {
            MatchKind::Exact => KeyMatch::Exact(value),
            MatchKind::Lpm => {
                let prefix_len = self.rng.below(key.width as usize + 1) as u32;
                let rest = key.width - prefix_len;
                KeyMatch::Lpm { value: (value >> rest) << rest, prefix_len }
            }
            MatchKind::Ternary => {
                let mask = self.rng.value(key.width);
                KeyMatch::Ternary { value: value & &mask, mask }
            }
            MatchKind::Range => {
                let other = self.rng.value(key.width);
                KeyMatch::Range { lo: value.clone().min(other.clone()), hi: value.max(other) }
            }
            MatchKind::Optional => KeyMatch::Optional((!self.rng.once_in(3)).then_some(value)),
        }
    }

    fn node(&mut self, cfg: &mut Cfg) -> NodeId {
        let label = if self.rng.once_in(2) { format!("state{}", cfg.nodes.len()) } else { String::new() };
        let terminator_loc = self.loc();
        cfg.nodes.push(Node { label, stmts: Vec::new(), terminator: Terminator::Return, terminator_loc });
        NodeId(cfg.nodes.len() as u32 - 1)
    }

    fn push(&mut self, cfg: &mut Cfg, node: NodeId, op: Op) {
        let loc = self.loc();
        cfg.nodes[node.index()].stmts.push(Stmt { op, loc });
    }

    /// Adds an assignment, mostly to something that is visible outside, and often a plain copy.
    fn assign(&mut self, cfg: &mut Cfg, node: NodeId, scope: &[FieldId]) {
        if !self.columns.is_empty() && self.rng.once_in(5) {
            let column = self.rng.pick(&self.columns).clone();
            let index = self.index(column.len(), scope);
            let value = self.expr(self.p.width(column[0]), scope, 2);
            return self.push(cfg, node, Op::SetElement { column, index, value });
        }
        let dest = match self.rng.below(8) {
            0 => self.egress_spec,
            1..=4 => {
                let shown = |f: &&FieldId| matches!(self.p.fields[f.index()].kind, FieldKind::Header(_));
                let shown: Vec<FieldId> = scope.iter().filter(shown).copied().collect();
                *self.rng.pick(&shown)
            }
            5 => {
                let temporary = |f: &&FieldId| self.p.fields[f.index()].kind == FieldKind::Temporary;
                let temporaries: Vec<FieldId> = scope.iter().filter(temporary).copied().collect();
                *self.rng.pick(&temporaries)
            }
            _ => *self.rng.pick(scope),
        };
        let depth = if self.rng.once_in(3) { 0 } else { 4 };
        let value = self.expr(self.p.width(dest), scope, depth);
        self.push(cfg, node, Op::Set { dest, value });
    }

    /// Swaps two fields of one width through a temporary, if there are two.
    fn swap(&mut self, cfg: &mut Cfg, node: NodeId, scope: &[FieldId]) {
        let x = *self.rng.pick(scope);
        let same = |f: &&FieldId| self.p.width(**f) == self.p.width(x);
        let y = *self.rng.pick(&scope.iter().filter(same).copied().collect::<Vec<_>>());
        let t = self.field(format!("swapped{}", self.p.fields.len()), self.p.width(x), FieldKind::Temporary);
        for (dest, source) in [(t, x), (x, y), (y, t)] {
            self.push(cfg, node, Op::Set { dest, value: Expr::Field(source) });
        }
    }

    /// Clears fields of a header if it is invalid, and mostly makes it valid, as `setValid` does.
    fn set_valid(&mut self, cfg: &mut Cfg, node: NodeId, scope: &[FieldId]) {
        let field = *self.rng.pick(scope);
        let FieldKind::Header(header) = self.p.fields[field.index()].kind else { return };
        let valid = self.p.headers[header.index()].valid;
        let of_header = |f: &&FieldId| self.p.fields[f.index()].kind == FieldKind::Header(header);
        let fields: Vec<FieldId> = scope.iter().filter(of_header).copied().collect();
        for dest in fields {
            if !self.rng.once_in(4) {
                let value = self.masked(dest).expect("it is the field of a header");
                self.push(cfg, node, Op::Set { dest, value });
            }
        }
        if self.validity_is_common && !self.rng.once_in(4) {
            self.push(cfg, node, Op::Set { dest: valid, value: Expr::constant(1u32, 1) });
        }
    }

    /// The value of a header field, or 0 if the header is invalid.
    fn masked(&self, field: FieldId) -> Option<Expr> {
        let FieldKind::Header(header) = self.p.fields[field.index()].kind else { return None };
        let valid = self.p.headers[header.index()].valid;
        let zero = Expr::constant(0u32, self.p.width(field));
        let value = Expr::Field(field);
        Some(Expr::Select(Box::new(Expr::Field(valid)), Box::new(value), Box::new(zero)))
    }

    /// Adds nodes for a section of code whose branches join again. Returns the first and the last node; the last ends
    /// with `Return`.
    fn straight(
        &mut self,
        cfg: &mut Cfg,
        scope: &[FieldId],
        length: usize,
        depth: usize,
        in_action: bool,
    ) -> (NodeId, NodeId) {
        let first = self.node(cfg);
        let mut last = first;
        for _ in 0..self.rng.range(1, length.max(1)) {
            match self.rng.below(if depth < 2 { 12 } else { 8 }) {
                0..=7 => {
                    if self.rng.once_in(8) {
                        self.extern_call(cfg, last, scope);
                    } else if self.rng.once_in(12) {
                        self.swap(cfg, last, scope);
                    } else if self.rng.once_in(8) {
                        self.set_valid(cfg, last, scope);
                    } else {
                        self.assign(cfg, last, scope);
                    }
                }
                8 | 9 => {
                    let cond = self.expr(1, scope, 3);
                    let (then, then_end) = self.straight(cfg, scope, length / 2, depth + 1, in_action);
                    let (otherwise, otherwise_end) =
                        self.straight(cfg, scope, length / 2, depth + 1, in_action);
                    cfg.nodes[last.index()].terminator = Terminator::If { cond, then, otherwise };
                    last = self.join(cfg, &[then_end, otherwise_end], in_action);
                }
                10 => {
                    let value = self.selector(scope);
                    let width = value.width(&self.p);
                    let mut cases: Vec<(BigUint, NodeId)> = Vec::new();
                    let mut ends = Vec::new();
                    for _ in 0..self.rng.below(4) {
                        let case = self.rng.value(width);
                        if cases.iter().all(|(c, _)| *c != case) {
                            let (start, end) = self.straight(cfg, scope, length / 2, depth + 1, in_action);
                            cases.push((case, start));
                            ends.push(end);
                        }
                    }
                    let (default, end) = self.straight(cfg, scope, length / 2, depth + 1, in_action);
                    ends.push(end);
                    cfg.nodes[last.index()].terminator = Terminator::Switch { value, cases, default };
                    last = self.join(cfg, &ends, in_action);
                }
                _ if in_action => {}
                _ => last = self.apply(cfg, last, scope),
            }
        }
        (first, last)
    }

    /// Adds a node after all of these, some of which may end the packet.
    fn join(&mut self, cfg: &mut Cfg, ends: &[NodeId], in_action: bool) -> NodeId {
        let next = self.node(cfg);
        for end in ends {
            cfg.nodes[end.index()].terminator = match self.rng.below(16) {
                0 => Terminator::Return,
                1 => Terminator::Drop(self.rng.below(2) as u32),
                2 if in_action => Terminator::Exit,
                _ => Terminator::Goto(next),
            };
        }
        next
    }

    fn apply(&mut self, cfg: &mut Cfg, last: NodeId, scope: &[FieldId]) -> NodeId {
        let table = TableId(self.rng.below(self.p.tables.len()) as u32);
        let widths: Vec<u32> = self.p.tables[table.index()].keys.iter().map(|k| k.width).collect();
        let keys = widths.iter().map(|w| self.expr(*w, scope, 1)).collect();
        let of_width =
            |p: &Program, width| scope.iter().copied().filter(|f| p.width(*f) == width).collect::<Vec<_>>();
        let hits = of_width(&self.p, 1);
        let runs = of_width(&self.p, 32);
        let hit = (!hits.is_empty() && self.rng.once_in(2)).then(|| *self.rng.pick(&hits));
        let action_run = (!runs.is_empty() && self.rng.once_in(2)).then(|| *self.rng.pick(&runs));
        let cells: Vec<FieldId> = runs.into_iter().filter(|f| Some(*f) != action_run).collect();
        let entry = (!cells.is_empty() && self.rng.once_in(4)).then(|| *self.rng.pick(&cells));
        let next = self.node(cfg);
        let exit = if self.rng.once_in(2) {
            let exit = self.node(cfg);
            self.assign(cfg, exit, scope);
            if self.rng.once_in(2) {
                cfg.nodes[exit.index()].terminator = Terminator::Goto(next);
            }
            exit
        } else {
            next
        };
        cfg.nodes[last.index()].terminator =
            Terminator::Apply { table, keys, hit, action_run, entry, selector: None, next, exit };
        next
    }

    /// Adds a checksum or hash over adjacent fields of a header, like those in programs, or over anything.
    fn hash_call(&mut self, cfg: &mut Cfg, node: NodeId, scope: &[FieldId]) {
        let mut args = Vec::new();
        for _ in 0..self.rng.range(1, 3) {
            if self.rng.once_in(3) {
                let width = *self.rng.pick(&WIDTHS);
                args.push(self.expr(width, scope, 1));
                continue;
            }
            let header = self.rng.below(self.p.headers.len());
            let fields: Vec<FieldId> = self.p.headers[header]
                .fields
                .iter()
                .filter(|f| f.varbit_length.is_none())
                .map(|f| f.field)
                .collect();
            if fields.is_empty() {
                continue;
            }
            let first = self.rng.below(fields.len());
            let last = self.rng.range(first, fields.len() - 1);
            args.extend(fields[first..=last].iter().map(|f| Expr::Field(*f)));
        }
        use Algorithm::{Crc32, Csum16, Identity, Xor16};
        let mut hash = [Csum16, Csum16, Csum16, Crc32, Xor16, Identity][self.rng.below(6)].plain();
        if self.rng.once_in(4) {
            // Each value is preceded by its length, which is sometimes larger than the width.
            args = args.into_iter().flat_map(|arg| [self.expr(8, scope, 1), arg]).collect();
            hash = hash.in_pieces();
        }
        let out = *self.rng.pick(scope);
        let op =
            Op::Extern { function: hash.into(), instance: None, args, outs: vec![out], text: Vec::new() };
        self.push(cfg, node, op);
    }

    fn extern_call(&mut self, cfg: &mut Cfg, node: NodeId, scope: &[FieldId]) {
        if self.p.instances.is_empty() || self.rng.once_in(2) {
            return self.hash_call(cfg, node, scope);
        }
        let index = self.rng.below(self.p.instances.len());
        let instance = Some(InstanceId(index as u32));
        let call = |function, args, outs| Op::Extern { function, instance, args, outs, text: Vec::new() };
        // Mostly inside the array, sometimes beyond its end.
        let cell = Expr::ZeroExtend(Box::new(self.expr(4, scope, 2)), 32);
        let op = match self.p.instances[index].kind {
            InstanceKind::Register { width, .. } if self.rng.once_in(2) => {
                let outs: Vec<_> = scope.iter().copied().filter(|f| self.p.width(*f) == width).collect();
                if outs.is_empty() {
                    return;
                }
                call(Function::RegisterRead, vec![cell], vec![*self.rng.pick(&outs)])
            }
            InstanceKind::Register { width, .. } => {
                let value = self.expr(width, scope, 2);
                call(Function::RegisterWrite, vec![cell, value], Vec::new())
            }
            InstanceKind::Counter { .. } => call(Function::Count, vec![cell], Vec::new()),
            _ => return,
        };
        self.push(cfg, node, op);
    }

    /// Returns an expression for a switch: often a plain field, so that packets can be generated for its branches.
    fn selector(&mut self, scope: &[FieldId]) -> Expr {
        if self.rng.once_in(3) {
            let width = *self.rng.pick(&WIDTHS);
            self.expr(width, scope, 2)
        } else {
            Expr::Field(*self.rng.pick(scope))
        }
    }

    fn parser(&mut self, name: &str) -> BlockId {
        let scope = self.common.clone();
        let mut body = Cfg::default();
        let states = self.rng.range(1, 6);
        for _ in 0..states {
            self.node(&mut body);
        }
        for index in 0..states {
            let state = NodeId(index as u32);
            for _ in 0..self.rng.range(1, 2) {
                self.parser_statement(&mut body, state, &scope);
            }
            // Only later states, so that the parser ends.
            let later = |rng: &mut Rng| NodeId(rng.range(index + 1, states - 1) as u32);
            let terminator = if index + 1 == states {
                Terminator::Return
            } else {
                match self.rng.below(8) {
                    0 | 1 => Terminator::Goto(later(&mut self.rng)),
                    2 => {
                        let cond = self.expr(1, &scope, 2);
                        Terminator::If { cond, then: later(&mut self.rng), otherwise: later(&mut self.rng) }
                    }
                    3 if self.rng.once_in(2) => {
                        let code = self.rng.below(4);
                        let code = Expr::constant(code, 32);
                        Terminator::Reject(code)
                    }
                    3 => Terminator::Return,
                    _ => {
                        let value = self.selector(&scope);
                        let width = value.width(&self.p);
                        let mut cases: Vec<(BigUint, NodeId)> = Vec::new();
                        for _ in 0..self.rng.below(5) {
                            let case = self.rng.value(width);
                            if cases.iter().all(|(c, _)| *c != case) {
                                cases.push((case, later(&mut self.rng)));
                            }
                        }
                        Terminator::Switch { value, cases, default: later(&mut self.rng) }
                    }
                }
            };
            body.nodes[index].terminator = terminator;
        }
        if self.rng.once_in(4) {
            self.repeat(&mut body);
        }
        let error_field = Some(self.parser_error);
        self.block(name, BlockKind::Parser, body, error_field)
    }

    fn block(&mut self, name: &str, kind: BlockKind, body: Cfg, error_field: Option<FieldId>) -> BlockId {
        self.p.blocks.push(Block { name: name.to_string(), kind, body, error_field });
        BlockId(self.p.blocks.len() as u32 - 1)
    }

    /// Makes one node a loop: mostly with a few turns, sometimes with as many as the packet says, rarely endless.
    fn repeat(&mut self, body: &mut Cfg) {
        let state = NodeId(self.rng.below(body.nodes.len()) as u32);
        let counter = self.field(format!("loop{}", self.loop_counters), 8, FieldKind::Temporary);
        self.loop_counters += 1;
        let one = || Box::new(Expr::constant(1u32, 8));
        let scope = self.common.clone();
        let step = match self.rng.below(200) {
            0 => Box::new(Expr::constant(0u32, 8)),
            1..=75 => {
                let step = self.boxed(8, &scope, 1);
                Box::new(Expr::Binary(BinaryOp::Or, step, one()))
            }
            _ => one(),
        };
        let count = Expr::Binary(BinaryOp::Add, Box::new(Expr::Field(counter)), step);
        self.push(body, state, Op::Set { dest: counter, value: count });
        let after = self.node(body);
        body.nodes[after.index()].terminator = body.nodes[state.index()].terminator.clone();
        let rounds = Expr::constant(self.rng.range(1, 4), 8);
        let cond = Expr::Binary(BinaryOp::LtU, Box::new(Expr::Field(counter)), Box::new(rounds));
        let again = if self.rng.once_in(2) {
            let again = self.node(body);
            self.assign(body, again, &scope);
            body.nodes[again.index()].terminator = Terminator::Goto(state);
            again
        } else {
            state
        };
        body.nodes[state.index()].terminator = Terminator::If { cond, then: again, otherwise: after };
    }

    fn parser_statement(&mut self, cfg: &mut Cfg, node: NodeId, scope: &[FieldId]) {
        let op = match self.rng.below(10) {
            0 => Op::Lookahead { dest: *self.rng.pick(scope) },
            1 => {
                let bits = if self.rng.once_in(3) {
                    self.expr(5, scope, 2)
                } else {
                    Expr::constant(8 * self.rng.below(4), 32)
                };
                Op::Advance { bits }
            }
            2 | 3 => return self.assign(cfg, node, scope),
            _ => {
                let header = self.rng.range(self.known_headers.start, self.known_headers.end - 1);
                let varbit =
                    self.p.headers[header].fields.iter().find(|f| f.varbit_length.is_some()).map(|f| f.field);
                let varbit_length = varbit.map(|f| {
                    let bytes_max = self.p.width(f) as usize / 8;
                    match self.rng.below(4) {
                        // Eight times the value of a few bits, like the length of an IPv4 header; sometimes too long.
                        0 => {
                            let bytes = Expr::ZeroExtend(Box::new(self.expr(4, scope, 1)), 32);
                            Expr::Binary(BinaryOp::Shl, Box::new(bytes), Box::new(Expr::constant(3u32, 8)))
                        }
                        1 if self.rng.once_in(4) => self.expr(7, scope, 2),
                        _ => Expr::constant(8 * self.rng.below(bytes_max + 1), 32),
                    }
                });
                let id = HeaderId(header as u32);
                let stack = self.stacks.iter().find(|(headers, _)| {
                    headers.contains(&id) && headers.iter().all(|h| self.known_headers.contains(&h.index()))
                });
                match stack.cloned() {
                    Some((headers, next)) if self.rng.once_in(2) => {
                        // Either like `next`, or by any index.
                        let index = match self.rng.once_in(3) {
                            true => self.index(headers.len(), scope),
                            false => Expr::Field(next),
                        };
                        let moved = Expr::constant(1u32, 32);
                        let moved = Expr::Binary(BinaryOp::Add, Box::new(Expr::Field(next)), Box::new(moved));
                        self.push(cfg, node, Op::ExtractElement { headers, index, varbit_length });
                        Op::Set { dest: next, value: moved }
                    }
                    _ => Op::Extract { header: id, varbit_length },
                }
            }
        };
        self.push(cfg, node, op);
    }

    fn control(&mut self, name: &str) -> BlockId {
        let scope = self.common.clone();
        let mut body = Cfg::default();
        let (_, last) = self.straight(&mut body, &scope, 8, 0, false);
        let last = self.apply(&mut body, last, &scope);
        // Most packets should leave; some use the drop port, as in v1model.
        if self.rng.once_in(2) {
            let gone = self.node(&mut body);
            let stays = self.node(&mut body);
            body.nodes[gone.index()].terminator = Terminator::Drop(2);
            let port = Expr::Field(self.egress_spec);
            let cond = Expr::Binary(BinaryOp::Eq, Box::new(port), Box::new(Expr::constant(511u32, 9)));
            body.nodes[last.index()].terminator = Terminator::If { cond, then: gone, otherwise: stays };
        }
        if self.rng.once_in(6) {
            self.repeat(&mut body);
        }
        self.block(name, BlockKind::Control, body, None)
    }

    /// Adds a control that creates copies; `rounds` counts the generations so that they end.
    fn copier(&mut self, name: &str, rounds: FieldId, in_ingress: bool) -> BlockId {
        let scope = self.common.clone();
        let mut body = Cfg::default();
        let (first, copies, after) = (self.node(&mut body), self.node(&mut body), self.node(&mut body));
        let more = Expr::Binary(
            BinaryOp::LtU,
            Box::new(Expr::Field(rounds)),
            Box::new(Expr::constant(self.rng.range(1, 3) as u32, 8)),
        );
        body.nodes[first.index()].terminator = Terminator::If { cond: more, then: copies, otherwise: after };
        for _ in 0..self.rng.range(1, 2) {
            let op = self.copy(rounds, &scope);
            self.push(&mut body, copies, op);
        }
        body.nodes[copies.index()].terminator = match self.rng.below(4) {
            0 => Terminator::Done,
            1 if in_ingress => Terminator::Egress,
            _ => Terminator::Goto(after),
        };
        if self.rng.once_in(4) {
            let bytes = Expr::ZeroExtend(Box::new(self.expr(7, &scope, 1)), 32);
            self.push(&mut body, after, Op::Truncate { bytes });
        }
        self.block(name, BlockKind::Control, body, None)
    }

    fn copy(&mut self, rounds: FieldId, scope: &[FieldId]) -> Op {
        let next =
            Expr::Binary(BinaryOp::Add, Box::new(Expr::Field(rounds)), Box::new(Expr::constant(1u32, 8)));
        let mut set = vec![(rounds, next)];
        let mut free = scope.to_vec();
        for _ in 0..self.rng.below(3) {
            let dest = free.swap_remove(self.rng.below(free.len()));
            let value = self.expr(self.p.width(dest), scope, 1);
            set.push((dest, value));
        }
        let keep = match self.rng.once_in(2) {
            true => Keep::All,
            false => Keep::Fields(scope.iter().copied().filter(|_| self.rng.once_in(3)).collect()),
        };
        let replicas = self.rng.once_in(2).then(|| {
            let mut field = || self.rng.once_in(2).then(|| free.swap_remove(self.rng.below(free.len())));
            let (port, instance, class_of_service) = (field(), field(), field());
            let list = *self.rng.pick(&ReplicaList::ALL);
            Replicas {
                list,
                id: Expr::constant(self.rng.range(0, 3) as u32, 16),
                port,
                instance,
                class_of_service,
            }
        });
        let begin = *self.rng.pick(&PipelineHalf::ALL);
        let frame = *self.rng.pick(&CopyFrame::ALL);
        Op::Copy(Box::new(PacketCopy { begin, frame, keep, set, replicas, queue: None }))
    }

    fn deparser(&mut self, name: &str) -> BlockId {
        let scope = self.common.clone();
        let mut body = Cfg::default();
        let mut node = self.node(&mut body);
        let mut headers: Vec<u32> = self.known_headers.clone().map(|h| h as u32).collect();
        for index in 0..headers.len() {
            let other = self.rng.below(headers.len());
            headers.swap(index, other);
        }
        if self.rng.once_in(6) {
            headers.push(*self.rng.pick(&headers));
        }
        for header in headers {
            if self.rng.once_in(6) {
                continue;
            }
            if self.rng.once_in(6) {
                let dest = *self.rng.pick(&scope);
                let value = self.expr(self.p.width(dest), &scope, 3);
                self.push(&mut body, node, Op::Set { dest, value });
            }
            if self.rng.once_in(6) {
                let cond = self.expr(1, &scope, 2);
                let then = self.node(&mut body);
                let after = self.node(&mut body);
                self.push(&mut body, then, Op::Emit { header: HeaderId(header) });
                body.nodes[node.index()].terminator = Terminator::If { cond, then, otherwise: after };
                body.nodes[then.index()].terminator = Terminator::Goto(after);
                node = after;
            } else {
                self.push(&mut body, node, Op::Emit { header: HeaderId(header) });
            }
        }
        if self.rng.once_in(6) {
            self.repeat(&mut body);
        }
        self.block(name, BlockKind::Deparser, body, None)
    }

    fn boxed(&mut self, width: u32, scope: &[FieldId], depth: u32) -> Box<Expr> {
        Box::new(self.expr(width, scope, depth))
    }

    fn expr(&mut self, width: u32, scope: &[FieldId], depth: u32) -> Expr {
        if depth == 0 || self.rng.once_in(4) {
            return self.leaf(width, scope);
        }
        let depth = depth - 1;
        match self.rng.below(12) {
            0 => Expr::Unary(*self.rng.pick(&UnaryOp::ALL), self.boxed(width, scope, depth)),
            1 => {
                let lo = self.rng.below(9) as u32;
                let above = self.rng.below(9) as u32;
                let value = self.boxed(lo + width + above, scope, depth);
                Expr::Slice { value, hi: lo + width - 1, lo }
            }
            2 if width > 1 => {
                let low = self.rng.range(1, width as usize - 1) as u32;
                Expr::Concat(self.boxed(width - low, scope, depth), self.boxed(low, scope, depth))
            }
            3 if width > 1 => {
                let from = self.rng.range(1, width as usize) as u32;
                let value = self.boxed(from, scope, depth);
                if self.rng.once_in(2) {
                    Expr::ZeroExtend(value, width)
                } else {
                    Expr::SignExtend(value, width)
                }
            }
            4 => Expr::Select(
                self.boxed(1, scope, depth),
                self.boxed(width, scope, depth),
                self.boxed(width, scope, depth),
            ),
            5..=7 if width == 1 => {
                use BinaryOp::*;
                let op = *self.rng.pick(&[Eq, Ne, LtU, LeU, LtS, LeS]);
                let width = if self.rng.once_in(2) {
                    self.p.width(*self.rng.pick(scope))
                } else {
                    *self.rng.pick(&WIDTHS)
                };
                Expr::Binary(op, self.boxed(width, scope, depth), self.boxed(width, scope, depth))
            }
            _ => {
                let ops = BinaryOp::ALL;
                let op = *self.rng.pick(&ops);
                let too_wide = match op {
                    BinaryOp::DivU | BinaryOp::RemU => width > 64,
                    BinaryOp::Mul => width > 128,
                    _ => op.is_comparison(),
                };
                if too_wide {
                    return self.expr(width, scope, depth);
                }
                let right = if !op.is_shift() {
                    self.boxed(width, scope, depth)
                } else if self.rng.once_in(2) {
                    Box::new(Expr::constant(self.rng.below(width as usize + 3) % 256, 8))
                } else {
                    let width = *self.rng.pick(&WIDTHS);
                    self.boxed(width, scope, depth)
                };
                Expr::Binary(op, self.boxed(width, scope, depth), right)
            }
        }
    }

    /// Returns a constant, or a field converted to this width.
    fn leaf(&mut self, width: u32, scope: &[FieldId]) -> Expr {
        if self.rng.once_in(4) {
            return Expr::constant(self.rng.value(width), width);
        }
        if !self.columns.is_empty()
            && self.rng.once_in(6)
            && let Some(element) = self.element(width, scope)
        {
            return element;
        }
        let same: Vec<FieldId> = scope.iter().copied().filter(|f| self.p.width(*f) == width).collect();
        if !same.is_empty() && !self.rng.once_in(4) {
            let field = *self.rng.pick(&same);
            let masked = if self.rng.once_in(8) { self.masked(field) } else { None };
            return masked.unwrap_or(Expr::Field(field));
        }
        let field = *self.rng.pick(scope);
        let found = self.p.width(field);
        let value = Box::new(Expr::Field(field));
        if found > width {
            let lo = self.rng.below((found - width) as usize + 1) as u32;
            Expr::Slice { value, hi: lo + width - 1, lo }
        } else if found < width {
            if self.rng.once_in(2) { Expr::ZeroExtend(value, width) } else { Expr::SignExtend(value, width) }
        } else {
            *value
        }
    }
}

/// Generates a frame by walking the first parser like a packet, and choosing its path.
struct Sender<'a> {
    rng: Rng,
    program: &'a Program,
    bits: Vec<bool>,
    /// The position in the frame from which each field was extracted.
    place_of: Vec<Option<usize>>,
}

impl Sender<'_> {
    fn packet(mut self) -> Vec<u8> {
        if let Some(parser) = self.program.ingress.first() {
            self.walk(&self.program.blocks[parser.index()].body);
        }
        self.meet_entries();
        for _ in 0..8 * self.rng.below(40) {
            let bit = self.rng.once_in(2);
            self.bits.push(bit);
        }
        let mut bytes: Vec<u8> = self
            .bits
            .chunks(8)
            .map(|bits| bits.iter().enumerate().fold(0, |byte, (i, bit)| byte | u8::from(*bit) << (7 - i)))
            .collect();
        if self.rng.once_in(8) {
            bytes.truncate(self.rng.below(bytes.len() + 1));
        }
        if self.rng.once_in(8) && !bytes.is_empty() {
            let index = self.rng.below(bytes.len());
            bytes[index] ^= 1 << self.rng.below(8);
        }
        bytes
    }

    /// Appends random bits of this width at `cursor`, where the frame has none yet.
    fn fill(&mut self, cursor: usize, width: u32) {
        if width > 0 && cursor + width as usize > self.bits.len() {
            let value = self.rng.value(width);
            self.bits.truncate(cursor);
            self.bits.extend((0..u64::from(width)).rev().map(|bit| value.bit(bit)));
        }
    }

    fn put(&mut self, place: usize, width: u32, value: &BigUint) {
        for bit in 0..width as usize {
            if let Some(slot) = self.bits.get_mut(place + bit) {
                *slot = value.bit(u64::from(width) - 1 - bit as u64);
            }
        }
    }

    fn walk(&mut self, parser: &Cfg) {
        let mut cursor = 0;
        let mut at = NodeId(0);
        // Enough for every state and a few turns.
        for _ in 0..50 {
            let node = &parser.nodes[at.index()];
            for stmt in &node.stmts {
                let extracted = match &stmt.op {
                    Op::Extract { header, varbit_length } => Some((*header, varbit_length)),
                    Op::ExtractElement { headers, varbit_length, .. } => {
                        Some((*self.rng.pick(headers), varbit_length))
                    }
                    _ => None,
                };
                match &stmt.op {
                    _ if let Some((header, varbit_length)) = extracted => {
                        for f in &self.program.headers[header.index()].fields {
                            let mut width = self.program.width(f.field);
                            if f.varbit_length.is_some() {
                                width = match varbit_length {
                                    Some(Expr::Const { value, .. }) => value.to_u32().unwrap_or(0).min(width),
                                    _ => 8 * self.rng.below(width as usize / 8 + 1) as u32,
                                };
                            } else {
                                self.place_of[f.field.index()] = Some(cursor);
                            }
                            self.fill(cursor, width);
                            cursor += width as usize;
                        }
                    }
                    Op::Lookahead { dest } => {
                        self.place_of[dest.index()] = Some(cursor);
                        self.fill(cursor, self.program.width(*dest));
                    }
                    Op::Advance { bits: Expr::Const { value, .. } } => {
                        let width = value.to_u32().unwrap_or(0).min(4096);
                        self.fill(cursor, width);
                        cursor += width as usize;
                    }
                    _ => {}
                }
            }
            at = match &node.terminator {
                Terminator::Goto(next) | Terminator::Turn { next, .. } => *next,
                Terminator::If { then, otherwise, .. } => *self.rng.pick(&[*then, *otherwise]),
                Terminator::Switch { value, cases, default } => {
                    if cases.is_empty() || self.rng.once_in(4) {
                        *default
                    } else {
                        let (case, next) = self.rng.pick(cases).clone();
                        if let Expr::Field(f) = value
                            && let Some(place) = self.place_of[f.index()]
                        {
                            self.put(place, self.program.width(*f), &case);
                        }
                        next
                    }
                }
                _ => return,
            };
        }
    }

    /// Sets some fields that are keys to values from entries.
    fn meet_entries(&mut self) {
        let program = self.program;
        for node in program.blocks.iter().flat_map(|b| &b.body.nodes) {
            let Terminator::Apply { table, keys, .. } = &node.terminator else { continue };
            let entries = &program.tables[table.index()].entries;
            if entries.is_empty() || self.rng.once_in(3) {
                continue;
            }
            let entry = self.rng.pick(entries);
            for (key, m) in keys.iter().zip(&entry.key) {
                if let Expr::Field(f) = key
                    && let Some(place) = self.place_of[f.index()]
                {
                    let width = program.width(*f);
                    let value = match m {
                        KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => v.clone(),
                        KeyMatch::Lpm { value, prefix_len } => {
                            let rest = (BigUint::one() << (width - prefix_len)) - 1u32;
                            value | (self.rng.value(width) & rest)
                        }
                        KeyMatch::Ternary { value, mask } => {
                            let rest = ((BigUint::one() << width) - 1u32) ^ mask;
                            value | (self.rng.value(width) & rest)
                        }
                        KeyMatch::Range { lo, hi } => if self.rng.once_in(2) { lo } else { hi }.clone(),
                        KeyMatch::Optional(None) => continue,
                    };
                    self.put(place, width, &value);
                }
            }
        }
    }
}
