#include "work/overlap.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

namespace unisono::detail {
namespace {

/// Bytes from the first to the last of a view, and which of the tensors it is.
struct Stretch {
  const std::byte* begin;
  const std::byte* end;
  std::size_t index;
};

std::vector<Stretch> byAddress(std::span<const Tensor> tensors) {
  std::vector<Stretch> stretches;
  stretches.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].numel() > 0) {
      const std::span<const std::byte> extent = tensors[i].extent();
      stretches.push_back({extent.data(), extent.data() + extent.size(), i});
    }
  }
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return std::less<>()(a.begin, b.begin); });
  return stretches;
}

/// Those that were passed on the way through memory and reach beyond the place it has come to.
/// Only they can share memory with what begins there.
class Front {
 public:
  explicit Front(std::span<const Tensor> tensors) : tensors_(tensors) {}

  /// Twins are kept once: what shares memory with one shares it with all.
  void pass(const Stretch& stretch) {
    const Tensor& tensor = tensors_[stretch.index];
    const bool twin = std::any_of(open_.begin(), open_.end(), [&](const Stretch& other) {
      return sameView(tensors_[other.index], tensor);
    });
    if (!twin) {
      open_.push_back(stretch);
    }
  }

  /// One that was passed and shares memory with `next`, which begins at `stretch`.
  std::optional<std::size_t> sharing(const Tensor& next, const Stretch& stretch,
                                     bool twinsAllowed) {
    std::erase_if(open_, [&](const Stretch& passed) { return passed.end <= stretch.begin; });
    for (const Stretch& passed : open_) {
      const Tensor& tensor = tensors_[passed.index];
      if (!(twinsAllowed && sameView(tensor, next)) && shareMemory(tensor, next)) {
        return passed.index;
      }
    }
    return std::nullopt;
  }

 private:
  std::span<const Tensor> tensors_;
  std::vector<Stretch> open_;
};

/// Whether a sum of steps, each taken 0 to `most` times, can be a certain number. This is hard in
/// general, but steps that are each about as long as all smaller ones together leave two or three
/// choices at a time.
class Sum {
 public:
  void add(std::int64_t step, std::int64_t most) {
    if (step == 0 || most == 0) {
      return;
    }
    for (Term& term : terms_) {
      if (term.step == step) {
        term.most += most;
        return;
      }
    }
    terms_.push_back({step, most, 0, 0});
  }

  bool canBe(std::int64_t number) {
    std::sort(terms_.begin(), terms_.end(),
              [](const Term& a, const Term& b) { return a.step > b.step; });
    std::int64_t reach = 0;
    std::int64_t divisor = 0;
    for (auto term = terms_.rbegin(); term != terms_.rend(); ++term) {
      term->reach = reach += term->step * term->most;
      term->divisor = divisor = std::gcd(divisor, term->step);
    }
    return canBe(number, 0);
  }

 private:
  struct Term {
    std::int64_t step;
    std::int64_t most;
    std::int64_t reach;    // of this term and all smaller ones
    std::int64_t divisor;  // of them, the greatest
  };

  bool canBe(std::int64_t number, std::size_t from) {
    if (number == 0 || --stepsLeft_ < 0) {
      return true;
    }
    if (from == terms_.size() || number > terms_[from].reach ||
        number % terms_[from].divisor != 0) {
      return false;
    }
    if (from + 1 == terms_.size()) {
      return true;
    }
    const Term& term = terms_[from];
    const std::int64_t rest = number - terms_[from + 1].reach;  // what smaller steps cannot reach
    const std::int64_t least = rest > 0 ? (rest + term.step - 1) / term.step : 0;
    for (std::int64_t times = std::min(term.most, number / term.step); times >= least; --times) {
      if (canBe(number - times * term.step, from + 1)) {
        return true;
      }
    }
    return false;
  }

  std::vector<Term> terms_;
  int stepsLeft_ = kMostSteps;
};

/// Adds the ways through `tensor`, in parts of `unit` bytes that lie side by side in an element.
void addSteps(Sum& sum, const Tensor& tensor, std::int64_t unit) {
  const auto width = static_cast<std::int64_t>(elementSize(tensor.dtype()));
  if (tensor.isContiguous()) {
    sum.add(unit, static_cast<std::int64_t>(tensor.bytes()) / unit - 1);
    return;
  }
  sum.add(unit, width / unit - 1);
  for (std::size_t i = 0; i < tensor.sizes().size(); ++i) {
    sum.add(std::abs(tensor.strides()[i]) * width, tensor.sizes()[i] - 1);
  }
}

/// From the first byte of `a` some steps forward, from the last of `b` some steps back: they meet
/// if these steps together can be the way from the one to the other.
bool stridedMeet(const Tensor& a, const Tensor& b) {
  const std::span<const std::byte> one = a.extent();
  const std::span<const std::byte> other = b.extent();
  const std::int64_t apart = other.data() - one.data();
  const std::int64_t unit = std::gcd(
      apart, static_cast<std::int64_t>(std::gcd(elementSize(a.dtype()), elementSize(b.dtype()))));
  Sum steps;
  addSteps(steps, a, unit);
  addSteps(steps, b, unit);
  return steps.canBe(apart + static_cast<std::int64_t>(other.size()) - unit);
}

}  // namespace

bool sameView(const Tensor& a, const Tensor& b) noexcept {
  return a.data() == b.data() && a.dtype() == b.dtype() && a.numel() == b.numel() &&
         (a.isContiguous() ? b.isContiguous()
                           : a.sizes() == b.sizes() && a.strides() == b.strides());
}

bool shareMemory(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0 || !a.mayOverlap(b)) {
    return false;
  }
  return (a.isContiguous() && b.isContiguous()) || stridedMeet(a, b);
}

std::optional<std::pair<std::size_t, std::size_t>> sharedMemory(std::span<const Tensor> tensors,
                                                                bool twinsAllowed) {
  if (tensors.size() < 2) {
    return std::nullopt;
  }
  Front front(tensors);
  for (const Stretch& next : byAddress(tensors)) {
    const auto other = front.sharing(tensors[next.index], next, twinsAllowed);
    if (other) {
      return std::minmax(*other, next.index);
    }
    front.pass(next);
  }
  return std::nullopt;
}

std::optional<std::pair<std::size_t, std::size_t>> sharedMemory(std::span<const Tensor> inputs,
                                                                std::span<const Tensor> outputs,
                                                                std::size_t except) {
  if (inputs.size() == 1 && outputs.size() == 1) {
    return except != 0 && shareMemory(inputs[0], outputs[0]) ? std::optional(std::pair(0UL, 0UL))
                                                             : std::nullopt;
  }
  const std::vector<Stretch> inputOrder = byAddress(inputs);
  const std::vector<Stretch> outputOrder = byAddress(outputs);
  Front inputFront(inputs);
  Front outputFront(outputs);
  auto output = outputOrder.begin();
  const auto passOutput = [&]() -> std::optional<std::size_t> {
    const auto input = inputFront.sharing(outputs[output->index], *output, false);
    outputFront.pass(*output);
    return input;
  };
  for (const Stretch& input : inputOrder) {
    if (input.index == except) {
      continue;
    }
    for (; output != outputOrder.end() && !std::less<>()(input.begin, output->begin); ++output) {
      if (const auto other = passOutput()) {
        return std::pair(*other, output->index);
      }
    }
    if (const auto other = outputFront.sharing(inputs[input.index], input, false)) {
      return std::pair(input.index, *other);
    }
    inputFront.pass(input);
  }
  for (; output != outputOrder.end(); ++output) {
    if (const auto other = passOutput()) {
      return std::pair(*other, output->index);
    }
  }
  return std::nullopt;
}

}  // namespace unisono::detail
