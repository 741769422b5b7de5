//! Tables with ternary, range or optional keys, or several lpm keys: a decision tree whose leaves compare several rules at
//! once.
//!
//! A node of the tree cuts by some bits of one dimension of the key ([`cuts`]). A rule goes to the child that its bits name;
//! one that leaves some of the bits open goes to a few children, or, if they would be too many, to the *rest* of the node: a
//! tree of its own, which every key that comes by the node searches besides. So rules that are wild in one dimension do not
//! multiply, but are cut by another. (The idea is of EffiCuts, Vamanan et al. 2010, and CutSplit, Li et al. 2018, which part
//! the rules once, beforehand.) Every reference to a subtree tells the best priority in it, so that a search that has found
//! better passes it by.
//!
//! Changes happen in the tree that readers search: what a rule is added to is made anew, beside, and its reference stored
//! over the old one. Memory comes from an arena whose end makes the tree be built anew, for all rules; so does growth to
//! twice the rules it was built for.
#![allow(unsafe_code)]

mod cuts;
mod dims;
mod search;

pub(crate) use search::Searcher;

use crate::grace::{Pool, RETIRED_TOGETHER, Returns};
use crate::key::KeyLayout;
use crate::memory::Region;
use crate::rows::SLOTS_MAX;
use crate::view::Lookups;
use crate::{KeyMatch, TableError, TableSpec};
use cuts::{Children, Cut};
use dims::Dims;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

// Words of a rule. A word for each dimension follows: value or low end, and above bit 32 mask or what is added for the high
// end. In tables whose dimensions do not say all, the limbs of the whole key follow, low and high.
/// Row, and above bit 32 the priority.
const ROW: usize = 0;
const SEQUENCE: usize = 1;
const DIMS: usize = 2;

// Words of a node. The children's references follow.
const REST: usize = 0;
const SPREAD: usize = 1;
const CHILDREN: usize = 2;

/// Rules of a block: they are compared at once.
const LANES: usize = 8;
// Words of a block, which is in a leaf. Values of all lanes and then masks, for each dimension, follow.
/// A bit for each lane that has a rule.
const LIVE: usize = 0;
/// The rules of the lanes, as halves.
const IDS: usize = 1;
const BLOCK_HEAD: usize = 8;

/// Most rules of a leaf.
const LEAF_MAX: usize = 2 * LANES;
/// Longest path of nodes.
const DEPTH_MAX: usize = 40;
/// From so many bytes of rules on, large pages.
const HUGE_BYTES_MIN: usize = 1 << 20;
/// Memory comes in cache lines.
const LINE_WORDS: usize = 8;
/// Where the references of the trees are: of all rules, and of those that came later and would be in too many leaves of it.
const ROOTS: [usize; 2] = [0, 1];
/// Most leaves of the first tree that a rule is added to.
const COPIES_MAX: usize = 32;

/// A reference to a subtree. 0 is none.
///
/// Bits 0-31: where, in words; the number of the rule if it is one. 32-45: a node's cut (bits: 4, shift: 5, dimension: 5); a
/// leaf's number of blocks. 46-47: what it is. 48-63: no rule of it has a better priority, see [`Scale`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ref(u64);

const RULE: u64 = 1;
const LEAF: u64 = 2;
const NODE: u64 = 3;

impl Ref {
    const NONE: Ref = Ref(0);

    fn new(kind: u64, at: usize, info: u64, best: u16) -> Ref {
        debug_assert!(at < 1 << 32 && info < 1 << 14);
        Ref(at as u64 | info << 32 | kind << 46 | u64::from(best) << 48)
    }

    fn node(at: usize, cut: &Cut, best: u16) -> Ref {
        Ref::new(NODE, at, u64::from(cut.bits | cut.shift << 4 | cut.dim << 9), best)
    }

    #[inline(always)]
    fn at(self) -> usize {
        self.0 as u32 as usize
    }

    #[inline(always)]
    fn kind(self) -> u64 {
        self.0 >> 46 & 3
    }

    #[inline(always)]
    fn blocks(self) -> usize {
        (self.0 >> 32 & 0x3fff) as usize
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        (self.0 >> 32 & 15) as u32
    }

    #[inline(always)]
    fn shift(self) -> u32 {
        (self.0 >> 36 & 31) as u32
    }

    #[inline(always)]
    fn dim(self) -> usize {
        (self.0 >> 41 & 31) as usize
    }

    #[inline(always)]
    fn best(self) -> u16 {
        (self.0 >> 48) as u16
    }

    fn with_best(self, best: u16) -> Ref {
        Ref(self.0 << 16 >> 16 | u64::from(self.best().min(best)) << 48)
    }
}

/// Brings priorities to 16 bits, in their order.
#[derive(Clone, Copy, Default)]
struct Scale {
    low: u32,
    shift: u32,
}

impl Scale {
    #[inline(always)]
    fn of(self, priority: u32) -> u16 {
        (priority.saturating_sub(self.low) >> self.shift).min(0xffff) as u16
    }
}

pub(crate) struct Classifier {
    dims: Arc<Dims>,
    widths: Vec<u32>,
    rule_words: usize,
    block_words: usize,
    rules: Arc<Region>,
    pool: Pool,
    /// By number of the rule.
    live: Vec<bool>,
    live_count: usize,
    /// Large pages are in use.
    huge: bool,
    tree: Tree,
}

/// What is built anew.
struct Tree {
    memory: Arc<Region>,
    scale: Scale,
    /// Words in use, from the start.
    used: usize,
    built_for: usize,
    /// Leaves that can be used again, by number of blocks - 1; that readers may still see; and on their way back.
    free: [Vec<Ref>; LEAF_MAX / LANES],
    retired: Vec<Ref>,
    returns: Returns<Vec<Ref>>,
}

impl Tree {
    fn new(words: usize, built_for: usize, scale: Scale, huge: bool) -> Tree {
        let memory = Region::zeroed(words * 8);
        if huge {
            memory.advise_huge();
        }
        Tree {
            memory: Arc::new(memory),
            scale,
            used: LINE_WORDS,
            built_for,
            free: Default::default(),
            retired: Vec::new(),
            returns: Returns::new(),
        }
    }
}

/// The arena is full.
struct Exhausted;

impl Classifier {
    pub fn new(spec: &TableSpec, layout: &KeyLayout) -> Classifier {
        let dims = Dims::new(layout);
        let limbs = if dims.exact { 0 } else { 2 * dims.limbs };
        let rule_words = (DIMS + dims.list.len() + limbs).next_multiple_of(LINE_WORDS);
        let block_words = BLOCK_HEAD + dims.list.len() * LANES;
        // As many again as there can be entries: those that wait for readers to pass.
        let capacity = 2 * spec.size.min(SLOTS_MAX) + 1024;
        let mut new = Classifier {
            widths: dims.list.iter().map(|dim| dim.width).collect(),
            dims: Arc::new(dims),
            rule_words,
            block_words,
            rules: Arc::new(Region::zeroed(capacity as usize * rule_words * 8)),
            pool: Pool::new(1, capacity),
            live: Vec::new(),
            live_count: 0,
            huge: false,
            tree: Tree::new(0, 0, Scale::default(), false),
        };
        new.rebuild();
        new
    }

    fn rule(&self, rule: u32) -> &[AtomicU64] {
        &self.rules.words()[rule as usize * self.rule_words..][..self.rule_words]
    }

    fn priority(&self, rule: u32) -> u32 {
        (self.rule(rule)[ROW].load(Ordering::Relaxed) >> 32) as u32
    }

    fn rank(&self, rule: u32) -> (u32, u64) {
        (self.priority(rule), self.rule(rule)[SEQUENCE].load(Ordering::Relaxed))
    }

    fn span(&self, rule: u32, dim: usize) -> cuts::Span {
        let word = self.rule(rule)[DIMS + dim].load(Ordering::Relaxed);
        (word as u32, (word >> 32) as u32)
    }

    fn children(&self, rule: u32, cut: &Cut) -> Children {
        let dim = cut.dim as usize;
        Children::of(cut, self.span(rule, dim), dim >= self.dims.ternary)
    }

    fn word(&self, at: usize) -> u64 {
        self.tree.memory.words()[at].load(Ordering::Relaxed)
    }

    /// Readers that see the word see what was stored before.
    fn set(&self, at: usize, word: u64) {
        self.tree.memory.words()[at].store(word, Ordering::Release);
    }

    fn cut(&self, node: Ref) -> Cut {
        let spread = self.word(node.at() + SPREAD) as u32;
        Cut { dim: node.dim() as u32, shift: node.shift(), bits: node.bits(), spread }
    }

    /// True if there must be a new searcher.
    pub fn insert(
        &mut self,
        layout: &KeyLayout,
        key: &[KeyMatch],
        rank: (u32, u64),
        row: u32,
    ) -> Result<(u32, bool), TableError> {
        let rule = self.pool.take()?;
        if !self.huge && rule as usize * self.rule_words * 8 > HUGE_BYTES_MIN {
            self.huge = true;
            self.rules.advise_huge();
        }
        let packed = self.dims.pack(layout, key);
        let words = self.rule(rule);
        let spans = self.dims.of_rule(&packed).map(|(low, high)| u64::from(low) | u64::from(high) << 32);
        let limbs = packed.low.iter().chain(&packed.high).copied();
        let limbs = limbs.filter(|_| !self.dims.exact);
        let head = [u64::from(row) | u64::from(rank.0) << 32, rank.1];
        for (word, value) in words.iter().zip(head.into_iter().chain(spans).chain(limbs)) {
            word.store(value, Ordering::Relaxed);
        }
        if self.live.len() <= rule as usize {
            self.live.resize(rule as usize + 1, false);
        }
        self.live[rule as usize] = true;
        self.live_count += 1;
        // Readers see the rule before a new tree takes its time.
        let mut leaves = 0;
        self.count_leaves(ROOTS[0], rule, &mut leaves);
        let root = ROOTS[usize::from(leaves > COPIES_MAX)];
        let added = self.add(root, rule, 0);
        let stale = added.is_err() || self.live_count > 2 * self.tree.built_for + LEAF_MAX;
        if stale {
            self.rebuild();
        }
        Ok((rule, stale))
    }

    /// Gives a rule another row.
    pub fn modify(&mut self, rule: u32, row: u32) {
        let word = u64::from(row) | u64::from(self.priority(rule)) << 32;
        self.rule(rule)[ROW].store(word, Ordering::Release);
    }

    pub fn delete(&mut self, rule: u32) {
        ROOTS.into_iter().for_each(|root| self.remove(root, rule));
        self.live[rule as usize] = false;
        self.live_count -= 1;
        self.pool.retire(rule);
    }

    fn alloc(&mut self, words: usize) -> Result<usize, Exhausted> {
        let at = self.tree.used;
        let end = at + words.next_multiple_of(LINE_WORDS);
        if end > self.tree.memory.words().len() {
            return Err(Exhausted);
        }
        self.tree.used = end;
        Ok(at)
    }

    fn alloc_leaf(&mut self, blocks: usize) -> Result<usize, Exhausted> {
        let tree = &mut self.tree;
        if tree.free[blocks - 1].is_empty() {
            for leaf in tree.returns.take().into_iter().flatten() {
                tree.free[leaf.blocks() - 1].push(leaf);
            }
        }
        match tree.free[blocks - 1].pop() {
            Some(leaf) => Ok(leaf.at()),
            None => self.alloc(blocks * self.block_words),
        }
    }

    /// Gives back a leaf that readers may still see.
    fn retire_leaf(&mut self, leaf: Ref) {
        if leaf.kind() != LEAF {
            return;
        }
        self.tree.retired.push(leaf);
        if self.tree.retired.len() >= RETIRED_TOGETHER {
            self.tree.returns.retire(std::mem::take(&mut self.tree.retired));
        }
    }

    /// The rules of a leaf.
    fn rules_of(&self, leaf: Ref) -> Vec<u32> {
        if leaf.kind() == RULE {
            return vec![leaf.at() as u32];
        }
        let mut rules = Vec::with_capacity(LEAF_MAX + 1);
        for block in 0..leaf.blocks() {
            let at = leaf.at() + block * self.block_words;
            let live = self.word(at + LIVE);
            let id = |lane| (self.word(at + IDS + lane / 2) >> (32 * (lane % 2))) as u32;
            rules.extend((0..LANES).filter(|lane| live >> lane & 1 == 1).map(id));
        }
        rules
    }

    /// Counts leaves that a rule would be added to, up to a few more than may be.
    fn count_leaves(&self, at: usize, rule: u32, leaves: &mut usize) {
        let old = Ref(self.word(at));
        if old.kind() != NODE || old.bits() == 0 || *leaves > COPIES_MAX {
            *leaves += 1;
            return;
        }
        let cut = self.cut(old);
        let children = self.children(rule, &cut);
        if children.log() > cut.spread {
            self.count_leaves(old.at() + REST, rule, leaves);
        } else {
            children.each(|child| self.count_leaves(old.at() + CHILDREN + child as usize, rule, leaves));
        }
    }

    /// Adds a rule to the subtree whose reference is at `at`.
    fn add(&mut self, at: usize, rule: u32, depth: usize) -> Result<(), Exhausted> {
        let old = Ref(self.word(at));
        let best = self.tree.scale.of(self.priority(rule));
        let new = match old.kind() {
            _ if old == Ref::NONE => Ref::new(RULE, rule as usize, 0, best),
            NODE => {
                let cut = self.cut(old);
                if cut.bits == 0 {
                    // A list: see `build_list`.
                    let first = Ref(self.word(old.at() + CHILDREN));
                    if first.kind() == NODE || self.rules_of(first).len() >= LEAF_MAX {
                        let node = self.alloc(CHILDREN + 1)?;
                        self.set(node + REST, old.0);
                        self.set(node + CHILDREN, Ref::new(RULE, rule as usize, 0, best).0);
                        Ref::node(node, &cut, best.min(old.best()))
                    } else {
                        self.add(old.at() + CHILDREN, rule, depth + 1)?;
                        old.with_best(best)
                    }
                } else {
                    let children = self.children(rule, &cut);
                    let mut done = Ok(());
                    if children.log() > cut.spread {
                        done = self.add(old.at() + REST, rule, depth + 1);
                    } else {
                        children.each(|child| {
                            if done.is_ok() {
                                done = self.add(old.at() + CHILDREN + child as usize, rule, depth + 1);
                            }
                        });
                    }
                    done?;
                    old.with_best(best)
                }
            }
            _ => {
                let mut rules = self.rules_of(old);
                let rank = self.rank(rule);
                rules.insert(rules.partition_point(|other| self.rank(*other) < rank), rule);
                if rules.len() <= LEAF_MAX {
                    self.build_leaf(&rules, best.min(old.best()))?
                } else {
                    let copies = rules.len();
                    self.build(&rules, depth, copies)?
                }
            }
        };
        if new != old {
            self.set(at, new.0);
            self.retire_leaf(old);
        }
        Ok(())
    }

    /// Takes a rule out of the subtree whose reference is at `at`.
    fn remove(&mut self, at: usize, rule: u32) {
        let old = Ref(self.word(at));
        match old.kind() {
            NODE if old.bits() == 0 => {
                self.remove(old.at() + CHILDREN, rule);
                // Not by recursion: lists may be long.
                let mut next = Ref(self.word(old.at() + REST));
                while next.kind() == NODE && next.bits() == 0 {
                    self.remove(next.at() + CHILDREN, rule);
                    next = Ref(self.word(next.at() + REST));
                }
            }
            NODE => {
                let cut = self.cut(old);
                let children = self.children(rule, &cut);
                if children.log() > cut.spread {
                    self.remove(old.at() + REST, rule);
                } else {
                    children.each(|child| self.remove(old.at() + CHILDREN + child as usize, rule));
                }
            }
            LEAF => {
                let mut any = 0;
                for block in 0..old.blocks() {
                    let block = old.at() + block * self.block_words;
                    for lane in 0..LANES {
                        let id = (self.word(block + IDS + lane / 2) >> (32 * (lane % 2))) as u32;
                        if id == rule {
                            self.set(block + LIVE, self.word(block + LIVE) & !(1 << lane));
                        }
                    }
                    any |= self.word(block + LIVE);
                }
                if any == 0 {
                    self.set(at, Ref::NONE.0);
                    self.retire_leaf(old);
                }
            }
            RULE if old.at() == rule as usize => self.set(at, Ref::NONE.0),
            _ => {}
        }
    }

    /// A subtree of these rules, best first. They are added to at most so many more leaves than one each.
    fn build(&mut self, rules: &[u32], depth: usize, copies: usize) -> Result<Ref, Exhausted> {
        let best = match rules {
            [] => return Ok(Ref::NONE),
            [first, ..] => self.tree.scale.of(self.priority(*first)),
        };
        if let [rule] = rules {
            return Ok(Ref::new(RULE, *rule as usize, 0, best));
        }
        if rules.len() <= LANES {
            return self.build_leaf(rules, best);
        }
        let cut = (depth < DEPTH_MAX).then(|| self.choose(rules, copies)).flatten();
        let Some(cut) = cut else {
            return if rules.len() <= LEAF_MAX {
                self.build_leaf(rules, best)
            } else {
                self.build_list(rules)
            };
        };
        let mut rest = Vec::new();
        let mut children = vec![Vec::new(); 1 << cut.bits];
        for rule in rules {
            let of = self.children(*rule, &cut);
            if of.log() > cut.spread {
                rest.push(*rule);
            } else {
                of.each(|child| children[child as usize].push(*rule));
            }
        }
        let total = rest.len() + children.iter().map(Vec::len).sum::<usize>();
        let left = copies - (total - rules.len());
        let share = |rules: &[u32]| left * rules.len() / total;
        let node = self.alloc(CHILDREN + children.len())?;
        self.set(node + SPREAD, cut.spread.into());
        for (child, rules) in children.into_iter().enumerate() {
            let child_ref = self.build(&rules, depth + 1, share(&rules))?;
            self.set(node + CHILDREN + child, child_ref.0);
        }
        let rest = self.build(&rest, depth + 1, share(&rest))?;
        self.set(node + REST, rest.0);
        Ok(Ref::node(node, &cut, best))
    }

    /// The cut to make, if any is better than a leaf, or a leaf cannot be.
    fn choose(&self, rules: &[u32], copies: usize) -> Option<Cut> {
        let dims = 0..self.widths.len();
        let spans: Vec<_> = rules.iter().flat_map(|rule| dims.clone().map(|d| self.span(*rule, d))).collect();
        let (cut, cost) = cuts::choose(&spans, &self.widths, self.dims.ternary, copies)?;
        (rules.len() > LEAF_MAX || cost < cuts::cost_of_leaf(rules.len())).then_some(cut)
    }

    fn build_leaf(&mut self, rules: &[u32], best: u16) -> Result<Ref, Exhausted> {
        let blocks = rules.len().div_ceil(LANES);
        let at = self.alloc_leaf(blocks)?;
        for (block, rules) in rules.chunks(LANES).enumerate() {
            let at = at + block * self.block_words;
            let put = |at: usize, of: &dyn Fn(u32) -> u32| {
                for (word, rules) in rules.chunks(2).enumerate() {
                    let half = |i: usize| rules.get(i).map_or(0, |rule| u64::from(of(*rule)));
                    self.set(at + word, half(0) | half(1) << 32);
                }
            };
            self.set(at + LIVE, (1 << rules.len()) - 1);
            put(at + IDS, &|rule| rule);
            for dim in 0..self.widths.len() {
                let at = at + BLOCK_HEAD + dim * LANES;
                put(at, &|rule| self.span(rule, dim).0);
                put(at + LANES / 2, &|rule| self.span(rule, dim).1);
            }
        }
        Ok(Ref::new(LEAF, at, blocks as u64, best))
    }

    /// Rules that no cut parts, best first: nodes with one child, a leaf, each; their rests lead from one to the next.
    fn build_list(&mut self, rules: &[u32]) -> Result<Ref, Exhausted> {
        let mut list = Ref::NONE;
        for rules in rules.chunks(LEAF_MAX).rev() {
            let best = self.tree.scale.of(self.priority(rules[0]));
            let leaf = self.build_leaf(rules, best)?;
            let node = self.alloc(CHILDREN + 1)?;
            self.set(node + REST, list.0);
            self.set(node + CHILDREN, leaf.0);
            list = Ref::node(node, &Cut { dim: 0, shift: 0, bits: 0, spread: 0 }, best);
        }
        Ok(list)
    }

    /// Makes the tree anew, in other memory.
    fn rebuild(&mut self) {
        let mut rules: Vec<u32> =
            (0..self.live.len() as u32).filter(|rule| self.live[*rule as usize]).collect();
        rules.sort_unstable_by_key(|rule| self.rank(*rule));
        let priority = |rule: Option<&u32>| rule.map_or(0, |rule| self.priority(*rule));
        let (low, high) = (priority(rules.first()), priority(rules.last()));
        let scale = Scale { low, shift: (33 - (high - low).leading_zeros()).saturating_sub(16) };
        // Address space, of which much is never touched. A list of all rules takes less than a tenth.
        let words = (16 << 10) + rules.len() * (8 * self.block_words + 64);
        for copies in [2 * rules.len() + 256, 0] {
            self.tree = Tree::new(words, rules.len(), scale, self.huge);
            if let Ok(root) = self.build(&rules, 0, copies) {
                return self.set(ROOTS[0], root.0);
            }
        }
        self.tree = Tree::new(words, rules.len(), scale, self.huge);
        match self.build_list(&rules) {
            Ok(root) => self.set(ROOTS[0], root.0),
            Err(Exhausted) => unreachable!("a list fits"),
        }
    }

    pub fn searcher(&self) -> (Searcher, Lookups) {
        let searcher = Searcher {
            dims: Arc::clone(&self.dims),
            rules: Arc::clone(&self.rules),
            rule_words: self.rule_words,
            memory: Arc::clone(&self.tree.memory),
            block_words: self.block_words,
            scale: self.tree.scale,
        };
        let lookups = searcher.lookups((self.tree.used + self.live_count * self.rule_words) * 8);
        (searcher, lookups)
    }

    pub fn committed_bytes(&self) -> usize {
        self.rules.committed_bytes() + self.tree.memory.committed_bytes()
    }
}
