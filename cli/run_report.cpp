#include "run_report.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <vector>

#include "base/str.hpp"
#include "exit_code.hpp"
#include "terminal.hpp"
#include "value.hpp"

namespace unisono::cli {
namespace {

std::string hostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

void replaceAll(std::string& text, std::string_view from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string_view withoutEnd(std::string_view line) {
  while (line.ends_with('\n') || line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  return line;
}

std::string asJson(const launch::Origin& origin, std::string_view line) {
  const bool isText = isUtf8(line);
  nlohmann::ordered_json document = {
      {"rank", origin.rank},
      {"stream", origin.isError ? "stderr" : "stdout"},
      {"line", isText ? std::string(withoutEnd(line)) : toBase64(withoutEnd(line))},
      {"encoding", isText ? "utf-8" : "base64"}};
  return document.dump() + "\n";
}

std::string howItEnded(int result) {
  return result < 0 ? str("was killed by ", launch::signalName(-result))
                    : str("failed with exit code ", result);
}

/// What torch's error file says, {"message":{"message","extraInfo":{"py_callstack"}}}, or one with
/// a text for its message.
struct Account {
  std::string message;
  std::string traceback;
};

Account accountOf(const launch::Loss& loss) {
  const auto document = nlohmann::json::parse(loss.account, nullptr, false);
  const auto text = [](const nlohmann::json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && found != object.end() && found->is_string()
               ? found->get<std::string>()
               : "";
  };
  if (!document.is_object() || !document.contains("message")) {
    return {};
  }
  const nlohmann::json& message = document["message"];
  if (message.is_string()) {
    return {.message = message.get<std::string>(), .traceback = {}};
  }
  const bool hasMore = message.is_object() && message.contains("extraInfo");
  return {.message = text(message, "message"),
          .traceback = hasMore ? text(message["extraInfo"], "py_callstack") : ""};
}

/// The lines of what it said of its failure, unless its last lines show that anyway.
std::vector<std::string> unseen(const Account& account, const std::vector<std::string>& seen) {
  std::vector<std::string> lines;
  std::string_view left = account.traceback.empty() ? account.message : account.traceback;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    if (!line.empty()) {
      lines.emplace_back(line);
    }
  }
  const bool isSeen =
      !lines.empty() && std::find(seen.begin(), seen.end(), lines.back()) != seen.end();
  return isSeen ? std::vector<std::string>() : lines;
}

std::string remedy(const launch::Loss& loss) {
  if (loss.result == -SIGKILL) {
    return "if nobody did that, memory may have run out: see dmesg";
  }
  return loss.lastLines.empty() && loss.account.empty()
             ? "it printed nothing; run it alone to see why"
             : "look at its last lines, below";
}

std::string ranksText(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  names.reserve(ranks.size());
  for (const int rank : ranks) {
    names.push_back(str(rank));
  }
  return join(names, ", ");
}

void tellLoss(const Manner& manner, const launch::Report& report) {
  const launch::Loss& loss = *report.loss;
  std::string what = str("rank ", loss.rank, " (pid ", loss.pid, ") ", howItEnded(loss.result));
  if (!report.ended.empty()) {
    what += str(report.ended.size() == 1 ? "; so rank " : "; so ranks ", ranksText(report.ended),
                report.ended.size() == 1 ? " was ended" : " were ended");
  }
  if (report.restarts > 0) {
    what += str("; it was attempt ", report.restarts + 1);
  }
  complain(what, remedy(loss));
  if (!manner.quiet && !manner.json) {
    for (const auto& lines : {unseen(accountOf(loss), loss.lastLines), loss.lastLines}) {
      for (const std::string& line : lines) {
        std::fprintf(stderr, "    %s\n", printable(line).c_str());
      }
    }
  }
}

void printEnd(const launch::Report& report, int code) {
  nlohmann::ordered_json document = {{"schema", "unisono-run/1"},
                                     {"exit_code", code},
                                     {"restarts", report.restarts},
                                     {"failed", nullptr},
                                     {"ended", report.ended}};
  if (report.loss) {
    const launch::Loss& loss = *report.loss;
    nlohmann::ordered_json failed = {{"rank", loss.rank}, {"pid", loss.pid}};
    if (loss.result < 0) {
      failed["signal"] = launch::signalName(-loss.result);
    } else {
      failed["exit_code"] = loss.result;
    }
    failed["last_lines"] = nlohmann::json::array();
    for (const std::string& line : loss.lastLines) {
      failed["last_lines"].push_back(printable(line));
    }
    if (const Account account = accountOf(loss); !account.message.empty()) {
      failed["error"] = {{"message", account.message}, {"traceback", account.traceback}};
    }
    document["failed"] = std::move(failed);
  }
  if (!report.folder.empty()) {
    document["log_dir"] = printable(report.folder);
  }
  printLine(document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

LineFormat lineFormat(const Manner& manner, const std::string& prefix) {
  if (manner.json) {
    return asJson;
  }
  const std::string text = prefix == "none" || prefix.empty() ? "" : prefix + " ";
  return [text, host = hostName()](const launch::Origin& origin, std::string_view line) {
    std::string front = text;
    replaceAll(front, "{rank}", str(origin.rank));
    replaceAll(front, "{host}", host);
    const bool hasEnd = line.ends_with('\n') || line.ends_with('\r');
    std::string whole = front.empty() ? "" : colored(Color::FAINT, front);
    whole += line;
    return whole + (hasEnd ? "" : "\n");
  };
}

int tellEnd(const Manner& manner, const launch::Report& report) {
  if (report.outputError == EPIPE) {
    throw ClosedPipe();
  }
  if (report.outputError != 0) {
    throw FileFailure(str("cannot write to standard output: ", errnoText(report.outputError)));
  }
  const int code = report.signal != 0 ? SIGNALED + report.signal : report.loss ? RANK_FAILED : OK;
  if (manner.json) {
    printEnd(report, code);
  }
  if (report.signal == 0 && report.loss) {
    tellLoss(manner, report);
  }
  return code;
}

}  // namespace unisono::cli
