#include "store/file/file_log.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "store/decimal.hpp"

namespace unisono {
namespace {

constexpr std::uint64_t kReadAtOnce = 1024 * 1024;
constexpr std::size_t kBeginning = 64;  // reaches into the random part of a header
constexpr std::chrono::seconds kSuspiciousAge = std::chrono::hours(1);

}  // namespace

FileLog::FileLog(std::string path, Presence presence)
    : id_(randomId()), presence_(presence), file_(std::move(path)) {}

bool FileLog::tryEnter() {
  const FileLock lock(file_, LockMode::EXCLUSIVE);
  if (!lock.held()) {
    return false;
  }
  const LockedFile::Shape shape = file_.look();
  if (!shape.inPlace) {
    file_.reopen();  // the last one of an earlier job removed it while we waited
    return false;
  }
  catchUp(LockMode::EXCLUSIVE);
  if (presence_ == Presence::VISITOR) {
    return true;
  }
  const ProcessMark here = thisProcess();
  reclaimIfStale(here, shape.age);
  std::string header;
  if (log_.offset() == 0) {
    const Record record{std::string(kHeaderKey), str(randomId(), " ", encodeMark(here))};
    header = encodeChange({&record, 1});
  }
  const std::vector<Record> arrival{openRecord(id_, here),
                                    {std::string(kRefcountKey), str(count(kRefcountKey, 1))}};
  append(header + encodeChange(arrival));
  return true;
}

bool FileLog::tryTurn(LockMode mode, const std::function<void(FileLog&)>& body) {
  const LockMode needed = torn_ ? LockMode::EXCLUSIVE : mode;
  const FileLock lock(file_, needed);
  if (!lock.held()) {
    return false;
  }
  catchUp(needed);
  if (torn_) {
    return false;  // come again with the exclusive lock and cut it off: PyTorch would stumble
  }
  body(*this);
  return true;
}

bool FileLog::tryLeave(int worldSize) {
  if (broken_ || presence_ == Presence::VISITOR) {
    return true;  // a call has said so already, or nobody counted it
  }
  const FileLock lock(file_, LockMode::EXCLUSIVE);
  if (!lock.held()) {
    return false;
  }
  if (!file_.look().inPlace) {
    return true;  // removed already
  }
  catchUp(LockMode::EXCLUSIVE);
  const std::int64_t present = count(kRefcountKey, -1);
  const std::int64_t departed = count(kCleanupKey, 1);
  if (present <= 0 && worldSize >= 0 && departed >= worldSize) {
    file_.remove();
  } else {
    write({closeRecord(id_),
           {std::string(kCleanupKey), str(departed)},
           {std::string(kRefcountKey), str(present)}});
  }
  return true;
}

const std::string* FileLog::find(std::string_view key) const {
  return log_.find(str("/", key));
}

void FileLog::write(const std::vector<Record>& records) {
  append(encodeChange(records));
}

void FileLog::append(std::string_view bytes) {
  file_.append(log_.offset(), bytes);
  const Result<RecordLog::Progress> taken = log_.replay(bytes, bytes.size());
  UNISONO_DCHECK(taken.isOk() && taken.value().used == bytes.size());
  static_cast<void>(taken);
  rememberBeginning();
}

void FileLog::catchUp(LockMode mode) {
  if (broken_) {
    throw DistStoreError(*broken_);
  }
  const LockedFile::Shape shape = file_.look();
  if (!shape.inPlace) {
    breakWith(Reason::STORE_LOST, "was removed or replaced while it was in use");
  }
  if (shape.size < log_.offset()) {
    breakWith(Reason::PROTOCOL,
              str("was cut from ", log_.offset(), " to ", shape.size, " bytes while in use"));
  }
  if (file_.read(0, beginning_.size()) != beginning_) {
    breakWith(Reason::STORE_LOST, "was emptied and begun anew by somebody else");
  }
  torn_ = replayTail(shape.size);
  if (torn_ && mode == LockMode::EXCLUSIVE) {
    UNISONO_LOG(INFO, "store", "FileStore ", file_.path(), ": cutting off ",
                shape.size - log_.offset(), " bytes of a change that was never completed");
    file_.cut(log_.offset());
    torn_ = false;
  }
  rememberBeginning();
}

void FileLog::rememberBeginning() {
  const std::uint64_t known = std::min<std::uint64_t>(kBeginning, log_.offset());
  if (beginning_.size() < known) {
    beginning_ = file_.read(0, known);
  }
}

/// Takes in what stands between offset() and `size`; true when it ends in an incomplete change.
bool FileLog::replayTail(std::uint64_t size) {
  std::uint64_t wanted = kReadAtOnce;
  while (log_.offset() < size) {
    const std::uint64_t left = size - log_.offset();
    const std::string bytes = file_.read(log_.offset(), std::min(left, wanted));
    if (bytes.size() < std::min(left, wanted)) {
      breakWith(Reason::PROTOCOL, str("ends before its ", size, " bytes do"));
    }
    const Result<RecordLog::Progress> progress = log_.replay(bytes, left);
    if (!progress.isOk()) {
      breakWith(Reason::PROTOCOL, str("is not the file of a store: ", progress.failure().text()));
    }
    if (progress.value().stop == RecordLog::Progress::Stop::TORN) {
      return true;
    }
    wanted = std::max(kReadAtOnce, progress.value().wanted);
  }
  return false;
}

void FileLog::reclaimIfStale(const ProcessMark& here, std::chrono::seconds age) {
  if (log_.offset() == 0) {
    return;
  }
  const Occupancy occupancy = readOccupancy(log_, here);
  if (occupancy.isStale()) {
    UNISONO_LOG(INFO, "store", "FileStore ", file_.path(),
                ": left by a job whose processes are all gone; starting afresh");
    file_.cut(0);
    log_ = RecordLog();
    beginning_.clear();
  } else if (!occupancy.alive && age > kSuspiciousAge) {
    UNISONO_LOG(WARN, "store", "FileStore ", file_.path(), ": joined, but nobody on ",
                "it can be seen and it was last written ", age.count() / 60,
                " minutes ago; if it was left by an earlier job, remove it");
  }
}

std::int64_t FileLog::count(std::string_view key, std::int64_t delta) const {
  const Result<std::int64_t> sum = addDecimal(textOf(log_.find(key)), delta);
  if (!sum.isOk()) {
    throw DistStoreError({.reason = Reason::PROTOCOL,
                          .what = str("FileStore ", file_.path(), " has a damaged counter ", key,
                                      ": ", sum.failure().text()),
                          .hint = "if no other job uses the file, remove it and start again"});
  }
  return sum.value();
}

void FileLog::breakWith(Reason reason, std::string_view why) {
  broken_ = ErrorFacts{.reason = reason,
                       .what = str("FileStore ", file_.path(), " ", why),
                       .hint = reason == Reason::STORE_LOST
                                   ? "start the job again; nothing else may touch its file"
                                   : "give the path of a new file, or remove this one"};
  throw DistStoreError(*broken_);
}

}  // namespace unisono
