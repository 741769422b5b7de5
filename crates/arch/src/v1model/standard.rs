//! The fields of `standard_metadata`.

use p4jet_ir::FieldId;

/// The fields of `standard_metadata` that the target itself reads or writes. A program may include an older
/// `v1model.p4`, in which some are missing.
#[derive(Clone)]
pub(super) struct Standard {
    pub(super) ingress_port: Option<FieldId>,
    pub(super) egress_spec: FieldId,
    pub(super) egress_port: FieldId,
    pub(super) packet_length: Option<FieldId>,
    pub(super) ingress_timestamp: Option<FieldId>,
    pub(super) egress_timestamp: Option<FieldId>,
    pub(super) priority: Option<FieldId>,
    pub(super) instance_type: Option<FieldId>,
    pub(super) mcast_grp: Option<FieldId>,
    pub(super) egress_rid: Option<FieldId>,
    pub(super) parser_error: Option<FieldId>,
}
