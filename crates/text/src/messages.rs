//! Messages to subscribers: one for each event.

use crate::commands::entry_data;
use num_bigint::BigUint;
use p4jet_control::event::{aged, limbs_of_fields, value_of};
use p4jet_control::value::hex;
use p4jet_control::{PortChange, Subscription, Topics};
use p4jet_dataplane::Notice;
use p4jet_ir::{InstanceKind, Program};
use p4jet_suggest::did_you_mean;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// The names of topics.
pub const TOPICS: [&str; 3] = ["digests", "ageing", "ports"];

/// Parses names of [`TOPICS`]; without any, all topics.
pub fn parse_topics<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Topics, String> {
    let mut topics = Topics::default();
    for name in names {
        match name {
            "digests" => topics.digests = true,
            "ageing" => topics.ageing = true,
            "ports" => topics.ports = true,
            _ => {
                let hint = did_you_mean(name, TOPICS);
                let topics = TOPICS.join(", ");
                return Err(format!("unknown topic `{name}`: {hint}expected {topics}"));
            }
        }
    }
    Ok(if topics == Topics::default() { Topics { digests: true, ageing: true, ports: true } } else { topics })
}

/// Formats topics as names.
pub(crate) fn topic_names(topics: Topics) -> Vec<String> {
    let Topics { digests, ageing, ports } = topics;
    let all = TOPICS.into_iter().zip([digests, ageing, ports]);
    all.filter(|(_, wanted)| *wanted).map(|(name, _)| name.to_string()).collect()
}

/// An event. Values of fields are hexadecimal texts, as in the output of reading commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Message {
    /// The program sent a digest.
    Digest {
        /// Its name: that of the struct, or of the instance.
        name: String,
        /// Its number among the digests of the program, from 1, like bmv2's learn lists.
        list: u32,
        /// Time in microseconds since the switch started.
        time_us: u64,
        /// Its fields, in order.
        fields: Map<String, Value>,
    },
    /// An entry was not hit for its timeout.
    Aged {
        /// The name of its table.
        table: String,
        /// The output of `table_dump_entry`: `handle`, `key`, `action`, `since_hit_ms` and so on.
        #[serde(flatten)]
        entry: Map<String, Value>,
    },
    /// A port has changed.
    Port {
        /// Its number.
        port: u32,
        /// `added`, `removed`, `up`, `down` or `failed`.
        change: String,
        /// The specification of an added port.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// The reason why it is down or failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Messages that the subscriber lost because it read too slowly.
    Lost {
        /// Number of messages.
        messages: u64,
    },
}

impl Message {
    /// Returns the next message of a switch in this process; waits at most this long.
    pub fn next_of(from: &mut Subscription, wait: Duration) -> Option<Message> {
        from.next_as(wait, Message::new, |messages| Message::Lost { messages })
    }

    fn new(notice: &Notice) -> Message {
        match notice {
            Notice::Digest { switch, digest } => {
                digest_message(switch.program(), digest.instance, digest.now_us, &digest.limbs)
            }
            Notice::Aged { switch, table, handle, entry, life } => {
                let program = switch.program();
                let name = program.tables[table.index()].name.clone();
                let state = aged(*handle, entry, *life);
                let entry = entry_data(program, *table, &state);
                Message::Aged { table: name, entry }
            }
            Notice::Port { number, change } => {
                let (name, interface, why) = match change {
                    PortChange::Added(interface) => ("added", Some(interface.clone()), None),
                    PortChange::Removed => ("removed", None, None),
                    PortChange::Up => ("up", None, None),
                    PortChange::Down(why) => ("down", None, Some(why.clone())),
                    PortChange::Failed(why) => ("failed", None, Some(why.clone())),
                };
                Message::Port { port: *number, change: name.into(), interface, why }
            }
        }
    }

    /// The value of a digest's field.
    pub fn field(&self, name: &str) -> Option<BigUint> {
        match self {
            Message::Digest { fields, .. } => number(fields.get(name)?),
            _ => None,
        }
    }

    /// The message as one line of JSON, with its end.
    pub fn to_line(&self) -> String {
        // Texts and numbers always have a JSON form.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

fn number(value: &Value) -> Option<BigUint> {
    BigUint::parse_bytes(value.as_str()?.strip_prefix("0x")?.as_bytes(), 16)
}

fn digest_message(program: &Program, instance: u32, time_us: u64, limbs: &[u64]) -> Message {
    let is_digest = |kind: &InstanceKind| matches!(kind, InstanceKind::Digest { .. });
    let upto = program.instances.iter().take(instance as usize + 1);
    let list = upto.filter(|instance| is_digest(&instance.kind)).count() as u32;
    let mut fields = Map::new();
    let sender = &program.instances[instance as usize];
    if let InstanceKind::Digest { fields: declared } = &sender.kind {
        for (name, width, limbs) in limbs_of_fields(declared, limbs) {
            let value = match limbs {
                // Nearly all values fit in 64 bits.
                [limb] => format!("0x{limb:00$x}", 2 * width.div_ceil(8) as usize),
                _ => format!("0x{}", hex(&value_of(limbs), width)),
            };
            fields.insert(name.to_string(), value.into());
        }
    }
    Message::Digest { name: sender.name.clone(), list, time_us, fields }
}

/// Formats a value as traces do: addresses in their notation, small numbers in decimal.
fn value_text(value: &Value) -> String {
    let digits = value.as_str().map_or(0, |text| text.len().saturating_sub(2));
    match number(value) {
        Some(number) => p4jet_dataplane::value_text(&number, 4 * digits as u32),
        None => value.to_string(),
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Digest { name, fields, .. } => {
                write!(f, "digest {name}:")?;
                fields.iter().try_for_each(|(name, value)| write!(f, " {name}={}", value_text(value)))
            }
            Message::Aged { table, entry } => {
                let number = |name: &str| entry.get(name).and_then(Value::as_u64).unwrap_or(0);
                write!(f, "aged {table} entry {}:", number("handle"))?;
                for field in entry.get("key").and_then(Value::as_array).into_iter().flatten() {
                    let part = |name: &str| field.get(name).filter(|value| !value.is_null());
                    write!(f, " {}=", part("name").and_then(Value::as_str).unwrap_or_default())?;
                    let value = |name: &str| part(name).map_or_else(|| "any".to_string(), value_text);
                    match field.get("match").and_then(Value::as_str) {
                        Some("lpm") => {
                            let length = part("prefix_len").and_then(Value::as_u64).unwrap_or(0);
                            write!(f, "{}/{length}", value("value"))?;
                        }
                        Some("ternary") => write!(f, "{}&&&{}", value("value"), value("mask"))?,
                        Some("range") => write!(f, "{}->{}", value("low"), value("high"))?,
                        _ => f.write_str(&value("value"))?,
                    }
                }
                write!(f, ", no hit for {} ms", number("since_hit_ms"))
            }
            Message::Port { port, change, interface, why } => {
                write!(f, "port {port}: {change}")?;
                let more = interface.as_ref().or(why.as_ref());
                more.map_or(Ok(()), |more| write!(f, ": {more}"))
            }
            Message::Lost { messages: 1 } => f.write_str("lost: 1 message came faster than it was read"),
            Message::Lost { messages } => {
                write!(f, "lost: {messages} messages came faster than they were read")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_as_text_and_as_json() {
        let fields = [("mac", "0x00005e005301"), ("port", "0x0001"), ("ip", "0x0a000207")];
        let fields = fields.map(|(name, value)| (name.to_string(), Value::from(value)));
        let digest = Message::Digest {
            name: "seen_t".into(),
            list: 1,
            time_us: 7,
            fields: fields.into_iter().collect(),
        };
        assert_eq!(digest.field("port"), Some(1u32.into()));
        assert_eq!(digest.field("none"), None);
        assert_eq!(digest.to_string(), "digest seen_t: mac=00:00:5e:00:53:01 port=1 ip=0xa000207 (10.0.2.7)");
        let line = digest.to_line();
        assert_eq!(
            line,
            "{\"event\":\"digest\",\"name\":\"seen_t\",\"list\":1,\"time_us\":7,\"fields\":\
             {\"mac\":\"0x00005e005301\",\"port\":\"0x0001\",\"ip\":\"0x0a000207\"}}\n"
        );
        assert_eq!(serde_json::from_str::<Message>(&line).unwrap(), digest);
        let down = Message::new(&Notice::Port { number: 3, change: PortChange::Down("no carrier".into()) });
        assert_eq!(down.to_string(), "port 3: down: no carrier");
        assert_eq!(
            down.to_line(),
            "{\"event\":\"port\",\"port\":3,\"change\":\"down\",\"why\":\"no carrier\"}\n"
        );
        assert_eq!(
            Message::Lost { messages: 2 }.to_string(),
            "lost: 2 messages came faster than they were read"
        );
    }

    #[test]
    fn digests_as_text() {
        let text = include_str!("../../control/tests/common/sample.ir").replacen(
            "instance ",
            "instance seen digest { a: 9, b: 128, c: 48 }\ninstance ",
            1,
        );
        let program = p4jet_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let switch = p4jet_dataplane::Switch::new(program).unwrap();
        let digest = p4jet_externs::Digest { instance: 0, now_us: 7, limbs: [5, 6, 1, 9].into() };
        let notice = Notice::Digest { switch: std::sync::Arc::clone(&switch), digest };
        assert_eq!(
            Message::new(&notice).to_string(),
            "digest seen: a=5 b=0x10000000000000006 c=00:00:00:00:00:09"
        );
    }
}
