//! A frame from an expression such as `ip dst=10.0.0.1 / tcp dport=80`: layers from the outside in, fields with defaults,
//! lengths and checksums computed; or from hexadecimal digits.

use etherparse::checksum::Sum16BitWords;
use p4jet_suggest::{did_you_mean, nearest};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum number of layers of a packet: VLAN tags and tunnels may nest.
const LAYERS_MAX: usize = 32;
/// Maximum number of bytes of a payload: the limit of IP's length field.
const PAYLOAD_BYTES_MAX: usize = 65_535;

/// The default of a field.
#[derive(Clone, Copy)]
enum Preset {
    Value(u128),
    /// The protocol of the next layer.
    Next,
    /// The number of bytes from this layer to the end.
    Length,
    Checksum,
}
use Preset::{Checksum, Length, Next, Value};

struct Field {
    name: &'static str,
    bits: u32,
    default: Preset,
}

const fn field(name: &'static str, bits: u32, default: Preset) -> Field {
    Field { name, bits, default }
}

struct Layer {
    name: &'static str,
    fields: &'static [Field],
    /// The layers that may precede it; the first is added if none of them does. If the list is empty, the layer may begin a frame.
    inside: &'static [&'static str],
}

const MAC_A: u128 = 0x0200_0000_0001;
const MAC_B: u128 = 0x0200_0000_0002;
const VXLAN_PORT: u128 = 4789;

const LAYERS: &[Layer] = &[
    Layer {
        name: "eth",
        fields: &[field("dst", 48, Value(MAC_B)), field("src", 48, Value(MAC_A)), field("type", 16, Next)],
        inside: &["", "vxlan"],
    },
    Layer {
        name: "vlan",
        fields: &[
            field("prio", 3, Value(0)),
            field("dei", 1, Value(0)),
            field("id", 12, Value(1)),
            field("type", 16, Next),
        ],
        inside: &["eth", "vlan"],
    },
    Layer {
        name: "arp",
        fields: &[
            field("htype", 16, Value(1)),
            field("ptype", 16, Value(0x0800)),
            field("hlen", 8, Value(6)),
            field("plen", 8, Value(4)),
            // A request.
            field("op", 16, Value(1)),
            field("sha", 48, Value(MAC_A)),
            field("spa", 32, Value(0x0a00_0001)),
            field("tha", 48, Value(0)),
            field("tpa", 32, Value(0x0a00_0002)),
        ],
        inside: &["eth", "vlan"],
    },
    Layer {
        name: "ip",
        fields: &[
            field("version", 4, Value(4)),
            field("ihl", 4, Value(5)),
            field("dscp", 6, Value(0)),
            field("ecn", 2, Value(0)),
            field("len", 16, Length),
            field("id", 16, Value(0)),
            field("flags", 3, Value(0)),
            field("frag", 13, Value(0)),
            field("ttl", 8, Value(64)),
            field("proto", 8, Next),
            field("checksum", 16, Checksum),
            field("src", 32, Value(0x0a00_0001)),
            field("dst", 32, Value(0x0a00_0002)),
        ],
        inside: &["eth", "vlan", "ip", "ip6"],
    },
    Layer {
        name: "ip6",
        fields: &[
            field("version", 4, Value(6)),
            field("dscp", 6, Value(0)),
            field("ecn", 2, Value(0)),
            field("flow", 20, Value(0)),
            field("len", 16, Length),
            field("next", 8, Next),
            field("hops", 8, Value(64)),
            // RFC 3849: addresses for documentation.
            field("src", 128, Value(0x2001_0db8_0000_0000_0000_0000_0000_0001)),
            field("dst", 128, Value(0x2001_0db8_0000_0000_0000_0000_0000_0002)),
        ],
        inside: &["eth", "vlan", "ip", "ip6"],
    },
    Layer {
        name: "udp",
        fields: &[
            field("sport", 16, Value(49152)),
            field("dport", 16, Next),
            field("len", 16, Length),
            field("checksum", 16, Checksum),
        ],
        inside: &["ip", "ip6"],
    },
    Layer {
        name: "tcp",
        fields: &[
            field("sport", 16, Value(49152)),
            field("dport", 16, Value(80)),
            field("seq", 32, Value(0)),
            field("ack", 32, Value(0)),
            field("offset", 4, Value(5)),
            // SYN.
            field("flags", 12, Value(2)),
            field("window", 16, Value(0xffff)),
            field("checksum", 16, Checksum),
            field("urgent", 16, Value(0)),
        ],
        inside: &["ip", "ip6"],
    },
    Layer {
        name: "icmp",
        fields: &[
            // An echo request, of ICMP or ICMPv6.
            field("type", 8, Next),
            field("code", 8, Value(0)),
            field("checksum", 16, Checksum),
            field("id", 16, Value(1)),
            field("seq", 16, Value(1)),
        ],
        inside: &["ip", "ip6"],
    },
    Layer {
        name: "vxlan",
        fields: &[
            field("flags", 8, Value(8)),
            field("reserved", 24, Value(0)),
            field("vni", 24, Value(1)),
            field("reserved2", 8, Value(0)),
        ],
        inside: &["udp"],
    },
];

/// `payload` has no fields: it takes one of these.
const PAYLOAD_FIELDS: &[&str] = &["text", "hex", "zeros"];

/// The layer of that name.
fn layer(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

/// A written layer with its given values.
struct Part {
    layer: &'static Layer,
    values: Vec<Option<u128>>,
}

/// Parses a frame: layers, or hexadecimal digits, in which blanks and colons are ignored.
pub fn frame(text: &str) -> Result<Vec<u8>, String> {
    if is_expression(text) { build(text) } else { parse_hex(text) }
}

/// True if one word is a frame, so that it is not the name of a file.
pub fn is_frame(word: &str) -> bool {
    let first = word.split('/').next().unwrap_or(word);
    word.contains('=')
        || word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        || layer(first).is_some()
}

/// The layer that was probably meant by a word that names neither a layer nor a file: one with a similar name, or whose name
/// begins the word (`ethernet`).
pub(crate) fn layer_meant(word: &str) -> Option<&'static str> {
    let first = word.split('/').next().unwrap_or(word);
    let names = || LAYERS.iter().map(|layer| layer.name).chain(["payload"]);
    let begins = || {
        let plain = first.bytes().all(|byte| byte.is_ascii_alphanumeric());
        names().filter(|name| plain && first.starts_with(name)).max_by_key(|name| name.len())
    };
    match first {
        "ip4" | "ipv4" => Some("ip"),
        _ => nearest(first, names()).or_else(begins),
    }
}

fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let mut digits = Vec::new();
    for (i, c) in text.chars().enumerate() {
        match c.to_digit(16) {
            Some(d) => digits.push(d as u8),
            None if c.is_whitespace() || c == ':' => {}
            None => {
                return Err(format!(
                    "character {} of the frame is `{c}`; expected hexadecimal digits, such as 080045",
                    i + 1
                ));
            }
        }
    }
    if digits.len() % 2 == 1 {
        return Err(format!("the frame has {} hexadecimal digits; expected two for each byte", digits.len()));
    }
    Ok(bytes(&digits).collect())
}

/// The bytes of pairs of hexadecimal digits.
fn bytes(digits: &[u8]) -> impl Iterator<Item = u8> {
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1])
}

/// True if the words form an expression, not hexadecimal digits.
fn is_expression(text: &str) -> bool {
    let first = text.split([' ', '\t', '/', '=']).find(|word| !word.is_empty()).unwrap_or("");
    text.contains(['=', '/'])
        || (first.starts_with(|c: char| c.is_ascii_alphabetic())
            && first.contains(|c: char| !c.is_ascii_hexdigit() && c != ':'))
}

/// Builds the frame of an expression.
fn build(text: &str) -> Result<Vec<u8>, String> {
    let (mut parts, payload) = parse(text)?;
    complete(&mut parts)?;
    let mut frame = payload;
    for at in (0..parts.len()).rev() {
        let outer = at.checked_sub(1).map(|at| &parts[at]);
        frame = wrap(&parts[at], outer, parts.get(at + 1), frame)?;
    }
    Ok(frame)
}

fn no_field<'a>(layer: &str, field: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let hint = did_you_mean(field, names.clone());
    let mark = if hint.is_empty() { ";" } else { ":" };
    let names = names.collect::<Vec<_>>().join(", ");
    format!("{layer} has no field `{field}`{mark} {hint}fields of {layer}: {names}")
}

fn parse(text: &str) -> Result<(Vec<Part>, Vec<u8>), String> {
    let (mut parts, mut payload) = (Vec::new(), None);
    for piece in text.split('/') {
        let mut words = piece.split_whitespace();
        let names = LAYERS.iter().map(|layer| layer.name).chain(["payload"]);
        let Some(name) = words.next() else {
            return Err(format!(
                "a layer is missing beside `/`; layers: {}",
                names.collect::<Vec<_>>().join(", ")
            ));
        };
        if payload.is_some() {
            return Err(format!("`{name}` follows the payload, which must be the last layer"));
        }
        if name == "payload" {
            payload = Some(parse_payload(words)?);
            continue;
        }
        let Some(layer) = layer(name) else {
            let hint = layer_meant(name).map_or("; ".into(), |layer| format!(": did you mean `{layer}`? "));
            let names = names.collect::<Vec<_>>().join(", ");
            return Err(format!("unknown layer `{name}`{hint}layers: {names}"));
        };
        if parts.len() == LAYERS_MAX {
            return Err(format!("the packet has more than {LAYERS_MAX} layers"));
        }
        let mut values = vec![None; layer.fields.len()];
        for word in words {
            let (field, value) = split(name, word)?;
            let names = layer.fields.iter().map(|field| field.name);
            let Some(at) = layer.fields.iter().position(|known| known.name == field) else {
                return Err(no_field(name, field, names));
            };
            if values[at].is_some() {
                return Err(format!("{name} has `{field}` twice"));
            }
            values[at] = Some(parse_value(name, &layer.fields[at], value)?);
        }
        parts.push(Part { layer, values });
    }
    Ok((parts, payload.unwrap_or_default()))
}

fn split<'a>(layer: &str, word: &'a str) -> Result<(&'a str, &'a str), String> {
    word.split_once('=')
        .ok_or_else(|| format!("`{word}` of {layer}: expected FIELD=VALUE, or `/` before the next layer"))
}

fn parse_payload<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<u8>, String> {
    let mut payload = Vec::new();
    for word in words {
        let (field, value) = split("payload", word)?;
        match field {
            "text" => payload.extend_from_slice(value.as_bytes()),
            "hex" => {
                let digits: Option<Vec<u8>> =
                    value.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
                match digits {
                    Some(digits) if digits.len() % 2 == 0 => payload.extend(bytes(&digits)),
                    _ => return Err(format!("payload hex={value}: expected two hexadecimal digits a byte")),
                }
            }
            "zeros" => match value.parse::<usize>() {
                Ok(count) if count <= PAYLOAD_BYTES_MAX => payload.resize(payload.len() + count, 0),
                _ => {
                    return Err(format!(
                        "payload zeros={value}: expected a number of bytes up to {PAYLOAD_BYTES_MAX}"
                    ));
                }
            },
            _ => return Err(no_field("payload", field, PAYLOAD_FIELDS.iter().copied())),
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(format!("the payload has more than {PAYLOAD_BYTES_MAX} bytes"));
        }
    }
    Ok(payload)
}

fn parse_value(layer: &str, field: &Field, text: &str) -> Result<u128, String> {
    let digits = text.replace('_', "");
    let number = match digits.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    };
    let address = match field.bits {
        32 => text.parse::<Ipv4Addr>().ok().map(|ip| u128::from(ip.to_bits())),
        48 => mac(text),
        128 => text.parse::<Ipv6Addr>().ok().map(|ip| ip.to_bits()),
        _ => None,
    };
    let max = u128::MAX >> (128 - field.bits);
    number.or(address).filter(|value| *value <= max).ok_or_else(|| {
        let expected = match (field.bits, field.name) {
            (48, _) => "an address such as 02:00:00:00:00:01".to_string(),
            (32, "src" | "dst" | "spa" | "tpa") => "an address such as 10.0.0.1".to_string(),
            (128, _) => "an address such as 2001:db8::1".to_string(),
            _ => format!("a number from 0 to {max}"),
        };
        format!("{layer} {}={text}: expected {expected}", field.name)
    })
}

fn mac(text: &str) -> Option<u128> {
    let bytes: Vec<&str> = text.split([':', '-']).collect();
    if bytes.len() != 6 || bytes.iter().any(|byte| byte.len() != 2) {
        return None;
    }
    bytes.iter().try_fold(0, |all, byte| Some(all << 8 | u128::from(u8::from_str_radix(byte, 16).ok()?)))
}

/// Adds omitted layers: an Ethernet header at the start, IP before TCP, UDP before VXLAN.
fn complete(parts: &mut Vec<Part>) -> Result<(), String> {
    let mut at = 0;
    while at < parts.len() {
        let layer = parts[at].layer;
        let outer = at.checked_sub(1).map_or("", |at| parts[at].layer.name);
        if layer.inside.contains(&outer) {
            at += 1;
            continue;
        }
        // An added layer may need one around it in turn; a chain of layers ends with eth.
        let fits = |missing: &&Layer| chain_fits(missing, outer);
        let Some(missing) = self::layer(layer.inside[0]).filter(fits) else {
            let known: Vec<&str> = layer.inside.iter().copied().filter(|name| !name.is_empty()).collect();
            let or_first = if layer.inside.contains(&"") { "the start or " } else { "" };
            return Err(format!(
                "{} cannot follow {outer}; it may follow {or_first}{}",
                layer.name,
                known.join(", ")
            ));
        };
        if parts.len() > 2 * LAYERS_MAX {
            return Err(format!("the packet has more than {LAYERS_MAX} layers"));
        }
        parts.insert(at, Part { layer: missing, values: vec![None; missing.fields.len()] });
    }
    Ok(())
}

/// True if a layer, with those that it needs around it, may follow another.
fn chain_fits(layer: &Layer, outer: &str) -> bool {
    layer.inside.contains(&outer) || self::layer(layer.inside[0]).is_some_and(|next| chain_fits(next, outer))
}

/// The value by which a layer identifies the next one.
fn next_value(part: &Part, outer: Option<&Part>, inner: Option<&Part>) -> u128 {
    let inner = inner.map_or("", |inner| inner.layer.name);
    let in_ip6 = outer.is_some_and(|outer| outer.layer.name == "ip6");
    match (part.layer.name, inner) {
        ("eth" | "vlan", "ip") => 0x0800,
        ("eth" | "vlan", "arp") => 0x0806,
        ("eth" | "vlan", "ip6") => 0x86dd,
        ("eth" | "vlan", "vlan") => 0x8100,
        // IEEE 802: for local experiments.
        ("eth" | "vlan", _) => 0x88b5,
        ("ip" | "ip6", "tcp") => 6,
        ("ip" | "ip6", "udp") => 17,
        ("ip", "icmp") => 1,
        ("ip6", "icmp") => 58,
        ("ip" | "ip6", "ip") => 4,
        ("ip" | "ip6", "ip6") => 41,
        // RFC 3692: for experiments.
        ("ip" | "ip6", _) => 253,
        ("udp", "vxlan") => VXLAN_PORT,
        ("udp", _) => 53,
        ("icmp", _) if in_ip6 => 128,
        _ => 8,
    }
}

/// Puts a layer around its contents.
fn wrap(part: &Part, outer: Option<&Part>, inner: Option<&Part>, inside: Vec<u8>) -> Result<Vec<u8>, String> {
    let name = part.layer.name;
    let header_bytes = part.layer.fields.iter().map(|field| field.bits as usize).sum::<usize>() / 8;
    let length = if name == "ip6" { inside.len() } else { header_bytes + inside.len() };
    let mut frame = Vec::with_capacity(header_bytes + inside.len());
    let (mut bits, mut pending) = (0u128, 0);
    let (mut checksum_at, mut has_length) = (None, false);
    for (field, given) in part.layer.fields.iter().zip(&part.values) {
        let value = given.unwrap_or_else(|| match field.default {
            Value(value) => value,
            Next => next_value(part, outer, inner),
            Length => length as u128,
            Checksum => 0,
        });
        has_length |= matches!(field.default, Length) && given.is_none();
        if matches!(field.default, Checksum) && given.is_none() {
            checksum_at = Some(frame.len());
        }
        if field.bits == 128 {
            frame.extend(value.to_be_bytes());
            continue;
        }
        bits = bits << field.bits | value;
        pending += field.bits;
        while pending >= 8 {
            pending -= 8;
            frame.push((bits >> pending) as u8);
        }
        bits &= (1 << pending) - 1;
    }
    if has_length && length > usize::from(u16::MAX) {
        return Err(format!("{name} would be {length} bytes long, and its length field holds up to 65535"));
    }
    frame.extend(inside);
    if let Some(at) = checksum_at {
        // IP sums only its header; the others sum everything with the pseudo header.
        let sum = match name {
            "ip" => Sum16BitWords::new().add_slice(&frame[..header_bytes]),
            _ => pseudo_header(part, outer, frame.len()).add_slice(&frame),
        };
        let checksum = match sum.ones_complement() {
            // RFC 768: 0 would mean no checksum.
            0 if name == "udp" => 0xffff,
            checksum => checksum,
        };
        // RFC 7348: over IPv4, VXLAN should have no checksum. etherparse sums in the byte order of the machine.
        let vxlan = inner.is_some_and(|inner| inner.layer.name == "vxlan");
        if !(vxlan && outer.is_some_and(|outer| outer.layer.name == "ip")) {
            frame[at..at + 2].copy_from_slice(&checksum.to_ne_bytes());
        }
    }
    Ok(frame)
}

fn pseudo_header(part: &Part, outer: Option<&Part>, length: usize) -> Sum16BitWords {
    let mut sum = Sum16BitWords::new();
    let Some(outer) = outer else { return sum };
    let value = |name: &str| {
        let at = outer.layer.fields.iter().position(|field| field.name == name);
        at.map_or(0, |at| match (outer.values[at], outer.layer.fields[at].default) {
            (Some(value), _) | (None, Value(value)) => value,
            (None, _) => next_value(outer, None, Some(part)),
        })
    };
    let length = (length as u32).to_be_bytes();
    match outer.layer.name {
        "ip" if part.layer.name == "icmp" => sum,
        "ip" => sum
            .add_4bytes((value("src") as u32).to_be_bytes())
            .add_4bytes((value("dst") as u32).to_be_bytes())
            .add_4bytes((value("proto") as u32).to_be_bytes())
            .add_4bytes(length),
        _ => sum
            .add_16bytes(value("src").to_be_bytes())
            .add_16bytes(value("dst").to_be_bytes())
            .add_4bytes((value("next") as u32).to_be_bytes())
            .add_4bytes(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetHeaders, PacketHeaders, TransportHeader};

    /// Another implementation parses the frames: the headers are those requested, with the checksums that it computes.
    #[test]
    fn another_parser_agrees() {
        let frame = build("ip dst=10.0.0.9 ttl=3 / tcp dport=443 / payload text=hello").unwrap();
        let read = PacketHeaders::from_ethernet_slice(&frame).unwrap();
        let Some(NetHeaders::Ipv4(ip, _)) = read.net else { panic!("{frame:02x?}") };
        let Some(TransportHeader::Tcp(tcp)) = read.transport else { panic!("{frame:02x?}") };
        assert_eq!((ip.destination, ip.time_to_live, ip.total_len), ([10, 0, 0, 9], 3, 45));
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
        assert_eq!((tcp.destination_port, tcp.syn), (443, true));
        assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, b"hello").unwrap());

        let frame = build("vlan id=7 / ip6 dst=2001:db8::9 / udp / payload hex=00ff01").unwrap();
        let read = PacketHeaders::from_ethernet_slice(&frame).unwrap();
        let Some(NetHeaders::Ipv6(ip, _)) = read.net else { panic!("{frame:02x?}") };
        let Some(TransportHeader::Udp(udp)) = read.transport else { panic!("{frame:02x?}") };
        assert_eq!((ip.destination[15], udp.length), (9, 11));
        assert_eq!(udp.checksum, udp.calc_checksum_ipv6(&ip, &[0, 0xff, 1]).unwrap());

        for text in ["icmp / payload zeros=9", "ip6 / icmp / payload zeros=9"] {
            let frame = build(text).unwrap();
            let read = PacketHeaders::from_ethernet_slice(&frame).unwrap();
            match (read.net, read.transport) {
                (_, Some(TransportHeader::Icmpv4(icmp))) => {
                    assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(&[0; 9]), "{text}");
                }
                (Some(NetHeaders::Ipv6(ip, _)), Some(TransportHeader::Icmpv6(icmp))) => {
                    let sum = icmp.icmp_type.calc_checksum(ip.source, ip.destination, &[0; 9]).unwrap();
                    assert_eq!(icmp.checksum, sum, "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn arp_is_a_layer() {
        let frame =
            build("arp op=2 sha=02:00:00:00:00:07 spa=10.0.0.7 tha=02:00:00:00:00:08 tpa=10.0.0.8").unwrap();
        let read = PacketHeaders::from_ethernet_slice(&frame).unwrap();
        let Some(NetHeaders::Arp(arp)) = read.net else { panic!("{frame:02x?}") };
        assert_eq!(arp.operation, etherparse::ArpOperation::REPLY);
        assert_eq!((arp.sender_hw_addr()[5], arp.sender_protocol_addr()), (7, &[10, 0, 0, 7][..]));
        assert_eq!((arp.target_hw_addr()[5], arp.target_protocol_addr()), (8, &[10, 0, 0, 8][..]));
        assert_eq!(build("vlan / arp").unwrap()[16..18], [0x08, 0x06]);
    }

    #[test]
    fn a_word_is_a_frame_or_a_file() {
        for (word, is) in [
            ("0102", true),
            ("01:02", true),
            ("eth", true),
            ("ip/tcp", true),
            ("payload/x=1", true),
            ("a.pcap", false),
            ("./ip", false),
            ("captures/ip", false),
        ] {
            assert_eq!(is_frame(word), is, "{word}");
        }
    }

    #[test]
    fn what_is_left_out_is_added() {
        for (short, long) in [
            ("tcp", "eth / ip / tcp"),
            ("eth / tcp", "eth / ip / tcp"),
            ("vxlan vni=9 / ip dst=1.2.3.4", "eth / ip / udp / vxlan vni=9 / eth / ip dst=1.2.3.4"),
            ("ip dst=0x0a000001", "eth type=0x800/ip dst=10.0.0.1"),
        ] {
            assert_eq!(build(short), build(long), "{short}");
        }
        assert_eq!(build("eth").unwrap().len(), 14);
        // A given field is not computed.
        assert_eq!(build("ip len=7 checksum=0x1234").unwrap()[14 + 2..14 + 4], [0, 7]);
    }

    #[test]
    fn mistakes_are_reported_with_the_choices() {
        for (text, parts) in [
            (
                "vlam / tcp",
                &["unknown layer `vlam`: did you mean `vlan`?", "layers: eth, vlan, arp, ip, ip6"]
                    as &[&str],
            ),
            ("ippp dst=1.2.3.4", &["unknown layer `ippp`: did you mean `ip`? layers: eth"]),
            ("ipv4 / tcp", &["did you mean `ip`?"]),
            ("ipv6 / tcp", &["did you mean `ip6`?"]),
            ("ethernet / ip", &["did you mean `eth`?"]),
            ("gre / ip", &["unknown layer `gre`; layers: eth"]),
            ("tcp dprot=80", &["tcp has no field `dprot`: did you mean `dport`?", "fields of tcp: sport"]),
            ("tcp dport=65536", &["tcp dport=65536: expected a number from 0 to 65535"]),
            ("ip dst=10.0.0", &["expected an address such as 10.0.0.1"]),
            ("ip / / tcp", &["a layer is missing"]),
            ("tcp / eth", &["eth cannot follow tcp; it may follow the start or vxlan"]),
            ("payload / tcp", &["follows the payload"]),
            ("payload hex=0", &["two hexadecimal digits a byte"]),
            ("payload zeros=99999999999", &["up to 65535"]),
            ("ip / payload zeros=65535", &["its length field holds up to 65535"]),
            ("arp tpa=10.0.0", &["expected an address such as 10.0.0.1"]),
            ("tcp / arp", &["arp cannot follow tcp; it may follow eth, vlan"]),
            ("ip ttl", &["`ttl` of ip: expected FIELD=VALUE"]),
            ("ip ttl=1 ttl=2", &["twice"]),
        ] {
            let error = build(text).expect_err(text);
            parts.iter().for_each(|part| assert!(error.contains(part), "{text}: {error}"));
        }
        assert!(build(&["vlan"; 40].join("/")).is_err_and(|e| e.contains("more than 32 layers")));
    }

    #[test]
    fn digits_are_no_expression() {
        for (text, expression) in [
            ("00 01", false),
            ("0g", false),
            ("ab:cd", false),
            ("eth", true),
            ("tcpp", true),
            ("dead", false),
        ] {
            assert_eq!(is_expression(text), expression, "{text}");
        }
    }
}
