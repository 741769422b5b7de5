//! The objects of programs/vxlan_gateway that the controller sets, and their values as the controller keeps them.

use num_bigint::BigUint;
use p4jet_control::value::hex_bytes;
use p4jet_control::{
    Action, ControlError, InstanceId, KeyField, KeyMatch, Param, Schema, TableId, TableInfo, Update,
};
use p4jet_text::runtime_command;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The action profile of pools.
pub(crate) const PROFILE: &str = "members";
pub(crate) const POOLS: &str = "pools";
/// The custom CRCs that are set to CRC-32C: those for IPv4 and IPv6 clients.
pub(crate) const CRC_CUSTOM: [&str; 2] = ["calc_2", "calc_6"];
/// CRC-32C: polynomial, initial value and final XOR.
pub(crate) const CRC32C: [u64; 3] = [0x1edc_6f41, 0xffff_ffff, 0xffff_ffff];

/// A table. They are ordered by dependency: an entry refers only to entries of earlier tables, or to pools or flood
/// groups, which come after [`Table::Replicas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Headers of the tunnel to a VTEP.
    Encapsulations,
    /// Paths to VTEPs.
    Vteps,
    /// The ports and addresses to which routed packets leave.
    NextHops,
    /// Actions for copies of floods.
    Replicas,
    /// Virtual addresses' protocols and ports.
    Services,
    /// Single addresses.
    HostsV4,
    /// Single addresses.
    HostsV6,
    /// Prefixes.
    RoutesV4,
    /// Prefixes.
    RoutesV6,
    /// Known addresses of a network.
    ArpAnswers,
    /// Destinations: where frames to a station go.
    Macs,
    /// Sources: where frames of a station come from.
    Stations,
    /// Networks that tunnels may carry.
    Vnis,
    /// Known ends of tunnels.
    TunnelsV4,
    /// Known ends of tunnels.
    TunnelsV6,
    /// Attachments of ports and VLANs.
    Attachments,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 16] = [
        Table::Encapsulations,
        Table::Vteps,
        Table::NextHops,
        Table::Replicas,
        Table::Services,
        Table::HostsV4,
        Table::HostsV6,
        Table::RoutesV4,
        Table::RoutesV6,
        Table::ArpAnswers,
        Table::Macs,
        Table::Stations,
        Table::Vnis,
        Table::TunnelsV4,
        Table::TunnelsV6,
        Table::Attachments,
    ];

    /// Returns its name: the last component of the full name.
    pub fn name(self) -> &'static str {
        match self {
            Table::Encapsulations => "encapsulations",
            Table::Vteps => "vteps",
            Table::NextHops => "next_hops",
            Table::Replicas => "replicas",
            Table::Services => "services",
            Table::HostsV4 => "hosts_v4",
            Table::HostsV6 => "hosts_v6",
            Table::RoutesV4 => "routes_v4",
            Table::RoutesV6 => "routes_v6",
            Table::ArpAnswers => "arp_answers",
            Table::Macs => "macs",
            Table::Stations => "stations",
            Table::Vnis => "vnis",
            Table::TunnelsV4 => "tunnels_v4",
            Table::TunnelsV6 => "tunnels_v6",
            Table::Attachments => "attachments",
        }
    }
}

/// Returns the last component of a name.
pub(crate) fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Formats a value of a key field or parameter for users.
fn notation(name: &str, width: u32, value: &BigUint) -> String {
    match (last(name), width) {
        ("location", _) => format!("{value:#x}"),
        ("service", _) => value.to_string(),
        // The switch and the plan have only values that fit.
        (_, 32) => Ipv4Addr::from_bits(value.iter_u32_digits().next().unwrap_or(0)).to_string(),
        (_, 48) => hex_bytes(value, 48),
        (_, 128) => Ipv6Addr::from_bits(u128::try_from(value).unwrap_or(0)).to_string(),
        _ => value.to_string(),
    }
}

/// Formats a MAC address.
pub(crate) fn mac_text(mac: u64) -> String {
    hex_bytes(&mac.into(), 48)
}

/// The objects of the program that the controller sets, by id.
pub struct Objects {
    schema: Schema,
    tables: [TableId; Table::ALL.len()],
    /// The table of pools.
    pub(crate) pools: TableId,
    /// The action selector of that table.
    pub(crate) members: InstanceId,
    /// The value sets of the gateway's own addresses.
    pub(crate) own_vteps_v4: TableId,
    pub(crate) own_vteps_v6: TableId,
    /// The custom CRCs that are set to CRC-32C: those for IPv4 and IPv6 clients.
    pub(crate) crcs: [u32; 2],
}

/// The key fields of a switch's table, and the parameters of its actions by the last component of the action's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    key: Vec<KeyField>,
    actions: BTreeMap<String, Vec<Param>>,
}

impl Shape {
    pub(crate) fn new<'a>(
        key: &[KeyField],
        actions: impl IntoIterator<Item = (&'a String, &'a Vec<Param>)>,
    ) -> Shape {
        let actions = actions.into_iter().map(|(name, params)| (last(name).to_string(), params.clone()));
        Shape { key: key.to_vec(), actions: actions.collect() }
    }
}

impl From<&TableInfo> for Shape {
    fn from(info: &TableInfo) -> Shape {
        Shape::new(&info.key, info.actions.iter().map(|action| (&action.name, &action.params)))
    }
}

impl Objects {
    /// Finds the objects in the schema of programs/vxlan_gateway.
    ///
    /// # Errors
    ///
    /// It is the schema of another program: the error has the first name that it lacks.
    pub fn new(schema: Schema) -> Result<Objects, ControlError> {
        let mut tables = [TableId(0); Table::ALL.len()];
        for table in Table::ALL {
            tables[table as usize] = schema.table(table.name())?;
        }
        Ok(Objects {
            tables,
            pools: schema.table(POOLS)?,
            members: schema.profile(PROFILE)?,
            own_vteps_v4: schema.value_set("own_vteps_v4")?,
            own_vteps_v6: schema.value_set("own_vteps_v6")?,
            crcs: [schema.crc(CRC_CUSTOM[0])?, schema.crc(CRC_CUSTOM[1])?],
            schema,
        })
    }

    /// The schema of the program.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The id of a table.
    pub(crate) fn id(&self, table: Table) -> TableId {
        self.tables[table as usize]
    }

    /// Checks that a table of a switch has the shape that the gateway expects. The error says how it differs.
    pub(crate) fn check(&self, table: Table, found: Option<&Shape>) -> Result<(), String> {
        let (key, actions) = (self.schema.key(self.id(table)), self.schema.actions_of(self.id(table)));
        let name = table.name();
        let Some(found) = found.filter(|found| found.key.len() == key.len()) else {
            return Err(format!("has no table `{name}` with a key of {} fields", key.len()));
        };
        for (expected, found) in key.iter().zip(&found.key) {
            if (expected.kind, expected.width) != (found.kind, found.width) {
                let (field, width, kind) = (&expected.name, expected.width, expected.kind.name());
                return Err(format!(
                    "has no table `{name}` whose field `{field}` is a bit<{width}> : {kind}"
                ));
            }
        }
        for expected in actions {
            let action = last(&expected.name);
            let widths = |params: &[Param]| params.iter().map(|param| param.width).collect::<Vec<_>>();
            match found.actions.get(action) {
                Some(found) if widths(found) == widths(&expected.params) => {}
                Some(_) => {
                    return Err(format!(
                        "has other parameters in the action `{action}` of the table `{name}`"
                    ));
                }
                None => return Err(format!("has no action `{action}` in the table `{name}`")),
            }
        }
        Ok(())
    }

    /// The action for a call in a table.
    pub(crate) fn action(&self, table: TableId, call: &Call) -> Action {
        let action = self.schema.action(table, &call.action).expect("plans have actions of the program");
        Action { action, data: call.params.iter().map(|value| BigUint::from(*value)).collect() }
    }

    /// The call for an action of a table.
    pub(crate) fn call(&self, table: TableId, action: &Action) -> Option<Call> {
        let info = self.schema.actions_of(table).get(action.action as usize)?;
        let params: Option<Vec<u128>> = action.data.iter().map(|value| u128::try_from(value).ok()).collect();
        Some(Call { action: last(&info.name).to_string(), params: params? })
    }

    /// Formats an update as a runtime command.
    pub(crate) fn command(&self, update: &Update) -> String {
        // Each update of the controller has a command.
        runtime_command(&self.schema, update, notation).unwrap_or_else(|| format!("{update:?}"))
    }

    /// Formats an entry's key for users.
    pub(crate) fn key_text(&self, table: Table, key: &[Field]) -> String {
        let word = |(field, info): (&Field, &KeyField)| {
            let value = notation(&info.name, info.width, &field.value.into());
            match field.prefix_len {
                Some(len) => format!("{value}/{len}"),
                None => value,
            }
        };
        let words: Vec<_> = key.iter().zip(self.schema.key(self.id(table))).map(word).collect();
        words.join(" ")
    }

    /// Formats the parameters of an entry's action for users, each after a blank.
    pub(crate) fn params_text(&self, table: Table, call: &Call) -> String {
        let actions = self.schema.actions_of(self.id(table));
        let params = actions.iter().find(|info| last(&info.name) == call.action);
        let params = params.into_iter().flat_map(|info| &info.params).zip(&call.params);
        let word = |(info, value): (&Param, &u128)| {
            format!(" {}", notation(&info.name, info.width, &(*value).into()))
        };
        params.map(word).collect()
    }
}

/// A field of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field {
    /// Its value.
    pub value: u128,
    /// The prefix length, for a prefix.
    pub prefix_len: Option<u8>,
}

impl From<u128> for Field {
    fn from(value: u128) -> Field {
        Field { value, prefix_len: None }
    }
}

impl From<&Field> for KeyMatch {
    fn from(field: &Field) -> KeyMatch {
        let value = BigUint::from(field.value);
        match field.prefix_len {
            Some(prefix_len) => KeyMatch::Lpm { value, prefix_len: prefix_len.into() },
            None => KeyMatch::Exact(value),
        }
    }
}

impl Field {
    /// The field for a match; none if no field of the program has such a match.
    pub(crate) fn of(found: &KeyMatch) -> Option<Field> {
        let (value, prefix_len) = match found {
            KeyMatch::Exact(value) => (value, None),
            KeyMatch::Lpm { value, prefix_len } => (value, Some(u8::try_from(*prefix_len).ok()?)),
            KeyMatch::Ternary { .. } | KeyMatch::Range { .. } | KeyMatch::Optional(_) => return None,
        };
        Some(Field { value: u128::try_from(value).ok()?, prefix_len })
    }
}

/// The key of an entry.
pub type Key = Vec<Field>;

/// The action of an entry or of a pool's slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// The action's name: the last component of the full name.
    pub action: String,
    /// Its parameters.
    pub params: Vec<u128>,
}

impl Call {
    /// Creates an action with parameters.
    pub fn new(action: &str, params: impl IntoIterator<Item = u128>) -> Call {
        Call { action: action.to_string(), params: params.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_a_notation_for_users() {
        let text = |name, width, value: u128| notation(name, width, &value.into());
        assert_eq!(text("dmac", 48, 0x0200_0000_0a01), "02:00:00:00:0a:01");
        assert_eq!(text("meta.dst", 32, 0xc633_6401), "198.51.100.1");
        assert_eq!(text("meta.dst", 128, 0x2001_0db8 << 96 | 1), "2001:db8::1");
        assert_eq!(text("location", 17, 0x10001), "0x10001");
        assert_eq!(text("meta.service", 32, 7), "7");
        assert_eq!(text("vlan", 12, 20), "20");
    }

    #[test]
    fn tables_are_in_order() {
        assert!(Table::ALL.is_sorted());
    }
}
