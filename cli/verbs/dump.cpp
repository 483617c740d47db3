// unisono store dump and load: what is in a store, as a file and back.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "unisono/store/prefix_store.hpp"

#include "base/bytes.hpp"
#include "base/fd.hpp"
#include "base/str.hpp"
#include "store/common.hpp"
#include "terminal.hpp"
#include "verbs/dump_format.hpp"
#include "verbs/verbs.hpp"

namespace unisono::cli {
namespace {

// What is read or written in one piece.
constexpr std::size_t kPiece = 256;
constexpr std::size_t kPieceBytes = 4 * 1024 * 1024;

// Well beyond what a server may hold, 1 GiB, in the form of a dump.
constexpr std::size_t kLongestDump = std::size_t{4} << 30;

/// A file that appears under its name only when it is complete.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".XXXXXX") {
    struct stat there {};
    if (path_.empty()) {
      throw FileFailure("cannot write '': give the name of a file, or - for the output");
    }
    if (::stat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
      throw FileFailure(str("cannot write ", path_, ": it is not a file; give - for the output"));
    }
    fd_ = UniqueFd(::mkostemp(temporary_.data(), O_CLOEXEC));
    if (!fd_.valid()) {
      const int error = errno;
      temporary_.clear();
      throw FileFailure(str("cannot write ", path_, ": ", errnoText(error)));
    }
  }
  ~NewFile() {
    if (!temporary_.empty()) {
      ::unlink(temporary_.c_str());
    }
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view bytes) { writeAll(fd_.get(), bytes, path_); }
  void finish() {
    if (::fsync(fd_.get()) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
      throw FileFailure(str("cannot write ", path_, ": ", errnoText(errno)));
    }
    temporary_.clear();
  }

 private:
  const std::string path_;
  std::string temporary_;
  UniqueFd fd_;
};

void writeDump(Store& store, const std::string& glob, DumpWriter& writer) {
  const std::vector<std::string> names = keysLike(store, glob);
  Progress progress("dumped", names.size());
  for (std::size_t start = 0; start < names.size(); start += kPiece) {
    progress.at(start);
    const auto piece = std::span(names).subspan(start, std::min(kPiece, names.size() - start));
    const std::vector<std::optional<std::string>> values = tryGetAll(store, piece);
    for (std::size_t i = 0; i < piece.size(); ++i) {
      if (values[i]) {
        writer.entry(piece[i], *values[i]);
      }
    }
  }
  writer.end();
}

/// The queues that a dump leaves out. Only our own servers tell how many there are, and only all
/// together, so a dump of a part of a store is not held to be short of them.
struct Queues {
  std::uint64_t count = 0;
  std::uint64_t elements = 0;
};

Queues queuesOf(const Args& args, const Target& target) {
  const bool whole = args.glob == "*" && !dynamic_cast<PrefixStore*>(target.store.get());
  const std::string text = whole ? serverStats(*target.store) : "";
  if (text.empty()) {
    return {};
  }
  const auto stats = nlohmann::json::parse(text);
  return {.count = stats.value("queues", std::uint64_t{0}),
          .elements = stats.value("queued", std::uint64_t{0})};
}

/// Says what was left out; the exit code of the dump.
int judge(const Args& args, const Queues& queues) {
  if (queues.count == 0 || args.skipQueues) {
    return OK;
  }
  complain(str("the dump is short of ", queues.count, queues.count == 1 ? " queue" : " queues",
               " with ", queues.elements, queues.elements == 1 ? " element" : " elements",
               ": only keys are dumped"),
           "say --skip-queues if that is meant");
  return FAILURE;
}

void refuseOverwriting(Store& store, const std::vector<DumpEntry>& entries) {
  const std::vector<std::string> listed = store.listKeys();
  const std::set<std::string_view> there(listed.begin(), listed.end());
  std::vector<std::string> standing;
  for (const DumpEntry& entry : entries) {
    if (there.contains(entry.key)) {
      standing.push_back(str("'", shownKey(entry.key), "'"));
    }
  }
  if (!standing.empty()) {
    throw FileFailure(str(standing.size(), " of ", entries.size(),
                          " keys are set already: ", join(standing, ", ", 4),
                          "; nothing was loaded. DO: overwrite them with --force"));
  }
}

/// Says, beside what has ended a load, how much of it was done before.
template <typename Load>
void tellingHowFar(const std::size_t& done, std::size_t all, Load load) try {
  load();
} catch (const DistError& error) {
  ErrorFacts facts = error.facts();
  facts.what +=
      str("; ", done, " of ", all, all == 1 ? " key was" : " keys were", " loaded before");
  throw DistStoreError(std::move(facts));
}

/// Sets only keys that are not set; those that somebody else has set meanwhile are left alone, and
/// returned. (An empty value counts as none, as everywhere in compare-and-set.)
std::vector<std::string> addEntries(Store& store, const std::vector<DumpEntry>& entries) {
  Progress progress("loaded", entries.size());
  std::vector<std::string> taken;
  std::size_t done = 0;
  tellingHowFar(done, entries.size(), [&] {
    for (const DumpEntry& entry : entries) {
      const Store::Swap swap = store.trySwap(entry.key, {}, asBytes(entry.value));
      if (!swap.stored.value_or(true) && asText(swap.value) != entry.value) {
        taken.push_back(str("'", shownKey(entry.key), "'"));
      }
      progress.at(++done);
    }
  });
  return taken;
}

void writeEntries(Store& store, const std::vector<DumpEntry>& entries) {
  Progress progress("loaded", entries.size());
  std::vector<std::string> names;
  std::vector<Bytes> values;
  std::size_t bytes = 0;
  std::size_t done = 0;
  tellingHowFar(done, entries.size(), [&] {
    for (const DumpEntry& entry : entries) {
      names.push_back(entry.key);
      values.push_back(toBytes(entry.value));
      bytes += entry.key.size() + entry.value.size();
      if (names.size() == kPiece || bytes > kPieceBytes || done + names.size() == entries.size()) {
        store.multiSet(names, values);
        done += names.size();
        names.clear();
        values.clear();
        bytes = 0;
        progress.at(done);
      }
    }
  });
}

void tellCount(const Args& args, std::string_view verb, std::uint64_t count,
               std::string_view more = {}) {
  if (args.json) {
    printLine(str("{\"", verb, "\":", count, ",\"file\":", jsonKey(args.file), more, "}"));
  } else if (!args.quiet) {
    printLine(str(verb, " ", count, count == 1 ? " key" : " keys"));
  }
}

}  // namespace

int dump(const Args& args) {
  const Target target = openTarget(args, Missing::REFUSE);
  if (args.file == "-") {
    DumpWriter writer([](std::string_view bytes) { print(bytes); });
    writeDump(*target.store, args.glob, writer);
    flushOutput();
    return judge(args, queuesOf(args, target));
  }
  NewFile file(args.file);
  std::string pending;
  const auto write = [&] {
    file.write(pending);
    pending.clear();
  };
  DumpWriter writer([&](std::string_view bytes) {
    pending += bytes;
    if (pending.size() >= kPieceBytes) {
      write();
    }
  });
  writeDump(*target.store, args.glob, writer);
  write();
  file.finish();
  const Queues queues = queuesOf(args, target);
  tellCount(args, "dumped", writer.count(), str(",\"queues_left_out\":", queues.count));
  return judge(args, queues);
}

int load(const Args& args) {
  const std::vector<DumpEntry> entries =
      readDump(readAll(args.file, kLongestDump), args.file == "-" ? "standard input" : args.file);
  const Target target = openTarget(args, Missing::CREATE);
  std::vector<std::string> taken;
  if (args.force) {
    writeEntries(*target.store, entries);
  } else {
    refuseOverwriting(*target.store, entries);
    taken = addEntries(*target.store, entries);
  }
  tellCount(args, "loaded", entries.size() - taken.size());
  if (taken.empty()) {
    return OK;
  }
  complain(str(taken.size(), " of ", entries.size(),
               " keys were set by somebody else meanwhile and left alone: ", join(taken, ", ", 4)),
           "overwrite them with --force");
  return FAILURE;
}

}  // namespace unisono::cli
