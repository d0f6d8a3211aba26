use super::{Graph, TraceFormat, Work, open, survey};
use rnic_spec::CollectiveOperation;
use std::path::{Path, PathBuf};

fn write(folder: &Path, name: &str, content: &[u8]) -> String {
    let path: PathBuf = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_string()
}

/// What a survey of a CSV or GOAL file says: an error without the path.
fn error(format: TraceFormat, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "trace", text.as_bytes());
    survey(&path, format).unwrap_err().replace(&format!("{path}: "), "")
}

fn works(mut graph: Graph, rank: usize) -> Vec<Work> {
    std::iter::from_fn(|| graph.tasks[rank].next().unwrap()).map(|task| task.work).collect()
}

const GOAL: &str = "num_ranks 2\n\nrank 0 {\nl1: calc 100 cpu 0\nl2: send 10b to 1 tag 5 // to the other\nl2 requires l1\n}\n\
                    rank 1 {\nl1: recv 10b from -1 tag 5 cpu 0 nic 0\nl2: calc 7\nl2 requires l1\n}\n";

#[test]
fn goal_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a.goal", GOAL.as_bytes());
    let content = survey(&path, TraceFormat::Goal).unwrap();
    assert_eq!((content.ranks, content.tasks, content.largest, content.bytes), (2, 4, 10, GOAL.len() as u64));
    let receive = Work::Receive { from: None, tag: 5 };
    let time = rnic_transport::Time::from_ns(7);
    assert_eq!(works(open(&path, TraceFormat::Goal).unwrap(), 1), [receive, Work::Compute { time }]);
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
                                                       group, time_ns, after, step, label",
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
    let compute = Work::Compute { time: rnic_transport::Time::from_us(3) };
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
