//! Runs the tests of the Python package: mypy and pytest, in a virtual environment under `target`.
//!
//! Needs Python 3.10 or later and, the first time, a package index to install `requirements.txt` from. Without them it prints that it
//! is skipped, unless `P4JET_PYTHON_TESTS=required` makes that a failure, as in CI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The place of the virtual environment and of the package.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

fn main() -> ExitCode {
    let venv = match venv() {
        Ok(venv) => venv,
        Err(why) => {
            println!("SKIPPED: the tests of the Python package: {why}");
            let is_required = std::env::var_os("P4JET_PYTHON_TESTS").is_some_and(|value| value == "required");
            return if is_required { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let package = match stage() {
        Ok(package) => package,
        Err(why) => {
            println!("the package cannot be put together: {why}");
            return ExitCode::FAILURE;
        }
    };
    let run = |module: &[&str]| {
        let mut command = Command::new(venv.join("bin/python"));
        command.arg("-m").args(module).env("PYTHONPATH", &package).env("PYTHONDONTWRITEBYTECODE", "1");
        if let (None, Some(program)) = (std::env::var_os("P4JET"), program()) {
            command.env("P4JET", program);
        }
        // Not in `python`, whose folder `p4jet` lacks the native library.
        command.current_dir(Path::new(PACKAGE).join("tests")).status().is_ok_and(|status| status.success())
    };
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    // Most tests of networks wait: four at a time leave two processors little to idle.
    let mut pytest =
        vec!["pytest", "-q", "-n", "4", "-p", "p4jet.pytest_plugin", "-p", "no:cacheprovider", "."];
    // Like for Rust tests, an argument chooses tests by a part of their name.
    arguments.iter().for_each(|filter| pytest.extend(["-k", filter]));
    let typed = run(&["mypy", "--no-incremental", "--strict", &package.join("p4jet").to_string_lossy()]);
    if typed && run(&pytest) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the virtual environment with the required packages, which it creates if necessary.
fn venv() -> Result<PathBuf, String> {
    let venv = Path::new(FOLDER).join("python-venv");
    let required = Path::new(PACKAGE).join("tests/requirements.txt");
    let installed = venv.join("installed.txt");
    let wanted = fs::read(&required).map_err(|error| format!("{}: {error}", required.display()))?;
    if fs::read(&installed).is_ok_and(|found| found == wanted) {
        return Ok(venv);
    }
    let run = |command: &mut Command, what: &str| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{what}: {error}")),
    };
    let version = ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"];
    run(Command::new("python3").args(version), "they need Python 3.10 or later as `python3`")?;
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv), "`python3 -m venv` fails")?;
    let mut install = Command::new(venv.join("bin/python"));
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(&required);
    run(&mut install, "pip cannot install tests/requirements.txt")?;
    fs::write(&installed, wanted).map_err(|error| format!("{}: {error}", installed.display()))?;
    Ok(venv)
}

/// Puts the package together: its Python files, and the native library that cargo has built for this test. Returns its folder.
fn stage() -> Result<PathBuf, String> {
    let folder = Path::new(FOLDER).join("python");
    let to = folder.join("p4jet");
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    let _ = fs::remove_dir_all(&to);
    let from = Path::new(PACKAGE).join("p4jet");
    copy_folder(&from, &to).map_err(failed(&from))?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let library = this.with_file_name("lib_native.so");
    fs::copy(&library, to.join("_native.abi3.so")).map_err(failed(&library))?;
    Ok(folder)
}

/// Copies a folder with the folders in it, except what Python has compiled.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_file() {
            fs::copy(&path, copy)?;
        } else if path.is_dir() && !path.ends_with("__pycache__") {
            copy_folder(&path, &copy)?;
        }
    }
    Ok(())
}

/// Returns the program p4jet that cargo has built beside this test, for the tests of networks. Without it they are skipped.
fn program() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.parent()?.join("p4jet");
    path.is_file().then_some(path)
}
