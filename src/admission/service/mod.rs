//! Admission: what makes a request of a back end or a player durable.

mod admit;
mod create;
mod fingerprint;
mod read;
mod requests;

pub use read::{CommandView, SessionView};
pub use requests::{
    CreateRequest, GateResponseRequest, InputRequest, InterruptRequest, LegacyCreateRequest, LegacyCreateResult,
    RequestPayload, RestoreRequest,
};

use super::counters::Counters;
use super::model::{
    CommandKind, Error, ErrorCode, Payload, PayloadRef, Principal, SessionBindingTemplate, SessionId, TenantPrincipal,
};
use super::traits::{
    Authorizer, Catalog, Clock, CommandStore, LegacyCreates, ObjectStoreResolver, OwnerDirectory, PublicCreateStore,
    TargetResolver, UuidSource,
};
use super::waits::Waits;
use std::sync::Arc;
use std::time::Duration;

/// Longest inline payload; a longer one is stored first and referred to.
pub const INLINE_MAX: usize = 32 << 10;
/// Longest payload.
pub const PAYLOAD_MAX: usize = 8 << 20;
/// Shortest time that a command may be given.
pub const APPLY_WITHIN_MIN: Duration = Duration::from_millis(100);
/// Longest time that a command may be given.
pub const APPLY_WITHIN_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a [`Service`] is made of.
#[derive(Clone)]
pub struct Config {
    /// Decides every call, whatever the edge did (rule P1).
    pub authorizer: Arc<dyn Authorizer>,
    /// The configured profiles.
    pub targets: Arc<dyn TargetResolver>,
    /// The sessions.
    pub catalog: Arc<dyn Catalog>,
    /// The commands.
    pub commands: Arc<dyn CommandStore>,
    /// Who owns a session.
    pub directory: Arc<dyn OwnerDirectory>,
    /// Timers of long polls. Deadlines are the store's business.
    pub clock: Arc<dyn Clock>,
    /// Ids for new sessions.
    pub ids: Arc<dyn UuidSource>,
    /// The plane of creates. Optional, and its absence is a supported composition: creates are refused, and everything
    /// else works (rule P3).
    pub public_creates: Option<Arc<dyn PublicCreateStore>>,
    /// The deployment's half of every binding. Optional for the same reason.
    pub binding: Option<SessionBindingTemplate>,
    /// Knows where objects lie. A `binding` that it does not know is refused when the service is built.
    pub objects: Option<Arc<dyn ObjectStoreResolver>>,
    /// The legacy family's admission, for tests and migrations.
    pub legacy: Option<Arc<dyn LegacyCreates>>,
    /// The polls of the store.
    pub waits: Arc<Waits>,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// The time that a command is given when its caller does not say.
    pub apply_deadline: Duration,
}

/// See the module's documentation. All methods may run concurrently, in any number of processes over one store.
pub struct Service {
    config: Config,
}

impl Service {
    /// Composes a service. Refuses a binding whose objects nobody could ever read (rule P3), and a default deadline out of
    /// bounds.
    pub fn new(config: Config) -> Result<Self, Error> {
        if let Some(template) = &config.binding {
            let is_known = config.objects.as_ref().is_some_and(|objects| objects.knows(template));
            if !is_known {
                let must = "must be one that the object-store resolver knows, for a binding can't be changed";
                return Err(Error::field(ErrorCode::Invalid, "storage_binding_id", must));
            }
        }
        within_bounds("apply_deadline", config.apply_deadline)?;
        Ok(Self { config })
    }

    /// The counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.config.counters
    }

    /// Rule P1: no call gets past this, and a tenant is never named by anything but its own principal.
    async fn authorize<'a>(
        &self,
        principal: &'a Principal,
        session: SessionId,
        kind: CommandKind,
    ) -> Result<&'a TenantPrincipal, Error> {
        self.config.authorizer.authorize_control(principal, session, kind).await?;
        principal.as_tenant().ok_or(Error::new(ErrorCode::Forbidden))
    }

    fn apply_within(&self, asked: Option<Duration>) -> Result<Duration, Error> {
        within_bounds("apply_within_ms", asked.unwrap_or(self.config.apply_deadline))
    }

    /// What is admitted: small contents inline, references as they are; a large content is to be stored first.
    fn inline(payload: &RequestPayload) -> Result<Option<Payload>, Error> {
        match payload {
            RequestPayload::Bytes(bytes) if bytes.len() > PAYLOAD_MAX => {
                Err(Error::field(ErrorCode::BadPayload, "payload", format!("must have at most {PAYLOAD_MAX} bytes")))
            }
            RequestPayload::Bytes(bytes) if bytes.len() > INLINE_MAX => Ok(None),
            RequestPayload::Bytes(bytes) => Ok(Some(Payload::Inline(bytes.clone()))),
            RequestPayload::Stored(sha256) => Ok(Some(Payload::Stored(PayloadRef { sha256: *sha256, len: 0 }))),
        }
    }
}

fn within_bounds(field: &'static str, time: Duration) -> Result<Duration, Error> {
    if (APPLY_WITHIN_MIN..=APPLY_WITHIN_MAX).contains(&time) {
        return Ok(time);
    }
    let must = format!("must be {} to {} ms", APPLY_WITHIN_MIN.as_millis(), APPLY_WITHIN_MAX.as_millis());
    Err(Error::field(ErrorCode::Invalid, field, must))
}
