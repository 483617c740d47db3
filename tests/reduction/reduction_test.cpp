#include "reduction/reduction.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "reduction/instruction_set.hpp"
#include "reduction/reference.hpp"
#include "reduction/samples.hpp"

namespace unisono {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::size_t kSizes[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 100, 1029};
constexpr std::size_t kCounts[] = {1, 2, 3, 5, 8, 9};

struct Pair {
  DType type;
  RedOpType op;
};

std::string describe(const Pair& pair) {
  return str(name(pair.type), "_", name(pair.op));
}

bool makesSense(DType type, RedOpType op) {
  const bool bitwise = op >= RedOpType::BAND && op <= RedOpType::BXOR;
  if (type == DType::BOOL) {
    return op != RedOpType::AVG && op != RedOpType::PREMUL_SUM;
  }
  if (isComplex(type)) {
    return op <= RedOpType::PRODUCT;
  }
  if (op == RedOpType::PREMUL_SUM) {
    return isFloatingPoint(type) && elementSize(type) > 1;
  }
  return !bitwise || isIntegral(type);
}

/// All pairs that make sense, or all that do not.
std::vector<Pair> pairs(bool sensible) {
  std::vector<Pair> all;
  for (int type = 0; type < kDTypeCount; ++type) {
    for (int op = 0; op <= static_cast<int>(RedOpType::UNUSED); ++op) {
      const Pair pair{static_cast<DType>(type), static_cast<RedOpType>(op)};
      const bool makes = pair.op != RedOpType::UNUSED && makesSense(pair.type, pair.op);
      if (makes == sensible) {
        all.push_back(pair);
      }
    }
  }
  return all;
}

/// Bytes between guards, at an address that suits no vector.
class Place {
 public:
  Place(std::span<const std::byte> content, std::size_t shift)
      : size_(content.size()), start_(kGuard + shift), memory_(size_ + shift + 2 * kGuard, kMark) {
    fill(content);
  }

  void fill(std::span<const std::byte> content) {
    std::copy(content.begin(), content.end(),
              memory_.begin() + static_cast<std::ptrdiff_t>(start_));
  }
  std::byte* data() { return memory_.data() + start_; }
  std::vector<std::byte> content() const {
    const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(start_);
    return {first, first + static_cast<std::ptrdiff_t>(size_)};
  }
  bool guardsAreWhole() const {
    const auto whole = [](std::byte byte) { return byte == kMark; };
    const auto end = static_cast<std::ptrdiff_t>(start_ + size_);
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(start_),
                       whole) &&
           std::all_of(memory_.begin() + end, memory_.end(), whole);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kMark{0xC3};
  std::size_t size_;
  std::size_t start_;
  std::vector<std::byte> memory_;
};

/// Some sources and what must become of them.
struct World {
  World(const Pair& kind, std::size_t count, std::size_t elements, int ranks) : pair(kind) {
    for (std::size_t i = 0; i < count; ++i) {
      contents.push_back(samples(kind.type, elements, 1000 * count + i));
      places.emplace_back(contents.back(), 1 + 3 * i);
    }
    for (Place& place : places) {
      sources.push_back(place.data());
    }
    expected = reference::reduce(kind.type, kind.op, ranks, sources, elements);
  }

  /// Compares element by element, so that the message says which one is wrong.
  void expectResult(const Place& place) const {
    ASSERT_TRUE(place.guardsAreWhole());
    const std::vector<std::byte> got = place.content();
    const std::size_t size = elementSize(pair.type);
    for (std::size_t i = 0; i < got.size(); i += size) {
      if (std::memcmp(&got[i], &expected[i], size) != 0) {
        FAIL() << "element " << i / size << ": " << hex(got, i) << ", expected " << hex(expected, i)
               << " from " << inputs(i);
      }
    }
  }
  void expectSourcesUntouched() {
    for (std::size_t i = 0; i < places.size(); ++i) {
      ASSERT_EQ(places[i].content(), contents[i]) << "source " << i;
    }
  }

  Pair pair;
  std::vector<std::vector<std::byte>> contents;
  std::vector<Place> places;
  std::vector<const std::byte*> sources;
  std::vector<std::byte> expected;

 private:
  std::string hex(const std::vector<std::byte>& bytes, std::size_t at) const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (std::size_t i = elementSize(pair.type); i-- > 0;) {
      const auto byte = static_cast<unsigned>(bytes[at + i]);
      text += {kDigits[byte / 16], kDigits[byte % 16]};
    }
    return text;
  }
  std::string inputs(std::size_t at) const {
    std::string text;
    for (const std::vector<std::byte>& content : contents) {
      text += hex(content, at) + " ";
    }
    return text;
  }
};

class ReductionTest : public ::testing::TestWithParam<Pair> {
 protected:
  ~ReductionTest() override { useBestInstructionSet(); }

  static ReduceOp op() {
    return GetParam().op == RedOpType::PREMUL_SUM ? ReduceOp::preMulSum(3.0)
                                                  : ReduceOp(GetParam().op);
  }

  /// Calls `check` for every instruction set, number of sources and size.
  template <typename Check>
  static void forAll(int ranks, Check check) {
    for (const std::size_t count : kCounts) {
      for (const std::size_t elements : kSizes) {
        World world(GetParam(), count, elements, ranks);
        for (const std::string& set : instructionSetsOnce()) {
          SCOPED_TRACE(str(set, ", ", count, " sources, ", elements, " elements"));
          useInstructionSet(set);
          check(world, Reduction::of(GetParam().type, op(), ranks), elements);
          if (HasFatalFailure()) {
            return;
          }
        }
      }
    }
  }

 private:
  static const std::vector<std::string>& instructionSetsOnce() {
    static const std::vector<std::string> kSets = [] {
      useBestInstructionSet();
      return instructionSets();
    }();
    return kSets;
  }
};

TEST_P(ReductionTest, GivesTheBitsOfPlainCodeOnEveryInstructionSet) {
  forAll(3, [](World& world, const Reduction& reduction, std::size_t elements) {
    ASSERT_EQ(reduction.elementSize(), elementSize(world.pair.type));
    Place into(world.contents[0], 13);
    reduction.reduce(into.data(), world.sources, elements);
    world.expectResult(into);
    world.expectSourcesUntouched();
  });
}

TEST_P(ReductionTest, MayStoreToEachOfItsSources) {
  forAll(4, [](World& world, const Reduction& reduction, std::size_t elements) {
    for (std::size_t i = 0; i < world.places.size(); ++i) {
      reduction.reduce(world.places[i].data(), world.sources, elements);
      world.expectResult(world.places[i]);
      world.places[i].fill(world.contents[i]);
    }
  });
}

TEST_P(ReductionTest, StoresTheSameToAll) {
  forAll(7, [](World& world, const Reduction& reduction, std::size_t elements) {
    Place apart(world.contents[0], 5);
    std::vector<std::byte*> into{apart.data()};
    for (Place& place : world.places) {
      into.push_back(place.data());
    }
    reduction.reduceToAll(into, world.sources, elements);
    world.expectResult(apart);
    for (std::size_t i = 0; i < world.places.size(); ++i) {
      world.expectResult(world.places[i]);
      world.places[i].fill(world.contents[i]);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, ReductionTest, ::testing::ValuesIn(pairs(true)),
                         [](const auto& kind) { return describe(kind.param); });

std::string refusal(const Pair& pair) {
  if (pair.op == RedOpType::UNUSED) {
    return "Cannot use ReduceOp.UNUSED";
  }
  if (pair.op == RedOpType::AVG) {
    return "Cannot use ReduceOp.AVG with boolean inputs";
  }
  if (pair.op == RedOpType::PREMUL_SUM) {
    return "PreMulSum Data type must be half, float, bfloat16 or double";
  }
  if (pair.op >= RedOpType::BAND) {
    return str("Cannot use ReduceOp.", name(pair.op), " with non-integral dtype");
  }
  return str("does not support ReduceOp.", name(pair.op), " on complex tensors");
}

TEST(ReductionRefusalTest, SaysWhyAPairMakesNoSense) {
  for (const Pair& pair : pairs(false)) {
    EXPECT_THAT([&] { Reduction::of(pair.type, pair.op, 2); },
                ThrowsMessage<UsageError>(HasSubstr(refusal(pair))))
        << describe(pair);
  }
}

TEST(ReductionRefusalTest, NeedsARank) {
  EXPECT_THROW(Reduction::of(DType::FLOAT32, ReduceOp::SUM, 0), UsageError);
  EXPECT_THROW(Reduction::of(DType::FLOAT32, ReduceOp::AVG, -1), UsageError);
}

}  // namespace
}  // namespace unisono
