#include "stress/soak_op.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/random.hpp"
#include "base/str.hpp"

namespace unisono::stress {
namespace {

enum class Kind : std::uint8_t {
  ALL_REDUCE,
  REDUCE,
  BROADCAST,
  ALL_GATHER,
  REDUCE_SCATTER,
  ALL_TO_ALL,
  GATHER,
  SCATTER,
  EXCHANGE,  // to the next rank, from the one before
  COLLECT,   // all to the root, which takes them as they come
  BARRIER,
};
constexpr std::uint64_t kKinds = 11;
constexpr const char* kNames[kKinds] = {"all_reduce",     "reduce",     "broadcast", "all_gather",
                                        "reduce_scatter", "all_to_all", "gather",    "scatter",
                                        "exchange",       "collect",    "barrier"};

// Small whole numbers: all types hold them, and what comes of them in any order, exactly.
constexpr std::uint64_t kValues = 4;
constexpr std::size_t kPeriod = 61;
using Pattern = std::array<std::int64_t, kPeriod>;

/// What `rank` gives in block `block` of the operation; repeated as long as the block is.
Pattern patternOf(std::uint64_t seed, int rank, int block) {
  SeededRng rng(seed ^ (static_cast<std::uint64_t>(rank + 1) << 32U) ^
                (static_cast<std::uint64_t>(block + 1) << 40U));
  Pattern pattern{};
  std::generate(pattern.begin(), pattern.end(),
                [&] { return static_cast<std::int64_t>(rng.next() % kValues); });
  return pattern;
}

std::int64_t combine(RedOpType op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case RedOpType::PRODUCT:
      return a * b;
    case RedOpType::MIN:
      return std::min(a, b);
    case RedOpType::MAX:
      return std::max(a, b);
    case RedOpType::BAND:
      return a & b;
    case RedOpType::BOR:
      return a | b;
    case RedOpType::BXOR:
      return a ^ b;
    default:
      return a + b;
  }
}

/// One period as bytes of the type.
std::vector<std::byte> encode(const Pattern& pattern, DType type) {
  std::vector<std::byte> bytes(kPeriod * elementSize(type));
  visit(type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < kPeriod; ++i) {
      T value{};
      if constexpr (std::is_constructible_v<T, float> && !std::is_arithmetic_v<T>) {
        value = T(static_cast<float>(pattern[i]));
      } else {
        value = static_cast<T>(pattern[i]);
      }
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
  });
  return bytes;
}

void fill(std::span<std::byte> block, const std::vector<std::byte>& period) {
  for (std::size_t at = 0; at < block.size(); at += period.size()) {
    std::memcpy(block.data() + at, period.data(), std::min(period.size(), block.size() - at));
  }
}

bool isFilled(std::span<const std::byte> block, const std::vector<std::byte>& period) {
  for (std::size_t at = 0; at < block.size(); at += period.size()) {
    const std::size_t size = std::min(period.size(), block.size() - at);
    if (std::memcmp(block.data() + at, period.data(), size) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

class SoakOp::Body {
 public:
  Body(Group& group, std::uint64_t seed, const Limits& limits) : group_(group), seed_(seed) {
    static constexpr DType kTypes[] = {DType::FLOAT32,  DType::FLOAT64, DType::FLOAT16,
                                       DType::BFLOAT16, DType::INT8,    DType::UINT8,
                                       DType::INT16,    DType::INT32,   DType::INT64};
    static constexpr RedOpType kOps[] = {RedOpType::SUM, RedOpType::PRODUCT, RedOpType::MIN,
                                         RedOpType::MAX, RedOpType::BAND,    RedOpType::BOR,
                                         RedOpType::BXOR};
    SeededRng rng(seed);
    kind_ = static_cast<Kind>(rng.next() % kKinds);
    type_ = kTypes[rng.next() % std::size(kTypes)];
    op_ = kOps[rng.next() % (isIntegral(type_) ? 7 : 4)];
    root_ = static_cast<int>(rng.next() % static_cast<std::uint64_t>(group.size()));
    async_ = rng.next() % 2 == 1 || limits.mustBeAsync;
    registered_ = rng.next() % 4 == 0 && limits.mayRegister;
    tag_ = static_cast<int>(rng.next() % 3);
    // Every length of a few bits is as likely as that of many.
    const std::uint64_t bits = rng.next() % 24;
    const std::size_t most = limits.mostBytes / elementSize(type_);
    count_ = std::min<std::size_t>(rng.next() % (1ULL << bits), most);
    if (rng.next() % 16 == 0) {
      count_ = 0;
    }
    prepare();
  }
  /// What is under way still reads and writes this memory, also when another operation has failed.
  ~Body() {
    for (const WorkPtr& work : works_) {
      try {
        work->wait();
      } catch (const DistError&) {  // whoever waited for it knows
      }
    }
  }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  void begin() {
    const CallOptions options{.op = ReduceOp(op_), .root = root_, .tag = tag_, .async = async_};
    switch (kind_) {
      case Kind::ALL_REDUCE:
        return keep(group_.allReduce(given_, options));
      case Kind::REDUCE:
        return keep(group_.reduce(given_, options));
      case Kind::BROADCAST:
        return keep(group_.broadcast(given_, options));
      case Kind::ALL_GATHER:
        return keep(group_.allGather(given_, taken_, options));
      case Kind::REDUCE_SCATTER:
        return keep(group_.reduceScatter(given_, taken_, options));
      case Kind::ALL_TO_ALL:
        return keep(group_.allToAll(given_, taken_, options));
      case Kind::GATHER:
      case Kind::SCATTER:
        return gatherOrScatter();
      case Kind::EXCHANGE:
      case Kind::COLLECT:
        return messages();
      case Kind::BARRIER:
        return keep(group_.barrier(options));
    }
  }

  bool end() {
    for (const WorkPtr& work : works_) {
      work->wait();
    }
    return isRight();
  }

  bool isAsync() const { return async_; }
  std::string describe() const {
    return str(kNames[static_cast<std::size_t>(kind_)], " of ", count_, " ", name(type_), ", ",
               name(op_), ", root ", root_, async_ ? ", async" : "",
               registered_ ? ", registered" : "", ", seed ", seed_);
  }

 private:
  int size() const { return group_.size(); }
  int me() const { return group_.rank(); }
  int blocksGiven() const {
    return kind_ == Kind::REDUCE_SCATTER || kind_ == Kind::ALL_TO_ALL || kind_ == Kind::SCATTER
               ? size()
               : 1;
  }
  int blocksTaken() const {
    return kind_ == Kind::ALL_GATHER || kind_ == Kind::ALL_TO_ALL || kind_ == Kind::GATHER ||
                   kind_ == Kind::COLLECT
               ? size()
               : 1;
  }

  void prepare() {
    given_ = makeTensor(givenMemory_, blocksGiven());
    taken_ = makeTensor(takenMemory_, blocksTaken());
    for (int block = 0; block < blocksGiven(); ++block) {
      fill(bytesOf(given_, block), encode(patternOf(seed_, me(), block), type_));
    }
    std::memset(taken_.data(), 0x5A, taken_.bytes());
  }

  Tensor makeTensor(std::vector<std::byte>& memory, int blocks) {
    const auto count = static_cast<std::int64_t>(count_) * blocks;
    if (registered_) {
      return group_.allocate(count, type_);
    }
    memory.resize(static_cast<std::size_t>(count) * elementSize(type_) + 1);  // never null
    return {memory.data(), type_, Dims{count}};
  }

  std::span<std::byte> bytesOf(const Tensor& tensor, int block) const {
    const std::size_t bytes = count_ * elementSize(type_);
    return {static_cast<std::byte*>(tensor.data()) + static_cast<std::size_t>(block) * bytes,
            bytes};
  }
  Tensor part(const Tensor& whole, int block) const {
    const auto count = static_cast<std::int64_t>(count_);
    return slice(whole, block * count, count);
  }

  void keep(WorkPtr work) { works_.push_back(std::move(work)); }

  void gatherOrScatter() {
    const bool gathers = kind_ == Kind::GATHER;
    TensorLists lists;
    if (me() == root_) {
      std::vector<Tensor>& parts = lists.emplace_back();
      for (int rank = 0; rank < size(); ++rank) {
        parts.push_back(part(gathers ? taken_ : given_, rank));
      }
    }
    ProcessGroup& all = group_.processGroup();
    keep(gathers ? all.gather(lists, given_, {.rootRank = root_, .asyncOp = async_})
                 : all.scatter(taken_, lists, {.rootRank = root_, .asyncOp = async_}));
    if (!async_) {
      works_.back()->wait();
    }
  }

  void messages() {
    const CallOptions later{.tag = tag_, .async = true};
    if (kind_ == Kind::EXCHANGE) {
      keep(group_.send(given_, (me() + 1) % size(), later));
      keep(group_.recv(taken_, (me() + size() - 1) % size(), {.tag = tag_, .async = async_}));
      return;
    }
    // A tag that no other message has: any other one would do for who takes what comes.
    const int own = 100 + static_cast<int>(seed_ % 2'000'000'000);
    keep(group_.send(given_, root_, {.tag = own, .async = true}));
    for (int i = 0; me() == root_ && i < size(); ++i) {
      keep(group_.recv(part(taken_, i), std::nullopt, {.tag = own, .async = true}));
    }
  }

  Pattern reduced(int block) const {
    Pattern all = patternOf(seed_, 0, block);
    for (int rank = 1; rank < size(); ++rank) {
      const Pattern more = patternOf(seed_, rank, block);
      for (std::size_t i = 0; i < kPeriod; ++i) {
        all[i] = combine(op_, all[i], more[i]);
      }
    }
    return all;
  }
  bool has(const Tensor& tensor, int block, const Pattern& pattern) const {
    return isFilled(bytesOf(tensor, block), encode(pattern, type_));
  }

  /// Whether block r of what was taken is what rank r gives in its block `block`.
  bool hasAll(int block) const {
    for (int rank = 0; rank < size(); ++rank) {
      if (!has(taken_, rank, patternOf(seed_, rank, block))) {
        return false;
      }
    }
    return true;
  }

  bool isRight() const {
    const bool isRoot = me() == root_;
    switch (kind_) {
      case Kind::ALL_REDUCE:
        return has(given_, 0, reduced(0));
      case Kind::REDUCE:
        return has(given_, 0, isRoot ? reduced(0) : patternOf(seed_, me(), 0));
      case Kind::BROADCAST:
        return has(given_, 0, patternOf(seed_, root_, 0));
      case Kind::ALL_GATHER:
        return hasAll(0);
      case Kind::REDUCE_SCATTER:
        return has(taken_, 0, reduced(me()));
      case Kind::ALL_TO_ALL:
        return hasAll(me());
      case Kind::GATHER:
        return !isRoot || hasAll(0);
      case Kind::SCATTER:
        return has(taken_, 0, patternOf(seed_, root_, me()));
      case Kind::EXCHANGE:
        return has(taken_, 0, patternOf(seed_, (me() + size() - 1) % size(), 0));
      case Kind::COLLECT:
        return !isRoot || collectedAll();
      case Kind::BARRIER:
        return true;
    }
    return false;
  }

  /// Every rank's message once, each where the Work that took it says.
  bool collectedAll() const {
    std::vector<bool> came(static_cast<std::size_t>(size()));
    for (int i = 0; i < size(); ++i) {
      const int source = works_[static_cast<std::size_t>(i) + 1]->sourceRank();
      if (source < 0 || source >= size() || came[static_cast<std::size_t>(source)] ||
          !has(taken_, i, patternOf(seed_, source, 0))) {
        return false;
      }
      came[static_cast<std::size_t>(source)] = true;
    }
    return true;
  }

  Group group_;
  const std::uint64_t seed_;
  Kind kind_ = Kind::BARRIER;
  DType type_ = DType::UINT8;
  RedOpType op_ = RedOpType::SUM;
  int root_ = 0;
  int tag_ = 0;
  bool async_ = false;
  bool registered_ = false;
  std::size_t count_ = 0;
  std::vector<std::byte> givenMemory_;
  std::vector<std::byte> takenMemory_;
  Tensor given_;
  Tensor taken_;
  std::vector<WorkPtr> works_;
};

SoakOp::SoakOp(Group& group, std::uint64_t seed, const Limits& limits)
    : body_(std::make_unique<Body>(group, seed, limits)) {}
SoakOp::~SoakOp() = default;
SoakOp::SoakOp(SoakOp&&) noexcept = default;
SoakOp& SoakOp::operator=(SoakOp&&) noexcept = default;

void SoakOp::begin() {
  body_->begin();
}
bool SoakOp::end() {
  return body_->end();
}
bool SoakOp::isAsync() const {
  return body_->isAsync();
}
std::string SoakOp::describe() const {
  return body_->describe();
}

}  // namespace unisono::stress
