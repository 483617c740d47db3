#include "base/shared_memory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SharedMemoryTest, TwoMappingsShowTheSameBytes) {
  const SharedMemory made = SharedMemory::create(8192, "a test");
  const SharedMemory taken =
      SharedMemory::adopt(UniqueFd(::dup(made.descriptor())), 8192, "a test");

  EXPECT_EQ(made.bytes()[5000], std::byte{0});
  made.bytes()[5000] = std::byte{7};
  EXPECT_EQ(taken.bytes()[5000], std::byte{7});
}

TEST(SharedMemoryTest, NobodyCanShrinkIt) {
  const SharedMemory made = SharedMemory::create(8192, "a test");

  EXPECT_EQ(::ftruncate(made.descriptor(), 0), -1);
  EXPECT_EQ(::ftruncate(made.descriptor(), 1 << 20), -1);
}

TEST(SharedMemoryTest, LivesOnWithoutItsDescriptor) {
  SharedMemory made = SharedMemory::create(4096, "a test");
  made.closeDescriptor();

  made.bytes()[0] = std::byte{1};
  EXPECT_EQ(made.descriptor(), -1);
  const SharedMemory moved = std::move(made);
  EXPECT_EQ(moved.bytes()[0], std::byte{1});
}

TEST(SharedMemoryTest, RefusesWhatIsNotSealedOrOfAnotherSize) {
  const SharedMemory made = SharedMemory::create(8192, "a test");
  EXPECT_THAT(textOf<DistError>(
                  [&] { SharedMemory::adopt(UniqueFd(::dup(made.descriptor())), 4096, "a test"); }),
              HasSubstr("of another size"));

  UniqueFd open(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 4096), 0);
  EXPECT_THAT(textOf<DistError>([&] { SharedMemory::adopt(std::move(open), 4096, "a test"); }),
              HasSubstr("not sealed"));

  EXPECT_THAT(textOf<DistError>([&] {
                SharedMemory::adopt(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)), 0, "a test");
              }),
              HasSubstr("[PROTOCOL]"));
}

TEST(SharedMemoryTest, SaysWhenThereIsNotEnough) {
  EXPECT_THAT(textOf<DistError>([] { SharedMemory::create(1UL << 50U, "a dream"); }),
              AllOf(HasSubstr("for a dream"), HasSubstr("[RESOURCE]")));
}

// A file that becomes too long would end the process, and a mapping without addresses fails late.
TEST(SharedMemoryTest, RefusesWhatALimitOfTheProcessForbids) {
  std::vector limits{RLIMIT_FSIZE};
#ifndef UNISONO_SANITIZED  // they need addresses themselves
  limits.push_back(RLIMIT_AS);
#endif
  for (const auto which : limits) {
    EXPECT_EQ(test::runInChild([which] {
                const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
                if (::setrlimit(which, &limit) != 0) {
                  return false;
                }
                try {
                  SharedMemory::create(8192, "a test");
                } catch (const SharedMemory::NoRoom&) {
                  return true;
                }
                return false;
              }),
              0);
  }
}

TEST(SharedMemoryTest, AForkedChildHasOnlyWhatItMayHave) {
  const SharedMemory hidden = SharedMemory::create(4096, "a test");
  const SharedMemory shown = SharedMemory::create(4096, "a test", SharedMemory::Fork::INHERITED);
  shown.bytes()[0] = std::byte{3};

  const pid_t child = ::fork();
  if (child == 0) {
    unsigned char resident = 0;
    // Asking about a page that is not mapped fails with ENOMEM.
    const bool gone = ::mincore(hidden.bytes().data(), 4096, &resident) != 0;
    ::_exit(gone && shown.bytes()[0] == std::byte{3} ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace unisono
