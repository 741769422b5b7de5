//! Pictures of parsers, controls, actions and functions with their source text.

use super::picture::{Node, Picture, Sheet};
use p4jet_analysis::typed::{
    Action, Call, Callee, Expr, ExprKind, KeySet, Local, Param, ParserBody, Program, Stmt, StmtKind, TableId,
    Target, Transition,
};
use p4jet_syntax::span::Span;
use std::fmt::Write;

/// Maximum length of a line; longer ones are truncated with an ellipsis.
pub(super) const LINE_CHARS_MAX: usize = 60;
/// Maximum number of lines of a condition; the rest is omitted.
const CONDITION_LINES_MAX: usize = 4;
/// Maximum number of statements, keys or cases that one node shows; the last line counts the others.
const LINES_MAX: usize = 16;
/// Maximum number of arrows in the picture of a parser. If there are more, none is drawn: the states name their
/// successors.
const ARROWS_MAX: usize = 200;

/// Returns a Graphviz text in which each parser, control, action and function is a cluster.
pub fn dot(program: &Program) -> String {
    super::with_stack(|| {
        let mut dot = "digraph program {\n  node [shape=box, style=filled];\n".to_string();
        for (i, graph) in graphs(program).iter().enumerate() {
            writeln!(dot, "  subgraph cluster_{i} {{\n    label=\"{}\";", escape(&graph.title))
                .expect("a String takes everything");
            for (n, node) in graph.nodes.iter().enumerate() {
                let label = node.lines.iter().map(|line| escape(line) + "\\l").collect::<String>();
                writeln!(dot, "    n{i}_{n} [fillcolor=\"{}\", label=\"{label}\"];", node.colour)
                    .expect("a String takes everything");
            }
            for (from, to, label) in &graph.edges {
                writeln!(dot, "    n{i}_{from} -> n{i}_{to} [label=\"{}\"];", escape(label))
                    .expect("a String takes everything");
            }
            dot += "  }\n";
        }
        dot + "}\n"
    })
}

/// Returns the graph as an SVG picture.
pub fn svg(program: &Program) -> String {
    super::with_stack(|| {
        let mut sheet = Sheet::new();
        for graph in graphs(program) {
            if graph.is_parser {
                let nodes = graph.nodes.iter().map(|node| (&node.lines[..], node.colour)).collect();
                let shown = graph.edges.len() <= ARROWS_MAX;
                let edges = graph.edges.iter().filter(|_| shown).map(|(from, to, _)| (*from, *to)).collect();
                sheet.add_row(&graph.title, Picture::new(nodes, edges).draw());
                continue;
            }
            if graph.is_control {
                sheet.end_row();
            }
            sheet.add(&graph.title, super::picture::outline(&graph.nodes));
        }
        sheet.svg()
    })
}

/// A parser, control, action or function.
struct Graph {
    title: String,
    is_parser: bool,
    is_control: bool,
    nodes: Vec<Node>,
    /// From, to, label.
    edges: Vec<(usize, usize, String)>,
}

/// Returns everything with a body in the order of declaration, each control followed by its actions.
fn graphs(program: &Program) -> Vec<Graph> {
    let mut graphs = Vec::new();
    let own = |span: Span| !program.sources.files[span.file.0 as usize].builtin;
    for parser in &program.parsers {
        if let (Some(body), true) = (&parser.body, own(parser.span)) {
            graphs.push(Drawing::new(program, format!("parser {}", parser.name)).parser(body));
        }
    }
    let mut local = vec![false; program.actions.len()];
    for control in &program.controls {
        let (Some(body), true) = (&control.body, own(control.span)) else { continue };
        let mut drawing = Drawing::new(program, format!("control {}", control.name));
        drawing.graph.is_control = true;
        graphs.push(drawing.statements(&body.apply));
        for id in body.locals.iter().filter_map(|local| match local {
            Local::Action(id) => Some(id),
            _ => None,
        }) {
            local[id.index()] = true;
            graphs.push(action(program, &program.actions[id.index()]));
        }
    }
    for (_, global) in program.actions.iter().enumerate().filter(|(i, a)| !local[*i] && own(a.span)) {
        graphs.push(action(program, global));
    }
    for function in &program.functions {
        if let (Some(body), true) = (&function.body, own(function.span)) {
            let title = format!("{}{}", function.name, names(program, &function.params));
            graphs.push(Drawing::new(program, title).statements(body));
        }
    }
    graphs
}

fn action(program: &Program, action: &Action) -> Graph {
    let title = format!("action {}{}", action.name, names(program, &action.params));
    Drawing::new(program, title).statements(&action.body)
}

fn names(program: &Program, params: &[Param]) -> String {
    let names: Vec<&str> = params.iter().map(|p| program.vars[p.var.index()].name.as_str()).collect();
    format!("({})", names.join(", "))
}

/// Sources of an edge: a node and its outcome.
type Ends = Vec<(usize, String)>;

struct Drawing<'a> {
    program: &'a Program,
    graph: Graph,
    /// The decision in whose branch the next node is.
    parent: Option<(usize, String)>,
    depth: usize,
}

impl<'a> Drawing<'a> {
    fn new(program: &'a Program, title: String) -> Drawing<'a> {
        let graph = Graph {
            title: cut(&title),
            is_parser: false,
            is_control: false,
            nodes: Vec::new(),
            edges: Vec::new(),
        };
        Drawing { program, graph, parent: None, depth: 0 }
    }

    /// Returns the text of a place in one line, without comments.
    fn text(&self, span: Span) -> String {
        let file = &self.program.sources.files[span.file.0 as usize];
        one_line(file.text.get(span.lo as usize..span.hi as usize).unwrap_or_default())
    }

    fn node(&mut self, lines: Vec<String>, colour: &'static str) -> usize {
        let lines = lines.iter().map(|line| cut(line)).collect();
        self.graph.nodes.push(Node { lines, colour, depth: self.depth, parent: self.parent.clone() });
        self.graph.nodes.len() - 1
    }

    fn lead(&mut self, ends: Ends, to: usize) {
        self.graph.edges.extend(ends.into_iter().map(|(from, label)| (from, to, label)));
    }

    fn parser(mut self, body: &ParserBody) -> Graph {
        self.graph.is_parser = true;
        // The start state is at the top.
        let mut order: Vec<usize> = (0..body.states.len()).collect();
        order.sort_by_key(|&i| i != body.start as usize);
        let place = |state: u32| order.iter().position(|&i| i == state as usize);
        let places: Vec<usize> = (0..body.states.len() as u32).filter_map(place).collect();
        for &i in &order {
            let state = &body.states[i];
            let mut lines = vec![format!("state {}", state.name)];
            lines.extend(some(state.stmts.iter().map(|stmt| self.text(stmt.span)).collect()));
            let name = |target: Target| match target {
                Target::Accept => "accept",
                Target::Reject => "reject",
                Target::State(i) => &body.states[i as usize].name,
            };
            let mut targets = Vec::new();
            match &state.transition {
                Transition::Direct(target, _) => {
                    lines.push(format!("→ {}", name(*target)));
                    targets.push(*target);
                }
                Transition::Select { keys, cases, .. } => {
                    let keys: Vec<String> = keys.iter().map(|key| self.text(key.span)).collect();
                    lines.extend(wrap(&format!("select ({})", keys.join(", "))));
                    let cases_shown = cases.iter().map(|case| {
                        let any = case.keysets.iter().all(|set| matches!(set, KeySet::Any));
                        let text = self.text(case.span);
                        let label = text.rsplit_once(':').map_or("", |(label, _)| label.trim());
                        format!("  {} → {}", if any { "default" } else { label }, name(case.target))
                    });
                    lines.extend(some(cases_shown.collect()));
                    targets.extend(cases.iter().map(|case| case.target));
                }
            }
            let from = self.node(
                lines,
                if matches!(state.transition, Transition::Direct(..)) { "white" } else { "lightyellow" },
            );
            let mut next: Vec<usize> = targets
                .iter()
                .filter_map(|target| match target {
                    Target::State(i) => Some(places[*i as usize]),
                    Target::Accept | Target::Reject => None,
                })
                .collect();
            next.sort_unstable();
            next.dedup();
            next.into_iter().for_each(|to| self.graph.edges.push((from, to, String::new())));
        }
        self.graph
    }

    fn statements(mut self, stmts: &[Stmt]) -> Graph {
        self.list(stmts, Vec::new());
        if self.graph.nodes.is_empty() {
            self.node(vec!["(empty)".to_string()], "white");
        }
        self.graph
    }

    /// Draws statements that are reached from `ends`; returns their ends.
    fn list(&mut self, stmts: &[Stmt], mut ends: Ends) -> Ends {
        let mut plain: Vec<String> = Vec::new();
        let mut shown = None;
        for stmt in stmts {
            if let StmtKind::Block { stmts, .. } = &stmt.kind {
                ends = self.flush(&mut plain, ends);
                ends = self.list(stmts, ends);
            } else if self.decides(stmt) {
                ends = self.flush(&mut plain, ends);
                ends = self.decision(stmt, ends);
            } else {
                // The statements of one macro are shown once.
                if shown.replace(stmt.span) != Some(stmt.span) {
                    plain.push(self.text(stmt.span));
                }
                if matches!(
                    stmt.kind,
                    StmtKind::Return(_) | StmtKind::Exit | StmtKind::Break | StmtKind::Continue
                ) {
                    self.flush(&mut plain, ends);
                    ends = Vec::new();
                }
            }
        }
        self.flush(&mut plain, ends)
    }

    fn decides(&self, stmt: &Stmt) -> bool {
        match &stmt.kind {
            StmtKind::If(..)
            | StmtKind::Switch { .. }
            | StmtKind::SwitchAction { .. }
            | StmtKind::For { .. }
            | StmtKind::ForIn { .. } => true,
            StmtKind::Call(call) => matches!(call.callee, Callee::TableApply(_)),
            _ => false,
        }
    }

    fn flush(&mut self, plain: &mut Vec<String>, ends: Ends) -> Ends {
        if plain.is_empty() {
            return ends;
        }
        let node = self.node(some(std::mem::take(plain)), "white");
        self.lead(ends, node);
        vec![(node, String::new())]
    }

    fn branch(&mut self, node: usize, label: &str, stmts: &[Stmt]) -> Ends {
        // `else if` is drawn beside the `if`, so that a chain of them stays in one column.
        let chained = label == "no" && matches!(stmts, [Stmt { kind: StmtKind::If(..), .. }]);
        let parent = self.parent.replace((node, label.to_string()));
        self.depth += usize::from(!chained);
        let ends = self.list(stmts, vec![(node, label.to_string())]);
        self.depth -= usize::from(!chained);
        self.parent = parent;
        ends
    }

    fn decision(&mut self, stmt: &Stmt, ends: Ends) -> Ends {
        match &stmt.kind {
            StmtKind::If(cond, then, otherwise) => {
                let mut lines = wrap(&format!("if ({})", self.text(cond.span)));
                let tables = tables_of(cond);
                tables.iter().for_each(|table| lines.extend(self.table(*table)));
                let node = self.node(lines, if tables.is_empty() { "lightyellow" } else { "lightblue" });
                self.lead(ends, node);
                let mut ends = self.branch(node, "yes", then);
                ends.extend(self.branch(node, "no", otherwise));
                ends
            }
            StmtKind::SwitchAction { table, cases } => {
                let mut lines = vec![self.head(stmt.span)];
                lines.extend(self.table(*table));
                let node = self.node(lines, "lightblue");
                self.lead(ends, node);
                let mut ends = Vec::new();
                let mut has_default = false;
                for case in cases {
                    let listed = &self.program.tables[table.index()].actions;
                    let actions = case.actions.iter().map(|i| {
                        self.program.actions[listed[*i as usize].action.action.index()].name.clone()
                    });
                    let mut labels: Vec<String> = actions.collect();
                    labels.extend(case.has_default.then(|| "default".to_string()));
                    has_default |= case.has_default;
                    ends.extend(self.branch(node, &cut(&labels.join(", ")), &case.body));
                }
                ends.extend((!has_default).then(|| (node, "default".to_string())));
                ends
            }
            StmtKind::Switch { cases, .. } => {
                let head = self.head(stmt.span);
                let node = self.node(wrap(&head), "lightyellow");
                self.lead(ends, node);
                let mut ends = Vec::new();
                let mut has_default = false;
                for case in cases {
                    let mut labels: Vec<String> = case.values.iter().map(|e| self.text(e.span)).collect();
                    labels.extend(case.has_default.then(|| "default".to_string()));
                    has_default |= case.has_default;
                    ends.extend(self.branch(node, &cut(&labels.join(", ")), &case.body));
                }
                ends.extend((!has_default).then(|| (node, "default".to_string())));
                ends
            }
            StmtKind::For { body, .. } | StmtKind::ForIn { body, .. } => {
                let head = self.head(stmt.span);
                let node = self.node(wrap(&head), "lightyellow");
                self.lead(ends, node);
                let again = self.branch(node, "each", body);
                self.lead(again, node);
                vec![(node, "done".to_string())]
            }
            StmtKind::Call(Call { callee: Callee::TableApply(table), .. }) => {
                let mut lines = vec![self.text(stmt.span)];
                lines.extend(self.table(*table));
                let node = self.node(lines, "lightblue");
                self.lead(ends, node);
                vec![(node, String::new())]
            }
            _ => ends,
        }
    }

    /// Returns a statement up to the end of its first parentheses: `for (…)`, `switch (…)`.
    fn head(&self, span: Span) -> String {
        let text = self.text(span);
        let mut open = 0;
        for (at, c) in text.char_indices() {
            match c {
                '(' => open += 1,
                ')' if open == 1 => return text[..=at].to_string(),
                ')' => open -= 1,
                _ => {}
            }
        }
        text
    }

    /// Returns the keys and actions of a table.
    fn table(&self, id: TableId) -> Vec<String> {
        let table = &self.program.tables[id.index()];
        let mut lines = vec![format!("table {}", table.name)];
        let key = |key: &p4jet_analysis::typed::Key| {
            let kind = &key.match_kind;
            let room = LINE_CHARS_MAX.saturating_sub(kind.chars().count() + 4);
            format!("  {}: {kind}", cut_to(&self.text(key.expr.span), room))
        };
        lines.extend(some(table.keys.iter().map(key).collect()));
        let actions = table
            .actions
            .iter()
            .map(|a| format!("  {};", self.program.actions[a.action.action.index()].name));
        lines.extend(some(actions.collect()));
        lines
    }
}

/// Returns the tables that an expression applies.
fn tables_of(e: &Expr) -> Vec<TableId> {
    match &e.kind {
        ExprKind::ApplyHit { table, .. } => vec![*table],
        ExprKind::Call(call) => match call.callee {
            Callee::TableApply(table) => vec![table],
            _ => call.args.iter().flatten().flat_map(tables_of).collect(),
        },
        _ => e.operands().flat_map(tables_of).collect(),
    }
}

/// Returns at most [`LINES_MAX`] lines.
fn some(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > LINES_MAX {
        let more = lines.len() - (LINES_MAX - 1);
        lines.truncate(LINES_MAX - 1);
        lines.push(format!("… {more} more"));
    }
    lines
}

/// Splits a text into lines of at most [`LINE_CHARS_MAX`] characters, at spaces if possible.
fn wrap(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let room =
            lines.last().is_some_and(|l| l.chars().count() + 1 + word.chars().count() <= LINE_CHARS_MAX);
        let full = lines.len() == CONDITION_LINES_MAX;
        match lines.last_mut() {
            Some(line) if room => {
                line.push(' ');
                line.push_str(word);
            }
            Some(line) if full => {
                *line = cut_to(line, LINE_CHARS_MAX - 2) + " …";
                return lines;
            }
            Some(_) => lines.push(format!("    {word}")),
            None => lines.push(word.to_string()),
        }
    }
    lines
}

fn cut(text: &str) -> String {
    cut_to(text, LINE_CHARS_MAX)
}

fn cut_to(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some(_) => text.chars().take(chars.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_string(),
    }
}

/// Replaces white space, line ends and comments by one space each, except in quotes.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if c == '"' {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            let length = end.map_or(rest.len(), |(at, _)| at + 1);
            line.push_str(&rest[..length].replace(|c: char| c.is_control(), " "));
            rest = &rest[length..];
            continue;
        } else {
            if !c.is_whitespace() && !c.is_control() {
                line.push(c);
                rest = &rest[c.len_utf8()..];
                continue;
            }
            c.len_utf8()
        };
        if !line.ends_with(' ') {
            line.push(' ');
        }
        rest = &rest[length..];
    }
    line.trim().to_string()
}

/// Escapes a quoted text.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_short_and_lose_comments() {
        assert_eq!(one_line("a =  b; // c\n  /* d */ e"), "a = b; e");
        assert_eq!(
            one_line("log_msg(\"// no  comment \\\" /* \", x)"),
            "log_msg(\"// no  comment \\\" /* \", x)"
        );
        assert_eq!(one_line("a\u{0}b\u{1b}c"), "a b c");
        let long = "word ".repeat(100);
        let lines = wrap(&long);
        assert_eq!(lines.len(), CONDITION_LINES_MAX);
        assert!(lines.iter().all(|line| line.chars().count() <= LINE_CHARS_MAX), "{lines:?}");
        assert!(lines[CONDITION_LINES_MAX - 1].ends_with('…'), "{lines:?}");
        assert_eq!(cut(&"x".repeat(61)), "x".repeat(59) + "…");
        assert_eq!(some(vec!["x".to_string(); 30]).last().expect("a line"), "… 15 more");
    }
}
