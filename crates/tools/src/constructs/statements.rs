//! The statements that assign or add whole headers.
//!
//! An assignment of a header becomes one `Set` for each field, of which passes may remove some. So they are recognised before
//! the passes, by their source place and the header that they set.

use p4jet_ir::{Expr, FieldId, FieldKind, HeaderField, HeaderId, Loc, Op, Program, Stmt};
use std::collections::{HashMap, HashSet};

/// What a statement does to a whole header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// It assigns one of these headers, which have the same type: all fields, and the validity.
    Assigned(Vec<HeaderId>),
    /// `setValid`: all fields become 0 if the header is invalid.
    Added,
}

/// Statements by place and the header that they set.
#[derive(Default)]
pub(super) struct Statements {
    whole: HashMap<(Loc, HeaderId), Whole>,
    /// For assigned headers: headers that the same statement makes invalid. A pass may remove that, because another statement
    /// makes them valid again.
    emptied: HashMap<(Loc, HeaderId), Vec<HeaderId>>,
}

impl Statements {
    /// Returns what the statement at this place does to the whole header.
    pub fn whole(&self, loc: Loc, header: HeaderId) -> Option<&Whole> {
        self.whole.get(&(loc, header))
    }

    /// Returns the headers that the statement that assigns `header` makes invalid.
    pub fn emptied(&self, loc: Loc, header: HeaderId) -> &[HeaderId] {
        self.emptied.get(&(loc, header)).map_or(&[], Vec::as_slice)
    }
}

/// Finds the statements of a program, which no pass has changed.
pub(super) fn of(program: &Program) -> Statements {
    let mut found = Statements::default();
    for node in program.cfgs().flat_map(|id| &program.cfg(id).nodes) {
        for stmts in node.stmts.chunk_by(|a, b| a.loc == b.loc) {
            one(program, stmts, &mut found);
        }
    }
    found
}

/// The values that a statement gives to a header.
#[derive(Default)]
struct Given<'a> {
    valid: Option<&'a Expr>,
    fields: HashMap<FieldId, &'a Expr>,
}

/// Examines one statement of the source.
fn one(program: &Program, stmts: &[Stmt], found: &mut Statements) {
    let mut temporaries: HashMap<FieldId, &Expr> = HashMap::new();
    let mut given: HashMap<HeaderId, Given> = HashMap::new();
    for stmt in stmts {
        let (dests, value) = match &stmt.op {
            Op::Set { dest, value } => (std::slice::from_ref(dest), value),
            Op::SetElement { column, value, .. } => (&column[..], value),
            _ => continue,
        };
        for dest in dests {
            match program.fields[dest.index()].kind {
                FieldKind::Temporary => _ = temporaries.insert(*dest, value),
                FieldKind::Valid(header) => given.entry(header).or_default().valid = Some(value),
                FieldKind::Header(header) => {
                    given.entry(header).or_default().fields.insert(*dest, value);
                }
                FieldKind::Metadata | FieldKind::ActionData(_) => {}
            }
        }
    }
    let loc = stmts[0].loc;
    let is_emptied = |given: &Given| given.valid.is_some_and(is_zero);
    let emptied = given.iter().filter(|(_, given)| is_emptied(given)).map(|(header, _)| *header);
    let emptied: Vec<HeaderId> = emptied.collect();
    for (header, given) in given {
        let Some(whole) = whole(program, &temporaries, header, &given) else { continue };
        if !emptied.is_empty() && matches!(whole, Whole::Assigned(_)) {
            found.emptied.insert((loc, header), emptied.clone());
        }
        found.whole.insert((loc, header), whole);
    }
}

fn whole(
    program: &Program,
    temporaries: &HashMap<FieldId, &Expr>,
    header: HeaderId,
    given: &Given,
) -> Option<Whole> {
    let fields = &program.headers[header.index()].fields;
    let values: Vec<&Expr> =
        fields.iter().map(|field| given.fields.get(&field.field).copied()).collect::<Option<_>>()?;
    let valid = meant(temporaries, given.valid?);
    if let Expr::Const { value: valid, .. } = valid {
        let kept_or_zero = |(value, field): (&&Expr, &HeaderField)| match meant(temporaries, value) {
            Expr::Select(_, kept, otherwise) => {
                is_zero(otherwise) && fields_of(temporaries, kept).contains(&field.field)
            }
            _ => false,
        };
        let added = valid.bit(0) && values.iter().zip(fields).all(kept_or_zero);
        return added.then_some(Whole::Added);
    }
    let from: Vec<HashSet<FieldId>> = values.iter().map(|value| fields_of(temporaries, value)).collect();
    let mut sources: Vec<HeaderId> = fields_of(temporaries, valid)
        .into_iter()
        .filter_map(|field| match program.fields[field.index()].kind {
            FieldKind::Valid(source) if source != header => Some(source),
            _ => None,
        })
        .filter(|source| {
            let theirs = &program.headers[source.index()].fields;
            theirs.len() == from.len() && theirs.iter().zip(&from).all(|(f, from)| from.contains(&f.field))
        })
        .collect();
    sources.sort_unstable();
    (!sources.is_empty()).then_some(Whole::Assigned(sources))
}

/// Returns the expression of a temporary that the same statement sets.
fn meant<'a>(temporaries: &HashMap<FieldId, &'a Expr>, expr: &'a Expr) -> &'a Expr {
    match expr {
        Expr::Field(field) => temporaries.get(field).copied().unwrap_or(expr),
        _ => expr,
    }
}

fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::Const { value, .. } if value.bits() == 0)
}

/// Returns the fields that an expression reads, also those from which the same statement computes temporaries.
fn fields_of(temporaries: &HashMap<FieldId, &Expr>, expr: &Expr) -> HashSet<FieldId> {
    let mut fields = HashSet::new();
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        expr.for_each_field(&mut |field| {
            if fields.insert(field) {
                open.extend(temporaries.get(&field));
            }
        });
    }
    fields
}
