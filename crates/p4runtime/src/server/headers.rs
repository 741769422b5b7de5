//! The headers of packets to and from controllers.

use crate::pipeline::Pipeline;
use crate::value::{By, Field, Outside, Strings};
use crate::wire::{put_bytes, put_varint};
use bytes::Bytes;
use num_bigint::BigUint;
use p4jet_p4info::proto::{config, v1};

/// The packet-in and packet-out headers, which carry metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// The packet-in header.
    packet_in: Option<Layout>,
    /// The packet-out header.
    packet_out: Option<Layout>,
}

/// The fields of a header, packed in order, highest bit first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layout {
    fields: Vec<Field>,
    bytes: usize,
}

/// Returns the header called `name`.
fn header<'a>(p4info: &'a config::P4Info, name: &str) -> Option<&'a config::ControllerPacketMetadata> {
    let named = |header: &&config::ControllerPacketMetadata| {
        header.preamble.as_ref().is_some_and(|preamble| preamble.name == name)
    };
    p4info.controller_packet_metadata.iter().find(named)
}

impl Layout {
    fn new(
        name: &str,
        p4info: &config::P4Info,
        fields: Option<&Vec<Field>>,
        own: &config::P4Info,
    ) -> Result<Option<Layout>, String> {
        let (Some(wanted), Some(fields)) = (header(p4info, name), fields) else { return Ok(None) };
        let Some(there) = header(own, name) else {
            return Err(format!("controller_packet_metadata `{name}`: the program has no such header"));
        };
        if wanted.metadata.len() != there.metadata.len() {
            return Err(format!(
                "controller_packet_metadata `{name}`: {} fields, the program's header has {}",
                wanted.metadata.len(),
                there.metadata.len()
            ));
        }
        let mut bits = 0;
        for (n, (given, own)) in wanted.metadata.iter().zip(&there.metadata).enumerate() {
            let is =
                |what: &str| format!("controller_packet_metadata `{name}`, field `{}`: {what}", given.name);
            if given.name != own.name || given.bitwidth != own.bitwidth {
                let (name, width) = (&own.name, own.bitwidth);
                return Err(is(&format!("the program's field in this place is `{name}`, bit<{width}>")));
            }
            if given.type_name != own.type_name {
                let of = |named: &Option<config::P4NamedType>| match named {
                    Some(named) => format!("the type `{}`", named.name),
                    None => "no named type".to_string(),
                };
                let (found, expected) = (of(&given.type_name), of(&own.type_name));
                return Err(is(&format!("it has {found}, and in the program {expected}")));
            }
            if given.id == 0 || wanted.metadata[..n].iter().any(|before| before.id == given.id) {
                return Err(is(&format!("the id {} is 0, or occurs twice", given.id)));
            }
            let width = fields[n].width as usize;
            if width == 0 {
                return Err(is("it has no bits"));
            }
            bits += width;
        }
        if !bits.is_multiple_of(8) {
            return Err(format!("controller_packet_metadata `{name}`: its {bits} bits do not fill bytes"));
        }
        Ok(Some(Layout { fields: fields.clone(), bytes: bits / 8 }))
    }

    /// The header with these fields.
    fn pack(&self, metadata: &[v1::PacketMetadata], strings: &Strings) -> Result<Vec<u8>, String> {
        let mut header = vec![0; self.bytes];
        for field in metadata {
            if !self.fields.iter().any(|known| known.id == field.metadata_id) {
                return Err(format!("packet_out has no metadata {}", field.metadata_id));
            }
        }
        let mut end = 0;
        for field in &self.fields {
            let (id, name) = (field.id, &field.name);
            end += field.width as usize;
            let mut given = metadata.iter().filter(|given| given.metadata_id == id);
            let (Some(value), None) = (given.next(), given.next()) else {
                let times = metadata.iter().filter(|given| given.metadata_id == id).count();
                return Err(format!("metadata {id} (`{name}`) is given {times} times, expected once"));
            };
            if field.outside != Outside::Same {
                let value = strings.read(field, &value.value, By::Packet);
                let value = value.map_err(|why| format!("metadata {id} (`{name}`): {}", why.message))?;
                put_bits(&mut header, end, value.bits() as usize, &value.to_bytes_be());
                continue;
            }
            let value = &value.value[..];
            if value.is_empty() {
                return Err(format!("metadata {id} (`{name}`) has an empty value"));
            }
            let significant = match value.iter().position(|byte| *byte != 0) {
                Some(at) => 8 * (value.len() - at) - value[at].leading_zeros() as usize,
                None => 0,
            };
            let width = field.width;
            if significant > width as usize {
                return Err(format!(
                    "metadata {id} (`{name}`) has {significant} bits, expected at most {width}"
                ));
            }
            put_bits(&mut header, end, significant, value);
        }
        Ok(header)
    }

    /// Appends the fields of a header as repeated field 2 of a PacketIn.
    fn unpack(&self, header: &[u8], strings: &Strings, to: &mut Vec<u8>) {
        let (mut end, mut value, mut message) = (0, Vec::with_capacity(16), Vec::with_capacity(32));
        for field in &self.fields {
            end += field.width as usize;
            value.clear();
            take_bits(header, end, field.width as usize, &mut value);
            message.clear();
            put_varint(&mut message, 1 << 3);
            put_varint(&mut message, u64::from(field.id));
            match field.outside {
                Outside::String(_) => {
                    put_bytes(&mut message, 2, &strings.show(field, &BigUint::from_bytes_be(&value)));
                }
                _ => put_bytes(&mut message, 2, &value),
            }
            put_bytes(to, 2, &message);
        }
    }
}

/// Puts the lowest `width` bits of a big-endian number into `to`, so that they end before bit `end`.
fn put_bits(to: &mut [u8], end: usize, width: usize, value: &[u8]) {
    for bit in 0..width {
        let is_set = value[value.len() - 1 - bit / 8] >> (bit % 8) & 1;
        let at = end - 1 - bit;
        to[at / 8] |= is_set << (7 - at % 8);
    }
}

/// Appends the `width` bits of `from` that end before bit `end` as a big-endian number without leading zero bytes.
fn take_bits(from: &[u8], end: usize, width: usize, to: &mut Vec<u8>) {
    for byte in (0..width.div_ceil(8)).rev() {
        let mut value = 0;
        for bit in 8 * byte..(8 * byte + 8).min(width) {
            let at = end - 1 - bit;
            value |= (from[at / 8] >> (7 - at % 8) & 1) << (bit % 8);
        }
        if value != 0 || byte == 0 || !to.is_empty() {
            to.push(value);
        }
    }
}

impl Headers {
    /// The headers of a pipeline, which match those of the program's own P4Info.
    pub fn new(pipeline: &Pipeline, own: &config::P4Info) -> Result<Headers, String> {
        let layout = |name| Layout::new(name, pipeline.p4info(), pipeline.packet_fields.get(name), own);
        Ok(Headers { packet_in: layout("packet_in")?, packet_out: layout("packet_out")? })
    }

    /// The header in front of a controller's packet.
    ///
    /// # Errors
    /// The metadata is not that of the header.
    pub(crate) fn pack(&self, metadata: &[v1::PacketMetadata], strings: &Strings) -> Result<Vec<u8>, String> {
        match &self.packet_out {
            Some(layout) => layout.pack(metadata, strings),
            None if metadata.is_empty() => Ok(Vec::new()),
            None => Err("the P4Info has no packet_out header, so a packet has no metadata".to_string()),
        }
    }

    /// A StreamMessageResponse with a packet in binary form; `None` if the frame is shorter than the header.
    pub(crate) fn packet_in(&self, frame: &[u8], strings: &Strings) -> Option<Bytes> {
        let header_bytes = self.packet_in.as_ref().map_or(0, |layout| layout.bytes);
        let (header, payload) = frame.split_at_checked(header_bytes)?;
        let mut packet = Vec::with_capacity(frame.len() + 64);
        put_bytes(&mut packet, 1, payload);
        if let Some(layout) = &self.packet_in {
            layout.unpack(header, strings, &mut packet);
        }
        let mut message = Vec::with_capacity(packet.len() + 8);
        // StreamMessageResponse.packet.
        put_bytes(&mut message, 2, &packet);
        Some(message.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    fn p4info(headers: &[(&str, &[(u32, i32)])]) -> config::P4Info {
        let headers = headers.iter().map(|(name, fields)| config::ControllerPacketMetadata {
            preamble: Some(config::Preamble { name: name.to_string(), ..Default::default() }),
            metadata: fields
                .iter()
                .map(|(id, bitwidth)| config::Metadata {
                    id: *id,
                    name: format!("f{bitwidth}"),
                    bitwidth: *bitwidth,
                    ..Default::default()
                })
                .collect(),
        });
        config::P4Info { controller_packet_metadata: headers.collect(), ..Default::default() }
    }

    /// The headers of a P4Info without types.
    fn headers(p4info: &config::P4Info, own: &config::P4Info) -> Result<Headers, String> {
        let layout = |name: &str| {
            let fields: Option<Vec<Field>> = header(p4info, name).map(|header| {
                let field = |field: &config::Metadata| Field {
                    id: field.id,
                    name: field.name.clone(),
                    width: field.bitwidth as u32,
                    outside: Outside::Same,
                };
                header.metadata.iter().map(field).collect()
            });
            Layout::new(name, p4info, fields.as_ref(), own)
        };
        Ok(Headers { packet_in: layout("packet_in")?, packet_out: layout("packet_out")? })
    }

    fn metadata(values: &[(u32, &[u8])]) -> Vec<v1::PacketMetadata> {
        let field = |(id, value): &(u32, &[u8])| v1::PacketMetadata {
            metadata_id: *id,
            value: Bytes::copy_from_slice(value),
        };
        values.iter().map(field).collect()
    }

    #[test]
    fn pk_2_metadata_is_packed_in_declared_order() {
        let p4info = p4info(&[("packet_out", &[(2, 9), (1, 7), (3, 80)])]);
        let (headers, strings) = (headers(&p4info, &p4info).unwrap(), Strings::default());
        let ten = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        // Any order, and any number of leading zeros.
        let header =
            headers.pack(&metadata(&[(1, &[0, 0, 0x55]), (3, &ten), (2, &[1, 0xfe])]), &strings).unwrap();
        assert_eq!(header[..2], [0xff, 0x55]);
        assert_eq!(header[2..], ten);
        for (values, why) in [
            (&[(1, &[1][..]), (2, &[1])][..], "metadata 3 (`f80`) is given 0 times"),
            (&[(1, &[1]), (2, &[1]), (3, &[1]), (1, &[1])], "metadata 1 (`f7`) is given 2 times"),
            (&[(1, &[1]), (2, &[1]), (3, &[1]), (4, &[1])], "packet_out has no metadata 4"),
            (&[(1, &[0x80]), (2, &[1]), (3, &[1])], "metadata 1 (`f7`) has 8 bits, expected at most 7"),
            (&[(1, &[1]), (2, &[]), (3, &[1])], "metadata 2 (`f9`) has an empty value"),
        ] {
            let error = headers.pack(&metadata(values), &strings).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        // PK-3.
        assert_eq!(Headers::default().pack(&[], &strings), Ok(Vec::new()));
        assert!(Headers::default().pack(&metadata(&[(1, &[1])]), &strings).is_err());
    }

    #[test]
    fn pk_10_a_packet_in_has_all_fields_in_their_shortest_form() {
        let p4info = p4info(&[("packet_in", &[(7, 9), (8, 7), (9, 16)])]);
        let (headers, strings) = (headers(&p4info, &p4info).unwrap(), Strings::default());
        let bytes = headers.packet_in(b"\x81\x05\x00\x00payload", &strings).unwrap();
        let message = v1::StreamMessageResponse::decode(bytes).unwrap();
        let packet = v1::PacketIn {
            payload: Bytes::from_static(b"payload"),
            metadata: metadata(&[(7, &[1, 2]), (8, &[5]), (9, &[0])]),
        };
        assert_eq!(message.update, Some(v1::StreamResponse::Packet(packet)));
        // PK-11.
        assert_eq!(headers.packet_in(b"abc", &strings), None);
        // PK-16.
        let bytes = Headers::default().packet_in(b"abc", &strings).unwrap();
        let message = v1::StreamMessageResponse::decode(bytes).unwrap();
        let packet = v1::PacketIn { payload: Bytes::from_static(b"abc"), metadata: Vec::new() };
        assert_eq!(message.update, Some(v1::StreamResponse::Packet(packet)));
    }

    #[test]
    fn headers_are_those_of_the_program() {
        let own = p4info(&[("packet_in", &[(1, 9), (2, 7)])]);
        for (sent, why) in [
            (p4info(&[("packet_out", &[(1, 8)])]), "the program has no such header"),
            (p4info(&[("packet_in", &[(1, 16)])]), "1 fields, the program's header has 2"),
            (p4info(&[("packet_in", &[(1, 8), (2, 8)])]), "the program's field in this place is `f9`"),
            (p4info(&[("packet_in", &[(1, 9), (1, 7)])]), "the id 1 is 0, or occurs twice"),
        ] {
            let error = headers(&sent, &own).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let odd = p4info(&[("packet_in", &[(1, 9)])]);
        assert!(headers(&odd, &odd).unwrap_err().contains("9 bits do not fill bytes"));
    }
}
