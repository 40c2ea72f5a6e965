"""A cable that takes its time: copies frames between two interfaces of its namespace, each after a delay.

Started by the laboratory as a process of its own: `delay.py INTERFACE INTERFACE MILLISECONDS`. This kernel has no netem.
"""

import heapq
import select
import socket
import sys
import time

SOL_PACKET, PACKET_VNET_HDR = 263, 15
ETH_P_ALL = 3
# Frames on the way; a real queue drops too. At 300 ms that is some ten thousand frames a second.
FRAMES_MAX = 4096
# The longest segment that offloading makes, and its header.
FRAME_BYTES_MAX = 10 + 14 + 65_536


def cable(interface):
    cable = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    # The header says which checksums and segments the kernel still owes; handed back, it pays them at the far end.
    cable.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    cable.bind((interface, 0))
    cable.setblocking(False)
    return cable


def main():
    left, right = cable(sys.argv[1]), cable(sys.argv[2])
    delay = float(sys.argv[3]) / 1_000
    other, queue, number = {left: right, right: left}, [], 0
    while True:
        wait = max(0.0, queue[0][0] - time.monotonic()) if queue else None
        for cable_ in select.select([left, right], [], [], wait)[0]:
            frame, address = cable_.recvfrom(FRAME_BYTES_MAX)
            if address[2] != socket.PACKET_OUTGOING and len(queue) < FRAMES_MAX:
                number += 1
                heapq.heappush(queue, (time.monotonic() + delay, number, other[cable_], frame))
        while queue and queue[0][0] <= time.monotonic():
            _, _, to, frame = heapq.heappop(queue)
            try:
                to.send(frame)
            except OSError:
                pass  # As on any cable, a frame may be lost.


main()
