#include "launch/line_splitter.hpp"

#include <gmock/gmock.h>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LineSplitterTest : public testing::Test {
 protected:
  void feed(std::string_view bytes) { splitter_.feed(bytes, take_); }
  void finish() { splitter_.finish(take_); }

  std::vector<std::string> lines_;

 private:
  LineSplitter splitter_;
  LineSplitter::OnLine take_ = [this](std::string_view line) { lines_.emplace_back(line); };
};

TEST_F(LineSplitterTest, GivesLinesWhateverThePiecesTheyComeIn) {
  feed("a");
  feed("b\nc\n\nd");
  EXPECT_THAT(lines_, ElementsAre("ab\n", "c\n", "\n"));
  feed("e\n");
  finish();
  EXPECT_THAT(lines_, ElementsAre("ab\n", "c\n", "\n", "de\n"));
}

TEST_F(LineSplitterTest, GivesWhatHasNoEndInTheEnd) {
  feed("no end");
  EXPECT_THAT(lines_, IsEmpty());
  finish();
  finish();
  EXPECT_THAT(lines_, ElementsAre("no end"));
}

TEST_F(LineSplitterTest, EndsALineWhereAProgressBarReturns) {
  feed("\r10%\r20%\r");
  EXPECT_THAT(lines_, ElementsAre("\r", "10%\r"));
  feed("30%\n");
  EXPECT_THAT(lines_, ElementsAre("\r", "10%\r", "20%\r", "30%\n"));
}

TEST_F(LineSplitterTest, KeepsTheTwoBytesOfALineEndTogether) {
  feed("a\r");
  feed("\nb\r\n");
  EXPECT_THAT(lines_, ElementsAre("a\r\n", "b\r\n"));
}

TEST_F(LineSplitterTest, ChangesNoByte) {
  std::string all;
  for (int round = 0; round < 3; ++round) {
    for (int byte = 0; byte < 256; ++byte) {
      all += static_cast<char>(byte);
    }
  }
  for (const char byte : all) {
    feed({&byte, 1});
  }
  finish();
  std::string got;
  for (const std::string& line : lines_) {
    got += line;
  }
  EXPECT_EQ(got, all);
}

TEST_F(LineSplitterTest, CutsALineThatNeverEnds) {
  const std::string piece(LineSplitter::kLongest / 2, 'x');
  feed(piece);
  feed(piece);
  EXPECT_THAT(lines_, IsEmpty());
  feed("y");
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_[0].size(), LineSplitter::kLongest);
  feed("\n");
  EXPECT_EQ(lines_.back(), "y\n");
}

}  // namespace
}  // namespace unisono::launch
