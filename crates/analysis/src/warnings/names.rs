//! Unused names, and names that hide others, as the scopes noticed them.

use crate::scopes::{Noticed, Symbol, is_internal};
use crate::typed::{Param, Program, Type};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

/// Returns the locations of unused parsers, controls and functions, about which nothing more needs to be reported.
pub(super) fn warn(program: &Program, noticed: Noticed, found: &mut Vec<Diagnostic>) -> Vec<Span> {
    let names = Names::of(program);
    let mut unused = Vec::new();
    for (name, binding) in noticed.unused {
        if is_internal(&name) || name == "main" {
            continue;
        }
        if let Some(what) = names.wanted(&binding.symbol) {
            unused.extend(names.whole(&binding.symbol));
            found.push(Diagnostic::warning("unused", binding.span, format!("{what} `{name}` is never used")));
        }
    }
    for new in noticed.shadowing {
        // The names of a prototype's parameters are visible nowhere.
        if matches!(new.symbol, Symbol::Var(id) if names.vars[id.index()] == VarRole::Prototype) {
            continue;
        }
        let (place, hidden) = new.hidden;
        let what = match hidden {
            Symbol::Var(id) if names.params[id.index()] => "a parameter",
            other => other.describe(),
        };
        let mut diagnostic =
            Diagnostic::warning("shadow", new.span, format!("`{}` hides {what} of that name", new.name));
        let builtin = program.sources.files.get(place.file.0 as usize).is_none_or(|file| file.builtin);
        diagnostic = match builtin {
            true => {
                diagnostic.note(format!("`{}` is declared in {}", new.name, program.sources.file_name(place)))
            }
            false => diagnostic.related(place, "declared here"),
        };
        found.push(diagnostic);
    }
    unused
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VarRole {
    /// A variable, or action data, that only the program needs.
    Own,
    /// A parameter that callers, or an architecture, require.
    Interface,
    /// A parameter of something without a body.
    Prototype,
}

struct Names<'a> {
    program: &'a Program,
    /// One per variable.
    vars: Vec<VarRole>,
    /// For each variable, true if it is a parameter.
    params: Vec<bool>,
    /// For each type parameter, true if it belongs to a parser, control or package.
    interface_types: Vec<bool>,
}

impl<'a> Names<'a> {
    fn of(program: &'a Program) -> Self {
        let mut vars = vec![VarRole::Own; program.vars.len()];
        let mut interface_types = vec![false; program.type_params.len()];
        let mut params = vec![false; program.vars.len()];
        for action in &program.actions {
            action.params.iter().for_each(|p| params[p.var.index()] = true);
        }
        let mut mark = |list: &[Param], role| {
            for param in list {
                vars[param.var.index()] = role;
                params[param.var.index()] = true;
            }
        };
        let role = |body: bool| if body { VarRole::Interface } else { VarRole::Prototype };
        for function in &program.functions {
            mark(&function.params, role(function.body.is_some()));
        }
        for parser in &program.parsers {
            mark(&parser.params, role(parser.body.is_some()));
            mark(&parser.ctor_params, role(parser.body.is_some()));
            parser.type_params.iter().for_each(|t| interface_types[t.index()] = true);
        }
        for control in &program.controls {
            mark(&control.params, role(control.body.is_some()));
            mark(&control.ctor_params, role(control.body.is_some()));
            control.type_params.iter().for_each(|t| interface_types[t.index()] = true);
        }
        for package in &program.packages {
            mark(&package.params, VarRole::Prototype);
            package.type_params.iter().for_each(|t| interface_types[t.index()] = true);
        }
        for method in program.externs.iter().flat_map(|e| e.methods.iter().chain(&e.constructors)) {
            mark(&method.params, VarRole::Prototype);
        }
        Names { program, vars, params, interface_types }
    }

    /// Returns the kind of a name that should be used.
    fn wanted(&self, symbol: &Symbol) -> Option<&'static str> {
        Some(match symbol {
            Symbol::Type(Type::Param(id)) => {
                return (!self.interface_types[id.index()]).then_some("type parameter");
            }
            Symbol::Type(Type::Enum(_)) => return None,
            Symbol::Type(_) => "type",
            // Types describe a format completely, whether or not all of it is used.
            Symbol::Struct(_) | Symbol::Extern(_) | Symbol::Poison => return None,
            Symbol::Package(_) => "package",
            Symbol::Parser(_) => "parser",
            Symbol::Control(_) => "control",
            Symbol::Const(_) => "constant",
            Symbol::Var(id) if self.vars[id.index()] != VarRole::Own => return None,
            // Parameters of anything else have another role.
            Symbol::Var(id) if self.params[id.index()] => "action parameter",
            Symbol::Var(_) => "variable",
            Symbol::Instance(_) => "instance",
            Symbol::Functions(ids) => {
                let own = ids.iter().any(|id| self.program.functions[id.index()].body.is_some());
                return own.then_some("function");
            }
            Symbol::Action(_) => "action",
            Symbol::Table(_) => "table",
            Symbol::ValueSet(_) => "value set",
        })
    }

    /// Returns the whole location of a declaration that contains code.
    fn whole(&self, symbol: &Symbol) -> Option<Span> {
        match symbol {
            Symbol::Parser(id) => Some(self.program.parsers[id.index()].span),
            Symbol::Control(id) => Some(self.program.controls[id.index()].span),
            Symbol::Functions(ids) if ids.len() == 1 => Some(self.program.functions[ids[0].index()].span),
            _ => None,
        }
    }
}
