#include "bench/store/peers.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "base/str.hpp"

namespace unisono::bench {
namespace {

/// A "Python" that does what `script` says, whatever it is asked.
class FakePython {
 public:
  explicit FakePython(const std::string& script)
      : file_(str(::testing::TempDir(), "python-", ::getpid())) {
    std::ofstream(file_) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(file_, std::filesystem::perms::owner_all);
  }
  ~FakePython() { std::filesystem::remove(file_); }
  FakePython(const FakePython&) = delete;
  FakePython& operator=(const FakePython&) = delete;

  const std::string& file() const { return file_; }

 private:
  const std::string file_;
};

TEST(PeersTest, OneThatIsSlowToStartIsToldOfAndThenLeftOut) {
  const FakePython python("exec sleep 600");
  std::vector<MissingPeer> missing;
  std::vector<std::string> told;
  const PeerOptions options{.python = python.file(),
                            .patience = Milliseconds(300),
                            .notice = Milliseconds(20),
                            .slow = [&](const std::string& name, Milliseconds since, Milliseconds) {
                              EXPECT_GE(since, Milliseconds(20));
                              told.push_back(name);
                            }};

  EXPECT_FALSE(startPeer("torch", options, &missing));

  EXPECT_EQ(told, std::vector<std::string>{"torch"});
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].name, "torch");
  EXPECT_NE(missing[0].why.find("did not start within 300ms"), std::string::npos) << missing[0].why;
}

TEST(PeersTest, OneThatIsSlowButStartsIsTaken) {
  const FakePython python(R"(sleep 0.1; echo '{"port": 5, "version": "9"}'; exec sleep 600)");
  std::vector<MissingPeer> missing;
  bool told = false;
  const PeerOptions options{
      .python = python.file(),
      .notice = Milliseconds(10),
      .slow = [&](const std::string&, Milliseconds, Milliseconds) { told = true; }};

  const std::optional<Peer> peer = startPeer("torch", options, &missing);

  ASSERT_TRUE(peer) << missing[0].why;
  EXPECT_EQ(peer->target.port, 5);
  EXPECT_EQ(peer->version, "9");
  EXPECT_TRUE(told);
}

TEST(PeersTest, OneThatEndsAtOnceIsNotWaitedFor) {
  const FakePython python("exit 1");
  std::vector<MissingPeer> missing;

  EXPECT_FALSE(startPeer("torch", {.python = python.file()}, &missing));

  ASSERT_EQ(missing.size(), 1U);
  EXPECT_NE(missing[0].why.find("cannot import torch"), std::string::npos) << missing[0].why;
}

}  // namespace
}  // namespace unisono::bench
