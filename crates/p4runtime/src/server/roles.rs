//! Configurations of roles: Stratum's scheme `stratum.P4RoleConfig`, which is the only one.

use crate::session::RoleView;
use bytes::Bytes;
use p4jet_p4info::proto::google::Any;
use p4jet_p4info::proto::stratum::{P4RoleConfig, PacketFilter};
use p4jet_p4info::proto::v1;
use prost::Message;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The type of a configuration.
pub const ROLE_CONFIG: &str = "type.googleapis.com/stratum.P4RoleConfig";

/// The longest configuration, in bytes.
const CONFIG_BYTES_MAX: usize = 16 * 1024;

/// The configurations that the primaries of roles have given, by the name of the role.
#[derive(Debug, Default)]
pub struct Roles(HashMap<String, Arc<Role>>);

/// A configuration of a role.
#[derive(Debug)]
pub struct Role {
    /// The message as the primary sent it.
    pub given: Any,
    /// The granted ids, and those of them that other roles must not have.
    ids: BTreeSet<u32>,
    exclusive: BTreeSet<u32>,
    packets: bool,
    filter: Option<PacketFilter>,
    pipeline: bool,
}

impl Role {
    /// Reads a configuration.
    ///
    /// # Errors
    /// It is of another scheme, cannot be decoded, or configures the default role.
    pub fn new(role: &str, given: Any) -> Result<Role, String> {
        if role.is_empty() {
            return Err("role.config is set for the default role, which is the whole pipeline".to_string());
        }
        if given.type_url != ROLE_CONFIG {
            return Err(format!("role.config has the type `{}`, expected `{ROLE_CONFIG}`", given.type_url));
        }
        let bytes = given.value.len();
        if bytes > CONFIG_BYTES_MAX {
            return Err(format!("role.config has {bytes} bytes, expected at most {CONFIG_BYTES_MAX}"));
        }
        let config = P4RoleConfig::decode(given.value.clone())
            .map_err(|error| format!("role.config cannot be decoded: {error}"))?;
        let exclusive: BTreeSet<u32> = config.exclusive_p4_ids.into_iter().collect();
        Ok(Role {
            given,
            ids: exclusive.iter().copied().chain(config.shared_p4_ids).collect(),
            exclusive,
            packets: config.receives_packet_ins,
            filter: config.packet_in_filter,
            pipeline: config.can_push_pipeline,
        })
    }

    /// True if a packet goes to the role.
    pub fn takes_packet(&self, packet: &v1::PacketIn) -> bool {
        let passes = |filter: &PacketFilter| {
            packet.metadata.iter().any(|field| {
                field.metadata_id == filter.metadata_id && shortest(&field.value) == shortest(&filter.value)
            })
        };
        self.packets && self.filter.as_ref().is_none_or(passes)
    }
}

/// A number without leading zeros.
fn shortest(value: &Bytes) -> &[u8] {
    let first = value.iter().position(|byte| *byte != 0).unwrap_or(value.len());
    &value[first..]
}

impl Roles {
    /// Refuses a configuration that has an id which it or another role claims exclusively.
    ///
    /// # Errors
    /// The id, and the other role.
    pub fn check(&self, role: &str, new: &Role) -> Result<(), String> {
        for (other, old) in self.0.iter().filter(|(other, _)| *other != role) {
            let taken =
                old.exclusive.intersection(&new.ids).chain(new.exclusive.intersection(&old.ids)).next();
            if let Some(id) = taken {
                return Err(format!(
                    "role.config grants {id}, which the role `{other}` has; one of them excludes others"
                ));
            }
        }
        Ok(())
    }

    /// Sets or, with `None`, removes the configuration of a role.
    pub fn set(&mut self, role: &str, new: Option<Role>) {
        match new {
            Some(new) => drop(self.0.insert(role.to_string(), Arc::new(new))),
            None => drop(self.0.remove(role)),
        }
    }

    /// The configuration of a role.
    pub fn get(&self, role: &str) -> Option<&Arc<Role>> {
        self.0.get(role)
    }

    /// The objects that a role may read and write.
    pub fn view(&self, role: &str) -> RoleView {
        RoleView { name: role.to_string(), ids: self.0.get(role).map(|role| role.ids.clone()) }
    }

    /// True if the role may set the pipeline.
    pub fn may_set_pipeline(&self, role: &str) -> bool {
        self.0.get(role).is_none_or(|role| role.pipeline)
    }

    /// The roles whose configuration grants an object.
    pub fn with_id(&self, id: u32) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(_, role)| role.ids.contains(&id)).map(|(name, _)| name.as_str())
    }

    /// The roles that receive packets, besides the default role.
    pub fn receivers(&self) -> impl Iterator<Item = (&str, &Arc<Role>)> {
        self.0.iter().filter(|(_, role)| role.packets).map(|(name, role)| (name.as_str(), role))
    }
}
