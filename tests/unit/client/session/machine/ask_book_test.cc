#include "client/session/machine/ask_book.h"

#include <catch2/catch.hpp>

namespace millrace::client {
namespace {

constexpr WorkerId kFirstWorker({1, 1});
constexpr WorkerId kSecondWorker({1, 2});

/// A book of epochs of 10 steps.
AskBook TenSteps() {
  return AskBook([](std::uint64_t step) { return step % 10 == 0; });
}

void Add(AskBook& book, std::uint64_t step, WorkerId worker, AskKind kind = AskKind::kFirst,
         bool shared = false) {
  book.Add(step, {.worker = worker, .asked = {}, .due = {}, .kind = kind, .shared = shared});
}

TEST_CASE("a step that is asked of a worker takes a slot until it is built", "[ask_book]") {
  AskBook book = TenSteps();
  for (std::uint64_t step = 0; step < 4; ++step) Add(book, step, kFirstWorker);
  CHECK(book.Of(kFirstWorker).open == 4);
  book.Tell(kFirstWorker, {0, 2}, {});
  CHECK(book.Of(kFirstWorker).open == 2);
  CHECK(book.Find(0)->is_built());
  CHECK_FALSE(book.Find(1)->is_built());
  book.Tell(kFirstWorker, {0, 2}, {});  // the same once more
  CHECK(book.Of(kFirstWorker).open == 2);
  book.Tell(kFirstWorker, {2}, {});  // it has had to forget one
  CHECK(book.Of(kFirstWorker).open == 3);
  book.Comes(1, kFirstWorker);
  book.Comes(1, kFirstWorker);
  CHECK(book.Of(kFirstWorker).open == 2);
  for (std::uint64_t step = 0; step < 4; ++step) book.Arrived(step);
  CHECK(book.Of(kFirstWorker).open == 0);
  CHECK(book.Of(kFirstWorker).steps.empty());
  CHECK(book.steps().empty());
}

TEST_CASE("a step that a twin asked for takes no slot as long as the twin does", "[ask_book]") {
  AskBook book = TenSteps();
  Add(book, 3, kFirstWorker, AskKind::kMoved, /*shared=*/true);
  CHECK(book.Of(kFirstWorker).open == 0);
  book.Tell(kFirstWorker, {}, {3});
  CHECK(book.Of(kFirstWorker).open == 0);
  book.Tell(kFirstWorker, {}, {});
  CHECK(book.Of(kFirstWorker).open == 1);
  book.Tell(kFirstWorker, {3}, {});
  CHECK(book.Of(kFirstWorker).open == 0);
  book.Arrived(3);
  CHECK(book.Of(kFirstWorker).open == 0);
}

TEST_CASE("runs are counted over gaps and the ends of epochs", "[ask_book]") {
  AskBook book = TenSteps();
  Add(book, 4, kFirstWorker);
  Add(book, 6, kFirstWorker);
  CHECK(book.Of(kFirstWorker).runs == 2);
  Add(book, 5, kFirstWorker);
  CHECK(book.Of(kFirstWorker).runs == 1);
  Add(book, 9, kFirstWorker);
  Add(book, 10, kFirstWorker);
  CHECK(book.Of(kFirstWorker).runs == 3);
  Add(book, 11, kFirstWorker);
  CHECK(book.Of(kFirstWorker).runs == 3);
  book.Arrived(5);
  CHECK(book.Of(kFirstWorker).runs == 4);
  book.Arrived(4);
  CHECK(book.Of(kFirstWorker).runs == 3);
  book.Arrived(10);
  CHECK(book.Of(kFirstWorker).runs == 3);
  for (const std::uint64_t step : {6, 9, 11}) book.Arrived(step);
  CHECK(book.Of(kFirstWorker).runs == 0);
}

TEST_CASE("a step that is taken back is free once nobody else is asked", "[ask_book]") {
  AskBook book = TenSteps();
  Add(book, 0, kFirstWorker);
  Add(book, 0, kSecondWorker, AskKind::kCopy);
  CHECK_FALSE(book.free().IsFree(0));
  CHECK(book.TakeBack(0, kFirstWorker));
  CHECK_FALSE(book.TakeBack(0, kFirstWorker));
  CHECK_FALSE(book.free().IsFree(0));
  REQUIRE(book.Find(0)->all().size() == 1);
  CHECK(book.Find(0)->all()[0].worker == kSecondWorker);
  CHECK(book.TakeBack(0, kSecondWorker));
  CHECK(book.free().IsFree(0));
  CHECK(book.Find(0) == nullptr);
}

TEST_CASE("all that a worker is asked for is taken back at once", "[ask_book]") {
  AskBook book = TenSteps();
  for (std::uint64_t step = 0; step < 3; ++step) Add(book, step, kFirstWorker);
  Add(book, 1, kSecondWorker, AskKind::kCopy);
  CHECK(book.TakeBackAll(kFirstWorker) == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(book.Of(kFirstWorker).steps.empty());
  CHECK(book.free().At(0) == 0);
  CHECK(book.free().At(1) == 2);
  CHECK(book.TakeBackAll(kFirstWorker).empty());
}

TEST_CASE("a step that has come is asked of nobody any more, and is not free", "[ask_book]") {
  AskBook book = TenSteps();
  Add(book, 0, kFirstWorker);
  Add(book, 0, kSecondWorker, AskKind::kCopy);
  const StepAsks ended = book.Arrived(0);
  REQUIRE(ended.all().size() == 2);
  CHECK(ended.all()[1].kind == AskKind::kCopy);
  CHECK(book.Of(kFirstWorker).open + book.Of(kSecondWorker).open == 0);
  CHECK_FALSE(book.free().IsFree(0));
  CHECK(book.Arrived(1).all().empty());  // one that nobody was asked for
  CHECK(book.free().At(0) == 2);
}

TEST_CASE("asks are counted by kind, also once they have ended", "[ask_book]") {
  AskBook book = TenSteps();
  Add(book, 0, kFirstWorker);
  Add(book, 0, kSecondWorker, AskKind::kCopy);
  book.Arrived(0);
  Add(book, 1, kFirstWorker, AskKind::kMoved, true);
  CHECK(book.made(AskKind::kFirst) == 1);
  CHECK(book.made(AskKind::kCopy) == 1);
  CHECK(book.made(AskKind::kMoved) == 1);
  CHECK(book.made() == 3);
}

TEST_CASE("no step is later for time in which the process stood still", "[ask_book]") {
  AskBook book = TenSteps();
  Add(book, 0, kFirstWorker);
  book.StoodStill(std::chrono::seconds(60));
  CHECK(book.Find(0)->all()[0].due == Time{std::chrono::seconds(60)});
}

}  // namespace
}  // namespace millrace::client
