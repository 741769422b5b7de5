//! Generated programs for v1model, with entries and packets that take a mix of their paths.
//!
//! A seed and a shape determine everything. A program parses an acyclic graph of headers and applies tables of all match kinds,
//! whose keys are fields of one header or numbers that earlier actions chose. Its actions write fields, compute, add and remove
//! headers, hash, count, and use registers.
//!
//! Blind spots: header stacks, unions, variable lengths, clones and multicast, meters, action profiles; the programs in
//! `lessons` have some of these.

mod make;
mod text;
mod traffic;

use super::Set;
use crate::random::Random;

/// What is fixed about a generated program.
#[derive(Clone, Copy)]
struct Shape {
    headers: usize,
    tables: usize,
    /// Entries of the largest table.
    entries: usize,
    /// Length of the packets.
    bytes: usize,
}

const fn shape(headers: usize, tables: usize, entries: usize, bytes: usize) -> Shape {
    Shape { headers, tables, entries, bytes }
}

const SHAPES: [Shape; 12] = [
    shape(2, 1, 100_000, 60),
    shape(3, 2, 1000, 60),
    shape(8, 3, 64, 150),
    shape(4, 4, 20_000, 60),
    shape(5, 12, 500, 90),
    shape(6, 6, 5000, 100),
    shape(2, 8, 100, 1500),
    shape(7, 10, 2000, 150),
    shape(3, 5, 50_000, 60),
    shape(8, 12, 10_000, 400),
    shape(4, 1, 4, 60),
    shape(5, 7, 1000, 60),
];

pub(super) fn add(set: &mut Set) {
    for (number, shape) in (1..).zip(SHAPES) {
        let Shape { headers, tables, .. } = shape;
        let name = format!("generated {number}: {headers} headers, {tables} tables");
        set.add_built(&name, move || {
            let mut random = Random::new(0x6765_6e00 + number);
            let model = make::model(&mut random, shape);
            let program = text::program(&model, number);
            let commands = traffic::commands(&mut random, &model);
            let frames = traffic::frames(&mut random, &model);
            (format!("generated_{number}.p4"), program, commands, frames)
        });
    }
}

/// What a field of a header is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Random in packets; actions may write it.
    Free,
    /// A key of tables; only packets determine it.
    Key,
    /// Selects the next header.
    Next,
    /// Always the same.
    Fixed(u128),
    /// The total length and the checksum of IPv4.
    Length,
    Checksum,
}

struct Field {
    name: String,
    bits: u32,
    role: Role,
}

struct Header {
    fields: Vec<Field>,
    /// The next headers with the values of the field that selects them; others end the parser.
    edges: Vec<(u128, usize)>,
    is_ipv4: bool,
}

impl Header {
    fn bytes(&self) -> usize {
        self.fields.iter().map(|field| field.bits as usize).sum::<usize>() / 8
    }

    /// The numbers of fields with this role.
    fn with(&self, role: Role) -> Vec<usize> {
        (0..self.fields.len()).filter(|i| self.fields[*i].role == role).collect()
    }
}

/// Fields of a header that are keys together, and the values that packets have there.
struct Keys {
    header: usize,
    fields: Vec<usize>,
    tuples: Vec<Vec<u128>>,
    /// How many of 100 packets have one of the tuples.
    known_percent: usize,
    is_skewed: bool,
}

/// Where a table's key comes from.
#[derive(Clone, Copy)]
enum Source {
    /// These keys.
    Keys(usize),
    /// A number from 1 on that the table before chose.
    Number,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
}

/// How the value of a parameter is chosen for an entry.
#[derive(Clone, Copy)]
enum Choice {
    Any,
    Port,
    /// From 1 to this number.
    Number(usize),
    Below(usize),
}

struct Action {
    name: String,
    /// Widths.
    params: Vec<(u32, Choice)>,
    body: Vec<String>,
}

struct Table {
    source: Source,
    /// The header whose fields its actions write: the keys' one.
    header: usize,
    kinds: Vec<Kind>,
    entries: usize,
    actions: Vec<Action>,
    /// True if some entries, or a miss, drop packets.
    entries_drop: bool,
    miss_drops: bool,
    is_counted: bool,
    /// A further condition of its application, of which most packets meet some.
    condition: Option<String>,
    /// Statements for packets that do not meet it.
    otherwise: Vec<String>,
    is_egress: bool,
    /// Declarations of its externs.
    externs: Vec<String>,
}

struct Model {
    shape: Shape,
    headers: Vec<Header>,
    /// Headers that only actions make valid: the widths of their fields.
    extras: Vec<Vec<u32>>,
    keys: Vec<Keys>,
    tables: Vec<Table>,
    verifies: bool,
}

/// Widths of the metadata fields `m0`, `m1`, ….
const SCRATCH: [u32; 4] = [16, 32, 48, 64];
/// Width of the numbers that actions choose for the next table.
const NUMBER_BITS: u32 = 24;
