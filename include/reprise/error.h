// The exceptions of reprise. Every wrong use and every failure is one of these; `what()` is the whole
// sentence: operation, argument, shapes, reason, and the user's file and line where one is known.
#pragma once

#include <stdexcept>
#include <string>

#define REPRISE_API __attribute__((visibility("default")))

namespace reprise::inline v1 {

class REPRISE_API error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A wrong argument: shape, rank, dtype, axis, value, a moved-from or empty array, an array of another
// context.
class REPRISE_API argument_error : public error {
 public:
  using error::error;
};

// Something was asked for that this version does not run; never thrown where another way exists.
class REPRISE_API unsupported_error : public error {
 public:
  using error::error;
};

// No such device, a lost or forked context, a library that is missing where it was required.
class REPRISE_API device_error : public error {
 public:
  using error::error;
};

class REPRISE_API out_of_memory : public device_error {
 public:
  using device_error::device_error;
};

// A program could not be compiled. Always a defect of ours or of a compiler below us.
class REPRISE_API compile_error : public error {
 public:
  using error::error;
};

// Something happened that the user forbade: REPRISE_FORBID, require_device.
class REPRISE_API forbidden_error : public error {
 public:
  using error::error;
};

// Malformed JSON, .npy or cache bytes: says where and what.
class REPRISE_API format_error : public error {
 public:
  using error::error;
};

}  // namespace reprise::inline v1
