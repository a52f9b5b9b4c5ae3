// An exception thrown inside libreprise.so is caught outside it, as its own class and as every base of it:
// their typeinfo is one on both sides.
#include <reprise/reprise.h>

#include <cstdio>
#include <exception>
#include <vector>

namespace {

template <typename Expected>
bool catches() {
  std::vector<float> three(3, 1.f), four(4, 1.f);
  auto add = cuda::trace([](auto a, auto b) { return a + b; });
  try {
    add(three, four);
  } catch (Expected const&) { return true; } catch (...) {
    return false;
  }
  return false;
}

}  // namespace

int main() {
  bool const own = catches<reprise::argument_error>();
  bool const base = catches<reprise::error>();
  bool const standard = catches<std::exception>();
  std::printf("argument_error: %d, error: %d, std::exception: %d\n", own, base, standard);
  return own && base && standard ? 0 : 1;
}
