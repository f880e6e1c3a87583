// C functions over the few features of libtorch that tch does not bind. Each returns null, or an error message that the
// caller frees with accredit_free_message: an exception must not cross into Rust.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

namespace {

template <typename F>
char* guarded(F&& body) {
  try {
    body();
    return nullptr;
  } catch (const std::exception& e) {
    return strdup(e.what());
  } catch (...) {
    return strdup("unknown C++ exception");
  }
}

}  // namespace

extern "C" {

void accredit_free_message(char* message) { free(message); }

// Makes `gradient` the place where backward adds up the gradient of `parameter`.
char* accredit_set_gradient(at::Tensor* parameter, at::Tensor* gradient) {
  return guarded([&] { parameter->mutable_grad() = *gradient; });
}

// One AdamW step, in place, over one tensor. `step` is the number of this step, the first being 1.
char* accredit_fused_adamw(at::Tensor* weights, at::Tensor* gradient, at::Tensor* first_moment,
                           at::Tensor* second_moment, double step, double lr, double beta1, double beta2,
                           double weight_decay, double eps) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    std::vector<at::Tensor> w{*weights}, g{*gradient}, m{*first_moment}, v{*second_moment};
    std::vector<at::Tensor> steps{at::full({}, step, weights->options())};
    at::_fused_adamw_(w, g, m, v, {}, steps, lr, beta1, beta2, weight_decay, eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  });
}

// Tensors made on this thread until the guard is freed carry no autograd bookkeeping at all.
char* accredit_inference_mode_enter(void** guard) {
  return guarded([&] { *guard = new c10::InferenceMode(true); });
}

void accredit_inference_mode_leave(void* guard) { delete static_cast<c10::InferenceMode*>(guard); }
}
