//! Tests of the page's routes, with attacks.

use super::*;
use rnic_http::{Limits, Server};
use std::io::Read;
use std::io::Write;
use std::net::{TcpListener, TcpStream};

fn serve() -> (Arc<Page>, Server) {
    let live = Arc::new(Live::new(false));
    let page = Page::new(vec!["irn".to_string()], vec![live], LiveFaults::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::start(listener, router(page.clone()), Limits::default()).unwrap();
    (page, server)
}

/// Sends a request with these headers (lines with `\r\n`); returns the status and the body.
fn request(server: &Server, first: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let host = server.address();
    let length = body.len();
    let text = format!(
        "{first} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let status = response.split(' ').nth(1).unwrap().parse().unwrap();
    (status, response.split_once("\r\n\r\n").unwrap().1.to_string())
}

#[test]
fn only_the_token_opens_the_data() {
    let (page, server) = serve();
    let wrong = format!("{TOKEN}: {}\r\n", "0".repeat(32));
    for headers in ["", &wrong, &format!("{TOKEN}: \r\n"), &format!("{TOKEN}: {}0\r\n", page.token())] {
        assert_eq!(request(&server, "GET /api/points", headers, "").0, 403, "{headers}");
        assert_eq!(request(&server, "POST /api/faults", headers, "{\"loss\":1}").0, 403, "{headers}");
    }
    assert_eq!(*page.faults.lock(), LiveFaults::default());
    let right = format!("{TOKEN}: {}\r\n", page.token());
    assert_eq!(request(&server, "GET /api/points", &right, "").0, 200);
    let (status, html) = request(&server, "GET /", "", "");
    assert!(status == 200 && !html.contains(page.token()), "the page itself must not reveal the token");
}

#[test]
fn a_page_of_another_origin_changes_nothing() {
    let (page, server) = serve();
    let with = |origin: &str| format!("{TOKEN}: {}\r\norigin: {origin}\r\n", page.token());
    let host = server.address();
    for origin in
        ["http://evil.example", "null", "", &format!("https://{host}"), &format!("http://{host}.evil.example")]
    {
        assert_eq!(request(&server, "POST /api/faults", &with(origin), "{\"loss\":1}").0, 403, "{origin}");
    }
    assert_eq!(*page.faults.lock(), LiveFaults::default());
    assert_eq!(request(&server, "POST /api/faults", &with(&format!("http://{host}")), "{\"loss\":1}").0, 200);
    assert_eq!(page.faults.lock().loss, 1.0);
}

#[test]
fn bad_values_are_refused_with_a_sentence() {
    let (page, server) = serve();
    let headers = format!("{TOKEN}: {}\r\n", page.token());
    let post = |body: &str| request(&server, "POST /api/faults", &headers, body);
    assert_eq!(post("{\"loss\":21}"), (400, "loss is 21; accepted: 0 to 20 %\n".to_string()));
    for body in
        ["", "{", "[]", "{\"loss\":\"1\"}", "{\"loss\":-0.5}", "{\"loss\":1e999}", "{\"lost\":1}", "{\"delay\":20.5}"]
    {
        assert_eq!(post(body).0, 400, "{body}");
    }
    assert_eq!(post(&format!("{{\"loss\":{}1}}", " ".repeat(MAX_BODY))).0, 413);
    assert_eq!(*page.faults.lock(), LiveFaults::default());
    assert_eq!(request(&server, "GET /api/points?after=-1", &headers, "").0, 400);
    assert_eq!(request(&server, &format!("GET /api/points?after={}", u64::MAX), &headers, "").0, 200);
}

#[test]
fn the_list_of_intervals_is_bounded() {
    let (page, _server) = serve();
    for number in 0..MAX_ROWS + 5 {
        page.add(Row { seconds: number as f64, points: vec![Point::default()] });
    }
    let data = page.data(0);
    let rows = data["rows"].as_array().unwrap();
    assert_eq!((rows.len(), rows[0]["seconds"].as_f64(), data["next"].as_u64()), (MAX_ROWS, Some(5.0), Some(245)));
    assert_eq!(page.data(243)["rows"].as_array().unwrap().len(), 2);
    assert!(page.data(u64::MAX)["rows"].as_array().unwrap().is_empty());
}
