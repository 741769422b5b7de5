//! Reads of entities.

use crate::pipeline::Pipeline;
use crate::session::RoleView;
use p4jet_control::SharedControl;
use p4jet_p4info::proto::v1;

/// Reads the entities that some patterns choose, page by page. `page` returns false if it wants no more.
///
/// # Errors
/// One result per pattern, if some pattern is wrong: code 0 for those that are right, whose entities were read.
pub fn read(
    _pipeline: &Pipeline,
    _switch: &SharedControl,
    _role: &RoleView,
    wanted: &[v1::Entity],
    _page: &mut dyn FnMut(Vec<v1::Entity>) -> bool,
) -> Result<(), Vec<v1::Error>> {
    let unimplemented = v1::Error { canonical_code: 12, ..v1::Error::default() };
    Err(vec![unimplemented; wanted.len()])
}
