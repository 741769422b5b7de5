//! The rules of a session, read from their IEs: PDRs, FARs, QERs and URRs (TS 29.244, clauses 7.5.2 and 7.5.4).
//!
//! An update changes what it names and leaves the rest, so that the same function reads both.

use crate::flow::Flow;
use crate::wire::{Cause, Ies, Refusal, Value, ie};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// SDF filters of one PDR.
const FILTERS_MAX: usize = 16;

/// Where packets come from or go to (clauses 8.2.2 and 8.2.24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interface {
    /// The radio network.
    Access,
    /// Another UPF or the data network.
    Core,
    /// A service network, which is like the data network.
    Services,
    /// The control plane.
    Control,
}

impl Interface {
    fn read(kind: u16, value: &[u8]) -> Result<Interface, Refusal> {
        Ok(match Value::new(kind, value).u8()? & 0x0f {
            0 => Interface::Access,
            1 => Interface::Core,
            2 => Interface::Services,
            3 => Interface::Control,
            other => {
                return Err(Refusal::ie(
                    Cause::MandatoryIncorrect,
                    kind,
                    format!("interface {other} is not supported"),
                ));
            }
        })
    }
}

/// A local tunnel end point (clause 8.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fteid {
    /// The control plane has chosen it.
    Given {
        /// Its TEID.
        teid: u32,
        /// Our address of IPv4.
        v4: Option<Ipv4Addr>,
        /// Our address of IPv6.
        v6: Option<Ipv6Addr>,
    },
    /// We are to choose; PDRs with the same id get the same.
    Choose {
        /// Of IPv4.
        v4: bool,
        /// Of IPv6.
        v6: bool,
        /// Which PDRs belong together.
        id: Option<u8>,
    },
}

/// A filter of packets within a session: all that is given must match.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Filter {
    /// Addresses, protocol and ports.
    pub flow: Option<Flow>,
    /// Type of service or traffic class, and its mask.
    pub tos: Option<(u8, u8)>,
}

/// A packet detection rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pdr {
    /// Its number.
    pub id: u16,
    /// The smallest comes first.
    pub precedence: u32,
    /// Where the packets come from.
    pub source: Interface,
    /// The tunnel's end.
    pub fteid: Option<Fteid>,
    /// Network instance.
    pub network: Option<Vec<u8>>,
    /// The UE's address of IPv4.
    pub v4: Option<Ipv4Addr>,
    /// The UE's prefix.
    pub v6: Option<u64>,
    /// The UE's address is the packets' destination, not their source.
    pub is_destination: bool,
    /// SDF filters; none for all packets.
    pub filters: Vec<Filter>,
    /// QoS flows; none for all.
    pub qfis: Vec<u8>,
    /// What happens.
    pub far: Option<u32>,
    /// Usage reporting.
    pub urrs: Vec<u32>,
    /// QoS enforcement.
    pub qers: Vec<u32>,
}

/// The other end of a tunnel (clause 8.2.56).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tunnel {
    /// TEID there.
    pub teid: u32,
    /// Its address.
    pub peer: IpAddr,
}

/// Parameters of forwarding or duplicating.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Where to.
    pub destination: Option<Interface>,
    /// Network instance.
    pub network: Option<Vec<u8>>,
    /// Into this tunnel.
    pub tunnel: Option<Tunnel>,
    /// Type of service and its mask.
    pub marking: Option<(u8, u8)>,
}

/// A forwarding action rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Far {
    /// Its number.
    pub id: u32,
    /// Flags of Apply Action (clause 8.2.26).
    pub action: u8,
    /// Where to.
    pub forward: Option<Parameters>,
    /// Where copies go.
    pub duplicate: Option<Parameters>,
}

/// Flags of Apply Action.
#[allow(missing_docs)]
impl Far {
    pub const DROP: u8 = 1;
    pub const FORWARD: u8 = 2;
    pub const BUFFER: u8 = 4;
    pub const NOTIFY: u8 = 8;
    pub const DUPLICATE: u8 = 16;
}

/// A QoS enforcement rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Qer {
    /// Its number.
    pub id: u32,
    /// Gates are closed: uplink, downlink.
    pub closed: (bool, bool),
    /// Maximum bit rates in kbit/s: uplink, downlink.
    pub mbr: Option<(u64, u64)>,
    /// Guaranteed bit rates.
    pub gbr: Option<(u64, u64)>,
    /// The QoS flow.
    pub qfi: Option<u8>,
    /// Reflective QoS.
    pub rqi: bool,
}

/// A usage reporting rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Urr {
    /// Its number.
    pub id: u32,
    /// Volume is measured.
    pub volume: bool,
    /// A report at the volume threshold.
    pub at_threshold: bool,
    /// Bytes: in total, uplink, downlink.
    pub threshold: [Option<u64>; 3],
}

fn number(kind: u16, value: &[u8]) -> Result<u32, Refusal> {
    Value::new(kind, value).u32()
}

/// Returns the number in a grouped IE that has one: an update or a removal.
pub fn identifier(group: u16, value: &[u8], kind: u16) -> Result<u32, Refusal> {
    for item in Ies::new(value) {
        let (found, value) = item?;
        if found == kind {
            return if kind == ie::PDR_ID {
                Value::new(kind, value).u16().map(u32::from)
            } else {
                number(kind, value)
            };
        }
    }
    Err(Refusal::ie(Cause::MandatoryMissing, kind, format!("IE {group} has no number of its rule")))
}

impl Pdr {
    /// Reads Create PDR, or Update PDR on what there was.
    pub fn read(value: &[u8], before: Option<&Pdr>) -> Result<Pdr, Refusal> {
        let id = identifier(ie::CREATE_PDR, value, ie::PDR_ID)? as u16;
        let (mut precedence, mut source) = (None, None);
        let empty = Pdr {
            id,
            precedence: 0,
            source: Interface::Access,
            fteid: None,
            network: None,
            v4: None,
            v6: None,
            is_destination: false,
            filters: Vec::new(),
            qfis: Vec::new(),
            far: None,
            urrs: Vec::new(),
            qers: Vec::new(),
        };
        let mut pdr = before.cloned().unwrap_or_else(|| empty.clone());
        let (mut urrs, mut qers) = (Vec::new(), Vec::new());
        for item in Ies::new(value) {
            let (kind, value) = item?;
            match kind {
                ie::PRECEDENCE => precedence = Some(number(kind, value)?),
                // A PDI replaces the one before (table 7.5.4.2-1).
                ie::PDI => {
                    pdr = Pdr {
                        far: pdr.far,
                        precedence: pdr.precedence,
                        urrs: pdr.urrs,
                        qers: pdr.qers,
                        ..empty.clone()
                    };
                    source = Some(pdr.read_pdi(value)?);
                }
                ie::FAR_ID => pdr.far = Some(number(kind, value)?),
                ie::URR_ID => urrs.push(number(kind, value)?),
                ie::QER_ID => qers.push(number(kind, value)?),
                _ => {}
            }
        }
        // Lists replace the ones before.
        if !urrs.is_empty() {
            pdr.urrs = urrs;
        }
        if !qers.is_empty() {
            pdr.qers = qers;
        }
        if before.is_none() {
            let missing = |kind, what: &str| {
                Refusal::ie(Cause::MandatoryMissing, kind, format!("PDR {id} has no {what}"))
            };
            precedence = Some(precedence.ok_or_else(|| missing(ie::PRECEDENCE, "precedence"))?);
            source = Some(source.ok_or_else(|| missing(ie::PDI, "PDI"))?);
        }
        pdr.precedence = precedence.unwrap_or(pdr.precedence);
        pdr.source = source.or(before.map(|b| b.source)).unwrap_or(Interface::Access);
        Ok(pdr)
    }

    fn read_pdi(&mut self, value: &[u8]) -> Result<Interface, Refusal> {
        let mut source = None;
        for item in Ies::new(value) {
            let (kind, value) = item?;
            let mut read = Value::new(kind, value);
            match kind {
                ie::SOURCE_INTERFACE => source = Some(Interface::read(kind, value)?),
                ie::F_TEID => self.fteid = Some(read_fteid(&mut read)?),
                ie::NETWORK_INSTANCE => self.network = Some(value.to_vec()),
                ie::UE_IP_ADDRESS => {
                    let flags = read.u8()?;
                    if flags & 0x30 != 0 {
                        return Err(Refusal::ie(
                            Cause::NotSupported,
                            kind,
                            "the UPF allocates no addresses of UEs",
                        ));
                    }
                    if flags & 2 != 0 {
                        self.v4 = Some(read.v4()?);
                    }
                    if flags & 1 != 0 {
                        self.v6 = Some((u128::from(read.v6()?) >> 64) as u64);
                    }
                    if flags & 8 != 0 && read.u8()? != 0 {
                        return Err(Refusal::ie(
                            Cause::NotSupported,
                            kind,
                            "prefix delegation is not supported",
                        ));
                    }
                    if flags & 0x40 != 0 && read.u8()? != 64 {
                        return Err(Refusal::ie(Cause::NotSupported, kind, "prefixes have 64 bits"));
                    }
                    self.is_destination = flags & 4 != 0;
                }
                ie::SDF_FILTER => {
                    if self.filters.len() == FILTERS_MAX {
                        return Err(Refusal::rule(
                            0,
                            self.id.into(),
                            format!("more than {FILTERS_MAX} filters"),
                        ));
                    }
                    self.filters.push(read_filter(&mut read)?);
                }
                ie::QFI => self.qfis.push(read.u8()? & 0x3f),
                ie::APPLICATION_ID => {
                    return Err(Refusal::ie(
                        Cause::NotSupported,
                        kind,
                        "application detection is not supported",
                    ));
                }
                _ => {}
            }
        }
        source.ok_or_else(|| {
            Refusal::ie(Cause::MandatoryMissing, ie::SOURCE_INTERFACE, "a PDI without source interface")
        })
    }
}

fn read_fteid(read: &mut Value) -> Result<Fteid, Refusal> {
    let flags = read.u8()?;
    let (has_v4, has_v6) = (flags & 1 != 0, flags & 2 != 0);
    if flags & 4 != 0 {
        let id = if flags & 8 != 0 { Some(read.u8()?) } else { None };
        if !has_v4 && !has_v6 {
            return Err(Refusal::ie(Cause::InvalidFteidAllocation, ie::F_TEID, "a choice of no address"));
        }
        return Ok(Fteid::Choose { v4: has_v4, v6: has_v6, id });
    }
    let teid = read.u32()?;
    let v4 = if has_v4 { Some(read.v4()?) } else { None };
    let v6 = if has_v6 { Some(read.v6()?) } else { None };
    if v4.is_none() && v6.is_none() {
        return Err(Refusal::ie(Cause::MandatoryIncorrect, ie::F_TEID, "an F-TEID without address"));
    }
    Ok(Fteid::Given { teid, v4, v6 })
}

fn read_filter(read: &mut Value) -> Result<Filter, Refusal> {
    let flags = read.u8()?;
    read.u8()?;
    if flags & 0x1c != 0 {
        let why = "filters by security parameter index, flow label or number are not supported";
        return Err(Refusal::ie(Cause::NotSupported, ie::SDF_FILTER, why));
    }
    let flow = if flags & 1 != 0 {
        let length = read.u16()?;
        let text = read.bytes(length.into())?;
        let text = std::str::from_utf8(text).map_err(|_| "it is no text".to_string());
        let flow = text.and_then(str::parse);
        Some(flow.map_err(|why| Refusal::ie(Cause::MandatoryIncorrect, ie::SDF_FILTER, why))?)
    } else {
        None
    };
    let tos = if flags & 2 != 0 { Some((read.u8()?, read.u8()?)) } else { None };
    Ok(Filter { flow, tos })
}

impl Parameters {
    fn read(&mut self, value: &[u8]) -> Result<(), Refusal> {
        for item in Ies::new(value) {
            let (kind, value) = item?;
            let mut read = Value::new(kind, value);
            match kind {
                ie::DESTINATION_INTERFACE => self.destination = Some(Interface::read(kind, value)?),
                ie::NETWORK_INSTANCE => self.network = Some(value.to_vec()),
                ie::OUTER_HEADER_CREATION => {
                    let description = read.u16()? >> 8;
                    if description & 3 == 0 || description & !3 != 0 {
                        let why = "only GTP-U in UDP over IPv4 or IPv6 is supported";
                        return Err(Refusal::ie(Cause::NotSupported, kind, why));
                    }
                    let teid = read.u32()?;
                    // With both, IPv4 is taken.
                    let peer =
                        if description & 1 != 0 { IpAddr::V4(read.v4()?) } else { IpAddr::V6(read.v6()?) };
                    self.tunnel = Some(Tunnel { teid, peer });
                }
                ie::TRANSPORT_LEVEL_MARKING => self.marking = Some((read.u8()?, read.u8()?)),
                ie::FORWARDING_POLICY => {
                    return Err(Refusal::ie(
                        Cause::InvalidForwardingPolicy,
                        kind,
                        "there are no forwarding policies",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Far {
    /// Reads Create FAR, or Update FAR on what there was. The second value says whether the old path gets an end marker.
    pub fn read(value: &[u8], before: Option<&Far>) -> Result<(Far, bool), Refusal> {
        let id = identifier(ie::CREATE_FAR, value, ie::FAR_ID)?;
        let mut far = before.cloned().unwrap_or(Far { id, ..Far::default() });
        let (mut has_action, mut sends_end_marker, mut duplicates) = (before.is_some(), false, 0);
        for item in Ies::new(value) {
            let (kind, value) = item?;
            match kind {
                ie::APPLY_ACTION => {
                    has_action = true;
                    far.action = Value::new(kind, value).u8()?;
                }
                ie::FORWARDING_PARAMETERS | ie::UPDATE_FORWARDING_PARAMETERS => {
                    far.forward.get_or_insert_default().read(value)?;
                    for item in Ies::new(value) {
                        let (kind, value) = item?;
                        if kind == ie::SMREQ_FLAGS {
                            sends_end_marker |= Value::new(kind, value).u8()? & 2 != 0;
                        }
                    }
                }
                ie::DUPLICATING_PARAMETERS | ie::UPDATE_DUPLICATING_PARAMETERS => {
                    duplicates += 1;
                    far.duplicate.get_or_insert_default().read(value)?;
                }
                _ => {}
            }
        }
        if !has_action {
            return Err(Refusal::ie(
                Cause::MandatoryMissing,
                ie::APPLY_ACTION,
                format!("FAR {id} has no action"),
            ));
        }
        if duplicates > 1 {
            return Err(Refusal::rule(1, id, "copies to one place only are supported"));
        }
        // Exactly one of the first three (clause 8.2.26).
        if (far.action & 7).count_ones() != 1 {
            return Err(Refusal::ie(
                Cause::MandatoryIncorrect,
                ie::APPLY_ACTION,
                "one of drop, forward and buffer",
            ));
        }
        Ok((far, sends_end_marker))
    }
}

impl Qer {
    /// Reads Create QER, or Update QER on what there was.
    pub fn read(value: &[u8], before: Option<&Qer>) -> Result<Qer, Refusal> {
        let id = identifier(ie::CREATE_QER, value, ie::QER_ID)?;
        let mut qer = before.cloned().unwrap_or(Qer { id, ..Qer::default() });
        for item in Ies::new(value) {
            let (kind, value) = item?;
            let mut read = Value::new(kind, value);
            match kind {
                ie::GATE_STATUS => {
                    let gates = read.u8()?;
                    qer.closed = (gates >> 2 & 3 == 1, gates & 3 == 1);
                }
                ie::MBR => qer.mbr = Some((read.u40()?, read.u40()?)),
                ie::GBR => qer.gbr = Some((read.u40()?, read.u40()?)),
                ie::QFI => qer.qfi = Some(read.u8()? & 0x3f),
                ie::RQI => qer.rqi = read.u8()? & 1 != 0,
                _ => {}
            }
        }
        Ok(qer)
    }
}

impl Urr {
    /// Reads Create URR, or Update URR on what there was.
    pub fn read(value: &[u8], before: Option<&Urr>) -> Result<Urr, Refusal> {
        let id = identifier(ie::CREATE_URR, value, ie::URR_ID)?;
        let mut urr = before.cloned().unwrap_or(Urr { id, ..Urr::default() });
        for item in Ies::new(value) {
            let (kind, value) = item?;
            let mut read = Value::new(kind, value);
            match kind {
                ie::MEASUREMENT_METHOD => urr.volume = read.u8()? & 2 != 0,
                ie::REPORTING_TRIGGERS => urr.at_threshold = read.u8()? & 2 != 0,
                ie::VOLUME_THRESHOLD => {
                    let flags = read.u8()?;
                    for (i, bytes) in urr.threshold.iter_mut().enumerate() {
                        *bytes = if flags >> i & 1 != 0 { Some(read.u64()?) } else { None };
                    }
                }
                _ => {}
            }
        }
        Ok(urr)
    }
}
