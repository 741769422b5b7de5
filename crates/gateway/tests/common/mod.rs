//! The objects of the gateway's program.

use p4jet_control::Schema;
use p4jet_embed::switch;
use p4jet_gateway::Objects;

/// The objects of programs/vxlan_gateway.
pub fn objects() -> Objects {
    let program = include_str!("../../../../programs/vxlan_gateway/vxlan_gateway.p4");
    let switch = switch("vxlan_gateway.p4", program).unwrap_or_else(|error| panic!("{error}"));
    Objects::new(Schema::new(switch.program())).unwrap()
}
