#include "backend/native/shm_engine.hpp"

namespace unisono {
std::shared_ptr<Engine> ShmEngine::make(const BackendParams& params) {
  auto engine = std::make_shared<ShmEngine>(params);
  engine->lane.belongTo(engine);
  engine->mail_.belongTo(engine);
  return engine;
}

ShmEngine::ShmEngine(const BackendParams& params)
    : Engine(params),
      segment_(shm::Segment::form(formOptions(params))),
      arena_(
          *segment_,
          {.cores = segment_->cores(), .globalRanks = globalRanks, .describe = Executor::describe}),
      executor_(arena_, selector),
      mail_(*segment_, segment_->cores(), globalRanks) {}

void ShmEngine::monitoredBarrier(const MonitoredBarrierOptions& options) {
  unisono::monitoredBarrier(arena_, options);
}

std::shared_ptr<std::byte> ShmEngine::allocate(std::size_t bytes) {
  return arena_.registered().allocate(bytes);
}

}  // namespace unisono
