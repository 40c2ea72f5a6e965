//! The client library: list a game, find games, meet the other side.
//!
//! Two layers. [`core`] says what to send and when, without sockets, clocks or randomness of its own, for a game with its
//! own loop. [`Host`] and [`Join`] drive it with tokio over UDP sockets that the game may share ([`Port`]); [`http`] holds
//! the calls. Nothing runs in the background but HTTP calls: await `next` in a loop, or in a task.
//!
//! A game that hosts:
//!
//! ```no_run
//! use rendezvous::client::http::{Directory, ListingDetails, Registration};
//! use rendezvous::client::{Error, Host, HostNews, HostOptions, PlayerNews, Port};
//!
//! # async fn example() -> Result<(), Error> {
//! let directory = Directory::new("http://127.0.0.1:8080", "demo")?;
//! let registration = Registration {
//!     protocol: "arena/3".into(),
//!     details: ListingDetails { name: "Friday night".into(), max_players: 8, ..ListingDetails::default() },
//!     ..Registration::default()
//! };
//! // `Port::from_sockets` takes the game's own sockets; the players will reach these.
//! let mut host = Host::new(directory, Port::open().await?, HostOptions { registration })?;
//! loop {
//!     match host.next().await {
//!         HostNews::Player { news: PlayerNews::Connected { path, .. }, .. } => host.send(path.peer, b"welcome").await,
//!         HostNews::Datagram { from, bytes } => println!("{} bytes of the game from {from}", bytes.len()),
//!         HostNews::Stopped(error) => return Err(error),
//!         _ => {}
//!     }
//! }
//! # }
//! ```
//!
//! A player who joins the first game of the list:
//!
//! ```no_run
//! use rendezvous::client::http::{BrowseQuery, Browsed, Directory, JoinRequest};
//! use rendezvous::client::{Join, JoinNews, Port};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = Directory::new("http://127.0.0.1:8080", "demo")?;
//! let query = BrowseQuery { protocol: "arena/3".into(), ..BrowseQuery::default() };
//! let Browsed::Page(page) = directory.browse(&query, None).await? else { return Ok(()) };
//! let Some(game) = page.listings.first() else { return Ok(()) };
//!
//! let directory = directory.clone().with_token(directory.guest().await?.token);
//! let mut join = Join::start(directory, Port::open().await?, game.listing_id, &JoinRequest::default()).await?;
//! let path = join.connect().await?;
//! join.send(path.peer, b"hello").await;
//! while let JoinNews::Datagram { from, bytes } = join.next().await {
//!     println!("{} bytes of the game from {from}", bytes.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Where no punch opens a way and the server names a TURN relay, [`Join`] goes by that ([`Join::path_kind`]), so a player's game
//! sends with [`Join::send`].
//!
//! A back end asks for a session on a host of the command plane with [`http::Directory::create_session`] and steers it with
//! [`http::Directory::send_command`]. A host of that plane is a [`Worker`]: it registers, holds the sessions' leases, and
//! hands out commands in their order, each begun before it is handed out.
//!
//! Where players don't meet, [`Look`] gathers what their network does and [`diagnosis::judge`] says what that means, as
//! `rendezvous doctor` does.
//!
//! Bounds: attempts answered by a host at one time ([`core::ATTEMPTS_MAX`]), addresses tried for one peer
//! ([`core::CANDIDATES_MAX`]), answers of the server (1 MiB). Errors are typed ([`Error`]), a refusal carries the server's
//! stable [`Code`], and each says what can be done ([`Error::advice`], [`JoinFailure::advice`]).

pub mod core;
pub mod diagnosis;
mod driver;
mod error;
pub mod http;
pub mod link;
mod relay;

pub use driver::{
    Assignment, Host, HostNews, HostOptions, Join, JoinFailure, JoinNews, Look, LookOptions, PlayerNews, Port, Step,
    Worker, WorkerNews, WorkerOptions, idempotency_key,
};
pub use error::{Code, Error, Problem};
pub use relay::RelayFailure;
