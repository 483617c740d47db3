#include "explore/stand_ins.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/process.hpp"
#include "base/shared_memory.hpp"
#include "base/str.hpp"
#include "base/thread.hpp"
#include "base/wait_policy.hpp"
#include "explore/machine.hpp"
#include "explore/pool.hpp"
#include "life/monitor.hpp"

namespace unisono {
namespace explore {
namespace {

std::size_t poolTaken = 0;
std::vector<int> descriptors;
std::map<std::size_t, std::span<std::byte>> memories;  // the last one of each size

/// Something valid: the code under test only hands it on.
UniqueFd anyDescriptor() {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  descriptors.push_back(fd);
  return UniqueFd(fd);
}

/// Who answers requests with a cookie, and whose rank's monitor that is.
std::map<std::string, std::pair<Monitor::Handler, int>> handlers;

/// The processes of the ranks; outside a run there is only one.
pid_t pidOf(int rank) noexcept {
  return 1000 + rank;
}
pid_t currentPid() noexcept {
  Machine* machine = Machine::running();
  return pidOf(machine == nullptr ? 0 : machine->rank());
}

/// A moment of a run that is no access to memory: a message, a system call.
void pointOfCall() {
  static std::uint64_t nowhere = 0;
  if (Machine* machine = Machine::running()) {
    static_cast<void>(machine->point({&nowhere, sizeof nowhere, Access::LOAD, true}));
  }
}

}  // namespace

std::byte* Pool::base = static_cast<std::byte*>(::mmap(
    nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));

std::span<std::byte> Pool::take(std::size_t bytes) {
  const std::span<std::byte> taken(base + poolTaken, bytes);
  poolTaken += (bytes + 4095) / 4096 * 4096;
  if (poolTaken > kBytes) {
    throw std::bad_alloc();
  }
  std::memset(taken.data(), 0, bytes);
  return taken;
}
std::size_t Pool::taken() noexcept {
  return poolTaken;
}
void Pool::giveBack(std::size_t taken) noexcept {
  poolTaken = taken;
}

void closeLeftovers() {
  handlers.clear();
  for (const int fd : std::exchange(descriptors, {})) {
    ::close(fd);
  }
}

// --- FiberStore ---

void FiberStore::step() {
  pointOfCall();
  if (changes_ == nullptr) {
    changes_ = reinterpret_cast<std::uint32_t*>(Pool::take(64).data());
  }
}

void FiberStore::set(std::string_view key, BytesView value) {
  step();
  values_[std::string(key)] = Bytes(value.begin(), value.end());
  ++*changes_;
  Machine::running()->wake(changes_);
}

Bytes FiberStore::get(std::string_view key) {
  wait({std::string(key)}, timeout());
  return values_.find(key)->second;
}

Bytes FiberStore::compareSet(std::string_view key, BytesView expected, BytesView desired) {
  step();
  const auto found = values_.find(key);
  const bool same = found == values_.end() ? expected.empty()
                                           : std::equal(expected.begin(), expected.end(),
                                                        found->second.begin(), found->second.end());
  if (!same) {
    return found == values_.end() ? Bytes(expected.begin(), expected.end()) : found->second;
  }
  set(key, desired);
  return {desired.begin(), desired.end()};
}

std::int64_t FiberStore::add(std::string_view /*key*/, std::int64_t /*delta*/) {
  throw UsageError({.what = "not needed"});
}

bool FiberStore::deleteKey(std::string_view key) {
  step();
  return values_.erase(std::string(key)) > 0;
}

bool FiberStore::check(std::span<const std::string> keys) {
  return std::all_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return values_.contains(key); });
}

void FiberStore::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  step();
  const Deadline deadline = Deadline::after(timeout);
  while (!check(keys)) {
    if (deadline.expired()) {
      throw DistStoreError({.reason = Reason::TIMEOUT, .what = "the key does not come"});
    }
    Machine::running()->sleepOn(changes_, *changes_, deadline.remaining());
  }
}

// --- reading the memory of another process ---

namespace {
bool mayReadPeers = true;
}

void allowReadingPeers(bool allow) noexcept {
  mayReadPeers = allow;
}

/// All ranks are in one process here; what is left is who may, and who is dead.
extern "C" ssize_t __wrap_process_vm_readv(pid_t pid, const iovec* local, unsigned long /*many*/,
                                           const iovec* remote, unsigned long /*many*/,
                                           unsigned long /*flags*/) {
  pointOfCall();
  if (!mayReadPeers || Machine::running()->isDead(pid - pidOf(0))) {
    errno = mayReadPeers ? ESRCH : EPERM;
    return -1;
  }
  std::memcpy(local->iov_base, remote->iov_base, local->iov_len);
  pointOfCall();
  return static_cast<ssize_t>(local->iov_len);
}

}  // namespace explore

// --- base ---

SharedMemory SharedMemory::create(std::size_t bytes, std::string_view /*subject*/, Fork fork) {
  SharedMemory memory;
  memory.fd_ = explore::anyDescriptor();
  memory.bytes_ = explore::memories[bytes] = explore::Pool::take(bytes);
  memory.fork_ = fork;
  return memory;
}
/// Who made it may have let it go since it handed out the descriptor.
SharedMemory SharedMemory::adopt(UniqueFd fd, std::size_t bytes, std::string_view /*subject*/,
                                 Fork fork) {
  SharedMemory memory;
  memory.fd_ = std::move(fd);
  memory.bytes_ = explore::memories.at(bytes);
  memory.fork_ = fork;
  return memory;
}
SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})), fork_(other.fork_) {}
SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  fd_ = std::move(other.fd_);
  bytes_ = std::exchange(other.bytes_, {});
  fork_ = other.fork_;
  return *this;
}
void SharedMemory::unmap() noexcept {}
std::uint64_t SharedMemory::room() {
  return std::uint64_t{1} << 40U;
}
std::uint64_t SharedMemory::roomToMap() {
  return room();
}

std::optional<ProcessState> lookAt(pid_t /*pid*/) {
  return std::nullopt;
}
std::string describeState(const std::optional<ProcessState>& /*process*/) {
  return "state ?";
}
bool isDumpingCore(pid_t /*pid*/) {
  return false;
}
ProcessMark thisProcess() {
  return {
      .pid = explore::currentPid(), .startTicks = 1, .pidNamespace = 1, .boot = "b", .host = "h"};
}
std::string encodeMark(const ProcessMark& mark) {
  return str(mark.pid);
}
std::optional<ProcessMark> decodeMark(std::string_view text) {
  ProcessMark mark = thisProcess();
  mark.pid = std::stoi(std::string(text));
  return mark;
}
Life lifeOf(const ProcessMark& process, const ProcessMark& /*here*/) {
  return explore::Machine::running()->isDead(process.pid - explore::pidOf(0)) ? Life::GONE
                                                                              : Life::ALIVE;
}

// A real thread would run beside the fibers: in a run there is none to be had.
Thread::Thread(const std::string& /*name*/, std::function<void()> run) {
  if (explore::Machine::running() != nullptr) {
    throw DistError({.reason = Reason::RESOURCE, .what = "no threads in an exploration"});
  }
  thread_ = std::make_unique<std::thread>(std::move(run));
}
Thread& Thread::operator=(Thread&& other) noexcept {
  thread_ = std::move(other.thread_);
  return *this;
}
void Thread::join() noexcept {
  if (thread_) {
    thread_->join();
  }
}
void Thread::detach() noexcept {
  thread_->detach();
}

// Looking again and again adds nothing to one look in an exploration.
WaitPolicy::WaitPolicy(int ranks, int cores) : crowded_(ranks > cores), spins_(0), mostYields_(0) {}
void WaitPolicy::yield() noexcept {}
bool WaitPolicy::sleepsAtOnce() noexcept {
  return true;
}
void WaitPolicy::noteStranger(TimePoint /*now*/) noexcept {}
void WaitPolicy::quiet() noexcept {}

// --- life ---

class Monitor::Impl {
 public:
  const std::string name = "monitor";
};

Monitor::Monitor() : impl_(new Impl) {}
Monitor& Monitor::instance() {
  static auto* one = new Monitor;
  return *one;
}
const std::string& Monitor::socketName() const noexcept {
  return impl_->name;
}
void Monitor::hold(LifeWord& word) {
  explore::pointOfCall();
  explore::Machine::running()->holdLife(*reinterpret_cast<std::uint32_t*>(&word.mutex));
}
void Monitor::letGo(LifeWord& word) noexcept {
  if (explore::Machine* machine = explore::Machine::running()) {
    machine->letLifeGo(*reinterpret_cast<std::uint32_t*>(&word.mutex));
  }
}
Monitor::Offer Monitor::offer(std::string cookie, Handler handler) {
  explore::handlers[cookie] = {std::move(handler), explore::Machine::running()->rank()};
  return {*this, std::move(cookie)};
}
void Monitor::withdraw(const std::string& cookie) noexcept {
  explore::handlers.erase(cookie);
}
Monitor::Offer::Offer(Offer&& other) noexcept
    : monitor_(std::exchange(other.monitor_, nullptr)), cookie_(std::move(other.cookie_)) {}
Monitor::Offer& Monitor::Offer::operator=(Offer&& other) noexcept {
  monitor_ = std::exchange(other.monitor_, nullptr);
  cookie_ = std::move(other.cookie_);
  return *this;
}
void Monitor::Offer::withdraw() noexcept {
  if (Monitor* monitor = std::exchange(monitor_, nullptr)) {
    monitor->withdraw(cookie_);
  }
}

/// The answer is given at once, on the asker's fiber, as if the monitor's thread had run just then.
Result<LocalMessage> askMonitor(std::string_view /*socketName*/, std::string_view cookie,
                                std::string_view request, Deadline /*deadline*/,
                                const std::function<bool()>& /*isHopeless*/) {
  explore::pointOfCall();
  const auto found = explore::handlers.find(std::string(cookie));
  if (found == explore::handlers.end() ||
      explore::Machine::running()->isDead(found->second.second)) {
    return Status(Reason::PEER_UNREACHABLE, "nobody listens");
  }
  explore::Machine::running()->protect(true);
  const Monitor::Answer answer = found->second.first(request, explore::currentPid());
  explore::Machine::running()->protect(false);
  explore::pointOfCall();
  LocalMessage message;
  message.bytes = answer.bytes;
  message.fd = answer.fd >= 0 ? explore::anyDescriptor() : UniqueFd();
  return message;
}

}  // namespace unisono
