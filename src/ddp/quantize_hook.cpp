// Gradients travel as bytes: which of 256 steps between the least and the most is nearest.
//
// The steps travel with the values in one message, since both are known before anything is sent; so
// each bucket is one operation. Of rank r the message is, for each row of values, how large a step
// is; then, for each, which step is 0; then the values, as uint8.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "unisono/ddp/hooks.hpp"

#include "base/check.hpp"
#include "ddp/arithmetic.hpp"
#include "ddp/kept_rows.hpp"

namespace unisono::hooks {
namespace {

constexpr float kLargestCode = 255;

struct Steps {
  float size = 0;
  float zero = 0;  // which of them is 0
};

/// Of a row that has an infinity or a NaN, they have the size NaN, and so has what is made of them.
Steps stepsOf(std::span<const float> row) {
  float least = 0;
  float most = 0;
  bool isFinite = true;
  for (const float value : row) {
    least = std::min(least, value);
    most = std::max(most, value);
    isFinite = isFinite && std::isfinite(value);
  }
  const float size = std::max((most - least) / kLargestCode, std::numeric_limits<float>::epsilon());
  if (!isFinite || !std::isfinite(size)) {
    return {.size = std::numeric_limits<float>::quiet_NaN()};
  }
  return {size, std::clamp(-std::nearbyint(least / size), 0.0F, kLargestCode)};
}

/// Where things are in a message about `count` values.
struct Layout {
  std::int64_t count;
  std::int64_t row;  // how many have the same steps

  std::int64_t rows() const { return row == 0 ? 0 : (count + row - 1) / row; }
  std::int64_t sizeAt(std::int64_t i) const { return i * std::int64_t{sizeof(float)}; }
  std::int64_t zeroAt(std::int64_t i) const { return sizeAt(rows() + i); }
  std::int64_t codesAt(std::int64_t i) const { return sizeAt(2 * rows()) + i * row; }
  std::int64_t bytes() const { return codesAt(0) + count; }
  std::int64_t lengthOf(std::int64_t i) const { return std::min(row, count - i * row); }
};

void write(std::uint8_t* message, const Layout& at, const float* values) {
  for (std::int64_t i = 0; i < at.rows(); ++i) {
    const float* row = values + i * at.row;
    const std::int64_t length = at.lengthOf(i);
    const Steps steps = stepsOf({row, static_cast<std::size_t>(length)});
    std::memcpy(message + at.sizeAt(i), &steps.size, sizeof(float));  // they are not aligned
    std::memcpy(message + at.zeroAt(i), &steps.zero, sizeof(float));
    std::uint8_t* codes = message + at.codesAt(i);
    for (std::int64_t j = 0; j < length; ++j) {
      const float code = std::nearbyint(row[j] / steps.size) + steps.zero;
      codes[j] = code >= 0 ? static_cast<std::uint8_t>(std::min(code, kLargestCode)) : 0;
    }
  }
}

/// Adds what a rank has sent.
void addTo(float* sums, const Layout& at, const std::uint8_t* message) {
  for (std::int64_t i = 0; i < at.rows(); ++i) {
    Steps steps;
    std::memcpy(&steps.size, message + at.sizeAt(i), sizeof(float));
    std::memcpy(&steps.zero, message + at.zeroAt(i), sizeof(float));
    const std::uint8_t* codes = message + at.codesAt(i);
    float* row = sums + i * at.row;
    for (std::int64_t j = 0; j < at.lengthOf(i); ++j) {
      row[j] += steps.size * (static_cast<float>(codes[j]) - steps.zero);
    }
  }
}

class QuantizeHook final : public CommHook {
 public:
  /// Without `row`, all values of a bucket have the same steps.
  QuantizeHook(Group group, std::optional<std::int64_t> row)
      : group_(std::move(group)), row_(row), sent_(group_), received_(group_) {}

  Future run(GradBucket& bucket) override {
    ddp::requireRealNumbers(bucket, row_ ? "quantizePerChannel" : "quantizePerTensor");
    const Tensor whole = bucket.buffer();
    const Layout at{.count = whole.numel(), .row = row_.value_or(whole.numel())};
    const Tensor mine = sent_.get(bucket.index(), at.bytes(), DType::UINT8);
    const Tensor all = received_.get(bucket.index(), group_.size() * at.bytes(), DType::UINT8);
    write(mine.dataAs<std::uint8_t>(), at, ddp::asFloats(whole).dataAs<const float>());
    const Future gathered = group_.allGather(mine, all, {.async = true})->getFuture();
    return gathered.then([whole, at, all, size = group_.size()](const Future& done) -> TensorList {
      static_cast<void>(done.value());  // throws what it failed with
      const Tensor sums = ddp::ordinaryMemory(whole.numel(), DType::FLOAT32);
      for (int rank = 0; rank < size; ++rank) {
        addTo(sums.dataAs<float>(), at, all.dataAs<const std::uint8_t>() + rank * at.bytes());
      }
      ddp::convert(whole, sums, size);
      return whole;
    });
  }

  void useGroup(const Group& group) override {
    group_ = group;
    sent_ = ddp::KeptRows(group);
    received_ = ddp::KeptRows(group);
  }

 private:
  Group group_;
  const std::optional<std::int64_t> row_;
  ddp::KeptRows sent_;
  ddp::KeptRows received_;
};

}  // namespace

std::shared_ptr<CommHook> quantizePerTensor(Group group) {
  return std::make_shared<QuantizeHook>(std::move(group), std::nullopt);
}

std::shared_ptr<CommHook> quantizePerChannel(Group group, std::int64_t bucketSize) {
  UNISONO_CHECK(bucketSize >= 1, "bucketSize is ", bucketSize,
                ", but at least one value has the same steps");
  return std::make_shared<QuantizeHook>(std::move(group), bucketSize);
}

}  // namespace unisono::hooks
