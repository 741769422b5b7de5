//! Commands that observe a running switch: `stats`, `trace …`, `capture …`.

use super::Reply;
use crate::packet;
use p4jet_control::{ControlError, DryRun, Host, Rights, SharedControl, Stats, parse_value, unknown};
use p4jet_dataplane::{
    BytePattern, Cancel, CaptureInfo, CaptureSpec, FieldPattern, Injected, Outcome, TraceInfo, TraceSpec,
    Traced, Verdict,
};
use p4jet_ir::FieldKind;
use p4jet_suggest::did_you_mean;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// The answer to an observing command.
#[derive(Default)]
pub(crate) struct Observed {
    /// For people: lines.
    pub text: String,
    /// For tools.
    pub data: Value,
}

type Result<T> = std::result::Result<T, ControlError>;

/// Maximum number of lines of `trace packet`.
const TRACE_LINES_MAX: usize = 4000;

fn wrong(why: impl Into<String>) -> ControlError {
    ControlError::new(why)
}

/// Maximum wait of `inject` for copies of the packet, by default and at all.
const INJECT_WAIT_DEFAULT: Duration = Duration::from_secs(1);
const INJECT_WAIT_MS_MAX: u64 = 60_000;

/// The time after `wait=`.
fn wait_of(word: &str) -> Result<Duration> {
    let ms = word.strip_prefix("wait=").and_then(|ms| ms.parse().ok());
    let ms = ms.filter(|ms| *ms <= INJECT_WAIT_MS_MAX);
    ms.map(Duration::from_millis).ok_or_else(|| {
        wrong(format!("found `{word}`, expected wait=0 to wait={INJECT_WAIT_MS_MAX} (milliseconds)"))
    })
}

/// Default number of packets for `trace add`.
const COUNT_DEFAULT: u32 = 1;

/// Runs commands that observe a running switch.
struct Observer<'s> {
    shared: &'s SharedControl,
    host: &'s dyn Host,
}

/// Formats statistics.
fn stats_observed(stats: &Stats) -> Result<Observed> {
    let wrong = |e: serde_json::Error| wrong(e.to_string());
    let data = serde_json::to_value(stats).map_err(wrong)?;
    let text = serde_json::to_string_pretty(&data).map_err(wrong)?;
    Ok(Observed { text: text + "\n", data })
}

/// The answer to `stats`; with `data`, also as JSON.
pub(crate) fn stats_reply(stats: &Stats, data: bool) -> Result<Reply> {
    let observed = stats_observed(stats)?;
    Ok(Reply { data: data.then_some(observed.data), ..observed.text.into() })
}

/// Runs a command, given as words.
pub(crate) fn observe(
    shared: &SharedControl,
    words: &[&str],
    rights: &Rights,
    cancel: &Cancel,
) -> Result<Observed> {
    let observer = Observer { shared, host: shared.host()? };
    observer.command(words, rights, cancel)
}

impl Observer<'_> {
    fn command(&self, words: &[&str], rights: &Rights, cancel: &Cancel) -> Result<Observed> {
        match words {
            ["stats", "on"] => self.count(true, cancel),
            ["stats", "off"] => self.count(false, cancel),
            _ => self.look(words, rights),
        }
    }

    fn look(&self, words: &[&str], rights: &Rights) -> Result<Observed> {
        match words {
            ["stats"] => self.stats(),
            ["stats", word, ..] => {
                let hint = did_you_mean(word, ["on", "off"]);
                Err(wrong(format!("{hint}expected stats, stats on or stats off")))
            }
            ["trace", "add", wanted @ ..] => self.trace_add(wanted),
            ["trace", "list"] => Ok(self.trace_list()),
            ["trace", "show"] => {
                self.trace_show(&self.host.traces().iter().map(|t| t.id).collect::<Vec<_>>())
            }
            ["trace", "show", id] => self.trace_show(&[trace_id(id)?]),
            ["trace", "remove", id] => {
                let id = trace_id(id)?;
                self.host.remove_trace(id)?;
                Ok(Observed { data: json!({"removed": id}), ..Observed::default() })
            }
            ["trace", "packet", port, frame @ ..] if !frame.is_empty() => {
                self.trace_packet(port, &frame.join(" "))
            }
            ["trace", rest @ ..] => Err(wrong(expected(rest, TRACE))),
            ["capture", "start", port, path, options @ ..] => {
                self.host.start_capture(capture_spec(port, path, options).map_err(wrong)?, rights)?;
                Ok(Observed::default())
            }
            ["capture", "stop", port] => Ok(captures(&self.host.stop_captures(port_number(port)?)?)),
            ["capture", "list"] => Ok(captures(&self.host.captures())),
            ["capture", rest @ ..] => Err(wrong(expected(rest, CAPTURE))),
            ["inject", wait, port, frame @ ..] if wait.starts_with("wait=") && !frame.is_empty() => {
                self.inject(port, &frame.join(" "), wait_of(wait)?)
            }
            ["inject", port, frame @ ..] if !frame.is_empty() => {
                self.inject(port, &frame.join(" "), INJECT_WAIT_DEFAULT)
            }
            ["inject", ..] => {
                Err(wrong("expected inject PORT HEX, inject PORT LAYERS or inject PORT CAPTURE"))
            }
            _ => Err(wrong("expected stats, trace, capture or inject")),
        }
    }

    fn inject(&self, port: &str, frame: &str, wait: Duration) -> Result<Observed> {
        let (port, frame) = (port_number(port)?, frame_of(frame)?);
        let bytes = frame.len();
        let Injected { left, more, mut dropped, waits } = self.host.inject(port, frame, wait)?;
        let there: Vec<u32> = self.host.ports().iter().map(|port| port.port).collect();
        let mut text = String::new();
        for (to, bytes) in &left {
            let _ = match there.contains(to) {
                true => writeln!(text, "sent to port {to}: {bytes} bytes"),
                false => writeln!(
                    text,
                    "dropped: the program sent {bytes} bytes to port {to}, which does not exist"
                ),
            };
        }
        if more > 0 {
            let _ = writeln!(text, "further packets that left: {more}");
        }
        for (reason, packets) in &dropped {
            let _ = match packets {
                1 => writeln!(text, "dropped: {reason}"),
                n => writeln!(text, "{n} packets dropped: {reason}"),
            };
        }
        if waits {
            let _ = match wait.as_millis() {
                0 => writeln!(text, "the packet or copies of it still wait"),
                ms => writeln!(text, "copies still wait after {ms} ms"),
            };
        }
        let (left, nowhere): (Vec<_>, Vec<_>) = left.into_iter().partition(|(to, _)| there.contains(to));
        for (to, _) in nowhere {
            *dropped.entry(format!("port {to} does not exist")).or_default() += 1;
        }
        let left: Vec<Value> = left.iter().map(|(to, bytes)| json!({"port": to, "bytes": bytes})).collect();
        let data = json!({
            "port": port, "bytes": bytes, "left": left, "left_more": more, "dropped": dropped, "waits": waits
        });
        Ok(Observed { text, data })
    }

    fn stats(&self) -> Result<Observed> {
        stats_observed(&self.host.stats()?)
    }

    fn count(&self, counted: bool, cancel: &Cancel) -> Result<Observed> {
        self.shared.count(counted, cancel)?;
        Ok(Observed { data: json!({"counted": counted}), ..Observed::default() })
    }

    fn trace_add(&self, wanted: &[&str]) -> Result<Observed> {
        let mut spec = TraceSpec { count: COUNT_DEFAULT, ..TraceSpec::default() };
        for word in wanted {
            let Some((name, value)) = word.split_once('=') else {
                let hint = did_you_mean(word, TRACE_KEYS);
                return Err(wrong(format!(
                    "`{word}`: {hint}expected port=N, FIELD=VALUE, FIELD=VALUE&&&MASK, bytes=AT:HEX or count=N"
                )));
            };
            match name {
                "port" => spec.port = Some(port_number(value)?),
                "count" => {
                    spec.count =
                        value.parse().map_err(|_| wrong(format!("`{value}` is not a number of packets")))?
                }
                "bytes" => spec.bytes.push(byte_pattern(value)?),
                field => spec.fields.push(self.field_pattern(field, value)?),
            }
        }
        let id = self.host.add_trace(spec)?;
        Ok(Observed { text: format!("trace {id}\n"), data: json!({"id": id}) })
    }

    fn field_pattern(&self, field: &str, value: &str) -> Result<FieldPattern> {
        let width = self.host.field_width(field).map_err(|why| self.with_choices(field, why))?;
        let (value, mask) = match value.split_once("&&&") {
            None => (value, None),
            Some((value, mask)) => (value, Some(mask)),
        };
        let value = parse_value(value.trim(), width).map_err(wrong)?;
        let mask = match mask {
            None => p4jet_ir::eval::ones(width),
            Some(mask) => parse_value(mask.trim(), width).map_err(wrong)?,
        };
        Ok(FieldPattern { field: field.to_string(), value, mask })
    }

    /// Adds likely names to the refusal of an unknown field.
    fn with_choices(&self, name: &str, error: ControlError) -> ControlError {
        let is_end = |whole: &String| whole.ends_with(name);
        if error.choices.is_empty() || error.choices.iter().any(is_end) {
            return error;
        }
        let why = &error.message;
        let message = match did_you_mean(name, TRACE_KEYS) {
            hint if hint.is_empty() => {
                let control = self.shared.control();
                let fields = &control.switch().traced_program().fields;
                let fields = fields.iter().filter(|field| matches!(field.kind, FieldKind::Header(_)));
                let names = fields.map(|field| field.name.as_str());
                format!("{why}: {}", unknown(name, names, "its header fields are"))
            }
            hint => format!("{why}: {}", hint.trim_end()),
        };
        ControlError { message, ..error }
    }

    /// Traces a packet through the running switch; nothing is sent or changed.
    fn trace_packet(&self, port: &str, frame: &str) -> Result<Observed> {
        let (port, frame) = (port_number(port)?, frame_of(frame)?);
        let DryRun { switch, trace, outcome } = self.host.trace_packet(port, &frame)?;
        let program = switch.traced_program();
        let mut text = trace.render_shortened(program, TRACE_LINES_MAX);
        let ports = self.host.ports();
        let has_port = |number| ports.iter().any(|port| port.port == number);
        if !has_port(port) {
            let _ = writeln!(text, "note: the switch has no port {port}; no packet arrives there");
        }
        let outcome = match outcome {
            Outcome::Sent { port, frame } => {
                if !has_port(port) {
                    let _ = writeln!(text, "note: the switch has no port {port}; it drops such a packet");
                }
                json!({"outcome": "sent", "port": port, "frame": hex(&frame)})
            }
            Outcome::Dropped { .. } => json!({"outcome": "dropped"}),
            Outcome::Done => json!({"outcome": "done"}),
        };
        Ok(Observed { text, data: json!({"did": outcome, "steps": trace.to_json(program)}) })
    }

    fn trace_list(&self) -> Observed {
        let traces = self.host.traces();
        let mut text = String::new();
        for trace in &traces {
            let TraceInfo { id, spec, taken, missed, kept_bytes: _ } = trace;
            let _ = write!(text, "trace {id}:{} {taken} of {} taken", wanted_text(spec), spec.count);
            if *missed > 0 {
                let _ = write!(text, ", {missed} arrived too fast to be traced");
            }
            text.push('\n');
        }
        let data = traces.iter().map(|t| {
            let wanted = wanted_text(&t.spec).trim().to_string();
            json!({"id": t.id, "wanted": wanted, "count": t.spec.count, "taken": t.taken, "missed": t.missed})
        });
        Observed { text, data: data.collect() }
    }

    fn trace_show(&self, ids: &[u32]) -> Result<Observed> {
        let (mut text, mut data) = (String::new(), Vec::new());
        for id in ids {
            for (packet, number) in self.host.traced(*id)?.iter().zip(1..) {
                let Traced { port, frame, now_us, text: steps, json: steps_json, verdict, agrees } =
                    &**packet;
                let _ = write!(
                    text,
                    "trace {id}, packet {number}: port {port}, {} bytes, {}.{:06} s after the start\n{steps}{}\n",
                    frame.len(),
                    now_us / 1_000_000,
                    now_us % 1_000_000,
                    verdict_text(verdict, *agrees),
                );
                data.push(json!({
                    "trace": id, "packet": number, "port": port, "time_us": now_us, "frame": hex(frame),
                    "did": verdict_json(verdict), "agrees": agrees, "steps": steps_json,
                }));
            }
        }
        if text.is_empty() {
            text = "no packet yet\n".to_string();
        }
        Ok(Observed { text, data: Value::Array(data) })
    }
}

/// Reads the arguments of `--capture` and `capture start`: a port, a file, and options.
pub fn capture_spec(port: &str, path: &str, options: &[&str]) -> std::result::Result<CaptureSpec, String> {
    let mut spec = CaptureSpec::all(port_number(port).map_err(|error| error.message)?, &PathBuf::from(path));
    for option in options {
        match option.split_once('=') {
            None if *option == "both" => (spec.received, spec.sent) = (true, true),
            None if *option == "in" => (spec.received, spec.sent) = (true, false),
            None if *option == "out" => (spec.received, spec.sent) = (false, true),
            Some(("snaplen", n)) => {
                spec.snaplen = Some(n.parse().map_err(|_| format!("`{n}` is not a number of bytes"))?)
            }
            Some(("count", n)) => {
                spec.count = Some(n.parse().map_err(|_| format!("`{n}` is not a number of frames"))?)
            }
            _ => {
                let word = option.split('=').next().unwrap_or(option);
                let hint = did_you_mean(word, CAPTURE_WORDS);
                return Err(format!("`{option}`: {hint}expected in, out, both, snaplen=BYTES or count=N"));
            }
        }
    }
    Ok(spec)
}

fn port_number(text: &str) -> Result<u32> {
    text.parse().map_err(|_| wrong(format!("`{text}` is not a port number")).field("port"))
}

fn trace_id(text: &str) -> Result<u32> {
    text.parse().map_err(|_| wrong(format!("`{text}` is not the number of a trace")).field("trace"))
}

/// The forms of a command: the first word, and the whole form.
type Forms = [(&'static str, &'static str)];
/// Words other than fields that may precede `=` in `trace add`.
const TRACE_KEYS: [&str; 3] = ["port", "bytes", "count"];
/// Words that may follow the file in `capture start`.
const CAPTURE_WORDS: [&str; 5] = ["in", "out", "both", "snaplen", "count"];
const TRACE: &Forms = &[
    ("add", "trace add [port=N] [FIELD=VALUE[&&&MASK]]… [bytes=AT:HEX]… [count=N]"),
    ("list", "trace list"),
    ("show", "trace show [ID]"),
    ("remove", "trace remove ID"),
    ("packet", "trace packet PORT HEX|LAYERS|CAPTURE"),
];
const CAPTURE: &Forms = &[
    ("start", "capture start PORT FILE [in|out|both] [snaplen=BYTES] [count=N]"),
    ("stop", "capture stop PORT"),
    ("list", "capture list"),
];

/// Returns the form that was expected instead of these words: the one with the same start, or any.
fn expected(words: &[&str], forms: &Forms) -> String {
    let found = words.first().copied().unwrap_or("");
    if let Some((_, form)) = forms.iter().find(|(word, _)| *word == found) {
        return format!("expected {form}");
    }
    let names: Vec<&str> = forms.iter().map(|(word, _)| *word).collect();
    let all: Vec<&str> = forms.iter().map(|(_, form)| *form).collect();
    format!("{}expected one of: {}", did_you_mean(found, names), all.join(", "))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|d| d.len() % 2 == 0 && !d.is_empty())?;
    Some(digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect())
}

fn frame_of(text: &str) -> Result<Vec<u8>> {
    let wrong = |why: String| wrong(why).field("frame");
    let frame = packet::frame(text).map_err(wrong)?;
    if frame.is_empty() { Err(wrong("the frame has no bytes".to_string())) } else { Ok(frame) }
}

/// `AT:HEX[/MASK]`
fn byte_pattern(text: &str) -> Result<BytePattern> {
    let wrong = || wrong(format!("bytes={text}: expected AT:HEX or AT:HEX/MASK, such as bytes=12:0800"));
    let (at, bytes) = text.split_once(':').ok_or_else(wrong)?;
    let (value, mask) = match bytes.split_once('/') {
        Some((value, mask)) => (value, Some(mask)),
        None => (bytes, None),
    };
    let value = unhex(value).ok_or_else(wrong)?;
    let mask = match mask {
        None => vec![0xff; value.len()],
        Some(mask) => unhex(mask).filter(|mask| mask.len() == value.len()).ok_or_else(wrong)?,
    };
    Ok(BytePattern { at: at.parse().map_err(|_| wrong())?, value, mask })
}

fn wanted_text(spec: &TraceSpec) -> String {
    let mut text = String::new();
    if let Some(port) = spec.port {
        let _ = write!(text, " port={port}");
    }
    for field in &spec.fields {
        let _ = write!(text, " {}={:#x}&&&{:#x}", field.field, field.value, field.mask);
    }
    for bytes in &spec.bytes {
        let _ = write!(text, " bytes={}:{}/{}", bytes.at, hex(&bytes.value), hex(&bytes.mask));
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn verdict_text(verdict: &Verdict, agrees: bool) -> String {
    let did = match verdict {
        Verdict::Sent { port, frame } => format!("sent {} bytes to port {port}", frame.len()),
        Verdict::Dropped(why) => format!("dropped it: {why}"),
        Verdict::Done => "the packet ended, its copies continued".to_string(),
    };
    match agrees {
        true => format!("the worker did the same: {did}"),
        false => {
            format!("the worker did something else: {did} (tables or registers may have changed meanwhile)")
        }
    }
}

fn verdict_json(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Sent { port, frame } => json!({"outcome": "sent", "port": port, "frame": hex(frame)}),
        Verdict::Dropped(why) => json!({"outcome": "dropped", "reason": why}),
        Verdict::Done => json!({"outcome": "done"}),
    }
}

/// The output of captures as lines.
pub fn captures_text(captures: &[CaptureInfo]) -> String {
    let mut text = String::new();
    for capture in captures {
        let frames = if capture.written == 1 { "frame" } else { "frames" };
        let _ =
            write!(text, "port {}: {} {frames} in {}", capture.port, capture.written, capture.path.display());
        if capture.dropped > 0 {
            let why = if capture.failed.is_some() { "" } else { ": they came too fast" };
            let _ = write!(text, ", {} not written{why}", capture.dropped);
        }
        if let Some(error) = &capture.failed {
            let _ = write!(text, "; {error}");
        }
        text.push('\n');
    }
    text
}

fn captures(captures: &[CaptureInfo]) -> Observed {
    let data = captures.iter().map(|c| {
        json!({
            "port": c.port, "file": c.path.display().to_string(), "written": c.written, "dropped": c.dropped,
            "failed": c.failed.as_ref().map(ToString::to_string),
        })
    });
    Observed { data: data.collect(), text: captures_text(captures) }
}
