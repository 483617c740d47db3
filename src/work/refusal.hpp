// Refusal: what validate() asks of the tensors of a call, with the sentences for who gets it wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "unisono/work/collective_args.hpp"

namespace unisono::detail {

/// One call that is being looked at: the arguments, and who makes it.
struct Call {
  const CollectiveArgs& args;
  int rank;
  int size;

  std::size_t ranks() const noexcept { return static_cast<std::size_t>(size); }
  std::size_t self() const noexcept { return static_cast<std::size_t>(rank); }
};

using Tensors = std::span<const Tensor>;

/// Throws UsageError: "all_reduce refused: <why>".
[[noreturn]] void refuse(const Call& call, std::string why, std::string hint = {});

/// "(2, 3)", as PyTorch writes a shape.
std::string shapeText(const Tensor& tensor);
/// "float32", "float32 on cuda:0".
std::string typeText(const Tensor& tensor);

/// Whether dtype and device are the same; all CPU devices are one.
bool sameDevice(const Tensor& a, const Tensor& b) noexcept;
bool sameType(const Tensor& a, const Tensor& b) noexcept;

void requireDefined(const Call& call, Tensors tensors);
void requireRoot(const Call& call);
void requireRootTensor(const Call& call, Tensors tensors);
/// Every tensor has the type (and size) of `like`; `offset` is added to the index in the text.
void requireType(const Call& call, Tensors tensors, const Tensor& like, std::size_t offset = 0);
void requireTypeAndSizes(const Call& call, Tensors tensors, const Tensor& like,
                         std::size_t offset = 0);
/// All on one device, or the sentence `text`.
void requireOneDevice(const Call& call, Tensors tensors, const Tensor& like,
                      const char* text = "tensors should be on the same device");
/// The reduction is defined for elements of this type.
void requireReducible(const Call& call, DType type);
/// `many.numel() == ranks * one.numel()`, or the sentence `text`.
void requireShares(const Call& call, const Tensor& one, const Tensor& many, const char* text);
/// The elements of all together, and their bytes, are countable.
void requireCountable(const Call& call, Tensors tensors);

/// No output has two elements in one place, and no two outputs share memory; with `twins` the same
/// view may occur several times, since the same is written to it.
enum class Twins : std::uint8_t { REFUSED, ALLOWED };
void requireWritable(const Call& call, Tensors outputs, Twins twins = Twins::REFUSED);
/// Inputs share no memory with outputs, except the pair `own`, which may be one view.
inline constexpr std::size_t kNone = static_cast<std::size_t>(-1);
void requireApart(const Call& call, Tensors inputs, Tensors outputs, std::size_t ownInput = kNone,
                  std::size_t ownOutput = kNone);
/// `one` shares no memory with `many`, or is exactly share `rank` of it.
void requireOwnShare(const Call& call, const Tensor& one, const Tensor& many);

}  // namespace unisono::detail
