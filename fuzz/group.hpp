// Group: ranks of a group in one process, whose memory can be put back to how it was at first.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "unisono/store/hash_store.hpp"

#include "transport/shm/segment.hpp"

namespace unisono::fuzz {

class Group {
 public:
  explicit Group(int ranks) : segments_(static_cast<std::size_t>(ranks)) {
    ::setenv("UNISONO_LOG", "off", 1);
    ::setenv("UNISONO_SPIN_US", "0", 1);
    const auto store = std::make_shared<HashStore>();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([this, store, rank, ranks] {
        segments_[static_cast<std::size_t>(rank)] =
            shm::Segment::form({.store = store,
                                .rank = rank,
                                .size = ranks,
                                .group = "fuzz",
                                .settings = "",
                                .timeout = std::chrono::seconds(60)});
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    snapshot_.assign(bytes(), bytes() + shm::Layout{segments_.size()}.bytes());
  }

  shm::Segment& segment(int rank) { return *segments_[static_cast<std::size_t>(rank)]; }
  std::string cookie() { return {segment(0).header().cookie, sizeof segment(0).header().cookie}; }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(&segment(0).header()); }
  void restore() { std::memcpy(bytes(), snapshot_.data(), snapshot_.size()); }

 private:
  std::vector<std::unique_ptr<shm::Segment>> segments_;
  std::vector<std::byte> snapshot_;
};

}  // namespace unisono::fuzz
