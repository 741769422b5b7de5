//! `N@SPEC`: the ports of the command line.

use crate::link::emulate;
use crate::{AfPacketPort, LinkSpec, MemoryPort, PcapPort, Port, PortError, TapPort, XdpPort, share};
use p4jet_files::FileId;
use p4jet_packet::PORT_DROP;
use p4jet_suggest::did_you_mean;
use std::fmt;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// The possible forms, for messages.
const FORMS: &str = "IFNAME, packet:IFNAME, xdp:IFNAME[,queue=Q], tap:NAME, fd:NUM, pcap:IN,OUT or mem";
/// Port kinds with a colon, and those without.
const KINDS: [&str; 6] = ["packet", "xdp", "tap", "fd", "pcap", "mem"];
/// Bytes of an interface name: IFNAMSIZ without the final 0.
const INTERFACE_NAME_MAX: usize = 15;

/// A port of the switch as written on the command line, `N@SPEC`, with its link: `N@SPEC,delay=5ms,…`.
///
/// ```
/// use p4jet_ports::{PortKind, PortSpec};
/// let spec: PortSpec = "1@pcap:in.pcap,".parse().unwrap();
/// assert_eq!(spec.number, 1);
/// assert_eq!(spec.kind, PortKind::Pcap { input: Some("in.pcap".into()), output: None });
/// assert_eq!(spec.to_string(), "1@pcap:in.pcap,");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// The port's number, as the program sees it.
    pub number: u32,
    /// The kind of port.
    pub kind: PortKind,
    /// The link for the frames that it sends.
    pub link: LinkSpec,
}

/// The kind of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// An interface of the kernel through AF_PACKET: `IFNAME` or `packet:IFNAME`.
    Packet(String),
    /// An interface of the kernel through AF_XDP: `xdp:IFNAME[,queue=Q]`.
    Xdp {
        /// The interface.
        interface: String,
        /// One queue of the interface, or all.
        queue: Option<u32>,
    },
    /// A TAP interface to create: `tap:NAME`.
    Tap(String),
    /// A TAP interface whose descriptor this process inherited: `fd:NUM`.
    Descriptor(RawFd),
    /// Capture files: `pcap:IN,OUT`, either may be empty.
    Pcap {
        /// The file to read.
        input: Option<PathBuf>,
        /// The file to write.
        output: Option<PathBuf>,
    },
    /// Receives nothing and stores what is sent: `mem`, for tests.
    Memory,
}

/// Options for opening ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// Maximum number of bytes of a frame to expect: `frame_max` of the pool.
    pub frame_max: usize,
    /// If true, frames in captures have the time of day instead of their number.
    pub wall_clock: bool,
    /// Number of workers that use each port.
    pub workers: usize,
    /// True if only the first of them receives, and the others send.
    pub split: bool,
}

impl Default for PortOptions {
    /// Ethernet frames with 1500 bytes of payload and two VLAN tags, for one worker.
    fn default() -> Self {
        PortOptions { frame_max: 1522, wall_clock: false, workers: 1, split: false }
    }
}

impl std::str::FromStr for PortSpec {
    type Err = PortError;

    fn from_str(text: &str) -> Result<PortSpec, PortError> {
        let wrong = |what: String| PortError::usage(format!("port `{text}`: {what}"));
        let Some((number, spec)) = text.split_once('@') else {
            return Err(wrong(format!("expected N@SPEC, a port number and {FORMS}; for example `0@veth0`")));
        };
        // `parse` would accept a plus sign.
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = match number.parse() {
            Ok(number) if digits && number != PORT_DROP => number,
            _ => {
                return Err(wrong(format!(
                    "`{number}` is not a port number: expected 0 to {}",
                    PORT_DROP - 1
                )));
            }
        };
        let (kind, rest) = spec.split_once(':').map_or((None, spec), |(kind, rest)| (Some(kind), rest));
        let (first, mut options) = match rest.split(',').collect::<Vec<_>>() {
            parts if kind == Some("pcap") => (rest, parts.get(2..).unwrap_or_default().to_vec()),
            mut parts => (parts.remove(0), parts),
        };
        let kind = match kind {
            None if spec.is_empty() => {
                return Err(wrong(format!("nothing after `@`: expected {FORMS}")));
            }
            None if first == "mem" => PortKind::Memory,
            None | Some("packet") => PortKind::Packet(interface(first).map_err(wrong)?),
            Some("tap") => PortKind::Tap(interface(first).map_err(wrong)?),
            Some("fd") => match first.parse() {
                Ok(number) if first.bytes().all(|byte| byte.is_ascii_digit()) => PortKind::Descriptor(number),
                _ => return Err(wrong(format!("`{first}`: expected the number of a descriptor"))),
            },
            Some("xdp") => {
                // Here, `queue=` is a queue of the interface; `depth=` is that of the link.
                let at = options.iter().position(|option| option.starts_with("queue="));
                let number = |option: &str| {
                    option["queue=".len()..].parse().map_err(|_| {
                        wrong(format!("`{option}`: expected the number of a queue of the interface"))
                    })
                };
                let queue = at.map(|at| number(options.remove(at))).transpose()?;
                if let Some(again) = options.iter().find(|option| option.starts_with("queue=")) {
                    return Err(wrong(format!(
                        "`{again}`: a second receive queue; `depth=` sets the queue of the link"
                    )));
                }
                PortKind::Xdp { interface: interface(first).map_err(wrong)?, queue }
            }
            Some("pcap") => match first.split(',').collect::<Vec<_>>()[..] {
                ["", "", ..] => {
                    return Err(wrong("neither an input nor an output file: expected pcap:IN,OUT".into()));
                }
                [input, output, ..] => {
                    let path = |name: &str| (!name.is_empty()).then(|| PathBuf::from(name));
                    PortKind::Pcap { input: path(input), output: path(output) }
                }
                _ => {
                    return Err(wrong(format!(
                        "expected pcap:IN,OUT; `pcap:{first},` only reads the file, `pcap:,{first}` only writes it"
                    )));
                }
            },
            Some(kind) => {
                let hint = did_you_mean(kind, KINDS);
                return Err(wrong(format!(
                    "unknown kind `{kind}`: {hint}expected {FORMS}; an interface whose name has a colon is packet:{spec}"
                )));
            }
        };
        let link = LinkSpec::parse(&options).map_err(wrong)?;
        Ok(PortSpec { number, kind, link })
    }
}

/// Checks that Linux allows this name of an interface.
fn interface(name: &str) -> Result<String, String> {
    // A comma, which Linux allows too, starts the options.
    let allowed = |c: char| !c.is_whitespace() && !c.is_control() && c != '/';
    if name.is_empty() {
        Err("the interface name is empty".into())
    } else if name.len() > INTERFACE_NAME_MAX {
        Err(format!("interface name `{name}` has {} bytes: at most {INTERFACE_NAME_MAX}", name.len()))
    } else if !name.chars().all(allowed) || name == "." || name == ".." {
        Err(format!("`{}` is not an interface name: no space, no `/`", name.escape_debug()))
    } else {
        Ok(name.to_owned())
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}{}", self.number, self.kind, self.link)
    }
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = |path: &Option<PathBuf>| {
            path.as_ref().map_or_else(String::new, |path| path.display().to_string())
        };
        match self {
            // Otherwise the name would be read as something else.
            PortKind::Packet(name) if name == "mem" || name.contains(':') => {
                write!(f, "packet:{name}")
            }
            PortKind::Packet(name) => f.write_str(name),
            PortKind::Xdp { interface, queue: None } => write!(f, "xdp:{interface}"),
            PortKind::Xdp { interface, queue: Some(queue) } => write!(f, "xdp:{interface},queue={queue}"),
            PortKind::Tap(name) => write!(f, "tap:{name}"),
            PortKind::Descriptor(number) => write!(f, "fd:{number}"),
            PortKind::Pcap { input, output } => write!(f, "pcap:{},{}", file(input), file(output)),
            PortKind::Memory => f.write_str("mem"),
        }
    }
}

/// The number, interface and files that a port uses.
#[derive(Clone, Debug)]
pub struct PortUse {
    spec: PortSpec,
    /// The file that it reads, and the one that it writes.
    files: [Option<FileId>; 2],
}

impl PortUse {
    /// What the port `spec` uses. Its files are those of `opened`, which may have other names for them, such as /proc/self/fd/7.
    pub fn new(spec: PortSpec, opened: &PortKind) -> PortUse {
        PortUse { spec, files: opened.files().map(|file| file.and_then(FileId::of)) }
    }

    /// The port's number.
    pub fn number(&self) -> u32 {
        self.spec.number
    }

    /// Checks that a port can run beside others: each number, interface and output file is used once.
    ///
    /// # Errors
    ///
    /// It cannot; the message names both ports.
    pub fn check_beside(&self, others: &[PortUse]) -> Result<(), PortError> {
        let b = &self.spec;
        for PortUse { spec: a, files } in others {
            let same = |what: String| Err(PortError::usage(format!("ports `{a}` and `{b}` {what}")));
            if a.number == b.number {
                return same(format!("have the same number {}", a.number));
            }
            if let (Some(name), Some(other)) = (a.kind.interface(), b.kind.interface())
                && name == other
            {
                return same(format!("are the same interface `{name}`"));
            }
            for (port, written, used) in [(a, &files[1], &self.files), (b, &self.files[1], files)] {
                if written.is_some() && used.contains(written) {
                    let path = port.kind.files()[1].unwrap_or(Path::new("")).display();
                    return same(format!("use the file {path}, which one of them writes"));
                }
            }
        }
        Ok(())
    }
}

/// Checks that the ports of one switch are compatible ([`PortUse::check_beside`]). Returns what they use.
///
/// # Errors
///
/// They are not; the message names both ports.
pub fn check_specs(specs: &[PortSpec]) -> Result<Vec<PortUse>, PortError> {
    let ports: Vec<PortUse> = specs.iter().map(|spec| PortUse::new(spec.clone(), &spec.kind)).collect();
    (1..ports.len()).try_for_each(|i| ports[i].check_beside(&ports[..i]))?;
    Ok(ports)
}

/// Checks that no port reads or writes the file, called `name`, to which a capture writes.
///
/// # Errors
///
/// One does; the message names the file and the port.
pub fn check_capture(name: &Path, file: Option<&FileId>, ports: &[PortUse]) -> Result<(), PortError> {
    let uses = |port: &&PortUse| file.is_some() && port.files.iter().any(|other| other.as_ref() == file);
    match ports.iter().find(uses) {
        None => Ok(()),
        Some(PortUse { spec, .. }) => {
            let name = name.display();
            Err(PortError::usage(format!(
                "a capture to {name} would overwrite a file of port `{spec}`; choose another file"
            )))
        }
    }
}

impl PortKind {
    fn interface(&self) -> Option<&str> {
        match self {
            PortKind::Packet(name) | PortKind::Tap(name) | PortKind::Xdp { interface: name, .. } => {
                Some(name)
            }
            PortKind::Descriptor(_) | PortKind::Pcap { .. } | PortKind::Memory => None,
        }
    }

    /// The file that it reads, and the one that it writes.
    fn files(&self) -> [Option<&Path>; 2] {
        match self {
            PortKind::Pcap { input, output } => [input.as_deref(), output.as_deref()],
            _ => [None, None],
        }
    }
}

/// Opens the port that `spec` describes, and returns a handle for each worker.
///
/// # Errors
///
/// The kind is not supported, the environment refuses, or a capture is wrong; the message starts with the port.
pub fn open(spec: &PortSpec, options: &PortOptions) -> Result<Vec<Box<dyn Port>>, PortError> {
    let handles = open_kind(spec, options)?;
    // So ports differ, and an experiment repeats, even without a seed.
    let seed = u64::from(spec.number);
    Ok(if spec.link.acts() { emulate(handles, &spec.link, seed) } else { handles })
}

fn open_kind(spec: &PortSpec, options: &PortOptions) -> Result<Vec<Box<dyn Port>>, PortError> {
    let workers = options.workers;
    let receivers = if options.split { 1 } else { workers };
    match &spec.kind {
        PortKind::Packet(name) => {
            Ok(boxed(AfPacketPort::open_for(name, options.frame_max, workers, receivers)?))
        }
        PortKind::Xdp { interface, queue } => {
            Ok(boxed(XdpPort::open_for(interface, *queue, options.frame_max, workers, receivers)?))
        }
        PortKind::Tap(name) => Ok(boxed(TapPort::open_for(name, workers, receivers)?)),
        PortKind::Descriptor(number) => Ok(share(Box::new(TapPort::inherit(*number)?), workers)),
        PortKind::Pcap { input, output } => {
            let file = |path: &Option<PathBuf>| path.as_deref().and_then(FileId::of);
            if input.is_some() && output.is_some() && file(input).is_some() && file(input) == file(output) {
                return Err(PortError::usage(format!("port `{spec}`: reads and writes the same file")));
            }
            let port = PcapPort::open(input.as_deref(), output.as_deref(), options.wall_clock)?;
            Ok(share(Box::new(port), workers))
        }
        // There is no other end, so nothing arrives.
        PortKind::Memory => Ok(share(Box::new(MemoryPort::new().0), workers)),
    }
}

/// Converts handles of one kind to handles of any kind.
fn boxed<P: Port + 'static>(handles: Vec<P>) -> Vec<Box<dyn Port>> {
    handles.into_iter().map(|handle| Box::new(handle) as Box<dyn Port>).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<PortSpec, PortError> {
        text.parse()
    }

    #[test]
    fn every_form_parses_and_prints() {
        let pcap = |input: &str, output: &str| PortKind::Pcap {
            input: (!input.is_empty()).then(|| input.into()),
            output: (!output.is_empty()).then(|| output.into()),
        };
        for (text, number, kind) in [
            ("0@veth0", 0, PortKind::Packet("veth0".into())),
            ("511@packet:mem", 511, PortKind::Packet("mem".into())),
            ("4294967294@packet:eth0:1", u32::MAX - 1, PortKind::Packet("eth0:1".into())),
            ("1@veth0@if3", 1, PortKind::Packet("veth0@if3".into())),
            ("2@tap:p4", 2, PortKind::Tap("p4".into())),
            ("2@fd:9", 2, PortKind::Descriptor(9)),
            ("3@xdp:eth0", 3, PortKind::Xdp { interface: "eth0".into(), queue: None }),
            ("3@xdp:eth0,queue=7", 3, PortKind::Xdp { interface: "eth0".into(), queue: Some(7) }),
            ("4@pcap:in.pcap,out.pcap", 4, pcap("in.pcap", "out.pcap")),
            ("4@pcap:in.pcap,", 4, pcap("in.pcap", "")),
            ("4@pcap:,a:b/out.pcap", 4, pcap("", "a:b/out.pcap")),
            ("5@mem", 5, PortKind::Memory),
        ] {
            assert_eq!(parse(text), Ok(PortSpec { number, kind, link: LinkSpec::default() }), "{text}");
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        for text in [
            "0@veth0,delay=5ms,rate=10mbit,depth=100",
            "0@packet:eth0:1,loss=1/100",
            "2@tap:p4,delay=1us",
            "3@xdp:eth0,queue=7,rate=9pps,depth=3",
            "4@pcap:in.pcap,out.pcap,delay=1s",
            "4@pcap:,out.pcap,delay=1s,loss=0.5",
            "5@mem,loss=0.01",
        ] {
            let spec = parse(text).unwrap();
            assert!(spec.link.acts() && spec.to_string() == text, "{spec}");
        }
        assert_eq!(parse("0@mem,rate=9pps,queue=3").unwrap().to_string(), "0@mem,rate=9pps,depth=3");
    }

    #[test]
    fn wrong_values_name_the_expected_ones() {
        for (text, expect) in [
            (
                "veth0",
                "port `veth0`: expected N@SPEC, a port number and IFNAME, packet:IFNAME, xdp:IFNAME[,queue=Q], \
                       tap:NAME, fd:NUM, pcap:IN,OUT or mem; for example `0@veth0`",
            ),
            (
                "0@",
                "port `0@`: nothing after `@`: expected IFNAME, packet:IFNAME, xdp:IFNAME[,queue=Q], tap:NAME, \
                    fd:NUM, pcap:IN,OUT or mem",
            ),
            ("x@veth0", "port `x@veth0`: `x` is not a port number: expected 0 to 4294967294"),
            ("+1@veth0", "port `+1@veth0`: `+1` is not a port number: expected 0 to 4294967294"),
            (
                "4294967295@veth0",
                "port `4294967295@veth0`: `4294967295` is not a port number: expected 0 to 4294967294",
            ),
            (
                "0@dpdk:0",
                "port `0@dpdk:0`: unknown kind `dpdk`: expected IFNAME, packet:IFNAME, \
                          xdp:IFNAME[,queue=Q], tap:NAME, fd:NUM, pcap:IN,OUT or mem; an interface whose name has a colon is \
                          packet:dpdk:0",
            ),
            ("0@fd:-1", "port `0@fd:-1`: `-1`: expected the number of a descriptor"),
            ("0@tap:", "port `0@tap:`: the interface name is empty"),
            (
                "0@a-name-much-too-long",
                "port `0@a-name-much-too-long`: interface name `a-name-much-too-long` has 20 \
                                        bytes: at most 15",
            ),
            ("0@a b", "port `0@a b`: `a b` is not an interface name: no space, no `/`"),
            ("0@pcap:,", "port `0@pcap:,`: neither an input nor an output file: expected pcap:IN,OUT"),
            (
                "0@pcap:a",
                "port `0@pcap:a`: expected pcap:IN,OUT; `pcap:a,` only reads the file, `pcap:,a` only writes \
                          it",
            ),
            (
                "0@pcap:a,b,c",
                "port `0@pcap:a,b,c`: unknown option `c`: expected delay=TIME, jitter=TIME, reorder, loss=P or 1/N, \
                 rate=RATE, queue=N, seed=N",
            ),
            (
                "0@xdp:e,q=1",
                "port `0@xdp:e,q=1`: unknown option `q=1`: expected delay=TIME, jitter=TIME, reorder, loss=P or 1/N, \
                 rate=RATE, queue=N, seed=N",
            ),
            (
                "0@xdp:e,queue=x",
                "port `0@xdp:e,queue=x`: `queue=x`: expected the number of a queue of the interface",
            ),
            (
                "0@xdp:e,queue=1,rate=1bit,queue=9",
                "port `0@xdp:e,queue=1,rate=1bit,queue=9`: `queue=9`: a second receive queue; `depth=` sets the queue of the link",
            ),
            (
                "0@a,delay=5",
                "port `0@a,delay=5`: `delay=5`: expected a time such as `5ms`, with the unit ns, us, ms or s",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.to_string().as_str(), error.exit_status()), (expect, 2));
        }
    }

    #[test]
    fn ports_must_go_together() {
        let check = |texts: &[&str]| {
            let specs: Vec<_> = texts.iter().map(|text| parse(text).unwrap()).collect();
            check_specs(&specs).map(|ports| ports.len()).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["0@a", "1@b", "2@pcap:x,y", "3@pcap:x,", "4@mem", "5@mem"]), Ok(6));
        assert_eq!(check(&["0@pcap:,/dev/null", "1@pcap:,/dev/null"]), Ok(2));
        assert_eq!(check(&["1@a", "1@b"]), Err("ports `1@a` and `1@b` have the same number 1".into()));
        assert_eq!(
            check(&["0@a", "1@packet:a"]),
            Err("ports `0@a` and `1@a` are the same interface `a`".into())
        );
        let error = "ports `0@pcap:,x` and `1@pcap:x,` use the file x, which one of them writes";
        assert_eq!(check(&["0@pcap:,x", "1@pcap:x,"]), Err(error.into()));
        let error = "ports `0@pcap:,x` and `1@pcap:,./x` use the file x, which one of them writes";
        assert_eq!(check(&["0@pcap:,x", "1@pcap:,./x"]), Err(error.into()), "no file x exists yet");
        let ports = ["0@mem", "1@pcap:x,", "2@pcap:,y"].map(|text| parse(text).unwrap());
        let ports = check_specs(&ports).unwrap();
        let check = |name: &str| {
            let path = Path::new(name);
            check_capture(path, FileId::of(path).as_ref(), &ports).map_err(|error| error.to_string())
        };
        assert_eq!(check("z"), Ok(()));
        let error = "a capture to x would overwrite a file of port `1@pcap:x,`; choose another file";
        assert_eq!(check("x"), Err(error.into()));
        assert!(check("./y").is_err());
        assert_eq!(check("/dev/null"), Ok(()));
    }

    #[test]
    fn failures_to_open_name_the_reason() {
        let fail = |text: &str| open(&parse(text).unwrap(), &PortOptions::default()).err().unwrap();
        for spec in ["0@no-such-if", "0@xdp:no-such-if"] {
            let error = fail(spec);
            assert!(
                error.to_string().starts_with("no network interface `no-such-if`; the interfaces here are"),
                "{error}"
            );
            assert_eq!(error.exit_status(), 3);
        }
        assert_eq!(
            fail("0@fd:99999").to_string(),
            "descriptor 99999: Bad file descriptor (os error 9); did the parent pass it on?"
        );
        assert_eq!(fail("0@fd:0").to_string(), "descriptor 0: it does not belong to a TAP interface");
        assert_eq!(fail("0@pcap:/no/such/file,").exit_status(), 1);
        assert_eq!(fail("0@pcap:,/no/such/file").exit_status(), 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_an_answer(text in "[0-9]{0,3}@?(packet:|tap:|fd:|xdp:|pcap:|mem)?[a-z,:@=é ]{0,18}(,(delay|jitter|loss|rate|queue|seed|depth)=[0-9./%a-z]{0,9}|,reorder){0,3}") {
            if let Ok(spec) = parse(&text) {
                prop_assert_eq!(parse(&spec.to_string()), Ok(spec));
            }
        }
    }
}
