"""Our and PyTorch's clients on one server: they wake each other, and survive each other's end."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.interop.conftest import (
    LIBRARIES,
    OTHER,
    OUR_SERVERS,
    QUEUE_SERVERS,
    SERVERS,
    Server,
    World,
)
from tests.interop.driver import (
    DistNetworkError,
    DistStoreError,
    PeerDiedError,
    Store,
    eventually,
    free_port,
    later,
)
from tests.interop.wire import Query

WAKERS: dict[str, Callable[[Store], object]] = {
    "set": lambda store: store.set("k", "1"),
    "add": lambda store: store.add("k", 1),
    "append": lambda store: store.append("k", "1"),
    "multi_set": lambda store: store.multi_set(["other", "k"], ["0", "1"]),
    "compare_set": lambda store: store.compare_set("k", "", "1"),
}


@pytest.mark.parametrize(
    ("server", "waker"),
    # PyTorch's poll server wakes nobody after compare_set; see test_semantics.py.
    [(s, w) for s in SERVERS for w in WAKERS if (s, w) != ("torch-poll", "compare_set")],
    indirect=["server"],
)
def test_whoever_makes_a_key_wakes_those_who_wait_for_it(
    server: Server, library: str, waker: str
) -> None:
    client, proxy = server.watched_client(library)
    value = later(client.get, "k")
    proxy.until_waiting()

    WAKERS[waker](server.client(OTHER[library]))

    assert value.result() == b"1"


def test_a_wait_for_several_keys_ends_with_the_last(server: Server, library: str) -> None:
    client, proxy = server.watched_client(library)
    other = server.client(OTHER[library])
    values = later(client.multi_get, ["a", "b", "c"])
    proxy.until_waiting()

    other.set("c", "3")
    other.set("a", "1")
    server.raw().fence()
    assert not values.done()
    other.add("b", 2)

    assert values.result() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("server", QUEUE_SERVERS, indirect=True)
def test_a_push_wakes_who_waits_to_pop(server: Server, library: str) -> None:
    client, proxy = server.watched_client(library)
    element = later(client.queue_pop, "q")
    proxy.until_waiting()

    server.client(OTHER[library]).queue_push("q", "e")

    assert element.result() == b"e"
    assert server.owner.queue_len("q") == 0


@pytest.mark.parametrize("server", QUEUE_SERVERS, indirect=True)
def test_queues_carry_a_conversation(server: Server) -> None:
    ours, theirs = server.client("unisono"), server.client("torch")

    def echo() -> None:
        for _ in range(50):
            theirs.queue_push("there", theirs.queue_pop("here") + b"!")

    done = later(echo)
    for i in range(50):
        ours.queue_push("here", str(i))
        assert ours.queue_pop("there") == f"{i}!".encode()
    done.result()


def test_sums_of_both_libraries_are_one_sum(server: Server) -> None:
    clients = [server.client(library) for library in LIBRARIES for _ in range(3)]

    def count(client: Store) -> int:
        return sum(client.add("n", i) * 0 + i for i in range(60))

    sums = [later(count, client) for client in clients]

    assert sum(each.result() for each in sums) == server.owner.add("n", 0) == 6 * 1770


def test_compare_set_serialises_both_libraries(server: Server) -> None:
    clients = [server.client(library) for library in LIBRARIES for _ in range(2)]
    server.owner.set("n", "0")

    def count(client: Store) -> None:
        now, done = b"0", 0
        while done < 40:
            # Nobody else writes this text, so having it come back means that it was stored.
            wanted = f"{int(now.split()[0]) + 1} by {client.library} {client.name}".encode()
            now = client.compare_set("n", now, wanted)
            done += now == wanted

    for each in [later(count, client) for client in clients]:
        each.result()

    assert server.owner.get("n").startswith(b"160 by")


def test_everybody_waits_for_everybody(server: Server) -> None:
    names = [f"{library} {i}" for library in LIBRARIES for i in range(6)]

    def meet(name: str) -> list[bytes]:
        client = server.client(name.split()[0])
        client.set(name, name.upper())
        client.wait(names)
        return client.multi_get(names)

    meetings = [later(meet, name) for name in names]

    for meeting in meetings:
        assert meeting.result() == [name.upper().encode() for name in names]


def kill_while_waiting(
    server: Server, library: str, wait: Callable[[Store], object]
) -> tuple[Store, Store]:
    """Kills a client that waits; returns others once the server knows of its end."""
    proxy = server.world.proxy(server.port)
    victim = server.world.peer(library).tcp(proxy.port)
    pending = later(wait, victim)
    proxy.until_waiting()

    victim.peer.kill()
    with pytest.raises(PeerDiedError):
        pending.result()
    eventually(lambda: all(each.client_left for each in proxy.recordings), "the server was told")
    server.raw().fence()
    return server.client("unisono"), server.client("torch")


def test_a_client_killed_in_get_is_forgotten(server: Server, library: str) -> None:
    ours, theirs = kill_while_waiting(server, library, lambda victim: victim.get("k"))

    ours.set("k", "v")

    assert theirs.get("k") == b"v"
    assert server.owner.num_keys() == 1


def test_a_client_killed_in_a_barrier_stays_counted(server: Server, library: str) -> None:
    ours, theirs = kill_while_waiting(server, library, lambda victim: victim.barrier("b", 3))

    waiting = later(ours.barrier, "b", 3)
    theirs.barrier("b", 3)

    waiting.result()


@pytest.mark.parametrize("server", QUEUE_SERVERS, indirect=True)
def test_a_client_killed_in_queue_pop_takes_nothing_along(server: Server, library: str) -> None:
    ours, theirs = kill_while_waiting(server, library, lambda victim: victim.queue_pop("q"))

    ours.queue_push("q", "e")

    assert ours.queue_len("q") == 1
    assert theirs.queue_pop("q") == b"e"


def test_data_outlives_the_clients_that_wrote_it(server: Server) -> None:
    for library in LIBRARIES:
        writer = server.lone_client(library)
        writer.set(library, "was here")
        assert writer.check([library])
        writer.peer.close()

    assert server.client("torch").multi_get(LIBRARIES) == [b"was here", b"was here"]


@pytest.mark.parametrize("end", ["destroyed", "killed"])
def test_the_end_of_the_server_ends_a_wait(server: Server, library: str, end: str) -> None:
    client, proxy = server.watched_client(library)
    direct = server.client(library)
    pending = later(client.get, "never")
    proxy.until_waiting()

    if end == "killed":
        server.peer.kill()
    else:
        server.owner.destroy()

    with pytest.raises(DistNetworkError):
        pending.result()
    with pytest.raises(DistNetworkError):
        direct.get("k")
    with pytest.raises(DistNetworkError):  # and it stays lost
        direct.num_keys()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_waits_for_the_workers_of_both_libraries(world: World, kind: str) -> None:
    library, loop = kind.split("-")
    port = free_port()
    owner = later(lambda: world.peer(library).tcp(port, server=loop, workers=3))

    ours = world.shared_peer("unisono").tcp(port, workers=3)
    assert not owner.done()
    world.shared_peer("torch").tcp(port, workers=3)

    assert ours.num_keys() == owner.result().num_keys() == 1
    assert ours.list_keys() == []
    assert world.raw(port).ask(Query.GET, b"init/", size=9) == b"\x01" + bytes(7) + b"3"


@pytest.mark.parametrize("loop", ["libuv", "poll"])
def test_workers_that_do_not_come_are_counted(world: World, loop: str) -> None:
    with pytest.raises(DistStoreError, match=r"Timed out after 1 seconds .* 1/2 clients joined"):
        world.peer("unisono").tcp(0, server=loop, workers=2, timeout=1000)

    world.peer("unisono").tcp(0, server=loop, workers=2, wait=0)


@pytest.mark.parametrize("server", OUR_SERVERS, indirect=True)
def test_torch_takes_our_server_for_the_agents(server: Server) -> None:
    environment = {"TORCHELASTIC_USE_AGENT_STORE": "1", "MASTER_PORT": str(server.port)}

    rank0 = server.world.peer("torch", environment).tcp(server.port, server="libuv")

    rank0.set("k", "v")
    assert server.owner.get("k") == b"v"


@pytest.mark.parametrize("loop", ["libuv", "poll"])
def test_we_take_torchs_server_for_the_agents(world: World, loop: str) -> None:
    agent = world.server("torch-libuv")
    environment = {"TORCHELASTIC_USE_AGENT_STORE": "true", "MASTER_PORT": str(agent.port)}

    rank0 = world.peer("unisono", environment).tcp(agent.port, server=loop)

    rank0.set("k", "v")
    assert agent.owner.get("k") == b"v"


@pytest.mark.parametrize("loop", ["libuv", "poll"])
def test_a_busy_port_is_named(server: Server, library: str, loop: str) -> None:
    with pytest.raises(DistNetworkError) as error:
        server.world.peer(library).tcp(server.port, server=loop)

    assert "The server socket has failed to listen on any local" in str(error.value)
    assert str(server.port) in str(error.value)
    assert "address already in use" in str(error.value).lower()


def test_a_stopped_client_holds_up_nobody(server: Server, library: str) -> None:
    stopped = server.lone_client(library)
    stopped.set("mine", "1")
    assert stopped.check(["mine"])
    stopped.peer.stop()

    other = server.client(OTHER[library])
    other.set("k", "v")
    assert other.multi_get(["k", "mine"]) == [b"v", b"1"]

    stopped.peer.signal(signal.SIGCONT)
    assert stopped.get("k") == b"v"
