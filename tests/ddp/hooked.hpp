// Trainings with a communication hook, and what becomes of their gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "unisono/ddp/data_parallel.hpp"

#include "group/in_world.hpp"

namespace unisono::test {

/// Of one rank and step, by parameter.
template <typename T>
using Gradients = std::vector<std::vector<T>>;
/// By rank and step.
template <typename T>
using Trained = std::vector<std::vector<Gradients<T>>>;

/// Numbers between -1 and 1, others for each rank, step and parameter.
template <typename T>
std::vector<T> someNumbers(std::size_t count, int rank, int step, std::size_t param) {
  std::mt19937 engine(static_cast<unsigned>(1000 * rank + 10 * step) +
                      static_cast<unsigned>(param));
  std::vector<T> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<T>(static_cast<float>(engine() >> 8U) * 0x1p-23F - 1.0F));
  }
  return numbers;
}

template <typename T>
struct HookedTraining {
  using Hook = std::function<std::shared_ptr<CommHook>(const Group&)>;
  using Gradient = std::function<std::vector<T>(int rank, int step, std::size_t param)>;

  std::vector<Dims> shapes;
  Hook hook;
  int ranks = 3;
  int steps = 1;
  std::size_t bucketBytes = 1;  // each parameter has a bucket of its own
  Gradient gradient = {};       // else someNumbers()

  std::vector<T> given(int rank, int step, std::size_t param) const {
    std::int64_t count = 1;
    for (const std::int64_t size : shapes[param]) {
      count *= size;
    }
    return gradient ? gradient(rank, step, param)
                    : someNumbers<T>(static_cast<std::size_t>(count), rank, step, param);
  }

  Trained<T> run() const {
    Trained<T> seen(static_cast<std::size_t>(ranks));
    inWorld(ranks, [&](Group world) {
      Gradients<T> values;
      std::vector<Param> params;
      for (std::size_t param = 0; param < shapes.size(); ++param) {
        values.push_back(std::vector<T>(given(0, 0, param).size()));
        params.push_back({Tensor(values.back().data(), kDType<T>, shapes[param]), {}});
      }
      DataParallel model(world, params, {.bucketBytesCapList = {bucketBytes}});
      model.reducer().registerCommHook(hook(world));
      for (int step = 0; step < steps; ++step) {
        seen[static_cast<std::size_t>(world.rank())].push_back(makeStep(model, world.rank(), step));
      }
    });
    return seen;
  }

 private:
  Gradients<T> makeStep(DataParallel& model, int rank, int step) const {
    model.begin();
    for (std::size_t param = shapes.size(); param-- > 0;) {
      const std::vector<T> mine = given(rank, step, param);
      std::copy(mine.begin(), mine.end(), model.grad<T>(param).begin());
      model.ready(param);
    }
    model.finish();
    Gradients<T> all;
    for (std::size_t param = 0; param < shapes.size(); ++param) {
      const std::span<T> now = model.grad<T>(param);
      all.emplace_back(now.begin(), now.end());
    }
    return all;
  }
};

/// Whether all ranks have the same bits.
template <typename T>
bool isTheSameEverywhere(const Trained<T>& trained) {
  for (const auto& steps : trained) {
    for (std::size_t step = 0; step < steps.size(); ++step) {
      for (std::size_t param = 0; param < steps[step].size(); ++param) {
        const std::vector<T>& first = trained[0][step][param];
        if (!first.empty() &&
            std::memcmp(steps[step][param].data(), first.data(), first.size() * sizeof(T)) != 0) {
          return false;
        }
      }
    }
  }
  return true;
}

/// How far they are apart where that is most; infinite where one is NaN.
template <typename T>
double farthest(const std::vector<T>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double apart = std::abs(static_cast<double>(a[i]) - b[i]);
    most = std::max(most, std::isnan(apart) ? INFINITY : apart);
  }
  return most;
}

/// The average over all ranks of what they gave.
template <typename T>
std::vector<double> averageOf(const HookedTraining<T>& training, int step, std::size_t param) {
  std::vector<double> sum(training.given(0, step, param).size());
  for (int rank = 0; rank < training.ranks; ++rank) {
    const std::vector<T> mine = training.given(rank, step, param);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += static_cast<double>(mine[i]) / training.ranks;
    }
  }
  return sum;
}

}  // namespace unisono::test
