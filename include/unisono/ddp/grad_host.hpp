// GradHost: who computes gradients, as the Reducer sees it.
//
// A Reducer knows nothing of how gradients come about. It asks its host where they are, and tells
// it where to put them; a host is an adapter to a framework, or GradBuffers for a program that has
// its gradients in memory of its own.
//
// Thread safety: calls about different gradients may come from several threads at once; the Reducer
// makes calls about one gradient one after the other.
#pragma once

#include <cstddef>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/tensor/sparse.hpp"
#include "unisono/tensor/tensor.hpp"

namespace unisono {

class UNISONO_API GradHost {
 public:
  virtual ~GradHost();

  /// Gradient `index`, or an undefined tensor when there is none now. It has the type and the sizes
  /// of its parameter.
  virtual Tensor grad(std::size_t index) = 0;
  /// From now on gradient `index` is `view`, which holds its value already.
  virtual void adopt(std::size_t index, Tensor view) = 0;
  /// The elements of `source` become those of gradient `index`, which is made if there is none.
  virtual void store(std::size_t index, const Tensor& source) = 0;

  /// The same for parameters whose gradients were said to be sparse, which are never adopted. Hosts
  /// without such gradients throw NotSupportedError, as here.
  virtual SparseTensor sparseGrad(std::size_t index);
  virtual void storeSparse(std::size_t index, SparseTensor gradient);
};

/// Gradients that are views of memory, one for each parameter; at first there are none.
class UNISONO_API GradBuffers final : public GradHost {
 public:
  explicit GradBuffers(std::size_t count) : gradients_(count), sparse_(count) {}

  /// From now on gradient `index` is `gradient`; an undefined tensor for none.
  void set(std::size_t index, Tensor gradient);
  void setSparse(std::size_t index, SparseTensor gradient);
  std::size_t size() const noexcept { return gradients_.size(); }

  Tensor grad(std::size_t index) override;
  void adopt(std::size_t index, Tensor view) override;
  void store(std::size_t index, const Tensor& source) override;
  SparseTensor sparseGrad(std::size_t index) override;
  void storeSparse(std::size_t index, SparseTensor gradient) override;

 private:
  void checkIndex(std::size_t index) const;

  std::vector<Tensor> gradients_;
  std::vector<SparseTensor> sparse_;
};

}  // namespace unisono
