#include "tensor/strided.hpp"

#include <cstring>
#include <span>
#include <vector>

namespace unisono {
namespace {

/// One dimension, in bytes.
struct Axis {
  std::int64_t size;
  std::ptrdiff_t stride;
};

/// The dimensions of a view, outermost first: without those of size 1, and with neighbours that
/// one step can walk made one. The innermost is made of single elements.
std::vector<Axis> axesOf(const Tensor& view) {
  const auto width = static_cast<std::int64_t>(elementSize(view.dtype()));
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < view.sizes().size(); ++i) {
    const Axis axis{view.sizes()[i], view.strides()[i] * width};
    if (axis.size == 1) {
      continue;
    }
    if (!axes.empty() && axes.back().stride == axis.stride * axis.size) {
      axes.back() = {axes.back().size * axis.size, axis.stride};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

/// Copies `count` elements of a width known to the compiler, each `toStep` and `fromStep` bytes on.
template <std::size_t Width>
void copyElements(std::byte* to, std::ptrdiff_t toStep, const std::byte* from,
                  std::ptrdiff_t fromStep, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * toStep, from + i * fromStep, Width);
  }
}

using CopyElements = void (*)(std::byte*, std::ptrdiff_t, const std::byte*, std::ptrdiff_t,
                              std::int64_t);

CopyElements copierOf(std::size_t width) {
  switch (width) {
    case 1:
      return copyElements<1>;
    case 2:
      return copyElements<2>;
    case 4:
      return copyElements<4>;
    case 8:
      return copyElements<8>;
    default:
      return copyElements<16>;
  }
}

/// Calls `row(offset)` with the offset in bytes of every innermost row, in C order.
template <typename Row>
void walk(std::span<const Axis> outer, Row row) {
  std::int64_t rows = 1;
  for (const Axis& axis : outer) {
    rows *= axis.size;
  }
  std::vector<std::int64_t> at(outer.size(), 0);
  std::ptrdiff_t offset = 0;
  for (; rows > 0; --rows) {
    row(offset);
    for (std::size_t axis = outer.size(); axis-- > 0;) {  // as the hands of a clock
      offset += outer[axis].stride;
      if (++at[axis] < outer[axis].size) {
        break;
      }
      offset -= outer[axis].size * outer[axis].stride;
      at[axis] = 0;
    }
  }
}

/// Calls `copy(offset in the view, offset in the row, elements, stride)` for every innermost row.
template <typename Copy>
void forEachRow(const Tensor& view, Copy copy) {
  const std::vector<Axis> axes = axesOf(view);
  const auto width = static_cast<std::ptrdiff_t>(elementSize(view.dtype()));
  const Axis inner = axes.empty() ? Axis{1, width} : axes.back();
  const std::size_t outer = axes.empty() ? 0 : axes.size() - 1;
  std::ptrdiff_t packed = 0;
  walk(std::span(axes).first(outer), [&](std::ptrdiff_t offset) {
    copy(offset, packed, inner.size, inner.stride);
    packed += inner.size * width;
  });
}

}  // namespace

void pack(std::byte* to, const Tensor& from) {
  const auto* data = from.dataAs<const std::byte>();
  if (from.numel() == 0) {
    return;
  }
  if (from.isContiguous()) {
    std::memcpy(to, data, from.bytes());
    return;
  }
  const auto width = static_cast<std::ptrdiff_t>(elementSize(from.dtype()));
  const CopyElements copy = copierOf(elementSize(from.dtype()));
  forEachRow(from, [&](std::ptrdiff_t offset, std::ptrdiff_t packed, std::int64_t count,
                       std::ptrdiff_t stride) {
    if (stride == width) {
      std::memcpy(to + packed, data + offset, static_cast<std::size_t>(count * width));
    } else {
      copy(to + packed, width, data + offset, stride, count);
    }
  });
}

void unpack(const Tensor& to, const std::byte* from) {
  auto* data = to.dataAs<std::byte>();
  if (to.numel() == 0) {
    return;
  }
  if (to.isContiguous()) {
    std::memcpy(data, from, to.bytes());
    return;
  }
  const auto width = static_cast<std::ptrdiff_t>(elementSize(to.dtype()));
  const CopyElements copy = copierOf(elementSize(to.dtype()));
  forEachRow(to, [&](std::ptrdiff_t offset, std::ptrdiff_t packed, std::int64_t count,
                     std::ptrdiff_t stride) {
    if (stride == width) {
      std::memcpy(data + offset, from + packed, static_cast<std::size_t>(count * width));
    } else {
      copy(data + offset, stride, from + packed, width, count);
    }
  });
}

}  // namespace unisono
