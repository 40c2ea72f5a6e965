"""The programs of the laboratory: the server, coturn, hosts and joins. Every process ends with its handle."""

import json
import os
import queue
import signal
import subprocess
import threading
import time

from network import PREFIX, RELAY, SERVER, SERVER6, inside

TENANT, PROTOCOL = "lab", "lab/1"
HTTP_PORT = 8080
# A host is listed and verified within a second or so; with loss and delay within some.
READY_S = 40
# The longest join: 12 s for each of three calls, 30 s for an introduction, the punch, a detour. Then it hangs.
JOIN_S = 120
# From a new machine's first IPv6 packet to one that arrives: each router on the way first makes sure of its addresses.
SETTLE_S = 15
# Connects to an address and port until that works, for so many seconds.
SETTLE = """
import socket, sys, time
until = time.monotonic() + float(sys.argv[3])
while time.monotonic() < until:
    try:
        sys.exit(socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1).close())
    except OSError:
        time.sleep(0.1)
sys.exit(1)
"""
# A doctor takes ten seconds at most, and a silence.
DOCTOR_S = 30

CONFIG = """
[server]
http = "[::]:{http}"
# The third is for who compares what two addresses see of it.
udp = ["{v4}:3478", "[{v6}]:3478", "{relay}:3480"]
udp_auth = ["{v4}:3479", "[{v6}]:3479"]

[limits]
attempts_per_principal = 64
guest_attempts_per_source = 512
guest_listings_per_source = 64

[turn]
uris = ["turn:{relay}:3478?transport=udp"]
secret = "{secret}"

[[tenant]]
name = "{tenant}"
guests = true
"""


class Program:
    """A process whose standard output is read line by line."""

    def __init__(self, namespace, words, log, stdin=subprocess.DEVNULL):
        self.lines = queue.Queue()
        self.seen = []
        self.log = open(log, "a", buffering=1)
        self.process = subprocess.Popen(
            inside(namespace, *words), stdin=stdin, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.log.write(line)
            self.lines.put(line)
        self.lines.put(None)

    def wait_for(self, wanted, seconds):
        """The first line that `wanted` accepts, or None."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                line = self.lines.get(timeout=left)
            except queue.Empty:
                return None
            if line is None:
                return None
            self.seen.append(line)
            if wanted(line):
                return line
        return None

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Lab:
    """The server, the relay, and what was started since."""

    def __init__(self, binary, folder, relay_config):
        self.binary, self.folder, self.relay_config = binary, folder, relay_config
        self.programs, self.numbers = [], 0
        self.lock = threading.Lock()
        self.secret = os.urandom(16).hex()

    def start(self, namespace, words, name, stdin=subprocess.DEVNULL):
        with self.lock:
            self.numbers += 1
            log = f"{self.folder}/{self.numbers:03}-{name}.log"
            program = Program(namespace, words, log, stdin)
            self.programs.append(program)
        return program

    def serve(self):
        config = f"{self.folder}/rendezvous.toml"
        with open(config, "w") as file:
            file.write(
                CONFIG.format(
                    http=HTTP_PORT, v4=SERVER, v6=SERVER6, relay=RELAY, secret=self.secret, tenant=TENANT
                )
            )
        relay = ["turnserver", "-c", self.relay_config, "--listening-ip", RELAY, "--relay-ip", RELAY]
        relay += ["--static-auth-secret", self.secret, "--realm", "lab", "--pidfile", f"{self.folder}/coturn.pid"]
        relay += ["--log-file", f"{self.folder}/coturn.log", "--simple-log", "--verbose"]
        self.relay = self.start("srv", relay, "coturn")
        server = self.start("srv", [self.binary, "serve", "--config", config], "server")
        if not server.wait_for(lambda line: line.startswith("ready "), READY_S):
            raise SystemExit(f"the server did not start; see {self.folder}")

    def arguments(self, v6):
        address = f"[{SERVER6}]" if v6 else SERVER
        return ["--server", f"http://{address}:{HTTP_PORT}", "--tenant", TENANT, "--json"]

    def host(self, namespace, v6=False):
        """A listed and verified host; gives its listing's id."""
        words = [self.binary, "host", *self.arguments(v6), "--protocol", PROTOCOL, "--name", namespace]
        host = self.start(namespace, words, f"host-{namespace}")
        listed = host.wait_for(lambda line: event(line) == "listed", READY_S)
        if not listed or not host.wait_for(lambda line: event(line) == "verified", READY_S):
            raise SystemExit(f"the host in {namespace} was not verified: {host.seen}; see {self.folder}")
        return json.loads(listed)["listing_id"]

    def join(self, namespace, listing, v6=False):
        """One join to its end."""
        begun = time.monotonic()
        words = [self.binary, "join", *self.arguments(v6), listing, "--message", "hello"]
        join = self.start(namespace, words, f"join-{namespace}")
        join.wait_for(lambda line: False, JOIN_S)
        join.end()
        return Outcome(join.seen, join.process.returncode, time.monotonic() - begun)

    def settle(self, namespace):
        """Waits until a machine with IPv6 reaches the server over it; gives the machine."""
        words = ["python3", "-c", SETTLE, SERVER6, str(HTTP_PORT), str(SETTLE_S)]
        subprocess.run(inside(namespace, *words), check=True, stdin=subprocess.DEVNULL)
        return namespace

    def doctor(self, namespace, *arguments, v6=False):
        """What `doctor` finds there."""
        begun = time.monotonic()
        words = [self.binary, "doctor", *self.arguments(v6), *arguments]
        doctor = self.start(namespace, words, f"doctor-{namespace}")
        doctor.wait_for(lambda line: False, DOCTOR_S)
        doctor.end()
        return Diagnosis(doctor.seen, doctor.process.returncode, time.monotonic() - begun)

    def end(self):
        for program in reversed(self.programs):
            program.end()


class Outcome:
    """What a join came to: how it says that it reached the host, or where it says that it failed."""

    def __init__(self, lines, code, seconds):
        self.code, self.seconds, self.peer, self.seen, self.why = code, seconds, "", f"exit code {code}", ""
        for line in lines:
            said = json.loads(line)
            if said["event"] == "connected":
                self.peer, way = said["peer"], said["path"]
            elif said["event"] == "failed":
                self.seen, self.why = f"no: {said['step']}", said["message"]
        if code == 0:
            self.seen = "private" if self.peer.startswith("10.") else way


class Diagnosis:
    """What a doctor found: by check and family, and in the words of the table with `wanted`."""

    def __init__(self, lines, code, seconds):
        said = [json.loads(line) for line in lines]
        self.found = {(check["check"], check["family"]): check["finding"] for check in said if check["event"] == "check"}
        self.outlook = next((last["outlook"] for last in said if last["event"] == "diagnosis"), "none")
        self.code, self.seconds, self.peer, self.seen = code, seconds, "", ""

    def about(self, wanted):
        """Itself, with what it says of these checks and its exit code as what was seen."""
        found = [self.found.get(tuple(name.split()), "none") for name in wanted]
        self.seen = ", ".join([*found, str(self.code)])
        return self


def event(line):
    return json.loads(line)["event"]


def namespaces_left():
    """Namespaces of this run that still exist."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(PREFIX)]
