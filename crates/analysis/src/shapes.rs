//! Size and nesting depth of types.

use crate::generic::nodes;
use crate::typed::{Program, Type, TypeParamId};
use std::collections::BTreeMap;

/// Maximum nesting depth of types: a struct in a struct, an element in a stack, a type argument.
pub const LEVELS_MAX: u32 = 64;

/// Maximum number of base-type values in one type, with all nesting expanded.
pub const LEAVES_MAX: u64 = 1 << 18;

/// What `bit<0>` and an empty struct count among these values. They become no fields, so no other limit covers the work for them.
pub const EMPTY_LEAVES: u64 = 64;

/// Maximum number of types in a type, as written out.
pub const NODES_MAX: usize = 1 << 12;

/// The size of a type. Each struct stores its own, so that no type is walked twice.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Number of base-type values, without those of type parameters.
    pub leaves: u64,
    /// Nesting depth: 0 for a base type.
    pub levels: u32,
    /// The number of occurrences and the depth of each type parameter.
    params: BTreeMap<TypeParamId, (u64, u32)>,
}

impl Shape {
    /// Returns the shape of a struct with fields of these shapes; the struct counts as a value itself.
    pub(crate) fn of_struct(fields: impl Iterator<Item = Shape>) -> Shape {
        let mut all = Shape::of_parts(fields);
        let is_empty = all.leaves == 0 && all.params.is_empty();
        all.leaves = all.leaves.saturating_add(if is_empty { EMPTY_LEAVES } else { 1 });
        all
    }

    fn of_parts(parts: impl Iterator<Item = Shape>) -> Shape {
        let mut all = Shape { levels: 1, ..Shape::default() };
        for part in parts {
            all.add(&part, 1, 1);
        }
        all
    }

    /// Adds a shape that occurs `count` times, `depth` levels inside.
    fn add(&mut self, part: &Shape, count: u64, depth: u32) {
        self.leaves = self.leaves.saturating_add(part.leaves.saturating_mul(count));
        self.levels = self.levels.max(part.levels.saturating_add(depth));
        for (param, (occurrences, level)) in &part.params {
            let entry = self.params.entry(*param).or_default();
            entry.0 = entry.0.saturating_add(occurrences.saturating_mul(count));
            entry.1 = entry.1.max(level.saturating_add(depth));
        }
    }

    /// Returns the number of base-type values, each type parameter counted as one.
    pub fn values(&self) -> u64 {
        self.params.values().fold(self.leaves, |sum, (count, _)| sum.saturating_add(*count))
    }
}

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
