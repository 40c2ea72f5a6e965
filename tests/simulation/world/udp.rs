//! The UDP edge's loop without sockets: datagrams to the responder, its questions to the lane, answers and indications out.

use super::World;
use crate::calls::Task;
use crate::network::{Flight, Origin, SERVER_V4, SERVER_V6};
use rendezvous::clock::Clock;
use rendezvous::domain::{Bound, Endpoint, Failure, Present};
use rendezvous::edge::udp::{Arrival, Decision, Listener, Local, Question, Said, Transmit};
use rendezvous::service::{Applied, Ask, Together, Told};
use rendezvous::stun::{AttributeType, Message};
use std::net::SocketAddr;

/// Our side of a path to a client of this family.
fn local(is_v4: bool) -> Local {
    Local { socket: usize::from(!is_v4), ip: None }
}

fn present(applied: Applied<Told>) -> Applied<Present> {
    let Applied { value: Told::Present(value), commit, replayed } = applied else { panic!("another's answer") };
    Applied { value, commit, replayed }
}

fn bound(applied: Applied<Told>) -> Applied<Bound> {
    let Applied { value: Told::Bound(value), commit, replayed } = applied else { panic!("another's answer") };
    Applied { value, commit, replayed }
}

fn is_introduced(result: &Result<Applied<Told>, Failure>) -> bool {
    matches!(result, Ok(Applied { value: Told::Bound(bound), .. }) if bound.introduction.is_some())
}

impl World {
    /// A datagram has arrived somewhere.
    pub(super) fn arrive(&mut self, flight: Flight) {
        if flight.to == SERVER_V4 || flight.to == SERVER_V6 {
            // What reaches a process that stands still waits in its socket's buffer; some of it is lost there.
            if self.server.is_some() && self.stalled_until > self.now() {
                if self.rng.chance(500) {
                    let (at, rng) = (self.stalled_until, self.rng.clone());
                    self.network.fly(flight, at, &rng);
                }
                return;
            }
            return self.serve_datagram(&flight);
        }
        if let Some(actor) = self.network.receiver(&flight) {
            self.report.datagrams += 1;
            self.turn(actor, |host, joiner, turn| {
                if let Some(host) = host {
                    host.receive(&flight.bytes, flight.from, turn);
                }
                if let Some(joiner) = joiner {
                    joiner.receive(&flight.bytes, flight.from, turn);
                }
            });
        }
    }

    fn serve_datagram(&mut self, flight: &Flight) {
        let now = self.now();
        let arrival = Arrival { source: flight.from, local: local(flight.from.is_ipv4()), listener: Listener::Plain };
        let Some(server) = &mut self.server else { return };
        self.report.datagrams += 1;
        match server.responder.receive(&flight.bytes, arrival, now) {
            Decision::Silence(_) => {}
            Decision::Transmit(transmit) => self.say(transmit),
            Decision::Ask(question) => {
                self.truth.asked(&question.ask, flight);
                self.ask(*question);
            }
            Decision::Note(note, transmit) => {
                let service = server.service.clone();
                let noted = Task::new(async move { service.note_unverified(note).await }).go_on();
                let failure = noted.expect("an idle lane answers at once").err();
                self.truth.noted(failure);
                transmit.into_iter().for_each(|transmit| self.say(transmit));
            }
        }
        self.indicate();
    }

    /// Asks the lane, which is idle, and says its answer: alone or as a batch of one, which must make no difference.
    fn ask(&mut self, question: Question) {
        let now = self.now();
        let Some(server) = &self.server else { return };
        let service = server.service.clone();
        let ask = question.ask;
        let result = if self.rng.chance(500) {
            let mut told = None;
            let has_begun = service.ask_together([ask].into_iter(), &mut Together::default(), |it| told = Some(it));
            told.filter(|_| has_begun)
        } else {
            Task::new(async move { service.ask(ask).await }).go_on()
        };
        let result = result.expect("an idle lane answers at once");
        self.note(|| format!("{ask:?} -> {result:?}"));
        match ask {
            Ask::Presence(presence) => self.truth.refreshed(&presence, &result.clone().map(present), now),
            Ask::Bind(bind) => self.truth.bound(&bind, &result.clone().map(bound), now),
        }
        self.hear();
        if let (Ask::Bind(bind), Ok(Applied { value: Told::Bound(bound), .. }), false) =
            (ask, &result, self.truth.is_lost)
        {
            self.truth.bind_told(&bind, bound, now);
        }
        let is_introduced = is_introduced(&result);
        let server = self.server.as_ref();
        let transmit = server.map(|server| server.answerer.answer(&question.reply, result, server.clock.mono()));
        let says = |bytes: &[u8]| {
            Message::parse(bytes).is_ok_and(|message| message.attribute(AttributeType::RV_INTRODUCTION).is_some())
        };
        let is_told = transmit.as_ref().is_some_and(|transmit| says(&transmit.bytes));
        assert_eq!(is_told, is_introduced, "H3: an answer without its introduction, or the reverse");
        if self.truth.is_lost {
            self.ends_at.get_or_insert(now.plus_ms(700));
        }
        transmit.into_iter().for_each(|transmit| self.say(transmit));
    }

    fn say(&mut self, transmit: Transmit) {
        assert_eq!(transmit.local, local(transmit.to.is_ipv4()), "answered from where it was asked");
        self.say_to(transmit.to, transmit.bytes);
    }

    fn say_to(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        let (now, rng) = (self.now(), self.rng.clone());
        if !self.truth.is_lost {
            self.truth.said(to, &bytes, &self.network, now);
        }
        let from = if to.is_ipv4() { SERVER_V4 } else { SERVER_V6 };
        self.network.fly(Flight { from, to, bytes, origin: Origin::Server }, now, &rng);
    }

    /// What the edge says without being asked.
    pub(super) fn indicate(&mut self) {
        if !self.is_serving() {
            return;
        }
        let mut said = Vec::new();
        if let Some(server) = &mut self.server {
            server.indications.turn(&server.clock, |it| said.push(it));
        }
        for it in said {
            match it {
                Said::Offer(to, bytes) | Said::Introduction(to, bytes) => {
                    self.report.indications += 1;
                    self.say_to(Endpoint::address(to), bytes);
                }
                Said::OfferLimited | Said::OfferDropped => {}
            }
        }
    }
}
