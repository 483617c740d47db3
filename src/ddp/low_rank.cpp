#include "ddp/low_rank.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace unisono::ddp {
namespace {

/// Added up as so many sums that do not wait for each other, which a processor computes at once.
constexpr std::int64_t kLanes = 8;

template <typename Sum, typename T>
Sum dot(const T* a, const T* b, std::int64_t length) {
  Sum sums[kLanes] = {};
  std::int64_t at = 0;
  for (; at + kLanes <= length; at += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<Sum>(a[at + lane]) * static_cast<Sum>(b[at + lane]);
    }
  }
  for (std::int64_t lane = 0; at < length; ++at, ++lane) {
    sums[lane] += static_cast<Sum>(a[at]) * static_cast<Sum>(b[at]);
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/// to += factor * from
template <typename T>
void addScaled(T* to, T factor, const T* from, std::int64_t length) {
  for (std::int64_t i = 0; i < length; ++i) {
    to[i] += factor * from[i];
  }
}

template <typename T>
double lengthOf(const T* column, std::int64_t length) {
  return std::sqrt(dot<double>(column, column, length));
}

}  // namespace

double NormalNumbers::uniform() {
  const auto high = static_cast<double>(engine_() >> 5U);  // 27 bits, and 26
  const auto low = static_cast<double>(engine_() >> 6U);
  return (high * 0x1p26 + low) * 0x1p-53;
}

/// The polar method: of a point in the unit circle come two numbers.
double NormalNumbers::next() {
  if (spare_) {
    const double second = *spare_;
    spare_.reset();
    return second;
  }
  for (;;) {  // ends with the first point inside, which more than three in four are
    const double x = 2 * uniform() - 1;
    const double y = 2 * uniform() - 1;
    const double square = x * x + y * y;
    if (square < 1 && square > 0) {
      const double factor = std::sqrt(-2 * std::log(square) / square);
      spare_ = factor * x;
      return factor * y;
    }
  }
}

template <typename T>
void makeOrthogonal(const Columns<T>& columns, double epsilon) {
  // What subtracting leaves of a column that is a combination of others is about so small.
  constexpr double kNothing = 4 * static_cast<double>(std::numeric_limits<T>::epsilon());
  const std::int64_t length = columns.length;
  for (std::int64_t i = 0; i < columns.count; ++i) {
    T* column = columns.column(i);
    const double before = lengthOf(column, length);
    for (int pass = 0; pass < 2; ++pass) {  // the second removes what the first rounded into it
      for (std::int64_t j = 0; j < i; ++j) {
        const T* earlier = columns.column(j);
        addScaled(column, static_cast<T>(-dot<double>(column, earlier, length)), earlier, length);
      }
    }
    const double after = lengthOf(column, length);
    if (std::isfinite(before) && after <= before * kNothing) {
      std::fill_n(column, length, T{0});
      continue;
    }
    for (std::int64_t at = 0; at < length; ++at) {
      column[at] = static_cast<T>(static_cast<double>(column[at]) / (after + epsilon));
    }
  }
}

template <typename T>
void redrawUseless(const Columns<T>& columns, NormalNumbers& numbers) {
  std::vector<T*> useless;
  for (std::int64_t i = 0; i < columns.count; ++i) {
    const double length = lengthOf(columns.column(i), columns.length);
    if (length == 0 || !std::isfinite(length)) {
      useless.push_back(columns.column(i));
    }
  }
  for (std::int64_t at = 0; at < columns.length; ++at) {
    for (T* column : useless) {
      column[at] = static_cast<T>(numbers.next());
    }
  }
}

template <typename T>
void multiply(const Columns<T>& left, const Matrix<T>& matrix, const Columns<T>& right) {
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t k = 0; k < left.count; ++k) {
      left.column(k)[i] = dot<T>(matrix.row(i), right.column(k), matrix.columns);
    }
  }
}

template <typename T>
void multiplyTransposed(const Columns<T>& right, const Matrix<T>& matrix, const Columns<T>& left) {
  std::fill_n(right.data, right.length * right.count, T{0});
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t k = 0; k < right.count; ++k) {
      addScaled(right.column(k), left.column(k)[i], matrix.row(i), matrix.columns);
    }
  }
}

template <typename T>
void expand(const Matrix<T>& matrix, const Columns<T>& left, const Columns<T>& right) {
  std::fill_n(matrix.data, matrix.rows * matrix.columns, T{0});
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t k = 0; k < left.count; ++k) {
      addScaled(matrix.row(i), left.column(k)[i], right.column(k), matrix.columns);
    }
  }
}

template void makeOrthogonal(const Columns<float>&, double);
template void makeOrthogonal(const Columns<double>&, double);
template void redrawUseless(const Columns<float>&, NormalNumbers&);
template void redrawUseless(const Columns<double>&, NormalNumbers&);
template void multiply(const Columns<float>&, const Matrix<float>&, const Columns<float>&);
template void multiply(const Columns<double>&, const Matrix<double>&, const Columns<double>&);
template void multiplyTransposed(const Columns<float>&, const Matrix<float>&,
                                 const Columns<float>&);
template void multiplyTransposed(const Columns<double>&, const Matrix<double>&,
                                 const Columns<double>&);
template void expand(const Matrix<float>&, const Columns<float>&, const Columns<float>&);
template void expand(const Matrix<double>&, const Columns<double>&, const Columns<double>&);

}  // namespace unisono::ddp
