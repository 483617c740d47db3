// SampleCalls: tensors to fill CollectiveArgs with, and a CollectiveApi that keeps what it is
// given.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "unisono/work/collective_api.hpp"

namespace unisono::test {

/// Submits nothing: `last` is what the typed method made of the call.
class Recording : public CollectiveApi<Recording> {
 public:
  CollectiveArgs last;
  WorkPtr submit(CollectiveArgs&& args) {
    last = std::move(args);
    return finishedWork();
  }
};

/// Makes tensors, each with memory of its own.
class TensorMaker {
 public:
  Tensor operator()(Dims sizes, DType type = DType::FLOAT32, Device device = {}) {
    std::size_t bytes = elementSize(type);
    for (const std::int64_t size : sizes) {
      bytes *= static_cast<std::size_t>(size);
    }
    // One more: even a tensor without elements has an address of its own.
    memory_.emplace_back(bytes + 1);
    return {memory_.back().data(), type, std::move(sizes), device};
  }
  std::vector<Tensor> many(std::size_t count, Dims sizes, DType type = DType::FLOAT32) {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < count; ++i) {
      tensors.push_back((*this)(sizes, type));
    }
    return tensors;
  }

 private:
  std::deque<std::vector<std::byte>> memory_;
};

}  // namespace unisono::test
