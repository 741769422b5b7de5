//! The shapes of the gateway's tables.

use p4jet_embed::{Control, switch};
use p4jet_gateway::Shapes;
use std::sync::Arc;

/// The shapes of the tables of programs/vxlan_gateway.
pub fn shapes() -> Arc<Shapes> {
    let program = include_str!("../../../../programs/vxlan_gateway/vxlan_gateway.p4");
    let switch = switch("vxlan_gateway.p4", program).unwrap_or_else(|error| panic!("{error}"));
    Arc::new(Shapes::new(Control::new(switch).schema().description()))
}
