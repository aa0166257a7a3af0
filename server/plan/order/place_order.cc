#include "server/plan/order/place_order.h"

#include <utility>

namespace millrace {
namespace {

class ExampleOrderReader final : public OrderReader {
 public:
  explicit ExampleOrderReader(const PlaceOrder& order) : places_(order) {}

  void Rows(std::uint64_t epoch, ExampleRange units, std::vector<OrderRow>& rows) override {
    for (std::uint64_t i = 0; i < units.count; ++i) {
      rows.push_back({places_.At(epoch, units.first + i), 0});
    }
  }
  void Places(std::uint64_t epoch, OrderRow row, std::vector<UnitRow>& places) override {
    places.push_back({places_.PlaceOf(epoch, row.row), 0});
  }

 private:
  PlaceReader places_;
};

}  // namespace

PlaceOrder::PlaceOrder(std::uint64_t n, const OrderSeed& seed, std::uint64_t block,
                       std::uint64_t window)
    : n_(n), seed_(seed), blocks_(std::in_place, std::span(&n, 1), block, seed) {
  windows_ = blocks_->runs() / window + (blocks_->runs() % window > 0 ? 1 : 0);
}

void PlaceReader::BeginEpoch(std::uint64_t epoch) {
  epoch_ = epoch;
  window_.reset();
  if (order_.blocks_) {
    blocks_.emplace(*order_.blocks_, epoch);
  } else {
    rows_.emplace(order_.seed_, epoch, order_.n_);
  }
}

const PlaceReader::Window& PlaceReader::WindowOf(std::uint64_t place) {
  if (window_ && place >= window_->begin && place < window_->end) return *window_;
  // Window w has the slots [floor(w * G / V), floor((w + 1) * G / V)) of G slots and V windows.
  __extension__ using Wide = unsigned __int128;
  const Wide slots = order_.blocks_->runs();
  const Wide windows = order_.windows_;
  const Wide slot = blocks_->SlotOf(place);
  const auto w = static_cast<std::uint64_t>(((slot + 1) * windows - 1) / slots);
  const std::uint64_t begin = blocks_->StartOf(static_cast<std::uint64_t>(w * slots / windows));
  const std::uint64_t end =
      blocks_->StartOf(static_cast<std::uint64_t>((Wide{w} + 1) * slots / windows));
  window_.emplace(
      Window{begin, end, KeyedOrder(DeriveSeed(order_.seed_, "window", w), *epoch_, end - begin)});
  return *window_;
}

std::uint64_t PlaceReader::AtOfBlocks(std::uint64_t place) {
  const Window& window = WindowOf(place);
  return blocks_->At(window.begin + window.order(place - window.begin)).number;
}

std::uint64_t PlaceReader::PlaceOf(std::uint64_t epoch, std::uint64_t row) {
  SetEpoch(epoch);
  if (!order_.blocks_) return rows_->Inverse(row);
  const std::uint64_t laid_out = blocks_->PlaceOf({0, row});
  const Window& window = WindowOf(laid_out);
  return window.begin + window.order.Inverse(laid_out - window.begin);
}

std::unique_ptr<OrderReader> ExampleOrder::NewReader() const {
  return std::make_unique<ExampleOrderReader>(order_);
}

}  // namespace millrace
