//! Stores with a bug, which the checkers have to find.

use crate::history::{Honest, Subject};
use crate::support::{ManualClock, Page};
use rendezvous::domain::*;
use rendezvous::store::lane::Lane;
use std::sync::{Mutex, PoisonError};

type TheLane = Lane<ManualClock>;

/// Says that a listing is deleted, and deletes it when the next command comes.
pub(crate) struct Hasty {
    store: Honest<TheLane>,
    owed: Mutex<Option<Command>>,
}

impl Hasty {
    pub(crate) fn new() -> Self {
        Self { store: Honest::new(), owed: Mutex::new(None) }
    }
}

impl Subject for Hasty {
    fn submit(&self, command: Command) -> Result<Reply, Failure> {
        let owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Command::Delete(_) = &command
            && let Ok(reply) = self.store.submit(Command::Query(Query::Status))
        {
            *self.owed.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
            return Ok(Reply { outcome: Outcome::Deleted, ..reply });
        }
        let answer = self.store.submit(command);
        if let Some(owed) = owed {
            // Nobody hears of it any more.
            let _ = self.store.submit(owed);
        }
        answer
    }

    fn browse(&self) -> Page {
        self.store.browse()
    }

    fn at(&self) -> At {
        self.store.at()
    }
}

/// Answers every second look at a page with the page before.
pub(crate) struct Stale {
    store: Honest<TheLane>,
    last: Mutex<Option<Page>>,
}

impl Stale {
    pub(crate) fn new() -> Self {
        Self { store: Honest::new(), last: Mutex::new(None) }
    }
}

impl Subject for Stale {
    fn submit(&self, command: Command) -> Result<Reply, Failure> {
        self.store.submit(command)
    }

    fn browse(&self) -> Page {
        let page = self.store.browse();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.take().unwrap_or_else(|| last.insert(page).clone())
    }

    fn at(&self) -> At {
        self.store.at()
    }
}
