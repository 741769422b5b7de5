//! The tables of programs/vxlan_gateway, as far as the controller must know them.

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

/// An action with its parameters.
type ActionShape = (&'static str, &'static [Kind]);

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
        self.shape().0
    }

    /// Returns the kinds of its key fields.
    pub fn key(self) -> &'static [Kind] {
        self.shape().1
    }

    /// Returns its name, key and actions.
    fn shape(self) -> (&'static str, &'static [Kind], &'static [ActionShape]) {
        const HOST: &[ActionShape] = &[
            ("to_next_hop", &[Number]),
            ("balance", &[Number, Number]),
            ("by_service", &[Number]),
            ("own_address", &[]),
        ];
        const ENDS: &[ActionShape] = &[("from_vtep", &[Number])];
        match self {
            Table::Encapsulations => (
                "encapsulations",
                &[Number],
                &[
                    ("encapsulate_v4", &[Mac, Mac, Number, V4, V4, Number, Number, Number]),
                    ("encapsulate_v6", &[Mac, Mac, Number, V6, V6, Number, Number, Number]),
                ],
            ),
            Table::Vteps => ("vteps", &[Number], &[("via", &[Number, Number])]),
            Table::NextHops => (
                "next_hops",
                &[Number],
                &[
                    ("tunnel", &[Number, Number, Number, Mac, Mac]),
                    ("local", &[Number, Number, Mac, Mac, Number]),
                ],
            ),
            Table::Replicas => {
                ("replicas", &[Number], &[("to_vlan", &[Number]), ("to_vtep", &[Number, Number])])
            }
            Table::Services => ("services", &[Number, Number, Number], HOST),
            Table::HostsV4 => ("hosts_v4", &[Number, V4], HOST),
            Table::HostsV6 => ("hosts_v6", &[Number, V6], HOST),
            Table::RoutesV4 => ("routes_v4", &[Number, V4], HOST),
            Table::RoutesV6 => ("routes_v6", &[Number, V6], HOST),
            Table::ArpAnswers => ("arp_answers", &[Number, V4], &[("answer", &[Mac])]),
            Table::Macs => ("macs", &[Number, Mac], &[("local", &[Number, Number]), ("remote", &[Number])]),
            Table::Stations => ("stations", &[Number, Mac], &[("at", &[Location])]),
            Table::Vnis => ("vnis", &[Number], &[("into", &[Number, Number, Mac, Number, Number])]),
            Table::TunnelsV4 => ("tunnels_v4", &[V4, V4], ENDS),
            Table::TunnelsV6 => ("tunnels_v6", &[V6, V6], ENDS),
            Table::Attachments => (
                "attachments",
                &[Number, Number],
                &[
                    ("external", &[Number, Mac]),
                    ("underlay", &[Number, Mac]),
                    ("tenant", &[Number, Number, Mac, Number, Number, Number]),
                ],
            ),
        }
    }

    /// Returns the kinds of an action's parameters, if the gateway uses the action.
    fn params(self, action: &str) -> Option<&'static [Kind]> {
        self.shape().2.iter().find(|(name, _)| *name == action).map(|(_, kinds)| *kinds)
    }

    /// True if an entry can have this key and action.
    pub(crate) fn can_have(self, key: &[Field], call: &Call) -> bool {
        let params = self.params(&call.action);
        key.len() == self.key().len() && params.is_none_or(|kinds| kinds.len() == call.params.len())
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

/// Returns the words of an entry's key.
pub(crate) fn key_words(table: Table, key: &[Field]) -> Vec<String> {
    let kinds = table.key().iter().copied().chain(std::iter::repeat(Number));
    let word = |(field, kind): (&Field, Kind)| match field.prefix_len {
        Some(len) => format!("{}/{len}", Word(kind, field.value)),
        None => Word(kind, field.value).to_string(),
    };
    key.iter().zip(kinds).map(word).collect()
}

/// Returns the words of the parameters of an entry's action.
pub(crate) fn params_words(table: Table, call: &Call) -> Vec<String> {
    let kinds =
        table.params(&call.action).unwrap_or_default().iter().copied().chain(std::iter::repeat(Number));
    call.params.iter().zip(kinds).map(|(value, kind)| Word(kind, *value).to_string()).collect()
}

/// Returns an entry's key in the form of commands.
pub fn key_text(table: Table, key: &[Field]) -> String {
    key_words(table, key).join(" ")
}

/// Returns the parameters of an entry's action in the form of commands.
pub fn params_text(table: Table, call: &Call) -> String {
    params_words(table, call).iter().map(|word| format!(" {word}")).collect()
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
