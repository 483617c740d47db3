#include "unisono/ddp/grad_host.hpp"

#include <utility>

#include "base/check.hpp"
#include "ddp/memory.hpp"

namespace unisono {

namespace {

[[noreturn]] void refuseSparse(std::size_t index) {
  throw NotSupportedError(
      {.reason = Reason::USAGE,
       .what = str("this host has no sparse gradients, but that of parameter ", index,
                   " was said to be one"),
       .hint = "implement sparseGrad() and storeSparse(), or do not expect it to be sparse"});
}

}  // namespace

GradHost::~GradHost() = default;

SparseTensor GradHost::sparseGrad(std::size_t index) {
  refuseSparse(index);
}

void GradHost::storeSparse(std::size_t index, SparseTensor /*gradient*/) {
  refuseSparse(index);
}

void GradBuffers::checkIndex(std::size_t index) const {
  UNISONO_CHECK(index < gradients_.size(), "there is no gradient ", index, " among ",
                gradients_.size());
}

void GradBuffers::set(std::size_t index, Tensor gradient) {
  checkIndex(index);
  gradients_[index] = std::move(gradient);
}

Tensor GradBuffers::grad(std::size_t index) {
  checkIndex(index);
  return gradients_[index];
}

void GradBuffers::adopt(std::size_t index, Tensor view) {
  set(index, std::move(view));
}

void GradBuffers::store(std::size_t index, const Tensor& source) {
  if (!grad(index).defined()) {
    set(index, ddp::viewLike(source, ddp::ordinaryMemory(source.numel(), source.dtype()), 0));
  }
  ddp::copyElements(gradients_[index], source);
}

void GradBuffers::setSparse(std::size_t index, SparseTensor gradient) {
  checkIndex(index);
  sparse_[index] = std::move(gradient);
}

SparseTensor GradBuffers::sparseGrad(std::size_t index) {
  checkIndex(index);
  return sparse_[index];
}

void GradBuffers::storeSparse(std::size_t index, SparseTensor gradient) {
  setSparse(index, std::move(gradient));
}

}  // namespace unisono
