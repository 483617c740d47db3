#include "unisono/backend/fake_backend.hpp"

#include <algorithm>

#include "backend/fake/fill_outputs.hpp"
#include "base/check.hpp"

namespace unisono {
namespace {

constexpr Capabilities kCapabilities = {
    .devices = {DeviceType::CPU, DeviceType::CUDA, DeviceType::XPU, DeviceType::META},
    .coalescing = true,
    .splitting = true};

class DoneWork final : public Work {
 public:
  DoneWork(OpType type, std::uint64_t seq, TensorList outputs) : Work(type, seq) {
    setSourceRank(0);
    finish(nullptr, std::move(outputs));
  }
};

}  // namespace

FakeBackend::FakeBackend(const BackendParams& params, FakeBackendOptions options)
    : Backend(params, kCapabilities), fake_(options) {}
FakeBackend::~FakeBackend() = default;

void FakeBackend::fail(OpType type) const {
  if (fake_.errorOnCollective && !isP2POp(type)) {
    throw DistBackendError(
        {.reason = Reason::ABORTED,
         .what = "FakeProcessGroup collective operation error (error_on_collective=true)",
         .op = std::string(opName(type)),
         .group = options().groupName,
         .rank = rank(),
         .world = size()});
  }
}

WorkPtr FakeBackend::start(CollectiveArgs&& args) {
  fail(args.type);
  detail::fillOutputs(args, rank());
  if (!args.asyncOp) {
    return finishedWork();
  }
  const bool sparse = args.type == OpType::ALLREDUCE_SPARSE;
  return std::make_shared<DoneWork>(args.type, args.seq,
                                    std::move(sparse ? args.inputs : args.outputs));
}

WorkPtr FakeBackend::startCoalesced(std::vector<CollectiveArgs> batch) {
  std::uint64_t seq = 0;
  for (const CollectiveArgs& args : batch) {
    fail(args.type);
    detail::fillOutputs(args, rank());
    seq = args.seq;
  }
  return std::make_shared<DoneWork>(OpType::COALESCED, seq, TensorList());
}

void FakeBackend::monitoredBarrier(const BarrierOptions&, bool) {
  fail(OpType::BARRIER);
}

std::shared_ptr<Backend> FakeBackend::split(std::shared_ptr<Store> store,
                                            const std::vector<int>& ranks,
                                            const BackendOptions& options) {
  const auto self = std::find(ranks.begin(), ranks.end(), rank());
  if (self == ranks.end()) {
    return nullptr;
  }
  return std::make_shared<FakeBackend>(BackendParams{.store = std::move(store),
                                                     .rank = static_cast<int>(self - ranks.begin()),
                                                     .size = static_cast<int>(ranks.size()),
                                                     .options = options},
                                       fake_);
}

}  // namespace unisono
