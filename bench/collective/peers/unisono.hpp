// unisono as a contestant, through its public headers.
#pragma once

#include <utility>
#include <vector>

#include "unisono/unisono.hpp"

#include "bench/collective/member.hpp"

namespace unisono::bench {

inline DType typeOf(Element element) {
  switch (element) {
    case Element::FLOAT32:
      return DType::FLOAT32;
    case Element::FLOAT64:
      return DType::FLOAT64;
    case Element::FLOAT16:
      return DType::FLOAT16;
    case Element::BFLOAT16:
      return DType::BFLOAT16;
    case Element::INT32:
      return DType::INT32;
    case Element::INT64:
      return DType::INT64;
  }
  return DType::FLOAT32;
}

inline ReduceOp operationOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::SUM:
      return ReduceOp::SUM;
    case Reduction::PROD:
      return ReduceOp::PRODUCT;
    case Reduction::MIN:
      return ReduceOp::MIN;
    case Reduction::MAX:
      return ReduceOp::MAX;
    case Reduction::AVG:
      return ReduceOp::AVG;
  }
  return ReduceOp::SUM;
}

class UnisonoRank final : public Contestant {
 public:
  /// `registered`: vectors lie in memory that unisono has allocated. `apart`: see isApart().
  explicit UnisonoRank(Group world, bool registered = false, bool apart = false)
      : registered_(registered), apart_(apart), world_(std::move(world)) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  std::string version() const override { return "unisono " UNISONO_VERSION_STRING; }
  bool isApart() const override { return apart_; }
  bool use(Element element, Reduction reduction) override {
    type_ = typeOf(element);
    how_.op = operationOf(reduction);
    return true;
  }
  void allReduce(void* data, std::size_t count) override {
    with(data, count, [this](const auto& values) { world_.allReduce(values, how_); });
  }
  void reduce(void* data, std::size_t count, int root) override {
    with(data, count,
         [&](const auto& values) { world_.reduce(values, {.op = how_.op, .root = root}); });
  }
  void broadcast(void* data, std::size_t count, int root) override {
    with(data, count, [&](const auto& values) { world_.broadcast(values, {.root = root}); });
  }
  void allGather(const void* mine, void* all, std::size_t count) override {
    with(mine, count, all, count * ranks(),
         [this](const auto& in, const auto& out) { world_.allGather(in, out); });
  }
  void gather(const void* mine, void* all, std::size_t count, int root) override {
    with(mine, count,
         [&](const auto& in) { world_.gather(in, parts(all, count, root), {.root = root}); });
  }
  void scatter(const void* all, void* part, std::size_t count, int root) override {
    with(part, count,
         [&](const auto& out) { world_.scatter(parts(all, count, root), out, {.root = root}); });
  }
  void reduceScatter(const void* all, void* part, std::size_t count) override {
    with(all, count * ranks(), part, count,
         [this](const auto& in, const auto& out) { world_.reduceScatter(in, out, how_); });
  }
  void allToAll(const void* give, void* take, std::size_t count) override {
    with(give, count * ranks(), take, count * ranks(),
         [this](const auto& in, const auto& out) { world_.allToAll(in, out); });
  }
  void barrier() override { world_.barrier(); }
  void send(const void* data, std::size_t count, int to) override {
    with(data, count, [&](const auto& values) { world_.send(values, to); });
  }
  void receive(void* data, std::size_t count, int from) override {
    with(data, count, [&](const auto& values) { world_.recv(values, from); });
  }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    if (!registered_) {
      return Contestant::allocate(bytes);
    }
    const auto tensor =
        std::make_shared<Tensor>(world_.allocate(static_cast<std::int64_t>(bytes), DType::UINT8));
    return {tensor, tensor->dataAs<std::byte>()};
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(world_.size()); }
  static std::span<float> floats(const void* data, std::size_t count) {
    return {static_cast<float*>(const_cast<void*>(data)), count};
  }
  Tensor tensor(const void* data, std::size_t count) const {
    return {const_cast<void*>(data), type_, Dims{static_cast<std::int64_t>(count)}};
  }
  /// Floats as programs usually have them, the others as tensors.
  template <typename Call>
  void with(const void* data, std::size_t count, Call call) const {
    type_ == DType::FLOAT32 ? call(floats(data, count)) : call(tensor(data, count));
  }
  template <typename Call>
  void with(const void* in, std::size_t inCount, const void* out, std::size_t outCount,
            Call call) const {
    type_ == DType::FLOAT32 ? call(floats(in, inCount), floats(out, outCount))
                            : call(tensor(in, inCount), tensor(out, outCount));
  }
  /// Of the root; the others have none.
  std::vector<Tensor> parts(const void* all, std::size_t count, int root) const {
    std::vector<Tensor> list;
    for (std::size_t i = 0; rank() == root && i < ranks(); ++i) {
      list.push_back(
          tensor(static_cast<const std::byte*>(all) + i * count * elementSize(type_), count));
    }
    return list;
  }

  const bool registered_;
  const bool apart_;
  CallOptions how_;
  DType type_ = DType::FLOAT32;
  Group world_;
};

}  // namespace unisono::bench
