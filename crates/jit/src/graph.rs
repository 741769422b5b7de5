//! The pipeline as one control-flow graph.
//!
//! A [`Place`] is a node of one of the blocks that run. Blocks that run twice have their nodes twice. The nodes of a hot path
//! ([`HotPath`]) exist once more. Only packets on that path reach these copies, so everything that holds on the path is known there:
//! which headers are valid, and where they lie. A packet that takes another direction leaves the hot path by a side exit to the
//! general nodes. So the code means the same with any set of hot paths.
//!
//! The graph never changes. It knows no values: the analyses (`analysis`) find those.

use crate::slots::Slots;
use cranelift_codegen::entity::{EntityRef, PrimaryMap, entity_impl};
use p4jet_ir::columns::Columns;
use p4jet_ir::{
    ActionId, Block, BlockKind, CopyFrame, HeaderId, Keep, Node, NodeId, Op, PacketCopy, PipelineHalf,
    Program, Terminator,
};

/// A node of one of the blocks that run, or its copy on a hot path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(u32);
entity_impl!(Place, "place");

/// A value for each place of the graph.
pub type PerPlace<T> = PrimaryMap<Place, T>;

/// The number of a block in execution order. A block that runs twice has two steps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step(u32);
entity_impl!(Step, "step");

/// The position of a node in the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The step of its block.
    pub step: Step,
    /// The node.
    pub node: NodeId,
}

/// An action of a table: its number in [`p4jet_ir::Table::actions`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListedAction(u32);
entity_impl!(ListedAction, "listed");

/// A statement of a node: its number there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatementId(u32);
entity_impl!(StatementId, "statement");

/// A successor of a node: its number among the targets of the terminator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(u32);
entity_impl!(TargetId, "target");

/// A thread that runs a part of the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadId(u32);
entity_impl!(ThreadId, "thread");

/// A statement of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatementSite {
    /// The place.
    pub place: Place,
    /// The statement of its node.
    pub statement: StatementId,
}

/// A hot path: its nodes, and the action that ran at each node that applies a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HotPath(pub Vec<(Position, Option<ActionId>)>);

/// The places where stages begin for any table sizes. Jumps never skip these places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// Nowhere.
    Nowhere,
    /// At every block.
    Blocks,
    /// At the beginning of each part of the pipeline that runs on its own thread; the number of threads.
    Threads(usize),
}

/// An edge of a hot path.
#[derive(Clone, Copy)]
struct HotEdge {
    /// The action that ran, if the place applies a table.
    action: Option<ActionId>,
    /// The place where packets go that are on no hot path.
    general: Place,
    /// The next place of the hot path.
    to: Place,
}

/// The graph.
pub struct Graph<'a> {
    /// The program.
    pub program: &'a Program,
    /// The slots of the program.
    pub slots: Slots,
    /// The columns, and the whole columns of which they are parts.
    pub columns: Columns,
    blocks: PrimaryMap<Step, &'a Block>,
    /// The first place of each step.
    first: PrimaryMap<Step, Place>,
    /// All nodes of all steps, then those of the hot paths.
    positions: PerPlace<Position>,
    /// The number of places that are on no hot path.
    general: usize,
    /// For each place of a hot path: where the path continues.
    hot_edges: Vec<Vec<HotEdge>>,
    /// The place where packets arrive.
    start: Option<Place>,
    stops: Stops,
    successors: PerPlace<Vec<Place>>,
    /// Reverse post-order number of each place that packets can reach.
    order: PerPlace<Option<usize>>,
    /// The places that packets can reach, in reverse post-order.
    reached: Vec<Place>,
    in_cycle: PerPlace<bool>,
    /// True if packets other than arriving ones begin there, by [`PipelineHalf`].
    has_copies: [bool; 2],
}

impl StatementSite {
    /// The statement with this number at a place.
    pub fn new(place: Place, number: usize) -> StatementSite {
        StatementSite { place, statement: StatementId::new(number) }
    }
}

impl<'a> Graph<'a> {
    /// The graph of a program. Packets that take one of the `hot_paths` have places of their own there.
    pub fn new(program: &'a Program, stops: Stops, hot_paths: &[HotPath]) -> Graph<'a> {
        let blocks = program.ingress.iter().chain(&program.egress).map(|b| &program.blocks[b.index()]);
        let blocks: PrimaryMap<Step, &Block> = blocks.collect();
        let mut positions = PrimaryMap::new();
        let mut first = PrimaryMap::new();
        for (step, block) in &blocks {
            first.push(positions.next_key());
            let nodes = (0..block.body.nodes.len() as u32).map(NodeId);
            nodes.for_each(|node| _ = positions.push(Position { step, node }));
        }
        let general = positions.len();
        let hot_edges = add_hot_paths(&mut positions, &first, hot_paths);
        let hot_start = Place::new(general);
        let start = if positions.is_valid(hot_start) { hot_start } else { Place::new(0) };
        let count = positions.len();
        let mut graph = Graph {
            program,
            slots: Slots::of(program),
            // The verifier has checked that they fit.
            columns: Columns::of(program).unwrap_or_default(),
            blocks,
            first,
            start: positions.is_valid(start).then_some(start),
            positions,
            general,
            hot_edges,
            stops,
            successors: PrimaryMap::new(),
            order: std::iter::repeat_n(None, count).collect(),
            reached: Vec::new(),
            in_cycle: std::iter::repeat_n(false, count).collect(),
            has_copies: [false; 2],
        };
        // The verifier refuses it. The analyses treat it as the end of all paths, and emission as an internal error.
        debug_assert!(
            graph.places().all(|place| graph.node(place).terminator != Terminator::Exit),
            "only actions exit"
        );
        graph.successors = graph.places().map(|place| graph.find_successors(place)).collect();
        let start = graph.start();
        graph.number(start.into_iter());
        if graph.has_copies(PipelineHalf::Egress) {
            // The last root gets the lowest numbers.
            let roots = graph.egress_start().into_iter().chain(start);
            graph.number(roots);
        }
        graph.find_cycles();
        graph
    }

    /// All places.
    pub fn places(&self) -> impl Iterator<Item = Place> + use<> {
        (0..self.positions.len()).map(Place::new)
    }

    /// A value for each place.
    pub fn per_place<T: Clone>(&self, value: T) -> PerPlace<T> {
        std::iter::repeat_n(value, self.positions.len()).collect()
    }

    /// The number of places.
    pub fn count(&self) -> usize {
        self.positions.len()
    }

    /// The places that packets can reach, in reverse post-order.
    pub fn reached(&self) -> impl DoubleEndedIterator<Item = Place> + '_ {
        self.reached.iter().copied()
    }

    /// The number of a place in reverse post-order; `None` if packets cannot reach the place.
    pub fn order(&self, place: Place) -> Option<usize> {
        self.order[place]
    }

    /// True if packets can reach a place, as far as the graph shows.
    pub fn is_reached(&self, place: Place) -> bool {
        self.order[place].is_some()
    }

    /// True if a place can reach itself.
    pub fn is_in_cycle(&self, place: Place) -> bool {
        self.in_cycle[place]
    }

    /// The position of a place.
    pub fn position(&self, place: Place) -> Position {
        self.positions[place]
    }

    /// The step of a place.
    pub fn step(&self, place: Place) -> Step {
        self.positions[place].step
    }

    /// All steps.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = Step> + use<> {
        self.blocks.keys()
    }

    /// The first step of egress, which may be one past the last step.
    pub fn egress_step(&self) -> Step {
        Step::new(self.program.ingress.len())
    }

    /// The half of the pipeline that a place belongs to.
    pub fn half(&self, place: Place) -> PipelineHalf {
        if self.step(place) < self.egress_step() { PipelineHalf::Ingress } else { PipelineHalf::Egress }
    }

    /// The node at a place.
    pub fn node(&self, place: Place) -> &'a Node {
        let position = self.positions[place];
        &self.blocks[position.step].body.nodes[position.node.index()]
    }

    /// The block of a place.
    pub fn block(&self, place: Place) -> &'a Block {
        self.blocks[self.step(place)]
    }

    /// The block of a step.
    pub fn block_of(&self, step: Step) -> &'a Block {
        self.blocks[step]
    }

    /// The successors of a place.
    pub fn successors(&self, place: Place) -> &[Place] {
        &self.successors[place]
    }

    /// The place where packets arrive, if the program has any.
    pub fn start(&self) -> Option<Place> {
        self.start
    }

    /// The first place of egress, if egress has any.
    pub fn egress_start(&self) -> Option<Place> {
        self.first.get(self.egress_step()).copied()
    }

    /// The place where copies begin.
    pub fn entry(&self, begin: PipelineHalf) -> Option<Place> {
        match begin {
            PipelineHalf::Ingress => self.start(),
            PipelineHalf::Egress => self.egress_start(),
        }
    }

    /// True if packets other than arriving ones can begin there.
    pub fn has_copies(&self, begin: PipelineHalf) -> bool {
        self.has_copies[begin as usize]
    }

    /// The copy statements that packets may reach, with their places, in the order of places.
    pub fn copies(&self) -> impl Iterator<Item = (Place, &'a PacketCopy)> {
        self.places().filter(|&place| self.is_reached(place)).flat_map(|place| {
            let stmts = self.node(place).stmts.iter();
            stmts.filter_map(move |stmt| match &stmt.op {
                Op::Copy(copy) => Some((place, &**copy)),
                _ => None,
            })
        })
    }

    /// True if the block of a place is the last one of ingress.
    pub fn ends_ingress(&self, place: Place) -> bool {
        self.step(place).index() + 1 == self.program.ingress.len()
    }

    /// Another node of the same step.
    pub fn sibling(&self, place: Place, node: NodeId) -> Place {
        self.follow(place, None, self.general(Position { step: self.step(place), node }))
    }

    /// Another node of the same step, after the table of `place` ran an action.
    pub fn sibling_after(&self, place: Place, action: ActionId, node: NodeId) -> Place {
        self.follow(place, Some(action), self.general(Position { step: self.step(place), node }))
    }

    /// The first place of the next step; `None` after the last step.
    pub fn next_step(&self, place: Place) -> Option<Place> {
        Some(self.follow(place, None, self.next_step_on_error(place)?))
    }

    /// The place where a packet goes after a parser error, which is on no hot path.
    pub fn next_step_on_error(&self, place: Place) -> Option<Place> {
        self.first.get(Step::new(self.step(place).index() + 1)).copied()
    }

    /// The place where a packet goes whose block, or whose ingress, ends at a place; `None` if the packet leaves the switch.
    pub fn after(&self, place: Place) -> Option<Place> {
        match self.node(place).terminator {
            Terminator::Egress => Some(self.follow(place, None, self.egress_start()?)),
            Terminator::Reject(_) => self.next_step_on_error(place),
            _ => self.next_step(place),
        }
    }

    fn follow(&self, place: Place, action: Option<ActionId>, general: Place) -> Place {
        let edges = self.hot_edges_of(place).unwrap_or_default().iter();
        let edge = edges.copied().find(|edge| edge.action == action && edge.general == general);
        edge.map_or(general, |edge| edge.to)
    }

    fn hot_edges_of(&self, place: Place) -> Option<&[HotEdge]> {
        self.hot_edges.get(place.index().checked_sub(self.general)?).map(Vec::as_slice)
    }

    /// The place of a position that is on no hot path.
    pub fn general(&self, at: Position) -> Place {
        general(&self.first, at)
    }

    /// True if a place is on a hot path.
    pub fn is_hot(&self, place: Place) -> bool {
        place.index() >= self.general
    }

    /// True if packets rarely reach a place, as far as known: there are hot paths, and the place is on none.
    pub fn is_cold(&self, place: Place) -> bool {
        !self.hot_edges.is_empty() && !self.is_hot(place)
    }

    /// The action after which a hot path continues from a place.
    pub fn hot_action(&self, place: Place) -> Option<ActionId> {
        self.hot_edges_of(place)?.first()?.action
    }

    /// True if a stage begins at a place for any table sizes.
    pub fn stops_at(&self, place: Place) -> bool {
        let position = self.positions[place];
        let Some(step) = position.step.index().checked_sub(1) else { return false };
        position.node == NodeId(0)
            && match self.stops {
                Stops::Nowhere => false,
                Stops::Blocks => true,
                Stops::Threads(_) => self.thread_of(Step::new(step)) < self.thread_of(position.step),
            }
    }

    /// The thread that runs a place. Parsers before ingress, ingress, egress, and the last deparser with what follows have one
    /// thread each if there are four. With two threads, the first two parts share one and the last two the other; with three, the
    /// middle parts share one.
    pub fn thread(&self, place: Place) -> ThreadId {
        self.thread_of(self.step(place))
    }

    /// The thread that runs a step.
    pub fn thread_of(&self, step: Step) -> ThreadId {
        let Stops::Threads(threads) = self.stops else { return ThreadId::new(0) };
        let egress = self.egress_step();
        let deparser = self.deparsers().rfind(|step| *step >= egress);
        let part = match step < egress {
            true => {
                let mut until = self.steps().take_while(|before| *before <= step);
                usize::from(until.any(|before| self.blocks[before].kind != BlockKind::Parser))
            }
            false => 2 + usize::from(deparser.is_some_and(|deparser| step >= deparser)),
        };
        ThreadId::new(match threads {
            2 => part / 2,
            3 => part.div_ceil(2),
            _ => part,
        })
    }

    /// The steps that are deparsers.
    pub fn deparsers(&self) -> impl DoubleEndedIterator<Item = Step> {
        self.steps().filter(|&step| self.blocks[step].kind == BlockKind::Deparser)
    }

    /// True if a deparser may have run before a place.
    pub fn deparsed_before(&self, place: Place) -> bool {
        self.deparsers().next().is_some_and(|step| step < self.step(place))
    }

    /// True if the cursor is at the start of the frame on all paths, because a deparser has run and no parser since.
    pub fn just_deparsed(&self, place: Place) -> bool {
        let step = self.step(place);
        // Egress may begin with a copy or behind a block that ends ingress early.
        let first = if step >= self.egress_step() { self.egress_step() } else { Step::new(0) };
        let mut before = self.steps().filter(|before| (first..step).contains(before));
        let last = before.rfind(|step| self.blocks[*step].kind != BlockKind::Control);
        last.is_some_and(|step| self.blocks[step].kind == BlockKind::Deparser)
    }

    /// True if the frame of a copy still has the headers where the copy's offsets say, with the values that the packet
    /// had when they were extracted, if no statement set them.
    pub fn keeps_headers(&self, place: Place, copy: &PacketCopy) -> bool {
        copy.begin == PipelineHalf::Egress
            && copy.frame == CopyFrame::Current
            && copy.keep == Keep::All
            && !self.deparsed_before(place)
    }

    /// True if the frame as it arrived is needed when it may have changed.
    pub fn needs_arrived(&self) -> bool {
        let truncates = self.truncates();
        self.copies().any(|(place, copy)| {
            copy.frame == CopyFrame::Arrived && (truncates || self.deparsed_before(place))
        })
    }

    /// True if any statement truncates frames.
    pub fn truncates(&self) -> bool {
        let mut stmts = self.places().flat_map(|place| &self.node(place).stmts);
        stmts.any(|stmt| matches!(stmt.op, Op::Truncate { .. }))
    }

    /// The most bytes that the deparser of `place` emits, if the code has to check: emits in loops have no end of their own.
    pub fn output_limit(&self, place: Place) -> Option<u32> {
        let block = self.block(place);
        let emits = |n: &usize| block.body.nodes[*n].stmts.iter().any(|s| matches!(s.op, Op::Emit { .. }));
        let mut emits = (0..block.body.nodes.len()).filter(emits);
        let first = self.first[self.step(place)].index();
        emits
            .any(|n| self.in_cycle[Place::new(first + n)])
            .then(|| self.program.block_emitted_bytes_max(block))
    }

    /// True if a packet may reach a node again, in a block or in an action.
    pub fn may_loop(&self) -> bool {
        let leads_back = |body: &p4jet_ir::Cfg| {
            body.nodes.iter().enumerate().any(|(number, node)| {
                let mut back = false;
                node.terminator.for_each_target(&mut |to| back |= to.index() <= number);
                back
            })
        };
        self.in_cycle.values().any(|in_cycle| *in_cycle)
            || self.program.actions.iter().any(|action| leads_back(&action.body))
    }

    /// The bits of a header; `None` if it has varbit fields.
    pub fn header_bits(&self, header: HeaderId) -> Option<u32> {
        let header = &self.program.headers[header.index()];
        header
            .fields
            .iter()
            .map(|f| if f.varbit_length.is_some() { None } else { Some(self.program.width(f.field)) })
            .sum()
    }

    /// The bodies that run, each once: those of the blocks and those of the actions.
    pub fn bodies(&self) -> Vec<&'a p4jet_ir::Cfg> {
        let program = self.program;
        let mut blocks: Vec<usize> =
            program.ingress.iter().chain(&program.egress).map(|b| b.index()).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let blocks = blocks.iter().map(|&b| &program.blocks[b].body);
        blocks.chain(program.actions.iter().map(|a| &a.body)).collect()
    }

    /// The bits of a value.
    pub fn slot_width(&self, slot: crate::slots::Slot) -> u32 {
        self.slots.as_field(slot).map_or(64, |field| self.program.width(field))
    }

    /// The most edges that packets may take from a place.
    pub fn edges(&self, place: Place) -> usize {
        let node = self.node(place);
        let targets = match &node.terminator {
            Terminator::Switch { cases, .. } => cases.len() + 1,
            Terminator::Apply { table, .. } => 2 * self.program.tables[table.index()].actions.len() + 1,
            _ => 2,
        };
        targets + node.stmts.iter().filter(|stmt| stmt.op.may_reject()).count()
    }

    fn find_successors(&self, place: Place) -> Vec<Place> {
        let mut out = Vec::new();
        let node = self.node(place);
        if node.stmts.iter().any(|s| s.op.may_reject()) {
            out.extend(self.next_step_on_error(place));
        }
        match &node.terminator {
            Terminator::Goto(n) => out.push(self.sibling(place, *n)),
            Terminator::If { then, otherwise, .. } => {
                out.push(self.sibling(place, *then));
                out.push(self.sibling(place, *otherwise));
            }
            Terminator::Switch { cases, default, .. } => {
                out.extend(cases.iter().map(|(_, n)| self.sibling(place, *n)));
                out.push(self.sibling(place, *default));
            }
            Terminator::Turn { next, spent, .. } => {
                out.push(self.sibling(place, *next));
                out.push(self.sibling(place, *spent));
            }
            Terminator::Apply { table, next, exit, .. } => {
                // A group without members runs no action.
                out.push(self.sibling(place, *next));
                out.push(self.sibling(place, *exit));
                for action in &self.program.tables[table.index()].actions {
                    out.push(self.sibling_after(place, action.action, *next));
                    out.push(self.sibling_after(place, action.action, *exit));
                }
            }
            Terminator::Return | Terminator::Reject(_) | Terminator::Egress => out.extend(self.after(place)),
            Terminator::Drop(_) | Terminator::Done | Terminator::Exit => {}
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Numbers the places that can be reached from the roots, and finds the copies there.
    fn number(&mut self, roots: impl Iterator<Item = Place>) {
        let mut postorder = Vec::new();
        let mut seen = self.per_place(false);
        for root in roots {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            let mut stack = vec![(root, self.successors[root].len())];
            while let Some((place, left)) = stack.last_mut() {
                match left.checked_sub(1) {
                    Some(number) => {
                        *left = number;
                        let next = self.successors[*place][number];
                        if !std::mem::replace(&mut seen[next], true) {
                            stack.push((next, self.successors[next].len()));
                        }
                    }
                    None => {
                        postorder.push(*place);
                        stack.pop();
                    }
                }
            }
        }
        postorder.reverse();
        for (number, &place) in postorder.iter().enumerate() {
            self.order[place] = Some(number);
        }
        self.reached = postorder;
        self.has_copies = PipelineHalf::ALL.map(|begin| self.copies().any(|(_, copy)| copy.begin == begin));
    }

    fn find_cycles(&mut self) {
        let mut graph = petgraph::graph::DiGraph::<(), ()>::new();
        let nodes: Vec<_> = self.places().map(|_| graph.add_node(())).collect();
        for place in self.places() {
            for next in &self.successors[place] {
                graph.add_edge(nodes[place.index()], nodes[next.index()], ());
                self.in_cycle[place] |= *next == place;
            }
        }
        // Kosaraju's algorithm, because petgraph's does not recurse.
        for component in petgraph::algo::kosaraju_scc(&graph) {
            if component.len() > 1 {
                for node in component {
                    self.in_cycle[Place::new(node.index())] = true;
                }
            }
        }
    }
}

fn general(first: &PrimaryMap<Step, Place>, at: Position) -> Place {
    Place::new(first[at.step].index() + at.node.index())
}

/// Adds the places of the hot paths. Paths with a common beginning share its places.
fn add_hot_paths(
    positions: &mut PerPlace<Position>,
    first: &PrimaryMap<Step, Place>,
    hot_paths: &[HotPath],
) -> Vec<Vec<HotEdge>> {
    let count = positions.len();
    let mut edges: Vec<Vec<HotEdge>> = Vec::new();
    for path in hot_paths {
        let mut last: Option<(Place, Option<ActionId>)> = None;
        for &(position, action) in &path.0 {
            let to = general(first, position);
            let known = match last {
                None => (!edges.is_empty()).then(|| Place::new(count)),
                Some((from, after)) => {
                    let edges = edges[from.index() - count].iter();
                    edges.copied().find(|edge| edge.action == after && edge.general == to).map(|edge| edge.to)
                }
            };
            let place = known.unwrap_or_else(|| {
                let place = positions.push(position);
                edges.push(Vec::new());
                if let Some((from, action)) = last {
                    edges[from.index() - count].push(HotEdge { action, general: to, to: place });
                }
                place
            });
            last = Some((place, action));
        }
    }
    edges
}

/// The size of a set of slots for each node that runs.
pub fn liveness_bits(program: &Program) -> usize {
    let blocks = program.ingress.iter().chain(&program.egress).map(|b| &program.blocks[b.index()]);
    let nodes = blocks.map(|block| block.body.nodes.len()).sum::<usize>();
    nodes.saturating_mul(Slots::of(program).count())
}
