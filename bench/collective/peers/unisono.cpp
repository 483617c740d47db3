// unisono as a contestant, through its public headers.
#include "unisono/unisono.hpp"

#include <cstdio>

#include "bench/collective/member.hpp"

namespace {

using unisono::Tensor;

class UnisonoRank final : public unisono::bench::Contestant {
 public:
  explicit UnisonoRank(bool registered) : registered_(registered) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  void allReduce(float* data, std::size_t count) override {
    world_.allReduce(std::span(data, count));
  }
  void broadcast(float* data, std::size_t count) override {
    world_.broadcast(std::span(data, count));
  }
  void allGather(const float* mine, float* all, std::size_t count) override {
    world_.allGather(std::span(mine, count), std::span(all, count * ranks()));
  }
  void reduceScatter(const float* all, float* part, std::size_t count) override {
    world_.reduceScatter(std::span(all, count * ranks()), std::span(part, count));
  }
  void allToAll(const float* give, float* take, std::size_t count) override {
    world_.allToAll(std::span(give, count * ranks()), std::span(take, count * ranks()));
  }
  void barrier() override { world_.barrier(); }
  void send(const float* data, std::size_t count, int to) override {
    world_.send(std::span(data, count), to);
  }
  void receive(float* data, std::size_t count, int from) override {
    world_.recv(std::span(data, count), from);
  }
  std::shared_ptr<float> allocate(std::size_t count) override {
    if (!registered_) {
      return Contestant::allocate(count);
    }
    const auto tensor = std::make_shared<Tensor>(world_.allocate(static_cast<std::int64_t>(count)));
    return {tensor, tensor->dataAs<float>()};
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(world_.size()); }
  const bool registered_;
  unisono::Group world_ = unisono::init();
};

}  // namespace

/// With a word behind it, vectors lie in memory that unisono has allocated.
int main(int argc, char** /*argv*/) {
  try {
    UnisonoRank rank(argc > 1);
    return unisono::bench::serveBoard(rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
