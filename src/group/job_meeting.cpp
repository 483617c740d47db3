#include "group/job_meeting.hpp"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "unisono/store/file_store.hpp"

#include "base/fd.hpp"
#include "base/fingerprint.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"

namespace unisono {
namespace {

constexpr Milliseconds kPeriod(2);  // between two looks at the folder

// An invitation is the name of a store, then a mark for every rank. It is read and marked by its
// descriptor alone: its path may stand for the next invitation by now, and a mark that was set
// stays for whoever still looks at the old one.
constexpr std::size_t kNameLength = 32;  // of a store, as randomId() makes it
constexpr char kAwaited = '-';
constexpr char kCome = '+';

/// Where the mark of a rank stands.
constexpr off_t placeOf(int rank) {
  return static_cast<off_t>(kNameLength) + rank;
}

[[noreturn]] void refuseFolder(const std::string& folder, std::string_view why) {
  throw UsageError(
      {.reason = Reason::CONFIG,
       .what = str("the ranks cannot meet in ", folder, ": ", why),
       .hint = "remove it, or set MASTER_ADDR and MASTER_PORT to where rank 0 can be reached"});
}

/// The user's own folder, into which nobody else can put anything.
std::string ownFolder() {
  const std::string folder = str("/tmp/unisono-", ::geteuid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    refuseFolder(folder, errnoText(errno));
  }
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found {};
  if (!opened.valid() || ::fstat(opened.get(), &found) != 0) {
    refuseFolder(folder, errnoText(errno));
  }
  if (found.st_uid != ::geteuid() || (found.st_mode & 0077U) != 0) {
    refuseFolder(folder, "it belongs to somebody else, or others may write to it");
  }
  return folder;
}

/// A fingerprint, as a name for a file.
std::string nameFor(std::string_view job) {
  const std::uint64_t hash = fingerprint(job);
  std::string name = "job-";
  for (int shift = 60; shift >= 0; shift -= 4) {
    name += "0123456789abcdef"[(hash >> shift) & 0xFU];
  }
  return name;
}

/// Removes files when it goes, in the order in which they were added.
class Cleaner {
 public:
  Cleaner() = default;
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;
  ~Cleaner() {
    for (const std::string& path : paths_) {
      ::unlink(path.c_str());
    }
  }
  void add(std::string path) { paths_.push_back(std::move(path)); }

 private:
  std::vector<std::string> paths_;
};

/// Makes the invitation to a store, locked, and puts it where the others look.
UniqueFd invite(const std::string& invitation, const std::string& store, int size) {
  const std::string draft = str(store, ".draft");
  UniqueFd file(::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string text = store.substr(store.size() - kNameLength) +
                           std::string(static_cast<std::size_t>(size), kAwaited);
  const bool written =
      file.valid() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
      ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::rename(draft.c_str(), invitation.c_str()) != 0) {
    const int error = errno;
    ::unlink(draft.c_str());
    refuseFolder(invitation, errnoText(error));
  }
  return file;
}

/// The rank below `size`, from `first` on, that an invitation still waits for; `size` for none.
int firstAwaited(const UniqueFd& invitation, int first, int size) {
  char mark = kAwaited;
  while (first < size && ::pread(invitation.get(), &mark, 1, placeOf(first)) == 1 &&
         mark == kCome) {
    ++first;
  }
  return first;
}

/// Whether rank 0 still waits for those whom it invited.
bool isHeld(const UniqueFd& invitation) {
  return ::flock(invitation.get(), LOCK_SH | LOCK_NB) != 0;
}

/// Takes the place of `rank` at an invitation, which only one can do.
bool claim(const UniqueFd& invitation, int rank) {
  struct flock place {};
  place.l_type = F_WRLCK;
  place.l_whence = SEEK_SET;
  place.l_start = placeOf(rank);
  place.l_len = 1;
  char mark = kCome;
  return ::fcntl(invitation.get(), F_OFD_SETLK, &place) == 0 &&  // until it is closed
         ::pread(invitation.get(), &mark, 1, placeOf(rank)) == 1 && mark == kAwaited &&
         ::pwrite(invitation.get(), &kCome, 1, placeOf(rank)) == 1;
}

/// The store that rank 0 invites to now, with the place of `rank` at it taken; empty without an
/// invitation, when the place is taken already, or when the invitation is of the past.
std::string accept(const std::string& path, const std::string& stem, int rank, int size) {
  const UniqueFd invitation(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  std::string name(kNameLength, '\0');
  const bool taken =
      invitation.valid() && isHeld(invitation) &&
      ::pread(invitation.get(), name.data(), name.size(), 0) == static_cast<ssize_t>(name.size()) &&
      claim(invitation, rank);
  // Rank 0 may have ceased to wait in the meantime: because all have come, or because not all have.
  const bool meant = taken && (isHeld(invitation) || firstAwaited(invitation, 1, size) == size);
  return meant ? str(stem, ".", name) : "";
}

[[noreturn]] void giveUp(std::string who, Milliseconds timeout) {
  throw DistStoreError({.reason = Reason::TIMEOUT,
                        .what = str(who, " has not come to where the ranks of this job meet"),
                        .hint = "is it running, on this host? Ranks on several hosts need "
                                "MASTER_ADDR and MASTER_PORT",
                        .op = "init",
                        .elapsed = timeout});
}

void await(const UniqueFd& invitation, int size, const WaitContext& context, Milliseconds timeout) {
  int awaited = 1;
  TimerWaitable pause(kPeriod);
  const auto allHaveCome = [&] {
    awaited = firstAwaited(invitation, awaited, size);
    return awaited == size;
  };
  if (!waitUntil(allHaveCome, context, pause)) {
    giveUp(str("rank ", awaited), timeout);
  }
}

}  // namespace

std::string meetingFiles(const std::string& job) {
  return str(ownFolder(), "/", nameFor(job));
}

std::shared_ptr<Store> meetOnHost(const std::string& job, int rank, int size,
                                  Milliseconds timeout) {
  const std::string stem = meetingFiles(job);
  const std::string invitation = str(stem, ".now");
  const WaitContext context{.deadline = Deadline::after(timeout),
                            .subject = [&] { return str("the ranks of this job, in ", stem); }};
  if (rank == 0) {
    const std::string path = str(stem, ".", randomId());
    Cleaner cleaner;
    auto store = std::make_shared<FileStore>(path, size, timeout);
    const UniqueFd held = invite(invitation, path, size);
    cleaner.add(invitation);
    try {
      await(held, size, context, timeout);
    } catch (...) {
      cleaner.add(path);  // too few have come for the store to go with the last of them
      throw;
    }
    return store;
  }
  std::string path;
  TimerWaitable pause(kPeriod);
  const bool found = waitUntil(
      [&] {
        path = accept(invitation, stem, rank, size);
        return !path.empty();
      },
      context, pause);
  if (!found) {
    giveUp("rank 0", timeout);
  }
  return std::make_shared<FileStore>(path, size, timeout);
}

}  // namespace unisono
