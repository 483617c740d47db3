// Data-parallel training: every rank has its own data, all learn one model.
//
//   examples/ranks.sh 2 build/release/bin/example_data_parallel
#include <cstdio>
#include <random>
#include <vector>

#include "unisono/unisono.hpp"

namespace {

constexpr std::size_t kInputs = 8;
constexpr std::size_t kSamples = 64;
constexpr float kRate = 0.1F;

/// What is to be learned: y = 1 x0 + 2 x1 + … + 8 x7 + 5.
struct Sample {
  std::vector<float> x;
  float y;
};

std::vector<Sample> samplesOf(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank));  // other ones on each rank
  std::normal_distribution<float> normal;
  std::vector<Sample> samples(kSamples);
  for (Sample& sample : samples) {
    sample.y = 5;
    for (std::size_t i = 0; i < kInputs; ++i) {
      sample.x.push_back(normal(random));
      sample.y += static_cast<float>(i + 1) * sample.x[i];
    }
  }
  return samples;
}

}  // namespace

int main() {
  try {
    unisono::Group world = unisono::init();
    const std::vector<Sample> samples = samplesOf(world.rank());
    std::vector<float> weights(kInputs);
    std::vector<float> bias(1);
    unisono::DataParallel model(
        world, {{unisono::Tensor(weights), "weights"}, {unisono::Tensor(bias), "bias"}});

    for (int step = 0; step <= 100; ++step) {
      model.begin();
      model.zeroGrad();
      const std::span<float> weightsGrad = model.grad<float>(0);
      const std::span<float> biasGrad = model.grad<float>(1);
      float loss = 0;
      for (const Sample& sample : samples) {
        float error = bias[0] - sample.y;
        for (std::size_t i = 0; i < kInputs; ++i) {
          error += weights[i] * sample.x[i];
        }
        for (std::size_t i = 0; i < kInputs; ++i) {
          weightsGrad[i] += 2 * error * sample.x[i] / kSamples;
        }
        biasGrad[0] += 2 * error / kSamples;
        loss += error * error / kSamples;
      }
      model.ready(1);
      model.ready(0);
      model.finish();  // the gradients are averages over all ranks now

      for (std::size_t i = 0; i < kInputs; ++i) {
        weights[i] -= kRate * weightsGrad[i];
      }
      bias[0] -= kRate * biasGrad[0];
      if (world.rank() == 0 && step % 20 == 0) {
        std::printf("step %3d: loss %8.4f\n", step, static_cast<double>(loss));
      }
    }
    std::printf("rank %d of %d has learned:", world.rank(), world.size());
    for (const float weight : weights) {
      std::printf(" %.2f", static_cast<double>(weight));
    }
    std::printf(" and %.2f\n", static_cast<double>(bias[0]));
    return 0;
  } catch (const unisono::DistError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
