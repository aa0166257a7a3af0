// Builds batches in slices, on several threads, and compares them with those of one thread.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/batch/batch.h"
#include "server/plan/plan.h"

namespace millrace::test {

using Scratches = std::vector<std::unique_ptr<BatchScratch>>;

inline Scratches ScratchesOf(const Plan& plan, std::size_t threads) {
  Scratches scratches;
  for (std::size_t i = 0; i < threads; ++i) scratches.push_back(plan.NewScratch());
  return scratches;
}

/// Builds a batch in slices of `size` rows, which threads take in an order that `seed` decides.
/// Without a seed the first thread takes the first ones and the last one the last ones.
inline Result<std::shared_ptr<const PackedBatch>> BuildInSlices(
    const Plan& plan, std::uint64_t epoch, ExampleRange units, std::size_t size,
    Scratches& scratches, std::uint64_t seed = 0) {
  auto begun = plan.BeginSlices(epoch, units, *scratches.front());
  if (!begun.ok()) return begun.status();
  SlicedBatch& batch = **begun;
  std::vector<std::size_t> firsts;
  for (std::size_t first = 0; first < batch.rows(); first += size) firsts.push_back(first);
  if (seed > 0) std::shuffle(firsts.begin(), firsts.end(), std::minstd_rand(seed));
  std::atomic<std::size_t> next{0};
  const auto work = [&](BatchScratch& scratch) {
    for (std::size_t i = next++; i < firsts.size(); i = next++) {
      batch.Build(firsts[i], std::min(size, batch.rows() - firsts[i]), scratch);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < scratches.size(); ++i) {
    threads.emplace_back([&, i] { work(*scratches[i]); });
  }
  work(*scratches.front());
  for (std::thread& thread : threads) thread.join();
  return batch.Join(*scratches.back());
}

/// Checks that batches of some units each have the same bytes, in slices of these sizes, on several
/// threads, as if one thread builds them. Returns how many examples of them were dropped.
inline std::size_t CheckSlices(const Plan& plan, std::uint32_t units_of_batch,
                               const std::vector<std::size_t>& sizes, std::uint64_t epochs = 2) {
  REQUIRE(plan.by_row());
  const auto alone = plan.NewScratch();
  Scratches scratches = ScratchesOf(plan, 3);
  const std::uint64_t units = plan.planned_order().order->units();
  std::size_t dropped = 0;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::uint64_t first = 0; first < units; first += units_of_batch) {
      const ExampleRange range{first, static_cast<std::uint32_t>(
                                          std::min<std::uint64_t>(units_of_batch, units - first))};
      const auto whole = plan.Batch(epoch, range, *alone);
      INFO(whole.status().message());
      REQUIRE(whole.ok());
      dropped += (*whole)->info().dropped.size();
      for (const std::size_t size : sizes) {
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
          const auto sliced = BuildInSlices(plan, epoch, range, size, scratches, seed);
          INFO("units from " << first << ", slices of " << size << ", seed " << seed << ": "
                             << sliced.status().message());
          REQUIRE(sliced.ok());
          REQUIRE((*sliced)->digest() == (*whole)->digest());
          REQUIRE(std::ranges::equal((*sliced)->bytes(), (*whole)->bytes()));
        }
      }
    }
  }
  return dropped;
}

}  // namespace millrace::test
