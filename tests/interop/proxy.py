"""A proxy between a store client and its server that records what each of them sends."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass

from tests.interop.driver import eventually
from tests.interop.wire import Query, RawClient, Request, decode_requests


@dataclass
class Recording:
    """What has passed through one connection so far."""

    sent: bytes = b""
    received: bytes = b""
    delivered: int = 0  # how much of `sent` the server's socket has
    client_left: bool = False  # and the server has been told

    def requests(self) -> list[Request]:
        return decode_requests(self.sent)


def _waits(request: Request) -> bool:
    return request.query in (Query.WAIT, Query.BARRIER) or (
        request.private and request.query in (Query.GET, Query.MULTI_GET, Query.QUEUE_POP)
    )


class Proxy:
    """Forwards connections to a port of this host, until it is closed."""

    def __init__(self, target: int) -> None:
        self.recordings: list[Recording] = []
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def requests(self) -> list[Request]:
        """The requests of all connections, one connection after the other."""
        return [request for recording in self.recordings for request in recording.requests()]

    def until_waiting(self) -> None:
        """Returns when the server has been sent a request that waits, and has read it."""
        eventually(self._somebody_waits, "the client waits for the server")
        with RawClient(self._target) as client:
            client.fence()

    def _somebody_waits(self) -> bool:
        arrived = (decode_requests(each.sent[: each.delivered]) for each in self.recordings)
        return any(_waits(request) for requests in arrived for request in requests)

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client = self._listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                continue
            self._sockets += [client, server]
            recording = Recording()
            self.recordings.append(recording)
            for source, sink in ((client, server), (server, client)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                arguments = (source, sink, recording, source is client)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    @staticmethod
    def _forward(
        source: socket.socket, sink: socket.socket, recording: Recording, from_client: bool
    ) -> None:
        try:
            while data := source.recv(1 << 16):
                # Written down first: who has seen the answer finds the request recorded.
                if from_client:
                    recording.sent += data
                else:
                    recording.received += data
                sink.sendall(data)
                recording.delivered += len(data) if from_client else 0
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            sink.close()
        recording.client_left = recording.client_left or from_client
