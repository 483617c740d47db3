// Messages that can be sent or received right here: no list, no thread, no allocation.
#include "base/futex.hpp"
#include "transport/mail.hpp"

namespace unisono {

bool Mail::sendNow(int peer, int tag, std::span<const std::byte> bytes) {
  if (bytes.size() > shortBytes_) {
    return false;
  }
  bool ends = false;
  {
    const MutexLock lock(mutex_);
    Line& to = line(peer);
    // What waits goes first: messages of one tag must not overtake each other.
    if (isStopped() || !to.out.isOpen() || !to.waiting.empty() || !goesAtOnce(to, bytes.size()) ||
        !to.out.hasRoom(bytes.size())) {
      return false;
    }
    to.out.put({.kind = shm::FrameKind::MESSAGE, .tag = tag, .bytes = bytes.size()}, bytes);
    carrier_.ring(peer);
    carryNow();
    ends = carries_ && !ends_.empty();
  }
  if (ends) {
    tellEnds();
    runCallbacks();
  }
  return true;
}

bool Mail::receiveNow(int peer, int tag, std::span<std::byte> into) {
  if (carries_) {
    return receiveCarried(peer, tag, into);
  }
  const std::atomic<shm::FrameKind>* next = nullptr;
  {
    const MutexLock lock(mutex_);
    if (!listensOnlyTo(peer)) {
      return false;
    }
    if (line(peer).in.hasFrame()) {
      return takeNow(peer, tag, into);
    }
    next = &line(peer).in.next();
  }
  // Without the lock: others may send and receive meanwhile, and even take what comes here.
  for (int i = policy_.spins(); next->load(std::memory_order_acquire) == shm::FrameKind::NONE;
       --i) {
    if (i <= 0) {
      return false;
    }
    cpuRelax();
  }
  const MutexLock lock(mutex_);
  return listensOnlyTo(peer) && line(peer).in.hasFrame() && takeNow(peer, tag, into);
}

/// What is there already: nothing comes while nobody drives.
bool Mail::receiveCarried(int peer, int tag, std::span<std::byte> into) {
  bool taken = false;
  bool ends = false;
  {
    const MutexLock lock(mutex_);
    if (!listensOnlyTo(peer)) {
      return false;
    }
    if (!line(peer).in.hasFrame()) {
      carryNow();
    }
    taken = line(peer).in.hasFrame() && takeNow(peer, tag, into);
    ends = !ends_.empty();
  }
  if (ends) {
    tellEnds();
    runCallbacks();
  }
  return taken;
}

/// Where nobody but the ranks here sees what is in the pipes. Others' messages may end by it.
void Mail::carryNow() {
  if (!carries_) {
    return;
  }
  static_cast<void>(carrier_.carry(*this));
  if (driven_) {
    carrier_.wake();  // what it waits for may be in its pipe now
  } else if (owes()) {
    callWorker();
  }
}

bool Mail::isStopped() const noexcept {
  return closed_ || record_.isSet();
}

/// Nobody else waits for messages, and none is there that nobody has asked for.
bool Mail::listensOnlyTo(int peer) {
  return !isStopped() && wanted_.empty() && early_.empty() && line(peer).in.isOpen();
}

/// Takes the frame that is there if it is the message that is wanted.
bool Mail::takeNow(int peer, int tag, std::span<std::byte> into) {
  Frame frame;
  Pipe& in = line(peer).in;
  if (!in.look(frame) || frame.kind != shm::FrameKind::MESSAGE || frame.tag != tag ||
      frame.bytes != into.size()) {
    return false;
  }
  if (in.take(frame, into.data())) {
    carrier_.ring(peer);
  }
  return true;
}

}  // namespace unisono
