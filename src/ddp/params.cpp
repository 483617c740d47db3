#include "unisono/ddp/params.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/fingerprint.hpp"
#include "group/global_ranks.hpp"

namespace unisono {
namespace {

/// What must be equal, as text: it is compared, and shown.
struct ParamFacts {
  std::string name;
  std::string type;
  std::string sizes;
  std::string strides;  // "" in C order
};

/// Of every rank, about all its parameters.
struct Digest {
  std::int64_t count;
  std::int64_t fingerprint;
  std::int64_t bytes;  // of what encode() gives
  bool operator==(const Digest&) const = default;
  bool operator<(const Digest& other) const {
    return std::tie(count, fingerprint, bytes) <
           std::tie(other.count, other.fingerprint, other.bytes);
  }
};

std::string listText(const Dims& dims) {
  std::vector<std::string> parts;
  for (const std::int64_t each : dims) {
    parts.push_back(str(each));
  }
  return str("[", join(parts, ", "), "]");
}

/// Where there is only one element in a dimension, its stride means nothing.
std::string stridesText(const Tensor& tensor) {
  std::vector<std::int64_t> strides(tensor.strides().begin(), tensor.strides().end());
  for (std::size_t i = 0; i < strides.size(); ++i) {
    strides[i] = tensor.sizes()[i] == 1 ? 1 : strides[i];
  }
  return strides.empty() ? "" : listText(Dims(strides));
}

ParamFacts factsOf(const Param& param) {
  const Tensor& value = param.value;
  const bool onCpu = value.device().type == DeviceType::CPU;
  return {
      .name = param.name,
      .type = str(name(value.dtype()), onCpu ? "" : " on ", onCpu ? "" : name(value.device().type)),
      .sizes = listText(value.sizes()),
      .strides = stridesText(value)};
}

std::string encode(std::span<const Param> params) {
  std::string all;
  ByteWriter writer(all);
  for (const Param& param : params) {
    const ParamFacts facts = factsOf(param);
    writer.blob(facts.name);
    writer.blob(facts.type);
    writer.blob(facts.sizes);
    writer.blob(facts.strides);
  }
  return all;
}

std::vector<ParamFacts> decode(std::string_view all) {
  std::vector<ParamFacts> params;
  ByteReader reader(all);
  while (!reader.rest().empty()) {
    const auto name = reader.blob();
    const auto type = reader.blob();
    const auto sizes = reader.blob();
    const auto strides = reader.blob();
    UNISONO_CHECK(name && type && sizes && strides,
                  "what another rank tells of its parameters makes no sense");
    params.push_back(
        {std::string(*name), std::string(*type), std::string(*sizes), std::string(*strides)});
  }
  return params;
}

std::vector<Digest> hearDigests(ProcessGroup& group, const Digest& mine) {
  std::array<std::int64_t, 3> give = {mine.count, mine.fingerprint, mine.bytes};
  std::vector<std::int64_t> all(give.size() * static_cast<std::size_t>(group.size()));
  group.allGatherSingle(Tensor(all), Tensor(std::span<std::int64_t>(give)), {.asyncOp = false})
      ->wait();
  std::vector<Digest> digests;
  for (std::size_t at = 0; at < all.size(); at += give.size()) {
    digests.push_back({all[at], all[at + 1], all[at + 2]});
  }
  return digests;
}

/// What every rank tells of its parameters; each may be of another size.
std::vector<std::string> hearAll(ProcessGroup& group, std::string mine,
                                 const std::vector<Digest>& digests) {
  std::vector<std::string> texts;
  for (const Digest& digest : digests) {
    texts.emplace_back(static_cast<std::size_t>(digest.bytes), '\0');
  }
  std::vector<Tensor> outputs;
  for (std::string& text : texts) {
    outputs.emplace_back(std::span(text.data(), text.size()));
  }
  const Tensor input(std::span(mine.data(), mine.size()));
  group.allgather({outputs}, input, {.asyncOp = false})->wait();
  return texts;
}

/// The ranks that say something else than most do, and the lowest that says what most do.
std::pair<std::vector<int>, int> oddRanks(const std::vector<Digest>& digests) {
  std::map<Digest, int> votes;
  for (const Digest& digest : digests) {
    ++votes[digest];
  }
  const auto usual =
      std::max_element(digests.begin(), digests.end(),
                       [&](const Digest& a, const Digest& b) { return votes.at(a) < votes.at(b); });
  std::vector<int> odd;
  for (std::size_t rank = 0; rank < digests.size(); ++rank) {
    if (digests[rank] != *usual) {
      odd.push_back(static_cast<int>(rank));
    }
  }
  return {odd, static_cast<int>(usual - digests.begin())};
}

std::string quoted(const ParamFacts& facts, std::size_t index) {
  return describe(Param{.value = {}, .name = facts.name}, index);
}

/// The first difference, as a sentence; c10d's words are in it.
std::string difference(const std::vector<ParamFacts>& usual, int usualRank,
                       const std::vector<ParamFacts>& odd, int oddRank) {
  if (usual.size() != odd.size()) {
    return str("DDP expects same model across all ranks, but Rank ", usualRank, " has ",
               usual.size(), " params, while rank ", oddRank, " has inconsistent ", odd.size(),
               " params");
  }
  const auto sentence = [&](std::size_t at, std::string_view what, std::string_view theirs,
                            std::string_view ours) {
    return str(quoted(usual[at], at), " of rank ", oddRank, " has ", what, " ", theirs, ", but ",
               ours, " on rank ", usualRank, ": it appears not to match ", what,
               " of the same param in process ", usualRank);
  };
  for (std::size_t at = 0; at < usual.size(); ++at) {
    const ParamFacts& a = usual[at];
    const ParamFacts& b = odd[at];
    if (a.name != b.name) {
      return str("parameter ", at, " is called '", b.name, "' on rank ", oddRank, ", but '", a.name,
                 "' on rank ", usualRank);
    }
    if (a.type != b.type) {
      return sentence(at, "type", b.type, a.type);
    }
    if (a.sizes != b.sizes) {
      return sentence(at, "sizes", b.sizes, a.sizes);
    }
    if (a.strides != b.strides) {
      return sentence(at, "strides", b.strides.empty() ? "of C order" : b.strides,
                      a.strides.empty() ? "of C order" : a.strides);
    }
  }
  return "the ranks tell different things of their parameters";  // two of one fingerprint
}

}  // namespace

std::string describe(const Param& param, std::size_t index) {
  return param.name.empty() ? str("parameter ", index)
                            : str(param.name, " (parameter ", index, ")");
}

void verifyParams(const Group& group, std::span<const Param> params) {
  ProcessGroup& process = group.processGroup();
  std::string mine = encode(params);
  const std::vector<Digest> digests =
      hearDigests(process, {.count = static_cast<std::int64_t>(params.size()),
                            .fingerprint = static_cast<std::int64_t>(fingerprint(mine)),
                            .bytes = static_cast<std::int64_t>(mine.size())});
  const auto [odd, usual] = oddRanks(digests);
  if (odd.empty()) {
    return;
  }
  // All ranks come here, since all have heard the same.
  const std::vector<std::string> all = hearAll(process, std::move(mine), digests);
  throw DistBackendError({.reason = Reason::MISMATCH,
                          .what = difference(decode(all[static_cast<std::size_t>(usual)]), usual,
                                             decode(all[static_cast<std::size_t>(odd[0])]), odd[0]),
                          .hint = "make the same parameters in the same order on all ranks",
                          .group = process.defaultBackend()->options().groupName,
                          .rank = group.rank(),
                          .world = group.size(),
                          .culprits = globalRanks(process, odd)});
}

}  // namespace unisono
