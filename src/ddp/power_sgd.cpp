#include "unisono/ddp/power_sgd.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "ddp/arithmetic.hpp"
#include "ddp/average.hpp"
#include "ddp/kept_rows.hpp"
#include "ddp/low_rank.hpp"

namespace unisono::hooks {
namespace {

void checkOptions(const PowerSGDOptions& options) {
  UNISONO_CHECK(options.rank >= 1, "rank is ", options.rank,
                ", but the factors have at least one column");
  UNISONO_CHECK(options.epsilon >= 0, "epsilon is ", options.epsilon,
                ", but cannot be less than 0");
  if ((options.errorFeedback || options.warmStart) && options.startIter <= 1) {
    throw UsageError({.what = str("startIter is ", options.startIter,
                                  ", but error feedback and warm start keep something for each "
                                  "bucket, and buckets are rebuilt after the first step"),
                      .hint = "begin with step 2 or later, or turn both off"});
  }
}

/// A gradient that travels as factors.
struct Factored {
  Tensor gradient;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t rank;  // columns of the factors
  Tensor exact = {};  // its elements, in C order, as numbers that are computed with
};

/// The same memory, where that is so already.
Tensor exactOf(const Tensor& gradient, DType type) {
  if (gradient.isContiguous() && gradient.dtype() == type) {
    return gradient;
  }
  const Tensor row = ddp::ordinaryMemory(gradient.numel(), gradient.dtype());
  ddp::copyElements(Tensor(row.data(), row.dtype(), gradient.sizes()), gradient);
  if (gradient.dtype() == type) {
    return row;
  }
  const Tensor exact = ddp::ordinaryMemory(gradient.numel(), type);
  ddp::convert(exact, row);
  return exact;
}

/// The way back.
void writeExact(const Tensor& gradient, const Tensor& exact) {
  if (gradient.data() == exact.data()) {
    return;
  }
  Tensor row = exact;
  if (gradient.dtype() != exact.dtype()) {
    row = ddp::ordinaryMemory(gradient.numel(), gradient.dtype());
    ddp::convert(row, exact);
  }
  ddp::copyElements(gradient, Tensor(row.data(), row.dtype(), gradient.sizes()));
}

/// The average of gradients that travel as they are, in one row.
class Rest {
 public:
  Rest(const Group& group, ddp::KeptRows& rows, const GradBucket& bucket,
       std::vector<Tensor> gradients)
      : gradients_(std::move(gradients)) {
    std::int64_t count = 0;
    for (const Tensor& gradient : gradients_) {
      count += gradient.numel();
    }
    row_ = rows.get(bucket.index(), count, bucket.buffer().dtype());
    visit([](const Tensor& gradient, const Tensor& copy) { ddp::copyElements(copy, gradient); });
    if (count > 0) {
      average_ = ddp::startAverage(group, row_);
    }
  }

  void finish() const {
    if (average_) {
      average_->wait();
      visit([](const Tensor& gradient, const Tensor& copy) { ddp::copyElements(gradient, copy); });
    }
  }

 private:
  template <typename Fn>
  void visit(const Fn& fn) const {
    std::int64_t offset = 0;
    for (const Tensor& gradient : gradients_) {
      fn(gradient, ddp::viewLike(gradient, row_, offset));
      offset += gradient.numel();
    }
  }

  const std::vector<Tensor> gradients_;
  Tensor row_;
  std::optional<Future> average_;
};

}  // namespace

class PowerSGD::Impl {
 public:
  Impl(Group group, PowerSGDOptions options) : options_(options), group_(std::move(group)) {}

  Future run(GradBucket& bucket) {
    ddp::requireRealNumbers(bucket, "PowerSGD");
    const bool isEarly = iter < options_.startIter;
    if (bucket.isLast()) {
      ++iter;
    }
    if (isEarly) {
      return ddp::startAverage(group_, bucket.buffer());
    }
    if (bucket.buffer().dtype() == DType::FLOAT64) {
      reduce<double>(bucket);
    } else {
      reduce<float>(bucket);
    }
    return Future::ready(bucket.buffer());
  }

  const PowerSGDOptions& options() const { return options_; }

  std::int64_t iter = 0;
  std::int64_t before = 0;
  std::int64_t after = 0;

 private:
  template <typename T>
  void reduce(const GradBucket& bucket) {
    const Tensor& whole = bucket.buffer();
    Tensor error;
    if (options_.errorFeedback) {
      error = errors_.get(bucket.index(), whole.numel(), whole.dtype());
      ddp::add(whole, error);
      ddp::copyElements(error, whole);
    }
    std::vector<Factored> matrices;
    std::vector<Tensor> others;
    for (const Tensor& gradient : bucket.gradients()) {
      sort(gradient, matrices, others);
    }
    const Rest rest(group_, rests_, bucket, std::move(others));  // meanwhile
    if (!matrices.empty()) {
      approximate<T>(matrices, bucket.index());
    }
    rest.finish();
    if (options_.errorFeedback) {
      ddp::keepDifference(error, whole);
    }
  }

  /// Into one list or the other.
  void sort(const Tensor& gradient, std::vector<Factored>& matrices, std::vector<Tensor>& others) {
    const Dims& sizes = gradient.sizes();
    const std::int64_t rows = sizes.size() > 1 ? sizes[0] : 0;
    const std::int64_t columns = rows > 0 ? gradient.numel() / rows : 0;
    const std::int64_t rank = std::min({rows, columns, std::int64_t{options_.rank}});
    const std::int64_t sent = (rows + columns) * rank;
    const bool isWorthIt = static_cast<double>(sent) * options_.minCompressionRate <
                           static_cast<double>(rows * columns);
    before += gradient.numel();
    after += isWorthIt ? sent : gradient.numel();
    if (isWorthIt) {
      matrices.push_back({.gradient = gradient, .rows = rows, .columns = columns, .rank = rank});
    } else {
      others.push_back(gradient);
    }
  }

  /// Each becomes left * transposed right: left spans its columns, right has its rows in terms of
  /// left.
  template <typename T>
  void approximate(std::vector<Factored>& matrices, std::size_t bucket) {
    std::int64_t leftCount = 0;
    std::int64_t rightCount = 0;
    for (const Factored& matrix : matrices) {
      leftCount += matrix.rows * matrix.rank;
      rightCount += matrix.columns * matrix.rank;
    }
    const Tensor left = lefts_.get(bucket, leftCount, kDType<T>);
    const Tensor right = rights_.get(bucket, rightCount, kDType<T>);
    if (!options_.warmStart) {
      ddp::clearElements(right);
    }
    const auto forEach = [&](const auto& fn) {
      T* leftAt = left.dataAs<T>();
      T* rightAt = right.dataAs<T>();
      for (Factored& each : matrices) {
        const ddp::Columns<T> p{leftAt, each.rows, each.rank};
        const ddp::Columns<T> q{rightAt, each.columns, each.rank};
        fn(each, ddp::Matrix<T>{each.exact.dataAs<T>(), each.rows, each.columns}, p, q);
        leftAt += each.rows * each.rank;
        rightAt += each.columns * each.rank;
      }
    };
    for (Factored& each : matrices) {
      each.exact = exactOf(each.gradient, kDType<T>);
    }
    forEach([&](const Factored&, const auto& matrix, const auto& p, const auto& q) {
      ddp::redrawUseless(q, numbers_);
      ddp::makeOrthogonal(q, options_.epsilon);
      ddp::multiply(p, matrix, q);
    });
    group_.allReduce(left);  // a sum: only its directions count
    forEach([&](const Factored&, const auto& matrix, const auto& p, const auto& q) {
      ddp::makeOrthogonal(p, options_.epsilon);
      ddp::multiplyTransposed(q, matrix, p);
    });
    ddp::startAverage(group_, right).wait();
    forEach([&](const Factored& each, const auto& matrix, const auto& p, const auto& q) {
      ddp::expand(matrix, p, q);
      writeExact(each.gradient, each.exact);
    });
  }

  const PowerSGDOptions options_;
  Group group_;
  ddp::NormalNumbers numbers_{options_.seed};
  ddp::KeptRows errors_;  // what was left out of the last step
  ddp::KeptRows rests_{group_};
  ddp::KeptRows lefts_{group_};
  ddp::KeptRows rights_{group_};  // with what the next step begins
};

PowerSGD::PowerSGD(Group group, PowerSGDOptions options) {
  checkOptions(options);
  impl_ = std::make_unique<Impl>(std::move(group), options);
}

PowerSGD::~PowerSGD() = default;

Future PowerSGD::run(GradBucket& bucket) {
  return impl_->run(bucket);
}

void PowerSGD::useGroup(const Group& group) {
  impl_ = std::make_unique<Impl>(group, impl_->options());
}

std::int64_t PowerSGD::iter() const noexcept {
  return impl_->iter;
}

void PowerSGD::setIter(std::int64_t iter) noexcept {
  impl_->iter = iter;
}

Compression PowerSGD::compression() const noexcept {
  const auto sent = static_cast<double>(std::max<std::int64_t>(impl_->after, 1));
  return {static_cast<double>(impl_->before) / sent, impl_->before, impl_->after};
}

}  // namespace unisono::hooks
