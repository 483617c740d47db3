// An MPI as a contestant; built once with each MPI that is installed.
#include <mpi.h>

#include "bench/collective/member.hpp"

namespace {

class MpiRank final : public unisono::bench::Contestant {
 public:
  MpiRank() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void allReduce(float* data, std::size_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, data, length(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void broadcast(float* data, std::size_t count) override {
    MPI_Bcast(data, length(count), MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
  void allGather(const float* mine, float* all, std::size_t count) override {
    MPI_Allgather(mine, length(count), MPI_FLOAT, all, length(count), MPI_FLOAT, MPI_COMM_WORLD);
  }
  void reduceScatter(const float* all, float* part, std::size_t count) override {
    MPI_Reduce_scatter_block(all, part, length(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void allToAll(const float* give, float* take, std::size_t count) override {
    MPI_Alltoall(give, length(count), MPI_FLOAT, take, length(count), MPI_FLOAT, MPI_COMM_WORLD);
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void send(const float* data, std::size_t count, int to) override {
    MPI_Send(data, length(count), MPI_FLOAT, to, 0, MPI_COMM_WORLD);
  }
  void receive(float* data, std::size_t count, int from) override {
    MPI_Recv(data, length(count), MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

 private:
  static int length(std::size_t count) { return static_cast<int>(count); }
  int rank_ = 0;
  int size_ = 1;
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
