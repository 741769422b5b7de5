//! Drop reasons.

use crate::Program;

/// A drop reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The program dropped it: an index in [`Program::drop_reasons`].
    Program(u32),
    /// The condition of an `assert` or `assume` was false.
    AssertionFailed,
    /// A deparser that loops emitted more than [`Program::block_emitted_bytes_max`].
    EmitsTooMuch,
    /// One packet led to too many copies.
    TooManyCopies,
    /// Too many copies were waiting in its worker.
    CopiesFull,
    /// Its output queue was full.
    QueueFull,
    /// It was for an output queue that does not exist.
    NoQueue,
}

impl DropReason {
    /// The reasons that are not the program's.
    pub const EXECUTORS: [DropReason; 6] = [
        DropReason::AssertionFailed,
        DropReason::EmitsTooMuch,
        DropReason::TooManyCopies,
        DropReason::QueueFull,
        DropReason::NoQueue,
        DropReason::CopiesFull,
    ];
    /// The highest number of a reason. Higher ones are free for other uses.
    const NUMBER_MAX: u32 = u32::MAX - 1;

    /// Its number in a packet: the index of a reason of the program; else one of the highest numbers.
    pub const fn number(self) -> u32 {
        let behind = match self {
            DropReason::Program(index) => return index,
            DropReason::AssertionFailed => 0,
            DropReason::EmitsTooMuch => 1,
            DropReason::TooManyCopies => 2,
            DropReason::QueueFull => 3,
            DropReason::NoQueue => 4,
            DropReason::CopiesFull => 5,
        };
        DropReason::NUMBER_MAX - behind
    }

    /// The reason with this number.
    pub fn of_number(number: u32) -> DropReason {
        let known = DropReason::EXECUTORS.into_iter().find(|reason| reason.number() == number);
        known.unwrap_or(DropReason::Program(number))
    }

    /// The reason in words.
    pub fn text(self, program: &Program) -> &str {
        match self {
            DropReason::Program(index) => {
                program.drop_reasons.get(index as usize).map_or(self.general_text(), String::as_str)
            }
            _ => self.general_text(),
        }
    }

    /// The reason in words, as far as they do not depend on the program.
    pub const fn general_text(self) -> &'static str {
        match self {
            DropReason::Program(_) => "the program dropped it",
            DropReason::AssertionFailed => "an assert or assume failed",
            DropReason::EmitsTooMuch => "a loop of the deparser emits too many bytes",
            DropReason::TooManyCopies => {
                "one packet led to too many copies (does it recirculate or clone itself forever?)"
            }
            DropReason::CopiesFull => "too many copies are waiting in its worker",
            DropReason::QueueFull => "its output queue is full",
            DropReason::NoQueue => {
                "the output queue does not exist (its priority is too high, or there are too many ports)"
            }
        }
    }
}
