//! Profiles of devices: what each construct costs there, and how reliable each number is.
//!
//! A profile is a TOML file. Delays are in µs, rates in Gbit/s, sizes in bytes, power in W, prices in US dollars.

mod read;

pub use read::{FILE_BYTES_MAX, FRAME_BYTES_MAX, Mistake, Mistakes};

use crate::construct::Construct;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;

/// How a number was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provenance {
    /// It was measured.
    Measured,
    /// It is a parameter of a curve that was fitted to measurements.
    Fitted,
    /// Nobody measured it.
    Assumed,
}

/// Defines the names of an enumeration in profile files.
macro_rules! names {
    ($type:ident: $($variant:ident = $name:literal),+) => {
        impl $type {
            /// All values.
            pub const ALL: &[$type] = &[$($type::$variant),+];

            /// The name in profile files.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

names!(Provenance: Measured = "measured", Fitted = "fitted", Assumed = "assumed");

/// A number of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Its value, in the unit of its key.
    pub value: f64,
    /// How it was obtained.
    pub provenance: Provenance,
    /// Conditions under which it holds.
    pub note: Option<String>,
}

impl Number {
    fn to_toml(&self) -> String {
        let note = self.note.iter().map(|note| format!(", note = {}", quoted(note))).collect::<String>();
        format!("{{ value = {}, provenance = \"{}\"{note} }}", self.value, self.provenance)
    }

    fn to_json(&self) -> Json {
        let mut json = json!({ "value": self.value, "provenance": self.provenance.name() });
        if let Some(note) = &self.note {
            json["note"] = json!(note);
        }
        json
    }
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A switch in software.
    Cpu,
    /// A network processor.
    Npu,
    /// An FPGA.
    Fpga,
    /// A switch with an ASIC.
    Asic,
}

names!(Kind: Cpu = "cpu", Npu = "npu", Fpga = "fpga", Asic = "asic");

/// An architecture of P4 programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    /// v1model.
    V1model,
    /// PSA, which the thesis also calls PISA.
    Psa,
    /// SimpleSumeSwitch.
    Sume,
}

names!(Architecture: V1model = "v1model", Psa = "psa", Sume = "sume");

/// Where the delay is not linear in the count of a construct.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The construct.
    pub construct: Construct,
    /// The rule applies if there are more constructs than this.
    pub above: u32,
    /// What changes.
    pub correction: Correction,
}

/// The change that a [`Rule`] makes.
#[derive(Clone, Debug, PartialEq)]
pub enum Correction {
    /// The cost of each construct beyond `above`, instead of the cost of the first ones, in µs.
    Each(Number),
    /// A cost in addition, once per packet, in µs.
    Once(Number),
}

impl Correction {
    fn number(&self) -> &Number {
        match self {
            Correction::Each(number) | Correction::Once(number) => number,
        }
    }

    /// The key in profile files.
    fn key(&self) -> &'static str {
        match self {
            Correction::Each(_) => "each_us",
            Correction::Once(_) => "once_us",
        }
    }
}

/// An external function, such as a hash.
#[derive(Clone, Debug, PartialEq)]
pub struct Extern {
    /// Its maximum rate in Gbit/s.
    pub rate_gbps: Number,
    /// The delay of one call in µs.
    pub latency_us: Number,
}

/// The device's capacities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Rate of an interface in Gbit/s.
    pub rate_gbps: Option<Number>,
    /// Maximum number of constructs that the device holds.
    pub constructs: Option<Number>,
    /// Maximum number of table entries.
    pub entries: Option<Number>,
}

/// What the device costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Economy {
    /// Power while it is in use, in W.
    pub power_w: Option<Number>,
    /// Price in US dollars.
    pub price_usd: Option<Number>,
}

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Where the numbers are from.
    pub source: Option<String>,
    /// Its kind.
    pub kind: Kind,
    /// The architectures that it runs.
    pub architectures: Vec<Architecture>,
    /// Standard deviation of the service time in µs, the same for all programs (σ_d of §3.12).
    pub deviation_us: Option<Number>,
    /// Delay in µs of a program with one parsed header and one table, by size of the frame in bytes (T_Base of §3.8).
    /// Never empty.
    pub base_us: BTreeMap<u32, Number>,
    /// Cost of each further construct in µs, in the order of [`Construct::ALL`] (a^D of Eq. 4.2).
    pub cost_us: [Number; 6],
    /// Corrections to these costs. At most one of each kind for a construct and count.
    pub rules: Vec<Rule>,
    /// External functions.
    pub externs: BTreeMap<String, Extern>,
    /// Capacities.
    pub limits: Limits,
    /// Power and price.
    pub economy: Economy,
    /// The model of p4jet itself, in ns, if `p4jet profile` wrote this profile.
    pub p4jet: Option<toml::Table>,
}

macro_rules! shipped {
    ($($name:literal),+) => {
        [$(($name, include_str!(concat!("../../../../profiles/", $name, ".toml")))),+]
    };
}

/// The profiles that the binary contains: their names and texts. The first three are those of §3.8, the others those of T5.6.
pub const SHIPPED: [(&str, &str); 7] =
    shipped!("t4p4s", "netfpga-sume", "agilio-cx", "cpu", "npu", "fpga", "asic");

/// The version of the file format.
const VERSION: i64 = 1;

impl Profile {
    /// The shipped profile of this name, or else the profile in the file of this path, whose text `read` returns.
    pub fn find(
        name_or_path: &str,
        read: impl FnOnce(&Path) -> std::io::Result<String>,
    ) -> Result<Profile, Mistakes> {
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
            return Profile::parse(name, text);
        }
        let text = read(Path::new(name_or_path)).map_err(|error| {
            let shipped = SHIPPED.map(|(name, _)| format!("`{name}`")).join(", ");
            let expected = format!("expected the file of a profile, or one of {shipped}");
            let message = format!("cannot read this file: {error}; {expected}");
            Mistakes(vec![Mistake { file: name_or_path.to_string(), line: 0, message }])
        })?;
        Profile::parse(name_or_path, &text)
    }

    /// The shipped profile of this name.
    pub fn shipped_as(name: &str) -> Option<Profile> {
        Profile::shipped().into_iter().find(|profile| profile.name == name)
    }

    /// All shipped profiles.
    pub fn shipped() -> Vec<Profile> {
        SHIPPED
            .iter()
            .map(|(name, text)| Profile::parse(name, text).expect("shipped profiles are valid"))
            .collect()
    }

    /// Reads a profile from the text of a file, or returns all its errors.
    pub fn parse(file: &str, text: &str) -> Result<Profile, Mistakes> {
        read::profile(file, text)
    }

    /// The text of its file, from which [`Profile::parse`] makes the same profile.
    pub fn to_toml(&self) -> String {
        let mut out = format!("version = {VERSION}\nname = {}\n", quoted(&self.name));
        for (key, text) in [("description", &self.description), ("source", &self.source)] {
            if let Some(text) = text {
                let _ = writeln!(out, "{key} = {}", quoted(text));
            }
        }
        let architectures: Vec<String> =
            self.architectures.iter().map(|arch| format!("\"{arch}\"")).collect();
        let _ = writeln!(out, "kind = \"{}\"\narchitectures = [{}]", self.kind, architectures.join(", "));
        for (section, numbers) in self.sections() {
            let _ = match section.split_once(' ') {
                None if section.is_empty() => Ok(()),
                None => writeln!(out, "\n[{section}]"),
                Some((construct, above)) => {
                    writeln!(out, "\n[[rules]]\nconstruct = \"{construct}\"\n{}", above.replace(' ', " = "))
                }
            };
            for (key, number) in numbers {
                let _ = writeln!(out, "{key} = {}", number.to_toml());
            }
        }
        if let Some(model) = &self.p4jet {
            let table = toml::Table::from_iter([("p4jet".to_string(), toml::Value::Table(model.clone()))]);
            out += &format!("\n{}", toml::to_string(&table).expect("a TOML table has a text"));
        }
        out
    }

    /// All numbers by section, in the order of the file. A rule's section is called `add above 6`, that of
    /// `deviation_us` is empty.
    fn sections(&self) -> Vec<(String, Vec<(String, &Number)>)> {
        fn given<'a>(list: &[(&str, &'a Option<Number>)]) -> Vec<(String, &'a Number)> {
            list.iter().filter_map(|(key, number)| Some((key.to_string(), number.as_ref()?))).collect()
        }
        let base = self.base_us.iter().map(|(bytes, number)| (bytes.to_string(), number)).collect();
        let cost = Construct::ALL.map(|construct| (construct.name().to_string(), self.cost(construct)));
        let mut sections = vec![
            (String::new(), given(&[("deviation_us", &self.deviation_us)])),
            ("base_us".to_string(), base),
            ("cost_us".to_string(), cost.to_vec()),
        ];
        sections.extend(self.rules.iter().map(|rule| {
            let number = (rule.correction.key().to_string(), rule.correction.number());
            (format!("{} above {}", rule.construct, rule.above), vec![number])
        }));
        sections.extend(self.externs.iter().map(|(name, found)| {
            let numbers = [("rate_gbps", &found.rate_gbps), ("latency_us", &found.latency_us)];
            (format!("externs.{name}"), numbers.map(|(key, number)| (key.to_string(), number)).to_vec())
        }));
        let limits = &self.limits;
        let limits = [
            ("rate_gbps", &limits.rate_gbps),
            ("constructs", &limits.constructs),
            ("entries", &limits.entries),
        ];
        let economy = [("power_w", &self.economy.power_w), ("price_usd", &self.economy.price_usd)];
        sections.extend([("limits".to_string(), given(&limits)), ("economy".to_string(), given(&economy))]);
        sections.retain(|(_, numbers)| !numbers.is_empty());
        sections
    }

    /// The cost of a construct in µs, before rules.
    pub fn cost(&self, construct: Construct) -> &Number {
        &self.cost_us[construct as usize]
    }

    /// A table of all numbers with their provenance and notes, for users.
    pub fn to_text(&self) -> String {
        let mut out = format!("{} ({})", self.name, self.kind);
        out += &self.description.iter().map(|text| format!(": {text}")).collect::<String>();
        out.push('\n');
        if let Some(source) = &self.source {
            let _ = writeln!(out, "source: {source}");
        }
        let architectures: Vec<&str> = self.architectures.iter().map(|arch| arch.name()).collect();
        if !architectures.is_empty() {
            let _ = writeln!(out, "architectures: {}", architectures.join(", "));
        }
        for (section, numbers) in self.sections() {
            for (key, number) in numbers {
                let key = format!("{section}{}{key}", if section.is_empty() { "" } else { " " });
                let line = format!("  {key:<28} {:>10}  {:<8}", number.value, number.provenance);
                let note = number.note.as_deref().unwrap_or("");
                let _ = writeln!(out, "{}", format!("{line}  {note}").trim_end());
            }
        }
        if self.p4jet.is_some() {
            out += "  p4jet: a model of p4jet itself\n";
        }
        out
    }

    /// Returns the profile as JSON, with the keys of its file.
    pub fn to_json(&self) -> Json {
        let mut json = json!({
            "version": VERSION,
            "name": self.name,
            "description": self.description,
            "source": self.source,
            "kind": self.kind.name(),
            "architectures": self.architectures.iter().map(|arch| arch.name()).collect::<Vec<_>>(),
        });
        let mut rules = Vec::new();
        for rule in &self.rules {
            let number = rule.correction.number().to_json();
            rules.push(json!({ "construct": rule.construct.name(), "above": rule.above, rule.correction.key(): number }));
        }
        let mut externs = serde_json::Map::new();
        for (section, numbers) in self.sections() {
            let mut object = serde_json::Map::new();
            object.extend(numbers.into_iter().map(|(key, number)| (key, number.to_json())));
            match section.strip_prefix("externs.") {
                Some(name) => drop(externs.insert(name.to_string(), Json::Object(object))),
                None if section.is_empty() => json.as_object_mut().expect("it is an object").extend(object),
                // Rules are a list.
                None if section.contains(' ') => {}
                None => json[section] = Json::Object(object),
            }
        }
        json["rules"] = json!(rules);
        json["externs"] = Json::Object(externs);
        if let Some(model) = &self.p4jet {
            json["p4jet"] = json!(model);
        }
        json
    }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "version = 1\nname = \"x\"\nkind = \"npu\"\n[base_us]\n64 = { value = 1, provenance = \"measured\" }\n\
                         [cost_us]\nparse = { value = 1e-1, provenance = \"fitted\" }\n\
                         modify = { value = 1, provenance = \"fitted\" }\ncopy = { value = 1, provenance = \"fitted\" }\n\
                         remove = { value = -1_0, provenance = \"fitted\" }\nadd = { value = 0x10, provenance = \"fitted\" }\n\
                         table = { value = 1, provenance = \"assumed\", note = \"a \\\"b\\\" \\\\ c\" }\n";

    /// Replaces a part of [`SMALL`] and checks the mistakes.
    fn check(from: &str, to: &str, expected: &[&str]) {
        assert!(SMALL.contains(from), "{from}");
        let text = SMALL.replacen(from, to, 1);
        let found = Profile::parse("f.toml", &text).expect_err(&text).to_string();
        assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn shipped_profiles_are_valid_and_survive_a_round_trip() {
        for ((name, text), profile) in SHIPPED.iter().zip(Profile::shipped()) {
            assert_eq!(profile.name, *name);
            assert_eq!(Profile::find(name, |_| unreachable!()).unwrap(), profile);
            assert_eq!(profile.to_toml(), *text);
            let printed = profile.to_text();
            let numbers = text.matches("provenance").count();
            let words = ["measured", "fitted", "assumed"];
            let shown =
                printed.lines().filter(|line| words.iter().any(|word| line.contains(&format!("  {word}"))));
            assert_eq!(shown.count(), numbers, "{printed}");
            assert_eq!(profile.to_json().to_string().matches("provenance").count(), numbers);
        }
    }

    #[test]
    fn an_own_profile_survives_a_round_trip() {
        let model = "\n[p4jet]\nlist = [1, 2.5]\nnote = \"x\"\n\n[p4jet.part]\nns = 3.0\n";
        let externs = "\n[externs.a-b_c]\nrate_gbps = { value = 0.125, provenance = \"assumed\" }\n\
                       latency_us = { value = 0, provenance = \"assumed\" }\n";
        let profile = Profile::parse("f.toml", &format!("{SMALL}{externs}{model}")).unwrap();
        assert_eq!(profile.cost(Construct::Remove).value, -10.0);
        assert_eq!(profile.cost(Construct::Add).value, 16.0);
        assert_eq!(profile.cost(Construct::Table).note.as_deref(), Some("a \"b\" \\ c"));
        assert_eq!(Profile::parse("g.toml", &profile.to_toml()).unwrap(), profile, "{}", profile.to_toml());
        assert!(profile.to_toml().ends_with(model));
    }

    #[test]
    fn mistakes_name_file_line_found_and_expected() {
        check("version = 1", "version = 2", &["f.toml:1: version: found 2, expected an integer from 1 to 1"]);
        check("version = 1\n", "", &["f.toml:1: profile: found no key `version`, expected one"]);
        let names = "expected 1 to 64 letters, digits, `-` and `_`";
        check(
            "\"x\"",
            "\"a b\"",
            &[
                r#"f.toml:2: name: found the string "a b", expected a string of 1 to 64 letters, digits, `-` and `_`"#,
            ],
        );
        check(
            "\"npu\"",
            "\"gpu\"",
            &[r#"f.toml:3: kind: found the string "gpu", expected `cpu`, `npu`, `fpga` or `asic`"#],
        );
        check(
            "kind = \"npu\"",
            "kind = \"npu\"\narchitectures = [\"psa\", \"pisa\", \"psa\"]",
            &[
                r#"f.toml:4: architectures: found the string "pisa", expected `v1model`, `psa` or `sume`"#,
                "f.toml:4: architectures: found `psa` twice, expected it once",
            ],
        );
        let number = r#"expected a table such as { value = 0.11, provenance = "measured" }"#;
        check(
            "{ value = 1, provenance = \"measured\" }",
            "7.45",
            &[&format!("f.toml:5: base_us 64: found 7.45, {number}")],
        );
        for wrong in ["inf", "-inf", "nan", "0", "-1", "1e13"] {
            check(
                "value = 1,",
                &format!("value = {wrong},"),
                &[&format!(
                    "f.toml:5: base_us 64: value: found {wrong}, expected a number from 1e-9 to 1e12"
                )],
            );
        }
        for wrong in ["0", "65536", "064", "-1", "x"] {
            let expected = "expected a frame size in bytes from 1 to 65535";
            let message = format!("f.toml:5: base_us: found the key \"{wrong}\", {expected}");
            check("64 =", &format!("{wrong} ="), &[&message]);
        }
        check(
            "64 = { value = 1, provenance = \"measured\" }\n",
            "",
            &["f.toml:4: base_us: found 0 frame sizes, expected 1 to 1000"],
        );
        check(
            "\"measured\"",
            "\"guessed\"",
            &[
                "f.toml:5: base_us 64: provenance: found the string \"guessed\", expected `measured`, `fitted` or `assumed`",
            ],
        );
        check(
            ", provenance = \"measured\"",
            "",
            &["f.toml:5: base_us 64: found no key `provenance`, expected one"],
        );
        check(
            "parse =",
            "pars =",
            &[
                "f.toml:6: cost_us: found no key `parse`, expected one",
                "f.toml:7: cost_us: found the unknown key \"pars\", \
                 expected `parse`, `modify`, `copy`, `remove`, `add` or `table`",
            ],
        );
        check("[cost_us]", "[cost_us", &["f.toml:6: found invalid TOML: unclosed table, expected `]`"]);
        check(
            "[cost_us]",
            "[externs.\"a b\"]\n[cost_us]",
            &[&format!("f.toml:6: externs: found the name \"a b\", {names}")],
        );
    }

    /// Whatever is missing or damaged in a file, reading ends with an error or a profile.
    #[test]
    fn damaged_files_are_read() {
        for (name, text) in SHIPPED {
            for at in 0..text.len() {
                let _ = Profile::parse(name, &text[..at]);
                for damage in ["\0", "\"", "]", "{", "=", "1", "\n", "é"] {
                    let damaged = format!("{}{damage}{}", &text[..at], &text[at + 1..]);
                    let Err(mistakes) = Profile::parse(name, &damaged) else { continue };
                    let lines = 1 + damaged.lines().count();
                    assert!(
                        mistakes.0.iter().all(|mistake| (1..=lines).contains(&mistake.line)),
                        "{mistakes}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_documented_profile_is_valid() {
        let document = include_str!("../../../../docs/predict.md");
        let text = document.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let profile = Profile::parse("predict.md", text).unwrap();
        let shipped = Profile::shipped_as("agilio-cx").unwrap();
        assert_eq!((profile.base_us, profile.deviation_us), (shipped.base_us, shipped.deviation_us));
        assert_eq!(profile.cost_us, shipped.cost_us);
        assert_eq!(profile.rules.len(), shipped.rules.len());
    }

    /// The time grows with the size of the file, not with its square.
    #[test]
    fn many_mistakes_are_counted() {
        let keys: String = (0..100_000).map(|key| format!("k{key}=1\n")).collect();
        let mistakes = Profile::parse("f.toml", &keys).unwrap_err();
        assert_eq!(mistakes.0.len(), 100_005);
        assert_eq!(mistakes.0.last().unwrap().line, 100_000);
        let text = mistakes.to_string();
        assert_eq!(text.lines().count(), 101);
        assert!(text.ends_with("\nf.toml: 99905 more"), "{text}");
    }

    #[test]
    fn rules_are_checked() {
        let add = |rules: &str, expected: &[&str]| check("[base_us]", &format!("{rules}[base_us]"), expected);
        let each = "each_us = { value = 1, provenance = \"fitted\" }\n";
        let rule = format!("[[rules]]\nconstruct = \"add\"\nabove = 6\n{each}");
        add(
            &format!("{rule}{rule}"),
            &["f.toml:8: rules: found `each_us` for `add` above 6 twice, expected it once"],
        );
        let none = "[[rules]]\nconstruct = \"add\"\nabove = 6\n";
        add(none, &["f.toml:4: rules: found no correction, expected either `each_us` or `once_us`"]);
        let both = format!("{rule}once_us = {{ value = 1, provenance = \"fitted\" }}\n");
        add(
            &both,
            &["f.toml:4: rules: found both `each_us` and `once_us`, expected either `each_us` or `once_us`"],
        );
        let negative = rule.replace("= 6", "= -1");
        add(&negative, &["f.toml:6: above: found -1, expected an integer from 0 to 100000"]);
        add(
            "[rules]\n",
            &["f.toml:4: rules: found a table, expected a list, in double brackets as [[rules]]"],
        );
    }

    #[test]
    fn missing_files_list_the_shipped_profiles() {
        let error =
            Profile::find("no/such.toml", |path| std::fs::read_to_string(path)).unwrap_err().to_string();
        assert!(error.starts_with("no/such.toml: cannot read this file: No such file"), "{error}");
        assert!(
            error.contains("expected the file of a profile, or one of `t4p4s`, `netfpga-sume`"),
            "{error}"
        );
        let own = Profile::find("own.toml", |_| Ok(SMALL.to_string())).unwrap();
        assert_eq!(own.name, "x");
        let large = "#".repeat(1 + FILE_BYTES_MAX as usize);
        let error = Profile::parse("f.toml", &large).unwrap_err().to_string();
        assert_eq!(error, "f.toml: found 1048577 bytes, expected at most 1048576");
    }
}
