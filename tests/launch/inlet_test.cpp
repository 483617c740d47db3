#include "launch/inlet.hpp"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <gmock/gmock.h>
#include <memory>
#include <string>
#include <unistd.h>

#include "net/net_support.hpp"

namespace unisono::launch {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    out = UniqueFd(ends[0]);
    in = UniqueFd(ends[1]);
  }
  /// What is in it now.
  std::string content() const {
    std::string text(1 << 20, '\0');
    ::fcntl(out.get(), F_SETFL, O_NONBLOCK);
    const ssize_t size = ::read(out.get(), text.data(), text.size());
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
  }
  UniqueFd out;
  UniqueFd in;
};

class InletTest : public testing::Test {
 protected:
  InletTest() { ::signal(SIGPIPE, SIG_IGN); }  // as in the program

  /// Runs the loop until `condition`, which is looked at now and then.
  void turnUntil(const std::function<bool()>& condition) {
    const Deadline deadline = test::soon();
    reactor->role.assertHeld();
    reactor->startTicks(Milliseconds(1), [this, condition, deadline] {
      if (condition() || deadline.expired()) {
        reactor->stop();
      }
    });
    reactor->run();
    EXPECT_FALSE(deadline.expired());
  }

  std::unique_ptr<Reactor> reactor = makePollReactor();
  Pipe source;
};

TEST_F(InletTest, GivesEverybodyAllOfItAndTheEnd) {
  Inlet inlet(*reactor, source.out.get());
  Pipe first;
  Pipe second;
  inlet.add(std::move(first.in));
  inlet.add(std::move(second.in));
  ASSERT_EQ(::write(source.in.get(), "text", 4), 4);
  source.in.reset();
  std::string seen;
  turnUntil([&] {
    seen += first.content();
    char byte = 0;
    return seen == "text" && ::read(first.out.get(), &byte, 1) == 0;
  });

  EXPECT_EQ(second.content(), "text");
}

TEST_F(InletTest, ForgetsWhoHasGone) {
  Inlet inlet(*reactor, source.out.get());
  Pipe gone;
  Pipe other;
  inlet.add(std::move(gone.in));
  inlet.add(std::move(other.in));
  gone.out.reset();
  ASSERT_EQ(::write(source.in.get(), "text", 4), 4);
  std::string seen;
  turnUntil([&] {
    seen += other.content();
    return seen == "text";
  });
}

}  // namespace
}  // namespace unisono::launch
