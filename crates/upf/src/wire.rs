//! PFCP's headers and information elements (3GPP TS 29.244, clauses 7.2 and 8.1), read and written byte by byte.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Types of messages (table 7.3-1).
pub mod message {
    #![allow(missing_docs)]
    pub const HEARTBEAT_REQUEST: u8 = 1;
    pub const HEARTBEAT_RESPONSE: u8 = 2;
    pub const ASSOCIATION_SETUP_REQUEST: u8 = 5;
    pub const ASSOCIATION_SETUP_RESPONSE: u8 = 6;
    pub const ASSOCIATION_UPDATE_REQUEST: u8 = 7;
    pub const ASSOCIATION_UPDATE_RESPONSE: u8 = 8;
    pub const ASSOCIATION_RELEASE_REQUEST: u8 = 9;
    pub const ASSOCIATION_RELEASE_RESPONSE: u8 = 10;
    pub const VERSION_NOT_SUPPORTED: u8 = 11;
    pub const SESSION_ESTABLISHMENT_REQUEST: u8 = 50;
    pub const SESSION_ESTABLISHMENT_RESPONSE: u8 = 51;
    pub const SESSION_MODIFICATION_REQUEST: u8 = 52;
    pub const SESSION_MODIFICATION_RESPONSE: u8 = 53;
    pub const SESSION_DELETION_REQUEST: u8 = 54;
    pub const SESSION_DELETION_RESPONSE: u8 = 55;
    pub const SESSION_REPORT_REQUEST: u8 = 56;
    pub const SESSION_REPORT_RESPONSE: u8 = 57;
}

/// Types of information elements (table 8.1.2-1).
pub mod ie {
    #![allow(missing_docs)]
    pub const CREATE_PDR: u16 = 1;
    pub const PDI: u16 = 2;
    pub const CREATE_FAR: u16 = 3;
    pub const FORWARDING_PARAMETERS: u16 = 4;
    pub const DUPLICATING_PARAMETERS: u16 = 5;
    pub const CREATE_URR: u16 = 6;
    pub const CREATE_QER: u16 = 7;
    pub const CREATED_PDR: u16 = 8;
    pub const UPDATE_PDR: u16 = 9;
    pub const UPDATE_FAR: u16 = 10;
    pub const UPDATE_FORWARDING_PARAMETERS: u16 = 11;
    pub const UPDATE_URR: u16 = 13;
    pub const UPDATE_QER: u16 = 14;
    pub const REMOVE_PDR: u16 = 15;
    pub const REMOVE_FAR: u16 = 16;
    pub const REMOVE_URR: u16 = 17;
    pub const REMOVE_QER: u16 = 18;
    pub const CAUSE: u16 = 19;
    pub const SOURCE_INTERFACE: u16 = 20;
    pub const F_TEID: u16 = 21;
    pub const NETWORK_INSTANCE: u16 = 22;
    pub const SDF_FILTER: u16 = 23;
    pub const APPLICATION_ID: u16 = 24;
    pub const GATE_STATUS: u16 = 25;
    pub const MBR: u16 = 26;
    pub const GBR: u16 = 27;
    pub const PRECEDENCE: u16 = 29;
    pub const TRANSPORT_LEVEL_MARKING: u16 = 30;
    pub const VOLUME_THRESHOLD: u16 = 31;
    pub const REPORTING_TRIGGERS: u16 = 37;
    pub const REPORT_TYPE: u16 = 39;
    pub const OFFENDING_IE: u16 = 40;
    pub const FORWARDING_POLICY: u16 = 41;
    pub const DESTINATION_INTERFACE: u16 = 42;
    pub const UP_FUNCTION_FEATURES: u16 = 43;
    pub const APPLY_ACTION: u16 = 44;
    pub const SMREQ_FLAGS: u16 = 49;
    pub const PDR_ID: u16 = 56;
    pub const F_SEID: u16 = 57;
    pub const NODE_ID: u16 = 60;
    pub const MEASUREMENT_METHOD: u16 = 62;
    pub const USAGE_REPORT_TRIGGER: u16 = 63;
    pub const VOLUME_MEASUREMENT: u16 = 66;
    pub const QUERY_URR: u16 = 77;
    pub const USAGE_REPORT_MODIFICATION: u16 = 78;
    pub const USAGE_REPORT_DELETION: u16 = 79;
    pub const USAGE_REPORT: u16 = 80;
    pub const URR_ID: u16 = 81;
    pub const DOWNLINK_DATA_REPORT: u16 = 83;
    pub const OUTER_HEADER_CREATION: u16 = 84;
    pub const CREATE_BAR: u16 = 85;
    pub const UPDATE_BAR: u16 = 86;
    pub const REMOVE_BAR: u16 = 87;
    pub const BAR_ID: u16 = 88;
    pub const UE_IP_ADDRESS: u16 = 93;
    pub const OUTER_HEADER_REMOVAL: u16 = 95;
    pub const RECOVERY_TIME_STAMP: u16 = 96;
    pub const ERROR_INDICATION_REPORT: u16 = 99;
    pub const UR_SEQN: u16 = 104;
    pub const UPDATE_DUPLICATING_PARAMETERS: u16 = 105;
    pub const FAR_ID: u16 = 108;
    pub const QER_ID: u16 = 109;
    pub const FAILED_RULE_ID: u16 = 114;
    pub const RQI: u16 = 123;
    pub const QFI: u16 = 124;
}

/// Reasons of refusals (table 8.2.1-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Cause {
    Accepted = 1,
    Rejected = 64,
    SessionNotFound = 65,
    MandatoryMissing = 66,
    ConditionalMissing = 67,
    InvalidLength = 68,
    MandatoryIncorrect = 69,
    InvalidForwardingPolicy = 70,
    InvalidFteidAllocation = 71,
    NoAssociation = 72,
    RuleFailure = 73,
    NoResources = 75,
    NotSupported = 76,
}

/// A refusal: the cause, and where it is known the type of the IE and the text for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What the response says.
    pub cause: Cause,
    /// The IE that is wrong or missing.
    pub offending: Option<u16>,
    /// The rule, as in IE Failed Rule ID: its type (0 PDR, 1 FAR, 2 QER, 3 URR) and its number.
    pub rule: Option<(u8, u32)>,
    /// For people.
    pub why: String,
}

impl Refusal {
    /// A refusal because of an IE.
    pub fn ie(cause: Cause, offending: u16, why: impl Into<String>) -> Refusal {
        Refusal { cause, offending: Some(offending), rule: None, why: why.into() }
    }

    /// A refusal of a rule.
    pub fn rule(kind: u8, number: u32, why: impl Into<String>) -> Refusal {
        Refusal { cause: Cause::RuleFailure, offending: None, rule: Some((kind, number)), why: why.into() }
    }
}

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Type of message.
    pub message: u8,
    /// Session endpoint identifier of the receiver; none in messages of nodes.
    pub seid: Option<u64>,
    /// Sequence number, 24 bits.
    pub sequence: u32,
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Another version: answered by Version Not Supported with this sequence number.
    Version(u32),
    /// Too short, or the length is wrong: not answered (clause 7.6.2).
    Length,
}

/// Reads a message: its header, its IEs, and the rest of the datagram, which has further messages if the flag FO is set
/// (clause 7.2.2.1).
pub fn read(datagram: &[u8]) -> Result<(Header, &[u8], &[u8]), Malformed> {
    let [flags, message, high, low, rest @ ..] = datagram else { return Err(Malformed::Length) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if flags >> 5 != 1 {
        let sequence = rest.get(..3).map_or(0, |b| u32::from_be_bytes([0, b[0], b[1], b[2]]));
        return Err(Malformed::Version(sequence));
    }
    let (body, rest) = rest.split_at_checked(length).ok_or(Malformed::Length)?;
    let (seid, body) = if flags & 1 == 1 {
        let (seid, body) = body.split_first_chunk().ok_or(Malformed::Length)?;
        (Some(u64::from_be_bytes(*seid)), body)
    } else {
        (None, body)
    };
    let (sequence, body) = body.split_first_chunk::<4>().ok_or(Malformed::Length)?;
    let sequence = u32::from_be_bytes(*sequence) >> 8;
    let more = if flags & 4 == 4 { rest } else { &[] };
    Ok((Header { message: *message, seid, sequence }, body, more))
}

/// The IEs of a message or of a grouped IE: type and value. The last item is an error if an IE does not end where the group ends.
pub struct Ies<'a>(&'a [u8]);

impl<'a> Ies<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Ies<'a> {
        Ies(bytes)
    }
}

impl<'a> Iterator for Ies<'a> {
    type Item = Result<(u16, &'a [u8]), Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let split = self.0.split_first_chunk::<4>().and_then(|(head, rest)| {
            let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
            let (value, rest) = rest.split_at_checked(length)?;
            Some((u16::from_be_bytes([head[0], head[1]]), value, rest))
        });
        match split {
            Some((kind, value, rest)) => {
                self.0 = rest;
                Some(Ok((kind, value)))
            }
            None => {
                let kind = self.0.first_chunk().map_or(0, |b| u16::from_be_bytes(*b));
                self.0 = &[];
                Some(Err(Refusal::ie(Cause::InvalidLength, kind, "the IE is longer than what contains it")))
            }
        }
    }
}

/// The value of an IE, read from its beginning. Bytes that follow are of later versions, and ignored.
pub struct Value<'a> {
    kind: u16,
    rest: &'a [u8],
}

impl<'a> Value<'a> {
    /// Reads the value of an IE of this type.
    pub fn new(kind: u16, value: &'a [u8]) -> Value<'a> {
        Value { kind, rest: value }
    }

    /// The next bytes.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(*head)
    }

    /// As many bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Refusal> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(head)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn short(&self) -> Refusal {
        Refusal::ie(Cause::InvalidLength, self.kind, format!("IE {} is too short", self.kind))
    }

    /// A byte.
    pub fn u8(&mut self) -> Result<u8, Refusal> {
        Ok(self.take::<1>()?[0])
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, Refusal> {
        Ok(u16::from_be_bytes(self.take()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Refusal> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Refusal> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    /// Five bytes, as of bit rates.
    pub fn u40(&mut self) -> Result<u64, Refusal> {
        let b = self.take::<5>()?;
        Ok(u64::from_be_bytes([0, 0, 0, b[0], b[1], b[2], b[3], b[4]]))
    }

    /// An address of IPv4.
    pub fn v4(&mut self) -> Result<Ipv4Addr, Refusal> {
        Ok(Ipv4Addr::from(self.take::<4>()?))
    }

    /// An address of IPv6.
    pub fn v6(&mut self) -> Result<Ipv6Addr, Refusal> {
        Ok(Ipv6Addr::from(self.take::<16>()?))
    }
}

/// A message or group that is being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Adds an IE. Values are short: a message ends where UDP does.
    pub fn ie(&mut self, kind: u16, value: &[u8]) -> &mut Writer {
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.0.extend(kind.to_be_bytes());
        self.0.extend(length.to_be_bytes());
        self.0.extend(&value[..usize::from(length)]);
        self
    }

    /// Adds a grouped IE.
    pub fn group(&mut self, kind: u16, write: impl FnOnce(&mut Writer)) -> &mut Writer {
        let mut inner = Writer::default();
        write(&mut inner);
        self.ie(kind, &inner.0)
    }

    /// The message with its header.
    pub fn message(&self, header: Header) -> Vec<u8> {
        let length = self.0.len() + if header.seid.is_some() { 12 } else { 4 };
        let mut bytes = vec![0x20 | u8::from(header.seid.is_some()), header.message];
        bytes.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
        if let Some(seid) = header.seid {
            bytes.extend(seid.to_be_bytes());
        }
        bytes.extend((header.sequence << 8).to_be_bytes());
        bytes.extend(&self.0);
        bytes
    }

    /// The IEs without a header.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The value of a Node ID (clause 8.2.38) with an address.
pub fn node_id(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => [&[0][..], &a.octets()].concat(),
        IpAddr::V6(a) => [&[1][..], &a.octets()].concat(),
    }
}

/// The value of an F-SEID (clause 8.2.37).
pub fn f_seid(seid: u64, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => [&[2][..], &seid.to_be_bytes(), &a.octets()].concat(),
        IpAddr::V6(a) => [&[1][..], &seid.to_be_bytes(), &a.octets()].concat(),
    }
}
