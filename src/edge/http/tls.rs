//! TLS: the certificate, which can be replaced while the server runs, and handshakes under a deadline and a ceiling.

use super::entry::Refused;
use crate::credentials::Secret;
use crate::domain::{Source, WallTime};
use crate::wire::timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError as CertificateRefusal, Error, RootCertStore, ServerConfig};
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshakes are shared out among so many groups of sources, each of which gets an eighth of them at most: whoever opens
/// handshakes and lets them hang leaves room for others. A fixed table, so that it does not grow with sources.
const SHARES: usize = 256;
const SHARE_OF: usize = 8;
/// First byte of a TLS record that begins a handshake.
const HANDSHAKE_RECORD: u8 = 0x16;

/// A certificate chain with its private key, checked to belong together.
#[derive(Clone)]
pub struct Certificate {
    certified: Arc<CertifiedKey>,
    validity: Validity,
}

/// From when to when the server's own certificate is good, in seconds since 1970, both included.
///
/// Compared with the server's wall clock. Those above it in the chain are left to clients, who may know other ways up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// `notBefore`.
    pub not_before_s: u64,
    /// `notAfter`.
    pub not_after_s: u64,
}

/// Why a certificate is no good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateError {
    /// The chain is not PEM, or holds no certificate.
    Chain(String),
    /// The key is not PEM, or of no kind that is known.
    Key(String),
    /// The two don't belong together.
    Mismatch(String),
    /// Not valid yet or no longer, while the one in use is.
    OutOfTime(Validity),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(reason) => write!(f, "no certificate chain in PEM: {reason}"),
            Self::Key(reason) => write!(f, "no private key in PEM: {reason}"),
            Self::Mismatch(reason) => write!(f, "certificate and key don't go together: {reason}"),
            Self::OutOfTime(validity) => write!(f, "only valid {validity}"),
        }
    }
}

impl std::error::Error for CertificateError {}

impl CertificateError {
    /// Whether the key is at fault; else the chain, or both.
    pub fn is_about_key(&self) -> bool {
        matches!(self, Self::Key(_))
    }
}

fn provider() -> CryptoProvider {
    aws_lc_rs::default_provider()
}

impl Certificate {
    /// Reads a chain, the server's own certificate first, and the key of that certificate, both as PEM.
    pub fn from_pem(chain: &str, key: &Secret) -> Result<Self, CertificateError> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let certificates = certificates.map_err(|error| CertificateError::Chain(error.to_string()))?;
        if certificates.is_empty() {
            return Err(CertificateError::Chain("it is empty".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes())
            .map_err(|error| CertificateError::Key(error.to_string()))?;
        let validity = Validity::of(&certificates[0])?;
        let certified = CertifiedKey::from_der(certificates, key, &provider());
        let certified = certified.map_err(|error| CertificateError::Mismatch(error.to_string()))?;
        Ok(Self { certified: Arc::new(certified), validity })
    }
}

impl Validity {
    /// The verifier tells a certificate's times where they are why it says no, and it looks at them before all else: asked
    /// for the last second that there is and for the first, it tells both.
    fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let parsed =
            ParsedCertificate::try_from(certificate).map_err(|error| CertificateError::Chain(error.to_string()))?;
        let refusal_at = |second| {
            let at = UnixTime::since_unix_epoch(Duration::from_secs(second));
            let algorithms = provider().signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, &RootCertStore::empty(), &[], at, algorithms).err()
        };
        let not_after_s = match refusal_at(u64::MAX) {
            Some(Error::InvalidCertificate(CertificateRefusal::ExpiredContext { not_after, .. })) => {
                not_after.as_secs()
            }
            refusal => return Err(CertificateError::Chain(format!("its times can't be read: {refusal:?}"))),
        };
        let not_before_s = match refusal_at(0) {
            Some(Error::InvalidCertificate(CertificateRefusal::NotValidYetContext { not_before, .. })) => {
                not_before.as_secs()
            }
            // Valid since the first second.
            _ => 0,
        };
        Ok(Self { not_before_s, not_after_s })
    }

    fn not_after(self) -> i64 {
        i64::try_from(self.not_after_s).unwrap_or(i64::MAX)
    }

    /// Whether `now` lies in it.
    pub fn holds(self, now: WallTime) -> bool {
        (self.not_before_s..=self.not_after_s).contains(&(now.0 / 1_000))
    }

    /// Whole days to its end, negative after it.
    pub fn days_left(self, now: WallTime) -> i64 {
        let seconds = i128::from(self.not_after_s) - i128::from(now.0 / 1_000);
        i64::try_from(seconds.div_euclid(DAY_S)).unwrap_or(i64::MAX)
    }
}

const DAY_S: i128 = 86_400;

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |seconds: u64| timestamp(WallTime(seconds.saturating_mul(1_000)));
        write!(f, "from {} to {}", time(self.not_before_s), time(self.not_after_s))
    }
}

/// Never the key.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain = self.certified.cert.len();
        f.debug_struct("Certificate").field("chain", &chain).field("validity", &self.validity).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    result: &'static str,
}

/// The certificate that handshakes use from now on. Clones share it.
#[derive(Clone)]
pub struct Certificates {
    current: Arc<Mutex<Certificate>>,
    reloads: Family<ReloadLabels, Counter>,
    expiry: Gauge,
}

impl Certificates {
    /// Begins with `certificate`.
    pub fn new(certificate: Certificate) -> Self {
        let expiry = Gauge::default();
        expiry.set(certificate.validity.not_after());
        Self { current: Arc::new(Mutex::new(certificate)), reloads: Family::default(), expiry }
    }

    /// Takes `certificate` from now on, but not one that is out of time for one that is in it. Connections that are open keep
    /// theirs.
    pub fn replace(&self, certificate: Certificate, now: WallTime) -> Result<(), CertificateError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !certificate.validity.holds(now) && current.validity.holds(now) {
            return Err(CertificateError::OutOfTime(certificate.validity));
        }
        self.expiry.set(certificate.validity.not_after());
        *current = certificate;
        drop(current);
        self.reloads.get_or_create(&ReloadLabels { result: "loaded" }).inc();
        Ok(())
    }

    /// When the one in use is good.
    pub fn validity(&self) -> Validity {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).validity
    }

    /// The files hold one that is no good; the one before stays.
    pub fn keep(&self) {
        self.reloads.get_or_create(&ReloadLabels { result: "refused" }).inc();
    }

    /// The server's own certificate, as DER.
    #[cfg(test)]
    pub(crate) fn leaf(&self) -> Vec<u8> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.certified.cert.first().map(|certificate| certificate.to_vec()).unwrap_or_default()
    }

    /// How many were found so far, by what became of them.
    #[cfg(test)]
    pub(crate) fn reloads(&self) -> Vec<(&'static str, u64)> {
        let of = |result| self.reloads.get_or_create(&ReloadLabels { result }).get();
        [("loaded", of("loaded")), ("refused", of("refused"))].into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "rendezvous_tls_certificate_reloads",
            "Looks at the files that found another certificate: loaded, or refused while the one before stays",
            self.reloads.clone(),
        );
        registry.register_with_unit(
            "rendezvous_tls_certificate_expiry_timestamp",
            "When the certificate in use ends, since 1970",
            Unit::Seconds,
            self.expiry.clone(),
        );
    }
}

/// Never the key.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // Held for a count of references; taken once a handshake.
        Some(Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner).certified))
    }
}

/// TLS on a listener.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// What it shows.
    pub certificates: Certificates,
    /// From the client's first byte to the end of the handshake, waiting for a turn included.
    pub handshake_timeout: Duration,
    /// Handshakes at a time; more wait for their turn.
    pub handshakes: usize,
    /// Whether HTTP/2 is offered (ALPN).
    pub http2: bool,
}

impl TlsSettings {
    /// Defaults: 5 s, 64 at a time, with HTTP/2.
    pub fn new(certificates: Certificates) -> Self {
        Self { certificates, handshake_timeout: Duration::from_secs(5), handshakes: 64, http2: true }
    }
}

/// What both sides chose to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Does handshakes.
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    certificates: Certificates,
    timeout: Duration,
    all: Semaphore,
    shares: Box<[Semaphore]>,
    hasher: RandomState,
}

impl Tls {
    pub(super) fn new(settings: TlsSettings) -> io::Result<Self> {
        let config = ServerConfig::builder_with_provider(Arc::new(provider()));
        let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let mut config =
            config.with_no_client_auth().with_cert_resolver(Arc::new(settings.certificates.clone()) as Arc<_>);
        config.alpn_protocols = if settings.http2 { vec![b"h2".to_vec()] } else { Vec::new() };
        config.alpn_protocols.push(b"http/1.1".to_vec());
        let handshakes = settings.handshakes.max(1);
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificates: settings.certificates,
            timeout: settings.handshake_timeout,
            all: Semaphore::new(handshakes),
            shares: (0..SHARES).map(|_| Semaphore::new((handshakes / SHARE_OF).max(1))).collect(),
            hasher: RandomState::new(),
        })
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        self.certificates.register(registry);
    }

    /// Does the handshake of one connection, once its client has sent something: who says nothing takes no turn from others.
    /// A trusted proxy has no source, and no share.
    pub(super) async fn handshake(
        &self,
        stream: TcpStream,
        source: Option<Source>,
    ) -> Result<(TlsStream<TcpStream>, Protocol), Refused> {
        let handshake = async {
            let mut first = [0];
            match stream.peek(&mut first).await.map_err(Refused::Lost)? {
                0 => return Err(Refused::Lost(io::ErrorKind::UnexpectedEof.into())),
                _ if first != [HANDSHAKE_RECORD] => return Ok(Err(stream)),
                _ => {}
            }
            let _share = match source {
                Some(source) => Some(self.share(source).acquire().await),
                None => None,
            };
            let _turn = self.all.acquire().await;
            self.acceptor.accept(stream).await.map(Ok).map_err(Refused::Handshake)
        };
        let stream = match timeout(self.timeout, handshake).await {
            Err(_) => return Err(Refused::HandshakeTimeout),
            Ok(Err(refused)) => return Err(refused),
            Ok(Ok(Err(plain))) => return Err(Refused::Plaintext(plain)),
            Ok(Ok(Ok(stream))) => stream,
        };
        let protocol =
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
        Ok((stream, protocol))
    }

    fn share(&self, source: Source) -> &Semaphore {
        &self.shares[self.hasher.hash_one(source) as usize % self.shares.len()]
    }
}
