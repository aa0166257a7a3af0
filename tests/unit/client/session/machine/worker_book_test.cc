// Tests of how long a consumer remembers workers, and of what it remembers.
#include <catch2/catch.hpp>

#include "client/session/machine/worker_book.h"

namespace millrace::client {
namespace {

const auto kNobodyNeeds = [](const WorkerLink&) { return false; };

WorkerAddress AddressOf(std::uint64_t n) {
  WorkerAddress worker;
  worker.id = {1, n};
  return worker;
}

TEST_CASE("workers that drained are forgotten once they have no stream", "[worker_book]") {
  WorkerBook book;
  const Time now{std::chrono::seconds(100)};
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    WorkerLink& link = book.Learn(AddressOf(n));
    book.Opened(link, n, now);
    link.drains = true;
    book.ForgetDead(kNobodyNeeds, now);
    CHECK(book.Find(link.where.id) != nullptr);
    book.Closed(link);
    book.ForgetDead(kNobodyNeeds, now);
  }
  CHECK(book.all().empty());
}

TEST_CASE("a worker that failed is remembered for ten minutes, and for longer where it is needed",
          "[worker_book]") {
  WorkerBook book;
  const Time now{std::chrono::seconds(100)};
  book.Failed(book.Learn(AddressOf(1)), "cut off", now);
  book.ForgetDead(kNobodyNeeds, now + WorkerBook::kForgetAfter);
  CHECK(book.all().size() == 1);
  const Time later = now + WorkerBook::kFirstBackoff + WorkerBook::kForgetAfter;
  book.ForgetDead([](const WorkerLink&) { return true; }, later);
  CHECK(book.all().size() == 1);
  book.ForgetDead(kNobodyNeeds, later);
  CHECK(book.all().empty());
}

TEST_CASE("a worker that nothing came of, good or bad, is forgotten after a day", "[worker_book]") {
  WorkerBook book;
  const Time now{std::chrono::seconds(100)};
  book.Opened(book.Learn(AddressOf(1)), 1, now);
  book.Learn(AddressOf(2));
  book.ForgetDead(kNobodyNeeds, now);
  book.ForgetDead(kNobodyNeeds, now + WorkerBook::kForgetUnused);
  CHECK(book.Find({1, 1}) != nullptr);  // its stream is open
  CHECK(book.Find({1, 2}) == nullptr);
  book.Closed(*book.Find({1, 1}));
  book.ForgetDead(kNobodyNeeds, now + (2 * WorkerBook::kForgetUnused - Duration(1)));
  CHECK(book.all().size() == 1);
  book.ForgetDead(kNobodyNeeds, now + 2 * WorkerBook::kForgetUnused);
  CHECK(book.all().empty());
}

}  // namespace
}  // namespace millrace::client
