// Status and Result<T>: how every interface of the project reports an error.
//
// Codes are gRPC's, so that an error crosses the network unchanged
// (common/transport/grpc/grpc_status). Messages are lower case and say what, where, expected and
// got, and what to do. Exceptions of libraries are caught at the edge that calls them and become a
// Status there.
//
// Thread-compatible: const access from several threads is safe.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace millrace {

/// gRPC's status codes, with gRPC's numbers.
enum class StatusCode : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// The code's name in gRPC's spelling, for example "FAILED_PRECONDITION".
std::string_view StatusCodeName(StatusCode code);

/// Success, or a code and one message for a person.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// "FAILED_PRECONDITION: rank 3 of …", or "OK".
  std::string ToString() const;

  /// The same code, with `where` and ": " put before the message. A success stays a success.
  Status WithContext(std::string_view where) const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return Status(); }
inline Status InvalidArgument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}
inline Status NotFound(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }
inline Status AlreadyExists(std::string m) { return {StatusCode::kAlreadyExists, std::move(m)}; }
inline Status PermissionDenied(std::string m) {
  return {StatusCode::kPermissionDenied, std::move(m)};
}
inline Status ResourceExhausted(std::string m) {
  return {StatusCode::kResourceExhausted, std::move(m)};
}
inline Status FailedPrecondition(std::string m) {
  return {StatusCode::kFailedPrecondition, std::move(m)};
}
inline Status Aborted(std::string m) { return {StatusCode::kAborted, std::move(m)}; }
inline Status OutOfRange(std::string m) { return {StatusCode::kOutOfRange, std::move(m)}; }
inline Status Unimplemented(std::string m) { return {StatusCode::kUnimplemented, std::move(m)}; }
inline Status Internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }
inline Status Unavailable(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }
inline Status DataLoss(std::string m) { return {StatusCode::kDataLoss, std::move(m)}; }
inline Status Cancelled(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }
inline Status DeadlineExceeded(std::string m) {
  return {StatusCode::kDeadlineExceeded, std::move(m)};
}

/// A T, or the Status that says why there is no T. It never holds an ok Status.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  /// REQUIRES: ok().
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

#define MILLRACE_CONCAT_INNER(a, b) a##b
#define MILLRACE_CONCAT(a, b) MILLRACE_CONCAT_INNER(a, b)

/// Returns from the enclosing function with the Status of `expression` unless it is ok.
#define MILLRACE_RETURN_IF_ERROR(expression)                                                \
  do {                                                                                      \
    if (::millrace::Status status_of_expression = (expression); !status_of_expression.ok()) \
      return status_of_expression;                                                          \
  } while (false)

/// `MILLRACE_ASSIGN_OR_RETURN(auto x, F())`: declares or assigns x, or returns F's Status.
#define MILLRACE_ASSIGN_OR_RETURN(left, expression) \
  MILLRACE_ASSIGN_OR_RETURN_INNER(MILLRACE_CONCAT(result_, __LINE__), left, expression)
#define MILLRACE_ASSIGN_OR_RETURN_INNER(result, left, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return result.status();                       \
  left = std::move(result).value()

}  // namespace millrace
