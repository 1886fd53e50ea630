// torch's operators behind plain C names, so that they are called as its own C++ code calls them.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/add.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <c10/core/InferenceMode.h>

#define PEER extern "C" __attribute__((visibility("default")))
#define T(p) (*static_cast<at::Tensor *>(p))

PEER void torch_one_thread(void)
{
    at::set_num_threads(1);
}

// A matrix over memory that stays the caller's. kind: 0 f32, 1 bf16, 2 i8, 3 i32.
PEER void *torch_tensor(void *data, long rows, long cols, int kind)
{
    static const at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kChar, at::kInt};
    c10::InferenceMode guard;
    return new at::Tensor(at::from_blob(data, {rows, cols}, at::TensorOptions().dtype(types[kind])));
}

PEER void *torch_transposed(void *x)
{
    c10::InferenceMode guard;
    return new at::Tensor(T(x).t());
}

PEER void torch_softmax(void *y, void *x)
{
    c10::InferenceMode guard;
    at::softmax_out(T(y), T(x), 1);
}

// There is no form that writes to a given place: the result is allocated, and copied only when it is looked at.
PEER void torch_rms_norm(void *y, void *x, void *w, double eps, int keep)
{
    c10::InferenceMode guard;
    at::Tensor made = at::rms_norm(T(x), {T(x).size(1)}, T(w).view({T(x).size(1)}), eps);
    if (keep)
        T(y).copy_(made);
}

PEER void torch_exp(void *y, void *x)
{
    c10::InferenceMode guard;
    at::exp_out(T(y), T(x));
}

PEER void torch_silu(void *y, void *x)
{
    c10::InferenceMode guard;
    at::silu_out(T(y), T(x));
}

PEER void torch_add(void *y, void *a, void *b)
{
    c10::InferenceMode guard;
    at::add_out(T(y), T(a), T(b));
}

PEER void torch_scale(void *y, void *x, double by)
{
    c10::InferenceMode guard;
    at::mul_out(T(y), T(x), at::scalar_tensor(by));
}

PEER void torch_copy(void *y, void *x)
{
    c10::InferenceMode guard;
    T(y).copy_(T(x));
}

PEER void torch_mm(void *c, void *a, void *b)
{
    c10::InferenceMode guard;
    at::mm_out(T(c), T(a), T(b));
}

PEER void torch_int_mm(void *c, void *a, void *b)
{
    c10::InferenceMode guard;
    at::_int_mm_out(T(c), T(a), T(b));
}
