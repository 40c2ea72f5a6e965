//! One connection to PostgreSQL, and when it is given up.

use std::collections::HashMap;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

/// How long a connection may take to come up, the server's first words included.
pub(super) const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// What every connection says first. A statement that takes longer than this is given up, and so is a transaction whose
/// process stopped in the middle: it holds locks that others wait for (case Q10). Commits are synced whatever the
/// server's default is.
const SETUP: &str = "SET statement_timeout = '10s'; SET idle_in_transaction_session_timeout = '10s'; \
                     SET synchronous_commit = on; SET client_min_messages = warning";
/// When a silent peer is first asked whether it is there, how often, and how many unanswered questions end it.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 3);
/// What the driver has where the URL says nothing: the two hours of RFC 9293 section 3.8.4.
const KEEPALIVE_UNSET: Duration = Duration::from_secs(2 * 60 * 60);

/// What the URL says, and bounds for what it does not: a host that went away without a word is noticed.
pub(super) fn configure(url: &str, wait: Duration) -> Result<Config, tokio_postgres::Error> {
    let mut config: Config = url.parse()?;
    config.connect_timeout(CONNECT_WAIT);
    if config.get_application_name().is_none() {
        config.application_name("rendezvous");
    }
    if config.get_keepalives_idle() == KEEPALIVE_UNSET {
        let (idle, interval, retries) = KEEPALIVE;
        config.keepalives_idle(idle).keepalives_interval(interval).keepalives_retries(retries);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(wait);
    }
    Ok(config)
}

/// A connection that was set up.
pub(super) struct Link {
    pub(super) client: Client,
    /// One per text: a table has a few.
    statements: HashMap<String, Statement>,
    task: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        // To a peer that does not answer it would say goodbye for ever.
        self.task.abort();
    }
}

impl Link {
    /// Connects and sets the session up.
    pub(super) async fn connect(config: &Config) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        let task = tokio::spawn(async move {
            // What breaks it is told to whoever waits for an answer.
            drop(connection.await);
        });
        let link = Self { client, statements: HashMap::new(), task: task.abort_handle() };
        link.client.batch_execute(SETUP).await?;
        Ok(link)
    }

    pub(super) async fn statement(&mut self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(super) async fn query(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.statement(sql).await?;
        self.client.query(&statement, values).await
    }

    pub(super) async fn execute(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, tokio_postgres::Error> {
        let statement = self.statement(sql).await?;
        self.client.execute(&statement, values).await
    }
}

/// Whether the connection itself is no good after this error, so that whoever comes next would meet it again: it broke, its
/// session is not as it was set up, or it leads to a server that takes no writes. Errors of a statement are not that.
pub(super) fn is_spoilt(error: &tokio_postgres::Error) -> bool {
    // Without a word of the server's it is the connection, or an answer that nobody can make sense of.
    error.code().is_none_or(spoils)
}

fn spoils(state: &SqlState) -> bool {
    // PostgreSQL, appendix A: a statement that was given up, by its timeout, says nothing about its session.
    if *state == SqlState::QUERY_CANCELED {
        return false;
    }
    // Connection exception; invalid transaction state, with a standby's refusal to write; prepared statements that are
    // gone; operator intervention; a plan that no longer fits.
    let class = state.code().get(..2).unwrap_or_default();
    // And prepared statements that somebody else made on what a pool hands around.
    ["08", "25", "26", "57", "0A"].contains(&class) || *state == SqlState::DUPLICATE_PSTATEMENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_not_what_it_was_is_given_up_and_one_whose_statement_failed_is_kept() {
        for code in ["08006", "25006", "25P02", "26000", "57P01", "0A000", "42P05"] {
            assert!(spoils(&SqlState::from_code(code)), "{code}");
        }
        for code in ["57014", "23505", "40P01", "55P03", "53100", "42P01"] {
            assert!(!spoils(&SqlState::from_code(code)), "{code}");
        }
    }

    #[test]
    fn what_the_url_says_about_a_silent_peer_counts() {
        let wait = Duration::from_secs(3);
        let bounded = configure("host=db", wait).expect("valid");
        assert_eq!(bounded.get_keepalives_idle(), KEEPALIVE.0);
        assert_eq!(bounded.get_tcp_user_timeout(), Some(&wait));
        let own = configure("host=db keepalives_idle=77 tcp_user_timeout=9", wait).expect("valid");
        assert_eq!(own.get_keepalives_idle(), Duration::from_secs(77));
        assert_eq!(own.get_tcp_user_timeout(), Some(&Duration::from_secs(9)));
    }
}
