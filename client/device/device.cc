#include "client/device/device.h"

namespace millrace {
namespace {

class HostDevice final : public Device {
 public:
  std::string_view name() const override { return "host"; }

  Result<std::shared_ptr<const DeliveredBatch>> Expand(
      const std::shared_ptr<const PackedBatch>& packed, const Delivery& delivery,
      RowRange rows) override {
    return millrace::Expand(*packed, delivery, pool_, rows);
  }

 private:
  BufferPool pool_;
};

}  // namespace

std::shared_ptr<Device> MakeHostDevice() { return std::make_shared<HostDevice>(); }

}  // namespace millrace
