use super::{Graph, Other, TraceFormat, Work, count, guess_other, open, open_other, survey, write_csv, write_goal};
use rnic_spec::CollectiveOperation;
use std::path::{Path, PathBuf};

fn write(folder: &Path, name: &str, content: &[u8]) -> String {
    let path: PathBuf = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_string()
}

/// Returns the result of a survey of a CSV or GOAL file. An error does not contain the path.
fn error(format: TraceFormat, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "trace", text.as_bytes());
    survey(&path, format).unwrap_err().replace(&format!("{path}: "), "")
}

fn works(mut graph: Graph, rank: usize) -> Vec<Work> {
    std::iter::from_fn(|| graph.tasks[rank].next().unwrap()).map(|task| task.work).collect()
}

const GOAL: &str = "num_ranks 2\n\nrank 0 { /* the first */\nl1: calc 100 cpu 0\nl2: send 10b to 1 tag 5 // to the other\nl2 requires l1\n}\n\
                    rank 1 {\nl1: recv 10b from -1 tag 5 cpu 0 nic 0\nl2: calc 7\nl2 requires l1\n}\n";

#[test]
fn goal_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a.goal", GOAL.as_bytes());
    let content = survey(&path, TraceFormat::Goal).unwrap();
    assert_eq!((content.ranks, content.tasks, content.largest, content.bytes), (2, 4, 10, GOAL.len() as u64));
    let receive = Work::Receive { from: None, tag: 5 };
    let time = rnic_transport::Time::from_ns(7);
    assert_eq!(works(open(&path, TraceFormat::Goal).unwrap(), 1), [receive, Work::Compute { time, processor: 0 }]);
}

#[test]
fn processors_are_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let goal = "num_ranks 1\n\nrank 0 {\nt0: calc 5\nt1: calc 6 cpu 3\nt1 requires t0\n}\n";
    let path = write(folder.path(), "a.goal", goal.as_bytes());
    let graph = || open(&path, TraceFormat::Goal).unwrap();
    let [mut csv, mut again] = [Vec::new(), Vec::new()];
    super::write_csv(&mut csv, graph()).unwrap();
    let rows = "rank,id,kind,peer,bytes,tag,group,time_ns,processor,after,step,label\n0,0,compute,,,,,5,,,,\n\
                0,1,compute,,,,,6,3,0,,\n";
    assert_eq!(String::from_utf8(csv.clone()).unwrap(), rows);
    let csv = write(folder.path(), "a.csv", &csv);
    super::write_goal(&mut again, open(&csv, TraceFormat::Csv).unwrap()).unwrap();
    assert_eq!(String::from_utf8(again).unwrap(), goal);
    let text = "rank,id,kind,time_ns,processor\n0,1,compute,5,256\n";
    let wrong = error(TraceFormat::Csv, text);
    assert!(wrong.contains("`processor` is 256; accepted: 0 to 255"), "{wrong}");
}

#[test]
fn operations_come_after_those_on_which_they_depend() {
    let folder = tempfile::tempdir().unwrap();
    let text = "rank,id,kind,time_ns,after,group,bytes\n0,3,compute,3,1 2,,\n0,2,compute,2,1,,\n1,7,all-gather,,,0-1,80\n0,1,compute,1,,,\n\
                0,9,all-gather,,,0-1,80\n";
    let path = write(folder.path(), "a.csv", text.as_bytes());
    let mut graph = open(&path, TraceFormat::Csv).unwrap();
    let ids: Vec<u64> = std::iter::from_fn(|| graph.tasks[0].next().unwrap()).map(|task| task.id).collect();
    assert_eq!(ids, [1, 2, 3, 9]);
    let operation = CollectiveOperation::AllGather;
    assert_eq!(works(graph, 1), [Work::Collective { communicator: 0, operation, bytes: 80 }]);
    assert_eq!(survey(&path, TraceFormat::Csv).unwrap().tasks, 5);
}

#[test]
fn what_is_wrong_is_named() {
    let csv =
        |rows: &str| error(TraceFormat::Csv, &format!("rank,id,kind,peer,bytes,tag,time_ns,after,group\n{rows}\n"));
    let cases = [
        (csv("0,1,compute,,,,5,2,\n0,2,compute,,,,5,1,"), "tasks 1, 2 of rank 0 depend on each other in a circle"),
        (csv("0,1,compute,,,,5,9,"), "task 1 of rank 0 depends on task 9, which does not exist"),
        (csv("0,1,compute,,,,5,1,"), "task 1 of rank 0 depends on itself"),
        (csv("0,1,compute,,,,5,,\n0,1,compute,,,,5,,"), "rank 0 has two tasks with the number 1"),
        (
            csv("0,1,send,7,10,,,,"),
            "task 1 of rank 0 sends to rank 7, which does not exist; the trace has ranks 0 to 0",
        ),
        (
            csv("0,1,receive,1,,3,,,\n1,1,compute,,,,1,,"),
            "rank 0 receives from rank 1 with tag 3: 1 more messages than rank 1 sends",
        ),
        (
            csv("0,1,send,1,10,3,,,\n1,1,compute,,,,1,,"),
            "rank 0 sends to rank 1 with tag 3: 1 more messages than rank 1 receives",
        ),
        (
            csv("0,1,all-reduce,,10,,,,all\n1,1,compute,,,,1,,"),
            "the collective operations of ranks 0 and 1, of one group of 2 ranks, differ in number (1 and 0)",
        ),
        (csv("0,1,all-reduce,,10,,,,0 0"), "the group \"0 0\" is empty or has a rank twice"),
        (
            csv("0,1,dance,,,,,,"),
            "rank 0: task 1: `kind` is \"dance\"; accepted: compute, send, receive, nothing, all-reduce, \
                                 reduce-scatter, all-gather, all-to-all, broadcast",
        ),
        (csv("x,1,compute,,,,5,,"), "line 2: `rank` is \"x\"; accepted: a whole number"),
        (csv("0,1,send,1,0,,,,"), "rank 0: task 1: `bytes` is 0; accepted: 1 to 100000000000000"),
        (error(TraceFormat::Csv, "rank,id\n"), "the column `kind` is missing"),
        (
            error(TraceFormat::Csv, "rank,id,colour\n"),
            "the column \"colour\" is unknown; accepted: rank, id, kind, peer, bytes, tag, \
                                                       group, time_ns, processor, after, step, label",
        ),
        (error(TraceFormat::Goal, "num_ranks 1\nrank 0 {\nl1: calc 5\n"), "the part of rank 0 has no end (`}`)"),
        (
            error(TraceFormat::Goal, "num_ranks 1\nrank 3 {\n}\n"),
            "line 2: rank 3 does not exist or is there twice; num_ranks is 1",
        ),
        (
            error(TraceFormat::Goal, "num_ranks 1\nrank 0 {\nl2 requires l1\n}\n"),
            "rank 0: \"l2\" is no operation before this line",
        ),
    ];
    let many = error(TraceFormat::Goal, "num_ranks 1\nrank 0 {\na: calc 5 cpu 256\n}\n");
    assert!(many.ends_with("a computation is on the processor 256; accepted: `cpu` 0 to 255"), "{many}");
    let open = error(TraceFormat::Goal, "num_ranks 1\nrank 0 { /* begin\n}\n");
    assert!(open.starts_with("line 2: a comment has no end in its line"), "{open}");
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

/// A Chakra file: the metadata and two nodes.
fn chakra() -> Vec<u8> {
    let attribute = |name: &str, field: u8, value: u8| {
        let mut bytes = vec![0x0a, name.len() as u8];
        bytes.extend(name.bytes());
        bytes.extend([field << 3, value]);
        bytes
    };
    let node = |id: u8, kind: u8, rest: &[u8], attributes: &[Vec<u8>]| {
        let mut bytes = vec![0x08, id, 0x12, 1, b'n', 0x18, kind];
        bytes.extend(rest);
        for attribute in attributes {
            bytes.extend([0x52, attribute.len() as u8]);
            bytes.extend(attribute);
        }
        let mut message = vec![bytes.len() as u8];
        message.extend(bytes);
        message
    };
    // `comm_size` is signed in one trace and unsigned in another.
    let collective = [attribute("comm_type", 9, 0), attribute("comm_size", 13, 100)];
    let mut file = vec![7, 0x0a, 5, b'1', b'.', b'0', b'.', b'0'];
    file.extend(node(1, 4, &[0x38, 3], &[]));
    file.extend(node(2, 7, &[0x2a, 1, 1], &collective));
    file
}

#[test]
fn an_all_gather_of_chakra_counts_the_part_of_a_rank_of_its_group() {
    // Ranks 0 and 1 of 4 gather 100 B from each: 200 B.
    let folder = tempfile::tempdir().unwrap();
    let mut file = vec![7, 0x0a, 5, b'1', b'.', b'0', b'.', b'0'];
    let attribute = |name: &str, value: &[u8]| {
        let mut bytes = vec![0x0a, name.len() as u8];
        bytes.extend(name.bytes().chain(value.iter().copied()));
        [vec![0x52, bytes.len() as u8], bytes].concat()
    };
    let name = attribute("pg_name", &[0xea, 1, 1, b'g']);
    let all = [attribute("comm_type", &[9 << 3, 2]), attribute("comm_size", &[13 << 3, 100]), name].concat();
    let node = [vec![0x08, 1, 0x18, 7], all].concat();
    file.push(node.len() as u8);
    file.extend(node);
    for rank in 0..4 {
        write(folder.path(), &format!("t.{rank}.et"), if rank < 2 { &file } else { &file[..8] });
    }
    write(folder.path(), "t.groups.json", br#"{"g": [0, 1]}"#);
    let prefix = folder.path().join("t").to_str().unwrap().to_string();
    let operation = CollectiveOperation::AllGather;
    let work = Work::Collective { communicator: 1, operation, bytes: 200 };
    assert_eq!(works(open(&prefix, TraceFormat::Chakra).unwrap(), 1), [work]);
}

#[test]
fn chakra_is_read_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let messages = r#"{"version": "1.0.0"}
        {"id": "1", "name": "forward", "type": "COMP_NODE", "durationMicros": "3"}
        {"id": "2", "name": "sum", "type": "COMM_COLL_NODE", "ctrlDeps": ["1"],
         "attr": [{"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "uint64Val": "100"}]}"#;
    let list = r#"{"workload_graph": [
        {"Id": 1, "Name": "forward", "NodeType": 4, "data_deps": [], "runtime": 3, "is_cpu_op": true},
        {"Id": 2, "Name": "sum", "NodeType": 7, "data_deps": [1], "comm_type": 0, "comm_size": 100}]}"#;
    write(folder.path(), "t.0.json", messages.as_bytes());
    write(folder.path(), "t.1.json", list.as_bytes());
    let prefix = folder.path().join("t").to_str().unwrap().to_string();
    assert_eq!(super::guess(&prefix), Ok(TraceFormat::Chakra));
    let content = survey(&prefix, TraceFormat::Chakra).unwrap();
    assert_eq!((content.ranks, content.tasks, content.largest), (2, 4, 100));
    let compute = Work::Compute { time: rnic_transport::Time::from_us(3), processor: 0 };
    let operation = CollectiveOperation::AllReduce;
    let expected = [compute, Work::Collective { communicator: 0, operation, bytes: 100 }];
    for rank in 0..2 {
        assert_eq!(works(open(&prefix, TraceFormat::Chakra).unwrap(), rank), expected);
    }
    let wrong = |text: &str| {
        write(folder.path(), "t.1.json", text.as_bytes());
        let error = survey(&prefix, TraceFormat::Chakra).unwrap_err();
        error.split_once("t.1.json: ").unwrap().1.to_string()
    };
    assert_eq!(wrong(""), "the file is empty");
    assert!(wrong("{\"version\": \"1\"} {\"id\": \"x\"}").starts_with("`id` is not a whole number"));
    assert!(wrong(r#"{"workload_graph": [{"Id": 1, "NodeType": 7}]}"#).contains("`comm_type` is missing"));
    assert!(wrong(r#"{"workload_graph": [{"Id": 1, "NodeType": "COMM"}]}"#).contains("the type is unknown"));
    assert!(wrong(r#"{"workload_graph": [{"Id": 1, "ctrlDeps": 1}]}"#).contains("`ctrlDeps` is not a list"));
    assert!(wrong(&messages[..messages.len() - 3]).contains("EOF while parsing"));
}

#[test]
fn chakra_is_read_plain_and_compressed() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    compressed.write_all(&chakra()).unwrap();
    write(folder.path(), "t.0.et", &chakra());
    write(folder.path(), "t.1.et", &compressed.finish().unwrap());
    let prefix = folder.path().join("t").to_str().unwrap().to_string();
    assert_eq!(super::guess(&prefix), Ok(TraceFormat::Chakra));
    let content = survey(&prefix, TraceFormat::Chakra).unwrap();
    assert_eq!((content.ranks, content.tasks, content.largest), (2, 4, 100));
    let operation = CollectiveOperation::AllReduce;
    let compute = Work::Compute { time: rnic_transport::Time::from_us(3), processor: 0 };
    let expected = [compute, Work::Collective { communicator: 0, operation, bytes: 100 }];
    assert_eq!(works(open(&prefix, TraceFormat::Chakra).unwrap(), 1), expected);
}

#[test]
fn every_prefix_and_every_changed_byte_ends_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let csv = "rank,id,kind,peer,bytes,tag,group,time_ns,after,step,label\n0,1,send,1,100,2,,,,0,a\n1,1,receive,0,,2,,,,0,b\n\
               0,2,all-reduce,,64,,all,,1,1,c\n1,2,all-reduce,,64,,0-1,,1,1,\n";
    let files = [
        (TraceFormat::Csv, csv.as_bytes().to_vec()),
        (TraceFormat::Goal, GOAL.into()),
        (TraceFormat::Chakra, chakra()),
    ];
    for (format, content) in files {
        let (name, path) = match format {
            TraceFormat::Chakra => ("t.0.et", folder.path().join("t")),
            _ => ("t", folder.path().join("t")),
        };
        for length in 0..content.len() {
            write(folder.path(), name, &content[..length]);
            let _ = survey(path.to_str().unwrap(), format);
        }
        for position in 0..content.len() {
            let mut changed = content.clone();
            changed[position] ^= 1 << (position % 8);
            write(folder.path(), name, &changed);
            let _ = survey(path.to_str().unwrap(), format);
        }
    }
}

const SIMAI: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 all_gpus: 8\n2\n\
    attention\t-1\t100\tALLREDUCE\t4096\t50\tALLREDUCE\t4096\t60\tALLREDUCE\t8192\t7\n\
    mlp\t-1\t200\tALLTOALL_EP\t4096\t50\tNONE\t0\t60\tREDUCESCATTER_DP_EP\t8192\t7\n";

fn as_csv(graph: Graph) -> String {
    let mut out = Vec::new();
    write_csv(&mut out, graph).unwrap();
    String::from_utf8(out).unwrap()
}

/// Opens every prefix of a file and every file with one changed byte: none may panic.
fn damage(content: &[u8], read: impl Fn(&str) -> Result<Graph, String>) {
    let folder = tempfile::tempdir().unwrap();
    let is_wrong = |bytes: &[u8]| read(&write(folder.path(), "damaged", bytes)).and_then(count).is_err();
    assert!(!is_wrong(content));
    let prefixes = (0..content.len()).filter(|length| is_wrong(&content[..*length])).count();
    let changed = |place: usize| {
        let mut bytes = content.to_vec();
        bytes[place] ^= [1, 0x80, 0xff][place % 3];
        is_wrong(&bytes)
    };
    let changes = (0..content.len()).filter(|place| changed(*place)).count();
    assert!(prefixes > content.len() / 2 && changes > 0, "{prefixes} prefixes and {changes} changes are errors");
}

/// The file of [`GOAL`] in binary form, with another tag, and with an operation that waits for the start of another
/// operation.
fn binary() -> Vec<u8> {
    let operation = |kind: u8, peer: u32, size: u64, dependents: [u32; 4]| {
        let mut bytes = vec![0, 0, 0, 0, kind];
        bytes.extend(peer.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend([9, 0, 0, 0, 0, 0]);
        dependents.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes
    };
    let u32s = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let first = [
        u32s(&[3, 1, 0]),
        operation(3, 0, 20, [1, 0, 0, 0]),
        operation(1, 1, 64, [0, 0, 1, 1]),
        operation(1, 9_999_999, 0, [0; 4]),
        u32s(&[1, 2]),
    ]
    .concat();
    let second = [u32s(&[1, 1, 0]), operation(2, u32::MAX, 64, [0; 4])].concat();
    let start = 14 + 32 - 8;
    let middle = start + first.len() as u64;
    let mut bytes = 4223_u64.to_le_bytes().to_vec();
    bytes.extend([2, 0, 0, 0, 0, 0]);
    [start, middle, middle, middle + second.len() as u64].iter().for_each(|end| bytes.extend(end.to_le_bytes()));
    [bytes, first, second].concat()
}

#[test]
fn goal_in_binary_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a.bin", &binary());
    assert_eq!(guess_other(&path), Some(Other::GoalBinary));
    let rows = as_csv(open_other(&path, Other::GoalBinary, None).unwrap());
    let expected = "0,0,compute,,,,,20,,,,\n0,1,send,1,64,9,,,,0,,\n0,2,nothing,,,,,,,0,,\n1,0,receive,any,,9,,,,,,\n";
    assert!(rows.ends_with(expected), "{rows}");
    damage(&binary(), |path| open_other(path, Other::GoalBinary, None));
}

#[test]
fn a_trace_is_the_same_after_conversions() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a.goal", GOAL.as_bytes());
    let csv = as_csv(open(&path, TraceFormat::Goal).unwrap());
    let as_file = write(folder.path(), "a.csv", csv.as_bytes());
    assert_eq!(as_csv(open(&as_file, TraceFormat::Csv).unwrap()), csv);
    let mut goal = Vec::new();
    write_goal(&mut goal, open(&as_file, TraceFormat::Csv).unwrap()).unwrap();
    let again = write(folder.path(), "again.goal", &goal);
    assert_eq!(as_csv(open(&again, TraceFormat::Goal).unwrap()), csv);
}

#[test]
fn a_model_of_simai() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "workload.txt", SIMAI.as_bytes());
    assert_eq!(guess_other(&path), Some(Other::SimAi));
    let graph = open_other(&path, Other::SimAi, None).unwrap();
    let groups: Vec<&[u32]> = graph.communicators.iter().map(|ranks| &ranks[..]).collect();
    assert_eq!((groups[4], groups[6], groups[10]), (&[0, 2, 4, 6][..], &[0, 2][..], &[0, 4][..]));
    let counts = count(graph).unwrap();
    // For each rank: two passes and the weights of two layers, and the two updates.
    assert_eq!((counts.ranks, counts.computations, counts.tasks), (8, 8 * 8, 8 * 13));
    // 4 tensor groups of 2, 2 data groups of 4, 4 expert groups of 2, 4 data groups of experts of 2.
    assert_eq!(counts.groups, [2, 2, 2, 2, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2]);
    assert_eq!(counts.collectives["all-reduce"].1, 8 * (4096 + 4096 + 8192));
    let csv = write(folder.path(), "a.csv", as_csv(open_other(&path, Other::SimAi, None).unwrap()).as_bytes());
    let converted = open(&csv, TraceFormat::Csv).and_then(count).unwrap();
    assert_eq!((converted.tasks, converted.collectives), (counts.tasks, counts.collectives));
    damage(SIMAI.as_bytes(), |path| open_other(path, Other::SimAi, None));
    let mut goal = Vec::new();
    let refused = write_goal(&mut goal, open_other(&path, Other::SimAi, None).unwrap()).unwrap_err().to_string();
    assert!(refused.starts_with("rank 0, task 1: GOAL has no operation `all-reduce`"), "{refused}");
}

#[test]
fn mistakes_of_simai_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let of = |text: &str, ranks| {
        let path = write(folder.path(), "workload.txt", text.as_bytes());
        let error = open_other(&path, Other::SimAi, ranks).unwrap_err();
        error.replace(&format!("{path}: "), "")
    };
    let micro = "MICRO\n1\nmicro_test\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLGATHER\t4096\t1\n";
    assert!(of(micro, None).contains("state the number of ranks (`--ranks N`)"));
    assert_eq!(of(SIMAI, Some(4)), "line 1: the file is for 8 ranks, and 4 are given; accepted: 8");
    assert!(of(&SIMAI.replace("pp: 1", "pp: 2"), None).starts_with("line 1: `pp` is above 1"));
    assert!(of(&SIMAI.replace("all_gpus: 8", "all_gpus: 6"), None).ends_with("accepted: a multiple of 4"));
    assert!(of(&SIMAI.replace("ALLTOALL_EP", "GATHER"), None).starts_with("line 4: the collective operation `GATHER`"));
    assert_eq!(of(&micro.replacen('1', "2", 1), Some(2)), "2 layers are announced, but the file has 1");
}
