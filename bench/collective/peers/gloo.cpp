// Gloo as a contestant, over TCP, which is all it has between processes of one host.
#include <cstdio>
#include <cstdlib>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <memory>
#include <string>
#include <vector>

#include "bench/collective/member.hpp"

namespace {

int numberFrom(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

class GlooRank final : public unisono::bench::Contestant {
 public:
  GlooRank()
      : context_(std::make_shared<gloo::rendezvous::Context>(numberFrom("RANK"),
                                                             numberFrom("WORLD_SIZE"))) {
    gloo::transport::tcp::attr address("127.0.0.1");
    gloo::rendezvous::FileStore store(std::getenv("UNISONO_COMPARE_FOLDER"));
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(address);
    context_->connectFullMesh(store, device);
  }
  bool hasThreads() const override { return true; }
  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  void allReduce(float* data, std::size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(data, count);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  }
  void broadcast(float* data, std::size_t count) override {
    gloo::BroadcastOptions options(context_);
    options.setOutput(data, count);
    options.setRoot(0);
    gloo::broadcast(options);
  }
  void allGather(const float* mine, float* all, std::size_t count) override {
    gloo::AllgatherOptions options(context_);
    options.setInput(const_cast<float*>(mine), count);
    options.setOutput(all, count * static_cast<std::size_t>(size()));
    gloo::allgather(options);
  }
  void reduceScatter(const float* all, float* part, std::size_t count) override {
    // Works in place, with the result at the front.
    const std::size_t whole = count * static_cast<std::size_t>(size());
    scratch_.assign(all, all + whole);
    gloo::ReduceScatterHalvingDoubling<float> algorithm(
        context_, {scratch_.data()}, static_cast<int>(whole),
        std::vector<int>(static_cast<std::size_t>(size()), static_cast<int>(count)));
    algorithm.run();
    std::copy(scratch_.begin(), scratch_.begin() + static_cast<std::ptrdiff_t>(count), part);
  }
  void allToAll(const float* give, float* take, std::size_t count) override {
    const std::size_t whole = count * static_cast<std::size_t>(size());
    gloo::AlltoallOptions options(context_);
    options.setInput(const_cast<float*>(give), whole);
    options.setOutput(take, whole);
    gloo::alltoall(options);
  }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void send(const float* data, std::size_t count, int to) override {
    auto buffer = context_->createUnboundBuffer(const_cast<float*>(data), count * sizeof(float));
    buffer->send(to, 1);
    buffer->waitSend();
  }
  void receive(float* data, std::size_t count, int from) override {
    auto buffer = context_->createUnboundBuffer(data, count * sizeof(float));
    buffer->recv(from, 1);
    buffer->waitRecv();
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<float> scratch_;
};

}  // namespace

int main() {
  try {
    GlooRank rank;
    return unisono::bench::serveBoard(rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
