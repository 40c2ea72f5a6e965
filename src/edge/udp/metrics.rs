//! Counters of the UDP edge. Every label value is one of a fixed list; nothing of a datagram becomes a label.

use super::question::Silence;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::io;

type LabelledCounter = Family<[(&'static str, &'static str); 1], Counter>;

/// One counter per value of one label, resolved once so that counting takes no lock.
#[derive(Debug)]
pub(super) struct Counters<const N: usize> {
    family: LabelledCounter,
    counters: [Counter; N],
}

impl<const N: usize> Counters<N> {
    fn new(label: &'static str, values: [&'static str; N]) -> Self {
        let family = LabelledCounter::default();
        let counters = values.map(|value| family.get_or_create(&[(label, value)]).clone());
        Self { family, counters }
    }

    /// Counts one at `index` of the list of values.
    pub(super) fn inc(&self, index: usize) {
        self.counters[index].inc();
    }

    /// The count at `index`.
    #[cfg(test)]
    pub(super) fn at(&self, index: usize) -> u64 {
        self.counters[index].get()
    }
}

/// What was answered, in the order of [`AnswerKind`].
const ANSWERS: [&str; 4] = ["unproven", "presence", "bind", "overloaded"];

/// The kinds of answers that are counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnswerKind {
    /// Without the lane: addresses, challenges, errors.
    Direct,
    /// The lane's word on a presence datagram.
    Presence,
    /// The lane's word on a bind datagram.
    Bind,
    /// More questions were waiting than may wait.
    Overloaded,
}

/// What was told without being asked, in the order of [`NoticeKind`].
const NOTICES: [&str; 4] = ["offer", "introduction", "offer_limited", "offer_dropped"];

/// The kinds of indications that are counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoticeKind {
    /// An offer was sent.
    Offer,
    /// An introduction was sent to one role.
    Introduction,
    /// A host heard enough in that second.
    OfferLimited,
    /// Too many offers were scheduled.
    OfferDropped,
}

/// Causes of socket errors, in the order of [`cause`].
const CAUSES: [&str; 7] =
    ["would_block", "refused", "unreachable", "permission", "no_buffers", "message_size", "other"];

/// Causes of errors as label positions: a bounded set, whatever the operating system says.
fn cause(error: &io::Error) -> usize {
    // ENOBUFS is 105 on Linux, 55 on the BSDs and macOS, 10055 on Windows; it has no kind of its own.
    if matches!(error.raw_os_error(), Some(105 | 55 | 10_055)) || error.kind() == io::ErrorKind::OutOfMemory {
        return 4;
    }
    if quinn_udp::is_msg_size_err(error) {
        return 5;
    }
    let kinds: [(usize, &[io::ErrorKind]); 4] = [
        (0, &[io::ErrorKind::WouldBlock]),
        (1, &[io::ErrorKind::ConnectionRefused, io::ErrorKind::ConnectionReset]),
        (
            2,
            &[
                io::ErrorKind::HostUnreachable,
                io::ErrorKind::NetworkUnreachable,
                io::ErrorKind::NetworkDown,
                io::ErrorKind::AddrNotAvailable,
            ],
        ),
        (3, &[io::ErrorKind::PermissionDenied]),
    ];
    kinds.iter().find(|(_, kinds)| kinds.contains(&error.kind())).map_or(6, |(index, _)| *index)
}

/// All counters of the edge.
#[derive(Debug)]
pub(super) struct UdpMetrics {
    received: Counter,
    silences: Counters<{ Silence::ALL.len() }>,
    answers: Counters<{ ANSWERS.len() }>,
    notices: Counters<{ NOTICES.len() }>,
    notices_lost: Counter,
    receive_errors: Counters<{ CAUSES.len() }>,
    send_errors: Counters<{ CAUSES.len() }>,
}

impl UdpMetrics {
    pub(super) fn new(notices_lost: Counter) -> Self {
        Self {
            received: Counter::default(),
            silences: Counters::new("cause", Silence::ALL.map(Silence::name)),
            answers: Counters::new("kind", ANSWERS),
            notices: Counters::new("kind", NOTICES),
            notices_lost,
            receive_errors: Counters::new("cause", CAUSES),
            send_errors: Counters::new("cause", CAUSES),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let mut add = |name: &str, help: &str, family: &LabelledCounter| registry.register(name, help, family.clone());
        add("rendezvous_udp_dropped", "Datagrams that got no answer, by cause", &self.silences.family);
        add("rendezvous_udp_answers", "Answers by kind", &self.answers.family);
        add("rendezvous_udp_notices", "Introduce indications by kind", &self.notices.family);
        add("rendezvous_udp_receive_errors", "Receive errors by cause", &self.receive_errors.family);
        add("rendezvous_udp_send_errors", "Send errors by cause", &self.send_errors.family);
        registry.register("rendezvous_udp_received", "Datagrams received", self.received.clone());
        let help = "Notices that found the queue between the store and the UDP edge full";
        registry.register("rendezvous_udp_notices_lost", help, self.notices_lost.clone());
    }

    pub(super) fn received(&self) {
        self.received.inc();
    }

    pub(super) fn silence(&self, cause: Silence) {
        self.silences.inc(cause.index());
    }

    pub(super) fn answer(&self, kind: AnswerKind) {
        self.answers.inc(kind as usize);
    }

    pub(super) fn notice(&self, kind: NoticeKind) {
        self.notices.inc(kind as usize);
    }

    pub(super) fn receive_error(&self, error: &io::Error) {
        self.receive_errors.inc(cause(error));
    }

    pub(super) fn send_error(&self, error: &io::Error) {
        self.send_errors.inc(cause(error));
    }

    #[cfg(test)]
    pub(super) fn answers_of(&self, kind: AnswerKind) -> u64 {
        self.answers.at(kind as usize)
    }

    #[cfg(test)]
    pub(super) fn notices_of(&self, kind: NoticeKind) -> u64 {
        self.notices.at(kind as usize)
    }

    #[cfg(test)]
    pub(super) fn received_count(&self) -> u64 {
        self.received.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_o1_the_exposition_has_a_fixed_set_of_series() {
        let metrics = UdpMetrics::new(Counter::default());
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let series = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text.lines().filter(|line| !line.starts_with('#')).count()
        };
        let before = series();
        metrics.silence(Silence::Budget);
        metrics.answer(AnswerKind::Overloaded);
        metrics.notice(NoticeKind::OfferDropped);
        for code in 1..200 {
            metrics.send_error(&io::Error::from_raw_os_error(code));
        }
        assert_eq!(series(), before);
        assert_eq!(before, 5 + 4 + 4 + 7 + 7 + 2);
    }

    #[test]
    fn case_u3_errors_have_a_cause() {
        let name = |kind: io::ErrorKind| CAUSES[cause(&io::Error::from(kind))];
        assert_eq!(name(io::ErrorKind::ConnectionRefused), "refused");
        assert_eq!(name(io::ErrorKind::PermissionDenied), "permission");
        assert_eq!(name(io::ErrorKind::NetworkUnreachable), "unreachable");
        assert_eq!(name(io::ErrorKind::WouldBlock), "would_block");
        assert_eq!(name(io::ErrorKind::Other), "other");
        assert_eq!(CAUSES[cause(&io::Error::from_raw_os_error(105))], "no_buffers");
    }
}
