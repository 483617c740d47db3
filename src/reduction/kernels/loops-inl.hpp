// The loops of every kernel, for the instruction set that is being compiled.
//
// A kernel is put together from three parts, each a few lines:
//
//   Codec   how elements lie in memory and in vectors: load and store, of a whole vector or of
//           fewer elements
//   Op      what becomes of two vectors
//   Finish  what happens to the result before it is stored, once
//
// Every element goes through the same operations in the same order whatever the loop, the width of
// the vectors and the place of the element, so all instruction sets give the same bits.
//
// Included once for each instruction set (hwy/foreach_target.h), hence the guard.
#include <cstddef>
#include <hwy/highway.h>

#if defined(UNISONO_REDUCTION_LOOPS) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_REDUCTION_LOOPS
#undef UNISONO_REDUCTION_LOOPS
#else
#define UNISONO_REDUCTION_LOOPS
#endif

HWY_BEFORE_NAMESPACE();
namespace unisono::kernels::HWY_NAMESPACE {

template <class Codec, class Op, class Finish>
class Loops {
 public:
  /// A Kernel. Whole vectors are taken from the start; the last one ends with the last element and
  /// may overlap the one before it. It is computed first, while the sources are what they were,
  /// and stored last.
  static HWY_NOINLINE void run(std::byte* const* into, std::size_t intoCount,
                               const std::byte* const* sources, std::size_t sourceCount,
                               std::size_t elements, double number) {
    const Finish finish(number);
    const Target target{into, intoCount};
    const std::size_t step = stepBytes();
    const std::size_t bytes = elements * Codec::kElementBytes;
    if (bytes < step) {
      few(target, sources, sourceCount, bytes, finish);
      return;
    }
    const std::size_t end = bytes - step;
    const V last = finish(combine(sources, sourceCount, end));
    if (sourceCount == 2 && intoCount == 1) {
      two(into[0], sources[0], sources[1], end, finish);
    } else {
      several(target, sources, sourceCount, end, finish);
    }
    target.store(last, end);
  }

 private:
  using V = typename Codec::V;

  struct Target {
    std::byte* const* into;
    std::size_t count;

    HWY_INLINE void store(V value, std::size_t at) const {
      for (std::size_t i = 0; i < count; ++i) {
        Codec::store(value, into[i] + at);
      }
    }
  };

  static HWY_INLINE std::size_t stepBytes() { return Codec::lanes() * Codec::kElementBytes; }

  /// One vector of the result, before Finish.
  static HWY_INLINE V combine(const std::byte* const* sources, std::size_t count, std::size_t at) {
    V result = Codec::load(sources[0] + at);
    for (std::size_t i = 1; i < count; ++i) {
      result = Op::apply(result, Codec::load(sources[i] + at));
    }
    return result;
  }

  /// Less than one vector.
  static HWY_INLINE void few(const Target& target, const std::byte* const* sources,
                             std::size_t count, std::size_t bytes, const Finish& finish) {
    if (bytes == 0) {
      return;
    }
    V result = Codec::loadFew(sources[0], bytes);
    for (std::size_t i = 1; i < count; ++i) {
      result = Op::apply(result, Codec::loadFew(sources[i], bytes));
    }
    result = finish(result);
    for (std::size_t i = 0; i < target.count; ++i) {
      Codec::storeFew(result, target.into[i], bytes);
    }
  }

  /// The vectors that begin before `end`, of two sources.
  static HWY_INLINE void two(std::byte* into, const std::byte* a, const std::byte* b,
                             std::size_t end, const Finish& finish) {
    const std::size_t step = stepBytes();
    std::size_t at = 0;
    for (; at + 4 * step <= end; at += 4 * step) {
      const std::size_t at1 = at + step;
      const std::size_t at2 = at1 + step;
      const std::size_t at3 = at2 + step;
      const V r0 = finish(Op::apply(Codec::load(a + at), Codec::load(b + at)));
      const V r1 = finish(Op::apply(Codec::load(a + at1), Codec::load(b + at1)));
      const V r2 = finish(Op::apply(Codec::load(a + at2), Codec::load(b + at2)));
      const V r3 = finish(Op::apply(Codec::load(a + at3), Codec::load(b + at3)));
      Codec::store(r0, into + at);
      Codec::store(r1, into + at1);
      Codec::store(r2, into + at2);
      Codec::store(r3, into + at3);
    }
    for (; at < end; at += step) {
      Codec::store(finish(Op::apply(Codec::load(a + at), Codec::load(b + at))), into + at);
    }
  }

  /// The same of any number of sources: one pass, four vectors under way. With many sources, too:
  /// to add up a block of one source after the other was never faster, from memory half as fast.
  static HWY_INLINE void several(const Target& target, const std::byte* const* sources,
                                 std::size_t count, std::size_t end, const Finish& finish) {
    const std::size_t step = stepBytes();
    std::size_t at = 0;
    for (; at + 4 * step <= end; at += 4 * step) {
      const std::byte* from = sources[0] + at;
      V r0 = Codec::load(from);
      V r1 = Codec::load(from + step);
      V r2 = Codec::load(from + 2 * step);
      V r3 = Codec::load(from + 3 * step);
      for (std::size_t i = 1; i < count; ++i) {
        from = sources[i] + at;
        r0 = Op::apply(r0, Codec::load(from));
        r1 = Op::apply(r1, Codec::load(from + step));
        r2 = Op::apply(r2, Codec::load(from + 2 * step));
        r3 = Op::apply(r3, Codec::load(from + 3 * step));
      }
      target.store(finish(r0), at);
      target.store(finish(r1), at + step);
      target.store(finish(r2), at + 2 * step);
      target.store(finish(r3), at + 3 * step);
    }
    for (; at < end; at += step) {
      target.store(finish(combine(sources, count, at)), at);
    }
  }
};

}  // namespace unisono::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
