// Gloo as a contestant, over TCP, which is all it has between processes of one host.
#include <cstdio>
#include <cstdlib>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>
#include <memory>
#include <string>
#include <vector>

#include "bench/collective/member.hpp"

namespace {

int numberFrom(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

using unisono::bench::bytesOf;
using unisono::bench::Element;
using unisono::bench::Reduction;

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
  std::string version() const override {
    return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) +
           "." + std::to_string(GLOO_VERSION_PATCH);
  }
  bool use(Element element, Reduction reduction) override {
    element_ = element;
    reduction_ = reduction;
    return element != Element::BFLOAT16 && reduction != Reduction::AVG;
  }
  void allReduce(void* data, std::size_t count) override {
    typed([&](auto zero) {
      gloo::AllreduceOptions options(context_);
      options.setOutput(as(data, zero), count);
      options.setReduceFunction(functionFor(zero));
      gloo::allreduce(options);
    });
  }
  void reduce(void* data, std::size_t count, int root) override {
    typed([&](auto zero) {
      gloo::ReduceOptions options(context_);
      options.setOutput(as(data, zero), count);
      options.setReduceFunction(functionFor(zero));
      options.setRoot(root);
      gloo::reduce(options);
    });
  }
  void broadcast(void* data, std::size_t count, int root) override {
    typed([&](auto zero) {
      gloo::BroadcastOptions options(context_);
      options.setOutput(as(data, zero), count);
      options.setRoot(root);
      gloo::broadcast(options);
    });
  }
  void allGather(const void* mine, void* all, std::size_t count) override {
    typed([&](auto zero) {
      gloo::AllgatherOptions options(context_);
      options.setInput(as(mine, zero), count);
      options.setOutput(as(all, zero), count * ranks());
      gloo::allgather(options);
    });
  }
  void gather(const void* mine, void* all, std::size_t count, int root) override {
    typed([&](auto zero) {
      gloo::GatherOptions options(context_);
      options.setInput(as(mine, zero), count);
      if (rank() == root) {
        options.setOutput(as(all, zero), count * ranks());
      }
      options.setRoot(root);
      gloo::gather(options);
    });
  }
  void scatter(const void* all, void* part, std::size_t count, int root) override {
    typed([&](auto zero) {
      gloo::ScatterOptions options(context_);
      if (rank() == root) {
        std::vector<decltype(zero)*> parts;
        for (std::size_t i = 0; i < ranks(); ++i) {
          parts.push_back(as(all, zero) + i * count);
        }
        options.setInputs(parts, count);
      }
      options.setOutput(as(part, zero), count);
      options.setRoot(root);
      gloo::scatter(options);
    });
  }
  void reduceScatter(const void* all, void* part, std::size_t count) override {
    // Works in place, with the result at the front.
    const std::size_t whole = count * ranks();
    const auto* const from = static_cast<const std::byte*>(all);
    scratch_.assign(from, from + whole * bytesOf(element_));
    typed([&](auto zero) {
      gloo::ReduceScatterHalvingDoubling<decltype(zero)> algorithm(
          context_, {as(scratch_.data(), zero)}, static_cast<int>(whole),
          std::vector<int>(ranks(), static_cast<int>(count)), objectFor(zero));
      algorithm.run();
    });
    std::memcpy(part, scratch_.data(), count * bytesOf(element_));
  }
  void allToAll(const void* give, void* take, std::size_t count) override {
    typed([&](auto zero) {
      gloo::AlltoallOptions options(context_);
      options.setInput(as(give, zero), count * ranks());
      options.setOutput(as(take, zero), count * ranks());
      gloo::alltoall(options);
    });
  }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void send(const void* data, std::size_t count, int to) override {
    auto buffer = context_->createUnboundBuffer(const_cast<void*>(data), count * bytesOf(element_));
    buffer->send(to, 1);
    buffer->waitSend();
  }
  void receive(void* data, std::size_t count, int from) override {
    auto buffer = context_->createUnboundBuffer(data, count * bytesOf(element_));
    buffer->recv(from, 1);
    buffer->waitRecv();
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  /// Calls `body` with a zero of the type that is used.
  template <typename Body>
  void typed(Body body) {
    switch (element_) {
      case Element::FLOAT32:
        return body(float{});
      case Element::FLOAT64:
        return body(double{});
      case Element::FLOAT16:
        return body(gloo::float16{});
      case Element::INT32:
        return body(std::int32_t{});
      case Element::INT64:
        return body(std::int64_t{});
      case Element::BFLOAT16:
        break;  // use() has said so
    }
  }
  template <typename T>
  static T* as(const void* data, T /*zero*/) {
    return static_cast<T*>(const_cast<void*>(data));
  }
  /// The two shapes in which Gloo's interfaces want to have a reduction.
  template <typename T>
  auto functionFor(T /*zero*/) const {
    using Function = void (*)(void*, const void*, const void*, std::size_t);
    switch (reduction_) {
      case Reduction::PROD:
        return static_cast<Function>(&gloo::product<T>);
      case Reduction::MIN:
        return static_cast<Function>(&gloo::min<T>);
      case Reduction::MAX:
        return static_cast<Function>(&gloo::max<T>);
      default:
        return static_cast<Function>(&gloo::sum<T>);
    }
  }
  template <typename T>
  const gloo::ReductionFunction<T>* objectFor(T /*zero*/) const {
    switch (reduction_) {
      case Reduction::PROD:
        return gloo::ReductionFunction<T>::product;
      case Reduction::MIN:
        return gloo::ReductionFunction<T>::min;
      case Reduction::MAX:
        return gloo::ReductionFunction<T>::max;
      default:
        return gloo::ReductionFunction<T>::sum;
    }
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<std::byte> scratch_;
  Element element_ = Element::FLOAT32;
  Reduction reduction_ = Reduction::SUM;
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
