from __future__ import annotations

import pytest
from check_waits import RULES, check_text


def complaints(text: str, where: str = "src/store/a.cpp") -> list[str]:
    return [str(complaint) for complaint in check_text(where, text)]


@pytest.mark.parametrize(
    "text",
    [
        "std::this_thread::sleep_for(1ms);",
        "::usleep(10);",
        "::sleep(1);",
        "nanosleep(&t, nullptr);",
        "const int n = ::poll(&fd, 1, -1);",
        "if (poll(&fd, 1, -1) < 0) {}",
        "epoll_wait(fd, events, 8, -1);",
        "std::condition_variable changed_;",
        "changed_.wait_for(lock, 1s);",
        "changed_->sleep(mutex_, 1s);",
        "std::future<int> f;",
        "thread.join();",
        "uv_run(loop, UV_RUN_DEFAULT);",
        "::getaddrinfo(host, port, &hints, &found);",
        "::getnameinfo(address, size, name, sizeof name, nullptr, 0, 0);",
        "::flock(fd, LOCK_EX);",
        "::fcntl(fd, F_SETLKW, &lock);",
        "::waitpid(pid, &status, 0);",
    ],
)
def test_a_blocking_call_is_named(text: str) -> None:
    (complaint,) = complaints(f"// first line\n{text}\n")

    assert complaint.startswith("src/store/a.cpp:2: ")
    assert "blocks" in complaint


@pytest.mark.parametrize(
    "text",
    [
        "// sleep_for(1ms)",
        'log("sleep_for(");',
        "table_.wait(id, keys, what);",
        "store.wait({key});",
        "void sleep(Milliseconds most) override;",
        "Row select(const Args& args);",
        "const Row row = Selector::select(args);",
        "::flock(fd, LOCK_EX | LOCK_NB);",
        "const int how = (mine ? LOCK_EX : LOCK_SH) | LOCK_NB;",
        "void Both::sleep(Milliseconds most) {\n  ::poll(fds, 2, most);\n}",
        "strings.join(a, b);",
        "if (::poll(entries.data(), entries.size(), 0) <= 0) {}",
        "::waitpid(pid, &status, WNOHANG);",
        "TimerWaitable pause(kCountAgain);",
    ],
)
def test_what_does_not_block_passes(text: str) -> None:
    assert complaints(text + "\n") == []


def test_the_places_that_block_may_and_say_why() -> None:
    assert complaints("::nanosleep(&t, nullptr);", "src/base/wait.cpp") == []
    assert all(reason for rule in RULES for reason in rule.allowed.values())


@pytest.mark.parametrize("loop", ["while (true)", "for (;;)", "while (1)", "for (int i = 0;; ++i)"])
def test_an_endless_loop_must_say_how_it_ends(loop: str) -> None:
    (complaint,) = complaints(f"{loop} {{\n  work();\n}}\n")
    assert "endless loop" in complaint

    assert complaints(f"{loop} {{  // ends when the peer closes\n  work();\n}}\n") == []
    assert complaints(f"// Ends with the input.\n{loop} {{\n  work();\n}}\n") == []
    assert complaints(f"{loop} {{\n  if (deadline.expired()) {{\n    return;\n  }}\n}}\n") == []


def test_a_call_repeated_after_a_signal_ends() -> None:
    assert (
        complaints("for (;;) {\n  if (f() >= 0 || errno != EINTR) {\n    return;\n  }\n}\n") == []
    )


def test_a_deadline_after_the_loop_does_not_help() -> None:
    assert len(complaints("while (true) {\n  work();\n}\nset(deadline);\n")) == 1
