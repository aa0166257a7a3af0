#include "common/operations/axes.h"

#include <fmt/format.h>

#include "common/parameters/make_parameter.h"

namespace millrace {

Parameter AxisParameter() {
  return IntParameter("axis", 1,
                      "the axis; axis 0 is the rows, and negative ones count from the end",
                      std::nullopt);
}

Result<std::size_t> ResolveAxis(const TensorType& type, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(type.rank());
  const std::int64_t resolved = axis < 0 ? axis + rank : axis;
  if (resolved < 0 || resolved >= rank) {
    return InvalidArgument(fmt::format("axis: {} has no axis {}", DescribeTensorType(type), axis));
  }
  if (resolved == 0) return InvalidArgument("axis: axis 0 is the rows, which stay as they are");
  return static_cast<std::size_t>(resolved);
}

Result<InnerAxis> ResolveInnerAxis(const TensorType& type, std::int64_t axis) {
  MILLRACE_ASSIGN_OR_RETURN(const std::size_t resolved, ResolveAxis(type, axis));
  const std::size_t first = type.ragged ? 2 : 1;
  if (resolved < first) {
    return InvalidArgument(
        fmt::format("axis: axis {} of {} is ragged, which only slice, concat, "
                    "length and pad can work along",
                    axis, DescribeTensorType(type)));
  }
  InnerAxis inner;
  inner.index = resolved - first;
  inner.extent = type.inner[inner.index];
  for (std::size_t i = 0; i < inner.index; ++i) inner.before *= type.inner[i];
  for (std::size_t i = inner.index + 1; i < type.inner.size(); ++i) inner.after *= type.inner[i];
  return inner;
}

Result<TensorType> Reshaped(const TensorType& type, std::span<const std::int64_t> shape) {
  const std::uint64_t elements = type.UnitElements();
  const auto error = [&] {
    return InvalidArgument(fmt::format(
        "shape: the fixed axes of {} have {} values, and [{}] has "
        "another number",
        DescribeTensorType(type), elements, fmt::join(shape.begin(), shape.end(), ", ")));
  };
  TensorType reshaped = type;
  reshaped.inner.clear();
  std::uint64_t known = 1;
  std::size_t open = shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open == shape.size()) {
      open = i;
    } else if (shape[i] < 1) {
      return InvalidArgument("shape: extents are at least 1; one may be -1");
    } else {
      if (static_cast<std::uint64_t>(shape[i]) > elements / known) return error();
      known *= static_cast<std::uint64_t>(shape[i]);
    }
    reshaped.inner.push_back(static_cast<std::uint32_t>(shape[i]));
  }
  if (open < shape.size()) {
    if (elements % known != 0) return error();
    reshaped.inner[open] = static_cast<std::uint32_t>(elements / known);
  } else if (known != elements) {
    return error();
  }
  if (Status status = CheckTensorType(reshaped); !status.ok()) return status.WithContext("shape");
  return reshaped;
}

std::vector<std::uint32_t> TakeMap(const InnerAxis& axis, std::span<const std::uint32_t> index) {
  std::vector<std::uint32_t> map;
  map.reserve(axis.before * index.size() * axis.after);
  for (std::uint64_t before = 0; before < axis.before; ++before) {
    for (const std::uint32_t place : index) {
      const std::uint64_t first = (before * axis.extent + place) * axis.after;
      for (std::uint64_t i = 0; i < axis.after; ++i) {
        map.push_back(static_cast<std::uint32_t>(first + i));
      }
    }
  }
  return map;
}

}  // namespace millrace
