#include "transport/shm/formation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/futex.hpp"
#include "base/host.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/wait.hpp"
#include "life/blame.hpp"
#include "transport/shm/root_host.hpp"

namespace unisono::shm {
namespace {

constexpr std::string_view kRootKey = "unisono/root";
constexpr std::string_view kDeclineKey = "unisono/decline/";  // and the cookie
// A root that is gone may be one of an earlier group, whose successor is about to come.
constexpr Milliseconds kSuccessorTime(1000);
// How often those who wait look whether a process dumps core, and rank 0 whether the store lives.
constexpr Milliseconds kProcessLook(50);
constexpr Milliseconds kStoreLook(200);

/// The largest slots for which there is room. The ring is made when it is first needed; then it
/// may still be refused.
std::size_t chunkThatFits(std::size_t ranks, const std::string& group) {
  const std::size_t usual = usualChunk(ranks);
  const std::uint64_t left = SharedMemory::room();
  std::size_t chunk = usual;
  while (ringBytes(ranks, chunk) > left && chunk / 2 >= kLeastChunk) {
    chunk = chunk / 2 / 1024 * 1024;
  }
  if (chunk < usual) {
    UNISONO_LOG(
        WARN, "transport", "group '", group, "' gets ", formatBytes(ringBytes(ranks, chunk)),
        " of shared memory for long operations instead of ", formatBytes(ringBytes(ranks, usual)),
        ": ", formatBytes(left), " are left to this process");
  }
  return chunk;
}

std::string textOf(const Bytes& bytes) {
  return std::string(asText(bytes));
}

}  // namespace

Formation::Formation(const FormOptions& options)
    : options_(options),
      deadline_(Deadline::after(options.timeout)),
      start_(systemClock().now()),
      here_(thisProcess()),
      nextLook_(Deadline::after(kProcessLook)),
      nextStoreLook_(Deadline::after(kStoreLook)) {}

ErrorFacts Formation::facts() const {
  return {.reason = Reason::TIMEOUT,
          .op = "init",
          .group = options_.group,
          .rank = options_.rank,
          .world = options_.size,
          .elapsed = elapsedSince(start_)};
}

std::unique_ptr<Segment> Formation::run() {
  if (!lifeWordsWork()) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = "this system does not tell of the death of processes: robust futexes "
                             "are missing",
                     .hint = "use a kernel with CONFIG_FUTEX"});
  }
  const bool isRoot = options_.rank == 0;
  const std::shared_ptr<SharedMapping> mapping = isRoot ? found() : join();
  std::unique_ptr<Segment> segment;  // outside: it leaves after the others were told why
  try {
    Monitor::Offer offer = isRoot ? serve(mapping) : Monitor::Offer();
    segment.reset(new Segment(options_, mapping, std::move(offer)));
    goLive(*segment);
    if (isRoot) {
      announce();
    }
    awaitAll(*segment);
  } catch (...) {
    giveUp(mapping->header());
    throw;
  }
  // Another process may have written anything there.
  segment->cores_ = static_cast<int>(std::clamp<std::uint32_t>(
      segment->header().cores, 1, static_cast<std::uint32_t>(CpuShare::kMostCores)));
  return segment;
}

std::shared_ptr<SharedMapping> Formation::found() {
  try {
    return makeMemory();
  } catch (const DistError& error) {
    refuseAll(error);
    throw;
  }
}

/// Tells those who look for rank 0 that there will be no group.
void Formation::refuseAll(const DistError& error) noexcept {
  try {
    root_ = {.version = kVersion,
             .size = static_cast<std::uint32_t>(options_.size),
             .host = hostId(),
             .process = encodeMark(here_),
             .socket = "",
             .cookie = "",
             .reason = error.reason(),
             .refusal = error.facts().what};
    announce();
  } catch (const std::exception& second) {
    UNISONO_LOG(INFO, "transport", "the ranks of group '", options_.group,
                "' cannot be told that there is none: ", second.what());
  }
}

std::shared_ptr<SharedMapping> Formation::makeMemory() {
  const Layout layout{static_cast<std::size_t>(options_.size)};
  SharedMemory memory = SharedMemory::create(layout.bytes(), str("group '", options_.group, "'"));
  root_ = {.version = kVersion,
           .size = static_cast<std::uint32_t>(options_.size),
           .host = hostId(),
           .process = encodeMark(here_),
           .socket = Monitor::instance().socketName(),
           .cookie = randomId()};
  auto* header = new (memory.bytes().data()) Header;  // over zeroed bytes: all words are 0
  std::memcpy(header->magic, kMagic, sizeof kMagic);
  header->version = kVersion;
  header->ranks = root_.size;
  header->bytes = layout.bytes();
  std::memcpy(header->cookie, root_.cookie.data(), sizeof header->cookie);
  header->ringChunk = static_cast<std::uint32_t>(chunkThatFits(layout.ranks, options_.group));
  auto* blocks = reinterpret_cast<RankBlock*>(memory.bytes().data() + layout.blocks());
  for (std::size_t i = 0; i < layout.ranks; ++i) {
    blocks[i].life.prepare();
  }
  blocks[0].identity.pid = here_.pid;
  blocks[0].identity.startTicks = here_.startTicks;
  blocks[0].identity.pidNamespace = here_.pidNamespace;
  return SharedMapping::share(
      std::make_shared<SharedMapping>(root_.cookie, root_.socket, std::move(memory)));
}

Monitor::Offer Formation::serve(const std::shared_ptr<SharedMapping>& mapping) {
  auto host = std::make_shared<RootHost>(mapping, root_, options_.settings);
  return Monitor::instance().offer(root_.cookie, [host](std::string_view request, pid_t /*from*/) {
    return host->answer(request);
  });
}

void Formation::announce() {
  const std::string record = root_.encode();
  std::string before;  // what we believe to be there: nothing
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::string there =
        textOf(options_.store->compareSet(std::string(kRootKey), asBytes(before), asBytes(record)));
    if (there == record) {
      return;
    }
    const auto other = RootRecord::decode(there);
    const auto process = other ? decodeMark(other->process) : std::nullopt;
    if (process && other->refusal.empty() && lifeOf(*process, here_) != Life::GONE) {
      ErrorFacts known = facts();
      known.reason = Reason::CONFIG;
      known.what =
          str("rank 0 of group '", options_.group, "' is claimed twice: by process ", process->pid,
              " on ", process->host, " and by process ", here_.pid, " on ", here_.host);
      known.hint = "give every process its own rank, and every group its own name or store prefix";
      throw DistBackendError(std::move(known));
    }
    before = there;  // left by a group that died, or never was
  }
}

std::shared_ptr<SharedMapping> Formation::join() {
  std::optional<Deadline> successor;
  // A refusal that was there when this rank came may be one of an earlier group.
  const Deadline another = deadline_.within(kSuccessorTime);
  for (;;) {
    root_ = awaitRoot();
    if (auto mapping = root_.refusal.empty() ? joinRoot() : nullptr) {
      return mapping;
    }
    if (!root_.refusal.empty() && another.expired()) {
      blame({.reason = root_.reason,
             .culprits = {0},
             .text = str("rank 0 cannot form group '", options_.group,
                         "': ", printable(root_.refusal))});
    }
    successor = successor ? successor : deadline_.within(kSuccessorTime);
    if (root_.refusal.empty() && successor->expired()) {
      const auto process = decodeMark(root_.process);
      // Alive, but with no group to join: it has failed, and has thrown why.
      const bool gaveUp = process && lifeOf(*process, here_) == Life::ALIVE && isAlive(root_);
      const AbortCause cause{
          .reason = gaveUp ? Reason::PEER_LEFT : Reason::PEER_DEAD,
          .culprits = {0},
          .text = str("rank 0 (process ", process ? process->pid : -1,
                      gaveUp ? ") has given up forming group '" : ") died while group '",
                      options_.group, gaveUp ? "': its error says why" : "' was formed")};
      blame(cause);
    }
    pauseFor(Milliseconds(10), {.deadline = deadline_, .subject = {}});
  }
}

/// Rank 0's memory; none when its process cannot be reached. What this rank throws, rank 0 learns.
std::shared_ptr<SharedMapping> Formation::joinRoot() {
  try {
    checkHost(root_);
    return ask(root_);
  } catch (const DistError& error) {
    decline(error.reason(), error.facts().what);
    throw;
  } catch (...) {
    decline(Reason::ABORTED,
            str("rank ", options_.rank, " has left while group '", options_.group, "' was formed"));
    throw;
  }
}

void Formation::decline(Reason reason, const std::string& text) noexcept {
  if (refused_) {
    return;  // rank 0 knows
  }
  try {
    const Decline mine{
        .rank = static_cast<std::uint32_t>(options_.rank), .reason = reason, .text = text};
    options_.store->set(str(kDeclineKey, root_.cookie), asBytes(mine.encode()));
  } catch (const std::exception& second) {
    UNISONO_LOG(INFO, "transport", "rank 0 of group '", options_.group,
                "' cannot be told that rank ", options_.rank, " does not come: ", second.what());
  }
}

RootRecord Formation::awaitRoot() {
  try {
    options_.store->wait({std::string(kRootKey)}, deadline_.remaining());
    if (auto record = RootRecord::decode(textOf(options_.store->get(std::string(kRootKey))))) {
      return *record;
    }
  } catch (const DistStoreError& error) {
    if (error.reason() != Reason::TIMEOUT) {
      throw;
    }
    blame({.reason = Reason::TIMEOUT,
           .culprits = {0},
           .text = str("group '", options_.group, "' was not formed in ",
                       formatDuration(options_.timeout), ": rank 0 has not come")});
  }
  throw DistBackendError({.reason = Reason::PROTOCOL,
                          .what = str("what rank 0 left in the store for group '", options_.group,
                                      "' is not understood"),
                          .hint = "all ranks must run the same version of unisono"});
}

void Formation::checkHost(const RootRecord& root) const {
  if (root.host != hostId()) {
    ErrorFacts known = facts();
    known.reason = Reason::CONFIG;
    known.what = str("group '", options_.group, "' spans several hosts: rank 0 is on '", root.host,
                     "', rank ", options_.rank, " on '", hostId(), "'");
    known.hint = "this version connects ranks of one host only";
    throw DistBackendError(std::move(known));
  }
}

/// Whether its process may still do something.
bool Formation::isAlive(const RootRecord& root) const {
  const auto process = decodeMark(root.process);
  return process && lifeOf(*process, here_) != Life::GONE &&
         !(process->pidNamespace == here_.pidNamespace && isDumpingCore(process->pid));
}

/// The memory of `root`; none when its process cannot be reached.
std::shared_ptr<SharedMapping> Formation::ask(const RootRecord& root) {
  const JoinRequest request{.version = kVersion,
                            .size = static_cast<std::uint32_t>(options_.size),
                            .rank = static_cast<std::uint32_t>(options_.rank),
                            .settings = options_.settings,
                            .process = encodeMark(here_)};
  Result<LocalMessage> reply = askMonitor(root.socket, root.cookie, str("J", request.encode()),
                                          deadline_, [&] { return !isAlive(root); });
  if (!reply.isOk() && reply.failure().reason() == Reason::RESOURCE) {
    ErrorFacts lacking = facts();
    lacking.reason = Reason::RESOURCE;
    lacking.what = str("rank ", options_.rank, " cannot join group '", options_.group,
                       "': ", reply.failure().text());
    lacking.hint = "raise the limit of open descriptors (ulimit -n)";
    throw DistBackendError(std::move(lacking));
  }
  if (!reply.isOk()) {
    return nullptr;
  }
  LocalMessage& answer = reply.value();
  if (answer.bytes.starts_with('M')) {
    if (auto mapping = SharedMapping::find(root.cookie)) {
      return mapping;
    }
    return SharedMapping::share(SharedMapping::adopt(std::move(answer), request.size, root.cookie,
                                                     root.socket,
                                                     str("group '", options_.group, "'")));
  }
  refused_ = true;
  ErrorFacts known = facts();
  known.reason = Reason::CONFIG;
  known.what = str("group '", options_.group, "' refuses rank ", options_.rank, ": ",
                   answer.bytes.empty() ? "" : printable(std::string_view(answer.bytes).substr(1)));
  known.hint = "give every process its own rank, the same size, version and settings";
  throw DistBackendError(std::move(known));
}

void Formation::goLive(Segment& segment) {
  RankBlock& mine = segment.block(options_.rank);
  mine.cpus = cpuShare();
  Monitor::instance().hold(mine.life);
  // Release: who sees this rank live also sees that its life word is held, and what it may use.
  mine.identity.state.store(static_cast<std::uint32_t>(RankState::LIVE), std::memory_order_release);
  futexWakeAll(segment.header().formed);
}

/// Sleeps on the word that every newcomer and the last one wake.
class FormedWaitable final : public Waitable {
 public:
  explicit FormedWaitable(const std::atomic<std::uint32_t>& word) : word_(word) {}
  void sleep(Milliseconds most) override { futexWait(word_, 0, std::min(most, Milliseconds(5))); }

 private:
  const std::atomic<std::uint32_t>& word_;
};

void Formation::awaitAll(Segment& segment) {
  std::atomic<std::uint32_t>& formed = segment.header().formed;
  FormedWaitable on(formed);
  const auto ready = [&] {
    const std::optional<AbortCause> trouble = findTrouble(segment);
    // Looked at last: others may have begun to work, and failed, before this rank looks. Its own
    // first operation tells it of that.
    if (formed.load(std::memory_order_acquire) == 1) {
      return true;
    }
    if (trouble) {
      fail(segment, *trouble);
    }
    if (options_.rank != 0) {
      return false;
    }
    checkStore(segment);
    return missingRanks(segment).empty();
  };
  const WaitContext context{.deadline = deadline_, .subject = [&] {
                              return str(inWords(missingRanks(segment)), " to join group '",
                                         options_.group, "'");
                            }};
  if (!waitUntil(ready, context, on)) {
    const std::vector<int> missing = missingRanks(segment);
    fail(segment, {.reason = Reason::TIMEOUT,
                   .culprits = missing,
                   .reporter = options_.rank,
                   .text = str("group '", options_.group, "' was not formed in ",
                               formatDuration(options_.timeout), ": ",
                               static_cast<std::size_t>(options_.size) - missing.size(), " of ",
                               options_.size, " ranks have come, not ", inWords(missing))});
  }
  if (options_.rank == 0) {
    // Before the others go on: their next group may use the same key.
    options_.store->deleteKey(std::string(kRootKey));
    segment.header().cores = static_cast<std::uint32_t>(sharedCores(segment));
    // Release: who sees that the group is formed also sees how many cores it has.
    formed.store(1, std::memory_order_release);
    futexWakeAll(formed);
  }
}

/// One number for all: algorithms are chosen by it, and must be the same everywhere.
int Formation::sharedCores(const Segment& segment) const {
  CpuShare all = segment.block(0).cpus;
  for (int rank = 1; rank < options_.size; ++rank) {
    all.join(segment.block(rank).cpus);
  }
  return all.count();
}

/// Between joining and holding its life word a rank is known by its process only.
bool Formation::hasDied(const RankBlock& block) const {
  const Identity& identity = block.identity;
  const auto state = static_cast<RankState>(identity.state.load(std::memory_order_acquire));
  if (state != RankState::JOINING) {
    return block.life.ownerDied();
  }
  ProcessMark process = here_;
  process.pid = identity.pid;
  process.startTicks = identity.startTicks;
  process.pidNamespace = identity.pidNamespace;
  return lifeOf(process, here_) == Life::GONE;
}

/// What ends the formation, if anything does: somebody else did, or a member has died.
std::optional<AbortCause> Formation::findTrouble(Segment& segment) {
  if (auto cause = segment.cause()) {
    return cause;
  }
  const bool look = nextLook_.expired();
  nextLook_ = look ? Deadline::after(kProcessLook) : nextLook_;
  for (int rank = 0; rank < options_.size; ++rank) {
    const bool left = segment.block(rank).identity.state.load(std::memory_order_acquire) ==
                      static_cast<std::uint32_t>(RankState::LEFT);
    if (left || hasDied(segment.block(rank)) || (look && segment.isDumpingCore(rank))) {
      return AbortCause{.reason = left ? Reason::PEER_LEFT : Reason::PEER_DEAD,
                        .culprits = {rank},
                        .reporter = options_.rank,
                        .text = str(inWords({rank}), " (process ", segment.block(rank).identity.pid,
                                    left ? ") left" : ") died", " while group '", options_.group,
                                    "' was formed")};
    }
  }
  return std::nullopt;
}

/// The others find rank 0 in the store: without one nobody else will come. And who cannot join says
/// so there.
void Formation::checkStore(Segment& segment) {
  if (!nextStoreLook_.expired()) {
    return;
  }
  try {
    options_.store->wait({std::string(kRootKey)}, deadline_.within(kStoreLook).remaining());
    checkDeclines(segment);
  } catch (const DistError& error) {
    if (error.reason() == Reason::STORE_LOST) {
      static_cast<void>(segment.header().abort.publish({.reason = Reason::STORE_LOST,
                                                        .culprits = {},
                                                        .reporter = options_.rank,
                                                        .text = error.facts().what}));
      futexWakeAll(segment.header().formed);
      throw;
    }
  }
  nextStoreLook_ = Deadline::after(kStoreLook);
}

void Formation::checkDeclines(Segment& segment) {
  const std::string key = str(kDeclineKey, root_.cookie);
  if (!options_.store->check({key})) {
    return;
  }
  const auto decline = Decline::decode(textOf(options_.store->get(key)));
  options_.store->deleteKey(key);
  if (decline && decline->rank < root_.size) {
    fail(segment, {.reason = decline->reason,
                   .culprits = {static_cast<int>(decline->rank)},
                   .reporter = options_.rank,
                   .text = printable(decline->text)});
  }
}

/// Ends the formation for all, with the exception that this rank leaves it by.
void Formation::giveUp(Header& header) const noexcept {
  AbortCause cause;
  cause.reporter = options_.rank;
  try {
    try {
      cause.culprits = {options_.rank};
      cause.text =
          str(inWords({options_.rank}), " has left while group '", options_.group, "' was formed");
      throw;
    } catch (const DistError& error) {
      cause.reason = error.reason();
      cause.text = error.facts().what;
    }
  } catch (...) {  // an interrupt; or there is no memory for the words
  }
  static_cast<void>(header.abort.publish(cause));
  futexWakeAll(header.formed);
}

/// Ends the formation for all.
void Formation::fail(Segment& segment, const AbortCause& cause) {
  static_cast<void>(segment.header().abort.publish(cause));
  futexWakeAll(segment.header().formed);
  blame(cause);
}

void Formation::blame(const AbortCause& cause) const {
  throwCause(cause, facts(), inWorld(cause.culprits, options_.globalRanks));
}

/// Those who are not live yet.
std::vector<int> Formation::missingRanks(const Segment& segment) const {
  std::vector<int> missing;
  for (int rank = 0; rank < options_.size; ++rank) {
    const auto state =
        static_cast<RankState>(segment.block(rank).identity.state.load(std::memory_order_acquire));
    if (state == RankState::EMPTY || state == RankState::JOINING) {
      missing.push_back(rank);
    }
  }
  return missing;
}

/// "ranks 2, 5".
std::string Formation::inWords(const std::vector<int>& ranks) const {
  std::vector<std::string> names;
  for (const int rank : inWorld(ranks, options_.globalRanks)) {
    names.push_back(str(rank));
  }
  return str(names.size() == 1 ? "rank " : "ranks ", unisono::join(names, ", "));
}

}  // namespace unisono::shm
