#include "unisono/ddp/broadcast_coalesced.hpp"

#include <deque>
#include <utility>
#include <vector>

#include "unisono/ddp/bucket_assignment.hpp"

#include "base/check.hpp"
#include "ddp/memory.hpp"
#include "tensor/strided.hpp"

namespace unisono {
namespace {

constexpr std::size_t kMostUnderWay = 2;

/// Tensors that travel together.
class Piece {
 public:
  Piece(std::vector<Tensor> parts, bool gives) : parts_(std::move(parts)), gives_(gives) {
    travelsAsItIs_ = parts_.size() == 1 && parts_[0].isContiguous();
    std::int64_t count = 0;
    for (const Tensor& part : parts_) {
      count += part.numel();
    }
    row_ = travelsAsItIs_ ? parts_[0] : ddp::ordinaryMemory(count, parts_[0].dtype());
  }

  bool empty() const { return row_.numel() == 0; }

  void start(ProcessGroup& group, int root) {
    if (gives_ && !travelsAsItIs_) {
      auto* to = row_.dataAs<std::byte>();
      for (const Tensor& part : parts_) {
        pack(to, part);
        to += part.bytes();
      }
    }
    work_ = group.broadcast(row_, {.rootRank = root});
  }

  void land() {
    work_->wait();
    if (gives_ || travelsAsItIs_) {
      return;
    }
    const auto* from = row_.dataAs<const std::byte>();
    for (const Tensor& part : parts_) {
      unpack(part, from);
      from += part.bytes();
    }
  }

 private:
  std::vector<Tensor> parts_;
  const bool gives_;
  bool travelsAsItIs_ = false;
  Tensor row_;
  WorkPtr work_;
};

}  // namespace

void broadcastCoalesced(const Group& group, std::span<const Tensor> tensors,
                        std::size_t bufferBytes, int root) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    UNISONO_CHECK(tensors[i].defined(), "tensor ", i, " of a broadcast is none");
    UNISONO_CHECK(!tensors[i].overlapsItself(), "tensor ", i, " of a broadcast, ",
                  tensors[i].describe(), ", has two elements in one place");
  }
  UNISONO_CHECK(root >= 0 && root < group.size(), "rank ", root,
                " cannot be the root in a group of ", group.size());
  if (tensors.empty()) {
    return;
  }
  const std::size_t limits[] = {bufferBytes};
  std::deque<Piece> underWay;
  for (const std::vector<std::size_t>& bucket :
       computeBucketAssignmentBySize(tensors, limits).buckets) {
    std::vector<Tensor> parts;
    for (const std::size_t index : bucket) {
      parts.push_back(tensors[index]);
    }
    Piece piece(std::move(parts), group.rank() == root);
    if (piece.empty()) {
      continue;
    }
    if (underWay.size() == kMostUnderWay) {
      underWay.front().land();
      underWay.pop_front();
    }
    underWay.push_back(std::move(piece));
    underWay.back().start(group.processGroup(), root);
  }
  for (Piece& piece : underWay) {
    piece.land();
  }
}

}  // namespace unisono
