//! The layout of a variable in slots: each value of a base type and the validity of each header has its own.

use crate::generic::substitute;
use crate::typed::{Program, Type};
use p4jet_syntax::ast::StructKind;
use std::collections::HashMap;
use std::rc::Rc;

/// A type as slots.
#[derive(Debug)]
pub(super) struct Layout {
    /// Number of slots.
    pub(super) size: u32,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// One value.
    Leaf,
    /// A struct or tuple: fields in order with their first slots.
    Struct(Vec<(u32, Rc<Layout>)>),
    /// A header: slot 0 is its validity.
    Header(Vec<(u32, Rc<Layout>)>),
    /// A header union, whose validity is that of its members.
    Union(Vec<(u32, Rc<Layout>)>),
    /// Consecutive elements.
    Stack(Rc<Layout>, u32),
}

impl Layout {
    /// Calls `f` with the validity slot of each header in a value that starts at `start`.
    pub(super) fn validities(&self, start: u32, f: &mut impl FnMut(u32)) {
        match &self.kind {
            Kind::Leaf => {}
            Kind::Header(_) => f(start),
            Kind::Struct(fields) | Kind::Union(fields) => {
                fields.iter().for_each(|(at, field)| field.validities(start + at, f));
            }
            Kind::Stack(element, n) => {
                (0..*n).for_each(|i| element.validities(start + i * element.size, f));
            }
        }
    }

    /// Calls `f` with the slot of each value outside of headers.
    pub(super) fn plain_values(&self, start: u32, f: &mut impl FnMut(u32)) {
        match &self.kind {
            Kind::Leaf => f(start),
            Kind::Header(_) | Kind::Union(_) => {}
            Kind::Struct(fields) => {
                fields.iter().for_each(|(at, field)| field.plain_values(start + at, f));
            }
            Kind::Stack(element, n) => {
                (0..*n).for_each(|i| element.plain_values(start + i * element.size, f));
            }
        }
    }
}

/// The layouts of a program's types, computed when first needed.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    known: HashMap<Type, Rc<Layout>>,
}

impl Layouts {
    pub(super) fn of(&mut self, program: &Program, ty: &Type) -> Rc<Layout> {
        if let Some(known) = self.known.get(ty) {
            return Rc::clone(known);
        }
        let layout = Rc::new(self.make(program, ty));
        self.known.insert(ty.clone(), Rc::clone(&layout));
        layout
    }

    fn make(&mut self, program: &Program, ty: &Type) -> Layout {
        match ty {
            Type::Struct(id, args) => {
                let decl = &program.structs[id.index()];
                let first = u32::from(decl.kind == StructKind::Header);
                let fields = decl.fields.iter().map(|f| substitute(&f.ty, &decl.type_params, args));
                let (size, fields) = self.row(program, first, fields);
                let kind = match decl.kind {
                    StructKind::Struct => Kind::Struct(fields),
                    StructKind::Header => Kind::Header(fields),
                    StructKind::HeaderUnion => Kind::Union(fields),
                };
                Layout { size, kind }
            }
            Type::Tuple(types) => {
                let (size, fields) = self.row(program, 0, types.iter().cloned());
                Layout { size, kind: Kind::Struct(fields) }
            }
            Type::Stack(element, n) => {
                let element = self.of(program, element);
                Layout { size: element.size.saturating_mul(*n), kind: Kind::Stack(element, *n) }
            }
            _ => Layout { size: 1, kind: Kind::Leaf },
        }
    }

    /// Lays out consecutive values, starting at `first`.
    fn row(
        &mut self,
        program: &Program,
        first: u32,
        types: impl Iterator<Item = Type>,
    ) -> (u32, Vec<(u32, Rc<Layout>)>) {
        let mut size = first;
        let mut fields = Vec::new();
        for ty in types {
            let layout = self.of(program, &ty);
            fields.push((size, Rc::clone(&layout)));
            size = size.saturating_add(layout.size);
        }
        (size, fields)
    }
}
