//! Chooses the bits by which to cut a set of rules.

/// A cut: some bits of one dimension select the child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub dim: u32,
    /// Position of the lowest bit.
    pub shift: u32,
    /// Number of bits.
    pub bits: u32,
    /// A rule that belongs to more than `1 << spread` children goes to the rest instead.
    pub spread: u32,
}

/// Maximum number of bits of a cut.
const BITS_MAX: u32 = 11;
/// Maximum number of rules that are examined to choose a cut.
const SAMPLE: usize = 256;
const SPREADS: [u32; 2] = [0, 2];

/// Cost of a step from a node to its child, in nanoseconds; a rough value, like all costs here.
const STEP: f32 = 4.0;
/// Cost of storing every rule in one more child, because memory accesses are slow too.
const COPY: f32 = 2.0;

/// Returns the cost of a search among this many rules.
fn cost(rules: f32) -> f32 {
    if rules <= 0.0 {
        0.0
    } else if rules <= 1.0 {
        3.0
    } else if rules <= 8.0 {
        6.0
    } else if rules <= 16.0 {
        9.0
    } else {
        9.0 + 6.0 * (rules / 16.0).log2()
    }
}

/// One dimension of a rule.
pub(super) type Span = (u32, u32);

/// Where a rule goes: the children in `first`, and others that only [`Self::each`] enumerates.
#[derive(Clone, Copy)]
pub(super) struct Children {
    first: u32,
    /// Ternary: the bits that are wild. Range: the number of further children.
    more: u32,
    range: bool,
    mask: u32,
}

impl Children {
    #[inline]
    pub fn of(cut: &Cut, (low, high): Span, range: bool) -> Children {
        let mask = (1 << cut.bits) - 1;
        let first = low >> cut.shift & mask;
        let more = if range {
            (((u64::from(low) + u64::from(high)) >> cut.shift) as u32 - (low >> cut.shift)).min(mask)
        } else {
            !(high >> cut.shift) & mask
        };
        Children { first, more, range, mask }
    }

    /// Log2 of the number of children, rounded up.
    #[inline]
    pub fn log(&self) -> u32 {
        if self.range { 32 - self.more.leading_zeros() } else { self.more.count_ones() }
    }

    #[inline]
    pub fn each(&self, mut f: impl FnMut(u32)) {
        if self.range {
            (0..=self.more).for_each(|i| f((self.first + i) & self.mask));
            return;
        }
        let mut any = self.more;
        loop {
            f(self.first | any);
            if any == 0 {
                break;
            }
            any = (any - 1) & self.more;
        }
    }
}

/// Returns the best cut and the cost of a search with it. `rules` has `width.len()` spans for each rule; the first
/// `ternary` dimensions have values and masks. Storing rules in several children may add at most `copies_max` rules.
pub(super) fn choose(
    rules: &[Span],
    widths: &[u32],
    ternary: usize,
    copies_max: usize,
) -> Option<(Cut, f32)> {
    let dims = widths.len();
    let count = rules.len() / dims;
    let sample: Vec<&[Span]> = rules.chunks_exact(dims).step_by(count.div_ceil(SAMPLE)).collect();
    let scale = count as f32 / sample.len() as f32;
    let costs: Vec<f32> = (0..=sample.len()).map(|n| cost(n as f32 * scale)).collect();
    // How much one more rule in a child adds to the sum of the costs of all rules.
    let more: Vec<f32> =
        (0..sample.len()).map(|n| (n + 1) as f32 * costs[n + 1] - n as f32 * costs[n]).collect();
    let copies_max = copies_max.min(count) as f32 / scale;
    let most = count.ilog2().clamp(1, BITS_MAX);
    let mut counts = vec![0u32; 1 << most];
    let mut best: Option<(Cut, f32)> = None;
    let mut column = Vec::with_capacity(sample.len());
    for (dim, width) in widths.iter().enumerate() {
        let range = dim >= ternary;
        column.clear();
        column.extend(sample.iter().map(|rule| rule[dim]));
        let useful = if range {
            if column.iter().all(|span| *span == column[0]) { 0 } else { ones(*width) }
        } else {
            let bits = |which: fn(&Span) -> u32| column.iter().fold(0, |bits, span| bits | which(span));
            bits(|(value, mask)| value & mask) & bits(|(value, mask)| !value & mask)
        };
        let mut bits = most.min(*width);
        if useful == 0 {
            continue;
        }
        loop {
            for shift in 0..=width - bits {
                if useful >> shift & 1 == 0 || useful >> (shift + bits - 1) & 1 == 0 {
                    continue;
                }
                for spread in SPREADS.into_iter().filter(|spread| *spread <= bits) {
                    let cut = Cut { dim: dim as u32, shift, bits, spread };
                    let (mut rest, mut total, mut largest, mut sum) = (0, 0, 0, 0.0);
                    for span in &column {
                        let children = Children::of(&cut, *span, range);
                        if children.log() > spread {
                            rest += 1;
                            continue;
                        }
                        children.each(|child| {
                            let count = &mut counts[child as usize];
                            sum += more[*count as usize];
                            *count += 1;
                            largest = largest.max(*count);
                            total += 1;
                        });
                    }
                    for span in &column {
                        let children = Children::of(&cut, *span, range);
                        if children.log() <= spread {
                            children.each(|child| counts[child as usize] = 0);
                        }
                    }
                    let copies = (total + rest - column.len()) as f32;
                    if rest == column.len() || largest as usize == column.len() || copies > copies_max {
                        continue;
                    }
                    let cost = STEP + sum / total as f32 + costs[rest] + COPY * copies / column.len() as f32;
                    if best.is_none_or(|(_, least)| cost < least) {
                        best = Some((cut, cost));
                    }
                }
            }
            if bits == 1 {
                break;
            }
            bits = bits.saturating_sub(2).max(1);
        }
    }
    best
}

/// Returns the cost of a leaf with this many rules.
pub(super) fn cost_of_leaf(rules: usize) -> f32 {
    cost(rules as f32)
}

fn ones(width: u32) -> u32 {
    (((1u64) << width) - 1) as u32
}
