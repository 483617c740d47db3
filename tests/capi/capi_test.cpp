// unisono.h as a C program uses it. Ranks are threads that meet in one store.
#include <array>
#include <atomic>
#include <gmock/gmock.h>
#include <numeric>
#include <vector>

#include "unisono/unisono.h"

#include "support/thread_world.hpp"

namespace unisono {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StrEq;

constexpr int kRanks = 3;

#define ASSERT_GOOD(call) ASSERT_EQ(call, UNISONO_OK) << unisono_last_error()->text

/// Runs `body(world, rank)` on each rank of a world, and ends it.
void inAWorld(const std::function<void(unisono_group*, int)>& body) {
  unisono_store* store = nullptr;
  ASSERT_GOOD(unisono_store_hash(&store));
  const auto thrown = test::onThreads(kRanks, [&](int rank) {
    unisono_init_options options = UNISONO_INIT_OPTIONS;
    options.store = store;
    options.rank = rank;
    options.size = kRanks;
    options.timeout_ms = 20'000;
    unisono_group* world = nullptr;
    ASSERT_GOOD(unisono_init(&options, &world));
    body(world, rank);
    unisono_group_free(world);
  });
  EXPECT_THAT(thrown, Each(nullptr));
  unisono_store_free(store);
}

TEST(CApiTest, AGroupKnowsItself) {
  inAWorld([](unisono_group* world, int rank) {
    EXPECT_EQ(unisono_group_rank(world), rank);
    EXPECT_EQ(unisono_group_size(world), kRanks);
    EXPECT_THAT(unisono_group_name(world), StrEq("world"));
  });
  EXPECT_EQ(unisono_group_rank(nullptr), -1);
}

TEST(CApiTest, ReductionsAndBroadcastGiveWhatTheySay) {
  inAWorld([](unisono_group* world, int rank) {
    std::array<float, 2> sum = {1, static_cast<float>(rank)};
    ASSERT_GOOD(
        unisono_all_reduce(world, sum.data(), 2, UNISONO_FLOAT32, UNISONO_SUM, nullptr, nullptr));
    EXPECT_THAT(sum, ElementsAre(3, 3));

    std::int64_t most = rank;
    ASSERT_GOOD(unisono_reduce(world, &most, 1, UNISONO_INT64, UNISONO_MAX, 1, nullptr, nullptr));
    EXPECT_EQ(most, rank == 1 ? 2 : rank);

    unisono_call_options halves = UNISONO_CALL_OPTIONS;
    halves.factor = 0.5;
    double half = 2.0;
    ASSERT_GOOD(
        unisono_all_reduce(world, &half, 1, UNISONO_FLOAT64, UNISONO_PREMUL_SUM, &halves, nullptr));
    EXPECT_EQ(half, 3.0);

    std::uint8_t told = rank == 2 ? 7 : 0;
    ASSERT_GOOD(unisono_broadcast(world, &told, 1, UNISONO_UINT8, 2, nullptr, nullptr));
    EXPECT_EQ(told, 7);
  });
}

TEST(CApiTest, BlocksOfOneSizeGoWhereTheyBelong) {
  inAWorld([](unisono_group* world, int rank) {
    const int mine = 10 + rank;
    std::array<int, kRanks> all{};
    ASSERT_GOOD(unisono_all_gather(world, &mine, 1, all.data(), UNISONO_INT32, nullptr, nullptr));
    EXPECT_THAT(all, ElementsAre(10, 11, 12));

    std::array<int, kRanks> gathered{};
    ASSERT_GOOD(unisono_gather(world, &mine, 1, rank == 0 ? gathered.data() : nullptr,
                               UNISONO_INT32, 0, nullptr, nullptr));
    EXPECT_THAT(gathered, rank == 0 ? all : (std::array<int, kRanks>{}));

    int part = 0;
    ASSERT_GOOD(unisono_scatter(world, rank == 0 ? all.data() : nullptr, &part, 1, UNISONO_INT32, 0,
                                nullptr, nullptr));
    EXPECT_EQ(part, mine);

    ASSERT_GOOD(unisono_reduce_scatter(world, all.data(), &part, 1, UNISONO_INT32, UNISONO_SUM,
                                       nullptr, nullptr));
    EXPECT_EQ(part, kRanks * mine);

    std::array<int, kRanks> give{};
    std::iota(give.begin(), give.end(), 100 * rank);
    ASSERT_GOOD(
        unisono_all_to_all(world, give.data(), all.data(), 1, UNISONO_INT32, nullptr, nullptr));
    EXPECT_THAT(all, ElementsAre(rank, 100 + rank, 200 + rank));
  });
}

TEST(CApiTest, TheSumOfSparseRowsHasEachPlaceOnce) {
  inAWorld([](unisono_group* world, int rank) {
    const std::array<std::int64_t, 3> places = {9, rank, 9};
    const std::array<float, 6> values = {1, 2, 10, 20, 1, 2};
    unisono_bytes where{};
    unisono_bytes sums{};
    ASSERT_GOOD(unisono_all_reduce_sparse(world, places.data(), values.data(), 3, 2, 10,
                                          UNISONO_FLOAT32, nullptr, &where, &sums));

    const auto* rows = reinterpret_cast<const std::int64_t*>(where.data);
    const auto* cells = reinterpret_cast<const float*>(sums.data);
    ASSERT_EQ(where.size, 4 * sizeof(std::int64_t));
    EXPECT_THAT(std::vector(rows, rows + 4), ElementsAre(0, 1, 2, 9));
    ASSERT_EQ(sums.size, 8 * sizeof(float));
    EXPECT_THAT(std::vector(cells, cells + 8), ElementsAre(10, 20, 10, 20, 10, 20, 6, 12));
    unisono_bytes_free(&where);
    unisono_bytes_free(&sums);
  });
}

TEST(CApiTest, SparseRowsWithoutElementsAreRefused) {
  inAWorld([](unisono_group* world, int /*rank*/) {
    unisono_bytes out{};
    EXPECT_EQ(unisono_all_reduce_sparse(world, nullptr, nullptr, 0, 0, 10, UNISONO_FLOAT32, nullptr,
                                        &out, &out),
              UNISONO_USAGE);
    EXPECT_EQ(unisono_all_reduce_sparse(world, nullptr, nullptr, 0, 1, 10, UNISONO_FLOAT32, nullptr,
                                        nullptr, &out),
              UNISONO_USAGE);
  });
}

/// Blocks of which number r has r + 1 elements.
class Blocks {
 public:
  Blocks() : rows_(kRanks) {
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      rows_[rank].assign(rank + 1, 0);
      blocks_.push_back({rows_[rank].data(), rank + 1});
    }
  }
  std::vector<int>& operator[](int rank) { return rows_.at(static_cast<std::size_t>(rank)); }
  const unisono_block* list() const noexcept { return blocks_.data(); }

 private:
  std::vector<std::vector<int>> rows_;
  std::vector<unisono_block> blocks_;
};

TEST(CApiTest, BlocksOfAnySizeGoWhereTheyBelong) {
  inAWorld([](unisono_group* world, int rank) {
    const std::vector<int> mine(static_cast<std::size_t>(rank) + 1, 10 + rank);
    Blocks all;
    ASSERT_GOOD(unisono_all_gather_blocks(world, mine.data(), mine.size(), all.list(),
                                          UNISONO_INT32, nullptr, nullptr));
    EXPECT_THAT(all[0], ElementsAre(10));
    EXPECT_THAT(all[2], ElementsAre(12, 12, 12));

    Blocks gathered;
    ASSERT_GOOD(unisono_gather_blocks(world, mine.data(), mine.size(),
                                      rank == 1 ? gathered.list() : nullptr, UNISONO_INT32, 1,
                                      nullptr, nullptr));
    EXPECT_THAT(gathered[2], Each(rank == 1 ? 12 : 0));

    std::vector<int> part(mine.size());
    ASSERT_GOOD(unisono_scatter_blocks(world, rank == 2 ? all.list() : nullptr, part.data(),
                                       part.size(), UNISONO_INT32, 2, nullptr, nullptr));
    EXPECT_EQ(part, mine);
    ASSERT_GOOD(unisono_reduce_scatter_blocks(world, all.list(), part.data(), part.size(),
                                              UNISONO_INT32, UNISONO_SUM, nullptr, nullptr));
    EXPECT_THAT(part, Each(kRanks * (10 + rank)));

    Blocks give;  // to rank r, r + 1 elements: each gets as many from all
    std::vector<std::vector<int>> taken(kRanks, std::vector<int>(mine.size()));
    std::vector<unisono_block> take;
    for (int peer = 0; peer < kRanks; ++peer) {
      std::fill(give[peer].begin(), give[peer].end(), 10 * rank + peer);
      take.push_back({taken[static_cast<std::size_t>(peer)].data(), mine.size()});
    }
    ASSERT_GOOD(unisono_all_to_all_blocks(world, give.list(), take.data(), UNISONO_INT32, nullptr,
                                          nullptr));
    EXPECT_THAT(taken[2], Each(20 + rank));
  });
}

TEST(CApiTest, MessagesTellWhoTheyAreFrom) {
  inAWorld([](unisono_group* world, int rank) {
    unisono_call_options tagged = UNISONO_CALL_OPTIONS;
    tagged.tag = 5;
    if (rank != 0) {
      ASSERT_GOOD(unisono_send(world, &rank, 1, UNISONO_INT32, 0, &tagged, nullptr));
      return;
    }
    int got = 0;
    int source = -1;
    ASSERT_GOOD(unisono_recv(world, &got, 1, UNISONO_INT32, 2, &source, &tagged, nullptr));
    EXPECT_EQ(got, 2);
    EXPECT_EQ(source, 2);
    unisono_work* work = nullptr;
    ASSERT_GOOD(
        unisono_recv(world, &got, 1, UNISONO_INT32, UNISONO_ANY_SOURCE, nullptr, &tagged, &work));
    ASSERT_GOOD(unisono_work_wait(work, UNISONO_UNSET));
    EXPECT_EQ(got, 1);
    EXPECT_EQ(unisono_work_source(work), 1);
    unisono_work_free(work);
  });
}

TEST(CApiTest, WorksAreWaitedForLaterAndTellOfTheirEnd) {
  inAWorld([](unisono_group* world, int) {
    float one = 1;
    unisono_work* work = nullptr;
    ASSERT_GOOD(unisono_all_reduce(world, &one, 1, UNISONO_FLOAT32, UNISONO_SUM, nullptr, &work));
    std::atomic<int> ended{0};
    ASSERT_GOOD(unisono_work_on_done(
        work, [](void* count) { static_cast<std::atomic<int>*>(count)->fetch_add(1); }, &ended));
    ASSERT_GOOD(unisono_work_wait(work, 20'000));
    EXPECT_EQ(unisono_work_done(work), 1);
    EXPECT_EQ(unisono_work_source(work), -1);
    EXPECT_EQ(one, kRanks);
    ASSERT_GOOD(unisono_barrier(world, nullptr, nullptr));
    EXPECT_EQ(ended.load(), 1);
    unisono_work_free(work);
  });
}

TEST(CApiTest, ABatchIsOneOperation) {
  inAWorld([](unisono_group* world, int rank) {
    const int next = (rank + 1) % kRanks;
    const int previous = (rank + kRanks - 1) % kRanks;
    int got = -1;
    std::array<unisono_work*, 2> each{};
    ASSERT_GOOD(unisono_batch_begin(world));
    EXPECT_EQ(unisono_batch_begin(world), UNISONO_USAGE);
    ASSERT_GOOD(unisono_send(world, &rank, 1, UNISONO_INT32, next, nullptr, each.data()));
    ASSERT_GOOD(unisono_recv(world, &got, 1, UNISONO_INT32, previous, nullptr, nullptr, &each[1]));
    ASSERT_GOOD(unisono_batch_end(world, nullptr));
    EXPECT_EQ(got, previous);
    EXPECT_EQ(unisono_batch_end(world, nullptr), UNISONO_USAGE);
    for (unisono_work* work : each) {
      unisono_work_free(work);
    }
  });
}

TEST(CApiTest, GroupsAreMadeOutOfGroups) {
  inAWorld([](unisono_group* world, int rank) {
    unisono_group* odd = nullptr;
    ASSERT_GOOD(unisono_group_split(world, rank == 1 ? UNISONO_NO_COLOR : 0, &odd));
    EXPECT_EQ(unisono_group_size(odd), rank == 1 ? -1 : 2);
    unisono_group_free(odd);

    const std::array<int, 2> ranks = {1, 2};
    unisono_group* late = nullptr;
    ASSERT_GOOD(unisono_group_new(world, ranks.data(), ranks.size(), &late));
    EXPECT_EQ(unisono_group_rank(late), rank - 1);
    ASSERT_GOOD(unisono_monitored_barrier(world, 1, nullptr));
    if (late != nullptr) {
      EXPECT_EQ(unisono_group_destroy(late), UNISONO_OK);
    }
  });
}

TEST(CApiTest, RegisteredMemoryWorksAsAnyOther) {
  inAWorld([](unisono_group* world, int rank) {
    unisono_memory* memory = nullptr;
    constexpr std::size_t kCount = 4096;
    ASSERT_GOOD(unisono_memory_new(world, kCount * sizeof(float), &memory));
    auto* values = static_cast<float*>(unisono_memory_data(memory));
    EXPECT_EQ(values[kCount - 1], 0.0F);
    std::fill(values, values + kCount, static_cast<float>(rank));
    ASSERT_GOOD(
        unisono_all_reduce(world, values, kCount, UNISONO_FLOAT32, UNISONO_SUM, nullptr, nullptr));
    EXPECT_THAT(std::span(values, kCount), Each(3.0F));
    unisono_memory_free(memory);
  });
}

TEST(CApiTest, AnErrorTellsAllThatIsKnown) {
  inAWorld([](unisono_group* world, int rank) {
    if (rank == 2) {
      return;  // leaves
    }
    unisono_call_options soon = UNISONO_CALL_OPTIONS;
    soon.timeout_ms = 10'000;
    const unisono_status status = unisono_barrier(world, &soon, nullptr);
    const unisono_error* error = unisono_last_error();
    EXPECT_EQ(status, UNISONO_PEER_LEFT);
    EXPECT_EQ(error->status, UNISONO_PEER_LEFT);
    EXPECT_THAT(unisono_status_name(status), StrEq("PEER_LEFT"));
    EXPECT_THAT(error->text, AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr(error->what)));
    EXPECT_THAT(error->op, StrEq("barrier"));
    EXPECT_THAT(error->group, StrEq("world"));
    EXPECT_THAT(std::span(error->culprits, error->culprit_count), ElementsAre(2));
    EXPECT_EQ(unisono_barrier(world, &soon, nullptr), UNISONO_PEER_LEFT) << "and again";
  });
}

TEST(CApiTest, AbortEndsWhatOthersWaitFor) {
  inAWorld([](unisono_group* world, int rank) {
    if (rank == 0) {
      ASSERT_GOOD(unisono_group_abort(world));
    }
    EXPECT_EQ(unisono_barrier(world, nullptr, nullptr), UNISONO_ABORTED);
  });
}

TEST(CApiTest, WrongArgumentsAreRefusedInOneLine) {
  inAWorld([](unisono_group* world, int) {
    float value = 0;
    const auto reduce = [&](unisono_group* group, void* data, std::size_t count, int dtype,
                            int op) {
      return unisono_all_reduce(group, data, count, static_cast<unisono_dtype>(dtype),
                                static_cast<unisono_op>(op), nullptr, nullptr);
    };
    EXPECT_EQ(reduce(nullptr, &value, 1, UNISONO_FLOAT32, UNISONO_SUM), UNISONO_USAGE);
    EXPECT_THAT(unisono_last_error()->text, HasSubstr("group is NULL"));
    EXPECT_EQ(reduce(world, nullptr, 1, UNISONO_FLOAT32, UNISONO_SUM), UNISONO_USAGE);
    EXPECT_EQ(reduce(world, &value, SIZE_MAX, UNISONO_FLOAT32, UNISONO_SUM), UNISONO_USAGE);
    EXPECT_EQ(reduce(world, &value, 1, 17, UNISONO_SUM), UNISONO_USAGE);
    EXPECT_EQ(reduce(world, &value, 1, -1, UNISONO_SUM), UNISONO_USAGE);
    EXPECT_EQ(reduce(world, &value, 1, UNISONO_FLOAT32, 9), UNISONO_USAGE);
    EXPECT_EQ(reduce(world, &value, 1, UNISONO_FLOAT32, UNISONO_BAND), UNISONO_USAGE);
    unisono_call_options blank = {};  // without its initialiser
    EXPECT_EQ(unisono_barrier(world, &blank, nullptr), UNISONO_USAGE);
    EXPECT_THAT(unisono_last_error()->text, HasSubstr("UNISONO_CALL_OPTIONS"));
    EXPECT_EQ(unisono_broadcast(world, &value, 1, UNISONO_FLOAT32, 3, nullptr, nullptr),
              UNISONO_USAGE);
    EXPECT_EQ(
        unisono_all_gather_blocks(world, &value, 1, nullptr, UNISONO_FLOAT32, nullptr, nullptr),
        UNISONO_USAGE);
    EXPECT_EQ(unisono_work_wait(nullptr, 0), UNISONO_USAGE);
    EXPECT_EQ(unisono_group_split(world, 0, nullptr), UNISONO_USAGE);
  });
  EXPECT_EQ(unisono_init(nullptr, nullptr), UNISONO_USAGE);
  EXPECT_EQ(unisono_group_destroy(nullptr), UNISONO_USAGE);
  unisono_group_free(nullptr);
  unisono_work_free(nullptr);
  unisono_memory_free(nullptr);
  unisono_store_free(nullptr);
  unisono_bytes_free(nullptr);
}

TEST(CApiTest, OptionsOfAnOlderProgramAreUnderstood) {
  inAWorld([](unisono_group* world, int) {
    unisono_call_options old = UNISONO_CALL_OPTIONS;
    old.struct_size = offsetof(unisono_call_options, tag);  // it knew the timeout, and no more
    old.tag = -77;
    float one = 1;
    EXPECT_EQ(unisono_all_reduce(world, &one, 1, UNISONO_FLOAT32, UNISONO_SUM, &old, nullptr),
              UNISONO_OK);
  });
}

class CStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_GOOD(unisono_store_hash(&store_)); }
  void TearDown() override { unisono_store_free(store_); }

  std::string get(const char* key) {
    unisono_bytes value{};
    EXPECT_EQ(unisono_store_get(store_, key, &value), UNISONO_OK) << unisono_last_error()->text;
    std::string text(value.data, value.size);
    EXPECT_EQ(value.data[value.size], '\0');
    unisono_bytes_free(&value);
    EXPECT_EQ(value.data, nullptr);
    return text;
  }

  unisono_store* store_ = nullptr;
};

TEST_F(CStoreTest, KeepsWhatItIsGiven) {
  ASSERT_GOOD(unisono_store_set(store_, "key", "a\0b", 3));
  EXPECT_EQ(get("key"), std::string("a\0b", 3));
  ASSERT_GOOD(unisono_store_append(store_, "key", "c", 1));
  EXPECT_EQ(get("key").size(), 4U);

  std::int64_t sum = 0;
  ASSERT_GOOD(unisono_store_add(store_, "count", 5, nullptr));
  ASSERT_GOOD(unisono_store_add(store_, "count", -2, &sum));
  EXPECT_EQ(sum, 3);

  unisono_bytes value{};
  ASSERT_GOOD(unisono_store_compare_set(store_, "count", "3", 1, "four", 4, &value));
  EXPECT_THAT(value.data, StrEq("four"));
  unisono_bytes_free(&value);

  const char* keys[] = {"key", "count"};
  int all = 0;
  ASSERT_GOOD(unisono_store_check(store_, keys, 2, &all));
  EXPECT_EQ(all, 1);
  ASSERT_GOOD(unisono_store_wait(store_, keys, 2, UNISONO_UNSET));
  int existed = 0;
  ASSERT_GOOD(unisono_store_delete(store_, "key", &existed));
  EXPECT_EQ(existed, 1);
  EXPECT_EQ(unisono_store_wait(store_, keys, 2, 10), UNISONO_TIMEOUT);
  std::int64_t count = 0;
  ASSERT_GOOD(unisono_store_num_keys(store_, &count));
  EXPECT_EQ(count, 1);
}

TEST_F(CStoreTest, WorksOnManyKeysAtOnce) {
  const std::array<const char*, 2> keys = {"a", "b"};
  std::string first = "1";
  std::string second("x\0y", 3);
  const std::array<unisono_bytes, 2> given = {
      {{first.data(), first.size()}, {second.data(), second.size()}}};
  ASSERT_GOOD(unisono_store_multi_set(store_, keys.data(), given.data(), 2));

  unisono_store* other = nullptr;
  ASSERT_GOOD(unisono_store_clone(store_, &other));
  std::array<unisono_bytes, 2> values{};
  ASSERT_GOOD(unisono_store_multi_get(other, keys.data(), 2, values.data()));
  EXPECT_EQ(std::string(values[0].data, values[0].size), first);
  EXPECT_EQ(std::string(values[1].data, values[1].size), second);
  unisono_bytes* listed = nullptr;
  std::size_t count = 0;
  ASSERT_GOOD(unisono_store_list_keys(other, &listed, &count));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    names.emplace_back(listed[i].data);
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"a", "b"}));
  unisono_bytes_list_free(listed, count);
  unisono_bytes_list_free(nullptr, 3);
  unisono_bytes_free(&values[0]);
  unisono_bytes_free(&values[1]);
  unisono_store_free(other);
  EXPECT_EQ(unisono_store_multi_get(store_, keys.data(), 2, nullptr), UNISONO_USAGE);
  EXPECT_EQ(unisono_store_clone(nullptr, &other), UNISONO_USAGE);
}

TEST_F(CStoreTest, QueuesGiveTheOldestFirst) {
  ASSERT_GOOD(unisono_store_queue_push(store_, "jobs", "first", 5));
  ASSERT_GOOD(unisono_store_queue_push(store_, "jobs", "second", 6));
  std::int64_t count = 0;
  ASSERT_GOOD(unisono_store_queue_len(store_, "jobs", &count));
  EXPECT_EQ(count, 2);
  for (const char* expected : {"first", "second"}) {
    unisono_bytes value{};
    ASSERT_GOOD(unisono_store_queue_pop(store_, "jobs", 1, &value));
    EXPECT_THAT(value.data, StrEq(expected));
    unisono_bytes_free(&value);
  }
  unisono_bytes none{};
  EXPECT_EQ(unisono_store_queue_pop(store_, "jobs", 0, &none), UNISONO_QUEUE_EMPTY);
  EXPECT_THAT(unisono_status_name(UNISONO_QUEUE_EMPTY), StrEq("QUEUE_EMPTY"));
  EXPECT_EQ(none.data, nullptr);
}

TEST_F(CStoreTest, ServesOverTcp) {
  unisono_tcp_store_options options = UNISONO_TCP_STORE_OPTIONS;
  options.port = 0;
  options.is_server = 1;
  unisono_store* server = nullptr;
  ASSERT_GOOD(unisono_store_tcp("127.0.0.1", &options, &server));
  options.port = unisono_store_port(server);
  options.is_server = 0;
  unisono_store* client = nullptr;
  ASSERT_GOOD(unisono_store_tcp("127.0.0.1", &options, &client));
  unisono_store* inner = nullptr;
  ASSERT_GOOD(unisono_store_prefix("job", client, &inner));

  ASSERT_GOOD(unisono_store_set(inner, "key", "value", 5));
  unisono_bytes value{};
  ASSERT_GOOD(unisono_store_get(server, "job/key", &value));
  EXPECT_THAT(value.data, StrEq("value"));
  unisono_bytes_free(&value);
  ASSERT_GOOD(unisono_store_barrier(client, "here", 1, UNISONO_UNSET));
  EXPECT_EQ(unisono_store_port(store_), -1);

  unisono_store_free(inner);
  unisono_store_free(client);
  unisono_store_free(server);
}

TEST_F(CStoreTest, RefusesWhatMakesNoSense) {
  unisono_bytes value{};
  EXPECT_EQ(unisono_store_get(store_, nullptr, &value), UNISONO_USAGE);
  EXPECT_EQ(unisono_store_get(store_, "key", nullptr), UNISONO_USAGE);
  EXPECT_EQ(unisono_store_get(nullptr, "key", &value), UNISONO_USAGE);
  EXPECT_EQ(unisono_store_set(store_, "key", nullptr, 3), UNISONO_USAGE);
  EXPECT_EQ(unisono_store_set_timeout(store_, -5), UNISONO_USAGE);
  ASSERT_GOOD(unisono_store_set_timeout(store_, 10));
  EXPECT_EQ(unisono_store_get(store_, "missing", &value), UNISONO_TIMEOUT);
  ASSERT_GOOD(unisono_store_set(store_, "text", "abc", 3));
  EXPECT_EQ(unisono_store_add(store_, "text", 1, nullptr), UNISONO_USAGE);
  unisono_tcp_store_options far = UNISONO_TCP_STORE_OPTIONS;
  far.port = 70'000;
  unisono_store* none = nullptr;
  EXPECT_EQ(unisono_store_tcp("127.0.0.1", &far, &none), UNISONO_USAGE);
  EXPECT_EQ(unisono_store_file("/dev/null/x", 1, &none), UNISONO_CONFIG);
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace unisono
