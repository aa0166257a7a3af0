#include "client/session/machine/worker_list.h"

#include <catch2/catch.hpp>

namespace millrace::client {
namespace {

constexpr Time kListed{std::chrono::seconds(100)};

v1::WorkerList ListOf(std::uint64_t number, const std::vector<std::uint64_t>& workers) {
  v1::WorkerList list;
  list.set_number(number);
  for (const std::uint64_t n : workers) ToProto(WorkerId({1, n}), list.add_workers()->mutable_id());
  return list;
}

std::vector<std::uint64_t> Members(const WorkerList& list) {
  std::vector<std::uint64_t> members;
  for (const WorkerAddress& worker : list.Members()) members.push_back(worker.id.number().n);
  return members;
}

using Numbers = std::vector<std::uint64_t>;

TEST_CASE("a list replaces the one before, and an older one changes nothing", "[worker_list]") {
  WorkerList list;
  CHECK(list.Members().empty());
  CHECK(list.Take(ListOf(3, {2, 1}), 7, kListed));
  CHECK(Members(list) == Numbers{2, 1});
  CHECK_FALSE(list.Take(ListOf(3, {5}), 7, kListed));
  CHECK_FALSE(list.Take(ListOf(2, {5}), 7, kListed));
  CHECK_FALSE(list.Take(ListOf(9, {5}), 6, kListed));
  CHECK(list.Take(ListOf(4, {}), 7, kListed));
  CHECK(Members(list).empty());
}

TEST_CASE("a new dispatcher removes nobody for 10 s", "[worker_list]") {
  WorkerList list;
  list.Take(ListOf(5, {1, 2, 3}), 7, kListed);
  CHECK(list.Take(ListOf(1, {}), 8, kListed));
  CHECK(Members(list) == Numbers{1, 2, 3});
  CHECK(list.Take(ListOf(2, {4, 2}), 8, kListed));
  CHECK(Members(list) == Numbers{4, 2, 1, 3});
  CHECK_FALSE(list.Tick(kListed + (WorkerList::kKeepMembers - Duration(1))));
  CHECK(Members(list).size() == 4);
  CHECK(list.Tick(kListed + WorkerList::kKeepMembers));
  CHECK(Members(list) == Numbers{4, 2});
  CHECK_FALSE(list.Tick(kListed + 2 * WorkerList::kKeepMembers));
}

TEST_CASE("of two new dispatchers one after another, each one's members stay", "[worker_list]") {
  WorkerList list;
  list.Take(ListOf(1, {1}), 7, kListed);
  list.Take(ListOf(1, {2}), 8, kListed);
  list.Take(ListOf(1, {3}), 9, kListed + std::chrono::seconds(5));
  CHECK(Members(list) == Numbers{3, 2, 1});
  CHECK_FALSE(list.Tick(kListed + WorkerList::kKeepMembers));
  CHECK(list.Tick(kListed + std::chrono::seconds(15)));
  CHECK(Members(list) == Numbers{3});
}

TEST_CASE("without a dispatcher the members before an empty list are used", "[worker_list]") {
  WorkerList list;
  CHECK_FALSE(list.OnDispatcherLost());
  list.Take(ListOf(1, {1, 2}), 7, kListed);
  CHECK_FALSE(list.OnDispatcherLost());
  list.Take(ListOf(2, {}), 7, kListed);
  CHECK(Members(list).empty());
  CHECK(list.OnDispatcherLost());
  CHECK(Members(list) == Numbers{1, 2});
  CHECK_FALSE(list.OnDispatcherLost());
  // The dispatcher that comes back is obeyed at once.
  list.OnWelcome();
  CHECK(list.Take(ListOf(1, {}), 7, kListed));
  CHECK(Members(list).empty());
}

TEST_CASE("the first dispatcher's lists are obeyed at once", "[worker_list]") {
  WorkerList list;
  list.Take(ListOf(1, {1, 2}), 7, kListed);
  list.Take(ListOf(2, {2}), 7, kListed);
  CHECK(Members(list) == Numbers{2});
}

}  // namespace
}  // namespace millrace::client
