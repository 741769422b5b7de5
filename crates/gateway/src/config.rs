//! The configuration, checked: every name is resolved, every value in its range.

use crate::complaint::Complaint;
use crate::file::{self, At, File};
use p4jet_suggest::nearest;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::time::Duration;

/// The configuration of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The other end of the switch's port for the controller, if it answers.
    pub controller: Option<ControllerPort>,
    /// Learned stations are forgotten after this time without a frame.
    pub age: Duration,
    /// Maximum number of learned stations in a network.
    pub stations_max: usize,
    /// The times of back ends' health checks.
    pub health: HealthTimes,
    /// Ports with IP only.
    pub externals: Vec<External>,
    /// Ports of tunnels.
    pub underlays: Vec<Underlay>,
    /// Far ends of tunnels.
    pub vteps: Vec<Vtep>,
    /// Tenants' networks.
    pub networks: Vec<Network>,
    /// Routes.
    pub routes: Vec<Route>,
    /// Servers behind virtual addresses.
    pub back_ends: Vec<BackEnd>,
    /// Pools over which virtual addresses are balanced.
    pub pools: Vec<Pool>,
    /// Virtual addresses.
    pub vips: Vec<Vip>,
}

/// The other end of the switch's port for the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerPort {
    /// The interface.
    pub interface: String,
    /// Maximum number of answers per second.
    pub icmp_per_second: u32,
}

/// The times of back ends' health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthTimes {
    /// Time from the start of a check to the start of the next one.
    pub interval: Duration,
    /// Maximum duration of a check.
    pub timeout: Duration,
    /// Number of consecutive failures after which it is dead.
    pub fall: u32,
    /// Number of consecutive successes after which it is alive.
    pub rise: u32,
}

/// A port, and the VLAN there; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The port.
    pub port: u16,
    /// The VLAN.
    pub vlan: u16,
}

/// A port with IP only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Port and VLAN.
    pub place: Place,
    /// The VRF of received packets.
    pub vrf: u16,
    /// The gateway's MAC address there.
    pub mac: u64,
    /// The longest IP packet.
    pub mtu: u16,
    /// The gateway's own addresses.
    pub addresses: Vec<IpAddr>,
}

/// A port of tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Underlay {
    /// Port and VLAN.
    pub place: Place,
    /// The gateway's MAC address there.
    pub mac: u64,
    /// The longest IP packet.
    pub mtu: u16,
    /// The gateway's own addresses: the local ends of tunnels.
    pub addresses: Vec<IpAddr>,
}

/// The far end of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vtep {
    /// Its name.
    pub name: String,
    /// Its address.
    pub remote: IpAddr,
    /// Our address.
    pub local: IpAddr,
    /// Index of the underlay.
    pub underlay: usize,
    /// The MAC address of the next router, or of the VTEP itself.
    pub next_hop: u64,
    /// The TTL of the outer header.
    pub ttl: u8,
}

/// The place of a station or back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Behind {
    /// A VTEP, by index.
    Vtep(usize),
    /// A port of this gateway.
    Port(Place),
}

/// A tenant's network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Its VNI in tunnels.
    pub vni: u32,
    /// Its routing table.
    pub vrf: u16,
    /// The gateway's MAC address in it.
    pub mac: u64,
    /// The longest IP packet at its ports.
    pub mtu: u16,
    /// True if stations are learned.
    pub learn: bool,
    /// True if frames to unknown stations are flooded.
    pub flood: bool,
    /// The places where it is attached.
    pub places: Vec<Place>,
    /// Indices of the VTEPs to which floods go.
    pub vteps: Vec<usize>,
    /// The gateway's own IP addresses in it.
    pub addresses: Vec<IpAddr>,
    /// Configured stations, which are not learned.
    pub stations: Vec<Station>,
}

/// A known station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its MAC address.
    pub mac: u64,
    /// Its IP address.
    pub address: Option<IpAddr>,
    /// Its location.
    pub behind: Behind,
}

/// The next hop of a routed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Out of an external port, by index, to a MAC address.
    External(usize, u64),
    /// To a station of a network, by index.
    Station(usize, Behind, u64),
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its VRF.
    pub vrf: u16,
    /// Its prefix.
    pub address: IpAddr,
    /// Length of the prefix.
    pub prefix_len: u8,
    /// Its next hop.
    pub next_hop: NextHop,
}

/// The health check of a back end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// It must accept TCP connections.
    Tcp(SocketAddr),
    /// It must answer an HTTP request with status 2xx or 3xx.
    Http {
        /// The address to query.
        address: SocketAddr,
        /// The path of the request.
        path: String,
    },
}

/// A server behind virtual addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackEnd {
    /// Its name, which determines its share.
    pub name: String,
    /// Index of its network.
    pub network: usize,
    /// Its location.
    pub behind: Behind,
    /// Its MAC address.
    pub mac: u64,
    /// Its weight.
    pub weight: u32,
    /// Its health check; without one it always counts as alive.
    pub health: Option<Health>,
}

/// A pool over which virtual addresses are balanced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Indices of its back ends.
    pub back_ends: Vec<usize>,
    /// Number of slots.
    pub slots: u32,
}

/// The hash of a client's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// CRC-32 of Ethernet.
    #[default]
    Crc32 = 0,
    /// CRC-32C of iSCSI.
    Crc32c = 1,
    /// CRC-16/ARC.
    Crc16 = 2,
    /// RFC 1071.
    Csum16 = 3,
}

/// A pool and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Index of the pool.
    pub pool: usize,
    /// The hash.
    pub algorithm: Algorithm,
}

/// A virtual address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vip {
    /// Its VRF.
    pub vrf: u16,
    /// The address.
    pub address: IpAddr,
    /// The handling of packets for it.
    pub service: Service,
}

/// The handling of packets for a virtual address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// All packets are balanced.
    All(Balance),
    /// Packets of some protocols and ports are balanced.
    Some(BTreeMap<(u8, u16), Balance>),
}

/// Maximum number of slots of all pools, for which the program has room.
const SLOTS_MAX: u64 = 1_048_576;
/// Default number of slots of a pool.
const SLOTS: u32 = 1024;
const CONTROLLER_PORT: i64 = 510;
const WEIGHT_MAX: i64 = 100;
/// Default maximum number of answers per second.
const ICMP_PER_SECOND: u32 = 1000;
/// IFNAMSIZ without the final 0.
const INTERFACE_NAME_MAX: usize = 15;

impl Config {
    /// Reads a configuration, or returns all its errors.
    pub fn parse(text: &str) -> Result<Config, Vec<Complaint>> {
        if text.trim().is_empty() {
            return Err(vec![Complaint::new(0..0, "the file is empty: expected a configuration")]);
        }
        let file: File = toml::from_str(text).map_err(|error| vec![of_toml(&error, text)])?;
        let mut check = Check { complaints: Vec::new() };
        let config = check.config(&file);
        if check.complaints.is_empty() {
            return Ok(config);
        }
        check.complaints.sort_by_key(|complaint| complaint.span.start);
        Err(check.complaints)
    }
}

/// Converts an error of the TOML parser or of serde.
fn of_toml(error: &toml::de::Error, text: &str) -> Complaint {
    let mut message = in_words(error.message().lines().next().unwrap_or(""));
    let span = error.span().unwrap_or(0..0);
    let is_list = text.get(span.clone()).is_some_and(|found| found.starts_with("[["));
    if is_list && message.starts_with("invalid type: map") {
        message = "only one such section is allowed: expected single brackets".to_string();
    }
    let complaint = Complaint::new(span, &message);
    // "unknown field `prot`, expected one of `port`, `vlan`"
    let mut quoted = message.split('`').skip(1).step_by(2);
    match quoted.next().and_then(|found| nearest(found, quoted)) {
        Some(meant) if message.starts_with("unknown") => complaint.note(format!("did you mean `{meant}`?")),
        _ => complaint,
    }
}

/// Returns the message of serde without the names of our types.
fn in_words(message: &str) -> String {
    const SEVERAL: &str = "expected a list, in double brackets as [[pool]], or as [ … ]";
    const SECTION: &str = "expected a section with keys";
    const WORDS: [(&str, &str); 8] = [
        ("expected i64", "expected a number"),
        ("invalid type: map, expected a sequence", SEVERAL),
        ("expected a sequence", SEVERAL),
        ("expected struct HealthTimes", "expected one section, in single brackets as [health]"),
        ("expected struct Controller", "expected one section, in single brackets as [controller]"),
        ("expected struct Learning", "expected one section, in single brackets as [learning]"),
        ("expected struct Health", r#"expected { tcp = "192.0.2.1:80" } or { http = "http://192.0.2.1/" }"#),
        ("expected struct Place", "expected { port = 2 } or { port = 2, vlan = 10 }"),
    ];
    let message = WORDS.iter().fold(message.to_string(), |text, (from, to)| text.replace(from, to));
    match message.find("expected struct ") {
        Some(at) => message[..at].to_string() + SECTION,
        None => message,
    }
}

struct Check {
    complaints: Vec<Complaint>,
}

/// Names of one kind, with their places.
struct Names<'a> {
    what: &'static str,
    list: Vec<&'a At<String>>,
    by_name: HashMap<&'a str, usize>,
}

impl Names<'_> {
    /// Returns 0 for an unknown name, which is reported.
    fn find(&self, check: &mut Check, name: &At<String>) -> usize {
        self.found(check, name).unwrap_or(0)
    }

    fn found(&self, check: &mut Check, name: &At<String>) -> Option<usize> {
        if let Some(at) = self.by_name.get(name.get_ref().as_str()) {
            return Some(*at);
        }
        let what = self.what;
        let mut complaint = Complaint::new(name.span(), format!("unknown {what} `{}`", name.get_ref()));
        let names: Vec<&str> =
            self.list.iter().take(COMPARED_MAX).map(|name| name.get_ref().as_str()).collect();
        if let Some(meant) = nearest(name.get_ref(), names.iter().copied()) {
            complaint = complaint.note(format!("did you mean `{meant}`?"));
        }
        complaint = complaint.note(match names.is_empty() {
            true => format!("there is no [[{what}]]"),
            false => format!("{what}s are {}", listed(&names, self.list.len())),
        });
        check.complaints.push(complaint);
        None
    }
}

/// Maximum number of names compared with an unknown one, because a file may have thousands of each kind.
const COMPARED_MAX: usize = 200;

/// The first few names.
fn listed(names: &[&str], count: usize) -> String {
    const LISTED_MAX: usize = 10;
    let mut text: Vec<String> = names.iter().take(LISTED_MAX).map(|name| format!("`{name}`")).collect();
    if count > LISTED_MAX {
        text.push(format!("and {} more", count - LISTED_MAX));
    }
    text.join(", ")
}

/// Records where something was declared, to report duplicates.
struct Once<K>(BTreeMap<K, Range<usize>>);

impl<K: Ord> Once<K> {
    fn new() -> Once<K> {
        Once(BTreeMap::new())
    }

    fn note(&mut self, check: &mut Check, key: K, span: Range<usize>, message: impl Fn() -> String) {
        match self.0.entry(key) {
            std::collections::btree_map::Entry::Vacant(vacant) => drop(vacant.insert(span)),
            std::collections::btree_map::Entry::Occupied(first) => {
                let first = first.get().clone();
                check.complaints.push(Complaint::new(span, message()).and(first, "first here"));
            }
        }
    }
}

/// An address in a VRF that must be unique.
type HostKey = (u16, IpAddr);

impl Check {
    fn complain(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.complaints.push(Complaint::new(span, message));
    }

    fn number<T: TryFrom<i64>>(&mut self, value: &At<i64>, what: &str, range: RangeInclusive<i64>) -> T {
        let n = *value.get_ref();
        if !range.contains(&n) {
            let (low, high) = (range.start(), range.end());
            self.complain(value.span(), format!("{what} {n}: expected {low} to {high}"));
        }
        let n = if range.contains(&n) { n } else { *range.start() };
        T::try_from(n).unwrap_or_else(|_| unreachable!("ranges fit their types"))
    }

    fn number_or<T: TryFrom<i64>>(
        &mut self,
        value: &Option<At<i64>>,
        what: &str,
        range: RangeInclusive<i64>,
        usual: T,
    ) -> T {
        value.as_ref().map_or(usual, |value| self.number(value, what, range))
    }

    fn place(&mut self, port: &At<i64>, vlan: &Option<At<i64>>) -> Place {
        if *port.get_ref() == CONTROLLER_PORT {
            let message = format!("port {CONTROLLER_PORT} is the controller's: expected another one");
            self.complain(port.span(), message);
        }
        Place { port: self.number(port, "port", 0..=510), vlan: self.number_or(vlan, "VLAN", 0..=4094, 0) }
    }

    fn mac(&mut self, text: &At<String>) -> u64 {
        let bytes: Option<Vec<u8>> = text
            .get_ref()
            .split([':', '-'])
            .map(|part| (part.len() == 2).then(|| u8::from_str_radix(part, 16).ok()).flatten())
            .collect();
        let Some(bytes) = bytes.filter(|bytes| bytes.len() == 6) else {
            let message =
                format!("`{}` is not a MAC address: expected one such as 02:00:00:00:00:01", text.get_ref());
            self.complain(text.span(), message);
            return 0;
        };
        let mac = bytes.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte));
        if bytes[0] & 1 == 1 || mac == 0 {
            let message =
                format!("`{}` is not the MAC address of a station: expected a unicast one", text.get_ref());
            self.complain(text.span(), message);
        }
        mac
    }

    /// Reads the MAC address of another device, which must differ from ours. Behind a VTEP it may be that of a gateway
    /// with the same address.
    fn mac_of_other(&mut self, text: &At<String>, ours: Option<u64>) -> u64 {
        let mac = self.mac(text);
        if mac != 0 && Some(mac) == ours {
            let message =
                format!("`{}` is the gateway's own MAC address there: expected another one", text.get_ref());
            self.complain(text.span(), message);
        }
        mac
    }

    fn parsed<T: FromStr>(&mut self, text: &At<String>, what: &str, example: &str) -> Option<T> {
        let value = text.get_ref().parse().ok();
        if value.is_none() {
            let message = format!("`{}` is not an {what}: expected one such as {example}", text.get_ref());
            self.complain(text.span(), message);
        }
        value
    }

    fn address(&mut self, text: &At<String>) -> Option<IpAddr> {
        let address: IpAddr = self.parsed(text, "IP address", "192.0.2.1 or 2001:db8::1")?;
        let is_no_host = match address {
            IpAddr::V4(v4) => v4.is_broadcast(),
            IpAddr::V6(v6) => v6.to_ipv4_mapped().is_some(),
        };
        if is_no_host || address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            let message = format!("`{address}` is not a host address: expected a unicast one");
            self.complain(text.span(), message);
        }
        Some(address)
    }

    fn addresses(&mut self, texts: &[At<String>], vrf: u16, hosts: &mut Once<HostKey>) -> Vec<IpAddr> {
        let mut found = Vec::new();
        for text in texts {
            if let Some(address) = self.address(text) {
                self.host(hosts, vrf, address, text.span());
                found.push(address);
            }
        }
        found
    }

    fn host(&mut self, hosts: &mut Once<HostKey>, vrf: u16, address: IpAddr, span: Range<usize>) {
        hosts.note(self, (vrf, address), span, || format!("address {address} is used twice in VRF {vrf}"));
    }

    fn names<'a>(&mut self, what: &'static str, names: impl Iterator<Item = &'a At<String>>) -> Names<'a> {
        let list: Vec<&At<String>> = names.collect();
        let mut once = Once::new();
        for name in &list {
            let text = name.get_ref();
            let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if text.is_empty() || !text.chars().all(good) {
                let message = format!("`{text}` is not a name: expected letters, digits, `-`, `_` and `.`");
                self.complain(name.span(), message);
            }
            once.note(self, text.as_str(), name.span(), || format!("two {what}s have the name `{text}`"));
        }
        // The first of two with the same name counts; the second is reported.
        let by_name = list.iter().enumerate().rev().map(|(at, name)| (name.get_ref().as_str(), at)).collect();
        Names { what, list, by_name }
    }

    fn config(&mut self, file: &File) -> Config {
        let tenants = self.names("tenant", file.tenant.iter().map(|t| &t.name));
        let externals = self.names("external", file.external.iter().map(|e| &e.name));
        let underlays = self.names("underlay", file.underlay.iter().map(|u| &u.name));
        let vteps = self.names("vtep", file.vtep.iter().map(|v| &v.name));
        let networks = self.names("network", file.network.iter().map(|n| &n.name));
        let back_ends = self.names("back_end", file.back_end.iter().map(|b| &b.get_ref().name));
        let pools = self.names("pool", file.pool.iter().map(|p| &p.name));

        let mut vrfs = Vec::new();
        let mut once = Once::new();
        for tenant in &file.tenant {
            let vrf: u16 = self.number(&tenant.vrf, "VRF", 0..=65535);
            once.note(self, vrf, tenant.vrf.span(), || format!("two tenants have VRF {vrf}"));
            vrfs.push(vrf);
        }
        let vrf_of = |check: &mut Check, name: &Option<At<String>>| match name {
            None => 0,
            Some(name) => {
                let at = tenants.find(check, name);
                vrfs.get(at).copied().unwrap_or(0)
            }
        };

        let mut places = Once::new();
        let mut attach = |check: &mut Check, place: Place, span: Range<usize>| {
            let Place { port, vlan } = place;
            places.note(check, place, span, || format!("port {port}, VLAN {vlan} is used twice"));
        };
        let mut hosts = Once::new();
        let mtu = |check: &mut Check, mtu: &Option<At<i64>>| check.number_or(mtu, "MTU", 576..=65535, 1500);

        let mut config = Config {
            controller: file.controller.as_ref().map(|controller| self.controller(controller)),
            age: Duration::from_secs(self.number_or(
                &file.learning.age_seconds,
                "age_seconds",
                1..=1_000_000,
                300,
            )),
            stations_max: self.number_or(&file.learning.max_stations, "max_stations", 0..=500_000, 65_536),
            health: self.health_times(&file.health),
            externals: Vec::new(),
            underlays: Vec::new(),
            vteps: Vec::new(),
            networks: Vec::new(),
            routes: Vec::new(),
            back_ends: Vec::new(),
            pools: Vec::new(),
            vips: Vec::new(),
        };
        for external in &file.external {
            let place = self.place(&external.port, &external.vlan);
            attach(self, place, external.port.span());
            let vrf = vrf_of(self, &external.tenant);
            config.externals.push(External {
                place,
                vrf,
                mac: self.mac(&external.mac),
                mtu: mtu(self, &external.mtu),
                addresses: self.addresses(&external.addresses, vrf, &mut hosts),
            });
        }
        for underlay in &file.underlay {
            let place = self.place(&underlay.port, &underlay.vlan);
            attach(self, place, underlay.port.span());
            config.underlays.push(Underlay {
                place,
                mac: self.mac(&underlay.mac),
                mtu: mtu(self, &underlay.mtu),
                addresses: self.addresses(&underlay.addresses, 0, &mut hosts),
            });
        }
        let mut remotes = Once::new();
        for vtep in &file.vtep {
            if let Some(found) = self.vtep(vtep, &underlays, &config.underlays) {
                let ends = (found.local, found.remote);
                let message = || format!("two VTEPs have the address {}", found.remote);
                remotes.note(self, ends, vtep.address.span(), message);
                config.vteps.push(found);
            }
        }
        let mut vnis = Once::new();
        for network in &file.network {
            let vrf = vrf_of(self, &network.tenant);
            let vni: u32 = self.number(&network.vni, "VNI", 0..=0xff_ffff);
            vnis.note(self, vni, network.vni.span(), || format!("two networks have VNI {vni}"));
            let mut found = Network {
                name: network.name.get_ref().clone(),
                vni,
                vrf,
                mac: self.mac(&network.mac),
                mtu: mtu(self, &network.mtu),
                learn: network.learn,
                flood: network.flood,
                places: Vec::new(),
                vteps: Vec::new(),
                addresses: self.addresses(&network.addresses, vrf, &mut hosts),
                stations: Vec::new(),
            };
            for place in &network.ports {
                let span = place.span();
                let place = self.place(&place.get_ref().port, &place.get_ref().vlan);
                attach(self, place, span);
                found.places.push(place);
            }
            let mut once = Once::new();
            for name in &network.vteps {
                let Some(at) = vteps.found(self, name) else { continue };
                let message = || format!("VTEP `{}` is listed twice", name.get_ref());
                once.note(self, at, name.span(), message);
                found.vteps.push(at);
            }
            let mut macs = Once::new();
            for at in &network.station {
                let station = at.get_ref();
                let ours = station.vtep.is_none().then_some(found.mac);
                let mac = self.mac_of_other(&station.mac, ours);
                let message = || format!("two stations have the MAC address {}", station.mac.get_ref());
                macs.note(self, mac, station.mac.span(), message);
                let address = station.address.as_ref().and_then(|text| {
                    let address = self.address(text)?;
                    self.host(&mut hosts, vrf, address, text.span());
                    Some(address)
                });
                let (vtep, port, vlan) = (&station.vtep, &station.port, &station.vlan);
                let behind = self.behind(at.span(), vtep, port, vlan, &vteps, &found.places);
                found.stations.push(Station { mac, address, behind });
            }
            config.networks.push(found);
        }
        let mut prefixes = Once::new();
        for at in &file.route {
            let route = at.get_ref();
            let vrf = vrf_of(self, &route.tenant);
            let next_hop = self.next_hop(at, &externals, &networks, &vteps, &config);
            let Some((address, prefix_len)) = self.prefix(&route.prefix) else { continue };
            if prefix_len == max_len(address) {
                self.host(&mut hosts, vrf, address, route.prefix.span());
            } else {
                let message = || format!("two routes of VRF {vrf} have the prefix {address}/{prefix_len}");
                prefixes.note(self, (vrf, address, prefix_len), route.prefix.span(), message);
            }
            config.routes.push(Route { vrf, address, prefix_len, next_hop });
        }
        let mut same = Once::new();
        for at in &file.back_end {
            let back_end = at.get_ref();
            let network = networks.find(self, &back_end.network);
            let none = Vec::new();
            let places = config.networks.get(network).map_or(&none, |network| &network.places);
            let (vtep, port, vlan) = (&back_end.vtep, &back_end.port, &back_end.vlan);
            let behind = self.behind(at.span(), vtep, port, vlan, &vteps, places);
            let ours = config.networks.get(network).map(|network| network.mac);
            let mac = self.mac_of_other(&back_end.mac, ours.filter(|_| back_end.vtep.is_none()));
            let name = back_end.name.get_ref();
            same.note(self, (network, mac), back_end.mac.span(), || {
                format!("back end `{name}` has the MAC address of another one in its network")
            });
            config.back_ends.push(BackEnd {
                name: name.clone(),
                network,
                behind,
                mac,
                weight: self.number_or(&back_end.weight, "weight", 0..=WEIGHT_MAX, 1),
                health: back_end.health.as_ref().and_then(|health| self.health(health)),
            });
        }
        let mut slots_used = 0;
        for pool in &file.pool {
            let mut once = Once::new();
            let mut members = Vec::new();
            for name in &pool.back_ends {
                let Some(at) = back_ends.found(self, name) else { continue };
                let message = || format!("back end `{}` is listed twice", name.get_ref());
                once.note(self, at, name.span(), message);
                members.push(at);
            }
            let slots = self.number_or(&pool.slots, "slots", 1..=65536, SLOTS);
            slots_used += u64::from(slots);
            if slots_used > SLOTS_MAX {
                let message = format!("the pools have {slots_used} slots: expected at most {SLOTS_MAX}");
                self.complain(pool.name.span(), message);
            }
            let name = pool.name.get_ref().clone();
            config.pools.push(Pool { name, back_ends: members, slots });
        }
        for at in &file.vip {
            let vrf = vrf_of(self, &at.get_ref().tenant);
            let service = self.service(at, &pools);
            let Some(address) = self.address(&at.get_ref().address) else { continue };
            self.host(&mut hosts, vrf, address, at.get_ref().address.span());
            config.vips.push(Vip { vrf, address, service });
        }
        config
    }

    fn controller(&mut self, controller: &file::Controller) -> ControllerPort {
        let interface = controller.interface.get_ref().clone();
        let allowed = |c: char| !c.is_whitespace() && !c.is_control() && c != '/';
        let is_name = (1..=INTERFACE_NAME_MAX).contains(&interface.len()) && interface.chars().all(allowed);
        if !is_name || interface == "." || interface == ".." {
            let message = format!(
                "`{}` is not an interface name: expected 1 to {INTERFACE_NAME_MAX} bytes, no space, no `/`",
                interface.escape_debug()
            );
            self.complain(controller.interface.span(), message);
        }
        let per_second = &controller.icmp_per_second;
        let icmp_per_second = self.number_or(per_second, "icmp_per_second", 1..=1_000_000, ICMP_PER_SECOND);
        ControllerPort { interface, icmp_per_second }
    }

    fn health_times(&mut self, times: &file::HealthTimes) -> HealthTimes {
        let millis = |check: &mut Check, value: &Option<At<i64>>, what: &str| {
            Duration::from_millis(check.number_or(value, what, 10..=60_000, 500))
        };
        let found = HealthTimes {
            interval: millis(self, &times.interval_ms, "interval_ms"),
            timeout: millis(self, &times.timeout_ms, "timeout_ms"),
            fall: self.number_or(&times.fall, "fall", 1..=100, 2),
            rise: self.number_or(&times.rise, "rise", 1..=100, 2),
        };
        if found.timeout > found.interval {
            let (timeout, interval) = (found.timeout.as_millis(), found.interval.as_millis());
            let at = times.timeout_ms.as_ref().or(times.interval_ms.as_ref());
            let message = format!("a timeout of {timeout} ms: expected at most the interval, {interval} ms");
            self.complain(at.map_or(0..0, At::span), message);
        }
        found
    }

    fn vtep(&mut self, vtep: &file::Vtep, names: &Names, underlays: &[Underlay]) -> Option<Vtep> {
        let ttl = self.number_or(&vtep.ttl, "TTL", 1..=255, 64);
        let remote = self.address(&vtep.address)?;
        let underlay = match &vtep.underlay {
            Some(name) => names.find(self, name),
            None if underlays.len() == 1 => 0,
            None => {
                let message = format!("VTEP `{}` does not name its underlay", vtep.name.get_ref());
                let names: Vec<&str> = names.list.iter().map(|name| name.get_ref().as_str()).collect();
                let note = match names.is_empty() {
                    true => "there is no [[underlay]]".to_string(),
                    false => format!("expected `underlay = …`, one of {}", listed(&names, names.len())),
                };
                self.complaints.push(Complaint::new(vtep.name.span(), message).note(note));
                return None;
            }
        };
        let of = underlays.get(underlay)?;
        let next_hop = self.mac_of_other(&vtep.next_hop, Some(of.mac));
        let Some(local) = of.addresses.iter().find(|ours| ours.is_ipv4() == remote.is_ipv4()) else {
            let family = if remote.is_ipv4() { "IPv4" } else { "IPv6" };
            let message = format!("VTEP {remote}: its underlay has no {family} address of ours");
            let name = names.list[underlay];
            let complaint = Complaint::new(vtep.address.span(), message);
            self.complaints.push(complaint.and(name.span(), format!("its addresses have no {family} one")));
            return None;
        };
        if of.addresses.contains(&remote) {
            self.complain(vtep.address.span(), format!("VTEP {remote} is the gateway itself"));
        }
        let name = vtep.name.get_ref().clone();
        Some(Vtep { name, remote, local: *local, underlay, next_hop, ttl })
    }

    /// Reads the location of a station or back end of a network.
    fn behind(
        &mut self,
        span: Range<usize>,
        vtep: &Option<At<String>>,
        port: &Option<At<i64>>,
        vlan: &Option<At<i64>>,
        vteps: &Names,
        places: &[Place],
    ) -> Behind {
        match (vtep, port) {
            (Some(name), None) => {
                if let Some(vlan) = vlan {
                    self.complain(
                        vlan.span(),
                        "a VLAN behind a VTEP: expected none, because the VNI identifies the network",
                    );
                }
                Behind::Vtep(vteps.find(self, name))
            }
            (None, Some(port)) => {
                let place = self.place(port, vlan);
                if !places.contains(&place) {
                    let Place { port: number, vlan } = place;
                    let message = format!("port {number}, VLAN {vlan} is not one of the network's `ports`");
                    self.complain(port.span(), message);
                }
                Behind::Port(place)
            }
            (Some(vtep), Some(port)) => {
                let complaint = Complaint::new(port.span(), "both `port` and `vtep`: expected one of them");
                self.complaints.push(complaint.and(vtep.span(), "the other one"));
                Behind::Vtep(0)
            }
            (None, None) => {
                self.complain(span, "neither `vtep` nor `port`: expected one of them");
                Behind::Vtep(0)
            }
        }
    }

    fn next_hop(
        &mut self,
        at: &At<file::Route>,
        externals: &Names,
        networks: &Names,
        vteps: &Names,
        config: &Config,
    ) -> NextHop {
        let route = at.get_ref();
        match (&route.external, &route.network) {
            (Some(name), None) => {
                for (what, span) in [
                    ("vtep", route.vtep.as_ref().map(At::span)),
                    ("port", route.port.as_ref().map(At::span)),
                    ("vlan", route.vlan.as_ref().map(At::span)),
                ] {
                    if let Some(span) = span {
                        self.complain(span, format!("a route to an external has no `{what}`"));
                    }
                }
                let external = externals.find(self, name);
                let ours = config.externals.get(external).map(|external| external.mac);
                NextHop::External(external, self.mac_of_other(&route.mac, ours))
            }
            (None, Some(name)) => {
                let network = networks.find(self, name);
                let none = Vec::new();
                let places = config.networks.get(network).map_or(&none, |network| &network.places);
                let (vtep, port, vlan) = (&route.vtep, &route.port, &route.vlan);
                let behind = self.behind(at.span(), vtep, port, vlan, vteps, places);
                let ours = config.networks.get(network).map(|network| network.mac);
                let mac = self.mac_of_other(&route.mac, ours.filter(|_| route.vtep.is_none()));
                NextHop::Station(network, behind, mac)
            }
            (Some(external), Some(network)) => {
                let message = "both `network` and `external`: expected one of them";
                let complaint = Complaint::new(network.span(), message);
                self.complaints.push(complaint.and(external.span(), "the other one"));
                NextHop::External(0, 0)
            }
            (None, None) => {
                let message = "neither `external` nor `network`: expected one of them";
                self.complain(at.span(), message);
                NextHop::External(0, 0)
            }
        }
    }

    fn prefix(&mut self, text: &At<String>) -> Option<(IpAddr, u8)> {
        let wrong = |check: &mut Check, why: &str| {
            check.complain(text.span(), format!("`{}` is not a prefix: {why}", text.get_ref()));
            None
        };
        let expected = "expected one such as 192.0.2.0/24 or 2001:db8::/32";
        let (address, len) = match text.get_ref().split_once('/') {
            Some((address, len)) => (address.parse(), len.parse::<u8>()),
            None => return wrong(self, expected),
        };
        let (Ok(address), Ok(len)) = (address, len) else { return wrong(self, expected) };
        if len > max_len(address) {
            return wrong(self, &format!("expected a length of at most {}", max_len(address)));
        }
        let network = masked(address, len);
        if network != address {
            return wrong(self, &format!("bits after the prefix are set; expected {network}/{len}"));
        }
        Some((address, len))
    }

    fn health(&mut self, at: &At<file::Health>) -> Option<Health> {
        match (&at.get_ref().tcp, &at.get_ref().http) {
            (Some(text), None) => {
                let address = self.parsed(text, "address with a port", "192.0.2.1:80 or [2001:db8::1]:80");
                address.inspect(|address| self.check_port(text, *address)).map(Health::Tcp)
            }
            (None, Some(text)) => {
                let parts = text.get_ref().strip_prefix("http://").map(|rest| match rest.find('/') {
                    Some(slash) => rest.split_at(slash),
                    None => (rest, "/"),
                });
                let target = parts.and_then(|(host, path)| {
                    let address: Option<SocketAddr> = host.parse().ok();
                    let ip = || host.trim_matches(['[', ']']).parse().ok().map(|ip| SocketAddr::new(ip, 80));
                    Some((address.or_else(ip)?, path))
                });
                let target = target.filter(|(_, path)| path.bytes().all(|b| b.is_ascii_graphic()));
                if target.is_none() {
                    let message = format!(
                        "`{}` is not a health check: expected a URL such as http://192.0.2.1:8080/health",
                        text.get_ref()
                    );
                    self.complain(text.span(), message);
                }
                target.map(|(address, path)| {
                    self.check_port(text, address);
                    Health::Http { address, path: path.to_string() }
                })
            }
            _ => {
                self.complain(at.span(), "expected either `tcp` or `http`");
                None
            }
        }
    }

    fn check_port(&mut self, text: &At<String>, address: SocketAddr) {
        if address.port() == 0 {
            let message = format!("`{}` has port 0: expected 1 to 65535", text.get_ref());
            self.complain(text.span(), message);
        }
    }

    fn algorithm(&mut self, name: &Option<At<String>>) -> Algorithm {
        const NAMES: [(&str, Algorithm); 4] = [
            ("crc32", Algorithm::Crc32),
            ("crc32c", Algorithm::Crc32c),
            ("crc16", Algorithm::Crc16),
            ("csum16", Algorithm::Csum16),
        ];
        let Some(name) = name else { return Algorithm::default() };
        let found = NAMES.iter().find(|(n, _)| n == name.get_ref());
        if found.is_none() {
            let names = NAMES.map(|(name, _)| name);
            let message = format!(
                "unknown algorithm `{}`: expected one of {}",
                name.get_ref(),
                listed(&names, names.len())
            );
            self.complain(name.span(), message);
        }
        found.map_or(Algorithm::default(), |(_, algorithm)| *algorithm)
    }

    fn service(&mut self, at: &At<file::Vip>, pools: &Names) -> Service {
        let vip = at.get_ref();
        match (&vip.pool, &vip.services) {
            (Some(pool), None) => {
                let algorithm = self.algorithm(&vip.algorithm);
                Service::All(Balance { pool: pools.find(self, pool), algorithm })
            }
            (None, Some(services)) => {
                if let Some(algorithm) = &vip.algorithm {
                    self.complain(algorithm.span(), "with `services`, each has its own `algorithm`");
                }
                let mut once = Once::new();
                let mut found = BTreeMap::new();
                for service in services {
                    let service = service.get_ref();
                    let name = service.protocol.get_ref().as_str();
                    let protocol = match name {
                        "tcp" => 6,
                        "udp" => 17,
                        _ => {
                            let message = format!("unknown protocol `{name}`: expected `tcp` or `udp`");
                            self.complain(service.protocol.span(), message);
                            continue;
                        }
                    };
                    let port: u16 = self.number(&service.port, "port", 1..=65535);
                    let message = || format!("{name} port {port} is listed twice");
                    once.note(self, (protocol, port), service.port.span(), message);
                    let algorithm = self.algorithm(&service.algorithm);
                    let pool = pools.find(self, &service.pool);
                    found.insert((protocol, port), Balance { pool, algorithm });
                }
                Service::Some(found)
            }
            _ => {
                self.complain(at.span(), "expected either `pool` or `services`");
                Service::Some(BTreeMap::new())
            }
        }
    }
}

fn max_len(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the address with the bits after the prefix cleared.
fn masked(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}
