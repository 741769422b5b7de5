//! Fields of keys and parameters of actions.

use p4jet_ir::{ActionId, MatchKind, Program};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A field of a table's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyField {
    /// Its name: `hdr.ipv4.dstAddr`.
    pub name: String,
    /// Its match kind: in JSON its name in P4.
    #[serde(rename = "match", serialize_with = "write_kind", deserialize_with = "read_kind")]
    pub kind: MatchKind,
    /// Its width in bits.
    pub width: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn write_kind<S: Serializer>(kind: &MatchKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

fn read_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MatchKind, D::Error> {
    let name = String::deserialize(deserializer)?;
    let names = MatchKind::ALL.map(MatchKind::name);
    let found = MatchKind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| {
        serde::de::Error::custom(format_args!("unknown match kind `{name}`, expected one of {names:?}"))
    })
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its width in bits.
    pub width: u32,
}

/// The names of an action's parameters, without the name of the action.
pub fn param_names(program: &Program, action: ActionId) -> Vec<&str> {
    program.actions[action.index()].params.iter().map(|param| program.param_name(action, *param)).collect()
}
