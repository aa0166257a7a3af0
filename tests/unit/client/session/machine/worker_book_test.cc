// Tests of how long a consumer remembers workers, and of what it remembers.
#include "client/session/machine/worker_book.h"

#include <catch2/catch.hpp>

namespace millrace::client {
namespace {

constexpr Time kNow{std::chrono::seconds(100)};

WorkerAddress AddressOf(std::uint64_t n) {
  WorkerAddress worker;
  worker.id = WorkerId({1, n});
  return worker;
}

TEST_CASE("members are in the order of the list, each once", "[worker_book]") {
  WorkerBook book;
  book.SetList({AddressOf(3), AddressOf(1), AddressOf(3), AddressOf(2)});
  REQUIRE(book.members().size() == 3);
  CHECK(book.members()[0]->where.id == WorkerId({1, 3}));
  CHECK(book.members()[2]->where.id == WorkerId({1, 2}));
  CHECK(book.Find(WorkerId({1, 2}))->place == 2);
  book.SetList({AddressOf(2)});
  CHECK(book.members().size() == 1);
  CHECK_FALSE(book.Find(WorkerId({1, 3}))->place);
  CHECK(book.all().size() == 3);
}

TEST_CASE("a worker without a stream that is no member is forgotten after ten minutes",
          "[worker_book]") {
  WorkerBook book;
  book.SetList({AddressOf(1), AddressOf(2), AddressOf(3)});
  book.Opened(*book.Find(WorkerId({1, 1})), 1, kNow);
  book.ForgetDead(kNow);
  book.SetList({AddressOf(3)});
  const Time almost = kNow + (WorkerBook::kForgetUnused - Duration(1));
  book.ForgetDead(almost);
  CHECK(book.all().size() == 3);
  book.ForgetDead(kNow + WorkerBook::kForgetUnused);
  CHECK(book.Find(WorkerId({1, 1})) != nullptr);  // it has a stream
  CHECK(book.Find(WorkerId({1, 2})) == nullptr);
  CHECK(book.Find(WorkerId({1, 3})) != nullptr);  // it is a member
}

TEST_CASE("a worker that refused a step is remembered until the loop has passed it",
          "[worker_book]") {
  WorkerBook book;
  book.SetList({AddressOf(1), AddressOf(2)});
  book.Tried(*book.Find(WorkerId({1, 1})), 7, "ValueError");
  book.Refused(*book.Find(WorkerId({1, 2})), DataLoss("damaged"), 6);
  book.ForgetDead(kNow);
  book.SetList({});
  book.ForgetDead(kNow + 2 * WorkerBook::kForgetUnused);
  CHECK(book.all().size() == 2);
  book.ForgetRefusals(6);
  book.ForgetDead(kNow + 2 * WorkerBook::kForgetUnused);
  CHECK(book.Find(WorkerId({1, 1})) != nullptr);
  CHECK(book.Find(WorkerId({1, 2})) == nullptr);
  book.ForgetRefusals(8);
  book.ForgetDead(kNow + 2 * WorkerBook::kForgetUnused);
  CHECK(book.all().empty());
}

TEST_CASE("workers count that could not build a step, each once", "[worker_book]") {
  WorkerBook book;
  book.SetList({AddressOf(1), AddressOf(2)});
  book.Tried(*book.Find(WorkerId({1, 1})), 7, "ValueError");
  book.Tried(*book.Find(WorkerId({1, 1})), 7, "ValueError");
  book.Tried(*book.Find(WorkerId({1, 1})), 8, "ValueError");
  CHECK(book.TriedBy(7) == 1);
  book.Tried(*book.Find(WorkerId({1, 2})), 7, "KeyError");
  CHECK(book.TriedBy(7) == 2);
  CHECK(book.TriedBy(9) == 0);
  book.ForgetRefusals(8);
  CHECK(book.TriedBy(7) == 0);
  CHECK(book.TriedBy(8) == 1);
}

TEST_CASE("a worker fails for 0.5, 1, 2, 4 and then 5 s, and anew after a good batch",
          "[worker_book]") {
  WorkerBook book;
  book.SetList({AddressOf(1)});
  WorkerLink& worker = *book.Find(WorkerId({1, 1}));
  std::vector<double> lasts;
  for (int i = 0; i < 6; ++i) {
    book.Failed(worker, "reset", kNow);
    lasts.push_back(ToSeconds(worker.failing_until - kNow));
  }
  CHECK(lasts == std::vector<double>{0.5, 1, 2, 4, 5, 5});
  CHECK(worker.on_trial());
  book.Proved(worker);
  CHECK(worker.usable(kNow));
  CHECK_FALSE(worker.on_trial());
  book.Failed(worker, "reset", kNow);
  CHECK(ToSeconds(worker.failing_until - kNow) == 0.5);
}

TEST_CASE("a worker that drains may be asked again once a list names it and it has no stream",
          "[worker_book]") {
  WorkerBook book;
  book.SetList({AddressOf(1)});
  WorkerLink& worker = *book.Find(WorkerId({1, 1}));
  book.Opened(worker, 1, kNow);
  worker.drains = true;
  book.SetList({AddressOf(1)});
  CHECK(worker.drains);  // the list may be older than what the worker says
  book.Closed(worker);
  book.SetList({AddressOf(1)});
  CHECK_FALSE(worker.drains);
}

}  // namespace
}  // namespace millrace::client
