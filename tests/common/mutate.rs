//! Random edits of words, lines and bytes that preserve most of the structure of a text. Equal seeds give equal edits.

use std::ops::Range;

/// xorshift64*: repeatable pseudo-random numbers.
pub struct Random(pub u64);

impl Random {
    /// Creates a generator from any number; adjacent numbers do not produce similar sequences.
    pub fn from_number(number: u64) -> Random {
        let mut random = Random(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1));
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound.max(1)
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// The vocabulary of a language.
pub struct Vocabulary {
    /// Words that change the meaning of a text more often than others.
    pub spices: &'static [&'static str],
    /// Sets of words that the grammar allows in each other's place.
    pub kinds: &'static [&'static [&'static str]],
    /// Words that are not names.
    pub keywords: &'static [&'static str],
    /// The end of a line that contains a whole statement.
    pub line_end: &'static str,
}

/// Edits `text`, possibly inserting pieces of `other`.
pub fn mutate(random: &mut Random, text: &str, other: &str, vocabulary: &Vocabulary) -> String {
    match random.below(10) {
        0..=5 => mutate_gently(random, text, vocabulary),
        6..=7 => {
            let mut words = pieces(text);
            mutate_words(random, &mut words, &pieces(other), vocabulary);
            words.concat()
        }
        8 => mutate_lines(random, text, None),
        _ => {
            let mut bytes = text.as_bytes().to_vec();
            mutate_bytes(random, &mut bytes, other.as_bytes());
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }
}

/// Joins the start of one text and the end of another, split between words.
pub fn splice(random: &mut Random, a: &str, b: &str) -> String {
    let (a, b) = (pieces(a), pieces(b));
    let (end, start) = (random.below(a.len() + 1), random.below(b.len() + 1));
    a[..end].concat() + &b[start..].concat()
}

/// Splits a text into types with a width, words, numbers, white space and single other characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut length =
            if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        if matches!(&rest[..length], "bit" | "varbit") {
            length = rest.find('>').map_or(length, |end| end + 1);
        }
        if OPERATORS.iter().any(|o| rest.starts_with(o)) {
            length = 2;
        }
        let (piece, after) = rest.split_at(length);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

const OPERATORS: &[&str] = &["==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "++"];

fn is_word(piece: &str) -> bool {
    piece.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn range(random: &mut Random, length: usize, longest: usize) -> Range<usize> {
    let start = random.below(length + 1);
    start..(start + random.below(longest + 1)).min(length)
}

/// Replaces, deletes, duplicates, moves, swaps or inserts some words.
fn mutate_words<'a>(
    random: &mut Random,
    words: &mut Vec<&'a str>,
    others: &[&'a str],
    vocabulary: &Vocabulary,
) {
    for _ in 0..1 + random.below(3) {
        let range = range(random, words.len(), 12);
        let to = random.below(words.len() + 1);
        match random.below(9) {
            // Replaces a word by another one of the same program: most of these still parse.
            0..=2 => {
                let positions: Vec<usize> = (0..words.len()).filter(|&i| is_word(words[i])).collect();
                if !positions.is_empty() {
                    let (at, from) = (random.pick(&positions), random.pick(&positions));
                    words[at] = words[from];
                }
            }
            3 if !words.is_empty() => {
                let at = random.below(words.len());
                words[at] = random.pick(vocabulary.spices);
            }
            4 => words.insert(to, random.pick(vocabulary.spices)),
            5 => drop(words.drain(range)),
            6 => {
                let copy = words[range].to_vec();
                words.splice(to..to, copy);
            }
            7 if range.end > range.start => words.swap(range.start, range.end - 1),
            _ => {
                let from = self::range(random, others.len(), 12);
                words.splice(to..to, others[from].to_vec());
            }
        }
    }
}

fn mutate_bytes(random: &mut Random, bytes: &mut Vec<u8>, others: &[u8]) {
    for _ in 0..1 + random.below(4) {
        let range = range(random, bytes.len(), 40);
        let to = random.below(bytes.len() + 1);
        match random.below(6) {
            0 => drop(bytes.drain(range)),
            1 => {
                let copy = bytes[range].to_vec();
                bytes.splice(to..to, copy);
            }
            2 if range.end > range.start => bytes.swap(range.start, range.end - 1),
            3 => {
                let from = self::range(random, others.len(), 40);
                bytes.splice(to..to, others[from].to_vec());
            }
            4 if !bytes.is_empty() => {
                let at = random.below(bytes.len());
                bytes[at] = random.below(256) as u8;
            }
            _ => bytes.truncate(bytes.len() - random.below(bytes.len() / 4 + 1)),
        }
    }
}

/// Deletes, duplicates or swaps lines; with `line_end`, only lines that contain one whole statement or declaration.
fn mutate_lines(random: &mut Random, text: &str, line_end: Option<&str>) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for _ in 0..1 + random.below(if line_end.is_some() { 2 } else { 4 }) {
        let whole = |l: &str| {
            let closed = !l.contains('}') && l.matches('(').count() == l.matches(')').count();
            line_end.is_none_or(|end| l.ends_with(end) && closed)
        };
        let places: Vec<usize> = (0..lines.len()).filter(|&i| whole(lines[i])).collect();
        if places.is_empty() {
            break;
        }
        let (from, to) = (random.pick(&places), random.pick(&places));
        match random.below(3) {
            0 => lines.swap(from, to),
            1 => drop(lines.remove(from)),
            _ => lines.insert(to, lines[from]),
        }
    }
    lines.join("\n")
}

const NUMBERS: &[&str] =
    &["0", "1", "2", "7", "31", "32", "33", "64", "65", "255", "256", "511", "65536", "8w255", "8s127"];

/// Makes a change after which most texts still parse: replaces a word by another of the same kind or a number by an
/// unusual one, or deletes, duplicates or moves a statement.
fn mutate_gently(random: &mut Random, text: &str, vocabulary: &Vocabulary) -> String {
    if random.below(3) == 0 {
        return mutate_lines(random, text, Some(vocabulary.line_end));
    }
    let mut words = pieces(text);
    let starts = |w: &str, digit: bool| w.chars().next().is_some_and(|c| c.is_ascii_digit() == digit);
    let is_number = |w: &str| is_word(w) && starts(w, true);
    let is_name = |w: &str| is_word(w) && starts(w, false) && !vocabulary.keywords.contains(&w);
    let pick = |random: &mut Random, words: &[&str], wanted: &dyn Fn(&str) -> bool| {
        let places: Vec<usize> = (0..words.len()).filter(|&i| wanted(words[i])).collect();
        (!places.is_empty()).then(|| random.pick(&places))
    };
    for _ in 0..1 + random.below(2) {
        match random.below(3) {
            0 => {
                let (at, from) = (pick(random, &words, &is_name), pick(random, &words, &is_name));
                if let (Some(at), Some(from)) = (at, from) {
                    words[at] = words[from];
                }
            }
            1 => {
                if let Some(at) = pick(random, &words, &is_number) {
                    words[at] = random.pick(NUMBERS);
                }
            }
            _ if vocabulary.kinds.is_empty() => {}
            _ => {
                let kind = random.pick(vocabulary.kinds);
                if let Some(at) = pick(random, &words, &|w| kind.contains(&w)) {
                    words[at] = random.pick(kind);
                }
            }
        }
    }
    words.concat()
}
