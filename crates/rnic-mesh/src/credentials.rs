//! Certificates, and the actions that a mesh permits to their owners.
//!
//! All certificates are signed by one authority, made for the mesh. A certificate names a host of the inventory, the
//! controller, or an operator. The controller accepts from a host only results that this host measured, and returns
//! only the host's own pinglist; an agent accepts pinglists only from a server with the controller's name; and only an
//! operator may read results.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name in the certificate of an operator.
pub const OPERATOR: &str = "operator";
/// Name in the certificate of the controller.
pub const CONTROLLER: &str = "controller";

/// Paths of PEM files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// Certificate of the local end, with its chain.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Certificate of the authority.
    pub ca: PathBuf,
}

/// The content of the PEM files.
pub struct Credentials {
    /// Certificate of the local end, with its chain.
    pub chain: Vec<CertificateDer<'static>>,
    /// Private key of the certificate.
    pub key: PrivateKeyDer<'static>,
    /// Certificates of the authority.
    pub ca: Vec<CertificateDer<'static>>,
}

impl Files {
    /// Reads the files.
    ///
    /// # Errors
    /// Returns a sentence if a file cannot be read, or lacks the certificate or key.
    pub fn read(&self) -> Result<Credentials, String> {
        let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, String> {
            let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
            let read: Vec<_> = read.map_err(|error| format!("{}: {error}", path.display()))?;
            let empty = || format!("{}: it has no certificate in the format PEM", path.display());
            if read.is_empty() { Err(empty()) } else { Ok(read) }
        };
        let key = PrivateKeyDer::from_pem_file(&self.key);
        Ok(Credentials {
            chain: certificates(&self.certificate)?,
            key: key.map_err(|error| format!("{}: {error}", self.key.display()))?,
            ca: certificates(&self.ca)?,
        })
    }
}

impl Credentials {
    /// The TLS configuration of a server: TLS 1.3, and every client must present a certificate of the authority.
    ///
    /// # Errors
    /// Returns a sentence if the private key does not belong to the certificate.
    pub fn server(self) -> Result<ServerConfig, String> {
        let unfit = |why: &dyn std::fmt::Display| format!("the certificate cannot be used: {why}");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in self.ca {
            roots.add(authority).map_err(|error| unfit(&error))?;
        }
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unfit(&error))?
            .with_client_cert_verifier(clients.map_err(|error| unfit(&error))?)
            .with_single_cert(self.chain, self.key)
            .map_err(|error| unfit(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Whether a certificate names `name`. The caller has already verified the authority's signature.
pub fn is_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let (Ok(certificate), Ok(name)) = (ParsedCertificate::try_from(certificate), ServerName::try_from(name)) else {
        return false;
    };
    verify_server_name(&certificate, &name).is_ok()
}

/// Makes an authority, and certificates for the controller, an operator and the hosts, in a folder. Files that exist
/// remain as they are, so that hosts can be added later. `controller` has further names and addresses of the
/// controller. Returns the paths of new files.
///
/// # Errors
/// If a file cannot be read or written.
pub fn make(folder: &Path, controller: &[String], hosts: &[String]) -> Result<Vec<PathBuf>, String> {
    let in_file = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).map_err(|error| in_file(folder, &error))?;
    let mut made = Vec::new();
    let (ca, ca_key) = (folder.join("ca.pem"), folder.join("ca-key.pem"));
    let failed = |error: rcgen::Error| format!("no certificate can be made: {error}");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, "rnic mesh");
    let issuer = match (fs::read_to_string(&ca_key), ca.exists()) {
        (Ok(text), true) => {
            let key = KeyPair::from_pem(&text).map_err(|error| in_file(&ca_key, &error))?;
            Issuer::new(params, key)
        }
        (Ok(_), false) => return Err(in_file(&ca, &"the file is missing, but its key is there")),
        (Err(_), true) => return Err(in_file(&ca_key, &"the key cannot be read, but the certificate is there")),
        (Err(_), false) => {
            let key = KeyPair::generate().map_err(failed)?;
            let certificate = params.self_signed(&key).map_err(failed)?;
            write(&ca_key, &key.serialize_pem(), 0o600).map_err(|error| in_file(&ca_key, &error))?;
            write(&ca, &certificate.pem(), 0o644).map_err(|error| in_file(&ca, &error))?;
            made.extend([ca, ca_key]);
            Issuer::new(params, key)
        }
    };
    let names: BTreeSet<&str> = [CONTROLLER, OPERATOR].into_iter().chain(hosts.iter().map(String::as_str)).collect();
    for name in names {
        let (path, key_path) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}-key.pem")));
        if path.exists() && key_path.exists() {
            continue;
        }
        let mut own = vec![name.to_string()];
        if name == CONTROLLER {
            own.extend(controller.iter().cloned());
        }
        let mut params = CertificateParams::new(own).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if name == CONTROLLER {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        write(&key_path, &key.serialize_pem(), 0o600).map_err(|error| in_file(&key_path, &error))?;
        write(&path, &certificate.pem(), 0o644).map_err(|error| in_file(&path, &error))?;
        made.extend([path, key_path]);
    }
    Ok(made)
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_made_once_and_have_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = ["h1".to_string()];
        let made = make(folder.path(), &["10.0.0.1".to_string()], &hosts).unwrap();
        assert_eq!(made.len(), 8);
        let hosts = ["h1".to_string(), "h2".to_string()];
        assert_eq!(make(folder.path(), &[], &hosts).unwrap().len(), 2);
        let files = |name: &str| Files {
            certificate: folder.path().join(format!("{name}.pem")),
            key: folder.path().join(format!("{name}-key.pem")),
            ca: folder.path().join("ca.pem"),
        };
        let h2 = files("h2").read().unwrap();
        assert!(is_for(&h2.chain[0], "h2") && !is_for(&h2.chain[0], "h1") && !is_for(&h2.chain[0], CONTROLLER));
        let controller = files(CONTROLLER).read().unwrap();
        assert!(is_for(&controller.chain[0], "10.0.0.1") && is_for(&controller.chain[0], CONTROLLER));
        controller.server().unwrap();
        let missing = Files { ca: folder.path().join("none.pem"), ..files("h1") };
        assert!(missing.read().err().unwrap().contains("none.pem"));
    }
}
