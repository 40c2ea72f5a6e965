//! The certificate on disk: read at start, and again when its files change or on SIGHUP.
//!
//! Files are compared by content on a slow beat. That finds every way of replacing them (in place, by rename, behind a link
//! that moves), on every file system.

use crate::clock::{Clock, SystemClock};
use crate::config::{CertificateFileError, CertificateFiles, TlsSection};
use crate::credentials::fingerprint;
use crate::domain::{Fingerprint, WallTime};
use crate::edge::http::{Certificate, Certificates, TlsSettings};
use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

/// From so many days before its end on, a certificate is told of once a day. Renewal tools renew at 30 days and try again
/// for weeks; whoever renews by hand has time.
const LAST_DAYS: i64 = 14;

/// What the HTTP edge is told, and who keeps its certificate new; `None` without TLS. One that is out of time is better than
/// none at start: clients say what is wrong with it, and the log does.
pub(super) fn settings(
    section: &TlsSection,
    clock: SystemClock,
) -> Result<Option<(TlsSettings, Watch)>, CertificateFileError> {
    let Some(files) = section.files() else { return Ok(None) };
    let (chain, key) = files.read()?;
    let certificates = Certificates::new(files.check(&chain, &key)?);
    let settings = TlsSettings {
        handshake_timeout: section.handshake_timeout,
        handshakes: section.handshakes,
        http2: section.http2,
        ..TlsSettings::new(certificates.clone())
    };
    let loaded = pair(&chain, key.expose());
    let watched = Watched { files, certificates, loaded, told: None, told_days: None };
    Ok(Some((settings, Watch { watched, every: section.reload, clock })))
}

fn pair(chain: &str, key: &str) -> Fingerprint {
    // PEM has no NUL, so no two pairs are the same text.
    fingerprint(format!("{chain}\0{key}").as_bytes())
}

/// Looks for a new certificate.
pub(super) struct Watch {
    watched: Watched,
    every: Duration,
    clock: SystemClock,
}

impl Watch {
    /// Runs until dropped. Listens to SIGHUP from this call on.
    pub(super) fn run(self) -> io::Result<impl Future<Output = ()>> {
        let mut hangup = Hangup::listen()?;
        let Self { mut watched, every, clock } = self;
        Ok(async move {
            watched.tell_end(clock.wall());
            let mut beat = interval(every);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            beat.tick().await;
            loop {
                tokio::select! {
                    _ = beat.tick() => {}
                    () = hangup.next() => {}
                }
                let look = move || {
                    watched.look(clock.wall());
                    watched
                };
                match spawn_blocking(look).await {
                    Ok(looked) => watched = looked,
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

/// The files and what is known of them.
struct Watched {
    files: CertificateFiles,
    certificates: Certificates,
    /// What handshakes use.
    loaded: Fingerprint,
    /// What the log was told is wrong with the files, and with which pair; each such state is told once.
    told: Option<(Option<Fingerprint>, CertificateFileError)>,
    /// The days to the end that the log was told last.
    told_days: Option<i64>,
}

impl Watched {
    /// Reads the files and judges what is in them anew, for a pair that is out of time may be in it later.
    fn look(&mut self, now: WallTime) {
        match self.files.read() {
            Ok((chain, key)) => {
                let found = pair(&chain, key.expose());
                if found != self.loaded || self.told.is_some() {
                    match self.files.check(&chain, &key).and_then(|certificate| self.take(certificate, now)) {
                        Ok(()) => self.loaded(found),
                        Err(error) => self.refused(Some(found), error),
                    }
                }
            }
            Err(error) => self.refused(None, error),
        }
        self.tell_end(now);
    }

    fn take(&self, certificate: Certificate, now: WallTime) -> Result<(), CertificateFileError> {
        self.certificates
            .replace(certificate, now)
            .map_err(|error| CertificateFileError { file: self.files.certificate.clone(), reason: error.to_string() })
    }

    fn loaded(&mut self, found: Fingerprint) {
        (self.loaded, self.told, self.told_days) = (found, None, None);
        tracing::info!(event = "certificate_loaded", file = %self.files.certificate.display());
    }

    fn refused(&mut self, found: Option<Fingerprint>, error: CertificateFileError) {
        self.certificates.keep();
        let state = Some((found, error));
        if self.told != state {
            if let Some((_, error)) = &state {
                tracing::warn!(event = "certificate_refused", file = %error.file.display(), reason = %error.reason);
            }
            self.told = state;
        }
    }

    /// Once a day in the last days of the one in use, and after them.
    fn tell_end(&mut self, now: WallTime) {
        let validity = self.certificates.validity();
        let days_left = validity.days_left(now);
        if (days_left < LAST_DAYS || !validity.holds(now)) && self.told_days != Some(days_left) {
            let file = self.files.certificate.display();
            tracing::warn!(event = "certificate_ends", %file, days_left, %validity);
            self.told_days = Some(days_left);
        }
    }
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

    /// Middle of 2030, when the certificates of `write` are good.
    const NOW: WallTime = WallTime(1_909_000_000_000);
    const DAY_MS: u64 = 86_400_000;

    fn write_valid(folder: &Path, name: &str, years: std::ops::Range<i32>) {
        let mut params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(folder.join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    }

    fn write(folder: &Path, name: &str) {
        write_valid(folder, name, 2020..2040);
    }

    fn watched(folder: &Path) -> Watched {
        let section = TlsSection {
            certificate_file: Some(folder.join("cert.pem")),
            key_file: Some(folder.join("key.pem")),
            ..TlsSection::default()
        };
        settings(&section, SystemClock::new()).unwrap().unwrap().1.watched
    }

    #[test]
    fn each_look_at_bad_files_counts_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "one.example");
        let mut watched = watched(folder.path());
        let first = watched.certificates.leaf();
        watched.look(NOW);
        assert_eq!(
            (watched.certificates.leaf(), watched.certificates.reloads()),
            (first.clone(), vec![]),
            "nothing new"
        );

        let old_key = std::fs::read(folder.path().join("key.pem")).unwrap();
        write(folder.path(), "two.example");
        let new_key = std::fs::read(folder.path().join("key.pem")).unwrap();
        std::fs::write(folder.path().join("key.pem"), old_key).unwrap();
        watched.look(NOW);
        assert_eq!(watched.certificates.leaf(), first, "the certificate was replaced before its key");
        let told = watched.told.clone();
        watched.look(NOW);
        assert_eq!(watched.certificates.reloads(), [("refused", 2)]);
        assert!(told.is_some() && watched.told == told, "told once");

        std::fs::write(folder.path().join("key.pem"), new_key).unwrap();
        watched.look(NOW);
        let second = watched.certificates.leaf();
        assert!(second != first && watched.told.is_none());
        std::fs::remove_file(folder.path().join("cert.pem")).unwrap();
        watched.look(NOW);
        assert!(matches!(&watched.told, Some((None, error)) if error.file.ends_with("cert.pem")));
        assert_eq!(watched.certificates.leaf(), second);
        assert_eq!(watched.certificates.reloads(), [("loaded", 1), ("refused", 3)]);
    }

    #[test]
    fn a_pair_that_is_out_of_time_replaces_none_that_is_in_it_until_its_time_comes() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "one.example");
        let mut watched = watched(folder.path());
        let first = watched.certificates.leaf();
        for years in [2020..2025, 2035..2050] {
            write_valid(folder.path(), "two.example", years);
            watched.look(NOW);
            assert_eq!(watched.certificates.leaf(), first);
        }
        let (_, error) = watched.told.clone().unwrap();
        assert_eq!(error.reason, "only valid from 2035-01-01T00:00:00.000Z to 2050-01-01T00:00:00.000Z");
        let in_2036 = WallTime(NOW.0 + 6 * 365 * DAY_MS);
        watched.look(in_2036);
        assert_ne!(watched.certificates.leaf(), first, "the same files, later");
        // With nothing better in use, the newest it is.
        let second = watched.certificates.leaf();
        write_valid(folder.path(), "three.example", 2020..2025);
        watched.look(WallTime(in_2036.0 + 100 * 365 * DAY_MS));
        assert_ne!(watched.certificates.leaf(), second);
    }

    #[test]
    fn the_end_is_told_once_a_day_in_the_last_days() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "one.example");
        let mut watched = watched(folder.path());
        let end_ms = watched.certificates.validity().not_after_s * 1_000;
        assert_eq!(end_ms, 2_208_988_800_000, "2040-01-01");
        let mut told_at = |now_ms: u64| {
            watched.look(WallTime(now_ms));
            watched.told_days
        };
        assert_eq!(told_at(NOW.0), None);
        assert_eq!(told_at(end_ms - 14 * DAY_MS), None);
        assert_eq!(told_at(end_ms - 14 * DAY_MS + 1_000), Some(13));
        assert_eq!(told_at(end_ms - 13 * DAY_MS), Some(13));
        assert_eq!(told_at(end_ms), Some(0));
        assert_eq!(told_at(end_ms + 1_000), Some(-1));
        write_valid(folder.path(), "two.example", 2020..2060);
        assert_eq!(told_at(end_ms + 1_000), None, "renewed");
    }
}
