// The fixture of the reactor suites: every test runs over every implementation.
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "net/reactor.hpp"

namespace unisono::test {

/// A watcher that does what a test says.
class Does final : public Watcher {
 public:
  explicit Does(std::function<void(bool, bool)> what) : what_(std::move(what)) {}
  void onReady(bool readable, bool writable) noexcept override { what_(readable, writable); }

 private:
  std::function<void(bool, bool)> what_;
};

struct Kind {
  const char* name;
  std::unique_ptr<Reactor> (*make)();

  /// For the names of tests, which would hold addresses otherwise.
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

/// The promises of reactor.hpp, held by every implementation.
class ReactorFixture : public ::testing::TestWithParam<Kind> {
 protected:
  ReactorFixture() {
    startTicks(std::chrono::seconds(20), [this] {
      ADD_FAILURE() << "the loop was not stopped";
      loop_.stop();
    });
  }

  void watch(int fd, Interest interest, Watcher& watcher) {
    loop_.role.assertHeld();
    const Status status = loop_.watch(fd, interest, watcher);
    ASSERT_TRUE(status.isOk()) << status.text();
  }
  Status tryWatch(int fd, Interest interest, Watcher& watcher) {
    loop_.role.assertHeld();
    return loop_.watch(fd, interest, watcher);
  }
  void change(int fd, Interest interest) {
    loop_.role.assertHeld();
    loop_.change(fd, interest);
  }
  void unwatch(int fd) {
    loop_.role.assertHeld();
    loop_.unwatch(fd);
  }
  void startTicks(Milliseconds period, UniqueFunction<void()> tick) {
    loop_.role.assertHeld();
    loop_.startTicks(period, std::move(tick));
  }
  void atTurnEnd(UniqueFunction<void()> task) {
    loop_.role.assertHeld();
    loop_.atTurnEnd(std::move(task));
  }
  /// Stops after `turns` more turns, in which whatever is ready has been reported.
  void stopAfter(int turns) {
    loop_.post([this, turns] {
      if (turns == 0) {
        loop_.stop();
      } else {
        stopAfter(turns - 1);
      }
    });
  }

  std::unique_ptr<Reactor> owner_ = GetParam().make();
  Reactor& loop_ = *owner_;
};

inline constexpr Kind kReactorKinds[] = {{"uv", &makeUvReactor}, {"poll", &makePollReactor}};

inline std::string kindName(const ::testing::TestParamInfo<Kind>& kind) {
  return kind.param.name;
}

}  // namespace unisono::test
