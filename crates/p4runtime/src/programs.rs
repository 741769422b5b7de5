//! Programs in the forms in which clients send them: the contents of `p4_device_config`, and the wrapper that p4jet's `p4c` writes.
//!
//! The wrapper is JSON, so that clients that expect bmv2's JSON accept it. It holds the program and all files that it includes,
//! except the built-in ones:
//!
//! ```json
//! {"__meta__": {"version": [2, 23], "compiler": "p4jet 0.1.0"}, "program": "basic.p4",
//!  "p4jet": {"format": 1, "main": "basic.p4", "sources": {"basic.p4": "…"}, "include": [], "define": ["X=1"]}}
//! ```

use bytes::Bytes;
use p4jet_control::Source;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::wire::{Fields, Value};

/// Maximum size of a program with the files that it includes.
pub const SOURCE_BYTES_MAX: usize = 16 << 20;

/// The version of the wrapper.
const FORMAT: u32 = 1;

/// The contents of `p4_device_config`.
#[derive(Clone, Debug)]
pub enum DeviceConfig {
    /// It is empty: keep the running program.
    Empty,
    /// A program.
    Program(Source),
}

#[derive(Serialize, Deserialize)]
struct Wrapper {
    #[serde(rename = "__meta__", default)]
    meta: serde_json::Value,
    #[serde(default)]
    program: String,
    p4jet: Wrapped,
}

#[derive(Serialize, Deserialize)]
struct Wrapped {
    format: u32,
    main: String,
    sources: BTreeMap<PathBuf, String>,
    #[serde(default)]
    include: Vec<PathBuf>,
    #[serde(default)]
    define: Vec<String>,
}

/// Wraps a program in JSON.
pub fn wrap(source: &Source) -> String {
    let main = source.path.display().to_string();
    let wrapper = Wrapper {
        meta: serde_json::json!({
            "version": [2, 23],
            "compiler": concat!("p4jet ", env!("CARGO_PKG_VERSION")),
        }),
        program: main.clone(),
        p4jet: Wrapped {
            format: FORMAT,
            main,
            sources: (*source.texts).clone(),
            include: source.include.clone(),
            define: source.define.clone(),
        },
    };
    serde_json::to_string_pretty(&wrapper).unwrap_or_default() + "\n"
}

/// True if a text can only be JSON: no P4 program begins like this.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// What is wrong with JSON that cannot be parsed.
fn broken(error: &serde_json::Error) -> String {
    match error.is_eof() {
        true => format!("incomplete: the JSON ends in the middle ({error})"),
        false => format!("no correct JSON: {error}"),
    }
}

/// Extracts the program from a wrapper; `None` if the text is not a wrapper.
///
/// # Errors
/// The wrapper cannot be used.
pub fn unwrap(text: &str) -> Option<Result<Source, String>> {
    #[derive(Deserialize)]
    struct Any {
        p4jet: Option<serde_json::Value>,
    }
    // Other JSON is parsed only as far as needed.
    if !is_json(text) || !text.contains("\"p4jet\"") {
        return None;
    }
    let wrapped = match serde_json::from_str::<Any>(text) {
        Ok(any) => any.p4jet?,
        Err(error) => return Some(Err(format!("this program of p4jet's p4c is {}", broken(&error)))),
    };
    Some(match serde_json::from_value::<Wrapped>(wrapped) {
        Err(error) => Err(format!("this program of p4jet's p4c cannot be read: {error}")),
        Ok(wrapped) if wrapped.format != FORMAT => Err(format!(
            "this program has format {} of p4jet's p4c, expected {FORMAT}: compile it with the p4c of this p4jet",
            wrapped.format
        )),
        Ok(Wrapped { main, sources, include, define, .. }) => {
            if !sources.contains_key(&PathBuf::from(&main)) {
                Err(format!("this program of p4jet's p4c lacks its main file `{main}`"))
            } else {
                Ok(Source { path: main.into(), texts: Arc::new(sources), include, define })
            }
        }
    })
}

/// Determines the contents of `p4_device_config`.
///
/// # Errors
/// p4jet cannot run it; the text names the format.
pub fn recognise(bytes: &Bytes) -> Result<DeviceConfig, String> {
    let bytes = without_message(bytes);
    if bytes.is_empty() {
        return Ok(DeviceConfig::Empty);
    }
    if bytes.len() > SOURCE_BYTES_MAX {
        return Err(format!("p4_device_config has {} bytes, the limit is {SOURCE_BYTES_MAX}", bytes.len()));
    }
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Err(format!(
            "p4_device_config is no text (it begins with {}): expected a program of p4jet's p4c, or P4 source",
            bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>()
        ));
    };
    if let Some(source) = unwrap(text) {
        return source.map(DeviceConfig::Program);
    }
    if is_json(text) {
        let parsed = serde_json::from_str::<serde::de::IgnoredAny>(text);
        let what = match (parsed, text.contains("\"pipelines\"")) {
            (Err(error), false) => broken(&error),
            (_, true) => "the JSON that p4c writes for bmv2".to_string(),
            (Ok(_), false) => "JSON, but not of p4jet's p4c".to_string(),
        };
        return Err(format!(
            "p4_device_config is {what}; p4jet compiles P4 itself: compile the program with p4jet's p4c \
             (`p4jet p4c`, or a link to p4jet with that name), or send the P4 source"
        ));
    }
    let path = PathBuf::from("p4_device_config.p4");
    let texts = Arc::new(BTreeMap::from([(path.clone(), text.to_string())]));
    Ok(DeviceConfig::Program(Source { path, texts, include: Vec::new(), define: Vec::new() }))
}

/// The field `device_data` of a `p4.tmp.P4DeviceConfig`, which the p4lang tutorials send; other bytes unchanged. JSON and P4
/// text do not begin with the tag of one of its fields.
fn without_message(bytes: &Bytes) -> Bytes {
    const TAGS: [u8; 3] = [1 << 3, 2 << 3 | 2, 3 << 3 | 2];
    if !bytes.first().is_some_and(|first| TAGS.contains(first)) {
        return bytes.clone();
    }
    let mut data = Bytes::new();
    for field in Fields(bytes) {
        match field {
            Some((1, Value::Number(_)) | (2, Value::Bytes(_))) => {}
            Some((3, Value::Bytes(found))) => data = bytes.slice_ref(found),
            _ => return bytes.clone(),
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::put_bytes;

    fn program(bytes: impl Into<Bytes>) -> Result<Source, String> {
        match recognise(&bytes.into())? {
            DeviceConfig::Program(source) => Ok(source),
            DeviceConfig::Empty => Err("empty".into()),
        }
    }

    fn source() -> Source {
        let texts = [("x.p4", "#include \"h.p4\"\n"), ("h.p4", "const bit<8> A = 1; // \"é\"\n")];
        Source {
            path: "x.p4".into(),
            texts: Arc::new(texts.map(|(path, text)| (path.into(), text.to_string())).into()),
            include: vec!["inc".into()],
            define: vec!["X=1".into(), "Y".into()],
        }
    }

    #[test]
    fn p_18_get_returns_a_wrapped_program() {
        let json = wrap(&source());
        assert!(json.starts_with("{\n  \"__meta__\""), "{json}");
        for bytes in [json.clone().into_bytes(), {
            // The form of the tutorials: `reassign`, `extras` and `device_data`.
            let mut message = vec![1 << 3, 1];
            put_bytes(&mut message, 2, b"");
            put_bytes(&mut message, 3, json.as_bytes());
            message
        }] {
            let back = program(bytes).unwrap();
            assert_eq!((back.path, &*back.texts), (source().path, &*source().texts));
            assert_eq!((back.include, back.define), (source().include, source().define));
        }
        let newer = json.replace("\"format\": 1", "\"format\": 2");
        assert!(program(newer.into_bytes()).unwrap_err().contains("expected 1"));
        for end in json.find("\"p4jet\"").unwrap() + 7..json.trim_end().len() {
            let error = program(json.as_bytes()[..end].to_vec()).unwrap_err();
            // Cut in the middle of a character, it is no text.
            let is_text = std::str::from_utf8(&json.as_bytes()[..end]).is_ok();
            let why = if is_text { "this program of p4jet's p4c is incomplete" } else { "is no text" };
            assert!(error.contains(why), "{error}");
        }
        let other = json.replace("\"main\": \"x.p4\"", "\"main\": \"y.p4\"");
        assert!(program(other.into_bytes()).unwrap_err().contains("lacks its main file `y.p4`"));
    }

    #[test]
    fn p_18_other_bytes_are_named() {
        assert!(matches!(recognise(&Bytes::new()), Ok(DeviceConfig::Empty)));
        assert!(matches!(recognise(&Bytes::from_static(b"\x08\x01\x1a\0")), Ok(DeviceConfig::Empty)));
        let text = program(&b"\n// P4\n#include <core.p4>\n"[..]).unwrap();
        assert_eq!(text.texts.len(), 1);
        for (bytes, why) in [
            (&b"{\"program\": \"x.p4\", \"pipelines\": []}"[..], "the JSON that p4c writes for bmv2"),
            (b" {\"a\": 1}", "not of p4jet's p4c"),
            (
                b" {\"a\": 1",
                "is incomplete: the JSON ends in the middle (EOF while parsing an object at line 1",
            ),
            (b" {\"a\": 1;", "is no correct JSON: expected"),
            (b"{\"p4jet\": {}}", "cannot be read: missing field"),
            (b"\x7fELF\xff\xfe", "no text (it begins with 7f454c46fffe)"),
        ] {
            let error = program(bytes).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let error = program(vec![b'x'; SOURCE_BYTES_MAX + 1]).unwrap_err();
        assert!(error.contains("the limit is"), "{error}");
    }
}
