//! Tables with ternary, range or optional keys, or several lpm keys: a decision tree whose leaves compare several rules at
//! once.
//!
//! A node of the tree cuts by some bits of one dimension of the key ([`cuts`]). A rule goes to the child selected by its
//! bits. A rule that leaves some of these bits open goes to a few children or, if they would be too many, to the *rest* of
//! the node: a tree of its own, which every key that reaches the node searches too. So rules that are wild in one dimension
//! are not copied many times, but are cut by another dimension. (The idea comes from EffiCuts, Vamanan et al. 2010, and
//! CutSplit, Li et al. 2018, which partition the rules once, beforehand.) Every reference to a subtree holds the best
//! priority in it, so that a search that has found a better rule skips the subtree.
//!
//! Changes happen in the tree that readers search: the writer builds a new version of the part to which a rule is added, and
//! then stores the reference to it over the old one. When there are twice as many rules as the tree was built for, or its
//! arena is half full, a thread builds a new tree for all rules. Changes continue meanwhile; they are repeated in the new
//! tree, a few with each change, before readers are sent there. So no change waits for a tree to be built.
//!
//! As long as no change concerns a rule, the rule is in one place on the paths that a matching key takes, or in none. So a
//! search that meets one change of a matching rule finds the best rule before or after the change, and [`Changes`] makes a
//! reader search again if it may have met more.
#![allow(unsafe_code)]

mod cuts;
mod dims;
mod search;

pub(crate) use search::Searcher;

use crate::by_slot::BySlot;
use crate::changes::Changes;
use crate::grace::{Pool, RETIRED_TOGETHER, Returns};
use crate::key::KeyLayout;
use crate::memory::{Ahead, NoMemory, Region};
use crate::rows::SLOTS_MAX;
use crate::view::Lookups;
use crate::{KeyMatch, TableError, TableSpec};
use cuts::{Children, Cut};
use dims::Dims;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

// Words of a rule. A word for each dimension follows: the value or low end and, from bit 32 on, the mask or the difference to
// the high end. In tables whose dimensions do not cover the whole key, the limbs of the whole key follow, low and high.
/// Row and, from bit 32 on, the priority.
const ROW: usize = 0;
const SEQUENCE: usize = 1;
const DIMS: usize = 2;

// Words of a node. The children's references follow.
const REST: usize = 0;
const SPREAD: usize = 1;
const CHILDREN: usize = 2;

/// Rules of a block, which are compared at once.
const LANES: usize = 8;
// Words of a block, which is part of a leaf. For each dimension, the values of all lanes and then their masks follow.
/// One bit for each lane that has a rule.
const LIVE: usize = 0;
/// The numbers of the lanes' rules, as half words.
const IDS: usize = 1;
const BLOCK_HEAD: usize = 8;

/// Maximum number of rules in a leaf.
const LEAF_MAX: usize = 2 * LANES;
/// Longest path of nodes.
const DEPTH_MAX: usize = 40;
/// Rules of at least this many bytes use large pages.
const HUGE_BYTES_MIN: usize = 1 << 20;
/// Memory comes in cache lines.
const LINE_WORDS: usize = 8;
/// Positions of the references to the trees: the tree of all rules, and the tree of later rules that would be in too many leaves
/// of the first.
const ROOTS: [usize; 2] = [0, 1];
/// Maximum number of leaves of the first tree to which a rule is added.
const COPIES_MAX: usize = 32;
/// A thread builds trees of at least this many rules.
const ASIDE_MIN: usize = 64;
/// Number of earlier changes that each change repeats in the new tree.
const CHANGES_TOGETHER: usize = 4;

/// A reference to a subtree. 0 means none.
///
/// Bits 0-31: the position in words, or the number of a single rule. 32-45: a node's cut (bits: 4, shift: 5, dimension: 5),
/// or a leaf's number of blocks. 46-47: the kind. 48-63: no rule of the subtree has a better priority than this, see
/// [`Scale`].
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

/// Maps priorities to 16 bits, preserving their order.
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
    rules: Rules,
    pool: Pool,
    /// By number of the rule.
    live: BySlot<bool>,
    live_count: usize,
    numbers_end: u32,
    /// Maximum number of rule numbers that may wait for a new tree.
    held_max: usize,
    /// Set if large pages are in use.
    huge: Option<Ahead>,
    tree: Tree,
    rebuild: Option<Rebuild>,
    /// The memory error for which the last tree could not be built.
    refused: String,
    /// By number of the rule.
    pub changes: Arc<Changes>,
}

/// The rules. Except for their rows they do not change while a tree may contain them.
#[derive(Clone)]
struct Rules {
    dims: Arc<Dims>,
    region: Arc<Region>,
    words: usize,
    block_words: usize,
}

/// The tree that readers search, or will search once it is complete.
struct Tree {
    rules: Rules,
    memory: Arc<Region>,
    ahead: Option<Ahead>,
    scale: Scale,
    /// Words in use, counted from the start.
    used: usize,
    /// Words in use right after the tree was built for `built_for` rules.
    used_at_first: usize,
    built_for: usize,
    /// Leaves that can be reused, by number of blocks - 1; those that readers may still see; and those on their way back from
    /// readers.
    free: [Vec<Ref>; LEAF_MAX / LANES],
    retired: Vec<Ref>,
    returns: Returns<Vec<Ref>>,
}

/// A new tree that is being built.
struct Rebuild {
    made: Made,
    /// Changes made since the build started that are not in the new tree yet.
    changes: VecDeque<Change>,
    /// Rules deleted since the build started; their numbers are not reused until readers are in the new tree.
    deleted: Vec<u32>,
}

enum Made {
    /// Being built by a thread.
    Soon(JoinHandle<Result<Tree, NoMemory>>),
    Now(Tree),
}

enum Change {
    Add(u32),
    Remove(u32),
}

/// The arena is full.
struct Exhausted;

impl Rules {
    fn rule(&self, rule: u32) -> &[AtomicU64] {
        &self.region.words()[rule as usize * self.words..][..self.words]
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
}

impl Classifier {
    pub fn new(spec: &TableSpec, layout: &KeyLayout) -> Classifier {
        let dims = Dims::new(layout);
        let limbs = if dims.exact { 0 } else { 2 * dims.limbs };
        let words = (DIMS + dims.list.len() + limbs).next_multiple_of(LINE_WORDS);
        let block_words = BLOCK_HEAD + dims.list.len() * LANES;
        // More than the maximum number of entries: some numbers wait until readers have passed, and some for a new tree.
        let capacity = 4 * spec.size.min(SLOTS_MAX) + (1 << 16);
        let region = Arc::new(Region::zeroed(capacity as usize * words * 8));
        let rules = Rules { dims: Arc::new(dims), region, words, block_words };
        Classifier {
            tree: Tree::build(rules.clone(), &[], false, None),
            rules,
            pool: Pool::new(1, capacity),
            live: BySlot::new(),
            live_count: 0,
            numbers_end: 1,
            held_max: capacity as usize / 2,
            huge: None,
            rebuild: None,
            refused: String::new(),
            changes: Arc::new(Changes::new()),
        }
    }

    /// True if readers need a new searcher.
    pub fn insert(
        &mut self,
        layout: &KeyLayout,
        key: &[KeyMatch],
        rank: (u32, u64),
        row: u32,
    ) -> Result<(u32, bool), TableError> {
        let rule = self.pool.take()?;
        let held = self.rebuild.as_ref().map_or(0, |rebuild| rebuild.deleted.len());
        let mut stale = held > self.held_max && self.settle();
        let end = (rule as usize + 1) * self.rules.words * 8;
        if end > HUGE_BYTES_MIN {
            let ahead = self.huge.get_or_insert_with(|| {
                self.rules.region.advise_huge();
                Ahead::default()
            });
            ahead.reach(&self.rules.region, end);
        }
        let dims = &self.rules.dims;
        let packed = dims.pack(layout, key);
        let spans = dims.of_rule(&packed).map(|(low, high)| u64::from(low) | u64::from(high) << 32);
        let limbs = packed.low.iter().chain(&packed.high).copied();
        let limbs = limbs.filter(|_| !dims.exact);
        let head = [u64::from(row) | u64::from(rank.0) << 32, rank.1];
        for (word, value) in self.rules.rule(rule).iter().zip(head.into_iter().chain(spans).chain(limbs)) {
            word.store(value, Ordering::Relaxed);
        }
        *self.live.get_mut(rule as usize) = true;
        self.live_count += 1;
        self.numbers_end = self.numbers_end.max(rule + 1);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.changes.push_back(Change::Add(rule));
        }
        self.changes.announce([rule.into(), 0]);
        if self.tree.insert(rule).is_err() {
            // The new tree has room, but may be too small again once all changes have been repeated in it.
            if !self.settle() {
                self.begin_rebuild();
                if !self.settle() {
                    // Some leaves may already contain the rule.
                    self.delete(rule);
                    return Err(TableError::NoMemory(self.refused.clone()));
                }
            }
            stale = true;
        }
        Ok((rule, self.go_on() || stale))
    }

    /// Sets a rule's row. No reader may still be in an older tree: it would see this change without the changes before it.
    pub fn modify(&mut self, rule: u32, row: u32) {
        self.changes.announce([rule.into(), 0]);
        let word = u64::from(row) | u64::from(self.rules.priority(rule)) << 32;
        self.rules.rule(rule)[ROW].store(word, Ordering::Release);
    }

    /// True if readers need a new searcher.
    pub fn delete(&mut self, rule: u32) -> bool {
        self.changes.announce([rule.into(), 0]);
        self.tree.delete(rule);
        *self.live.get_mut(rule as usize) = false;
        self.live_count -= 1;
        match &mut self.rebuild {
            Some(rebuild) => {
                rebuild.changes.push_back(Change::Remove(rule));
                rebuild.deleted.push(rule);
            }
            None => self.pool.retire(rule),
        }
        self.go_on()
    }

    /// Starts to build a new tree. If there is no memory for it, nothing changes except that [`Self::refused`] holds the
    /// reason.
    fn begin_rebuild(&mut self) {
        // Allocated before the thread starts, so that a refusal costs little.
        let memory = match NoMemory::caught(|| Tree::memory(&self.rules, self.live_count)) {
            Ok(memory) => Mutex::new(Some(memory)),
            Err(NoMemory(why)) => return self.refused = why,
        };
        let live = |rule: &u32| self.live.value(*rule as usize);
        let list: Vec<u32> = (1..self.numbers_end).filter(live).collect();
        let ingredients = Arc::new((list, memory));
        let build = || {
            let (rules, huge, ingredients) =
                (self.rules.clone(), self.huge.is_some(), Arc::clone(&ingredients));
            move || {
                let (list, memory) = &*ingredients;
                let memory = memory.lock().unwrap_or_else(PoisonError::into_inner).take();
                NoMemory::caught(|| Tree::build(rules, list, huge, memory))
            }
        };
        let thread =
            (self.live_count > ASIDE_MIN).then(|| p4jet_threads::spawn("build", build()).ok()).flatten();
        let made = match thread {
            Some(thread) => Made::Soon(thread),
            None => match build()() {
                Ok(tree) => Made::Now(tree),
                Err(NoMemory(why)) => return self.refused = why,
            },
        };
        self.rebuild = Some(Rebuild { made, changes: VecDeque::new(), deleted: Vec::new() });
    }

    /// Starts a new tree if one is due, and continues one that was started. True if readers need a new searcher.
    fn go_on(&mut self) -> bool {
        if self.rebuild.is_none() && self.tree.is_due(self.live_count) {
            self.begin_rebuild();
        }
        match &self.rebuild {
            None => false,
            Some(Rebuild { made: Made::Soon(thread), .. }) if !thread.is_finished() => false,
            Some(_) => self.move_on(CHANGES_TOGETHER),
        }
    }

    /// Completes the new tree and publishes it. True if readers need a new searcher.
    pub fn settle(&mut self) -> bool {
        self.rebuild.is_some() && self.move_on(usize::MAX)
    }

    /// Repeats this many changes in the new tree, if it exists. True if readers must search it from now on.
    fn move_on(&mut self, most: usize) -> bool {
        let Some(Rebuild { made, mut changes, deleted }) = self.rebuild.take() else { return false };
        let failed = |_| Err(NoMemory("the thread that builds a search tree failed".to_string()));
        let built = match made {
            Made::Now(tree) => Ok(tree),
            Made::Soon(thread) => thread.join().unwrap_or_else(failed),
        };
        let mut tree = match built {
            Ok(tree) => tree,
            Err(NoMemory(why)) => {
                // Readers keep the old tree as long as it has room.
                self.refused = why;
                deleted.into_iter().for_each(|rule| self.pool.retire(rule));
                return false;
            }
        };
        let mut room = Ok(());
        for change in changes.drain(..most.min(changes.len())) {
            match change {
                Change::Add(rule) if room.is_ok() => room = tree.insert(rule),
                Change::Add(_) => {}
                Change::Remove(rule) => tree.delete(rule),
            }
        }
        if room.is_ok() && !changes.is_empty() {
            self.rebuild = Some(Rebuild { made: Made::Now(tree), changes, deleted });
            return false;
        }
        // If these changes do not fit, the new tree is useless.
        if room.is_ok() {
            self.tree = tree;
        }
        deleted.into_iter().for_each(|rule| self.pool.retire(rule));
        room.is_ok()
    }

    pub fn searcher(&self) -> (Searcher, Lookups) {
        let searcher = Searcher {
            dims: Arc::clone(&self.rules.dims),
            rules: Arc::clone(&self.rules.region),
            rule_words: self.rules.words,
            memory: Arc::clone(&self.tree.memory),
            block_words: self.rules.block_words,
            scale: self.tree.scale,
        };
        let lookups = searcher.lookups((self.tree.used + self.live_count * self.rules.words) * 8);
        (searcher, lookups)
    }

    pub fn committed_bytes(&self) -> usize {
        let later = match &self.rebuild {
            Some(Rebuild { made: Made::Now(tree), .. }) => tree.memory.committed_bytes(),
            _ => 0,
        };
        self.rules.region.committed_bytes() + self.tree.memory.committed_bytes() + self.live.bytes() + later
    }
}

impl Tree {
    /// Builds a tree of these rules, in this memory if it suffices. Unwinds with [`NoMemory`].
    fn build(rules: Rules, list: &[u32], huge: bool, mut memory: Option<Region>) -> Tree {
        let mut list = list.to_vec();
        list.sort_unstable_by_key(|rule| rules.rank(*rule));
        let priority = |rule: Option<&u32>| rule.map_or(0, |rule| rules.priority(*rule));
        let (low, high) = (priority(list.first()), priority(list.last()));
        let scale = Scale { low, shift: (33 - (high - low).leading_zeros()).saturating_sub(16) };
        for copies in [2 * list.len() + 256, 0] {
            let mut tree = Tree::new(rules.clone(), list.len(), scale, huge, memory.take());
            if let Ok(root) = tree.build_node(&list, 0, copies) {
                return tree.with_root(root);
            }
        }
        let mut tree = Tree::new(rules, list.len(), scale, huge, None);
        match tree.build_list(&list) {
            Ok(root) => tree.with_root(root),
            Err(Exhausted) => unreachable!("a list fits"),
        }
    }

    /// Reserves memory for a tree of that number of rules: address space, most of which is never touched. A list of all rules
    /// takes less than a tenth of it.
    fn memory(rules: &Rules, built_for: usize) -> Region {
        let words = (64 << 10) + built_for * (16 * rules.block_words + 64);
        Region::zeroed(words * 8)
    }

    fn new(rules: Rules, built_for: usize, scale: Scale, huge: bool, memory: Option<Region>) -> Tree {
        let memory = memory.unwrap_or_else(|| Tree::memory(&rules, built_for));
        if huge {
            memory.advise_huge();
        }
        Tree {
            rules,
            memory: Arc::new(memory),
            ahead: huge.then(Ahead::default),
            scale,
            used: LINE_WORDS,
            used_at_first: LINE_WORDS,
            built_for,
            free: Default::default(),
            retired: Vec::new(),
            returns: Returns::new(),
        }
    }

    fn with_root(mut self, root: Ref) -> Tree {
        self.set(ROOTS[0], root.0);
        self.used_at_first = self.used;
        self
    }

    /// True if this many rules need a new tree.
    fn is_due(&self, live: usize) -> bool {
        let half = self.used_at_first.midpoint(self.memory.words().len());
        live > 2 * self.built_for + LEAF_MAX || self.used > half
    }

    fn word(&self, at: usize) -> u64 {
        self.memory.words()[at].load(Ordering::Relaxed)
    }

    /// A reader that sees this word also sees everything stored before it.
    fn set(&self, at: usize, word: u64) {
        self.memory.words()[at].store(word, Ordering::Release);
    }

    fn cut(&self, node: Ref) -> Cut {
        let spread = self.word(node.at() + SPREAD) as u32;
        Cut { dim: node.dim() as u32, shift: node.shift(), bits: node.bits(), spread }
    }

    /// Adds a rule.
    fn insert(&mut self, rule: u32) -> Result<(), Exhausted> {
        let mut leaves = 0;
        self.count_leaves(ROOTS[0], rule, &mut leaves);
        self.add(ROOTS[usize::from(leaves > COPIES_MAX)], rule, 0)
    }

    /// Removes a rule.
    fn delete(&mut self, rule: u32) {
        ROOTS.into_iter().for_each(|root| self.remove(root, rule));
    }

    fn alloc(&mut self, words: usize) -> Result<usize, Exhausted> {
        let at = self.used;
        let end = at + words.next_multiple_of(LINE_WORDS);
        if end > self.memory.words().len() {
            return Err(Exhausted);
        }
        self.used = end;
        if let Some(ahead) = &mut self.ahead {
            ahead.reach(&self.memory, end * 8);
        }
        Ok(at)
    }

    fn alloc_leaf(&mut self, blocks: usize) -> Result<usize, Exhausted> {
        if self.free[blocks - 1].is_empty() {
            for leaf in self.returns.take().into_iter().flatten() {
                self.free[leaf.blocks() - 1].push(leaf);
            }
        }
        match self.free[blocks - 1].pop() {
            Some(leaf) => Ok(leaf.at()),
            None => self.alloc(blocks * self.rules.block_words),
        }
    }

    /// Frees a leaf that readers may still see.
    fn retire_leaf(&mut self, leaf: Ref) {
        if leaf.kind() != LEAF {
            return;
        }
        self.retired.push(leaf);
        if self.retired.len() >= RETIRED_TOGETHER {
            self.returns.retire(std::mem::take(&mut self.retired));
        }
    }

    /// Returns the rules of a leaf.
    fn rules_of(&self, leaf: Ref) -> Vec<u32> {
        if leaf.kind() == RULE {
            return vec![leaf.at() as u32];
        }
        let mut rules = Vec::with_capacity(LEAF_MAX + 1);
        for block in 0..leaf.blocks() {
            let at = leaf.at() + block * self.rules.block_words;
            let live = self.word(at + LIVE);
            let id = |lane| (self.word(at + IDS + lane / 2) >> (32 * (lane % 2))) as u32;
            rules.extend((0..LANES).filter(|lane| live >> lane & 1 == 1).map(id));
        }
        rules
    }

    /// Counts the leaves to which a rule would be added; stops soon after the maximum.
    fn count_leaves(&self, at: usize, rule: u32, leaves: &mut usize) {
        let old = Ref(self.word(at));
        if old.kind() != NODE || old.bits() == 0 || *leaves > COPIES_MAX {
            *leaves += 1;
            return;
        }
        let cut = self.cut(old);
        let children = self.rules.children(rule, &cut);
        if children.log() > cut.spread {
            self.count_leaves(old.at() + REST, rule, leaves);
        } else {
            children.each(|child| self.count_leaves(old.at() + CHILDREN + child as usize, rule, leaves));
        }
    }

    /// Adds a rule to the subtree whose reference is at `at`.
    fn add(&mut self, at: usize, rule: u32, depth: usize) -> Result<(), Exhausted> {
        let old = Ref(self.word(at));
        let best = self.scale.of(self.rules.priority(rule));
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
                    let children = self.rules.children(rule, &cut);
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
                let rank = self.rules.rank(rule);
                rules.insert(rules.partition_point(|other| self.rules.rank(*other) < rank), rule);
                if rules.len() <= LEAF_MAX {
                    self.build_leaf(&rules, best.min(old.best()))?
                } else {
                    let copies = rules.len();
                    self.build_node(&rules, depth, copies)?
                }
            }
        };
        if new != old {
            self.set(at, new.0);
            self.retire_leaf(old);
        }
        Ok(())
    }

    /// Removes a rule from the subtree whose reference is at `at`.
    fn remove(&mut self, at: usize, rule: u32) {
        let old = Ref(self.word(at));
        match old.kind() {
            NODE if old.bits() == 0 => {
                self.remove(old.at() + CHILDREN, rule);
                // A loop instead of recursion, because lists may be long.
                let mut next = Ref(self.word(old.at() + REST));
                while next.kind() == NODE && next.bits() == 0 {
                    self.remove(next.at() + CHILDREN, rule);
                    next = Ref(self.word(next.at() + REST));
                }
            }
            NODE => {
                let cut = self.cut(old);
                let children = self.rules.children(rule, &cut);
                if children.log() > cut.spread {
                    self.remove(old.at() + REST, rule);
                } else {
                    children.each(|child| self.remove(old.at() + CHILDREN + child as usize, rule));
                }
            }
            LEAF => {
                let mut any = 0;
                for block in 0..old.blocks() {
                    let block = old.at() + block * self.rules.block_words;
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

    /// Builds a subtree of these rules, best first. Beyond one leaf for each, rules are added to at most `copies` leaves.
    fn build_node(&mut self, rules: &[u32], depth: usize, copies: usize) -> Result<Ref, Exhausted> {
        let best = match rules {
            [] => return Ok(Ref::NONE),
            [first, ..] => self.scale.of(self.rules.priority(*first)),
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
            let of = self.rules.children(*rule, &cut);
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
            let child_ref = self.build_node(&rules, depth + 1, share(&rules))?;
            self.set(node + CHILDREN + child, child_ref.0);
        }
        let rest = self.build_node(&rest, depth + 1, share(&rest))?;
        self.set(node + REST, rest.0);
        Ok(Ref::node(node, &cut, best))
    }

    /// Returns the cut to make, if one is better than a leaf or a leaf is impossible.
    fn choose(&self, rules: &[u32], copies: usize) -> Option<Cut> {
        let list = &self.rules.dims.list;
        let dims = 0..list.len();
        let widths: Vec<u32> = list.iter().map(|dim| dim.width).collect();
        let spans: Vec<_> =
            rules.iter().flat_map(|rule| dims.clone().map(|d| self.rules.span(*rule, d))).collect();
        let (cut, cost) = cuts::choose(&spans, &widths, self.rules.dims.ternary, copies)?;
        (rules.len() > LEAF_MAX || cost < cuts::cost_of_leaf(rules.len())).then_some(cut)
    }

    fn build_leaf(&mut self, rules: &[u32], best: u16) -> Result<Ref, Exhausted> {
        let blocks = rules.len().div_ceil(LANES);
        let at = self.alloc_leaf(blocks)?;
        for (block, rules) in rules.chunks(LANES).enumerate() {
            let at = at + block * self.rules.block_words;
            let put = |at: usize, of: &dyn Fn(u32) -> u32| {
                for (word, rules) in rules.chunks(2).enumerate() {
                    let half = |i: usize| rules.get(i).map_or(0, |rule| u64::from(of(*rule)));
                    self.set(at + word, half(0) | half(1) << 32);
                }
            };
            self.set(at + LIVE, (1 << rules.len()) - 1);
            put(at + IDS, &|rule| rule);
            for dim in 0..self.rules.dims.list.len() {
                let at = at + BLOCK_HEAD + dim * LANES;
                put(at, &|rule| self.rules.span(rule, dim).0);
                put(at + LANES / 2, &|rule| self.rules.span(rule, dim).1);
            }
        }
        Ok(Ref::new(LEAF, at, blocks as u64, best))
    }

    /// Builds a list of rules that no cut separates, best first: each node has one child, a leaf, and its rest leads to the
    /// next node.
    fn build_list(&mut self, rules: &[u32]) -> Result<Ref, Exhausted> {
        let mut list = Ref::NONE;
        for rules in rules.chunks(LEAF_MAX).rev() {
            let best = self.scale.of(self.rules.priority(rules[0]));
            let leaf = self.build_leaf(rules, best)?;
            let node = self.alloc(CHILDREN + 1)?;
            self.set(node + REST, list.0);
            self.set(node + CHILDREN, leaf.0);
            list = Ref::node(node, &Cut { dim: 0, shift: 0, bits: 0, spread: 0 }, best);
        }
        Ok(list)
    }
}
