//! The commands for a small configuration: tests/plan.txt. UPDATE=1 writes the present ones.

use crate::common::objects;
use p4jet_gateway::{Actual, Config, commands, diff, plan, summary};

const SMALL: &str = r#"
[[tenant]]
name = "red"
vrf = 7

[[external]]
name = "internet"
port = 0
mac = "02:00:00:00:00:01"
tenant = "red"
addresses = ["198.51.100.254"]

[[underlay]]
name = "fabric"
port = 1
vlan = 20
mac = "02:00:00:00:00:02"
addresses = ["10.0.0.1", "2001:db8::a"]
mtu = 9000

[[vtep]]
name = "rack1"
address = "10.0.0.11"
next_hop = "02:00:00:00:01:02"

[[vtep]]
name = "rack2"
address = "2001:db8::b"
next_hop = "02:00:00:00:01:03"
ttl = 32

[[network]]
name = "blue"
vni = 100
tenant = "red"
mac = "02:00:00:00:00:03"
addresses = ["192.0.2.1", "2001:db8:2::1"]
ports = [{ port = 2 }, { port = 3, vlan = 10 }]
vteps = ["rack1", "rack2"]

[[network.station]]
mac = "02:00:00:00:03:01"
address = "192.0.2.31"
port = 3
vlan = 10

[[network]]
name = "green"
vni = 16777215
mac = "02:00:00:00:00:04"
learn = false
flood = false

[[route]]
prefix = "203.0.113.0/24"
tenant = "red"
external = "internet"
mac = "02:00:00:00:01:01"

[[route]]
prefix = "2001:db8:9::7/128"
network = "green"
vtep = "rack2"
mac = "02:00:00:00:04:01"

[[back_end]]
name = "web1"
network = "blue"
vtep = "rack1"
mac = "02:00:00:00:02:01"

[[back_end]]
name = "web2"
network = "blue"
vtep = "rack2"
mac = "02:00:00:00:02:02"
weight = 2

[[back_end]]
name = "web3"
network = "blue"
port = 2
mac = "02:00:00:00:02:03"

[[pool]]
name = "web"
back_ends = ["web1", "web2", "web3"]
slots = 6

[[pool]]
name = "empty"
back_ends = []
slots = 2

[[vip]]
address = "198.51.100.1"
tenant = "red"
pool = "web"

[[vip]]
address = "2001:db8:1::1"
tenant = "red"
algorithm = "crc16"
pool = "web"

[[vip]]
address = "198.51.100.2"
tenant = "red"
services = [
    { protocol = "tcp", port = 80, pool = "web", algorithm = "crc32c" },
    { protocol = "udp", port = 53, pool = "empty" },
]
"#;

#[test]
fn a_small_configuration() {
    let config = Config::parse(SMALL).unwrap();
    let (objects, nothing) = (objects(), Actual::default());
    let changes = diff(&objects, &plan(&config, &|_| true, &nothing).unwrap(), &nothing);
    let now = format!("{}# {}\n", commands(&objects, &changes), summary(&changes));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plan.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    assert_eq!(now, std::fs::read_to_string(path).unwrap(), "UPDATE=1 writes what they are now");
}

/// For an empty configuration there is nothing to do.
#[test]
fn an_empty_configuration() {
    let config = Config::parse("[health]").unwrap();
    let nothing = Actual::default();
    assert_eq!(diff(&objects(), &plan(&config, &|_| true, &nothing).unwrap(), &nothing), []);
}
