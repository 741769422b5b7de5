//! Commands about the switch as a whole, which need a running switch.

use super::super::list;
use super::{Line, Parsed, number, split};

/// A command for the [`Host`](p4jet_control::Host).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HostCommand<'a> {
    ShowPorts,
    PortAdd {
        number: u32,
        spec: &'a str,
        /// The file for its frames.
        capture: Option<&'a str>,
    },
    PortRemove(u32),
    /// Compiles a program and runs it.
    Load(&'a str),
    /// Compiles a program for [`HostCommand::Swap`].
    LoadAside(&'a str),
    Swap,
    Stop,
    /// Observes packets; with the words of the command.
    Observe(Vec<&'a str>),
}

impl<'a> HostCommand<'a> {
    /// True for a command that a running switch does and a packet test does not.
    pub(crate) fn is_name(name: &str) -> bool {
        Self::NAMES.contains(&name) || matches!(name, "restore" | "serialize_state")
    }

    /// The names of all.
    pub(crate) const NAMES: [&'static str; 11] = [
        "capture",
        "inject",
        "load",
        "load_new_config_file",
        "port_add",
        "port_remove",
        "show_ports",
        "stats",
        "stop",
        "swap_configs",
        "trace",
    ];

    /// True if a line compiles a program, which takes a while.
    pub(crate) fn compiles(line: &str) -> bool {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("load" | "load_new_config_file") => true,
            Some("stats") => words.next().is_some(),
            _ => false,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            HostCommand::ShowPorts => "show_ports",
            HostCommand::PortAdd { .. } => "port_add",
            HostCommand::PortRemove(_) => "port_remove",
            HostCommand::Load(_) => "load",
            HostCommand::LoadAside(_) => "load_new_config_file",
            HostCommand::Swap => "swap_configs",
            HostCommand::Stop => "stop",
            HostCommand::Observe(words) => {
                Self::NAMES.iter().find(|name| words.first() == Some(name)).copied().unwrap_or("stats")
            }
        }
    }

    /// The objects that the command uses.
    pub(crate) fn touches(&self) -> list::Touches {
        list::find(self.name()).map_or(list::Touches::State, |spec| spec.touches)
    }

    /// Parses a line that is such a command.
    pub(crate) fn parse(line: &'a str) -> Option<Parsed<HostCommand<'a>>> {
        let name = Self::NAMES.iter().find(|name| line.split_ascii_whitespace().next() == Some(name))?;
        let mut tokens = Vec::new();
        split(line, &mut tokens);
        let line = Line { spec: list::find(name)?, tokens: &tokens, end: line.trim_end().len() };
        Some(Self::of(&line))
    }

    fn of(line: &Line<'_, 'a>) -> Parsed<HostCommand<'a>> {
        // The check makes the cast exact.
        let port = |at| {
            number(line.get(at, "a port number")?, "a port number", u64::from(u32::MAX)).map(|n| n as u32)
        };
        let path = || line.get(1, "the path of a program").map(|token| token.text);
        if matches!(line.spec.name, "capture" | "inject" | "stats" | "trace") {
            return Ok(HostCommand::Observe(line.tokens.iter().map(|token| token.text).collect()));
        }
        let (command, words) = match line.spec.name {
            "show_ports" => (HostCommand::ShowPorts, 1),
            "port_add" => {
                let spec = line.get(1, "an interface")?.text;
                let capture = line.tokens.get(3).map(|token| token.text);
                (HostCommand::PortAdd { number: port(2)?, spec, capture }, 3 + usize::from(capture.is_some()))
            }
            "port_remove" => (HostCommand::PortRemove(port(1)?), 2),
            "load" => (HostCommand::Load(path()?), 2),
            "load_new_config_file" => (HostCommand::LoadAside(path()?), 2),
            "swap_configs" => (HostCommand::Swap, 1),
            "stop" => (HostCommand::Stop, 1),
            other => unreachable!("command {other} is listed but not parsed"),
        };
        line.ends_after(words)?;
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_listed_and_parsed() {
        for name in HostCommand::NAMES {
            let line = match name {
                // The host checks the arguments.
                "capture" | "inject" | "stats" | "trace" => continue,
                "port_add" => format!("{name} veth0 3 a.pcap"),
                "port_remove" => format!("{name} 3"),
                name if name.starts_with("load") => format!("{name} a.p4"),
                name => name.to_string(),
            };
            assert_eq!(HostCommand::parse(&line).unwrap().unwrap().name(), name);
            assert!(HostCommand::parse(&format!("{line} more")).unwrap().is_err(), "{line}");
        }
        assert!(HostCommand::parse("table_add").is_none());
        assert!(HostCommand::parse("# stop").is_none());
        let error = HostCommand::parse("port_add veth0 x").unwrap().unwrap_err();
        assert_eq!(error.span, Some(15..16));
    }
}
