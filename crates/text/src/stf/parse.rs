//! The grammar of STF.

use super::cursor::Cursor;
use super::script::{
    Call, Cond, CounterCheck, CounterIndex, Match, MatchValue, Name, Number, Pattern, Statement,
    StatementKind, StfError,
};
use crate::commands::{HostCommand, command_names, is_command};
use p4jet_control::count;
use p4jet_control::names::unknown;

type Result<T> = std::result::Result<T, StfError>;

/// Parses a script. Returns one error for each wrong line.
pub fn parse(text: &str) -> std::result::Result<Vec<Statement>, Vec<StfError>> {
    let (mut statements, mut errors) = (Vec::new(), Vec::new());
    for (text, line) in text.lines().zip(1..) {
        let mut cursor = Cursor::new(text, line);
        if cursor.at_end() {
            continue;
        }
        match statement(&mut cursor) {
            Ok(kind) => statements.push(Statement { line, text: text.to_string(), kind }),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(statements) } else { Err(errors) }
}

/// The statements other than runtime commands.
const KEYWORDS: &[&str] = &[
    "add",
    "setdefault",
    "remove",
    "packet",
    "expect",
    "no_packet",
    "wait",
    "check_counter",
    "check_register",
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
        "wait" => {
            let us = if c.at_end() { None } else { Some(c.decimal("a number of microseconds")?) };
            StatementKind::Wait { us }
        }
        "check_counter" => check_counter(c)?,
        "check_register" => check_register(c)?,
        other if is_command(other) => {
            let column = c.column_of(start);
            let mut words = vec![Name { text: keyword, column }];
            while !c.at_end() {
                words.push(c.word()?);
            }
            return Ok(StatementKind::Command { words });
        }
        other => {
            let names =
                KEYWORDS.iter().copied().chain(command_names().filter(|name| !HostCommand::is_name(name)));
            let choices = unknown(other, names, "statements are");
            return c.error(start..end, format!("found `{other}`, expected a statement: {choices}"));
        }
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

fn arguments(c: &mut Cursor<'_>) -> Result<Vec<(Option<Name>, Number)>> {
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
        // p4c's own scripts omit some commas.
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
    let cond = condition(c)?;
    let value = c.plain_number("a number")?;
    Ok(StatementKind::CheckCounter { counter, index, check: Some(CounterCheck { bytes, cond, value }) })
}

fn check_register(c: &mut Cursor<'_>) -> Result<StatementKind> {
    let register = c.name("a register name")?;
    c.need("(", "`(` and an index")?;
    let index = c.small("an index")?;
    c.need(")", "`)`")?;
    let cond = condition(c)?;
    Ok(StatementKind::CheckRegister { register, index, cond, value: c.number("a number")? })
}

fn condition(c: &mut Cursor<'_>) -> Result<Cond> {
    // Longer ones first.
    for cond in [Cond::Eq, Cond::Ne, Cond::Le, Cond::Ge, Cond::Lt, Cond::Gt] {
        if c.eat(cond.text()) {
            return Ok(cond);
        }
    }
    c.expected("one of `==`, `!=`, `<`, `<=`, `>`, `>=`")
}
