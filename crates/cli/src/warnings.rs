//! Options that decide which warnings are shown and which are errors, named like those of p4c.

use crate::failure::Failure;
use p4jet_analysis::warnings::{NAMES, is_name};
use p4jet_suggest as suggest;
use p4jet_syntax::diagnostic::{Diagnostic, Severity};

/// Options about warnings. Each takes names, separated by commas, or means all warnings.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct WarningArgs {
    /// Hide these warnings; without names, all.
    #[arg(
        long = "Wdisable",
        value_name = "NAME,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    disable: Vec<String>,
    /// Turn these warnings into errors; without names, all.
    #[arg(
        long = "Werror",
        value_name = "NAME,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    error: Vec<String>,
    /// Show these warnings as info; without names, all.
    #[arg(long = "Winfo", value_name = "NAME,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    info: Vec<String>,
    /// Show these as warnings, even if another option hides or promotes all.
    #[arg(long = "Wwarn", value_name = "NAME,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    warn: Vec<String>,
}

/// The treatment of warnings.
#[derive(Debug, Default)]
pub struct Levels {
    disable: Names,
    error: Names,
    info: Names,
    warn: Names,
}

#[derive(Debug, Default)]
struct Names {
    all: bool,
    names: Vec<String>,
}

impl WarningArgs {
    /// Reads the options; an unknown name is wrong usage.
    pub fn levels(&self) -> Result<Levels, Failure> {
        Ok(Levels {
            disable: names("--Wdisable", &self.disable)?,
            error: names("--Werror", &self.error)?,
            info: names("--Winfo", &self.info)?,
            warn: names("--Wwarn", &self.warn)?,
        })
    }
}

fn names(option: &str, values: &[String]) -> Result<Names, Failure> {
    let mut names = Names::default();
    for value in values {
        if value.is_empty() {
            names.all = true;
            continue;
        }
        for name in value.split(',') {
            let name = name.trim().replace('_', "-");
            if !is_name(&name) {
                let choices: String =
                    NAMES.iter().map(|(name, about)| format!("\n  {name:<31}{about}")).collect();
                let near = suggest::nearest(&name, NAMES.iter().map(|(name, _)| *name));
                let meant = near.map_or(String::new(), |near| format!(": did you mean `{near}`?"));
                let text = format!("{option}: unknown warning `{name}`{meant}; there are:{choices}");
                return Err(Failure::Usage(text));
            }
            names.names.push(name);
        }
    }
    Ok(names)
}

/// The treatment of a warning by an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Hidden,
    Info,
    Shown,
    Error,
}

impl Levels {
    /// A name takes precedence over an option for all; of options with equal precedence, the milder counts.
    fn level(&self, code: &str) -> Level {
        let named = |names: &Names| names.names.iter().any(|name| name == code);
        let all = |names: &Names| names.all;
        let by = |says: &dyn Fn(&Names) -> bool| {
            let options = [
                (&self.disable, Level::Hidden),
                (&self.info, Level::Info),
                (&self.warn, Level::Shown),
                (&self.error, Level::Error),
            ];
            options.into_iter().find(|(names, _)| says(names)).map(|(_, level)| level)
        };
        by(&named).or_else(|| by(&all)).unwrap_or(Level::Shown)
    }

    /// Drops warnings or turns them into errors.
    pub fn apply(&self, diagnostics: &mut Vec<Diagnostic>) {
        diagnostics.retain(|d| d.severity == Severity::Error || self.level(d.code) != Level::Hidden);
        for diagnostic in diagnostics {
            if diagnostic.severity != Severity::Warning {
                continue;
            }
            match self.level(diagnostic.code) {
                Level::Info => diagnostic.severity = Severity::Info,
                Level::Error => {
                    diagnostic.severity = Severity::Error;
                    let note = format!("the warning `{}` is an error by `--Werror`", diagnostic.code);
                    diagnostic.notes.push(note);
                }
                Level::Hidden | Level::Shown => {}
            }
        }
    }
}
