//! The integration tests: one program, because linking takes longer than compiling them.

mod engines_agree;
mod expressions;
#[path = "../../externs/tests/common/group.rs"]
mod group;
mod path_codes;
