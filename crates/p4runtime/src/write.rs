//! Updates of entities.

use crate::pipeline::Pipeline;
use crate::session::RoleView;
use p4jet_control::SharedControl;
use p4jet_p4info::proto::v1;

/// The outcome of a batch of updates.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// One result per update, in order, with canonical code 0 for each update that was made; `None` if all were.
    pub errors: Option<Vec<v1::Error>>,
}

/// Carries out the updates of a request, in their order.
pub fn write(
    _pipeline: &Pipeline,
    _switch: &SharedControl,
    _role: &RoleView,
    updates: Vec<v1::Update>,
    _atomicity: v1::Atomicity,
) -> Written {
    let unimplemented = v1::Error { canonical_code: 12, ..v1::Error::default() };
    Written { errors: Some(vec![unimplemented; updates.len()]) }
}
