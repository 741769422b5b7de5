//! Completes frames that the kernel left unfinished.
//!
//! A kernel that sends over a virtual link (veth, tap) leaves to "the hardware" what hardware usually does: the
//! transport checksum contains only the sum over the pseudo header, and one TCP or UDP frame of up to 64 KiB represents
//! many (GSO). This suffices for a receiving socket, but a switch handles frames as on a wire. So the port does here in
//! software what the kernel's `skb_checksum_help` and `skb_gso_segment` do. The instructions come in a `virtio_net_hdr`
//! (virtio 1.2, 5.1.6).
//!
//! This is the only place in this crate that reads headers, as a network card does.

use std::ops::Range;

/// Bytes of a `virtio_net_hdr` as packet sockets use it.
pub(crate) const VNET_HEADER_BYTES: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// A flag on top of the TCP kinds: ECN as in RFC 3168, CWR on the first segment only.
const GSO_ECN: u8 = 0x80;

/// EtherTypes, RFC 9542.
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Protocol numbers, RFC 790 and RFC 9260.
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_SCTP: u8 = 132;
/// Extension headers before the transport header, RFC 8200 4: hop-by-hop options, routing, destination options.
const EXTENSION_HEADERS: [u8; 3] = [0, 43, 60];

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES_MIN: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES_MIN: usize = 20;
const UDP_BYTES: usize = 8;
/// Offset of the checksum in its header: TCP, UDP, SCTP.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
const SCTP_CHECKSUM: usize = 8;

/// The unfinished work on a frame; host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    flags: u8,
    gso_type: u8,
    /// Payload bytes of a segment.
    gso_size: u16,
    /// First byte that the checksum covers.
    csum_start: u16,
    /// Offset of the checksum from `csum_start`.
    csum_offset: u16,
}

impl VnetHeader {
    pub(crate) fn parse(bytes: [u8; VNET_HEADER_BYTES]) -> VnetHeader {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        // Bytes 2 and 3 are a hint at the header length, which the headers themselves contain.
        VnetHeader {
            flags: bytes[0],
            gso_type: bytes[1],
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// True if the frame is as on a wire.
    pub(crate) fn is_complete(&self) -> bool {
        self.flags & NEEDS_CSUM == 0 && !self.is_gso()
    }

    /// True if the frame represents several frames.
    pub(crate) fn is_gso(&self) -> bool {
        self.gso_type != GSO_NONE
    }

    /// Computes the missing checksum. False if it is outside the frame.
    pub(crate) fn complete_checksum(&self, frame: &mut [u8]) -> bool {
        if self.flags & NEEDS_CSUM == 0 {
            return true;
        }
        let start = usize::from(self.csum_start);
        let at = start + usize::from(self.csum_offset);
        if usize::from(self.csum_offset) == SCTP_CHECKSUM && at + 4 <= frame.len() {
            // Only SCTP has its checksum at this offset: CRC32c with the field as 0, RFC 9260 appendix A.
            frame[at..at + 4].fill(0);
            let crc = CRC32C.checksum(&frame[start..]);
            frame[at..at + 4].copy_from_slice(&crc.to_le_bytes());
            return true;
        }
        if at + 2 > frame.len() {
            return false;
        }
        // The field contains the sum of the pseudo header and is added to the rest.
        let sum = checksum(sum(&frame[start..]));
        put_word(frame, at, if sum == 0 { 0xffff } else { sum });
        true
    }
}

/// Completes the transport checksum of a frame without a `virtio_net_hdr`, if its sender left it unfinished.
///
/// An unfinished checksum is recognisable: the field of TCP and UDP contains the sum of the pseudo header, that of SCTP
/// 0. One correct frame in 65535 has that sum by chance, so the whole frame is summed before the field is changed. (One
/// damaged frame in 65535 is mistaken for an unfinished one.) Frames inside tunnels are not changed.
pub(crate) fn complete_unmarked(frame: &mut [u8]) {
    let _ = try_complete_unmarked(frame);
}

/// `None` if there is nothing to complete.
#[inline]
fn try_complete_unmarked(frame: &mut [u8]) -> Option<()> {
    let (l3, ipv4, l4, protocol) = transport(frame)?;
    if !matches!(protocol, PROTOCOL_TCP | PROTOCOL_UDP | PROTOCOL_SCTP) {
        return None;
    }
    let end = if ipv4 {
        const FRAGMENT: u16 = 0x3fff;
        if l4 < l3 + IPV4_BYTES_MIN || word(frame, l3 + 6)? & FRAGMENT != 0 {
            return None;
        }
        l3 + usize::from(word(frame, l3 + 2)?)
    } else {
        l3 + IPV6_BYTES + usize::from(word(frame, l3 + 4)?)
    };
    if protocol == PROTOCOL_SCTP {
        let field = frame.get(l4..end)?.get(SCTP_CHECKSUM..)?.first_chunk::<4>()?;
        if *field == [0; 4] {
            let crc = CRC32C.checksum(&frame[l4..end]);
            frame[l4 + SCTP_CHECKSUM..][..4].copy_from_slice(&crc.to_le_bytes());
        }
        return Some(());
    }
    let offset = if protocol == PROTOCOL_TCP { TCP_CHECKSUM } else { UDP_CHECKSUM };
    let segment = frame.get(l4..end)?;
    let field = word(segment, offset)?;
    // 0 means "no checksum" in UDP.
    if field == 0 || field != fold(pseudo_sum(frame, l3, ipv4, protocol, segment.len())) {
        return None;
    }
    // Because it is the sum of the pseudo header, it can be used for that here.
    let segment_sum = sum(segment);
    let is_good = fold(segment_sum + u64::from(field)) == u16::MAX;
    if !is_good {
        let done = checksum(segment_sum);
        put_word(frame, l4 + offset, if done == 0 { u16::MAX } else { done });
    }
    Some(())
}

/// Returns the offset of the network header of `frame`, true if it is IPv4, the offset of its transport header, and the
/// protocol.
#[inline]
fn transport(frame: &[u8]) -> Option<(usize, bool, usize, u8)> {
    let mut l3 = ETHERNET_BYTES;
    let mut ethertype = word(frame, l3 - 2)?;
    while ETHERTYPE_VLAN.contains(&ethertype) {
        l3 += 4;
        ethertype = word(frame, l3 - 2)?;
    }
    match ethertype {
        ETHERTYPE_IPV4 => {
            let l4 = l3 + usize::from(*frame.get(l3)? & 15) * 4;
            Some((l3, true, l4, *frame.get(l3 + 9)?))
        }
        ETHERTYPE_IPV6 => {
            let (mut at, mut protocol) = (l3 + IPV6_BYTES, *frame.get(l3 + 6)?);
            while EXTENSION_HEADERS.contains(&protocol) {
                (at, protocol) = (at + 8 + usize::from(*frame.get(at + 1)?) * 8, *frame.get(at)?);
            }
            Some((l3, false, at, protocol))
        }
        _ => None,
    }
}

/// Returns the sum over the pseudo header of `l4_len` bytes of `protocol` (RFC 9293, RFC 768, RFC 8200 8.1): source and
/// destination address, protocol and length. The network header must be inside `frame`.
#[inline]
fn pseudo_sum(frame: &[u8], l3: usize, ipv4: bool, protocol: u8, l4_len: usize) -> u64 {
    let addresses = if ipv4 { l3 + 12..l3 + 20 } else { l3 + 8..l3 + 40 };
    sum(&frame[addresses]) + sum(&[0, protocol]) + sum(&(l4_len as u32).to_be_bytes())
}

const CRC32C: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);

/// Segments a GSO frame, and tracks the progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segmenter {
    /// Offset of the network header.
    l3: usize,
    ipv4: bool,
    /// Offset of the transport header.
    l4: usize,
    tcp: bool,
    /// Offset of the payload.
    payload: usize,
    /// Payload bytes of a segment.
    segment: usize,
    /// Length of the whole frame in bytes.
    end: usize,
    /// Offset of the payload of the next segment.
    next: usize,
    /// Number of the next segment.
    index: u16,
}

impl Segmenter {
    /// Prepares the segmentation of `frame`; `None` if it does not match `vnet`, or is of an unsupported kind (tunnels,
    /// fragmentation of UDP).
    pub(crate) fn new(vnet: &VnetHeader, frame: &[u8]) -> Option<Segmenter> {
        let tcp = match vnet.gso_type & !GSO_ECN {
            GSO_TCPV4 | GSO_TCPV6 => true,
            GSO_UDP_L4 => false,
            _ => return None,
        };
        let (l3, ipv4, l4, protocol) = transport(frame)?;
        // A tunnel: the kernel refers to an inner header.
        if vnet.flags & NEEDS_CSUM != 0 && usize::from(vnet.csum_start) != l4 {
            return None;
        }
        let payload = l4 + if tcp { usize::from(*frame.get(l4 + 12)? >> 4) * 4 } else { UDP_BYTES };
        let segment = usize::from(vnet.gso_size);
        let sane = protocol == if tcp { PROTOCOL_TCP } else { PROTOCOL_UDP }
            && l4 >= l3 + if ipv4 { IPV4_BYTES_MIN } else { IPV6_BYTES }
            && payload >= l4 + if tcp { TCP_BYTES_MIN } else { UDP_BYTES }
            && payload < frame.len()
            && payload + segment - l3 <= usize::from(u16::MAX)
            && segment > 0;
        sane.then_some(Segmenter {
            l3,
            ipv4,
            l4,
            tcp,
            payload,
            segment,
            end: frame.len(),
            next: payload,
            index: 0,
        })
    }

    /// Returns the length of the longest segment in bytes.
    pub(crate) fn frame_max(&self) -> usize {
        (self.payload + self.segment).min(self.end)
    }

    /// True if all segments have been written.
    pub(crate) fn is_done(&self) -> bool {
        self.next >= self.end
    }

    /// Writes the next segment of `frame`, which was passed to [`Segmenter::new`], to `out`, which has room for
    /// [`Segmenter::frame_max`] bytes. Returns its length.
    pub(crate) fn next_segment(&mut self, frame: &[u8], out: &mut [u8]) -> usize {
        let data: Range<usize> = self.next..self.end.min(self.next + self.segment);
        let first = self.next == self.payload;
        let last = data.end == self.end;
        let len = self.payload + data.len();
        let out = &mut out[..len];
        out[..self.payload].copy_from_slice(&frame[..self.payload]);
        out[self.payload..].copy_from_slice(&frame[data.clone()]);

        let l3_len = (len - self.l3) as u16;
        if self.ipv4 {
            put_word(out, self.l3 + 2, l3_len);
            // RFC 6864: datagrams that may be fragmented must differ in their identification.
            let id = u16::from_be_bytes([out[self.l3 + 4], out[self.l3 + 5]]);
            put_word(out, self.l3 + 4, id.wrapping_add(self.index));
            put_word(out, self.l3 + 10, 0);
            let sum = checksum(sum(&out[self.l3..self.l4]));
            put_word(out, self.l3 + 10, sum);
        } else {
            put_word(out, self.l3 + 4, l3_len - IPV6_BYTES as u16);
        }

        let l4_len = len - self.l4;
        let at = self.l4 + if self.tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
        if self.tcp {
            let field: [u8; 4] = out[self.l4 + 4..self.l4 + 8].try_into().expect("4 bytes");
            let sequence = u32::from_be_bytes(field).wrapping_add((self.next - self.payload) as u32);
            out[self.l4 + 4..self.l4 + 8].copy_from_slice(&sequence.to_be_bytes());
            const FIN: u8 = 0x01;
            const PSH: u8 = 0x08;
            const CWR: u8 = 0x80;
            if !last {
                out[self.l4 + 13] &= !(FIN | PSH);
            }
            if !first {
                out[self.l4 + 13] &= !CWR;
            }
        } else {
            put_word(out, self.l4 + 4, l4_len as u16);
        }
        put_word(out, at, 0);
        let protocol = if self.tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
        let pseudo = pseudo_sum(out, self.l3, self.ipv4, protocol, l4_len);
        let sum = checksum(pseudo + sum(&out[self.l4..]));
        put_word(out, at, if sum == 0 && !self.tcp { 0xffff } else { sum });

        self.next = data.end;
        self.index = self.index.wrapping_add(1);
        len
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn put_word(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Returns the sum of RFC 1071 over `bytes`, not folded. Sums may be added if each but the last covers an even number
/// of bytes.
///
/// One's complement addition is independent of byte order and word size, so this adds words in memory order and swaps
/// the bytes of the sum at the end.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut tail = [0; 4];
    tail[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_ne_bytes(tail));
    u64::from(fold(sum).to_be())
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the checksum field for a sum.
fn checksum(sum: u64) -> u16 {
    !fold(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a TCP or UDP frame over IPv4 or IPv6 with `payload` bytes, after `tags` VLAN tags; its lengths and
    /// checksums do not matter, because all are rewritten.
    fn frame(ipv4: bool, tcp: bool, tags: usize, payload: usize) -> (Vec<u8>, usize) {
        let mut bytes = vec![0x22; 12];
        for tag in 0..tags {
            bytes.extend([0x81, 0, 0, tag as u8]);
        }
        let protocol = if tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
        if ipv4 {
            bytes.extend([
                8, 0, 0x46, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
            ]);
            bytes.extend([1; 4]);
        } else {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 64]);
            bytes.extend(1..33);
        }
        let l4 = bytes.len();
        if tcp {
            bytes.extend([
                0, 80, 0, 90, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0x60, 0x99, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1,
            ]);
        } else {
            bytes.extend([0, 80, 0, 90, 0, 0, 0, 0]);
        }
        bytes.extend((0..payload).map(|i| ((i * 31) >> 3) as u8));
        (bytes, l4)
    }

    fn vnet(ipv4: bool, tcp: bool, l4: usize, gso_size: u16) -> VnetHeader {
        VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: match (tcp, ipv4) {
                (true, true) => GSO_TCPV4 | GSO_ECN,
                (true, false) => GSO_TCPV6,
                (false, _) => GSO_UDP_L4,
            },
            gso_size,
            csum_start: l4 as u16,
            csum_offset: if tcp { 16 } else { 6 },
        }
    }

    /// RFC 1071, literally.
    fn plain_sum(bytes: &[u8]) -> u64 {
        bytes.chunks(2).map(|pair| (u64::from(pair[0]) << 8) | u64::from(*pair.get(1).unwrap_or(&0))).sum()
    }

    #[test]
    fn sums_follow_rfc_1071() {
        // Its own example.
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        let bytes: Vec<u8> = (0..1000).map(|i| ((i * 77) >> 2) as u8).collect();
        for len in 0..1000 {
            assert_eq!(fold(sum(&bytes[..len])), fold(plain_sum(&bytes[..len])), "{len}");
        }
    }

    #[test]
    fn a_partial_checksum_is_completed() {
        let (mut bytes, l4) = frame(true, false, 0, 11);
        let udp_len = (bytes.len() - l4) as u64;
        let pseudo = plain_sum(&[10, 0, 0, 1, 10, 0, 0, 2]) + 17 + udp_len;
        put_word(&mut bytes, l4 + 6, fold(pseudo));
        let header = VnetHeader { gso_type: GSO_NONE, ..vnet(true, false, l4, 0) };
        assert!(!header.is_complete() && header.complete_checksum(&mut bytes));
        assert_eq!(fold(pseudo + plain_sum(&bytes[l4..])), 0xffff);
        // Outside the frame.
        assert!(!header.complete_checksum(&mut bytes[..l4 + 7]));
        // SCTP: the CRC of RFC 3720 B.4 for 32 bytes, of which 4 are the field.
        let mut sctp = vec![0; 32];
        let header = VnetHeader { flags: NEEDS_CSUM, csum_offset: 8, ..VnetHeader::default() };
        assert!(header.complete_checksum(&mut sctp));
        assert_eq!(sctp[8..12], [0xaa, 0x36, 0x91, 0x8a]);
    }

    #[test]
    fn an_unmarked_partial_checksum_is_completed() {
        for (ipv4, tcp, tags) in [(true, true, 0), (false, true, 1), (true, false, 1), (false, false, 0)] {
            for payload in [1, 30, 31] {
                let (mut bytes, l4) = frame(ipv4, tcp, tags, payload);
                let (l3, l4_len) = (14 + 4 * tags, bytes.len() - l4);
                let addresses = if ipv4 {
                    let len = (bytes.len() - l3) as u16;
                    put_word(&mut bytes, l3 + 2, len);
                    put_word(&mut bytes, l3 + 6, 0x4000);
                    l3 + 12..l3 + 20
                } else {
                    put_word(&mut bytes, l3 + 4, l4_len as u16);
                    l3 + 8..l3 + 40
                };
                let protocol = if tcp { 6 } else { 17 };
                let pseudo = plain_sum(&bytes[addresses]) + protocol + l4_len as u64;
                let at = l4 + if tcp { 16 } else { 6 };
                put_word(&mut bytes, at, fold(pseudo));
                // Ethernet's padding of a short frame does not count.
                bytes.extend([0xee; 5]);
                complete_unmarked(&mut bytes);
                assert_eq!(
                    fold(pseudo + plain_sum(&bytes[l4..l4 + l4_len])),
                    0xffff,
                    "{ipv4} {tcp} {payload}"
                );
                // Finished checksums remain, and so do wrong and absent ones.
                for value in [word(&bytes, at).unwrap(), 0x1234, 0] {
                    put_word(&mut bytes, at, value);
                    let before = bytes.clone();
                    complete_unmarked(&mut bytes);
                    assert_eq!(bytes, before);
                }
                // A correct checksum that equals the sum of the pseudo header by chance: the payload compensates for
                // it.
                put_word(&mut bytes, at, fold(pseudo));
                put_word(&mut bytes, l4, 0);
                let rest = fold(pseudo + plain_sum(&bytes[l4..l4 + l4_len]));
                put_word(&mut bytes, l4, !rest);
                let before = bytes.clone();
                complete_unmarked(&mut bytes);
                assert_eq!(bytes, before);
            }
        }
        // SCTP over IPv4: the CRC of RFC 3720 B.4 for 32 bytes.
        let mut bytes = frame(true, false, 0, 0).0;
        bytes.truncate(14 + 24);
        (bytes[16], bytes[17], bytes[23]) = (0, 24 + 32, 132);
        bytes.extend([0; 32]);
        put_word(&mut bytes, 20, 0);
        complete_unmarked(&mut bytes);
        assert_eq!(bytes[46..50], [0xaa, 0x36, 0x91, 0x8a]);
    }

    #[test]
    fn segments_are_whole_frames() {
        for (ipv4, tcp, tags) in [(true, true, 0), (false, true, 0), (true, false, 1), (false, false, 2)] {
            let (bytes, l4) = frame(ipv4, tcp, tags, 1000);
            let l3 = 14 + 4 * tags;
            let mut plan = Segmenter::new(&vnet(ipv4, tcp, l4, 300), &bytes).unwrap();
            let head = l4 + if tcp { 24 } else { 8 };
            assert_eq!(plan.frame_max(), head + 300);
            let mut payload = Vec::new();
            let mut index = 0u16;
            while !plan.is_done() {
                let mut out = vec![0xee; 2000];
                let len = plan.next_segment(&bytes, &mut out);
                let out = &out[..len];
                assert_eq!(out[..l3], bytes[..l3]);
                let pseudo = if ipv4 {
                    assert_eq!(word(out, l3 + 2), Some((len - l3) as u16));
                    assert_eq!(word(out, l3 + 4), Some(0xffffu16.wrapping_add(index)));
                    assert_eq!(fold(plain_sum(&out[l3..l4])), 0xffff);
                    plain_sum(&out[l3 + 12..l3 + 20])
                } else {
                    assert_eq!(word(out, l3 + 4), Some((len - l3 - 40) as u16));
                    plain_sum(&out[l3 + 8..l3 + 40])
                };
                let pseudo = pseudo + if tcp { 6 } else { 17 } + (len - l4) as u64;
                assert_eq!(fold(pseudo + plain_sum(&out[l4..])), 0xffff);
                if tcp {
                    assert_eq!(
                        out[l4 + 4..l4 + 8],
                        0xffff_ff00u32.wrapping_add(payload.len() as u32).to_be_bytes()
                    );
                    // FIN, PSH, ACK and CWR were set.
                    assert_eq!(out[l4 + 13], [0x90, 0x10, 0x10, 0x19][usize::from(index)]);
                } else {
                    assert_eq!(word(out, l4 + 4), Some((len - l4) as u16));
                }
                payload.extend(&out[head..]);
                index += 1;
            }
            assert_eq!((index, &payload[..]), (4, &bytes[head..]));
        }
    }

    #[test]
    fn a_tunnel_is_refused() {
        let (bytes, l4) = frame(true, true, 0, 1000);
        assert_eq!(Segmenter::new(&vnet(true, true, l4 + 50, 300), &bytes), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn damaged_frames_never_panic(
            ipv4: bool, tcp: bool, tags in 0..2usize, len in 0..200usize,
            header: [u8; VNET_HEADER_BYTES], own: bool,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let (mut bytes, l4) = frame(ipv4, tcp, tags, 100);
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(len);
            let header = if own { vnet(ipv4, tcp, l4, 30) } else { VnetHeader::parse(header) };
            if let Some(mut plan) = Segmenter::new(&header, &bytes) {
                let mut out = vec![0; plan.frame_max()];
                while !plan.is_done() {
                    plan.next_segment(&bytes, &mut out);
                }
            }
            header.complete_checksum(&mut bytes);
            complete_unmarked(&mut bytes);
        }
    }
}
