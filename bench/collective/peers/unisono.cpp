// unisono as a contestant, through its public headers.
#include "unisono/unisono.hpp"

#include <cstdio>

#include "bench/collective/member.hpp"

namespace {

using unisono::Tensor;

class UnisonoRank final : public unisono::bench::Contestant {
 public:
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

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(world_.size()); }
  unisono::Group world_ = unisono::init();
};

}  // namespace

int main() {
  try {
    UnisonoRank rank;
    return unisono::bench::serveBoard(rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
