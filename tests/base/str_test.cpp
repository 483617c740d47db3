#include "base/str.hpp"

#include <cerrno>
#include <gmock/gmock.h>
#include <limits>
#include <vector>

#include "base/random.hpp"

namespace unisono {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string utf8(char32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80U | ((code >> shift) & 0x3fU)); };
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  if (code < 0x800) {
    return {static_cast<char>(0xc0U | (code >> 6)), tail(0)};
  }
  if (code < 0x10000) {
    return {static_cast<char>(0xe0U | (code >> 12)), tail(6), tail(0)};
  }
  return {static_cast<char>(0xf0U | (code >> 18)), tail(12), tail(6), tail(0)};
}

bool isControl(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029;
}

/// Whether `text` is well-formed, by the table of the Unicode standard (3.9, table 3-7).
bool isUtf8(std::string_view text) {
  struct Row {
    int firstLow, firstHigh, secondLow, secondHigh;
    std::size_t length;
  };
  static constexpr Row kRows[] = {
      {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
      {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
      {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  const auto within = [&](std::size_t i, int low, int high) {
    const int byte = i < text.size() ? static_cast<unsigned char>(text[i]) : -1;
    return byte >= low && byte <= high;
  };
  while (!text.empty()) {
    std::size_t length = 0;
    for (const Row& row : kRows) {
      if (within(0, row.firstLow, row.firstHigh) &&
          (row.length < 2 || within(1, row.secondLow, row.secondHigh)) &&
          (row.length < 3 || within(2, 0x80, 0xbf)) && (row.length < 4 || within(3, 0x80, 0xbf))) {
        length = row.length;
      }
    }
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

TEST(StrTest, PutsThePartsOneAfterTheOther) {
  EXPECT_EQ(str("rank ", 3, " of ", 4U, ", ", std::string("half "), 0.5, ' ', true),
            "rank 3 of 4, half 0.5 true");
}

TEST(StrTest, GivesNothingForNoParts) {
  EXPECT_EQ(str(), "");
}

TEST(StrTest, TakesBracesInPartsAsText) {
  EXPECT_EQ(str("{}", std::string("{0}{{"), "}"), "{}{0}{{}");
}

TEST(StrTest, ShowsSmallIntegersAsNumbersAndViewsWithTheirZeroBytes) {
  EXPECT_EQ(str(std::uint8_t{65}, std::int8_t{-1}), "65-1");
  EXPECT_EQ(str(std::string_view("a\0b", 3)), std::string("a\0b", 3));
}

TEST(StrTest, ShowsTheEndsOfTheIntegers) {
  EXPECT_EQ(
      str(std::numeric_limits<std::int64_t>::min(), " ", std::numeric_limits<std::uint64_t>::max()),
      "-9223372036854775808 18446744073709551615");
}

TEST(JoinTest, PutsTheSeparatorBetweenTheItems) {
  const std::vector<std::string> items{"a", "", "c"};

  EXPECT_EQ(join(items, ", "), "a, , c");
  EXPECT_EQ(join(std::span(items).first(1), ", "), "a");
  EXPECT_EQ(join({}, ", "), "");
}

TEST(JoinTest, CountsWhatItLeavesOut) {
  const std::vector<std::string> items{"a", "b", "c", "d"};

  EXPECT_EQ(join(items, ", ", 4), "a, b, c, d");
  EXPECT_EQ(join(items, ", ", 3), "a, b, c and 1 more");
}

TEST(JoinTest, CountsAllWhenNoneIsToBeShown) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "b"}, ", ", 0), "2 more");
}

TEST(PrintableTest, EscapesControlCharacters) {
  EXPECT_EQ(printable(std::string_view("a\0b\n\r\t\x1b[31m\x7f", 12)),
            "a\\x00b\\x0a\\x0d\\x09\\x1b[31m\\x7f");
}

TEST(PrintableTest, LeavesPlainTextAlone) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("~ {a:\\} 'b'"), "~ {a:\\} 'b'");
  EXPECT_EQ(printable("Größe 日本 😀"), "Größe 日本 😀");
}

TEST(PrintableTest, EscapesTheControlCharactersBeyondAscii) {
  EXPECT_EQ(printable("a\xc2\x9b"
                      "31m"),
            "a\\xc2\\x9b31m");
  EXPECT_EQ(printable("next\xc2\x85line"), "next\\xc2\\x85line");
  EXPECT_EQ(printable("line\xe2\x80\xa8paragraph\xe2\x80\xa9"),
            "line\\xe2\\x80\\xa8paragraph\\xe2\\x80\\xa9");
}

TEST(PrintableTest, EscapesStrayBytesAndKeepsTheTextAroundThem) {
  EXPECT_EQ(printable("a\x80z"), "a\\x80z");                         // a tail without a lead
  EXPECT_EQ(printable("\xc3z"), "\\xc3z");                           // a lead without a tail
  EXPECT_EQ(printable("\xe6\x97ü"), "\\xe6\\x97ü");                  // cut short, then text
  EXPECT_EQ(printable("\xf0\x9f\x98"), "\\xf0\\x9f\\x98");           // cut off at the end
  EXPECT_EQ(printable("\xc0\x80\xc1\xbf"), "\\xc0\\x80\\xc1\\xbf");  // overlong, two bytes
  EXPECT_EQ(printable("\xe0\x9f\xbf"), "\\xe0\\x9f\\xbf");           // overlong, three bytes
  EXPECT_EQ(printable("\xf0\x8f\xbf\xbf"), "\\xf0\\x8f\\xbf\\xbf");  // overlong, four bytes
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  EXPECT_EQ(printable("\xf5\xff\xfe"), "\\xf5\\xff\\xfe");           // never in UTF-8
}

TEST(PrintableTest, LeavesEveryCharacterAloneThatIsNotAControl) {
  for (char32_t code = 0; code <= 0x10ffff; code += code < 0x3000 ? 1 : 61) {
    if (code >= 0xd800 && code <= 0xdfff) {
      continue;
    }
    const std::string text = utf8(code);
    if (isControl(code)) {
      ASSERT_NE(printable(text), text) << "U+" << std::hex << static_cast<std::uint32_t>(code);
    } else {
      ASSERT_EQ(printable(text), text) << "U+" << std::hex << static_cast<std::uint32_t>(code);
    }
  }
  for (const char32_t edge : {0xd7ffU, 0xe000U, 0xfffdU, 0xffffU, 0x10000U, 0x10ffffU}) {
    EXPECT_EQ(printable(utf8(edge)), utf8(edge));
  }
}

TEST(PrintableTest, GivesValidUtf8WhateverTheBytes) {
  for (unsigned pair = 0; pair <= 0xffff; ++pair) {
    const std::string text{static_cast<char>(pair >> 8), static_cast<char>(pair & 0xff)};
    ASSERT_TRUE(isUtf8(printable(text))) << std::hex << pair;
  }
  SeededRng rng(1);
  for (int i = 0; i < 50'000; ++i) {
    std::string text(8, '\0');
    for (char& c : text) {
      const std::uint64_t drawn = rng.next();
      c = static_cast<char>((drawn & 0xff) | (drawn & 0x300 ? 0x80 : 0));  // mostly beyond ASCII
    }
    ASSERT_TRUE(isUtf8(printable(text))) << ::testing::PrintToString(text);
  }
}

TEST(FormatBytesTest, UsesTheLargestUnitThatIsExact) {
  EXPECT_EQ(formatBytes(0), "0 B");
  EXPECT_EQ(formatBytes(1023), "1023 B");
  EXPECT_EQ(formatBytes(1024), "1 KiB");
  EXPECT_EQ(formatBytes(1441), "1441 B");
  EXPECT_EQ(formatBytes(64U << 10U), "64 KiB");
  EXPECT_EQ(formatBytes(8U << 20U), "8 MiB");
  EXPECT_EQ(formatBytes(std::uint64_t{5} << 40U), "5120 GiB");
  EXPECT_EQ(formatBytes(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615 B");
}

TEST(FormatDurationTest, IsExactInTheUnitsAHumanThinksIn) {
  using std::chrono::milliseconds;
  EXPECT_EQ(formatDuration(milliseconds(0)), "0ms");
  EXPECT_EQ(formatDuration(milliseconds(250)), "250ms");
  EXPECT_EQ(formatDuration(milliseconds(1000)), "1s");
  EXPECT_EQ(formatDuration(milliseconds(1500)), "1500ms");
  EXPECT_EQ(formatDuration(milliseconds(59'000)), "59s");
  EXPECT_EQ(formatDuration(milliseconds(60'000)), "1m");
  EXPECT_EQ(formatDuration(milliseconds(150'000)), "2m30s");
  EXPECT_EQ(formatDuration(milliseconds(7'200'000)), "120m");
  EXPECT_EQ(formatDuration(milliseconds(-5000)), "-5000ms");
  EXPECT_THAT(formatDuration(milliseconds::max()), HasSubstr("9223372036854775807"));
  EXPECT_THAT(formatDuration(milliseconds::min()), HasSubstr("-9223372036854775808"));
}

TEST(NearestTest, FindsTheNameThatWasMeant) {
  const std::vector<std::string_view> known{"all_reduce", "all_gather", "broadcast"};

  EXPECT_EQ(nearest("all_reduce", known), "all_reduce");
  EXPECT_EQ(nearest("allreduce", known), "all_reduce");
  EXPECT_EQ(nearest("all_gahter", known), "all_gather");
  EXPECT_EQ(nearest("brodcast", known), "broadcast");
}

TEST(NearestTest, IsEmptyWhenNothingIsNear) {
  const std::vector<std::string_view> known{"all_reduce", "all_gather", "broadcast"};

  EXPECT_THAT(nearest("scatter_all_the_things", known), IsEmpty());
  EXPECT_THAT(nearest("send", known), IsEmpty());
  EXPECT_THAT(nearest("anything", {}), IsEmpty());
}

TEST(NearestTest, DoesNotTakeAShortNameForOneItSharesNothingWith) {
  const std::vector<std::string_view> known{"xy", "q"};

  EXPECT_THAT(nearest("ab", known), IsEmpty());
  EXPECT_THAT(nearest("", known), IsEmpty());
}

TEST(ErrnoTextTest, IsTheSystemsText) {
  EXPECT_EQ(errnoText(ECONNREFUSED), "Connection refused");
  EXPECT_THAT(errnoText(123456), HasSubstr("123456"));
}

}  // namespace
}  // namespace unisono
