//! The tables of programs/vxlan_gateway that the controller fills. Their shapes come from the compiled program.

use p4jet_control::{Description, KeyField, Param, TableInfo};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

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

/// The format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In decimal.
    Number,
    /// In hexadecimal: a station's location.
    Location,
    /// A MAC address.
    Mac,
    /// An IPv4 address.
    V4,
    /// An IPv6 address.
    V6,
}

use Kind::{Location, Mac, Number, V4, V6};

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

impl Kind {
    /// Returns the format for a field or parameter of the program.
    fn of(name: &str, width: u32) -> Kind {
        match (last(name), width) {
            ("location", _) => Location,
            ("service", _) => Number,
            (_, 32) => V4,
            (_, 48) => Mac,
            (_, 128) => V6,
            _ => Number,
        }
    }
}

/// The tables of the program with their shapes, from its [`Description`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shapes(BTreeMap<Table, Shape>);

/// The key fields of a table, and the parameters of its actions by the last component of the action's name.
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

impl Shapes {
    /// Returns the shapes of the gateway's tables in a program. A table that the program lacks has none.
    pub fn new(program: &Description) -> Shapes {
        let shape = |table: Table| Some((table, program.table(table.name())?.into()));
        Shapes(Table::ALL.into_iter().filter_map(shape).collect())
    }

    /// Checks that a table of a switch has the shape that the gateway expects. The error says how it differs.
    pub(crate) fn check(&self, table: Table, found: Option<&Shape>) -> Result<(), String> {
        let Some(expected) = self.0.get(&table) else { return Ok(()) };
        let name = table.name();
        let Some(found) = found.filter(|found| found.key.len() == expected.key.len()) else {
            return Err(format!("has no table `{name}` with a key of {} fields", expected.key.len()));
        };
        for (expected, found) in expected.key.iter().zip(&found.key) {
            if (expected.kind, expected.width) != (found.kind, found.width) {
                let (field, width, kind) = (&expected.name, expected.width, expected.kind.name());
                return Err(format!(
                    "has no table `{name}` whose field `{field}` is a bit<{width}> : {kind}"
                ));
            }
        }
        for (action, params) in &expected.actions {
            let widths = |params: &[Param]| params.iter().map(|param| param.width).collect::<Vec<_>>();
            match found.actions.get(action) {
                Some(found) if widths(found) == widths(params) => {}
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

    /// True if an entry can have this key and action.
    pub(crate) fn can_have(&self, table: Table, key: &[Field], call: &Call) -> bool {
        let Some(shape) = self.0.get(&table) else { return true };
        let params = shape.actions.get(&call.action);
        key.len() == shape.key.len() && params.is_none_or(|params| params.len() == call.params.len())
    }

    /// Returns the words of an entry's key.
    pub(crate) fn key_words(&self, table: Table, key: &[Field]) -> Vec<String> {
        let fields = self.0.get(&table).map_or(&[][..], |shape| &shape.key);
        let kinds = fields.iter().map(|field| Kind::of(&field.name, field.width));
        let word = |(field, kind): (&Field, Kind)| match field.prefix_len {
            Some(len) => format!("{}/{len}", Word(kind, field.value)),
            None => Word(kind, field.value).to_string(),
        };
        key.iter().zip(kinds.chain(std::iter::repeat(Number))).map(word).collect()
    }

    /// Returns the words of the parameters of an entry's action.
    pub(crate) fn params_words(&self, table: Table, call: &Call) -> Vec<String> {
        let params = self.0.get(&table).and_then(|shape| shape.actions.get(&call.action));
        let kinds = params.into_iter().flatten().map(|param| Kind::of(&param.name, param.width));
        let kinds = kinds.chain(std::iter::repeat(Number));
        call.params.iter().zip(kinds).map(|(value, kind)| Word(kind, *value).to_string()).collect()
    }

    /// Returns an entry's key in the form of commands.
    pub(crate) fn key_text(&self, table: Table, key: &[Field]) -> String {
        self.key_words(table, key).join(" ")
    }

    /// Returns the parameters of an entry's action in the form of commands.
    pub(crate) fn params_text(&self, table: Table, call: &Call) -> String {
        self.params_words(table, call).iter().map(|word| format!(" {word}")).collect()
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

/// A value as a word of a command.
pub struct Word(pub Kind, pub u128);

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Word(kind, value) = *self;
        match kind {
            Number => write!(f, "{value}"),
            Location => write!(f, "{value:#x}"),
            Mac => {
                let b = value.to_be_bytes();
                write!(
                    f,
                    "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
                    b[10], b[11], b[12], b[13], b[14], b[15]
                )
            }
            // Both come from values of that width, or from a switch that checked it.
            V4 => write!(f, "{}", Ipv4Addr::from(value as u32)),
            V6 => write!(f, "{}", Ipv6Addr::from(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(Word(Mac, 0x0200_0000_0a01).to_string(), "02:00:00:00:0a:01");
        assert_eq!(Word(V4, 0xc633_6401).to_string(), "198.51.100.1");
        assert_eq!(Word(V6, 0x2001_0db8 << 96 | 1).to_string(), "2001:db8::1");
        assert_eq!(Word(Location, 0x10001).to_string(), "0x10001");
    }

    #[test]
    fn tables_are_in_order() {
        assert!(Table::ALL.is_sorted());
    }
}
