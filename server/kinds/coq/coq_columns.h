// Names of the columns of Coq's sources.
#pragma once

namespace millrace {

inline constexpr const char* kIdentityColumn = "identity";           // of the definition's node
inline constexpr const char* kFaithfulColumn = "faithful";           // 0 or 1
inline constexpr const char* kNoneArgumentColumn = "none_argument";  // 0 or 1

}  // namespace millrace
