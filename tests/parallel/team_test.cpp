// Every chunk exactly once, stages in order, and nobody left behind, with more threads than cores too.
#include "parallel/team.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

using namespace quern;

TEST_CASE("each chunk is done exactly once, and a stage sees all of the stage before") {
  for (const int n_threads : {1, 2, 3, 8}) {
    std::vector<int> done(97, 0), sums(50, 0);
    bool in_order = true;
    run_team(n_threads, [&](Worker& worker) {
      for (int stage = 0; stage < 400; ++stage) {
        worker.for_chunks(done.size(), [&](size_t i) {
          if (done[i] != stage) in_order = false;
          ++done[i];
        });
        worker.for_chunks(0, [&](size_t) { in_order = false; });
        worker.for_chunks(1, [&](size_t) {
          for (const int d : done) in_order &= d == stage + 1;
        });
      }
    });
    INFO(n_threads << " threads");
    CHECK(in_order);
    for (const int d : done) REQUIRE(d == 400);
  }
}

TEST_CASE("a worker that is held up outside a chunk does not hold up the others") {
  std::atomic<int> n_done{0};
  std::atomic<bool> late_saw_all{false};
  run_team(2, [&](Worker& worker) {
    if (worker.index() == 1) {
      while (n_done.load() < 1000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      late_saw_all = true;
    }
    for (int stage = 0; stage < 100; ++stage) worker.for_chunks(10, [&](size_t) { ++n_done; });
  });
  CHECK(late_saw_all.load());
  CHECK(n_done.load() == 1000);
}
