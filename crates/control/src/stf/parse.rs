//! The grammar of STF.

use super::cursor::Cursor;
use super::{
    Call, Cond, CounterCheck, CounterIndex, Match, MatchValue, Number, Pattern, Statement, StatementKind,
    StfError,
};
use crate::error::count;
use crate::names::unknown;

type Result<T> = std::result::Result<T, StfError>;

/// Reads a script. The error is that of the first wrong line.
pub fn parse(text: &str) -> Result<Vec<Statement>> {
    let mut statements = Vec::new();
    for (text, line) in text.lines().zip(1..) {
        let mut cursor = Cursor::new(text, line);
        if cursor.at_end() {
            continue;
        }
        let kind = statement(&mut cursor)?;
        statements.push(Statement { line, kind });
    }
    Ok(statements)
}

/// Statements that are commands of `simple_switch_CLI` which p4jet has not yet, with their arguments: `N` a name, `n` a
/// number, `n*` any count of numbers, `r*` any count of rates.
const LATER: &[(&str, &str)] = &[
    ("mirroring_add", "nn"),
    ("mirroring_add_mc", "nn"),
    ("mirroring_delete", "n"),
    ("mirroring_get", "n"),
    ("mc_mgrp_create", "n"),
    ("mc_node_create", "nn*"),
    ("mc_node_update", "nn*"),
    ("mc_node_associate", "nn"),
    ("meter_get_rates", "Nn"),
    ("meter_set_rates", "Nnr*"),
    ("meter_array_set_rates", "Nr*"),
];

/// The others.
const KEYWORDS: &[&str] = &[
    "add",
    "setdefault",
    "remove",
    "packet",
    "expect",
    "no_packet",
    "wait",
    "check_counter",
    "counter_read",
    "counter_write",
    "register_read",
    "register_write",
    "register_reset",
];

fn statement(c: &mut Cursor<'_>) -> Result<StatementKind> {
    let start = c.position();
    let Some(keyword) = c.keyword() else {
        return c.expected("a statement such as `add`, `packet` or `expect`");
    };
    let end = c.position();
    let kind = match keyword.as_str() {
        "add" => return add(c),
        "packet" => return packet(c),
        "expect" => return expect(c),
        "setdefault" => {
            let table = c.name("a table name")?;
            StatementKind::SetDefault { table, call: call(c)? }
        }
        "remove" => {
            if !c.eat_word("all") {
                return c.expected("`all`");
            }
            StatementKind::RemoveAll
        }
        "no_packet" => StatementKind::NoPacket,
        "wait" => StatementKind::Wait,
        "check_counter" => check_counter(c)?,
        "counter_read" => {
            let counter = c.name("a counter name")?;
            let index = c.small("an index")?;
            StatementKind::CounterRead { counter, index, check: condition(c)? }
        }
        "counter_write" => {
            let counter = c.name("a counter name")?;
            let index = c.small("an index")?;
            let packets = c.small("a number of packets")?;
            StatementKind::CounterWrite { counter, index, packets, bytes: c.small("a number of bytes")? }
        }
        "register_read" => {
            let register = c.name("a register name")?;
            let index = c.small("an index")?;
            StatementKind::RegisterRead { register, index, check: condition(c)? }
        }
        "register_write" => {
            let register = c.name("a register name")?;
            let index = c.small("an index")?;
            StatementKind::RegisterWrite { register, index, value: c.number("a value")? }
        }
        "register_reset" => StatementKind::RegisterReset { register: c.name("a register name")? },
        other => match LATER.iter().find(|(name, _)| *name == other) {
            Some((_, arguments)) => {
                later_arguments(c, arguments)?;
                StatementKind::Unsupported { command: keyword }
            }
            None => {
                let names = KEYWORDS.iter().copied().chain(LATER.iter().map(|(name, _)| *name));
                let choices = unknown(other, names, "statements are");
                return c.error(start..end, format!("found `{other}`, expected a statement: {choices}"));
            }
        },
    };
    c.end()?;
    Ok(kind)
}

fn add(c: &mut Cursor<'_>) -> Result<StatementKind> {
    let table = c.name("a table name")?;
    let priority = match c.peek() {
        Some('0'..='9') => Some(c.decimal("a priority")?),
        _ => None,
    };
    let mut matches = Vec::new();
    let action = loop {
        let name = c.name("a key field (`name:value`) or an action (`name(…)`)")?;
        if c.eat(":") {
            matches.push(Match { field: name, value: match_value(c)? });
        } else if c.peek() == Some('(') {
            break name;
        } else {
            return c.expected("`:` after a key field or `(` after an action");
        }
    };
    let call = Call { action, args: arguments(c)? };
    let label = if c.eat("=") {
        let label = c.id("a label for the entry")?.text;
        Some(label.strip_prefix('$').unwrap_or(&label).to_string())
    } else {
        None
    };
    c.end()?;
    Ok(StatementKind::Add { table, priority, matches, call, label })
}

fn match_value(c: &mut Cursor<'_>) -> Result<MatchValue> {
    let value = c.number("a value")?;
    Ok(if c.eat("/") {
        MatchValue::Prefix(value, c.small("a prefix length")?)
    } else if c.eat("&&&") {
        MatchValue::Masked(value, c.number("a mask")?)
    } else if c.eat("->") {
        MatchValue::Range(value, c.number("the end of a range")?)
    } else {
        MatchValue::Value(value)
    })
}

fn call(c: &mut Cursor<'_>) -> Result<Call> {
    let action = c.name("an action name")?;
    Ok(Call { action, args: arguments(c)? })
}

fn arguments(c: &mut Cursor<'_>) -> Result<Vec<(Option<super::Name>, Number)>> {
    c.need("(", "`(` and the action's arguments")?;
    let mut args = Vec::new();
    if c.eat(")") {
        return Ok(args);
    }
    loop {
        let name = match c.peek() {
            Some('0'..='9') => None,
            _ => {
                let name = c.id("an argument (`name:value`)")?;
                if !c.eat(":") && !c.eat("=") {
                    return c.expected("`:` and the value of the argument");
                }
                Some(name)
            }
        };
        args.push((name, c.number("the value of the argument")?));
        if c.eat(")") {
            return Ok(args);
        }
        // p4c's own scripts forget a comma here and there.
        if !c.eat(",") && c.at_end() {
            return c.expected("`,` or `)`");
        }
    }
}

fn packet(c: &mut Cursor<'_>) -> Result<StatementKind> {
    let (port, column) = c.port()?;
    c.skip_blanks();
    let start = c.position();
    let (nibbles, _) = c.nibbles(false)?;
    if nibbles.is_empty() {
        return c.expected("the packet's bytes in hex");
    }
    if nibbles.len() % 2 != 0 {
        let message = format!("found {}, expected whole bytes", count(nibbles.len(), "hex digit"));
        return c.error(start..c.position(), message);
    }
    let data =
        nibbles.chunks(2).map(|pair| pair.iter().fold(0, |byte, n| byte << 4 | n.unwrap_or(0))).collect();
    Ok(StatementKind::Packet { port, column, data })
}

fn expect(c: &mut Cursor<'_>) -> Result<StatementKind> {
    let (port, column) = c.port()?;
    let (nibbles, exact) = c.nibbles(true)?;
    let pattern = (exact || !nibbles.is_empty()).then_some(Pattern { nibbles, exact });
    Ok(StatementKind::Expect { port, column, pattern })
}

fn check_counter(c: &mut Cursor<'_>) -> Result<StatementKind> {
    let counter = c.name("a counter name")?;
    c.need("(", "`(` and an index")?;
    let index = match c.peek() {
        Some('0'..='9') => CounterIndex::Number(c.small("an index")?),
        _ => {
            let label = c.id("an index or the label of an entry")?.text;
            CounterIndex::Label(label.strip_prefix('$').unwrap_or(&label).to_string())
        }
    };
    c.need(")", "`)`")?;
    if c.at_end() {
        return Ok(StatementKind::CheckCounter { counter, index, check: None });
    }
    let bytes = if c.eat_word("packets") {
        false
    } else if c.eat_word("bytes") {
        true
    } else {
        return c.expected("`packets` or `bytes`");
    };
    let Some((cond, value)) = condition(c)? else {
        return c.expected("one of `==`, `!=`, `<`, `<=`, `>`, `>=`");
    };
    Ok(StatementKind::CheckCounter { counter, index, check: Some(CounterCheck { bytes, cond, value }) })
}

/// `cond number`, if the statement goes on.
fn condition(c: &mut Cursor<'_>) -> Result<Option<(Cond, u128)>> {
    if c.at_end() {
        return Ok(None);
    }
    // Longer ones first.
    for cond in [Cond::Eq, Cond::Ne, Cond::Le, Cond::Ge, Cond::Lt, Cond::Gt] {
        if c.eat(cond.text()) {
            return Ok(Some((cond, c.plain_number("a number")?)));
        }
    }
    c.expected("one of `==`, `!=`, `<`, `<=`, `>`, `>=`")
}

fn later_arguments(c: &mut Cursor<'_>, shape: &str) -> Result<()> {
    let mut shape = shape.chars().peekable();
    while let Some(kind) = shape.next() {
        let many = shape.next_if_eq(&'*').is_some();
        if many && c.at_end() {
            break;
        }
        loop {
            match kind {
                'N' => drop(c.name("a name")?),
                'r' => rate(c)?,
                _ => drop(c.plain_number("a number")?),
            }
            if !many || c.at_end() {
                break;
            }
        }
    }
    Ok(())
}

/// `0.125:9000`
fn rate(c: &mut Cursor<'_>) -> Result<()> {
    c.decimal("a rate (`rate:burst`)")?;
    if c.eat(".") {
        c.decimal("the fraction of a rate")?;
    }
    c.need(":", "`:` and a burst size")?;
    c.decimal("a burst size")?;
    Ok(())
}
