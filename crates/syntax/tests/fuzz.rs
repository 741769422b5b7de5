//! Mutated programs: whatever the text, the parser answers, soon, and its spans lie in the sources.
//!
//! The seed is fixed, so that a failure repeats; the failing text is printed. Blind spot: deep structure, which
//! mutation destroys before it builds; `hostile.rs` is for that.

use p4jet_syntax::{Options, parse_text, render};
use std::time::{Duration, Instant};

const PROGRAMS: &[&str] = &[
    include_str!("golden/parse/declarations.p4"),
    include_str!("golden/parse/expressions.p4"),
    include_str!("golden/parse/statements.p4"),
    include_str!("golden/parse/annotations.p4"),
    include_str!("golden/parse/preprocessor.p4"),
    include_str!("golden/errors/several_errors.p4"),
    include_str!("golden/errors/directives.p4"),
];

const PROGRAMS_TRIED: usize = 5_000;
const DEADLINE_EACH: Duration = Duration::from_secs(2);

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    fn range(&mut self, length: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..(start + self.below(longest + 1)).min(length)
    }
}

/// Words, blanks and single other characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length =
            if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (piece, after) = rest.split_at(length);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Deletes, doubles, moves or swaps some of `items`, or puts in some of `others`.
fn mutate<T: Clone>(random: &mut Random, items: &mut Vec<T>, others: &[T], longest: usize) {
    for _ in 0..1 + random.below(4) {
        let range = random.range(items.len(), longest);
        let to = random.below(items.len() + 1);
        match random.below(5) {
            0 => drop(items.drain(range)),
            1 => {
                let copy = items[range].to_vec();
                items.splice(to..to, copy);
            }
            2 if range.end > range.start => items.swap(range.start, range.end - 1),
            3 => {
                let from = random.range(others.len(), longest);
                items.splice(to..to, others[from].to_vec());
            }
            _ => items.truncate(items.len() - random.below(items.len() / 4 + 1)),
        }
    }
}

fn check(text: &str) {
    let start = Instant::now();
    let options =
        Options { builtins: vec![("core.p4", include_str!("golden/core.p4"))], ..Options::default() };
    let result = std::panic::catch_unwind(|| {
        let parsed = parse_text("fuzz.p4", text, &options);
        for diagnostic in &parsed.diagnostics {
            let file = &parsed.sources.files[diagnostic.span.file.0 as usize];
            assert!(diagnostic.span.lo <= diagnostic.span.hi);
            assert!(diagnostic.span.hi as usize <= file.text.len());
        }
        render(&parsed.diagnostics, &parsed.sources, false)
    });
    let slow = start.elapsed() > DEADLINE_EACH;
    assert!(result.is_ok() && !slow, "panic or too slow ({:?}) on:\n{text}", start.elapsed());
}

#[test]
fn mutated_programs_get_an_answer() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..PROGRAMS_TRIED {
        let program = PROGRAMS[random.below(PROGRAMS.len())];
        let other = PROGRAMS[random.below(PROGRAMS.len())];
        if random.below(2) == 0 {
            let mut bytes = program.as_bytes().to_vec();
            mutate(&mut random, &mut bytes, other.as_bytes(), 40);
            if random.below(4) == 0 && !bytes.is_empty() {
                let at = random.below(bytes.len());
                bytes[at] = random.below(256) as u8;
            }
            check(&String::from_utf8_lossy(&bytes));
        } else {
            let mut words = pieces(program);
            mutate(&mut random, &mut words, &pieces(other), 30);
            check(&words.concat());
        }
    }
}
