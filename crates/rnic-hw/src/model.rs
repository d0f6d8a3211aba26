//! Runs Verilog as a program: Verilator translates a bench into C++, and a child process executes it.

use crate::tools::{HwError, Tool, run};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// The C++ program that drives a bench.
const DRIVER: &str = include_str!("bench.cpp");

/// A bench in Verilog: a module with the ports `clk`, `in_valid`, `in`, `out_valid` and `out`, where `in` and `out` are
/// vectors of more than two 32-bit words.
#[derive(Clone, Debug)]
pub struct Design {
    /// Name of the bench's module.
    pub top: &'static str,
    /// Source files, as (name, text).
    pub files: Vec<(String, String)>,
    /// Parameters of the bench.
    pub parameters: Vec<(&'static str, u64)>,
    /// Words of `in` and of `out`.
    pub words: (usize, usize),
}

impl Design {
    /// Writes the source files into `folder` and returns their paths.
    pub(crate) fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, HwError> {
        let write = |(name, text): &(String, String)| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(HwError::io(format!("cannot write `{}`", path.display())))?;
            Ok(path)
        };
        self.files.iter().map(write).collect()
    }
}

fn temporary() -> Result<TempDir, HwError> {
    tempfile::tempdir().map_err(HwError::io("cannot make a temporary folder"))
}

/// The C++ compiler, and Verilator's library, which is compiled once per process.
#[derive(Debug)]
struct Compiler {
    program: PathBuf,
    /// Folder of Verilator's headers.
    include: PathBuf,
    vcd: bool,
    library: Vec<PathBuf>,
}

impl Compiler {
    fn of(verilator: &Path, vcd: bool) -> Result<Compiler, HwError> {
        static LIBRARIES: Mutex<BTreeMap<bool, TempDir>> = Mutex::new(BTreeMap::new());
        let program = Tool::Compiler.find()?;
        let root = run("verilator", Command::new(verilator).args(["--getenv", "VERILATOR_ROOT"]))?;
        let include = Path::new(root.trim()).join("include");
        let mut compiler = Compiler { program, include, vcd, library: Vec::new() };
        // After a panic in another thread, the map still contains only complete entries.
        let mut libraries = LIBRARIES.lock();
        let parts: &[&str] = if vcd {
            &["verilated", "verilated_threads", "verilated_vcd_c"]
        } else {
            &["verilated", "verilated_threads"]
        };
        let folder = match libraries.entry(vcd) {
            Entry::Occupied(folder) => folder.into_mut(),
            Entry::Vacant(place) => {
                let folder = temporary()?;
                for part in parts.iter().filter(|part| compiler.include.join(format!("{part}.cpp")).exists()) {
                    let source = compiler.include.join(format!("{part}.cpp"));
                    let object = folder.path().join(format!("{part}.o"));
                    run("g++", compiler.command(&compiler.include).arg("-c").arg(source).arg("-o").arg(object))?;
                }
                place.insert(folder)
            }
        };
        let objects = parts.iter().map(|part| folder.path().join(format!("{part}.o")));
        compiler.library = objects.filter(|object| object.exists()).collect();
        Ok(compiler)
    }

    /// The compiler with its options. A bench runs for less time than its compilation takes; with optimisation level 2
    /// the compilation of a long pipeline takes three times as long.
    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-O1", "-w", "-std=c++17", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TRACE_FST=0"]);
        command.args([format!("-DVM_TRACE={}", u8::from(self.vcd)), format!("-DVM_TRACE_VCD={}", u8::from(self.vcd))]);
        command.arg("-I").arg(folder).arg("-I").arg(&self.include).arg("-I").arg(self.include.join("vltstd"));
        command
    }

    /// Compiles `sources` as one unit and links them with Verilator's library.
    fn link(&self, folder: &Path, sources: &[PathBuf], to: &Path) -> Result<(), HwError> {
        let all = folder.join("all.cpp");
        let text: String = sources.iter().map(|source| format!("#include \"{}\"\n", source.display())).collect();
        fs::write(&all, text).map_err(HwError::io("cannot write into a temporary folder"))?;
        let mut command = self.command(&folder.join("obj"));
        run("g++", command.arg(all).args(&self.library).args(["-pthread", "-o"]).arg(to)).map(|_| ())
    }
}

/// A compiled bench.
#[derive(Debug)]
pub struct Model {
    folder: TempDir,
    words: (usize, usize),
    name: &'static str,
}

impl Model {
    /// Translates and compiles a bench. With `vcd`, the bench can write waveforms, which makes it slower.
    ///
    /// # Errors
    /// A program is not installed, or refuses the Verilog.
    pub fn build(design: &Design, vcd: bool) -> Result<Model, HwError> {
        let verilator = Tool::Verilator.find()?;
        let compiler = Compiler::of(&verilator, vcd)?;
        let folder = temporary()?;
        let files = design.write(folder.path())?;
        let driver = folder.path().join("bench.cpp");
        fs::write(&driver, DRIVER).map_err(HwError::io("cannot write into a temporary folder"))?;
        let generated = folder.path().join("obj");
        let mut command = Command::new(verilator);
        command.args(["--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "-Wno-fatal", "-Wno-lint"]);
        command.args(["--prefix", "Vbench", "--top-module", design.top, "--Mdir"]).arg(&generated);
        if vcd {
            command.arg("--trace");
        }
        command.args(design.parameters.iter().map(|(name, value)| format!("-G{name}={value}")));
        run("verilator", command.args(files))?;
        let sources = fs::read_dir(&generated).map_err(HwError::io("cannot read a temporary folder"))?;
        let paths = sources.filter_map(|entry| Some(entry.ok()?.path()));
        let mut sources: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "cpp")).collect();
        sources.sort();
        sources.push(driver);
        compiler.link(folder.path(), &sources, &folder.path().join("bench"))?;
        Ok(Model { folder, words: design.words, name: design.top })
    }

    /// Starts the bench. With `vcd`, the bench writes its signals into this file.
    ///
    /// # Errors
    /// The program cannot be started, or the file cannot be written.
    pub fn start(&self, vcd: Option<&Path>) -> Result<Bench, HwError> {
        if let Some(path) = vcd {
            fs::File::create(path).map_err(HwError::io(format!("cannot write `{}`", path.display())))?;
        }
        let mut command = Command::new(self.folder.path().join("bench"));
        let mut child = command
            .args(vcd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(HwError::io(format!("cannot start the model of {}", self.name)))?;
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new);
        Ok(Bench { child, input, output, words: self.words, name: self.name })
    }
}

/// A running bench.
#[derive(Debug)]
pub struct Bench {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
    words: (usize, usize),
    name: &'static str,
}

impl Bench {
    /// Gives the bench one step per cycle. Returns the number of cycles from the first step to the last result, and the
    /// words of all results. `steps` contains the words of all steps.
    ///
    /// # Errors
    /// The child process has ended, for example because a step had no result.
    pub fn run(&mut self, steps: &[u32]) -> Result<(u32, Vec<u32>), HwError> {
        let (words_in, words_out) = self.words;
        let count = steps.len() / words_in;
        if count == 0 {
            return Ok((0, Vec::new()));
        }
        let broken = |name: &str| format!("the model of {name} has ended");
        let (Some(input), Some(output)) = (&mut self.input, &mut self.output) else {
            return Err(HwError::Differs(broken(self.name)));
        };
        let mut bytes = Vec::with_capacity(4 + 4 * steps.len());
        bytes.extend((count as u32).to_ne_bytes());
        bytes.extend(steps[..count * words_in].iter().flat_map(|word| word.to_ne_bytes()));
        input.write_all(&bytes).and_then(|()| input.flush()).map_err(HwError::io(broken(self.name)))?;
        bytes.resize(4 + 4 * count * words_out, 0);
        output.read_exact(&mut bytes).map_err(HwError::io(broken(self.name)))?;
        let mut words = bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        let cycles = words.next().unwrap_or_default();
        Ok((cycles, words.collect()))
    }
}

impl Drop for Bench {
    /// Ends the child process, so that it closes the waveform file.
    fn drop(&mut self) {
        if let Some(mut input) = self.input.take() {
            let _ = input.write_all(&0_u32.to_ne_bytes());
        }
        self.output = None;
        let _ = self.child.wait();
    }
}
