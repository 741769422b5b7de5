//! Size and nesting depth of types.

use crate::generic::nodes;
use crate::typed::{EMPTY_LEAVES, Program, Shape, Type};
use std::collections::BTreeMap;

/// Maximum nesting depth of types: a struct in a struct, an element in a stack, a type argument.
pub const LEVELS_MAX: u32 = 64;

/// Maximum number of base-type values in one type, with all nesting expanded.
pub const LEAVES_MAX: u64 = 1 << 18;

/// Maximum number of types in a type, as written out.
pub const NODES_MAX: usize = 1 << 12;

impl Program {
    /// Returns the size of a type.
    pub fn shape(&self, ty: &Type) -> Shape {
        match ty {
            Type::Param(id) => Shape { params: BTreeMap::from([(*id, (1, 0))]), ..Shape::default() },
            Type::Struct(id, args) => {
                let decl = &self.structs[id.index()];
                let Shape { leaves, levels, params } = &decl.shape;
                let mut all = Shape { leaves: *leaves, levels: *levels, params: BTreeMap::new() };
                for (param, arg) in decl.type_params.iter().zip(args) {
                    let (count, depth) = params.get(param).copied().unwrap_or((0, 1));
                    all.add(&self.shape(arg), count, depth);
                }
                all
            }
            Type::Stack(element, n) => {
                let mut all = Shape { levels: 1, ..Shape::default() };
                all.add(&self.shape(element), u64::from(*n), 1);
                all
            }
            Type::Tuple(types) => Shape::of_parts(types.iter().map(|t| self.shape(t))),
            Type::List(element) | Type::Set(element) => {
                Shape { leaves: 1, levels: self.shape(element).levels.saturating_add(1), ..Shape::default() }
            }
            Type::Extern(_, args)
            | Type::Parser(_, args)
            | Type::Control(_, args)
            | Type::Package(_, args) => {
                let levels = args.iter().map(|t| self.shape(t).levels.saturating_add(1)).max().unwrap_or(0);
                Shape { leaves: 1, levels, ..Shape::default() }
            }
            Type::New(id) => {
                let inner = self.shape(&self.new_types[id.index()].ty);
                Shape { levels: inner.levels.saturating_add(1), ..inner }
            }
            Type::Enum(id) => match &self.enums[id.index()].underlying {
                Some(underlying) => self.shape(underlying),
                None => Shape { leaves: 1, ..Shape::default() },
            },
            Type::Bit(0) => Shape { leaves: EMPTY_LEAVES, ..Shape::default() },
            _ => Shape { leaves: 1, ..Shape::default() },
        }
    }

    /// Returns the limit that a type exceeds, if any, in words that follow "a type".
    pub fn too_large(&self, ty: &Type) -> Option<String> {
        let shape = self.shape(ty);
        if shape.levels > LEVELS_MAX {
            Some(format!("with more than {LEVELS_MAX} types inside each other"))
        } else if shape.values() > LEAVES_MAX {
            Some(format!(
                "with more than {LEAVES_MAX} values inside (`bit<0>` and an empty struct count as {EMPTY_LEAVES})"
            ))
        } else if nodes(ty) > NODES_MAX {
            Some(format!("that names more than {NODES_MAX} types"))
        } else {
            None
        }
    }
}
