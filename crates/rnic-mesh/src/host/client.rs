//! The agent's requests to the controller: HTTP over TLS 1.3. Both ends have certificates of the same authority.

use crate::credentials::{Files, end_of};
use crate::record::{Fetched, Registration};
use rnic_untrusted::text::{MAX_CHARS, brief};
use rustls::crypto::aws_lc_rs;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider};

/// Maximum length of a response.
const MAX_RESPONSE: u64 = 4 << 20;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The controller cannot be reached, or the server's certificate is not the controller's.
    #[error("the controller does not answer: {0}")]
    Unreachable(String),
    /// The controller cannot write to its disk, for this reason.
    #[error("{0}")]
    Full(String),
    /// The controller, or the agent itself, refuses the request, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The controller will never accept the content of this request, for this reason.
    #[error("{0}")]
    Invalid(String),
}

/// A client of a controller.
pub struct Client {
    agent: Agent,
    url: String,
    /// End of the client's certificate in seconds since 1970.
    pub(super) end: i64,
}

impl Client {
    /// A client of the controller at `https://HOST:PORT`.
    ///
    /// # Errors
    /// A sentence, if the address or a file cannot be used.
    pub fn new(url: &str, files: &Files) -> Result<Client, String> {
        if !url.starts_with("https://") {
            return Err(format!("the controller {url:?} is no address; accepted: https://HOST:PORT"));
        }
        let read = |path: &std::path::Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let certificates = |path: &std::path::Path| -> Result<Vec<Certificate<'static>>, String> {
            let bytes = read(path)?;
            let items = ureq::tls::parse_pem(&bytes).filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate.to_owned()),
                _ => None,
            });
            let found: Vec<Certificate<'static>> = items.collect();
            let empty = || format!("{}: it has no certificate in the format PEM", path.display());
            if found.is_empty() { Err(empty()) } else { Ok(found) }
        };
        let key =
            PrivateKey::from_pem(&read(&files.key)?).map_err(|error| format!("{}: {error}", files.key.display()))?;
        // If the certificate and the key do not belong together, this fails here and not at the first request.
        let credentials = files.read()?;
        let end = credentials.chain.first().and_then(end_of).unwrap_or(i64::MAX);
        credentials.server()?;
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
            .root_certs(RootCerts::Specific(Arc::new(certificates(&files.ca)?)))
            .client_cert(Some(ClientCert::new_with_certs(&certificates(&files.certificate)?, key)))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(true)
            // The environment variables for proxies must not redirect the reports of a service.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(5)))
            .build();
        Ok(Client { agent: config.into(), url: url.trim_end_matches('/').to_string(), end })
    }

    fn post(&self, path: &str, body: &[u8], kind: &str) -> Result<Vec<u8>, ClientError> {
        let request = self.agent.post(format!("{}{path}", self.url)).header("Content-Type", kind);
        Client::read(request.send(body))
    }

    /// A page of the controller, for an operator.
    ///
    /// # Errors
    /// If the controller cannot be reached or refuses.
    pub fn get(&self, path: &str) -> Result<Vec<u8>, ClientError> {
        Client::read(self.agent.get(format!("{}{path}", self.url)).call())
    }

    fn read(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Vec<u8>, ClientError> {
        let mut response = response.map_err(|error| ClientError::Unreachable(error.to_string()))?;
        let mut bytes = Vec::new();
        let mut reader = response.body_mut().as_reader().take(MAX_RESPONSE);
        reader.read_to_end(&mut bytes).map_err(|error| ClientError::Unreachable(error.to_string()))?;
        if response.status().is_success() {
            return Ok(bytes);
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = brief(text.trim(), MAX_CHARS);
        let status = response.status().as_u16();
        let why = format!("the controller refuses ({status}): {text}");
        Err(match status {
            503 => ClientError::Full(why),
            400 => ClientError::Invalid(why),
            _ => ClientError::Refused(why),
        })
    }

    /// Registers, and fetches the pinglist.
    ///
    /// # Errors
    /// If the controller cannot be reached or refuses.
    pub fn fetch(&self, registration: &Registration) -> Result<Fetched, ClientError> {
        let body = serde_json::to_vec(registration).map_err(|error| ClientError::Refused(error.to_string()))?;
        let bytes = self.post("/v1/pinglist", &body, "application/json")?;
        serde_json::from_slice(&bytes)
            .map_err(|error| ClientError::Refused(format!("the pinglist is damaged: {error}")))
    }

    /// Reports a batch. When this returns, the batch is on the controller's disk.
    ///
    /// # Errors
    /// If the controller cannot be reached or does not take the batch.
    pub fn report(&self, batch: &[u8]) -> Result<(), ClientError> {
        self.post("/v1/report", batch, "application/octet-stream").map(drop)
    }

    /// Sends a batch to the controller for its alarms and suspects only. The controller does not store it, so the batch
    /// must be reported later.
    ///
    /// # Errors
    /// If the controller cannot be reached or does not take the batch.
    pub fn show(&self, batch: &[u8]) -> Result<(), ClientError> {
        self.post("/v1/show", batch, "application/octet-stream").map(drop)
    }
}
