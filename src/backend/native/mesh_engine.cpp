#include "backend/native/mesh_engine.hpp"

#include <memory>
#include <utility>

#include "backend/native/operands.hpp"
#include "base/host.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "transport/meeting.hpp"

namespace unisono {
namespace {

/// What rank 0 has announced: itself, and the name of the group that it has made up.
RootRecord awaitRoot(const FormOptions& options, Meeting& meeting) {
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
  return root;
}

/// The process that has announced itself as rank 0; empty when that is not known any more.
std::string rootOf(const FormOptions& options, const std::string& cookie) {
  const auto root = RootRecord::decode(Meeting(options).announcement());
  return root && root->cookie == cookie ? root->process : std::string();
}

/// What rank 0 brings along. With no cookie the group is new, and the others learn of it once they
/// can ask rank 0 how it is.
void addRoot(mesh::MeshOptions& all, Meeting& meeting) {
  if (!all.meet.cookie.empty()) {
    meeting.noteEarlierDecline();
  } else {
    RootRecord root = meeting.aboutRoot(mesh::kVersion);
    root.cookie = randomId();
    all.meet.cookie = root.cookie;
    all.hearsay.announce = [&meeting, root] { meeting.announce(root); };
  }
  all.hearsay.close = [&meeting] { meeting.close(); };
  all.hearsay.declined = [&meeting](const auto& hasCome) -> std::optional<AbortCause> {
    const auto decline = meeting.takeEarlyDecline(hasCome);
    return decline ? std::optional(AbortCause{.reason = decline->reason,
                                              .culprits = {static_cast<int>(decline->rank)},
                                              .reporter = 0,
                                              .text = decline->text})
                   : std::nullopt;
  };
}

/// What the others do.
void addOther(mesh::MeshOptions& all, const FormOptions& options, Meeting& meeting) {
  std::string& cookie = all.meet.cookie;
  if (cookie.empty()) {
    RootRecord root = awaitRoot(options, meeting);
    cookie = std::move(root.cookie);
    all.meet.root = std::move(root.process);
  } else {
    all.meet.root = rootOf(options, cookie);
  }
  all.hearsay.saidForRoot = [&meeting, cookie] { return meeting.whatWasSaidFor(cookie); };
}

std::unique_ptr<mesh::Mesh> formMesh(const FormOptions& options, std::string cookie,
                                     Milliseconds spent) {
  const TimePoint start = systemClock().now();
  const bool isNew = cookie.empty();
  Meeting meeting(options);
  mesh::MeshOptions all{.meet = {.store = options.store,
                                 .rank = options.rank,
                                 .size = options.size,
                                 .group = options.group,
                                 .cookie = std::move(cookie),
                                 .timeout = options.timeout,
                                 .globalRanks = options.globalRanks},
                        .settings = options.settings};
  try {
    all.addresses = mesh::Mesh::listen(options.store, meeting.deadline());
    options.rank == 0 ? addRoot(all, meeting) : addOther(all, options, meeting);
    all.meet.spent = spent + elapsedSince(start);
    return mesh::Mesh::form(all);
  } catch (...) {
    if (options.rank == 0 && isNew && !meeting.hasAnnounced()) {
      meeting.stayAway();  // the others wait for its word
    }
    throw;
  }
}

}  // namespace

std::shared_ptr<Engine> MeshEngine::make(const BackendParams& params, std::string cookie,
                                         Milliseconds spent) {
  auto engine = std::make_shared<MeshEngine>(params, std::move(cookie), spent);
  engine->lane.belongTo(engine);
  engine->mail_.belongTo(engine);
  return engine;
}

MeshEngine::MeshEngine(const BackendParams& params, std::string cookie, Milliseconds spent)
    : Engine(params),
      mesh_(formMesh(formOptions(params), std::move(cookie), spent)),
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
