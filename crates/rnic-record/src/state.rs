//! Hashes that say whether recorded data are older than the study or the simulator.

/// A hash of texts (FNV-1a, 64 bits), which does not depend on the machine.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds a text. The end of the text is part of the hash: `ab`, `c` and `a`, `bc` differ.
    pub fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The hash as 16 hexadecimal digits.
    pub fn text(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// Hash of the rows of the recorded table of behaviour (`crates/rnic-sim/tests/behaviour.txt`) for some transports.
/// `transports` has `NAME` for a transport without congestion control and `NAME, CC` for one with it, for example
/// `roce, dcqcn`. `None` if the table has no row for any of them.
///
/// A row belongs to `irn, dcqcn` if its run is `irn, dcqcn` or `irn + pfc, dcqcn`. A row without congestion control,
/// such as `irn go-back-n`, belongs to every entry of its transport, because variants share its code.
pub fn behaviour(table: &str, transports: &[String]) -> Option<String> {
    let mut digest = Digest::default();
    let mut is_empty = true;
    for line in table.lines() {
        // The name of a run ends at two blanks.
        let name = line.split("  ").next().unwrap_or(line);
        let (run, cc) = name.split_once(", ").map_or((name, None), |(run, cc)| (run, Some(cc)));
        let transport = run.split(' ').next().unwrap_or(run);
        let belongs = |entry: &String| {
            let (own, own_cc) = entry.split_once(", ").unwrap_or((entry, "none"));
            own == transport && cc.is_none_or(|cc| cc == own_cc)
        };
        if transports.iter().any(belongs) {
            is_empty = false;
            digest.add(line);
        }
    }
    (!is_empty).then(|| digest.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "A title\nrun           slowdown\nroce             1.0\nirn go-back-n    2.0\n\
                         irn, none        3.0\nroce + pfc, none 4.0\nirn, dcqcn       5.0\n";

    fn hash(table: &str, transports: &[&str]) -> Option<String> {
        behaviour(table, &transports.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn only_rows_of_the_transports_count() {
        let table = TABLE.replace("roce + pfc, none 4.0", "roce + pfc, none  4.0");
        let before = hash(&table, &["irn"]);
        assert!(before.is_some());
        for (from, to, changes) in [
            ("irn go-back-n    2.0", "irn go-back-n    2.1", true),
            ("irn, none        3.0", "irn, none        3.1", true),
            ("irn, dcqcn       5.0", "irn, dcqcn       5.1", false),
            ("roce             1.0", "roce             1.1", false),
            ("A title", "Another title", false),
        ] {
            assert!(table.contains(from), "{from}");
            assert_eq!(hash(&table.replace(from, to), &["irn"]) != before, changes, "{from}");
        }
        let both = hash(&table, &["irn, dcqcn", "roce"]);
        assert_ne!(hash(&table.replace("none  4.0", "none  4.1"), &["irn, dcqcn", "roce"]), both);
        assert_eq!(hash(&table, &["ndp"]), None);
    }

    #[test]
    fn the_ends_of_texts_count() {
        let of = |texts: &[&str]| {
            let mut digest = Digest::default();
            texts.iter().for_each(|text| digest.add(text));
            digest.text()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_eq!(of(&["a"]).len(), 16);
    }
}
