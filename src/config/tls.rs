//! `[tls]`: the certificate of the HTTP listener.

use super::Config;
use super::error::{ConfigError, Origin};
use super::load::read;
use crate::credentials::Secret;
use crate::edge::http::Certificate;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `[tls]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSection {
    /// The chain, the server's own certificate first, as PEM. With it the HTTP listener speaks TLS only.
    pub certificate_file: Option<PathBuf>,
    /// The private key, as PEM.
    pub key_file: Option<PathBuf>,
    /// Whether HTTP/2 is offered.
    pub http2: bool,
    /// A handshake has to be over after it.
    pub handshake_timeout: Duration,
    /// Handshakes at a time.
    pub handshakes: usize,
    /// How often the files are looked at.
    pub reload: Duration,
}

impl Default for TlsSection {
    fn default() -> Self {
        Self {
            certificate_file: None,
            key_file: None,
            http2: true,
            handshake_timeout: Duration::from_secs(5),
            handshakes: 64,
            reload: Duration::from_secs(10),
        }
    }
}

/// Where certificate and key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Why files hold no certificate that can be used: which file, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFileError {
    /// The file.
    pub file: PathBuf,
    /// The system's word, or the reader's.
    pub reason: String,
}

impl fmt::Display for CertificateFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.reason)
    }
}

impl std::error::Error for CertificateFileError {}

impl CertificateFiles {
    /// What is in them, not looked at yet: the chain, and the key.
    pub fn read(&self) -> Result<(String, Secret), CertificateFileError> {
        let text = |path: &Path| {
            std::fs::read_to_string(path)
                .map_err(|error| CertificateFileError { file: path.to_owned(), reason: error.to_string() })
        };
        Ok((text(&self.certificate)?, Secret::new(text(&self.key)?)))
    }

    /// Reads both and checks that they belong together.
    pub fn load(&self) -> Result<Certificate, CertificateFileError> {
        let (chain, key) = self.read()?;
        self.check(&chain, &key)
    }

    /// Checks what was read from them.
    pub fn check(&self, chain: &str, key: &Secret) -> Result<Certificate, CertificateFileError> {
        Certificate::from_pem(chain, key).map_err(|error| {
            let file = if error.is_about_key() { &self.key } else { &self.certificate };
            CertificateFileError { file: file.clone(), reason: error.to_string() }
        })
    }
}

impl TlsSection {
    /// The files, if TLS is spoken.
    pub fn files(&self) -> Option<CertificateFiles> {
        let (certificate, key) = (self.certificate_file.clone()?, self.key_file.clone()?);
        Some(CertificateFiles { certificate, key })
    }
}

impl Config {
    /// TLS, and what depends on who can read along.
    pub(super) fn check_transport(&self, errors: &mut Vec<ConfigError>) {
        let mut refuse = |key: &str, expected: &str, seen: &str| {
            errors.push(ConfigError::value(Origin::Whole, key, expected, seen));
        };
        let tls = &self.tls;
        match (&tls.certificate_file, &tls.key_file) {
            (Some(_), None) => refuse("tls.key_file", "a key beside tls.certificate_file", "none"),
            (None, Some(_)) => refuse("tls.certificate_file", "a certificate beside tls.key_file", "none"),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if self.trust.proxy_protocol && self.trust.proxies.is_empty() {
            refuse("trust.proxies", "the proxies that speak the PROXY protocol", "none");
        }
        let Some(files) = tls.files() else { return };
        // Unreadable files are told like those of secrets.
        let unreadable = [&files.certificate, &files.key].map(|path| read(path).err());
        let readable = unreadable.iter().all(Option::is_none);
        errors.extend(unreadable.into_iter().flatten());
        if let (true, Err(error)) = (readable, files.load()) {
            let key = if error.file == files.key { "tls.key_file" } else { "tls.certificate_file" };
            errors.push(ConfigError::value(Origin::Whole, key, "PEM that goes together", error));
        }
    }
}
