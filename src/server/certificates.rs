//! The certificate on disk: read at start, and again when its files change or on SIGHUP.
//!
//! Files are compared by content on a slow beat. That finds every way of replacing them (in place, by rename, behind a link
//! that moves), on every file system.

use crate::config::{CertificateFileError, CertificateFiles, TlsSection};
use crate::credentials::fingerprint;
use crate::domain::Fingerprint;
use crate::edge::http::{Certificates, TlsSettings};
use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

/// What the HTTP edge is told, and who keeps its certificate new; `None` without TLS.
pub(super) fn settings(section: &TlsSection) -> Result<Option<(TlsSettings, Watch)>, CertificateFileError> {
    let Some(files) = section.files() else { return Ok(None) };
    let (chain, key) = files.read()?;
    let certificates = Certificates::new(files.check(&chain, &key)?);
    let settings = TlsSettings {
        handshake_timeout: section.handshake_timeout,
        handshakes: section.handshakes,
        http2: section.http2,
        ..TlsSettings::new(certificates.clone())
    };
    let seen = Seen::Pair(pair(&chain, key.expose()));
    Ok(Some((settings, Watch { files, certificates, every: section.reload, seen })))
}

/// What was found last, good or not: each state of the files is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Pair(Fingerprint),
    Unreadable(CertificateFileError),
}

fn pair(chain: &str, key: &str) -> Fingerprint {
    // PEM has no NUL, so no two pairs are the same text.
    fingerprint(format!("{chain}\0{key}").as_bytes())
}

/// Looks for a new certificate.
pub(super) struct Watch {
    files: CertificateFiles,
    certificates: Certificates,
    every: Duration,
    seen: Seen,
}

impl Watch {
    /// Runs until dropped. Listens to SIGHUP from this call on.
    pub(super) fn run(mut self) -> io::Result<impl Future<Output = ()>> {
        let mut hangup = Hangup::listen()?;
        Ok(async move {
            let mut beat = interval(self.every);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            beat.tick().await;
            loop {
                tokio::select! {
                    _ = beat.tick() => {}
                    () = hangup.next() => {}
                }
                let files = self.files.clone();
                match spawn_blocking(move || look(&files, self.seen, &self.certificates)).await {
                    Ok((seen, certificates)) => (self.seen, self.certificates) = (seen, certificates),
                    Err(error) => {
                        // The end of the runtime is no news; a panic leaves the certificate as it is, for good.
                        if error.is_panic() {
                            tracing::error!(event = "certificate_watch_lost", %error);
                        }
                        return;
                    }
                }
            }
        })
    }
}

fn look(files: &CertificateFiles, seen: Seen, certificates: &Certificates) -> (Seen, Certificates) {
    let (found, certificate) = match files.read() {
        Ok((chain, key)) => (Seen::Pair(pair(&chain, key.expose())), files.check(&chain, &key)),
        Err(error) => (Seen::Unreadable(error.clone()), Err(error)),
    };
    if found != seen {
        match certificate {
            Ok(certificate) => {
                certificates.replace(certificate);
                tracing::info!(event = "certificate_loaded", file = %files.certificate.display());
            }
            Err(error) => {
                certificates.keep();
                tracing::warn!(event = "certificate_refused", file = %error.file.display(), reason = %error.reason);
            }
        }
    }
    (found, certificates.clone())
}

/// SIGHUP, where there is such a thing.
struct Hangup {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangup {
    fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        let listening = Self { signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())? };
        #[cfg(not(unix))]
        let listening = Self {};
        Ok(listening)
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if self.signal.recv().await.is_some() {
            return;
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn write(folder: &Path, name: &str) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    }

    fn section(folder: &Path) -> TlsSection {
        TlsSection {
            certificate_file: Some(folder.join("cert.pem")),
            key_file: Some(folder.join("key.pem")),
            ..TlsSection::default()
        }
    }

    #[test]
    fn each_state_of_the_files_is_judged_once_and_a_bad_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "one.example");
        let (settings, watch) = settings(&section(folder.path())).unwrap().unwrap();
        let certificates = settings.certificates;
        let first = certificates.leaf();
        let look = |seen: Seen| look(&watch.files, seen, &certificates).0;
        let seen = look(watch.seen.clone());
        assert_eq!((&seen, certificates.leaf()), (&watch.seen, first.clone()), "nothing new");

        let old_key = std::fs::read(folder.path().join("key.pem")).unwrap();
        write(folder.path(), "two.example");
        let new_key = std::fs::read(folder.path().join("key.pem")).unwrap();
        std::fs::write(folder.path().join("key.pem"), old_key).unwrap();
        let half = look(seen);
        assert_eq!(certificates.leaf(), first, "the certificate was replaced before its key");
        assert_eq!(look(half.clone()), half);
        assert_eq!(certificates.reloads(), [("refused", 1)], "told once");

        std::fs::write(folder.path().join("key.pem"), new_key).unwrap();
        let whole = look(half);
        let second = certificates.leaf();
        assert_ne!(second, first);
        std::fs::remove_file(folder.path().join("cert.pem")).unwrap();
        let gone = look(whole.clone());
        assert!(matches!(&gone, Seen::Unreadable(error) if error.file.ends_with("cert.pem")));
        assert_eq!(certificates.leaf(), second);
        assert_eq!(certificates.reloads(), [("loaded", 1), ("refused", 2)]);
    }
}
