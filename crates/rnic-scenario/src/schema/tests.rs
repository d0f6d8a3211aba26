//! Tests that the schema, the reader and the check of documents agree about every declared setting.

mod ranges;

use super::*;
use rnic_spec::settings::Effect;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::Value as Toml;

fn validator() -> jsonschema::Validator {
    jsonschema::draft7::new(&schema(&Vocabulary::standard())).unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn as_json(text: &str) -> Value {
    serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap()
}

fn toml_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => toml_files(&path, files),
            false if path.extension().is_some_and(|extension| extension == "toml") => files.push(path),
            false => {}
        }
    }
}

#[test]
fn every_scenario_of_the_repository_is_valid() {
    let (validator, mut files) = (validator(), Vec::new());
    toml_files(&repository().join("scenarios"), &mut files);
    toml_files(&repository().join("p4"), &mut files);
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let faults: Vec<String> =
            validator.iter_errors(&as_json(&text)).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(faults.is_empty(), "{}: {faults:#?}", file.display());
    }
}

/// A scenario that the reader accepts, with this topology, pattern and queueing.
fn base(topology: &str, pattern: &str, queueing: &str) -> toml::Table {
    let fabric = match topology {
        "fat-tree" => "k = 4",
        "leaf-spine" => "leaves = 2\nspines = 2\nhosts_per_leaf = 2",
        "leaf-spine-core" => {
            "pods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\ncores_per_plane = 2\nhosts_per_leaf = 2"
        }
        "multi-plane" => "planes = 2\nleaves = 2\nspines = 2\nhosts_per_leaf = 2",
        "single-switch" => "hosts = 64",
        "dumbbell" => "left = 2\nright = 2",
        "dragonfly" => "groups = 3\nrouters_per_group = 2\nglobal_links = 1\nhosts_per_router = 1",
        "file" => "file = \"topology.txt\"",
        _ => "hosts = 2\nswitches = 1\nlink = [{ from = \"h0\", to = \"s0\" }, { from = \"h1\", to = \"s0\" }]",
    };
    let traffic = match pattern {
        "poisson" => "load = 0.5\nsizes = \"fixed 1 KB\"\nflows = 10",
        "incast" => "senders = 1\ntotal = \"1 MB\"",
        "pairs" => "pairs = 1\nsizes = \"fixed 1 KB\"\nmessages = 1",
        "collective" => "operation = \"all-reduce\"\nsize = \"1 MB\"",
        "training" => "model = \"mixtral-8x7b\"\nlayers = 1",
        "inference" => "model = \"mixtral-8x7b\"\ntensor = 8\nprefill = 1\nrequests = 1\nprompt = 1\noutput = 2",
        "list" => "file = \"flows.csv\"",
        "trace" => "file = \"trace.csv\"",
        "outside" => "",
        _ => "sizes = \"fixed 1 KB\"",
    };
    let links = if topology == "file" { "" } else { "rate = \"40 Gbps\"\ndelay = \"1 us\"\n" };
    let text = format!(
        "[fabric]\ntopology = \"{topology}\"\n{links}{fabric}\nswitch = {{ queueing = \"{queueing}\" }}\n\
         [traffic]\npattern = \"{pattern}\"\n{traffic}\n[[run]]\nname = \"a\"\ntransport = \"irn\"\n"
    );
    text.parse().unwrap()
}

/// Base scenarios in which a setting of `section` may be given: one for each variant of the table that has the setting.
fn bases(section: &Section, setting: &Setting) -> Vec<toml::Table> {
    let queueing = if section.table == "fabric.switch.trim" { "output" } else { "input" };
    let with = |name: &str| match section.table {
        "fabric" => base(name, "poisson", "input"),
        "traffic" => base("single-switch", name, "input"),
        _ => base("single-switch", "poisson", name),
    };
    let mut bases = match setting.only {
        [] => vec![base("single-switch", "poisson", queueing)],
        variants => variants.iter().map(|variant| with(variant)).collect(),
    };
    // A setting without effect is an error, and so is a table.
    let table = section.table.strip_prefix("fabric.").and_then(|key| settings::section("fabric")?.setting(key, ""));
    for effect in table.iter().map(|table| table.effect).chain([setting.effect]) {
        if matches!(effect, Effect::WithPfc | Effect::WithStorm) {
            bases.iter_mut().for_each(|base| drop(run_of(base).insert("pfc".to_string(), true.into())));
        }
        if effect == Effect::WithStorm {
            bases.iter_mut().for_each(|base| put(base, "fabric.storm", "host", "h1".into()));
        }
    }
    if section.table == "traffic" && ["arrivals", "cv", "on_share"].contains(&setting.key) {
        let arrivals = if setting.key == "on_share" { "on-off" } else { "log-normal" };
        bases.iter_mut().for_each(|base| put(base, "traffic", "arrivals", arrivals.into()));
        bases.iter_mut().for_each(|base| put(base, "traffic", "cv", 2.0.into()));
    }
    if ["convergence", "local_repair"].contains(&setting.key) {
        bases.iter_mut().for_each(|base| put(base, "fabric.link", "down_at", "1 us".into()));
    }
    match (section.table, setting.key) {
        ("traffic", "outstanding") => {
            let collective = bases.iter_mut().filter(|base| base["traffic"]["pattern"].as_str() == Some("collective"));
            collective.for_each(|base| put(base, "traffic", "operation", "all-to-all".into()));
            let training = bases.iter_mut().filter(|base| base["traffic"]["pattern"].as_str() == Some("training"));
            training.for_each(|base| put(base, "traffic", "expert", 8.into()));
        }
        ("traffic", "skew") => bases.iter_mut().for_each(|base| put(base, "traffic", "operation", "all-to-all".into())),
        ("traffic", "domain_rate" | "domain_latency") => {
            bases.iter_mut().for_each(|base| put(base, "traffic", "accelerators", 8.into()));
        }
        ("traffic", "schedule") => bases.iter_mut().for_each(|base| {
            put(base, "traffic", "layers", 32.into());
            put(base, "traffic", "pipeline", 2.into());
        }),
        ("traffic", "straggler") => {
            bases.iter_mut().for_each(|base| put(base, "traffic", "straggler_delay", "1 us".into()));
        }
        ("traffic", "reaction") => {
            let lists = bases.iter_mut().filter(|base| base["traffic"]["pattern"].as_str() == Some("list"));
            lists.for_each(|base| put(base, "traffic", "file", "flows.cm".into()));
        }
        ("traffic", "straggler_delay") => bases.iter_mut().for_each(|base| put(base, "traffic", "straggler", 1.into())),
        ("fabric", "flowlet_gap") => bases.iter_mut().for_each(|base| put(base, "fabric", "paths", "flowlet".into())),
        ("", "fidelity_quantum") => bases.iter_mut().for_each(|base| put(base, "", "fidelity", "flow".into())),
        ("traffic", "grouping") => bases.iter_mut().for_each(|base| put(base, "traffic", "group", 8.into())),
        _ => {}
    }
    bases
}

/// All settings that are not settings of a transport or a congestion control, or paths, with their tables.
fn all_settings() -> impl Iterator<Item = (&'static Section, &'static Setting)> {
    let sections = SECTIONS.into_iter().filter(|section| !["transport", "sweep"].contains(&section.table));
    let all = sections.flat_map(|section| section.settings.iter().map(move |setting| (section, setting)));
    // The keys of a sweep and of `set` are paths, and other files are not at hand.
    all.filter(|(_, setting)| {
        !["extends", "sweep", "set", "placement_file", "server_file", "matrix"].contains(&setting.key)
    })
}

/// Changes one key of one table of a scenario; the table gets the other keys that it needs.
fn put(scenario: &mut toml::Table, table: &str, key: &str, value: Toml) {
    let one = |text: &str| Toml::Table(text.parse().unwrap());
    let list = |text: &str| Toml::Array(vec![one(text)]);
    let mut at = scenario;
    for step in table.split('.').filter(|step| !step.is_empty()) {
        let default = match (table, step) {
            (_, "link") => list(
                "from = \"h0\"\nto = \"s0\"\ndown_at = \"1 us\"\nup_at = \"2 us\"\nflap_every = \"2000000 s\"\n\
                 slow_rate = \"1 Kbps\"\nslow_at = \"1 us\"\nslow_until = \"2 us\"",
            ),
            (_, "route") => list("at = \"s0\"\nto = \"h1\"\nvia = \"h1\""),
            (_, "mesh") => list("pairs = 2\ninterval = \"1 ms\"\nstack_median = \"1 us\""),
            (_, "drop") => list("at = \"s0\"\nfrom = \"h0\"\nevery = 256"),
            (_, "dead") => list("host = \"h1\""),
            (_, "receiver") => list(
                "hosts = [\"h1\"]\npage = \"4 KiB\"\nentries = 2048\nmiss = \"1 us\"\nmemory = \"4 MB\"\nbuffer = \"256 KB\"",
            ),
            (_, "storm") => list("host = \"h1\"\nstart = \"1 ms\""),
            (_, "ecn") => one("kmin = \"5 KB\"\nkmax = \"50 KB\""),
            ("watch", _) => one("interval = \"10 us\"\nflows = true"),
            _ => one(""),
        };
        let node = at.entry(step).or_insert(default);
        at = match node {
            Toml::Array(tables) => tables[0].as_table_mut().unwrap(),
            node => node.as_table_mut().unwrap(),
        };
    }
    at.insert(key.to_string(), value);
}

/// Values of every kind.
fn probes() -> Vec<Toml> {
    let mut probes: Vec<Toml> =
        ["nonsense", "", "3", "5 KB", "5 us", "5 Gbps", "5 KiB", " 2.5_0kB", "2 kbps", "2 kb", "2 \u{3bc}s", "2e3 KB"]
            .map(Toml::from)
            .to_vec();
    probes.extend(["1 S", "1 Ms", "10 GBPS", "10 GBps", "10 gbps", "7 b", "5 mB", "5 KIB"].map(Toml::from));
    probes.extend([Toml::from(3), Toml::from(-1), Toml::from(0), Toml::from(2.5), Toml::from(0.25), Toml::from(true)]);
    probes.push(Toml::Array(vec![]));
    probes.extend(
        [Toml::from("a"), Toml::from(3), Toml::from("5 KB"), Toml::from(false)].map(|one| Toml::Array(vec![one])),
    );
    probes.push(Toml::Table(toml::Table::new()));
    probes.push(Toml::Datetime("1979-05-27".parse().unwrap()));
    probes
}

/// Whether the reader refuses the value of `key` because of its kind, not because of its range or of other keys.
fn is_about_kind(message: &str, key: &str) -> bool {
    let starts = [format!("`{key}` must "), format!("`{key}` needs a unit"), format!("unknown {key} \"")];
    let is_unit = message.contains(&format!("`{key}`: `")) && message.contains("use one of");
    is_unit || starts.iter().any(|start| message.contains(start.as_str()))
}

/// All words of a schema.
fn words(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Array(list)) = fields.get("enum") {
                into.extend(list.iter().filter_map(|word| word.as_str().map(str::to_string)));
            }
            fields.values().for_each(|field| words(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| words(item, into)),
        _ => {}
    }
}

/// Gives a key each probe as its value, and compares the reader with the schema.
fn compare(
    validator: &jsonschema::Validator, folder: &Path, what: (&str, &str), property: &Value,
    change: &dyn Fn(Toml) -> toml::Table,
) {
    let (table, key) = what;
    let mut known = BTreeSet::new();
    words(property, &mut known);
    let probes = probes().into_iter().chain(known.iter().map(|word| Toml::from(word.as_str())));
    for probe in probes {
        let scenario = change(probe.clone());
        let text = toml::to_string(&scenario).unwrap();
        let read = crate::from_str(&text, "a.toml", folder, &[], None).map_err(|error| error.to_string());
        let instance = serde_json::to_value(&scenario).unwrap();
        let fault = validator.iter_errors(&instance).next().map(|error| format!("{}: {error}", error.instance_path()));
        match (&read, &fault) {
            (Ok(_), Some(fault)) => panic!("[{table}] {key} = {probe} is accepted, but not by the schema: {fault}"),
            (Err(message), None) if is_about_kind(message, key) => {
                panic!("the schema accepts [{table}] {key} = {probe}, but: {message}")
            }
            (Err(message), _) if message.contains(&format!("unknown {key} \"nonsense\"")) => {
                let (_, available) = message.split_once("available: ").unwrap();
                let available = available.split(", ").map(|word| word.trim_matches('"').to_string());
                let available: BTreeSet<String> = available.filter(|word| word != "p4:FILE").collect();
                assert_eq!(known, available, "[{table}] {key}");
            }
            _ => {}
        }
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flows.csv"), "start_us,src,dst,bytes\n0,0,1,1000\n").unwrap();
    let matrix = "Nodes 2\nConnections 2\nTriggers 1\n0->1 start 0 size 1000 send_done_trigger 1\n1->0 trigger 1 size 9\n\
                  trigger id 1 oneshot\n";
    std::fs::write(folder.path().join("flows.cm"), matrix).unwrap();
    let ranks: String = (0..8).map(|rank| format!("{rank},1,all-reduce,1000,all\n")).collect();
    std::fs::write(folder.path().join("trace.csv"), format!("rank,id,kind,bytes,group\n{ranks}")).unwrap();
    let topology = "3 2 1 0 2 H100\n2\n0 2 40Gbps 1us 0\n1 2 40Gbps 1us 0\n";
    std::fs::write(folder.path().join("topology.txt"), topology).unwrap();
    folder
}

/// Gives a setting a value in a base scenario, whose table gets the other keys that it needs.
fn change(base: &toml::Table, section: &Section, setting: &Setting, value: Toml) -> toml::Table {
    let mut scenario = base.clone();
    match section.table {
        "run" => drop(run_of(&mut scenario).insert(setting.key.to_string(), value)),
        "run.beside" => {
            let table = Toml::Table("priority = 1\ntransport = \"tcp\"".parse().unwrap());
            scenario["traffic"].as_table_mut().unwrap().insert("priority".to_string(), 1.into());
            let run = run_of(&mut scenario);
            run.insert("beside".to_string(), Toml::Array(vec![table]));
            let beside = run["beside"].as_array_mut().unwrap()[0].as_table_mut().unwrap();
            beside.insert(setting.key.to_string(), value);
        }
        table => put(&mut scenario, table, setting.key, value),
    }
    scenario
}

/// The reader and the schema agree about the kinds of values and the words of each key.
#[test]
fn kinds_and_words_are_those_of_the_reader() {
    let (validator, folder) = (validator(), folder());
    for (section, setting) in all_settings() {
        for base in bases(section, setting) {
            let property = match (section.table, setting.key) {
                ("run" | "run.beside", "transport") => {
                    schema(&Vocabulary::standard())["definitions"]["run"]["properties"]["transport"].clone()
                }
                _ => of_kind(&setting.kind),
            };
            let change = |probe: Toml| change(&base, section, setting, probe);
            compare(&validator, folder.path(), (section.table, setting.key), &property, &change);
        }
    }
}

/// The first run of a scenario.
fn run_of(scenario: &mut toml::Table) -> &mut toml::Table {
    scenario["run"].as_array_mut().unwrap()[0].as_table_mut().unwrap()
}

#[test]
fn parameters_of_transports_and_congestion_controls_are_those_of_the_reader() {
    let (validator, folder, vocabulary) = (validator(), folder(), Vocabulary::standard());
    let base = base("single-switch", "poisson", "input");
    let in_run = |transport: &str, cc: Option<&str>, key: &str, probe: Toml| {
        let mut scenario = base.clone();
        let run = run_of(&mut scenario);
        run.insert("transport".to_string(), transport.into());
        match cc {
            Some(cc) => {
                run.insert("cc".to_string(), cc.into());
                run.insert(cc.to_string(), Toml::Table([(key.to_string(), probe)].into_iter().collect()));
            }
            None => drop(run.insert(key.to_string(), probe)),
        }
        scenario
    };
    let mut compared = 0;
    for transport in vocabulary.transports().iter().filter(|transport| transport.name != "p4") {
        for one in transport.parameters().into_iter().flatten() {
            let change = |probe| in_run(transport.name, None, one.name, probe);
            compare(&validator, folder.path(), (transport.name, one.name), &parameter(one), &change);
            compared += 1;
        }
    }
    for cc in vocabulary.congestion_controls() {
        for one in cc.parameters {
            let transport = if cc.host_only { "rogue" } else { "irn" };
            let change = |probe| in_run(transport, Some(cc.name), one.name, probe);
            compare(&validator, folder.path(), (cc.name, one.name), &parameter(one), &change);
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn mistakes_are_found() {
    let validator = validator();
    let good = toml::to_string(&base("single-switch", "poisson", "input")).unwrap();
    assert!(validator.is_valid(&as_json(&good)));
    for (text, wrong) in [
        ("hosts = 64", "hosst = 64"),
        ("hosts = 64", "k = 4"),
        ("rate = \"40 Gbps\"", "rate = \"40 GB\""),
        ("flows = 10", "flows = \"10\""),
        ("transport = \"irn\"", "transport = \"inr\""),
        ("transport = \"irn\"", "transport = \"irn\"\nacks = true"),
        ("[[run]]", "[run]"),
        ("name = \"a\"", "name = \"a\"\nset = { \"run.x\" = 1 }"),
    ] {
        assert!(good.contains(text), "{text} is not in\n{good}");
        assert!(!validator.is_valid(&as_json(&good.replace(text, wrong))), "{wrong}");
    }
}
