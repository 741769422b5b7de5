//! Tables (P4_16, "Tables").

use crate::calls::{Calling, Formal};
use crate::check::{Checker, Place};
use crate::consts;
use crate::decls::{control_name, text_annotation};
use crate::generic::is_poison;
use crate::keysets::Shape;
use crate::scopes::Symbol;
use crate::typed::*;
use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive, Zero};
use p4jet_suggest as suggest;
use p4jet_syntax::ast::{self, Annotation, AnnotationBody, Direction, TablePropertyKind};
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::span::Span;
use std::collections::HashMap;

/// Largest priority of an entry: P4Runtime's priorities are positive `int32`.
const PRIORITY_MAX: u32 = i32::MAX as u32;

/// Properties of P4_16.
const PROPERTIES: &[&str] =
    &["key", "actions", "entries", "default_action", "size", "largest_priority_wins", "priority_delta"];

/// Properties of v1model, PSA and PNA. In a program for another of these architectures they have no effect.
const ARCHITECTURE_PROPERTIES: &[&str] = &[
    "implementation",
    "counters",
    "meters",
    "support_timeout",
    "psa_implementation",
    "psa_direct_counter",
    "psa_direct_meter",
    "psa_empty_group_action",
    "psa_idle_timeout",
    "pna_implementation",
    "pna_direct_counter",
    "pna_direct_meter",
    "pna_empty_group_action",
    "pna_idle_timeout",
    "add_on_miss",
    "idle_timeout_with_auto_delete",
    "default_idle_timeout_for_data_plane_added_entries",
];

/// A table whose properties are being checked.
struct Draft {
    name: String,
    keys: Vec<Key>,
    has_key: bool,
    actions: Vec<TableAction>,
    /// The position of each name in that list.
    action_places: HashMap<String, usize>,
    /// True if an action of the list is wrong: then actions that are not in it are not reported.
    actions_wrong: bool,
}

impl Checker {
    /// `table t { … }`
    pub(crate) fn table(&mut self, decl: &ast::Decl, table: &ast::TableDecl) -> Option<TableId> {
        let errors = self.diagnostics.len();
        let result = self.at(Place::Table, |c| c.table_inside(decl, table));
        debug_assert!(result.is_some() || self.diagnostics.len() > errors);
        match result {
            Some(id) => self.declare(&table.name, Symbol::Table(id)),
            None => self.declare(&table.name, Symbol::Poison),
        }
        result
    }

    fn table_inside(&mut self, decl: &ast::Decl, table: &ast::TableDecl) -> Option<TableId> {
        self.check_duplicate_properties(table);
        self.check_order(table);
        self.check_name_annotation(&decl.annotations);
        let mut draft = Draft {
            name: table.name.text.clone(),
            keys: Vec::new(),
            has_key: false,
            actions: Vec::new(),
            action_places: HashMap::new(),
            actions_wrong: false,
        };
        let mut has_actions = false;
        for property in &table.properties {
            match &property.kind {
                TablePropertyKind::Key(elements) => {
                    draft.has_key = true;
                    for element in elements {
                        if let ast::ExprKind::Path(path) = &element.expr.kind
                            && path.name.text == draft.name
                            && !path.global
                        {
                            let text = format!("key `{}` refers to its own table", draft.name);
                            self.report(
                                Diagnostic::error("table", element.expr.span, text)
                                    .related(table.name.span, "the table is named here"),
                            );
                        }
                    }
                    draft.keys = elements.iter().map(|e| self.key(e)).collect();
                }
                TablePropertyKind::Actions(actions) => {
                    has_actions = true;
                    for action in actions {
                        self.listed_action(&mut draft, action);
                    }
                }
                _ => {}
            }
        }
        if !has_actions {
            self.report(
                Diagnostic::error(
                    "table",
                    table.name.span,
                    format!("table `{}` has no property `actions`", draft.name),
                )
                .note("`actions = { … }` lists the actions that entries may run"),
            );
        }
        let mut done = Table {
            name: table.name.text.clone(),
            control_name: control_name(&decl.annotations, &table.name.text),
            keys: Vec::new(),
            actions: Vec::new(),
            default: ActionRef { action: ActionId(0), args: Vec::new(), span: decl.span },
            const_default: false,
            empty_group_action: None,
            size: None,
            entries: Vec::new(),
            const_entries: false,
            largest_priority_wins: true,
            properties: Vec::new(),
            property_annotations: Vec::new(),
            annotations: decl.annotations.clone(),
            span: decl.span,
        };
        let mut default = None;
        let mut default_given = false;
        let mut priority_delta = BigInt::one();
        let mut entries: Option<(&[ast::Entry], bool)> = None;
        for property in &table.properties {
            match &property.kind {
                TablePropertyKind::Key(_) | TablePropertyKind::Actions(_) => {}
                TablePropertyKind::Entries(list) => entries = Some((list, property.is_const)),
                TablePropertyKind::Custom(name, value) => match name.text.as_str() {
                    "default_action" => {
                        default_given = true;
                        done.const_default = property.is_const;
                        default = self.default_action(&draft, value);
                    }
                    "psa_empty_group_action" => {
                        let what = "the action for empty groups of";
                        let named = self.named_action(&draft, value, &name.text, what);
                        done.empty_group_action =
                            named.and_then(|(listed, args)| self.bound_action(&listed, args, value.span));
                    }
                    "size" => match self.table_size(value) {
                        Some(Ok(size)) => done.size = Some(size),
                        Some(Err(later)) => done.properties.push(("size".into(), later)),
                        None => {}
                    },
                    "largest_priority_wins" => {
                        let typed = self.constant_of(value, &Type::Bool, "`largest_priority_wins`");
                        done.largest_priority_wins = !matches!(typed.kind, ExprKind::Bool(false));
                    }
                    "priority_delta" => {
                        if let Some(delta) = self.integer_constant(value, "`priority_delta`") {
                            if delta.is_positive() {
                                priority_delta = delta;
                            } else {
                                self.error("out-of-range", value.span, "`priority_delta` must be positive");
                            }
                        }
                    }
                    _ => {
                        let Some(typed) = self.custom_property(&draft.name, name, value) else { continue };
                        if !self.compile_time(&typed) {
                            let text =
                                format!("table property `{}` must be known at compile time", name.text);
                            self.error("not-constant", value.span, text);
                        } else if self.is_open(&typed.ty) {
                            let shown = self.show(&typed.ty);
                            self.error(
                                "cannot-infer",
                                value.span,
                                format!("cannot infer the type arguments of {shown}"),
                            );
                        } else {
                            done.properties.push((name.text.clone(), typed));
                            if !property.annotations.is_empty() {
                                let annotations = property.annotations.clone();
                                done.property_annotations.push((name.text.clone(), annotations));
                            }
                        }
                    }
                },
            }
        }
        done.default = match default {
            Some(default) => default,
            None if default_given => {
                // Already reported, so the analysis will not return a program.
                ActionRef { action: ActionId(0), args: Vec::new(), span: decl.span }
            }
            None => self.no_action(&mut draft, table.name.span),
        };
        if let Some((list, is_const)) = entries {
            done.const_entries = is_const;
            if draft.keys.is_empty() && list.is_empty() {
                // Without keys, entries have no key sets to check.
            } else if draft.keys.is_empty() {
                self.report(
                    Diagnostic::error(
                        "table",
                        list.first().map_or(decl.span, |e| e.span),
                        format!("table `{}` has entries but no key", draft.name),
                    )
                    .note("a table without key runs its default action"),
                );
            } else {
                for entry in list {
                    if let Some(entry) = self.entry(&draft, entry, is_const) {
                        done.entries.push(entry);
                    }
                }
            }
            self.check_duplicate_entries(&draft, &done.entries);
            let ordered = draft.keys.iter().any(|k| !["exact", "lpm"].contains(&k.match_kind.as_str()));
            if let Some(priority) =
                list.iter().find_map(|e| e.priority.as_ref()).filter(|_| !ordered && !is_const)
            {
                let text =
                    format!("a priority in table `{}`, whose keys are all `exact` or `lpm`", draft.name);
                self.report(
                    Diagnostic::error("table", priority.span, text)
                        .note("no two entries of it match the same packet equally well"),
                );
            }
            if !is_const && done.entries.len() == list.len() {
                self.priorities(&mut done, list, &priority_delta);
            }
        }
        done.keys = draft.keys;
        done.actions = draft.actions;
        if done.keys.iter().any(|k| is_poison(&k.expr.ty)) {
            // Uses of the table are still checked, because it exists.
            debug_assert!(!self.diagnostics.is_empty());
        }
        if !decl.annotations.iter().any(|a| a.name.text == "hidden") {
            self.claim_control_name(&done.control_name, "table", table.name.span);
        }
        let id = TableId(self.prog.tables.len() as u32);
        self.prog.tables.push(done);
        Some(id)
    }

    /// A property that is not in the language: one of the architecture, or a misspelt one.
    fn custom_property(&mut self, table: &str, name: &ast::Ident, value: &ast::Expr) -> Option<Expr> {
        let known: Vec<&str> = PROPERTIES.iter().chain(ARCHITECTURE_PROPERTIES).copied().collect();
        let before = self.diagnostics.len();
        let typed = self.expr(value, None);
        if known.contains(&name.text.as_str()) {
            return Some(typed).filter(|typed| !is_poison(&typed.ty));
        }
        let near = suggest::nearest(&name.text, known.iter().copied());
        let text = format!("table `{table}` has an unknown property `{}`", name.text);
        let mut diagnostic = Diagnostic::warning("ignore-prop", name.span, text);
        if let Some(near) = near {
            diagnostic = diagnostic.meant(near);
        }
        if is_poison(&typed.ty) {
            // The value of, say, `defualt_action` need not be checked.
            if near.is_some() {
                self.forget_since(before);
                self.report(Diagnostic { severity: Severity::Error, code: "unknown-property", ..diagnostic });
            }
            return None;
        }
        self.report(diagnostic.note("only an architecture that defines it uses it; here it has no effect"));
        Some(typed)
    }

    /// The size: a number, or an expression over constructor parameters.
    fn table_size(&mut self, value: &ast::Expr) -> Option<Result<u32, Expr>> {
        let typed = self.expr(value, None);
        if is_poison(&typed.ty) {
            return None;
        }
        if self.numeric(&typed.ty).is_none() {
            let shown = self.show(&typed.ty);
            self.error(
                "type-mismatch",
                value.span,
                format!("the size of a table must be a number, not {shown}"),
            );
            return None;
        }
        match &typed.kind {
            ExprKind::Int(size) => match size.to_u32() {
                Some(size) => Some(Ok(size)),
                None => {
                    let shown = crate::types::short(size);
                    let text = format!("the size of a table must be from 0 to {}, not {shown}", u32::MAX);
                    self.error("out-of-range", value.span, text);
                    None
                }
            },
            _ if self.compile_time(&typed) => Some(Err(typed)),
            _ => {
                self.error("not-constant", value.span, "the size of a table must be known at compile time");
                None
            }
        }
    }

    /// `default_action` names an action of the list, and entries use the keys, so these must come first.
    fn check_order(&mut self, table: &ast::TableDecl) {
        let place = |wanted: &str| table.properties.iter().position(|p| property_name(p) == wanted);
        for (later, earlier) in [("default_action", "actions"), ("entries", "key"), ("entries", "actions")] {
            if let (Some(later_at), Some(earlier_at)) = (place(later), place(earlier))
                && later_at < earlier_at
            {
                let (at, after) = (table.properties[later_at].span, table.properties[earlier_at].span);
                let text = format!("`{later}` of table `{}` comes before `{earlier}`", table.name.text);
                self.report(
                    Diagnostic::error("table", at, text)
                        .related(after, format!("`{earlier}` is here"))
                        .note(format!("move it below `{earlier}`, which it refers to")),
                );
                return;
            }
        }
    }

    fn check_duplicate_properties(&mut self, table: &ast::TableDecl) {
        let mut first: HashMap<&str, Span> = HashMap::new();
        for property in &table.properties {
            let name = property_name(property);
            if let Some(earlier) = first.insert(name, property.span) {
                self.report(
                    Diagnostic::error(
                        "duplicate-declaration",
                        property.span,
                        format!("table `{}` has property `{name}` twice", table.name.text),
                    )
                    .related(earlier, "given here first"),
                );
            }
        }
    }

    fn key(&mut self, element: &ast::KeyElement) -> Key {
        // A key may apply another table, because it is evaluated where this table is applied.
        let mut expr = self.at(Place::Apply, |c| c.expr(&element.expr, None));
        if expr.ty == Type::Integer {
            self.report(
                Diagnostic::error("type-mismatch", expr.span, "a key of type `int`, which has no width")
                    .note("give the number a width, as in `8w5`"),
            );
            expr = self.poison(expr.span);
        } else if !self.is_key_type(&expr.ty) {
            let shown = self.show(&expr.ty);
            let mut diagnostic =
                Diagnostic::error("type-mismatch", expr.span, format!("a key cannot be {shown}"))
                    .note("keys are `bit<W>`, `int<W>`, `bool`, enums, `error`, or types made of these");
            if matches!(expr.ty, Type::Struct(..)) {
                diagnostic = diagnostic.note("list the fields one by one");
            }
            self.report(diagnostic);
            expr = self.poison(expr.span);
        }
        let kind = &element.match_kind.text;
        if !self.prog.match_kinds.contains(kind) && !self.missing_include(&element.match_kind) {
            let mut diagnostic = Diagnostic::error(
                "unknown-name",
                element.match_kind.span,
                format!("unknown match kind `{kind}`"),
            );
            diagnostic = diagnostic.suggest(kind, self.prog.match_kinds.iter().map(String::as_str));
            diagnostic = diagnostic.choices("match kinds", &Vec::from_iter(&self.prog.match_kinds));
            self.report(diagnostic);
        }
        let name = match text_annotation(&element.annotations, "name") {
            Some(Ok(text)) => text,
            Some(Err(problem)) => {
                self.report(problem);
                String::new()
            }
            None => {
                if !has_plain_name(&element.expr) && !is_poison(&expr.ty) {
                    self.report(
                        Diagnostic::error(
                            "table",
                            element.expr.span,
                            "this key has no name for the control plane",
                        )
                        .note("name the expression: `… : exact @name(\"…\");`"),
                    );
                }
                self.key_name(&element.expr, &expr)
            }
        };
        Key {
            expr,
            name,
            match_kind: kind.clone(),
            annotations: element.annotations.clone(),
            span: element.span,
        }
    }

    /// Returns the control-plane name of a key without `@name` (P4_16, "Keys" of "Computing control-plane names"), as
    /// p4c writes it: a field has its own `@name`, and a number no leading zeros.
    fn key_name(&self, source: &ast::Expr, typed: &Expr) -> String {
        match (&source.kind, &typed.kind) {
            (ast::ExprKind::Call(callee, _, args), ExprKind::Call(call)) if args.is_empty() => {
                match (&callee.kind, &call.callee) {
                    (ast::ExprKind::Member(base, _), Callee::IsValid(header)) => {
                        format!("{}.$valid$", self.key_name(base, header))
                    }
                    _ => self.source_text(source),
                }
            }
            (ast::ExprKind::Member(base, name), ExprKind::Field(typed_base, index)) => {
                let field = match &typed_base.ty {
                    Type::Struct(id, _) => self.prog.structs[id.index()].fields.get(*index as usize),
                    _ => None,
                };
                let name = field.map_or(name.text.clone(), |f| control_name(&f.annotations, &f.name));
                match name.strip_prefix('.') {
                    Some(global) => global.to_owned(),
                    None => format!("{}.{name}", self.key_name(base, typed_base)),
                }
            }
            (ast::ExprKind::Index(base, index), ExprKind::Index(typed_base, _)) => {
                format!("{}[{}]", self.key_name(base, typed_base), self.source_text(index))
            }
            (ast::ExprKind::Slice(base, ..), ExprKind::Slice(typed_base, hi, lo)) => {
                format!("{}[{hi}:{lo}]", self.key_name(base, typed_base))
            }
            (ast::ExprKind::Binary(ast::BinaryOp::BitAnd, a, b), ExprKind::Binary(_, typed_a, typed_b)) => {
                format!("{} & {}", self.key_name(a, typed_a), self.key_name(b, typed_b))
            }
            (ast::ExprKind::Int(n), _) => {
                let text = self.text_of(source.span).to_ascii_lowercase();
                let digits =
                    text.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(['w', 's']);
                let of = |start: &str| text.starts_with(start) || digits.starts_with(start);
                if of("0x") {
                    format!("{:#x}", n.value)
                } else if of("0b") {
                    format!("{:#b}", n.value)
                } else if of("0o") {
                    format!("{:#o}", n.value)
                } else {
                    n.value.to_string()
                }
            }
            _ => self.source_text(source),
        }
    }

    fn text_of(&self, span: Span) -> &str {
        let file = self.prog.sources.files.get(span.file.0 as usize);
        file.and_then(|f| f.text.get(span.lo as usize..span.hi as usize)).unwrap_or("")
    }

    /// Returns an expression as written, with reduced white space.
    fn source_text(&self, expr: &ast::Expr) -> String {
        match &expr.kind {
            ast::ExprKind::Path(path) => {
                // A name of a constant index becomes its number.
                if let Some(Symbol::Const(value)) =
                    self.scopes.lookup(&path.name.text, path.global).map(|b| &b.symbol)
                    && let ExprKind::Int(n) = &value.kind
                {
                    return n.to_string();
                }
                path.name.text.clone()
            }
            ast::ExprKind::Member(base, name) => format!("{}.{}", self.source_text(base), name.text),
            ast::ExprKind::Index(base, index) => {
                format!("{}[{}]", self.source_text(base), self.source_text(index))
            }
            ast::ExprKind::Slice(base, hi, lo) => {
                format!("{}[{}:{}]", self.source_text(base), self.source_text(hi), self.source_text(lo))
            }
            ast::ExprKind::Call(callee, _, args) if args.is_empty() => {
                format!("{}()", self.source_text(callee))
            }
            ast::ExprKind::Int(n) if n.width.is_none() => n.value.to_string(),
            _ => self.text_of(expr.span).split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }

    /// An element of `actions`.
    fn listed_action(&mut self, draft: &mut Draft, source: &ast::ActionRef) {
        let name = &source.name.name;
        let symbol = self.scopes.lookup(&name.text, source.name.global).map(|b| b.symbol.clone());
        let id = match symbol {
            Some(Symbol::Action(id)) => id,
            Some(Symbol::Poison) => {
                draft.actions_wrong = true;
                return;
            }
            None if self.missing_include(name) => {
                draft.actions_wrong = true;
                return;
            }
            other => {
                draft.actions_wrong = true;
                let message = match &other {
                    Some(symbol) => {
                        format!(
                            "table `{}` lists `{}`, which is {}",
                            draft.name,
                            name.text,
                            symbol.describe()
                        )
                    }
                    None => format!("table `{}` lists unknown action `{}`", draft.name, name.text),
                };
                let mut diagnostic = Diagnostic::error("unknown-action", source.span, message);
                if other.is_some() {
                    diagnostic = self.declared_here(diagnostic, &name.text);
                }
                let later = other.is_none().then(|| self.declared_later(&diagnostic, name)).flatten();
                diagnostic = later.unwrap_or_else(|| self.action_choices(diagnostic, &name.text));
                self.report(diagnostic);
                return;
            }
        };
        if let Some(earlier) = draft.action_places.get(&name.text).map(|i| &draft.actions[*i]) {
            let text = format!("table `{}` lists two actions `{}`", draft.name, name.text);
            let earlier = earlier.action.span;
            self.report(
                Diagnostic::error("duplicate-declaration", source.span, text)
                    .related(earlier, "listed here first"),
            );
            return;
        }
        let all = self.formals(&self.prog.actions[id.index()].params, &[], &[]);
        let (bound, data): (Vec<Formal>, Vec<Formal>) =
            all.into_iter().partition(|f| f.dir != Direction::None);
        for formal in &data {
            // For structs, arrays and similar types, the architecture decides.
            let plain = matches!(
                self.base(&formal.ty),
                Type::Bit(_)
                    | Type::Int(_)
                    | Type::Bool
                    | Type::Enum(_)
                    | Type::Error
                    | Type::Struct(..)
                    | Type::Stack(..)
                    | Type::Tuple(_)
            );
            if !plain && !is_poison(&formal.ty) && !crate::generic::is_generic(&formal.ty) {
                let shown = self.show(&formal.ty);
                let what =
                    format!("action data of type {shown}: parameter `{}` of `{}`", formal.name, name.text);
                self.report(
                    Diagnostic::unsupported(source.span, what)
                        .related(formal.span, "declared here")
                        .note("action data may be `bit<W>`, `int<W>`, `bool` and enums"),
                );
            }
        }
        let given = source.args.as_deref().unwrap_or_default();
        if given.len() > bound.len() && !data.is_empty() {
            self.report(
                Diagnostic::error(
                    "argument-count",
                    source.span,
                    format!(
                        "action `{}` gets {} arguments in the list of table `{}`",
                        name.text,
                        given.len(),
                        draft.name
                    ),
                )
                .note(format!("only parameters with a direction are bound here: {}", bound.len()))
                .note("the others are action data, which each entry supplies"),
            );
            draft.actions_wrong = true;
            return;
        }
        let Some(mut args) = self.arguments(&name.text, &bound, given, Calling::Block, source.span) else {
            draft.actions_wrong = true;
            return;
        };
        args.extend(data.iter().map(|_| None));
        draft.action_places.insert(name.text.clone(), draft.actions.len());
        draft.actions.push(TableAction {
            action: ActionRef { action: id, args, span: source.span },
            annotations: source.annotations.clone(),
        });
    }

    /// Adds the action that was probably meant, and those that could be listed.
    fn action_choices(&mut self, mut diagnostic: Diagnostic, name: &str) -> Diagnostic {
        if !self.may_search(self.scopes.size()) {
            return diagnostic;
        }
        let names = self.scopes.names(|s| matches!(s, Symbol::Action(_)));
        if let Some(near) = suggest::nearest(name, names.iter().map(String::as_str)) {
            diagnostic = self.declared_here(diagnostic, near).meant(near);
        }
        match names.is_empty() {
            true => diagnostic.note(format!("no action is visible in {}", self.owner)),
            false => diagnostic.choices(format!("actions visible in {}", self.owner), &names),
        }
    }

    /// Adds `NoAction` as the default of a table that names none.
    fn no_action(&mut self, draft: &mut Draft, span: Span) -> ActionRef {
        if let Some(listed) =
            draft.actions.iter().find(|a| self.prog.actions[a.action.action.index()].name == "NoAction")
        {
            return ActionRef { action: listed.action.action, args: Vec::new(), span };
        }
        let id = match self.scopes.lookup("NoAction", true).map(|b| &b.symbol) {
            Some(Symbol::Action(id)) if self.prog.actions[id.index()].params.is_empty() => *id,
            Some(Symbol::Poison) => return ActionRef { action: ActionId(0), args: Vec::new(), span },
            Some(_) => {
                self.report(
                    Diagnostic::error("table", span, format!("table `{}` has no default action", draft.name))
                        .note(
                            "it would be the action `NoAction` of core.p4, but the program declares another",
                        ),
                );
                return ActionRef { action: ActionId(0), args: Vec::new(), span };
            }
            None => {
                if !self.missing_file("core.p4", span, "the default action `NoAction` is") {
                    self.report(
                    Diagnostic::error("table", span, format!("table `{}` has no default action", draft.name))
                        .note("it would be the action `NoAction`, which is not declared: `#include <core.p4>` does"),
                );
                }
                // Reports it only once.
                self.scopes.bind_global("NoAction", Symbol::Poison, span);
                return ActionRef { action: ActionId(0), args: Vec::new(), span };
            }
        };
        let default = ActionRef { action: id, args: Vec::new(), span };
        let annotation = Annotation {
            name: ast::Ident { text: "defaultonly".into(), span },
            body: AnnotationBody::Empty,
            span,
        };
        draft.action_places.insert("NoAction".into(), draft.actions.len());
        draft.actions.push(TableAction { action: default.clone(), annotations: vec![annotation] });
        default
    }

    /// `default_action = a(…);`
    fn default_action(&mut self, draft: &Draft, value: &ast::Expr) -> Option<ActionRef> {
        let (listed, args) = self.named_action(draft, value, "default_action", "the default action of")?;
        if let Some(annotation) = listed.annotations.iter().find(|a| a.name.text == "tableonly") {
            let name = &self.prog.actions[listed.action.action.index()].name;
            let text = format!("action `{name}` is marked `@tableonly` and cannot be the default");
            self.report(Diagnostic::error("table", value.span, text).related(annotation.span, "marked here"));
        }
        self.bound_action(&listed, args, value.span)
    }

    /// Returns the listed action that the value of a property names, and its arguments.
    fn named_action<'e>(
        &mut self,
        draft: &Draft,
        value: &'e ast::Expr,
        property: &str,
        what: &str,
    ) -> Option<(TableAction, &'e [ast::Arg])> {
        let path = |e: &ast::Expr| match &e.kind {
            ast::ExprKind::Path(path) => Some(path.clone()),
            ast::ExprKind::Type(ty) => match &ty.kind {
                ast::TypeKind::Named(path, args) if args.is_empty() => Some(path.clone()),
                _ => None,
            },
            _ => None,
        };
        let found = match &value.kind {
            ast::ExprKind::Call(callee, _, args) => path(callee).map(|p| (p, Some(args.as_slice()))),
            _ => path(value).map(|p| (p, None)),
        };
        let Some((path, args)) = found else {
            let text = format!("`{property}` must be an action of the table, perhaps with arguments");
            self.error("table", value.span, text);
            return None;
        };
        let listed = self.find_listed(draft, &path, value.span, what)?;
        Some((listed, args.unwrap_or_default()))
    }

    /// Returns the action in the table's list that a name refers to.
    fn find_listed(
        &mut self,
        draft: &Draft,
        path: &ast::Path,
        span: Span,
        what: &str,
    ) -> Option<TableAction> {
        let name = &path.name.text;
        if let Some(i) = draft.action_places.get(name).copied() {
            let listed = draft.actions[i].clone();
            let meant = self.scopes.lookup(name, path.global).map(|b| b.symbol.clone());
            match meant {
                Some(Symbol::Action(id)) if id != listed.action.action => {
                    let text = format!(
                        "`{name}` is {what} table `{}`, but its list names another `{name}`",
                        draft.name
                    );
                    let declared = self.prog.actions[id.index()].span;
                    self.report(
                        Diagnostic::error("unknown-action", span, text)
                            .related(declared, "this action is used here")
                            .related(listed.action.span, "listed here"),
                    );
                    return None;
                }
                _ => return Some(listed),
            }
        }
        if draft.actions_wrong {
            return None;
        }
        let names: Vec<String> =
            draft.actions.iter().map(|a| self.prog.actions[a.action.action.index()].name.clone()).collect();
        let mut diagnostic = Diagnostic::error(
            "unknown-action",
            span,
            format!("`{name}` is {what} table `{}`, but not in its list of actions", draft.name),
        );
        diagnostic = diagnostic.suggest(name, names.iter().map(String::as_str));
        diagnostic = diagnostic.choices("its actions", &names);
        self.report(diagnostic);
        None
    }

    /// Returns a listed action with its data, for the default action and for entries. Arguments for parameters with a
    /// direction may be repeated as in the list or omitted.
    fn bound_action(&mut self, listed: &TableAction, given: &[ast::Arg], span: Span) -> Option<ActionRef> {
        let id = listed.action.action;
        let (name, params) = {
            let action = &self.prog.actions[id.index()];
            (action.name.clone(), action.params.clone())
        };
        let all = self.formals(&params, &[], &[]);
        let bound = all.iter().filter(|f| f.dir != Direction::None).count();
        let data: Vec<Formal> = all[bound..].to_vec();
        let repeats_bound = given.len() == all.len() && bound > 0
            || given
                .iter()
                .any(|a| a.name.as_ref().is_some_and(|n| all[..bound].iter().any(|f| f.name == n.text)));
        let (formals, skipped) = if repeats_bound { (all.clone(), 0) } else { (data, bound) };
        let args = self.arguments(&name, &formals, given, Calling::Block, span)?;
        let mut result: Vec<Option<Expr>> = listed.action.args[..skipped].to_vec();
        for (arg, formal) in args.into_iter().zip(&formals) {
            if formal.dir != Direction::None {
                let i = result.len();
                let same = match (&arg, &listed.action.args[i]) {
                    (Some(a), Some(b)) => same_expr(a, b),
                    (None, None) => true,
                    _ => false,
                };
                if !same {
                    let text = format!(
                        "parameter `{}` of `{name}` is bound differently in the list of actions",
                        formal.name
                    );
                    self.report(
                        Diagnostic::error("arguments", span, text).related(listed.action.span, "bound here"),
                    );
                    return None;
                }
            } else if let Some(arg) = &arg
                && !self.compile_time(arg)
            {
                let text = format!("argument `{}` of `{name}` must be known at compile time", formal.name);
                self.report(
                    Diagnostic::error("not-constant", arg.span, text)
                        .note("it is action data, which is stored in the table"),
                );
                return None;
            }
            result.push(arg);
        }
        Some(ActionRef { action: id, args: result, span })
    }

    fn entry(&mut self, draft: &Draft, entry: &ast::Entry, const_entries: bool) -> Option<Entry> {
        let shapes: Vec<Shape> = draft.keys.iter().map(|k| Shape::One(k.expr.ty.clone())).collect();
        let what = format!("an entry of table `{}`", draft.name);
        let keysets = self.keyset(&entry.keyset, &shapes, &what).map(|sets| match sets[..] {
            [KeySet::Any] => vec![KeySet::Any; shapes.len()],
            _ => sets,
        });
        let priority = match &entry.priority {
            None => None,
            Some(expr) if const_entries => {
                self.report(
                    Diagnostic::error("table", expr.span, "a priority in `const entries`")
                        .note("their order decides: the first match wins"),
                );
                None
            }
            Some(expr) => {
                let value = self.integer_constant(expr, "a priority")?;
                Some(value)
            }
        };
        let listed =
            self.find_listed(draft, &entry.action.name, entry.action.span, "the action of an entry of");
        let action = listed.and_then(|listed| {
            if let Some(annotation) = listed.annotations.iter().find(|a| a.name.text == "defaultonly") {
                let text = format!(
                    "action `{}` is marked `@defaultonly` and cannot be in entries",
                    entry.action.name.name.text
                );
                self.report(
                    Diagnostic::error("table", entry.action.span, text)
                        .related(annotation.span, "marked here"),
                );
            }
            self.bound_action(&listed, entry.action.args.as_deref().unwrap_or_default(), entry.action.span)
        });
        let (keysets, action) = (keysets?, action?);
        let keyset_spans = match &entry.keyset.kind {
            ast::ExprKind::Tuple(items) | ast::ExprKind::List(items, false)
                if items.len() == keysets.len() =>
            {
                items.iter().map(|item| item.span).collect()
            }
            _ => vec![entry.keyset.span; keysets.len()],
        };
        for ((set, key), span) in keysets.iter().zip(&draft.keys).zip(&keyset_spans) {
            self.check_entry_set(set, key, *span);
        }
        Some(Entry {
            keysets,
            keyset_spans,
            priority,
            is_const: entry.is_const || const_entries,
            action,
            annotations: entry.annotations.clone(),
            span: entry.span,
        })
    }

    /// P4_16, "Entry priorities": with exact keys only, no two entries may be equal.
    fn check_duplicate_entries(&mut self, draft: &Draft, entries: &[Entry]) {
        if draft.keys.iter().any(|k| k.match_kind != "exact") {
            return;
        }
        let mut first: HashMap<String, Span> = HashMap::new();
        for entry in entries {
            let mut key = String::new();
            for set in &entry.keysets {
                match set {
                    KeySet::Value(Expr { kind: ExprKind::Int(n), .. }) => key.push_str(&format!("{n},")),
                    KeySet::Value(Expr { kind: ExprKind::Bool(b), .. }) => key.push_str(&format!("{b},")),
                    KeySet::Value(Expr { kind: ExprKind::EnumMember(n) | ExprKind::Error(n), .. }) => {
                        key.push_str(&format!("{n},"));
                    }
                    _ => {
                        key.clear();
                        break;
                    }
                }
            }
            if key.is_empty() {
                continue;
            }
            if let Some(earlier) = first.insert(key, entry.span) {
                let text = format!("table `{}` has two entries with this key", draft.name);
                self.report(
                    Diagnostic::error("duplicate-entry", entry.span, text)
                        .related(earlier, "the first is here"),
                );
            }
        }
    }

    /// Each match kind of the core library and v1model allows only some forms of sets.
    fn check_entry_set(&mut self, set: &KeySet, key: &Key, span: Span) {
        let (form, allowed) = match set {
            KeySet::Mask(..) => ("a mask", &["ternary", "lpm"][..]),
            KeySet::Range(..) => ("a range", &["range"][..]),
            KeySet::ValueSet(_) => ("a value set", &[][..]),
            KeySet::Any | KeySet::Value(_) => ("", &[][..]),
        };
        // Match kinds with these names that the program itself declares are not checked.
        let known = ["exact", "ternary", "lpm", "range", "optional"].contains(&key.match_kind.as_str())
            && !self.own_match_kinds.contains(&key.match_kind);
        if !form.is_empty()
            && (known || matches!(set, KeySet::ValueSet(_)))
            && !allowed.contains(&key.match_kind.as_str())
        {
            self.report(
                Diagnostic::error(
                    "keyset",
                    span,
                    format!("{form} for key `{}`, whose match kind is `{}`", key.name, key.match_kind),
                )
                .related(key.span, "the key"),
            );
        }
        if let KeySet::Value(value) | KeySet::Mask(value, _) | KeySet::Range(value, _) = set
            && !self.compile_time(value)
        {
            self.error("not-constant", value.span, "the key set of an entry must be known at compile time");
        }
        if known
            && let (KeySet::Mask(_, mask), "lpm") = (set, key.match_kind.as_str())
            && let (ExprKind::Int(mask_value), Type::Bit(w) | Type::Int(w)) =
                (&mask.kind, self.base(&mask.ty))
        {
            let mask_value = consts::wrap_unsigned(mask_value, w);
            // For ones followed by zeros, the complement plus one is a power of two.
            let gap = consts::power(w) - &mask_value;
            let prefix = (&gap & (&gap - 1u32)).is_zero();
            if !prefix {
                let span = mask.span;
                self.error("keyset", span, "the mask of an `lpm` key must be ones followed by zeros");
            }
        }
    }

    /// P4_16, "Entry priorities": fills in missing priorities if some are given, or if a distance is.
    fn priorities(&mut self, table: &mut Table, source: &[ast::Entry], delta: &BigInt) {
        let any = table.entries.iter().any(|e| e.priority.is_some());
        if !any && delta.is_one() {
            return;
        }
        if any
            && let (Some(first), Some(entry)) = (table.entries.first(), source.first())
            && first.priority.is_none()
        {
            self.report(
                Diagnostic::error(
                    "table",
                    entry.span,
                    "the first entry has no priority, but a later one has",
                )
                .note("give all entries a priority, or none"),
            );
            return;
        }
        let n = table.entries.len();
        let mut priority = BigInt::zero();
        for i in 0..n {
            priority = match &table.entries[i].priority {
                Some(given) => given.clone(),
                None if any => match table.largest_priority_wins {
                    true => priority - delta,
                    false => priority + delta,
                },
                None => {
                    let steps = if table.largest_priority_wins { n - 1 - i } else { i };
                    delta * BigInt::from(steps) + 1
                }
            };
            if priority.is_negative() || priority > BigInt::from(PRIORITY_MAX) {
                let shown = crate::types::short(&priority);
                let span = table.entries[i].span;
                self.error(
                    "out-of-range",
                    span,
                    format!("priority {shown}: it must be from 0 to {PRIORITY_MAX}"),
                );
                return;
            }
            table.entries[i].priority = Some(priority.clone());
        }
    }
}

fn property_name(property: &ast::TableProperty) -> &str {
    match &property.kind {
        TablePropertyKind::Key(_) => "key",
        TablePropertyKind::Actions(_) => "actions",
        TablePropertyKind::Entries(_) => "entries",
        TablePropertyKind::Custom(name, _) => &name.text,
    }
}

/// True if the source text of a key can be its control-plane name: a path of fields and constant elements, a slice of
/// one, one with a mask, or a call without arguments.
fn has_plain_name(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ast::ExprKind::Path(_) | ast::ExprKind::Type(_) | ast::ExprKind::This => true,
        ast::ExprKind::Int(_) | ast::ExprKind::Bool(_) => true,
        ast::ExprKind::Member(base, _) => has_plain_name(base),
        ast::ExprKind::Index(base, index) => has_plain_name(base) && has_plain_name(index),
        ast::ExprKind::Slice(base, hi, lo) => [base, hi, lo].iter().all(|e| has_plain_name(e)),
        ast::ExprKind::PlusSlice(base, lo, width) => [base, lo, width].iter().all(|e| has_plain_name(e)),
        ast::ExprKind::Binary(ast::BinaryOp::BitAnd, a, b) => has_plain_name(a) && has_plain_name(b),
        ast::ExprKind::Call(callee, types, args) => {
            types.is_empty() && args.is_empty() && has_plain_name(callee)
        }
        _ => false,
    }
}

/// True if two expressions are the same except for their places.
fn same_expr(a: &Expr, b: &Expr) -> bool {
    let all = |x: &[Expr], y: &[Expr]| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_expr(x, y));
    match (&a.kind, &b.kind) {
        (ExprKind::Int(x), ExprKind::Int(y)) => x == y,
        (ExprKind::Bool(x), ExprKind::Bool(y)) => x == y,
        (ExprKind::String(x), ExprKind::String(y)) => x == y,
        (ExprKind::EnumMember(x), ExprKind::EnumMember(y)) | (ExprKind::Error(x), ExprKind::Error(y)) => {
            x == y
        }
        (ExprKind::Var(x), ExprKind::Var(y)) => x == y,
        (ExprKind::Field(x, i), ExprKind::Field(y, j)) => i == j && same_expr(x, y),
        (ExprKind::Index(x, i), ExprKind::Index(y, j)) => same_expr(x, y) && same_expr(i, j),
        (ExprKind::Slice(x, a, b), ExprKind::Slice(y, c, d)) => (a, b) == (c, d) && same_expr(x, y),
        (ExprKind::Unary(p, x), ExprKind::Unary(q, y)) => p == q && same_expr(x, y),
        (ExprKind::Binary(p, x, i), ExprKind::Binary(q, y, j)) => {
            p == q && same_expr(x, y) && same_expr(i, j)
        }
        (ExprKind::Cast(x), ExprKind::Cast(y)) => same_expr(x, y),
        (ExprKind::Aggregate(x), ExprKind::Aggregate(y)) => all(x, y),
        (ExprKind::Conditional(c, x, y), ExprKind::Conditional(d, u, v)) => {
            same_expr(c, d) && same_expr(x, u) && same_expr(y, v)
        }
        (ExprKind::Call(x), ExprKind::Call(y)) => match (&x.callee, &y.callee) {
            (Callee::IsValid(x), Callee::IsValid(y)) => same_expr(x, y),
            (Callee::Function(f), Callee::Function(g)) => {
                f == g
                    && x.args.len() == y.args.len()
                    && x.args.iter().zip(&y.args).all(|(x, y)| match (x, y) {
                        (Some(x), Some(y)) => same_expr(x, y),
                        (None, None) => true,
                        _ => false,
                    })
            }
            _ => false,
        },
        _ => false,
    }
}
