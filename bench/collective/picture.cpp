#include "bench/collective/picture.hpp"

#include <algorithm>
#include <cmath>

#include "base/str.hpp"
#include "bench/svg.hpp"

namespace unisono::bench {
namespace {

constexpr double kPanelWidth = 430;
constexpr double kPanelHeight = 300;
constexpr double kLeft = 64;   // of the lines in a panel
constexpr double kRight = 16;  // from their end to the next panel
constexpr double kTop = 44;
constexpr double kFloor = 250;

template <typename Get>
auto distinct(const std::vector<CollectiveRow>& rows, Get get) {
  std::vector<std::decay_t<decltype(get(rows.front()))>> values;
  for (const CollectiveRow& row : rows) {
    if (std::find(values.begin(), values.end(), get(row)) == values.end()) {
      values.push_back(get(row));
    }
  }
  return values;
}

std::string bytesText(double bytes) {
  return bytes < 1024          ? str(static_cast<int>(bytes))
         : bytes < 1024 * 1024 ? str(static_cast<int>(bytes / 1024), " Ki")
                               : str(static_cast<int>(bytes / 1024 / 1024), " Mi");
}

std::string timeText(double microseconds) {
  return microseconds < 1      ? str(std::lround(microseconds * 1000), " ns")
         : microseconds < 1000 ? str(std::lround(microseconds), " µs")
                               : str(std::lround(microseconds / 1000), " ms");
}

/// Time over bytes, both by powers: equal distances are equal ratios.
class Panel {
 public:
  Panel(std::vector<CollectiveRow> rows, double left, double top)
      : rows_(std::move(rows)), left_(left), top_(top) {
    for (const CollectiveRow& row : rows_) {
      const double bytes = std::log2(std::max<double>(static_cast<double>(row.size), 1));
      leastBytes_ = std::min(leastBytes_, bytes);
      mostBytes_ = std::max(mostBytes_, bytes);
      leastTime_ = std::min(leastTime_, std::floor(std::log10(row.p50)));
      mostTime_ = std::max(mostTime_, std::ceil(std::log10(row.p50)));
    }
  }

  std::string draw(const std::vector<std::string>& peers) const {
    std::string out = svg::text(left_ + kLeft, top_ + 26, rows_.front().op,
                                "font-size=\"15\" font-weight=\"bold\"");
    out += grid();
    for (std::size_t i = 0; i < peers.size(); ++i) {
      out += line(peers[i], svg::kColors[i % svg::kColors.size()]);
    }
    return out;
  }

 private:
  double x(double bytes) const {
    const double width = kPanelWidth - kLeft - kRight;
    const double range = std::max(mostBytes_ - leastBytes_, 1.0);
    return left_ + kLeft + (std::log2(std::max(bytes, 1.0)) - leastBytes_) / range * width;
  }
  double y(double logTime) const {
    return top_ + kFloor -
           (logTime - leastTime_) / std::max(mostTime_ - leastTime_, 1.0) * (kFloor - kTop);
  }

  std::string grid() const {
    std::string out;
    for (double power = leastTime_; power <= mostTime_; ++power) {
      out += svg::box(left_ + kLeft, y(power), kPanelWidth - kLeft - kRight, 0.6, "#ccc");
      out += svg::text(left_ + kLeft - 6, y(power) + 4, timeText(std::pow(10, power)),
                       "font-size=\"10\" text-anchor=\"end\" fill=\"#555\"");
    }
    for (const std::uint64_t size : distinct(rows_, [](const auto& row) { return row.size; })) {
      const auto bytes = static_cast<double>(size);
      out += svg::text(x(bytes), top_ + kFloor + 16, bytesText(bytes),
                       "font-size=\"9\" text-anchor=\"middle\" fill=\"#555\"");
    }
    return out;
  }

  std::string line(const std::string& peer, std::string_view color) const {
    std::string points;
    std::string marks;
    for (const CollectiveRow& row : rows_) {
      if (row.peer == peer) {
        const std::string atX = svg::number(x(static_cast<double>(row.size)));
        const std::string atY = svg::number(y(std::log10(row.p50)));
        points += str(atX, ",", atY, " ");
        marks +=
            str("<circle cx=\"", atX, "\" cy=\"", atY, "\" r=\"2.4\" fill=\"", color, "\"/>\n");
      }
    }
    return str("<polyline points=\"", points, "\" fill=\"none\" stroke=\"", color,
               "\" stroke-width=\"1.8\"/>\n", marks);
  }

  std::vector<CollectiveRow> rows_;
  double left_;
  double top_;
  double leastBytes_ = 64;
  double mostBytes_ = 0;
  double leastTime_ = 9;
  double mostTime_ = -9;
};

}  // namespace

std::string drawTimes(const std::vector<CollectiveRow>& all, const std::string& caption) {
  std::vector<CollectiveRow> rows;
  std::copy_if(all.begin(), all.end(), std::back_inserter(rows),
               [](const CollectiveRow& row) { return !row.isReference; });
  const auto peers = distinct(rows, [](const auto& row) { return row.peer; });
  const auto ops = distinct(rows, [](const auto& row) { return row.op; });
  const std::size_t lines = (ops.size() + 1) / 2;
  const double height = 70 + kPanelHeight * static_cast<double>(lines) + 30;
  std::string body = svg::text(24, 26, "Time of an operation over its bytes: less is better",
                               "font-size=\"17\" font-weight=\"bold\"");
  body += svg::legend(peers, 24, 40);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    std::vector<CollectiveRow> mine;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(mine),
                 [&](const CollectiveRow& row) { return row.op == ops[i]; });
    body += Panel(std::move(mine), static_cast<double>(i % 2) * kPanelWidth,
                  60 + static_cast<double>(i / 2) * kPanelHeight)
                .draw(peers);
  }
  body += svg::text(24, height - 14, caption, "font-size=\"11\" fill=\"#555\"");
  return svg::page(2 * kPanelWidth, height, body);
}

}  // namespace unisono::bench
