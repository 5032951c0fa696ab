"""Real processes that meet over TCP, where MASTER_ADDR and MASTER_PORT say; rank 0 passes everything on."""

import os
import socket
import time

from .. import pace

_peers = []
_master = None


def init_process_group():
    global _master
    rank, world = get_rank(), int(os.environ["WORLD_SIZE"])
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        with socket.create_server(address) as server:
            while len(_peers) < world - 1:
                _peers.append(server.accept()[0])
        return
    while _master is None:
        try:
            _master = socket.create_connection(address)
        except OSError:
            time.sleep(0.05)


def get_rank():
    return int(os.environ["RANK"])


def broadcast(tensor, src):
    pace.step()
    for peer in _peers:
        peer.sendall(bytes(tensor.values))
    if _master is not None:
        received = _master.recv(1)
        if not received:
            raise ConnectionError("rank 0 is gone")
        tensor.values = list(received)


def barrier():
    for peer in _peers:
        peer.recv(1)
    if _master is not None:
        _master.sendall(b"\0")
