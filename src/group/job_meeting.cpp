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
#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"

namespace unisono {
namespace {

constexpr Milliseconds kPeriod(2);       // between two looks at the folder
constexpr std::size_t kNameLength = 32;  // of a store, as randomId() makes it

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

/// FNV-1a, as a name for a file.
std::string nameFor(std::string_view job) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : job) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  std::string name = "job-";
  for (int shift = 60; shift >= 0; shift -= 4) {
    name += "0123456789abcdef"[(hash >> shift) & 0xFU];
  }
  return name;
}

std::string placeOf(const std::string& store, int rank) {
  return str(store, ".", rank);
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

/// Locks a file that says where the store is, and puts it where the others look.
UniqueFd invite(const std::string& invitation, const std::string& store) {
  const std::string draft = str(store, ".draft");
  UniqueFd file(::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string name = store.substr(store.size() - kNameLength);
  const bool written =
      file.valid() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
      ::write(file.get(), name.data(), name.size()) == static_cast<ssize_t>(name.size());
  if (!written || ::rename(draft.c_str(), invitation.c_str()) != 0) {
    const int error = errno;
    ::unlink(draft.c_str());
    refuseFolder(invitation, errnoText(error));
  }
  return file;
}

/// The store that rank 0 invites to now; empty without an invitation, or when it is of the past.
std::string invitedTo(const std::string& invitation, const std::string& stem) {
  const UniqueFd file(::open(invitation.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) {
    return "";
  }
  std::string name(kNameLength, '\0');
  const bool held = ::flock(file.get(), LOCK_SH | LOCK_NB) != 0;
  const bool read =
      ::read(file.get(), name.data(), name.size()) == static_cast<ssize_t>(name.size());
  return held && read ? str(stem, ".", name) : "";
}

/// Takes the place of `rank`, once for each store.
bool claim(const std::string& store, int rank) {
  return UniqueFd(
             ::open(placeOf(store, rank).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600))
      .valid();
}

[[noreturn]] void giveUp(std::string who, Milliseconds timeout) {
  throw DistStoreError({.reason = Reason::TIMEOUT,
                        .what = str(who, " has not come to where the ranks of this job meet"),
                        .hint = "is it running, on this host? Ranks on several hosts need "
                                "MASTER_ADDR and MASTER_PORT",
                        .op = "init",
                        .elapsed = timeout});
}

void await(const std::string& store, int size, const WaitContext& context, Milliseconds timeout) {
  int next = 1;  // the first that has not come
  TimerWaitable pause(kPeriod);
  const bool all = waitUntil(
      [&] {
        while (next < size && ::access(placeOf(store, next).c_str(), F_OK) == 0) {
          ++next;
        }
        return next == size;
      },
      context, pause);
  if (!all) {
    giveUp(str("rank ", next), timeout);
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
    const UniqueFd held = invite(invitation, path);
    cleaner.add(invitation);
    for (int other = 1; other < size; ++other) {
      cleaner.add(placeOf(path, other));
    }
    try {
      await(path, size, context, timeout);
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
        path = invitedTo(invitation, stem);
        return !path.empty() && claim(path, rank);
      },
      context, pause);
  if (!found) {
    giveUp("rank 0", timeout);
  }
  return std::make_shared<FileStore>(path, size, timeout);
}

}  // namespace unisono
