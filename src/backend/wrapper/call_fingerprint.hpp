// CallFingerprint: what a rank tells the others of a collective before it begins.
//
// It travels as a row of whole numbers that is as long for every call, so that one round is
// enough. A call with so many tensors that they do not fit is told apart by the hash of all of
// them; texts are then about those that did fit.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "unisono/tensor/tensor.hpp"
#include "unisono/work/collective_args.hpp"

namespace unisono {

class CallFingerprint {
 public:
  using Words = std::array<std::int64_t, 64>;

  /// Of the call that is collective number `seq`.
  CallFingerprint(const CollectiveArgs& args, std::uint64_t seq);
  /// What another rank has told; may be anything.
  explicit CallFingerprint(const Words& told);

  const Words& words() const noexcept { return words_; }
  bool operator==(const CallFingerprint& other) const noexcept { return words_ == other.words_; }

  /// "CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[20, 10],
  /// TensorDtypes=Float, TensorDeviceTypes=cpu, ReduceOp=SUM)"
  std::string describe() const;
  /// "Op type: ALLREDUCE vs BROADCAST, Tensor shapes: [20, 10] vs [10, 20]"
  std::string differences(const CallFingerprint& other) const;

 private:
  struct Print {
    DType type;
    DeviceType device;
    Dims sizes;
  };
  static std::vector<Print> printsOf(const CollectiveArgs& args);
  void readTensors();
  std::string opText() const;
  std::string reductionText() const;
  std::string tensorsText() const;

  Words words_ = {};
  std::vector<Print> tensors_ = {};  // those that fit into the words
};

}  // namespace unisono
