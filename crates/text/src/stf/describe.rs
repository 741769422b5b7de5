//! Describes the packets that did not leave as expected.

use super::decode::{Differences, differences};
use super::mismatch::{Input, Mismatch, MismatchKind, Sent};
use super::replay::{Fresh, Replay};
use super::report::{Failure, compare, hex, show_frame};
use super::script::{Pattern, Statement};
use p4jet_control::count;
use p4jet_dataplane::Processed;
use std::collections::BTreeSet;

/// Maximum number of traces in one outcome, because they are long.
const TRACES_MAX: usize = 2;

/// Maximum number of packets that are replayed to find their headers.
const REPLAYED_MAX: usize = 64;

/// Maximum bytes of an unexpected packet in a one-line message.
const MESSAGE_BYTES_MAX: usize = 32;

/// The outcome of a packet, for messages.
pub(super) fn fate(processed: &Processed) -> String {
    let left = match processed.sent.as_slice() {
        [] => None,
        [(port, _)] => Some(format!("left by port {port}")),
        sent => {
            let ports: Vec<_> = sent.iter().map(|(port, _)| port.to_string()).collect();
            Some(format!("left by ports {}", ports.join(", ")))
        }
    };
    let dropped = match processed.dropped.as_slice() {
        [] => None,
        reasons => Some(format!("was dropped: {}", reasons.join("; "))),
    };
    match (left, dropped) {
        (None, None) => "went nowhere".to_string(),
        (Some(fate), None) | (None, Some(fate)) => fate,
        (Some(left), Some(dropped)) => format!("{left}; a copy {dropped}"),
    }
}

/// Describes each mismatch. If there are any, and `fresh` is given, the script is replayed to find
/// the headers and traces of the packets.
pub(super) fn describe(
    mismatches: Vec<Mismatch<'_>>,
    inputs: &[Input],
    script: &[Statement],
    fresh: Option<Fresh<'_>>,
) -> Vec<Failure> {
    let mut wanted: Vec<usize> = Vec::new();
    for input in mismatches.iter().filter_map(Mismatch::input) {
        if wanted.len() < REPLAYED_MAX && !wanted.contains(&input) {
            wanted.push(input);
        }
    }
    let (mut replay, mut why_not) = (None, None);
    if let Some(fresh) = fresh
        && !wanted.is_empty()
    {
        match Replay::new(script, &wanted, fresh) {
            Ok(replayed) => replay = Some(replayed),
            Err(why) => why_not = Some(why),
        }
    }
    let teller = Teller { inputs, replay: replay.as_ref() };
    let mut traced = BTreeSet::new();
    let mut failures = Vec::new();
    for mismatch in &mismatches {
        let (message, mut detail) = teller.mismatch(mismatch);
        if let Some(why) = why_not.take() {
            detail += &format!("  no trace: {why}\n");
        }
        if let Some(input) = mismatch.input()
            && traced.len() < TRACES_MAX
            && traced.insert(input)
        {
            detail += &teller.trace(input);
        }
        failures.push(Failure { line: mismatch.line, message, detail });
    }
    failures
}

struct Teller<'a> {
    inputs: &'a [Input],
    replay: Option<&'a Replay>,
}

impl Teller<'_> {
    /// The fault in one line, and the lines that show it.
    fn mismatch(&self, mismatch: &Mismatch<'_>) -> (String, String) {
        let place = format!("port {}, packet {}", mismatch.port, mismatch.index + 1);
        match &mismatch.kind {
            MismatchKind::Differs(pattern, sent, other) => {
                let (what, detail) = self.compare(pattern, sent);
                let hint = match other {
                    Some(line) => format!("; it is what line {line} expects"),
                    None => String::new(),
                };
                (format!("{place}: {what}{hint}"), detail)
            }
            MismatchKind::Missing { pattern, instead, input } => {
                let none = format!("{place}: expected a packet, none came");
                let Some((port, sent)) = instead else {
                    let input = input.map(|i| &self.inputs[i]);
                    let fate = input.map_or(String::new(), |i| {
                        format!(" (the packet of line {} {})", i.line, fate(&i.processed))
                    });
                    return (none + &fate, String::new());
                };
                let line = self.inputs[sent.input].line;
                match pattern.map(|pattern| (pattern, compare(pattern, &sent.frame))) {
                    Some((pattern, Some(_))) => {
                        let (_, detail) = self.compare(pattern, sent);
                        let fate = fate(&self.inputs[sent.input].processed);
                        let heading = format!("  compared with what left by port {port}:\n");
                        (format!("{none} (the packet of line {line} {fate})"), heading + &detail)
                    }
                    _ => {
                        let message =
                            format!("{none} (the packet of line {line} left by port {port} instead)");
                        (message, String::new())
                    }
                }
            }
            MismatchKind::Extra(sent) => {
                let came = self.came(&place, sent);
                (format!("expected no more packets, but {came}"), show_frame(&sent.frame))
            }
            MismatchKind::Unwanted(sent) => {
                let came = self.came(&place, sent);
                (format!("expected no packet, but {came}"), show_frame(&sent.frame))
            }
        }
    }

    fn came(&self, place: &str, sent: &Sent) -> String {
        let shown = &sent.frame[..sent.frame.len().min(MESSAGE_BYTES_MAX)];
        let dots = if shown.len() < sent.frame.len() { "..." } else { "" };
        let line = self.inputs[sent.input].line;
        format!("{place}: {}{dots} came (from the packet of line {line})", hex(shown))
    }

    /// The difference between a packet and the pattern: in terms of the program's headers, if their positions are known.
    fn compare(&self, pattern: &Pattern, sent: &Sent) -> (String, String) {
        let Some(difference) = compare(pattern, &sent.frame) else {
            return Default::default();
        };
        let Some(Differences { found, headers_differ, text }) = self.differences(pattern, sent) else {
            return (difference.message, difference.detail);
        };
        // If bytes are only missing or added at the end, no more is known.
        let message = match found.split_first() {
            Some((first, [])) if headers_differ || !difference.length_only => first.clone(),
            Some((first, more)) if headers_differ || !difference.length_only => {
                format!("{first}, and {}", count(more.len(), "more difference"))
            }
            _ => difference.message,
        };
        (message, difference.detail + &text)
    }

    fn differences(&self, pattern: &Pattern, sent: &Sent) -> Option<Differences> {
        let replay = self.replay?;
        let replayed = replay.packets.get(&sent.input)?;
        let (_, frame) = replayed.processed.sent.get(sent.output)?;
        // If the engines' lengths differ, their headers may differ, too.
        if frame.len() != sent.frame.len() {
            return None;
        }
        let got = replayed.layouts.get(sent.output)?;
        // The expected packet may have other headers. They are used if the program's parser understands packets that leave.
        let port = self.inputs[sent.input].port;
        let understood = replay.arriving(port, &sent.frame).is_some_and(|layout| layout == *got);
        let expected = if understood { replay.arriving(port, &filled(pattern, &sent.frame)) } else { None };
        let expected = expected.as_ref().unwrap_or(got);
        Some(differences(replay.program(), pattern, expected, &sent.frame, got))
    }

    /// The trace of a packet.
    fn trace(&self, input: usize) -> String {
        let Some(replayed) = self.replay.and_then(|replay| replay.packets.get(&input)) else {
            return String::new();
        };
        let before = &self.inputs[input];
        let mut text = format!("  trace of the packet of line {}:\n", before.line);
        for line in replayed.trace.lines() {
            text += &format!("    {line}\n");
        }
        if replayed.processed != before.processed {
            let (again, before) = (fate(&replayed.processed), fate(&before.processed));
            let other = if again == before { ", with other bytes" } else { "" };
            text += &format!(
                "  note: the trace is of the interpreter, where the packet {again}; in the test it {before}{other}\n"
            );
        }
        text
    }
}

/// A frame with the values of the pattern; where the pattern is open, the received ones.
fn filled(pattern: &Pattern, got: &[u8]) -> Vec<u8> {
    let mut frame = got.to_vec();
    frame.resize(frame.len().max(pattern.nibbles.len().div_ceil(2)), 0);
    if pattern.exact {
        frame.truncate(pattern.nibbles.len().div_ceil(2));
    }
    for (i, nibble) in pattern.nibbles.iter().enumerate() {
        if let Some(nibble) = nibble {
            let (byte, high) = (&mut frame[i / 2], i.is_multiple_of(2));
            *byte = if high { *byte & 0x0f | nibble << 4 } else { *byte & 0xf0 | nibble };
        }
    }
    frame
}
