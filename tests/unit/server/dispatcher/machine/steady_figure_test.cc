#include "server/dispatcher/machine/steady_figure.h"

#include <optional>

#include <catch2/catch.hpp>

namespace millrace {
namespace {

/// A figure that is looked at once a second.
struct Looked {
  SteadyFigure figure;
  Time now{std::chrono::seconds(1000)};
  std::uint32_t present = 4;

  std::uint32_t Look(std::optional<double> need, int seconds = 1) {
    for (int i = 0; i < seconds; ++i) {
      now = now + std::chrono::seconds(1);
      figure.Update(now, need, present);
    }
    return figure.workers();
  }
};

TEST_CASE("a figure begins with the workers that are present, and falls after three minutes",
          "[desired_workers]") {
  Looked f;
  CHECK(f.Look(2) == 4);
  CHECK(f.Look(2, 179) == 4);
  CHECK(f.Look(2, 1) == 2);
  CHECK(f.Look(0, 179) == 2);
  CHECK(f.Look(0, 2) == 1);
}

TEST_CASE("a figure rises after a need of 15 s, to what was needed throughout",
          "[desired_workers]") {
  Looked f;
  f.Look(4);
  CHECK(f.Look(8, 5) == 4);
  CHECK(f.Look(6, 10) == 4);
  CHECK(f.Look(6, 1) == 6);
  CHECK(f.Look(8, 5) == 6);
  CHECK(f.Look(8, 11) == 8);
}

TEST_CASE("a peak of less than 15 s changes nothing", "[desired_workers]") {
  Looked f;
  f.Look(4);
  for (int i = 0; i < 20; ++i) {
    CHECK(f.Look(8, 15) == 4);
    CHECK(f.Look(4, 1) == 4);
  }
}

TEST_CASE("a figure falls to the highest need of three minutes", "[desired_workers]") {
  Looked f;
  f.present = 10;
  f.Look(10, 20);
  f.Look(2, 100);
  f.Look(5, 3);
  CHECK(f.Look(2, 76) == 10);
  CHECK(f.Look(2, 3) == 5);
  CHECK(f.Look(2, 99) == 5);
  CHECK(f.Look(2, 5) == 2);
}

TEST_CASE("a need near a whole number of workers does not move a figure", "[desired_workers]") {
  Looked f;
  f.present = 3;
  f.Look(3);
  CHECK(f.Look(3.02, 600) == 3);
  CHECK(f.Look(3.15, 600) == 3);
  CHECK(f.Look(3.16, 16) == 4);
  CHECK(f.Look(2.9, 600) == 4);
  CHECK(f.Look(2.85, 181) == 3);
  CHECK(f.Look(3.02, 600) == 3);
}

TEST_CASE("a figure is at most twice the workers that are present when it rises",
          "[desired_workers]") {
  Looked f;
  CHECK(f.Look(100, 20) == 8);
  f.present = 8;
  CHECK(f.Look(100, 20) == 16);
  Looked none;
  none.present = 0;
  CHECK(none.Look(100, 20) == 1);
}

TEST_CASE("workers that die are asked for until fewer have sufficed", "[desired_workers]") {
  Looked f;
  f.Look(4, 200);
  f.present = 0;
  CHECK(f.Look(4, 100) == 4);
  f.present = 4;
  CHECK(f.Look(4, 100) == 4);
  f.present = 0;
  CHECK(f.Look(4, 182) == 1);
}

TEST_CASE("workers that come back to a new dispatcher count at once", "[desired_workers]") {
  Looked f;
  f.present = 0;
  CHECK(f.Look(std::nullopt) == 1);
  f.present = 9;
  CHECK(f.Look(std::nullopt) == 9);
  CHECK(f.Look(2, 100) == 9);
}

TEST_CASE("a figure stays while its need is not known any more", "[desired_workers]") {
  Looked f;
  f.Look(1, 200);
  REQUIRE(f.figure.workers() == 1);
  CHECK(f.Look(std::nullopt, 20) == 1);  // a trainer begins anew
  f.Look(3, 20);
  CHECK(f.Look(std::nullopt, 600) == 3);
}

TEST_CASE("before a need is known a figure goes to the workers that are present",
          "[desired_workers]") {
  Looked f;
  CHECK(f.Look(std::nullopt, 20) == 4);
  f.present = 6;
  CHECK(f.Look(std::nullopt, 20) == 6);
  f.present = 3;
  CHECK(f.Look(std::nullopt, 100) == 6);
  CHECK(f.Look(std::nullopt, 100) == 3);
}

TEST_CASE("time in which nobody looked is no time in which fewer sufficed", "[desired_workers]") {
  Looked f;
  f.Look(2, 170);
  f.now = f.now + std::chrono::minutes(10);
  CHECK(f.Look(2, 180) == 4);
  CHECK(f.Look(2, 2) == 2);
}

}  // namespace
}  // namespace millrace
