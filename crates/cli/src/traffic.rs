//! `p4jet traffic`: sends numbered, time-stamped frames and measures what arrives.

use crate::failure::Failure;
use crate::output::say;
use hdrhistogram::Histogram;
use p4jet_packet::{Batch, Pool};
use p4jet_ports::{Port, PortOptions, PortSpec};
use serde_json::json;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Ethernet, IPv4, UDP.
const HEADERS: usize = 14 + 20 + 8;
/// The last bytes of a frame: the mark of our frames, the number, and the time of sending in nanoseconds.
const STAMP: usize = 2 + 8 + 8;
const MARK: [u8; 2] = [0x50, 0x4a];
/// Maximum latency that is distinguished.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Maximum length of a frame that is sent or received.
const FRAME_MAX: usize = 9216;
/// Frames per call.
const BURST: usize = 32;
/// Time to wait for late frames.
const STRAGGLERS: Duration = Duration::from_millis(300);

/// Options of `traffic`.
#[derive(clap::Args)]
pub struct Args {
    /// Port that sends the frames, in the form that `run` takes, without the number.
    #[arg(long, value_name = "SPEC")]
    send: String,
    /// Port that receives the frames.
    #[arg(long, value_name = "SPEC")]
    receive: String,
    /// Frame size in bytes, including the 4 bytes of the frame check sequence.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(64..=9018))]
    size: u32,
    /// Frames per second; by default as many as possible.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Duration in seconds, after a warm-up of a tenth of that.
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,
    /// Number of flows, distinguished by UDP source port.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    flows: u16,
    /// Destination address of the frames.
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:02", value_parser = mac)]
    dst_mac: [u8; 6],
    /// Source address of the frames.
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:01", value_parser = mac)]
    src_mac: [u8; 6],
    /// Destination address of the IPv4 header.
    #[arg(long, value_name = "IP", default_value = "10.0.1.2")]
    dst_ip: Ipv4Addr,
    /// Source address of the IPv4 header.
    #[arg(long, value_name = "IP", default_value = "10.0.0.2")]
    src_ip: Ipv4Addr,
    /// Send the frames of this capture in turn instead; only their last 18 bytes are overwritten
    /// (TCP over IPv4 keeps its header from 72 bytes on).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "flows", "dst_mac", "src_mac", "dst_ip", "src_ip"])]
    pcap: Option<PathBuf>,
    /// Share of additional malformed frames, from 0 to 1: truncated, random, inconsistent headers.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    malformed: f64,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_string())
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| {
            // `from_str_radix` would accept a plus sign.
            let right = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
            if right { u8::from_str_radix(part, 16).ok() } else { None }
        })
        .collect();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| "expected six bytes in hex, as in 02:00:00:00:00:01".to_string())
}

/// The result of one run.
struct Outcome {
    /// Size of the longest frame in bytes, including the four bytes of its checksum.
    size: usize,
    sent: u64,
    /// Number of frames that the sending port refused, because its interface had no room for them.
    refused: u64,
    /// Number of malformed frames sent, which no other count includes.
    malformed: u64,
    received: u64,
    reordered: u64,
    seconds: f64,
    /// Rate of frames received between the warm-up and the end of sending.
    received_pps: f64,
    sent_pps: f64,
    /// Rate of frames sent or refused.
    offered_pps: f64,
    latency_ns: Histogram<u64>,
}

impl Outcome {
    fn new(size: usize) -> Result<Outcome, Failure> {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .map_err(|e| Failure::Environment(format!("no histogram: {e}")))?;
        Ok(Outcome {
            size,
            sent: 0,
            refused: 0,
            malformed: 0,
            received: 0,
            reordered: 0,
            seconds: 0.0,
            received_pps: 0.0,
            sent_pps: 0.0,
            offered_pps: 0.0,
            latency_ns,
        })
    }
}

/// Sends, receives and reports.
pub fn run(args: &Args) -> Result<(), Failure> {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(Failure::Usage(format!(
            "--seconds {}: expected more than 0, at most 3600",
            args.seconds
        )));
    }
    if args.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
        return Err(Failure::Usage("--rate: expected more than 0, at most 1e9 frames a second".to_string()));
    }
    let options = PortOptions { frame_max: FRAME_MAX, wall_clock: false, workers: 1, split: false };
    let open = |spec: &str| -> Result<Box<dyn Port>, Failure> {
        let spec: PortSpec = format!("0@{spec}").parse().map_err(|e| Failure::port(&e))?;
        let mut handles = p4jet_ports::open(&spec, &options).map_err(|e| Failure::port(&e))?;
        handles.pop().ok_or_else(|| Failure::Environment("the port has no handle".to_string()))
    };
    let (mut to, mut from) = (open(&args.send)?, open(&args.receive)?);
    let outcome = exchange(args, &mut *to, &mut *from)?;
    report(args, &outcome)
}

/// Returns a frame of a flow, with room for the stamp.
fn frame(args: &Args, flow: u16) -> Vec<u8> {
    let len = args.size as usize - 4;
    let mut frame = Vec::with_capacity(len);
    frame.extend(args.dst_mac);
    frame.extend(args.src_mac);
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend((len as u16 - 14).to_be_bytes());
    // Identification, flags (don't fragment), TTL 64, UDP, checksum.
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(args.src_ip.octets());
    frame.extend(args.dst_ip.octets());
    let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend((1024 + flow % 64_000).to_be_bytes());
    frame.extend(9u16.to_be_bytes());
    frame.extend((len as u16 - 34).to_be_bytes());
    frame.extend([0, 0]);
    debug_assert_eq!(frame.len(), HEADERS);
    frame.resize(len, 0);
    frame
}

/// Returns a frame of each flow: generated, or from the capture.
fn flows(args: &Args) -> Result<Vec<Vec<u8>>, Failure> {
    let Some(path) = &args.pcap else {
        return Ok((0..args.flows).map(|flow| frame(args, flow)).collect());
    };
    let frames = p4jet_ports::read_capture(path).map_err(|e| Failure::port(&e))?;
    let sizes = HEADERS + STAMP..=FRAME_MAX;
    match frames.iter().find(|frame| !sizes.contains(&frame.len())) {
        None if frames.is_empty() => Err(Failure::Input(format!("{}: no frames", path.display()))),
        Some(frame) => Err(Failure::Input(format!(
            "{}: a frame of {} bytes, expected {} to {}",
            path.display(),
            frame.len(),
            sizes.start(),
            sizes.end()
        ))),
        None => Ok(frames),
    }
}

/// Damages frames. The results differ from frame to frame, but not from run to run.
struct Spoiler {
    state: u64,
    /// Number of frames to damage, of 2^32.
    of_2_32: u64,
    frame: Vec<u8>,
}

impl Spoiler {
    fn new(share: f64) -> Spoiler {
        let of_2_32 = (share * 2f64.powi(32)) as u64;
        Spoiler { state: 0x9e37_79b9_7f4a_7c15, of_2_32, frame: Vec::new() }
    }

    /// xorshift64*.
    fn random(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random() >> 32) as usize % bound
    }

    /// True if a malformed frame is due.
    fn is_due(&mut self) -> bool {
        self.of_2_32 > 0 && self.random() >> 32 < self.of_2_32
    }

    /// Returns a damaged version of `whole`, but at least an Ethernet header, because the kernel sends nothing shorter.
    fn spoil(&mut self, whole: &[u8]) -> &[u8] {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.extend_from_slice(whole);
        match self.below(5) {
            0 => {
                let len = 14 + self.below(frame.len() - 13);
                frame.truncate(len);
            }
            1 => {
                let len = 14 + self.below(1500);
                frame.resize(len, 0);
                frame.iter_mut().for_each(|byte| *byte = self.random() as u8);
            }
            2 => frame[12] = self.random() as u8,
            3 => frame[14] = self.random() as u8,
            _ => {
                for _ in 0..=self.below(8) {
                    let at = self.below(HEADERS);
                    let bit = self.below(8);
                    frame[at] ^= 1 << bit;
                }
            }
        }
        // It must not be mistaken for one of ours when it arrives.
        if let Some(at) = frame.len().checked_sub(STAMP) {
            frame[at] = !MARK[0];
        }
        self.frame = frame;
        &self.frame
    }
}

fn exchange(args: &Args, to: &mut dyn Port, from: &mut dyn Port) -> Result<Outcome, Failure> {
    let memory = |e: std::io::Error| Failure::Environment(format!("no memory for frames: {e}"));
    let mut pool = Pool::new(p4jet_packet::COUNT_DEFAULT, FRAME_MAX, 0).map_err(memory)?;
    let mut batch = Batch::new();
    let mut flows = flows(args)?;
    let mut burst: Vec<Vec<u8>> = vec![Vec::new(); BURST];
    let warm_up = Duration::from_secs_f64(args.seconds / 10.0);
    let end = warm_up + Duration::from_secs_f64(args.seconds);
    let mut out = Outcome::new(flows.iter().map(Vec::len).max().unwrap_or(0) + 4)?;
    let mut next_by_flow = vec![0u64; flows.len()];
    // (time, sent, refused, received) at the end of the warm-up.
    let mut begin: Option<(Duration, u64, u64, u64)> = None;
    let mut number = 0u64;
    let mut spoiler = Spoiler::new(args.malformed);
    let start = Instant::now();
    let mut last_heard = Duration::ZERO;
    let mut closed = false;
    loop {
        let now = start.elapsed();
        if begin.is_none() && now >= warm_up {
            begin = Some((now, out.sent, out.refused, out.received));
        }
        if now < end {
            let wanted = match args.rate {
                None => BURST,
                Some(rate) => {
                    let due = (now.as_secs_f64() * rate) as u64;
                    (due.saturating_sub(number) as usize).min(BURST)
                }
            };
            if wanted > 0 {
                for slot in &mut burst[..wanted] {
                    let flow = (number % flows.len() as u64) as usize;
                    let at = flows[flow].len() - STAMP;
                    let stamp = &mut flows[flow][at..];
                    stamp[..2].copy_from_slice(&MARK);
                    stamp[2..10].copy_from_slice(&number.to_be_bytes());
                    stamp[10..].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_be_bytes());
                    slot.clear();
                    slot.extend_from_slice(&flows[flow]);
                    number += 1;
                }
                let frames: Vec<&[u8]> = burst[..wanted].iter().map(Vec::as_slice).collect();
                let sent = to.send(&frames).map_err(|e| Failure::port(&e))?;
                out.sent += sent.sent as u64;
                out.refused += sent.dropped as u64;
                if sent.dropped > 0 {
                    // A port looks for a missing interface when it receives frames.
                    batch.clear();
                    to.receive(0, &mut pool, &mut batch).map_err(|e| Failure::port(&e))?;
                }
                for frame in &burst[..wanted] {
                    if spoiler.is_due() {
                        let sent = to.send(&[spoiler.spoil(frame)]).map_err(|e| Failure::port(&e))?;
                        out.malformed += sent.sent as u64;
                    }
                }
            }
        } else if !closed {
            closed = true;
            last_heard = now;
            let (since, sent, refused, received) = begin.unwrap_or((Duration::ZERO, 0, 0, 0));
            out.seconds = (now - since).as_secs_f64();
            let rate = |count: u64| count as f64 / out.seconds;
            out.sent_pps = rate(out.sent - sent);
            out.offered_pps = out.sent_pps + rate(out.refused - refused);
            out.received_pps = rate(out.received - received);
        } else if now - last_heard > STRAGGLERS {
            return Ok(out);
        }
        // Receives what has arrived meanwhile, up to twice as much as is sent.
        for _ in 0..2 {
            batch.clear();
            from.receive(0, &mut pool, &mut batch).map_err(|e| Failure::port(&e))?;
            if batch.is_empty() {
                break;
            }
            let now = start.elapsed();
            last_heard = now;
            for packet in batch.packets() {
                let bytes = pool.frame(packet);
                let Some(stamp) = bytes.len().checked_sub(STAMP).map(|at| &bytes[at..]) else { continue };
                if stamp[..2] != MARK {
                    continue;
                }
                let word = |at: usize| u64::from_be_bytes(stamp[at..at + 8].try_into().expect("eight bytes"));
                let (number, sent_ns) = (word(2), word(10));
                out.received += 1;
                let next = &mut next_by_flow[(number % flows.len() as u64) as usize];
                out.reordered += u64::from(number < *next);
                *next = (*next).max(number);
                if begin.is_some() {
                    let ns = (now.as_nanos() as u64).saturating_sub(sent_ns).clamp(1, LATENCY_NS_MAX);
                    out.latency_ns.saturating_record(ns);
                }
            }
        }
    }
}

/// True if the generator, rather than what is measured, was the bottleneck: it did not offer the requested rate, or it offered as
/// much as it could and almost every frame came back.
fn is_generator_limited(rate: Option<f64>, out: &Outcome) -> bool {
    let offered = out.sent + out.refused;
    match rate {
        Some(rate) => out.offered_pps < 0.98 * rate,
        None => offered.saturating_sub(out.received) * 100 < offered,
    }
}

fn report(args: &Args, out: &Outcome) -> Result<(), Failure> {
    let lost = out.sent.saturating_sub(out.received);
    let us = |ns: f64| ns / 1e3;
    let quantile = |share: f64| us(out.latency_ns.value_at_quantile(share) as f64);
    let limited = is_generator_limited(args.rate, out);
    if args.json {
        return say!(
            "{}",
            json!({
                "size": out.size, "seconds": out.seconds, "rate": args.rate, "sent": out.sent,
                "not_sent": out.refused, "malformed": out.malformed, "received": out.received, "lost": lost, "reordered": out.reordered,
                "offered_pps": out.offered_pps, "sent_pps": out.sent_pps, "received_pps": out.received_pps,
                "generator_limited": limited,
                "latency_us": {
                    "samples": out.latency_ns.len(), "min": us(out.latency_ns.min() as f64), "p50": quantile(0.5),
                    "p99": quantile(0.99), "p99.9": quantile(0.999), "max": quantile(1.0), "mean": us(out.latency_ns.mean()),
                    "sd": us(out.latency_ns.stdev())
                },
            })
        );
    }
    let percent = 100.0 * lost as f64 / out.sent.max(1) as f64;
    say!(
        "{} bytes: {:.1} kpps sent, {:.1} kpps received ({:.2} Gbit/s); {} of {} lost ({percent:.3} %), {} out of order",
        out.size,
        out.sent_pps / 1e3,
        out.received_pps / 1e3,
        // Includes preamble and gap, as on a wire.
        out.received_pps * (out.size + 20) as f64 * 8.0 / 1e9,
        lost,
        out.sent,
        out.reordered,
    )?;
    if out.refused > 0 {
        say!(
            "{} more frames were refused by the sending port, which had no room for them: {:.1} kpps offered",
            out.refused,
            out.offered_pps / 1e3
        )?;
    }
    if out.received == 0 {
        say!("no frame came back, so latency is unknown")?;
    } else if out.latency_ns.is_empty() {
        say!("no frame came back during the measurement, so latency is unknown")?;
    } else {
        say!(
            "latency: min {:.1} us, mean {:.1} us (sd {:.1}), p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, max {:.1} us",
            us(out.latency_ns.min() as f64),
            us(out.latency_ns.mean()),
            us(out.latency_ns.stdev()),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            quantile(1.0)
        )?;
    }
    if limited {
        say!("the generator was the bottleneck: the switch may be faster")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn frames_are_well_formed() {
        for size in ["64", "1518"] {
            let args = Cli::parse_from(["", "--send", "a", "--receive", "b", "--size", size]).args;
            let frame = frame(&args, 5);
            assert_eq!(frame.len() + 4, args.size as usize);
            let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            assert_eq!(usize::from(u16::from_be_bytes([frame[16], frame[17]])), frame.len() - 14);
            assert_eq!(usize::from(u16::from_be_bytes([frame[38], frame[39]])), frame.len() - 34);
        }
    }

    #[test]
    fn refused_frames_are_offered_but_do_not_come_back() {
        let limited = |rate, sent, refused, received, seconds: f64| {
            let mut out = Outcome::new(64).expect("a histogram");
            (out.sent, out.refused, out.received, out.sent_pps) =
                (sent, refused, received, sent as f64 / seconds);
            out.offered_pps = (sent + refused) as f64 / seconds;
            is_generator_limited(rate, &out)
        };
        // Without a rate: everything came back, the port refused most, the switch lost some.
        assert!(limited(None, 1000, 0, 1000, 1.0));
        assert!(!limited(None, 1000, 2000, 1000, 1.0));
        assert!(!limited(None, 1000, 0, 900, 1.0));
        // With a rate of 1000 frames per second: reached, reached with refused frames, not reached.
        assert!(!limited(Some(1000.0), 1000, 0, 1000, 1.0));
        assert!(!limited(Some(1000.0), 400, 600, 400, 1.0));
        assert!(limited(Some(1000.0), 1000, 0, 1000, 2.0));
    }

    #[test]
    fn flows_are_those_of_a_capture() {
        let file = std::env::temp_dir().join(format!("p4jet-traffic-{}.pcap", std::process::id()));
        let pcap = |lengths: &[u32]| {
            let mut bytes = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
            bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0]);
            for &len in lengths {
                bytes.extend([[0; 4], [0; 4], len.to_le_bytes(), len.to_le_bytes()].concat());
                bytes.resize(bytes.len() + len as usize, len as u8);
            }
            std::fs::write(&file, bytes).expect("written");
            let file = file.display().to_string();
            flows(&Cli::parse_from(["", "--send", "a", "--receive", "b", "--pcap", &file]).args)
        };
        assert_eq!(pcap(&[60, 100]).ok(), Some(vec![vec![60; 60], vec![100; 100]]));
        for wrong in [&[][..], &[60, 59], &[9217]] {
            assert!(matches!(pcap(wrong), Err(Failure::Input(_))), "{wrong:?}");
        }
        std::fs::remove_file(file).expect("removed");
    }

    #[test]
    fn spoilt_frames_can_be_sent_and_are_not_taken_for_others() {
        let args = Cli::parse_from(["", "--send", "a", "--receive", "b"]).args;
        let mut whole = frame(&args, 0);
        let at = whole.len() - STAMP;
        whole[at..at + 2].copy_from_slice(&MARK);
        let mut spoiler = Spoiler::new(0.01);
        let due = (0..100_000).filter(|_| spoiler.is_due()).count();
        assert!((800..1200).contains(&due), "{due}");
        for _ in 0..10_000 {
            let spoilt = spoiler.spoil(&whole);
            assert!((14..=1514).contains(&spoilt.len()) && spoilt != whole);
            assert!(spoilt.len() < STAMP || spoilt[spoilt.len() - STAMP..][..2] != MARK);
        }
        assert!(!Spoiler::new(0.0).is_due());
        assert!(share("1.5").is_err() && share("x").is_err());
    }

    #[test]
    fn wrong_addresses_are_refused() {
        assert_eq!(mac("02:00:00:00:00:0a"), Ok([2, 0, 0, 0, 0, 10]));
        for wrong in ["", "02:00:00:00:00", "02:00:00:00:00:0a:0b", "2:0:0:0:0:a", "02:00:00:00:00:+a"] {
            assert!(mac(wrong).is_err(), "{wrong}");
        }
    }
}
