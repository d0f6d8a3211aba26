//! Links `libibverbs.so.1` from this crate's static library, and `librdmacm.so.1` from `rnic-rdmacm`'s static library.
//!
//! A Rust `cdylib` has its own version script, which gives every symbol the same version. Programs are linked with the
//! versions of the distribution's library, and NCCL asks for them by name (`dlvsym`). So a C compiler links the static
//! libraries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// A shared library that is linked from a static library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Library {
    /// Its name, by which programs find it.
    pub name: &'static str,
    /// Beginning of the name of the static library: Cargo appends a hash and `.a`.
    pub archive: &'static str,
    /// The version script.
    pub script: &'static str,
    /// C source of symbols that exist in name only; may be empty.
    pub source: &'static str,
    /// Name of another shared library in the same folder that this library needs.
    pub needs: Option<&'static str>,
}

/// libibverbs.
pub const IBVERBS: Library = Library {
    name: NAME,
    archive: "librnic_ibverbs",
    script: include_str!("../link/libibverbs.map"),
    source: include_str!("../link/versions.c"),
    needs: None,
};

/// librdmacm, whose functions are in the crate `rnic-rdmacm`.
pub const RDMACM: Library = Library {
    name: "librdmacm.so.1",
    archive: "librnic_rdmacm",
    script: include_str!("../link/librdmacm.map"),
    source: "",
    needs: Some(NAME),
};

/// All libraries, in the order in which they are linked.
pub const ALL: [Library; 2] = [IBVERBS, RDMACM];

/// Name of libibverbs.
pub const NAME: &str = "libibverbs.so.1";

impl Library {
    /// The newest static library in one of these folders.
    pub fn find(&self, folders: &[PathBuf]) -> Option<PathBuf> {
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let archives = entries.filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(self.archive) && name.ends_with(".a")
        });
        let newest = archives.max_by_key(|entry| entry.metadata().and_then(|about| about.modified()).ok())?;
        Some(newest.path())
    }

    /// Links the static library `archive` to the shared library in `folder` with the C compiler `cc`.
    ///
    /// # Errors
    /// See [`link_by`](Self::link_by).
    pub fn link(&self, archive: &Path, folder: &Path) -> Result<(), String> {
        self.link_by(Path::new("cc"), archive, folder)
    }

    /// Links the static library `archive` to the shared library in `folder` with a C compiler, which determines the
    /// target system. Several processes may do so at the same time: each process writes its own temporary file, and the
    /// last process replaces the shared library.
    ///
    /// # Errors
    /// A sentence, if a file cannot be written, or the C compiler is missing or fails.
    pub fn link_by(&self, compiler: &Path, archive: &Path, folder: &Path) -> Result<(), String> {
        let fails = |doing: String| move |error: io::Error| format!("{doing}: {error}");
        fs::create_dir_all(folder).map_err(fails(format!("cannot make {}", folder.display())))?;
        let own = |name: &str| folder.join(format!("{}-{name}", std::process::id()));
        let (source, script, so) = (own("versions.c"), own("versions.map"), own(self.name));
        let write =
            |path: &Path, text| fs::write(path, text).map_err(fails(format!("cannot write {}", path.display())));
        write(&source, self.source)?;
        write(&script, self.script)?;
        let linked = Command::new(compiler).args(self.arguments(archive, [&source, &script, &so], folder)).output();
        let _ = (fs::remove_file(&source), fs::remove_file(&script));
        let compiler = compiler.display();
        let doing = format!("the C compiler `{compiler}`, which links {}, cannot be run", self.name);
        let linked = linked.map_err(fails(doing))?;
        if !linked.status.success() {
            let said = String::from_utf8_lossy(&linked.stderr);
            return Err(format!("{compiler} could not link {}: {}", self.name, said.trim()));
        }
        let out = folder.join(self.name);
        fs::rename(&so, &out).map_err(fails(format!("cannot write {}", out.display())))
    }

    fn arguments(&self, archive: &Path, files: [&Path; 3], folder: &Path) -> Vec<OsString> {
        let [source, script, out] = files;
        let option = |option: &str, path: &Path| {
            let mut argument = OsString::from(option);
            argument.push(path);
            argument
        };
        let mut arguments: Vec<OsString> =
            vec!["-shared".into(), "-fPIC".into(), "-O2".into(), "-o".into(), out.into()];
        arguments.push(source.into());
        arguments.push("-Wl,--whole-archive".into());
        arguments.push(archive.into());
        arguments.push("-Wl,--no-whole-archive".into());
        arguments.extend(self.needs.map(|name| folder.join(name).into()));
        arguments.push(option("-Wl,--version-script=", script));
        arguments.push(format!("-Wl,-soname,{}", self.name).into());
        // With this option librdmacm finds libibverbs in its own folder, also if a program loads librdmacm by its path
        // and not from a search path.
        arguments.extend(self.needs.map(|_| OsString::from("-Wl,-rpath,$ORIGIN")));
        // The library has threads, and functions that run when the process ends, so it must not be unloaded.
        arguments.push("-Wl,-z,nodelete".into());
        arguments
            .extend(["-Wl,--gc-sections", "-Wl,-z,defs", "-lgcc_s", "-lpthread", "-ldl", "-lm"].map(OsString::from));
        // The library of a release has neither symbol names nor the debug information of Rust's standard library,
        // because these are nine tenths of its size. Other builds keep both for debuggers and sanitizers.
        if !cfg!(debug_assertions) {
            arguments.push("-Wl,--strip-all".into());
        }
        arguments
    }
}
