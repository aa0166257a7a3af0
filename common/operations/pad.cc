#include "common/operations/pad.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "common/parameters/make_parameter.h"
#include "common/tensor/dtype_visit.h"

namespace millrace {
namespace {

constexpr std::size_t kValueBytes = 8;

Result<std::vector<std::byte>> ReadValue(const TensorType& type, ParamNumber number) {
  const auto* const integer = std::get_if<std::int64_t>(&number);
  const bool fits =
      integer == nullptr || *integer >= 0
          ? integer == nullptr || static_cast<std::uint64_t>(*integer) <= DTypeMax(type.dtype)
          : *integer >= DTypeMin(type.dtype);
  if (IsInteger(type.dtype) && (integer == nullptr || !fits)) {
    return InvalidArgument(fmt::format("value: is no {}", DTypeName(type.dtype)));
  }
  std::vector<std::byte> bytes(kValueBytes);
  VisitValues(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T value = std::visit([](auto one) { return ConvertValue<T>(one); }, number);
    for (std::size_t at = 0; at < kValueBytes; at += sizeof value) {
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
  });
  return bytes;
}

/// Fills `bytes` bytes with a pattern of 8, twice as many in each step.
void FillUp(std::byte* out, std::size_t bytes, const std::vector<std::byte>& pattern) {
  const bool zeros = std::all_of(pattern.begin(), pattern.end(),
                                 [](std::byte byte) { return byte == std::byte{0}; });
  if (zeros) {
    if (bytes != 0) std::memset(out, 0, bytes);
    return;
  }
  std::size_t done = std::min(bytes, pattern.size());
  std::memcpy(out, pattern.data(), done);
  while (done < bytes) {
    const std::size_t more = std::min(done, bytes - done);
    std::memcpy(out + done, out, more);
    done += more;
  }
}

}  // namespace

const std::vector<Parameter>& Pad::Parameters() {
  static const std::vector<Parameter> parameters = {
      WithDefault(ParameterOf({ParamType::kNumber}, "value", "what rows are filled up with"), 0),
      IntParameter("multiple", 1, "the extent is a multiple of this", 1, 1 << 20),
      WithWords(ParameterOf({ParamType::kInt, ParamType::kText}, "to",
                            "the extent of every batch, or `bound`: that of the batch's class; if "
                            "absent, the longest row's",
                            1, kMaxExtent),
                {"bound"}),
  };
  return parameters;
}

namespace {

/// Those of plans too.
const std::vector<Parameter>& BoundParameters() {
  static const std::vector<Parameter> parameters = [] {
    std::vector<Parameter> all = Pad::Parameters();
    all.push_back(NonEmptyTextParameter(
        std::string(Pad::kLengthOf), "the tensor whose lengths are delivered beside the output"));
    return all;
  }();
  return parameters;
}

}  // namespace

Result<Pad> Pad::Bind(const TensorType& type, const Params& params) {
  if (!type.ragged) {
    return InvalidArgument(
        fmt::format("pad: expected a ragged tensor, got {}", DescribeTensorType(type)));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Params normal, WithDefaults(BoundParameters(), params));
  Pad pad;
  MILLRACE_ASSIGN_OR_RETURN(pad.value_, ReadValue(type, normal.GetNumber("value")));
  pad.multiple_ = static_cast<std::uint32_t>(normal.GetInt("multiple"));
  if (normal.Is<std::int64_t>("to")) {
    pad.to_ = static_cast<std::uint32_t>(normal.GetInt("to"));
    if (*pad.to_ % pad.multiple_ != 0) {
      return InvalidArgument(fmt::format("to: {} is no multiple of {}", *pad.to_, pad.multiple_));
    }
  }
  pad.to_bound_ = normal.is_set("to") && !pad.to_;
  if (normal.is_set(kLengthOf)) pad.length_of_ = normal.GetText(kLengthOf);
  return pad;
}

Result<std::uint32_t> Pad::Extent(const TensorView& input,
                                  std::optional<std::uint32_t> bound) const {
  std::int64_t longest = 0;
  std::uint64_t at = 0;
  for (std::uint64_t row = 0; row < input.rows; ++row) {
    const std::int64_t length = input.splits[row + 1] - input.splits[row];
    if (length > longest) {
      longest = length;
      at = row;
    }
  }
  if (to_bound_ && input.rows == 0) return 0;
  if (to_bound_ && !bound) {
    return InvalidArgument("pad: to: bound: no bucket holds all examples of the batch");
  }
  const std::optional<std::uint32_t> limit = to_bound_ ? bound : to_;
  if (longest > static_cast<std::int64_t>(limit.value_or(kMaxExtent))) {
    return InvalidArgument(fmt::format("pad: row {} of the batch has {} elements, more than {}{}",
                                       at, longest, limit.value_or(kMaxExtent),
                                       to_bound_ ? ", the bound of its bucket" : ""));
  }
  const std::uint64_t wanted = limit ? *limit : static_cast<std::uint64_t>(longest);
  const std::uint64_t extent = (wanted + multiple_ - 1) / multiple_ * multiple_;
  if (extent > kMaxExtent) return InvalidArgument("pad: the multiple is beyond any extent");
  return static_cast<std::uint32_t>(extent);
}

void Pad::SetPadded(const TensorType& type, std::uint32_t extent, TensorType& padded) {
  padded = type;
  padded.ragged = false;
  padded.inner.insert(padded.inner.begin(), extent);
}

void Pad::Run(const TensorView& input, std::uint32_t extent, std::byte* out) const {
  const std::size_t unit = input.type->UnitBytes();
  const std::size_t row_bytes = extent * unit;
  for (std::uint64_t row = 0; row < input.rows; ++row, out += row_bytes) {
    const auto length = static_cast<std::size_t>(input.splits[row + 1] - input.splits[row]);
    const std::size_t bytes = length * unit;
    if (bytes != 0) {
      std::memcpy(out, input.values.data() + static_cast<std::size_t>(input.splits[row]) * unit,
                  bytes);
    }
    FillUp(out + bytes, row_bytes - bytes, value_);
  }
}

void Pad::Fill(std::span<std::byte> out) const { FillUp(out.data(), out.size(), value_); }

}  // namespace millrace
