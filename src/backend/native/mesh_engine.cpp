#include "backend/native/mesh_engine.hpp"

#include <utility>

#include "backend/native/operands.hpp"
#include "base/host.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "transport/meeting.hpp"

namespace unisono {
namespace {

FormOptions formOptions(const BackendParams& params, const Selector& selector) {
  return {.store = params.store,
          .rank = params.rank,
          .size = params.size,
          .group = params.options.groupName,
          .settings = selector.settings(),
          .timeout = params.options.timeout,
          .globalRanks = params.options.globalRanks};
}

/// Rank 0 makes up the name of the group, and the others read it.
std::string agreeOnCookie(const FormOptions& options) {
  Meeting meeting(options);
  if (options.rank == 0) {
    RootRecord root = meeting.aboutRoot(mesh::kVersion);
    root.cookie = randomId();
    meeting.announce(root);
    return root.cookie;
  }
  RootRecord root = meeting.awaitRoot();
  // A root that is gone may be one of an earlier group, whose successor is about to come.
  const Deadline successor = meeting.deadline().within(Meeting::kSuccessorTime);
  while (!successor.expired() && (!root.refusal.empty() || !meeting.isAlive(root))) {
    pauseFor(Milliseconds(10), {.deadline = successor, .subject = {}});
    root = meeting.awaitRoot();
  }
  if (!root.refusal.empty()) {
    meeting.blame(
        {.reason = root.reason,
         .culprits = {0},
         .text = str("rank 0 cannot form group '", options.group, "': ", printable(root.refusal))});
  }
  if (!root.socket.empty()) {
    meeting.decline(root, Reason::PEER_UNREACHABLE,
                    str("rank ", options.rank, " of group '", options.group, "' uses TCP only"));
  }
  return root.cookie;
}

/// The process that has announced itself as rank 0; empty when that is not known any more.
std::string rootOf(const FormOptions& options, const std::string& cookie) {
  const auto root = RootRecord::decode(Meeting(options).announcement());
  return root && root->cookie == cookie ? root->process : std::string();
}

mesh::MeshOptions meshOptions(const FormOptions& options, std::string cookie, Milliseconds spent) {
  const TimePoint start = systemClock().now();
  if (cookie.empty()) {
    cookie = agreeOnCookie(options);
  }
  std::string root = options.rank == 0 ? std::string() : rootOf(options, cookie);
  return {.meet = {.store = options.store,
                   .rank = options.rank,
                   .size = options.size,
                   .group = options.group,
                   .cookie = std::move(cookie),
                   .timeout = options.timeout,
                   .spent = spent + elapsedSince(start),
                   .globalRanks = options.globalRanks,
                   .root = std::move(root)},
          .settings = options.settings};
}

}  // namespace

std::shared_ptr<Engine> MeshEngine::make(const BackendParams& params, std::string cookie,
                                         Milliseconds spent) {
  auto engine = std::make_shared<MeshEngine>(params, std::move(cookie), spent);
  engine->lane.belongTo(engine);
  engine->mail_.belongTo(engine);
  if (params.rank == 0) {
    const FormOptions options = formOptions(params, engine->selector);
    Meeting(options).close();  // everybody has come
  }
  return engine;
}

MeshEngine::MeshEngine(const BackendParams& params, std::string cookie, Milliseconds spent)
    : Engine(params),
      mesh_(mesh::Mesh::form(meshOptions(formOptions(params, selector), std::move(cookie), spent))),
      courier_(*mesh_, usableCores(), describeCall),
      executor_(courier_, selector.links(), globalRanks),
      mail_(*mesh_, usableCores(), globalRanks) {}

void MeshEngine::monitoredBarrier(const MonitoredBarrierOptions& options) {
  unisono::monitoredBarrier(courier_, options);
}

std::shared_ptr<std::byte> MeshEngine::allocate(std::size_t bytes) {
  try {
    return {new std::byte[bytes](), std::default_delete<std::byte[]>()};
  } catch (const std::bad_alloc&) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("there is no memory for ", formatBytes(bytes),
                                 " of a tensor of group '", group, "'"),
                     .hint = "make it smaller, or give the process more memory",
                     .group = group});
  }
}

}  // namespace unisono
