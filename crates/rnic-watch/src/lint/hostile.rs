//! Tests with malformed inputs of every format: the result is an error or a report, never a panic.

use super::config_db::ConfigDb;
use super::desired::Desired;
use super::fleet::Fleet;
use super::host::{Remarks, ethtool, parse_mlnx_qos};
use super::neighbours;
use super::report::check;
use super::{Unknown, sonic};
use crate::input::InputError;
use proptest::prelude::*;

const LEAF: &str = include_str!("../../../../examples/fleet/devices/leaf1/config_db.json");
const LLDP: &str = include_str!("../../../../examples/fleet/devices/leaf1/lldp.json");
const QOS: &str = include_str!("../../../../examples/fleet/devices/gpu1/mlnx_qos-ens1f0np0.txt");
const DESIRED: &str = include_str!("../../../../examples/fleet/desired.toml");

/// Generates a text in which pieces were removed, repeated or replaced.
fn damaged(text: &'static str) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(String::new()),
        Just("-1".to_string()),
        Just("99999999999999999999".to_string()),
        Just("\"".to_string()),
        Just("|".to_string()),
        Just("\n".to_string()),
        Just("é\u{0}".to_string()),
        "[ -~]{0,8}",
    ];
    let edit = (any::<prop::sample::Index>(), 0usize..12, piece);
    prop::collection::vec(edit, 1..6).prop_map(move |edits| {
        let mut characters: Vec<char> = text.chars().collect();
        for (at, length, piece) in edits {
            let from = at.index(characters.len() + 1).min(characters.len());
            let to = (from + length).min(characters.len());
            characters.splice(from..to, piece.chars());
        }
        characters.into_iter().collect()
    })
}

/// Errors are one line.
fn one_line(errors: &[InputError]) -> Result<(), TestCaseError> {
    for error in errors {
        let text = error.to_string();
        prop_assert!(!text.contains('\n') && text.len() < 2_000, "{text}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_damaged_switch(text in damaged(LEAF)) {
        let (mut errors, mut unknown): (Vec<InputError>, Vec<Unknown>) = Default::default();
        match ConfigDb::parse(&text, "leaf1") {
            Ok(db) => {
                let switch = sonic::read("leaf1", "leaf1", &db, &mut errors, &mut unknown);
                let mut fleet = Fleet::default();
                fleet.switches.insert("leaf1".to_string(), switch);
                fleet.databases.insert("leaf1".to_string(), db);
                let desired = Desired::parse(DESIRED, "d").unwrap();
                check(&fleet, Some(&desired));
            }
            Err(error) => errors.push(error),
        }
        one_line(&errors)?;
    }

    #[test]
    fn damaged_texts(qos in damaged(QOS), lldp in damaged(LLDP), desired in damaged(DESIRED), any in any::<String>()) {
        let (mut errors, mut unknown): (Vec<InputError>, Vec<Unknown>) = Default::default();
        for text in [&qos, &lldp, &desired, &any] {
            let mut found = Vec::new();
            let mut remarks = Remarks { device: "h", errors: &mut errors, unknown: &mut unknown };
            found.extend(parse_mlnx_qos(text, "f", &mut remarks).err());
            found.extend(ethtool::parse_pause(text, "f", &mut remarks).err());
            found.extend(ethtool::parse_statistics(text, "f").err());
            found.extend(neighbours::parse_json(text, "f").err());
            found.extend(neighbours::parse_table(text, "f").err());
            found.extend(neighbours::parse_links(text, "f").err());
            found.extend(Desired::parse(text, "f").err().unwrap_or_default());
            one_line(&found)?;
        }
    }
}
