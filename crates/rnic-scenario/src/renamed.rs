//! Scenario keys of former versions: the error for such a key names the key to write now.

/// A key that has another name now.
pub(super) struct Renamed {
    /// The table in which it stood, without brackets: `fabric.switch`; for `[[run]]` `run`.
    table: &'static str,
    old: &'static str,
    /// The key to write now, relative to the table; it may have dots.
    new: &'static str,
    /// Values that have other names now: old, new.
    values: &'static [(&'static str, &'static str)],
    /// What else has changed; may be empty.
    note: &'static str,
}

/// Every renamed key.
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

/// What a key is called now, if a table with this label once had it.
pub(super) fn find(label: &str, key: &str) -> Option<&'static Renamed> {
    RENAMED.iter().find(|row| row.old == key && row.table == table_of(label))
}

impl Renamed {
    /// What is wrong.
    pub(super) fn message(&self, label: &str) -> String {
        format!("`{}` in {label} is now called `{}`", self.old, self.new)
    }

    /// What to write; `value` is the old key's value if that is a string.
    pub(super) fn help(&self, value: Option<&str>) -> String {
        let renamed = self.values.iter().find(|(old, _)| Some(*old) == value);
        let write = match renamed {
            Some((_, new)) => format!("write `{} = \"{new}\"`", self.new),
            None => format!("write `{}` instead of `{}`", self.new, self.old),
        };
        if self.note.is_empty() { write } else { format!("{write}; {}", self.note) }
    }
}

/// The table that a label of messages names: `[fabric.switch]` is `fabric.switch`, `run "IRN"` is `run`.
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
