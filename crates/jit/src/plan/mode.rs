//! The choice between optimised and quick compilation. It depends on the size of the emitted functions, so it is the last decision.

use std::fmt;

/// Functions of more instructions than this are compiled quickly. The optimising allocator's time grows faster than linearly with
/// the function's size. The gateway's largest function has 4,500 instructions.
const OPTIMISED_INSTRUCTIONS_MAX: usize = 8_000;

/// The same limit for recompilation, for which packets do not wait.
const OPTIMISED_INSTRUCTIONS_MAX_SEEN: usize = 40_000;

/// Instructions of all functions together that are optimised, the smallest functions first: a second. Functions as large as the
/// last one that fits are optimised too, so that equal functions are treated alike; only [`crate::INSTRUCTIONS_MAX`] bounds these.
/// The gateway has 20,000.
const OPTIMISED_TOTAL_MAX: usize = 64_000;

/// Values that are passed to blocks, counted on each edge, beyond which a function is compiled quickly.
const OPTIMISED_PASSED_MAX: usize = 40_000;

/// The compilation of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Optimisation, and the backtracking register allocator.
    Optimised,
    /// No optimisation, and the single-pass register allocator. Before that, parameters of blocks and values that are live across
    /// many blocks move to the stack: `constant_params`, `memory_params`, `long_ranges`.
    Quick(Excess),
}

/// The reason for quick compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The function has too many instructions, or all functions together have.
    Instructions,
    /// The function passes too many values to blocks.
    Passed,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Mode::Optimised => return f.write_str("compile with optimisation"),
            Mode::Quick(Excess::Instructions) => "too many instructions",
            Mode::Quick(Excess::Passed) => "too many values passed to blocks",
        };
        write!(f, "compile quickly, with block parameters and long-lived values on the stack: {why}")
    }
}

/// The limits of optimised compilation for the functions of one program.
#[derive(Clone, Copy, Debug)]
pub struct ModeLimits {
    instructions_max: usize,
}

impl ModeLimits {
    /// The limits for functions of these sizes. `requested` replaces the limit of instructions; `is_recompiled`: packets do not
    /// wait for the code.
    pub fn new(mut sizes: Vec<usize>, requested: Option<usize>, is_recompiled: bool) -> ModeLimits {
        let most = requested.unwrap_or(match is_recompiled {
            true => OPTIMISED_INSTRUCTIONS_MAX_SEEN,
            false => OPTIMISED_INSTRUCTIONS_MAX,
        });
        sizes.sort_unstable();
        let mut total = 0;
        let fits = |size: &&usize| {
            total += **size;
            **size <= most && total <= OPTIMISED_TOTAL_MAX.max(most)
        };
        ModeLimits { instructions_max: sizes.iter().take_while(fits).last().copied().unwrap_or(0) }
    }

    /// The compilation of a function of this size that passes this many values to blocks.
    pub fn mode(self, size: usize, passed: usize) -> Mode {
        match () {
            () if size > self.instructions_max => Mode::Quick(Excess::Instructions),
            () if passed > OPTIMISED_PASSED_MAX => Mode::Quick(Excess::Passed),
            () => Mode::Optimised,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_functions_come_first() {
        let limits = ModeLimits::new(vec![7_000; 9].into_iter().chain([9_000, 2_000]).collect(), None, false);
        assert_eq!(limits.mode(2_000, 0), Mode::Optimised);
        assert_eq!(limits.mode(9_000, 0), Mode::Quick(Excess::Instructions));
        assert_eq!(limits.mode(2_000, 40_001), Mode::Quick(Excess::Passed));
        let recompiled = ModeLimits::new(vec![9_000, 2_000], None, true);
        assert_eq!(recompiled.mode(9_000, 0), Mode::Optimised);
        let requested = ModeLimits::new(vec![9_000, 2_000], Some(0), true);
        assert_eq!(requested.mode(2_000, 0), Mode::Quick(Excess::Instructions));
        // Functions of one size are treated alike, even beyond the limit of all together.
        let many = ModeLimits::new(vec![8_000; 9], None, false);
        assert_eq!(many.mode(8_000, 0), Mode::Optimised);
    }
}
