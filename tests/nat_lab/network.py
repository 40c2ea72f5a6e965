"""Namespaces, routers and NATs of the kernel: a small internet that nobody outside sees.

A bridge in the namespace `inet` joins everybody's public side. Each site is a router with its own public address and one
or two networks behind it. The addresses are those reserved for documentation (RFC 5737, RFC 3849) and for private use.
"""

import os
import subprocess

PREFIX = f"rv{os.getpid()}-"
PUBLIC = "203.0.113"
PUBLIC6 = "2001:db8:113:"
SERVER, RELAY, INTERNET = f"{PUBLIC}.10", f"{PUBLIC}.11", f"{PUBLIC}.254"
SERVER6, INTERNET6 = f"{PUBLIC6}:10", f"{PUBLIC6}:fe"

# What a router does with the source of a datagram that leaves. All but `eif` filter by address and port, for connection
# tracking knows nothing else; all but `cone` and `eif` give another port than the sender's.
SOURCE_NAT = {
    # One mapping for all destinations, the sender's port kept where it is free: Linux routers at home.
    "cone": "masquerade",
    # One mapping for all destinations, another port. An implementation that tells its own port fails here.
    "eim": "meta l4proto udp masquerade to :jhash ip saddr . udp sport mod 10000 seed {seed} offset 50000\n"
    "        masquerade",
    # Another mapping for each destination address.
    "adm": "meta l4proto udp masquerade to :jhash ip saddr . udp sport . ip daddr mod 10000 seed {seed} offset 50000\n"
    "        masquerade",
    # Another mapping for each destination address and port.
    "symmetric": "masquerade fully-random",
    # As `cone`, and everybody may answer: the map says who owns a public port.
    "eif": "meta l4proto udp update @owners {{ udp sport : ip saddr . udp sport }}\n        masquerade",
}

RULES = """
flush ruleset
table ip nat {{
    map owners {{
        type inet_service : ipv4_addr . inet_service
        flags dynamic
        size 1024
    }}
    chain prerouting {{
        type nat hook prerouting priority -100
        {inwards}
        {hairpin_destination}
    }}
    chain postrouting {{
        type nat hook postrouting priority 100
        {hairpin_source}
        oifname != "wan" accept
        {outwards}
    }}
}}
table inet filter {{
    chain loss {{
        type filter hook forward priority -10
        {loss}
    }}
    # Without these two a peer's early datagram makes an entry of the router's own, whose place the sender's mapping then
    # can't take: it gets another port, and no punch ever works.
    chain input {{
        type filter hook input priority 0
        iifname "wan" ct state new drop
    }}
    chain forward {{
        type filter hook forward priority 0
        iifname "wan" ct state new ct status & dnat != dnat drop
        iifname "lan0" oifname "lan1" ct state new ct status & dnat != dnat drop
        iifname "lan1" oifname "lan0" ct state new ct status & dnat != dnat drop
    }}
}}
"""


def ip(*words, namespace=None):
    """Runs `ip`, in a namespace of ours."""
    at = ["-n", PREFIX + namespace] if namespace else []
    subprocess.run(["ip", *at, *words], check=True, stdin=subprocess.DEVNULL)


def inside(namespace, *words):
    """A command line that runs in a namespace of ours."""
    return ["ip", "netns", "exec", PREFIX + namespace, *words]


def run_inside(namespace, *words, text=None):
    subprocess.run(inside(namespace, *words), check=True, input=text, text=True, stdout=subprocess.DEVNULL)


class Network:
    """The public part; sites are added to it."""

    def __init__(self):
        self.namespaces = []
        self.sites = 0

    def namespace(self, name, v6=True):
        ip("netns", "add", PREFIX + name)
        self.namespaces.append(name)
        if not v6:
            # The kernel's table of IPv6 neighbours is one for all namespaces, and full with fifty sites.
            disabled = (f"net.ipv6.conf.{which}.disable_ipv6=1" for which in ("all", "default"))
            run_inside(name, "sysctl", "-qw", *disabled)
        ip("link", "set", "lo", "up", namespace=name)
        return name

    def build(self):
        self.namespace("inet")
        ip("link", "add", "net", "type", "bridge", namespace="inet")
        ip("link", "set", "net", "up", namespace="inet")
        ip("addr", "add", f"{INTERNET}/24", "dev", "net", namespace="inet")
        ip("addr", "add", f"{INTERNET6}/64", "dev", "net", "nodad", namespace="inet")
        # The way to everywhere else ends here; without a route senders would hear "unreachable" at once and stop.
        ip("route", "add", "blackhole", "10.0.0.0/8", namespace="inet")
        run_inside("inet", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        self.namespace("srv")
        self.attach("srv", "srv", [f"{SERVER}/24", f"{RELAY}/24"], [f"{SERVER6}/64"])
        return self

    def attach(self, namespace, port, addresses, addresses6):
        """Gives a namespace its public side."""
        link = ["link", "add", "wan", "netns", PREFIX + namespace, "type", "veth", "peer", "name", port]
        ip(*link, "netns", PREFIX + "inet")
        ip("link", "set", port, "master", "net", "up", namespace="inet")
        ip("link", "set", "wan", "up", namespace=namespace)
        for address in addresses:
            ip("addr", "add", address, "dev", "wan", namespace=namespace)
        for address in addresses6:
            ip("addr", "add", address, "dev", "wan", "nodad", namespace=namespace)
        if addresses:
            ip("route", "add", "default", "via", INTERNET, namespace=namespace)
        if addresses6:
            ip("-6", "route", "add", "default", "via", INTERNET6, namespace=namespace)

    def remove(self):
        for name in reversed(self.namespaces):
            subprocess.run(["ip", "netns", "del", PREFIX + name], check=False)
        self.namespaces = []


class Site:
    """A router with its NAT, and the machines behind it."""

    def __init__(self, network, name, kind="eim", v4=True, v6=False, loss=0, loss_of="", hairpin=False, timeout_s=None):
        self.network, self.name, self.kind, self.v4, self.v6 = network, name, kind, v4, v6
        self.loss, self.loss_of, self.hairpin, self.seed = loss, loss_of, hairpin, 1
        self.number = network.sites = network.sites + 1
        self.router = network.namespace(name, v6)
        self.public = f"{PUBLIC}.{20 + self.number}"
        self.machines = 0
        public6 = f"{PUBLIC6}:{0x100 + self.number:x}"
        network.attach(
            self.router, name[:15], [f"{self.public}/24"] if v4 else [], [f"{public6}/64"] if v6 else []
        )
        settings = ["net.ipv4.ip_forward=1", f"net.ipv6.conf.all.forwarding={1 if v6 else 0}"]
        # Where bridges filter too, what is turned around to its own network would never be seen by the router.
        if os.path.exists("/proc/sys/net/bridge/bridge-nf-call-iptables"):
            settings.append("net.bridge.bridge-nf-call-iptables=0")
        if timeout_s:
            of = "net.netfilter.nf_conntrack_udp_timeout"
            settings += [f"{of}={timeout_s}", f"{of}_stream={timeout_s}"]
        run_inside(self.router, "sysctl", "-qw", *settings)
        for segment in (0, 1):
            self.segment(segment)
        if v6:
            ip("-6", "route", "add", f"2001:db8:{self.number}::/48", "via", public6, namespace="inet")
        self.load_rules()

    def segment(self, segment):
        bridge = f"lan{segment}"
        ip("link", "add", bridge, "type", "bridge", namespace=self.router)
        ip("link", "set", bridge, "up", namespace=self.router)
        if self.v4:
            ip("addr", "add", f"10.{self.number}.{segment}.1/24", "dev", bridge, namespace=self.router)
        if self.v6:
            address = f"2001:db8:{self.number}:{segment}::1/64"
            ip("addr", "add", address, "dev", bridge, "nodad", namespace=self.router)

    def load_rules(self):
        # All of it needs no dice, and these have no hundred sides.
        chance = f"numgen random mod 100 < {self.loss}" if self.loss < 100 else ""
        mapped = "dnat ip to udp dport map @owners"
        rules = RULES.format(
            inwards=f'iifname "wan" meta l4proto udp {mapped}' if self.kind == "eif" else "",
            outwards=SOURCE_NAT[self.kind].format(seed=self.seed),
            hairpin_destination=f'iifname != "wan" ip daddr {self.public} meta l4proto udp {mapped}' if self.hairpin else "",
            hairpin_source=f'oifname != "wan" ct status & dnat == dnat snat to {self.public}' if self.hairpin else "",
            loss=f"{self.loss_of} {chance} drop" if self.loss else "",
        )
        run_inside(self.router, "nft", "-f", "-", text=rules)

    def machine(self, segment=0):
        """A machine behind the router; gives its namespace."""
        self.machines += 1
        number = 1 + self.machines
        name = self.network.namespace(f"{self.name}-{self.machines}", self.v6)
        port, bridge = f"m{number}", f"lan{segment}"
        link = ["link", "add", "eth0", "netns", PREFIX + name, "type", "veth", "peer", "name", port]
        ip(*link, "netns", PREFIX + self.router)
        ip("link", "set", port, "master", bridge, "up", namespace=self.router)
        ip("link", "set", "eth0", "up", namespace=name)
        if self.v4:
            ip("addr", "add", f"10.{self.number}.{segment}.{number}/24", "dev", "eth0", namespace=name)
            ip("route", "add", "default", "via", f"10.{self.number}.{segment}.1", namespace=name)
        if self.v6:
            address = f"2001:db8:{self.number}:{segment}::{number}/64"
            ip("addr", "add", address, "dev", "eth0", "nodad", namespace=name)
            ip("-6", "route", "add", "default", "via", f"2001:db8:{self.number}:{segment}::1", namespace=name)
        return name

    def rebind(self):
        """Forgets all mappings; what comes next is mapped to other ports."""
        self.seed += 1
        self.load_rules()
        run_inside(self.router, "conntrack", "-F")
