// An MPI as a contestant; built once with each MPI that is installed.
#include <mpi.h>

#include "bench/collective/member.hpp"

namespace {

using unisono::bench::Element;
using unisono::bench::Reduction;

class MpiRank final : public unisono::bench::Contestant {
 public:
  MpiRank() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string whole(text);
    whole.resize(std::min(whole.size(), whole.find_first_of(",\n")));
    std::replace(whole.begin(), whole.end(), '\t', ' ');
    return whole;
  }
  bool use(Element element, Reduction reduction) override {
    switch (reduction) {
      case Reduction::SUM:
        op_ = MPI_SUM;
        break;
      case Reduction::PROD:
        op_ = MPI_PROD;
        break;
      case Reduction::MIN:
        op_ = MPI_MIN;
        break;
      case Reduction::MAX:
        op_ = MPI_MAX;
        break;
      case Reduction::AVG:
        return false;
    }
    switch (element) {
      case Element::FLOAT32:
        type_ = MPI_FLOAT;
        return true;
      case Element::FLOAT64:
        type_ = MPI_DOUBLE;
        return true;
      case Element::INT32:
        type_ = MPI_INT32_T;
        return true;
      case Element::INT64:
        type_ = MPI_INT64_T;
        return true;
      case Element::FLOAT16:
      case Element::BFLOAT16:
        break;
    }
    return false;
  }
  void allReduce(void* data, std::size_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, data, length(count), type_, op_, MPI_COMM_WORLD);
  }
  void reduce(void* data, std::size_t count, int root) override {
    MPI_Reduce(rank_ == root ? MPI_IN_PLACE : data, rank_ == root ? data : nullptr, length(count),
               type_, op_, root, MPI_COMM_WORLD);
  }
  void broadcast(void* data, std::size_t count, int root) override {
    MPI_Bcast(data, length(count), type_, root, MPI_COMM_WORLD);
  }
  void allGather(const void* mine, void* all, std::size_t count) override {
    MPI_Allgather(mine, length(count), type_, all, length(count), type_, MPI_COMM_WORLD);
  }
  void gather(const void* mine, void* all, std::size_t count, int root) override {
    MPI_Gather(mine, length(count), type_, all, length(count), type_, root, MPI_COMM_WORLD);
  }
  void scatter(const void* all, void* part, std::size_t count, int root) override {
    MPI_Scatter(all, length(count), type_, part, length(count), type_, root, MPI_COMM_WORLD);
  }
  void reduceScatter(const void* all, void* part, std::size_t count) override {
    MPI_Reduce_scatter_block(all, part, length(count), type_, op_, MPI_COMM_WORLD);
  }
  void allToAll(const void* give, void* take, std::size_t count) override {
    MPI_Alltoall(give, length(count), type_, take, length(count), type_, MPI_COMM_WORLD);
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void send(const void* data, std::size_t count, int to) override {
    MPI_Send(data, length(count), type_, to, 0, MPI_COMM_WORLD);
  }
  void receive(void* data, std::size_t count, int from) override {
    MPI_Recv(data, length(count), type_, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

 private:
  static int length(std::size_t count) { return static_cast<int>(count); }
  int rank_ = 0;
  int size_ = 1;
  MPI_Datatype type_ = MPI_FLOAT;
  MPI_Op op_ = MPI_SUM;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  {
    MpiRank rank;
    status = unisono::bench::serveBoard(rank);
  }
  MPI_Finalize();
  return status;
}
