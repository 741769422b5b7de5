//! The protocol of control connections: one JSON object per line, one answer per request, in order.
//!
//! ```text
//! {"command":"table_num_entries ipv4_lpm","data":true}    {"ok":true,"output":"2\n","data":2}
//! {"commands":["table_add …","table_add …"]}               {"ok":true,"output":"","commands":2,"entries_added":2}
//! {"write":[{"insert":{"table":"t","key":["1"],"do":{"action":"a"}}}]}   {"ok":true,"output":"","results":[{"handle":0}]}
//! {"read":{"entries":{"table":"t"}},"from":0,"max":100}    {"ok":true,"output":"","records":[{"entry":{…}}],"next":100}
//! {"schema":true}                                          {"ok":true,"output":"","schema":{"program":"r","tables":[…],…}}
//! {"stats":true}                                           {"ok":true,"output":"","stats":{"received":7,…}}
//! {"restore":["{\"state\":…}","…"]}                         {"ok":true,"output":""}
//! {"load":"/x/r.p4","files":{"/x/r.p4":"…"}}               {"ok":true,"output":"kept: …\n"}
//! {"complete":"table_add ipv","position":13}               {"ok":true,"output":"","start":10,"choices":["ingress.ipv4_lpm"]}
//! {"subscribe":["digests"]}                                {"ok":true,"output":""} and then a message a line
//! {"command":"table_delete ipv4_lpm 7"}                    {"ok":false,"output":"…","error":{"kind":"wrong","text":"…",…}}
//! ```

use crate::commands::{LoadSummary, Reply};
use crate::error::{LineError, LoadError};
use crate::messages::{parse_topics, topic_names};
use p4jet_control::record::Record;
use p4jet_control::{
    Atomicity, ControlError, Description, ErrorKind, INVALID_ARGUMENT, NamedSelector, NamedUpdate, PAGE_MAX,
    Stats, Written,
};
use p4jet_dataplane::Topics;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A request of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// One command; with `data`, the results of a reading command are also returned as JSON.
    Command {
        /// The command.
        line: String,
        /// True to return data.
        data: bool,
    },
    /// A batch of updates.
    Write {
        /// The updates.
        updates: Vec<NamedUpdate>,
        /// The effect of a refused update on the others.
        atomicity: Atomicity,
    },
    /// One page of the objects that a selector chooses.
    Read {
        /// The selector.
        selector: NamedSelector,
        /// The place where the page begins: 0, or [`Answer::next`] of the page before.
        from: u64,
        /// The largest number of objects in the page.
        max: usize,
    },
    /// The objects of the program with their shapes.
    Schema,
    /// The statistics of the switch.
    Stats,
    /// A file of commands: all of it or nothing.
    Load {
        /// The commands, one per line.
        text: String,
        /// The file's name, for errors.
        name: String,
    },
    /// Replaces the whole configuration by the output of `dump`: all or nothing.
    Restore {
        /// One record per line.
        text: String,
    },
    /// Loads a program by its text.
    Program {
        /// The path of the program among the texts.
        path: PathBuf,
        /// The program and the files that it includes.
        texts: BTreeMap<PathBuf, String>,
        /// True if `swap_configs` activates it.
        aside: bool,
    },
    /// The possible completions in a line.
    Complete {
        /// The line.
        line: String,
        /// The position in bytes.
        position: usize,
    },
    /// Subscribes to events: one [`crate::Message`] per line, and no more requests.
    Subscribe {
        /// The topics.
        topics: Topics,
    },
}

/// A request in the form of the wire.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object with the fields of a request")]
struct Fields {
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    data: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<Lines>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<Updates>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<NamedSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    schema: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stats: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    restore: Option<Lines>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<BTreeMap<PathBuf, String>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    aside: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscribe: Option<Vec<String>>,
}

impl Request {
    /// Parses a request. The error is for its sender.
    pub fn parse(line: &[u8]) -> Result<Request, String> {
        let mut fields: Fields = serde_json::from_slice(line).map_err(|error| not_a_request(line, &error))?;
        if let Some(names) = fields.subscribe.take() {
            if fields != Fields::default() {
                return Err("not a request: `subscribe` allows no other field".into());
            }
            let topics = parse_topics(names.iter().map(String::as_str));
            return topics
                .map(|topics| Request::Subscribe { topics })
                .map_err(|e| format!("not a request: {e}"));
        }
        if let Some(path) = fields.load.take() {
            let (files, aside) = (fields.files.take(), std::mem::take(&mut fields.aside));
            if fields != Fields::default() {
                return Err("not a request: `load` allows only `files` and `aside`".into());
            }
            let Some(texts) = files.filter(|files| files.contains_key(&path)) else {
                return Err("not a request: `files` has no text under the name in `load`".into());
            };
            return Ok(Request::Program { path, texts, aside });
        }
        if fields.files.is_some() || fields.aside {
            return Err("not a request: `files` and `aside` need `load`".into());
        }
        if let Some(Updates(updates)) = fields.write.take() {
            let atomicity = match fields.atomic.take() {
                Some(false) => Atomicity::ContinueOnError,
                Some(true) | None => Atomicity::AllOrNothing,
            };
            if fields != Fields::default() {
                return Err("not a request: `write` allows only `atomic`".into());
            }
            return Ok(Request::Write { updates, atomicity });
        }
        if let Some(selector) = fields.read.take() {
            let (from, max) = (fields.from.take().unwrap_or(0), fields.max.take().unwrap_or(PAGE_MAX));
            if fields != Fields::default() {
                return Err("not a request: `read` allows only `from` and `max`".into());
            }
            return Ok(Request::Read { selector, from, max });
        }
        if fields.from.is_some() || fields.max.is_some() {
            return Err("not a request: `from` and `max` need `read`".into());
        }
        let (schema, stats) = (std::mem::take(&mut fields.schema), std::mem::take(&mut fields.stats));
        if schema || stats {
            return match (schema, fields == Fields::default()) {
                (true, true) if !stats => Ok(Request::Schema),
                (false, true) => Ok(Request::Stats),
                _ => Err("not a request: `schema` and `stats` allow no other field".into()),
            };
        }
        match fields {
            Fields { command: None, data: false, commands: None, restore: Some(Lines(text)), name: None, atomic: None, complete: None, position: None, .. } => {
                Ok(Request::Restore { text })
            }
            Fields { restore: Some(_), .. } => Err("not a request: `restore` allows no other field".into()),
            Fields { command: Some(line), data, commands: None, restore: None, name: None, atomic: None, complete: None, position: None, .. } => {
                Ok(Request::Command { line, data })
            }
            Fields { atomic: Some(false), .. } => {
                Err("not a request: several commands run all or none; send one request for each".into())
            }
            Fields { command: None, data: false, commands: Some(Lines(text)), name, complete: None, position: None, .. } => {
                Ok(Request::Load { text, name: name.unwrap_or_else(|| "commands".into()) })
            }
            Fields { command: None, data: false, commands: None, restore: None, name: None, atomic: None, complete: Some(line), position, .. } => {
                let position = position.unwrap_or(line.len());
                Ok(Request::Complete { line, position })
            }
            _ => Err("not a request: expected `command` (and `data`), `commands` (and `name`, `atomic`), `write` (and `atomic`), \
                      `read` (and `from`, `max`), `schema`, `stats`, `restore`, \
                      `load` (and `files`, `aside`), `complete` (and `position`) or `subscribe`"
                .into()),
        }
    }

    /// The request as one line without a line end.
    pub fn to_line(&self) -> String {
        let fields = match self {
            Request::Command { line, data } => {
                Fields { command: Some(line.clone()), data: *data, ..Fields::default() }
            }
            Request::Load { text, name } => Fields {
                commands: Some(Lines(text.clone())),
                name: Some(name.clone()),
                atomic: Some(true),
                ..Fields::default()
            },
            Request::Write { updates, atomicity } => Fields {
                write: Some(Updates(updates.clone())),
                atomic: Some(*atomicity == Atomicity::AllOrNothing),
                ..Fields::default()
            },
            Request::Read { selector, from, max } => Fields {
                read: Some(selector.clone()),
                from: Some(*from),
                max: Some(*max),
                ..Fields::default()
            },
            Request::Schema => Fields { schema: true, ..Fields::default() },
            Request::Stats => Fields { stats: true, ..Fields::default() },
            Request::Restore { text } => Fields { restore: Some(Lines(text.clone())), ..Fields::default() },
            Request::Program { path, texts, aside } => Fields {
                load: Some(path.clone()),
                files: Some(texts.clone()),
                aside: *aside,
                ..Fields::default()
            },
            Request::Complete { line, position } => {
                Fields { complete: Some(line.clone()), position: Some(*position), ..Fields::default() }
            }
            Request::Subscribe { topics } => {
                Fields { subscribe: Some(topic_names(*topics)), ..Fields::default() }
            }
        };
        // Texts and numbers always have a JSON form.
        serde_json::to_string(&fields).unwrap_or_default()
    }
}

/// Maximum length of a path in an error.
const PATH_MAX: usize = 200;

/// The error of a line that is no request, with the path of the wrong field. The line is parsed once more to find the path, because
/// recording it would slow down every request.
fn not_a_request(line: &[u8], error: &serde_json::Error) -> String {
    let mut again = serde_json::Deserializer::from_slice(line);
    let found = serde_path_to_error::deserialize::<_, Fields>(&mut again);
    let path = found.err().map(|error| error.path().to_string());
    match path.filter(|path| path != "." && path.len() <= PATH_MAX) {
        Some(path) => format!("not a request: {path}: {error}"),
        None => format!("not a request: {error}"),
    }
}

/// Lines of text: an array on the wire, but one text here, because millions of short texts would take many times their length.
#[derive(PartialEq)]
struct Lines(String);

impl Serialize for Lines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lines = serializer.serialize_seq(None)?;
        for line in self.0.lines() {
            lines.serialize_element(line)?;
        }
        lines.end()
    }
}

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lines, D::Error> {
        struct Join;
        impl<'de> Visitor<'de> for Join {
            type Value = Lines;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of lines")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut lines: A) -> Result<Lines, A::Error> {
                let mut text = String::new();
                while let Some(line) = lines.next_element::<String>()? {
                    if line.contains('\n') {
                        return Err(A::Error::custom("a line has no line end"));
                    }
                    text += &line;
                    text.push('\n');
                }
                Ok(Lines(text))
            }
        }
        deserializer.deserialize_seq(Join)
    }
}

/// Updates of a request, at most [`UPDATES_MAX`] of them.
#[derive(PartialEq, Serialize)]
struct Updates(Vec<NamedUpdate>);

/// Maximum number of updates in a request: a short one takes ten times its text in memory.
const UPDATES_MAX: usize = 500_000;
/// Updates that are parsed between two checks for memory.
const UPDATES_CHECKED: usize = 1024;
/// Memory that must be free for each of them.
const UPDATE_BYTES: usize = 4096;

impl<'de> Deserialize<'de> for Updates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Updates, D::Error> {
        struct Bounded;
        impl<'de> Visitor<'de> for Bounded {
            type Value = Updates;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of updates")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Updates, A::Error> {
                let mut updates: Vec<NamedUpdate> = Vec::new();
                // serde names Rust types, which are meaningless to clients.
                let named = |error: A::Error| {
                    let text = error.to_string();
                    let text = match text.split_once("struct variant NamedUpdate::") {
                        Some((before, after)) => {
                            let after = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
                            format!("{before}an object with the fields of the update{after}")
                        }
                        None => text,
                    };
                    A::Error::custom(text)
                };
                loop {
                    // An update of few bytes takes many times their number, beyond what was checked for the text.
                    if updates.len().is_multiple_of(UPDATES_CHECKED)
                        && (updates.try_reserve(UPDATES_CHECKED).is_err()
                            || p4jet_threads::check_mappable(UPDATES_CHECKED * UPDATE_BYTES).is_err())
                    {
                        return Err(A::Error::custom("no memory for the updates of this request"));
                    }
                    let next = elements.next_element().map_err(named)?;
                    let Some(update) = next else { break };
                    if updates.len() == UPDATES_MAX {
                        return Err(A::Error::custom(format_args!("expected at most {UPDATES_MAX} updates")));
                    }
                    updates.push(update);
                }
                Ok(Updates(updates))
            }
        }
        deserializer.deserialize_seq(Bounded)
    }
}

/// The result of an update of a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateResult {
    /// The handle of the created object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<u32>,
    /// The refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<WireError>,
}

impl From<(Written, Option<String>)> for Answer {
    fn from((written, note): (Written, Option<String>)) -> Answer {
        let ok = written.in_effect && written.results.iter().all(Result::is_ok);
        let result = |result: Result<Option<u32>, ControlError>| match result {
            Ok(handle) => UpdateResult { handle, error: None },
            Err(error) => UpdateResult { handle: None, error: Some(error.into()) },
        };
        Answer { ok, note, results: written.results.into_iter().map(result).collect(), ..Answer::default() }
    }
}

/// The answer of the switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// True if the request succeeded.
    pub ok: bool,
    /// The output of the commands.
    pub output: String,
    /// The refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<WireError>,
    /// Notes, for standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The results of a reading command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The results of the updates of a batch, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<UpdateResult>,
    /// The records of a page, which may have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<Vec<Record>>,
    /// The place where the next page begins; none after the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The objects of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Box<Description>>,
    /// The statistics of the switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Box<Stats>>,
    /// Number of executed commands of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<usize>,
    /// Entries that they added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries_added: Option<usize>,
    /// The start of the word to complete, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<usize>,
    /// The possible words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// An error in an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WireError {
    /// `wrong`, `unsupported`, or `request` if the request was not understood.
    pub kind: String,
    /// The message.
    pub text: String,
    /// A stable code ([`ControlError::code`]), such as `TABLE_FULL`. `None` for `INVALID_ARGUMENT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The object that refused, by its name in the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// The part of the change that is wrong ([`ControlError::field`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The valid choices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The bytes of the command to which it refers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<(usize, usize)>,
    /// The line of a file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl WireError {
    pub(crate) fn request(text: impl Into<String>) -> WireError {
        WireError { kind: "request".into(), text: text.into(), ..WireError::default() }
    }

    /// The error of a command.
    pub(crate) fn into_command_error(self) -> ControlError {
        let error = match self.kind.as_str() {
            "unsupported" => ControlError::unsupported(self.text),
            _ => ControlError::new(self.text),
        };
        ControlError {
            code: self.code.map_or(error.code, Into::into),
            entity: self.entity.map(Into::into),
            field: self.field.map(Into::into),
            choices: self.choices.into(),
            ..error
        }
    }

    /// The error of a line of commands.
    pub(crate) fn into_line_error(self) -> LineError {
        let span = self.span.map(|(start, end)| start..end);
        let ControlError { message, code, entity, field, choices, .. } = self.into_command_error();
        LineError { message, code, entity, field, choices, span }
    }
}

impl From<LineError> for WireError {
    fn from(error: LineError) -> WireError {
        let span = error.span.clone().map(|span| (span.start, span.end));
        WireError { span, ..ControlError::from(error).into() }
    }
}

impl From<ControlError> for WireError {
    fn from(error: ControlError) -> WireError {
        let kind = match error.kind() {
            ErrorKind::Wrong => "wrong",
            ErrorKind::Unsupported => "unsupported",
        };
        WireError {
            kind: kind.into(),
            text: error.message,
            code: Some(error.code.into()).filter(|code| code != INVALID_ARGUMENT),
            entity: error.entity.map(Into::into),
            field: error.field.map(Into::into),
            choices: error.choices.into(),
            span: None,
            line: None,
        }
    }
}

impl Answer {
    /// A refusal.
    pub(crate) fn refused(error: WireError) -> Answer {
        Answer { error: Some(error), ..Answer::default() }
    }

    /// The answer as one line with a line end.
    pub fn to_line(&self) -> String {
        // Texts and numbers always have a JSON form.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer {
            ok: reply.refused.is_none(),
            output: reply.text,
            error: reply.refused.map(WireError::from),
            note: reply.note,
            data: reply.data,
            ..Answer::default()
        }
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        let refused = answer.error.map(WireError::into_line_error);
        Reply { text: answer.output, note: answer.note, refused, data: answer.data }
    }
}

impl From<Result<LoadSummary, LoadError>> for Answer {
    fn from(loaded: Result<LoadSummary, LoadError>) -> Answer {
        match loaded {
            Ok(summary) => Answer {
                ok: true,
                output: summary.output,
                note: summary.note,
                commands: Some(summary.commands),
                entries_added: Some(summary.entries_added),
                ..Answer::default()
            },
            Err(error) => Answer::refused(WireError { line: Some(error.line), ..(*error.error).into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_and_what_is_none() {
        let command = |line: &str, data| Ok(Request::Command { line: line.into(), data });
        assert_eq!(Request::parse(br#"{"command":"help"}"#), command("help", false));
        for (second, expected) in [
            (
                r#"{"delete":{"table":"t","entry":"x"}}"#,
                "write[1].delete.entry: expected an entry: its handle, `{\"made\": N}`",
            ),
            (
                r#"{"delete_group":{"profile":"t","group":[]}}"#,
                "write[1].delete_group.group: expected a handle, or",
            ),
            (
                r#"{"clear":5}"#,
                "write[1].clear: invalid type: integer `5`, expected an object with the fields of the update",
            ),
            (r#"{"cleer":{"table":"t"}}"#, "write[1]: unknown variant `cleer`, expected one of `insert`"),
            (
                r#"{"insert":{"table":"t","key":["1",2],"do":{"action":"a"}}}"#,
                "write[1].insert.key[1]: invalid type: integer `2`, expected a string",
            ),
            (
                r#"{"insert":{"table":"t","key":["1"],"do":{"action":5}}}"#,
                "write[1].insert.do.action: invalid type: integer `5`, expected a string",
            ),
            (r#"{"insert":{"table":"t","key":["1"]}}"#, "write[1].insert: missing field `do`"),
        ] {
            let line = format!(r#"{{"write":[{{"clear":{{"table":"t"}}}},{second}]}}"#);
            let error = Request::parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("untagged") && !error.contains("struct"), "{error}");
        }
        assert_eq!(Request::parse(br#"{"data":true,"command":"a\tb"}"#), command("a\tb", true));
        let load = Request::Load { text: "a\n\nb\n".into(), name: "f".into() };
        assert_eq!(Request::parse(br#"{"commands":["a","","b"],"atomic":true,"name":"f"}"#), Ok(load));
        let complete = Request::Complete { line: "ta".into(), position: 2 };
        assert_eq!(Request::parse(br#"{"complete":"ta"}"#), Ok(complete));
        for (line, why) in [
            (&b"POST / HTTP/1.1"[..], "expected value"),
            (b"", "EOF"),
            (b"[]", "expected `command`"),
            (b"{}", "expected `command`"),
            (br#"{"command":1}"#, "expected a string"),
            (br#"{"command":"a","commands":[]}"#, "expected `command`"),
            (br#"{"commands":["a"],"atomic":false}"#, "send one request for each"),
            (br#"{"commands":["a\nb"]}"#, "a line has no line end"),
            (br#"{"load":"a.p4","files":{"a.p4":5}}"#, "files.a.p4: invalid type"),
            (br#"{"shell":"ls"}"#, "unknown field `shell`"),
            (br#"{"load":"a.p4"}"#, "`files` has no text under the name in `load`"),
            (br#"{"load":"a.p4","files":{"b.p4":""}}"#, "`files` has no text"),
            (br#"{"load":"a.p4","files":{"a.p4":""},"data":true}"#, "only"),
            (br#"{"command":"load a.p4","files":{"a.p4":""}}"#, "need `load`"),
            (br#"{"subscribe":["weather"]}"#, "unknown topic `weather`"),
            (br#"{"subscribe":[],"data":true}"#, "allows no other field"),
            (br#"{"read":{"entries":{}}}"#, "read.entries: missing field `table`"),
            (br#"{"read":{"entires":{"table":"t"}}}"#, "unknown variant `entires`"),
            (br#"{"read":{"nodes":{}},"data":true}"#, "`read` allows only"),
            (br#"{"from":0}"#, "need `read`"),
            (br#"{"schema":true,"stats":true}"#, "allow no other field"),
            (br#"{"stats":true,"command":"help"}"#, "allow no other field"),
            (b"{\"command\":\"\xff\"}", "unicode"),
        ] {
            let error = Request::parse(line).unwrap_err();
            assert!(error.starts_with("not a request: ") && error.contains(why), "{line:?}: {error}");
        }
        // Nesting takes no stack.
        assert!(Request::parse("[".repeat(1 << 20).as_bytes()).is_err());
        assert!(Request::parse(format!("{{\"data\":{}", "[".repeat(1 << 20)).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = Request::parse(&bytes);
        }

        #[test]
        fn no_json_panics(text in r#"\{("(command|commands|data|atomic|complete|position|name|subscribe)":(true|1|"a"|\["a"\]|null),?){0,4}\}"#) {
            let _ = Request::parse(text.as_bytes());
        }

        #[test]
        fn requests_come_through(line: String, data: bool, lines in "([^\n\r]*\n){0,5}", position: usize) {
            for request in [
                Request::Command { line: line.clone(), data },
                Request::Load { text: lines.clone(), name: line.clone() },
                Request::Restore { text: lines.clone() },
                Request::Complete { line: line.clone(), position },
                Request::Program {
                    path: (&line).into(),
                    texts: [((&line).into(), lines.clone()), ("x".into(), line.clone())].into(),
                    aside: data,
                },
                Request::Read {
                    selector: NamedSelector::Entries { table: line.clone() },
                    from: position as u64,
                    max: position,
                },
                Request::Schema,
                Request::Stats,
                Request::Subscribe { topics: Topics { digests: data, ageing: true, ports: !data } },
            ] {
                prop_assert!(!request.to_line().contains('\n'));
                prop_assert_eq!(Request::parse(request.to_line().as_bytes()), Ok(request));
            }
        }
    }
}
