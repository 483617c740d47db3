// Calls that make no sense, on one rank or on several: every rank is told, nobody hangs, and
// nothing but outputs is touched.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.hpp"
#include "fault/chores.hpp"
#include "fault/judge.hpp"

namespace unisono::fault {
namespace {

using Body = std::function<void(Member&, Group&)>;

/// Lets the processes of a group of `size` do `body`, whose Broken fails the test.
void together(int size, const Body& body) {
  Round round(1, 0, false, Way::SHM);
  Crew crew(size, round);
  crew.start([&](Member& member) {
    Group group = member.join();
    body(member, group);
  });
  for (int rank = 0; rank < size; ++rank) {
    try {
      crew.awaitEnd(rank);
    } catch (const Broken& broken) {
      ADD_FAILURE() << broken.what();
    }
    EXPECT_STREQ(crew.report(rank).text, "") << "rank " << rank;
  }
}

/// The facts of what `call` throws, which must be an `Error` for `reason`.
template <typename Error>
ErrorFacts refused(Reason reason, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    require(error.reason() == reason, "another reason: ", error.what());
    return error.facts();
  }
  throw Broken("nothing was thrown");
}

/// An operation that all ranks take part in: the group is in step.
void goOn(Group& group) {
  std::vector<int> values(100, group.rank());
  group.allReduce(values);
  require(values[99] == group.size() * (group.size() - 1) / 2, "the sum is wrong");
}

TEST(BadInputTest, WhatIsRefusedOnOneRankLeavesTheGroupInStep) {
  together(3, [](Member& member, Group& group) {
    ProcessGroup& all = group.processGroup();
    std::vector<int> data(12, 7);
    const Tensor whole(data);
    const std::vector<std::function<void()>> wrong = {
        [&] { group.broadcast(data, {.root = 3}); },
        [&] { group.reduce(data, {.root = -1}); },
        [&] { group.send(data, 3); },
        [&] {
          all.allToAllSingle(whole, whole, {4, 4, 5}, {4, 4, 4})->wait();
        },
        [&] {
          all.allToAllSingle(whole, whole, {4, 4, 4}, {13, -1, 0})->wait();
        },
        [&] { group.allGather(std::vector<int>(5), data); },
        [&] { group.reduceScatter(data, std::vector<int>(5)); },
        [&] {  // elements of the output in one place
          all.allreduce(Tensor(data.data(), DType::INT32, {6, 2}, {1, 1}))->wait();
        },
        [&] {  // the input is inside the output, but not this rank's part of it
          const auto other = static_cast<std::size_t>((member.rank() + 1) % 3);
          group.allGather(std::span(data).subspan(4 * other, 4), data);
        },
        [&] {
          all.allreduce(Tensor(data.data(), DType::INT32, {12}, Device{DeviceType::CUDA, 0}));
        },
    };
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      if (static_cast<std::size_t>(member.rank()) == i % 3) {
        refused<UsageError>(Reason::USAGE, wrong[i]);
      }
      goOn(group);
    }
    require(data == std::vector<int>(12, 7), "a call that was refused has touched its tensors");
  });
}

TEST(BadInputTest, PartsThatDoNotFitEachOtherAreToldToAll) {
  together(3, [](Member& member, Group& group) {
    // Rank 0 gives two rows to each; rank 1 expects three of it, and its own sum is right.
    std::vector<int> give(6, member.rank());
    std::vector<int> take(6, -1);
    const std::vector<std::int64_t> even = {2, 2, 2};
    const std::vector<std::int64_t> odd = {3, 2, 1};
    const ErrorFacts error = refused<DistBackendError>(Reason::MISMATCH, [&] {
      group.processGroup()
          .allToAllSingle(Tensor(take), Tensor(give), member.rank() == 1 ? odd : even, even)
          ->wait();
      group.barrier();  // who got all it wanted is told by its next call
    });
    require(!error.culprits.empty(), "nobody is blamed");
    require(error.what.find("bytes to rank 1, which expects") != std::string::npos, error.what);
    require(give == std::vector<int>(6, member.rank()), "an input was touched");
  });
}

TEST(BadInputTest, AMessageOfAnotherLengthIsToldToAll) {
  together(3, [](Member& member, Group& group) {
    std::vector<int> data(member.rank() == 0 ? 7 : 10, member.rank());
    const ErrorFacts error = refused<DistBackendError>(Reason::MISMATCH, [&] {
      if (member.rank() == 0) {
        group.send(data, 1);
      } else if (member.rank() == 1) {
        group.recv(std::span(data).first(5), 0);
      }
      group.barrier();
    });
    require(error.culprits == std::vector<int>{0}, "another rank is blamed");
    require(data == std::vector<int>(data.size(), member.rank()), "data was touched");
  });
}

TEST(BadInputTest, AGroupThatWasAbortedRefusesEverything) {
  together(2, [](Member& member, Group& group) {
    goOn(group);
    if (member.rank() == 1) {
      group.processGroup().abort();
    }
    std::vector<int> data(10, 7);
    std::vector<int> more(20, 7);
    const auto work = [&] { group.barrier(); };
    refused<DistBackendError>(Reason::ABORTED, work);  // rank 0 may have to wait for it
    const std::vector<std::function<void()>> calls = {
        work,
        [&] { group.allReduce(data); },
        [&] { group.allReduce(data, {.async = true})->wait(); },
        [&] { group.allGather(data, more); },
        [&] { group.send(data, 1 - member.rank()); },
        [&] { group.recv(data, 1 - member.rank()); },
        [&] { group.processGroup().monitoredBarrier(); },
        [&] {
          group.newGroup({0, 1});
        },
        [&] { group.split(1); },
    };
    for (const auto& call : calls) {
      require(refused<DistBackendError>(Reason::ABORTED, call).culprits == std::vector<int>{1},
              "another rank is blamed");
    }
    require(data == std::vector<int>(10, 7) && more == std::vector<int>(20, 7), "data was touched");
  });
}

/// 2 GiB and one page of zeros that take little memory: all but the first and the last pieces are
/// one and the same, which stays zero when zeros are added to it.
class Zeros {
 public:
  static constexpr std::size_t kPiece = 64U << 20U;
  static constexpr std::size_t kPieces = 32;
  static constexpr std::size_t kBytes = kPiece * kPieces + 4096;

  Zeros() : memory_(map(nullptr, kBytes, MAP_PRIVATE | MAP_ANONYMOUS, -1)) {
    const UniqueFd piece(::memfd_create("zeros", MFD_CLOEXEC));
    require(::ftruncate(piece.get(), kPiece) == 0, "no memory for a very long tensor");
    for (std::size_t i = 1; i + 1 < kPieces; ++i) {
      map(data() + i * kPiece, kPiece, MAP_SHARED | MAP_FIXED, piece.get());
    }
  }
  ~Zeros() { ::munmap(memory_, kBytes); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  std::uint8_t* data() const { return static_cast<std::uint8_t*>(memory_); }

 private:
  static void* map(void* where, std::size_t bytes, int flags, int fd) {
    void* memory = ::mmap(where, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
    require(memory != MAP_FAILED, "no room for a very long tensor");
    return memory;
  }
  void* const memory_;
};

TEST(BadInputTest, MoreElementsThanAnIntCanCountAreNoProblem) {
#ifdef UNISONO_SANITIZED
  GTEST_SKIP() << "takes too long under a sanitizer";
#endif
  static constexpr std::size_t kCount = (1ULL << 31U) + 1;
  together(2, [](Member& member, Group& group) {
    const Zeros memory;
    std::uint8_t* data = memory.data();
    static constexpr std::size_t kPlaces[] = {0, (1ULL << 31U) - 1, kCount - 1};
    for (const std::size_t place : kPlaces) {
      data[place] = static_cast<std::uint8_t>(member.rank() + 1);
    }
    const Tensor tensor(data, DType::UINT8, {static_cast<std::int64_t>(kCount)});
    group.allReduce(tensor);
    for (const std::size_t place : kPlaces) {
      require(data[place] == 3, "element ", place, " is wrong");
    }
    for (std::size_t beyond = kCount; beyond < Zeros::kBytes; ++beyond) {
      require(data[beyond] == 0, "something was written behind the tensor");
    }
  });
}

}  // namespace
}  // namespace unisono::fault
