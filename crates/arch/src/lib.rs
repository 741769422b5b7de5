//! Architectures: which package `main` is, how its blocks are wired, and what its externs mean.
//!
//! An architecture is one module that implements [`Architecture`] and one line in [`ALL`]. Lowering and the IR know
//! nothing of it.

mod data;
mod direct;
mod objects;
pub mod psa;
pub mod v1model;
mod writes;

use p4jet_analysis::typed;
pub use p4jet_lower::Architecture;

/// Every architecture there is.
const ALL: &[&dyn Architecture] = &[&v1model::V1Model, &psa::Psa];

/// The architecture that a program is written for.
pub fn detect(program: &typed::Program) -> Option<&'static dyn Architecture> {
    ALL.iter().copied().find(|a| a.recognises(program))
}

/// The architecture of that name.
pub fn by_name(name: &str) -> Option<&'static dyn Architecture> {
    ALL.iter().copied().find(|a| a.name() == name)
}

/// The names of all architectures.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|a| a.name()).collect()
}

/// The name of the package that `main` instantiates, and how many parameters it has: a program may declare a package of
/// its own under a name that an architecture uses.
pub fn main_package(program: &typed::Program) -> Option<(&str, usize)> {
    let main = &program.instances[program.main?.index()];
    match &main.ty {
        typed::Type::Package(id, _) => {
            let package = &program.packages[id.index()];
            Some((&package.name, package.params.len()))
        }
        _ => None,
    }
}
