"""The table: which pairs are tried, and what has to come of them."""

import concurrent.futures
import json
import os
import time

from network import PREFIX, SERVER, Site, ip
from programs import event

KINDS = ["cone", "eim", "eif", "adm", "symmetric"]
# Joins at one time: each waits most of the time.
AT_ONCE = 8
# Mapping time-out of the case about it, and a pause that is longer than that.
TIMEOUT_S, PAUSE_S = 2, 4
DELAY_MS = 300


def expected(host, joiner):
    """A mapping that depends on the destination is met only where everybody may answer."""
    dependent = {"adm", "symmetric"}
    if "eif" in (host, joiner) or not dependent & {host, joiner}:
        return "direct"
    return "relayed"


# What `doctor` says of each kind: the NAT, its mapping, and its exit code.
DIAGNOSES = {
    "cone": "port_kept, endpoint_independent, 0",
    "eim": "port_changed, endpoint_independent, 0",
    "eif": "port_kept, endpoint_independent, 0",
    "adm": "port_changed, by_address, 7",
    "symmetric": "port_changed, by_port, 7",
}


class Row:
    def __init__(self, name, expected, outcome):
        self.name, self.expected, self.outcome = name, expected, outcome

    def is_right(self):
        return self.outcome.seen == self.expected


class Cases:
    def __init__(self, lab, network, report):
        self.lab, self.network, self.report, self.rows = lab, network, report, []

    def add(self, name, expected, outcome):
        row = Row(name, expected, outcome)
        self.rows.append(row)
        self.report(row)

    def site(self, name, *arguments, **settings):
        return Site(self.network, name, *arguments, **settings)

    def matrix(self):
        """Every kind of NAT against every other, at both ends."""
        hosts = {kind: self.lab.host(self.site(f"h-{kind}", kind).machine()) for kind in KINDS}
        joiners = {kind: self.site(f"j-{kind}", kind) for kind in KINDS}
        pairs = [(host, joiner, joiners[joiner].machine()) for host in KINDS for joiner in KINDS]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            joins = [pool.submit(self.lab.join, machine, hosts[host]) for host, _, machine in pairs]
            for (host, joiner, machine), join in zip(pairs, joins):
                name, wanted, outcome = f"{host} host, {joiner} player", expected(host, joiner), join.result()
                if wanted == "relayed" and outcome.seen == "direct":
                    # A port by hash, or by chance, may be the same for two destinations: not twice.
                    outcome, name = self.lab.join(machine, hosts[host]), f"{name}, again"
                self.add(name, wanted, outcome)

    def one(self, name, wanted, host, joiner, v6=False):
        """A host in one namespace, a join in another."""
        self.add(name, wanted, self.lab.join(joiner, self.lab.host(host, v6), v6))

    def same_nat(self):
        site = self.site("together")
        self.one("two behind one NAT", "private", site.machine(), site.machine())
        for hairpin, wanted in ((True, "direct"), (False, "relayed")):
            site = self.site(f"hairpin-{hairpin}".lower(), "eif", hairpin=hairpin)
            name = f"two networks behind one NAT, hairpin {'on' if hairpin else 'off'}"
            self.one(name, wanted, site.machine(0), site.machine(1))

    def families(self):
        only4 = self.site("only4")
        only6, other6 = (self.site(f"only6{n}", v4=False, v6=True) for n in "ab")
        both, other = (self.site(f"both{n}", "symmetric", v6=True) for n in "ab")
        self.one("IPv6 only, firewalls", "direct", only6.machine(), other6.machine(), v6=True)
        self.one("dual stack, symmetric NATs for IPv4", "direct", both.machine(), other.machine())
        listing = self.lab.host(only4.machine())
        self.add("IPv4-only host, IPv6-only player", "no: introduction", self.lab.join(only6.machine(), listing, True))

    def mappings(self):
        short = self.site("short", timeout_s=TIMEOUT_S)
        player = self.site("short-player", timeout_s=TIMEOUT_S)
        listing = self.lab.host(short.machine())
        time.sleep(PAUSE_S)
        name = f"mappings end after {TIMEOUT_S} s, both sides"
        self.add(name, "direct", self.lab.join(player.machine(), listing))
        moving = self.site("moving")
        listing = self.lab.host(moving.machine())
        moving.rebind()
        self.add("the host's NAT moves it, then a join", "direct", self.lab.join(player.machine(), listing))
        self.conversation()

    def conversation(self):
        """The player's NAT moves it while they talk. The host lets anybody in and knows the player by what is signed."""
        host, moving = self.site("talking", "eif"), self.site("talker")
        listing = self.lab.host(host.machine())
        ours, theirs = os.openpty()
        words = [self.lab.binary, "join", *self.lab.arguments(False), listing]
        begun = time.monotonic()
        join = self.lab.start(moving.machine(), words, "join-talker", stdin=theirs)
        heard = []
        for word in ("before", "after"):
            if word == "after":
                moving.rebind()
            else:
                join.wait_for(lambda line: event(line) == "connected", 30)
            os.write(ours, f"{word}\n".encode())
            echo = join.wait_for(lambda line: json.loads(line).get("text") == f"echo: {word}", 10)
            heard.append(word if echo else f"nothing {word}")
        join.end()
        os.close(ours)
        os.close(theirs)
        self.add("the player's NAT moves it while they talk", "before, after", Heard(heard, time.monotonic() - begun))

    def bad_lines(self):
        for loss in (10, 30):
            lossy = self.site(f"loss{loss}", loss=loss)
            host = self.site(f"calm{loss}").machine()
            self.one(f"{loss} % loss each way", "direct", host, lossy.machine())
        far = self.site("far")
        self.stretch(far)
        listing = self.lab.host(self.site("near").machine())
        self.add(f"{DELAY_MS} ms delay each way", "direct", self.lab.join(far.machine(), listing))
        listing = self.lab.host(self.site("near-sym", "symmetric").machine())
        self.add(f"{DELAY_MS} ms delay each way, symmetric host", "relayed", self.lab.join(far.machine(), listing))

    def stretch(self, site):
        """Puts a slow cable between a site and the internet."""
        cable = self.network.namespace(f"{site.name}-cable")
        ip("link", "set", site.name, "nomaster", "down", namespace="inet")
        ip("link", "set", site.name, "name", "near", "netns", PREFIX + cable, namespace="inet")
        link = ["link", "add", "far", "netns", PREFIX + cable, "type", "veth", "peer", "name", site.name]
        ip(*link, "netns", PREFIX + "inet")
        for end in ("near", "far"):
            ip("link", "set", end, "addrgenmode", "none", "up", namespace=cable)
        ip("link", "set", site.name, "master", "net", "up", namespace="inet")
        delay = os.path.join(os.path.dirname(os.path.abspath(__file__)), "delay.py")
        self.lab.start(cable, ["python3", delay, "near", "far", str(DELAY_MS)], "delay")

    def no_relay(self):
        """Last: the relay ends, so that what went by it fails."""
        host, player = self.site("deaf-host", "symmetric"), self.site("deaf-player", "symmetric")
        listing = self.lab.host(host.machine())
        self.lab.relay.end()
        self.add("symmetric NATs, the relay is down", "no: punch", self.lab.join(player.machine(), listing))

    def doctor(self):
        """The diagnosis of each kind of NAT, of its absence, and of what else a network may do."""
        for kind in KINDS:
            machine = self.site(f"d-{kind}", kind).machine()
            self.diagnose(f"{kind} NAT", DIAGNOSES[kind], machine, ["nat ipv4", "mapping ipv4"])
        machine = self.site("d-one").machine()
        one = ["--stun", f"stun:{SERVER}:3478"]
        self.diagnose("eim NAT, one address asked", "one_address, 0", machine, ["mapping ipv4"], *one)
        self.diagnose("no NAT", "none, no_nat, not_needed, 0", "srv", ["nat ipv4", "mapping ipv4", "hairpin ipv4"])
        for hairpin, wanted in ((True, "works, 0"), (False, "does_not, 0")):
            machine = self.site(f"d-hairpin-{hairpin}".lower(), "eif", hairpin=hairpin).machine()
            self.diagnose(f"hairpin {'on' if hairpin else 'off'}", wanted, machine, ["hairpin ipv4"])
        self.other_diagnoses()

    def other_diagnoses(self):
        udp = ["udp ipv4", "udp ipv6"]
        blocked = self.site("d-blocked", loss=100, loss_of="meta l4proto udp").machine()
        self.diagnose("UDP is dropped", "blocked, no_route, 5", blocked, udp)
        both = self.lab.settle(self.site("d-both", "symmetric", v6=True).machine())
        self.diagnose("symmetric, IPv6 beside it", "by_port, no_nat, 0", both, ["mapping ipv4", "mapping ipv6"])
        only6 = self.lab.settle(self.site("d-only6", v4=False, v6=True).machine())
        self.add("IPv6 only", "no_route, open, 0", self.lab.doctor(only6, v6=True).about(udp))
        lossy = self.site("d-lossy", "symmetric", loss=10, loss_of="meta l4proto udp").machine()
        self.diagnose("symmetric, 10 % loss each way", "by_port, 7", lossy, ["mapping ipv4"])
        silence, pause = ["silence ipv4"], ["--keepalive", str(PAUSE_S)]
        self.diagnose(f"{PAUSE_S} s of silence", "let_in, 0", self.site("d-long").machine(), silence, *pause)
        short = self.site("d-short", timeout_s=TIMEOUT_S).machine()
        self.diagnose(f"the same, mappings end after {TIMEOUT_S} s", "shut_out, 0", short, silence, *pause)
        short = self.site("d-moved", "symmetric", timeout_s=TIMEOUT_S).machine()
        self.diagnose("the same, symmetric", "moved, 7", short, silence, *pause)

    def diagnose(self, name, wanted, machine, checks, *arguments):
        self.add(name, wanted, self.lab.doctor(machine, *arguments).about(checks))

    def many(self, joins, loss, loss_of, kind):
        """Many joins through a line that loses. Some hosts take them in turn, for one answers 64 at a time."""
        calm, lossy = self.site("calm", kind), self.site("lossy", loss=loss, loss_of=loss_of)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            listings = list(pool.map(self.lab.host, [calm.machine() for _ in range(AT_ONCE)]))
            machines = [lossy.machine() for _ in range(AT_ONCE)]
            runs = [pool.submit(self.lab.join, machines[n % AT_ONCE], listings[n % AT_ONCE]) for n in range(joins)]
            return [run.result() for run in runs]


class Heard:
    def __init__(self, heard, seconds):
        self.seen, self.seconds, self.peer, self.code = ", ".join(heard), seconds, "", 0
