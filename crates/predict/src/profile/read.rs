//! Reads the file of a profile and collects all its mistakes.

use super::{
    Architecture, Correction, Economy, Extern, Kind, Limits, Number, Profile, Provenance, Rule, VERSION,
    quoted,
};
use crate::construct::{COUNT_MAX, Construct};
use crate::error::{FROM_ZERO, POSITIVE, SIGNED, expected};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum size of a file in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of a frame in bytes.
pub const FRAME_BYTES_MAX: u32 = 65_535;
/// Maximum number of sizes, of rules and of externs.
const ITEMS_MAX: usize = 1000;
/// Maximum number of mistakes that are shown; the others are counted.
const SHOWN_MAX: usize = 100;
/// Maximum length of a name.
const NAME_MAX: usize = 64;
/// Maximum length of a description, source or note.
const TEXT_MAX: usize = 1000;

/// An error in a profile file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, or the name of a shipped profile.
    pub file: String,
    /// The line, from 1; 0 if the file could not be read.
    pub line: usize,
    /// What was found, what was expected, valid choices.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

/// All errors in a profile file, by line. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = self.0.iter().take(SHOWN_MAX).map(Mistake::to_string).collect();
        if let Some(next) = self.0.get(SHOWN_MAX) {
            lines.push(format!("{}: {} more", next.file, self.0.len() - SHOWN_MAX));
        }
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Mistakes {}

/// Reads a profile from the text of a file, or returns all its mistakes.
pub(super) fn profile(file: &str, text: &str) -> Result<Profile, Mistakes> {
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("found {} bytes, expected at most {FILE_BYTES_MAX}", text.len());
        return Err(Mistakes(vec![Mistake { file: file.to_string(), line: 0, message }]));
    }
    let mut reader = Reader { text, mistakes: Vec::new() };
    let profile = match DeTable::parse(text) {
        Ok(root) => reader.profile(root.get_ref()),
        Err(error) => {
            let message = format!("found invalid TOML: {}", error.message().trim().replace('\n', ", "));
            reader.wrong(error.span().unwrap_or(0..0), message);
            None
        }
    };
    match profile {
        Some(profile) if reader.mistakes.is_empty() => Ok(profile),
        _ => {
            reader.mistakes.sort();
            let (mut line, mut counted) = (1, 0);
            let place = |(start, message): (usize, String)| {
                let passed = &text.as_bytes()[counted..start];
                line += passed.iter().filter(|byte| **byte == b'\n').count();
                counted = start;
                Mistake { file: file.to_string(), line, message }
            };
            Err(Mistakes(reader.mistakes.into_iter().map(place).collect()))
        }
    }
}

/// Reads TOML and collects what is wrong, with places.
struct Reader<'a> {
    text: &'a str,
    /// Where they begin in the text, and what they are.
    mistakes: Vec<(usize, String)>,
}

type Value<'a> = Spanned<DeValue<'a>>;

/// How numbers look in a file.
const NUMBER: &str = r#"a table such as { value = 0.11, provenance = "measured" }"#;

impl Reader<'_> {
    fn wrong(&mut self, span: Range<usize>, message: String) {
        self.mistakes.push((span.start.min(self.text.len()), message));
    }

    /// Reports a value that is not as expected.
    fn unexpected(&mut self, what: &str, value: &Value, expected: &str) {
        let found = match value.get_ref() {
            DeValue::String(text) => format!("the string {}", quoted(&shortened(text))),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            DeValue::Datetime(time) => format!("the time {time}"),
            DeValue::Array(items) => format!("a list of {}", items.len()),
            DeValue::Table(_) => "a table".to_string(),
        };
        self.wrong(value.span(), format!("{what}: found {found}, expected {expected}"));
    }

    /// Checks that a value is a table with only these keys.
    fn table<'v, 'i>(&mut self, what: &str, value: &'v Value<'i>, keys: &[&str]) -> Option<&'v DeTable<'i>> {
        let DeValue::Table(table) = value.get_ref() else {
            let expected = if keys == NUMBER_KEYS {
                NUMBER.to_string()
            } else {
                format!("a table with {}", choices(keys))
            };
            self.unexpected(what, value, &expected);
            return None;
        };
        self.keys(what, table, keys);
        Some(table)
    }

    fn keys(&mut self, what: &str, table: &DeTable, keys: &[&str]) {
        for key in table.keys() {
            if !keys.contains(&&**key.get_ref()) {
                let found = quoted(&shortened(key.get_ref()));
                self.wrong(
                    key.span(),
                    format!("{what}: found the unknown key {found}, expected {}", choices(keys)),
                );
            }
        }
    }

    /// Looks up a key that the table at `span` must have.
    fn required<'v, 'i>(
        &mut self,
        what: &str,
        (table, span): (&'v DeTable<'i>, Range<usize>),
        key: &str,
    ) -> Option<&'v Value<'i>> {
        let found = table.get(key);
        if found.is_none() {
            self.wrong(span, format!("{what}: found no key `{key}`, expected one"));
        }
        found
    }

    fn number(&mut self, what: &str, value: &Value, range: RangeInclusive<f64>) -> Option<Number> {
        let table = self.table(what, value, NUMBER_KEYS)?;
        let place = (table, value.span());
        let found = self.required(what, place.clone(), "value");
        let provenance = self.required(what, place, "provenance");
        let note = table.get("note").and_then(|note| self.text(&format!("{what}: note"), note, TEXT_MAX));
        let value = found.and_then(|found| self.float(&format!("{what}: value"), found, range));
        let what = format!("{what}: provenance");
        let provenance =
            provenance.and_then(|found| self.choice(&what, found, Provenance::ALL, Provenance::name));
        Some(Number { value: value?, provenance: provenance?, note })
    }

    fn float(&mut self, what: &str, value: &Value, range: RangeInclusive<f64>) -> Option<f64> {
        let found = match value.get_ref() {
            DeValue::Integer(_) => integer(value).map(|number| number as f64),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let found = found.filter(|found| range.contains(found));
        if found.is_none() {
            self.unexpected(what, value, &expected(&range));
        }
        found
    }

    fn integer(&mut self, what: &str, value: &Value, range: RangeInclusive<i64>) -> Option<i64> {
        let found = integer(value).filter(|found| range.contains(found));
        if found.is_none() {
            self.unexpected(what, value, &format!("an integer from {} to {}", range.start(), range.end()));
        }
        found
    }

    fn text(&mut self, what: &str, value: &Value, length_max: usize) -> Option<String> {
        let text = value.get_ref().as_str();
        let found = text.filter(|text| !text.is_empty() && text.len() <= length_max);
        if found.is_none() {
            self.unexpected(what, value, &format!("a string of 1 to {length_max} bytes"));
        }
        found.map(str::to_string)
    }

    fn choice<T: Copy>(
        &mut self,
        what: &str,
        value: &Value,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Option<T> {
        let text = value.get_ref().as_str();
        let found = all.iter().copied().find(|choice| text == Some(name(*choice)));
        if found.is_none() {
            let names: Vec<&str> = all.iter().map(|choice| name(*choice)).collect();
            self.unexpected(what, value, &choices(&names));
        }
        found
    }

    fn profile(&mut self, root: &DeTable) -> Option<Profile> {
        const KEYS: &[&str] = &[
            "version",
            "name",
            "description",
            "source",
            "kind",
            "architectures",
            "deviation_us",
            "base_us",
            "cost_us",
            "rules",
            "externs",
            "limits",
            "economy",
            "p4jet",
        ];
        self.keys("profile", root, KEYS);
        let [version, name, kind, base, cost] = ["version", "name", "kind", "base_us", "cost_us"]
            .map(|key| self.required("profile", (root, 0..0), key));
        if let Some(version) = version {
            self.integer("version", version, VERSION..=VERSION);
        }
        let name = name.and_then(|name| self.name(name));
        let kind = kind.and_then(|kind| self.choice("kind", kind, Kind::ALL, Kind::name));
        let base_us = base.map(|base| self.base(base)).unwrap_or_default();
        let cost_us = cost.and_then(|cost| self.costs(cost));
        let mut optional = |key: &str| root.get(key).and_then(|text| self.text(key, text, TEXT_MAX));
        let [description, source] = ["description", "source"].map(&mut optional);
        let architectures =
            root.get("architectures").map(|list| self.architectures(list)).unwrap_or_default();
        let deviation = root.get("deviation_us");
        let deviation_us = deviation.and_then(|found| self.number("deviation_us", found, FROM_ZERO));
        let rules = root.get("rules").map(|rules| self.rules(rules)).unwrap_or_default();
        let externs = root.get("externs").map(|externs| self.externs(externs)).unwrap_or_default();
        let [rate_gbps, constructs, entries] =
            self.optional_numbers(root, "limits", ["rate_gbps", "constructs", "entries"]);
        let [power_w, price_usd] = self.optional_numbers(root, "economy", ["power_w", "price_usd"]);
        let p4jet = root.get("p4jet").and_then(|model| self.p4jet(model));
        Some(Profile {
            name: name?,
            description,
            source,
            kind: kind?,
            architectures,
            deviation_us,
            base_us,
            cost_us: cost_us?,
            rules,
            externs,
            limits: Limits { rate_gbps, constructs, entries },
            economy: Economy { power_w, price_usd },
            p4jet,
        })
    }

    fn name(&mut self, value: &Value) -> Option<String> {
        let name = value.get_ref().as_str().filter(|name| is_name(name));
        if name.is_none() {
            self.unexpected("name", value, &format!("a string of {NAME}"));
        }
        name.map(str::to_string)
    }

    fn base(&mut self, value: &Value) -> BTreeMap<u32, Number> {
        let mut base = BTreeMap::new();
        let DeValue::Table(table) = value.get_ref() else {
            self.unexpected("base_us", value, "a table of frame sizes, such as 1500");
            return base;
        };
        if table.is_empty() || table.len() > ITEMS_MAX {
            let found = table.len();
            self.wrong(
                value.span(),
                format!("base_us: found {found} frame sizes, expected 1 to {ITEMS_MAX}"),
            );
        }
        for (key, value) in table {
            let size = key.get_ref();
            let bytes = size
                .parse()
                .ok()
                .filter(|bytes: &u32| bytes.to_string() == **size && (1..=FRAME_BYTES_MAX).contains(bytes));
            let number = self.number(&format!("base_us {}", shortened(size)), value, POSITIVE);
            match bytes {
                Some(bytes) => base.extend(number.map(|number| (bytes, number))),
                None => {
                    let found = quoted(&shortened(size));
                    let expected = format!("a frame size in bytes from 1 to {FRAME_BYTES_MAX}");
                    self.wrong(key.span(), format!("base_us: found the key {found}, expected {expected}"));
                }
            }
        }
        base
    }

    fn costs(&mut self, value: &Value) -> Option<[Number; 6]> {
        let table = self.table("cost_us", value, &Construct::ALL.map(Construct::name))?;
        let costs = Construct::ALL.map(|construct| {
            let found = self.required("cost_us", (table, value.span()), construct.name())?;
            self.number(&format!("cost_us {construct}"), found, SIGNED)
        });
        let costs: Option<Vec<Number>> = costs.into_iter().collect();
        costs?.try_into().ok()
    }

    fn architectures(&mut self, value: &Value) -> Vec<Architecture> {
        let DeValue::Array(items) = value.get_ref() else {
            self.unexpected("architectures", value, r#"a list such as ["v1model"]"#);
            return Vec::new();
        };
        let mut architectures = Vec::new();
        for item in items.iter() {
            match self.choice("architectures", item, Architecture::ALL, Architecture::name) {
                Some(found) if architectures.contains(&found) => {
                    self.wrong(
                        item.span(),
                        format!("architectures: found `{found}` twice, expected it once"),
                    );
                }
                found => architectures.extend(found),
            }
        }
        architectures
    }

    fn rules(&mut self, value: &Value) -> Vec<Rule> {
        let DeValue::Array(items) = value.get_ref() else {
            self.unexpected("rules", value, "a list, in double brackets as [[rules]]");
            return Vec::new();
        };
        if items.len() > ITEMS_MAX {
            self.wrong(value.span(), format!("rules: found {}, expected at most {ITEMS_MAX}", items.len()));
            return Vec::new();
        }
        let mut rules: Vec<Rule> = Vec::new();
        for item in items.iter() {
            let Some(rule) = self.rule(item) else { continue };
            let key = |rule: &Rule| (rule.construct, rule.above, rule.correction.key());
            if rules.iter().any(|earlier| key(earlier) == key(&rule)) {
                let (construct, above, key) = key(&rule);
                let message =
                    format!("rules: found `{key}` for `{construct}` above {above} twice, expected it once");
                self.wrong(item.span(), message);
            }
            rules.push(rule);
        }
        rules
    }

    fn rule(&mut self, value: &Value) -> Option<Rule> {
        let table = self.table("rules", value, &["construct", "above", "each_us", "once_us"])?;
        let place = (table, value.span());
        let construct = self.required("rules", place.clone(), "construct");
        let above = self.required("rules", place, "above");
        let construct =
            construct.and_then(|found| self.choice("construct", found, &Construct::ALL, Construct::name));
        let above = above.and_then(|found| self.integer("above", found, 0..=COUNT_MAX.into()));
        let correction = match (table.get("each_us"), table.get("once_us")) {
            (Some(each), None) => self.number("each_us", each, SIGNED).map(Correction::Each),
            (None, Some(once)) => self.number("once_us", once, SIGNED).map(Correction::Once),
            (each, _) => {
                let found = if each.is_some() { "both `each_us` and `once_us`" } else { "no correction" };
                let expected = "expected either `each_us` or `once_us`";
                self.wrong(value.span(), format!("rules: found {found}, {expected}"));
                None
            }
        };
        Some(Rule { construct: construct?, above: above?.try_into().ok()?, correction: correction? })
    }

    fn externs(&mut self, value: &Value) -> BTreeMap<String, Extern> {
        let mut externs = BTreeMap::new();
        let DeValue::Table(table) = value.get_ref() else {
            self.unexpected("externs", value, "a table of externs, such as [externs.siphash24]");
            return externs;
        };
        if table.len() > ITEMS_MAX {
            self.wrong(value.span(), format!("externs: found {}, expected at most {ITEMS_MAX}", table.len()));
            return externs;
        }
        for (key, value) in table {
            let name = key.get_ref();
            if !is_name(name) {
                let found = quoted(&shortened(name));
                self.wrong(key.span(), format!("externs: found the name {found}, expected {NAME}"));
                continue;
            }
            let what = format!("externs.{name}");
            let Some(found) = self.table(&what, value, &["rate_gbps", "latency_us"]) else { continue };
            let [rate, latency] = [("rate_gbps", POSITIVE), ("latency_us", FROM_ZERO)].map(|(key, range)| {
                let number = self.required(&what, (found, value.span()), key)?;
                self.number(&format!("{what} {key}"), number, range)
            });
            if let (Some(rate_gbps), Some(latency_us)) = (rate, latency) {
                externs.insert(name.to_string(), Extern { rate_gbps, latency_us });
            }
        }
        externs
    }

    /// The numbers of a section in which each is optional.
    fn optional_numbers<const N: usize>(
        &mut self,
        root: &DeTable,
        section: &str,
        keys: [&str; N],
    ) -> [Option<Number>; N] {
        let table = root.get(section).and_then(|value| self.table(section, value, &keys));
        keys.map(|key| {
            let range = if section == "limits" { POSITIVE } else { FROM_ZERO };
            self.number(&format!("{section} {key}"), table?.get(key)?, range)
        })
    }

    /// The model of p4jet itself, which is kept as it is.
    fn p4jet(&mut self, value: &Value) -> Option<toml::Table> {
        fn is_finite(value: &toml::Value) -> bool {
            match value {
                toml::Value::Float(number) => number.is_finite(),
                toml::Value::Array(items) => items.iter().all(is_finite),
                toml::Value::Table(table) => table.values().all(is_finite),
                _ => true,
            }
        }
        if !matches!(value.get_ref(), DeValue::Table(_)) {
            self.unexpected("p4jet", value, "a table");
            return None;
        }
        // The text is valid TOML, or this reader would not exist.
        let model = self.text.parse::<toml::Table>().ok()?.remove("p4jet")?;
        if !is_finite(&model) {
            self.wrong(
                value.span(),
                "p4jet: found a number that is infinite or NaN, expected finite numbers".to_string(),
            );
        }
        model.try_into().ok()
    }
}

/// The keys of a number.
const NUMBER_KEYS: &[&str] = &["value", "provenance", "note"];
/// What names consist of.
const NAME: &str = "1 to 64 letters, digits, `-` and `_`";

fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

fn integer(value: &Value) -> Option<i64> {
    let number = value.get_ref().as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Lists alternatives: `a`, `b` or `c`.
fn choices(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => "nothing".to_string(),
    }
}

/// The first characters of a text, for messages.
fn shortened(text: &str) -> String {
    const LENGTH: usize = 40;
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}
