//! The arguments for the mutual authentication of two hosts over TCP.

use clap::Args;
use rnic_endpoint::exchange::Credentials;
use rnic_simulator::error::CliError;
use std::path::PathBuf;

/// How the two ends authenticate each other over the control connection.
#[derive(Args, Debug)]
pub(crate) struct TrustArgs {
    /// File with a secret that both ends have, at least 16 random bytes: the control connection uses TLS 1.3
    #[arg(long, value_name = "FILE", conflicts_with = "certificate")]
    secret_file: Option<PathBuf>,

    /// PEM file with the certificate of this end and its chain: the control connection uses TLS 1.3
    #[arg(long, value_name = "FILE", requires_all = ["key", "ca"])]
    certificate: Option<PathBuf>,

    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,

    /// PEM file with the certificates of the authorities of which one must have issued the peer's certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    ca: Option<PathBuf>,
}

impl TrustArgs {
    /// The credentials; `None` if the control connection is plain TCP.
    pub(crate) fn credentials(&self) -> Result<Option<Credentials>, CliError> {
        let credentials = match (&self.secret_file, &self.certificate, &self.key, &self.ca) {
            (Some(secret), ..) => Credentials::from_secret_file(secret),
            (None, Some(certificate), Some(key), Some(ca)) => Credentials::from_pem_files(certificate, key, ca),
            _ => return Ok(None),
        };
        credentials.map(Some).map_err(|error| CliError::Input(error.to_string()))
    }
}
