// The few shapes that the pictures of benchmarks are made of.
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/str.hpp"

namespace unisono::bench::svg {

/// For libraries and servers, in the order of their rows.
inline constexpr std::array kColors = {"#0b6e4f", "#d1495b", "#8d99ae", "#edae49", "#3d5a80"};

inline std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

inline std::string text(double x, double y, std::string_view words, std::string_view style) {
  return str("<text x=\"", number(x), "\" y=\"", number(y), "\" ", style, ">", words, "</text>\n");
}

inline std::string box(double x, double y, double width, double height, std::string_view color) {
  return str("<rect x=\"", number(x), "\" y=\"", number(y), "\" width=\"", number(width),
             "\" height=\"", number(height), "\" fill=\"", color, "\"/>\n");
}

inline std::string page(double width, double height, const std::string& body) {
  return str("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", number(width), "\" height=\"",
             number(height),
             "\" font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
             "fill=\"white\"/>\n",
             body, "</svg>\n");
}

/// Names beside their colors, in one line at height `y`.
template <typename Names>
std::string legend(const Names& names, double x, double y) {
  std::string out;
  std::size_t index = 0;
  for (const std::string& name : names) {
    out += box(x, y, 12, 12, kColors[index++ % kColors.size()]);
    out += text(x + 18, y + 11, name, "font-size=\"13\"");
    x += 110;
  }
  return out;
}

}  // namespace unisono::bench::svg
