//! Scenario keys of former versions: the error for such a key names the key to write now.

/// A scenario key that had another name in a former version of rnic.
pub(super) struct Renamed {
    /// Name of the table that had the key, without brackets: `fabric.switch`; for `[[run]]`, `run`.
    table: &'static str,
    old: &'static str,
    /// The present name of the key, relative to the table; it may be a dotted path.
    pub(super) new: &'static str,
    /// Values of the key that have been renamed too: (old, new).
    values: &'static [(&'static str, &'static str)],
    /// Sentence about other changes of the key's meaning, for the error message; may be empty.
    note: &'static str,
}

/// Every renamed key of scenarios.
const RENAMED: &[Renamed] = &[
    Renamed {
        table: "fabric.switch",
        old: "mark",
        new: "ecn.mark_on",
        values: &[("departures", "dequeue"), ("arrivals", "enqueue")],
        note: "",
    },
    Renamed { table: "fabric.switch", old: "resume", new: "xon_offset", values: &[], note: "" },
    Renamed { table: "fabric.switch", old: "classes", new: "priorities", values: &[], note: "" },
    Renamed { table: "traffic", old: "at_once", new: "outstanding", values: &[], note: "" },
    Renamed { table: "traffic", old: "think", new: "think_time", values: &[], note: "" },
    Renamed { table: "traffic", old: "lasting_connections", new: "persistent_connections", values: &[], note: "" },
    Renamed { table: "run", old: "garbage_time", new: "rx_timeout", values: &[], note: "" },
    Renamed { table: "run", old: "timer_scan", new: "timer_granularity", values: &[], note: "" },
    Renamed { table: "transport", old: "garbage_time", new: "rx_timeout", values: &[], note: "" },
    Renamed { table: "transport", old: "timer_scan", new: "timer_granularity", values: &[], note: "" },
    Renamed { table: "run", old: "unscheduled_levels", new: "unscheduled_priorities", values: &[], note: "" },
    Renamed { table: "run", old: "scheduled_levels", new: "scheduled_priorities", values: &[], note: "" },
    Renamed { table: "transport", old: "unscheduled_levels", new: "unscheduled_priorities", values: &[], note: "" },
    Renamed { table: "transport", old: "scheduled_levels", new: "scheduled_priorities", values: &[], note: "" },
];

/// The entry of the renamed key `key`; `None` if `key` is not a former key of the table that error messages call
/// `label`.
pub(super) fn find(label: &str, key: &str) -> Option<&'static Renamed> {
    RENAMED.iter().find(|row| row.old == key && row.table == table_of(label))
}

impl Renamed {
    /// The first part of the error message: the key has a new name.
    pub(super) fn message(&self, label: &str) -> String {
        format!("`{}` in {label} is now called `{}`", self.old, self.new)
    }

    /// The second part of the error message: what to write instead. `value` is the value of the old key, if it is a
    /// string.
    pub(super) fn help(&self, value: Option<&str>) -> String {
        let renamed = self.values.iter().find(|(old, _)| Some(*old) == value);
        let write = match renamed {
            Some((_, new)) => format!("write `{} = \"{new}\"`", self.new),
            None => format!("write `{}` instead of `{}`", self.new, self.old),
        };
        if self.note.is_empty() { write } else { format!("{write}; {}", self.note) }
    }
}

/// The name of the table that error messages call `label`: `[fabric.switch]` becomes `fabric.switch`, `run "IRN"`
/// becomes `run`.
fn table_of(label: &str) -> &str {
    let name = label.trim_matches(['[', ']', '`']);
    name.split_once(' ').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_names_its_table() {
        for (label, table) in [("[fabric.switch]", "fabric.switch"), ("[[traffic]]", "traffic"), ("run \"a b\"", "run")]
        {
            assert_eq!(table_of(label), table);
        }
    }

    #[test]
    fn no_key_is_renamed_twice_or_to_itself() {
        for (index, row) in RENAMED.iter().enumerate() {
            assert!(row.old != row.new && row.values.iter().all(|(old, new)| old != new), "{}", row.old);
            assert!(
                !RENAMED[..index].iter().any(|other| (other.table, other.old) == (row.table, row.old)),
                "{}",
                row.old
            );
        }
    }
}
