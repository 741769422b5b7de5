//! Checksums over bytes of the frame that an earlier checksum has added up, as when it is verified and later updated. The later one
//! corrects the earlier sum for the changed fields instead of adding up all bytes again.

use super::constants::Constants;
use super::extracts::{Extracts, InFrame};
use super::may_defined::{MayDefined, define};
use crate::graph::{Graph, PerPlace, Place, StatementSite};
use crate::slots::{Slot, SlotSet, summed};
use crate::solver::{self, Budget};
use p4jet_ir::{Expr, FieldId, FieldKind, PipelineHalf};
use std::collections::HashMap;

/// A sum over the frame is corrected for at most this many fields; for more, adding up again is as cheap.
const CHANGED_MAX: usize = 2;
/// If a program has more checksums than this, each is computed separately.
const SUMS_MAX: usize = 64;

/// 2 or 4 bytes of a header in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its offset in bytes: in the frame if the header's offset is fixed, else in the header.
    pub byte: u32,
    /// Its size in bytes.
    pub bytes: u32,
}

/// A part of the data that a checksum adds up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summand {
    /// The argument with this number, followed by this many bits.
    Argument(usize, u32),
    /// These words of the frame, if the header is valid: several arguments, unchanged.
    Frame(InFrame, Vec<Word>),
}

/// The relation of a checksum to another one over the same bytes of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sum {
    /// The sum of the frame's words is kept in this slot.
    Kept(Slot),
    /// The sum is in this slot, and these fields differ from the frame.
    Corrected(Slot, Vec<Changed>),
}

/// A field, whole bytes in one of the words that [`Summand::Frame`] adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The field.
    pub field: FieldId,
    /// Its offset in the frame, in bytes.
    pub byte: u32,
    /// Bytes of the word before it.
    pub before: u32,
}

/// Related checksums, by statement.
pub type Sums = HashMap<StatementSite, Sum>;

/// A checksum over bytes of the frame: its statement, and the fields that may have changed before.
type SumSite = (StatementSite, Vec<Changed>);

/// Finds related checksums, up to [`SUMS_MAX`].
pub fn sums(graph: &Graph, extracts: &Extracts, constants: &Constants, defined: &MayDefined) -> Sums {
    // By what is added up where nothing has changed: the places and statements, and the fields that may have changed.
    let mut sites: Vec<(Vec<Summand>, Vec<SumSite>)> = Vec::new();
    let mut found = 0;
    for place in graph.reached() {
        if found > SUMS_MAX {
            break;
        }
        let (mut set, mut facts) = (defined.before(place).clone(), constants.before(place));
        for (number, stmt) in graph.node(place).stmts.iter().enumerate() {
            if let Some(args) = summed(&stmt.op) {
                let whole = summands(graph, extracts, place, &graph.slots.none(), args);
                let is_valid = |at: InFrame| constants.eval.known_valid(&facts, at.header) == Some(true);
                if let Some(changed) = changed_in(graph, &whole, args, &set, is_valid) {
                    found += 1;
                    let site = (StatementSite::new(place, number), changed);
                    match sites.iter_mut().find(|(of, _)| *of == whole) {
                        Some((_, sites)) => sites.push(site),
                        None => sites.push((whole, vec![site])),
                    }
                }
            }
            constants.eval.learn(&mut facts, &stmt.op);
            define(graph.program, &mut set, &stmt.op);
        }
    }
    let mut sums = HashMap::new();
    // Hot paths may have the same statement more often than there are slots.
    let mut slots = graph.slots.sums();
    for (_, sites) in sites {
        let gives =
            |place: Place| sites.iter().any(|(site, changed)| site.place == place && changed.is_empty());
        let missing = missing_before(graph, constants, gives);
        let is_there = |n: usize| {
            let place = sites[n].0.place;
            !missing[place]
                || sites[..n].iter().any(|(site, changed)| site.place == place && changed.is_empty())
        };
        let Some(slot) = (0..sites.len()).any(is_there).then(|| slots.next()).flatten() else { continue };
        for (n, (site, changed)) in sites.iter().enumerate() {
            match is_there(n) {
                true => sums.insert(*site, Sum::Corrected(slot, changed.clone())),
                false if changed.is_empty() => sums.insert(*site, Sum::Kept(slot)),
                false => None,
            };
        }
    }
    sums
}

/// The summands of `csum16` of `args` where statements may have set the `defined` slots.
pub fn summands(
    graph: &Graph,
    extracts: &Extracts,
    place: Place,
    defined: &SlotSet,
    args: &[Expr],
) -> Vec<Summand> {
    let widths: Vec<u32> = args.iter().map(|a| a.width(graph.program)).collect();
    let mut behind = widths.iter().sum::<u32>().next_multiple_of(16);
    let mut summands = Vec::new();
    let mut i = 0;
    while i < args.len() {
        let run = frame_run(graph, extracts, place, defined, &args[i..], behind);
        let (count, summand) = run.unwrap_or((1, Summand::Argument(i, behind - widths[i])));
        summands.push(summand);
        behind -= widths[i..i + count].iter().sum::<u32>();
        i += count;
    }
    summands
}

/// The number of `args`, from the first on, that are neighbouring header fields whose values the frame still has. They must fill whole
/// 16-bit words of the frame and of the sum; `None` if there are none.
fn frame_run(
    graph: &Graph,
    extracts: &Extracts,
    place: Place,
    defined: &SlotSet,
    args: &[Expr],
    behind: u32,
) -> Option<(usize, Summand)> {
    let in_frame = |arg: &Expr| -> Option<(InFrame, u32)> {
        let Expr::Field(field) = arg else { return None };
        let FieldKind::Header(header) = graph.program.fields[field.index()].kind else { return None };
        let valid = graph.program.headers[header.index()].valid;
        if defined.contains_field(*field) || defined.contains_field(valid) {
            return None;
        }
        Some((extracts.in_frame(graph, place, header, *field)?, graph.program.width(*field)))
    };
    let (first, _) = in_frame(args.first()?)?;
    let start = first.bit;
    let (mut end, mut best) = (start, None);
    for (i, arg) in args.iter().enumerate() {
        match in_frame(arg) {
            Some((at, width)) if at.header == first.header && at.bit == end => end += width,
            _ => break,
        }
        if start.is_multiple_of(8) && (end - start).is_multiple_of(16) && behind.is_multiple_of(16) {
            best = Some((i + 1, end));
        }
    }
    best.map(|(count, end)| (count, Summand::Frame(first, words(start / 8, end / 8))))
}

/// The words in which bytes of the frame are added up.
fn words(begin: u32, end: u32) -> Vec<Word> {
    let word = |byte| Word { byte, bytes: if end - byte >= 4 { 4 } else { 2 } };
    (begin..end).step_by(4).map(word).collect()
}

/// The summed fields that may differ from the frame; `None` if the summands do not have a fixed position in the frame, or if the sum
/// cannot be corrected for these fields.
fn changed_in(
    graph: &Graph,
    whole: &[Summand],
    args: &[Expr],
    defined: &SlotSet,
    is_valid: impl Fn(InFrame) -> bool,
) -> Option<Vec<Changed>> {
    let mut args = args.iter();
    let mut changed = Vec::new();
    for summand in whole {
        let Summand::Frame(from, words) = summand else { return None };
        let valid = graph.program.headers[from.header.index()].valid;
        if !from.is_fixed || defined.contains_field(valid) || !is_valid(*from) {
            return None;
        }
        let mut bit = from.bit;
        let end = from.bit + 8 * words.iter().map(|word| word.bytes).sum::<u32>();
        while bit < end {
            let Expr::Field(field) = args.next()? else { return None };
            let width = graph.program.width(*field);
            if defined.contains_field(*field) {
                let byte = bit / 8;
                let word = words.iter().rfind(|word| word.byte <= byte)?;
                let before = byte - word.byte;
                let fits = before + width / 8 <= word.bytes;
                if !bit.is_multiple_of(8) || !matches!(width, 8 | 16 | 32) || !fits {
                    return None;
                }
                changed.push(Changed { field: *field, byte, before });
            }
            bit += width;
        }
    }
    (!whole.is_empty() && changed.len() <= CHANGED_MAX).then_some(changed)
}

/// True for the places that packets may reach without passing a place for which `gives` is true.
fn missing_before(graph: &Graph, constants: &Constants, gives: impl Fn(Place) -> bool) -> PerPlace<bool> {
    let is_entry = |place: Place| {
        graph.start() == Some(place)
            || graph.has_copies(PipelineHalf::Egress) && graph.entry(PipelineHalf::Egress) == Some(place)
    };
    // A parser error may leave a node before its end.
    let gives_whole =
        |place: Place| gives(place) && !graph.node(place).stmts.iter().any(|stmt| stmt.op.may_reject());
    let mut missing: PerPlace<bool> = graph.places().map(is_entry).collect();
    let solved = solver::forward(
        graph,
        &mut missing,
        graph.reached().filter(|&place| is_entry(place)),
        // A value changes once at most.
        &mut Budget::unlimited(),
        |_| 1,
        |into, from| *from && !std::mem::replace(into, true),
        |place, _, edge| {
            if !gives_whole(place) {
                constants.successors(place).iter().for_each(|&next| edge(next, &true));
            }
        },
    );
    debug_assert!(solved.is_ok(), "the budget has no limit");
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Analyses;
    use crate::graph::Stops;

    const CHECKSUMS: &str = include_str!("checksums.ir");

    /// The sums of the program with a statement between its checksums, after changes of its text.
    fn sums(between: &str, changes: &[(&str, &str)]) -> Vec<Sum> {
        let mut text = CHECKSUMS.replace("CHANGE", between);
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let program = p4jet_ir::text::parse(&text).unwrap();
        let graph = Graph::new(&program, Stops::Nowhere, &[]);
        let analyses = Analyses::new(&graph, &[], &mut Budget::unlimited()).unwrap();
        let mut sums: Vec<_> = analyses.sums.clone().into_iter().collect();
        sums.sort_by_key(|(at, _)| *at);
        sums.into_iter().map(|(_, sum)| sum).collect()
    }

    #[test]
    fn a_sum_over_the_same_bytes_is_kept_and_corrected() {
        let slot = |sums: &[Sum]| match sums.first() {
            Some(Sum::Kept(slot)) => *slot,
            _ => panic!("{sums:?}"),
        };
        let found = sums("h.a = 0x1:8", &[]);
        let a = Changed { field: FieldId(1), byte: 0, before: 0 };
        assert_eq!(found[1..], [Sum::Corrected(slot(&found), vec![a])]);
        let found = sums("h.e = 0x1:16", &[]);
        let e = Changed { field: FieldId(6), byte: 10, before: 0 };
        assert_eq!(found[1..], [Sum::Corrected(slot(&found), vec![e])]);
    }

    #[test]
    fn a_sum_is_not_kept_if_it_cannot_be_corrected_or_may_be_missing() {
        // A 24-bit field is no machine word.
        let widths = [("h.b: 16", "h.b: 24"), ("h.c: 8", "h.c: 16")];
        assert_eq!(sums("h.b = 0x1:24", &widths), []);
        // The bytes differ.
        let fewer =
            ("h.sum = call csum16(h.a, h.b, h.c, h.d, h.e)", "h.sum = call csum16(h.a, h.b, h.c, h.d)");
        assert_eq!(sums("h.a = 0x1:8", &[fewer]), []);
        // One path bypasses the first checksum.
        let bypass = [("then n1 else n3", "then n5 else n3"), BYPASS];
        assert_eq!(sums("h.a = 0x1:8", &bypass), []);
        // The header may be invalid.
        assert_eq!(sums("h.a = 0x1:8", &[("drop \"no header\"", "return")]), []);
    }

    /// Adds a node that skips the first checksum for some packets.
    const BYPASS: (&str, &str) = (
        "  n4:\n    return\n}\nblock \"change\"",
        "  n4:\n    return\n  n5:\n    if eq(h.a, 0x2:8) then n1 else n4\n}\nblock \"change\"",
    );
}
