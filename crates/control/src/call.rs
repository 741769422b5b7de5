//! Actions with their data, members and groups, by name.

use crate::update::Ref;
use serde::{Deserialize, Serialize};

/// An action with its data, a member or a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "an object with `action` and `params`, or with `member` or `group`"
)]
pub struct Call {
    /// The name of an action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The values of its parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<String>,
    /// The handle of a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<Ref>,
    /// The handle of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Ref>,
}
