//! What the server sends to friends, and refuses to others.

use super::*;
use rnic_campaign::RunListeners;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

const SCENARIO: &str = r#"
    [fabric]
    topology = "single-switch"
    hosts = 4
    rate = "100 Gbps"
    delay = "1 us"
    [traffic]
    pattern = "permutation"
    sizes = "fixed 64 KB"
    repeats = 1
    interval = "1 ms"
    [[run]]
    name = "<script>alert(1)</script>"
    transport = "irn"
"#;

fn scenario() -> Scenario {
    rnic_scenario::from_str(SCENARIO, "example.toml", "".as_ref(), &[], None).unwrap()
}

/// A server of the runs of the scenario, with a token or without.
fn serve(token: Option<&str>) -> (Server, Arc<Runs>) {
    let (server, runs, _) = serve_recordings(token);
    (server, runs)
}

/// The same, with the recordings that the page shows.
fn serve_recordings(token: Option<&str>) -> (Server, Arc<Runs>, Recordings) {
    let scenario = scenario();
    let recordings = Recordings::of(&scenario.runs, 2_000_000, &[]);
    let runs = Arc::new(Runs::of(&scenario, &recordings));
    let router = router(runs.clone(), Guard { token: token.map(Arc::from) });
    let server = Server::start(TcpListener::bind("127.0.0.1:0").unwrap(), router, limits()).unwrap();
    (server, runs, recordings)
}

fn connect(address: SocketAddr, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\n{headers}\r\n").unwrap();
    stream
}

/// The response to a request, of which the server closes the connection.
fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    let mut text = String::new();
    connect(address, path, &format!("{headers}Connection: close\r\n")).read_to_string(&mut text).unwrap();
    text
}

fn own(address: SocketAddr) -> String {
    format!("Host: {address}\r\n")
}

/// Reads from a stream of events until `end` is in it.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let (mut text, mut chunk) = (Vec::new(), [0; 4_096]);
    while !String::from_utf8_lossy(&text).contains(end) {
        let length = stream.read(&mut chunk).unwrap();
        assert!(length > 0, "the stream ended: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&chunk[..length]);
    }
    String::from_utf8(text).unwrap()
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn other_sites_and_other_names_are_refused() {
    let (server, _runs) = serve(None);
    let address = server.address();
    let page = get(address, "/", &own(address));
    assert_eq!(status(&page), "200");
    assert!(page.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{page}");
    assert!(!page.to_lowercase().contains("access-control"), "{page}");
    for headers in [
        format!("Host: {address}\r\nOrigin: http://evil.example\r\n"),
        format!("Host: {address}\r\nOrigin: null\r\n"),
        format!("Host: {address}\r\nSec-Fetch-Site: cross-site\r\n"),
        "Host: evil.example\r\n".to_string(),
    ] {
        for path in ["/events", "/files/report.html"] {
            let response = get(address, path, &headers);
            assert_eq!(status(&response), "403", "{headers}: {response}");
            assert!(!response.contains("event:"), "{response}");
        }
    }
}

#[test]
fn without_the_token_nothing_is_served() {
    let (server, _runs) = serve(Some("0123456789abcdef"));
    let address = server.address();
    for path in ["/", "/events", "/events?token=0123456789abcdee", "/files/report.html", "/nothing"] {
        assert_eq!(status(&get(address, path, &own(address))), "403", "{path}");
    }
    assert_eq!(status(&get(address, "/?token=0123456789abcdef", &own(address))), "200");
}

#[test]
fn tokens_differ() {
    let (first, second) = (token().unwrap(), token().unwrap());
    assert_eq!((first.len(), second.len()), (32, 32));
    assert_ne!(first, second);
}

#[test]
fn only_files_of_the_run_are_served() {
    let (server, runs) = serve(None);
    let address = server.address();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    let report = folder.path().join("report.html");
    std::fs::write(&report, "<p>the report</p>").unwrap();
    assert_eq!(status(&get(address, "/files/report.html", &own(address))), "404", "before the end");
    runs.show(Shown { table: String::new(), files: [("report.html".to_string(), report)].into() });
    let response = get(address, "/files/report.html", &own(address));
    assert!(response.contains("content-security-policy: sandbox allow-scripts"), "{response}");
    assert!(response.contains("<p>the report</p>"), "{response}");
    for path in
        ["secret", "../secret", "..%2fsecret", "%2e%2e/secret", "./report.html/../secret", "%2fetc%2fpasswd", ""]
    {
        let response = get(address, &format!("/files/{path}"), &own(address));
        assert_eq!(status(&response), "404", "{path}: {response}");
    }
}

/// Simulates the scenario for a page.
fn simulate(runs: &Runs, recordings: &Recordings) {
    let listener = RunListeners::new(vec![runs, recordings], 1);
    let records =
        rnic_campaign::execute_remaining(&rnic_sim::Catalogue::standard(), &scenario(), Vec::new(), 1, &listener);
    assert!(records.is_ok());
}

#[test]
fn a_late_client_gets_the_fabric_and_the_frames_so_far() {
    let (server, runs, recordings) = serve_recordings(None);
    simulate(&runs, &recordings);
    runs.show(Shown { table: "the table".to_string(), ..Shown::default() });
    let mut stream = connect(server.address(), "/events", &own(server.address()));
    let text = read_until(&mut stream, "the table");
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    let data = |name: &str| -> Vec<serde_json::Value> {
        let of = format!("event: {name}");
        let events = text.split("\n\n").filter(|event| event.lines().any(|line| line == of));
        let data = events.filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    };
    assert_eq!(data("hello")[0]["runs"][0], "<script>alert(1)</script>");
    let fabric = &data("fabric")[0]["fabric"];
    // Four hosts and a switch; each of four links has two ports.
    assert_eq!(
        (fabric["nodes"]["name"].as_array().unwrap().len(), fabric["ports"]["node"].as_array().unwrap().len()),
        (5, 8)
    );
    let frames: Vec<serde_json::Value> =
        data("frames").iter().flat_map(|event| event["frames"].as_array().unwrap().clone()).collect();
    let times: Vec<f64> = frames.iter().map(|frame| frame["time"].as_f64().unwrap()).collect();
    assert!(times.len() > 5 && times.is_sorted(), "{times:?}");
    assert_eq!(data("state").last().unwrap()["runs"][0]["stage"], "finished");
}

/// A client that reads nothing gets only the events that fit into its connection's buffers, and does not slow the runs
/// down.
#[test]
fn clients_that_do_not_read_stop_nobody() {
    let (server, runs, recordings) = serve_recordings(None);
    let address = server.address();
    let silent: Vec<TcpStream> = (0..20).map(|_| connect(address, "/events", &own(address))).collect();
    for _ in 0..20 {
        simulate(&runs, &recordings);
    }
    assert!(get(address, "/", &own(address)).contains("<title>rnic run</title>"));
    drop(silent);
}

#[test]
fn a_thousand_connections_leave_room_for_a_reader() {
    let (server, _runs) = serve(None);
    let address = server.address();
    let mut idle = Vec::new();
    for _ in 0..1_000 {
        // The system may refuse a connection while the server closes others.
        idle.extend(TcpStream::connect(address));
    }
    assert!(idle.len() > limits().connections);
    assert!(get(address, "/", &own(address)).contains("<title>rnic run</title>"));
}

/// Names in scenarios are untrusted input, so the page's script must not parse them as markup or as a script.
#[test]
fn the_script_parses_no_markup() {
    for way in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "DOMParser", "eval(", "Function("] {
        assert!(!SCRIPT.contains(way), "{way}");
    }
}
