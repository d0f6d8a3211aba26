//! Certificates, and the actions that a mesh permits to their owners.
//!
//! All certificates are signed by one authority, made for the mesh. A certificate names a host of the inventory, the
//! controller, or an operator. The controller accepts from a host only results that this host measured, and returns
//! only the host's own pinglist; an agent accepts pinglists only from a server with the controller's name; and only an
//! operator may read results.

use ::aws_lc_rs::digest;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData,
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
use time::OffsetDateTime;

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

/// Reads the end of a certificate's life, in seconds since 1970.
pub fn end_of(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

/// The SHA-256 of a certificate.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    bytes
}

/// SHA-256 of a certificate.
pub type Fingerprint = [u8; 32];

/// Reads a list of withdrawn certificates: on each line the SHA-256 of a certificate in hexadecimal digits, then any
/// text. Empty lines and lines that begin with `#` are ignored.
///
/// # Errors
/// A sentence about the first line that is wrong.
pub fn denied(text: &str) -> Result<BTreeSet<Fingerprint>, String> {
    let mut denied = BTreeSet::new();
    for (line, text) in (1..).zip(text.lines().map(str::trim)) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let word = text.split_whitespace().next().unwrap_or_default();
        let read = fingerprint_of(word).ok_or_else(|| {
            format!("line {line}: it does not begin with a SHA-256; accepted: 64 hexadecimal digits, then any text")
        })?;
        denied.insert(read);
    }
    Ok(denied)
}

fn fingerprint_of(word: &str) -> Option<Fingerprint> {
    let mut bytes = [0; 32];
    if word.len() != 64 || !word.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(word.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Name of the list of withdrawn certificates in a folder of certificates.
pub const DENIED: &str = "denied.txt";
/// Life of the authority's certificate in days.
const AUTHORITY_DAYS: i64 = 3_650;
const DAY: i64 = 86_400;

/// What [`issue`] makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issue {
    /// Life of a new certificate in days.
    pub days: u32,
    /// Whether to renew certificates that have expired, or have less than a third of their validity period left.
    pub renew: bool,
    /// Names of certificates that are withdrawn: their fingerprints are added to the list [`DENIED`], and their files
    /// are removed. A host that is still in the inventory gets a new certificate.
    pub withdraw: Vec<String>,
}

impl Default for Issue {
    /// Certificates for a year, for hosts without one.
    fn default() -> Issue {
        Issue { days: 365, renew: false, withdraw: Vec::new() }
    }
}

/// The result of [`issue`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Issued {
    /// Paths of new files.
    pub files: Vec<PathBuf>,
    /// Names of the certificates that replace others.
    pub renewed: Vec<String>,
    /// Names of the certificates that were not renewed and have less than a third of their life left, with their expiry
    /// times in seconds since 1970.
    pub due: Vec<(String, i64)>,
}

/// Makes an authority, and certificates for the controller, an operator and the hosts, in a folder, with the defaults
/// of [`Issue`]. Returns the paths of new files.
///
/// # Errors
/// If a file cannot be read or written.
pub fn make(folder: &Path, controller: &[String], hosts: &[String]) -> Result<Vec<PathBuf>, String> {
    issue(folder, controller, hosts, &Issue::default()).map(|issued| issued.files)
}

/// Makes an authority, and certificates for the controller, an operator and the hosts, in a folder. Files that exist
/// remain as they are, so that hosts can be added later, unless they are renewed or withdrawn. `controller` has further
/// names and addresses of the controller.
///
/// # Errors
/// If a file cannot be read or written, a certificate to be withdrawn does not exist, or the authority has ended.
pub fn issue(folder: &Path, controller: &[String], hosts: &[String], what: &Issue) -> Result<Issued, String> {
    fs::create_dir_all(folder).map_err(|error| in_file(folder, &error))?;
    let now = OffsetDateTime::from_unix_timestamp(unix_seconds()).map_err(|error| error.to_string())?;
    let mut issued = Issued::default();
    let (issuer, authority_end) = authority(folder, now, &mut issued.files)?;
    if authority_end <= now.unix_timestamp() {
        return Err(format!("{}: the authority has ended; make a new one in another folder", folder.display()));
    }
    for name in &what.withdraw {
        withdraw(folder, name, now)?;
    }
    let names: BTreeSet<&str> = [CONTROLLER, OPERATOR].into_iter().chain(hosts.iter().map(String::as_str)).collect();
    for name in names {
        let (path, key_path) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}-key.pem")));
        if path.exists() && key_path.exists() {
            let end = due(&path, now.unix_timestamp())?;
            match end {
                Some(_) if what.renew => issued.renewed.push(name.to_string()),
                Some(end) => {
                    issued.due.push((name.to_string(), end));
                    continue;
                }
                None => continue,
            }
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
        let end = (now.unix_timestamp() + i64::from(what.days) * DAY).min(authority_end);
        (params.not_before, params.not_after) = (start(now), at(end)?);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        write(&key_path, &key.serialize_pem(), 0o600).map_err(|error| in_file(&key_path, &error))?;
        write(&path, &certificate.pem(), 0o644).map_err(|error| in_file(&path, &error))?;
        issued.files.extend([path, key_path]);
    }
    Ok(issued)
}

fn in_file(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

fn failed(error: rcgen::Error) -> String {
    format!("no certificate can be made: {error}")
}

/// Start of a new certificate's validity: one day ago, because the clocks of the hosts may be slow.
fn start(now: OffsetDateTime) -> OffsetDateTime {
    now - time::Duration::days(1)
}

fn at(seconds: i64) -> Result<OffsetDateTime, String> {
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| format!("no certificate can be made: {error}"))
}

/// Returns the authority in a folder, and its expiry time in seconds since 1970. Creates the authority if the folder
/// has none.
fn authority(
    folder: &Path, now: OffsetDateTime, made: &mut Vec<PathBuf>,
) -> Result<(Issuer<'static, KeyPair>, i64), String> {
    let (ca, ca_key) = (folder.join("ca.pem"), folder.join("ca-key.pem"));
    let end = now.unix_timestamp() + AUTHORITY_DAYS * DAY;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, "rnic mesh");
    (params.not_before, params.not_after) = (start(now), at(end)?);
    match (fs::read_to_string(&ca_key), ca.exists()) {
        (Ok(text), true) => {
            let key = KeyPair::from_pem(&text).map_err(|error| in_file(&ca_key, &error))?;
            if !belongs(&ca, &key)? {
                let why =
                    "it is not the key of the certificate `ca.pem`: one of the two files is damaged or was replaced";
                return Err(in_file(&ca_key, &why));
            }
            let certificate = CertificateDer::from_pem_file(&ca).map_err(|error| in_file(&ca, &error))?;
            let end = end_of(&certificate).ok_or_else(|| in_file(&ca, &"it is not a certificate"))?;
            Ok((Issuer::new(params, key), end))
        }
        (Ok(_), false) => Err(in_file(&ca, &"the file is missing, but its key is there")),
        (Err(_), true) => Err(in_file(&ca_key, &"the key cannot be read, but the certificate is there")),
        (Err(_), false) => {
            let key = KeyPair::generate().map_err(failed)?;
            let certificate = params.self_signed(&key).map_err(failed)?;
            write(&ca_key, &key.serialize_pem(), 0o600).map_err(|error| in_file(&ca_key, &error))?;
            write(&ca, &certificate.pem(), 0o644).map_err(|error| in_file(&ca, &error))?;
            made.extend([ca, ca_key]);
            Ok((Issuer::new(params, key), end))
        }
    }
}

/// The expiry time of a certificate that has less than a third of its validity period left; `None` for other
/// certificates.
fn due(path: &Path, now: i64) -> Result<Option<i64>, String> {
    let certificate = CertificateDer::from_pem_file(path).map_err(|error| in_file(path, &error))?;
    let parsed = x509_parser::parse_x509_certificate(&certificate);
    let (_, parsed) = parsed.map_err(|error| in_file(path, &error))?;
    let (start, end) = (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp());
    Ok((end - now < (end - start) / 3).then_some(end))
}

/// Adds a certificate to the list of withdrawn ones, and removes its files.
fn withdraw(folder: &Path, name: &str, now: OffsetDateTime) -> Result<(), String> {
    let (path, key_path) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}-key.pem")));
    let is_name = !name.contains(['/', '\n']) && name != "ca";
    let certificate = if is_name { CertificateDer::from_pem_file(&path).ok() } else { None };
    let certificate = certificate
        .ok_or_else(|| format!("{name} cannot be withdrawn: {} has no certificate {name}.pem", folder.display()))?;
    let digits: String = fingerprint(&certificate).iter().map(|byte| format!("{byte:02x}")).collect();
    let list = folder.join(DENIED);
    let line = format!("{digits}  {name}, withdrawn on {}\n", now.date());
    let appended = || -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).mode(0o644).open(&list)?;
        file.write_all(line.as_bytes())?;
        file.sync_all()
    };
    appended().map_err(|error| in_file(&list, &error))?;
    fs::remove_file(&path).map_err(|error| in_file(&path, &error))?;
    match fs::remove_file(&key_path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(in_file(&key_path, &error)),
        _ => Ok(()),
    }
}

#[expect(clippy::disallowed_methods, reason = "certificates have times of day")]
fn unix_seconds() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| time.as_secs() as i64)
}

/// Whether the certificate in a file has the public key of `key`.
fn belongs(certificate: &Path, key: &KeyPair) -> Result<bool, String> {
    let read = CertificateDer::from_pem_file(certificate).map_err(|error| in_file(certificate, &error))?;
    let parsed = ParsedCertificate::try_from(&read).map_err(|error| in_file(certificate, &error))?;
    Ok(parsed.subject_public_key_info().as_ref() == key.subject_public_key_info())
}

/// Writes a file, complete or not at all, so that a service that reads its certificates at the same time gets either
/// the old or the new certificate.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let temporary = path.with_extension("pem.tmp");
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::UnixTime;

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

    /// A certificate expires, and is renewed in the last third of its validity period; the list contains each withdrawn
    /// certificate.
    #[test]
    fn certificates_end_and_are_renewed_and_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, hosts) = (folder.path(), ["h1".to_string(), "h2".to_string()]);
        let read = |name: &str| CertificateDer::from_pem_file(folder.join(name)).unwrap();
        let with = |days, renew, withdraw: &[&str]| Issue {
            days,
            renew,
            withdraw: withdraw.iter().map(|name| name.to_string()).collect(),
        };
        issue(folder, &[], &hosts[..1], &with(2, false, &[])).unwrap();
        let now = unix_seconds();
        let life = end_of(&read("h1.pem")).unwrap() - now;
        assert!((2 * DAY - 100..=2 * DAY).contains(&life), "{life}");
        let authority = end_of(&read("ca.pem")).unwrap() - now;
        assert!((3_650 * DAY - 100..=3_650 * DAY).contains(&authority));
        assert_eq!(due(&folder.join("h1.pem"), now).unwrap(), None);
        assert!(due(&folder.join("h1.pem"), now + 3 * DAY / 2).unwrap().is_some());
        // A life of 0 days is in its last third at once.
        let issued = issue(folder, &[], &hosts, &with(0, false, &[])).unwrap();
        assert_eq!((issued.files.len(), issued.due.len()), (2, 0));
        let old = read("h2.pem");
        let issued = issue(folder, &[], &hosts, &with(9, false, &[])).unwrap();
        assert_eq!((issued.files.len(), issued.due.len(), issued.due[0].0.as_str()), (0, 1, "h2"));
        let issued = issue(folder, &[], &hosts, &with(9, true, &[])).unwrap();
        assert_eq!((issued.files.len(), issued.renewed.as_slice()), (2, &["h2".to_string()][..]));
        assert_ne!(read("h2.pem"), old);

        let stolen = read("h1.pem");
        issue(folder, &[], &hosts, &with(9, false, &["h1"])).unwrap();
        let list = denied(&fs::read_to_string(folder.join(DENIED)).unwrap()).unwrap();
        assert!(list.len() == 1 && list.contains(&fingerprint(&stolen)));
        assert!(!list.contains(&fingerprint(&read("h1.pem"))), "the host has a new certificate");
        for name in ["h9", "../h1", "ca"] {
            let why = issue(folder, &[], &hosts, &with(9, false, &[name])).unwrap_err();
            assert!(why.contains("cannot be withdrawn"), "{why}");
        }
        let why = denied("# old\n\nabc h1\n").unwrap_err();
        assert!(why.starts_with("line 3: ") && why.contains("64 hexadecimal digits"), "{why}");
    }

    /// Calls `each` with the bytes of a file and of every copy of it with one changed bit.
    fn with_changed_bits(path: &Path, mut each: impl FnMut(&str)) {
        let bytes = fs::read(path).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(path, changed).unwrap();
            each(&format!("{}, byte {at}", path.display()));
        }
        fs::write(path, bytes).unwrap();
    }

    /// A damaged file is refused when it is read, or the peer refuses it, or the change does not affect its meaning.
    #[test]
    fn a_changed_bit_of_a_certificate_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = ["h1".to_string()];
        make(folder.path(), &[], &hosts).unwrap();
        let in_folder = |name: &str| folder.path().join(name);
        let files = Files { certificate: in_folder("h1.pem"), key: in_folder("h1-key.pem"), ca: in_folder("ca.pem") };
        let whole = files.read().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(whole.ca[0].clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let peer = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let accepts = |chain: &CertificateDer<'_>| peer.verify_client_cert(chain, &[], UnixTime::now()).is_ok();
        assert!(accepts(&whole.chain[0]));

        let mut refused = 0;
        for path in [&files.certificate, &files.key] {
            with_changed_bits(path, |place| {
                let Ok(read) = files.read() else { return refused += 1 };
                let is_same = read.chain == whole.chain && read.key == whole.key;
                let is_accepted = accepts(&read.chain[0]);
                if read.server().is_err() || !is_accepted {
                    return refused += 1;
                }
                assert!(is_same, "{place}: another certificate or key is accepted");
            });
        }
        assert!(refused > 500, "{refused}");
    }

    /// No host gets a certificate that its peers refuse.
    #[test]
    fn a_changed_bit_of_the_authority_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path(), &[], &[]).unwrap();
        let key = folder.path().join("ca-key.pem");
        let whole = KeyPair::from_pem(&fs::read_to_string(&key).unwrap()).unwrap().serialize_der();
        let mut refused = 0;
        with_changed_bits(&key, |place| match make(folder.path(), &[], &[]) {
            Err(why) => {
                assert!(why.contains("ca-key.pem"), "{place}: {why}");
                refused += 1;
            }
            Ok(made) => {
                assert!(made.is_empty());
                let text = fs::read_to_string(&key).unwrap();
                assert_eq!(KeyPair::from_pem(&text).unwrap().serialize_der(), whole, "{place}");
            }
        });
        assert!(refused > 100, "{refused}");
        // The key of another authority.
        fs::write(&key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
        assert!(make(folder.path(), &[], &[]).unwrap_err().contains("it is not the key of the certificate `ca.pem`"));
    }
}
