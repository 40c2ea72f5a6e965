//! What the UDP edge asks for once a datagram's integrity holds.

use super::{Applied, Service, foreign, secret_fingerprint};
use crate::domain::{
    AttemptId, Bind, Bound, Command, Endpoint, Failure, Fingerprint, ListingId, MonoTime, NoteUnverified, Outcome,
    Presence, Present, Reply, Role,
};
use crate::store::Store;

/// What one authenticated datagram asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Presence (`p1`).
    Presence(Presence),
    /// A bind (`j1` or `h1`), which introduces in the same transition when it completes a family.
    Bind(BindRequest),
}

/// The arguments of a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// The attempt named by the credential.
    pub attempt: AttemptId,
    /// The listing that a host's credential names; a joiner's names none.
    pub listing: Option<ListingId>,
    /// The observed source.
    pub endpoint: Endpoint,
    /// Fingerprint of the whole datagram.
    pub datagram: Fingerprint,
    /// Issue time of the nonce.
    pub nonce_issued: MonoTime,
}

/// What the store said to an [`Ask`].
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// To a presence.
    Present(Present),
    /// To a bind.
    Bound(Bound),
}

/// Memory of [`Service::ask_together`], kept by its caller from one batch to the next.
#[derive(Debug, Default)]
pub struct Together {
    commands: Vec<Command>,
    answers: Vec<Result<Reply, Failure>>,
}

impl BindRequest {
    /// Whose bind it is.
    pub fn role(&self) -> Role {
        self.listing.map_or(Role::Joiner, |_| Role::Host)
    }
}

impl Service {
    /// Asks for what one authenticated datagram wants.
    pub async fn ask(&self, ask: Ask) -> Result<Applied<Told>, Failure> {
        told(self.submit(self.command(ask)).await)
    }

    /// Asks for what each of `asks` wants, in their order, where the store can begin at once, and calls `tell` with each
    /// answer. False where it is busy: nothing has begun. At most [`TOGETHER_MAX`](crate::store::TOGETHER_MAX) of them.
    pub fn ask_together(
        &self,
        asks: impl Iterator<Item = Ask>,
        memory: &mut Together,
        tell: impl FnMut(Result<Applied<Told>, Failure>),
    ) -> bool {
        let Together { commands, answers } = memory;
        commands.clear();
        commands.extend(asks.map(|ask| self.command(ask)));
        let has_begun = self.store.submit_together(commands, answers);
        answers.drain(..).map(told).for_each(tell);
        has_begun
    }

    /// An authentic `p1` datagram whose nonce was not issued for its source.
    pub async fn note_unverified(&self, note: NoteUnverified) -> Result<Applied<()>, Failure> {
        let reply = self.submit(Command::NoteUnverified(note)).await?;
        let Outcome::Noted = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value: (), commit: reply.commit, replayed: false })
    }

    /// The service fills in the capability of a bind, because the verified integrity proves that the sender has it.
    fn command(&self, ask: Ask) -> Command {
        let bind = match ask {
            Ask::Presence(presence) => return Command::Presence(presence),
            Ask::Bind(bind) => bind,
        };
        let role = bind.role();
        let BindRequest { attempt, listing, endpoint, datagram, nonce_issued } = bind;
        let password = match listing {
            Some(listing) => self.key.host_password(listing, attempt),
            None => self.key.joiner_password(attempt),
        };
        let capability = secret_fingerprint(&password);
        Command::BindAndConsume(Bind { attempt, role, listing, capability, endpoint, datagram, nonce_issued })
    }
}

fn told(answer: Result<Reply, Failure>) -> Result<Applied<Told>, Failure> {
    let Reply { outcome, commit } = answer?;
    let value = if let Outcome::Present(present) = outcome {
        Told::Present(present)
    } else if let Outcome::Bound(bound) = outcome {
        Told::Bound(bound)
    } else {
        return Err(foreign(&outcome));
    };
    Ok(Applied { value, commit, replayed: false })
}
