// Matrices as products of two narrow ones: what PowerSGD computes on one rank, in float or double.
//
// Sums are made in one order, whatever the processor, so that ranks which begin with the same bits
// end with the same.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

namespace unisono::ddp {

/// Numbers of the normal distribution, the same everywhere for a seed: those of NumPy's
/// RandomState.
class NormalNumbers {
 public:
  explicit NormalNumbers(std::uint32_t seed) : engine_(seed) {}
  double next();

 private:
  double uniform();

  std::mt19937 engine_;
  std::optional<double> spare_;  // they come in pairs
};

/// Row after row.
template <typename T>
struct Matrix {
  T* data;
  std::int64_t rows;
  std::int64_t columns;

  T* row(std::int64_t i) const { return data + i * columns; }
};

/// Few columns, one after the other in memory.
template <typename T>
struct Columns {
  T* data;
  std::int64_t length;
  std::int64_t count;

  T* column(std::int64_t i) const { return data + i * length; }
};

/// In place, column after column: length 1, and nothing in common with the ones before. What is a
/// combination of those, or 0, becomes 0. `epsilon` is added to lengths that are divided by.
template <typename T>
void makeOrthogonal(const Columns<T>& columns, double epsilon);

/// Draws columns anew that are 0, or have something in them that is no finite number.
template <typename T>
void redrawUseless(const Columns<T>& columns, NormalNumbers& numbers);

/// left = matrix * right
template <typename T>
void multiply(const Columns<T>& left, const Matrix<T>& matrix, const Columns<T>& right);

/// right = transposed matrix * left
template <typename T>
void multiplyTransposed(const Columns<T>& right, const Matrix<T>& matrix, const Columns<T>& left);

/// matrix = left * transposed right
template <typename T>
void expand(const Matrix<T>& matrix, const Columns<T>& left, const Columns<T>& right);

}  // namespace unisono::ddp
