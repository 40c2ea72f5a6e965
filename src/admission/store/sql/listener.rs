//! News of other processes, by NOTIFY. A hint like every wake-up: who hears nothing asks again all the same.

use crate::admission::model::{CommandSeq, HostId, SessionId, Tenant};
use crate::admission::store::Notice;
use crate::admission::waits::Waits;
use std::future::poll_fn;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Config, NoTls};

/// The channel. Databases have channels of their own, so no two stores share one.
pub(super) const CHANNEL: &str = "rendezvous_admission";
/// How long a listener whose connection broke waits before the next.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a listener makes sure that there is somebody whom it would hear: what goes silent breaks nothing by itself.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// Why a listener needs another connection. Which of the two it was changes nothing.
struct Lost;

impl From<tokio_postgres::Error> for Lost {
    fn from(_: tokio_postgres::Error) -> Self {
        Self
    }
}

impl From<Elapsed> for Lost {
    fn from(_: Elapsed) -> Self {
        Self
    }
}

/// A notice as text. Names have no spaces.
pub(super) fn write(notice: &Notice) -> String {
    match notice {
        Notice::Command(tenant, session, seq) => format!("command {tenant} {session} {seq}"),
        Notice::Host(host) => format!("host {host}"),
    }
}

/// Reads what [`write`] gives; anything else is nobody's news.
fn read(text: &str) -> Option<Notice> {
    let mut words = text.split(' ');
    let notice = match words.next()? {
        "command" => Notice::Command(
            Tenant::new(words.next()?).ok()?,
            SessionId::parse(words.next()?)?,
            CommandSeq(words.next()?.parse().ok()?),
        ),
        "host" => Notice::Host(HostId::new(words.next()?).ok()?),
        _ => return None,
    };
    words.next().is_none().then_some(notice)
}

/// A thread that listens until it is dropped.
pub(super) struct Listener {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn start(config: Config, wait: Duration, waits: Arc<Waits>) -> std::io::Result<Self> {
        let (stop, mut stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listen = move || {
            runtime.block_on(async {
                while !*stopped.borrow() {
                    tokio::select! {
                        _ = stopped.changed() => return,
                        // Whatever broke it, the next connection may hold.
                        _ = listen(&config, wait, &waits) => {}
                    }
                    tokio::select! {
                        _ = stopped.changed() => return,
                        () = tokio::time::sleep(PAUSE) => {}
                    }
                }
            });
        };
        let thread = std::thread::Builder::new().name("admission-listen".into()).spawn(listen)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Listens until the connection breaks or does not answer within `wait`.
async fn listen(config: &Config, wait: Duration, waits: &Waits) -> Result<(), Lost> {
    let (client, mut connection) = timeout(wait, config.connect(NoTls)).await??;
    let hear = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(news) = message?
                && let Some(notice) = read(news.payload())
            {
                waits.wake(&[notice]);
            }
        }
        Ok(())
    };
    let ask = async {
        timeout(wait, client.batch_execute(&format!("LISTEN {CHANNEL}"))).await??;
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            timeout(wait, client.batch_execute("SELECT 1")).await??;
        }
    };
    tokio::select! {
        heard = hear => heard,
        asked = ask => asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_survive_the_wire() {
        let tenant = Tenant::new("arena").expect("valid");
        let notices =
            [Notice::Command(tenant, SessionId(7), CommandSeq(9)), Notice::Host(HostId::new("eu-1").expect("valid"))];
        for notice in notices {
            assert_eq!(read(&write(&notice)), Some(notice));
        }
        for foreign in ["", "host", "host a b", "command arena 7 9", "reload", "command arena"] {
            assert_eq!(read(foreign), None, "{foreign}");
        }
    }
}
