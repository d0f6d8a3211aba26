//! The option `--record`, which adds the results of a command to a file of recorded numbers.

use crate::error::CliError;
use rnic_record::Record;
use std::path::{Path, PathBuf};

/// The file of `--record`.
pub(crate) struct Recorded {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// The record that the file contained before; `None` if the file does not exist.
    pub(crate) earlier: Option<Record>,
}

impl Recorded {
    /// The recorded file: `to`, or if `to` is a folder, the study's file in it. A file that is not a record causes an
    /// error before anything is simulated.
    pub(crate) fn at(to: &Path, name: &str, quick: bool) -> Result<Recorded, CliError> {
        let path = if to.is_dir() { to.join(format!("{name}.json")) } else { to.to_path_buf() };
        let earlier = if path.exists() { Some(Record::read(&path).map_err(CliError::Input)?) } else { None };
        if earlier.as_ref().is_some_and(|earlier| earlier.quick != quick) {
            let message = "results of --quick and of full runs are not recorded in the same file";
            return Err(CliError::Input(format!("`{}`: {message}", path.display())));
        }
        Ok(Recorded { path, earlier })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_goes_into_a_file_or_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let recorded = Recorded::at(folder.path(), "irn", false).unwrap();
        assert_eq!((recorded.path, recorded.earlier), (folder.path().join("irn.json"), None));
        let file = folder.path().join("a.json");
        assert_eq!(Recorded::at(&file, "irn", false).unwrap().path, file);
        std::fs::write(&file, "{}").unwrap();
        let error = Recorded::at(&file, "irn", false).err().unwrap().to_string();
        assert!(error.contains("a.json") && error.contains("schema"), "{error}");
        Record::default().write(&file).unwrap();
        let error = Recorded::at(&file, "irn", true).err().unwrap().to_string();
        assert!(error.contains("--quick"), "{error}");
    }
}
