//! Flow descriptions of service data flow filters: the subset of RFC 6733's IPFilterRule that TS 29.212, clause 5.4.2, allows.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Ports in a list: more would be an attack on the tables.
const RANGES_MAX: usize = 16;

/// A filter, from the UE's point of view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// The protocol; none for any.
    pub protocol: Option<u8>,
    /// The other side's address and the length of its prefix; none for any.
    pub remote: Option<(IpAddr, u8)>,
    /// The UE's address, where it is not "assigned" or "any".
    pub user: Option<(IpAddr, u8)>,
    /// The other side's ports; empty for any.
    pub remote_ports: Vec<(u16, u16)>,
    /// The UE's ports.
    pub user_ports: Vec<(u16, u16)>,
}

impl FromStr for Flow {
    type Err = String;

    /// `permit out PROTOCOL from ADDRESS [PORTS] to ADDRESS [PORTS]`. The UE is at `to`, also for uplink (TS 29.244,
    /// clause 5.2.1A.2A).
    fn from_str(text: &str) -> Result<Flow, String> {
        let mut words = text.split_ascii_whitespace().peekable();
        for expected in ["permit", "out"] {
            match words.next() {
                Some(word) if word == expected => {}
                word => return Err(format!("expected `{expected}`, found `{}`", word.unwrap_or("the end"))),
            }
        }
        let protocol = match words.next() {
            Some("ip") => None,
            Some(word) => Some(word.parse().map_err(|_| format!("`{word}` is no number of a protocol"))?),
            None => return Err("no protocol".into()),
        };
        let mut side = |name: &str| {
            if words.next() != Some(name) {
                return Err(format!("expected `{name}`"));
            }
            let address = address(words.next().ok_or(format!("no address after `{name}`"))?)?;
            let ports = match words.next_if(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
                Some(word) => word.split(',').map(|r| range(r).map(RangeInclusive::into_inner)).collect(),
                None => Ok(Vec::new()),
            }?;
            if ports.len() > RANGES_MAX {
                return Err(format!("{} ranges of ports; at most {RANGES_MAX}", ports.len()));
            }
            Ok((address, ports))
        };
        let (remote, remote_ports) = side("from")?;
        let (user, user_ports) = side("to")?;
        if let Some(word) = words.next() {
            return Err(format!("`{word}` is not supported"));
        }
        Ok(Flow { protocol, remote, user, remote_ports, user_ports })
    }
}

fn address(word: &str) -> Result<Option<(IpAddr, u8)>, String> {
    if word == "any" || word == "assigned" {
        return Ok(None);
    }
    let (address, length) = word.split_once('/').map_or((word, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().map_err(|_| format!("`{address}` is no address"))?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => longest,
        Some(l) => {
            l.parse().ok().filter(|l| *l <= longest).ok_or(format!("`/{l}` is no length of a prefix"))?
        }
    };
    // "0.0.0.0/0" means that any address of this version matches.
    Ok(Some((address, length)))
}

fn range(word: &str) -> Result<RangeInclusive<u16>, String> {
    let port = |text: &str| text.parse::<u16>().map_err(|_| format!("`{text}` is no port"));
    let (low, high) = match word.split_once('-') {
        Some((low, high)) => (port(low)?, port(high)?),
        None => (port(word)?, port(word)?),
    };
    if low > high { Err(format!("`{word}` is no range")) } else { Ok(low..=high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_specifications() {
        let flow: Flow = "permit out ip from any to assigned".parse().unwrap();
        assert_eq!((flow.protocol, flow.remote, flow.user), (None, None, None));
        let flow: Flow =
            "permit out 17 from 192.0.2.0/24 53,8000-8080 to assigned 1024-65535".parse().unwrap();
        assert_eq!(flow.protocol, Some(17));
        assert_eq!(flow.remote, Some(("192.0.2.0".parse().unwrap(), 24)));
        assert_eq!(flow.remote_ports, [(53, 53), (8000, 8080)]);
        assert_eq!(flow.user_ports, [(1024, 65535)]);
        let flow: Flow = "permit out 6 from 2001:db8::/32 to 2001:db8:60::/64".parse().unwrap();
        assert_eq!(flow.user, Some(("2001:db8:60::".parse().unwrap(), 64)));
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        for text in [
            "",
            "permit",
            "permit in ip from any to any",
            "deny out ip from any to any",
            "permit out tcp from any to any",
            "permit out 256 from any to any",
            "permit out ip from !10.0.0.1 to any",
            "permit out ip to any from any",
            "permit out ip from 10.0.0.1/33 to any",
            "permit out ip from any 5-4 to any",
            "permit out ip from any to any frag",
            "permit out ip from any 70000 to any",
            "permit out ip from any 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 to any",
        ] {
            assert!(text.parse::<Flow>().is_err(), "{text}");
        }
    }
}
