//! Plans the state of a switch for a configuration.

use crate::config::{Algorithm, Balance, Behind, Config, Network, NextHop, Service};
use crate::schema::{Call, Field, Key, Table};
use crate::slots;
use crate::state::{Actual, OwnVtep, State};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::net::IpAddr;

/// The intended state of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The whole state.
    pub state: State,
    /// Names of next hops that are back ends, for messages.
    pub names: BTreeMap<u128, String>,
    /// The numbers of networks, in the order of the configuration.
    pub network_numbers: Vec<u16>,
    /// Names of networks by their numbers, for messages.
    networks: BTreeMap<u16, String>,
    /// Names of VTEPs by their numbers, for messages.
    vteps: BTreeMap<u16, String>,
    /// The numbers of networks that learn, and the possible locations of their stations.
    pub learning: BTreeMap<u16, BTreeSet<Location>>,
    /// Stations that are not learned: networks' numbers, and MAC addresses.
    pub fixed: BTreeSet<(u16, u64)>,
    /// The shares of each pool, by number.
    shares: BTreeMap<u16, Shares>,
}

/// The shares of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shares {
    /// Index of the pool.
    pool: usize,
    /// Its name.
    name: String,
    /// The next hops of its back ends.
    next_hops: Vec<u128>,
    /// Their weights; 0 for dead ones.
    weights: Vec<u32>,
}

impl Shares {
    fn slots(&self, config: &Config) -> Vec<Call> {
        let pool = &config.pools[self.pool];
        let names = pool.back_ends.iter().map(|at| config.back_ends[*at].name.as_str());
        let back_ends: Vec<(&str, u32)> = names.zip(self.weights.iter().copied()).collect();
        let call = |winner: Option<usize>| match winner {
            Some(winner) => Call::new("to_next_hop", [self.next_hops[winner]]),
            None => Call::new("no_back_end", []),
        };
        slots::assign(pool.slots, &back_ends).into_iter().map(call).collect()
    }
}

/// Returns the weights of a pool's back ends, 0 for dead ones.
fn weights(config: &Config, pool: usize, alive: &dyn Fn(usize) -> bool) -> Vec<u32> {
    let weight = |at: &usize| if alive(*at) { config.back_ends[*at].weight } else { 0 };
    config.pools[pool].back_ends.iter().map(weight).collect()
}

impl Plan {
    /// Returns a network's name for messages.
    pub(crate) fn network(&self, number: u16) -> &str {
        self.networks.get(&number).map_or("?", String::as_str)
    }

    /// Returns a pool's name for messages; its number if the plan does not have it.
    pub(crate) fn pool(&self, number: u16) -> String {
        self.shares.get(&number).map_or_else(|| number.to_string(), |shares| shares.name.clone())
    }

    /// Describes a location.
    pub(crate) fn place(&self, location: Location) -> String {
        match location {
            Location::Port(port, 0) => format!("port {port}"),
            Location::Port(port, vlan) => format!("port {port}, VLAN {vlan}"),
            Location::Vtep(vtep) => {
                format!("VTEP {}", self.vteps.get(&vtep).map_or("?", String::as_str))
            }
        }
    }

    /// Changes which back ends are alive: the result is that of [`plan()`] for the same configuration, but only pools
    /// whose back ends died or recovered are computed.
    pub fn share(&mut self, config: &Config, alive: &dyn Fn(usize) -> bool) {
        for (number, shares) in &mut self.shares {
            let weights = weights(config, shares.pool, alive);
            if weights != shares.weights {
                shares.weights = weights;
                self.state.pools.insert(*number, shares.slots(config));
            }
        }
    }
}

/// The location of a station, as the program encodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// A port and VLAN.
    Port(u16, u16),
    /// A VTEP.
    Vtep(u16),
}

impl Location {
    /// Reads it from a digest.
    pub(crate) fn new(location: u128, vlan: u128) -> Location {
        match location & BEHIND_VTEP {
            0 => Location::Port(location as u16, vlan as u16),
            _ => Location::Vtep(location as u16),
        }
    }
}

/// Overhead without outer Ethernet: IP, UDP, VXLAN and the inner Ethernet header.
const OVERHEAD_V4: u16 = 20 + 8 + 8 + 14;
const OVERHEAD_V6: u16 = 40 + 8 + 8 + 14;
/// RFC 7348, section 5: source ports from 49152 on.
const PORT_BASE: u128 = 49152;
const PORT_MASK: u128 = 16383;
/// A station behind a VTEP has this bit in its location.
const BEHIND_VTEP: u128 = 0x10000;
/// Maximum number of networks: their numbers are indices of counters in the program.
const NETWORKS_MAX: u16 = 2000;

/// Numbers by which the switch identifies things: existing ones keep theirs, and new ones get unused numbers.
struct Numbers<K> {
    /// The objects that they identify, for messages.
    what: &'static str,
    known: BTreeMap<K, u16>,
    used: BTreeSet<u16>,
    next: u16,
    max: u16,
}

impl<K: Ord + Clone> Numbers<K> {
    /// `found` has the numbers on the switch, `used` other numbers that may still be referred to there. 0 means none.
    fn new(
        what: &'static str,
        found: impl IntoIterator<Item = (K, u128)>,
        used: impl IntoIterator<Item = u128>,
    ) -> Numbers<K> {
        let (known, used_now) = (BTreeMap::new(), BTreeSet::new());
        let mut numbers = Numbers { what, known, used: used_now, next: 1, max: u16::MAX };
        for (key, number) in found {
            let Ok(number) = u16::try_from(number) else { continue };
            // Two objects with one number could not be distinguished: the second one gets a new number.
            if number != 0 && numbers.used.insert(number) {
                numbers.known.insert(key, number);
            }
        }
        numbers.used.extend(used.into_iter().filter_map(|number| u16::try_from(number).ok()));
        numbers
    }

    fn of(&mut self, key: &K) -> Result<u128, String> {
        if let Some(number) = self.known.get(key) {
            return Ok(u128::from(*number));
        }
        while self.used.contains(&self.next) {
            self.next += 1;
            if self.next >= self.max {
                return Err(format!(
                    "more than {} {}: the program has no numbers for them",
                    self.max - 1,
                    self.what
                ));
            }
        }
        self.used.insert(self.next);
        self.known.insert(key.clone(), self.next);
        Ok(u128::from(self.next))
    }
}

/// The user of a pool: a virtual address, or one of its services.
type PoolUser = (Table, Key);

struct Planning<'a> {
    config: &'a Config,
    plan: Plan,
    vteps: Vec<u128>,
    networks: Vec<u128>,
    next_hops: Numbers<Call>,
}

/// Plans the state of the switch if the back ends for which `alive` returns true are alive. Numbers used on the switch
/// stay the same; learned stations remain if their locations are still possible.
pub fn plan(config: &Config, alive: &dyn Fn(usize) -> bool, actual: &Actual) -> Result<Plan, String> {
    let now = &actual.state;
    let of =
        |table: Table| now.entries.range((table, Vec::new())..).take_while(move |((t, _), _)| *t == table);
    let param = |call: &Call, at: usize| call.params.get(at).copied().unwrap_or(0);
    let ends = |table| of(table).map(move |((_, key), call)| (ends_of(table, key), param(call, 0)));
    let mut vteps = Numbers::new(
        "VTEPs",
        ends(Table::TunnelsV4).chain(ends(Table::TunnelsV6)),
        of(Table::Vteps).chain(of(Table::Encapsulations)).map(|((_, key), _)| key[0].value),
    );
    let mut networks = Numbers::new(
        "networks",
        of(Table::Vnis).map(|((_, key), call)| (key[0].value as u32, param(call, 0))),
        of(Table::Attachments)
            .map(|(_, call)| param(call, 0))
            .chain(now.floods.keys().map(|g| u128::from(*g))),
    );
    networks.max = NETWORKS_MAX;
    let next_hops = Numbers::new(
        "next hops",
        of(Table::NextHops).map(|((_, key), call)| (call.clone(), key[0].value)),
        [],
    );

    let mut planning =
        Planning { config, plan: Plan::default(), vteps: Vec::new(), networks: Vec::new(), next_hops };
    for vtep in &config.vteps {
        let number = vteps.of(&(vtep.local, vtep.remote))?;
        planning.vteps.push(number);
        planning.plan.vteps.insert(number as u16, vtep.name.clone());
    }
    for network in &config.networks {
        let number = networks.of(&network.vni)?;
        planning.networks.push(number);
        planning.plan.network_numbers.push(number as u16);
        planning.plan.networks.insert(number as u16, network.name.clone());
    }
    planning.tunnels();
    planning.ports();
    planning.networks(actual)?;
    planning.routes()?;
    planning.vips(alive, actual)?;
    planning.learned(now);
    Ok(planning.plan)
}

fn ends_of(table: Table, key: &Key) -> (IpAddr, IpAddr) {
    let address = |field: &Field| match table {
        Table::TunnelsV4 => IpAddr::V4((field.value as u32).into()),
        _ => IpAddr::V6(field.value.into()),
    };
    (address(&key[0]), address(&key[1]))
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

fn by_family(address: IpAddr, four: Table, six: Table) -> Table {
    if address.is_ipv4() { four } else { six }
}

fn key(words: impl IntoIterator<Item = u128>) -> Key {
    words.into_iter().map(Field::from).collect()
}

fn n(value: impl Into<u128>) -> u128 {
    value.into()
}

impl Planning<'_> {
    fn put(&mut self, table: Table, key: Key, action: &str, params: impl IntoIterator<Item = u128>) {
        self.plan.state.entries.insert((table, key), Call::new(action, params));
    }

    fn host(&mut self, vrf: u16, address: IpAddr, action: &str, params: impl IntoIterator<Item = u128>) {
        let table = by_family(address, Table::HostsV4, Table::HostsV6);
        self.put(table, key([n(vrf), bits(address)]), action, params);
    }

    fn own_addresses(&mut self, vrf: u16, addresses: &[IpAddr]) {
        for address in addresses {
            self.host(vrf, *address, "own_address", []);
        }
    }

    /// Returns the maximum length of an IP packet in a VTEP's tunnel.
    fn tunnel_mtu(&self, vtep: usize) -> u128 {
        let vtep = &self.config.vteps[vtep];
        let overhead = if vtep.remote.is_ipv4() { OVERHEAD_V4 } else { OVERHEAD_V6 };
        n(self.config.underlays[vtep.underlay].mtu - overhead)
    }

    fn tunnels(&mut self) {
        for (at, vtep) in self.config.vteps.iter().enumerate() {
            let (id, underlay) = (self.vteps[at], &self.config.underlays[vtep.underlay]);
            let (local, remote, place) = (bits(vtep.local), bits(vtep.remote), underlay.place);
            let action = if vtep.remote.is_ipv4() { "encapsulate_v4" } else { "encapsulate_v6" };
            let macs = [n(underlay.mac), n(vtep.next_hop), n(place.vlan)];
            let rest = [local, remote, n(vtep.ttl), PORT_BASE, PORT_MASK];
            self.put(Table::Encapsulations, key([id]), action, macs.into_iter().chain(rest));
            self.put(Table::Vteps, key([id]), "via", [n(place.port), self.tunnel_mtu(at)]);
            let table = by_family(vtep.remote, Table::TunnelsV4, Table::TunnelsV6);
            self.put(table, key([local, remote]), "from_vtep", [id]);
        }
    }

    fn ports(&mut self) {
        let config = self.config;
        for external in &config.externals {
            let place = key([n(external.place.port), n(external.place.vlan)]);
            self.put(Table::Attachments, place, "external", [n(external.vrf), n(external.mac)]);
            self.own_addresses(external.vrf, &external.addresses);
        }
        for underlay in &config.underlays {
            let place = key([n(underlay.place.port), n(underlay.place.vlan)]);
            self.put(Table::Attachments, place, "underlay", [0, n(underlay.mac)]);
            self.own_addresses(0, &underlay.addresses);
            self.plan.state.own_vteps.extend(underlay.addresses.iter().map(|address| match *address {
                IpAddr::V4(v4) => OwnVtep::V4(v4.into()),
                IpAddr::V6(v6) => OwnVtep::V6(v6.into()),
            }));
        }
    }

    fn networks(&mut self, actual: &Actual) -> Result<(), String> {
        let config = self.config;
        let replicas = actual.state.entries.iter().filter(|((table, _), _)| *table == Table::Replicas);
        let mut replicas = Numbers::new(
            "kinds of copies in floods",
            replicas.map(|((_, key), call)| (call.clone(), key[0].value)),
            actual.state.floods.values().flatten().map(|(rid, _)| n(*rid)),
        );
        for (at, network) in config.networks.iter().enumerate() {
            let id = self.networks[at];
            let (vrf, mac, vni) = (n(network.vrf), n(network.mac), n(network.vni));
            // A flood group has its network's number.
            let group = if network.flood { id } else { 0 };
            let learns = n(network.learn);
            self.put(Table::Vnis, key([vni]), "into", [id, vrf, mac, group, learns]);
            for place in &network.places {
                let place = key([n(place.port), n(place.vlan)]);
                self.put(Table::Attachments, place, "tenant", [id, vrf, mac, vni, group, learns]);
            }
            if network.flood {
                let mut copies = BTreeSet::new();
                for place in &network.places {
                    copies.insert((
                        self.replica(&mut replicas, Call::new("to_vlan", [n(place.vlan)]))?,
                        place.port,
                    ));
                }
                for vtep in &network.vteps {
                    let port = config.underlays[config.vteps[*vtep].underlay].place.port;
                    let call = Call::new("to_vtep", [self.vteps[*vtep], self.tunnel_mtu(*vtep)]);
                    copies.insert((self.replica(&mut replicas, call)?, port));
                }
                self.plan.state.floods.insert(id as u16, copies);
            }
            self.own_addresses(network.vrf, &network.addresses);
            for address in &network.addresses {
                self.arp_answer(id, *address, network.mac);
            }
            self.stations(at, network)?;
            if network.learn {
                let mut may_be: BTreeSet<Location> =
                    network.places.iter().map(|place| Location::Port(place.port, place.vlan)).collect();
                // Any VTEP may send into any network.
                may_be.extend(self.vteps.iter().map(|vtep| Location::Vtep(*vtep as u16)));
                self.plan.learning.insert(id as u16, may_be);
            }
        }
        Ok(())
    }

    fn replica(&mut self, replicas: &mut Numbers<Call>, call: Call) -> Result<u16, String> {
        let rid = replicas.of(&call)?;
        self.plan.state.entries.insert((Table::Replicas, key([rid])), call);
        Ok(rid as u16)
    }

    fn arp_answer(&mut self, network: u128, address: IpAddr, mac: u64) {
        if address.is_ipv4() {
            self.put(Table::ArpAnswers, key([network, bits(address)]), "answer", [n(mac)]);
        }
    }

    fn stations(&mut self, at: usize, network: &Network) -> Result<(), String> {
        let id = self.networks[at] as u16;
        for station in &network.stations {
            let location = match station.behind {
                Behind::Vtep(vtep) => Location::Vtep(self.vteps[vtep] as u16),
                Behind::Port(place) => Location::Port(place.port, place.vlan),
            };
            self.plan.fixed.insert((id, station.mac));
            self.plan.state.entries.extend(station_entries(id, station.mac, location));
            if let Some(address) = station.address {
                self.arp_answer(n(id), address, station.mac);
                let next_hop = self.next_hop(NextHop::Station(at, station.behind, station.mac))?;
                self.host(network.vrf, address, "to_next_hop", [next_hop]);
            }
        }
        Ok(())
    }

    /// Returns the number of a next hop, and adds it if necessary.
    fn next_hop(&mut self, next_hop: NextHop) -> Result<u128, String> {
        let call = match next_hop {
            NextHop::External(external, dmac) => {
                let external = &self.config.externals[external];
                let (port, vlan) = (n(external.place.port), n(external.place.vlan));
                Call::new("local", [port, vlan, n(external.mac), n(dmac), n(external.mtu)])
            }
            NextHop::Station(at, behind, dmac) => {
                let network = &self.config.networks[at];
                let (smac, dmac) = (n(network.mac), n(dmac));
                match behind {
                    Behind::Vtep(vtep) => {
                        let (vtep, vni) = (self.vteps[vtep], n(network.vni));
                        Call::new("tunnel", [vtep, vni, self.networks[at], smac, dmac])
                    }
                    Behind::Port(place) => {
                        Call::new("local", [n(place.port), n(place.vlan), smac, dmac, n(network.mtu)])
                    }
                }
            }
        };
        let id = self.next_hops.of(&call)?;
        self.plan.state.entries.insert((Table::NextHops, key([id])), call);
        Ok(id)
    }

    fn routes(&mut self) -> Result<(), String> {
        for route in &self.config.routes {
            let id = self.next_hop(route.next_hop)?;
            let max = if route.address.is_ipv4() { 32 } else { 128 };
            if route.prefix_len == max {
                self.host(route.vrf, route.address, "to_next_hop", [id]);
                continue;
            }
            let table = by_family(route.address, Table::RoutesV4, Table::RoutesV6);
            let prefix = Field { value: bits(route.address), prefix_len: Some(route.prefix_len) };
            self.put(table, vec![n(route.vrf).into(), prefix], "to_next_hop", [id]);
        }
        Ok(())
    }

    fn vips(&mut self, alive: &dyn Fn(usize) -> bool, actual: &Actual) -> Result<(), String> {
        let config = self.config;
        let now = &actual.state.entries;
        let host = |vrf: u16, address: IpAddr| {
            (by_family(address, Table::HostsV4, Table::HostsV6), key([n(vrf), bits(address)]))
        };
        let of_action = |table: Table, at: &Key, action: &str| {
            now.get(&(table, at.clone())).filter(|call| call.action == action).map(|call| call.params[0])
        };
        let known: Vec<_> = config.vips.iter().map(|vip| host(vip.vrf, vip.address)).collect();
        let mut services = Numbers::new(
            "virtual addresses with services",
            known
                .iter()
                .filter_map(|(table, at)| Some(((*table, at.clone()), of_action(*table, at, "by_service")?))),
            now.keys().filter(|(table, _)| *table == Table::Services).map(|(_, key)| key[0].value),
        );
        // The users of pools: entries of virtual addresses and of their services.
        let mut users: Vec<(PoolUser, Balance)> = Vec::new();
        for (vip, (table, at)) in config.vips.iter().zip(known) {
            match &vip.service {
                Service::All(balance) => users.push(((table, at), *balance)),
                Service::Some(some) => {
                    let service = services.of(&(table, at.clone()))?;
                    self.put(table, at, "by_service", [service]);
                    for ((protocol, port), balance) in some {
                        let at = key([service, n(*protocol), n(*port)]);
                        users.push(((Table::Services, at), *balance));
                    }
                }
            }
        }
        // A pool keeps the number by which its users refer to it, unless its size changes.
        let known = users.iter().filter_map(|((table, at), balance)| {
            let number = of_action(*table, at, "balance")?;
            let slots = actual.state.pools.get(&u16::try_from(number).ok()?)?.len();
            (slots == config.pools[balance.pool].slots as usize).then_some((balance.pool, number))
        });
        let mut first = BTreeMap::new();
        for (pool, number) in known {
            first.entry(pool).or_insert(number);
        }
        let taken = actual.state.pools.keys().chain(actual.strays.pools.keys()).map(|pool| n(*pool));
        let mut pools = Numbers::new("pools", first, taken);
        for ((table, at), Balance { pool, algorithm }) in users {
            let id = pools.of(&pool)?;
            self.put(table, at, "balance", [id, algorithm as u128]);
            self.plan.state.crc32c |= algorithm == Algorithm::Crc32c;
            if !self.plan.state.pools.contains_key(&(id as u16)) {
                let shares = self.shares(pool, alive)?;
                self.plan.state.pools.insert(id as u16, shares.slots(config));
                self.plan.shares.insert(id as u16, shares);
            }
        }
        // If it is set already, nothing else uses it.
        self.plan.state.crc32c |= actual.state.crc32c;
        Ok(())
    }

    /// Returns the shares of a pool.
    fn shares(&mut self, pool: usize, alive: &dyn Fn(usize) -> bool) -> Result<Shares, String> {
        let config = self.config;
        let mut next_hops = Vec::new();
        for at in &config.pools[pool].back_ends {
            let back_end = &config.back_ends[*at];
            let id = self.next_hop(NextHop::Station(back_end.network, back_end.behind, back_end.mac))?;
            self.plan.names.insert(id, back_end.name.clone());
            next_hops.push(id);
        }
        let name = config.pools[pool].name.clone();
        Ok(Shares { pool, name, next_hops, weights: weights(config, pool, alive) })
    }

    /// Keeps learned stations.
    fn learned(&mut self, now: &State) {
        let both = [Table::Macs, Table::Stations];
        for ((table, at), call) in now.entries.iter().filter(|((table, _), _)| both.contains(table)) {
            let may_be = u16::try_from(at[0].value).ok().and_then(|id| self.plan.learning.get(&id));
            let is = may_be.is_some_and(|may_be| match (call.action.as_str(), call.params.as_slice()) {
                ("local", &[port, vlan]) => may_be.contains(&Location::Port(port as u16, vlan as u16)),
                ("remote", &[vtep]) => may_be.contains(&Location::Vtep(vtep as u16)),
                ("at", &[place]) if place & BEHIND_VTEP != 0 => {
                    may_be.contains(&Location::Vtep((place & 0xffff) as u16))
                }
                ("at", &[place]) => {
                    may_be.iter().any(|l| matches!(l, Location::Port(port, _) if n(*port) == place))
                }
                _ => false,
            });
            if is {
                self.plan.state.entries.entry((*table, at.clone())).or_insert_with(|| call.clone());
            }
        }
    }
}

/// Returns the entries of a station.
pub fn station_entries(network: u16, mac: u64, location: Location) -> [((Table, Key), Call); 2] {
    let at = key([n(network), n(mac)]);
    let (call, place) = match location {
        Location::Port(port, vlan) => (Call::new("local", [n(port), n(vlan)]), n(port)),
        Location::Vtep(vtep) => (Call::new("remote", [n(vtep)]), BEHIND_VTEP | n(vtep)),
    };
    [((Table::Macs, at.clone()), call), ((Table::Stations, at), Call::new("at", [place]))]
}
