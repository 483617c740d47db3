#include "support/rank_report.hpp"

#include <stdexcept>
#include <utility>

#include "base/bytes.hpp"
#include "base/str.hpp"

namespace unisono::test {
namespace {

void encode(ByteWriter& out, const ErrorFacts& facts) {
  out.number(static_cast<std::uint8_t>(facts.reason));
  for (const std::string* text :
       {&facts.what, &facts.hint, &facts.op, &facts.group, &facts.host, &facts.detectedBy}) {
    out.blob(*text);
  }
  // Neither is ever negative.
  out.number<std::int64_t>(facts.seq.value_or(-1));
  out.number<std::int64_t>(facts.elapsed ? facts.elapsed->count() : -1);
  out.number<std::int64_t>(facts.pid);
  out.number(facts.rank);
  out.number(facts.world);
  out.number<std::uint64_t>(facts.culprits.size());
  for (const int culprit : facts.culprits) {
    out.number(culprit);
  }
}

ErrorFacts decodeFacts(ByteReader& in) {
  ErrorFacts facts;
  facts.reason = static_cast<Reason>(in.number<std::uint8_t>().value());
  for (std::string* text :
       {&facts.what, &facts.hint, &facts.op, &facts.group, &facts.host, &facts.detectedBy}) {
    *text = in.blob().value();
  }
  if (const std::int64_t seq = in.number<std::int64_t>().value(); seq >= 0) {
    facts.seq = seq;
  }
  if (const std::int64_t elapsed = in.number<std::int64_t>().value(); elapsed >= 0) {
    facts.elapsed = std::chrono::milliseconds(elapsed);
  }
  facts.pid = in.number<std::int64_t>().value();
  facts.rank = in.number<int>().value();
  facts.world = in.number<int>().value();
  facts.culprits.resize(in.number<std::uint64_t>().value());
  for (int& culprit : facts.culprits) {
    culprit = in.number<int>().value();
  }
  return facts;
}

}  // namespace

RankReport RankReport::ofCurrentException() {
  RankReport report;
  try {
    throw;
  } catch (const DistError& error) {
    report.error = error.facts();
  } catch (const std::exception& error) {
    report.other = error.what();
  } catch (...) {
    report.other = "something that is no exception";
  }
  return report;
}

RankReport RankReport::ofDeath(int rank, const std::string& how) {
  RankReport report;
  report.error = ErrorFacts{
      .reason = Reason::PEER_DEAD, .what = str("rank ", rank, " ", how), .culprits = {rank}};
  return report;
}

std::exception_ptr RankReport::thrown() const {
  if (error) {
    return std::make_exception_ptr(DistError(*error));
  }
  return other ? std::make_exception_ptr(std::runtime_error(*other)) : nullptr;
}

std::string encodeReports(const std::vector<RankReport>& reports) {
  std::string bytes;
  ByteWriter out(bytes);
  out.number<std::uint64_t>(reports.size());
  for (const RankReport& report : reports) {
    out.number<std::uint8_t>(report.error ? 1 : report.other ? 2 : 0);
    if (report.error) {
      encode(out, *report.error);
    } else if (report.other) {
      out.blob(*report.other);
    }
    out.number<std::uint64_t>(report.failures.size());
    for (const RankReport::Failure& failure : report.failures) {
      out.blob(failure.file);
      out.number(failure.line);
      out.blob(failure.text);
    }
  }
  return bytes;
}

std::vector<RankReport> decodeReports(std::string_view bytes) {
  ByteReader in(bytes);
  std::vector<RankReport> reports(in.number<std::uint64_t>().value());
  for (RankReport& report : reports) {
    const std::uint8_t kind = in.number<std::uint8_t>().value();
    if (kind == 1) {
      report.error = decodeFacts(in);
    } else if (kind == 2) {
      report.other = in.blob().value();
    }
    report.failures.resize(in.number<std::uint64_t>().value());
    for (RankReport::Failure& failure : report.failures) {
      failure.file = in.blob().value();
      failure.line = in.number<int>().value();
      failure.text = in.blob().value();
    }
  }
  return reports;
}

}  // namespace unisono::test
