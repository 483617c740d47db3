#include "bench/store/picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/str.hpp"
#include "bench/svg.hpp"

namespace unisono::bench {
namespace {

constexpr double kPanelWidth = 430;
constexpr double kPanelHeight = 230;
constexpr double kTop = 56;     // of the bars in a panel
constexpr double kFloor = 190;  // their foot
constexpr double kMargin = 24;

/// 1234567 as "1.23 M".
std::string rateText(double rate) {
  std::array<char, 32> text{};
  if (rate >= 1e6) {
    std::snprintf(text.data(), text.size(), "%.2f M", rate / 1e6);
  } else {
    std::snprintf(text.data(), text.size(), "%.0f k", rate / 1e3);
  }
  return text.data();
}

template <typename Get>
auto distinct(const std::vector<Row>& rows, Get get) {
  std::vector<decltype(get(rows.front()))> values;
  for (const Row& row : rows) {
    if (std::find(values.begin(), values.end(), get(row)) == values.end()) {
      values.push_back(get(row));
    }
  }
  return values;
}

/// The bars of one panel: groups by number of clients, in a group one bar for each server.
std::string drawPanel(const std::vector<Row>& rows, const std::vector<std::string>& peers,
                      double left, double top) {
  const auto most = std::max_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.figures.opsPerSecond < b.figures.opsPerSecond;
  });
  const auto groups = distinct(rows, [](const Row& row) { return row.clients; });
  const double scale = (kFloor - kTop) / most->figures.opsPerSecond;
  const double groupWidth = (kPanelWidth - 2 * kMargin) / static_cast<double>(groups.size());
  const double barWidth = std::min(44.0, groupWidth * 0.86 / static_cast<double>(peers.size()));
  const Row& first = rows.front();
  std::string out =
      svg::text(left + kMargin, top + 28,
                str(first.verb, first.depth == 1 ? ", one request at a time"
                                                 : str(", ", first.depth, " in flight")),
                "font-size=\"15\" font-weight=\"bold\"");
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const double x = left + kMargin + groupWidth * static_cast<double>(group);
    for (const Row& row : rows) {
      if (row.clients != groups[group]) {
        continue;
      }
      const auto which =
          static_cast<std::size_t>(std::find(peers.begin(), peers.end(), row.peer) - peers.begin());
      const double height = row.figures.opsPerSecond * scale;
      const double barX = x + barWidth * static_cast<double>(which);
      out += svg::box(barX, top + kFloor - height, barWidth - 3, height,
                      svg::kColors[which % svg::kColors.size()]);
      out +=
          svg::text(barX + (barWidth - 3) / 2, top + kFloor - height - 4,
                    rateText(row.figures.opsPerSecond), "font-size=\"9\" text-anchor=\"middle\"");
    }
    out += svg::text(x + barWidth * static_cast<double>(peers.size()) / 2, top + kFloor + 16,
                     str(groups[group], groups[group] == 1 ? " client" : " clients"),
                     "font-size=\"11\" text-anchor=\"middle\"");
  }
  return out;
}

}  // namespace

std::string drawRates(const std::vector<Row>& rows, const std::string& caption) {
  const auto peers = distinct(rows, [](const Row& row) { return row.peer; });
  const auto panels = distinct(rows, [](const Row& row) { return std::pair(row.verb, row.depth); });
  const std::size_t lines = (panels.size() + 1) / 2;
  const double height = 70 + kPanelHeight * static_cast<double>(lines) + 30;
  std::string body = svg::text(kMargin, 26, "Requests per second: more is better",
                               "font-size=\"17\" font-weight=\"bold\"");
  body += svg::legend(peers, kMargin, 40);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    std::vector<Row> mine;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(mine),
                 [&](const Row& row) { return std::pair(row.verb, row.depth) == panels[i]; });
    body += drawPanel(mine, peers, static_cast<double>(i % 2) * kPanelWidth,
                      60 + static_cast<double>(i / 2) * kPanelHeight);
  }
  body += svg::text(kMargin, height - 14, caption, "font-size=\"11\" fill=\"#555\"");
  return svg::page(2 * kPanelWidth, height, body);
}

}  // namespace unisono::bench
