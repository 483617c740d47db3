#include "group/job_place.hpp"

#include <gmock/gmock.h>
#include <map>
#include <string>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::textOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Environment = std::map<std::string, std::string>;

std::optional<JobPlace> placeIn(const Environment& environment) {
  return findJobPlace([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

struct Row {
  const char* name;
  Environment environment;
  int rank;
  int size;
  const char* source;
};

const Row kRows[] = {
    {"Ours",
     {{"UNISONO_RANK", "1"}, {"UNISONO_SIZE", "2"}, {"RANK", "3"}, {"WORLD_SIZE", "4"}},
     1,
     2,
     "UNISONO_RANK"},
    {"Torchrun", {{"RANK", "1"}, {"WORLD_SIZE", "4"}}, 1, 4, "torchrun"},
    {"OpenMpi", {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}}, 2, 3, "Open MPI"},
    {"Pmi", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, 0, 2, "PMI"},
    {"AStepOfSlurm",
     {{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_NTASKS", "9"}},
     5,
     8,
     "Slurm"},
    {"TorchrunInsideSlurm",
     {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
     1,
     4,
     "torchrun"},
    {"PmixBesideSlurm",
     {{"PMIX_RANK", "1"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}},
     1,
     2,
     "Slurm"},
};

class JobPlaceLauncherTest : public ::testing::TestWithParam<Row> {};

TEST_P(JobPlaceLauncherTest, IsWhatTheFirstLauncherSays) {
  test::LogCapture log;

  const std::optional<JobPlace> place = placeIn(GetParam().environment);

  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, GetParam().rank);
  EXPECT_EQ(place->size, GetParam().size);
  EXPECT_EQ(place->source, GetParam().source);
  EXPECT_EQ(place->job, "");
}

INSTANTIATE_TEST_SUITE_P(Launchers, JobPlaceLauncherTest, ::testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(JobPlaceTest, IsNoneWithoutALauncher) {
  EXPECT_FALSE(placeIn({}));
  EXPECT_FALSE(placeIn({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "9"}}));  // a batch script
  EXPECT_FALSE(placeIn({{"WORLD_SIZE", "4"}}));
}

TEST(JobPlaceTest, RefusesWhatCannotBe) {
  EXPECT_THAT(textOf<UsageError>([] {
                placeIn({{"RANK", "one"}, {"WORLD_SIZE", "2"}});
              }),
              HasSubstr("RANK is 'one'"));
  EXPECT_THAT(textOf<UsageError>([] {
                placeIn({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
              }),
              HasSubstr("RANK is 2 and WORLD_SIZE is 2"));
  EXPECT_THAT(textOf<UsageError>([] {
                placeIn({{"PMI_RANK", "1"}});
              }),
              HasSubstr("PMI_RANK is set, but PMI_SIZE is not"));
  EXPECT_THAT(textOf<UsageError>([] { placeIn({{"PMIX_RANK", "1"}}); }), HasSubstr("PMIX_RANK"));
}

TEST(JobPlaceTest, NamesALeftOverVariableThatContradictsTheLauncher) {
  test::LogCapture log;

  placeIn({{"RANK", "0"},
           {"WORLD_SIZE", "4"},
           {"OMPI_COMM_WORLD_RANK", "1"},
           {"OMPI_COMM_WORLD_SIZE", "2"}});

  EXPECT_THAT(log.lines(), Contains(HasSubstr("torchrun says that this is rank 0 of 4, Open MPI "
                                              "that it is rank 1 of 2; the first is taken")));
}

TEST(JobPlaceTest, TakesALauncherInsideAnotherForWhatItIs) {
  test::LogCapture log;

  placeIn({{"RANK", "5"},
           {"WORLD_SIZE", "8"},
           {"OMPI_COMM_WORLD_RANK", "1"},
           {"OMPI_COMM_WORLD_SIZE", "2"}});

  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(JobPlaceTest, NamesTheJobOnlyWhenAllOfItIsOnThisHost) {
  Environment environment = {{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "4"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                             {"PMIX_NAMESPACE", "prterun-1@1"}};
  const std::string job = placeIn(environment)->job;
  EXPECT_NE(job, "");

  environment["PMIX_NAMESPACE"] = "prterun-2@1";
  EXPECT_NE(placeIn(environment)->job, job);

  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_EQ(placeIn(environment)->job, "");

  EXPECT_NE(placeIn({{"SLURM_PROCID", "0"},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_NUM_NODES", "1"},
                     {"SLURM_JOB_ID", "7"},
                     {"SLURM_STEP_ID", "0"}})
                ->job,
            "");
}

}  // namespace
}  // namespace unisono
