//! A headless browser for tests. It is controlled by the WebDriver protocol: HTTP requests with JSON to chromedriver on
//! the loopback interface.

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Maximum time to wait for a response of the browser's driver, so that no call can hang a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Script that collects the errors of a page. It is installed before the first script of the page runs.
const WATCH: &str = "window.problems = [];
    addEventListener('error', (e) => problems.push('error: ' + e.message));
    addEventListener('unhandledrejection', (e) => problems.push('rejection: ' + e.reason));
    document.addEventListener('securitypolicyviolation', (e) => problems.push('policy: ' + e.violatedDirective + ' ' + e.blockedURI));";

/// A browser with a new profile. The browser and its driver are killed when this value is dropped, even if a test
/// panics.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Process id of the browser itself; 0 if the driver does not report it.
    process: u64,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser. `None`, with a message on standard error, if Chromium or its driver is not installed.
    pub(crate) fn start() -> Option<Browser> {
        let there = |program: &&str| {
            let mut command = Command::new(program);
            command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let chromium = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| there(name));
        let (Some(chromium), true) = (chromium, there(&"chromedriver")) else {
            eprintln!("SKIPPED: chromium and chromedriver are not installed (Debian: chromium, chromium-driver)");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let home = profile.path();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .envs(["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"].map(|name| (name, home)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let port = port_of(&mut driver);
        let mut browser = Browser { driver, port: 0, session: String::new(), process: 0, _profile: profile };
        browser.port = port.expect("chromedriver tells its port");
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-breakpad",
            &format!("--user-data-dir={}", browser._profile.path().join("profile").display()),
        ];
        let options = json!({"args": flags, "binary": which(chromium)});
        let wanted = json!({
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "timeouts": {"script": 20_000, "pageLoad": 40_000, "implicit": 0},
        });
        let started = browser.request("POST", "/session", &json!({"capabilities": {"alwaysMatch": wanted}})).unwrap();
        browser.session = started["sessionId"].as_str().unwrap().to_string();
        browser.process = started["capabilities"]["goog:processID"].as_u64().unwrap_or(0);
        browser.devtools("Page.enable", &json!({}));
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({"source": WATCH}));
        // Leaves the page for new tabs, because the requests for its resources would be counted.
        browser.command("url", &json!({"url": "about:blank"}));
        browser.requests();
        Some(browser)
    }

    /// Opens a file in a window that is `width` pixels wide.
    pub(crate) fn open(&self, file: &Path, width: u32) {
        self.visit(&format!("file://{}", file.display()), width);
    }

    /// Opens an address in a window that is `width` pixels wide.
    pub(crate) fn visit(&self, url: &str, width: u32) {
        let size = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        self.command("url", &json!({"url": url}));
    }

    /// Runs `body` as the body of a JavaScript function in the page, and returns the function's result.
    pub(crate) fn js(&self, body: &str) -> Value {
        self.command("execute/sync", &json!({"script": body, "args": []}))
    }

    /// Waits until `condition`, a JavaScript expression, is true in the page.
    #[expect(clippy::disallowed_methods, reason = "the browser runs in real time")]
    #[track_caller]
    pub(crate) fn wait_for(&self, condition: &str) {
        for _ in 0..600 {
            if self.js(&format!("return Boolean({condition});")) == true {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{condition}: {}", self.js("return document.body.innerText;"));
    }

    /// Executes a command of the DevTools protocol.
    pub(crate) fn devtools(&self, name: &str, parameters: &Value) -> Value {
        self.command("goog/cdp/execute", &json!({"cmd": name, "params": parameters}))
    }

    /// Errors, violations of the content security policy, and severe messages on the console since the last call.
    pub(crate) fn problems(&self) -> Vec<String> {
        let texts = |value: &Value| value.as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>();
        let mut problems = texts(&self.js("return window.problems || ['no watch'];"));
        let console = self.command("se/log", &json!({"type": "browser"}));
        problems.extend(
            console.as_array().unwrap().iter().filter(|entry| entry["level"] == "SEVERE").map(Value::to_string),
        );
        problems
    }

    /// Addresses that the browser requested since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        let log = self.command("se/log", &json!({"type": "performance"}));
        let messages = log.as_array().unwrap().iter().filter_map(|entry| {
            let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let asked = message["message"]["method"] == "Network.requestWillBeSent";
            asked.then(|| message["message"]["params"]["request"]["url"].as_str().map(String::from))?
        });
        messages.collect()
    }

    fn command(&self, name: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{name}", self.session);
        self.request("POST", &path, body).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Sends one HTTP request to the driver on its own connection, and returns the response.
    fn request(&self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let body = if method == "POST" { body.to_string() } else { String::new() };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len(),
        )?;
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        let mut answer: Value = serde_json::from_slice(&answer)?;
        match answer["value"]["error"].as_str() {
            Some(error) => Err(io::Error::other(format!("{error}: {}", answer["value"]["message"]))),
            None => Ok(answer["value"].take()),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // If this request does not end the browser, the commands below kill it.
            let _ = self.request("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let mut groups = vec![u64::from(self.driver.id())];
        groups.extend((self.process > 1).then_some(self.process));
        for process in groups {
            for target in [format!("-{process}"), process.to_string()] {
                let mut kill = Command::new("kill");
                kill.args(["-KILL", "--", &target]).stdout(Stdio::null()).stderr(Stdio::null());
                let _ = kill.status();
            }
        }
        let _ = self.driver.wait();
    }
}

/// Reads from the driver's output the port on which the driver listens.
fn port_of(driver: &mut Child) -> Option<u16> {
    let output = driver.stdout.take()?;
    let (send, receive) = mpsc::channel();
    // The thread reads until the driver ends, so that the driver can always write to the pipe.
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    while let Ok(line) = receive.recv_timeout(PATIENCE) {
        if let Some((_, rest)) = line.split_once("started successfully on port ") {
            return rest.trim_end_matches('.').parse().ok();
        }
    }
    None
}

/// The full path of a program, which the driver needs.
fn which(program: &str) -> String {
    let output = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}
