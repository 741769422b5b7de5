//! The configuration as in the file: unchecked names, strings and numbers.

use serde::Deserialize;
use toml::Spanned;

/// A value with its place.
pub(crate) type At<T> = Spanned<T>;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    pub controller: Option<Controller>,
    pub learning: Learning,
    pub health: HealthTimes,
    pub tenant: Vec<Tenant>,
    pub external: Vec<External>,
    pub underlay: Vec<Underlay>,
    pub vtep: Vec<Vtep>,
    pub network: Vec<Network>,
    pub route: Vec<At<Route>>,
    pub back_end: Vec<At<BackEnd>>,
    pub pool: Vec<Pool>,
    pub vip: Vec<At<Vip>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Controller {
    pub interface: At<String>,
    pub icmp_per_second: Option<At<i64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Learning {
    pub age_seconds: Option<At<i64>>,
    pub max_stations: Option<At<i64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HealthTimes {
    pub interval_ms: Option<At<i64>>,
    pub timeout_ms: Option<At<i64>>,
    pub fall: Option<At<i64>>,
    pub rise: Option<At<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tenant {
    pub name: At<String>,
    pub vrf: At<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct External {
    pub name: At<String>,
    pub port: At<i64>,
    pub vlan: Option<At<i64>>,
    pub mac: At<String>,
    pub mtu: Option<At<i64>>,
    pub tenant: Option<At<String>>,
    #[serde(default)]
    pub addresses: Vec<At<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Underlay {
    pub name: At<String>,
    pub port: At<i64>,
    pub vlan: Option<At<i64>>,
    pub mac: At<String>,
    pub mtu: Option<At<i64>>,
    #[serde(default)]
    pub addresses: Vec<At<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vtep {
    pub name: At<String>,
    pub address: At<String>,
    pub underlay: Option<At<String>>,
    pub next_hop: At<String>,
    pub ttl: Option<At<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    pub name: At<String>,
    pub vni: At<i64>,
    pub tenant: Option<At<String>>,
    pub mac: At<String>,
    pub mtu: Option<At<i64>>,
    #[serde(default = "yes")]
    pub learn: bool,
    #[serde(default = "yes")]
    pub flood: bool,
    #[serde(default)]
    pub ports: Vec<At<Place>>,
    #[serde(default)]
    pub vteps: Vec<At<String>>,
    #[serde(default)]
    pub addresses: Vec<At<String>>,
    #[serde(default)]
    pub station: Vec<At<Station>>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    pub port: At<i64>,
    pub vlan: Option<At<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Station {
    pub mac: At<String>,
    pub address: Option<At<String>>,
    pub vtep: Option<At<String>>,
    pub port: Option<At<i64>>,
    pub vlan: Option<At<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    pub prefix: At<String>,
    pub tenant: Option<At<String>>,
    pub external: Option<At<String>>,
    pub network: Option<At<String>>,
    pub vtep: Option<At<String>>,
    pub port: Option<At<i64>>,
    pub vlan: Option<At<i64>>,
    pub mac: At<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackEnd {
    pub name: At<String>,
    pub network: At<String>,
    pub vtep: Option<At<String>>,
    pub port: Option<At<i64>>,
    pub vlan: Option<At<i64>>,
    pub mac: At<String>,
    pub weight: Option<At<i64>>,
    pub health: Option<At<Health>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Health {
    pub tcp: Option<At<String>>,
    pub http: Option<At<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pool {
    pub name: At<String>,
    pub back_ends: Vec<At<String>>,
    pub slots: Option<At<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vip {
    pub address: At<String>,
    pub tenant: Option<At<String>>,
    pub pool: Option<At<String>>,
    pub algorithm: Option<At<String>>,
    pub services: Option<Vec<At<Service>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    pub protocol: At<String>,
    pub port: At<i64>,
    pub pool: At<String>,
    pub algorithm: Option<At<String>>,
}
