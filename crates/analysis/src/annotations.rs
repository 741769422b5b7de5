//! The rules for annotations (P4_16, "Annotations"): structured annotations hold values, and some names have a meaning.

use crate::check::Checker;
use crate::generic::is_poison;
use crate::typed::*;
use p4jet_suggest as suggest;
use p4jet_syntax::ast::{self, Annotation, AnnotationBody, AnnotationToken};
use p4jet_syntax::diagnostic::Diagnostic;
use std::collections::HashMap;

impl Checker {
    /// The annotations of a declaration.
    pub(crate) fn annotations(&mut self, annotations: &[Annotation]) {
        let mut first: HashMap<&str, &Annotation> = HashMap::new();
        for annotation in annotations {
            let structured =
                |a: &Annotation| matches!(a.body, AnnotationBody::Exprs(_) | AnnotationBody::KeyValues(_));
            if let Some(earlier) = first.insert(&annotation.name.text, annotation)
                && (structured(earlier) || structured(annotation))
            {
                let text = format!("structured annotation `@{}` beside another one", annotation.name.text);
                self.report(
                    Diagnostic::error("annotation", annotation.span, text)
                        .related(earlier.span, "the first is here")
                        .note("a name has either one annotation with brackets, or any number without"),
                );
            }
            match &annotation.body {
                AnnotationBody::Exprs(values) => values.iter().for_each(|v| self.annotation_value(v)),
                AnnotationBody::KeyValues(pairs) => {
                    for (i, (key, value)) in pairs.iter().enumerate() {
                        if let Some((first, _)) = pairs[..i].iter().find(|(k, _)| k.text == key.text) {
                            let text = format!("key `{}` is given twice", key.text);
                            self.report(
                                Diagnostic::error("annotation", key.span, text)
                                    .related(first.span, "given here first"),
                            );
                        }
                        self.annotation_value(value);
                    }
                }
                AnnotationBody::Tokens(tokens) => self.known_annotation(annotation, tokens),
                AnnotationBody::Empty if annotation.name.text == "pkginfo" => self.report(
                    Diagnostic::error("annotation", annotation.span, "`@pkginfo` is empty")
                        .note("write `@pkginfo(name = \"…\", version = \"…\")`"),
                ),
                AnnotationBody::Empty => {}
            }
        }
    }

    /// A value in a structured annotation: a number, a string or a Boolean.
    fn annotation_value(&mut self, value: &ast::Expr) {
        let typed = self.expr(value, None);
        if is_poison(&typed.ty) {
            return;
        }
        if !matches!(typed.ty, Type::Integer | Type::Bit(_) | Type::Int(_) | Type::String | Type::Bool) {
            let shown = self.show(&typed.ty);
            self.report(
                Diagnostic::error("annotation", value.span, format!("an annotation holds {shown}"))
                    .note("its values are numbers, strings and `bool`s"),
            );
        } else if !crate::consts::is_value(&typed) {
            self.error(
                "not-constant",
                value.span,
                "the value of an annotation must be known at compile time",
            );
        }
    }

    /// An annotation `@name( … )` whose name has a meaning.
    fn known_annotation(&mut self, annotation: &Annotation, tokens: &[AnnotationToken]) {
        let text = |t: &AnnotationToken| t.is_string || t.text == "++" || t.text == "(" || t.text == ")";
        match annotation.name.text.as_str() {
            "deprecated" | "noWarn" if !tokens.iter().all(text) => {
                let name = &annotation.name.text;
                let text = format!("`@{name}` needs a string: `@{name}(\"…\")`");
                let wrong = tokens.iter().find(|t| !t.is_string).map_or(annotation.span, |t| t.span);
                self.error("annotation", wrong, text);
            }
            "p4runtime_translation" => {
                let parts: Vec<&str> = tokens.iter().map(|t| t.text.as_str()).collect();
                let number = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
                let fits = match parts.get(2..) {
                    Some(["string"]) => true,
                    Some([width]) | Some(["bit", "<", width, ">"]) => number(width),
                    _ => false,
                };
                if !fits || parts.get(1) != Some(&",") || !tokens[0].is_string {
                    let wrong = tokens.get(2).map_or(annotation.span, |t| t.span);
                    self.report(
                        Diagnostic::error(
                            "annotation",
                            wrong,
                            "`@p4runtime_translation` does not say which type the control plane shows",
                        )
                        .note("write `@p4runtime_translation(\"uri\", 32)`, `…, bit<32>)` or `…, string)`"),
                    );
                }
            }
            "match" => {
                if let [token] = tokens
                    && self.prog.match_kinds.contains(&token.text)
                {
                    return;
                }
                let wrong = tokens.first().map_or(annotation.span, |t| t.span);
                let kinds = suggest::list(&Vec::from_iter(&self.prog.match_kinds));
                self.report(
                    Diagnostic::error("annotation", wrong, "the value of `@match` must be a match kind")
                        .note(format!("match kinds: {kinds}")),
                );
            }
            _ => {}
        }
    }
}
