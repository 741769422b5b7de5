//! ICMP of both versions: computes the answer to a frame that the switch hands to its controller.
//!
//! The answer returns by the path of the packet: MAC addresses are swapped, and the header before the frame
//! (`packet_io_t` in programs/vxlan_gateway) names the port and VLAN, or the tunnel. The switch encapsulates: it alone
//! knows the headers that it puts before a frame, its VXLAN port, TTLs and counters.

use crate::config::{Config, Place};
use crate::plan::Plan;
use etherparse::icmpv4::{DestUnreachableHeader as Unreachable4, TimeExceededCode as TimeCode4};
use etherparse::icmpv6::TimeExceededCode as TimeCode6;
use etherparse::icmpv6::{DestUnreachableCode as Unreachable6, NeighborAdvertisementHeader};
use etherparse::{
    EtherType, Ethernet2Header, Icmpv4Header, Icmpv4Slice, Icmpv4Type, Icmpv6Header, Icmpv6Slice, Icmpv6Type,
    IpAuthHeaderSlice, IpDscp, IpNumber, Ipv4Header, Ipv6FragmentHeaderSlice, Ipv6Header,
    Ipv6RawExtHeaderSlice, LaxIpSlice, SingleVlanHeader, ip_number,
};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of `packet_io_t`.
const PACKET_IO_BYTES: usize = 28;
/// Local experimental type (IEEE 802): frames to and from the controller.
const TYPE_CONTROL: [u8; 2] = 0x88b5u16.to_be_bytes();
/// Reasons for which the switch hands over a packet, by the program's numbers.
const REASON_TTL: u16 = 9;
const REASON_MTU: u16 = 10;
const REASON_OWN_ADDRESS: u16 = 27;
/// RFC 1812, section 4.3.2.3: as much of the packet as makes an answer of that length.
const ERROR_V4_MAX: usize = 576;
/// RFC 4443, section 2.4 (c): as much as fits into the least MTU of IPv6.
const ERROR_V6_MAX: usize = 1280;
/// RFC 1122, section 3.2.1.7.
const TTL: u8 = 64;
/// RFC 4861, section 7.1: neighbour messages must not have been forwarded.
const NEIGHBOR_HOP_LIMIT: u8 = 255;
/// RFC 792's and RFC 1256's messages that report errors.
const ERRORS_V4: [u8; 5] = [3, 4, 5, 11, 12];
/// RFC 4443: smaller types are errors; and a redirect (section 2.4 (e.2)).
const INFORMATIONAL_V6: u8 = 128;
const REDIRECT_V6: u8 = 137;
/// RFC 4861, section 4.6.1: the target's link-layer address, in units of 8 bytes.
const OPTION_TARGET: [u8; 2] = [2, 1];

/// The gateway's own addresses, by the place where packets arrive.
#[derive(Clone, Debug, Default)]
pub struct OwnAddresses {
    /// Addresses at ports and VLANs.
    places: HashMap<Place, Site>,
    /// Addresses in networks, by VNI.
    networks: HashMap<u32, Site>,
    /// All addresses of a VRF.
    vrfs: HashMap<u16, Vec<IpAddr>>,
}

/// The place at which a packet arrived.
#[derive(Clone, Debug)]
struct Site {
    vrf: u16,
    mac: [u8; 6],
    /// The network's number, 0 for none.
    network: u16,
    addresses: Vec<IpAddr>,
}

impl OwnAddresses {
    /// Returns the addresses of a configuration, with the numbers of networks in its plan.
    pub fn new(config: &Config, plan: &Plan) -> OwnAddresses {
        let mut own = OwnAddresses::default();
        let six = |mac: u64| *mac.to_be_bytes().last_chunk().expect("8 bytes");
        let site = |vrf, mac, network, addresses: &[IpAddr]| Site {
            vrf,
            mac: six(mac),
            network,
            addresses: addresses.to_vec(),
        };
        for external in &config.externals {
            own.enter(external.place, site(external.vrf, external.mac, 0, &external.addresses));
            own.all_of(external.vrf, &external.addresses);
        }
        for (at, network) in config.networks.iter().enumerate() {
            let number = plan.network_numbers.get(at).copied().unwrap_or(0);
            let site = site(network.vrf, network.mac, number, &network.addresses);
            network.places.iter().for_each(|place| own.enter(*place, site.clone()));
            own.networks.insert(network.vni, site);
            own.all_of(network.vrf, &network.addresses);
        }
        // Last, so that others see an address of the underlay only if there is no other.
        for underlay in &config.underlays {
            own.enter(underlay.place, site(0, underlay.mac, 0, &underlay.addresses));
            own.all_of(0, &underlay.addresses);
        }
        own
    }

    fn enter(&mut self, place: Place, site: Site) {
        self.places.insert(place, site);
    }

    fn all_of(&mut self, vrf: u16, addresses: &[IpAddr]) {
        self.vrfs.entry(vrf).or_default().extend(addresses);
    }

    fn of(&self, site: &Site) -> &[IpAddr] {
        self.vrfs.get(&site.vrf).map_or(&[], Vec::as_slice)
    }

    fn has(&self, site: &Site, address: IpAddr) -> bool {
        self.of(site).contains(&address)
    }

    /// Returns the address from which the gateway answers there: one of the site, or else of its tenant.
    fn speaker(&self, site: &Site, is_v4: bool) -> Option<IpAddr> {
        site.addresses.iter().chain(self.of(site)).find(|address| address.is_ipv4() == is_v4).copied()
    }
}

/// The kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// The TTL or hop limit was used up.
    TimeExceeded,
    /// The packet is too long for the next hop.
    TooBig,
    /// UDP to one of our addresses.
    PortUnreachable,
    /// An echo reply.
    Echo,
    /// A neighbour advertisement.
    Advertisement,
}

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Silence {
    /// It is not from the switch.
    Foreign,
    /// A header is malformed.
    Malformed,
    /// The RFCs forbid it: it would be about an error, a later fragment, or from or to a group.
    Forbidden,
    /// Too long, but not reported because the sender allows fragments (RFC 792, RFC 1812, section 5.2.7.1).
    Fragmentable,
    /// The request is incomplete or fragmented.
    Incomplete,
    /// The gateway has no address there.
    NoAddress,
    /// There is no answer to this: a TCP segment to an own address, an address that is not resolved.
    Unanswered,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::TimeExceeded => "time exceeded",
            Answer::TooBig => "too big",
            Answer::PortUnreachable => "port unreachable",
            Answer::Echo => "echo reply",
            Answer::Advertisement => "neighbour advertisement",
        })
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Silence::Foreign => "not from the switch",
            Silence::Malformed => "malformed",
            Silence::Forbidden => "not to be answered",
            Silence::Fragmentable => "too big without DF",
            Silence::Incomplete => "incomplete",
            Silence::NoAddress => "no own address",
            Silence::Unanswered => "nothing to answer",
        })
    }
}

/// Returns the answer to a frame from the switch, in the form to send to the switch. `identification` is that of an
/// IPv4 packet, which must differ for each.
pub fn answer(frame: &[u8], own: &OwnAddresses, identification: u16) -> Result<(Answer, Vec<u8>), Silence> {
    let asked = Asked::parse(frame, own)?;
    let (answer, message) = asked.message(own)?;
    Ok((answer, asked.framed(&message, identification)))
}

/// The packet that the switch hands over.
struct Asked<'a> {
    reason: u16,
    port: u16,
    vtep: u16,
    vni: u32,
    mtu: u16,
    site: &'a Site,
    station: [u8; 6],
    tag: Option<SingleVlanHeader>,
    /// The packet without Ethernet's padding.
    packet: &'a [u8],
    is_whole: bool,
    ip: LaxIpSlice<'a>,
    source: IpAddr,
    destination: IpAddr,
}

/// An ICMP message and its addresses.
struct Message {
    source: IpAddr,
    dscp: IpDscp,
    hop_limit: u8,
    /// Without its checksum, before the data after the first 8 bytes.
    head: Head,
    rest: Vec<u8>,
}

enum Head {
    V4(Icmpv4Type),
    V6(Icmpv6Type),
}

impl<'a> Asked<'a> {
    fn parse(frame: &'a [u8], own: &'a OwnAddresses) -> Result<Asked<'a>, Silence> {
        let (io, frame) = frame.split_first_chunk::<PACKET_IO_BYTES>().ok_or(Silence::Foreign)?;
        let (_, fields) = io.split_at(12);
        if fields[..2] != TYPE_CONTROL {
            return Err(Silence::Foreign);
        }
        let word = |at: usize| u16::from_be_bytes([fields[at], fields[at + 1]]);
        let (reason, port, vtep, mtu) = (word(2), word(4), word(8), word(10));
        let vni = u32::from_be_bytes([0, fields[13], fields[14], fields[15]]);

        let malformed = |_| Silence::Malformed;
        let (ethernet, mut rest) = Ethernet2Header::from_slice(frame).map_err(malformed)?;
        let mut ether_type = ethernet.ether_type;
        let mut tag = None;
        // As in the program, one tag of 802.1Q, and none inside a tunnel.
        if ether_type == EtherType::VLAN_TAGGED_FRAME && vtep == 0 {
            let (header, behind) = SingleVlanHeader::from_slice(rest).map_err(malformed)?;
            (ether_type, rest) = (header.ether_type, behind);
            tag = Some(header);
        }
        let is_station = |mac: [u8; 6]| mac[0] & 1 == 0 && mac != [0; 6];
        if !is_station(ethernet.source) || !is_station(ethernet.destination) {
            return Err(Silence::Forbidden);
        }
        let ip_len = match ether_type {
            EtherType::IPV4 => rest.get(2..4).map(|len| usize::from(u16::from_be_bytes([len[0], len[1]]))),
            EtherType::IPV6 => {
                let len = rest.get(4..6).map(|len| usize::from(u16::from_be_bytes([len[0], len[1]])));
                len.map(|len| len + Ipv6Header::LEN)
            }
            _ => None,
        };
        let ip_len = ip_len.ok_or(Silence::Malformed)?;
        let packet = &rest[..rest.len().min(ip_len)];
        let (ip, _) = LaxIpSlice::from_slice(packet).map_err(|_| Silence::Malformed)?;
        if (ether_type == EtherType::IPV4) != matches!(ip, LaxIpSlice::Ipv4(_)) {
            return Err(Silence::Malformed);
        }
        let vlan = tag.as_ref().map_or(0, |tag| tag.vlan_id.value());
        let site = match vtep {
            0 => own.places.get(&Place { port, vlan }),
            _ => own.networks.get(&vni),
        };
        let site = site.ok_or(Silence::NoAddress)?;
        let (source, destination) = (ip.source_addr(), ip.destination_addr());
        let station = ethernet.source;
        let is_whole = packet.len() == ip_len;
        // As everywhere in the gateway, VLAN 0 means no VLAN.
        let tag = tag.filter(|_| vlan != 0);
        let asked = Asked {
            reason,
            port,
            vtep,
            vni,
            mtu,
            site,
            station,
            tag,
            packet,
            is_whole,
            ip,
            source,
            destination,
        };
        match is_host(source) && !destination.is_multicast() && !own.has(site, source) {
            true => Ok(asked),
            false => Err(Silence::Forbidden),
        }
    }

    fn message(&self, own: &OwnAddresses) -> Result<(Answer, Message), Silence> {
        let is_v4 = self.source.is_ipv4();
        match self.reason {
            REASON_TTL => {
                let head = match is_v4 {
                    true => Head::V4(Icmpv4Type::TimeExceeded(TimeCode4::TtlExceededInTransit)),
                    false => Head::V6(Icmpv6Type::TimeExceeded(TimeCode6::HopLimitExceeded)),
                };
                Ok((Answer::TimeExceeded, self.error(head, self.speaker(own)?)?))
            }
            REASON_MTU => {
                let next_hop_mtu = self.mtu;
                let head = match &self.ip {
                    LaxIpSlice::Ipv4(ip) if !ip.header().dont_fragment() => {
                        return Err(Silence::Fragmentable);
                    }
                    LaxIpSlice::Ipv4(_) => {
                        Head::V4(Icmpv4Type::DestinationUnreachable(Unreachable4::FragmentationNeeded {
                            next_hop_mtu,
                        }))
                    }
                    LaxIpSlice::Ipv6(_) => {
                        Head::V6(Icmpv6Type::PacketTooBig { mtu: u32::from(next_hop_mtu) })
                    }
                };
                Ok((Answer::TooBig, self.error(head, self.speaker(own)?)?))
            }
            REASON_OWN_ADDRESS if !own.has(self.site, self.destination) => Err(Silence::NoAddress),
            REASON_OWN_ADDRESS => self.as_host(own),
            _ => Err(Silence::Unanswered),
        }
    }

    fn speaker(&self, own: &OwnAddresses) -> Result<IpAddr, Silence> {
        own.speaker(self.site, self.source.is_ipv4()).ok_or(Silence::NoAddress)
    }

    /// Returns an error about the packet, where allowed (RFC 1812, section 4.3.2.7; RFC 4443, section 2.4 (e)).
    fn error(&self, head: Head, source: IpAddr) -> Result<Message, Silence> {
        if self.is_later_fragment() || !self.may_be_complained_of() {
            return Err(Silence::Forbidden);
        }
        let quoted_max = match head {
            Head::V4(_) => ERROR_V4_MAX - Ipv4Header::MIN_LEN - Icmpv4Header::MIN_LEN,
            Head::V6(_) => ERROR_V6_MAX - Ipv6Header::LEN - Icmpv6Header::MIN_LEN,
        };
        let rest = self.packet[..self.packet.len().min(quoted_max)].to_vec();
        // RFC 1812, section 4.3.2.5: errors have precedence 6.
        Ok(Message { source, dscp: IpDscp::CS6, hop_limit: TTL, head, rest })
    }

    fn is_later_fragment(&self) -> bool {
        match &self.ip {
            LaxIpSlice::Ipv4(ip) => ip.header().fragments_offset().value() != 0,
            LaxIpSlice::Ipv6(ip) => has_fragment_offset(ip.header().next_header(), ip.extensions().slice()),
        }
    }

    /// True if it is certainly not an ICMP error.
    fn may_be_complained_of(&self) -> bool {
        let payload = self.ip.payload();
        match (&self.ip, payload.ip_number, payload.payload.first()) {
            (LaxIpSlice::Ipv4(_), ip_number::ICMP, kind) => {
                kind.is_some_and(|kind| !ERRORS_V4.contains(kind))
            }
            (LaxIpSlice::Ipv6(_), ip_number::IPV6_ICMP, kind) => {
                kind.is_some_and(|kind| *kind >= INFORMATIONAL_V6 && *kind != REDIRECT_V6)
            }
            // The following header is missing.
            (LaxIpSlice::Ipv6(_), number, _) => !Ipv6Header::is_skippable_header_extension(number),
            _ => true,
        }
    }

    /// Returns the answer of a host to a packet for it.
    fn as_host(&self, own: &OwnAddresses) -> Result<(Answer, Message), Silence> {
        let payload = self.ip.payload();
        let unreachable = match (&self.ip, payload.ip_number) {
            (LaxIpSlice::Ipv4(ip), ip_number::ICMP) => {
                return Ok((Answer::Echo, self.echo_v4(ip.header().dcp())?));
            }
            (LaxIpSlice::Ipv6(ip), ip_number::IPV6_ICMP) => {
                let header = ip.header();
                return self.icmpv6(own, header.dscp(), header.hop_limit());
            }
            (LaxIpSlice::Ipv4(_), ip_number::UDP) => {
                Head::V4(Icmpv4Type::DestinationUnreachable(Unreachable4::Port))
            }
            (LaxIpSlice::Ipv6(_), ip_number::UDP) => {
                Head::V6(Icmpv6Type::DestinationUnreachable(Unreachable6::Port))
            }
            _ => return Err(Silence::Unanswered),
        };
        // So that traceroute ends here too.
        Ok((Answer::PortUnreachable, self.error(unreachable, self.destination)?))
    }

    /// Returns a complete ICMP message.
    fn whole(&self) -> Result<&[u8], Silence> {
        let payload = self.ip.payload();
        match self.is_whole && !payload.fragmented {
            true => Ok(payload.payload),
            false => Err(Silence::Incomplete),
        }
    }

    fn echo_v4(&self, dscp: IpDscp) -> Result<Message, Silence> {
        let request = Icmpv4Slice::from_slice(self.whole()?).map_err(|_| Silence::Malformed)?;
        let Icmpv4Type::EchoRequest(echo) = request.icmp_type() else { return Err(Silence::Unanswered) };
        let expected = request.icmp_type().calc_checksum(request.payload());
        if request.checksum() != expected {
            return Err(Silence::Malformed);
        }
        let (head, rest) = (Head::V4(Icmpv4Type::EchoReply(echo)), request.payload().to_vec());
        Ok(Message { source: self.destination, dscp, hop_limit: TTL, head, rest })
    }

    fn icmpv6(&self, own: &OwnAddresses, dscp: IpDscp, hop_limit: u8) -> Result<(Answer, Message), Silence> {
        let request = Icmpv6Slice::from_slice(self.whole()?).map_err(|_| Silence::Malformed)?;
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (self.source, self.destination) else {
            return Err(Silence::Malformed);
        };
        if !request.is_checksum_valid(source.octets(), destination.octets()) {
            return Err(Silence::Malformed);
        }
        match request.icmp_type() {
            Icmpv6Type::EchoRequest(echo) => {
                let (head, rest) = (Head::V6(Icmpv6Type::EchoReply(echo)), request.payload().to_vec());
                let message = Message { source: self.destination, dscp, hop_limit: TTL, head, rest };
                Ok((Answer::Echo, message))
            }
            Icmpv6Type::NeighborSolicitation => {
                // RFC 4861, section 7.1.1.
                let target = request.payload().first_chunk::<16>().map(|target| Ipv6Addr::from(*target));
                let target = target.filter(|_| hop_limit == NEIGHBOR_HOP_LIMIT).ok_or(Silence::Malformed)?;
                if !own.has(self.site, target.into()) {
                    return Err(Silence::NoAddress);
                }
                let says = NeighborAdvertisementHeader { router: true, solicited: true, r#override: true };
                let mut rest = target.octets().to_vec();
                rest.extend(OPTION_TARGET);
                rest.extend(self.site.mac);
                let head = Head::V6(Icmpv6Type::NeighborAdvertisement(says));
                let hop_limit = NEIGHBOR_HOP_LIMIT;
                let message = Message { source: target.into(), dscp, hop_limit, head, rest };
                Ok((Answer::Advertisement, message))
            }
            _ => Err(Silence::Unanswered),
        }
    }

    /// Returns a message as a frame to the switch.
    fn framed(&self, message: &Message, identification: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(TYPE_CONTROL);
        for word in [0, self.port, self.site.network, self.vtep, 0] {
            frame.extend(word.to_be_bytes());
        }
        frame.extend(self.vni.to_be_bytes());
        let ip_type = if message.source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
        let (source, destination) = (self.site.mac, self.station);
        match &self.tag {
            None => frame.extend(Ethernet2Header { source, destination, ether_type: ip_type }.to_bytes()),
            Some(tag) => {
                let ether_type = EtherType::VLAN_TAGGED_FRAME;
                frame.extend(Ethernet2Header { source, destination, ether_type }.to_bytes());
                frame.extend(SingleVlanHeader { ether_type: ip_type, ..tag.clone() }.to_bytes());
            }
        }
        match (&message.head, message.source, self.source) {
            (Head::V4(kind), IpAddr::V4(from), IpAddr::V4(to)) => {
                frame.extend(ipv4(message, kind, from, to, identification));
            }
            (Head::V6(kind), IpAddr::V6(from), IpAddr::V6(to)) => {
                frame.extend(ipv6(message, kind, from, to));
            }
            _ => unreachable!("an answer has the family of what it answers"),
        }
        frame.extend(&message.rest);
        frame
    }
}

/// Returns the headers of an answer. The answer may be fragmented, because the MTU of the return path may be smaller.
fn ipv4(message: &Message, kind: &Icmpv4Type, from: Ipv4Addr, to: Ipv4Addr, identification: u16) -> Vec<u8> {
    let icmp = Icmpv4Header::with_checksum(kind.clone(), &message.rest);
    let mut ip = Ipv4Header {
        dscp: message.dscp,
        total_len: (Ipv4Header::MIN_LEN + icmp.header_len() + message.rest.len()) as u16,
        identification,
        dont_fragment: false,
        time_to_live: message.hop_limit,
        protocol: IpNumber::ICMP,
        source: from.octets(),
        destination: to.octets(),
        ..Ipv4Header::default()
    };
    ip.header_checksum = ip.calc_header_checksum();
    ip.to_bytes().into_iter().chain(icmp.to_bytes()).collect()
}

fn ipv6(message: &Message, kind: &Icmpv6Type, from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let (source, destination) = (from.octets(), to.octets());
    let mut icmp = Icmpv6Header::new(*kind);
    icmp.update_checksum(source, destination, &message.rest).expect("shorter than 4 GiB");
    let mut ip = Ipv6Header {
        payload_length: (icmp.header_len() + message.rest.len()) as u16,
        next_header: IpNumber::IPV6_ICMP,
        hop_limit: message.hop_limit,
        source,
        destination,
        ..Ipv6Header::default()
    };
    ip.set_dscp(message.dscp);
    ip.to_bytes().into_iter().chain(icmp.to_bytes()).collect()
}

/// True if an address is that of one host (RFC 1812, sections 4.2.2.11 and 5.3.7).
fn is_host(address: IpAddr) -> bool {
    match address {
        // 0/8 is "this network"; 240/4 is reserved, and contains the broadcast address.
        IpAddr::V4(v4) => !matches!(v4.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(v6) => {
            !v6.is_unspecified() && !v6.is_loopback() && !v6.is_multicast() && v6.to_ipv4_mapped().is_none()
        }
    }
}

/// True if these IPv6 extension headers, the first of which has this number, have a fragment header with an offset. Stops where a
/// header is incomplete.
///
/// The iterator of `Ipv6ExtensionsSlice` trusts the lengths, and reads beyond the end after a lax parse of an incomplete chain.
fn has_fragment_offset(mut number: IpNumber, mut headers: &[u8]) -> bool {
    loop {
        let len = match number {
            ip_number::IPV6_FRAG => {
                let Ok(header) = Ipv6FragmentHeaderSlice::from_slice(headers) else { return false };
                if header.fragment_offset().value() != 0 {
                    return true;
                }
                number = header.next_header();
                header.slice().len()
            }
            ip_number::AUTH => {
                let Ok(header) = IpAuthHeaderSlice::from_slice(headers) else { return false };
                number = header.next_header();
                header.slice().len()
            }
            _ if Ipv6RawExtHeaderSlice::header_type_supported(number) => {
                let Ok(header) = Ipv6RawExtHeaderSlice::from_slice(headers) else { return false };
                number = header.next_header();
                header.slice().len()
            }
            _ => return false,
        };
        headers = &headers[len..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_extension_headers_end_the_search() {
        // Options of 8 bytes that announce a fragment header; the bytes that follow look like one with an offset.
        let bytes = [44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0x10, 1, 0, 0, 0, 9];
        assert!(has_fragment_offset(ip_number::IPV6_HOP_BY_HOP, &bytes));
        for len in 0..16 {
            assert!(!has_fragment_offset(ip_number::IPV6_HOP_BY_HOP, &bytes[..len]), "{len} bytes");
        }
        // Options that announce more bytes than there are; an authentication header of none.
        assert!(!has_fragment_offset(ip_number::IPV6_DEST_OPTIONS, &[44, 200, 0, 0, 0, 0, 0, 0]));
        assert!(!has_fragment_offset(ip_number::AUTH, &[]));
    }
}
