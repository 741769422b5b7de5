//! Packets that did not leave as expected.

use super::script::Pattern;
use p4jet_dataplane::Processed;

/// A packet of the script.
pub(super) struct Input {
    pub line: usize,
    pub port: u32,
    /// Its outcome.
    pub processed: Processed,
}

/// A packet that left.
#[derive(Clone)]
pub(super) struct Sent {
    /// Index of the packet from which it originated.
    pub input: usize,
    /// Its number among the packets with this origin.
    pub output: usize,
    pub frame: Vec<u8>,
}

/// A fault among the packets of a port.
pub(super) struct Mismatch<'a> {
    /// The line with the expectation; without one, the line of the packet.
    pub line: usize,
    pub port: u32,
    /// The number of the packet on the port.
    pub index: usize,
    pub kind: MismatchKind<'a>,
}

pub(super) enum MismatchKind<'a> {
    /// The packet differs. The line that expects exactly this packet, if there is one.
    Differs(&'a Pattern, Sent, Option<usize>),
    /// No packet left. The port where one like it left instead; otherwise the packet from which it should originate, with its packets
    /// that left by a port without expectations.
    Missing { pattern: Option<&'a Pattern>, instead: Option<(u32, Sent)>, input: Option<usize> },
    /// One packet too many left.
    Extra(Sent),
    /// A packet left before a line that expects none.
    Unwanted(Sent),
}

impl Mismatch<'_> {
    /// The packet concerned.
    pub fn input(&self) -> Option<usize> {
        match &self.kind {
            MismatchKind::Differs(_, sent, _) | MismatchKind::Extra(sent) | MismatchKind::Unwanted(sent) => {
                Some(sent.input)
            }
            MismatchKind::Missing { instead: Some((_, sent)), .. } => Some(sent.input),
            MismatchKind::Missing { input, .. } => *input,
        }
    }
}
