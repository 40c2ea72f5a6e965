"""aiostun and aioice against the UDP edge. Prints a JSON object: for each question what was seen.

    stun_clients.py HOST PORT_OF_PLAIN_LISTENER PORT_OF_CHALLENGING_LISTENER
"""

import asyncio
import json
import sys

import aiostun
from aioice import stun
from aioice.turn import make_integrity_key

HOST, PLAIN, AUTH = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


class Asker(asyncio.DatagramProtocol):
    """Runs aioice's transactions, one at a time."""

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transaction.response_received(stun.parse_message(data), address)

    def send_stun(self, message, address):
        self.transport.sendto(bytes(message), address)

    async def ask(self, port, sign=lambda message: None):
        message = stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.REQUEST)
        sign(message)
        self.transaction = stun.Transaction(message, (HOST, port), self)
        try:
            response, _ = await self.transaction.run()
        except stun.TransactionFailed as failed:
            response = failed.response
        except stun.TransactionTimeout:
            return {}
        return response.attributes


def mapped(own, attributes):
    return "own address" if attributes.get("XOR-MAPPED-ADDRESS") == own else f"{attributes}"


def code(attributes):
    return attributes["ERROR-CODE"][0] if "ERROR-CODE" in attributes else f"{attributes}"


async def main():
    seen = {}
    async with aiostun.Client(host=HOST, port=PLAIN) as client:
        answer = await client.get_mapped_address()
        seen["aiostun plain"] = "own address" if answer["ip"] == HOST else f"{answer}"
    loop = asyncio.get_running_loop()
    transport, asker = await loop.create_datagram_endpoint(Asker, local_addr=(HOST, 0))
    own = transport.get_extra_info("sockname")
    seen["aioice plain"] = mapped(own, await asker.ask(PLAIN))
    challenge = await asker.ask(AUTH)
    seen["aioice challenged"] = f"{code(challenge)}, realm {challenge.get('REALM')}"

    def sign(message):
        message.attributes["USERNAME"] = "somebody"
        message.attributes["REALM"] = challenge["REALM"]
        message.attributes["NONCE"] = challenge["NONCE"]
        message.add_message_integrity(make_integrity_key("somebody", challenge["REALM"], "a guess"))

    seen["aioice SHA-1 credential"] = code(await asker.ask(AUTH, sign))
    print(json.dumps(seen))


asyncio.run(main())
